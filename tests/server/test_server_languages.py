"""Languages beside Python: hovers on their functions, and what is said where there are no labels."""

from __future__ import annotations

import pytest
from conftest import Connect

FUNCTIONS = {
    "typescriptreact": "/** Old words. */\nfunction add(a: A) {\n  return <p>{a + b}</p>;\n}\n",
    "go": "// Old words.\nfunc add(a, b int) int {\n\treturn a + b\n}\n",
    "cpp": "/// Old words.\nint A::add(int a, int b) {\n    return a + b;\n}\n",
}


@pytest.mark.parametrize("language", FUNCTIONS)
async def test_a_hover_summarises_the_code_without_its_documentation(connect: Connect, language: str) -> None:
    editor = await connect({"summary": {"text": "Add two numbers.", "logprobs": [-0.1]}})
    editor.open(FUNCTIONS[language], uri="file:///a", language=language)
    assert (await editor.hovered(1, 0, "file:///a")).value.startswith("Add two numbers")
    (asked,) = editor.engine.read("asked")
    assert "a + b" in asked["prompt"]
    assert "Old words" not in asked["prompt"]
    assert await editor.hover(2, 0, "file:///a") is None, "a body has no hover"


async def test_a_language_without_labels_says_so_and_is_never_accepted(connect: Connect) -> None:
    """The same answer is accepted in Python, where there are labels."""
    editor = await connect({"otherwise": {"text": "x", "logprobs": [-0.001]}}, text="a = ")
    assert (await editor.suggestion(0, 4))["tier"] == "accept"
    editor.open("func f() {\n\ta := \n", uri="file:///a.go", language="go")
    suggestion = await editor.suggestion(1, 6, "file:///a.go")
    assert (suggestion["calibrator"], suggestion["tier"]) == (None, "review")
    assert suggestion["reason"].startswith("not calibrated: ")


async def test_labels_of_a_language_count_where_the_editor_calls_it_otherwise(connect: Connect) -> None:
    """Emacs, with a server for `python-base-mode`."""
    editor = await connect({"otherwise": {"text": "x", "logprobs": [-0.001]}})
    editor.open("a = ", language="python-base")
    suggestion = await editor.suggestion(0, 4)
    assert suggestion["tier"] == "accept"
    assert suggestion["calibrator"] is not None
