-- What is said to the user. Neovim asks for a key after a message that does not fit its command line, and takes the
-- next one typed: so what nobody asked for is cut to one line, and kept whole for :LspCalib messages.
local M = {}
local api, levels = vim.api, vim.log.levels
local MOST = 50
local kept, once, expected = {}, {}, false

--- Whether messages go to Neovim's command line: vim.notify is its own, which has no file (and, stripped, no name).
local function is_builtin()
  if vim.notify == M.filter then return true end -- see leave_out
  local source = debug.getinfo(vim.notify, 'S').source
  return source == '?' or source == '=?' or vim.startswith(source, '@vim/_')
end

local function keep(message)
  table.insert(kept, os.date('%H:%M:%S ') .. message)
  if #kept > MOST then table.remove(kept, 1) end
end

local function one_line(message, level)
  local text = message:gsub('%s*\n%s*', ' ')
  local room = vim.v.echospace - 1
  if vim.fn.strdisplaywidth(text) > room then
    local tail = '… :LspCalib messages'
    local characters = vim.fn.strchars(text)
    while characters > 0 and vim.fn.strdisplaywidth(vim.fn.strcharpart(text, 0, characters) .. tail) > room do
      characters = characters - 1
    end
    text = vim.fn.strcharpart(text, 0, characters) .. tail
  end
  local group = level == levels.ERROR and 'ErrorMsg' or level == levels.WARN and 'WarningMsg' or 'None'
  api.nvim_echo({ { text, group } }, true, {})
  if not vim.o.showmode or api.nvim_get_mode().mode:sub(1, 1) ~= 'i' then return end
  -- "-- INSERT --" takes the place of the message: show it again once that has gone.
  api.nvim_create_autocmd('InsertLeave', { group = api.nvim_create_augroup('lsp_calib_notice', {}), once = true,
    callback = function()
      vim.schedule(function() api.nvim_echo({ { text, group } }, false, {}) end)
    end })
end

--- Say something that the user did not ask for: on one line, unless another vim.notify has its own place for it.
function M.tell(message, level)
  message = 'lsp-calib: ' .. message:gsub('^lsp%-calib:? ', '')
  keep(message)
  vim.schedule(function()
    if is_builtin() then return one_line(message, level) end
    vim.notify(message, level or levels.INFO)
  end)
end

--- Whether the server's next message is the answer to a command of the user.
function M.expect(on) expected = on end

--- A message of the server.
function M.pass_on(message, level)
  if not expected then return M.tell(message, level) end
  expected = false
  M.answer(message, level)
end

--- Leave out Neovim's own message that begins so, if it comes within a second: it does not fit the command line, and
--- would take the next key.
function M.leave_out(beginning)
  if not is_builtin() or vim.notify == M.filter then return end
  local notify = vim.notify
  local function restore()
    if vim.notify == M.filter then vim.notify = notify end
  end
  M.filter = function(message, ...)
    if not vim.startswith(tostring(message), beginning) then return notify(message, ...) end
    restore()
  end
  vim.notify = M.filter
  vim.defer_fn(restore, 1000)
end

--- As `tell`, but the same message only once.
function M.tell_once(message, level)
  if once[message] then return end
  once[message] = true
  M.tell(message, level)
end

--- Say it again from now on, as after a restart.
function M.forget() once = {} end

--- Answer a command of the user: whole, unless keys that are being typed could be lost.
function M.answer(message, level)
  if api.nvim_get_mode().mode:sub(1, 1) ~= 'n' then return M.tell(message, level) end
  message = 'lsp-calib: ' .. message:gsub('^lsp%-calib:? ', '')
  keep(message)
  vim.notify(message, level or levels.INFO)
end

--- All that was said, a line each or several.
function M.all() return table.concat(kept, '\n') end

return M
