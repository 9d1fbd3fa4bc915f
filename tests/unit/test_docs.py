"""What the documentation says of commands, figures, modules and examples is so; its picture is of today."""

from __future__ import annotations

import ast
import doctest
import importlib
import pkgutil
import re
import runpy
import shlex
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import click
import grimp
import numpy as np
import pytest
from click.testing import CliRunner

from lsp_calib import calibration, confidence, errors
from lsp_calib.calibration.binomial import least_trials, lower_tail
from lsp_calib.cli import main
from lsp_calib.completion.prompt import Layout, WindowSize
from lsp_calib.inference.models.cards import load_cards
from lsp_calib.settings import SETTINGS

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
RECORDS = ROOT / "models" / "records"
EDITORS = sorted((ROOT / "editor-configs").glob("*/README.md"))
NOTEBOOKS = sorted(RECORDS.rglob("README.md"))
EVERY = pytest.mark.parametrize(
    "page", [*PAGES, *EDITORS, *NOTEBOOKS], ids=lambda page: page.relative_to(ROOT).as_posix()
)


@EVERY
def test_every_command_that_is_named_exists(page: Path) -> None:
    text = page.read_text("utf-8")
    for first, second in re.findall(r"lsp-calib ([a-z]+)(?: ([a-z-]+))?", text):
        command = main.get_command(click.Context(main), first)
        if command is None:
            assert not re.search(rf"`lsp-calib {first}|^    lsp-calib {first}", text, re.M), first
        elif isinstance(command, click.Group) and second:
            assert second in command.commands, (first, second)


# The whole of the documentation: ten pages for users, each of one kind (https://diataxis.fr), three for
# contributors, a notebook beside each kind of records, and the page that VS Code's marketplace shows.
FOR_USERS = {
    "README.md",
    *(f"docs/{name}.md" for name in ("tutorial", "how-to", "models", "editors", "reference", "protocol")),
    *(f"docs/{name}.md" for name in ("confidence", "learning", "security")),
}
FOR_CONTRIBUTORS = {"CONTRIBUTING.md", "docs/architecture.md", "docs/engine.md"}
KINDS_OF_RECORDS = "blind", "blocks", "edits", "labels", "languages", "lines", "studies", "summaries"
EXTENSION = "editor-configs/vscode/README.md"
MOST_WORDS = {
    "users": (FOR_USERS, 16_000),
    "contributors": (FOR_CONTRIBUTORS, 6_000),
    "the extension": ({EXTENSION}, 300),
}


def test_these_are_all_pages() -> None:
    def names(pages: Iterable[Path]) -> set[str]:
        return {page.relative_to(ROOT).as_posix() for page in pages}

    assert names(PAGES) == FOR_USERS | FOR_CONTRIBUTORS
    assert names(EDITORS) == {EXTENSION}
    assert names(NOTEBOOKS) == {f"models/records/{kind}/README.md" for kind in KINDS_OF_RECORDS} | {
        "models/records/README.md"
    }


@pytest.mark.parametrize("readers", MOST_WORDS)
def test_there_is_not_more_to_read_than_this(readers: str) -> None:
    pages, most = MOST_WORDS[readers]
    count = {page: words(ROOT / page) for page in pages}
    assert sum(count.values()) <= most, count


def words(page: Path) -> int:
    """Of a page, without what nobody reads: targets of links, comments, the bars and rules of tables."""
    text = re.sub(r"\]\([^)]*\)|<!--.*?-->", "", page.read_text("utf-8"), flags=re.S)
    return sum(bool(re.search(r"\w", word)) for word in text.split())


def test_one_page_leads_to_the_notebooks_and_the_first_of_them_to_each_other_once() -> None:
    linked = Counter(target for page in PAGES for target in linked_notebooks(page))
    first = RECORDS / "README.md"
    assert linked[first] == 1, linked
    assert max(linked.values()) == 1, linked
    assert Counter(linked_notebooks(first)) == {RECORDS / kind / "README.md": 1 for kind in KINDS_OF_RECORDS}


def linked_notebooks(page: Path) -> list[Path]:
    """The notebook of each link of a page that leads to one, also to a part of it."""
    targets = re.findall(r"\]\(([^)\s#:]+)[^)\s]*\)", page.read_text("utf-8"))
    return [found for one in targets if (found := (page.parent / one).resolve()) in NOTEBOOKS]


README = PAGES[0].read_text("utf-8")
LINES = re.findall(r"^    (\S.*?)(?:  +#.*)?$", README, re.M)


def test_the_readme_is_short() -> None:
    assert len(README.split()) <= 700
    assert README.count("![") == 2


def test_each_command_line_of_the_readme_runs_in_a_clone() -> None:
    """Until a release nothing is installed from an index."""
    assert LINES[:2] == ["make demo", "make test"]
    assert {line.split()[0] for line in LINES} == {"make", "lsp-calib"}
    for line in [*LINES, *re.findall(r"`(lsp-calib [^`]+)`", README)]:
        if line.startswith("lsp-calib"):
            result = CliRunner().invoke(main, [*shlex.split(line)[1:], "--help"])
            assert result.exit_code == 0, (line, result.output)


@EVERY
def test_what_is_made_can_be_made(page: Path) -> None:
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), re.M)
    named = re.findall(r"(?:`|^    |&& )make ([a-z-]+)", page.read_text("utf-8"), re.M)
    assert set(named) <= set(targets)


def test_one_model_is_recommended_everywhere() -> None:
    """That of the cards, which `models list`, the doctor and the server go by."""
    best = next(card.name for card in load_cards().values() if card.recommended)
    said = r"recommended model,? \(?`([^`]+)`|`([^`]+)`(?: \(recommended\)| is the recommended model)"
    named = {
        page: {"".join(names) for names in re.findall(said, page.read_text("utf-8"))}
        for page in [*PAGES, *EDITORS]
    }
    expected = ("README.md", "docs/how-to.md", "docs/models.md", "docs/editors.md")
    assert {page for page, names in named.items() if names} == {ROOT / page for page in expected}
    assert set().union(*named.values()) == {best}
    chosen = section("how-to.md", "## Choose a model")
    assert re.findall(r"^    lsp-calib models pull (\S+)", chosen, re.M) == [best]
    assert "lsp-calib models pull" in LINES, "without a name it is that one, too"


def anchors(page: Path) -> set[str]:
    """Of the headings of a page, as GitHub makes them."""
    text = re.sub(r"^```.*?^```", "", page.read_text("utf-8"), flags=re.M | re.S)
    found: set[str] = set()
    for heading in re.findall(r"^#+ (.+)$", text, re.M):
        words = re.sub(r"\[([^]]*)\]\([^)]*\)|[`*]", r"\1", heading.strip()).lower()
        anchor = again = re.sub(r"[^\w\- ]", "", words).replace(" ", "-")
        n = 0
        while again in found:
            n += 1
            again = f"{anchor}-{n}"
        found.add(again)
    return found | set(re.findall(r'<a (?:id|name)="([^"]+)"', text))


@EVERY
def test_links_lead_somewhere(page: Path) -> None:
    text = re.sub(r"`[^`\n]*`", "", page.read_text("utf-8"))
    broken = []
    for link in re.findall(r"\]\(([^)\s]+)\)|(?:src|srcset|href)=\"([^\"]+)\"", text):
        target, _, anchor = "".join(link).partition("#")
        if re.match(r"[a-z]+:", target):
            continue
        file = page.parent / target if target else page
        if not file.exists() or (anchor and anchor not in anchors(file)):
            broken.append("".join(link))
    assert broken == []


def test_each_threat_names_tests_that_exist() -> None:
    page = (ROOT / "docs" / "security.md").read_text("utf-8")
    named = re.findall(r"`(tests/[\w/]+\.py)::([\w:]+)`", page)
    assert len(named) >= page.count("\n| ") - 1, "a test in each row but the heading"
    for file, path in named:
        inside: ast.AST = ast.parse((ROOT / file).read_text("utf-8"))
        for part in path.split("::"):
            found = [one for one in ast.iter_child_nodes(inside) if getattr(one, "name", "") == part]
            assert len(found) == 1, f"{file} has no {path}"
            inside = found[0]


def test_every_command_is_documented() -> None:
    text = "".join(page.read_text("utf-8") for page in PAGES)
    for name in main.list_commands(click.Context(main)):
        assert f"lsp-calib {name}" in text, name


def test_every_setting_is_documented() -> None:
    text = (ROOT / "docs" / "reference.md").read_text("utf-8")
    for key in SETTINGS:
        assert f"`{key}`" in text, key


def test_the_power_of_certificates_is_what_the_table_says() -> None:
    text = (RECORDS / "README.md").read_text("utf-8")
    for error in (0.0, 0.01, 0.02, 0.03, 0.05, 0.07, 0.08, 0.09):
        enough = least_trials(0.1, 0.1, 8000)
        passed = lower_tail(np.arange(enough.size), enough, error)
        needed = [enough[np.argmax(passed >= power)] for power in (0.5, 0.8, 0.95)]
        assert f"| {error:.0%} | {' | '.join(map(str, needed))} |".replace("%", " %") in text


def section(page: str, heading: str) -> str:
    """A section of a page of docs/, up to the next heading of its level or above."""
    text = (ROOT / "docs" / page).read_text("utf-8")
    level = heading.split()[0]
    _, found, rest = text.partition(f"\n{heading}\n")
    assert found, heading
    return re.split(rf"^#{{1,{len(level)}}} ", rest, maxsplit=1, flags=re.M)[0]


def test_every_exit_code_is_listed() -> None:
    codes = {kind.exit_code for kind in vars(errors).values() if isinstance(kind, type)}
    codes |= {0, 130}  # done; `bench` was stopped by Ctrl-C
    listed = re.findall(r"^\| (\d+) \|", section("reference.md", "## Exit codes"), re.M)
    assert list(map(int, listed)) == sorted(codes)


def test_the_windows_of_the_cards_are_those_of_the_page() -> None:
    text = section("models.md", "## The window")
    cards = load_cards()
    windows = [card.window for card in cards.values()]
    assert f"{min(windows):,} (some 40 lines) to {max(windows):,} characters" in text
    small = {name for name, card in cards.items() if Layout.of(card, WindowSize.LARGE) == Layout.of(card)}
    (said,) = re.findall(r"cannot hold the large one \(([^)]*)\)", text)
    assert set(re.findall("`([^`]+)`", said)) == small
    for name, card in cards.items():
        if name not in small:
            assert Layout.of(card, WindowSize.LARGE).window == 2 * card.window, name


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


def test_what_the_page_names_exists() -> None:
    assert len(NAMED) > 40
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
    """Modules that run by themselves: with `python -m`, or as the text of a command names them; and what the
    command line imports by name."""
    started = r'\nif __name__ == "__main__":|sys.path.insert\(.*\n.*from (lsp_calib[\w.]+) import main'
    programs = {"lsp_calib.studies.cli"}
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


MODULES = sorted(
    f"{package.__name__}.{module.name}"
    for package in (calibration, confidence)
    for module in pkgutil.iter_modules(package.__path__)
)


@pytest.mark.parametrize("name", MODULES)
def test_examples(name):
    # Not `from package import name`: a function may have the name of its module.
    assert doctest.testmod(importlib.import_module(name)).failed == 0
