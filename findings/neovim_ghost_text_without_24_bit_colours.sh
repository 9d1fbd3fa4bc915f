#!/usr/bin/env bash
# Neovim 0.12.4: in a terminal without 24-bit colours the ghost text of `vim.lsp.inline_completion` looks like typed text in
# the default colour scheme.
#
# Expected: grey, as with 24-bit colours; schemes that Neovim ships have a terminal colour for what is no text.
# Seen: ghost text has the group ComplHint, which is linked to NonText. The default scheme gives NonText a 24-bit colour
#   (guifg) and no terminal colour (ctermfg), nor bold, italic or any other attribute. So with `notermguicolors` the group
#   is empty, and a cell of ghost text has the attributes of Normal. The scheme `habamax`, for one, has a terminal colour.
# Upstream: the colours of the default scheme are in src/nvim/highlight_group.c. We found no issue that names the ghost text
#   of this function; vim/vim pull request 20803 and neovim/neovim 40917 mend the menu for terminals without colours.
# Why it matters: Neovim turns 24-bit colours on by itself only where the terminal says that it has them. Elsewhere a
#   suggestion cannot be told from what was typed, and a client that only links its groups to ComplHint inherits that. It
#   has to give the group a terminal colour itself.
set -euo pipefail
here=$(cd "$(dirname "$0")/.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

cat >"$work/colours.lua" <<'LUA'
vim.o.termguicolors = false
local function group(name) return vim.api.nvim_get_hl(0, { name = name, link = false }) end
local link = vim.api.nvim_get_hl(0, { name = 'ComplHint' }).link
local plain = group('ComplHint')
print('ComplHint is linked to ' .. tostring(link))
print('default: ' .. vim.inspect(plain, { newline = '', indent = '' }))
vim.cmd.colorscheme('habamax')
local other = group('ComplHint')
print('habamax: ' .. vim.inspect(other, { newline = '', indent = '' }))
local only_gui = plain.fg and not plain.ctermfg and vim.tbl_isempty(plain.cterm or {}) and vim.tbl_count(plain) == 1
assert(link == 'NonText' and only_gui and other.ctermfg, 'Neovim has changed: mend this finding')
print('as found')
vim.cmd('qa!')
LUA

version=0.12.4-1
nvim=$(XDG_CACHE_HOME=$work "$here/.ci/debian-package" nvim-forky forky "neovim=$version" "neovim-runtime=$version")
VIMRUNTIME=$nvim/root/usr/share/nvim/runtime "$nvim/run" usr/bin/nvim --headless -n -u NONE -i NONE -l "$work/colours.lua"
