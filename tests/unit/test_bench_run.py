"""What of a bench is measured, and one that is stopped: what it began is ended."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import sys
import time
from collections.abc import Callable
from typing import Any

import pytest
from click.testing import CliRunner

from lsp_calib.cli import main
from lsp_calib.completion.context import Cursor, in_data
from lsp_calib.completion.prompt import Layout, build_prompt
from lsp_calib.errors import EngineError
from lsp_calib.inference.models.cards import load_cards
from lsp_calib.tools.bench import PARTS
from lsp_calib.tools.bench.report import Stopped
from lsp_calib.tools.bench.run import Options, until_stopped
from lsp_calib.tools.bench.typist import dense


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ([], {"parts": ("typing", "cancel"), "steps": 240, "cancels": 12, "limit": 600.0, "raw": True}),
        (["--short", "--beside", "2"], {"parts": PARTS, "steps": 36, "cancels": 3, "beside": 2}),
        (["--short", "--steps", "48", "--no-raw"], {"steps": 48, "raw": False}),
        *((["--only", part], {"parts": (part,), "beside": 1, "requests": 60}) for part in PARTS),
        (["--only", "beside", "--beside", "3", "--requests", "20"], {"beside": 3, "requests": 20}),
    ],
    ids=lambda one: " ".join(one) if isinstance(one, list) else "",
)
def test_the_options_say_what_is_measured(
    arguments: list[str], expected: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    found: list[Options] = []
    monkeypatch.setattr("lsp_calib.tools.bench.run.measured", lambda options, _: found.append(options))
    CliRunner().invoke(main, ["bench", *arguments])
    assert {name: getattr(found[0], name) for name in expected} == expected


def test_the_document_of_a_long_prompt_is_not_data_in_which_nothing_is_asked() -> None:
    card = load_cards()["smollm2-135m"]
    lines, line = dense(card, random.Random(0))
    for typed in range(20):
        now = [*lines[:line], "1" * typed + lines[line], *lines[line + 1 :]]
        assert not in_data(Cursor(now, line, typed, "json"))
    shown = sum(
        len(text) for _, text in build_prompt(Cursor(lines, line, 0, "json"), Layout.of(card)).segments
    )
    assert shown > 1200


class Work:
    """Reads one thing after the other; each takes longer than anybody waits. Cleans up when it is stopped."""

    def __init__(self, then: Callable[[], None] = lambda: None) -> None:
        self.read = 0
        self.cleaned = False
        self._then = then

    async def go(self) -> None:
        try:
            self.read += 1
            asyncio.get_running_loop().call_soon(self._then)
            await asyncio.sleep(60)
            self.read += 1
        finally:
            await asyncio.sleep(0.05)
            self.cleaned = True


def run(work: Work, limit: float) -> tuple[Stopped | None, float]:
    began = time.monotonic()
    why = asyncio.run(until_stopped(work.go(), limit))
    return why, time.monotonic() - began


def test_the_limit_cuts_a_reading_short() -> None:
    work = Work()
    why, seconds = run(work, 0.2)
    assert why is Stopped.LIMIT
    assert (work.read, work.cleaned) == (1, True)
    assert seconds < 30


@pytest.mark.skipif(sys.platform == "win32", reason="signals are sent as POSIX has it")
@pytest.mark.parametrize(
    ("number", "expected"), [(signal.SIGINT, Stopped.INTERRUPT), (signal.SIGTERM, Stopped.TERMINATE)]
)
@pytest.mark.parametrize("limit", [0.0, 50.0])
def test_a_signal_ends_it_and_what_it_began_is_put_away(
    number: signal.Signals, expected: Stopped, limit: float
) -> None:
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        work = Work(lambda: os.kill(os.getpid(), number))
        why, seconds = run(work, limit)
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, handler)
    assert why is expected
    assert (work.read, work.cleaned) == (1, True)
    assert seconds < 30


def test_work_that_comes_to_its_end_was_not_stopped() -> None:
    async def work() -> None:
        await asyncio.sleep(0)

    assert asyncio.run(until_stopped(work(), 60)) is None


def test_what_goes_wrong_before_it_is_stopped_is_raised() -> None:
    async def work() -> None:
        raise EngineError("The model is gone.")

    with pytest.raises(EngineError, match="is gone"):
        asyncio.run(until_stopped(work(), 60))


def test_what_goes_wrong_while_it_is_put_away_does_not_hide_what_was_read() -> None:
    async def work() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            raise EngineError("The server ended.")

    assert asyncio.run(until_stopped(work(), 0.1)) is Stopped.LIMIT


def test_exit_codes_are_those_of_the_signals_and_the_limit_is_none() -> None:
    assert {one: one.exit_code for one in Stopped} == {
        Stopped.LIMIT: 0,
        Stopped.INTERRUPT: 130,
        Stopped.TERMINATE: 143,
    }
