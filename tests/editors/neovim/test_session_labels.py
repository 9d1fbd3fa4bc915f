"""A session in a real Neovim: its labels are those of its protocol log, followed by the tracker afterwards.

A typist with a seed writes lines, takes suggestions, undoes, edits, deletes and saves: at least 300 edits.
The server is the real one with a scripted model, and keeps every message in the order in which it handled it.
LSP_CALIB_NVIM: the nvim to use, 0.12 or later (default: the one on PATH).
"""

from __future__ import annotations

import json
import os
import random
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from lsprotocol import types
from nvim import short_folder
from pygls.protocol import default_converter
from test_neovim import NO_NVIM, NVIM

from lsp_calib.feedback.events import Event
from lsp_calib.feedback.tracker import Tracker
from lsp_calib.server.documents import Documents
from lsp_calib.server.text import CalibCodec, CalibDocument
from lsp_calib.values import CalibratorRef, Confidence, Suggestion, Tier, Timing

_converter = default_converter()
SERVER = Path(__file__).parents[2] / "server" / "scripted_server.py"
PLUGIN = Path(__file__).parents[3] / "editor-configs" / "neovim"
EDITS = 300
SUGGESTED = "alpha + beta"
SCRIPT = {"otherwise": {"text": SUGGESTED, "logprobs": [-0.1, -0.2]}}
# The ways to go on once a suggestion is on screen: keys, in the order in which they are pressed.
ACCEPT = "<C-J>"
WAYS = {
    "accept": [ACCEPT, "<Esc>"],
    "accept, undo": [ACCEPT, "<Esc>", "u"],
    "accept, undo, redo": [ACCEPT, "<Esc>", "u", "<C-R>"],
    "accept, edit": [ACCEPT, "<BS><BS>", "zz", "<Esc>"],
    "accept, edit, edit back": [ACCEPT, "<BS><BS>", "ta", "<Esc>"],
    "accept, delete": [ACCEPT, "<Esc>", "dd"],
    "accept, delete, undo": [ACCEPT, "<Esc>", "dd", "u"],
    "accept, cut and paste": [ACCEPT, "<Esc>", "dd", "ggP"],
    "type it": [*SUGGESTED, "<Esc>"],
    "type another": ["gamma()", "<Esc>"],
    "read it, leave": ["<Esc>"],
    "read it, delete the line": ["<Esc>", "dd"],
}
INIT = """
vim.opt.runtimepath:prepend({plugin!r})
vim.o.swapfile = false
require('lsp_calib').setup({{ cmd = {{ {command} }} }})
vim.keymap.set('i', '<C-J>', function() require('lsp_calib').accept() end)
"""

pytestmark = [pytest.mark.long, pytest.mark.skipif(not NVIM, reason=NO_NVIM)]


class Typist:
    """Keys into a headless Neovim."""

    def __init__(self, folder: Path, file: Path) -> None:
        assert NVIM
        self.socket = str(folder / "nvim.sock")
        home = {"LSP_CALIB_HOME": str(folder / "home"), "XDG_STATE_HOME": str(folder)}
        self.process = subprocess.Popen(
            [
                NVIM,
                "--headless",
                "--listen",
                self.socket,
                "--clean",
                "-u",
                str(folder / "init.lua"),
                str(file),
            ],
            env=os.environ | home,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def press(self, keys: str) -> None:
        self._remote("--remote-send", keys)

    def lua(self, expression: str) -> str:
        return self._remote("--remote-expr", f"luaeval('{expression}')")

    def until(self, met: Callable[[], object], seconds: float) -> bool:
        end = time.monotonic() + seconds
        while not met():
            if time.monotonic() > end:
                return False
            time.sleep(0.03)
        return True

    def sees_one(self) -> bool:
        marks = "vim.api.nvim_buf_get_extmarks(0, vim.api.nvim_create_namespace({ns}), 0, -1, {{}})"
        return self.lua("#" + marks.format(ns='"nvim.lsp.inline_completion"')) != "0"

    def _remote(self, *arguments: str) -> str:
        assert NVIM
        command = [NVIM, "--server", self.socket, *arguments]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
        return (done.stdout + done.stderr).strip()


def write(typist: Typist, seed: int) -> Counter[str]:
    """Lines with a suggestion each, until there are enough edits; how often each way was gone."""
    rng = random.Random(seed)
    gone: Counter[str] = Counter()
    ways = list(WAYS)
    for number in range(3 * len(ways)):
        way = ways[number] if number < len(ways) else rng.choice(ways)
        typist.press(f"<Esc>Govalue_{number} = ")
        # An answer to a large change is none; the next key asks again.
        for _ in range(6):
            if typist.until(typist.sees_one, 10.0):
                break
            typist.press("1")
        else:
            raise AssertionError(f"no suggestion in line {number}")
        if rng.random() < 0.8:
            time.sleep(0.8)  # less would be too short to read it
        for keys in WAYS[way]:
            typist.press(keys)
            # Neovim reports what changes within 150 ms as one change.
            time.sleep(0.25 if len(keys) == 1 else rng.uniform(0.02, 0.2))
        time.sleep(0.3)  # what follows is another change: with a paste elsewhere it would be a large one
        gone[way] += 1
        if rng.random() < 0.25:
            typist.press("<Esc>:w<CR>")
    typist.press("<Esc>:w<CR>")
    return gone


def labels_of(home: Path) -> dict[str, str]:
    connection = sqlite3.connect(home / "feedback.db")
    try:
        return dict(connection.execute("SELECT suggestion_id, how FROM labels"))
    finally:
        connection.close()


def messages(wire: Path) -> Iterator[tuple[float, str, dict[str, Any]]]:
    """(when, "in" or "out", message)."""
    for line in wire.read_text("utf-8").splitlines():
        entry = json.loads(line)
        way = "in" if "in" in entry else "out"
        yield entry["at"], way, entry[way]


def replayed(wire: Path) -> tuple[dict[str, str], int]:
    """The labels that the tracker gives to the log of a session, and the number of edits in it."""
    tracker, now = Tracker(), 0.0
    texts: dict[str, CalibDocument] = {}
    asked: dict[Any, tuple[str, int, int]] = {}
    events: list[Event] = []
    edits = 0
    connection: Any = SimpleNamespace(open_document=texts.get)
    documents = Documents(connection, lambda: now)
    for at, way, message in messages(wire):
        now = at
        method, params = message.get("method"), message.get("params") or {}
        uri = (params.get("textDocument") or {}).get("uri", "") if isinstance(params, dict) else ""
        if way == "out":
            if message.get("id") in asked and message.get("result"):
                events += _shown(tracker, texts, *asked.pop(message["id"]), message["result"]["items"], at)
        elif method == "textDocument/didOpen":
            texts[uri] = CalibDocument(uri, params["textDocument"]["text"], position_codec=CalibCodec())
            documents.opened(uri)
        elif method == "textDocument/didChange":
            structured = _converter.structure(params, types.DidChangeTextDocumentParams)
            for change in structured.content_changes:
                texts[uri].apply_change(change)
                edits += 1
            one = documents.changed(uri)
            assert one is not None
            events += tracker.changed(uri, one.lines, now, where=one.changes.where, by=one.by)
        elif method == "textDocument/willSave":
            documents.save_begins(uri, types.TextDocumentSaveReason(params["reason"]))
        elif method == "textDocument/didSave":
            if (save := documents.saved(uri)) is not None:
                events += tracker.saved(uri, now, by_hand=save.by_hand)
        elif method == "textDocument/didClose":
            events += tracker.closed(uri, at, documents.remains(uri))
        elif method == "shutdown":
            for open_uri in texts:
                events += tracker.closed(open_uri, at, documents.remains(open_uri))
            events += tracker.finish(at)
        elif method == "textDocument/inlineCompletion":
            place = params["position"]
            asked[message["id"]] = uri, place["line"], place["character"]
            events += tracker.requested(uri, place["line"], at)
    return {e.label.suggestion_id: e.label.how.value for e in events if e.label is not None}, edits


def _shown(
    tracker: Tracker,
    texts: dict[str, CalibDocument],
    uri: str,
    line: int,
    column: int,
    items: list[Any],
    at: float,
) -> list[Event]:
    lines = texts[uri].bare_lines
    events: list[Event] = []
    for item in items[:1]:
        span = item.get("range") or {"start": {"character": column}, "end": {"character": column}}
        start, end = span["start"]["character"], span["end"]["character"]
        expected = lines[line][:start] + item["insertText"] + lines[line][end:]
        wire = item["command"]["arguments"][0]
        events += tracker.shown(uri, lines, line, expected, _suggestion(wire), at)
    return events


def _suggestion(wire: dict[str, Any]) -> Suggestion:
    """As far as the tracker reads it."""
    confidence = Confidence(
        calibrated=wire["confidence"],
        raw=wire["rawConfidence"],
        measure=wire["measure"],
        tier=Tier(wire["tier"]),
        reason=wire["reason"],
        certified=wire["certified"],
        calibrator=CalibratorRef(**wire["calibrator"]),
        first_tokens=wire["firstTokens"],
    )
    return Suggestion(
        id=wire["id"],
        kind=wire["kind"],
        text=wire["text"],
        confidence=confidence,
        model=wire["model"],
        tokens=wire["tokens"],
        source=wire["source"],
        timing=Timing(),
    )


def test_a_session_has_the_labels_of_its_protocol_log() -> None:
    with short_folder() as folder:
        home, wire, script = folder / "home", folder / "wire.jsonl", folder / "script.json"
        home.mkdir(mode=0o700)
        script.write_text(json.dumps({**SCRIPT, "wire": str(wire)}), "utf-8")
        command = ", ".join(f"'{part}'" for part in (sys.executable, str(SERVER), str(script)))
        (folder / "init.lua").write_text(INIT.format(plugin=str(PLUGIN), command=command), "utf-8")
        file = folder / "module.py"
        file.write_text('"""A module."""\n\n', "utf-8")
        typist = Typist(folder, file)
        try:
            assert typist.until(lambda: Path(typist.socket).exists(), 20.0)
            attached = '#vim.lsp.get_clients({ bufnr = 0, name = "lsp_calib" })'
            assert typist.until(lambda: typist.lua(attached) == "1", 30.0)
            gone = write(typist, seed=16)
            typist.press("<C-\\><C-N>:qall!<CR>")
            typist.process.wait(30)
        finally:
            typist.process.kill()
            typist.process.wait()
        assert typist.until(lambda: any(m.get("method") == "shutdown" for _, _, m in messages(wire)), 30.0)
        expected, edits = replayed(wire)
        assert typist.until(lambda: labels_of(home) == expected, 10.0), (labels_of(home), expected)
    assert edits >= EDITS
    assert set(gone) == set(WAYS), "each way was gone at least once"
    counts = Counter(expected.values())
    assert {"kept", "typed", "edited", "typed over", "ignored", "deleted"} <= set(counts), counts
    print(f"{edits} edits, labels {dict(counts)}, ways {dict(gone)}")
