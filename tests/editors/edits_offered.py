"""The edits that `edit_server.py` offers, as a test names them, and what the editor made of that."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from told import Wire

METHOD = "lsp-calib/nextEdit"
PROGRAM = Path(__file__).with_name("edit_server.py")

# Bytes of a unit of a position.
ENCODINGS = {"utf-8": 1, "utf-16": 2, "utf-32": 4}


def _range(line: int, before: str, text: str, encoding: str) -> dict[str, Any]:
    """Where a text stands behind another one in a line (from 0)."""

    def units(part: str) -> int:
        name = encoding if encoding == "utf-8" else f"{encoding}-le"
        return len(part.encode(name)) // ENCODINGS[encoding]

    ends = units(before), units(before + text)
    start, end = ({"line": line, "character": character} for character in ends)
    return {"start": start, "end": end}


class EditsOffered:
    """folder: for the script. file: whose edits are offered, unless another one is named. announced: whether
    the server says that it has next edits."""

    def __init__(self, folder: Path, file: Path, *, announced: bool = True) -> None:
        self.script = folder / "edits.json"
        self.wire = Wire(folder / "edits-wire.jsonl")
        self.file = file
        self._told: dict[str, Any] = {"edits": [], "wire": str(self.wire.file), "announced": announced}
        self.offers()

    def behind(self, *server: str) -> list[str]:
        """The words of a command line: of the server that offers them, before that one."""
        return [sys.executable, str(PROGRAM), str(self.script), *server]

    def offers(self, *places: tuple[int, str], new: str = "width", **more: Any) -> None:
        """Offers to change an old text, the first one in a line (from 1), to a new one; in this order.

        more: path, of another document; after, the text before an insertion; members of the answer.
        """
        path, after = more.pop("path", self.file), more.pop("after", None)
        lines = path.read_text("utf-8").splitlines()
        for number, old in places:
            line = lines[number - 1]
            start = line.index(after) + len(after) if after else line.index(old)
            ranges = {name: _range(number - 1, line[:start], old, name) for name in ENCODINGS}
            edit = {
                "id": f"edit-{number}",
                "kind": "edit",
                "uri": path.as_uri(),
                "range": ranges,
                "text": new,
                "confidence": 0.91,
                "tier": "accept",
                "reason": "done once so far",
            }
            self._told["edits"].append(edit | more)
        self.script.write_text(json.dumps(self._told))

    def asked(self) -> list[tuple[str, int]]:
        """File and line, from 1, of each request."""
        places = [one["params"] for one in self.wire.read() if one.get("method") == METHOD]
        return [(Path(one["textDocument"]["uri"]).name, one["position"]["line"] + 1) for one in places]

    def settled(self) -> list[tuple[str, str]]:
        """What the server was told of its edits: command and id."""
        commands = [
            one["params"] for one in self.wire.read() if one.get("method") == "workspace/executeCommand"
        ]
        return [
            (one["command"].removeprefix("lsp-calib."), one["arguments"][0]["id"])
            for one in commands
            if "lsp-calib.edit" in one["command"]
        ]
