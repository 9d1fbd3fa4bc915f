"""`textDocument/inlineCompletion`: the item, what a request costs, and which of several is answered."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from conftest import Connect
from lsprotocol import types
from pygls.exceptions import JsonRpcRequestCancelled
from scripted_editor import URI, capabilities, suggestions, until

from lsp_calib.home import private_folder
from lsp_calib.inference.models.cards import how_to_get_one

SUM = {"answers": {"    return a": {"text": " + b", "logprobs": [-0.1, -0.2, -0.3, -0.4, -9.0]}}}
DEFINITION = "def add(a, b):\n    return a\n"


async def test_the_item_and_its_suggestion_object(connect: Connect) -> None:
    """One item at the cursor; its command carries the suggestion object with exactly the contract's keys."""
    editor = await connect(SUM, text=DEFINITION)
    (item,) = await editor.items(1, 12)
    assert item.insert_text == " + b"
    assert item.range == types.Range(types.Position(1, 12), types.Position(1, 12))
    assert item.command is not None
    assert item.command.command == "lsp-calib.accepted"
    (suggestion,) = item.command.arguments or ()
    number = (int, float)
    shape = {
        "id": str,
        "kind": str,
        "text": str,
        "confidence": float,
        "rawConfidence": float,
        "measure": str,
        "tier": str,
        "reason": str,
        "certified": bool,
        "calibrator": {"id": str, "source": str, "state": str, "n": int},
        "model": str,
        "tokens": int,
        "firstTokens": int,
        "source": str,
        "timing": {
            "queueMs": number,
            "promptTokens": int,
            "promptReused": int,
            "promptMs": number,
            "generateMs": number,
            "totalMs": number,
        },
        "rank": int,
        "doubt": {"start": int, "end": int},
        "sure": type(None),
    }
    _check(suggestion, shape)
    assert suggestion["kind"] == "line"
    assert suggestion["text"] == " + b"
    assert suggestion["tier"] == "review"
    assert suggestion["rawConfidence"] == pytest.approx(0.7788, abs=1e-4)  # exp(-mean(0.1 ... 0.4))
    assert suggestion["confidence"] == pytest.approx(0.7788, abs=1e-4)
    assert suggestion["measure"] == "geometric-mean-first-4"
    assert (suggestion["tokens"], suggestion["firstTokens"]) == (5, 4)
    assert (suggestion["model"], suggestion["source"]) == ("scripted", "model")
    assert suggestion["calibrator"]["source"] == "personal"
    assert suggestion["timing"]["promptReused"] == 30


def _check(value: dict[str, object], shape: dict[str, object]) -> None:
    assert set(value) == set(shape)
    for key, kind in shape.items():
        if isinstance(kind, dict):
            inner = value[key]
            assert isinstance(inner, dict)
            _check(inner, kind)
        else:
            assert isinstance(value[key], kind), key  # type: ignore[arg-type]


async def test_the_tier_follows_the_probability(connect: Connect) -> None:
    """Answers of a high, a middling and a low probability get their three tiers, and a reason in words."""
    tiers = {"accept": -0.01, "review": -0.5, "reject": -3.0}
    answers = {tier: {"text": "x", "logprobs": [logprob]} for tier, logprob in tiers.items()}
    editor = await connect({"answers": answers}, text="accept\nreview\nreject\n")
    for line, tier in enumerate(tiers):
        suggestion = await editor.suggestion(line, 6)
        assert suggestion["tier"] == tier
        assert "likely to be right" in suggestion["reason"]
    assert (await editor.status())["tiers"] == {"accept": 1, "review": 1, "reject": 1}


async def test_without_labels_the_tier_is_review_without_a_number(connect: Connect) -> None:
    editor = await connect({"otherwise": {"text": "x", "logprobs": [0.0]}}, calibrated=False, text="a = ")
    suggestion = await editor.suggestion(0, 4)
    assert (suggestion["confidence"], suggestion["calibrator"], suggestion["tier"]) == (None, None, "review")
    assert suggestion["reason"] == "not calibrated: `lsp-calib calibrate PATH`"
    assert (await editor.status())["calibrator"] is None


async def test_a_model_without_probabilities_gets_review(connect: Connect) -> None:
    """Where probabilities cannot be had, confidence is null and the tier is review."""
    editor = await connect({"otherwise": {"text": "x", "logprobs": []}}, text="a = ")
    suggestion = await editor.suggestion(0, 4)
    assert (suggestion["confidence"], suggestion["rawConfidence"]) == (None, None)
    assert suggestion["tier"] == "review"


async def test_a_new_request_takes_the_place_of_the_old_one(connect: Connect, tmp_path: Path) -> None:
    """The superseded request is answered null, its work is stopped, and the new one gets its own answer."""
    never = {"text": "old", "heldUntil": str(tmp_path / "never")}
    editor = await connect({"answers": {"a": never, "ab": {"text": "new"}}}, text="a\n")
    old = asyncio.ensure_future(editor.inline(0, 1))
    await editor.engine.until("asked")
    editor.insert(0, 1, "b")
    new = await editor.suggestion(0, 2)
    assert new["text"] == "new"
    assert await old is None
    assert [entry["line"] for entry in editor.engine.read("cancelled")] == ["a"]


async def test_requests_in_two_documents_do_not_disturb_each_other(connect: Connect, release: Path) -> None:
    """Only a request in the same document supersedes."""
    editor = await connect({"answers": {"a": {"text": "1", "heldUntil": str(release)}, "b": {"text": "2"}}})
    editor.open("a", uri="file:///a.py")
    editor.open("b", uri="file:///b.py")
    one = asyncio.ensure_future(editor.suggestion(0, 1, "file:///a.py"))
    await editor.engine.until("asked")
    assert (await editor.suggestion(0, 1, "file:///b.py"))["text"] == "2"
    release.touch()
    assert (await one)["text"] == "1"


async def test_a_cancelled_request_stops_the_work(connect: Connect, tmp_path: Path) -> None:
    """`$/cancelRequest` is answered with RequestCancelled, and the engine stops."""
    editor = await connect({"otherwise": {"text": "x", "heldUntil": str(tmp_path / "never")}}, text="a")
    request = asyncio.ensure_future(editor.inline(0, 1, request_id="mine"))
    await editor.engine.until("asked")
    editor.cancel("mine")
    with pytest.raises(JsonRpcRequestCancelled):
        await request
    await editor.engine.until("cancelled")
    assert (await editor.status())["state"] == "ready"


async def test_a_cancelled_request_leaves_its_twin_alone(connect: Connect, release: Path) -> None:
    """Editors ask again at the same place and then cancel the first request: the second one counts."""
    editor = await connect({"otherwise": {"text": "x", "heldUntil": str(release)}}, text="a")
    first = asyncio.ensure_future(editor.inline(0, 1, request_id="first"))
    await editor.engine.until("asked")
    second = asyncio.ensure_future(editor.suggestion(0, 1))
    await editor.status()
    editor.cancel("first")
    with pytest.raises(JsonRpcRequestCancelled):
        await first
    release.touch()
    assert (await second)["text"] == "x"
    assert len(editor.engine.read("asked")) == 1
    assert await editor.command("explain") is None


async def test_a_document_closed_during_a_request(connect: Connect, tmp_path: Path) -> None:
    """The request is answered with nothing, the work stops, and the server goes on."""
    editor = await connect(
        {"answers": {"a": {"text": "x", "heldUntil": str(tmp_path / "never")}, "b": {"text": "y"}}}, text="a"
    )
    request = asyncio.ensure_future(editor.inline(0, 1))
    await editor.engine.until("asked")
    editor.close()
    answer = await request
    assert answer is None or not answer.items
    await editor.engine.until("cancelled")
    editor.open("b")
    assert (await editor.suggestion(0, 1))["text"] == "y"


async def test_a_document_changed_during_a_request(connect: Connect, release: Path) -> None:
    """An answer to a line that has become another is not shown; one to a line that is as it was, is."""
    editor = await connect({"otherwise": {"text": "x", "heldUntil": str(release)}})
    editor.open("a\nb\n", uri="file:///a.py")
    editor.open("a\nb\n", uri="file:///b.py")
    other = asyncio.ensure_future(editor.items(0, 1, "file:///a.py"))
    same = asyncio.ensure_future(editor.suggestion(0, 1, "file:///b.py"))
    await editor.engine.until("asked", 2)
    editor.insert(0, 1, "b", "file:///a.py")
    editor.insert(1, 1, "b", "file:///b.py")
    await editor.status()
    release.touch()
    assert not await other
    assert (await editor.command("explain", {"uri": "file:///a.py"}))["reason"] == "superseded"
    assert (await same)["text"] == "x"
    # Only one of them was shown.
    assert (await editor.status())["tiers"] == {"accept": 1, "review": 0, "reject": 0}
    assert await editor.stored("SELECT COUNT(*) FROM events WHERE kind = 'shown'") == [(1,)]


async def test_an_engine_that_dies_costs_one_answer(connect: Connect) -> None:
    """The request during which it dies is answered null, without a word to the user; the next one works."""
    death = {"text": "x", "error": ["EngineDiedError", "The model process ended unexpectedly."]}
    editor = await connect({"otherwise": death}, text="a")
    assert await editor.inline(0, 1) is None
    assert (await editor.suggestion(0, 1))["text"] == "x"
    assert editor.messages == []


@pytest.mark.parametrize("error", ["NoModelError", "ModelFileError"])
async def test_without_a_model_one_message_says_what_to_do(connect: Connect, error: str) -> None:
    """Requests are answered null, however many; the user is told once, with the command that helps."""
    message = f"No model is installed. {how_to_get_one()}"
    editor = await connect({"failure": [error, message]}, text="def f():\n    pass\n")
    for character in (1, 2, 3):
        assert await editor.inline(0, character) is None
    assert await editor.hover(0, 4) is None
    status = await editor.status()
    assert status["state"] == ("noModel" if error == "NoModelError" else "error")
    assert status["message"] == message
    assert editor.messages == [message]


async def test_early_requests_wait_for_the_model_and_hold_up_nobody(connect: Connect, tmp_path: Path) -> None:
    """Before the model is loaded a completion waits, while hover and status are answered meanwhile."""
    ready = tmp_path / "ready"
    editor = await connect({"readyWhen": str(ready), "otherwise": {"text": "x"}, "hoverSeconds": 0.05})
    editor.open("def f():\n    pass\n")
    early = asyncio.ensure_future(editor.suggestion(0, 5))
    await editor.engine.until("loading")
    await until(lambda: any(s.state == "loading" for s in editor.client.statuses), "the state loading")
    assert (await editor.status())["state"] == "loading"
    assert "moment" in (await editor.hovered(0, 4)).value
    assert not early.done()
    ready.touch()
    assert (await early)["text"] == "x"
    status = await editor.status()
    assert (status["state"], status["model"]) == ("ready", "scripted")
    assert editor.client.statuses[0].state == "starting"
    assert editor.client.statuses[-1].state == "ready"


async def test_a_request_for_a_document_that_is_not_open(connect: Connect, tmp_path: Path) -> None:
    """Nothing is read from disk behind the editor's back: the answer is null, with or without such a file."""
    there = tmp_path / "there.py"
    there.write_bytes(b"a\xff\n")
    client = capabilities(pull=True)
    editor = await connect({"otherwise": {"text": "x"}}, client=client)
    for uri in (there.as_uri(), (tmp_path / "missing.py").as_uri(), "untitled:Untitled-9"):
        assert await editor.inline(0, 1, uri) is None
        assert not (await editor.complete(0, 1, uri)).items
        assert await editor.hover(0, 1, uri) is None
        assert await editor.pull(uri) == []
    assert editor.engine.read("asked") == []


async def test_a_damaged_calibrator_is_named_and_passed_over(connect: Connect, tmp_path: Path) -> None:
    """One message says which file was skipped; suggestions are judged by what is left."""
    folder = private_folder(private_folder(tmp_path / "home") / "calibrators")
    (folder / "line-scripted.json").write_text("{")
    editor = await connect({"otherwise": {"text": "x"}}, calibrated=False, text="a")
    suggestion = await editor.suggestion(0, 1)
    assert suggestion["calibrator"] is None
    await until(lambda: editor.messages, "a message")
    assert await editor.inline(0, 1)
    (message,) = editor.messages
    assert "line-scripted.json" in message


class TestClosersBehindTheCursor:
    """Editors write the closer with the opener. A completion is the whole line, and goes over it."""

    @pytest.mark.parametrize(
        ("before", "closers", "answer", "line", "kept"),
        [
            ("clients.push(th", ")", "is);", "clients.push(this);", ""),
            ('x = ["', '"]', 'a", "b"]', 'x = ["a", "b"]', ""),
            ("f(", ");", "x)", "f(x);", ";"),
            ("  a(", "),", "😀)", "  a(😀),", ","),
            ("for (const x of ", ")", "xs) {", "for (const x of xs) {", ""),
            ("if (a", ")", ") {", "if (a) {", ""),
        ],
    )
    async def test_it_takes_their_place(
        self, connect: Connect, before: str, closers: str, answer: str, line: str, kept: str
    ) -> None:
        editor = await connect({"answers": {before: {"text": answer}}}, text=f"a\n{before}{closers}\nb\n")
        found = await editor.items(1, len(before))
        (item,) = found
        start, end = len(before), len(before) + len(closers) - len(kept)
        assert item.range == types.Range(types.Position(1, start), types.Position(1, end))
        assert before + item.insert_text + kept == line
        assert editor.engine.read("asked")[-1]["prompt"] == f"a\n{before}", "the closers are in no prompt"
        editor.change((1, start), (1, end), item.insert_text)
        editor.save()
        (suggestion,) = suggestions(found)
        # The document alone does not tell one or two accepted characters from typed ones.
        assert await editor.settled() in ({suggestion["id"]: "kept"}, {suggestion["id"]: "typed"})

    async def test_what_stands_behind_more_than_closers_is_not_replaced(self, connect: Connect) -> None:
        editor = await connect({"answers": {"f(": {"text": "x"}}}, text="f() + 1\n")
        (item,) = await editor.items(0, 2)
        assert item.range == types.Range(types.Position(0, 2), types.Position(0, 2))

    async def test_an_answer_that_leaves_them_open_is_not_offered(self, connect: Connect) -> None:
        """Nor as an alternative. Where nothing stands behind the cursor it may be."""
        answer = "() => {"
        script = {"answers": {"setTimeout(": {"text": answer, "draws": [{"text": "1)"}, {"text": "{"}]}}}
        editor = await connect(script, text="setTimeout();\nsetTimeout(\n")
        assert suggestions(await editor.items(0, 11)) == []
        explained = await editor.command("explain", {"uri": URI})
        assert "leaves open" in explained["message"]
        assert (await editor.suggestion(1, 11))["text"] == answer

    async def test_alternatives_go_over_them_too(self, connect: Connect) -> None:
        script = {"answers": {"f(": {"text": "x)", "draws": [{"text": "y).z"}, {"text": "{"}]}}}
        editor = await connect(script, text="f()\n")
        found = await editor.items(0, 2, by_hand=True)
        assert [item.insert_text for item in found] == ["x)", "y).z"]
        over = types.Range(types.Position(0, 2), types.Position(0, 3))
        assert [item.range for item in found] == [over, over]

    async def test_typing_along_survives_what_the_editor_closes(self, connect: Connect) -> None:
        editor = await connect({"answers": {"System.out.": {"text": 'println("Hello " + name);'}}})
        editor.open("System.out.\n")
        first = await editor.suggestion(0, 11)
        editor.insert(0, 11, "println()")
        typed = await editor.items(0, 19)
        assert [one["id"] for one in suggestions(typed)] == [first["id"]]
        assert typed[0].insert_text == '"Hello " + name);'
        assert typed[0].range == types.Range(types.Position(0, 19), types.Position(0, 20))
        editor.change((0, 19), (0, 20), '"")')
        again = await editor.items(0, 20)
        assert [one["id"] for one in suggestions(again)] == [first["id"]]
        assert again[0].range == types.Range(types.Position(0, 20), types.Position(0, 22))
        assert len(editor.engine.read("asked")) == 1

    async def test_a_menu_gets_the_part_before_them(self, connect: Connect) -> None:
        editor = await connect({"answers": {"f(": {"text": 'g("a"), x):'}, "h(": {"text": ")"}}})
        editor.open("f()\nh()\n")
        found = await editor.menu(0, 2)
        assert [one.text_edit.new_text for one in found.items] == ['g("a"), x']
        assert not (await editor.complete(1, 2)).items
        editor.insert(0, 2, 'g("a"), x')
        assert await editor.saved() == {found.items[0].data["id"]: "kept"}
