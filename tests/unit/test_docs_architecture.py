"""docs/architecture.md: its picture is that of today's imports, and what it names exists."""

from __future__ import annotations

import ast
import re
import runpy
from pathlib import Path

import grimp

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "architecture.md").read_text("utf-8")
PACKAGE = ROOT / "lsp_calib"
ROOMS = {path.stem for path in PACKAGE.iterdir() if path.is_dir() or path.suffix == ".py"}
NAMED = sorted(
    name
    for name in set(re.findall(r"`([a-z_]+(?:\.\w+)+)`", PAGE))
    if name.split(".")[0] in ROOMS and name.split(".")[-1] not in ("py", "toml")
)


def test_the_picture_is_that_of_todays_imports() -> None:
    house = runpy.run_path(str(ROOT / "docs" / "house.py"))
    drawn = house["draw"]()
    assert house["PICTURE"].read_text("utf-8") == drawn, "Draw it again: python docs/house.py"


def test_an_import_that_others_imply_is_left_out() -> None:
    house = runpy.run_path(str(ROOT / "docs" / "house.py"))
    found = {"a": {"b", "c", "d"}, "b": {"c"}, "c": {"d"}, "d": set()}
    assert house["without_implied"](found) == {"a": {"b"}, "b": {"c"}, "c": {"d"}, "d": set()}


def test_the_page_names_functions() -> None:
    assert len(NAMED) > 40


def test_what_the_page_names_exists() -> None:
    assert [name for name in NAMED if not _exists(name.split("."))] == []


def _exists(parts: list[str]) -> bool:
    module = PACKAGE
    while parts and (module / parts[0]).is_dir():
        module /= parts.pop(0)
    inner = module / f"{parts[0] if parts else '__init__'}.py"
    file = inner if inner.is_file() else module / "__init__.py"
    inside: ast.AST | None = ast.parse(file.read_text("utf-8"))
    for part in parts[1:] if file == inner else parts:
        inside = next((one for one in ast.iter_child_nodes(inside) if _name(one) == part), None)
        if inside is None:
            return False
    return True


def _name(node: ast.AST) -> str:
    match node:
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
            return node.name
        case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
            return name
    return ""


def test_the_server_or_a_command_reaches_each_module() -> None:
    graph = grimp.build_graph("lsp_calib", cache_dir=None)
    assert graph.modules <= _reached(graph, _programs()), "reached by nothing: wire or delete it"


def _programs() -> set[str]:
    """Modules that run by themselves: with `python -m`, or as the text of a command names them."""
    started = r'\nif __name__ == "__main__":|sys.path.insert\(.*\n.*from (lsp_calib[\w.]+) import main'
    programs = set()
    for file in PACKAGE.rglob("*.py"):
        if found := re.search(started, file.read_text("utf-8")):
            programs.add(found[1] or ".".join(file.relative_to(ROOT).with_suffix("").parts))
    return programs


def _reached(graph: grimp.ImportGraph, roots: set[str]) -> set[str]:
    """All that an import of `roots` may import, at once or later, and the packages that it lies in."""
    pending, reached = [*roots], set(roots)
    while pending:
        module = pending.pop()
        found = {*graph.find_modules_directly_imported_by(module), module.rpartition(".")[0]}
        new = (found & graph.modules) - reached
        reached |= new
        pending += new
    return reached
