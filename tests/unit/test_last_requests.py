"""Why there is no suggestion: the sentences, and which request they are about."""

from __future__ import annotations

import attrs
import pytest
from feedback_scene import suggestion

from lsp_calib.completion.context import Cursor
from lsp_calib.completion.postprocess import Removal
from lsp_calib.completion.service import Completion, Hidden, Hiding, Nothing
from lsp_calib.server import admission
from lsp_calib.server.admission import LastRequests
from lsp_calib.values import Evidence, ModelIdentity

A, B = "file:///a.py", "file:///b.py"
FIRST = Cursor.at(("ab", "c"), 0, 1)
NOTHING = admission.absence_of(Nothing(Removal.EMPTY))


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
    now = [100.0]
    last = LastRequests(lambda: now[0])
    last.asked(A, FIRST)
    now[0] += 2.34
    found = last.of(A)
    assert found is not None
    wire = last.to_wire(found, NOTHING)
    assert wire == {"reason": "nothingToAdd", "message": NOTHING.message, "uri": A, "at": 2.3}


@pytest.mark.parametrize("removal", Removal)
def test_each_reason_for_withholding_an_answer_has_its_own_sentence(removal: Removal) -> None:
    others = [admission.absence_of(Nothing(other)).message for other in Removal if other is not removal]
    assert admission.absence_of(Nothing(removal)).message not in others


def test_the_words_for_a_hidden_completion() -> None:
    made = suggestion("x", "a" * 16)
    for survives, unchanged, words in (
        (0.12, 0.05, "edit, is about 12 %"),
        (0.1, 0.12, "edit, is about 12 %"),
        (0.002, 0.001, "edit, is about 0.2 %"),
    ):
        known = attrs.evolve(made, confidence=attrs.evolve(made.confidence, calibrated=unchanged))
        model = ModelIdentity("m", "Q4", "0" * 64)
        completion = Completion(known, FIRST, Evidence(), model, "v", survives=survives)
        found = admission.absence_of(Hidden(completion, Hiding(0.125)))
        assert found.reason == "hidden"
        assert found.message.startswith("Nothing here is sure enough: ")
        assert words in found.message
        assert "hideBelow is 12.5 %" in found.message
