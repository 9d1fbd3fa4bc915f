"""What the bench says of summaries: which readings are pairs, and that each condition has its own."""

from __future__ import annotations

import asyncio
import io
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from lsprotocol import types
from rich.console import Console

from lsp_calib.syntax import functions
from lsp_calib.tools.bench import summaries as bench
from lsp_calib.tools.bench.report import summaries
from lsp_calib.tools.bench.summaries import BUDGET, FIRST, LINES, Summaries, Typed, modules
from lsp_calib.tools.bench.table import _summaries as summaries_lines
from lsp_calib.tools.bench.trace import Edit, load_trace, select

STEPS = 32

FIRST_ONE = {
    "lines": 60,
    "wallMs": 900.0,
    "promptMs": 600.0,
    "generateMs": 300.0,
    "promptTokens": 500,
    "evaluated": 460,
    "generated": 12,
}


def test_only_keys_for_which_the_model_was_asked_both_times_are_pairs() -> None:
    asked = [(True, True), (True, False), (False, True)]
    typed = [(Typed(20.0, beside, 3), Typed(2.0, without, 1)) for beside, without in asked]
    found = summaries(Summaries(known_ms=[1.0], typed=typed))
    assert found is not None
    assert (found["typing"]["n"], found["typing"]["p50Ratio"][0]) == (1, 10.0)
    assert found["typing"]["evaluated"] == {"beside": 9, "without": 3}


def test_the_report_has_the_times_of_prompt_and_generation_apart() -> None:
    notes = Summaries(
        first=[{**FIRST_ONE, "wallMs": 900.0 + n, "promptMs": 600.0 + n} for n in range(3)],
        known_ms=[1.0, 2.0, 3.0],
        new_ms=[100.0, BUDGET + 5.0, BUDGET + 900.0],
        made=1,
        late=2,
        typed=[(Typed(55.0, True, 0), Typed(50.0, True, 0))] * 8,
    )
    found = summaries(notes)
    assert found is not None
    first, hover, typing = found["first"], found["hover"], found["typing"]
    assert (first["n"], first["wallMs"]["p50"][0], first["promptMs"]["p50"][0]) == (3, 901.0, 601.0)
    assert (first["generateMs"]["p50"][0], first["evaluated"]["p50"][0]) == (300.0, 460.0)
    assert (hover["withinBudget"], hover["made"], hover["late"]) == (2, 1, 2)
    assert hover["worstNewMs"] == BUDGET + 900.0
    assert (typing["n"], typing["p50Ratio"][0], typing["p95Ratio"][0]) == (8, 1.1, 1.1)
    screen = io.StringIO()
    for line in summaries_lines(found):
        Console(file=screen, width=400).print(line)
    words = screen.getvalue()
    for part in ("60 lines (3 functions)", "p95 ratio 1.100 [1.100, 1.100]", "2 of 3", "460 of 500 tokens"):
        assert part in words


def test_what_was_not_measured_is_left_out() -> None:
    assert summaries(Summaries()) is None
    found = summaries(Summaries(known_ms=[1.0]))
    assert found is not None
    assert found["first"] is None
    assert found["typing"] is None
    assert len(list(summaries_lines(found))) == 1


def test_the_standard_library_has_enough_long_functions() -> None:
    with_some = 0
    for path in modules():
        source = path.read_text("utf-8", "replace")
        sizes = (one.code.count("\n") + 1 for one in functions(source.split("\n"), "python"))
        with_some += any(LINES[0] <= size <= LINES[1] for size in sizes)
    assert with_some >= FIRST


class Desk:
    """Records who types: a summary takes two looks."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
        self.typed: list[tuple[str, float]] = []
        self.project = folder
        self._seen: dict[tuple[str, int], int] = {}
        self._passes = 0
        monkeypatch.setattr(bench, "type_in_rhythm", self.type_in_rhythm)
        monkeypatch.setattr(bench, "settled", self.idle)
        monkeypatch.setattr(bench, "until_idle", self.idle)
        monkeypatch.setattr(bench, "Document", self.document)
        monkeypatch.setattr(bench, "_LOOKS", 0.001)

    async def idle(self, _probe: Any) -> None:
        return

    async def type_in_rhythm(
        self,
        _editor: Any,
        _scratch: Any,
        edit: Edit,
        pace: float = 1.0,
    ) -> AsyncIterator[tuple[float, Any]]:
        self._passes += 1
        for _ in edit.steps:
            await asyncio.sleep(0.001)
            timing = {"promptTokens": 100 + self._passes, "promptReused": 100}
            yield float(self._passes), {"source": "model", "timing": timing}
        self.typed.append((edit.name, pace))

    def document(self, _editor: Any, path: Path, _language: str) -> Any:
        desk = self

        class Document:
            uri = path.as_uri()

            async def hover(self, line: int, _column: int, _seconds: float) -> Any:
                await asyncio.sleep(0.001)
                key = path.name, line
                desk._seen[key] = desk._seen.get(key, 0) + 1
                # As the server writes them.
                made = (
                    "Return it.\n\n🟡 **May say what its author would**: about 5 in 10 summaries like this"
                    "\n\n*model, lsp\\-calib*"
                )
                value = made if desk._seen[key] > 1 else "**f**: *summarising…*"
                return types.Hover(types.MarkupContent(types.MarkupKind.Markdown, value))

        return Document()


async def test_each_excerpt_is_typed_in_both_conditions_after_a_time_that_does_not_count(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    desk, notes, steps = Desk(monkeypatch, tmp_path), Summaries(), []
    edits = select(load_trace(), STEPS)
    server: Any = SimpleNamespace(editor=None, scratch=desk, probe=None)
    await bench.type_beside(server, edits, notes, lambda done, total: steps.append((done, total)))
    assert [pace for _, pace in desk.typed] == [0.0, 1.0, 1.0] * len(edits)
    # In the first excerpt the one beside summaries comes first, in the second one last.
    (first, first_without), (last, last_without) = notes.typed[0], notes.typed[-1]
    assert first.ms < first_without.ms
    assert last.ms > last_without.ms
    keys = sum(len(edit.steps) for edit in edits)
    assert len(notes.typed) == keys - len(edits)
    assert steps[-1] == (3 * keys, 3 * keys)
    assert {(one.evaluated, other.evaluated) for one, other in notes.typed} == {(2, 3), (6, 5)}
    # A function is read until it has its summary, and then again.
    assert notes.made > 0
    assert notes.late >= notes.made
    assert notes.known_ms
