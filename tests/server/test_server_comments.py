"""Completions in comments and documentation: the setting `comments`, and what unwanted ones give way to."""

from __future__ import annotations

import asyncio
import math
from typing import Any

import pytest
from conftest import Connect
from lsprotocol import types
from scripted_editor import Editor, capabilities, suggestions

DOCUMENT = '# The\nx = 1\ndef f():\n    """The\n    """\n    return 1  # why\n'
PLACES = [(0, 5), (3, 7), (5, 19)]
CODE = (1, 5)
ANSWER = {"otherwise": {"text": " sum"}}


async def refused(editor: Editor, place: tuple[int, int], **how: Any) -> str:
    """A request is answered with nothing since its place is in a comment, and the model is not asked; why."""
    asked = len(editor.engine.read("asked"))
    assert not await editor.items(*place, **how)
    found = await editor.command("explain")
    assert found["reason"] == "comment"
    assert len(editor.engine.read("asked")) == asked
    return str(found["message"])


@pytest.mark.parametrize(("setting", "card"), [("hand", True), (None, False)])
async def test_by_hand_alone(connect: Connect, setting: str | None, card: bool) -> None:
    options = {} if setting is None else {"comments": setting}
    editor = await connect({**ANSWER, "comments": card}, options=options, text=DOCUMENT)
    for place in PLACES:
        message = await refused(editor, place)
        assert '"hand", when you ask for one' in message
        first = suggestions(await editor.items(*place, by_hand=True))[0]
        assert first["text"] == " sum"
        assert await editor.command("explain") is None
        assert (await editor.suggestion(*place))["id"] == first["id"], "it is there now"
    assert (await editor.suggestion(*CODE))["text"] == " sum"


@pytest.mark.parametrize(("setting", "card"), [("on", False), (None, True)])
async def test_as_elsewhere(connect: Connect, setting: str | None, card: bool) -> None:
    options = {} if setting is None else {"comments": setting}
    editor = await connect({**ANSWER, "comments": card}, options=options, text=DOCUMENT)
    for place in (*PLACES, CODE):
        assert (await editor.suggestion(*place))["text"] == " sum"


async def test_never(connect: Connect) -> None:
    editor = await connect(ANSWER, options={"comments": "off"}, text=DOCUMENT)
    for place in PLACES:
        assert '"off", never' in await refused(editor, place)
        assert '"off", never' in await refused(editor, place, by_hand=True)
    assert (await editor.suggestion(*CODE))["text"] == " sum"


async def test_what_is_typed_of_a_suggestion_does_not_bring_its_comment_where_it_is_off(
    connect: Connect,
) -> None:
    script = {"otherwise": {"text": "= 1  # one of them"}}
    editor = await connect(script, options={"comments": "off"}, text="x \n")
    await editor.suggestion(0, 2)
    editor.insert(0, 2, "= 1  #")
    await refused(editor, (0, 8))


async def test_what_is_asked_for_by_hand_stays_while_it_is_typed(connect: Connect) -> None:
    editor = await connect(ANSWER, options={"comments": "hand"}, text="# The\n")
    (first, *_) = suggestions(await editor.items(0, 5, by_hand=True))
    editor.insert(0, 5, " s")
    rest = await editor.suggestion(0, 7)
    assert (rest["text"], rest["id"]) == ("um", first["id"])


async def test_nothing_is_made_ahead_there(connect: Connect) -> None:
    options = {"comments": "hand"}
    editor = await connect(
        {"otherwise": {"text": "xy"}}, options=options, text='def f():\n    """a\n    """\n'
    )
    editor.change((1, 7), (1, 8), "")
    (first, *_) = suggestions(await editor.items(1, 7, by_hand=True))
    asked = len(editor.engine.read("asked"))
    editor.insert(1, 7, first["text"])
    await editor.command("accepted", first)
    await asyncio.sleep(0.3)
    assert len(editor.engine.read("asked")) == asked
    editor.insert(1, 9, '\n    """\n    y = ')
    await editor.suggestion(3, 8)


class TestMenu:
    """It does not tell a key from a request by hand; but a key changes the document."""

    async def test_where_nothing_has_changed(self, connect: Connect) -> None:
        editor = await connect(ANSWER, options={"comments": "hand"}, client=capabilities(), text="#\n")
        editor.insert(0, 1, " ")
        assert not (await editor.complete(0, 2)).items
        assert (await editor.command("explain"))["reason"] == "comment"
        editor.insert(0, 2, "T")
        assert not (await editor.complete(0, 3, invoked=True)).items, "a key"
        assert not editor.engine.read("asked")
        found = await self.by_hand(editor, 0, 3)
        assert found.items[0].text_edit.new_text == "T sum"

    async def test_in_a_document_that_was_only_opened(self, connect: Connect) -> None:
        editor = await connect(ANSWER, options={"comments": "hand"}, client=capabilities(), text="# T\n")
        assert (await self.by_hand(editor, 0, 3)).items

    @staticmethod
    async def by_hand(editor: Editor, line: int, character: int) -> types.CompletionList:
        for _ in range(100):  # the menu does not wait long for the model
            if (found := await editor.complete(line, character, invoked=True)).items:
                return found
        raise AssertionError("no item")


# The likeliest words are Chinese; the second likeliest first token begins an English comment, that of the
# second token another Chinese one.
CHINESE: dict[str, Any] = {
    "text": "计算总和",
    "tokens": ["计算", "总和", ""],
    "logprobs": [math.log(0.6), math.log(0.5), 0.0],
    "seconds": [[math.log(3), 50], [math.log(1.1), 60], [100.0, None]],
    "ways": {
        "50": {"text": "The sum", "tokens": [" sum", ""], "logprobs": [-0.1, 0.0]},
        "60": {"text": "计算平均值", "tokens": [""], "logprobs": [0.0]},
    },
}
ENGLISH = "/**\n * \n */\nfunction f() {}\n"


class TestInstead:
    async def test_of_a_comment_in_another_script_comes_the_next_alternative(self, connect: Connect) -> None:
        editor = await connect({"otherwise": CHINESE})
        editor.open(ENGLISH, language="javascript")
        first = await editor.suggestion(1, 3)
        assert (first["text"], first["rank"], first["confidence"]) == ("The sum", 1, None)
        assert first["reason"].startswith("text in a comment")
        assert [one["given"] for one in editor.engine.read("other")] == [[50]]
        again = await editor.suggestion(1, 3)
        assert (again["id"], again["source"]) == (first["id"], "memory")
        assert (await editor.status())["withheld"]["foreignScript"] == 0

    async def test_not_where_another_open_document_has_the_letters(self, connect: Connect) -> None:
        editor = await connect({"otherwise": CHINESE})
        editor.open("# 计算\n", "file:///project/README.md", "markdown")
        editor.open(ENGLISH, language="javascript")
        assert (await editor.suggestion(1, 3))["text"] == "计算总和"

    async def test_an_excluded_document_says_nothing(self, connect: Connect) -> None:
        editor = await connect({"otherwise": CHINESE}, options={"exclude": ["b.js"]})
        editor.open("// 计算\n", "file:///project/b.js", "javascript")
        editor.open(ENGLISH, language="javascript")
        assert (await editor.suggestion(1, 3))["text"] == "The sum"

    async def test_without_one_nothing_comes(self, connect: Connect) -> None:
        only = {**CHINESE, "ways": {"50": {"text": "求和", "tokens": [""], "logprobs": [0.0]}}}
        editor = await connect({"otherwise": only})
        editor.open(ENGLISH, language="javascript")
        assert not await editor.items(1, 3)
        found = await editor.command("explain")
        assert found["reason"] == "nothingToAdd"
        assert "in a script that" in found["message"]
        assert not await editor.items(1, 3)
        assert len(editor.engine.read("asked")) == 1, "that is remembered"

    async def test_code_has_the_number_of_an_alternative_and_nothing_is_learned(
        self, connect: Connect
    ) -> None:
        answer = {
            "text": "# 0000000",
            "tokens": ["#", " 0000000", ""],
            "logprobs": [math.log(0.5), 0.0, 0.0],
            "seconds": [[math.log(2), 50], [100.0, None], [100.0, None]],
            "ways": {"50": {"text": "total = 1", "tokens": [" = 1", ""], "logprobs": [-0.1, 0.0]}},
        }
        editor = await connect({"otherwise": answer}, text="def f():\n    \n    return 1\n")
        code = await editor.suggestion(1, 4)
        assert (code["text"], code["rank"]) == ("total = 1", 1)
        assert 0 < code["confidence"] < 0.5, "a share of what the first one leaves"
        assert code["measure"].startswith("share-of-the-rest")
        editor.insert(1, 4, code["text"])
        await editor.command("accepted", code)
        await editor.saved()
        assert (await editor.command("refit"))["n"] == 0
