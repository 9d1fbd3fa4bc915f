-- :LspCalib and its subcommands.
local M = {}

local function server() return require('lsp_calib.server') end
local function words() return require('lsp_calib.words') end
local function answer(message, level) require('lsp_calib.notice').answer(message, level) end
local function failure(message) answer(message, vim.log.levels.ERROR) end

local function here() return { uri = vim.uri_from_bufnr(0) } end

--- The place of the cursor, as the server's commands for summaries take it.
local function place()
  local client = server().of(0)
  local params = vim.lsp.util.make_position_params(0, client and client.offset_encoding or 'utf-16')
  return { uri = params.textDocument.uri, position = params.position }
end

--- The server's mark of a suggestion in the cursor's line, nil if there is none.
local function mark()
  local row = vim.api.nvim_win_get_cursor(0)[1] - 1
  return vim.iter(vim.diagnostic.get(0, { lnum = row })):find(function(one) return one.source == 'lsp-calib' end)
end

--- Ask the server, and say what `sentence` makes of its answer.
local function ask(name, arguments, sentence)
  server().execute(name, arguments, function(result)
    local text = sentence and sentence(result)
    if text then answer(text) end
  end)
end

local function do_suggestion(name)
  return { run = function()
    if not require('lsp_calib')[name]() then answer('there is no suggestion on screen.') end
  end }
end

local function do_edit(name)
  return { run = function()
    if not require('lsp_calib')[name]() then answer('no edit is on offer.') end
  end }
end

-- By name. run(argument), '' without one; complete(lead): what the argument may be; desc.
local subcommands = {
  status = { desc = 'what the server does, with which model and calibrator',
    run = function() ask('status', nil, function(result) return words().status(result) end) end },
  explain = { desc = 'why the last request here got no suggestion, or why no next edit is offered (edit)',
    complete = function() return { 'edit' } end, run = function(what)
      if what == 'edit' then
        local about = vim.tbl_extend('force', here(), { kind = 'edit' })
        return ask('explain', { about }, function(result) return result and result.message or 'an edit is on offer.' end)
      end
      if what ~= '' then return failure(':LspCalib explain takes edit, or nothing.') end
      ask('explain', { here() }, function(result) return words().explain(result) end)
    end },
  why = { desc = 'why the suggestion or the edit on screen, or the mark in this line, has its tier', run = function()
    local found, buf, suggestions = mark(), vim.api.nvim_get_current_buf(), require('lsp_calib.status').suggestions()
    local last = suggestions.last(buf)
    local edit = suggestions.badge(buf) == '' and require('lsp_calib.next_edit').why()
    answer(found and found.message or edit or last and words().why(last)
      or 'there is no mark in this line, and no suggestion was on screen here yet.')
  end },
  reviewed = { desc = 'take away the mark of the suggestion in this line', run = function()
    local found = mark()
    local id = found and vim.tbl_get(found, 'user_data', 'lsp', 'data', 'id')
    if not id then return answer('there is no mark of a suggestion in this line.') end
    ask('markReviewed', { { id = id } }, function() return 'marked as reviewed.' end)
  end },
  refit = { desc = 'refit the calibrator from what you kept and what you changed',
    run = function() ask('refit', nil, function(result) return words().refit(result) end) end },
  rollback = { desc = 'take your calibrator out of force: back to the one before, or to the one named', run = function(id)
    ask('rollbackCalibrator', id ~= '' and { { id = id } } or nil, function(result) return result.message end)
  end },
  report = { desc = 'show in a browser whether the probabilities came true', -- Neovim opens it when the server asks
    run = function() ask('showReport', nil, function(result) return 'the report is ' .. result.path end) end },
  pause = { desc = 'no suggestions for some minutes, or until :LspCalib resume',
    complete = function() return { '10', '60' } end, run = function(text)
      local minutes = tonumber(text)
      if text ~= '' and not minutes then return failure(':LspCalib pause takes a number of minutes, or nothing.') end
      ask('pause', { minutes and { minutes = minutes } or vim.empty_dict() }, function() return words().pause(minutes) end)
    end },
  resume = { desc = 'end the pause',
    run = function() ask('resume', nil, function() return 'suggestions come again.' end) end },
  export = { desc = 'export what is stored of your suggestions to a new file',
    complete = function(lead) return vim.fn.getcompletion(lead, 'file') end, run = function(file)
      local path = file ~= '' and { { path = vim.fn.fnamemodify(file, ':p') } } or nil
      ask('exportFeedback', path, function(result) return words().export(result) end)
    end },
  purge = { desc = 'remove what is stored of your suggestions (it asks first)', run = function()
    local question = 'Remove everything that lsp-calib has stored of your suggestions? It cannot be undone.'
    if vim.fn.confirm(question, '&Remove\n&Keep', 2) ~= 1 then return end
    ask('purgeFeedback', nil, function(result) return words().purge(result) end)
  end },
  summary = { desc = 'the summary of the function at the cursor', run = function()
    require('lsp_calib.notice').expect(true)
    ask('showSummary', { place() }, function() end) -- the server shows it
  end },
  insert = { desc = 'insert that summary as documentation', run = function()
    require('lsp_calib.notice').expect(true) -- of the reason, if there is nothing to insert
    ask('insertSummary', { place() }, function(result) return words().insert(result) end)
  end },
  regenerate = { desc = 'word that summary anew', run = function()
    require('lsp_calib.notice').expect(true)
    ask('regenerateSummary', { place() }, function() end)
  end },
  wrong = { desc = 'report that summary as wrong', run = function()
    ask('reportSummary', { place() }, function() return 'noted that the summary is wrong.' end)
  end },
  restart = { desc = 'restart the server, or its model only (model)', complete = function() return { 'model' } end,
    run = function(what)
      if what == 'model' then return ask('restartModel', nil, function() return 'the model is being loaded again.' end) end
      if what ~= '' then return failure(':LspCalib restart takes model, or nothing.') end
      require('lsp_calib.config').restart()
    end },
  toggle = { desc = 'suggestions in this buffer, or none', run = function()
    local on = require('lsp_calib.status').suggestions().toggle()
    answer(on and 'suggestions are on here.' or 'suggestions are off here.')
  end },
  messages = { desc = 'what was said so far, uncut', run = function()
    local all = require('lsp_calib.notice').all()
    vim.notify(all == '' and 'lsp-calib: nothing was said yet.' or all)
  end },
  health = { desc = 'look for what does not work', run = function() vim.cmd.checkhealth('lsp_calib') end },
  -- For mappings in insert mode, as <Cmd>LspCalib word<CR>.
  trigger = { desc = 'ask for a suggestion at the cursor, with alternatives', run = function()
    if not require('lsp_calib').trigger() then
      answer('no suggestion can be asked for here: no server runs, or :LspCalib toggle has switched it off.')
    end
  end },
  accept = do_suggestion('accept'), word = do_suggestion('accept_word'), line = do_suggestion('accept_line'),
  sure = do_suggestion('accept_sure'),
  next = do_suggestion('next'), prev = do_suggestion('prev'), dismiss = do_suggestion('dismiss'),
  alternatives = do_suggestion('alternatives'),
  go = do_edit('go'), apply = do_edit('apply'),
}

local function names() return vim.fn.sort(vim.tbl_keys(subcommands)) end

local function starting_with(candidates, lead)
  return vim.tbl_filter(function(one) return vim.startswith(one, lead) end, candidates)
end

--- Run a subcommand. words: its name and its argument; without any, status.
function M.run(given)
  local name, argument = given[1] or 'status', table.concat(given, ' ', math.min(2, #given + 1))
  local subcommand = subcommands[name]
  if not subcommand then
    return failure(('there is no :LspCalib %s. There are: %s.'):format(name, table.concat(names(), ', ')))
  end
  subcommand.run(argument)
end

local function complete(lead, line)
  local given = vim.split(vim.trim(line:gsub("^.-LspCalib%S*", '', 1)), '%s+', { trimempty = true })
  if #given == 0 or (#given == 1 and lead ~= '') then return starting_with(names(), lead) end
  local subcommand = subcommands[given[1]]
  return subcommand and subcommand.complete and starting_with(subcommand.complete(lead), lead) or {}
end

--- Define the commands; again does nothing.
function M.register()
  if M.registered then return end
  M.registered = true
  vim.api.nvim_create_user_command('LspCalib', function(args) M.run(args.fargs) end,
    { nargs = '*', complete = complete, desc = 'lsp-calib: status, report, refit and more' })
end

--- The subcommands and what they do, sorted: for the test of the documentation.
function M.all() return subcommands end

return M
