-- lsp-calib for Neovim 0.12 and later: suggestions with a badge that says how likely they are to be right.
--   require('lsp_calib').setup()      -- options: cmd, settings, keys = { accept, next, prev }
local M = {}
local api, inline = vim.api, vim.lsp.inline_completion
local badge_ns = api.nvim_create_namespace('lsp_calib')
local ghost_ns = api.nvim_create_namespace('nvim.lsp.inline_completion') -- where Neovim draws the suggestion
local asked, answers = {}, {} -- by buffer: the latest request; the latest answer and the request it belongs to
local want_more = {} -- by buffer: the next request asks for alternatives

-- What a tier looks like unless the server says otherwise. Colour names become the theme's own colours.
local badges = {
  accept = { mark = '●', color = 'green' },
  review = { mark = '▲', color = 'yellow' },
  reject = { mark = '✗', color = 'red' },
}
local theme = { green = 'DiagnosticOk', yellow = 'DiagnosticWarn', amber = 'DiagnosticWarn', orange = 'DiagnosticWarn',
  red = 'DiagnosticError', blue = 'DiagnosticInfo' }

local function group(tier) return 'LspCalib' .. tier:sub(1, 1):upper() .. tier:sub(2) end

local function set_highlights()
  for tier, badge in pairs(badges) do
    local hex = tostring(badge.color):match('^#%x%x%x%x%x%x$')
    local hl = hex and { fg = hex } or { link = theme[badge.color] or 'Comment' }
    api.nvim_set_hl(0, group(tier), vim.tbl_extend('error', hl, { default = true }))
  end
end

--- The suggestion on screen and Neovim's mark for it: the item whose text ends with what Neovim shows of it.
local function on_screen(buf)
  local ghost = api.nvim_buf_get_extmarks(buf, ghost_ns, 0, -1, { details = true })[1]
  if not ghost or not answers[buf] then return end
  local lines = vim.list_extend({ ghost[4].virt_text or {} }, ghost[4].virt_lines or {})
  local text = vim.iter(lines):map(function(chunks) return chunks[1] and chunks[1][1] or '' end):join('\n')
  for _, item in ipairs(text ~= '' and answers[buf].items or {}) do
    local suggestion = vim.tbl_get(item, 'command', 'arguments', 1)
    if type(suggestion) == 'table' and vim.endswith(item.insertText, text) then return suggestion, ghost end
  end
end

--- Tier, words and probability of a suggestion: of a block, how far its lines are to accept, if they are not all.
local function verdict(suggestion)
  local through = 0
  local lines = type(suggestion.lines) == 'table' and suggestion.lines or {}
  while lines[through + 1] and lines[through + 1].tier == 'accept' do through = through + 1 end
  if through == 0 or through == #lines then return suggestion.tier, suggestion.tier, suggestion.confidence end
  return 'accept', 'accept through line ' .. through, lines[through].confidence
end

local function draw(buf)
  if not api.nvim_buf_is_valid(buf) then return end
  api.nvim_buf_clear_namespace(buf, badge_ns, 0, -1)
  local suggestion, ghost = on_screen(buf)
  if not suggestion then return end
  local tier, words, confidence = verdict(suggestion)
  local badge = badges[tier]
  if not badge then return end
  local text = ('  %s %s'):format(badge.mark, words)
  if type(confidence) == 'number' then text = text .. (' %.0f %%'):format(100 * confidence) end
  local covers_line_end = ghost[4].virt_text_pos == 'overlay' -- as it is for an item that replaces some text
  api.nvim_buf_set_extmark(buf, badge_ns, ghost[2], 0, { virt_text = { { text, group(tier) } },
    virt_text_pos = covers_line_end and 'right_align' or 'eol', hl_mode = 'combine' })
end

--- Neovim leaves a suggestion on screen while you type on, but accepting it then would leave the typed characters
--- behind it. So take them out first; if the cursor is not on the suggestion's way any more, accept nothing.
local function catch_up(item)
  local buf, now = api.nvim_get_current_buf(), api.nvim_win_get_cursor(0)
  vim.schedule(function() draw(buf) end)
  local was = answers[buf] and answers[buf].client == item.client_id and answers[buf].cursor
  if not was or vim.deep_equal(now, was) then return item end
  if now[1] ~= was[1] or now[2] < was[2] or not item.range then return end
  local typed = api.nvim_buf_get_text(buf, item.range.start_row, item.range.start_col, now[1] - 1, now[2], {})
  if not vim.startswith(item.insert_text, table.concat(typed, '\n')) then return end
  api.nvim_buf_set_text(buf, now[1] - 1, was[2], now[1] - 1, now[2], {})
  return item
end

--- Accept the suggestion on screen (Neovim then runs its command, which tells the server). False if there is none.
function M.accept() return inline.get({ on_accept = catch_up }) end

--- Step through the alternatives. Neovim never asks for any ("invoked"), so the first step does.
function M.select(count)
  local buf = api.nvim_get_current_buf()
  if not on_screen(buf) then return end
  if #answers[buf].items > 1 then
    inline.select({ count = count })
    return draw(buf)
  end
  want_more[buf] = true
  api.nvim_exec_autocmds('CursorMovedI', { buffer = buf }) -- starts Neovim's automatic request
end

--- Neovim handles the answer itself and does not show it to anyone: stand between the two.
local function on_init(client)
  local told = vim.tbl_get(client.server_capabilities, 'experimental', 'lspCalib', 'badges')
  badges = vim.tbl_deep_extend('force', badges, type(told) == 'table' and told or {})
  set_highlights()
  local request = client.request
  client.request = function(self, method, params, handler, buf) ---@diagnostic disable-line: duplicate-set-field
    if method ~= 'textDocument/inlineCompletion' or not handler then
      return request(self, method, params, handler, buf)
    end
    local this = { cursor = api.nvim_win_get_cursor(0), more = want_more[buf], client = self.id }
    asked[buf], want_more[buf] = this, nil
    if this.more then params.context.triggerKind = vim.lsp.protocol.InlineCompletionTriggerKind.Invoked end
    return request(self, method, params, function(err, result, ctx)
      if result or asked[buf] == this then -- a null for an older request is no news
        this.items = result and (result.items or result) or {}
        answers[buf] = this
        if err then handler(err, nil, ctx) end -- it logs the error, and would keep the old suggestion
        handler(nil, this.items, ctx)
        if this.more and #this.items > 1 then inline.select({ count = 1 }) end
        draw(buf)
      end
    end, buf)
  end
end

local function on_status(_, status)
  local text = status.state == 'ready' and status.model or status.message
  if type(text) ~= 'string' or text == '' then text = vim.tbl_get(badges, status.state, 'words') or status.state end
  vim.g.lsp_calib_status = 'lsp-calib: ' .. text
  vim.cmd.redrawstatus()
end

--- Run a command of the server and say what it answered. opts: arguments; words(result), what to say of the result.
function M.command(name, opts)
  opts = opts or {}
  local client = vim.lsp.get_clients({ name = 'lsp_calib' })[1]
  if not client then return vim.notify('lsp-calib is not running; see :checkhealth vim.lsp', vim.log.levels.WARN) end
  local command = { title = name, command = 'lsp-calib.' .. name, arguments = opts.arguments }
  client:exec_cmd(command, { bufnr = 0 }, function(err, result)
    if opts.words and not err then return vim.notify(opts.words(result), vim.log.levels.INFO) end
    local lines = { 'lsp-calib ' .. name }
    for key, value in vim.spairs(type(result) == 'table' and result or {}) do
      local text = type(value) == 'table' and vim.inspect(value, { newline = ' ', indent = '' }) or tostring(value)
      table.insert(lines, ('  %s: %s'):format(key, text))
    end
    vim.notify(err and err.message or table.concat(lines, '\n'), vim.log.levels[err and 'ERROR' or 'INFO'])
  end)
end

--- Say why the last request in this buffer got no suggestion.
function M.explain()
  M.command('explain', { arguments = { { uri = vim.uri_from_bufnr(0) } }, words = function(result)
    if type(result) == 'table' then return 'lsp-calib: ' .. result.message end
    return 'lsp-calib: the last request for a completion here had a suggestion, or there was none yet'
  end })
end

--- Take your calibrator out of force. id: of the one to go back to; empty: the one before.
function M.rollback(id)
  M.command('rollbackCalibrator', { arguments = id ~= '' and { { id = id } } or nil,
    words = function(result) return 'lsp-calib: ' .. result.message end })
end

--- Fit a calibrator on lines of the workspace. from: 'git' for lines that you have committed; empty: of its files.
function M.calibrate(from)
  if from ~= '' and from ~= 'git' then
    return vim.notify('lsp-calib: :LspCalibCalibrate takes git, or nothing', vim.log.levels.ERROR)
  end
  local wanted = { uri = vim.uri_from_bufnr(0), fromGit = from == 'git' }
  M.command('calibrateWorkspace', { arguments = { wanted },
    words = function(result) return 'lsp-calib: ' .. result.sentence end })
end

--- Export what is stored of your suggestions. file: a new one; empty: one in the state folder.
function M.export(file)
  local path = file ~= '' and vim.fs.abspath(file) or nil
  M.command('exportFeedback', { arguments = path and { { path = path } } or nil, words = function(result)
    return ('lsp-calib: %d suggestions were exported to %s'):format(result.n, result.path)
  end })
end

--- Show in a browser whether the probabilities came true. Neovim opens the page when the server asks for it.
function M.report()
  M.command('showReport', { words = function(result) return 'lsp-calib: the report is ' .. result.path end })
end

--- Remove what is stored of your suggestions, once you have said yes.
function M.purge()
  local question = 'Remove everything that lsp-calib has stored of your suggestions? It cannot be undone.'
  if vim.fn.confirm(question, '&Remove\n&Keep', 2) ~= 1 then return end
  M.command('purgeFeedback', { words = function(result)
    return ('lsp-calib: %d suggestions were removed'):format(result.n)
  end })
end

--- Insert the summary of the function at the cursor as its documentation. The server asks Neovim for the change, and
--- says why if there is none.
function M.insert_summary()
  local client = vim.lsp.get_clients({ bufnr = 0, name = 'lsp_calib' })[1]
  local place = vim.lsp.util.make_position_params(0, client and client.offset_encoding or 'utf-16')
  M.command('insertSummary', { arguments = { { uri = place.textDocument.uri, position = place.position } },
    words = function(result)
      return result.applied and 'lsp-calib: the summary is in place' or 'lsp-calib: ' .. result.reason
    end })
end

--- Pause the suggestions that come by themselves, for some minutes or until M.resume().
function M.pause(minutes)
  M.command('pause', { arguments = { minutes and { minutes = minutes } or vim.empty_dict() }, words = function()
    return 'lsp-calib: paused ' .. (minutes and ('for %g minutes'):format(minutes) or 'until :LspCalibResume')
  end })
end

function M.resume()
  M.command('resume', { words = function() return 'lsp-calib: suggestions come again' end })
end

function M.setup(opts)
  local keys = { accept = '<Tab>', next = '<M-n>', prev = '<M-p>' }
  opts = vim.tbl_deep_extend('force', { cmd = { 'lsp-calib', 'serve' }, keys = keys }, opts or {})
  vim.lsp.config('lsp_calib', { -- no filetypes: all of them
    cmd = opts.cmd, root_markers = { '.git' }, on_init = on_init, init_options = opts.settings,
    settings = { lspCalib = opts.settings }, handlers = { ['lsp-calib/status'] = on_status },
  })
  vim.lsp.enable('lsp_calib')

  local function on(events, callback) api.nvim_create_autocmd(events, { group = 'lsp_calib', callback = callback }) end
  api.nvim_create_augroup('lsp_calib', {})
  on('LspAttach', function(ev)
    local client = vim.lsp.get_client_by_id(ev.data.client_id)
    if client and client.name == 'lsp_calib' then inline.enable(true, { bufnr = ev.buf }) end
  end)
  on({ 'CursorMovedI', 'TextChangedI', 'TextChangedP', 'InsertLeave' }, function(ev)
    if answers[ev.buf] then vim.schedule(function() draw(ev.buf) end) end -- once Neovim has moved the suggestion
  end)
  on('ColorScheme', set_highlights)

  vim.keymap.set('i', opts.keys.accept, function()
    if M.accept() then return '' end
    return vim.snippet.active({ direction = 1 }) and '<Cmd>lua vim.snippet.jump(1)<CR>' or opts.keys.accept
  end, { expr = true, desc = 'Accept the suggestion, or ' .. opts.keys.accept })
  vim.keymap.set('i', opts.keys.next, function() M.select(1) end, { desc = 'Next suggestion' })
  vim.keymap.set('i', opts.keys.prev, function() M.select(-1) end, { desc = 'Previous suggestion' })
  api.nvim_create_user_command('LspCalibRefit', function() M.command('refit') end, { desc = 'Refit the calibrator' })
  api.nvim_create_user_command('LspCalibCalibrate', function(args) M.calibrate(args.args) end,
    { nargs = '?', complete = function() return { 'git' } end, desc = 'Fit a calibrator on lines of the workspace' })
  api.nvim_create_user_command('LspCalibRollback', function(args) M.rollback(args.args) end,
    { nargs = '?', desc = 'Take the calibrator back that was learned last' })
  api.nvim_create_user_command('LspCalibExport', function(args) M.export(args.args) end,
    { nargs = '?', complete = 'file', desc = 'Export what is stored of your suggestions' })
  api.nvim_create_user_command('LspCalibReport', M.report, { desc = 'Whether the probabilities came true' })
  api.nvim_create_user_command('LspCalibPurge', M.purge, { desc = 'Remove what is stored of your suggestions' })
  api.nvim_create_user_command('LspCalibStatus', function() M.command('status') end, { desc = 'What lsp-calib does' })
  api.nvim_create_user_command('LspCalibPause', function(cmd)
    local minutes = tonumber(cmd.args)
    if cmd.args ~= '' and not minutes then
      return vim.notify('lsp-calib: :LspCalibPause takes a number of minutes, or nothing', vim.log.levels.ERROR)
    end
    M.pause(minutes)
  end, { nargs = '?', desc = 'Pause suggestions, for some minutes or until :LspCalibResume' })
  api.nvim_create_user_command('LspCalibResume', M.resume, { desc = 'End the pause' })
  api.nvim_create_user_command('LspCalibInsertSummary', M.insert_summary, { desc = 'Document the function here' })
  api.nvim_create_user_command('LspCalibExplain', M.explain, { desc = 'Why there is no suggestion' })
end

return M
