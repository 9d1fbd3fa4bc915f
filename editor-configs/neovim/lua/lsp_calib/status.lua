-- What each server last said of its state, and a few words of it for the status line.
local M = {}
local badges, loading, server = require('lsp_calib.badges'), require('lsp_calib.loading'), require('lsp_calib.server')
local statuses, progress = {}, {} -- by client id; of loading, in words

--- Neovim 0.12 has ghost text; before, there is the menu.
function M.suggestions() return require(vim.lsp.inline_completion and 'lsp_calib.inline' or 'lsp_calib.menu') end

--- The handler of `lsp-calib/status`.
function M.on_status(_, status, ctx)
  statuses[ctx.client_id] = status
  loading.update(ctx.client_id, status, progress[ctx.client_id])
  vim.g.lsp_calib_status = 'lsp-calib: ' .. M.words(status)
  vim.cmd.redrawstatus()
end

--- A server has gone.
function M.gone(client_id)
  statuses[client_id], progress[client_id] = nil, nil
  loading.gone(client_id)
  vim.g.lsp_calib_status = 'lsp-calib: ' .. badges.words('stopped')
  vim.schedule(vim.cmd.redrawstatus)
end

--- What a server last said, nil if nothing.
function M.of(client_id) return statuses[client_id] end

--- The state in a few words: the model where all is well.
function M.words(status)
  local calm = status.state == 'ready' or status.state == 'busy'
  local words = calm and type(status.model) == 'string' and status.model or badges.words(status.state)
  local calibrator = type(status.calibrator) == 'table' and status.calibrator.state or ''
  if calm and (calibrator == 'learning' or calibrator == 'drifted') then
    words = ('%s (%s)'):format(words, calibrator)
  end
  return words
end

--- For 'statusline', as %{v:lua.require'lsp_calib'.statusline()}: the server's state, the tier of the suggestion on
--- screen, and the next edit where that is out of sight; '' where lsp-calib has no part in a buffer.
function M.statusline()
  local buf = vim.api.nvim_get_current_buf()
  local client = server.of(buf)
  if not client then return '' end
  local status = statuses[client.id] or { state = 'starting' }
  local text = vim.trim(badges.mark(status.state) .. ' ' .. M.words(status))
  if progress[client.id] then text = text .. ' ' .. progress[client.id] end
  for _, more in ipairs({ M.suggestions().badge(buf), require('lsp_calib.next_edit').out_of_sight() }) do
    if more ~= '' then text = text .. '  ' .. more end
  end
  return text
end

--- The handler of an LspProgress autocommand.
function M.on_progress(ev)
  local client = vim.lsp.get_client_by_id(ev.data.client_id)
  local value = vim.tbl_get(ev.data, 'params', 'value') or vim.tbl_get(ev.data, 'result', 'value')
  if not client or client.name ~= server.NAME or type(value) ~= 'table' then return end
  local share = type(value.percentage) == 'number' and ('%d %%'):format(value.percentage) or '…'
  progress[client.id] = value.kind ~= 'end' and share or nil
  if value.kind ~= 'end' and type(value.message) == 'string' then M.suggestions().going_on(value.message) end
  if statuses[client.id] then loading.update(client.id, statuses[client.id], progress[client.id]) end
  vim.cmd.redrawstatus()
end

return M
