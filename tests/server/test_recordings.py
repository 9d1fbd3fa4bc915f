"""What real editors send for what people do, replayed: labels, marks and where they stand.

tests/programs/record_edits.py has recorded it, and its table says what was done and what a person would say.
Times pass as they did; files are written as they were: by the editor with each save, and by another program
(it adds `WRITTEN`) before the editor shows that.
"""

from __future__ import annotations

import asyncio
import json
import os
import time
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import attrs
import pytest
from conftest import Connect
from label_author import NOTICED
from label_situations import NONE
from lsprotocol import types
from pygls.protocol import default_converter
from scripted_editor import PATIENCE, Editor

RECORDINGS = Path(__file__).parent / "recordings"
SUGGESTED = "net + tax"
LINE = f"    total = {SUGGESTED}"
SCRIPT = {
    "clock": True,
    "answers": {
        LINE[:end]: {"text": LINE[end:], "logprobs": [-0.1, -0.2]}
        for end in range(len("    total = "), len(LINE))
    },
}
WRITTEN = "# Prices.\n"

TABLE = Path(__file__).parents[1] / "programs" / "record_edits.toml"
TABLES = {"emacs-eglot": ("emacs",), "emacs-lsp-mode": ("emacs",), "neovim": ("neovim", "neovim-menu")}


@cache
def labels(editor: str) -> dict[str, str]:
    """What a person would say of the suggestion, by what was done."""
    table = tomllib.loads(TABLE.read_text("utf-8"))
    actions = [pair for name in TABLES.get(editor, (editor,)) for pair in table[name].items()]
    return {name: action.get("label", "kept") for name, action in actions}


@attrs.define
class Recording:
    initialize: dict[str, Any]
    messages: list[tuple[float, str, dict[str, Any]]] = attrs.field(factory=list)


@cache
def recorded(editor: str) -> dict[str, Recording]:
    """By what was done."""
    found: dict[str, Recording] = {}
    one = Recording({})
    for line in (RECORDINGS / f"{editor}.jsonl").read_text("utf-8").splitlines():
        entry = json.loads(line)
        if "version" in entry:
            one = found[entry["name"]] = Recording(one.initialize)
        elif entry["method"] == "initialize":
            one.initialize = entry["params"]
        else:
            one.messages.append((entry["at"], entry["method"], entry["params"]))
    return found


@attrs.define
class Texts:
    """The documents of an editor, and its files, by URI. Columns count as code points: all of it is ASCII."""

    folder: Path
    open: dict[str, str] = attrs.field(factory=dict)

    def before(self, method: str, params: dict[str, Any]) -> None:
        """What happens to documents and files until a message is sent."""
        for uri, text in list(self._after(method, params)):
            before = self.open.get(uri)
            if before is None or (WRITTEN in text and WRITTEN not in before):
                self._write(uri, text, since=NOTICED)
            self.open[uri] = text
        if method == "textDocument/didSave":
            uri = params["textDocument"]["uri"]
            self._write(uri, self.open[uri])

    def _after(self, method: str, params: dict[str, Any]) -> Iterator[tuple[str, str]]:
        if method == "textDocument/didOpen":
            yield params["textDocument"]["uri"], params["textDocument"]["text"]
        elif method == "textDocument/didChange" and params["textDocument"]["uri"] in self.open:
            uri = params["textDocument"]["uri"]
            yield uri, changed(self.open[uri], params["contentChanges"])
        elif method == "notebookDocument/didOpen":
            yield from ((one["uri"], one["text"]) for one in params["cellTextDocuments"])
        elif method == "notebookDocument/didChange":
            cells = params["change"].get("cells", {})
            for one in cells.get("structure", {}).get("didOpen") or ():
                yield one["uri"], one["text"]
            for one in cells.get("textContent") or ():
                uri = one["document"]["uri"]
                yield uri, changed(self.open[uri], one["changes"])

    def _write(self, uri: str, text: str, since: float = 0.0) -> None:
        if uri.startswith("file:"):
            path = self.folder / uri.rpartition("/")[2]
            path.write_text(text, "utf-8")
            os.utime(path, times=(time.time() - since,) * 2)


def changed(text: str, changes: list[dict[str, Any]]) -> str:
    for change in changes:
        if "range" not in change:
            text = change["text"]
            continue
        lines = text.split("\n")
        start, end = (
            sum(len(line) + 1 for line in lines[: place["line"]]) + place["character"]
            for place in (change["range"]["start"], change["range"]["end"])
        )
        text = text[:start] + change["text"] + text[end:]
    return text


async def replay(connect: Connect, one: Recording, folder: Path) -> Editor:
    """The editor after all messages and a minute."""
    project, converter = folder / "project", default_converter()
    project.mkdir()

    def here(params: dict[str, Any]) -> Any:
        return json.loads(json.dumps(params).replace("file:///project", project.as_uri()))

    said = here(one.initialize)
    client = converter.structure(said["capabilities"], types.ClientCapabilities)
    name = said.get("clientInfo", {}).get("name")
    editor = await connect(SCRIPT, client=client, name=name, root=project.as_uri())
    texts, now = Texts(project), one.messages[0][0]
    for at, method, given in one.messages:
        await editor.later(at - now)
        now = at
        texts.before(method, here(given))
        params = converter.structure(here(given), types.METHOD_TO_TYPES[method][2])
        if method in ("textDocument/completion", "textDocument/inlineCompletion"):
            deadline = time.monotonic() + PATIENCE
            while True:
                asked = editor.client.protocol.send_request_async(method, params)
                await asyncio.wait_for(asked, PATIENCE)
                # A menu does not wait for the model: what the editor got then may come a moment later here.
                shown = await editor.stored("SELECT id FROM suggestions")
                if shown or time.monotonic() > deadline:
                    break
        else:
            editor.client.protocol.notify(method, params)
        await editor.status()
        for uri, text in texts.open.items():
            for mark in editor.pushed(uri):
                assert SUGGESTED in text.split("\n")[mark.range.start.line], "the mark stands elsewhere"
    for _ in range(2):
        await editor.later(32.0)
    await editor.in_order()
    assert not any(editor.client.diagnostics.values()), "a mark is left"
    return editor


def played(path: Path) -> list[Any]:
    """VS Code's and Neovim's recordings are for each change, those of the other editors for longer runs."""
    marks = () if path.stem.startswith(("vscode", "neovim")) else (pytest.mark.long,)
    return [pytest.param(path.stem, name, marks=marks) for name in recorded(path.stem)]


@pytest.mark.parametrize(
    ("editor", "name"), [one for path in sorted(RECORDINGS.glob("*.jsonl")) for one in played(path)]
)
async def test_the_label(connect: Connect, tmp_path: Path, editor: str, name: str) -> None:
    found = await replay(connect, recorded(editor)[name], tmp_path)
    ((first,), *_) = found.rows("SELECT id FROM suggestions ORDER BY shown_at")
    assert found.labels().get(first, NONE) == labels(editor)[name]


def test_everything_is_recorded() -> None:
    for path in RECORDINGS.glob("*.jsonl"):
        assert recorded(path.stem).keys() == labels(path.stem).keys()
