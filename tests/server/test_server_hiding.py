"""The settings `hideBelow` and `confidence.measure`, and the word in doubt."""

from __future__ import annotations

import asyncio
import json
import math
from pathlib import Path
from typing import Any

import attrs
import pytest
from conftest import Connect
from lsprotocol import types
from scripted_editor import URI, Editor, capabilities, install_calibrator, suggestions, until

from lsp_calib.calibration.calibrators.calibrator import Calibrator, Curve
from lsp_calib.calibration.calibrators.calibrator_store import CalibratorStore

# The confidence is the geometric mean of the first four tokens (`install_calibrator`), and lines survive as
# often (`install_survival`).
SCRIPT: dict[str, Any] = {
    "survival": True,
    "answers": {
        "good": {"text": " = 1", "logprobs": [-0.1, -0.1]},
        "poor": {"text": " = 2", "logprobs": [-2.0, -2.0]},
        "long": {"text": " = 3", "logprobs": [-2.0] * 20},
        "none": {"text": ""},
    },
}
TEXT = "good\npoor\nlong\nnone\n"
TOLD = "hideBelow is"


async def shown(editor: Editor) -> list[int]:
    """The lines that get a suggestion, each asked twice."""
    found = []
    for line in range(4):
        first, again = [[item.insert_text for item in await editor.items(line, 4)] for _ in ("", "again")]
        assert first == again
        if first:
            found.append(line)
    return found


async def test_completions_below_the_limit_are_not_shown_and_counted(connect: Connect) -> None:
    """They are asked for once, and leave no label."""
    editor = await connect(SCRIPT, options={"hideBelow": 0.5}, text=TEXT)
    assert await shown(editor) == [0]
    status = await editor.status()
    assert (status["hidden"], status["tiers"]) == (2, {"accept": 1, "review": 0, "reject": 0})
    asked = [entry["line"] for entry in editor.engine.read("asked")]
    assert (asked.count("good"), asked.count("poor"), asked.count("long")) == (1, 1, 1)
    await editor.saved()
    assert editor.rows("SELECT COUNT(*) FROM suggestions") == [(1,)]


async def test_what_is_shown_although_it_was_to_be_hidden_says_so(connect: Connect) -> None:
    """With its small chance of being shown, which a later fit has to know."""
    editor = await connect(SCRIPT | {"explored": 1.0}, options={"hideBelow": 0.5}, text=TEXT)
    good, poor, long = [await editor.suggestion(line, 4) for line in range(3)]
    assert "hideBelow" not in good["reason"]
    for suggestion in (poor, long):
        assert suggestion["reason"].startswith(
            "shown although it is below hideBelow (0.5), to keep learning; "
        )
    assert (await editor.status())["hidden"] == 0
    kept = dict(await editor.stored("SELECT suggestion_id, data FROM events WHERE kind = 'shown'"))
    assert {name: json.loads(data)["shownProbability"] for name, data in kept.items()} == {
        good["id"]: 1.0,
        poor["id"]: 0.01,
        long["id"]: 0.01,
    }


# The probabilities are 0.14 and 0.12.
NEAR_THE_LIMIT: dict[str, Any] = SCRIPT | {
    "answers": SCRIPT["answers"] | {"long": {"text": " = 3", "logprobs": [-2.1] * 20}}
}


async def test_by_default_less_than_one_in_eight_is_hidden(connect: Connect) -> None:
    """The message about a setting is of a limit that the user has set."""
    editor = await connect(NEAR_THE_LIMIT, text=TEXT)
    assert await shown(editor) == [0, 1]
    assert (await editor.status())["hidden"] == 1
    assert not suggestions(await editor.items(2, 4))
    explained = await editor.command("explain", {"uri": URI})
    assert "hideBelow is 12.5 %. Lower hideBelow, or set it to false" in explained["message"]
    assert not [message for message in editor.messages if TOLD in message]


@pytest.mark.parametrize("where", ["editor", "trusted", "config.toml"])
async def test_false_turns_the_default_off(connect: Connect, tmp_path: Path, where: str) -> None:
    options: dict[str, Any] = {"editor": {"hideBelow": False}, "trusted": {"trusted": {"hideBelow": False}}}
    if where == "config.toml":
        (tmp_path / "home").mkdir(exist_ok=True)
        (tmp_path / "home" / "config.toml").write_text("hideBelow = false\n")
    editor = await connect(NEAR_THE_LIMIT, options=options.get(where, {}), text=TEXT)
    assert await shown(editor) == [0, 1, 2]


@pytest.mark.parametrize("known", ["calibrated", "survival"])
async def test_without_labels_of_the_model_nothing_is_hidden(connect: Connect, known: str) -> None:
    """Whether of the confidence, or of what survives; and by no limit."""
    script = SCRIPT | {"survival": known == "survival"}
    editor = await connect(script, calibrated=known == "calibrated", options={"hideBelow": 0.99}, text=TEXT)
    calibrator = (await editor.suggestion(0, 4))["calibrator"]
    assert (calibrator is not None) == (known == "calibrated")
    assert await shown(editor) == [0, 1, 2]


async def test_what_is_asked_for_by_hand_is_shown(connect: Connect) -> None:
    """Also where an automatic request has just had nothing; and it stays there once it was seen."""
    editor = await connect(SCRIPT, options={"hideBelow": 0.5}, text=TEXT)
    assert await shown(editor) == [0]
    for line in (1, 2):
        found = await editor.items(line, 4, by_hand=True)
        assert found[0].insert_text == f" = {line + 1}"
    assert await shown(editor) == [0, 1, 2]
    assert (await editor.status())["hidden"] == 2


async def test_a_hidden_one_is_known_while_it_is_typed_and_counts_once(connect: Connect) -> None:
    """Whatever else is typed, the model is asked, and nothing of it is left."""
    other = {"poor x": {"text": "y", "logprobs": [-0.1]}}
    script = SCRIPT | {"answers": SCRIPT["answers"] | other}
    editor = await connect(script, options={"hideBelow": 0.5}, text=TEXT)
    for typed in range(4):
        assert not await editor.items(1, 4 + typed)
        explained = await editor.command("explain", {"uri": URI})
        assert (explained["reason"], "about 14 %" in explained["message"]) == ("hidden", True)
        editor.insert(1, 4 + typed, " = 2"[typed])
    assert [entry["line"] for entry in editor.engine.read("asked")] == ["poor"]
    assert (await editor.status())["hidden"] == 1
    editor.change((1, 5), (1, 8), "x")
    (another,) = suggestions(await editor.items(1, 6))
    assert (another["text"], another["source"]) == ("y", "model")
    assert (await editor.status())["hidden"] == 1
    editor.change((1, 5), (1, 6), "")
    assert not await editor.items(1, 5), "taken back, it is hidden as before"
    assert [entry["line"] for entry in editor.engine.read("asked")] == ["poor", "poor x"]


async def test_what_was_made_ahead_and_hidden_counts_where_the_user_comes_to_it(connect: Connect) -> None:
    answers = {"x": {"text": " = 1"}, "": {"text": "y = 2", "logprobs": [-2.0, -2.0]}}
    script = {"answers": answers, "survival": True}
    editor = await connect(script, options={"hideBelow": 0.5}, text="x\n")
    (suggestion,) = suggestions(await editor.items(0, 1))
    editor.insert(0, 1, suggestion["text"])
    await editor.command("accepted", suggestion)
    await until(lambda: len(editor.engine.read("answered")) == 2, "the line made ahead")
    assert (await editor.status())["hidden"] == 0
    assert not await editor.items(1, 0)
    # On a slow machine the request comes before the line made ahead is remembered, and asks the model itself.
    asked = len(editor.engine.read("asked"))
    assert not await editor.items(1, 0)
    assert len(editor.engine.read("asked")) == asked
    assert (await editor.status())["hidden"] == 1


async def test_by_hand_beside_the_editors_own_request_at_the_same_place(connect: Connect) -> None:
    editor = await connect(SCRIPT, options={"hideBelow": 0.5}, text=TEXT)
    _, asked = await asyncio.gather(editor.items(1, 4), editor.items(1, 4, by_hand=True))
    assert [item.insert_text for item in asked] == [" = 2"]


async def test_the_menu_hides_as_well(connect: Connect) -> None:
    editor = await connect(SCRIPT, client=capabilities(), options={"hideBelow": 0.5}, text=TEXT)
    assert len((await editor.menu(0, 4)).items) == 1
    assert not (await editor.complete(1, 4)).items
    await until(lambda: editor.engine.read("answered"), "the answer")
    assert not (await editor.complete(1, 4)).items


def install_two_curves(home: Path) -> None:
    """A calibrator that returns the total, and the geometric mean where that is preferred."""
    mean = Calibrator.load(install_calibrator(home))
    curves = (Curve.of_measure("total", 1.0, 0.0), *mean.curves)
    CalibratorStore(home / "calibrators", home / "none").promote(attrs.evolve(mean, curves=curves))


async def test_the_measure_is_the_one_that_the_user_has_set(connect: Connect, tmp_path: Path) -> None:
    install_two_curves(tmp_path / "home")
    options = {"trusted": {"confidence": {"measure": "geometric-mean"}}}
    editor = await connect(SCRIPT, calibrated=False, options=options, text=TEXT)
    first = await editor.suggestion(0, 4)
    assert (first["measure"], first["confidence"]) == (
        "geometric-mean-first-4",
        pytest.approx(math.exp(-0.1)),
    )
    await editor.leave()
    editor = await connect(SCRIPT, calibrated=False, text=TEXT)
    second = await editor.suggestion(0, 4)
    # To the last digits: nothing is rounded on the way.
    assert (second["measure"], second["confidence"]) == ("total", pytest.approx(math.exp(-0.2), rel=1e-12))
    assert second["rawConfidence"] == pytest.approx(math.exp(-0.1), rel=1e-12)
    assert second["text"] == first["text"]


async def test_the_word_in_doubt_is_named_and_marked(connect: Connect) -> None:
    """In UTF-16 units of the text; the diagnostic is on that word alone, also after the line was indented."""
    tokens = ["'🐍' ", "+ ", "time", "out"]
    script = {"otherwise": {"text": "".join(tokens), "tokens": tokens, "logprobs": [-0.1, -0.2, -0.9, -0.1]}}
    editor = await connect(script, text="x = \n")
    suggestion = await editor.suggestion(0, 4)
    assert suggestion["doubt"] == {"start": 7, "end": 14}
    editor.insert(0, 4, suggestion["text"])
    await editor.status()
    (diagnostic,) = editor.pushed()
    assert diagnostic.range == types.Range(types.Position(0, 11), types.Position(0, 18))
    editor.insert(0, 0, "    ")
    editor.insert(0, 0, "# above\n")
    await editor.pull()
    await until(lambda: editor.pushed()[0].range.start.line == 1, "the moved diagnostic")
    (diagnostic,) = editor.pushed()
    assert diagnostic.range == types.Range(types.Position(1, 15), types.Position(1, 22))


async def test_the_word_that_a_reason_names_is_neither_logged_nor_stored(
    connect: Connect, tmp_path: Path
) -> None:
    """It is the user's code: it goes to the editor alone, also where it is shown to keep learning."""
    install_two_curves(tmp_path / "home")
    log = tmp_path / "server.log"
    word = {"text": "secret_word", "logprobs": [-2.0, -2.0]}
    script = {"otherwise": word, "log": str(log), "explored": 1.0, "survival": True}
    editor = await connect(script, calibrated=False, options={"hideBelow": 0.5}, text="x = \nsecret_line\n")
    suggestion = await editor.suggestion(0, 4)
    assert suggestion["reason"].startswith("shown although it is below hideBelow (0.5), to keep learning; ")
    assert "`secret_word`" in suggestion["reason"]
    editor.insert(0, 4, suggestion["text"])
    await editor.command("accepted", suggestion)
    (diagnostic,) = editor.pushed()
    assert "`secret_word`" in diagnostic.message
    await editor.leave()
    written = b"".join(path.read_bytes() for path in editor.home.rglob("*") if path.is_file())
    assert suggestion["id"].encode() in written
    assert b"secret_" not in written + log.read_bytes()


async def test_in_prose_there_is_no_number_and_nothing_is_hidden_nor_learned(connect: Connect) -> None:
    """The words of a comment are seldom the very same: good ones were red, by labels of code."""
    answer = {"text": " sum", "logprobs": [-2.0, -2.0]}
    editor = await connect(
        {"otherwise": answer, "survival": True}, options={"hideBelow": 0.5}, text="# The\nx = 1\n"
    )
    comment = await editor.suggestion(0, 5)
    assert (comment["confidence"], comment["tier"], comment["doubt"]) == (None, "review", None)
    assert comment["reason"].startswith("text in a comment or a documentation string: ")
    found = suggestions(await editor.items(0, 5, by_hand=True))
    assert {(one["confidence"], one["tier"]) for one in found} == {(None, "review")}
    assert not suggestions(await editor.items(1, 5)), "code beside it is hidden by the same answer"
    editor.insert(0, 5, comment["text"])
    await editor.command("accepted", comment)
    await editor.saved()
    assert (await editor.command("refit"))["n"] == 0


async def test_a_line_that_opens_documentation_has_no_number(connect: Connect) -> None:
    """Labels are of lines of code: three quotes below a head were marked accept, and never right."""
    opening = {"text": '"""', "logprobs": [-0.01]}
    editor = await connect({"otherwise": opening}, text="def f():\n    \n")
    suggestion = await editor.suggestion(1, 4)
    assert suggestion["text"] == '"""'
    assert (suggestion["confidence"], suggestion["tier"], suggestion["doubt"]) == (None, "review", None)
    assert suggestion["reason"].startswith("text in a comment or a documentation string: ")
