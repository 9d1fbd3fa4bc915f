#!/bin/sh
# A picture of a suggestion in the completion menu of a real Kate, with the real server and model.
#   screenshot.sh PICTURE.png
# Needs kate, dbus-run-session, Xvfb, xdotool and ImageMagick. LSP_CALIB_SERVER: the server's program (lsp-calib).
# SECONDS_TO_WAIT (20): for the model. Nothing tells when Kate has drawn its menu: look at the picture.
set -eu
picture=${1:?usage: screenshot.sh PICTURE.png}
server=$(command -v "${LSP_CALIB_SERVER:-lsp-calib}") || { echo "screenshot.sh: no lsp-calib" >&2; exit 1; }
for program in kate dbus-run-session Xvfb xdotool import; do
    command -v "$program" >/dev/null || { echo "screenshot.sh: $program is not there" >&2; exit 1; }
done
folder=$(mktemp -d)
display_pid='' kate_pid=''
clean() {
    [ -z "$kate_pid" ] || kill "$kate_pid" 2>/dev/null || true
    [ -z "$display_pid" ] || kill "$display_pid" 2>/dev/null || true
    sleep 1
    rm -rf "$folder"
}
trap clean EXIT
trap 'exit 1' INT TERM

mkdir -p "$folder/config/kate/lspclient" "$folder/run"
chmod 700 "$folder/run"
sed "s|\"lsp-calib\", \"serve\"|\"$server\", \"serve\"|" "$(dirname "$0")/../../../editor-configs/kate/settings.json" \
    >"$folder/config/kate/lspclient/settings.json"
cat >"$folder/config/katerc" <<CONFIG
[Kate Plugins]
lspclientplugin=true
katesnippetsplugin=false
[KTextEditor View]
Word Completion=false
Keyword Completion=false
[lspclient]
AllowedServerCommandLines=$server serve
CONFIG
cat >"$folder/basket.py" <<'PYTHON'
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

Xvfb -displayfd 3 -screen 0 900x560x24 -nolisten tcp 3>"$folder/display" >/dev/null 2>&1 &
display_pid=$!
while [ ! -s "$folder/display" ]; do
    kill -0 "$display_pid" || exit 1
    sleep 0.1
done
DISPLAY=:$(cat "$folder/display")
export DISPLAY
cd "$folder"
XDG_CONFIG_HOME=$folder/config XDG_RUNTIME_DIR=$folder/run XDG_DATA_HOME=$folder/data XDG_CACHE_HOME=$folder/cache \
    dbus-run-session -- kate -n --startanon basket.py >"$folder/log" 2>&1 &
kate_pid=$!
window=$(timeout 60 xdotool search --sync --onlyvisible --name 'basket.py' | head -n 1)
xdotool windowmove "$window" 0 0 windowsize "$window" 900 560
sleep 3
xdotool mousemove 450 250 click 1
xdotool key ctrl+End
xdotool type --delay 120 '        retu'
sleep "${SECONDS_TO_WAIT:-20}"
xdotool key Escape
sleep 1
xdotool key ctrl+space
sleep 2
import -window root "$picture"
echo "$picture"
