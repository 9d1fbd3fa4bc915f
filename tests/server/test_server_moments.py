"""The moments of a suggestion, from the keys that a user types to the store, the report and the refit."""

from __future__ import annotations

import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from conftest import Connect
from lsprotocol import types
from scripted_editor import Editor, install_curve, until

from lsp_calib.calibration.calibrators.calibrator_store import CalibratorStore
from lsp_calib.feedback.report import make_report, to_wire
from lsp_calib.feedback.store import FeedbackStore
from lsp_calib.home import shipped_models
from lsp_calib.values import ModelIdentity

TEXT = "total = \nother = 1\n"
SAID = "price(item) + 1"
SCRIPT = {
    "answers": {
        "total = ": {
            "text": SAID,
            "tokens": ["price", "(", "item", ")", " + 1"],
            "logprobs": [-0.6, -0.05, -0.4, -0.05, -0.5],
            "entropies": [1.0, 0.1, 1.0, 0.1, 1.0],
        }
    },
    "otherwise": {"text": "zz"},
}
HIDING = {"survival": True, "clock": True}


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


async def test_a_suggestion_that_is_accepted_in_the_middle(connect: Connect, tmp_path: Path) -> None:
    """One suggestion, with what was shown first, and what was shown when it was accepted."""
    install_curve(tmp_path / "home")
    editor = await connect(SCRIPT, text=TEXT)
    first = await editor.suggestion(0, 8)
    seen = [first, *await typed(editor, SAID[:5])]
    fifth = seen[5]
    assert (fifth["id"], fifth["confidence"] > first["confidence"] + 0.05) == (first["id"], True)
    editor.insert(0, 13, SAID[5:])
    await until(editor.pushed, "a mark on the line")
    (mark,) = editor.pushed()
    assert (mark.code, mark.message) == (fifth["tier"], f"Usually used as it is: {fifth['reason']}")
    assert first["doubt"] == {"start": 0, "end": 5}
    assert fifth["doubt"] is None
    assert mark.range == types.Range(types.Position(0, 0), types.Position(0, 23)), "its doubt was typed"
    assert await editor.saved() == {first["id"]: "kept"}
    (row,) = [one for one in exported(editor) if one["id"] == first["id"]]
    assert (row["typed"], row["confidence"], row["tier"]) == (0, first["confidence"], first["tier"])
    assert row["logprobs"] == [-0.6, -0.05, -0.4, -0.05, -0.5], "the evidence is that of the whole"
    accepted = [row[f"accepted_{name}"] for name in ("typed", "confidence", "tier")]
    assert accepted == [5, fifth["confidence"], fifth["tier"]]
    kept = [(one["typed"], one["confidence"], one["tier"]) for one in row["moments"]]
    assert set(kept) <= {(k, one["confidence"], one["tier"]) for k, one in enumerate(seen)}
    turned = next(k for k, one in enumerate(seen) if one["tier"] == "accept")
    assert {k for k, *_ in kept} == {0, 1, turned, 5}, "the first of each range and tier, and the best"
    report = reported(editor)
    assert {(one["name"], one["n"]) for one in report["typed"]} == {("0", 1), ("1 to 4", 1), ("5 to 8", 1)}
    tiers = {one["name"]: one["promised"] for one in report["tiers"] if one["n"]}
    by_first = {"review": first["confidence"], "accept": seen[turned]["confidence"]}
    assert tiers == pytest.approx(by_first)
    (by_tier,) = report["accepted"]
    assert (by_tier["name"], by_tier["promised"]) == (fifth["tier"], pytest.approx(fifth["confidence"]))


async def test_one_that_is_shown_anew_after_its_label_was_first_seen_where_it_agrees(
    connect: Connect, monkeypatch: pytest.MonkeyPatch
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
    now = time.time() + 200.0  # as the scripted clock has it: labels from the future are not read
    monkeypatch.setattr(time, "time", lambda: now)
    with closing(FeedbackStore(editor.home / "feedback.db")) as store:
        ((sha256, name, prompt),) = set(
            store.read("SELECT model_sha256, model, prompt_version FROM suggestions")
        )
        model = ModelIdentity(name, "", sha256)
        fitted = store.labels(model, prompt, "line", at_once=True)
        assert [row.suggestion_id for row in fitted] == [first["id"]]
        assert len(store.labels(model, prompt, "line")) == 2


async def test_a_hidden_one_that_comes_back_after_its_label_is_one_more_suggestion(
    connect: Connect, tmp_path: Path
) -> None:
    """Not one more with each key."""
    install_curve(tmp_path / "home")
    editor = await connect({**SCRIPT, **HIDING}, options={"hideBelow": 0.85}, text=TEXT)
    assert not await editor.items(0, 8)
    editor.insert(0, 8, SAID[:11])
    first = await editor.suggestion(0, 19)
    await editor.later(0.8)
    editor.insert(1, 0, "#")
    await editor.later(61.0)
    assert await editor.settled() == {first["id"]: "ignored"}
    editor.change((1, 0), (1, 1), "")
    again = {(await editor.suggestion(0, 19))["id"] for _ in range(2)}
    editor.insert(0, 19, SAID[11])
    again.add((await editor.suggestion(0, 20))["id"])
    assert len(again) == 1
    assert first["id"] not in again
    editor.change((0, 8), (0, 20), "")
    assert not await editor.items(0, 8), "where nothing of it is typed it is hidden as before"
