-- Ghost text with its badge, by Neovim's own inline completion (0.12 and later).
local M = {}
local badges, server = require('lsp_calib.badges'), require('lsp_calib.server')
local api, inline = vim.api, vim.lsp.inline_completion
local badge_ns, BADGE = api.nvim_create_namespace('lsp_calib'), 1 -- one in a buffer, which the next takes the place of
local SOON = 300 -- ms: what comes sooner is not worth a word
local ghost_ns = api.nvim_create_namespace('nvim.lsp.inline_completion') -- where Neovim draws the suggestion
local asked, answers = {}, {} -- by buffer: the latest request; the latest answer and the request it belongs to
local draw -- the badge of a buffer
local want_more = {} -- by buffer: what to do once the alternatives are there, which the next request asks for
local by_hand = {} -- by buffer: whether the next request is one that the user has asked for
local last, showing = {}, {} -- by buffer: the suggestion that was on screen last; the badge that is there now

--- Neovim's mark for the suggestion on screen, ours or another server's, and what it shows of it; nil if it is nothing.
local function shown(buf)
  local ghost = api.nvim_buf_get_extmarks(buf, ghost_ns, 0, -1, { details = true })[1]
  if not ghost then return end
  local lines = vim.list_extend({ ghost[4].virt_text or {} }, ghost[4].virt_lines or {})
  local text = vim.iter(lines):map(function(chunks)
    return vim.iter(chunks):map(function(chunk) return chunk[2] ~= 'ComplHintMore' and chunk[1] or '' end):join('')
  end):join('\n')
  if text ~= '' then return ghost, text end
end

--- Our suggestion on screen, Neovim's mark for it, and its item: the one whose text ends with what Neovim shows of it.
local function on_screen(buf)
  local ghost, text = shown(buf)
  local found
  for _, item in ipairs(ghost and answers[buf] and answers[buf].items or {}) do
    local suggestion = vim.tbl_get(item, 'command', 'arguments', 1)
    if type(suggestion) == 'table' and vim.endswith(item.insertText, text) then
      -- One may be the end of another: what Neovim leaves out is as long as what stands before its mark. Only before it
      -- has moved its mark after a change is it not, and then it still shows the one that had the badge.
      if #item.insertText - #text == ghost[3] - answers[buf].cursor[2] then return suggestion, ghost, item end
      if not found or suggestion.id == (last[buf] or {}).id then found = item end
    end
  end
  if found then return found.command.arguments[1], ghost, found end
end

--- Dim what stands behind the part of a line that can be trusted, and the rejected lines of a block: Neovim draws a
--- suggestion in one colour.
local function dim(buf, suggestion, ghost, item)
  local mark, tiers, changed = ghost[4], suggestion.lines or {}, false
  local text, below = mark.virt_text or {}, mark.virt_lines or {}
  -- at: of the lines that Neovim shows, from 0; those above may be typed.
  local function paint(at, chunks)
    local line = tiers[#tiers - #below + at]
    for _, chunk in ipairs(line and line.tier == 'reject' and chunks or {}) do
      if chunk[2] == 'ComplHint' then chunk[2], changed = 'LspCalibBlockFaint', true end
    end
  end
  for at, chunks in ipairs(below) do paint(at, chunks) end
  local first, more = text[1], text[2]
  -- One that is dim stays so until Neovim draws it anew.
  if first and first[2] == 'ComplHint' and badges.sure_word(suggestion) and not (more and more[2] == 'LspCalibUnsure') then
    local stop = badges.bytes_of(item.insertText, suggestion.sure['end'])
    local sure = math.max(stop - (#item.insertText:match('^[^\n]*') - #first[1]), 0)
    if sure < #first[1] then
      text, changed = { { first[1]:sub(1, sure), 'ComplHint' }, { first[1]:sub(sure + 1), 'LspCalibUnsure' }, more }, true
    end
  else
    paint(0, text)
  end
  if not changed then return end
  api.nvim_buf_set_extmark(buf, ghost_ns, ghost[2], ghost[3], { id = ghost[1], virt_text = text, virt_lines = mark.virt_lines,
    virt_text_pos = mark.virt_text_pos, hl_mode = mark.hl_mode })
end

--- What was typed since the request that the answer belongs to; nil if the cursor has left the suggestion's way.
local function typed_since(buf, text)
  if buf ~= api.nvim_get_current_buf() then return end
  local was, now = answers[buf] and answers[buf].cursor, api.nvim_win_get_cursor(0)
  if not was or now[1] < was[1] or (now[1] == was[1] and now[2] < was[2]) then return end
  local typed = table.concat(api.nvim_buf_get_text(buf, was[1] - 1, was[2], now[1] - 1, now[2], {}), '\n')
  return vim.startswith(text, typed) and typed or nil
end

--- What is still waited for by hand in a buffer, behind the end of its line. The badge of what is read there stays, but
--- for a block, which will take the place of it.
local function say_waiting(buf, this)
  this.waits = true
  if not this.words and on_screen(buf) then return end
  if asked[buf] ~= this or this.items or buf ~= api.nvim_get_current_buf() then return end
  if not vim.deep_equal(api.nvim_win_get_cursor(0), this.cursor) or api.nvim_get_mode().mode:sub(1, 1) ~= 'i' then return end
  local text = ('  %s %s'):format(badges.mark('busy'), this.words or badges.words('busy'))
  api.nvim_buf_set_extmark(buf, badge_ns, this.cursor[1] - 1, 0, { id = BADGE, virt_text = { { text, 'LspCalibEditFaint' } },
    virt_text_pos = 'eol', hl_mode = 'combine' })
end

--- The server tells how far it is with what was asked for by hand.
function M.going_on(message)
  local buf = api.nvim_get_current_buf()
  local this = asked[buf]
  if not this then return end
  this.words = message:gsub('%.$', '')
  if this.waits then say_waiting(buf, this) end
end

--- Start Neovim's automatic request, as a key does, where one is typing.
local function ask(buf)
  if buf == api.nvim_get_current_buf() and vim.startswith(api.nvim_get_mode().mode, 'i') then
    api.nvim_exec_autocmds('CursorMovedI', { buffer = buf })
  end
end

--- Take what Neovim shows off the screen, and the badge with it. It does so in its next turn, and drops the request that
--- the last key has begun.
local function hide(buf, done)
  inline.get({ bufnr = buf, on_accept = done or function() draw(buf) end })
end

--- Dim anew at the next key, once Neovim has moved the suggestion and before that is seen: it draws all of it in one
--- colour. Of two autocommands the one that was made later runs later, and Neovim makes its own when suggestions begin.
local function dim_at_the_next_key(buf)
  local group = api.nvim_create_augroup('lsp_calib_dim:' .. buf, {})
  api.nvim_create_autocmd('CursorMovedI', { group = group, buffer = buf, callback = function()
    local suggestion, ghost, item = on_screen(buf)
    if suggestion and typed_since(buf, item.insertText) then dim(buf, suggestion, ghost, item) end
  end })
end

function draw(buf)
  if not api.nvim_buf_is_valid(buf) then return end
  local before = showing[buf]
  showing[buf] = nil
  local suggestion, ghost, item = on_screen(buf)
  local text, tier
  -- Neovim shows the end of a suggestion until the next answer, whatever was typed in place of its beginning.
  if item and buf == api.nvim_get_current_buf() and not typed_since(buf, item.insertText) then
    api.nvim_buf_clear_namespace(buf, ghost_ns, 0, -1)
    hide(buf, function() ask(buf) end)
    suggestion = nil
  end
  if suggestion then
    text, tier = badges.text(suggestion)
    dim(buf, suggestion, ghost, item)
    dim_at_the_next_key(buf)
  end
  if text then
    last[buf] = suggestion
    showing[buf] = ('%s %s'):format(badges.mark(tier), tier)
    local covers_line_end = ghost[4].virt_text_pos == 'overlay' -- as it is for an item that replaces some text
    api.nvim_buf_set_extmark(buf, badge_ns, ghost[2], 0, { id = BADGE, virt_text = { { '  ' .. text, badges.group(tier) } },
      virt_text_pos = covers_line_end and 'right_align' or 'eol', hl_mode = 'combine' })
  else
    api.nvim_buf_del_extmark(buf, badge_ns, BADGE)
  end
  if showing[buf] ~= before then vim.cmd.redrawstatus() end
end

--- What is still to come of the suggestion on screen, and its item; nil if the cursor has left the suggestion's way.
local function to_come(buf)
  local _, _, item = on_screen(buf)
  local typed = item and typed_since(buf, item.insertText)
  if typed then return item.insertText:sub(#typed + 1), item end
end

--- Whether a suggestion can be accepted whole: the cursor is on its way, and still on its first line.
local function in_reach(buf, text)
  return typed_since(buf, text) ~= nil and api.nvim_win_get_cursor(0)[1] == answers[buf].cursor[1]
end

--- What stands behind the cursor on its line.
local function behind() return api.nvim_get_current_line():sub(api.nvim_win_get_cursor(0)[2] + 1) end

--- The closers behind the cursor that a suggestion goes over: of the `replaced` bytes behind the cursor of its request
--- those that have not been typed over, and before them what a plugin has closed since.
local function closers(buf, replaced)
  local kept, after = answers[buf].behind:sub(replaced + 1), behind()
  local part = vim.endswith(after, kept) and after:sub(1, #after - #kept) or ''
  return part:match('^[%)%]}"\'`%s;,]*$') and part or ''
end

--- How many of these closers a piece of a suggestion writes itself: a bracket or quote that it opens is closed first.
local function written_over(piece, closed)
  local pairs_, open, over = { ['('] = ')', ['['] = ']', ['{'] = '}' }, {}, 0
  for char in piece:gmatch('.') do
    if char == open[#open] then
      open[#open] = nil
    elseif char == closed:sub(over + 1, over + 1) then
      over = over + 1
    elseif pairs_[char] or char:match('["\'`]') then
      open[#open + 1] = pairs_[char] or char
    end
  end
  return over
end

--- Neovim leaves a suggestion on screen while you type on, but accepting it then would leave the typed characters
--- behind it. So take them out first; if the cursor is not on the suggestion's way any more, accept nothing.
local function catch_up(item)
  local buf, now = api.nvim_get_current_buf(), api.nvim_win_get_cursor(0)
  vim.schedule(function() draw(buf) end)
  local was = answers[buf] and answers[buf].client == item.client_id and answers[buf].cursor
  if not was or vim.deep_equal(now, was) then return item end
  if not item.range or not in_reach(buf, item.insert_text) then return end
  -- Accepting replaces the closers that were there: those typed over come back, those added since go.
  local _, start, _, stop = item.range:to_extmark()
  local there, wanted = #closers(buf, stop - start), stop - start
  local typed_over = item.insert_text:match('^[^\n]*'):sub(-wanted):sub(1, math.max(wanted - there, 0))
  api.nvim_buf_set_text(buf, now[1] - 1, was[2], now[1] - 1, now[2] + math.max(there - wanted, 0), { typed_over })
  return item
end

--- Accept the suggestion on screen (Neovim then runs its command, which tells the server). False if there is none, or
--- none that can be accepted from here: Neovim keeps one that is typed to its end, or was left, until the next answer.
function M.accept()
  local buf = api.nvim_get_current_buf()
  local _, _, item = on_screen(buf)
  if not shown(buf) or (item and not in_reach(buf, item.insertText)) then return false end
  return inline.get({ on_accept = catch_up })
end

--- Accept a first piece of what is still to come of the suggestion on screen; the rest stays. False if there is none.
--- piece(rest, item): the piece. The server learns of it from the document: to it this is the same as typing.
local function accept_piece(piece)
  local buf = api.nvim_get_current_buf()
  if not to_come(buf) then return false end
  vim.schedule(function() -- a mapping with <expr> may not change text
    local rest, item = to_come(buf) -- only now: the next keys may have come before this, and taken some of it
    if not rest then return end
    local first = piece(rest, item)
    if not first then return end
    if first == rest or first == '' then return M.accept() end
    local row, col = unpack(api.nvim_win_get_cursor(0))
    local lines = vim.split(first, '\n', { plain = true })
    local range = item.range
    local over = written_over(lines[1], closers(buf, range['end'].character - range.start.character))
    api.nvim_buf_set_text(buf, row - 1, col, row - 1, col + over, lines)
    api.nvim_win_set_cursor(0, { row + #lines - 1, (#lines == 1 and col or 0) + #lines[#lines] })
    if #lines > 1 then hide(buf) end -- Neovim would show its next lines twice
    vim.schedule(function() draw(buf) end)
  end)
  return true
end

--- Accept up to the end of the next word, or run of punctuation, as 'iskeyword' tells them.
function M.accept_word()
  return accept_piece(function(rest) return vim.fn.matchstr(rest, [[^\_s*\%(\k\+\|\%(\k\@![^ \t\n]\)\+\)]]) end)
end

--- Accept up to the end of the line; from there, the next line of a block.
function M.accept_line()
  return accept_piece(function(rest) return vim.fn.matchstr(rest, [[^\n\?[^\n]*]]) end)
end

--- What is still to come of the part that can be trusted, which is all of an accepted line and of a block the accepted
--- lines; nil if nothing is. rest: of the whole suggestion.
local function sure_part(rest, item)
  local suggestion = item.command.arguments[1]
  local sure = suggestion.sure
  if suggestion.tier == 'accept' and suggestion.kind == 'line' then return rest end
  if type(sure) ~= 'table' then return end
  local stop = badges.bytes_of(item.insertText, sure['end'])
  local part = item.insertText:sub(#item.insertText - #rest + 1, stop)
  return part ~= '' and part or nil
end

--- Accept the part that can be trusted; the rest stays. False if there is none, or it is typed.
function M.accept_sure()
  local rest, item = to_come(api.nvim_get_current_buf())
  if not rest or not sure_part(rest, item) then return false end
  return accept_piece(sure_part)
end

--- Take the suggestion off the screen, and tell the server that it was not wanted. False if there is none.
function M.dismiss()
  local buf = api.nvim_get_current_buf()
  local suggestion = on_screen(buf)
  if not suggestion then return false end
  hide(buf)
  server.execute('rejected', { { id = suggestion.id } })
  return true
end

--- Neovim never asks for alternatives ("invoked"): ask now, and call done() once they are there.
local function with_alternatives(done)
  local buf = api.nvim_get_current_buf()
  if not on_screen(buf) then return false end
  if #answers[buf].items > 1 then
    done()
  else
    want_more[buf] = done
    ask(buf)
  end
  return true
end

--- Ask for a suggestion now, with its alternatives; of one on screen show the next alternative. False where suggestions
--- are off. Where there is none the server's reason is told.
function M.trigger()
  local buf = api.nvim_get_current_buf()
  if M.select(1) then return true end
  if not M.can_ask(buf) then return false end
  by_hand[buf] = true
  vim.schedule(function() ask(buf) end)
  return true
end

--- Step through the alternatives; the first step asks for them. False if there is no suggestion.
function M.select(count)
  local buf = api.nvim_get_current_buf()
  return with_alternatives(function()
    inline.select({ count = count })
    draw(buf)
  end)
end

--- Choose one of the alternatives from a list, and accept it. False if there is no suggestion.
function M.alternatives()
  local buf = api.nvim_get_current_buf()
  return with_alternatives(function()
    -- A list in a window of its own leaves insert mode, and Neovim then forgets the suggestion. So find out now up to
    -- where each item would replace the line, and insert the chosen one without Neovim.
    local answer, tick, ends = answers[buf], api.nvim_buf_get_changedtick(buf), {}
    for at, item in ipairs(answer.items) do
      if in_reach(buf, item.insertText) then
        local replaced = item.range['end'].character - item.range.start.character
        ends[at] = api.nvim_win_get_cursor(0)[2] + #closers(buf, replaced)
      end
    end
    local options = { prompt = 'Alternatives', format_item = function(item)
      return ('%s  %s'):format(vim.trim(item.insertText), badges.text(item.command.arguments[1]) or '')
    end }
    vim.ui.select(answer.items, options, function(item, at)
      if not item or not ends[at] then return end
      vim.schedule(function() -- a mapping with <expr> may not change text
        local client = vim.lsp.get_client_by_id(answer.client)
        if not client or not api.nvim_buf_is_loaded(buf) or api.nvim_buf_get_changedtick(buf) ~= tick then return end
        hide(buf)
        local row, col = unpack(answer.cursor)
        local lines = vim.split(item.insertText, '\n', { plain = true })
        api.nvim_buf_set_text(buf, row - 1, col, row - 1, ends[at], lines)
        local win, last_col = vim.fn.bufwinid(buf), (#lines == 1 and col or 0) + #lines[#lines]
        if win ~= -1 then api.nvim_win_set_cursor(win, { row + #lines - 1, last_col }) end
        client:exec_cmd(item.command, { bufnr = buf })
      end)
    end)
  end)
end

--- Neovim handles the answer itself and does not show it to anyone: stand between the two.
function M.watch(client)
  local request = client.request
  client.request = function(self, method, params, handler, buf) ---@diagnostic disable-line: duplicate-set-field
    if method ~= 'textDocument/inlineCompletion' or not handler then
      return request(self, method, params, handler, buf)
    end
    local more = to_come(buf) and want_more[buf] -- that wish ends with the suggestion
    local this = { cursor = api.nvim_win_get_cursor(0), behind = behind(), more = more, by_hand = by_hand[buf],
      kind = (last[buf] or {}).kind, client = self.id }
    asked[buf], want_more[buf], by_hand[buf] = this, nil, nil
    if this.more or this.by_hand then
      params.context.triggerKind = vim.lsp.protocol.InlineCompletionTriggerKind.Invoked
      vim.defer_fn(function() say_waiting(buf, this) end, SOON)
    end
    return request(self, method, params, function(err, result, ctx)
      if result or asked[buf] == this then -- a null for an older request is no news
        this.items = result and (result.items or result) or {}
        answers[buf] = this
        if err then handler(err, nil, ctx) end -- it logs the error, and would keep the old suggestion
        handler(nil, this.items, ctx)
        draw(buf)
        -- The first answer by hand may be a block in place of its first line, which is what is looked at then.
        local suggestion = on_screen(buf)
        local is_new = suggestion and suggestion.kind == 'block' and this.kind ~= 'block'
        if this.more and #this.items > 1 and suggestion and not is_new then this.more() end
        if this.by_hand and #this.items == 0 then server.say_why_nothing(buf) end
      end
    end, buf)
  end
end

--- Ghost text in a buffer from now on, at once where one has begun to type before the server ran.
function M.attach(buf)
  inline.enable(true, { bufnr = buf })
  vim.schedule(function() ask(buf) end)
end

--- Suggestions in the current buffer, or none; returns whether there are from now on.
function M.toggle()
  local on = not inline.is_enabled({ bufnr = 0 })
  inline.enable(on, { bufnr = 0 })
  draw(api.nvim_get_current_buf())
  return on
end

function M.is_on(buf) return inline.is_enabled({ bufnr = buf }) end
M.can_ask = M.is_on -- Neovim itself asks

--- The suggestion that was on screen last in a buffer.
function M.last(buf) return last[buf] end

--- Mark and tier of the suggestion on screen in a buffer, '' if there is none.
function M.badge(buf) return showing[buf] or '' end

--- Keep badges in their places. group: an autocommand group.
function M.start(group)
  api.nvim_create_autocmd({ 'CursorMovedI', 'TextChangedI', 'TextChangedP', 'InsertLeave', 'LspDetach' }, {
    group = group, callback = function(ev)
      if ev.event == 'InsertLeave' then by_hand[ev.buf] = nil end
      -- Draw once Neovim has moved the suggestion, or taken it away.
      if asked[ev.buf] then vim.schedule(function() draw(ev.buf) end) end
    end })
  api.nvim_create_autocmd('BufWipeout', { group = group, callback = function(ev)
    asked[ev.buf], answers[ev.buf], want_more[ev.buf], by_hand[ev.buf] = nil, nil, nil, nil
    last[ev.buf], showing[ev.buf] = nil, nil
  end })
end

return M
