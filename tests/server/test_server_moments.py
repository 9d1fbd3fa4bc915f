"""The moments of a suggestion, from the keys that a user types to the store, the report and the refit."""

from __future__ import annotations

import time
from contextlib import closing
from typing import Any

import pytest
from conftest import Connect
from scripted_editor import Editor

from lsp_calib.calibration.calibrators.calibrator_store import CalibratorStore
from lsp_calib.feedback.report import make_report, to_wire
from lsp_calib.feedback.store import FeedbackStore
from lsp_calib.home import shipped_models
from lsp_calib.values import ModelIdentity

TEXT = "total = \nother = 1\n"
SAID = "price(item) + 1"
SCRIPT = {"answers": {"total = ": {"text": SAID, "logprobs": [-0.4, -0.3]}}, "otherwise": {"text": "zz"}}


async def typed(editor: Editor, text: str, begin: int = 8) -> list[dict[str, Any]]:
    """Type characters one by one, and ask at each; the suggestions."""
    found = []
    for column, character in enumerate(text, start=begin):
        editor.insert(0, column, character)
        found.append(await editor.suggestion(0, column + 1))
    return found


def exported(editor: Editor) -> list[dict[str, Any]]:
    with closing(FeedbackStore(editor.home / "feedback.db")) as store:
        return list(store.export())


def reported(editor: Editor) -> dict[str, Any]:
    with closing(FeedbackStore(editor.home / "feedback.db")) as store:
        calibrators = CalibratorStore(editor.home / "calibrators", shipped_models() / "calibrators")
        return to_wire(make_report(store, calibrators, time.time()))


async def test_a_suggestion_that_is_accepted_in_the_middle(connect: Connect) -> None:
    """One suggestion, with what was shown first, and what was shown when it was accepted."""
    editor = await connect(SCRIPT, text=TEXT)
    first = await editor.suggestion(0, 8)
    *_, fifth = await typed(editor, SAID[:5])
    assert fifth["id"] == first["id"]
    editor.insert(0, 13, SAID[5:])
    assert await editor.saved() == {first["id"]: "kept"}
    (row,) = [one for one in exported(editor) if one["id"] == first["id"]]
    assert (row["typed"], row["confidence"], row["tier"]) == (0, first["confidence"], first["tier"])
    assert row["logprobs"] == [-0.4, -0.3], "the evidence is that of the whole"
    accepted = [row[f"accepted_{name}"] for name in ("typed", "confidence", "tier")]
    assert accepted == [5, fifth["confidence"], fifth["tier"]]
    assert [one["typed"] for one in row["moments"]] == [0, 1, 5]
    report = reported(editor)
    assert {(one["name"], one["n"]) for one in report["typed"]} == {("0", 1), ("1 to 4", 1), ("5 to 8", 1)}
    (by_tier,) = report["accepted"]
    assert (by_tier["name"], by_tier["promised"]) == (fifth["tier"], pytest.approx(fifth["confidence"]))


async def test_one_that_becomes_another_line_has_no_accept(connect: Connect) -> None:
    editor = await connect(SCRIPT, text=TEXT)
    first = await editor.suggestion(0, 8)
    await typed(editor, SAID[:2])
    editor.insert(0, 10, "oor")
    await editor.saved()
    (row,) = [one for one in exported(editor) if one["id"] == first["id"]]
    assert (row["label"]["correct"], row["accepted_typed"], row["accepted_confidence"]) == (False, None, None)
    assert [one["typed"] for one in row["moments"]] == [0, 1]


async def test_one_that_is_shown_anew_after_its_label_was_first_seen_where_it_agrees(
    connect: Connect,
) -> None:
    """It is another suggestion, of which three characters were typed along: no refit learns from it."""
    editor = await connect({**SCRIPT, "clock": True}, text=TEXT)
    first = await editor.suggestion(0, 8)
    await editor.later(0.8)  # long enough to be read
    await typed(editor, SAID[:3])
    editor.insert(1, 0, "#")  # and goes on elsewhere
    await editor.later(61.0)
    assert (await editor.settled()) == {first["id"]: "typed over"}
    editor.change((1, 0), (1, 1), "")  # the model sees the same once more
    again = await editor.suggestion(0, 11)
    assert (again["id"] != first["id"], again["text"], again["source"]) == (True, SAID[3:], "memory")
    editor.insert(0, 11, SAID[3:])
    editor.save()
    await editor.later(61.0)
    assert (await editor.settled(2))[again["id"]] == "kept"
    await editor.in_order()
    rows = {row["id"]: row for row in exported(editor)}
    assert (rows[again["id"]]["typed"], rows[again["id"]]["accepted_typed"]) == (3, 3)
    with closing(FeedbackStore(editor.home / "feedback.db")) as store:
        ((sha256, name, prompt),) = set(
            store.read("SELECT model_sha256, model, prompt_version FROM suggestions")
        )
        model = ModelIdentity(name, "", sha256)
        fitted = store.labels(model, prompt, "line", at_once=True)
        assert [row.suggestion_id for row in fitted] == [first["id"]]
        assert len(store.labels(model, prompt, "line")) == 2
