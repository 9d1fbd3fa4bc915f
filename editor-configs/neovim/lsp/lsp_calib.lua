-- For vim.lsp.enable('lsp_calib'): Neovim 0.11 and later find this file on the runtimepath.
return require('lsp_calib.config').make()
