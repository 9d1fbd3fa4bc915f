"""What a model gets to see around the cursor, how still that stands, and where it is data."""

import base64
import itertools
import random
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import lsp_calib
from lsp_calib.characters import split_lines
from lsp_calib.completion.context import Cursor, in_data, text_above, text_below
from lsp_calib.errors import DataError

line_texts = st.text(st.characters(exclude_characters="\r\n", codec="utf-8"), max_size=30)
documents = st.lists(line_texts, min_size=1, max_size=60)


@st.composite
def cursors(draw: st.DrawFn) -> Cursor:
    lines = draw(documents)
    line = draw(st.integers(0, len(lines) - 1))
    return Cursor.at(lines, line, draw(st.integers(0, len(lines[line]))))


@given(documents, st.sampled_from(["\n", "\r\n", "\r"]))
def test_lines_end_as_lsp_has_it(lines: list[str], end: str) -> None:
    assert split_lines(end.join(lines)) == tuple(lines)


@pytest.mark.parametrize("separator", ["\f", "\v", "\x1c", "\x85", "\u2028", "\u2029"])
def test_other_separators_stay_inside_their_line(separator: str) -> None:
    assert (split_lines(""), split_lines("\n")) == (("",), ("", ""))
    assert split_lines(f"a{separator}b\nc\rd\r\ne") == (f"a{separator}b", "c", "d", "e")


@pytest.mark.parametrize("line", [-1, 2, 1 << 40])
def test_a_line_that_is_not_there_is_a_data_error_that_counts_from_one(line: int) -> None:
    with pytest.raises(DataError, match=f"no line {line + 1}: the document has 2"):
        Cursor.at(["a", "b"], line, 0)


@pytest.mark.parametrize(
    ("column", "before", "after"), [(-5, "", "ab😀"), (2, "ab", "😀"), (3, "ab😀", ""), (99, "ab😀", "")]
)
def test_a_column_beyond_the_line_means_its_end(column: int, before: str, after: str) -> None:
    cursor = Cursor.at(["ab😀"], 0, column)
    assert (cursor.before, cursor.after) == (before, after)


@given(cursors(), st.integers(1, 400))
def test_what_is_shown_above_is_the_end_of_what_is_there_and_never_too_much(
    cursor: Cursor, most: int
) -> None:
    shown = text_above(cursor, most)
    assert len(shown) <= most
    assert "".join(line + "\n" for line in cursor.lines[: cursor.line]).endswith(shown)


@given(cursors(), st.integers(0, 400))
def test_what_is_shown_below_is_the_beginning_of_what_is_there_and_never_too_much(
    cursor: Cursor, most: int
) -> None:
    shown = text_below(cursor, most)
    assert len(shown) <= most
    assert "\n".join([cursor.after, *cursor.lines[cursor.line + 1 :]]).startswith(shown)


@given(cursors())
def test_a_document_that_fits_is_shown_whole(cursor: Cursor) -> None:
    above, below = text_above(cursor, 100_000), text_below(cursor, 100_000)
    assert above + cursor.before + below == "\n".join(cursor.lines)


@given(cursors(), line_texts, st.integers(1, 400))
def test_what_is_shown_above_stands_still_while_the_line_is_typed(
    cursor: Cursor, typed: str, most: int
) -> None:
    lines = list(cursor.lines)
    lines[cursor.line] = cursor.before + typed + cursor.after
    later = Cursor.at(lines, cursor.line, cursor.column + len(typed))
    assert text_above(later, most) == text_above(cursor, most)


def test_the_window_begins_at_blocks_and_so_stands_still_over_several_lines() -> None:
    """Going down line by line, the beginning of the window changes once in 16 lines; the rest only grows."""
    lines = [f"line {number:03}" for number in range(300)]
    starts = [text_above(Cursor.at(lines, line, 0), 500).split("\n")[0] for line in range(100, 300)]
    changes = sum(a != b for a, b in itertools.pairwise(starts))
    assert 200 // 16 - 1 <= changes <= 200 // 16 + 1
    assert all(int(start.removeprefix("line ")) % 16 == 0 for start in starts)


def test_the_window_is_not_empty_above_long_lines() -> None:
    """Where fewer than a block of lines fit, the lines that do are shown all the same."""
    lines = ["x" * 200] * 50
    assert text_above(Cursor.at(lines, 40, 0), 500) == ("x" * 200 + "\n") * 2


def test_a_line_longer_than_the_window_shows_nothing_above_rather_than_a_part_of_it() -> None:
    lines = ["y" * 200_000, ""]
    assert text_above(Cursor.at(lines, 1, 0), 500) == ""


@dataclass
class Counted:
    """Lines that count how many of them were looked at."""

    lines: list[str]
    seen: int = 0

    def __len__(self) -> int:
        return len(self.lines)

    def __getitem__(self, at):  # type: ignore[no-untyped-def]
        found = self.lines[at]
        self.seen += len(found) if isinstance(at, slice) else 1
        return found


def test_only_the_lines_that_are_shown_above_are_looked_at() -> None:
    counted = Counted(["some line of text"] * 100_000)
    text_above(Cursor(counted, 99_000, 0), 1600)  # type: ignore[arg-type]
    assert counted.seen < 500


def test_a_line_of_200_000_characters_costs_no_time() -> None:
    def seconds(length: int) -> float:
        began = time.process_time()
        cursor = Cursor.at(["a" * length] * 20, 10, length // 2)
        assert len(text_above(cursor, 1600)) <= 1600
        assert text_below(cursor, 480) == "a" * 480
        return time.process_time() - began

    # Twenty times as long may take twenty times as long, and not four hundred.
    assert seconds(200_000) < 60 * max(seconds(10_000), 1e-3)


BYTES = random.Random(0).randbytes(3000)
BASE64 = base64.b64encode(BYTES).decode()
TABLE = [f"    0x{a:02X}, 0x{b:02X}, {c}," for a, b, c in zip(*[iter(BYTES[:60])] * 3, strict=True)]
MINIFIED = "function a(b,c){return b.map(function(d){return d.value+c})}e=a(f,2);" * 4
PATH = "usr/include/node/openssl/archs/VC-WIN64-ARM/no-asm/include/openssl/x509v3.h"


@pytest.mark.parametrize(
    "line",
    [f'KEY = "{BASE64[:64]}"', BASE64[:76], f'sha = "{BYTES[:20].hex()}"', MINIFIED, "漢" * 1000, "🎉" * 1000,
     'x = "' + "some words " * 30 + '"', ", ".join(map(str, BYTES[:80]))],
)  # fmt: skip
def test_inside_data(line: str) -> None:
    assert in_data(Cursor([line], 0, len(line) // 2))


@pytest.mark.parametrize("row", ["", "    ", "    0x", TABLE[3]])
def test_in_a_table_and_at_its_end(row: str) -> None:
    for at in (4, 12, len(TABLE)):
        lines = ["DATA = [", *TABLE[:at], row, *TABLE[at:], "]"]
        assert in_data(Cursor(lines, at + 1, len(row)))


@pytest.mark.parametrize(
    ("lines", "line"),
    [
        (["M = [", *TABLE[:7], "]"], 4),
        (["DATA = [", *TABLE, "]", "", "total = "], len(TABLE) + 3),
        (["DATA = [", *TABLE, "    # the rest is computed"], len(TABLE) + 1),
        ([f'#include "{PATH}"'], 0),
        (["    def test_that_a_long_name_with_2_numbers_and_404_words_is_no_key_at_all(self):"], 0),
        (["# it's a long comment about what is done here and why it isn't done elsewhere " * 3], 0),
        (["total = compute(first_argument, second_argument, third_argument) + other_function(name) " * 3], 0),
        (['message = "' + "some words " * 20 + '" + name'], 0),
        (['x = "' + "some words " * 30 + '" + na'], 0),
    ],
)
def test_source(lines: Sequence[str], line: int) -> None:
    assert not in_data(Cursor(lines, line, len(lines[line])))


def test_of_the_source_of_this_package_next_to_nothing() -> None:
    places = found = 0
    for path in sorted(Path(lsp_calib.__file__).parent.rglob("*.py")):
        lines = path.read_text("utf-8").split("\n")
        for at, line in enumerate(lines):
            places += 1
            found += in_data(Cursor(lines, at, len(line)))
    assert places > 30_000
    assert found <= places / 10_000
