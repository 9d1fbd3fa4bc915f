"""The features of a completion's text: their values, and that what is remembered does not change them."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Sequence
from pathlib import Path

import attrs
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import lsp_calib
from lsp_calib.completion import features
from lsp_calib.completion.context import Cursor
from lsp_calib.completion.features import DocumentFeatures, FeatureExtractor, place_of, text_features
from lsp_calib.confidence.features import FEATURES, PLACES
from lsp_calib.syntax import source_tree
from lsp_calib.syntax.languages import RULES
from lsp_calib.values import Generation, Stop, Timing, Token

_TEXT = '''\
"""A module."""

import os


def total(items, *, start=0):
    """The sum.

    It may be empty.
    """
    result = start
    for item in items:
        result += item.price
    return result


class Shop:
    names = ["a",
             "b"]

    def open(self, door):
        if door:
            return os.open(door)
        return None
'''
SOURCE = _TEXT.split("\n")
ANSWER = Generation("x", (Token(1, -0.1, 0.0, "x"), Token(2, -0.2, 0.0, "")), Stop.END_OF_TEXT, Timing())


def of(lines: Sequence[str], language: str = "python") -> dict[str, float]:
    """Of the completion that `lines` hold between « and »."""
    at = next(at for at, line in enumerate(lines) if "«" in line)
    before, rest = lines[at].split("«")
    text, after = rest.split("»")
    document = (*lines[:at], before + after, *lines[at + 1 :])
    return text_features(Cursor.at(document, at, len(before), language), text)


def instead(old: str, new: str) -> dict[str, float]:
    """Of a completion in `SOURCE`, where it makes a line in the place of `old`."""
    assert SOURCE.count(old) == 1
    return of([new if line == old else line for line in SOURCE])


def inserted(above: str, *new: str) -> list[str]:
    """`SOURCE` with lines below one of its own."""
    at = SOURCE.index(above) + 1
    return [*SOURCE[:at], *new, *SOURCE[at:]]


def at_end(line: str) -> dict[str, float]:
    return of([*SOURCE[:-2], line, "", ""])


BROKEN = [
    ("    result = start", "    «result = (start»"),
    ("    result = start", "    «result = start)»"),
    ("    result = start", "    result =« 'start»"),
    ("    result = start", "    result« = [start] and \\»"),
    ("    result = start", '    «result = "start»'),
    ("    result = start", "    «result = = start»"),
    ("    result = start", "    «if = start:»"),
    ("        result += item.price", "        «for result item:  # all»"),
    ("    for item in items:", "    «items = list(items)»"),
    ("class Shop:", "«shop = Shop()»"),
    ('    names = ["a",', '    «names = ["a"]»'),
    ('             "b"]', '             «"b")»'),
    ("    for item in items:", "    «# for item in items:»"),
]
FITTING = [
    ("    result = start", "    «result = start»"),
    ("    result = start", "    «# anything: (»"),
    ("    result = start", "    «result = {1: start}[»1]"),
    ("    for item in items:", "    «while items:»  # comment"),
    ("    for item in items:", "    for« item in items: # comment»"),
    ("        result += item.price", "        «if item: result += 1»"),
    ("    It may be empty.", "    «It may: (be 'empty»"),
    ('             "b"]', '       «"b"]»'),
    ('             "b"]', '    «"c", "d"]»'),
    ('    names = ["a",', '    «names = ["c", (1, 2),»'),
]


@pytest.mark.parametrize(
    ("old", "new", "broken"), [*((*one, 1.0) for one in BROKEN), *((*one, 0.0) for one in FITTING)]
)
def test_whether_a_line_leaves_broken_code(old: str, new: str, broken: float) -> None:
    assert instead(old, new)["broken"] == broken


# Without what they open: its lines are not written yet, and those that stand below go on as they did.
OPENING = (
    "if start: ¦ for item in items:  # all ¦ async with start as begin: ¦ def begin(start): ¦ "
    'return { ¦ total(start, ¦ print(start, [ ¦ if ( ¦ @cache ¦ @cache( ¦ match start: ¦ result = """start'
)
WRONG = "total(start ¦ if start ¦ if = start: ¦ lambda start: ¦ start: ¦ total(]) ¦ total = = [ ¦ else:"


@pytest.mark.parametrize("new", [*OPENING.split(" ¦ "), *WRONG.split(" ¦ ")])
def test_a_new_line_that_opens_something(new: str) -> None:
    fits = new in OPENING.split(" ¦ ")
    assert of(inserted("    result = start", f"    «{new}»"))["broken"] == float(not fits)
    if fits:
        assert of(inserted("import os", f"«{new}»"))["broken"] == 0.0
        lines = inserted("        return None", f"        «{new}»")
        assert of(lines)["broken"] == 0.0
        # What stands above and is not finished is not its fault.
        assert of(["total(start[", "", *lines])["broken"] == 0.0


@pytest.mark.parametrize(
    ("new", "broken"),
    [
        *((new, 0.0) for new in ("start,", "start", "start=[", "*start, (", ")")),
        *((new, 1.0) for new in ("start]", "start = = 1,", "return start", "))")),
    ],
)
def test_a_line_in_what_is_open(new: str, broken: float) -> None:
    """The call above was begun in a finished file, and the bracket that closes it is not written yet."""
    assert of(inserted("    result = start", "    total(", f"        «{new}»"))["broken"] == broken


@pytest.mark.parametrize(
    ("line", "broken"),
    [
        ("        «return (»", 0.0),
        ("        «if door:»", 0.0),
        ("    «@property»", 0.0),
        ('        «"""Some»', 0.0),
        ("        «x = = 1»", 1.0),
        ("        «return [(]»", 1.0),
        ('        «x = "abc»', 1.0),
    ],
)
def test_nothing_is_broken_that_lines_below_the_last_one_can_repair(line: str, broken: float) -> None:
    assert at_end(line)["broken"] == broken


@pytest.mark.parametrize("elsewhere", ["def f(", "x = = 1", ") ) )", "class A"])
def test_the_line_is_not_blamed_for_an_error_elsewhere(elsewhere: str) -> None:
    """Another place that the user has not finished."""
    fitting = ["«x = total([])»" if line == "import os" else line for line in SOURCE]
    assert of([*fitting, *SOURCE, elsewhere, ""])["broken"] == 0.0
    breaking = ["«x = total([)»" if line == "import os" else line for line in SOURCE]
    assert of([*breaking, *SOURCE, elsewhere, ""])["broken"] == 1.0


@pytest.mark.parametrize(
    ("new", "names"),
    [
        ("    «result = start»", 0),
        ("    «other = start»", 0),  # it binds the name
        ("    «other = begin»", 1),
        ("    «other = begin + begin.first»", 2),
        ("    «print(len(start), None)»", 0),  # built in
        ("    begin = «start»", 0),  # not of the completion
        ("    star«ting = begin»", 1),
        ("    «result = star»ting", 1),  # completed by it
        ("    «result = 'begin' # begin»", 0),
        ("    «result = f'{begin}'»", 1),
        ("    «total(begin=start)»", 1),
        ("    «for a, (b, *c) in items: a, b, c»", 0),
        ("    «with start as begin: begin»", 0),
        ("    «import begin.all as begun»", 0),
        ("    «from begin import every»", 0),  # those of an import stand nowhere before
        ("    «def begin(a, b: c = d, *e): pass»", 3),  # parameters are guessed like other names
        ("    «[begin for begin in items]»", 0),
        ("    «if (begin := start): begin»", 0),
        ("    «lambda begin: begin»", 1),
        ("    «except start as begin: begin»", 0),
        ("    «global begin»", 0),
    ],
)
def test_names_that_are_new(new: str, names: int) -> None:
    assert instead("    result = start", new)["new-names"] == math.log1p(names)


def test_a_line_that_stands_elsewhere() -> None:
    lines = ["x = 1", "  x = 1", "x = «1»", "x = 2"]
    found = of(lines)
    assert found["line-repeats"] == math.log1p(2)
    assert found["beginning-agrees"] == 2 / 4
    assert found["line-follows"] == 0.0
    assert of([*lines, "x = 1"])["line-follows"] == 1.0


@pytest.mark.parametrize(
    ("before", "place"),
    [
        *(("", "line-start"), ("\t ", "after-indentation"), ("x = ", "mid-line")),
        *((" né", "mid-word"), ("a_", "mid-word")),
    ],
)
def test_places(before: str, place: str) -> None:
    cursor = Cursor.at((before,), 0, len(before))
    assert place_of(cursor) == place
    assert place in PLACES
    assert text_features(cursor, "x")["in-word"] == float(place == "mid-word")


def test_a_language_without_a_grammar_has_the_other_features() -> None:
    needing = {"broken", "new-names", "signs"}
    assert of(["x = «1»"]).keys() - of(["x = «1»"], "cobol").keys() == needing
    assert of(["x = «1»"]).keys() <= FEATURES.keys()


def test_of_a_document_that_is_too_large_only_the_place_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(features, "MOST_CHARACTERS", 100)
    document = DocumentFeatures()
    for length, known in [(50, True), (200, False), (60, True)]:
        cursor = Cursor.at(("#" * length, ""), 1, 0, "python")
        found = document.evidence(cursor, "x", ANSWER).features
        assert ("broken" in found, "in-word" in found) == (known, True)


_ODD = '¦(¦)¦"""¦\'¦\\¦    if x:¦@¦x = [¦\tx¦def f():¦\x00¦\ud800 = 🐍¦\r¦a\nb'
_PIECES = st.sampled_from([*SOURCE, *_ODD.split("¦")])
_ROWS = st.integers(0, 60)
_EDITS = st.lists(
    st.tuples(_ROWS, st.integers(0, 12), st.lists(_PIECES, max_size=5), _ROWS, st.integers(0, 9), _PIECES),
    min_size=1,
    max_size=6,
)


@given(
    start=st.lists(_PIECES, min_size=1, max_size=40),
    edits=_EDITS,
    language=st.sampled_from(["python", "plaintext"]),
)
@settings(max_examples=150, deadline=None)
@example(start=["x"], edits=[(0, 1, [], 0, 0, "x")], language="python")
def test_a_remembered_document_has_the_features_of_a_new_one(
    start: list[str], edits: list[tuple[int, int, list[str], int, int, str]], language: str
) -> None:
    """After any edits, wherever the cursor was; regions are made so small that the document has several."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(source_tree, "_BLOCK", 2)
        patched.setattr(source_tree, "_BELOW", 1)
        patched.setattr(source_tree, "_FARTHEST", 6)
        document = DocumentFeatures()
        lines = tuple(start)
        for first, count, new, row, column, text in edits:
            lines = (*lines[:first], *new, *lines[first + count :]) or ("",)
            cursor = Cursor.at(lines, row % len(lines), column, language)
            found = document.evidence(cursor, text, ANSWER).features
            expected = text_features(cursor, text)
            assert {name: found[name] for name in expected} == expected


@given(st.text(max_size=200), st.text(max_size=30), st.integers(0, 300), st.integers(0, 40))
@settings(max_examples=150, deadline=None)
def test_any_text_has_finite_features(source: str, text: str, row: int, column: int) -> None:
    lines = source.split("\n")
    found = text_features(Cursor.at(lines, row % len(lines), column, "python"), text)
    assert all(math.isfinite(value) for value in found.values())
    assert found.keys() >= {"broken", "new-names", "line-repeats", "in-word"}


@pytest.mark.parametrize("deep", ["(", "[", "{", "a.", "if x:", "not "])
def test_deep_nesting_has_features(deep: str) -> None:
    cursor = Cursor.at((*[deep] * 2000, "x", *[deep] * 2000, deep * 2000), 2000, 1, "python")
    assert "broken" in text_features(cursor, deep * 100)


def test_a_line_of_data_has_no_features_of_syntax() -> None:
    cursor = Cursor.at(("x = ",), 0, 4, "python")
    assert "broken" in text_features(cursor, "[" * 990)
    assert "broken" not in text_features(cursor, "[" * 1000)


def test_regions_of_a_large_file_change_no_verdict_about_its_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    source = (Path(lsp_calib.__file__).parent / "feedback" / "tracker.py").read_text("utf-8").split("\n")
    places = [(row, new) for row in range(4, len(source), 17) for new in ("x = (1", "return 1")]

    blocks = source_tree._BLOCK
    monkeypatch.setattr(source_tree, "_BLOCK", 10_000)

    def verdicts() -> list[dict[str, float]]:
        return [text_features(Cursor.at(source, row, 0, "python"), new) for row, new in places]

    whole = verdicts()
    monkeypatch.setattr(source_tree, "_BLOCK", blocks)
    assert verdicts() == whole


@pytest.mark.parametrize("row", [0, 255, 299, 300, 310, 3000, 3999])
def test_a_region_holds_whole_statements_of_the_outermost_level(row: int) -> None:
    rules = RULES.get("python")
    assert rules is not None
    lines = (
        ["def f():", *["    x = 1"] * 299] + ["x = 1", "if x:", "    y = 2"] * 1000 + ["x = ["] + ["1,"] * 700
    )
    first, last = source_tree.region_of(rules, lines, row)
    assert first <= row < last <= len(lines)
    assert first == 0 or rules.begins.match(lines[first])
    assert last == len(lines) or rules.begins.match(lines[last])
    assert last - first < 1500


def test_a_statement_of_data_is_parsed_whole_up_to_a_limit() -> None:
    rules = RULES.get("python")
    assert rules is not None
    assert source_tree.region_of(rules, ["x = ["] + ["1,"] * 4000, 2000) == (0, 4001)
    first, last = source_tree.region_of(rules, ["x = ["] + ["1,"] * 40_000, 20_000)
    assert 0 < first < 20_000 < last < 25_000


def test_memory_is_bounded() -> None:
    extractor = FeatureExtractor(most=2)
    for name in "abca":
        extractor.of(name).read(Cursor.at(("x",), 0, 0))
    assert list(extractor._documents) == ["c", "a"]
    extractor.forget("a")
    assert list(extractor._documents) == ["c"]
    assert extractor.of("") is not extractor.of("")
    assert extractor.of("c") is extractor.of("c")
    assert list(extractor._documents) == ["c"]


def test_threads_may_ask_for_one_document_at_once() -> None:
    document = DocumentFeatures()
    lines = tuple(SOURCE * 20)
    cursors = [Cursor.at(lines, row, 0, "python") for row in range(10, 400, 13)]
    expected = [text_features(cursor, "x = 1") for cursor in cursors]
    found: dict[int, dict[str, float]] = {}

    def ask(part: int) -> None:
        for at in range(part, len(cursors), 4):
            features = document.evidence(cursors[at], "x = 1", ANSWER).features
            found[at] = {name: features[name] for name in expected[at]}

    threads = [threading.Thread(target=ask, args=(part,)) for part in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [found[at] for at in range(len(cursors))] == expected


def test_what_nobody_waits_for_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """While one state of the document is read, several newer ones come: only the last of them is read."""
    extractor, read = FeatureExtractor(), list[int]()
    document = extractor.of("a")
    monkeypatch.setattr(features, "_index_of", lambda cursor, _: read.append(cursor.line))
    cursors = [Cursor.at(("x",) * 4, row, 0) for row in range(4)]
    for closed, expected in ((False, [3]), (True, [])):
        read.clear()
        threads = [threading.Thread(target=document.read, args=(cursor,)) for cursor in cursors]
        with document._lock:
            for thread, cursor in zip(threads, cursors, strict=True):
                thread.start()
                while document._newest is not cursor:
                    time.sleep(0.001)
            if closed:
                extractor.forget("a")
        for thread in threads:
            thread.join()
        assert read == expected


# In prose or not, the language, and a text with the cursor. ⏎: a line ends.
IN_PROSE = r'''
+ python: # a comm▏ent⏎x = 1
+ python: x = 1  # why it is ▏
+ python: def f():⏎    """The sum.⏎⏎    It may ▏⏎    """⏎    return 1
+ javascript: /**⏎ * The sum ▏⏎ */⏎function f() {}
+ go: // Sum ▏⏎func f() {}
+ rust: /// The sum ▏⏎fn f() {}
+ python: x = 1⏎#▏
+ python: def f():⏎    """The sum.⏎⏎    ▏⏎    return 1
+ python: def f():⏎    """The sum.⏎⏎    It may ▏
- python: def f():⏎    """The sum."""⏎    return g(▏
+ javascript: /**⏎ * ▏⏎function f() {}
- javascript: /**⏎ * The sum.⏎ */⏎function f( {▏
- javascript: glob("src/**▏
+ java: class A {⏎  /**⏎   * ▏⏎  void f() {}⏎}
+ go: /*⏎▏
+ rust: /// The sum⏎///▏⏎fn f() {}
- rust: /// The sum⏎▏⏎fn f() {}
- python: ▏# a comment
- python: # a comment⏎▏⏎x = 1
- python: """A module."""▏
- python: def f():⏎    """The sum."""⏎    return ▏
- python: run(⏎    """SELECT ▏"""⏎)
- javascript: /* a */▏
+ elixir: # a comment ▏
+ shellscript:   #▏
- shellscript: ▏# a comment
+ lua: -- ▏
+ kotlin: /**⏎ * ▏⏎ */⏎fun f() {}
- kotlin: /**⏎ * The sum.⏎ */⏎fun f() {▏
+ css: /* ▏⏎a { color: red; }
- markdown: # A heading ▏
- a-new-one: # ▏
'''


@pytest.mark.parametrize(
    "row", [*IN_PROSE.strip("\n").split("\n"), f"- python: # {'x' * 2000}▏"], ids=lambda row: row[:40]
)
def test_a_cursor_in_a_comment_or_documentation_is_in_prose(row: str) -> None:
    """Also while it is not closed yet; without a grammar it is known at the beginning of a line."""
    language, _, text = row[2:].partition(": ")
    assert DocumentFeatures().is_prose(_marked(text.replace("⏎", "\n"), language)) == (row[0] == "+")


@pytest.mark.parametrize(
    ("text", "answer", "expected"),
    [
        ("def f():\n    ▏\n", '"""', True),
        ("def f():\n    ▏\n", '"""The sum."""', True),
        ("def f():\n    ▏\n    return 1\n", "r'''The sum.", True),
        ("class A:\n▏\n", '    """', True),
        ("▏\nimport os\n", '"""A module."""', True),
        ("def f():\n    ▏\n", "return 1", False),
        ("def f():\n    ▏\n", "# why", False),
        ("def f():\n    x = ▏\n", '"""', False),
        ("run(\n    ▏\n)\n", '"""SELECT 1""",', False),
    ],
)
def test_a_line_that_opens_documentation_is_known(text: str, answer: str, expected: bool) -> None:
    cursor = _marked(text, "python")
    assert DocumentFeatures().begins_documentation(cursor, answer) is expected
    assert not DocumentFeatures().begins_documentation(attrs.evolve(cursor, language="go"), answer)


def _marked(text: str, language: str) -> Cursor:
    """The cursor at the mark in a text."""
    before, _, _ = text.partition("▏")
    row, column = before.count("\n"), len(before) - before.rfind("\n") - 1
    return Cursor.at(tuple(text.replace("▏", "").split("\n")), row, column, language)


@pytest.mark.parametrize("language", ["javascript", "typescript"])
@pytest.mark.parametrize("unit", ["function a(){", "{", "a<@", "->"])
def test_beside_200_kilobytes_in_a_line_others_are_parsed_as_elsewhere(language: str, unit: str) -> None:
    """Parsing it took up to .4 s, after which nothing was known of the lines around it."""
    data = unit * (200_000 // len(unit))
    for typed, broken in (("«let x = 1;»", 0.0), ("«let x = );»", 1.0)):
        assert of([typed, data], language).get("broken") == broken
        assert of([data, "let y = 2;", typed], language).get("broken") == broken
