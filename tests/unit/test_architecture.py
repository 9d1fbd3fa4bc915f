"""Imports in the package go one way: no module needs itself, not even for its types."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import lsp_calib

PACKAGE = Path(lsp_calib.__file__).parent

# Circles that are still there. To be emptied, never extended.
KNOWN = {
    frozenset(
        {
            "lsp_calib.inference.choice",
            "lsp_calib.inference.remote.engine",
            "lsp_calib.inference.remote.http",
        }
    ),
    frozenset({"lsp_calib.evaluation.sandbox.probe", "lsp_calib.evaluation.sandbox.runner"}),
}

Graph = dict[str, set[str]]


def import_graph(package: Path) -> Graph:
    """The modules of a package and what each imports of it: at its top, in functions, and for types alone."""
    sources = dict(_sources(package))
    return {name: set(_imports(name, path, sources)) for name, path in sources.items()}


def circles(graph: Graph) -> set[frozenset[str]]:
    """The sets of modules that import each other, directly or through others; also a module that imports
    itself. (Modules are in one circle if each reaches the other.)"""
    reached = {name: _reachable(graph, name) for name in graph}
    return {
        frozenset(other for other in reached[name] if name in reached[other])
        for name in graph
        if name in reached[name]
    }


def _sources(package: Path) -> Iterator[tuple[str, Path]]:
    for path in package.rglob("*.py"):
        parts = path.relative_to(package.parent).with_suffix("").parts
        yield ".".join(parts[:-1] if parts[-1] == "__init__" else parts), path


def _imports(name: str, path: Path, sources: dict[str, Path]) -> Iterator[str]:
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            named = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            above = package.rsplit(".", node.level - 1)[0] if node.level else ""
            origin = ".".join(filter(None, (above, node.module)))
            # A package's own name is imported only where no module of it is meant.
            named = [
                full if (full := f"{origin}.{alias.name}") in sources else origin for alias in node.names
            ]
        else:
            continue
        yield from (found for found in named if found in sources)


def _reachable(graph: Graph, start: str) -> set[str]:
    found: set[str] = set()
    todo = list(graph[start])
    while todo:
        name = todo.pop()
        if name not in found:
            found.add(name)
            todo += graph[name]
    return found


def test_there_are_no_import_circles_but_the_known_ones() -> None:
    found = circles(import_graph(PACKAGE))
    assert found <= KNOWN, [sorted(circle) for circle in found - KNOWN]


@pytest.mark.parametrize(
    "second",
    [
        "import room.first",
        "from room import first",
        "from room.first import THING",
        "from . import first",
        "from .first import THING",
        "def late():\n    from room.first import THING",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from room.first import THING",
    ],
)
def test_a_circle_is_found_however_the_import_is_written(tmp_path: Path, second: str) -> None:
    room = tmp_path / "room"
    room.mkdir()
    (room / "__init__.py").write_text("")
    (room / "first.py").write_text("from room import between\n")
    (room / "between.py").write_text("from room.second import OTHER\n")
    (room / "second.py").write_text(second)
    (room / "aside.py").write_text("from room import first\n")
    circle = frozenset({"room.first", "room.between", "room.second"})
    assert circles(import_graph(room)) == {circle}


def test_modules_that_import_in_one_direction_are_no_circle(tmp_path: Path) -> None:
    room = tmp_path / "room"
    room.mkdir()
    (room / "__init__.py").write_text("from room.first import THING\n")
    (room / "first.py").write_text("from room import second\n")
    (room / "second.py").write_text("import json\n")
    assert circles(import_graph(room)) == set()
