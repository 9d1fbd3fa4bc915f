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
from lsp_calib.tools.bench.comparisons import LONG_FILE, LongFile, Two, long_file, where_asked
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
    machine, notes, steps = Machine(), LongFile(), []
    monkeypatch.setattr(comparisons, "Typist", machine.typist)
    monkeypatch.setattr(comparisons, "settled", machine.settled)
    edits = select(load_trace(), 48)
    server: Any = SimpleNamespace(editor=None, scratch=None, probe=None)
    await long_file(server, edits, notes, lambda done, total: steps.append((done, total)))
    pairs = notes.pairs()
    assert set(pairs) == {((10.0, True), (10.0, True))}
    # What comes first in a document is not counted.
    assert len(pairs) == machine.keys / 2 - 4
    assert steps[-1] == (machine.keys, machine.keys)


def test_keys_that_were_typed_in_one_of_both_only_are_no_pair() -> None:
    notes = LongFile()
    notes.add(0, 1, LONG_FILE[0], (10.0, True))
    assert notes.pairs() == []
    notes.add(0, 1, LONG_FILE[1], (12.0, False))
    notes.add(1, 1, LONG_FILE[1], (9.0, True))
    assert notes.pairs() == [((10.0, True), (12.0, False))]
    assert where_asked(notes.pairs()) == []


def test_two_servers_that_were_stopped_have_the_keys_that_were_typed_both_times() -> None:
    notes = Two()
    assert notes.pairs() == [[], []]
    for server, count in enumerate((3, 2)):
        notes.alone[server].extend([(10.0, True)] * 5)
        notes.together[server].extend([(15.0, True)] * count)
    assert [len(pairs) for pairs in notes.pairs()] == [2, 1]
    assert notes.pairs()[0][0] == ((10.0, True), (15.0, True))


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
