"""`lsp-calib complete` and `summarize`: at a place as in an editor, and one page on a file or a tree."""

from __future__ import annotations

import asyncio
import errno
import json
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from openai_server import serving
from scripted_model import ask, install

from lsp_calib.calibration.calibrators.calibrator_store import CalibratorStore
from lsp_calib.cli import main
from lsp_calib.commands import suggestions
from lsp_calib.commands.engine import with_engine
from lsp_calib.commands.printing import badge, download_progress
from lsp_calib.commands.suggestions import Overview, RepositoryExamples, summarize_at
from lsp_calib.errors import DataError, EngineDiedError
from lsp_calib.inference.engine import Engine, EngineState, LoadedModel, Request, StateListener, ignore_state
from lsp_calib.inference.models.cards import load_cards
from lsp_calib.settings import Settings
from lsp_calib.summarization import workspace_examples
from lsp_calib.syntax import functions
from lsp_calib.values import Generation, ModelIdentity, Observation, Stop, Timing, Token


async def run(*arguments: object) -> Result:
    return await asyncio.to_thread(CliRunner().invoke, main, [str(one) for one in arguments])


class Scripted:
    """An engine of a model that knows of several files. It keeps its prompts, and may die at the third."""

    def __init__(self, text: str = "return 1", *, dies: bool = False) -> None:
        self.prompts: list[Any] = []
        self._text, self._dies = text, dies

    @property
    def texts(self) -> list[str]:
        return ["".join(text for _, text in prompt.segments) for prompt in self.prompts]

    async def ready(self) -> LoadedModel:
        card = load_cards()["qwen2.5-coder-1.5b"]
        return LoadedModel(ModelIdentity("m", "Q4", "0" * 64), card)

    async def generate(self, request: Request) -> Generation:
        if self._dies and len(self.prompts) == 2:
            raise EngineDiedError("The model process died.")
        self.prompts.append(request.prompt)
        tokens = (Token(1, -0.1, 0.0, self._text), Token(2, -0.2, 0.0, ""))
        return Generation(self._text, tokens if self._text else tokens[1:], Stop.LINE, Timing())

    async def close(self) -> None: ...


@pytest.fixture
def use(home: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Scripted]:
    """Have the commands ask a scripted engine."""
    assert home.is_dir()

    def engine(text: str = "return 1", *, dies: bool = False) -> Scripted:
        scripted = Scripted(text, dies=dies)

        def run(ask: Callable[[Any], Awaitable[Any]], _given: Settings, _say: object) -> Any:
            return asyncio.run(ask(scripted))

        monkeypatch.setattr(suggestions, "with_engine", run)
        return scripted

    return engine


def test_without_a_column_it_is_the_line_s_end(tmp_path: Path, use: Callable[..., Scripted]) -> None:
    """As with a column at it; and a byte order mark is no part of the text."""
    (tmp_path / "mine.py").write_bytes(b"\xef\xbb\xbfimport prices\ntotal = pri\n")
    asked = use()
    for column in (None, 11):
        suggestions.complete_at(tmp_path / "mine.py", 1, column, Settings(), print)
    first, second = asked.prompts
    assert second == first
    with pytest.raises(DataError, match="Line 2 ends at column 12: there is no column 13"):
        suggestions.complete_at(tmp_path / "mine.py", 1, 12, Settings(), print)
    assert "\ufeff" not in "".join(text for _, text in first.segments)
    assert f"\n{first.segments[-1][1]}{first.forced}".endswith("\ntotal = pri")


def test_the_reason_for_no_suggestion_and_the_loading_are_said(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert home.is_dir()
    (tmp_path / "mine.py").write_text("total = 1\n", "utf-8")

    class Silent(Scripted):
        async def ready(self) -> LoadedModel:
            for fraction in (0.0, 0.5):
                on_state(EngineState.LOADING, "Loading m.", fraction)
            on_state(EngineState.READY, "m is ready.", None)
            return await super().ready()

    def opened(_choice: object, listener: StateListener) -> Silent:
        nonlocal on_state
        on_state = listener
        return Silent("")

    on_state = ignore_state
    monkeypatch.setattr("lsp_calib.commands.engine.open_engine", opened)
    result = CliRunner().invoke(main, ["complete", f"{tmp_path / 'mine.py'}:1"])
    assert (result.exit_code, result.stdout) == (0, "The model suggests nothing here.\n")
    assert result.stderr == "lsp-calib: Loading m.\nlsp-calib: The model has nothing to add here.\n"


class OfTwoWindows(Scripted):
    """A model with labels of both windows, and its answers to the two prompts: the large one first."""

    def __init__(self, large: str, small: str | None) -> None:
        super().__init__()
        self._answers = large, small

    async def ready(self) -> LoadedModel:
        card = load_cards()["smollm2-135m"]
        return LoadedModel(ModelIdentity(card.name, "Q4_1", card.sha256), card)

    async def generate(self, request: Request) -> Generation:
        text = self._answers[len(self.prompts)]
        if text is None:
            raise EngineDiedError("The model process died.")
        self.prompts.append(request.prompt)
        tokens = [Token(at, -0.1, 0.0, part, seen=Observation(0.2)) for at, part in enumerate((text, ""))]
        return Generation(text, tuple(tokens if text else tokens[1:]), Stop.LINE, Timing())


@pytest.mark.parametrize(
    ("small", "texts", "measures"),
    [
        ("items", ["items"], ["second-opinion"]),
        ("len(items)", ["items", "len(items)"], ["surer-of-two"] * 2),
        ("", ["items"], ["features"]),
        (None, ["items"], ["features"]),
    ],
)
def test_a_place_has_a_second_opinion_where_labels_say_what_it_is_worth(
    small: str | None,
    texts: list[str],
    measures: list[str],
    home: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert home.is_dir()
    # More than the small window holds.
    above = "\n".join(f"price_{at} = {at}" for at in range(900))
    (tmp_path / "mine.py").write_text(f"{above}\ndef total(items):\n    return \n", "utf-8")

    def found(engine: OfTwoWindows, **given: Any) -> list[Any]:
        monkeypatch.setattr(suggestions, "with_engine", lambda ask, *_: asyncio.run(ask(engine)))
        return suggestions.complete_at(tmp_path / "mine.py", 901, None, Settings(**given), print)

    made = found(engine := OfTwoWindows("items", small))
    assert sorted(one.text for one in made) == sorted(texts)
    assert [one.rank for one in made] == list(range(1, len(texts) + 1))
    for one, measure in zip(made, measures, strict=True):
        assert one.confidence.measure.startswith(measure)
    assert sum(one.confidence.calibrated for one in made) <= 1.0
    assert len(engine.prompts) == (1 if small is None else 2)
    found(engine := OfTwoWindows("items", small), remote_url="http://127.0.0.1:9")
    assert len(engine.prompts) == 1, "another machine is asked once"


MINE = "import prices\n\n\ndef total(items):\n    discount = prices.discount_of(items)\n    \n"
OTHER = "def discount_of(items):\n    discount = 0.1 * len(items)\n    return discount\n"


@pytest.fixture
def prompt(use: Callable[..., Scripted], monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    """The text of the prompt for a place."""
    engine = use()

    def of(path: Path, *, labels: bool = True, **given: Any) -> str:
        monkeypatch.setattr(CalibratorStore, "has_labels", lambda *_: labels)
        suggestions.complete_at(path, 5, None, Settings(**given), print)
        return engine.texts[-1]

    return of


def write(root: Path) -> Path:
    (root / ".git").mkdir(parents=True)
    (root / "prices.py").write_text(OTHER, "utf-8")
    (root / ".env").write_text("discount = secret_discount\n", "utf-8")
    (root / "app").mkdir()
    (root / "app" / "bill.py").write_text(MINE, "utf-8")
    return root / "app" / "bill.py"


def test_pieces_of_the_repository_are_shown(tmp_path: Path, prompt: Callable[..., str]) -> None:
    """Not with the small window, nor to another machine, nor what the user excludes."""
    path, piece = write(tmp_path / "shop"), "0.1 * len(items)"
    shown = prompt(path)
    assert piece in shown
    assert "secret_discount" not in shown
    assert piece not in prompt(path, labels=False)
    assert piece not in prompt(path, remote_url="http://127.0.0.1:9/v1", remote_model="m")
    assert piece not in prompt(path, exclude=("prices.py",))


def test_the_window_is_the_one_that_the_user_asks_for(
    tmp_path: Path, home: Path, prompt: Callable[..., str]
) -> None:
    """On the command line before config.toml."""
    path, piece = write(tmp_path / "shop"), "0.1 * len(items)"
    assert piece not in prompt(path, labels=False)
    assert piece in prompt(path, window="large", labels=False)
    (home / "config.toml").write_text('window = "small"\n')
    assert piece not in prompt(path)
    assert piece in prompt(path, window="auto", given=frozenset({"window"}))


@pytest.mark.parametrize(
    ("probability", "words"),
    [(0.0008, "<1 %"), (0.02, "2 %"), (0.41, "41 %"), (0.9992, ">99 %"), (None, "? %")],
)
def test_a_badge_calls_nothing_uncertain_impossible_or_certain(probability: float | None, words: str) -> None:
    assert badge("review", probability).plain == f"▲ review {words:>5}"


SHOP = '''def total_price(items):
    """Sum the prices of some items."""
    return sum(item.price for item in items if item.fresh)
'''
BILL = '''class Bill:
    def price_of(self, items):
        """Old words."""
        def inner(item):
            return item.price * self.tax
        return sum(map(inner, items))
'''


@pytest.fixture
def bill(tmp_path: Path) -> Path:
    root = tmp_path / "repository"
    (root / ".git").mkdir(parents=True)
    (root / "shop.py").write_text(SHOP)
    (root / "app").mkdir()
    (root / "app" / "bill.py").write_text(BILL)
    return root / "app" / "bill.py"


@pytest.mark.usefixtures("home")
async def test_a_remote_server_gets_the_text_of_the_file_alone(bill: Path) -> None:
    """The innermost function without its documentation, after the shipped examples."""
    async with serving() as server:
        given = Settings(remote_url=server.url)
        for line, code in ((2, "def price_of"), (4, "def inner")):
            suggestion = await asyncio.to_thread(summarize_at, bill, line, given, print)
            assert suggestion.text == "x"
            prompt = str(server.completions[-1].body["prompt"])
            assert prompt.rindex("```python") < prompt.index(code)
            assert "Read a JSON file" in prompt
            assert "Old words" not in prompt
            assert "some items" not in prompt


def test_examples_of_the_repository_are_shown(bill: Path, use: Callable[..., Scripted]) -> None:
    engine = use("Add a number.")
    summarize_at(bill, 1, Settings(), print)
    assert "Sum the prices of some items" in engine.texts[-1]
    (bill.parents[1] / "shop.py").unlink()
    summarize_at(bill, 1, Settings(), print)
    assert "Sum the prices of some items" not in engine.texts[-1]


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
    assert "not calibrated: `lsp-calib calibrate PATH --task summary`" in page.stdout
    assert "Left out: 1 file, excluded or no text." in page.stdout
    document: dict[str, Any] = json.loads(found.stdout)
    assert (document["complete"], document["functions"], document["skippedFiles"]) == (True, 3, 1)
    functions = document["files"][0]["functions"]
    told = [(one["name"], one["line"], one["documented"]) for one in functions]
    assert told == [("outer", 1, True), ("inner", 3, False)]
    assert functions[0]["summary"]["kind"] == "summary"
    assert functions[0]["summary"]["confidence"] is None


@pytest.mark.usefixtures("home")
async def test_stopping_keeps_what_is_done(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As by Ctrl-C between two functions: the page says how many there would have been."""
    real = suggestions.overview

    def stopped(root: Path, given_: Settings, say: Any, progress: Any, into: Overview, **more: Any) -> None:
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


@pytest.mark.parametrize("as_json", [False, True])
async def test_a_model_that_dies_loses_nothing_of_what_is_done(
    tree: Path, use: Callable[..., Scripted], as_json: bool
) -> None:
    use("Add a number.", dies=True)
    page = await run("summarize", "--all", tree, *(["--json"] if as_json else []))
    assert page.exit_code == EngineDiedError.exit_code
    assert "The model process died." in page.stderr
    if as_json:
        found = json.loads(page.stdout)
        assert (found["complete"], found["functions"]) == (False, 3)
        assert len(found["files"][0]["functions"]) == 2
    else:
        assert "2 of 3 functions" in page.stdout
    use(dies=True).prompts += ["", ""]
    page = await run("summarize", "--all", tree)
    assert (page.exit_code, page.stdout) == (EngineDiedError.exit_code, ""), "nothing was done"


async def test_a_tree_has_examples_of_its_repository(tree: Path, use: Callable[..., Scripted]) -> None:
    (tree / ".git").mkdir()
    twice = "// Twice doubles a price of the shop.\nfunc Twice(price int) int {\n\treturn 2 * price\n}\n"
    (tree / "prices.go").write_text(f"package a\n\n{twice}")
    scripted = use("Add a number.")
    assert (await run("summarize", "--all", tree / "sub")).exit_code == 0
    (prompt,) = scripted.texts
    assert "doubles a price of the shop" in prompt
    assert "other.go" not in prompt


HEADER = "namespace shop {\n// Sums.\ninline int total(int n) {\n  return n;\n}\n}  // namespace shop\n"


async def test_headers_of_a_c_plus_plus_project_are_read_as_such(
    tmp_path: Path, use: Callable[..., Scripted]
) -> None:
    """As C a namespace is a function, which holds all others. The tree, the file alone, and a place in it."""
    root = tmp_path / "shop"
    for name, text in (("include/shop.h", HEADER), ("src/a.cpp", "int one() {\n  return 1;\n}\n")):
        (root / name).parent.mkdir(parents=True)
        (root / name).write_text(text)
    (root / ".git").mkdir()
    use("Add a number.")
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


def test_an_answer_comes_although_nobody_reads_that_a_model_is_loaded(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Standard error may be a pipe that is closed, or a file on a full disk."""
    assert home.is_dir()

    def full(_: str) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    async def answer(engine: Engine) -> Generation:
        return await asyncio.wait_for(engine.generate(ask("steps 2")), 60)

    found = with_engine(answer, Settings(model=install(monkeypatch, tmp_path)), full)
    assert len(found.tokens) == 2


async def test_a_search_for_examples_that_is_cancelled_reads_no_further_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C would otherwise wait until the whole repository is read."""
    (tmp_path / ".git").mkdir()
    for number in range(20):
        (tmp_path / f"f{number}.py").write_text("def f():\n    return 1\n")
    read: list[Path] = []
    within, go_on = threading.Event(), threading.Event()
    lines_of = workspace_examples.lines_of

    def slow(path: Path) -> Any:
        read.append(path)
        within.set()
        go_on.wait(60)
        return lines_of(path)

    monkeypatch.setattr(workspace_examples, "lines_of", slow)
    (function,) = functions(("def f():", "    return 1"), "python")
    repository = RepositoryExamples((), seconds=60)
    search = asyncio.create_task(repository.find(tmp_path / "f0.py", function, "python"))
    assert await asyncio.to_thread(within.wait, 60)
    search.cancel()
    with pytest.raises(asyncio.CancelledError):
        await search
    go_on.set()
    await asyncio.get_running_loop().shutdown_default_executor()
    assert len(read) == 1


def test_a_file_that_is_only_verified_has_no_speed(capsys: pytest.CaptureFixture[str]) -> None:
    with download_progress("a model") as update:
        update(1000, 1000, "verifying")
    shown = capsys.readouterr().err
    assert "verifying" in shown
    assert "?" not in shown
