"""What a linter sees in a file once a line is in it."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

import pytest

import lsp_calib
from lsp_calib.calibration.calibrators.calibrator import FEATURES_MEASURE, Curve, Weighted, words_for
from lsp_calib.calibration.tiers import Tier
from lsp_calib.completion.context import Cursor
from lsp_calib.completion.features import DocumentFeatures
from lsp_calib.syntax import signs
from lsp_calib.syntax.magics import CommandLine
from lsp_calib.syntax.signs import Sign, Signs
from lsp_calib.values import Evidence, Generation, Stop, Timing, Token

SOURCE = """\
import os
import re


def size(path, entries):
    ¦
    return total + len(entries)


def is_word(text):
    return re.fullmatch(r"\\w+", text)


class Folder:
    def names(self):
        return os.listdir(".")
"""


def of(line: str, source: str = SOURCE) -> list[str]:
    """The signs of a line in the place of the one with ¦, which gives its indentation."""
    lines = source.split("\n")
    row = next(at for at, one in enumerate(lines) if "¦" in one)
    found = Signs(lines, row).of(lines[row].replace("¦", line))
    return [f"{sign.kind} {sign.name}" for sign in found]


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("total = os.stat(path).st_size", []),
        ("size, total = path, 1", []),
        ("for total in entries: print(total)", []),
        ("tota = os.stat(path).st_size", ["undefined-below total"]),
        ("return path", ["undefined-below total"]),
        ("total = stat(path)", ["undefined-here stat"]),
        ("tota = stat(path)", ["undefined-here stat", "undefined-below total"]),
        ("total = {1: path, 2: path, 1: entries}", ["repeated-key 1"]),
        ("total = (", []),  # a file that cannot be parsed: the feature `broken` says so
        ('total = """', []),
    ],
)
def test_of_a_line_in_a_function(line: str, found: list[str]) -> None:
    assert of(line) == found


@pytest.mark.parametrize(
    ("source", "line", "found"),
    [
        # A name that is used above as well is missing for other reasons, such as a tool that defines it.
        ("_('a')\ndef f():\n    ¦\n    return _('b')", "x = 1; print(x)", []),
        # So is one that another function uses.
        ("def f():\n    ¦\n    return total\ndef g():\n    return total", "print(1)", []),
        # What a nested function binds nothing outside of it sees.
        ("def f():\n    def g():\n        ¦\n    return total", "total = 1; return total", []),
        (
            "def f():\n    ¦\n    def g():\n        return total\n    return g",
            "tot = 1",
            ["undefined-below total"],
        ),
        ("¦\n\ndef f():\n    return total", "tot = 1", ["undefined-below total"]),
        ("¦\n\ndef f():\n    return total", "total = 1", []),
        ("def f(¦):\n    return total", "tot", ["undefined-below total"]),
        # Several parameters may be missing, and this is one of them.
        ("def f(\n    ¦\n):\n    return total, tax", "total,", []),
        ("def f(\n    ¦\n):\n    return total, tax", "tex,", ["undefined-below total"]),
        ("def f():\n    ¦\n    return total, tax", "total = 1", ["undefined-below tax"]),
        # Nor do methods what their class binds; `other` is missing whatever stands there.
        (
            "class A:\n    x = 1\n    ¦\n        return text\n    def g(self):\n        return other",
            "def f(self, text):",
            [],
        ),
        (
            "class A:\n    x = 1\n    ¦\n        return text\n    def g(self):\n        return other",
            "def f(self):",
            ["undefined-below text"],
        ),
        ("try:\n    ¦\nexcept NameError:\n    pass", "total", []),
        ("import os\n¦\nos.sep", "import os", ["redefined os"]),
        ("¦\nos.sep", "import os", []),
        ("import os\n¦\nos.sep", "import sys", []),  # it may be used in what is written next
        ("class A:\n    def f(self): pass\n    ¦\n        pass", "def f(self):", ["redefined f"]),
        ("x = {\n    'a': 1,\n    ¦\n}", "'a': 2,", ["repeated-key a"]),
        ("x = {\n    'a': 1,\n    ¦\n}", "'b': 2,", []),
        ("if x := 1:\n    ¦\nprint(y)", "y = x", []),
    ],
)
def test_what_is_the_lines_own(source: str, line: str, found: list[str]) -> None:
    assert of(line, source) == found


@pytest.mark.parametrize(
    "above",
    ["from os.path import *", "exec(code)", "globals().update(x)", "def f():\n    global total, other"],
)
def test_where_names_come_from_anywhere_nothing_is_said(above: str) -> None:
    assert of("tot = 1", "¦\nprint(total)") == ["undefined-below total"]
    assert of("tot = 1", f"{above}\n¦\nprint(total)") == []


def test_in_notebooks_nothing_is_said() -> None:
    lines = [CommandLine.reading("%load_ext x", "pass"), "tot = 1", "print(total)"]
    assert Signs(lines, 1).of("tot = 1") == ()
    assert of("display(1)", "¦") == []


def test_of_a_file_that_is_not_in_order_without_the_line_nothing_is_said() -> None:
    assert of("tot = 1", "x = (\n¦\nprint(total)") == []
    assert of("tot = 1", "x = 1 +\n¦\nprint(total)") == []


def test_long_files_have_none() -> None:
    long = "¦\nprint(total)\n" + "x = 1\n" * 20_000
    assert of("tot = 1", long) == []


def test_a_line_in_a_long_statement_has_none() -> None:
    long = "x = {\n¦\n" + "'a long word': 'and a longer one',\n" * 1_500 + "}\n"
    assert of("'b': 1, 'b': 2,", long) == []
    assert of("'b': 1, 'b': 2,", "x = {\n¦\n" + "}\n") == ["repeated-key b"]
    assert of("w = {'b': 1, 'b': 2}", long.replace("¦", "") + "y = 1\nz = 2\n¦") == ["repeated-key b"]


def test_a_file_that_is_too_deep_for_the_linter_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    def deep(*_: object, **__: object) -> None:
        raise RecursionError

    monkeypatch.setattr("pyflakes.checker.Checker", deep)
    assert of("tot = 1", "¦\nprint(total)") == []


def _files() -> list[tuple[str, Sequence[str]]]:
    folder = Path(lsp_calib.__file__).parent
    chosen = sorted(folder.rglob("*.py"))[::9]
    return [(path.name, path.read_text("utf-8").split("\n")) for path in chosen]


@pytest.mark.parametrize(("name", "lines"), _files())
def test_the_right_line_has_none(name: str, lines: Sequence[str]) -> None:
    for row in range(0, len(lines), 11):
        assert Signs(lines, row).of(lines[row]) == (), (name, row + 1)


@pytest.mark.parametrize(("name", "lines"), _files()[::2])
def test_leaving_parts_out_changes_nothing(
    name: str, lines: Sequence[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Lines in the place of others, of functions, classes and the module, with parts of the file left out and
    without."""
    rng = random.Random(name)
    outer = [row for row, one in enumerate(lines) if one.strip() and not one.startswith(" " * 5)]
    rows = [(rng.randrange(len(lines)), rng.choice(lines)) for _ in range(20)]
    rows += [(rng.choice(outer), lines[rng.choice(outer)]) for _ in range(20)]
    found = [Signs(lines, row).of(line) for row, line in rows]
    monkeypatch.setattr(signs._Rest, "needed", lambda rest, _: list(rest._lines))
    assert found == [Signs(lines, row).of(line) for row, line in rows]


@pytest.mark.parametrize(
    ("source", "line", "found"),
    [
        # What a function uses it uses last, and what a class binds functions do not see.
        ("import json\nclass A:\n    ¦\n    def f(self):\n        return json.x", "json = 1", []),
        ("import json\nclass A:\n    ¦\n    def f(self): pass", "json = 1", ["redefined json"]),
        ("import json\ndef g():\n    json\n¦\n    pass\nx = 1", "def f(json):", []),
        # The names of what is left out are bound where it stands.
        ("¦\nx = 1\ny = 2\nz = x", "print(x)", ["undefined-here x"]),
        ("x = 1\ny = 2\nz = 3\n¦", "print(x)", []),
        ("x: int\ny = 2\nz = 3\n¦", "print(x)", ["undefined-here x"]),
        ("x = [a for a in ()]\ny = 2\n¦", "print(a)", ["undefined-here a"]),
        ("x = 1\ndel x\ny = 2\n¦", "print(x)", ["undefined-here x"]),
        ("try:\n    pass\nexcept E as e:\n    pass\ny = 2\n¦", "print(e)", ["undefined-here e"]),
        ("print(y := 1)\nx = 1\nz = 2\n¦", "print(y)", []),
        ("a = 1; b = 2\nx = 1\nz = 2\n¦", "print(b)", []),
        # Nor is a definition forgotten, or that it was one of several.
        ("def f(): pass\nx = 1\ny = 2\n¦\n    pass", "def f():", ["redefined f"]),
        (
            "from typing import overload\nx = 1\n@overload\ndef f(): ...\ny = 2\n¦\n    pass",
            "def f(a):",
            [],
        ),
        ("def f(): pass\nx = f\ny = 2\n¦\n    pass", "def f():", []),
        ("import a\nx = 1\ny = 2\n(\n    ¦\n    c,\n) = x", "a,", ["redefined a"]),
        # A name that is missing in several places is missing in the first; the line may delete one.
        (
            "¦\nx = 1\ndef f():\n    total\ndef g():\n    tax",
            "y = 1",
            ["undefined-below total"],
        ),
        ("¦\nx = 1\ndef f():\n    total\ndef g():\n    tax", "total = 1", ["undefined-below tax"]),
        # In `f` it is another variable, which is used before it has a value.
        ("¦\nx = 1\ndef f():\n    print(total)\n    total = 2", "total = 1", ["undefined-below total"]),
        ("z = 1\n¦\nx = 1\ny = 2\ndef f():\n    return z", "del z", ["undefined-below z"]),
        # A class that ends too soon has other names than its rest.
        (
            "class A:\n    x = 1\n    y = 2\n¦\n    z = 3\n    print(x)",
            "def f():",
            ["undefined-below x"],
        ),
        # A head makes names its own that were the module's without it.
        ("y = 1\n¦\n    x = 1\ny = 2\nz = 3\nprint(x)", "class A:", ["undefined-below x"]),
        ("y = 1\n¦\n    x = 1\ny = 2\nz = 3\nprint(x)", "if y:", []),
        # The rows of a text bind nothing.
        ('"""\n¦\n"""\nimport a\nx = 1\nprint(a)', "def a", []),
        ("def f(\n    a\n): return a\nx = 1\ny = 1\n¦\nprint(z)", "z = f(1)", []),
    ],
)
def test_what_is_left_out_is_not_missed(
    source: str, line: str, found: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert of(line, source) == found
    monkeypatch.setattr(signs._Rest, "needed", lambda rest, _: list(rest._lines))
    assert of(line, source) == found


@pytest.mark.parametrize("below", ["¦\nx = 1", "def f():\n    x = 1\n    ¦\n    return x"])
def test_long_names_of_many_constants_are_known(below: str) -> None:
    constants = "\n".join(f"CONSTANT_OF_A_LONG_FILE_{at:05} = 1" for at in range(1_000))
    assert of("y = CONSTANT_OF_A_LONG_FILE_00001", f"{constants}\n{below}") == []
    assert of("y = CONSTANT_OF_A_LONG_FILE_02001", f"{constants}\n{below}") == [
        "undefined-here CONSTANT_OF_A_LONG_FILE_02001"
    ]


def test_bodies_of_functions_that_hold_no_such_name_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    checked: list[str] = []
    parsed = signs.parsed
    monkeypatch.setattr(signs, "parsed", lambda lines: checked.append("\n".join(lines)) or parsed(lines))
    assert of("total = path") == []
    assert "listdir" in checked[0]
    assert "listdir" not in checked[1]
    assert "total + len" in checked[1]


def test_the_file_without_the_line_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[object] = []
    monkeypatch.setattr(signs, "_messages", lambda tree: read.append(tree) or ())
    found = Signs(["", "print(total)"], 0)
    found.read()
    for line in ("a = 1", "b = 1", "b = 1"):
        found.of(line)
    assert len(read) == 3


def test_the_reason_names_what_is_missing() -> None:
    document = SOURCE.replace("¦", "").split("\n")
    cursor = Cursor.at(document, 5, 4, "python")
    answer = Generation("tota = 1", (Token(1, -0.1, 0.0, "tota = 1"),), Stop.LINE, Timing())
    evidence = DocumentFeatures().evidence(cursor, "tota = 1", answer)
    curve = Curve(FEATURES_MEASURE, (Weighted("signs", 0.0, 1.0, -2.0),), 0.0)
    assert words_for(curve, evidence, Tier.REJECT).startswith(
        "`total` is used below, and nothing would define"
    )
    assert Sign("repeated-key", "1").words == "the key 1 stands in this dictionary already"
    # What is kept of an answer has no words.
    kept = Evidence(evidence.logprobs, evidence.features)
    assert words_for(curve, kept, Tier.REJECT).startswith("a linter would warn of it")
