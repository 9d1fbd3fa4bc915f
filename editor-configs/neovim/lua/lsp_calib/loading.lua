-- What is shown while a server loads its model, for until then nothing can be suggested: a line that Neovim's messages go
-- before; in insert mode, which has "-- INSERT --" there, it stands behind the end of the cursor's line instead.
local M = {}
local badges, notice, server = require('lsp_calib.badges'), require('lsp_calib.notice'), require('lsp_calib.server')
local api = vim.api
local ns = api.nvim_create_namespace('lsp_calib_loading')
local SOON, LAST = 700, 3000 -- ms: what is loaded sooner is not worth a word; how long the last word stands in insert mode
local now -- { client, text, shown }: what is being loaded, nil if nothing is; of two servers, the first one's
local ended -- { client, text }: the last word, while it stands
local marked -- the buffer that has a mark

--- Put the words behind the end of the cursor's line, where only that shows them; take them away where not.
local function redraw()
  local this = now and now.shown and now or ended
  if marked and api.nvim_buf_is_valid(marked) then api.nvim_buf_clear_namespace(marked, ns, 0, -1) end
  marked = nil
  local buf = api.nvim_get_current_buf()
  local client = this and server.of(buf)
  if not client or client.id ~= this.client or not vim.o.showmode or not api.nvim_get_mode().mode:match('^[iR]') then return end
  marked = buf
  api.nvim_buf_set_extmark(buf, ns, api.nvim_win_get_cursor(0)[1] - 1, 0,
    { virt_text = { { '  ' .. this.text, 'LspCalibEditFaint' } }, virt_text_pos = 'eol', hl_mode = 'combine' })
end

local function over(message)
  local was = now
  now = nil
  if not was.shown then return end
  notice.pass_end(message)
  local this = message and { client = was.client, text = message }
  ended = this
  redraw()
  vim.defer_fn(function()
    if ended == this then ended = nil end
    redraw()
  end, LAST)
end

--- A server's state, or how far it is, has changed. status: as `lsp-calib/status` has it. share: "40 %", "…" or nil.
function M.update(client_id, status, share)
  local client = vim.lsp.get_client_by_id(client_id)
  if not client or client.config.progress == false or (now and now.client ~= client_id) then return end
  if status.state ~= 'starting' and status.state ~= 'loading' then
    local calm, named = status.state == 'ready' or status.state == 'busy', type(status.model) == 'string'
    if now and (named or not calm) then over(calm and status.model .. ' is ready.' or nil) end -- it is named a little later
    return
  end
  local message = (status.message or badges.words(status.state)):gsub('%.$', '')
  local text = vim.trim(message .. '… ' .. (share ~= '…' and share or ''))
  if not now then
    local this = { client = client_id }
    now = this
    vim.defer_fn(function()
      if now ~= this then return end
      now.shown = true
      notice.pass(now.text)
      redraw()
    end, SOON)
  end
  if now.text == text then return end
  now.text = text
  if now.shown then
    notice.pass(text)
    redraw()
  end
end

--- A server has gone.
function M.gone(client_id)
  if now and now.client == client_id then over() end
end

--- Follow the cursor. group: an autocommand group.
function M.start(group)
  api.nvim_create_autocmd({ 'InsertEnter', 'InsertLeave', 'CursorMovedI', 'BufLeave' }, { group = group,
    callback = function()
      if marked or now then vim.schedule(redraw) end
    end })
end

return M
