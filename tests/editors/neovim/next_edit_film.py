"""A film strip of the next edit in a real Neovim, with the real server, for the documentation.

    LSP_CALIB_NVIM="$(.ci/neovim)" python tests/editors/neovim/next_edit_film.py [PICTURE]

PICTURE (default docs/img/next-edit-neovim.png) gets the screen of the terminal at four moments: two lines are
changed by hand, the third place is drawn, the key goes there, the key again applies it. No model is needed.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parents[2] / "programs"))
sys.path.insert(0, str(Path(__file__).parent))

from editor_terminal import COLUMNS, EditorTerminal
from nvim import NVIM, Neovim, scripted
from PIL import Image, ImageDraw, ImageFont
from renamed import RENAMED

ROOT = Path(__file__).parents[3]
PICTURE = ROOT / "docs" / "img" / "next-edit-neovim.png"
SPACE = "vim.api.nvim_create_namespace('lsp_calib_next_edit')"
DRAWN = f"return #vim.api.nvim_buf_get_extmarks(0, {SPACE}, 0, -1, {{}})"
FONTS = Path("/usr/share/fonts/truetype/dejavu")
SHOWN = 72  # columns
INK, PAPER, CAPTION = "#cdd6f4", "#1e1e2e", "#a6adc8"
SIZE, GAP = 16, 14


class Strip:
    """Pictures of a terminal's first rows, one below the other, each under a line that says what was done."""

    def __init__(self, rows: int) -> None:
        self._rows = rows
        self._frames: list[tuple[str, list[list[Any]], tuple[int, int]]] = []

    def take(self, caption: str, terminal: EditorTerminal) -> None:
        time.sleep(0.5)  # until all of it is drawn
        screen = terminal._screen
        rows = [[screen.buffer[row][column] for column in range(COLUMNS)] for row in range(self._rows)]
        rows.append([screen.buffer[screen.lines - 2][column] for column in range(COLUMNS)])  # the status line
        self._frames.append((caption, rows, (screen.cursor.y, screen.cursor.x)))
        print(f"--- {caption}", *terminal.lines()[: self._rows], terminal.lines()[-2], sep="\n")

    def save(self, file: Path) -> None:
        plain, bold = (
            ImageFont.truetype(str(FONTS / f"DejaVuSansMono{kind}.ttf"), SIZE) for kind in ("", "-Bold")
        )
        width, height = round(plain.getlength("M")), SIZE + 6
        frame = (self._rows + 2) * height + GAP
        image = Image.new("RGB", (SHOWN * width + 2 * GAP, frame * len(self._frames) + GAP), PAPER)
        draw = ImageDraw.Draw(image)
        for number, (caption, rows, cursor) in enumerate(self._frames):
            top = GAP + number * frame
            draw.text((GAP, top), caption, CAPTION, bold)
            for at, row in enumerate(rows, 1):
                for column, cell in enumerate(row[:SHOWN]):
                    ink = INK if cell.fg == "default" else f"#{cell.fg}" if len(cell.fg) == 6 else cell.fg
                    paper = PAPER if cell.bg == "default" else f"#{cell.bg}" if len(cell.bg) == 6 else cell.bg
                    if cell.reverse != ((at - 1, column) == cursor):
                        ink, paper = paper, ink
                    x, y = GAP + column * width, top + at * height
                    draw.rectangle((x, y, x + width - 1, y + height - 1), paper)
                    draw.text((x, y + 1), cell.data, ink, bold if cell.bold else plain)
                    if cell.strikethrough:
                        draw.line((x, y + height // 2, x + width, y + height // 2), ink, 1)
                    if cell.underscore:
                        draw.line((x, y + height - 3, x + width, y + height - 3), ink, 1)
        image.quantize(128).save(file, optimize=True)


def main(picture: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="nvim-") as temporary:
        folder = Path(temporary)
        (folder / "editor").mkdir()
        (folder / "home").mkdir(mode=0o700)
        file = folder / "box.py"
        file.write_text(RENAMED)
        nvim = Neovim(NVIM, folder / "editor", file, server=scripted(folder, {}), home=folder / "home")
        nvim.attached()
        nvim.lua(
            "vim.cmd('set termguicolors number nohlsearch noruler noshowcmd laststatus=2 signcolumn=no')"
            " vim.cmd.colorscheme('catppuccin')"
            " vim.o.statusline = [[ %t%m%=%{v:lua.require'lsp_calib'.statusline()}  %l:%c ]]"
        )
        command = [NVIM, "--server", nvim.socket, "--remote-ui"]
        terminal = EditorTerminal(command, {}, folder)
        try:
            strip = Strip(len(RENAMED.splitlines()))
            for keys in ("3G/size<CR>cw", *"width", "<Esc>", "n", "."):
                nvim.keys(keys)
            strip.take("size was renamed by hand, in two lines", terminal)
            nvim.keys("j")
            nvim.until("the next edit", lambda: nvim.lua(DRAWN))
            strip.take("The cursor leaves the line: the next place is drawn", terminal)
            nvim.keys("<M-j>")
            strip.take("Alt+J goes there", terminal)
            nvim.keys("<M-j>")
            nvim.until("the one after it", lambda: nvim.lua(DRAWN))
            strip.take("Alt+J again applies it and goes on to the next one", terminal)
            strip.save(picture)
        finally:
            terminal.close()
            nvim.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else PICTURE)
