"""The same keystrokes twice: what one of them leaves to be done does not fall into the time of another."""

from __future__ import annotations

import random
from types import SimpleNamespace
from typing import Any

import pytest

from lsp_calib.completion.context import Cursor, in_data
from lsp_calib.completion.prompt import Layout, build_prompt
from lsp_calib.inference.models.cards import load_cards
from lsp_calib.tools.bench import comparisons
from lsp_calib.tools.bench.comparisons import Pairs, long_file, where_asked
from lsp_calib.tools.bench.trace import Edit, load_trace, select
from lsp_calib.tools.bench.uncached import dense


class Machine:
    """A model that has something to evaluate ahead after each key; it delays a key that comes too soon."""

    def __init__(self) -> None:
        self.ahead = False
        self.keys = 0

    def typist(self, _editor: Any, _scratch: Any, edit: Edit) -> Any:
        machine = self

        class Typist:
            def __init__(self) -> None:
                self.edit = edit

            async def answer(self, _step: Any) -> tuple[float, None]:
                delayed, machine.ahead = machine.ahead, True
                machine.keys += 1
                return (500.0 if delayed else 10.0), None

            def close(self) -> None:
                return

        return Typist()

    async def settled(self, _probe: Any) -> None:
        self.ahead = False


async def test_no_key_in_a_long_file_waits_for_what_is_evaluated_ahead_for_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    machine, steps = Machine(), []
    pairs: Pairs = []
    monkeypatch.setattr(comparisons, "Typist", machine.typist)
    monkeypatch.setattr(comparisons, "settled", machine.settled)
    edits = select(load_trace(), 48)
    server: Any = SimpleNamespace(editor=None, scratch=None, probe=None)
    await long_file(server, edits, pairs, lambda done, total: steps.append((done, total)))
    assert set(pairs) == {((10.0, True), (10.0, True))}
    # What comes first in a document is not counted.
    assert len(pairs) == machine.keys / 2 - 4
    assert steps[-1] == (machine.keys, machine.keys)


async def test_keys_that_were_typed_in_one_of_both_only_are_no_pair(monkeypatch: pytest.MonkeyPatch) -> None:
    """It was stopped while the second document of the second turn was typed in: the long one."""
    machine, pairs = Machine(), Pairs()
    monkeypatch.setattr(comparisons, "Typist", machine.typist)
    monkeypatch.setattr(comparisons, "settled", machine.settled)
    server: Any = SimpleNamespace(editor=None, scratch=None, probe=None)

    def stop(done: int, _total: int) -> None:
        machine.ahead = done > 36
        if done == 40:
            raise InterruptedError

    with pytest.raises(InterruptedError):
        await long_file(server, select(load_trace(), 48), pairs, stop)
    assert pairs[:11] == [((10.0, True), (10.0, True))] * 11
    assert pairs[11:] == [((10.0, True), (500.0, True))] * 3
    assert where_asked([((10.0, True), (12.0, False))]) == []


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
