"""Python's own parser beside the grammar: errors that only it finds, syntax that only one of them knows."""

from __future__ import annotations

import ast
import asyncio
import ctypes
import json
import os
import random
import signal
import subprocess
import sys
import threading
import types
import warnings
from collections.abc import Sequence
from email import message
from pathlib import Path

import pytest
from gap_examples import EXAMPLE_OF

from lsp_calib.characters import split_lines
from lsp_calib.completion.context import Cursor
from lsp_calib.completion.features import text_features
from lsp_calib.syntax.languages import python
from lsp_calib.syntax.languages.python import NEWER_PYTHON, PythonDocument
from lsp_calib.syntax.magics import with_commands
from lsp_calib.syntax.rules import Gap
from tests.marks import repetitions

SOURCE = split_lines(
    '''\
"""Shops."""

import os


class Shop(Base):
    """Has items."""

    names = ["a",
             "b"]

    def open(self, doors, *, force=False):
        if force:
            doors = [door for door in doors if door]
        for door in doors:
            self.enter(door)
        return doors

    async def close(self):
        try:
            await self.leave()
        except OSError as error:
            raise Closed("no") from error


def main():
    shop = Shop()
    shop.open(os.listdir("."))
'''
)


def broken(above: str, line: str, source: Sequence[str] = SOURCE, *, below: bool = True) -> float:
    """Of a new line below another one, which stands in the source once."""
    assert source.count(above) == 1
    at = source.index(above) + 1
    document = (*source[:at], "", *(source[at:] if below else ()))
    return text_features(Cursor.at(document, at, 0, "python"), line)["broken"]


@pytest.mark.parametrize(
    ("above", "line"),
    [
        # A body at the depth of what it belongs to.
        ("        if force:", "        doors = []"),
        ("    async def close(self):", "    return 1"),
        # Indentation that nothing asks for, or that matches nothing.
        ("        return doors", "            self.enter(1)"),
        ("    shop = Shop()", "        shop.close()"),
        ("            self.enter(door)", "          self.enter(1)"),
        ("import os", " import re"),
        # Python 2.
        ("    shop = Shop()", '    print "x"'),
        ("    shop = Shop()", "    x = 0777"),
        ("            await self.leave()", "            raise Closed, 'no'"),
        # What the grammar takes.
        ("    shop = Shop()", "    f(a=1, 2)"),
        ("    shop = Shop()", "    x = {1: 2, 3}"),
        ("import os", "def f(a=1, b): pass"),
        ("        try:", "            async = 1"),
    ],
)
def test_errors_that_python_finds(above: str, line: str) -> None:
    assert [broken(above, line, below=below) for below in (True, False)] == [1.0, 1.0]


@pytest.mark.parametrize(
    ("above", "line"),
    [
        ("        if force:", "            doors = []"),
        ("        return doors", "        # because"),
        ("        return doors", "    x = 1"),
        ("        return doors", "def other():"),
        ("            self.enter(door)", "        else:"),
        ("    shop = Shop()", "    for door in shop:"),
        ("    shop = Shop()", "    shop.open("),
        ("    shop = Shop()", '    x = """a'),
        ("        return doors", "    @property"),
        ('    names = ["a",', '  "c",'),
        ('    """Has items."""', "    type = 1"),
        ("    shop = Shop()", "    print >>shop, 1"),
        ("    shop = Shop()", r'    x = "\d"'),  # a warning of Python's
    ],
)
def test_lines_in_order(above: str, line: str) -> None:
    assert broken(above, line) == 0.0


def test_an_error_above_is_not_the_lines() -> None:
    """Half-written code, such as a block without a body."""
    for wrong in ("    x = = 1", "    if shop:"):
        source = [*SOURCE[:-2], wrong, "    shop = 2", *SOURCE[-2:]]
        assert broken("    shop = 2", "    shop.close()", source) == 0.0


def test_an_error_in_another_function_hides_none() -> None:
    source = ["def f():", "    x = = 1", "", *SOURCE, "def g():", "    y = = 1", ""]
    assert broken("    shop = Shop()", '    print "x"', source) == 1.0
    assert broken("    shop = Shop()", "    print('x')", source) == 0.0


OLD = split_lines(
    """\
import os


def total(items):
    print "total", items
    try:
        exec "items"
    except Closed, error:
        raise Closed, "no"
    mode = 0777
    return mode


def main():
    items = []
    return items
"""
)


def test_a_file_of_python_2_is_not_broken_by_its_own_forms() -> None:
    for line in ('    print "the end"', "    exec 'more'", "    raise Other, 'because'", "    items = 0600"):
        assert broken("    items = []", line, OLD) == 0.0
        assert broken("    shop = Shop()", line) == 1.0
    for line in ("      items = 1", "    items = = 1", "    f(a=1, 2)"):
        assert broken("    items = []", line, OLD) == 1.0


def knows(row: Gap) -> bool:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ast.parse(EXAMPLE_OF[row])
    except SyntaxError:
        return False
    return True


NEWER = pytest.mark.parametrize("row", NEWER_PYTHON, ids=lambda row: f"{row.since} {EXAMPLE_OF[row][:12]}")


@NEWER
def test_newer_syntax_is_no_error_in_an_older_python(row: Gap) -> None:
    """And a row that this Python's version knows is one of that version, not of a later one."""
    newer = tuple(map(int, row.since.split("."))) > sys.version_info[:2]
    assert knows(row) is not newer
    lines = EXAMPLE_OF[row].rstrip("\n").split("\n")
    at = next(at for at, line in enumerate(lines) if row.pattern.search(line))
    source = [*SOURCE, *lines, "x = 1", ""]
    document = [*source[: len(SOURCE) + at], "", *source[len(SOURCE) + at + 1 :]]
    for end in (len(SOURCE) + at + 1, len(document)):
        cursor = Cursor.at(tuple(document[:end]), len(SOURCE) + at, 0, "python")
        assert text_features(cursor, lines[at])["broken"] == 0.0
    if row.pattern.groups:
        assert text_features(cursor, lines[at] + " ) ] =")["broken"] == 1.0
        assert broken("    shop = Shop()", '    print "x"', [*lines, *SOURCE]) == 1.0, "above it hides none"


def _stack_of_this_thread() -> int:
    """Bytes, as the C library says."""
    library, attributes, size = ctypes.CDLL(None), ctypes.create_string_buffer(256), ctypes.c_size_t()
    library.pthread_self.restype = ctypes.c_void_p
    assert library.pthread_getattr_np(ctypes.c_void_p(library.pthread_self()), attributes) == 0
    assert library.pthread_attr_getstacksize(attributes, ctypes.byref(size)) == 0
    return size.value


@pytest.mark.skipif(sys.platform != "linux", reason="asks Linux's C library")
def test_python_parses_on_a_thread_with_a_large_stack(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its parser counts on the stack of a main thread; other threads keep theirs."""
    usual, sizes = threading.stack_size(), []
    monkeypatch.setattr(python, "_parse", lambda *_: sizes.append(_stack_of_this_thread()))
    python._parser.cache_clear()
    PythonDocument(["x = 1"], 0).tree_with("x = 2")
    assert sizes[0] >= 16 << 20
    assert threading.stack_size() == usual


@pytest.mark.skipif(not hasattr(os, "fork"), reason="has no fork")
def test_it_parses_in_a_forked_process_as_well() -> None:
    assert PythonDocument(["x = 1"], 0).tree_with("x = 2")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # threads stay behind, which Python 3.12 warns of
        child = os.fork()
    if not child:
        signal.alarm(60)
        os._exit(0 if PythonDocument(["x = 1"], 0).tree_with("x = 3") else 1)
    assert os.waitpid(child, 0)[1] == 0


MODULES: list[types.ModuleType] = [ast, asyncio.tasks, json.decoder, random, subprocess, threading, message]


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__)
def test_no_line_of_a_valid_file_is_broken(module: types.ModuleType) -> None:
    """Where it stands, nor with everything below it not written yet: Python's own library."""
    assert module.__file__ is not None
    lines = split_lines(Path(module.__file__).read_text("utf-8"))
    rng = random.Random(module.__name__)
    rows = [row for row, line in enumerate(lines) if line.strip()]
    found = []
    for row in rng.sample(rows, min(repetitions(200, 30), len(rows))):
        for below in (lines[row + 1 :], ()):
            cursor = Cursor.at((*lines[:row], "", *below), row, 0, "python")
            if text_features(cursor, lines[row])["broken"]:
                found.append((row + 1, bool(below), lines[row]))
    assert found == []


def test_commands_of_a_notebook_are_no_errors() -> None:
    cell = "import os\n%matplotlib inline\nfiles = !ls\nfor one in files:\n    !cat {one}\n\nx = 1"
    lines = with_commands(tuple(cell.split("\n")), "python")
    for text, expected in (("    print(one)", 0), ('    print "x"', 1), ("print(one)", 0), ("  one", 1)):
        assert text_features(Cursor.at(lines, 5, 0, "python"), text)["broken"] == expected, text


def test_deep_and_odd_text_is_no_error() -> None:
    for text in ("x = " + "-" * 900 + "1", "x = " + "(" * 150 + ")" * 150, "x = '\0'", "x = '\ud800'"):
        cursor = Cursor.at((*SOURCE, "", "y = 1"), len(SOURCE), 0, "python")
        assert "broken" in text_features(cursor, text)


def test_the_tree_of_a_document_is_computed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []
    compiled = python._compiled
    monkeypatch.setattr(python, "_compiled", lambda *given: calls.append(1) or compiled(*given))
    document = PythonDocument(SOURCE, SOURCE.index("    shop = Shop()"))
    tree = document.tree_with("    shop = Shop(1)")
    assert isinstance(tree, ast.Module)
    assert document.tree_with("    shop = Shop(1)") is tree
    assert document.tree_with("    shop = (") is None
    assert document.tree_with("    shop = (") is None
    assert len(calls) == 2


def test_a_long_document_is_not_parsed_whole() -> None:
    long = [*SOURCE, *["x = 1"] * 50_000]
    assert PythonDocument(long, 2).tree_with("import os") is None
    assert broken("    shop = Shop()", '    print "x"', long) == 1.0
