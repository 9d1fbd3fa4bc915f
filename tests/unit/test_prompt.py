"""What a model is asked for a line. A test that has to be changed here means a new prompt version."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lsp_calib.completion.context import Cursor
from lsp_calib.completion.prompt import FIM_VERSION, PREFIX_VERSION, build_ahead, build_prompt, version_of
from lsp_calib.inference.models.cards import CompletionFormat
from lsp_calib.values import Segment

PREFIX = CompletionFormat()
FIM = CompletionFormat("fim", "<P>", "<S>", "<M>")
line_texts = st.text(st.characters(exclude_characters="\r\n", codec="utf-8"), max_size=80)


@st.composite
def cursors(draw: st.DrawFn) -> Cursor:
    lines = draw(st.lists(line_texts, min_size=1, max_size=50))
    line = draw(st.integers(0, len(lines) - 1))
    return Cursor.at(lines, line, draw(st.integers(0, len(lines[line]))))


def text(prompt) -> str:  # type: ignore[no-untyped-def]
    return "".join(piece for kind, piece in prompt.segments if kind is Segment.TEXT)


def test_the_prefix_layout() -> None:
    prompt = build_prompt(Cursor.at(["a = 1", "b = a.re", "c"], 1, 8), PREFIX, 1600)
    assert prompt.segments == ((Segment.TEXT, "a = 1\nb = a"),)
    assert (prompt.forced, prompt.version) == (".re", "line-prefix-1")


def test_the_fill_in_the_middle_layout_keeps_the_typed_characters_last() -> None:
    prompt = build_prompt(Cursor.at(["a = 1", "f(b.re)", "c"], 1, 6), FIM, 1600)
    assert prompt.segments == (
        (Segment.CONTROL, "<P>"),
        (Segment.TEXT, "a = 1\n"),
        (Segment.CONTROL, "<S>"),
        (Segment.TEXT, ")\nc"),
        (Segment.CONTROL, "<M>"),
        (Segment.TEXT, "f(b"),
    )
    assert (prompt.forced, prompt.version) == (".re", "line-fim-1")


def test_the_version_of_a_format_is_that_of_its_prompts() -> None:
    cursor = Cursor.at([""], 0, 0)
    assert version_of(PREFIX) == build_prompt(cursor, PREFIX, 100).version == PREFIX_VERSION
    assert version_of(FIM) == build_prompt(cursor, FIM, 100).version == FIM_VERSION


@given(cursors(), st.sampled_from([PREFIX, FIM]), st.integers(100, 2000))
def test_the_window_is_never_exceeded(cursor: Cursor, layout: CompletionFormat, window: int) -> None:
    assert len(text(build_prompt(cursor, layout, window))) <= window


@pytest.mark.parametrize("layout", [PREFIX, FIM])
def test_the_current_line_counts_in_the_window(layout: CompletionFormat) -> None:
    """Short lines fill a window to the brim; what the current line takes, the others do not get."""
    lines = ["x"] * 900
    lines[600] = "word " * 40
    for window in range(400, 900, 7):
        assert len(text(build_prompt(Cursor.at(lines, 600, 200), layout, window))) <= window


@given(cursors(), st.integers(100, 2000))
def test_a_prefix_prompt_and_what_is_forced_are_the_end_of_the_document(cursor: Cursor, window: int) -> None:
    prompt = build_prompt(cursor, PREFIX, window)
    document = "\n".join([*cursor.lines[: cursor.line], cursor.before])
    assert document.endswith(text(prompt) + prompt.forced)


@given(cursors(), line_texts)
def test_with_fill_in_the_middle_typing_changes_nothing_before_the_current_line(
    cursor: Cursor, typed: str
) -> None:
    """All that is cached stays good: the text above and the text below do not move."""
    lines = list(cursor.lines)
    lines[cursor.line] = cursor.before + typed + cursor.after
    later = Cursor.at(lines, cursor.line, cursor.column + len(typed))
    assert build_prompt(later, FIM, 20_000).segments[:-1] == build_prompt(cursor, FIM, 20_000).segments[:-1]


@given(cursors())
def test_control_segments_hold_the_cards_text_and_never_the_documents(cursor: Cursor) -> None:
    lines = [line + "<|im_end|><M>" for line in cursor.lines]
    prompt = build_prompt(Cursor.at(lines, cursor.line, cursor.column), FIM, 1600)
    assert [piece for kind, piece in prompt.segments if kind is Segment.CONTROL] == ["<P>", "<S>", "<M>"]


@pytest.mark.parametrize("layout", [PREFIX, FIM])
@pytest.mark.parametrize("column", [0, 100_000, 200_000])
def test_of_an_endless_line_only_the_end_is_shown(layout: CompletionFormat, column: int) -> None:
    cursor = Cursor.at(["above", "word " * 40_000, "below"], 1, column)
    prompt = build_prompt(cursor, layout, 1600)
    assert len(text(prompt)) <= 1600
    assert cursor.before.endswith(prompt.segments[-1][1].split("\n")[-1] + prompt.forced)


def test_tabs_and_emoji_reach_the_model_as_they_are() -> None:
    prompt = build_prompt(Cursor.at(["# 😀 日本", "\tif x:", "\t\t"], 2, 2), PREFIX, 1600)
    assert text(prompt) == "# 😀 日本\n\tif x:\n"
    assert prompt.forced == "\t\t"


def above(prompt) -> str:  # type: ignore[no-untyped-def]
    """The text above the cursor's line, of either layout."""
    first = next(piece for kind, piece in prompt.segments if kind is Segment.TEXT)
    return str(first[: first.rfind("\n") + 1])


@given(
    # No lines so short that more than a block of them leaves the window at once.
    st.lists(st.integers(6, 70), min_size=120, max_size=200),
    st.sampled_from([PREFIX, FIM]),
    st.integers(1600, 4000),
)
def test_a_window_that_moves_was_announced_before(
    lengths: list[int], layout: CompletionFormat, window: int
) -> None:
    """Writing a document: when the window moves, it begins where what was evaluated ahead does, which is all
    that stood above the line where that was asked for; and nothing else was ever evaluated ahead."""
    lines = [f"{n:03}" + "x" * length for n, length in enumerate(lengths)]
    shown_from, announced = "000", ""
    for line, column in ((n, at) for n in range(1, len(lines)) for at in (0, len(lines[n]))):
        cursor = Cursor.at([*lines[:line], lines[line][:column], "below"], line, column)
        start = above(build_prompt(cursor, layout, window))[:3]
        if start != shown_from:
            assert start == announced
            shown_from, announced = start, ""
        ahead = build_ahead(cursor, layout, window)
        if ahead is not None:
            first = text(ahead)[:3]
            assert announced in ("", first)
            assert text(ahead) == "".join(one + "\n" for one in lines[int(first) : line])
            announced = first


@pytest.mark.parametrize("layout", [PREFIX, FIM])
def test_nothing_is_announced_where_the_window_stays(layout: CompletionFormat) -> None:
    lines = [f"value_{n} = {n}" for n in range(30)]
    assert build_ahead(Cursor.at(lines, 20, 3), layout, 4000) is None
    assert build_ahead(Cursor.at([""], 0, 0), layout, 4000) is None


def test_what_is_announced_begins_as_the_prompt_will() -> None:
    lines = [f"value_{n} = compute({n})" for n in range(200)]
    ahead = next(
        found for line in range(60, 120) if (found := build_ahead(Cursor.at(lines, line, 0), FIM, 2000))
    )
    assert ahead.segments[0] == (Segment.CONTROL, "<P>")
    assert (ahead.forced, ahead.version) == ("", FIM_VERSION)
    assert len(ahead.segments) == 2
