-- What is said to the user. Neovim asks for a key after a message that does not fit its command line, and takes the
-- next one typed: so what nobody asked for is cut to one line, and kept whole for :LspCalib messages.
local M = {}
local api, levels = vim.api, vim.log.levels
local MOST = 50
local AGAIN, TRIES = 500, 8 -- ms between tries to show a passing line; their number
local line = { turn = 0 } -- the passing one: its text, as it stands on_screen, whether it goes_on; turn: of tries
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

--- short: what to show in place of a message that does not fit.
local function one_line(message, level, short)
  local text = message:gsub('%s*\n%s*', ' ')
  local room = vim.v.echospace - 1
  if short and vim.fn.strdisplaywidth(text) > room then text = short end
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

local function prefixed(message) return 'lsp-calib: ' .. message:gsub('^lsp%-calib:? ', '') end

--- Say something that the user did not ask for: on one line, unless another vim.notify has its own place for it.
--- short: what the line says where the message does not fit.
function M.tell(message, level, short)
  message = prefixed(message)
  keep(message)
  vim.schedule(function()
    if is_builtin() then return one_line(message, level, short and prefixed(short)) end
    vim.notify(message, level or levels.INFO)
  end)
end

--- Whether the server's next message is the answer to a command of the user.
function M.expect(on) expected = on end

--- A message of the server. short: as of `tell`.
function M.pass_on(message, level, short)
  if not expected then return M.tell(message, level, short) end
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
  message = prefixed(message)
  keep(message)
  vim.notify(message, level or levels.INFO)
end

--- What stands in the first row of Neovim's command line, but for its end with the pending keys.
local function on_command_line()
  local row, cells = vim.o.lines - math.max(vim.o.cmdheight, 1) + 1, {}
  for column = 1, vim.v.echospace do cells[column] = vim.fn.screenstring(row, column) end
  return vim.trim(table.concat(cells))
end

--- Whether a passing line can be shown: no key is being asked for, and no other message stands there. One that has stood
--- there for all tries has been read.
local function can_show(tries)
  local now = api.nvim_get_mode()
  if now.blocking or not now.mode:match('^[niR]') or vim.startswith(now.mode, 'no') then return false end
  local there = tries < TRIES and on_command_line() or ''
  return there == '' or there == line.on_screen or there:match('^%-%- .+ %-%-') ~= nil
end

local function show(turn, tries)
  if turn ~= line.turn then return end
  if not is_builtin() then return vim.notify(line.text, levels.INFO) end
  if not can_show(tries) then return vim.defer_fn(function() show(turn, tries + 1) end, AGAIN) end
  line.on_screen = vim.trim(vim.fn.strcharpart(line.text, 0, vim.v.echospace - 1))
  api.nvim_echo({ { line.on_screen } }, not line.goes_on, {})
end

--- Say what goes on for a while, on one line. It waits for other messages and takes the place of none, and it is not
--- kept. The next call changes the line.
function M.pass(message)
  line.text = prefixed(message)
  if not line.goes_on then
    line.goes_on, line.turn = true, line.turn + 1
    show(line.turn, 0)
  elseif is_builtin() and can_show(0) then
    show(line.turn, 0)
  end
end

--- What went on is over. message: how it ended, nil if that was said.
function M.pass_end(message)
  line.goes_on, line.turn = false, line.turn + 1
  if not message then return end
  line.text = prefixed(message)
  keep(line.text)
  show(line.turn, 0)
end

--- All that was said, a line each or several.
function M.all() return table.concat(kept, '\n') end

return M
