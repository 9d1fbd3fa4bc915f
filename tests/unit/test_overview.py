"""`summarize --all`: one page on a file or a tree."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from hypothesis import given
from hypothesis import strategies as st
from openai_server import serving

from lsp_calib.cli import main
from lsp_calib.commands import suggestions
from lsp_calib.commands.suggestions import Overview
from lsp_calib.errors import EngineDiedError
from lsp_calib.inference.engine import LoadedModel, Request
from lsp_calib.inference.models.cards import load_cards
from lsp_calib.markdown import code_span, escape_markdown, escape_prose
from lsp_calib.settings import Trusted
from lsp_calib.values import Generation, ModelIdentity, Stop, Timing, Token

MODULE = '''def outer(a):
    """Old."""
    def inner(b):
        return b
    return inner(a)
'''


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    root = tmp_path / "tree"
    (root / "node_modules").mkdir(parents=True)
    (root / "module.py").write_text(MODULE)
    (root / "sub").mkdir()
    (root / "sub" / "other.go").write_text("package a\n\nfunc Add(a int) int {\n\treturn a\n}\n")
    (root / "node_modules" / "vendor.py").write_text("def vendored(): pass\n")
    (root / "binary.py").write_bytes(b"\0def f(): pass\n")
    (root / "notes.txt").write_text("def f(): pass\n")
    outside = tmp_path / "outside.py"
    outside.write_text("def outside(): pass\n")
    (root / "link.py").symlink_to(outside)
    return root


async def run(*arguments: object) -> Result:
    return await asyncio.to_thread(CliRunner().invoke, main, [str(one) for one in arguments])


@pytest.mark.usefixtures("home")
async def test_a_tree_as_a_page_and_as_json(tree: Path) -> None:
    """Each function of each source file below the folder, nested ones below those that hold them."""
    async with serving() as server:
        page = await run("summarize", "--all", tree, "--remote", server.url)
        found = await run("summarize", "--all", tree, "--remote", server.url, "--json")
    assert page.exit_code == 0, page.output
    lines = page.stdout.splitlines()
    assert lines[0] == "# Summaries of tree"
    assert [line for line in lines if line.startswith("## ")] == ["## module.py", "## sub/other.go"]
    assert [line.partition(", line")[0] for line in lines if ", line" in line] == [
        "- 🟡 `def outer(a)`",
        "  - 🟡 `def inner(b)`",
        "- 🟡 `func Add(a int) int`",
    ]
    assert "no labels for summaries of this model yet" in page.stdout
    assert "Left out: 1 file, excluded or no text." in page.stdout
    document: dict[str, Any] = json.loads(found.stdout)
    assert (document["complete"], document["functions"], document["skippedFiles"]) == (True, 3, 1)
    functions = document["files"][0]["functions"]
    assert [(one["name"], one["line"], one["documented"]) for one in functions] == [
        ("outer", 1, True),
        ("inner", 3, False),
    ]
    assert functions[0]["summary"]["kind"] == "summary"
    assert functions[0]["summary"]["confidence"] is None


@pytest.mark.usefixtures("home")
async def test_stopping_keeps_what_is_done(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As by Ctrl-C between two functions: the page says how many there would have been."""
    real = suggestions.overview

    def stopped(root: Path, given_: Trusted, say: Any, progress: Any, into: Overview, **more: Any) -> None:
        def stop(done: int, all_: int) -> None:
            progress(done, all_)
            if done == 2:
                raise KeyboardInterrupt

        real(root, given_, say, stop, into, **more)

    monkeypatch.setattr(suggestions, "overview", stopped)
    async with serving() as server:
        page = await run("summarize", "--all", tree, "--remote", server.url)
    assert page.exit_code == 130
    assert "2 of 3 functions" in page.stdout
    assert "inner" in page.stdout


class Scripted:
    """An engine that keeps what it was asked, and dies at the third summary if it is told to."""

    def __init__(self, *, dies: bool = False) -> None:
        self.prompts: list[str] = []
        self._dies = dies

    async def ready(self) -> LoadedModel:
        return LoadedModel(ModelIdentity("m", "Q4", "0" * 64), load_cards()["smollm2-135m"])

    async def generate(self, request: Request, _early_stop: object = None) -> Generation:
        if self._dies and len(self.prompts) == 2:
            raise EngineDiedError("The model process died.")
        self.prompts.append("".join(text for _, text in request.prompt.segments))
        tokens = (Token(1, -0.1, 0.0, "Add a number."), Token(2, -0.2, 0.0, ""))
        return Generation("Add a number.", tokens, Stop.LINE, Timing())

    async def close(self) -> None: ...


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Scripted]:
    def use(**options: bool) -> Scripted:
        scripted = Scripted(**options)

        def run(ask: Callable[[Any], Awaitable[Any]], _given: Trusted, _say: object) -> Any:
            return asyncio.run(ask(scripted))

        monkeypatch.setattr(suggestions, "with_engine", run)
        return scripted

    return use


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize("as_json", [False, True])
async def test_a_model_that_dies_loses_nothing_of_what_is_done(
    tree: Path, engine: Callable[..., Scripted], as_json: bool
) -> None:
    engine(dies=True)
    page = await run("summarize", "--all", tree, *(["--json"] if as_json else []))
    assert page.exit_code == EngineDiedError.exit_code
    assert "The model process died." in page.stderr
    if as_json:
        found = json.loads(page.stdout)
        assert (found["complete"], found["functions"]) == (False, 3)
        assert len(found["files"][0]["functions"]) == 2
    else:
        assert "2 of 3 functions" in page.stdout
    engine(dies=True).prompts += ["", ""]
    page = await run("summarize", "--all", tree)
    assert (page.exit_code, page.stdout) == (EngineDiedError.exit_code, ""), "nothing was done"


@pytest.mark.usefixtures("home")
async def test_documented_functions_of_the_repository_are_examples_as_in_the_editor(
    tree: Path, engine: Callable[..., Scripted]
) -> None:
    (tree / ".git").mkdir()
    (tree / "prices.go").write_text(
        "package a\n\n// Twice doubles a price of the shop.\n"
        "func Twice(price int) int {\n\treturn 2 * price\n}\n"
    )
    scripted = engine()
    assert (await run("summarize", "--all", tree / "sub")).exit_code == 0
    (prompt,) = scripted.prompts
    assert "doubles a price of the shop" in prompt
    assert "other.go" not in prompt
    assert (await run("summarize", "--all", tree / "sub", "--augment")).exit_code == 0
    assert "sub/other.go" in scripted.prompts[-1], "facts of the code, as for one function"


HEADER = "namespace shop {\n// Sums.\ninline int total(int n) {\n  return n;\n}\n}  // namespace shop\n"


@pytest.mark.usefixtures("home")
async def test_headers_of_a_c_plus_plus_project_are_read_as_such(
    tmp_path: Path, engine: Callable[..., Scripted]
) -> None:
    """As C a namespace is a function, which holds all others. The tree, the file alone, and a place in it."""
    root = tmp_path / "shop"
    for name, text in (("include/shop.h", HEADER), ("src/a.cpp", "int one() {\n  return 1;\n}\n")):
        (root / name).parent.mkdir(parents=True)
        (root / name).write_text(text)
    (root / ".git").mkdir()
    engine()
    found = json.loads((await run("summarize", "--all", root, "--json")).stdout)
    names = {file["path"]: [one["name"] for one in file["functions"]] for file in found["files"]}
    assert names == {"include/shop.h": ["total"], "src/a.cpp": ["one"]}
    found = json.loads((await run("summarize", "--all", root / "include/shop.h", "--json")).stdout)
    assert [one["name"] for one in found["files"][0]["functions"]] == ["total"]
    result = await run("summarize", f"{root / 'include/shop.h'}:1")
    assert "There is no C++ function at line 1" in result.stderr


@pytest.mark.usefixtures("home")
async def test_what_has_no_function_is_named(tmp_path: Path) -> None:
    (tmp_path / "empty.py").write_text("x = 1\n")
    for place in (tmp_path, tmp_path / "empty.py"):
        result = await run("summarize", "--all", place)
        assert result.exit_code != 0
        assert "No function was found" in result.output
    result = await run("summarize", "--all", tmp_path / "missing")
    assert "no file or folder" in result.output


@given(st.text(alphabet="a` \\", min_size=1).map(str.strip).filter(bool))
def test_code_is_fenced_by_more_marks_than_it_has(text: str) -> None:
    span = code_span(text)
    found = re.fullmatch(r"(`+) ?(.+?) ?\1", span)
    assert found is not None
    assert found[2] == text
    assert not re.search(rf"(?<!`){found[1]}(?!`)", text), "nothing in the text ends the code"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("run `lsp-calib refit` now", "run `lsp-calib refit` now"),
        ("a_b _c_ of `_d_`", "a_b \\_c\\_ of `_d_`"),
        ("one ` alone", "one \\` alone"),
        ("`a` and `b`", "`a` and `b`"),
        ("``", "\\`\\`"),
        ("[a](b) `[a](b)`", "\\[a\\](b) `[a](b)`"),
    ],
)
def test_commands_in_a_message_are_code(text: str, shown: str) -> None:
    assert escape_prose(text) == shown


@given(st.text(alphabet="`ab*_[]()<>\n\\ "))
def test_markup_outside_of_code_is_escaped(text: str) -> None:
    outside = re.sub(r"`[^`\n]+`", "", text)
    if "`" not in text:
        assert escape_prose(text) == escape_markdown(text)
    assert escape_prose(text).count("\\*") >= outside.count("*")
