"""Alternatives to a suggestion, for requests that the user makes by hand."""

from __future__ import annotations

import asyncio
import math
from pathlib import Path
from typing import Any

import pytest
from conftest import Connect
from lsprotocol import types
from scripted_editor import suggestions, until

# The first answer is "run(x)": 0.5 * 0.8 * 1. The second likeliest tokens have 0.2 and 0.1.
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


async def test_an_invoked_request_gets_three_and_an_automatic_one_the_first(connect: Connect) -> None:
    editor = await connect({"otherwise": FIRST}, text="task.")
    (first,) = suggestions(await editor.items(0, 5))
    assert editor.engine.read("other") == []
    items = await editor.items(0, 5, by_hand=True)
    again, second, third = suggestions(items)
    assert (again["id"], again["text"], again["rank"]) == (first["id"], "run(x)", 1)
    assert [(one["text"], one["rank"]) for one in (second, third)] == [("stop()", 2), ("run()", 3)]
    assert [item.insert_text for item in items] == ["run(x)", "stop()", "run()"]
    assert len({one["id"] for one in (first, second, third)}) == 3
    assert [entry["given"] for entry in editor.engine.read("other")] == [[50], [0, 60]]


async def test_one_stays_while_it_is_typed(connect: Connect) -> None:
    """As the first does, and has what the others leave; who asks by hand there gets a first one of that place
    again."""
    editor = await connect({"otherwise": FIRST}, text="task.")
    first, second, third = suggestions(await editor.items(0, 5, by_hand=True))
    editor.insert(0, 5, "sto")
    (rest,) = suggestions(await editor.items(0, 8))
    assert (rest["text"], rest["id"], rest["rank"]) == ("p()", second["id"], 2)
    left = 1.0 - first["confidence"] - third["confidence"]
    assert rest["confidence"] == pytest.approx(second["confidence"] / left)
    assert rest["reason"].startswith("typed along for 3 characters; ")
    assert len(editor.engine.read("asked")) == 1, "for the first, not again while one is typed"
    assert suggestions(await editor.items(0, 8, by_hand=True))[0]["rank"] == 1


async def test_one_that_leaves_broken_code_is_not_offered(connect: Connect) -> None:
    """The next way is tried in its place; the first answer is shown as it is."""
    ways = {**FIRST["ways"], "50": {"text": "stop(=)", "tokens": ["(=)"], "logprobs": [0.0]}}
    editor = await connect({"otherwise": {**FIRST, "ways": ways}}, text="task.")
    found = suggestions(await editor.items(0, 5, by_hand=True))
    assert [one["text"] for one in found] == ["run(x)", "run()"]
    broken = {**FIRST, "text": "run(=)", "tokens": ["run", "(=)", ""]}
    editor = await connect({"otherwise": broken}, text="task.")
    assert suggestions(await editor.items(0, 5, by_hand=True))[0]["text"] == "run(=)"


async def test_an_alternative_is_never_accept(connect: Connect) -> None:
    """Even if the first is thought to be wrong, and the second has all that is left."""
    answer = {
        **FIRST,
        "logprobs": [math.log(0.01), 0.0, 0.0],
        "seconds": [[math.log(0.01 / 0.98), 50], [100.0, None], [100.0, None]],
    }
    mild = {"acceptFrom": 0.2, "rejectBelow": 0.1}
    editor = await connect({"otherwise": answer}, options={"trusted": {"tiers": mild}}, text="task.")
    _, second = suggestions(await editor.items(0, 5, by_hand=True))
    assert second["confidence"] > 0.2
    assert second["tier"] == "review"


async def test_asked_again_they_are_the_same(connect: Connect) -> None:
    """Stepping through them asks again in some editors: they keep their ids, and nothing is decoded."""
    editor = await connect({"otherwise": FIRST}, text="task.")
    before = suggestions(await editor.items(0, 5, by_hand=True))
    n = len(editor.engine.read("other"))
    after = suggestions(await editor.items(0, 5, by_hand=True))
    assert [one["id"] for one in after] == [one["id"] for one in before]
    assert len(editor.engine.read("other")) == n
    assert (await editor.status())["tiers"] == {"accept": 0, "review": 1, "reject": 2}


async def test_where_the_tokens_show_no_other_way_answers_are_drawn(connect: Connect) -> None:
    """As with a remote engine. What says the same as another is not offered, nor what is cleaned away."""
    draws = [{"text": text, "logprobs": [-1.0]} for text in ("run(x)", "", "stop() ", "stop()", "wait()")]
    editor = await connect({"otherwise": {"text": "run(x)", "draws": draws}}, text="task.")
    found = suggestions(await editor.items(0, 5, by_hand=True))
    assert [one["text"] for one in found] == ["run(x)", "stop()", "wait()"]
    assert len(editor.engine.read("other")) == 5


async def test_what_is_late_is_left_out(connect: Connect, tmp_path: Path) -> None:
    never = {"text": "never", "heldUntil": str(tmp_path / "never")}
    editor = await connect({"otherwise": {**FIRST, "ways": {**FIRST["ways"], "60": never}}}, text="task.")
    first, *others = [one["text"] for one in suggestions(await editor.items(0, 5, by_hand=True))]
    assert first == "run(x)"
    assert others in (["stop()"], []), "on a slow machine the second one is late as well"
    await editor.engine.until("cancelled")


async def test_a_later_request_elsewhere_ends_them(connect: Connect, tmp_path: Path) -> None:
    never = {"text": "never", "heldUntil": str(tmp_path / "never")}
    ways = {"50": never, "60": never}
    editor = await connect({"answers": {"task.": {**FIRST, "ways": ways}, "b": {"text": "y"}}})
    editor.open("task.\nb")
    request = asyncio.ensure_future(editor.inline(0, 5, by_hand=True))
    await editor.engine.until("other")
    assert (await editor.suggestion(1, 1))["text"] == "y"
    await editor.engine.until("cancelled")
    assert await request is None
    assert await editor.stored("SELECT COUNT(*) FROM events WHERE kind = 'shown'") == [(1,)]


async def test_an_error_costs_the_alternatives_alone(connect: Connect) -> None:
    died = {"text": "x", "error": ["EngineDiedError", "It ended."]}
    editor = await connect({"otherwise": {**FIRST, "ways": {"50": died, "60": died}}}, text="task.")
    assert [one["text"] for one in suggestions(await editor.items(0, 5, by_hand=True))] == ["run(x)"]
    assert editor.messages == []


async def test_no_alternative_is_hidden_since_the_user_asks_for_them(connect: Connect) -> None:
    editor = await connect({"otherwise": FIRST, "survival": True}, options={"hideBelow": 0.05}, text="task.")
    found = suggestions(await editor.items(0, 5, by_hand=True))
    assert len(found) == 3
    assert min(one["confidence"] for one in found) < 0.05


async def test_each_gets_its_own_label_and_a_refit_uses_the_first_alone(connect: Connect) -> None:
    editor = await connect({"otherwise": FIRST}, text="task.")
    first, second, third = suggestions(await editor.items(0, 5, by_hand=True))
    editor.insert(0, 5, "stop()")
    await editor.command("accepted", second)
    await until(editor.pushed, "a diagnostic")
    (diagnostic,) = editor.pushed()
    assert diagnostic.data["id"] == second["id"]  # type: ignore[index, call-overload]
    labels = await editor.saved(3)
    assert labels[second["id"]] == "kept"
    assert labels[first["id"]] == labels[third["id"]] == "typed over"
    kinds = editor.rows("SELECT s.kind, l.correct FROM suggestions s JOIN labels l ON s.id = l.suggestion_id")
    assert sorted(kinds) == [("line", 0), ("line-2", 1), ("line-3", 0)]
    assert (await editor.command("refit"))["n"] == 1


async def test_the_menu_offers_them_when_it_is_invoked(connect: Connect) -> None:
    editor = await connect({"otherwise": FIRST}, options={"completion": {"enabled": True}}, text="task.")
    seen: list[types.CompletionItem] = []

    async def menu(line: int, n: int, **how: bool) -> None:
        """What the menu offers once there are n items; it does not wait for those that are not ready."""
        while len(seen) < n:
            seen[:] = (await editor.complete(line, 5, **how)).items
            await asyncio.sleep(0.01)

    await menu(0, 1)
    assert [item.data["rank"] for item in seen] == [1]
    assert editor.engine.read("other") == []
    editor.insert(0, 5, "\n")
    editor.insert(1, 0, "task.")
    await menu(1, 3, invoked=True)
    texts = [item.label for item in sorted(seen, key=lambda item: item.sort_text or "")]
    assert texts == ["run(x)", "stop()", "run()"]
    assert [item.data["rank"] for item in seen] == [1, 2, 3]
