-- What the tests and the screenshots start Neovim with: the shipped plugin and nothing else.
-- LSP_CALIB_SERVER: the server's program, or its whole command line. LSP_CALIB_SETUP: further options of setup(), JSON.
local server = vim.env.LSP_CALIB_SERVER or 'lsp-calib'
local cmd = vim.fn.executable(server) == 1 and { server, 'serve', '--trust-editor' } or vim.split(server, ' ', { trimempty = true })
local here = vim.fs.dirname(debug.getinfo(1, 'S').source:sub(2))
vim.opt.runtimepath:prepend(vim.fs.normalize(here .. '/../../../editor-configs/neovim'))
vim.o.swapfile = false
local options = vim.json.decode(vim.env.LSP_CALIB_SETUP or '{"keys": "suggested"}')
require('lsp_calib').setup(vim.tbl_extend('keep', options, { cmd = cmd }))
