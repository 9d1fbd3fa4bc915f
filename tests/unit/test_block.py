"""Blocks: where they end, how likely they are to be right up to each line, and how right they were."""

from __future__ import annotations

import math
from pathlib import Path

import attrs
import pytest
from block_calibration import counted, rows_of, tables
from feedback_scene import suggestion
from hypothesis import given
from hypothesis import strategies as st

from lsp_calib.calibration.tiers import TierPolicy
from lsp_calib.completion.block import MOST_LINES, Scope, block_of, lines_of, may_begin, scope_of
from lsp_calib.completion.context import Cursor
from lsp_calib.completion.service import Completion
from lsp_calib.values import Evidence, ModelIdentity, Sure, Tier


@pytest.mark.parametrize(
    ("first", "line", "scope"),
    [
        ("    x = 1", "    y = 2", Scope.INSIDE),
        ("    x = 1", "z = 3", Scope.OUTSIDE),
        ("\tx = 1", "        y = 2", Scope.INSIDE),
        ("def f():", "    return 1", Scope.INSIDE),
        ("def f():", "def g():", Scope.OUTSIDE),
        ("if x:", "else:", Scope.INSIDE),
        ("try:", "except ValueError:", Scope.INSIDE),
        ("if x:", "elsewhere()", Scope.OUTSIDE),
        ("if (x) {", "}", Scope.LAST),
        ("if (x) {", "} else {", Scope.INSIDE),
        ("f(", ")", Scope.LAST),
        ("x = 1", "}", Scope.INSIDE),
        ("switch x {", "case 1:", Scope.INSIDE),
        ("switch (x) {", "default:", Scope.INSIDE),
        ("switch (x) {", "default_ = 1;", Scope.OUTSIDE),
        ("class A {", "public:", Scope.INSIDE),
        ("class A : public B {", "private slots:", Scope.INSIDE),
        ("void f() {", "public void g() {", Scope.OUTSIDE),
        ("if x:", "case 1:", Scope.OUTSIDE),
        ("case 1:", "case 2:", Scope.OUTSIDE),
        ("if x:  # why", "b()", Scope.OUTSIDE),
        ("if (x) { // why", "}", Scope.LAST),
        ('url = "http://x"', "b()", Scope.INSIDE),
        ("try:", "except* ValueError:", Scope.INSIDE),
    ],
)
def test_a_block_ends_with_its_scope(first: str, line: str, scope: Scope) -> None:
    assert scope_of(first, line) is scope


@pytest.mark.parametrize(
    ("before", "after", "begins"),
    [("", "", True), ("    ", "", True), ("  ", "  ", True), ("x", "", False), ("", ")", False)],
)
def test_a_block_begins_on_an_empty_line(before: str, after: str, begins: bool) -> None:
    assert may_begin(Cursor.at([before + after], 0, len(before))) is begins


def completion(
    text: str, cursor: Cursor, p: float | None, doubt: tuple[int, int] | None = None, source: str = "shipped"
) -> Completion:
    made, tier = suggestion(text), decide(p)[0]
    ref = attrs.evolve(made.confidence.calibrator, source=source)
    confidence = attrs.evolve(made.confidence, calibrated=p, tier=tier, calibrator=ref, reason="why")
    made = attrs.evolve(made, confidence=confidence, doubt=doubt)
    return Completion(made, cursor, Evidence(), ModelIdentity("m", "", ""), "p")


POLICY = TierPolicy(0.8, 0.3)
START = Cursor.at(["def f():", "    ", "", "print(f())"], 1, 4, "python")


def decide(p: float | None) -> tuple[Tier, str]:
    return POLICY.decide(p, source="shipped")


class Model:
    """Gives the lines it is told to, with their confidences, and keeps the cursors."""

    def __init__(self, lines: list[tuple[str, float | None]]) -> None:
        self.lines = lines
        self.asked: list[Cursor] = []

    async def complete(self, cursor: Cursor) -> object:
        self.asked.append(cursor)
        at = len(self.asked) - 1
        return completion(self.lines[at][0], cursor, self.lines[at][1]) if at < len(self.lines) else None

    async def below(self, first: Completion) -> list[str]:
        lines, _ = await lines_of(self.complete, first)
        return [line.suggestion.text for line in lines[1:]]


async def test_each_line_is_asked_for_below_the_ones_above_it() -> None:
    model = Model([("    y = 2", 0.9), ("    return y", 0.9), ("print()", 0.9)])
    assert await model.below(completion("x = 1", START, 0.9)) == ["    y = 2", "    return y"]
    block: list[str] = ["    x = 1", "    y = 2", "    return y"]
    for n, cursor in enumerate(model.asked, start=1):
        assert list(cursor.lines) == ["def f():", *block[:n], "", "", "print(f())"]
        assert (cursor.line, cursor.column, cursor.language) == (1 + n, 0, "python")


async def test_it_has_an_end() -> None:
    model = Model([(f"    x += {n}", 1.0) for n in range(100)])
    assert len(await model.below(completion("x = 1", START, 1.0))) == MOST_LINES - 1


async def test_what_is_rejected_or_has_no_probability_belongs_to_it_up_to_the_end_of_its_scope() -> None:
    first = completion("x = 1", START, 0.9)
    model = Model([("    y = 2", 0.01), ("    # why", None), ("    z = 3", 0.9), ("print()", 1.0)])
    lines, _ = await lines_of(model.complete, first)
    block = block_of(first, lines, decide)
    assert block.text == "x = 1\n    y = 2\n    # why\n    z = 3"
    assert [one.tier for one in block.lines] == [Tier.ACCEPT, *[Tier.REJECT] * 3]
    assert [one.calibrated for one in block.lines] == pytest.approx([0.9, 0.009, None, None])
    assert (block.confidence.calibrated, block.confidence.tier) == (None, Tier.REJECT)
    assert block.confidence.reason.startswith("accept through line 1 of 4, reject from line 2; ")


@pytest.mark.parametrize(
    ("ps", "sure"),
    [
        ([0.95, 0.9, 0.9], Sure(len("x = f(1)\n    y = 2"), 0.95 * 0.9)),
        ([1.0, 0.9, 0.9], Sure(len("x = f(1)\n    y = 2\n    z = 3"), 0.9 * 0.9)),
        ([0.7, 0.9, 0.9], Sure(3, 0.85)),  # the part of its first line
    ],
)
def test_what_is_sure_of_it_are_the_accepted_lines(ps: list[float], sure: Sure) -> None:
    texts = ["x = f(1)", "    y = 2", "    z = 3"]
    first, *below = (completion(text, START, p) for text, p in zip(texts, ps, strict=True))
    first = attrs.evolve(first, suggestion=attrs.evolve(first.suggestion, sure=Sure(3, 0.85)))
    block = block_of(first, [first, *below], decide)
    assert block.sure is not None
    assert (block.sure.end, block.sure.confidence) == (sure.end, pytest.approx(sure.confidence))
    assert "sure up to" not in block.reason, "that goes without saying, or is too short"


async def test_a_model_that_is_not_calibrated_writes_blocks_without_a_number() -> None:
    first = completion("x = 1", START, None, source="prior")
    below = completion("    y = 2", START, None, source="prior")

    async def complete(cursor: Cursor) -> object:
        return below if cursor.line == 2 else None

    lines, _ = await lines_of(complete, first)
    block = block_of(first, lines, decide)
    assert block.text == "x = 1\n    y = 2"
    assert (block.confidence.calibrated, block.confidence.tier) == (None, Tier.REVIEW)
    assert block.confidence.reason == "review all 2 lines; why"


@pytest.mark.parametrize(
    ("lines", "kept"),
    [
        (["    y = g(1)", "    y = g(1)", "    y = g(1)"], ["    y = g(1)"]),
        (["    y = g(1)", "    y = g(1)  ", "    z = 2"], ["    y = g(1)"]),
        (["    x = 1", "    y = 2"], []),  # the first one again
        (["    y = g(1)", "    y = g(2)", "    y = g(1)"], ["    y = g(1)", "    y = g(2)", "    y = g(1)"]),
        (["    if y:", "        y = 1", "    y = 1"], ["    if y:", "        y = 1", "    y = 1"]),
    ],
    ids=["seven-times", "but-for-its-end", "the-first", "another-between", "further-in"],
)
async def test_it_ends_above_a_line_that_repeats_the_one_above_it(lines: list[str], kept: list[str]) -> None:
    model = Model([(line, 1.0) for line in lines])
    assert await model.below(completion("x = 1", START, 1.0)) == kept
    assert len(model.asked) == len(kept) + 1, "nothing is asked for below a repeated line"


GO = ["case 1:", "\treturn a", "case 2:", "\tif b {", "\t\treturn b", "\t}", "default:", "\treturn c", "}"]
CPP = [" public:", "  int x;", "private:", "  int y;", "};"]


@pytest.mark.parametrize(
    ("first", "lines", "kept"),
    [
        ("switch x {", [*GO, "return d"], GO),
        ("switch x {", [*GO[:3], "return d"], GO[:2]),  # not with a label that nothing stands below
        ("class A {", [*CPP, "A a;"], CPP),
    ],
)
async def test_the_parts_of_a_block_between_braces_may_begin_where_it_begins(
    first: str, lines: list[str], kept: list[str]
) -> None:
    model = Model([(line, 1.0) for line in lines])
    at = Cursor.at(["", ""], 0, 0, "go")
    assert await model.below(completion(first, at, 1.0)) == kept


@pytest.mark.parametrize(
    ("lines", "kept"),
    [
        (["    y = 2", "    for a in b:"], ["    y = 2"]),
        (["    y = 2", "    f("], ["    y = 2"]),
        (["    y = 2", "    for a in b:  # each"], ["    y = 2"]),
        (["    for a in b:", "    for a in b:"], []),
    ],
)
async def test_it_does_not_end_with_a_line_that_opens_a_block(lines: list[str], kept: list[str]) -> None:
    found: list[tuple[str, float | None]] = [(line, 1.0) for line in lines]
    assert await Model([*found, ("", None)]).below(completion("x = 1", START, 1.0)) == kept
    assert await Model([*found, ("z = 3", 1.0)]).below(completion("x = 1", START, 1.0)) == kept


async def test_nor_where_it_is_full() -> None:
    model = Model([*((f"    x += {n}", 1.0) for n in range(MOST_LINES - 2)), ("    if x:", 1.0)])
    assert len(await model.below(completion("x = 1", START, 1.0))) == MOST_LINES - 2


async def test_a_line_that_opens_a_block_stands_alone() -> None:
    model = Model([("", None)])
    first = completion("for a in b:", START, 1.0)
    assert await lines_of(model.complete, first) == ((first,), None)


async def test_a_line_that_opens_a_block_counts_as_any_other() -> None:
    model = Model([("    for y in x:", 0.9), ("        z += y", 0.9), ("    if z:", 0.01), ("z()", 1.0)])
    assert await model.below(completion("x = 1", START, 0.9)) == ["    for y in x:", "        z += y"]
    assert len(model.asked) == 4


@given(st.lists(st.floats(0.0, 1.0), min_size=2, max_size=6), st.data())
def test_each_line_has_the_probability_that_all_up_to_it_are_right(
    ps: list[float], data: st.DataObject
) -> None:
    doubts = [data.draw(st.sampled_from([None, (0, 2), (1, 3)])) for _ in ps]
    each = enumerate(zip(ps, doubts, strict=True))
    lines = [completion(f"line {n} 😀", START, p, doubt) for n, (p, doubt) in each]
    block = block_of(lines[0], lines, decide)
    assert block.text.split("\n") == [line.suggestion.text for line in lines]
    products = [math.prod(ps[: n + 1]) for n in range(len(ps))]
    assert [one.calibrated for one in block.lines] == pytest.approx(products)
    assert [one.tier for one in block.lines] == [decide(p)[0] for p in products]
    assert block.confidence.calibrated == pytest.approx(products[-1])
    assert block.confidence.tier is decide(products[-1])[0]
    tiers = [one.tier for one in block.lines]
    like_first, n = tiers.count(tiers[0]), len(ps)
    how_far = f"through line {like_first} of {n}" if like_first < n else f"all {n} lines;"
    assert block.confidence.reason.startswith(f"{tiers[0].value} {how_far}")
    assert "no labels of their own" in block.confidence.reason
    assert not block.confidence.certified
    least = ps.index(min(ps))
    if block.doubt is None:
        assert doubts[least] is None
    else:
        assert block.text[slice(*block.doubt)] == lines[least].suggestion.text[slice(*doubts[least] or ())]
    wire = block.to_wire()
    assert wire["kind"] == "block"
    assert len(wire["lines"]) == len(ps)


def test_the_first_line_of_a_block_goes_over_closers_like_a_line() -> None:
    first = completion("a)", Cursor.at(["x = f("], 0, 6, "python"), 0.9, doubt=(0, 1)).over(")")
    assert isinstance(first, Completion)
    below = completion("y = 2", START, 0.8, doubt=(0, 1))
    block = block_of(first, [first, below], decide)
    assert block.text == "a)\ny = 2"
    assert block.text[slice(*block.doubt or ())] == "y"
    assert block_of(first, [first], decide) is first.suggestion


def test_a_comma_that_stays_behind_the_first_line_leaves_no_block() -> None:
    """It would stand behind the last line."""
    first = completion("b)", Cursor.at(["    a,", "    "], 1, 4, "python"), 0.9).over("),")
    assert isinstance(first, Completion)
    assert first.kept
    assert block_of(first, [first, completion("y = 2", START, 0.8)], decide) is first.suggestion


def test_without_a_line_below_it_is_the_line() -> None:
    line = completion("x = 1", START, 0.9)
    assert block_of(line, [], decide) is block_of(line, [line], decide) is line.suggestion
    assert "lines" not in line.suggestion.to_wire()


ROOT = Path(__file__).parents[2]
RECORD = ROOT / "models" / "records" / "blocks" / "line-smollm2-135m-large.jsonl"


def test_the_documented_tables_are_those_of_the_record() -> None:
    rows = rows_of(RECORD)
    assert sum(len(row["p"]) > 1 for row in rows) >= 300
    page = RECORD.with_name("README.md").read_text("utf-8")
    shown = page.partition("<!-- begin: blocks -->\n")[2].partition("\n<!-- end: blocks -->")[0]
    assert shown == tables(rows)
    assert counted(rows) in page
