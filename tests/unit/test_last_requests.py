"""Why there is no suggestion: the sentences, and which request they are about."""

from __future__ import annotations

import attrs
import pytest
from feedback_scene import suggestion

from lsp_calib.completion.context import Cursor
from lsp_calib.completion.postprocess import Removal
from lsp_calib.completion.service import Hidden, Nothing
from lsp_calib.errors import EngineDiedError, ModelFileError, NoModelError
from lsp_calib.server import admission
from lsp_calib.server.admission import LastRequests, NoSuggestion
from lsp_calib.values import Timing

A, B = "file:///a.py", "file:///b.py"
FIRST = Cursor.at(("ab", "c"), 0, 1)
SECOND = Cursor.at(("ab", "c"), 0, 2)
NOTHING = admission.absence_of(Nothing(Removal.EMPTY))


@attrs.define
class Clock:
    now: float = 100.0

    def __call__(self) -> float:
        return self.now


def of(last: LastRequests, uri: str | None) -> NoSuggestion | None:
    found = last.of(uri)
    assert found is not None
    return found.absence


def test_the_last_request_counts_in_its_document_and_of_all() -> None:
    last = LastRequests()
    assert last.of(A) is None
    assert last.of(None) is None
    last.asked(A, FIRST)
    last.asked(B, FIRST)
    last.concluded(A, FIRST, NOTHING)
    assert (of(last, A), of(last, B), of(last, None)) == (NOTHING, admission.WAITING, admission.WAITING)
    last.asked(A, SECOND)
    last.concluded(A, SECOND, None)
    assert of(last, None) is None


def test_an_earlier_request_elsewhere_says_nothing_any_more() -> None:
    last = LastRequests()
    last.asked(A, FIRST)
    last.asked(A, SECOND)
    last.concluded(A, FIRST, NOTHING)
    last.cancelled(A, FIRST)
    assert of(last, A) is admission.WAITING


def test_a_cancelled_request_is_superseded_unless_its_twin_was_answered() -> None:
    last = LastRequests()
    last.asked(A, FIRST)
    last.cancelled(A, FIRST)
    assert of(last, A) is admission.SUPERSEDED
    last.asked(A, FIRST)
    last.concluded(A, FIRST, None)
    last.cancelled(A, FIRST)
    assert of(last, A) is None


def test_a_menu_that_came_too_early_is_explained_by_the_later_answer() -> None:
    last = LastRequests()
    last.asked(A, FIRST)
    last.concluded(A, FIRST, admission.TOO_SLOW)
    last.concluded(A, FIRST, NOTHING)
    assert of(last, A) is NOTHING


def test_a_suggestion_that_came_too_late_for_its_document() -> None:
    last = LastRequests()
    last.outdated(B)
    last.asked(A, FIRST)
    last.concluded(A, FIRST, None)
    last.outdated(A)
    assert (of(last, A), last.of(B)) == (admission.DOCUMENT_CHANGED, None)


def test_a_closed_document_is_forgotten_and_the_number_of_others_is_bounded() -> None:
    last = LastRequests()
    last.asked(A, FIRST)
    last.forget(A)
    last.concluded(A, FIRST, NOTHING)
    assert last.of(A) is None
    assert last.of(None) is None
    for number in range(150):
        last.refused(f"file:///{number}.py", admission.OFF)
    kept = [number for number in range(150) if last.of(f"file:///{number}.py")]
    assert kept == list(range(50, 150))


def test_the_answer_of_the_command_says_how_long_ago_it_was() -> None:
    clock = Clock()
    last = LastRequests(clock)
    last.asked(A, FIRST)
    clock.now += 2.34
    found = last.of(A)
    assert found is not None
    wire = last.to_wire(found, NOTHING)
    assert wire == {"reason": "nothingToAdd", "message": NOTHING.message, "uri": A, "at": 2.3}


@pytest.mark.parametrize("removal", Removal)
def test_each_reason_for_withholding_an_answer_has_its_own_sentence(removal: Removal) -> None:
    others = [admission.absence_of(Nothing(other)).message for other in Removal if other is not removal]
    assert admission.absence_of(Nothing(removal)).message not in others


def test_the_words_for_a_hidden_completion() -> None:
    """One whose first tokens were too unlikely is hidden even if its confidence ends above the limit."""
    confidence = suggestion("x", "a" * 16).confidence
    for calibrated, words in (
        (0.12, "its confidence is about 12 %"),
        (0.6, "its first tokens"),
        (None, "first"),
    ):
        completion = Hidden(attrs.evolve(confidence, calibrated=calibrated), Timing(), 0.5)
        found = admission.absence_of(completion)
        assert found.reason == "hidden"
        assert words in found.message
        assert "hideBelow is 50 %" in found.message


def test_an_error_keeps_its_words_and_a_missing_model_has_a_code_of_its_own() -> None:
    for error, reason in (
        (NoModelError("Run x."), "noModel"),
        (ModelFileError("Run x."), "error"),
        (EngineDiedError("Run x."), "error"),
    ):
        found = admission.failed(error)
        assert (found.reason, found.message.endswith(" Run x.")) == (reason, True)
