"""`lsp-calib complete`: the model is shown as much as in an editor."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import attrs
import pytest
from click.testing import CliRunner

from lsp_calib.calibration.calibrators.calibrator_store import CalibratorStore
from lsp_calib.cli import main
from lsp_calib.commands import suggestions
from lsp_calib.commands.printing import badge
from lsp_calib.errors import DataError
from lsp_calib.inference.engine import EngineState, LoadedModel, Request, StateListener, ignore_state
from lsp_calib.inference.models.cards import load_cards
from lsp_calib.settings import Trusted
from lsp_calib.values import Generation, ModelIdentity, Stop, Timing, Token

MINE = "import prices\n\n\ndef total(items):\n    discount = prices.discount_of(items)\n    \n"
OTHER = "def discount_of(items):\n    discount = 0.1 * len(items)\n    return discount\n"


class Scripted:
    """An engine of a model that knows of several files; keeps what it was asked."""

    def __init__(self) -> None:
        self.asked: list[Request] = []

    async def ready(self) -> LoadedModel:
        # Without a size, so that its large window is quick enough on any machine.
        card = attrs.evolve(load_cards()["qwen2.5-coder-1.5b"], parameters=1_000_000)
        return LoadedModel(ModelIdentity("m", "Q4", "0" * 64), card)

    async def generate(self, request: Request, _early_stop: object = None) -> Generation:
        self.asked.append(request)
        tokens = (Token(1, -0.1, 0.0, "return 1"), Token(2, -0.2, 0.0, ""))
        return Generation("return 1", tokens, Stop.LINE, Timing())

    async def close(self) -> None: ...


def test_without_a_column_it_is_the_line_s_end(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As with a column at it; and a byte order mark is no part of the text."""
    assert home.is_dir()
    (tmp_path / "mine.py").write_bytes(b"\xef\xbb\xbfimport prices\ntotal = pri\n")
    asked = Scripted()

    def run(ask: Callable[[Any], Awaitable[Any]], _given: Trusted, _say: object) -> Any:
        return asyncio.run(ask(asked))  # type: ignore[arg-type]

    monkeypatch.setattr(suggestions, "with_engine", run)
    for column in (None, 11):
        suggestions.complete_at(tmp_path / "mine.py", 1, column, Trusted(), print)
    first, second = (request.prompt for request in asked.asked)
    assert second == first
    with pytest.raises(DataError, match="Line 2 ends at column 12: there is no column 13"):
        suggestions.complete_at(tmp_path / "mine.py", 1, 12, Trusted(), print)
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

        async def generate(self, request: Request, _early_stop: object = None) -> Generation:
            await super().generate(request)
            return Generation("", (Token(2, -0.2, 0.0, ""),), Stop.LINE, Timing())

    def opened(_choice: object, listener: StateListener) -> Silent:
        nonlocal on_state
        on_state = listener
        return Silent()

    on_state = ignore_state
    monkeypatch.setattr("lsp_calib.commands.engine.open_engine", opened)
    result = CliRunner().invoke(main, ["complete", f"{tmp_path / 'mine.py'}:1"])
    assert (result.exit_code, result.stdout) == (0, "The model suggests nothing here.\n")
    assert result.stderr.splitlines() == [
        "lsp-calib: Loading m.",
        "lsp-calib: The model ended the line at once: it has nothing to add here.",
    ]


@pytest.fixture
def prompt(home: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    """The text of the prompt for a place."""
    engine = Scripted()
    assert home.is_dir()

    def run(ask: Callable[[Any], Awaitable[Any]], _given: Trusted, _say: object) -> Any:
        return asyncio.run(ask(engine))  # type: ignore[arg-type]

    monkeypatch.setattr(suggestions, "with_engine", run)

    def of(path: Path, given: Trusted | None = None, *, labels: bool = True) -> str:
        monkeypatch.setattr(CalibratorStore, "has_labels", lambda *_: labels)
        suggestions.complete_at(path, 5, None, given or Trusted(), print)
        return "".join(text for _, text in engine.asked[-1].prompt.segments)

    return of


def write(root: Path) -> Path:
    (root / ".git").mkdir(parents=True)
    (root / "prices.py").write_text(OTHER, "utf-8")
    (root / ".env").write_text("discount = secret_discount\n", "utf-8")
    (root / "app").mkdir()
    (root / "app" / "bill.py").write_text(MINE, "utf-8")
    return root / "app" / "bill.py"


def test_pieces_of_the_repository_are_shown(tmp_path: Path, prompt: Callable[..., str]) -> None:
    shown = prompt(write(tmp_path / "shop"))
    assert "0.1 * len(items)" in shown
    assert "secret_discount" not in shown


def test_not_with_the_small_window_nor_to_another_machine(tmp_path: Path, prompt: Callable[..., str]) -> None:
    path = write(tmp_path / "shop")
    assert "0.1 * len(items)" not in prompt(path, labels=False)
    assert "0.1 * len(items)" not in prompt(
        path, Trusted(remote_url="http://127.0.0.1:9/v1", remote_model="m")
    )


def test_what_the_user_excludes_is_not_shown(tmp_path: Path, prompt: Callable[..., str]) -> None:
    path = write(tmp_path / "shop")
    assert "0.1 * len(items)" not in prompt(path, Trusted(exclude=("prices.py",)))


def test_the_window_is_the_one_that_the_user_asks_for(
    tmp_path: Path, home: Path, prompt: Callable[..., str]
) -> None:
    """On the command line before config.toml."""
    path, piece = write(tmp_path / "shop"), "0.1 * len(items)"
    assert piece not in prompt(path, labels=False)
    assert piece in prompt(path, Trusted(window="large"), labels=False)
    (home / "config.toml").write_text('window = "small"\n')
    assert piece not in prompt(path)
    assert piece in prompt(path, Trusted(window="auto"))


def test_the_option_of_the_window_is_a_setting(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    given: list[Trusted] = []
    monkeypatch.setattr(suggestions, "complete_at", lambda *arguments: given.append(arguments[3]) or [])
    (tmp_path / "a.py").write_text("a\n")
    for window in ("small", "large"):
        asked = CliRunner().invoke(main, ["complete", f"{tmp_path / 'a.py'}:1", "--window", window])
        assert asked.exit_code == 0, asked.output
    assert [one.window for one in given] == ["small", "large"]


@pytest.mark.parametrize(
    ("probability", "words"),
    [(0.0008, "<1 %"), (0.02, "2 %"), (0.41, "41 %"), (0.9992, ">99 %"), (None, "? %")],
)
def test_a_badge_calls_nothing_uncertain_impossible_or_certain(probability: float | None, words: str) -> None:
    assert badge("review", probability).plain == f"▲ review {words:>5}"
