"""Messages with any parameters: the server answers requests, and ends in order."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path
from typing import Any

import pytest
from marks import repetitions
from scripted_editor import PATIENCE
from test_server_messages import INITIALIZE, STATUS, start

pytestmark = pytest.mark.long

MESSAGES = repetitions(100_000, 4_000)
SEEDS = range(2)
_AT_ONCE = 200

TEXT = "def f(a):\n    return a\n\n"
DOCUMENT_METHODS = ("didOpen", "didChange", "didSave", "willSave", "didClose")
REQUEST_METHODS = ("inlineCompletion", "completion", "hover", "codeLens", "diagnostic", "codeAction")
COMMANDS = (
    "status",
    "accepted",
    "rejected",
    "markReviewed",
    "explain",
    "pause",
    "resume",
    "summarize",
    "nothing",
)
ODD = (
    None,
    True,
    -1,
    1 << 40,
    1.5,
    "",
    "\x00",
    "é" * 50,
    "file:///w/a.py",
    [],
    [None],
    {},
    {"line": -1},
    "\ud800",
)


class Fuzzer:
    """Messages of an editor's kinds, some of them damaged. The same seed sends the same."""

    def __init__(self, seed: int) -> None:
        self._chance = random.Random(seed)
        self._version = 0

    def message(self, identity: int) -> dict[str, Any]:
        """A request with this id, or a notification."""
        pick = self._chance.random()
        if pick < 0.45:
            name = self._chance.choice(DOCUMENT_METHODS)
            message = {"method": f"textDocument/{name}", "params": self._document(name)}
        elif pick < 0.75:
            name = self._chance.choice(REQUEST_METHODS)
            message = {"id": identity, "method": f"textDocument/{name}", "params": self._request()}
        elif pick < 0.9:
            name = self._chance.choice(COMMANDS)
            params = {"command": f"lsp-calib.{name}", "arguments": [self._odd()]}
            message = {"id": identity, "method": "workspace/executeCommand", "params": params}
        elif pick < 0.95:
            settings = {
                "lspCalib": {"debounceMs": self._odd(), "tiers": self._odd(), "hideBelow": self._odd()}
            }
            message = {"method": "workspace/didChangeConfiguration", "params": {"settings": settings}}
        else:
            message = {"method": "$/cancelRequest", "params": {"id": identity - self._chance.randrange(5)}}
        if self._chance.random() < 0.2:
            message["params"] = self._damaged(message["params"])
        return message

    def _document(self, name: str) -> dict[str, Any]:
        self._version += 1
        uri = f"file:///w/{self._chance.choice('abc')}.py"
        if name == "didOpen":
            item = {"uri": uri, "languageId": "python", "version": self._version, "text": TEXT}
            return {"textDocument": item}
        params: dict[str, Any] = {"textDocument": {"uri": uri, "version": self._version}, "reason": 1}
        if name == "didChange":
            place = self._place()
            params["contentChanges"] = [
                {"range": {"start": place, "end": self._chance.choice((place, self._place()))}, "text": "x\n"}
            ]
        return params

    def _request(self) -> dict[str, Any]:
        place = self._place()
        return {
            "textDocument": {"uri": f"file:///w/{self._chance.choice('abcd')}.py"},
            "position": place,
            "range": {"start": place, "end": self._place()},
            "context": {"triggerKind": self._chance.choice((0, 1, 2)), "diagnostics": []},
        }

    def _place(self) -> dict[str, int]:
        return {"line": self._chance.randrange(6), "character": self._chance.choice((0, 1, 4, 9, 1 << 20))}

    def _odd(self) -> Any:
        return self._chance.choice(ODD)

    def _damaged(self, value: Any) -> Any:
        """A value with one part replaced or left out."""
        if isinstance(value, dict) and value and self._chance.random() < 0.8:
            key = self._chance.choice([*value])
            if self._chance.random() < 0.2:
                return {other: one for other, one in value.items() if other != key}
            return {**value, key: self._damaged(value[key])}
        return self._odd()


@pytest.mark.parametrize("seed", SEEDS)
async def test_any_messages_are_answered_or_ignored(tmp_path: Path, seed: int) -> None:
    raw = await start(tmp_path)
    assert raw.process.stdin is not None
    raw.send(INITIALIZE)
    await raw.answer(0)
    raw.send({"method": "initialized", "params": {}})
    said = asyncio.create_task(_read_all(raw.process.stderr))
    fuzzer, identity = Fuzzer(seed), 1
    for _ in range(MESSAGES // _AT_ONCE):
        for _ in range(_AT_ONCE):
            raw.send(fuzzer.message(identity))
            identity += 1
        # What came before does not keep this one from its answer.
        raw.send({"id": f"status {identity}", **STATUS})
        assert "result" in await raw.answer(f"status {identity}")
        raw.received.clear()
    raw.send({"id": "end", "method": "shutdown"})
    await raw.answer("end")
    raw.send({"method": "exit"})
    rest = asyncio.create_task(_read_all(raw.process.stdout))
    assert await asyncio.wait_for(raw.process.wait(), PATIENCE) == 0
    await rest
    before, fault, trace = (await said).partition(b"Traceback")
    assert not fault, (before[-500:] + fault + trace[:3000]).decode()


async def _read_all(stream: asyncio.StreamReader | None) -> bytes:
    assert stream is not None
    return await stream.read()
