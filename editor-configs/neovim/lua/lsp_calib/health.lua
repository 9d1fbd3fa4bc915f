-- :checkhealth lsp_calib
local M = {}
local health = vim.health
local SECONDS = 20 -- the program starts slowly on a busy machine

--- What the server's program prints with these arguments; nil and why, if it does not run.
local function output_of(cmd, ...)
  local ok, done = pcall(function(...) return vim.system({ ... }, { text = true, timeout = 1000 * SECONDS }):wait() end, cmd, ...)
  if not ok then return nil, tostring(done) end
  if done.code ~= 0 then return nil, vim.trim(done.stderr ~= '' and done.stderr or 'exit code ' .. done.code) end
  return vim.trim(done.stdout)
end

local function json_of(cmd, ...)
  local text, why = output_of(cmd, ...)
  local ok, value = pcall(vim.json.decode, text or '')
  if ok then return value end
  return nil, why or 'its answer cannot be read'
end

local function check_neovim()
  health.start('Neovim')
  local version = tostring(vim.version())
  if vim.lsp.inline_completion then
    health.ok(version .. ': suggestions are ghost text')
  elseif vim.fn.has('nvim-0.10') == 1 then
    health.warn(version .. ': suggestions are in the completion menu', 'Neovim 0.12 shows them as ghost text')
  else
    health.error(version .. ' is too old', 'Install Neovim 0.12, or 0.10 for suggestions in the completion menu')
  end
end

--- Returns the program where it runs and answers to other commands than serve.
local function check_program()
  health.start('Server')
  local cmd = require('lsp_calib.config').cmd()
  if type(cmd) ~= 'table' then
    health.info('the server is reached by a function of your configuration')
    return
  end
  if vim.fn.executable(cmd[1]) == 0 then
    health.error(cmd[1] .. ' cannot be run', {
      'Install it: make install in a clone of lsp-calib',
      'Put it on the PATH of Neovim, or name it: setup({ cmd = { "/path/to/lsp-calib", "serve", "--trust-editor" } })',
      'Then :LspCalib restart' })
    return
  end
  if cmd[2] ~= 'serve' then
    health.info('command line: ' .. table.concat(cmd, ' '))
    return
  end
  local version, why = output_of(cmd[1], '--version')
  if not version then
    health.error(cmd[1] .. ' does not start: ' .. why, 'Install it again; lsp-calib doctor says more')
    return
  end
  health.ok(('%s (%s)'):format(version, cmd[1]))
  return cmd[1]
end

local function check_model(program)
  local models, why = json_of(program, 'models', 'list', '--json')
  if not models then return health.warn('lsp-calib models list does not answer: ' .. why) end
  local installed = {}
  for _, model in ipairs(models) do
    if model.installed and model.kind == 'language' then table.insert(installed, model.name) end
  end
  if #installed > 0 then return health.ok('models installed: ' .. table.concat(installed, ', ')) end
  health.warn('no model is installed', { 'lsp-calib models pull smollm2-135m (98 MB), or qwen2.5-coder-1.5b (1.1 GB)',
    'With a server of your own (remote.url) none is needed' })
end

local function check_labels(program)
  local stats, why = json_of(program, 'feedback', 'stats', '--json')
  if not stats then return health.warn('what is stored of your suggestions cannot be read: ' .. why) end
  health.info(('%d of your suggestions have a label, %d of them right'):format(stats.labelled, stats.correct))
end

local function check_client(client)
  local bufs = vim.tbl_keys(client.attached_buffers)
  health.ok(('server %d runs for %d buffer(s), in %s'):format(client.id, #bufs, client.root_dir or 'no workspace'))
  local answer, params = nil, { command = 'lsp-calib.status' }
  if vim.fn.has('nvim-0.11') == 1 then
    answer = client:request_sync('workspace/executeCommand', params, 3000)
  else
    answer = client.request_sync('workspace/executeCommand', params, 3000)
  end
  local status = answer and answer.result
  if not status then
    return health.error('it does not answer', ':LspCalib restart; lsp-calib doctor looks for the cause')
  end
  local words = require('lsp_calib.words').status(status)
  if status.state == 'noModel' or status.state == 'error' then
    health.error(words, { 'lsp-calib models list and lsp-calib doctor say what to do', 'Then :LspCalib restart model' })
  elseif status.state == 'paused' then
    health.warn(words, ':LspCalib resume')
  else
    health.ok(words)
  end
  local calibrator = type(status.calibrator) == 'table' and status.calibrator or nil
  if calibrator and calibrator.state == 'drifted' then
    health.warn('what was learned no longer fits what you keep', ':LspCalib refit; :LspCalib report shows where')
  elseif status.state == 'ready' and not calibrator then
    health.info('this model is not calibrated: its suggestions have no probability. lsp-calib calibrate PATH makes a calibrator')
  end
  local suggestions = require('lsp_calib.status').suggestions()
  for _, buf in ipairs(bufs) do
    if not suggestions.is_on(buf) then
      health.warn(('suggestions are off in buffer %d, %s'):format(buf, vim.api.nvim_buf_get_name(buf)), ':LspCalib toggle there')
    end
  end
end

local function check_clients()
  health.start('Buffers')
  local clients = vim.lsp.get_clients({ name = require('lsp_calib.server').NAME })
  if #clients == 0 then
    health.warn('no server runs', { "Put require('lsp_calib').setup() or vim.lsp.enable('lsp_calib') into init.lua",
      'Open a file; after a change, :LspCalib restart', 'Neovim logs why a server did not start: :checkhealth vim.lsp' })
  end
  for _, client in ipairs(clients) do check_client(client) end
end

local function check_keys()
  health.start('Keys')
  local keys = require('lsp_calib.keys')
  local set = keys.set_by_setup
  local mapped = vim.iter(vim.api.nvim_get_keymap('i')):find(function(map)
    return (map.rhs or ''):find('LspCalib', 1, true) or (map.rhs or ''):find('lsp_calib', 1, true)
  end)
  if next(set) then
    for name, key in vim.spairs(set) do
      local now = vim.fn.maparg(key, 'i', false, true)
      local ours = type(now) == 'table' and now.desc == keys.actions[name][2]
      if ours then
        health.ok(('%s: %s'):format(key, name))
      else
        health.warn(('%s: taken by something else since (%s)'):format(key, now.desc or now.rhs or 'not mapped'),
          ("setup({ keys = { %s = '...' } }) with another key"):format(name))
      end
    end
  elseif mapped then
    health.ok('mapped by you')
  else
    health.info("setup() has mapped no key. setup({ keys = 'suggested' }) does; :help lsp_calib-keys has others")
  end
end

function M.check()
  check_neovim()
  local program = check_program()
  if program then
    check_model(program)
    check_labels(program)
  end
  check_clients()
  check_keys()
end

return M
