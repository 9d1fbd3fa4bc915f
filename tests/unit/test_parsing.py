"""Parsing has a deadline: a text that takes too long is given up, others are as they were.

A stand-in takes the time: no text here slows tree-sitter down.
"""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest
import tree_sitter
from slow_parser import SlowParser
from tree_sitter import Language, Parser

from lsp_calib.completion.context import Cursor
from lsp_calib.completion.features import DocumentFeatures, text_features
from lsp_calib.syntax import functions, prose_lines, source_tree
from lsp_calib.syntax.functions import with_brackets_closed
from lsp_calib.syntax.languages import RULES
from lsp_calib.syntax.source_tree import Overrun, SourceTree


def grammar(language: str) -> Callable[[], Language]:
    rules = RULES.get(language)
    assert rules is not None
    return rules.whole or rules.grammar


@pytest.fixture
def spent(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """A clock that moves where a stand-in of the parser says so, on any machine alike."""
    seconds = [0.0]
    for clock in ("perf_counter", "thread_time"):
        monkeypatch.setattr(source_tree, clock, lambda: seconds[0])
    return seconds


@pytest.fixture
def slow(spent: list[float], monkeypatch: pytest.MonkeyPatch) -> SlowParser:
    """A parser that takes ten milliseconds for each piece of a text with the word in it. Where a whole text
    ends, it takes more than a thousand seconds in one go."""

    def spend(seconds: float) -> None:
        spent[0] += seconds

    parser = SlowParser(spend, piece=0.01, end=lambda size: 1e-8 * size**2)
    parser.stand_in(monkeypatch)
    return parser


SLOW = ["slow = 1"] * 50_000


@pytest.mark.parametrize("language", ["python", "typescript"])
def test_a_text_that_takes_too_long_is_given_up_before_its_end(
    language: str, slow: SlowParser, spent: list[float]
) -> None:
    """It is one of a language without a grammar: no functions, no features of syntax; nothing is raised."""
    with pytest.raises(Overrun):
        source_tree.parse(grammar(language), "\n".join(SLOW).encode())
    assert 0.0 < spent[0] < 1.0
    assert functions(SLOW, language) == []
    assert prose_lines(SLOW, language) == set()
    assert not slow.finished


@pytest.mark.parametrize("where", ["the grammar", "a first parse"])
def test_time_that_passes_once_beside_a_parse_costs_no_tree(
    where: str, spent: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A grammar is loaded for the first text, and garbage may be collected: neither is the time of a text."""
    passes = [1.0]

    def spend(_: float) -> None:
        spent[0] += passes.pop() if passes else 0.0

    if where == "a first parse":
        SlowParser(spend, piece=1.0).stand_in(monkeypatch)

    def load() -> Language:
        if where == "the grammar":
            spend(1.0)
        return grammar("python")()

    tree = source_tree.parse(load, b"slow = 1\n")
    assert (tree.root_node.type, passes) == ("module", [])


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """A parse is noted here, and not made."""
    found: list[object] = []

    def note(source: bytes, *_: object, **__: object) -> None:
        found.append(source)
        raise Overrun

    monkeypatch.setattr(tree_sitter, "Parser", lambda _: SimpleNamespace(parse=note))
    return found


@pytest.mark.parametrize(
    "written",
    [
        lambda width: " " * width,
        lambda width: "\t" * (width // 8) + " " * (width % 8),
        lambda width: " \\\n" * (width % 20) + " " * (width - width % 20),
        lambda width: " " * (400 - width) + "\f" + " " * width,
    ],
    ids=["spaces", "tabs", "parts", "begun anew"],
)
def test_deep_indentation_does_not_reach_the_parser(
    written: Callable[[int], str], calls: list[object]
) -> None:
    for count, parses in ((source_tree._MOST_INDENTATIONS - 2, 1), (source_tree._MOST_INDENTATIONS + 1, 0)):
        calls.clear()
        text = "\n".join(f"{written(width)}if {width}:" for width in range(count + 1))
        with pytest.raises(Overrun):
            source_tree.parse(grammar("python"), text.encode())
        assert len(calls) == parses


@pytest.mark.parametrize("shift", range(4))
def test_a_parser_reads_whole_characters(shift: int, slow: SlowParser) -> None:
    """So a parse stops between two: tree-sitter (0.26.1) does not survive a stop within one."""
    with pytest.raises(Overrun):
        source_tree.parse(grammar("python"), ("#" * shift + "𝄞" * 20_000 + "\n# slow\n" * 20_000).encode())
    assert len(slow.pieces) > 20
    for piece in slow.pieces:
        assert piece.decode()


def test_other_threads_go_on_during_a_parse() -> None:
    steps, over = [0], threading.Event()

    def count() -> None:
        while not over.is_set():
            steps[0] += 1
            time.sleep(0.0001)

    other = threading.Thread(target=count)
    other.start()
    before = steps[0]
    tree = source_tree.parse(grammar("python"), Path(__file__).read_bytes() * 40)
    during = steps[0] - before
    over.set()
    other.join()
    assert not tree.root_node.has_error
    assert during > 1


def test_the_tree_is_that_of_the_bytes_at_once() -> None:
    source = Path(__file__).read_bytes() + "é𝄞 = 'ß' * 2\n".encode() * 2000
    tree, plain = source_tree.parse(grammar("python"), source), Parser(grammar("python")()).parse(source)
    assert str(tree.root_node) == str(plain.root_node)
    pending = [(tree.root_node, plain.root_node)]
    while pending:
        one, other = pending.pop()
        assert (one.start_byte, one.end_byte) == (other.start_byte, other.end_byte)
        if one.end_byte - one.start_byte < 1000:
            assert one.text == other.text
        pending += zip(one.children, other.children, strict=True)


def test_parsing_again_and_again_takes_no_memory() -> None:
    """tree-sitter keeps what it is given by a function: that is one object, used again."""
    source = Path(__file__).read_bytes() * 40

    def parse_often() -> int:
        for _ in range(30):
            source_tree.parse(grammar("python"), source + b"#")
        gc.collect()
        return int(psutil.Process().memory_info().rss)

    parse_often()
    before = parse_often()
    assert parse_often() - before < len(source) * 10


@pytest.mark.usefixtures("slow")
def test_a_line_below_a_text_that_takes_too_long_has_no_features_of_syntax() -> None:
    lines = (*[", ".join(SLOW[:2_000])] * 20, "", "")
    features = text_features(Cursor(lines, 20, 0, "typescript"), "x = 1")
    assert "broken" not in features
    assert "line-repeats" in features


@pytest.mark.usefixtures("slow")
def test_a_tree_with_another_line_has_the_deadline_too() -> None:
    rules = RULES.get("typescript")
    assert rules is not None
    tree = SourceTree(rules, ["let a = 1;"] * 20)
    with pytest.raises(Overrun):
        tree.tree_with(5, SLOW[0], SLOW[1:])


def test_functions_inside_each_other_do_not_hold_the_file_thousands_of_times() -> None:
    """The code of each would hold that of all in it: 200 KB would become a gigabyte."""
    nested = "function a(){\n" * 3000 + "}\n" * 3000
    assert sum(len(one.code) for one in functions(nested.split("\n"), "javascript")) < 3_000_000


@pytest.mark.usefixtures("young_heap")
def test_a_place_deep_in_an_expression_is_found_to_be_code_at_once() -> None:
    """Each parent of a node is looked for from the root on."""

    def seconds(depth: int) -> float:
        lines = ("x = " + "[" * depth, "1", "]" * depth)
        start = time.thread_time()
        DocumentFeatures().read(Cursor.at(lines, 1, 1, "python"))
        return time.thread_time() - start

    assert seconds(16_000) < 10 * seconds(4_000) + 0.1


@pytest.mark.usefixtures("young_heap")
@pytest.mark.parametrize("text", ["(" * 100_000, "[" * 100_000, "/**/" * 25_000])
def test_our_own_walks_take_no_quadratic_time(text: str) -> None:
    """In one line with 100,000 brackets or comments each was looked for from the line's beginning."""
    rules = RULES.get("javascript")
    assert rules is not None

    def seconds(part: str) -> float:
        start = time.thread_time()
        root = source_tree.parse(rules.grammar, part.encode()).root_node
        with_brackets_closed(root, rules, [part], source_tree.Deadline(1000.0))
        prose_lines([part], "javascript")
        return time.thread_time() - start

    quarter, whole = seconds(text[: len(text) // 4]), seconds(text)
    assert whole < 10 * quarter + 0.1


def test_records_are_given_longer_so_that_the_load_of_the_machine_decides_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = [0.0]
    for clock in ("perf_counter", "thread_time"):
        monkeypatch.setattr(source_tree, clock, lambda: now[0])
    served = source_tree.Deadline(1.0)
    with source_tree.unhurried():
        recorded = source_tree.Deadline(1.0)
    now[0] = 3.0  # three times as slow as a quiet machine
    assert served.is_over
    assert not recorded.is_over
