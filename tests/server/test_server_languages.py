"""Languages beside Python: hovers on their functions, and what is said where there are no labels."""

from __future__ import annotations

import pytest
from conftest import Connect
from language_samples import SAMPLES
from real_functions import with_call_begun_above

from lsp_calib.syntax import functions

FUNCTIONS = {
    "javascript": "/** Old words. */\nexport const add = (a, b) => {\n  return a + b;\n};\n",
    "javascriptreact": "/** Old words. */\nfunction add(a, b) {\n  return <p>{a + b}</p>;\n}\n",
    "typescript": "/** Old words. */\nfunction add(a: number, b: number) {\n  return a + b;\n}\n",
    "typescriptreact": "/** Old words. */\nfunction add(a: A) {\n  return <p>{a + b}</p>;\n}\n",
    "java": "class A {\n    /** Old words. */ int add(int a, int b) {\n        return a + b;\n    }\n}\n",
    "go": "// Old words.\nfunc add(a, b int) int {\n\treturn a + b\n}\n",
    "rust": "/// Old words.\nfn add(a: u8, b: u8) -> u8 {\n    return a + b;\n}\n",
    "c": "/* Old words. */\nint add(int a, int b) {\n    return a + b;\n}\n",
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


@pytest.mark.parametrize("language", SAMPLES)
async def test_a_hover_works_below_a_call_that_is_being_typed(connect: Connect, language: str) -> None:
    """The bracket that is open above takes in the function, and the rest of the file in some languages."""
    lines = SAMPLES[language][0].split("\n")
    whole = functions(lines, language)
    # The last one with one above it, which the bracket is in; a sample with one function has none.
    broken = [(with_call_begun_above(lines, whole, one), one) for one in whole]
    found = [(text, one) for text, one in broken if text is not None]
    if not found:
        assert len(whole) == 1
        return
    text, function = found[-1]
    editor = await connect({"summary": {"text": "Sum it up.", "logprobs": [-0.1]}})
    editor.open("\n".join(text), uri="file:///a", language=language)
    assert (await editor.hovered(function.start + 1, 0, "file:///a")).value.startswith("Sum it up")
    (asked,) = editor.engine.read("asked")
    assert function.code[:200] in asked["prompt"]


async def test_a_language_without_labels_says_so_and_is_never_accepted(connect: Connect) -> None:
    """The same answer is accepted in Python, where there are labels."""
    editor = await connect({"otherwise": {"text": "x", "logprobs": [-0.001]}}, text="a = ")
    assert (await editor.suggestion(0, 4))["tier"] == "accept"
    editor.open("func f() {\n\ta := \n", uri="file:///a.go", language="go")
    suggestion = await editor.suggestion(1, 6, "file:///a.go")
    assert (suggestion["calibrator"], suggestion["tier"]) == (None, "review")
    assert suggestion["reason"].startswith("not calibrated: ")


@pytest.mark.parametrize(("sent", "language"), [("c++", "cpp"), ("tsx", "typescriptreact")])
async def test_a_hover_knows_a_language_by_the_editors_name(
    connect: Connect, sent: str, language: str
) -> None:
    editor = await connect({"summary": {"text": "Add two numbers.", "logprobs": [-0.1]}})
    editor.open(FUNCTIONS[language], uri="file:///a", language=sent)
    assert await editor.hover(1, 0, "file:///a") is not None


async def test_labels_of_a_language_count_where_the_editor_calls_it_otherwise(connect: Connect) -> None:
    """Emacs, with a server for `python-base-mode`."""
    editor = await connect({"otherwise": {"text": "x", "logprobs": [-0.001]}})
    editor.open("a = ", language="python-base")
    suggestion = await editor.suggestion(0, 4)
    assert suggestion["tier"] == "accept"
    assert suggestion["calibrator"] is not None
