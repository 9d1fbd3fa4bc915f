-- The next edit: a change that was made by hand, offered at the place where it probably belongs next. A server that
-- announces `experimental.lspCalib.nextEdit` is asked for it once an edit is complete.
local M = {}
local badges, server = require('lsp_calib.badges'), require('lsp_calib.server')
local api = vim.api
local ns = api.nvim_create_namespace('lsp_calib_next_edit')
local SOON, REST = 100, 1100 -- ms from leaving the line, or saving, to the request; of rest after the last change
local ELSEWHERE = 200 -- ms from leaving the buffer: Neovim sends the changes of that one after 150
local LEFT = -1 -- in place of the line of a change that the cursor has left
local LONGEST = 24 -- characters of a text in a message
local offer -- the edit on offer
local changed -- { buf, line }: the last change that the server was not asked about
local asked -- the request under way, a table of its own; nil from a change on
local timers = 0 -- of the latest timer: older ones do nothing
local ours = {} -- by buffer: the changedtick that applying an edit left behind

--- Whether this client's server has next edits, and the user's settings leave them on.
local function is_on(client, buf)
  if not client or client:is_stopped() then return false end
  if vim.tbl_get(client.server_capabilities, 'experimental', 'lspCalib', 'nextEdit') ~= true then return false end
  local own = vim.tbl_get(client.config, 'init_options', 'trusted') or {}
  if own['nextEdit.enabled'] == false or vim.tbl_get(own, 'nextEdit', 'enabled') == false then return false end
  return require('lsp_calib.status').suggestions().is_on(buf)
end

local function redraw_status() vim.cmd.redrawstatus({ bang = true }) end

--- Take the edit off the screen.
local function clear()
  if not offer then return end
  if api.nvim_buf_is_valid(offer.buf) then api.nvim_buf_clear_namespace(offer.buf, ns, 0, -1) end
  offer = nil
  vim.schedule(redraw_status)
end

--- A text in a message: in one line, and not long.
local function shortened(text)
  text = vim.trim(text:gsub('%s+', ' '))
  return vim.fn.strchars(text) <= LONGEST and text or vim.fn.strcharpart(text, 0, LONGEST - 1) .. '…'
end

--- What the end of the line says of the edit. For an insertion it says between which tokens, for only the place is marked.
local function preview(line)
  local text = shortened(offer.text)
  if text == '' then return {} end
  if offer.old ~= '' then return { { '  → ', 'LspCalibEditFaint' }, { text, 'LspCalibEditNew' } } end
  text = offer.text:match('^[^\n]*')
  local before, after = line:sub(1, offer.first[2]), line:sub(offer.first[2] + 1)
  before = before:match('[%w_\128-\255]+%s*$') or before:match('%S%s*$') or ''
  after = after:match('^%s*[%w_\128-\255]+') or after:match('^%s*%S') or ''
  return { { '  → ' .. before, 'LspCalibEditFaint' }, { text, 'LspCalibEditNew' }, { after, 'LspCalibEditFaint' } }
end

--- Draw the edit in its line: the old text struck through, the new text and the badge behind the end of the line. So
--- nothing that stands there moves.
local function draw()
  local row, col = unpack(offer.first)
  local line = api.nvim_buf_get_lines(offer.buf, row, row + 1, false)[1]
  local stop_row, stop_col, group = offer.last[1], offer.last[2], 'LspCalibEditOld'
  if offer.old == '' then -- mark the character behind the place
    local next_character = vim.fn.matchstr(line:sub(col + 1), '^.')
    stop_row, stop_col, group = row, col + #next_character, 'LspCalibEditPlace'
  end
  api.nvim_buf_set_extmark(offer.buf, ns, row, col, { end_row = stop_row, end_col = stop_col, hl_group = group,
    priority = 200 })
  local chunks = preview(line)
  local badge, tier = badges.text(offer)
  if badge then table.insert(chunks, { '  ' .. badge, badges.group(tier) }) end
  api.nvim_buf_set_extmark(offer.buf, ns, row, 0, { virt_text = chunks, virt_text_pos = 'eol', hl_mode = 'combine' })
end

--- Byte positions { row, column } of the ends of a range in a buffer; nil if it is not there.
local function span(buf, range, encoding)
  local ends = {}
  for i, position in ipairs({ range.start, range['end'] }) do
    local line = api.nvim_buf_get_lines(buf, position.line, position.line + 1, false)[1]
    local ok, column = pcall(badges.bytes_of, line or '', position.character, encoding)
    if not line or not ok then return end
    ends[i] = { position.line, column }
  end
  return ends[1], ends[2]
end

--- The edit goes with any change of its document, by whomever.
local function watch(this)
  api.nvim_buf_attach(this.buf, false, {
    on_lines = function()
      if offer ~= this then return true end
      clear()
      return true
    end,
    on_reload = clear,
    on_detach = function() if offer == this then clear() end end,
  })
end

--- Keep what the server offers, and draw it. Nothing of a document that is not open here.
local function take(client, result)
  for buf in pairs(client.attached_buffers) do
    if api.nvim_buf_is_loaded(buf) and vim.uri_from_bufnr(buf) == result.uri then
      local first, last = span(buf, result.range, client.offset_encoding)
      if not first then return end
      offer = { id = result.id, client = client.id, buf = buf, first = first, last = last, text = result.text,
        confidence = result.confidence, tier = result.tier, reason = result.reason,
        old = table.concat(api.nvim_buf_get_text(buf, first[1], first[2], last[1], last[2], {}), '\n') }
      watch(offer)
      draw()
      return redraw_status()
    end
  end
end

local jump -- to the edit on offer

--- Ask for the edit that goes next. goes_on: go there at once, if it is in this buffer and nobody has moved meanwhile.
local function ask(goes_on)
  local buf = api.nvim_get_current_buf()
  local client = server.of(buf)
  timers = timers + 1
  if not is_on(client, buf) then return end
  changed = nil
  local this, place = { goes_on = goes_on }, api.nvim_win_get_cursor(0)
  asked = this
  server.request(client, 'lsp-calib/nextEdit', vim.lsp.util.make_position_params(0, client.offset_encoding),
    function(_, result)
      if asked ~= this then return end
      asked = nil
      clear()
      if type(result) ~= 'table' or client:is_stopped() then return end
      take(client, result)
      local still_here = api.nvim_get_current_buf() == buf and vim.deep_equal(api.nvim_win_get_cursor(0), place)
      if goes_on and offer and offer.buf == buf and still_here then jump() end
    end, buf)
end

--- Ask after a while, unless something else is to be asked by then.
local function ask_in(milliseconds)
  timers = timers + 1
  local mine = timers
  vim.defer_fn(function()
    if timers == mine and changed then ask() end
  end, milliseconds)
end

--- The text of a buffer has changed: what was on offer is asked for anew once that edit is complete.
local function on_change(buf)
  if api.nvim_buf_get_changedtick(buf) == ours[buf] then return end
  asked = nil
  clear()
  if not is_on(server.of(buf), buf) then return end
  changed = { buf = buf, line = api.nvim_win_get_cursor(0)[1] }
  ask_in(REST)
end

local function on_move(buf)
  if changed and changed.buf == buf and changed.line ~= api.nvim_win_get_cursor(0)[1] then
    -- Else Neovim sends a quick change of the next line, as by `n.`, in one message with this one: as if it were by a
    -- rename or by several cursors.
    if changed.line ~= LEFT then require('lsp_calib.cursor').tell() end
    changed.line = LEFT
    ask_in(SOON)
  end
end

--- Whether the place is on the screen.
local function is_in_sight()
  for _, win in ipairs(vim.fn.win_findbuf(offer.buf)) do
    local row = offer.first[1] + 1
    if api.nvim_win_get_tabpage(win) == api.nvim_get_current_tabpage() then
      local folded = api.nvim_win_call(win, function() return vim.fn.foldclosed(row) end) ~= -1
      if not folded and vim.fn.screenpos(win, row, offer.first[2] + 1).row > 0 then return true end
    end
  end
  return false
end

--- The edit in words: "`size` to `width`".
local function words()
  local old, new = shortened(offer.old), shortened(offer.text)
  if offer.old == '' then return ('insert `%s`'):format(new) end
  if offer.text == '' then return ('remove `%s`'):format(old) end
  return ('`%s` to `%s`'):format(old, new)
end

--- For the status line, where the place is out of sight: "next edit: `size` to `width`, line 120 ●"; '' otherwise.
function M.out_of_sight()
  if not offer or is_in_sight() then return '' end
  local there = offer.buf ~= api.nvim_get_current_buf() and vim.fs.basename(api.nvim_buf_get_name(offer.buf)) .. ' ' or ''
  return ('next edit: %s, %sline %d %s'):format(words(), there, offer.first[1] + 1, badges.mark(offer.tier))
end

--- Why the edit on offer has its tier; nil if there is none.
function M.why()
  if not offer then return end
  return ('next edit %s: %s: %s'):format(words(), badges.text(offer) or offer.tier, offer.reason or '')
end

--- Whether a key has something to do: an edit is on offer, or the one to go on to is on its way.
function M.is_offered() return offer ~= nil or (asked ~= nil and asked.goes_on == true) end

--- Whether the cursor is at the place.
local function is_at()
  if offer.buf ~= api.nvim_get_current_buf() then return false end
  local row, col = unpack(api.nvim_win_get_cursor(0))
  local first, last = offer.first, offer.last
  return row - 1 >= first[1] and row - 1 <= last[1] and (row - 1 > first[1] or col >= first[2])
    and (row - 1 < last[1] or col <= last[2])
end

--- Put the cursor on the place, in its window or in this one.
function jump()
  if offer.buf ~= api.nvim_get_current_buf() then
    local win = vim.fn.bufwinid(offer.buf)
    if win ~= -1 then
      api.nvim_set_current_win(win)
    elseif not pcall(vim.cmd.buffer, offer.buf) then
      return require('lsp_calib.notice').answer('the next edit is in a buffer that cannot be shown here.', vim.log.levels.WARN)
    end
  end
  vim.cmd("normal! m'") -- so that <C-o> comes back
  api.nvim_win_set_cursor(0, { offer.first[1] + 1, offer.first[2] })
  vim.cmd('silent! foldopen!')
end

--- Make what has been done so far one undo step, and what follows another.
local function end_undo_step(buf) vim.bo[buf].undolevels = vim.bo[buf].undolevels end

--- Replace the text, put the cursor behind the new one, and ask for the place after it.
local function replace()
  local this, buf = offer, offer.buf
  local client = vim.lsp.get_client_by_id(this.client)
  clear()
  if not client or not vim.bo[buf].modifiable then return end
  local lines = vim.split(this.text, '\n', { plain = true })
  end_undo_step(buf)
  api.nvim_buf_set_text(buf, this.first[1], this.first[2], this.last[1], this.last[2], lines)
  end_undo_step(buf)
  ours[buf] = api.nvim_buf_get_changedtick(buf)
  local column = (#lines == 1 and this.first[2] or 0) + #lines[#lines]
  local types = api.nvim_get_mode().mode:match('^[iR]')
  api.nvim_win_set_cursor(0, { this.first[1] + #lines, math.max(types and column or column - 1, 0) })
  server.execute('editApplied', { { id = this.id } }, nil, function() end) -- a hint: the document tells as well
  ask(true)
end

--- Go to the edit on offer; at its place, apply it and go on to the next one. False if there is none.
function M.go()
  if not offer then return M.is_offered() end
  if is_at() then replace() else jump() end
  return true
end

--- Apply the edit on offer and go on to the next one. One that is out of sight, or in another window, is gone to first.
--- False if there is none.
function M.apply()
  if not offer then return M.is_offered() end
  if offer.buf == api.nvim_get_current_buf() and is_in_sight() then replace() else jump() end
  return true
end

--- Take the edit off the screen, and tell the server that it was not wanted. False if there is none.
function M.dismiss()
  if not offer then return false end
  local id = offer.id
  clear()
  server.execute('editDismissed', { { id = id } }, nil, function() end)
  return true
end

--- A server has gone.
function M.gone(client_id)
  asked, changed = nil, nil
  if offer and offer.client == client_id then clear() end
end

--- Follow changes, the cursor and saves. group: an autocommand group.
function M.start(group)
  local function on(events, callback)
    api.nvim_create_autocmd(events, { group = group, callback = function(ev) callback(ev.buf) end })
  end
  on({ 'TextChanged', 'TextChangedI', 'TextChangedP' }, on_change)
  on({ 'CursorMoved', 'CursorMovedI' }, on_move)
  on('BufWritePost', function(buf)
    if changed and changed.buf == buf then ask_in(SOON) end
  end)
  on('BufEnter', function()
    if changed then ask_in(ELSEWHERE) end
  end)
  on({ 'BufEnter', 'WinEnter', 'TabEnter', 'WinScrolled', 'WinResized' }, function()
    if offer then vim.schedule(redraw_status) end
  end)
  on('LspDetach', function(buf)
    if offer and offer.buf == buf then clear() end
  end)
  on('BufWipeout', function(buf) ours[buf] = nil end)
end

return M
