"""What comes instead of comments that are not offered."""

from __future__ import annotations

import math
from typing import Any

import pytest
from conftest import Connect
from scripted_editor import suggestions

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

    async def test_by_hand_too(self, connect: Connect) -> None:
        editor = await connect({"otherwise": CHINESE})
        editor.open(ENGLISH, language="javascript")
        assert [one["text"] for one in suggestions(await editor.items(1, 3, by_hand=True))] == ["The sum"]

    @pytest.mark.parametrize("uri", ["file:///project/b.js", "file:///project/README.md"])
    async def test_not_where_another_open_document_has_the_letters(self, connect: Connect, uri: str) -> None:
        editor = await connect({"otherwise": CHINESE})
        editor.open("// 计算\n", uri, "markdown" if uri.endswith("md") else "javascript")
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
        assert "letters of a script" in found["message"]
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
