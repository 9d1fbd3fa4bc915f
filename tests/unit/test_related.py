"""Pieces of other places: which they are, found once for a place, and forgotten with the document."""

from __future__ import annotations

import asyncio
import itertools
import threading
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lsp_calib.completion import related_code
from lsp_calib.completion.context import Cursor
from lsp_calib.completion.prompt import Layout, Snippet, Surroundings
from lsp_calib.completion.related_code import MOST_FILES, Nearby, SourceFile, near_files, related
from lsp_calib.inference.models.cards import CompletionFormat

texts = st.text(st.characters(exclude_characters="\r\n", exclude_categories=["Cs"]), max_size=60)
words = st.sampled_from(["alpha", "beta", "gamma", "delta(epsilon)", "    return zeta", ""])
documents = st.lists(texts | words, min_size=1, max_size=120)


def test_the_piece_that_resembles_the_text_before_the_cursor_comes_last() -> None:
    """The end of what comes first stands next to the document."""
    noise = [f"other_{n} = different({n})" for n in range(100)]
    opened = "    with open_archive(path) as archive:"
    alike = ["def load_invoice(path):", opened, "        return parse(archive)"]
    files = [SourceFile("a.py", noise), SourceFile("b.py", [*noise[:50], *alike, *noise[50:]])]
    cursor = Cursor.at(["def load_receipt(path):", opened, "        "], 2, 8)
    found = related(cursor, (0, 3), "c.py", files, 4000)
    assert found[-1].name == "b.py"
    assert "return parse(archive)" in found[-1].text
    assert len(found) > 1


def test_the_document_itself_is_another_place_where_the_prompt_does_not_show_it() -> None:
    far = ["def total(invoice):", "    amount = invoice.net + invoice.tax", "    return amount"]
    lines = [*far, *["pass  # nothing"] * 300, "def subtotal(invoice):", "    amount = invoice.net"]
    cursor = Cursor.at(lines, len(lines) - 1, 10)
    (best,) = related(cursor, (200, len(lines)), "bill.py", (), 400)[-1:]
    assert best.name == "bill.py"
    assert "invoice.tax" in best.text
    assert "subtotal" not in "".join(piece.text for piece in related(cursor, (200, 305), "bill.py", (), 4000))


@given(documents, st.lists(documents, max_size=4), st.integers(0, 3000), st.data())
def test_pieces_fit_and_hold_no_line_twice(
    lines: list[str], others: list[list[str]], budget: int, data: st.DataObject
) -> None:
    line = data.draw(st.integers(0, len(lines) - 1))
    first = data.draw(st.integers(0, line))
    end = data.draw(st.integers(line + 1, len(lines)))
    cursor = Cursor.at(lines, line, data.draw(st.integers(0, len(lines[line]))))
    # Each line is marked, so that one that comes twice is seen.
    files = [
        SourceFile(f"{n}.py", [f"{text} mark_{n}_{at}" for at, text in enumerate(other)])
        for n, other in enumerate(others)
    ]
    found = related(cursor, (first, end), "own.py", files, budget)
    assert sum(len(piece.text) + len(piece.name) + 1 for piece in found) <= max(budget + len(found), 0)
    marks = [word for piece in found for word in piece.text.split() if word.startswith("mark_")]
    assert len(marks) == len(set(marks))
    for piece in found:
        of = lines if piece.name == "own.py" else files[int(piece.name[0])].lines
        assert piece.text in "\n".join(of)
        assert piece.text.strip()
    assert found == related(cursor, (first, end), "own.py", files[::-1], budget)


def test_files_that_a_document_names_come_before_those_beside_it() -> None:
    near = ["app/forms.py", "app/models.py", "lib/forms.py", "lib/tools/__init__.py"]
    names = ["app/views.py", *near[::-1], "x/y.py"]
    head = ["from .forms import Form", "import lib.tools", "from app.models import User"]
    assert near_files("app/views.py", head, names) == near
    assert near_files("app/views.py", [], names) == ["app/forms.py", "app/models.py"]
    assert near_files("x/y.py", head, [f"x/{n}.py" for n in range(500)])[0] == "x/0.py"
    assert len(near_files("x/y.py", head, [f"x/{n}.py" for n in range(500)])) == MOST_FILES


def test_a_file_of_any_size_takes_a_bounded_time() -> None:
    huge = [f"value_{n} = compute_{n % 97}({n})" for n in range(200_000)]
    cursor = Cursor.at(huge, 100_000, 5)
    found = related(cursor, (99_990, 100_010), "a.py", [SourceFile("b.py", huge)], 1600)
    assert found


URI = "file:///a.py"
LAYOUT = Layout(CompletionFormat("fim", "<pre>", "<suf>", "<mid>"), 400, "v", related=200)
CURSOR = Cursor(("x = ",), 0, 4)
OTHER = "file:///b.py"


class Finding:
    """A `Nearby` whose pieces say the how manieth find they come from. empty: it finds no pieces."""

    def __init__(self, *, empty: bool = False) -> None:
        self.count = 0
        self.empty = empty
        self.nearby = Nearby(lambda *_: self._find)

    def _find(self) -> Surroundings:
        self.count += 1
        return Surroundings("p", "a.py", () if self.empty else (Snippet("c.py", f"piece {self.count}"),))

    async def at(self, lines: Sequence[str], line: int, column: int = 0, language: str = "python") -> str:
        """The piece at a place."""
        found = await self.nearby.of(URI, Cursor(lines, line, column, language), LAYOUT)
        return "".join(piece.text for piece in found.snippets)


async def test_it_is_found_once() -> None:
    calls: list[int] = []
    nearby = Nearby(lambda *_: lambda: (calls.append(1), Surroundings("p", "a.py"))[1])
    assert nearby.known(URI, CURSOR, LAYOUT) is None
    found = await nearby.of(URI, CURSOR, LAYOUT)
    assert nearby.known(URI, CURSOR, LAYOUT) == await nearby.of(URI, CURSOR, LAYOUT) == found
    assert len(calls) == 1
    nearby.forget(URI)
    assert nearby.known(URI, CURSOR, LAYOUT) is None


class Waiting:
    """A `Nearby` that reads files once `go` is set. It finds what `there` was when it was asked."""

    def __init__(self, there: Surroundings) -> None:
        self.there, self.waits, self.go = there, True, threading.Event()
        self.nearby = Nearby(lambda *_: partial(self._read, self.there, self.waits))

    def _read(self, there: Surroundings, waits: bool) -> Surroundings:
        assert not waits or self.go.wait(60)
        return there

    async def asked(self, cursor: Cursor = CURSOR) -> asyncio.Task[Surroundings]:
        """A request that has begun."""
        asked = asyncio.create_task(self.nearby.of(URI, cursor, LAYOUT))
        await asyncio.sleep(0)
        return asked


async def test_what_was_found_before_a_change_of_what_is_excluded_is_not_shown() -> None:
    waiting = Waiting(Surroundings("p", "secret.py"))
    asked = await waiting.asked()
    waiting.there = Surroundings("p", "open.py")
    waiting.nearby.clear()
    waiting.go.set()
    assert (await asked).name == "open.py"


async def test_nothing_is_kept_of_a_document_that_is_closed_while_its_files_are_read() -> None:
    waiting = Waiting(Surroundings("p", "a.py"))
    asked = await waiting.asked()
    waiting.nearby.forget(URI)
    waiting.go.set()
    assert (await asked).name == "a.py"
    assert waiting.nearby.known(URI, CURSOR, LAYOUT) is None


@pytest.mark.parametrize(("look", "names"), [(0.0, "112"), (1000.0, "111")])
async def test_pieces_go_with_their_file(
    look: float, names: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is looked for after so many seconds, not at each key."""
    monkeypatch.setattr(related_code, "_LOOK", look)
    (file := tmp_path / "b.py").touch()
    count = itertools.count(1)

    def find() -> Surroundings:
        return Surroundings("p", str(next(count)), (Snippet("b.py", "x"),), (str(file),))

    nearby = Nearby(lambda *_: find)
    found = [(await nearby.of(URI, CURSOR, LAYOUT)).name for _ in range(2)]
    file.unlink()
    found.append((await nearby.of(URI, CURSOR, LAYOUT)).name)
    assert "".join(found) == names


async def test_no_pieces_are_not_kept_for_other_lines() -> None:
    """A new file has nothing yet that pieces could resemble."""
    finding = Finding(empty=True)
    assert not await finding.at(["f"], 0, 1)
    assert not await finding.at(["fees"], 0, 4)
    assert finding.count == 1  # not at each key
    assert not await finding.at(["fees", ""], 1)
    # What was completed above can still be recalled there.
    assert finding.nearby.known(URI, Cursor(["fees", ""], 0, 4, "python"), LAYOUT) is not None
    finding.empty = False
    assert await finding.at(["fees", "", ""], 2) == "piece 3"
    assert await finding.at(["fees", "", "", ""], 3) == "piece 3"


async def test_no_pieces_of_a_slower_request_do_not_take_the_place_of_those_that_are_shown() -> None:
    waiting = Waiting(Surroundings("p", "a.py"))
    slower = await waiting.asked(Cursor(["", ""], 1, 0))
    waiting.there, waiting.waits = Surroundings("p", "a.py", (Snippet("c.py", "piece"),)), False
    assert (await waiting.nearby.of(URI, CURSOR, LAYOUT)).snippets
    waiting.go.set()
    assert (await slower).snippets


async def test_pieces_are_looked_for_again_every_16_lines_of_a_short_document() -> None:
    finding, lines = Finding(), [""] * 40
    assert [await finding.at(lines, line) for line in (0, 15, 16, 31, 32)] == [
        *("piece 1", "piece 1", "piece 2", "piece 2", "piece 3")
    ]
    assert await finding.at(lines, 3) == "piece 1"  # the model's cache may still hold it


async def test_typing_on_changes_pieces_no_oftener_than_every_16_lines() -> None:
    """Each change makes the model evaluate the whole prompt."""
    finding, shown = Finding(), []
    layout = Layout(LAYOUT.format, 3200, "v", related=200)
    lines = ["x" * 20] * 600
    for line in range(600):
        found = await finding.nearby.of(URI, Cursor(lines[: line + 1], line, 0, "python"), layout)
        shown.append(found.snippets[0].text)
    changes = [at for at in range(1, 600) if shown[at] != shown[at - 1]]
    assert 30 <= len(changes) <= 600 // 16 + 1
    assert finding.count == len(changes) + 1


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (["import os"], ["import os", "from app import rates"]),
        (["from app import (", "    rates,", ")"], ["from app import (", "    rates,", "    taxes,", ")"]),
        (["#include <a.h>"], ["#include <a.h>", '#include "rates.h"']),
        (["import (", '\t"fmt"', ")"], ["import (", '\t"fmt"', '\t"app/rates"', ")"]),
        ([], ["import {", "  convert,", '} from "./rates"']),
        ([], ["export * from './rates'"]),
        ([], ["using App.Rates;"]),
    ],
)
async def test_a_new_import_makes_it_look_again(before: list[str], after: list[str]) -> None:
    finding = Finding()
    assert await finding.at([*before, "", "x = 1"], len(before) + 1) == "piece 1"
    assert await finding.at([*after, "", "x = 1"], len(after) + 1) == "piece 2"


@pytest.mark.parametrize(
    "lines",
    [
        ["mod tests {", "    fn one() {", "        let x = 1;"],
        ["require(['a'], function (a) {", "    a.b(function () {", "        c();"],
        ["required = {", "    'a': 1,", "includes = {", "    'b': 2,"],
        ["from app import rates", "def f():", "    use_of(1)", "    importance = {"],
    ],
)
async def test_code_that_is_no_import_is_typed_without_looking_again(lines: list[str]) -> None:
    finding = Finding()
    for line in range(1, len(lines) + 1):
        assert await finding.at([*lines[:line], ""], line) == "piece 1"


async def test_imports_count_by_what_they_name_once_their_line_is_left() -> None:
    finding = Finding()
    lines = ["import os", "import re", "", ""]
    assert await finding.at(lines, 3) == "piece 1"
    assert await finding.at(["import re", "import os", "", ""], 3) == "piece 1"  # sorted
    assert await finding.at([*lines[:3], "x = f(1)"], 2) == "piece 1"  # other lines do not count
    for typed in ("i", "import ", "import ra", "import rates"):
        assert await finding.at(["import os", "import re", typed, ""], 2, len(typed)) == "piece 1"
    assert await finding.at(["import os", "import re", "import rates", ""], 3) == "piece 2"


async def test_a_document_that_is_opened_or_closed_makes_it_look_again() -> None:
    finding = Finding()
    assert await finding.at(["x = "], 0, 4) == "piece 1"
    finding.nearby.forget("file:///readme.md")  # it has no pieces for this language
    assert await finding.at(["x = 1"], 0, 5) == "piece 1"
    finding.nearby.forget(OTHER)
    assert await finding.at(["x = 12"], 0, 6) == "piece 2"


async def test_a_document_that_is_opened_while_files_are_read_is_looked_at_next_time() -> None:
    waiting = Waiting(Surroundings("p", "a.py", (Snippet("c.py", "none"),)))
    cursor = Cursor(("x = ",), 0, 4, "python")
    asked = await waiting.asked(cursor)
    waiting.there = Surroundings("p", "a.py", (Snippet("c.py", OTHER),))
    waiting.nearby.forget(OTHER)
    waiting.go.set()
    assert (await asked).snippets[0].text == "none"
    assert (await waiting.nearby.of(URI, cursor, LAYOUT)).snippets[0].text == OTHER
