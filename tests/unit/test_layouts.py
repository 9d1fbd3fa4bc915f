"""The window is large where a calibrator knows it, or where the user says so."""

from __future__ import annotations

import attrs
import pytest

from lsp_calib.completion.prompt import Layout, LayoutChooser, WindowSize
from lsp_calib.inference.models.cards import load_cards

CARD = load_cards()["qwen2.5-coder-1.5b"]
SMALL, LARGE = (Layout.of(CARD, size).version for size in (WindowSize.SMALL, WindowSize.LARGE))


@pytest.mark.parametrize(("labels", "size"), [(False, WindowSize.SMALL), (True, WindowSize.LARGE)])
def test_the_window_is_large_where_a_calibrator_knows_it(labels: bool, size: WindowSize) -> None:
    layouts = LayoutChooser(lambda _, version: labels and version == LARGE)
    assert layouts.of_card(CARD, CARD.identity) == Layout.of(CARD, size)
    assert layouts.size(CARD, CARD.identity) is size


@pytest.mark.parametrize("labels", [False, True])
@pytest.mark.parametrize("size", WindowSize)
def test_the_users_word_counts_whatever_is_known(size: WindowSize, labels: bool) -> None:
    layouts = LayoutChooser(lambda *_: labels, size)
    assert layouts.of_card(CARD, CARD.identity) == Layout.of(CARD, size)


def test_a_choice_stays_for_as_long_as_the_server_runs() -> None:
    """Another layout would empty the model's cache in the middle of the work."""
    known: set[str] = set()
    layouts = LayoutChooser(lambda _, version: version in known)
    before = layouts.of_card(CARD, CARD.identity)
    known.add(LARGE)
    assert layouts.of_card(CARD, CARD.identity) == before


def test_a_large_window_that_the_context_cannot_hold_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    """2,048 positions have no room for 3,200 characters and 1,600 of other places."""
    narrow = attrs.evolve(CARD, context=2048)
    layouts = LayoutChooser(lambda *_: True, WindowSize.LARGE)
    for _ in range(2):
        assert layouts.of_card(narrow, narrow.identity).version == SMALL
    (record,) = caplog.records
    assert "window" in record.getMessage()
    assert f"{narrow.name} (2048 positions)" in record.getMessage()


@pytest.mark.parametrize("wanted", [None, WindowSize.SMALL, WindowSize.LARGE])
def test_of_a_window_that_is_as_asked_for_nothing_is_logged(
    caplog: pytest.LogCaptureFixture, wanted: WindowSize | None
) -> None:
    context = 4096 if wanted is WindowSize.LARGE else 2048
    layouts = LayoutChooser(lambda *_: True, wanted)
    layouts.of_card(attrs.evolve(CARD, context=context), CARD.identity)
    assert not caplog.records
