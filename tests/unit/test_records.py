"""Records survive a crash at any byte and are taken up where they end."""

import json
from pathlib import Path

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lsp_calib.errors import DataError
from lsp_calib.evaluation.records import Header, Record, RecordWriter, read_records
from lsp_calib.values import ModelIdentity

HEADER = Header("line", "python", ModelIdentity("m", "Q4", "0" * 64), "line-prefix-1", 7)
RECORDS = [
    Record(
        f"projekt-é/{n}.py:1:{n}",
        "projekt-é",
        "mid-line",
        n % 2 == 0,
        True,
        "line",
        (1, 2, n),
        (-0.5, -1.25, -n),
        -0.25,
        n,
    )
    for n in range(6)
]


def write(path: Path, records: list[Record], header: Header = HEADER) -> list[Record]:
    """As `evaluation.collect` does: what is there already is not asked for again. Returns what was added."""
    writer = RecordWriter(path, header)
    added = [record for record in records if record.item not in writer.done]
    for record in added:
        writer.add(record)
    writer.close()
    return added


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    write(path, RECORDS)
    assert read_records(path) == (HEADER.to_json(), RECORDS)


def test_each_record_is_on_disk_before_the_next(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    writer = RecordWriter(path, HEADER)
    for count, record in enumerate(RECORDS, 1):
        writer.add(record)
        assert len(read_records(path)[1]) == count
    writer.close()


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("records") / "whole.jsonl"
    write(path, RECORDS)
    return path.read_bytes()


@given(st.data())
def test_a_file_cut_anywhere_is_resumed_to_the_uninterrupted_one(
    whole: bytes, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    # Each boundary of a line is a special case: they are as likely as all else together.
    ends = [at for at, byte in enumerate(whole) if byte == 10]
    cut = data.draw(st.integers(0, len(whole)) | st.sampled_from([*ends, *(at + 1 for at in ends)]))
    path = tmp_path_factory.getbasetemp() / "cut.jsonl"
    path.write_bytes(whole[:cut])
    complete = max(whole[:cut].count(b"\n") - 1, 0)
    RecordWriter(path, HEADER).close()
    assert path.read_bytes() == b"".join(whole.splitlines(keepends=True)[: complete + 1]), "no half lines"
    added = write(path, RECORDS)
    assert [record.item for record in added] == [record.item for record in RECORDS[complete:]]
    assert path.read_bytes() == whole


@pytest.mark.parametrize(
    "other",
    [
        attrs.evolve(HEADER, seed=8),
        attrs.evolve(HEADER, prompt_version="line-prefix-2"),
        attrs.evolve(HEADER, model=ModelIdentity("m", "Q4", "1" * 64)),
        attrs.evolve(HEADER, task="summary"),
    ],
)
def test_records_of_something_else_are_refused_and_left_alone(
    tmp_path: Path, whole: bytes, other: Header
) -> None:
    path = tmp_path / "r.jsonl"
    path.write_bytes(whole)
    with pytest.raises(DataError, match=r"r\.jsonl"):
        RecordWriter(path, other)
    assert path.read_bytes() == whole


@pytest.mark.parametrize(
    "content",
    [b"print('hello')\n", b"\xff\xfe\x00", b"[]\n", b'{"schema": 2}\n', b"null\n", b"{}", b"\n\n"],
    ids=ascii,
)
def test_a_file_that_holds_no_records_is_refused_and_left_alone(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "precious.txt"
    path.write_bytes(content)
    with pytest.raises(DataError, match=r"precious\.txt"):
        RecordWriter(path, HEADER)
    assert path.read_bytes() == content


@pytest.mark.parametrize("line", ["{}", "[]", "not json", '{"item": "x", "colour": 1}', "null"])
def test_a_damaged_line_before_the_last_is_a_data_error(tmp_path: Path, whole: bytes, line: str) -> None:
    lines = whole.decode().split("\n")
    lines[2] = line
    path = tmp_path / "r.jsonl"
    path.write_text("\n".join(lines))
    with pytest.raises(DataError, match=r"r\.jsonl"):
        read_records(path)


def test_a_place_that_cannot_be_written_is_a_data_error(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "no" / "such" / "r.jsonl"):
        with pytest.raises(DataError, match="cannot be written"):
            RecordWriter(path, HEADER)


def test_no_source_text_is_kept(whole: bytes) -> None:
    """Only what a refit needs: names of places, numbers, tokens' ids."""
    assert {key for line in whole.decode().splitlines()[1:] for key in json.loads(line)} == {
        *("item", "group", "stratum", "correct", "shown", "stop", "tokens", "logprobs", "typed_logprob", "ms")
    }


def test_the_first_token_is_judged_given_what_was_typed() -> None:
    """Only the token that completes a typed beginning can have agreed with others."""
    assert RECORDS[3].logprobs_given_typed == (-0.25, -1.25, -3)
