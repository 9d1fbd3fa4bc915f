"""The window is large where its confidence is known and the machine is quick, or where the user says so."""

from __future__ import annotations

from pathlib import Path

import attrs
import pytest

from lsp_calib.completion.prompt import PATIENCE, Layout, LayoutChooser, WindowSize
from lsp_calib.inference.models import speeds
from lsp_calib.inference.models.card import ModelCard, load_cards

pytestmark = pytest.mark.usefixtures("home")
CARD = load_cards()["qwen2.5-coder-1.5b"]
SMALL, LARGE = (Layout.of(CARD, size).version for size in (WindowSize.SMALL, WindowSize.LARGE))


@pytest.fixture
def card(home: Path) -> ModelCard:
    assert home.is_dir()
    return CARD


def remember_speed(card: ModelCard, prompt_per_s: float) -> None:
    speeds.remember_speed(card, speeds.Speed(0.3, 40, prompt_per_s))


def chosen(card: ModelCard, *, labels: bool = True, wanted: WindowSize | None = None) -> str:
    layouts = LayoutChooser(lambda _, version: labels and version == LARGE, lambda: wanted)
    return layouts.of_card(card, card.identity).version


def tokens(card: ModelCard) -> float:
    large = Layout.of(card, WindowSize.LARGE)
    return (large.window + large.related) / 4.0


@pytest.mark.parametrize(("share", "version"), [(1.1, LARGE), (0.9, SMALL)])
def test_the_measured_speed_decides(card: ModelCard, share: float, version: str) -> None:
    remember_speed(card, share * tokens(card) / PATIENCE)
    assert chosen(card) == version


def test_without_labels_it_is_small(card: ModelCard) -> None:
    remember_speed(card, 10_000.0)
    assert chosen(card, labels=False) == SMALL
    assert chosen(card) == LARGE


@pytest.mark.parametrize(
    ("parameters", "version"),
    [(135_000_000, LARGE), (1_540_000_000, SMALL), (0, SMALL)],
)
def test_unmeasured_the_size_of_the_model_decides(card: ModelCard, parameters: int, version: str) -> None:
    assert chosen(attrs.evolve(card, parameters=parameters)) == version


@pytest.mark.parametrize("size", WindowSize)
def test_the_users_word_counts_whatever_is_known(card: ModelCard, size: WindowSize) -> None:
    remember_speed(card, 1.0)
    assert chosen(card, labels=False, wanted=size) == Layout.of(card, size).version


def test_a_choice_stays_for_as_long_as_the_server_runs(card: ModelCard) -> None:
    """Another layout would empty the model's cache in the middle of the work."""
    layouts = LayoutChooser(lambda *_: True)
    before = layouts.of_card(card, card.identity)
    remember_speed(card, 10_000.0)
    assert layouts.of_card(card, card.identity) == before


def test_a_large_window_that_the_context_cannot_hold_is_logged_once(
    card: ModelCard, caplog: pytest.LogCaptureFixture
) -> None:
    """2,048 positions have no room for 3,200 characters and 1,600 of other places."""
    narrow = attrs.evolve(card, context=2048)
    layouts = LayoutChooser(lambda *_: True, lambda: WindowSize.LARGE)
    for _ in range(2):
        assert layouts.of_card(narrow, narrow.identity).version == SMALL
    (record,) = caplog.records
    assert "window" in record.getMessage()
    assert f"{narrow.name} (2048 positions)" in record.getMessage()


def test_why_a_window_is_used_and_how_to_change_it(card: ModelCard) -> None:
    def said(wanted: WindowSize | None = None, *, labels: bool = True) -> str:
        layouts = LayoutChooser(lambda *_: labels, lambda: wanted)
        size, words = layouts.explained(card, card.identity)
        assert words.startswith(f"The window is {size.value}: ")
        assert words.endswith("`window` in config.toml, or `lspCalib.window` in the editor, sets it.")
        return words

    assert "is not known until it has answered for a while" in said()
    assert "no calibrator knows the large one" in said(labels=False)
    assert "large: `window` says so" in said(WindowSize.LARGE)
    remember_speed(card, tokens(card) / 9.0)
    assert "small: qwen2.5-coder-1.5b reads the large one in about 9.0 s here, and the limit is 4 s" in said()


@pytest.mark.parametrize("wanted", [None, WindowSize.SMALL, WindowSize.LARGE])
def test_of_a_window_that_is_as_asked_for_nothing_is_logged(
    card: ModelCard, caplog: pytest.LogCaptureFixture, wanted: WindowSize | None
) -> None:
    context = 4096 if wanted is WindowSize.LARGE else 2048
    layouts = LayoutChooser(lambda *_: True, lambda: wanted)
    layouts.of_card(attrs.evolve(card, context=context), card.identity)
    assert not caplog.records
