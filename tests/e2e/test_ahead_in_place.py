"""With the real model: where the cursor rests the prompt is evaluated, and the first key finds it so."""

from __future__ import annotations

import asyncio
import re
import time
from pathlib import Path

import pytest
from real_server import PATIENCE, SERVER

from lsp_calib.home import private_folder
from lsp_calib.tools.client import Document, Editor

pytestmark = pytest.mark.model

PYTHON = "".join(
    f"def area_{n}(width, height):\n    if width < {n}:\n        return 0\n    return width * height\n\n\n"
    for n in range(9)
)
GO = "package main\n\n" + "".join(
    f"func area{n}(width, height int) int {{\n\tif width < {n} {{\n\t\treturn 0\n\t}}\n"
    "\treturn width * height\n}\n\n"
    for n in range(9)
)
TYPESCRIPT = "".join(
    f"export class Shape{n} {{\n  constructor(readonly width: number, readonly height: number) {{}}\n\n"
    f"  area(): number {{\n    return this.width * this.height;\n  }}\n}}\n\n"
    for n in range(9)
)
# Of each document one part, with a cursor: at a line's end, within a line, on an empty line, between closers.
PLACES = {
    "python": (
        "a.py",
        PYTHON,
        ["def area_5(width, height):‸", "        return‸ 0", "    ‸\n", "total = sum(‸)"],
        "r",
    ),
    "go": ("a.go", GO, ["\treturn width‸", "\tif wid‸ {", "‸\n", "\tfmt.Println(‸)"], "x"),
    "typescript": ("a.ts", TYPESCRIPT, ["const shape =‸", "const area‸: number", "  ‸\n", "run([‸]);"], "w"),
}


def spent(log: Path, since: int, words: str) -> tuple[int, int]:
    """The tokens of a prompt and those of them that were known before, by what the log says since."""
    line = re.search(rf"{words} .*a prompt of (\d+) tokens, (\d+) of them known", log.read_text()[since:])
    assert line is not None, log.read_text()[since:]
    return int(line[1]), int(line[2])


async def test_the_first_key_evaluates_hardly_anything(environment: dict[str, str], tmp_path: Path) -> None:
    """Each place is far from the one before, so that its prompt is another one."""
    home, log = Path(environment["LSP_CALIB_HOME"]), tmp_path / "log"
    private_folder(home)
    (home / "config.toml").write_text('window = "small"\n')
    editor = Editor()
    await editor.start([*SERVER, "--log-file", str(log)], env=environment, cwd=tmp_path)
    try:
        await editor.open_session(tmp_path, {})
        await editor.until(lambda: editor.state == "ready", "loading the model", PATIENCE)
        for language, (name, text, marked, key) in PLACES.items():
            (tmp_path / name).write_text(text)
            document = Document(editor, tmp_path / name, language)
            for n, line in enumerate(marked):
                before, after = line.rstrip("\n").split("‸")
                at = 20 + 8 * n
                document.edit((at, 0), (at, 0), f"{before}{after}\n")
                since, column = len(log.read_text()), len(before)
                place = document.position(at, column)
                told = {"line": place.line, "character": place.character}
                editor.tell("lsp-calib/cursor", {"textDocument": {"uri": document.uri}, "position": told})
                deadline = time.monotonic() + PATIENCE
                while f"Evaluated {at + 1}:{column + 1} ahead" not in log.read_text()[since:]:
                    assert time.monotonic() < deadline, "waited in vain for the evaluation"
                    await asyncio.sleep(0.05)
                tokens, _ = spent(log, since, "Evaluated")
                assert tokens >= 100, "a prompt that is worth it"
                document.replace(at, column, column, key)
                await document.complete(at, column + 1, PATIENCE)
                tokens, known = spent(log, since, "Answered")
                assert tokens - known <= 25, (language, line)
        ahead = (await editor.command("lsp-calib.status"))["ahead"]
        assert 0 < ahead["used"] <= ahead["evaluated"]
        assert ahead["seconds"] > 0
    finally:
        await editor.close()
