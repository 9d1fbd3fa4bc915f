"""`lsp-calib refit`: on the labels of the prompts that this user's editor sends."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import textwrap
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from feedback_scene import settle, suggestion

from lsp_calib.commands import calibrators
from lsp_calib.completion.prompt import Layout, WindowSize
from lsp_calib.feedback.store import FeedbackStore
from lsp_calib.home import shipped_models
from lsp_calib.inference.engine import LoadedModel
from lsp_calib.inference.models.cards import load_cards
from lsp_calib.settings import Settings
from lsp_calib.values import Evidence, ModelIdentity

CARD = load_cards()["smollm2-135m"]
LOADED = LoadedModel(CARD.identity, CARD)
OTHER = next(card.identity for card in load_cards().values() if card.name != CARD.name and card.sha256)
SMALL, LARGE = (Layout.of(CARD, size).version for size in (WindowSize.SMALL, WindowSize.LARGE))


class Loaded:
    async def ready(self) -> LoadedModel:
        return LOADED


@pytest.fixture(autouse=True)
def without_a_model(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert home.is_dir()

    def run(ask: Callable[[Any], Awaitable[Any]], _given: Settings, _say: object) -> Any:
        return asyncio.run(ask(Loaded()))  # type: ignore[arg-type]

    monkeypatch.setattr(calibrators, "with_engine", run)


def write(home: Path, *versions: str, model: ModelIdentity = LOADED.identity) -> None:
    """Three lines with labels for each version of the prompt, one after the other."""
    store = FeedbackStore(home / "feedback.db")
    at = time.time() - 1000.0
    for nth, version in enumerate(version for version in versions for _ in range(3)):
        name = f"{model.name}-{nth}"
        store.record_shown(
            suggestion("x", name),
            model=model,
            prompt_version=version,
            language="go" if version == SMALL else "rust",
            evidence=Evidence((-0.1,)),
            at=at + nth,
            line=name,
        )
        settle(store, name, nth % 3 > 0, at + nth + 0.5)
    store.close()


def languages() -> list[str]:
    return [language for language, _ in calibrators.refit_now(Settings(), print).results]


@pytest.mark.parametrize(
    ("versions", "learned_from"),
    [((LARGE, SMALL), "go"), ((SMALL, LARGE), "rust"), ((LARGE, SMALL, "line-prefix-0"), "go")],
)
def test_the_window_of_the_last_label_counts(home: Path, versions: list[str], learned_from: str) -> None:
    """An editor's settings may name a window, of which a command knows nothing. Labels of a prompt that is no
    longer sent are no reason to ask about it."""
    write(home, *versions)
    assert languages() == [learned_from]


def test_labels_of_another_model_say_nothing_of_the_window(home: Path) -> None:
    write(home, LARGE)
    write(home, SMALL, model=ModelIdentity("m", "Q4", "5c" * 32))
    assert languages() == ["rust"]


def test_without_labels_it_names_the_model_that_has_most(home: Path) -> None:
    """The command takes the best installed model, and the editor another one. Whoever pastes the command runs
    nothing else."""
    ((language, result),) = calibrators.refit_now(Settings(), print).results
    assert (language, result.promoted, result.n) == ("python", False, 0)
    write(home, SMALL, model=ModelIdentity("my-own", "Q4", "5c" * 32))
    write(home, SMALL, LARGE, model=ModelIdentity("x;id", "", ""))
    refits = calibrators.refit_now(Settings(), print)
    no_labels, elsewhere = refits.sentences()
    assert no_labels.startswith(f"{CARD.name}, python: the calibrator stays (0 labels)")
    assert elsewhere.startswith("6 labels are of x;id: `lsp-calib refit --model 'x;id'` learns")
    assert (refits.to_wire()["model"], refits.to_wire()["note"]) == (CARD.name, elsewhere)


def test_with_labels_nothing_is_said_of_other_models(home: Path) -> None:
    write(home, SMALL)
    write(home, SMALL, LARGE, model=OTHER)
    refits = calibrators.refit_now(Settings(), print)
    (only,) = refits.sentences()
    assert only.startswith(f"{CARD.name}, go: ")
    assert "note" not in refits.to_wire()


def test_without_the_extra_for_studies_it_serves_calibrates_and_refits(home: Path, tmp_path: Path) -> None:
    write(home, *([LARGE] * 25))
    records = shipped_models() / "records" / "languages" / "line-smollm2-135m-go-large.jsonl"
    made = tmp_path / "made.json"
    code = f"""
        import asyncio, sys
        for name in ("matplotlib", "nltk", "rouge_score", "scipy", "sklearn"):
            sys.modules[name] = None
        sys.path.insert(0, {str(Path(__file__).parent)!r})
        from test_refit_command import Loaded
        from lsp_calib.cli import main
        from lsp_calib.commands import calibrators
        from lsp_calib.server import create_server
        create_server()
        calibrators.with_engine = lambda ask, *_: asyncio.run(ask(Loaded()))
        main(["refit"], standalone_mode=False)
        main(["calibrate", "--records", {str(records)!r}, "--output", {str(made)!r}], standalone_mode=False)
        print([name for name in sys.modules if name.startswith("lsp_calib.studies")])
    """
    command = [sys.executable, "-c", textwrap.dedent(code)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert "(75 labels)" in done.stdout, done.stderr
    assert done.stdout.endswith("[]\n")
    assert made.read_bytes() == (shipped_models() / "calibrators" / f"{records.stem}.json").read_bytes()
