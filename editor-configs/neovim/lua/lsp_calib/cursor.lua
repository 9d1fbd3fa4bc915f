-- Where the cursor is, told to a server that announces `experimental.lspCalib.cursor`: at rest it evaluates the prompt
-- for that place, before the first key there.
local M = {}
local server = require('lsp_calib.server')
local api = vim.api
local EVERY = 300 -- ms
local told -- last: to which server, of which state of which buffer, which position
local pause -- the one after that, while it lasts

--- Tell the server of the current buffer where the cursor is, unless that is what it was told last; after a pause once
--- more, unless one has begun to type: the document tells then.
local function tell()
  local buf = api.nvim_get_current_buf()
  local client = server.of(buf)
  if not client or client:is_stopped() then return end
  if not vim.tbl_get(client.server_capabilities, 'experimental', 'lspCalib', 'cursor') then return end
  local place = { client.id, buf, api.nvim_buf_get_changedtick(buf), api.nvim_win_get_cursor(0) }
  if vim.deep_equal(place, told) then return end
  local this = {}
  told, pause = place, this
  server.notify(client, 'lsp-calib/cursor', vim.lsp.util.make_position_params(0, client.offset_encoding))
  vim.defer_fn(function()
    if pause ~= this then return end
    pause = nil
    if not api.nvim_get_mode().mode:match('^[iR]') then tell() end
  end, EVERY)
end

--- Tell at once, whatever pause there is: an edit is complete. Neovim sends changes that wait before that.
M.tell = tell

--- The cursor has moved.
local function moved()
  if not pause then tell() end
end

--- Another buffer is current, or the server has it now. What opens a buffer puts the cursor into its place only then.
function M.entered() vim.schedule(moved) end

--- Follow the cursor. group: an autocommand group.
function M.start(group)
  api.nvim_create_autocmd('CursorMoved', { group = group, callback = moved })
  api.nvim_create_autocmd('BufEnter', { group = group, callback = M.entered })
  api.nvim_create_autocmd('InsertEnter', { group = group, callback = tell })
end

return M
