-- Only the command is there from the start. No server is started and no key is mapped until init.lua says so, by
-- require('lsp_calib').setup() or vim.lsp.enable('lsp_calib'): a model takes memory and a share of the processor.
if vim.g.loaded_lsp_calib then return end
vim.g.loaded_lsp_calib = true
if vim.fn.has('nvim-0.10') == 1 then require('lsp_calib.commands').register() end
