"""The window is large where its confidence is known and the machine is quick, or where the user says so."""

from __future__ import annotations

from pathlib import Path

import attrs
import pytest

from lsp_calib.completion.layouts import PATIENCE, Layouts
from lsp_calib.completion.prompt import FIM_VERSION, LARGE_FIM_VERSION, Layout, WindowSize
from lsp_calib.inference.models.card import ModelCard, load_cards
from lsp_calib.inference.models.speeds import remember_speed
from lsp_calib.values import ModelIdentity

pytestmark = pytest.mark.usefixtures("home")


@pytest.fixture
def card(home: Path) -> ModelCard:
    assert home.is_dir()
    return load_cards()["qwen2.5-coder-1.5b"]


def identity(card: ModelCard) -> ModelIdentity:
    return ModelIdentity(card.name, card.quantisation, card.sha256)


def chosen(card: ModelCard, *, labels: bool = True, wanted: WindowSize | None = None) -> str:
    layouts = Layouts(lambda _, version: labels and version == LARGE_FIM_VERSION, lambda: wanted)
    return layouts.of_card(card, identity(card)).version


def tokens(card: ModelCard) -> float:
    large = Layout.of(card, WindowSize.LARGE)
    return (large.window + large.related) / 4.0


@pytest.mark.parametrize(("share", "version"), [(1.1, LARGE_FIM_VERSION), (0.9, FIM_VERSION)])
def test_the_measured_speed_decides(card: ModelCard, share: float, version: str) -> None:
    remember_speed(card, share * tokens(card) / PATIENCE, 20.0)
    assert chosen(card) == version


def test_without_labels_it_is_small(card: ModelCard) -> None:
    remember_speed(card, 10_000.0, 100.0)
    assert chosen(card, labels=False) == FIM_VERSION
    assert chosen(card) == LARGE_FIM_VERSION


@pytest.mark.parametrize(
    ("parameters", "version"),
    [(135_000_000, LARGE_FIM_VERSION), (1_540_000_000, FIM_VERSION), (0, FIM_VERSION)],
)
def test_unmeasured_the_size_of_the_model_decides(card: ModelCard, parameters: int, version: str) -> None:
    assert chosen(attrs.evolve(card, parameters=parameters)) == version


@pytest.mark.parametrize("size", WindowSize)
def test_the_users_word_counts_whatever_is_known(card: ModelCard, size: WindowSize) -> None:
    remember_speed(card, 1.0, 1.0)
    assert chosen(card, labels=False, wanted=size) == Layout.of(card, size).version


def test_a_choice_stays_for_as_long_as_the_server_runs(card: ModelCard) -> None:
    """Another layout would empty the model's cache in the middle of the work."""
    layouts = Layouts(lambda *_: True)
    before = layouts.of_card(card, identity(card))
    remember_speed(card, 10_000.0, 100.0)
    assert layouts.of_card(card, identity(card)) == before


def test_a_large_window_that_the_context_cannot_hold_is_logged_once(
    card: ModelCard, caplog: pytest.LogCaptureFixture
) -> None:
    """2,048 positions have no room for 3,200 characters and 1,600 of other places."""
    narrow = attrs.evolve(card, context=2048)
    layouts = Layouts(lambda *_: True, lambda: WindowSize.LARGE)
    for _ in range(2):
        assert layouts.of_card(narrow, identity(narrow)).version == FIM_VERSION
    (record,) = caplog.records
    assert "window" in record.getMessage()
    assert f"{narrow.name} (2048 positions)" in record.getMessage()


@pytest.mark.parametrize("wanted", [None, WindowSize.SMALL, WindowSize.LARGE])
def test_of_a_window_that_is_as_asked_for_nothing_is_logged(
    card: ModelCard, caplog: pytest.LogCaptureFixture, wanted: WindowSize | None
) -> None:
    context = 4096 if wanted is WindowSize.LARGE else 2048
    layouts = Layouts(lambda *_: True, lambda: wanted)
    layouts.of_card(attrs.evolve(card, context=context), identity(card))
    assert not caplog.records
