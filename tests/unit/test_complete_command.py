"""`lsp-calib complete`: the model is shown as much as in an editor."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import attrs
import pytest

from lsp_calib.calibration.calibrators.calibrator_store import CalibratorStore
from lsp_calib.commands import complete
from lsp_calib.inference.engine import LoadedModel, Request
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


@pytest.fixture
def prompt(home: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    """The text of the prompt for a place."""
    engine = Scripted()
    assert home.is_dir()

    def run(ask: Callable[[Any], Awaitable[Any]], _given: Trusted, _say: object) -> Any:
        return asyncio.run(ask(engine))  # type: ignore[arg-type]

    monkeypatch.setattr(complete, "with_engine", run)

    def of(path: Path, given: Trusted | None = None, *, labels: bool = True) -> str:
        monkeypatch.setattr(CalibratorStore, "has_labels", lambda *_: labels)
        complete.complete_at(path, 5, None, given or Trusted(), print)
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
