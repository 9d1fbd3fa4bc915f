"""Records keep what a refit needs, in few bytes; what is written is read again."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lsp_calib import home
from lsp_calib.calibration.calibrators.calibrator import Origin
from lsp_calib.errors import DataError
from lsp_calib.evaluation.records import (
    Header,
    Record,
    origin,
    read_records,
    sources_of,
    write_records,
)
from lsp_calib.values import ModelIdentity

HEADER = Header(
    "line",
    "python",
    ModelIdentity("m", "Q4", "0" * 64),
    "line-prefix-1",
    7,
    sources=(Origin("projekt-é", "", 6),),
    created="2026-11-20",
)
RECORDS = [
    Record(
        f"projekt-é/{n}.py:1:{n}",
        "projekt-é",
        "mid-line",
        {"exact": n % 2 == 0, "tests": True},
        True,
        "line",
        (1, 2, n),
        (-0.5, -1.25, -float(n)),
        (-0.25, 0.0, 0.0),
        entropies=(0.5, 1.125, 0.0),
        prompt=f"{n:016x}",
    )
    for n in range(6)
]
SCHEMA_1 = (
    '{"schema":1,"task":"line","language":"python","model":{"name":"m","quantisation":"Q4","sha256":"00"},'
    '"prompt_version":"line-prefix-1","seed":0}\n'
    '{"item":"click-8.1.7/a.py:53:25","group":"click-8.1.7","stratum":"mid-line","correct":true,"shown":true,'
    '"stop":"line","tokens":[446,5688],"logprobs":[-0.01985,-0.04257],"typed_logprob":-0.01964,"ms":922}\n'
    '{"item":"click-8.1.7/b.py:1:1","group":"click-8.1.7","stratum":"mid-line","correct":false,"shown":false,'
    '"stop":"endOfText","tokens":[],"logprobs":[],"typed_logprob":0.0,"ms":12}\n'
)

numbers = st.floats(-50.0, 0.0)


@st.composite
def records(draw: st.DrawFn) -> Record:
    n = draw(st.integers(0, 5))
    of_tokens = st.tuples(*[numbers] * n)
    return Record(
        item=draw(st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20)),
        group=draw(st.sampled_from(["a-1.0", "b", ""])),
        stratum=draw(st.sampled_from(["mid-line", ""])),
        correct=draw(st.dictionaries(st.sampled_from(["exact", "tests"]), st.booleans())),
        shown=draw(st.booleans()),
        stop=draw(st.sampled_from(["line", "length"])),
        tokens=draw(st.tuples(*[st.integers(0, 200_000)] * n)),
        logprobs=draw(of_tokens),
        typed_logprobs=draw(of_tokens),
        entropies=tuple(-value for value in draw(st.just(()) | of_tokens)),
        prompt=draw(st.sampled_from(["", "0123456789abcdef"])),
        seed=draw(st.none() | st.integers(0, 9)),
    )


@given(records())
def test_a_line_gives_back_its_record_to_five_digits(record: Record) -> None:
    again = Record.from_row(json.loads(record.to_line()))
    assert again.logprobs == pytest.approx(record.logprobs, abs=5.1e-6)
    assert again.typed_logprobs == pytest.approx(record.typed_logprobs, abs=5.1e-6)
    assert again.entropies == pytest.approx(record.entropies, abs=5.1e-4)
    for name in ("item", "group", "stratum", "correct", "shown", "stop", "tokens", "prompt", "seed", "doubt"):
        assert getattr(again, name) == getattr(record, name)
    assert Record.from_row(json.loads(again.to_line())) == again, "what was read once is read the same again"


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    write_records(path, HEADER, RECORDS)
    assert read_records(path) == (HEADER, RECORDS)


def test_no_source_text_and_no_times_are_kept(tmp_path: Path) -> None:
    """Only what a refit needs: names of places, numbers, tokens' ids."""
    path = tmp_path / "r.jsonl"
    write_records(path, HEADER, RECORDS)
    assert {key for line in path.read_text().splitlines()[1:] for key in json.loads(line)} == {
        *("item", "stratum", "correct", "shown", "stop", "prompt", "tokens", "surprisal", "typed", "entropy")
    }


def test_a_line_takes_few_bytes() -> None:
    """The shipped ones, with the prompts' hashes and the entropies that those had no room for yet."""
    _, shipped = read_records(home.shipped_models() / "records" / "line-smollm2-135m.jsonl")
    whole = [
        attrs.evolve(r, prompt="0123456789abcdef", entropies=tuple(-1.5 * value for value in r.logprobs))
        for r in shipped
    ]
    assert sum(len(record.to_line()) for record in whole) / len(whole) < 400


def test_the_group_is_told_from_the_item_where_it_can_be() -> None:
    assert "group" not in RECORDS[0].to_row()
    other = {**RECORDS[0].to_row(), "group": "another"}
    assert Record.from_row(other).group == "another"
    assert Record.from_row(other).to_row()["group"] == "another"


def test_minus_infinity_is_kept_as_the_least_there_is() -> None:
    record = Record("a", "a", "", {}, True, "line", (1,), (-math.inf,), (0.0,))
    assert Record.from_row(json.loads(record.to_line())).logprobs[0] <= -1_000


def test_a_number_that_is_none_is_refused() -> None:
    record = Record("a", "a", "", {}, True, "line", (1,), (math.nan,), (0.0,))
    with pytest.raises(DataError, match="NaN"):
        record.to_line()


def test_probabilities_that_cannot_be_believed_are_left_out_and_said_to_be() -> None:
    record = Record("a", "a", "", {"exact": True}, True, "line", (1, 2), (), (), doubt=True)
    assert Record.from_row(json.loads(record.to_line())) == record


def test_files_of_schema_1_are_read(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    path.write_text(SCHEMA_1)
    header, (first, second) = read_records(path)
    assert (header.created, header.package, header.sources) == ("", "", ())
    assert first.correct == {"exact": True}
    assert first.logprobs == (-0.01985, -0.04257)
    assert first.typed_logprobs == (-0.01964, 0.0)
    assert second.logprobs == second.typed_logprobs == ()
    write_records(path, header, [first, second])
    assert read_records(path) == (header, [first, second]), "as schema 2 they say the same, to the last bit"


def test_a_last_line_that_is_not_whole_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    write_records(path, HEADER, RECORDS)
    path.write_bytes(path.read_bytes()[:-2])
    assert read_records(path)[1] == RECORDS[:-1]


@pytest.mark.parametrize(
    "line",
    [
        *("{}", "[]", "not json", '{"item": "x", "colour": 1}', "null"),
        '{"item":"x","stratum":"","correct":{},"shown":true,"stop":"line","tokens":[1],"surprisal":[1,2]}',
    ],
)
def test_a_damaged_line_is_a_data_error(tmp_path: Path, line: str) -> None:
    path = tmp_path / "r.jsonl"
    write_records(path, HEADER, RECORDS)
    lines = path.read_text().split("\n")
    lines[2] = line
    path.write_text("\n".join(lines))
    with pytest.raises(DataError, match=r"r\.jsonl"):
        read_records(path)


@pytest.mark.parametrize(
    "content", [b"print('hello')\n", b"\xff\xfe\x00", b"[]\n", b'{"schema": 3}\n', b"null\n", b""], ids=ascii
)
def test_a_file_that_holds_no_records_is_a_data_error(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "r.jsonl"
    path.write_bytes(content)
    with pytest.raises(DataError, match=r"r\.jsonl"):
        read_records(path)
    with pytest.raises(DataError, match="cannot be read"):
        read_records(tmp_path / "none.jsonl")


def test_each_token_is_judged_given_what_was_typed() -> None:
    assert RECORDS[3].logprobs_given_typed == (-0.25, -1.25, -3)


def test_a_typed_beginning_never_makes_more_than_certain() -> None:
    """Rounding may make the whole less than its part."""
    record = Record("a", "a", "", {}, True, "line", (1,), (-0.1,), (-0.10001,))
    assert record.logprobs_given_typed == (0.0,)


@pytest.mark.parametrize(
    ("group", "expected"),
    [
        ("click-8.1.7", Origin("click", "8.1.7", 3)),
        ("typing-extensions-4.1", Origin("typing-extensions", "4.1", 3)),
        ("my-project", Origin("my-project", "", 3)),
        ("-1", Origin("-1", "", 3)),
    ],
)
def test_a_project_s_version_stands_in_its_folder_s_name(group: str, expected: Origin) -> None:
    assert origin(group, 3) == expected


def test_sources_are_counted() -> None:
    rows: list[dict[str, Any]] = [{**RECORDS[0].to_row(), "group": g} for g in ("b-1", "a-2", "b-1")]
    assert sources_of([Record.from_row(row) for row in rows]) == (Origin("a", "2", 1), Origin("b", "1", 2))
