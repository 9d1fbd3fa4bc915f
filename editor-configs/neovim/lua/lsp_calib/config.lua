-- The configuration of the language client: as lsp/lsp_calib.lua takes it, and setup().
local M = {}
local badges, cursor, notice = require('lsp_calib.badges'), require('lsp_calib.cursor'), require('lsp_calib.notice')
local next_edit, server, status = require('lsp_calib.next_edit'), require('lsp_calib.server'), require('lsp_calib.status')
local INSTALL = 'run make install in a clone of lsp-calib, or name its path in cmd; then :LspCalib restart'
local CMD = { 'lsp-calib', 'serve', '--trust-editor' }
local started

--- Autocommands and colours, once.
local function start()
  if started then return end
  started = true
  local group = vim.api.nvim_create_augroup('lsp_calib', {})
  badges.set_highlights()
  status.suggestions().start(group)
  cursor.start(group)
  next_edit.start(group)
  require('lsp_calib.loading').start(group)
  vim.api.nvim_create_autocmd('ColorScheme', { group = group, callback = badges.set_highlights })
  vim.api.nvim_create_autocmd('LspProgress', { group = group, callback = status.on_progress })
end

local function on_message(_, params)
  local levels = { vim.log.levels.ERROR, vim.log.levels.WARN }
  -- Without a model there is one thing to do, and it has to be in sight.
  local pull = params.message:match('Run `(lsp%-calib models pull [^`]+)`')
  local short = pull and ('no model. Run `%s`'):format(pull)
  notice.pass_on(params.message, levels[params.type] or vim.log.levels.INFO, short)
end

local function on_exit(code, signal, client_id)
  local as_asked = code == 0 and (signal == 0 or signal == 15)
  if not as_asked then notice.leave_out(('Client %s quit'):format(server.NAME)) end
  vim.schedule(function()
    status.gone(client_id)
    next_edit.gone(client_id)
    if vim.v.exiting ~= vim.NIL or as_asked then return end
    notice.tell(('the server has ended (exit %d, signal %d). :LspCalib restart starts it again; :checkhealth lsp_calib '
      .. 'looks for the cause.'):format(code, signal), vim.log.levels.WARN)
  end)
end

--- The command line that is in force: a vim.lsp.config() of the user's may have replaced ours.
function M.cmd()
  local config = vim.lsp.config and vim.lsp.config[server.NAME] or M.made
  return config and config.cmd or CMD
end

--- Say once what to do if the server's program is not there. Neovim only writes it to its log.
function M.check_program()
  local cmd = M.cmd()
  if type(cmd) == 'table' and vim.fn.executable(cmd[1]) == 0 then
    notice.tell_once(('%s is not on the PATH: %s'):format(cmd[1], INSTALL), vim.log.levels.WARN)
  end
end

--- What Neovim can do, but for Markdown in hovers: it shows the backslashes with which the server keeps a text from
--- becoming markup.
local function capabilities()
  local all = vim.lsp.protocol.make_client_capabilities()
  all.textDocument.hover.contentFormat = { 'plaintext' }
  return all
end

--- The settings, as the user's own: they come from init.lua, not from a workspace.
local function init_options(settings)
  local own = vim.tbl_extend('force', {}, settings)
  own.trusted = nil
  return { trusted = vim.tbl_deep_extend('force', own, settings.trusted or {}) }
end

--- The configuration. opts: cmd, settings and progress, as setup() takes them.
function M.make(opts)
  opts = opts or {}
  local cmd = opts.cmd or CMD
  if type(cmd) == 'table' then -- an absolute path, so that the folder Neovim is in does not matter
    cmd = vim.deepcopy(cmd)
    local program = vim.fn.exepath(cmd[1])
    cmd[1] = program ~= '' and program or cmd[1]
  end
  vim.schedule(M.check_program)
  M.made = { -- no filetypes: all of them
    cmd = cmd, root_markers = { '.git' }, init_options = init_options(opts.settings or {}),
    capabilities = capabilities(), progress = opts.progress ~= false,
    handlers = { ['lsp-calib/status'] = status.on_status, ['window/showMessage'] = on_message },
    on_init = function(client)
      start()
      badges.take(client.server_capabilities)
      status.suggestions().watch(client)
    end,
    on_attach = function(_, buf)
      status.suggestions().attach(buf)
      cursor.entered()
    end,
    on_exit = on_exit,
  }
  return M.made
end

--- Neovim 0.10: start or reuse the server of a buffer.
local function attach(buf)
  if vim.bo[buf].buftype ~= '' or not vim.api.nvim_buf_is_loaded(buf) then return end
  if type(M.made.cmd) == 'table' and vim.fn.executable(M.made.cmd[1]) == 0 then return M.check_program() end
  local config = vim.tbl_extend('force', M.made, { name = server.NAME, root_dir = vim.fs.root(buf, '.git') })
  vim.lsp.start(config, { bufnr = buf })
end

--- Start the server in the buffers to come and in those that are open.
function M.enable()
  if vim.lsp.enable then return vim.lsp.enable(server.NAME) end
  vim.api.nvim_create_autocmd('FileType', { group = vim.api.nvim_create_augroup('lsp_calib_start', {}),
    callback = function(ev) attach(ev.buf) end })
  for _, buf in ipairs(vim.api.nvim_list_bufs()) do
    if vim.bo[buf].filetype ~= '' then attach(buf) end
  end
end

--- Use opts, and enable the server.
function M.setup(opts)
  local made = M.make(opts)
  if vim.lsp.config then vim.lsp.config(server.NAME, made) end
  M.enable()
end

--- Stop the servers and start them again where they were; start one where there is none.
function M.restart()
  local clients = vim.lsp.get_clients({ name = server.NAME })
  notice.forget()
  if #clients == 0 then
    M.check_program()
    return M.enable()
  end
  for _, client in ipairs(clients) do
    local bufs, tries, again = vim.tbl_keys(client.attached_buffers), 0, nil
    server.stop(client)
    function again()
      tries = tries + 1
      if not vim.lsp.get_client_by_id(client.id) or client:is_stopped() then
        for _, buf in ipairs(bufs) do
          if vim.api.nvim_buf_is_loaded(buf) then vim.lsp.start(client.config, { bufnr = buf }) end
        end
      else
        if tries == 50 then server.stop(client, true) end -- it does not answer
        vim.defer_fn(again, 100)
      end
    end
    vim.defer_fn(again, 100)
  end
end

return M
