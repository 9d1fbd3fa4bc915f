-- The running server: which one a buffer has, and asking it.
local M = {}
local notice = require('lsp_calib.notice')
M.NAME = 'lsp_calib'

--- The client of a buffer (0: the current one), nil if it has none.
function M.of(buf) return vim.lsp.get_clients({ bufnr = buf or 0, name = M.NAME })[1] end

--- Send a request. handler(err, result).
function M.request(client, method, params, handler, buf)
  if vim.fn.has('nvim-0.11') == 1 then return client:request(method, params, handler, buf) end
  return client.request(method, params, handler, buf)
end

--- Send a notification.
function M.notify(client, method, params)
  if vim.fn.has('nvim-0.11') == 1 then return client:notify(method, params) end
  return client.notify(method, params)
end

--- End the server: it closes what it has, or, with force, is killed. Neovim 0.10 takes a client for force.
function M.stop(client, force)
  if vim.fn.has('nvim-0.11') == 1 then return client:stop(force) end
  return client.stop(force)
end

--- Run a command of the server; done(result) once it has answered. An error is shown, unless there is failed(err).
function M.execute(name, arguments, done, failed)
  local client = M.of(0) or vim.lsp.get_clients({ name = M.NAME })[1]
  if not client then
    return notice.answer('no server runs for this buffer. Start it with :LspCalib restart, or see :checkhealth lsp_calib.',
      vim.log.levels.WARN)
  end
  local params = { command = 'lsp-calib.' .. name, arguments = arguments }
  M.request(client, 'workspace/executeCommand', params, function(err, result)
    if result == vim.NIL then result = nil end
    notice.expect(false) -- its message, if there was one, has come
    if not err then return done and done(result) end
    if failed then return failed(err) end
    notice.answer(err.message, vim.log.levels.ERROR)
  end, vim.api.nvim_get_current_buf()) -- with 0, changes of the buffer that wait to be sent would come after it
end

--- Tell why the last request in a buffer got no suggestion.
function M.say_why_nothing(buf)
  M.execute('explain', { { uri = vim.uri_from_bufnr(buf) } }, function(result)
    if result then notice.tell(result.message) end
  end, function() end)
end

return M
