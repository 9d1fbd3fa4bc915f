"""A second opinion: by hand the model answers the other window's prompt, too, before anything is shown."""

from __future__ import annotations

import asyncio
import math
from pathlib import Path
from typing import Any

import pytest
from conftest import Connect
from pygls.exceptions import JsonRpcRequestCancelled
from scripted_editor import Editor, install_curve, suggestions

from lsp_calib.completion import second

WINDOW = {"window": "small"}
# The first answer is "run(x)", with 0.5 * 0.8 * 1 and two other ways.
FIRST: dict[str, Any] = {
    "text": "run(x)",
    "tokens": ["run", "(x)", ""],
    "logprobs": [math.log(0.5), math.log(0.8), 0.0],
    "seconds": [[math.log(2.5), 50], [math.log(8), 60], [100.0, None]],
    "ways": {
        "50": {"text": "stop()", "tokens": ["()"], "logprobs": [0.0]},
        "60": {"text": "run()  ", "tokens": [""], "logprobs": [0.0]},
    },
}
P = 0.4 ** (1 / 3)
"""Its probability: the geometric mean."""


def answer(text: str, p: float) -> dict[str, Any]:
    return {"text": text, "logprobs": [math.log(p)] * 3}


def script(text: str, p: float, **more: Any) -> dict[str, Any]:
    return {"otherwise": FIRST, "second": answer(text, p), **more}


def moved(p: float, by: float) -> float:
    return 1 / (1 + math.exp(-(math.log(p / (1 - p)) + by)))


async def by_hand(editor: Editor, line: int = 0, column: int = 5) -> list[dict[str, Any]]:
    return suggestions(await editor.items(line, column, by_hand=True))


def asked(editor: Editor) -> list[bool]:
    """Whether it was background work, of each time that the model was asked for an answer, but not ahead."""
    return [one["background"] for one in editor.engine.read("asked") if not one["idle"]]


async def test_an_automatic_request_asks_once(connect: Connect) -> None:
    editor = await connect(script("run(x)", 0.8), options=WINDOW, text="task.")
    (only,) = suggestions(await editor.items(0, 5))
    assert only["confidence"] == pytest.approx(P)
    assert asked(editor) == [False]


async def test_an_answer_that_says_the_same_is_evidence(connect: Connect) -> None:
    editor = await connect(script(" run(x) ", 0.8), options=WINDOW, text="task.")
    (shown,) = suggestions(await editor.items(0, 5))
    first, *others = await by_hand(editor)
    assert (first["id"], first["text"], first["rank"]) == (shown["id"], "run(x)", 1)
    assert first["confidence"] == pytest.approx(moved(P, math.log(4)))
    assert (first["tier"], first["measure"]) == ("accept", "second-opinion-1")
    assert first["reason"].endswith("; a second reading, with the other window, says the same")
    assert [(one["text"], one["rank"]) for one in others] == [("stop()", 2), ("run()", 3)]
    assert sum(one["confidence"] for one in (first, *others)) <= 1.0
    assert asked(editor) == [False, True], "the second one leaves the cache of who types alone"


async def test_of_two_answers_the_surer_comes_first(connect: Connect) -> None:
    editor = await connect(script("wait()", 0.9), options=WINDOW, text="task.")
    found = await by_hand(editor)
    assert [(one["text"], one["rank"]) for one in found] == [
        ("wait()", 1),
        ("run(x)", 2),
        ("stop()", 3),
        ("run()", 4),
    ]
    surer, behind, *others = found
    p = moved(0.9, -0.5)
    assert (surer["confidence"], surer["tier"]) == (pytest.approx(p), "accept")
    assert behind["confidence"] == pytest.approx(moved(P, -3))
    assert {surer["measure"], behind["measure"]} == {"surer-of-two-1"}
    assert "surer of two readings" in surer["reason"]
    assert "less sure of two readings" in behind["reason"]
    left = 1 - surer["confidence"] - behind["confidence"]
    assert sum(one["confidence"] for one in others) <= left


async def test_what_is_on_the_screen_is_not_exchanged_for_a_surer_one(connect: Connect) -> None:
    """It says what it is worth now, and the next one is the surer one."""
    editor = await connect(script("wait()", 0.9), options=WINDOW, text="task.")
    (shown,) = suggestions(await editor.items(0, 5))
    found = await by_hand(editor)
    assert [one["text"] for one in found] == ["run(x)", "wait()", "stop()", "run()"]
    assert (found[0]["id"], found[0]["rank"]) == (shown["id"], 1)
    assert found[0]["confidence"] == pytest.approx(moved(P, -3))
    assert (found[1]["confidence"], found[1]["tier"]) == (pytest.approx(moved(0.9, -0.5)), "accept")
    assert [one["id"] for one in await by_hand(editor)] == [one["id"] for one in found]
    (again,) = suggestions(await editor.items(0, 5))
    assert (again["id"], again["confidence"]) == (shown["id"], found[0]["confidence"])


@pytest.mark.parametrize(("typed", "rank"), [("ru", 1), ("wa", 2)])
async def test_typed_along_the_one_refutes_the_other(connect: Connect, typed: str, rank: int) -> None:
    """Whichever of the two is on the screen."""
    editor = await connect(script("wait()", 0.9), options=WINDOW, text="task.")
    await editor.items(0, 5)
    found = await by_hand(editor)
    editor.insert(0, 5, typed)
    (rest,) = suggestions(await editor.items(0, 7))
    before, other = found[rank - 1], found[2 - rank]
    assert (rest["id"], rest["rank"]) == (before["id"], rank)
    others = other["confidence"] + sum(one["confidence"] for one in found[2:] if one["text"][:2] != typed)
    assert rest["confidence"] == pytest.approx(before["confidence"] / (1 - others))
    assert rest["tier"] == ("accept" if rank == 2 else "review")


async def test_where_the_first_is_surer_it_stays_first(connect: Connect) -> None:
    editor = await connect(script("wait()", 0.6), options=WINDOW, text="task.")
    (shown,) = suggestions(await editor.items(0, 5))
    first, second_, *_ = await by_hand(editor)
    assert (first["id"], first["text"]) == (shown["id"], "run(x)")
    assert first["confidence"] == pytest.approx(moved(P, -0.5))
    assert (second_["text"], second_["rank"], second_["tier"]) == ("wait()", 2, "reject")
    assert second_["confidence"] == pytest.approx(moved(0.6, -3))


async def test_what_is_on_the_screen_stays(connect: Connect) -> None:
    """By itself, asked again, and while it is typed: also where the other answer begins alike."""
    install = script("run(y)", 0.9)
    editor = await connect(install, options=WINDOW, text="task.")
    found = await by_hand(editor)
    assert [one["text"] for one in found[:2]] == ["run(y)", "run(x)"]
    n = len(editor.engine.read("answered"))
    (again,) = suggestions(await editor.items(0, 5))
    assert (again["id"], again["confidence"]) == (found[0]["id"], found[0]["confidence"])
    assert [one["id"] for one in await by_hand(editor)] == [one["id"] for one in found]
    editor.insert(0, 5, "ru")
    (rest,) = suggestions(await editor.items(0, 7))
    assert (rest["id"], rest["text"]) == (found[0]["id"], "n(y)")
    assert len(editor.engine.read("answered")) == n


async def test_the_less_sure_one_comes_once_it_is_typed(connect: Connect) -> None:
    editor = await connect(script("wait()", 0.9), options=WINDOW, text="task.")
    found = await by_hand(editor)
    editor.insert(0, 5, "ru")
    (rest,) = suggestions(await editor.items(0, 7))
    assert (rest["id"], rest["text"], rest["rank"]) == (found[1]["id"], "n(x)", 2)
    assert rest["confidence"] > found[1]["confidence"], "the surer one is refuted"


async def test_what_is_late_is_left_out_and_asked_for_again(
    connect: Connect, release: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(second, "WITHIN", 0.05)
    held = {**answer("wait()", 0.9), "heldUntil": str(release)}
    editor = await connect(script("", 0.9) | {"second": held}, options=WINDOW, text="task.")
    assert [one["text"] for one in await by_hand(editor)] == ["run(x)", "stop()", "run()"]
    await editor.engine.until("cancelled")
    release.touch()
    monkeypatch.setattr(second, "WITHIN", 30.0)
    found = [(one["text"], one["rank"]) for one in await by_hand(editor)]
    assert found == [("run(x)", 1), ("wait()", 2), ("stop()", 3), ("run()", 4)]


@pytest.mark.parametrize(
    "second_",
    [
        {"text": "x", "error": ["EngineDiedError", "It ended."]},
        {"text": " "},
        {"text": "wait()", "stop": "length"},
    ],
)
async def test_without_a_second_answer_the_first_is_as_it_was(
    connect: Connect, second_: dict[str, Any]
) -> None:
    editor = await connect({"otherwise": FIRST, "second": second_}, options=WINDOW, text="task.")
    first, *others = await by_hand(editor)
    assert (first["text"], first["confidence"]) == ("run(x)", pytest.approx(P))
    assert [one["text"] for one in others] == ["stop()", "run()"]
    assert editor.messages == []


async def test_a_later_request_elsewhere_ends_it(connect: Connect, tmp_path: Path) -> None:
    never = {**answer("wait()", 0.9), "heldUntil": str(tmp_path / "never")}
    answers = {"answers": {"task.": FIRST, "b": {"text": "y"}}, "second": never}
    editor = await connect(answers, options=WINDOW)
    editor.open("task.\nb")
    request = asyncio.ensure_future(editor.inline(0, 5, by_hand=True))
    await editor.engine.until("asked", 2)
    assert (await editor.suggestion(1, 1))["text"] == "y"
    await editor.engine.until("cancelled")
    assert await request is None
    assert await editor.stored("SELECT COUNT(*) FROM events WHERE kind = 'shown'") == [(1,)]


async def test_cancelling_the_request_ends_it(connect: Connect, tmp_path: Path) -> None:
    never = {**answer("wait()", 0.9), "heldUntil": str(tmp_path / "never")}
    editor = await connect(script("", 0.9) | {"second": never}, options=WINDOW, text="task.")
    request = asyncio.ensure_future(editor.inline(0, 5, request_id="first", by_hand=True))
    await editor.engine.until("asked", 2)
    editor.cancel("first")
    with pytest.raises(JsonRpcRequestCancelled):
        await request
    await editor.engine.until("cancelled")
    assert editor.engine.read("other") == [], "no alternatives either"


@pytest.mark.parametrize(
    "options",
    [
        {"window": "large"},  # for which there is no curve
        {**WINDOW, "trusted": {"remote": {"url": "http://127.0.0.1:9"}}},
        {**WINDOW, "confidence": {"measure": "geometric-mean"}},
    ],
)
async def test_where_nothing_says_what_it_means_it_is_not_asked(
    connect: Connect, options: dict[str, Any]
) -> None:
    editor = await connect(script("run(x)", 0.8), options=options, text="task.")
    await by_hand(editor)
    assert asked(editor) == [False]


async def test_where_a_block_begins_it_is_not_waited_for(connect: Connect) -> None:
    answers = {"answers": {"    ": answer("x = 1", 0.8)}, "second": answer("y = 2", 0.9)}
    lines = [answer("    return y", 0.9), answer("", 0.9)]
    editor = await connect(answers | {"inOrder": lines}, options=WINDOW, text="def f():\n    ")
    block = (await by_hand(editor, 1, 4))[0]
    assert (block["kind"], block["text"]) == ("block", "x = 1\n    return y")


async def test_both_go_over_what_the_editor_has_closed(connect: Connect) -> None:
    editor = await connect(
        {"otherwise": answer("x)", 0.6), "second": answer("y)", 0.9)}, options=WINDOW, text="run()"
    )
    found = await editor.items(0, 4, by_hand=True)
    assert [one["text"] for one in suggestions(found)] == ["y)", "x)"]
    ends = [item.range.end.character for item in found if item.range is not None]
    assert ends == [5, 5]


async def test_one_that_cannot_go_over_it_says_nothing(connect: Connect) -> None:
    editor = await connect(
        {"otherwise": answer("x)", 0.6), "second": answer("y + (", 0.9)}, options=WINDOW, text="run()"
    )
    (only,) = await by_hand(editor, 0, 4)
    assert (only["text"], only["confidence"]) == ("x)", pytest.approx(0.6))


async def test_a_beginning_that_can_be_trusted_follows(connect: Connect, tmp_path: Path) -> None:
    """How likely the line is to be right up to a place, if it is wrong as a whole, stays."""
    text = "alpha beta"
    first = {
        "text": text,
        "tokens": ["alpha", " beta"],
        "logprobs": [math.log(0.9), math.log(0.3)],
        "entropies": [0.1, 0.1],
    }
    sure = {"text": text, "tokens": ["alpha", " beta"], "logprobs": [math.log(0.6)] * 2, "entropies": [0, 0]}
    install_curve(tmp_path / "home")
    editor = await connect({"otherwise": first, "second": sure}, options=WINDOW, text="x = ")
    (before,) = suggestions(await editor.items(0, 4))
    assert before["sure"] is not None
    after = (await by_hand(editor, 0, 4))[0]
    p, q = before["confidence"], after["confidence"]
    assert q > p
    left = (before["sure"]["confidence"] - p) / (1 - p)
    assert after["sure"]["confidence"] == pytest.approx(q + (1 - q) * left)


async def test_what_it_brings_is_not_learned_from_and_what_it_judges_is(connect: Connect) -> None:
    """Else the labels that count would be chosen by being sure."""
    editor = await connect(script("wait()", 0.9), options=WINDOW, text="task.")
    surer, behind, *_ = await by_hand(editor)
    editor.insert(0, 5, "wait()")
    await editor.command("accepted", surer)
    labels = await editor.saved(4)
    assert (labels[surer["id"]], labels[behind["id"]]) == ("kept", "typed over")
    rows = editor.rows(
        "SELECT s.kind, s.prompt_version, s.logprobs <> '[]', l.correct "
        "FROM suggestions s JOIN labels l ON s.id = l.suggestion_id WHERE s.kind = 'line'"
    )
    assert sorted(rows) == [("line", "line-prefix-1", 0, 1), ("line", "line-prefix-1", 1, 0)]


async def test_asked_again_after_its_label_it_has_a_label_of_its_own(connect: Connect) -> None:
    editor = await connect(script("wait()", 0.9, clock=True), options=WINDOW, text="task.\n")
    before = await by_hand(editor)
    editor.insert(0, 5, "wait()")
    editor.insert(1, 0, "x")
    await editor.later(31)
    await editor.settled(4)
    editor.change((1, 0), (1, 1), "")
    editor.change((0, 5), (0, 11), "")
    after = await by_hand(editor)
    assert [one["text"] for one in after[:2]] == ["wait()", "run(x)"]
    assert not {one["id"] for one in before} & {one["id"] for one in after}
    assert asked(editor) == [False, True], "both are remembered"
