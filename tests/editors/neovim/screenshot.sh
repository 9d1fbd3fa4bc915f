#!/bin/sh
# A picture of a suggestion and its badge, or of a hover, in a real Neovim, in a real terminal.
#   screenshot.sh PICTURE.png [FILE KEYS]
# FILE is opened (a copy of it) and KEYS are typed at its end (Neovim's notation, insert mode included); the
# picture is taken once the badge is on screen, or with SHOW=hover the summary. Needs Xvfb, xterm, ImageMagick and
# DejaVu fonts. The model is the default one of the user, or LSP_CALIB_MODEL; what is shown is not recorded.
# LSP_CALIB_NVIM: nvim, 0.12 or later. LSP_CALIB_SERVER: the server's program or command line.
# COLORSCHEME (catppuccin) and BACKGROUND (dark; or light), FONT_SIZE (15), GEOMETRY (86x19), SECONDS_TO_WAIT (120).
set -eu
picture=${1:?usage: screenshot.sh PICTURE.png [FILE KEYS]}
here=$(cd "$(dirname "$0")" && pwd)
nvim=${LSP_CALIB_NVIM:-nvim}
for program in "$nvim" Xvfb xterm import xwininfo; do
    command -v "$program" >/dev/null || { echo "screenshot.sh: $program is not there" >&2; exit 1; }
done
folder=$(mktemp -d)
home=$folder/home # of this picture alone; the models are the user's
mkdir -m 700 "$home"
ln -s "${LSP_CALIB_HOME:-${XDG_DATA_HOME:-$HOME/.local/share}/lsp-calib}/models" "$home/models"
server_pid='' terminal_pid='' editor_pid=''
clean() {
    "$nvim" --server "$folder/nvim.sock" --remote-expr 'execute("qall!")' >/dev/null 2>&1 || true
    [ -z "$editor_pid" ] || kill "$editor_pid" 2>/dev/null || true
    [ -z "$terminal_pid" ] || kill "$terminal_pid" 2>/dev/null || true
    [ -z "$server_pid" ] || kill "$server_pid" 2>/dev/null || true
    rm -rf "$folder"
}
trap clean EXIT
trap 'exit 1' INT TERM

if [ $# -ge 3 ]; then
    file=$folder/$(basename "$2")
    cp "$2" "$file"
    keys=$3
else
    file=$folder/basket.py
    cat >"$file" <<'PYTHON'
"""A shopping basket."""


class Basket:
    """Articles and what they cost."""

    def __init__(self):
        self.prices = []

    def add(self, price):
        """Put one more article into the basket."""
        self.prices.append(price)

    def total(self):
        """The sum of all the prices."""
PYTHON
    keys='Goret' # Neovim indents
fi

Xvfb -displayfd 3 -screen 0 1600x1000x24 -nolisten tcp 3>"$folder/display" >/dev/null 2>&1 &
server_pid=$!
while [ ! -s "$folder/display" ]; do
    kill -0 "$server_pid" || exit 1
    sleep 0.1
done
DISPLAY=:$(cat "$folder/display")
export DISPLAY

# A Neovim that was unpacked cannot start itself, as `nvim` in a terminal does: so its screen is attached to it.
XDG_STATE_HOME=$folder LSP_CALIB_HOME=$home "$nvim" --headless --clean -u "$here/init.lua" --listen "$folder/nvim.sock" \
    -c 'set termguicolors number noruler noshowcmd laststatus=2 signcolumn=no shortmess+=I' \
    -c "set background=${BACKGROUND:-dark}" -c "colorscheme ${COLORSCHEME:-catppuccin}" \
    -c "set statusline=\ %t%m%=%{v:lua.require\'lsp_calib\'.statusline()}\ \ %l:%c\ " \
    "$file" >/dev/null 2>&1 &
editor_pid=$!
tries=100
while [ ! -S "$folder/nvim.sock" ] && [ "$tries" -gt 0 ]; do
    sleep 0.1
    tries=$((tries - 1))
done
case ${BACKGROUND:-dark} in light) paper='#eff1f5' ink='#4c4f69' ;; *) paper='#1e1e2e' ink='#cdd6f4' ;; esac
XDG_STATE_HOME=$folder COLORTERM=truecolor xterm -fa 'DejaVu Sans Mono' -fs "${FONT_SIZE:-15}" \
    -geometry "${GEOMETRY:-86x19}+0+0" -b 10 -bg "$paper" -fg "$ink" -xrm 'XTerm*borderWidth: 0' \
    -e "$nvim" --server "$folder/nvim.sock" --remote-ui &
terminal_pid=$!

remote() { "$nvim" --server "$folder/nvim.sock" "$@" 2>&1; }
give_up() {
    echo "screenshot.sh: $1" >&2
    remote --remote-expr 'execute("messages")' >&2 || true
    tail -c 2000 "$folder/nvim/lsp.log" >&2 || true
    exit 1
}
# wait_for WHAT LUA: until the Lua expression is greater than 0
wait_for() {
    tries=$((${SECONDS_TO_WAIT:-120} * 5))
    until [ "$(remote --remote-expr "luaeval('$2')")" -gt 0 ] 2>/dev/null; do
        tries=$((tries - 1))
        kill -0 "$terminal_pid" 2>/dev/null || give_up 'the terminal has closed'
        [ "$tries" -gt 0 ] || give_up "no $1 within ${SECONDS_TO_WAIT:-120} s"
        sleep 0.2
    done
}

wait_for 'model' 'require("lsp_calib").statusline():find("[○●]") or 0'
remote --remote-send "$keys" >/dev/null
if [ "${SHOW:-badge}" = hover ]; then
    # The first hover says that the summary is being made; the cursor closes it, and then it is there.
    float='#vim.tbl_filter(function(win) return vim.api.nvim_win_get_config(win).relative ~= "" end, vim.api.nvim_list_wins())'
    wait_for 'hover' "$float"
    remote --remote-send 'l' >/dev/null
    sleep "${SUMMARY_SECONDS:-10}"
    remote --remote-send 'hK' >/dev/null
    wait_for 'hover' "$float"
else
    wait_for 'badge' '#vim.api.nvim_buf_get_extmarks(0, vim.api.nvim_create_namespace("lsp_calib"), 0, -1, {})'
fi
sleep 1
window=$(xwininfo -root -children | awk '/[Xx][Tt]erm/ { print $1; exit }')
import -window "$window" "$picture"
echo "$picture"
