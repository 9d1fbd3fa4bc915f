"""How long Neovim takes from a key to ghost text, beside the server's own time for the answer.

    LSP_CALIB_NVIM=$(.ci/neovim) .venv/bin/python tests/editors/neovim/latency.py [PLACES]

Lines of a file of this repository are cut off in their middle, one character is typed there, and the times
are taken inside Neovim: of the key, of the request, and of the badge, which is drawn right after the ghost
text. The model is the default one, installed in the user's state folder, where nothing of this is recorded.
"""

from __future__ import annotations

import os
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

from nvim import NVIM, SERVER, Neovim, short_folder

from lsp_calib.inference.models.cards import load_cards

SUBJECT = Path(__file__).parents[3] / "lsp_calib" / "server" / "text.py"
PATIENCE = 20.0  # seconds for one answer; a place without a suggestion is left out
WATCH = """
local badge = vim.api.nvim_create_namespace('lsp_calib')
local key, asked
vim.on_key(function() key = vim.uv.hrtime() end)
vim.api.nvim_create_autocmd('LspRequest', { callback = function(ev)
  local request = ev.data.request
  if request.method == 'textDocument/inlineCompletion' and request.type == 'pending' then
    asked = { key = key, asked = vim.uv.hrtime() }
  end
end })
local set = vim.api.nvim_buf_set_extmark
vim.api.nvim_buf_set_extmark = function(buf, ns, ...)
  local id = set(buf, ns, ...)
  if ns == badge and asked then
    local timing = require('lsp_calib.inline').last(buf).timing
    _G.measured = { wait = (asked.asked - asked.key) / 1e6, answer = (vim.uv.hrtime() - asked.asked) / 1e6,
      server = timing.totalMs }
    asked = nil
  end
  return id
end
"""


def measure(nvim: Neovim, row: int, column: int, char: str) -> dict[str, float] | None:
    """Times in milliseconds: from the key to the request, from it to the badge, and the server's own."""
    nvim.lua("_G.measured = nil")
    nvim.keys(f"{row}G0{column}lC{'<lt>' if char == '<' else char}")
    end, measured = time.monotonic() + PATIENCE, None
    while measured is None and time.monotonic() < end:
        time.sleep(0.1)
        measured = nvim.lua("return _G.measured")
        if measured is None and time.monotonic() > end - PATIENCE + 8 and not nvim.ghosts():
            break  # nothing to add
    nvim.keys("<Esc>u")
    return measured


def places(text: str, n: int) -> list[tuple[int, int, str]]:
    """(row from 1, column, character) in the middle of n lines, spread over the text."""
    found = []
    for row, line in enumerate(text.splitlines(), 1):
        start = len(line) - len(line.lstrip())
        if len(line) - start >= 16 and line[start] not in "#\"'" and line[middle := start + 8] != " ":
            found.append((row, middle, line[middle]))
    return found[:: max(len(found) // n, 1)][:n]


def main() -> int:
    wanted = int(sys.argv[1]) if len(sys.argv) > 1 else 15
    if not NVIM or not SERVER:
        sys.exit("latency.py needs LSP_CALIB_NVIM and a server; see the head of this file.")
    model = load_cards()["smollm2-135m"].path
    with short_folder() as folder:
        home = folder / "home"
        (home / "models").mkdir(parents=True)
        home.chmod(0o700)
        (home / "models").chmod(0o700)
        for file in model.parent.glob(f"{model.stem.split('.')[0]}*"):
            (home / "models" / file.name).symlink_to(file)
        file = folder / SUBJECT.name
        file.write_text(SUBJECT.read_text("utf-8"), "utf-8")
        os.environ.pop("LSP_CALIB_MODEL", None)
        nvim = Neovim(NVIM, folder, file, server=SERVER, home=home)
        try:
            nvim.attached()
            nvim.lua(WATCH)
            status = "return require('lsp_calib').statusline()"
            nvim.until("the model", lambda: "smollm2" in nvim.lua(status), 120)
            spots = places(file.read_text("utf-8"), wanted + 1)
            rows: list[dict[str, float]] = [row for spot in spots if (row := measure(nvim, *spot))]
        finally:
            nvim.close()
    rows = rows[1:]  # the first one reads the whole prompt
    if not rows:
        sys.exit("No place had a suggestion.")

    def show(what: str, times: Callable[[dict[str, float]], float]) -> None:
        print(f"  {what:<36} {statistics.median(map(times, rows)):6.1f}")

    print(f"{len(rows)} of {len(spots) - 1} places had a suggestion; medians in milliseconds:")
    show("key to ghost text and badge", lambda row: row["wait"] + row["answer"])
    show("the server's own time", lambda row: row["server"])
    show("over that", lambda row: row["wait"] + row["answer"] - row["server"])
    show("of it, until Neovim asks", lambda row: row["wait"])
    show("of it, there and back, and drawing", lambda row: row["answer"] - row["server"])
    return 0


if __name__ == "__main__":
    sys.exit(main())
