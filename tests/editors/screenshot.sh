#!/bin/sh
# A picture of a suggestion and its tier in a real Helix or Emacs, in a real terminal, with the real server and model.
#   screenshot.sh helix|emacs PICTURE.png
# Needs Xvfb, xterm, ImageMagick and DejaVu fonts. LSP_CALIB_HELIX, LSP_CALIB_EMACS: the editor. PYTHON: a Python with
# the extra `editors`; the lsp-calib beside it is the server.
set -eu
editor=${1:?usage: screenshot.sh helix|emacs PICTURE.png}
picture=${2:?usage: screenshot.sh helix|emacs PICTURE.png}
programs=$(cd "$(dirname "$0")/../programs" && pwd)
python=$(command -v "${PYTHON:-python}")
PATH=$(dirname "$python"):$PATH
export PATH
for program in Xvfb xterm import xwininfo; do
    command -v "$program" >/dev/null || { echo "screenshot.sh: $program is not there" >&2; exit 1; }
done
folder=$(mktemp -d)
display_pid='' terminal_pid=''
clean() {
    touch "$folder/done"
    sleep 2
    [ -z "$terminal_pid" ] || kill "$terminal_pid" 2>/dev/null || true
    [ -z "$display_pid" ] || kill "$display_pid" 2>/dev/null || true
    rm -rf "$folder"
}
trap clean EXIT
trap 'exit 1' INT TERM

Xvfb -displayfd 3 -screen 0 1600x1000x24 -nolisten tcp 3>"$folder/display" >/dev/null 2>&1 &
display_pid=$!
while [ ! -s "$folder/display" ]; do
    kill -0 "$display_pid" || exit 1
    sleep 0.1
done
DISPLAY=:$(cat "$folder/display")
export DISPLAY
# As large as the screen of editor_terminal.
xterm -fa 'DejaVu Sans Mono' -fs 13 -geometry 100x30+0+0 -b 10 -bg '#1e1e2e' -fg '#cdd6f4' -xrm 'XTerm*borderWidth: 0' \
    -e sh -c "'$python' '$programs/editor_picture.py' '$editor' '$folder/ready' '$folder/done' 2>'$folder/log' || touch '$folder/failed'" &
terminal_pid=$!
while [ ! -e "$folder/ready" ]; do
    [ ! -e "$folder/failed" ] || { tail -n 40 "$folder/log" >&2; exit 1; }
    kill -0 "$terminal_pid" 2>/dev/null || { echo "screenshot.sh: the terminal has closed" >&2; exit 1; }
    sleep 0.2
done
window=$(xwininfo -root -children | awk '/[Xx][Tt]erm/ { print $1; exit }')
import -window "$window" "$picture"
echo "$picture"
