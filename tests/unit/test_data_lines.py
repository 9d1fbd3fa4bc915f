"""Where nothing is asked by itself: data is told from source by the characters around the cursor."""

import base64
import random
from collections.abc import Sequence
from pathlib import Path

import pytest

import lsp_calib
from lsp_calib.completion.context import Cursor, in_data

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
