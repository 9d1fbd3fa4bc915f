"""What a model is asked for a line. A test that has to be changed here means a new prompt version."""

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lsp_calib.completion import prompt as prompts
from lsp_calib.completion.context import Cursor
from lsp_calib.completion.prompt import (
    FIM_VERSION,
    PREFIX_VERSION,
    SIZES,
    SUFFIX_FIRST_VERSION,
    Layout,
    LayoutChooser,
    Snippet,
    Surroundings,
    WindowSize,
)
from lsp_calib.inference.models.cards import CompletionFormat, ModelCard, load_cards
from lsp_calib.values import Prompt, Segment

CARD = load_cards()["qwen2.5-coder-1.5b"]
SMALL, LARGE = (Layout.of(CARD, size).version for size in (WindowSize.SMALL, WindowSize.LARGE))
PREFIX = CompletionFormat()
FIM = CompletionFormat("fim", "<P>", "<S>", "<M>")
line_texts = st.text(st.characters(exclude_characters="\r\n", codec="utf-8"), max_size=80)


def layout_of(format_: CompletionFormat, window: int) -> Layout:
    return Layout(format_, window, FIM_VERSION if format_.layout == "fim" else PREFIX_VERSION)


def build_prompt(cursor: Cursor, format_: CompletionFormat, window: int) -> Prompt:
    return prompts.build_prompt(cursor, layout_of(format_, window))


@st.composite
def cursors(draw: st.DrawFn) -> Cursor:
    lines = draw(st.lists(line_texts, min_size=1, max_size=50))
    line = draw(st.integers(0, len(lines) - 1))
    return Cursor.at(lines, line, draw(st.integers(0, len(lines[line]))))


def text(prompt: Prompt) -> str:
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


SUFFIX_FIRST = Layout(FIM, 1600, "line-fim-2", joined=True, suffix_first=True)


def test_with_the_suffix_first_a_new_line_only_adds_to_the_prompt() -> None:
    before = prompts.build_prompt(Cursor.at(["a = 1", "f(b.re", "c"], 1, 6), SUFFIX_FIRST)
    assert before.segments == (
        (Segment.CONTROL, "<P>"),
        (Segment.CONTROL, "<S>"),
        (Segment.TEXT, "\nc"),
        (Segment.CONTROL, "<M>"),
        (Segment.TEXT, "a = 1\nf(b"),
    )
    assert (before.forced, before.version) == (".re", "line-fim-2")
    after = prompts.build_prompt(Cursor.at(["a = 1", "f(b.re)", "", "c"], 2, 0), SUFFIX_FIRST)
    assert after.segments[:4] == before.segments[:4]
    assert text(after).startswith(text(before))


@pytest.mark.parametrize("behind", ['"]})', "])  ;", " },", "`", "", ") {", "c)", ") + 1", ", x)", '"""'])
def test_closers_behind_the_cursor_are_left_out_and_anything_else_stays(behind: str) -> None:
    """Editors write them as the opener is typed."""
    cursor = Cursor.at(["a = 1", "f(b" + behind, "c"], 1, 3)
    without = cursor.without_closers_behind()
    if behind in ('"]})', "])  ;", " },", "`"):
        assert without == Cursor.at(("a = 1", "f(b", "c"), 1, 3)
    else:
        assert without is cursor


def test_a_card_chooses_the_order_of_its_prompts() -> None:
    other = attrs.evolve(CARD, completion=attrs.evolve(CARD.completion, order="prefix-first"))
    for size in WindowSize:
        assert Layout.of(CARD, size).suffix_first
        layout = Layout.of(other, size)
        assert not layout.suffix_first
        assert layout.version != Layout.of(CARD, size).version
        assert SIZES[layout.version] is size
        assert Layout.named(layout.version, CARD) == Layout.named(layout.version, other) == layout


@pytest.mark.parametrize("card", load_cards().values(), ids=lambda card: card.name)
def test_a_version_is_one_layout(card: ModelCard) -> None:
    """Two windows under one version would be judged by one calibrator."""
    small, large = (Layout.of(card, size) for size in WindowSize)
    lines = [f"value_{n} = compute({n})" for n in range(2000)]
    cursor = Cursor.at(lines, 1000, 4)
    prompt, more = (prompts.build_prompt(cursor, layout) for layout in (small, large))
    fim = card.completion.layout == "fim"
    below_first = fim and card.completion.order == "suffix-first"
    usual = SUFFIX_FIRST_VERSION if below_first else FIM_VERSION if fim else PREFIX_VERSION
    assert prompt.version == small.version == usual
    assert more.version == large.version
    assert Layout.named(small.version, card) == small
    assert Layout.named(large.version, card) == large
    assert Layout.named("line-fim-0", card) is None
    if large == small:
        assert card.window >= card.context, "it does not fit in the context"
    else:
        assert large.version != small.version
        assert 1.7 < len(text(more)) / len(text(prompt)) < 2.3


@given(cursors(), st.sampled_from([PREFIX, FIM]), st.integers(100, 2000))
def test_the_lines_that_are_shown_are_known(cursor: Cursor, format_: CompletionFormat, window: int) -> None:
    layout = layout_of(format_, window)
    first, end = layout.shown(cursor)
    assert 0 <= first <= cursor.line < end <= len(cursor.lines)
    shown = text(prompts.build_prompt(cursor, layout))
    above = "".join(line + "\n" for line in cursor.lines[first : cursor.line])
    # The longest lines are shown in part.
    assert shown.startswith(above) or len(above) > window / 2
    if format_.layout == "fim":
        assert "\n".join(cursor.lines[cursor.line + 1 : end]) in shown


def test_a_line_s_end_is_reproduced_together_with_the_indentation() -> None:
    """Tokenisers join them; so are blank lines. A line of which something stays keeps its line's end."""
    prefix, fim = (Layout(format_, 1600, "v", joined=True) for format_ in (PREFIX, FIM))
    above = ["def f(x):", "", ""]
    for line in ("    ", "    ret", ""):
        prompt = prompts.build_prompt(Cursor.at([*above, line], 3, len(line)), prefix)
        assert (text(prompt), prompt.forced) == ("def f(x):", "\n\n\n" + line)
    prompt = prompts.build_prompt(Cursor.at([*above, "    return x"], 3, 12), prefix)
    assert (text(prompt), prompt.forced) == ("def f(x):\n\n\n    return", " x")
    assert prompts.build_prompt(Cursor.at(["", "    "], 1, 4), prefix).forced == "    ", "nothing is above"
    assert prompts.build_prompt(Cursor.at(["x", "    "], 1, 4), fim).forced == "    "
    assert prompts.build_prompt(Cursor.at(["def __init__(se"], 0, 15), fim).forced == "__(se"


def test_pieces_of_other_places_come_first_if_there_is_room_for_them() -> None:
    cursor = Cursor.at(["a = 1", "b = a.re", "c"], 1, 8)
    format_ = attrs.evolve(FIM, project="<R>", file="<F>")
    snippets = (Snippet("lib/x.py", "def x():\n    pass"), Snippet("<F>.py", "<P>"))
    surroundings = Surroundings("demo", "lib/y.py", snippets)
    layout = Layout(format_, 1600, "v", related=400)
    prompt = prompts.build_prompt(cursor, layout, surroundings)
    small = prompts.build_prompt(cursor, attrs.evolve(layout, related=0), surroundings)
    assert prompt.segments == (
        *((Segment.CONTROL, "<R>"), (Segment.TEXT, "demo\n")),
        *((Segment.CONTROL, "<F>"), (Segment.TEXT, "lib/x.py\ndef x():\n    pass\n")),
        # What a file or its name says is text, never a control token.
        *((Segment.CONTROL, "<F>"), (Segment.TEXT, "<F>.py\n<P>\n")),
        *((Segment.CONTROL, "<F>"), (Segment.TEXT, "lib/y.py\n")),
        *small.segments,
    )
    assert small == prompts.build_prompt(cursor, attrs.evolve(layout, related=0))
    bare = prompts.build_prompt(cursor, layout)
    assert bare.segments == small.segments, "nothing is known of the place"


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


class TestLongLines:
    """What has no words costs more tokens: the engine cuts it, and each key finds the last one's tokens."""

    @given(cursors(), st.sampled_from([PREFIX, FIM]), st.integers(400, 2000))
    def test_an_ordinary_line_is_shown_whole(
        self, cursor: Cursor, format_: CompletionFormat, window: int
    ) -> None:
        stays, forced = prompts.split_at_boundary(cursor.before)
        prompt = build_prompt(cursor, format_, window)
        assert prompt.segments[-1][1].endswith(stays)
        assert prompt.forced == forced

    @pytest.mark.parametrize("format_", [PREFIX, FIM])
    def test_of_a_long_line_the_shown_part_moves_in_steps(self, format_: CompletionFormat) -> None:
        line = "漢字 " * 1000
        begins = set()
        for column in range(2000, 2200):
            segment = build_prompt(Cursor.at(["", line], 1, column), format_, 1600).segments[-1][1].strip()
            assert 690 <= len(segment) <= 801
            begins.add((column - len(segment)) // 100)
        assert len(begins) <= 4, "100 characters at a time"

    @pytest.mark.parametrize("card", load_cards().values(), ids=lambda card: card.name)
    def test_a_prompt_has_at_most_five_tokens_for_six_characters(self, card: ModelCard) -> None:
        for layout in (Layout.of(card, size) for size in WindowSize):
            prompt = prompts.build_prompt(Cursor.at(["x = 1"], 0, 5), layout)
            assert prompt.most_tokens == int((layout.window + layout.related) * 5 / 6)

    def test_the_text_below_the_cursor_is_named(self) -> None:
        snippets = Surroundings("demo", "lib/y.py", (Snippet("lib/x.py", "def x(): pass"),))
        format_ = attrs.evolve(FIM, project="<R>", file="<F>")
        cursor = Cursor.at(["a", "b", "below"], 1, 1)
        related = prompts.build_prompt(cursor, Layout(format_, 1600, "v", 400), snippets)
        for prompt in (build_prompt(cursor, FIM, 1600), related):
            assert prompt.segments[prompt.below] == (Segment.TEXT, "\nbelow")
        assert build_prompt(cursor, PREFIX, 1600).below == -1


@pytest.mark.parametrize("labels", [False, True])
@pytest.mark.parametrize("wanted", [None, *WindowSize])
def test_the_window_is_large_where_a_calibrator_knows_it(labels: bool, wanted: WindowSize | None) -> None:
    """The user's word counts whatever is known."""
    layouts = LayoutChooser(lambda _, version: labels and version == LARGE, wanted)
    size = wanted or (WindowSize.LARGE if labels else WindowSize.SMALL)
    assert layouts.of_card(CARD, CARD.identity) == Layout.of(CARD, size)
    assert layouts.size(CARD, CARD.identity) is size


def test_a_choice_stays_for_as_long_as_the_server_runs() -> None:
    """Another layout would empty the model's cache in the middle of the work."""
    known: set[str] = set()
    layouts = LayoutChooser(lambda _, version: version in known)
    before = layouts.of_card(CARD, CARD.identity)
    known.add(LARGE)
    assert layouts.of_card(CARD, CARD.identity) == before


def test_a_large_window_that_the_context_cannot_hold_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    """2,048 positions have no room for 3,200 characters and 1,600 of other places."""
    narrow = attrs.evolve(CARD, context=2048)
    layouts = LayoutChooser(lambda *_: True, WindowSize.LARGE)
    for _ in range(2):
        assert layouts.of_card(narrow, narrow.identity).version == SMALL
    (record,) = caplog.records
    assert "window" in record.getMessage()
    assert f"{narrow.name} (2048 positions)" in record.getMessage()


@pytest.mark.parametrize("wanted", [None, *WindowSize])
def test_of_a_window_that_is_as_asked_for_nothing_is_logged(
    caplog: pytest.LogCaptureFixture, wanted: WindowSize | None
) -> None:
    context = 4096 if wanted is WindowSize.LARGE else 2048
    layouts = LayoutChooser(lambda *_: True, wanted)
    layouts.of_card(attrs.evolve(CARD, context=context), CARD.identity)
    assert not caplog.records
