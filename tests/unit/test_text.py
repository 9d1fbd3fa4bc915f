"""Documents stored as lines equal those of the client."""

import re
import sys
import time
import tracemalloc

from hypothesis import given
from hypothesis import strategies as st
from lsprotocol import types
from pygls.workspace import PositionCodec

from lsp_calib.server.documents import CalibCodec, CalibDocument

# Few characters, so that line ends of all kinds meet often; one outside the BMP, one foreign line end.
TEXTS = st.text(alphabet="ab\r\n\u2028😀", max_size=12)
_END = re.compile(r"\r\n|\n|\r")


def document(text: str) -> CalibDocument:
    return CalibDocument("untitled:one", source=text, version=1, position_codec=CalibCodec())


def change(text: str, start: tuple[int, int], end: tuple[int, int]) -> types.TextDocumentContentChangePartial:
    return types.TextDocumentContentChangePartial(
        range=types.Range(types.Position(*start), types.Position(*end)), text=text
    )


@given(text=TEXTS)
def test_lines_end_where_lsp_says(text: str) -> None:
    assert document(text).bare_lines == tuple(_END.split(text))
    assert document(text).source == text


@given(text=TEXTS, edits=st.lists(st.tuples(st.data(), TEXTS), max_size=5))
def test_changes_give_the_text_the_client_has(text: str, edits: list) -> None:  # type: ignore[type-arg]
    """The client's side is a string and two offsets; the server's is ranges in UTF-16 units."""
    kept = document(text)
    units = PositionCodec()
    for data, new in edits:
        ends = [0, *(match.end() for match in _END.finditer(text))]
        # An offset between \r and \n is in no line: no client sends it.
        offsets = [at for at in range(len(text) + 1) if text[at - 1 : at + 1] != "\r\n" or at == 0]
        start = data.draw(st.sampled_from(offsets))
        end = data.draw(st.sampled_from([at for at in offsets if at >= start]))

        def place(offset: int, ends: list[int] = ends, text: str = text) -> tuple[int, int]:
            line = max(at for at, begin in enumerate(ends) if begin <= offset)
            return line, units.client_num_units(text[ends[line] : offset])

        kept.apply_change(change(new, place(start), place(end)))
        text = text[:start] + new + text[end:]
        assert kept.bare_lines == tuple(_END.split(text))
        assert kept.source == text


def test_a_change_leaves_the_other_lines_the_same_objects() -> None:
    kept = document("".join(f"line {n}\n" for n in range(100)))
    before = kept.bare_lines
    kept.apply_change(change("x", (50, 0), (50, 0)))
    after = kept.bare_lines
    assert after[50] == "xline 50"
    assert sum(old is new for old, new in zip(before, after, strict=True)) >= 98


def test_each_line_is_held_once() -> None:
    tracemalloc.start()
    try:
        kept = document("".join(f"line {n} of a document\n" for n in range(20_000)))
        held = sum(map(sys.getsizeof, kept.bare_lines))
        kept.apply_change(change("x", (50, 0), (50, 0)))
        assert kept.bare_lines
        assert held < tracemalloc.get_traced_memory()[0] < 1.6 * held
    finally:
        tracemalloc.stop()


def test_a_whole_new_text_takes_the_place_of_the_old() -> None:
    kept = document("a\nb")
    assert kept.bare_lines == ("a", "b")
    kept.apply_change(types.TextDocumentContentChangeWholeDocument("c\n"))
    assert kept.bare_lines == ("c", "")
    assert kept.source == "c\n"


@given(
    line=st.text(alphabet="ab😀é", max_size=6),
    character=st.integers(0, 20),
    encoding=st.sampled_from(list(types.PositionEncodingKind)),
)
def test_a_position_is_the_character_that_it_leads_to(
    line: str, character: int, encoding: types.PositionEncodingKind
) -> None:
    """By counting units from the line's start: the first character that begins there or after it."""
    codec, units = CalibCodec(encoding), PositionCodec(encoding)
    begins = [units.client_num_units(line[:at]) for at in range(len(line) + 1)]
    found = codec.position_from_client_units([line], types.Position(0, character))
    reached = next((at for at, begin in enumerate(begins) if begin >= character), len(line))
    assert found.character == reached
    assert codec.client_num_units(line) == begins[-1]


def test_a_line_of_a_megabyte_is_not_counted_character_by_character() -> None:
    """As in minified scripts and data, where a key took a second; a twentieth of pygls' time is still ten
    times what it takes."""
    lines, position = ["x" * 1_000_000], types.Position(0, 999_999)

    def seconds(codec: PositionCodec) -> float:
        start = time.process_time()
        assert codec.position_from_client_units(lines, position).character == 999_999
        return time.process_time() - start

    assert min(seconds(CalibCodec()) for _ in range(5)) < min(seconds(PositionCodec()) for _ in range(2)) / 20
