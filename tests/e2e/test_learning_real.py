"""Labels that nobody was asked for, with the real server and the real model: replayed lines, and commits."""

from __future__ import annotations

import asyncio
import json
import math
import sqlite3
from pathlib import Path

import pytest
from real_server import PATIENCE

from lsp_calib.confidence.features import PLACES
from lsp_calib.tools.client import Document

pytestmark = [pytest.mark.model, pytest.mark.long]

TYPED = [f"second_value_{letter} = convert(first_value_{letter}, 2)" for letter in "abcd"]
ABOVE = "".join(f"first_value_{letter} = convert(read('{letter}'), 1)\n" for letter in "abcd")


def replayed(home: Path) -> list[tuple[str, int, str, str, str, float]]:
    """(how, correct, log-probabilities, features, place, confidence) of each replayed line."""
    path = home / "feedback.db"
    if not path.exists():
        return []
    connection = sqlite3.connect(path, timeout=5)
    try:
        return connection.execute(
            "SELECT l.how, l.correct, s.logprobs, s.features, s.place, s.confidence FROM suggestions s "
            "JOIN labels l ON l.suggestion_id = s.id WHERE s.source = 'replay'"
        ).fetchall()
    finally:
        connection.close()


async def test_lines_that_were_typed_are_replayed(start, tmp_path: Path) -> None:
    """With probabilities, features and a confidence as a suggestion's, and no text on disk. The next
    completion of the user is answered as ever."""
    path = tmp_path / "module.py"
    path.write_text(f"{ABOVE}\n\n", "utf-8")
    home = tmp_path / "home"
    async with start() as editor:
        document = Document(editor, path, "python")
        for number, line in enumerate(TYPED, 5):
            for column, letter in enumerate(line):
                document.edit((number, column), (number, column), letter)
            document.edit((number, len(line)), (number, len(line)), "\n")
        document.save()
        # After each one the machine rests for four times as long as it took.
        async with asyncio.timeout(2 * PATIENCE):
            while len(replayed(home)) < 2:
                await asyncio.sleep(0.5)
        status = await editor.command("lsp-calib.status")
        assert status["replay"]["labels"] >= 2
        assert status["replay"]["waiting"] <= len(TYPED) - 2
        assert status["tiers"] == {"accept": 0, "review": 0, "reject": 0}, "nothing was shown"
        await document.complete(3, 8, PATIENCE)
    for how, correct, logprobs, features, place, confidence in replayed(home):
        assert how == ("typed" if correct else "typed over")
        assert all(value <= 0 and math.isfinite(value) for value in json.loads(logprobs))
        assert len(json.loads(features)) > 3
        assert place in PLACES
        assert 0 < confidence < 1
    written = b"".join(one.read_bytes() for one in home.rglob("*") if one.is_file() and one.suffix != ".gguf")
    for line in TYPED:
        assert line.encode() not in written
        assert line.split()[0].encode() not in written
