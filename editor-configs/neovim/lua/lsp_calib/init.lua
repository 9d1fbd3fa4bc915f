-- lsp-calib for Neovim: suggestions with a badge that says how likely they are to be right. See :help lsp_calib.
local M = {}

local function suggestions() return require('lsp_calib.status').suggestions() end

--- Start the server, now and in buffers to come. opts, all optional:
---   cmd       the server's command line, { 'lsp-calib', 'serve', '--trust-editor' }
---   settings  the server's settings, such as { tiers = { preset = 'cautious' } }
---   progress  false: do not show that the model is being loaded
---   keys      'suggested', or a table with some of trigger, accept, word, line, sure, next, prev, dismiss, go, apply; none
---             are set otherwise
function M.setup(opts)
  opts = opts or {}
  require('lsp_calib.commands').register()
  for key in vim.spairs(opts) do
    if not vim.list_contains({ 'cmd', 'settings', 'progress', 'keys' }, key) then
      require('lsp_calib.notice').tell(
        ('setup() has no key %q; it takes cmd, settings, progress and keys. Server settings stand in `settings`.'):format(key),
        vim.log.levels.WARN)
    end
  end
  require('lsp_calib.config').setup(opts)
  require('lsp_calib.keys').set(opts.keys)
end

--- Accept the suggestion on screen. These return false if there is none, so that a mapping can do something else.
function M.accept() return suggestions().accept() end

--- Accept its next word, or run of punctuation.
function M.accept_word() return suggestions().accept_word() end

--- Accept it up to the end of the line.
function M.accept_line() return suggestions().accept_line() end

--- Accept the part of it that can be trusted.
function M.accept_sure() return suggestions().accept_sure() end

--- Insert mode behind the cursor, as by `a`.
local function append()
  local row, col = unpack(vim.api.nvim_win_get_cursor(0))
  local rest = vim.api.nvim_get_current_line():sub(col + 1)
  local character = vim.fn.matchstr(rest, '^.')
  if rest == character then return vim.cmd('startinsert!') end
  vim.api.nvim_win_set_cursor(0, { row, col + #character })
  vim.cmd.startinsert()
end

--- Ask for a suggestion by hand, with its alternatives; of one on screen show the next alternative. In normal mode insert
--- mode begins behind the cursor. False where there is no server, or suggestions are off.
function M.trigger()
  local client = require('lsp_calib.server').of(0)
  if not client or not vim.bo.modifiable or not suggestions().can_ask(vim.api.nvim_get_current_buf()) then return false end
  if vim.api.nvim_get_mode().mode ~= 'n' then return suggestions().trigger() end
  vim.api.nvim_create_autocmd('InsertEnter', { buffer = 0, once = true, callback = function()
    vim.schedule(function() suggestions().trigger() end)
  end })
  append()
  return true
end

--- Show the next or the previous alternative.
function M.next() return suggestions().select(1) end
function M.prev() return suggestions().select(-1) end
function M.select(count) return suggestions().select(count) end

--- Choose one of the alternatives from a list, and accept it.
function M.alternatives() return suggestions().alternatives() end

--- Take the suggestion off the screen; without one, the next edit.
function M.dismiss() return suggestions().dismiss() or require('lsp_calib.next_edit').dismiss() end

--- Go to the next edit; at its place, apply it and go on. False if there is none.
function M.go() return require('lsp_calib.next_edit').go() end

--- Apply the next edit, and go on to the one after it. Not from within an expression mapping: it changes text.
function M.apply() return require('lsp_calib.next_edit').apply() end

--- For 'statusline': %{v:lua.require'lsp_calib'.statusline()}
function M.statusline() return require('lsp_calib.status').statusline() end

--- Do what :LspCalib does with these words, such as command('pause', '30').
function M.command(...) require('lsp_calib.commands').run({ ... }) end

return M
