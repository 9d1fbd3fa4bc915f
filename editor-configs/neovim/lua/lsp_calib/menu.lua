-- Neovim 0.10 and 0.11 have no inline completion: the completion menu, with the badge beside the suggestion.
local M = {}
local badges, server = require('lsp_calib.badges'), require('lsp_calib.server')
local api = vim.api
local PAUSE = 200 -- ms without a key, as Neovim's own inline completion waits
local AGAIN, TIMES = 250, 40 -- the server does not keep a menu waiting: what is not ready comes at a later request
local INVOKED, INCOMPLETE = 1, 3 -- lsp.CompletionTriggerKind
local OPTIONS = 'menu,menuone,noinsert,noselect' -- with others, a menu that opens by itself would change the text
local options_before
local off = {} -- by buffer
local turn = 0 -- grows with each key and each request by hand: what was begun before ends

local function next_turn()
  turn = turn + 1
  return turn
end

local function restore_options()
  if options_before then vim.o.completeopt = options_before end
  options_before = nil
end

local function show(buf, items, encoding)
  local line, matches = api.nvim_get_current_line(), {}
  for _, item in ipairs(items) do
    local text, tier = badges.text(item.data)
    table.insert(matches, { word = item.textEdit.newText, abbr = item.label, menu = text or '', dup = 1,
      kind = tier and badges.mark(tier) or '', kind_hlgroup = tier and badges.group(tier) or nil,
      info = item.documentation, user_data = { lsp_calib = item.data } })
  end
  options_before = options_before or vim.o.completeopt
  vim.o.completeopt = OPTIONS
  vim.fn.complete(badges.bytes_of(line, items[1].textEdit.range.start.character, encoding) + 1, matches)
  M.shown = { buf = buf, suggestion = items[1].data }
end

local function ask(buf, kind, tries, mine)
  if mine ~= turn or (kind == INCOMPLETE and off[buf]) then return end
  local client = server.of(buf)
  if not client or buf ~= api.nvim_get_current_buf() or api.nvim_get_mode().mode ~= 'i' then return end
  if vim.fn.pumvisible() == 1 then return end -- another menu
  local cursor, tick = api.nvim_win_get_cursor(0), api.nvim_buf_get_changedtick(buf)
  local params = vim.lsp.util.make_position_params(0, client.offset_encoding)
  params.context = { triggerKind = kind }
  server.request(client, 'textDocument/completion', params, function(err, result)
    if mine ~= turn then return end
    local moved = buf ~= api.nvim_get_current_buf() or api.nvim_buf_get_changedtick(buf) ~= tick
      or not vim.deep_equal(api.nvim_win_get_cursor(0), cursor)
    if err or moved or api.nvim_get_mode().mode ~= 'i' or vim.fn.pumvisible() == 1 then return end
    local items = type(result) == 'table' and (result.items or result) or {}
    if #items > 0 then return show(buf, items, client.offset_encoding) end
    if tries == TIMES and kind == INVOKED then server.say_why_nothing(buf) end
    if tries < TIMES then vim.defer_fn(function() ask(buf, kind, tries + 1, mine) end, AGAIN) end
  end, buf)
end

--- Whether the menu that is open is ours, and not another source's.
local function is_open()
  if vim.fn.pumvisible() == 0 then return false end
  local first = vim.fn.complete_info({ 'items' }).items[1]
  return first ~= nil and type(first.user_data) == 'table' and first.user_data.lsp_calib ~= nil
end

--- Have Neovim take these keys next, before those that were typed already.
local function press(keys) api.nvim_feedkeys(vim.keycode(keys), 'in', false) end

--- Open the menu now, with alternatives. Always true.
function M.complete()
  local buf, mine = api.nvim_get_current_buf(), next_turn()
  vim.schedule(function() ask(buf, INVOKED, 0, mine) end)
  return true
end

--- Take the selected item, or the first one, as it stands in the menu. False if ours is not open.
function M.accept()
  if not is_open() then return false end
  local chosen = vim.fn.complete_info({ 'selected' }).selected
  press(chosen < 0 and '<C-n><C-y>' or '<C-y>')
  return true
end

--- Select the next item in the menu (count below 0: the one before). False if ours is not open.
function M.select(count)
  if not is_open() then return false end
  press(count < 0 and '<C-p>' or '<C-n>')
  return true
end

--- Open the menu now, with alternatives; in one that is open select the next item. Always true.
function M.trigger() return M.select(1) or M.complete() end

--- Close the menu. False if ours is not open.
function M.dismiss()
  if not is_open() then return false end
  press('<C-e>')
  return true
end

--- The menu has a whole suggestion or none.
M.accept_word, M.accept_line, M.alternatives = M.accept, M.accept, M.complete
function M.accept_sure() return false end

function M.going_on() end
function M.watch() end
function M.attach() end
function M.is_on(buf) return not off[buf] end
function M.can_ask() return true end
function M.last(buf) return M.shown and M.shown.buf == buf and M.shown.suggestion or nil end
function M.badge(buf)
  if not M.shown or M.shown.buf ~= buf or not is_open() then return '' end
  return ('%s %s'):format(badges.mark(M.shown.suggestion.tier), M.shown.suggestion.tier)
end

--- A menu that opens by itself in this buffer, or none; returns whether it does from now on.
function M.toggle()
  local buf = api.nvim_get_current_buf()
  off[buf] = not off[buf] or nil
  return not off[buf]
end

--- Open the menu in pauses, and tell the server what was taken from it. group: an autocommand group.
function M.start(group)
  api.nvim_create_autocmd('TextChangedI', { group = group, callback = function(ev)
    local mine = next_turn()
    if off[ev.buf] or not server.of(ev.buf) then return end
    vim.defer_fn(function() ask(ev.buf, INCOMPLETE, 0, mine) end, PAUSE)
  end })
  api.nvim_create_autocmd('CompleteDone', { group = group, callback = function()
    local taken = vim.v.completed_item.user_data
    if type(taken) == 'table' and taken.lsp_calib then
      server.execute('accepted', { taken.lsp_calib }, nil, function() end) -- a hint: the document tells as well
    end
    vim.schedule(function()
      if vim.fn.pumvisible() == 0 then restore_options() end
    end)
  end })
end

return M
