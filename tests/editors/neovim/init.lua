-- What the test and the screenshot start Neovim with: the shipped configuration and nothing else.
-- LSP_CALIB_SERVER: the server's program, or its whole command line.
local server = vim.env.LSP_CALIB_SERVER or 'lsp-calib'
local cmd = vim.fn.executable(server) == 1 and { server, 'serve' } or vim.split(server, ' ', { trimempty = true })
local here = vim.fs.dirname(debug.getinfo(1, 'S').source:sub(2))
vim.opt.runtimepath:prepend(vim.fs.normalize(here .. '/../../../editor-configs/neovim'))
vim.o.swapfile = false
require('lsp_calib').setup({ cmd = cmd })

-- For the test: the commands the server has answered.
vim.g.commands_answered = 0
vim.api.nvim_create_autocmd('LspRequest', {
  callback = function(ev)
    local request = ev.data.request
    if request.method == 'workspace/executeCommand' and request.type == 'complete' then
      vim.g.commands_answered = vim.g.commands_answered + 1
    end
  end,
})
