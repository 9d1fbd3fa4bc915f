"""Parsing has a budget: a text that takes tree-sitter quadratic time is given up, others are as they were."""

from __future__ import annotations

import gc
import itertools
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import attrs
import psutil
import pytest
from tree_sitter import Language, Parser

from lsp_calib.completion.context import Cursor
from lsp_calib.completion.features import DocumentFeatures, text_features
from lsp_calib.syntax import functions, parsing, prose_lines
from lsp_calib.syntax.functions import with_brackets_closed
from lsp_calib.syntax.languages import rules_of
from lsp_calib.syntax.parsing import Overrun
from lsp_calib.syntax.source_tree import SourceTree

# What slows tree-sitter down: the ends of lines, errors inside each other, tokens without an end, a long list
# of ways to recover at the end of the file (gigabytes of memory for the second and third one).
DEGENERATE = [
    ("python", "\\\n"),
    ("python", "/*\n"),
    ("java", "%w("),
    ("cpp", "%w("),
    ("typescript", "->\n"),
    ("typescript", "/*\n"),
    ("javascript", '"'),
]


def grammar(language: str) -> Callable[[], Language]:
    rules = rules_of(language)
    assert rules is not None
    return rules.whole or rules.grammar


@pytest.fixture
def spent(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """A clock that is looked at all the time and moves by a millisecond at each look: what is slow depends on
    how often tree-sitter looks up, and not on the machine."""
    looks = [0.0]

    def clock() -> float:
        looks[0] += 0.001
        return looks[0]

    monkeypatch.setattr(parsing, "BUDGET", attrs.evolve(parsing.BUDGET, interval=0.0, clock=clock))
    return looks


@pytest.mark.parametrize(("language", "unit"), DEGENERATE)
def test_a_degenerate_text_is_given_up(language: str, unit: str) -> None:
    """It is one of a language without a grammar: no functions, no features of syntax; nothing is raised."""
    lines = (unit * (60_000 // len(unit))).split("\n")
    with pytest.raises(Overrun):
        parsing.parse(grammar(language), "\n".join(lines).encode())
    assert functions(lines, language) == []
    assert prose_lines(lines, language) == set()


def test_a_text_stops_while_its_parse_goes_on(spent: list[float]) -> None:
    """With a clock of its own the same number of steps is made on each machine."""
    source = b"->\n" * 8000
    with pytest.raises(Overrun):
        parsing.parse(grammar("typescript"), source)
    assert spent[0] < 1.0


def test_the_end_of_a_slow_text_is_tried_before_it_is_reached() -> None:
    """Where 13,333 of these lines end, tree-sitter takes gigabytes in one go."""
    before = psutil.Process().memory_info().rss
    with pytest.raises(Overrun):
        parsing.parse(grammar("python"), b"/*\n" * 13_333)
    assert psutil.Process().memory_info().rss - before < 300_000_000


DEEP = """
import sys
from lsp_calib.syntax.languages import rules_of
from lsp_calib.syntax.parsing import Overrun, parse

written = {
    "spaces": lambda width: " " * width,
    "tabs": lambda width: "\\t" * (width // 8) + " " * (width % 8),
    "parts": lambda width: " \\\\\\n" * (width % 20) + " " * (width - width % 20),
    "begun anew": lambda width: " " * (600 - width) + "\\f" + " " * width,
}[sys.argv[1]]
lines = [f"{written(width)}if {width}:" for width in range(600)]
for used in (100, 600):
    text = "\\n".join([*lines[:used], written(used) + 'x = f"{y} z"', ""])
    try:
        print(parse(rules_of("python").grammar, text.encode()).root_node.has_error)
    except Overrun:
        print("given up")
"""


@pytest.mark.parametrize("way", ["spaces", "tabs", "parts", "begun anew"])
def test_deep_indentation_crashes_no_scanner(way: str) -> None:
    """Python's writes past the end of its buffer from 511 indentations on: the process died."""
    command = [sys.executable, "-c", DEEP, way]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=120)
    assert done.stdout.split("\n")[:2] == ["False", "given up"]


STOPPED = """
import itertools
import attrs
from lsp_calib.syntax import parsing
from lsp_calib.syntax.languages import rules_of

for last in range(60):
    for shift in range(4):
        looks = itertools.count()
        parsing.BUDGET = attrs.evolve(
            parsing.BUDGET, interval=0.0, clock=lambda: 60.0 * (next(looks) >= last)
        )
        source = ("#" * shift + "𝄞" * 20_000).encode()
        try:
            parsing.parse(rules_of("python").grammar, source)
        except parsing.Overrun:
            print(last)
"""


PASTED = """
import sys
from lsp_calib.syntax.languages import rules_of
from lsp_calib.syntax.parsing import Overrun
from lsp_calib.syntax.source_tree import SourceTree

lines = [" " * width + f"if {width}:" for width in range(600)]
tree = SourceTree(rules_of("python"), [*lines[:300], " " * 300 + "x = 1", ""])
pasted = [*lines[300:], " " * 600 + 'x = f"{y} z"']
try:
    if sys.argv[1] == "narrow":  # in tabs each line is short
        below = [" " * width + "if 1:" for width in range(288, 628)] + [" " * 628 + 'x = f"{y} z"', ""]
        tree = SourceTree(rules_of("python"), ["", *below])
        tree.replace(0, 1, ["\\t" * (width // 8) + " " * (width % 8) + "if 1:" for width in range(288)])
        tree.parse(0)
    elif sys.argv[1] == "tree_with":
        tree.tree_with(300, pasted[0], pasted[1:])
    else:
        tree.replace(300, 301, pasted)
        tree.parse(300)
except Overrun:
    print("given up")
"""


@pytest.mark.parametrize("way", ["replace", "tree_with", "narrow"])
def test_deep_indentation_that_comes_later_crashes_no_scanner_either(way: str) -> None:
    command = [sys.executable, "-c", PASTED, way]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=120)
    assert done.stdout.strip() == "given up"


def test_a_parse_that_is_stopped_within_a_character_crashes_nothing() -> None:
    """Wherever it is stopped. The process died: tree-sitter read the rest of a character from nowhere."""
    command = [sys.executable, "-c", STOPPED]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert len(set(done.stdout.split())) > 15


def test_ctrl_c_comes_through_wherever_it_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    """tree-sitter calls the one function although the other has raised an error."""
    for last in range(1, 130):
        looks = itertools.count()

        def clock(last: int = last, looks: Iterator[int] = looks) -> float:
            if next(looks) == last:
                raise KeyboardInterrupt
            return 0.0

        monkeypatch.setattr(parsing, "BUDGET", attrs.evolve(parsing.BUDGET, interval=0.0, clock=clock))
        with pytest.raises(KeyboardInterrupt):
            parsing.parse(grammar("python"), b"def f():\n    return (a, (b, c[1:2]))\n" * 800)


def test_other_threads_go_on_during_a_parse() -> None:
    steps, over = [0], threading.Event()

    def count() -> None:
        while not over.is_set():
            steps[0] += 1
            time.sleep(0.0001)

    other = threading.Thread(target=count)
    other.start()
    before = steps[0]
    tree = parsing.parse(grammar("python"), Path(__file__).read_bytes() * 40)
    during = steps[0] - before
    over.set()
    other.join()
    assert not tree.root_node.has_error
    assert during > 1


def test_the_tree_is_that_of_the_bytes_at_once() -> None:
    source = Path(__file__).read_bytes() + "é𝄞 = 'ß' * 2\n".encode() * 2000
    tree, plain = parsing.parse(grammar("python"), source), Parser(grammar("python")()).parse(source)
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
            parsing.parse(grammar("python"), source + b"#")
        gc.collect()
        return int(psutil.Process().memory_info().rss)

    parse_often()
    before = parse_often()
    assert parse_often() - before < len(source) * 10


def test_a_line_below_a_degenerate_one_has_no_features_of_syntax() -> None:
    lines = (*["->" * 200] * 100, "", "")
    features = text_features(Cursor(lines, 100, 0, "typescript"), "x = 1")
    assert "broken" not in features
    assert "line-repeats" in features


@pytest.mark.usefixtures("spent")
def test_an_update_of_a_tree_has_the_budget_too() -> None:
    rules = rules_of("typescript")
    assert rules is not None
    tree = SourceTree(rules, ["let a = 1;"] * 20)
    tree.replace(5, 6, ["->"] * 8000)
    with pytest.raises(Overrun):
        tree.parse(5)
    tree = SourceTree(rules, ["let a = 1;"] * 20)
    with pytest.raises(Overrun):
        tree.tree_with(5, "->\n", ["->"] * 8000)


def test_functions_inside_each_other_do_not_hold_the_file_thousands_of_times() -> None:
    """The code of each would hold that of all in it: 200 KB would become a gigabyte."""
    nested = "function a(){\n" * 3000 + "}\n" * 3000
    assert sum(len(one.code) for one in functions(nested.split("\n"), "javascript")) < 3_000_000


@pytest.fixture(autouse=True)
def _young_heap() -> Iterator[None]:
    """What other tests have left is not searched for garbage while this one is timed."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


def test_a_place_deep_in_an_expression_is_found_to_be_code_at_once() -> None:
    """Each parent of a node is looked for from the root on."""

    def seconds(depth: int) -> float:
        lines = ("x = " + "[" * depth, "1", "]" * depth)
        start = time.thread_time()
        DocumentFeatures().read(Cursor.at(lines, 1, 1, "python"))
        return time.thread_time() - start

    assert seconds(16_000) < 10 * seconds(4_000) + 0.1


@pytest.mark.parametrize("text", ["(" * 100_000, "[" * 100_000, "/**/" * 25_000])
def test_our_own_walks_take_no_quadratic_time(text: str) -> None:
    """In one line with 100,000 brackets or comments each was looked for from the line's beginning."""
    rules = rules_of("javascript")
    assert rules is not None

    def seconds(part: str) -> float:
        start = time.thread_time()
        root = parsing.parse(rules.grammar, part.encode()).root_node
        with_brackets_closed(root, rules, [part], parsing.Allowance(1000.0))
        prose_lines([part], "javascript")
        return time.thread_time() - start

    quarter, whole = seconds(text[: len(text) // 4]), seconds(text)
    assert whole < 10 * quarter + 0.1
