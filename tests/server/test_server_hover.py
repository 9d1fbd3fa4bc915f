"""`textDocument/hover` on a function: its summary, and what its tier means."""

from __future__ import annotations

from pathlib import Path

from conftest import Connect
from lsprotocol import types
from scripted_editor import Editor, capabilities

TEXT = 'x = 1\n\n\n@decorated\ndef add(\n    a, b\n):\n    """Old words."""\n    return a + b\n'


async def shown(editor: Editor) -> types.MarkupContent:
    return await editor.hovered(4, 5)


def plain_text() -> types.ClientCapabilities:
    """Those of an editor without Markdown."""
    client = capabilities()
    assert client.text_document is not None
    assert client.text_document.hover is not None
    client.text_document.hover.content_format = [types.MarkupKind.PlainText]
    return client


async def test_summary_tier_and_words(connect: Connect) -> None:
    """The summary, its tier, its probability and what that means, over the function's first line."""
    summary = {"text": "Add two numbers. And more.", "logprobs": [-0.7]}
    editor = await connect({"summary": summary}, text=TEXT)
    hover = await editor.hover(4, 5)
    assert hover is not None
    assert hover.range == types.Range(types.Position(4, 0), types.Position(4, 8))
    assert isinstance(hover.contents, types.MarkupContent)
    assert hover.contents.kind is types.MarkupKind.Markdown
    text, tier, origin = hover.contents.value.split("\n\n")
    assert text == "Add two numbers."
    assert tier == (
        "🟡 **May say what its author would**: about 5 in 10 summaries like this match what a person wrote "
        "(100 checked)"
    )
    assert origin == "*scripted, lsp-calib*"
    (asked,) = editor.engine.read("asked")
    assert asked["summary"]
    assert "return a + b" in asked["prompt"]
    assert "Old words" not in asked["prompt"]


async def test_without_labels_for_summaries_there_is_no_number(connect: Connect) -> None:
    """No calibrator of lines, and none of another model, says how likely a summary is to be right."""
    editor = await connect({"summary": {"text": "Add.", "logprobs": [-0.001]}}, calibrated=False, text=TEXT)
    (tier,) = [part for part in (await shown(editor)).value.split("\n\n") if "**" in part]
    assert "**May say what its author would**" in tier
    assert "not calibrated: " in tier
    assert "`lsp-calib calibrate PATH --task summary`" in tier, "a command is code, and can be copied"
    assert "%" not in tier


async def test_only_on_a_signature(connect: Connect) -> None:
    """Every line of a signature has it; bodies, other code and other languages do not, and cost nothing."""
    editor = await connect(text=TEXT)
    editor.open("def f(): pass\n", uri="untitled:x", language="plaintext")
    assert await editor.hover(8, 5) is None
    assert await editor.hover(0, 0) is None
    assert await editor.hover(99, 0) is None
    assert await editor.hover(0, 5, "untitled:x") is None
    assert editor.engine.read("asked") == []
    assert await editor.hover(5, 5) is not None


async def test_a_summary_is_shown_as_plain_text(connect: Connect) -> None:
    """Links, HTML and control characters from a model do not reach the renderer."""
    editor = await connect({"summary": {"text": "See [x](a.b) <img src=x> \x1b[31m."}}, text=TEXT)
    assert (await shown(editor)).value.startswith(r"See \[x\](a.b) \<img src=x\> \[31m.")
    assert "\x1b" not in (await shown(editor)).value


async def test_plain_text_for_editors_without_markdown(connect: Connect) -> None:
    """The same words as they are: nothing escaped, and no character of the summary lost."""
    client = plain_text()
    wild = "Multiply a * b and keep C:\\new_name"
    editor = await connect({"summary": {"text": wild}}, client=client, text=TEXT)
    contents = await shown(editor)
    assert contents.kind is types.MarkupKind.PlainText
    assert contents.value.startswith(wild + "\n\n")
    assert "**" not in contents.value
    assert "lsp-calib" in contents.value
    assert "\\" not in contents.value.removeprefix(wild)


async def test_over_budget_the_hover_says_so_and_a_later_one_has_the_summary(
    connect: Connect, release: Path
) -> None:
    """After some seconds the hover says that it is not ready; the work continues for the next one. The
    summary counts once it was shown: not before, and not again by each later hover."""
    slow = {"text": "Add.", "logprobs": [-0.7], "heldUntil": str(release)}
    editor = await connect({"summary": slow, "hoverSeconds": 0.03}, text=TEXT)
    assert "hover again in a moment" in (await shown(editor)).value
    assert "hover again in a moment" in (await shown(editor)).value
    release.touch()
    await editor.engine.until("answered")
    status = await editor.status()
    assert status["tiers"] == {"accept": 0, "review": 0, "reject": 0}
    assert status["latencyMs"]["p50"] is not None
    for _ in range(2):
        assert (await shown(editor)).value.startswith("Add.")
        assert (await editor.status())["tiers"] == {"accept": 0, "review": 1, "reject": 0}
    assert len(editor.engine.read("asked")) == 1


async def test_a_failing_engine_and_an_empty_answer_are_no_hover(connect: Connect) -> None:
    """Null, so that the editor shows other servers' hovers; the next hover tries again."""
    death = {"text": " ", "error": ["EngineDiedError", "It ended."]}
    editor = await connect({"summary": death}, text=TEXT)
    assert await editor.hover(4, 5) is None
    assert await editor.hover(4, 5) is None
    assert len(editor.engine.read("asked")) == 2
    assert editor.messages == []


async def test_it_can_be_turned_off(connect: Connect) -> None:
    """With `hover.enabled: false` nothing is parsed and the model is not asked."""
    editor = await connect(options={"hover.enabled": False}, text=TEXT)
    assert await editor.hover(4, 5) is None
    assert editor.engine.read("asked") == []


async def test_a_model_that_is_too_small_says_where_summaries_come_from(connect: Connect) -> None:
    """Once above the first function of a document and in each hover, where nothing is documented; with
    `hover.enabled = true` they come."""
    text = TEXT.replace('    """Old words."""\n', "") + "\n\ndef other(a):\n    return a\n"
    script = {"summaries": False, "summary": {"text": "Add two numbers.", "logprobs": [-0.7]}}
    editor = await connect(script, options={"codeLens": {"enabled": True}}, text=text)
    said = await shown(editor)
    assert "scripted is too small" in said.value
    assert "`lsp-calib models pull qwen2.5-coder-1.5b`" in said.value
    assert "`hover.enabled = true`" in said.value
    (lens,) = await editor.lenses()
    assert lens.command is not None
    assert "larger model" in lens.command.title
    assert not editor.engine.read("asked")

    documented = await connect(script, text=TEXT)
    assert await documented.hover(4, 5) is None

    wanted = await connect(script, options={"hover": {"enabled": True}}, text=text)
    assert (await shown(wanted)).value.startswith("Add two numbers.")


async def test_a_summary_that_only_repeats_the_name_is_not_green(connect: Connect) -> None:
    """However sure the model is; the hover says why."""
    editor = await connect({"summary": {"text": "This is the add function.", "logprobs": [-0.2]}}, text=TEXT)
    text, tier, note, _ = (await shown(editor)).value.split("\n\n")
    assert text == "This is the add function."
    assert tier.startswith("🟡 **May say what its author would**: about 8 in 10 summaries like this")
    assert note == "It says little beyond the function's name."
