"""What a terminal, a message or a hover is shown: no text from elsewhere can direct it, and where Markdown is
rendered it is read as text."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path

import attrs
import pytest
from click.testing import CliRunner
from hypothesis import example, given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from rich.table import Table
from rich.text import Text

from lsp_calib.calibration.calibrators.calibrator import Origin
from lsp_calib.calibration.calibrators.calibrator_store import CalibratorStore
from lsp_calib.characters import code_span, escape_markdown, escape_prose, in_one_line, shown
from lsp_calib.cli import main
from lsp_calib.settings import parse
from lsp_calib.terminal import Console

CONTROLS = (
    "".join(map(chr, [*range(9), *range(11, 32), *range(127, 160)]))
    + "\u202a\u202e\u2066\u2069\u200e\u200f\u061c"
)
DIRECTS = re.compile(f"[{re.escape(CONTROLS)}]")
HOSTILE = "evil\x1b]0;owned\x07\x1b[2J\x9b31m\u202egreen\u2066\r[red]x[/red][/bold]\nlsp-calib: all is well"
hostile = st.text(st.sampled_from(CONTROLS + "\n\tab[]/*`\u3042\U0001f600"), max_size=30) | st.text(
    max_size=30
)
OURS = re.compile(r"\x1b\[[0-9;]*m")


@given(hostile)
def test_no_text_directs_a_terminal(text: str) -> None:
    """Printed plainly, in a table, with a style, as JSON; nor a message or a hover."""
    out = io.StringIO()
    console = Console(file=out, force_terminal=True, color_system="standard", width=60)
    console.print(text)
    console.print(Text(text, style="bold red"))
    table = Table("a", title=text)
    table.add_row(text)
    console.print(table)
    assert not DIRECTS.search(OURS.sub("", out.getvalue()))
    for one in (shown(text), in_one_line(text, 20), json.dumps({text: text}, indent=2)):
        assert not DIRECTS.search(one)
    assert "\n" not in in_one_line(text, 20)
    assert not DIRECTS.search(escape_markdown(text) + escape_prose(text))


@given(hostile)
def test_no_key_of_a_settings_file_directs_a_terminal(key: str) -> None:
    for problem in (*parse({key: key})[1], *parse({key: key}, "config.toml: ")[1]):
        assert not DIRECTS.search(problem)
        assert "\n" not in problem


def test_what_is_ordinary_is_shown_as_it_is() -> None:
    """Emoji, scripts that need joiners, lines and tabs, and bytes of a file's name."""
    for text in ("a\tb\nc", "é ✓ 👩‍💻 می‌خواهم", "a\udce9b"):
        assert shown(text) == text


@pytest.mark.parametrize("command", [["list"], ["show", HOSTILE], ["list", "--json"]])
def test_a_calibrator_with_controls_in_its_names_is_listed_without_them(
    home: Path, command: list[str]
) -> None:
    """They could clear the screen and forge a line."""
    (entry, *_), _ = CalibratorStore.open().listed()
    model = attrs.evolve(entry.calibrator.purpose.model, name=HOSTILE)
    purpose = attrs.evolve(entry.calibrator.purpose, model=model)
    one = attrs.evolve(entry.calibrator, purpose=purpose, provenance=(Origin(HOSTILE, HOSTILE, 3),))
    CalibratorStore.open().promote(one)
    path = home / "foreign.json"
    path.write_text(json.dumps(one.to_json()))
    for arguments in (command, ["import", str(path)]):
        result = CliRunner().invoke(main, ["calibrators", *arguments], input="n\n")
        assert result.exception is None or isinstance(result.exception, SystemExit)
        assert not DIRECTS.search(result.output)
        assert not re.search(r"^\s*lsp-calib: all is well", result.output, re.MULTILINE)
        assert arguments is not command or "evil" in result.output


def test_an_unknown_field_of_a_calibrator_is_named_without_its_controls(home: Path) -> None:
    path = home / "foreign.json"
    home.mkdir(exist_ok=True)
    (entry, *_), _ = CalibratorStore.open().listed()
    path.write_text(json.dumps({**entry.calibrator.to_json(), HOSTILE: 1}))
    result = CliRunner().invoke(main, ["calibrators", "import", str(path)])
    assert result.exit_code == 3
    assert "unknown field `evil" in result.output
    assert not DIRECTS.search(result.output)
    assert len(result.output.splitlines()) == 1


# Tables and strikethrough are those of GitHub's Markdown, which editors render.
RENDERER = MarkdownIt("commonmark").enable(["table", "strikethrough"])
MARKS = st.text(st.sampled_from("ab1 \\`*_{}[]()#+-.!<>|~&:@;/=w\"'"), max_size=20)


@given(MARKS | st.text(max_size=40))
@example("1. one")
@example("# one")
@example("&amp; &#65;")
@example("~~~ *a* __b__ a_b_ _")
@example("[x](http://a.b) ![i][x] <b>")
@example("| a |")
@example("HTTPS://a.b and WWW.a.b or ann@example.org :smile:")
def test_it_renders_as_the_text_alone(text: str) -> None:
    """And no address and no smiley is left: GitHub's Markdown makes links of bare addresses."""
    assert not re.search(r"(?i)(?<!\\)://|www\.|(?<!\\)@|(?<!\\):[\w+-]+:", escape_markdown(text))
    line = " ".join(shown(text).split())
    tokens = RENDERER.parse(escape_markdown(line))
    if not line:
        return
    assert [token.type for token in tokens] == ["paragraph_open", "inline", "paragraph_close"]
    children = tokens[1].children or []
    assert {child.type for child in children} == {"text"}
    assert "".join(child.content for child in children) == line


@pytest.mark.parametrize(
    "text", ["Return the sum (an int).", "Set snake_case to -1.5: it counts, e.g. x + 1!", "a & b = {c}"]
)
def test_plain_sentences_stay(text: str) -> None:
    assert escape_markdown(text) == text


@given(st.text(alphabet="a` \\", min_size=1).map(str.strip).filter(bool))
def test_code_is_fenced_by_more_marks_than_it_has(text: str) -> None:
    span = code_span(text)
    found = re.fullmatch(r"(`+) ?(.+?) ?\1", span)
    assert found is not None
    assert found[2] == text
    assert not re.search(rf"(?<!`){found[1]}(?!`)", text), "nothing in the text ends the code"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("run `lsp-calib refit` now", "run `lsp-calib refit` now"),
        ("a_b _c_ of `_d_`", "a_b \\_c\\_ of `_d_`"),
        ("one ` alone", "one \\` alone"),
        ("`a` and `b`", "`a` and `b`"),
        ("``", "\\`\\`"),
        ("[a](b) `[a](b)`", "\\[a\\](b) `[a](b)`"),
    ],
)
def test_commands_in_a_message_are_code(text: str, shown: str) -> None:
    assert escape_prose(text) == shown


@given(st.text(alphabet="`ab*_[]()<>\n\\ "))
def test_markup_outside_of_code_is_escaped(text: str) -> None:
    outside = re.sub(r"`[^`\n]+`", "", text)
    if "`" not in text:
        assert escape_prose(text) == escape_markdown(text)
    assert escape_prose(text).count("\\*") >= outside.count("*")
