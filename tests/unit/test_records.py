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
from lsp_calib.calibration.calibrators.purpose import Origin
from lsp_calib.confidence.features import FEATURES, VERSION, probability_features
from lsp_calib.corpus.records import (
    FeatureList,
    Header,
    Record,
    SimilarityList,
    read_records,
    sources_of,
    write_records,
)
from lsp_calib.errors import DataError
from lsp_calib.values import Evidence, ModelIdentity, Stop

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
LISTED = FeatureList.present()
SHIPPED = [
    file
    for folder in ("lines", "summaries")
    for file in sorted((home.shipped_models() / "records" / folder).glob("*.jsonl"))
]
GONE = {"margin", "newline", "agreement", "state", "alternatives"}

numbers = st.floats(-50.0, 0.0)
listed = st.just(()) | st.tuples(*[st.none() | st.floats(-1e4, 1e4)] * len(LISTED.names))


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
        features=draw(listed),
        features_above=draw(listed),
        condition=draw(st.sampled_from(["inserting", "writing-on"])),
    )


@given(records())
def test_a_line_gives_back_its_record_to_five_digits(record: Record) -> None:
    again = Record.from_row(json.loads(record.to_line()))
    assert again.logprobs == pytest.approx(record.logprobs, abs=5.1e-6)
    assert again.typed_logprobs == pytest.approx(record.typed_logprobs, abs=5.1e-6)
    assert again.entropies == pytest.approx(record.entropies, abs=5.1e-4)
    for name in ("features", "features_above"):
        for value, expected in zip(getattr(again, name), getattr(record, name), strict=True):
            assert value == (None if expected is None else pytest.approx(expected, abs=5.1e-5))
    for name in ("item", "group", "stratum", "correct", "shown", "stop", "tokens", "prompt", "doubt"):
        assert getattr(again, name) == getattr(record, name)
    assert Record.from_row(json.loads(again.to_line())) == again, "what was read once is read the same again"


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    write_records(path, HEADER, RECORDS)
    assert read_records(path) == (HEADER, RECORDS)
    with_features = attrs.evolve(HEADER, features=LISTED)
    write_records(path, with_features, RECORDS)
    assert read_records(path) == (with_features, RECORDS)


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_files_without_the_later_fields_are_written_as_they_were(path: Path, tmp_path: Path) -> None:
    copy = tmp_path / path.name
    write_records(copy, *read_records(path))
    assert copy.read_bytes() == path.read_bytes()


@pytest.mark.parametrize("field", sorted(GONE))
def test_a_field_that_no_version_reads_any_more_is_refused(tmp_path: Path, field: str) -> None:
    path = tmp_path / "r.jsonl"
    row = {**RECORDS[0].to_row(), field: [1]}
    path.write_text(f"{HEADER.to_line()}\n{json.dumps(row)}\n", "utf-8")
    with pytest.raises(DataError, match=field):
        read_records(path)


def test_the_evidence_is_that_of_the_tokens_and_of_the_text() -> None:
    header = attrs.evolve(HEADER, features=LISTED)
    values = dict.fromkeys(LISTED.names, 0.5)
    record = attrs.evolve(
        RECORDS[1],
        features=LISTED.ordered(values),
        features_above=LISTED.ordered({**values, LISTED.names[-1]: 0.25}),
    )
    logprobs = (-0.25, -1.25, -1.0)
    expected = probability_features(logprobs, (0.5, 1.125, 0.0), Stop.LINE)
    assert record.evidence(header) == Evidence(logprobs, {**expected, **values}, "mid-line")
    assert record.evidence(header).features.keys() == FEATURES.keys()
    above = record.evidence(header, above=True).features
    assert above[LISTED.names[-1]] == 0.25
    assert above["total"] == expected["total"]


def test_what_is_not_known_is_missing_from_the_evidence() -> None:
    header = attrs.evolve(HEADER, features=LISTED)
    known = {LISTED.names[0]: 1.0}
    record = attrs.evolve(RECORDS[1], entropies=(), features=LISTED.ordered(known), stratum="elsewhere")
    evidence = record.evidence(header)
    assert evidence.place == ""
    assert "entropy-sum" not in evidence.features
    assert evidence.features.keys() & set(LISTED.names) == known.keys()
    assert record.evidence(header, above=True).features.keys().isdisjoint(LISTED.names)
    assert attrs.evolve(record, doubt=True, logprobs=(), typed_logprobs=()).evidence(header) == Evidence()


def test_features_of_another_version_are_not_evidence_and_not_in_one_file() -> None:
    with_features = attrs.evolve(HEADER, features=LISTED)
    other = attrs.evolve(HEADER, features=attrs.evolve(LISTED, version=VERSION + 1))
    record = attrs.evolve(RECORDS[1], features=LISTED.ordered(dict.fromkeys(LISTED.names, 0.5)))
    assert record.evidence(other) == RECORDS[1].evidence(HEADER)
    assert with_features.asks_the_same_as(HEADER)
    assert HEADER.asks_the_same_as(with_features)
    assert not with_features.asks_the_same_as(other)


@pytest.mark.parametrize("features", [None, attrs.evolve(LISTED, names=("one", "two"))])
def test_more_features_than_the_header_names_are_a_data_error(
    tmp_path: Path, features: FeatureList | None
) -> None:
    path = tmp_path / "r.jsonl"
    write_records(
        path, attrs.evolve(HEADER, features=features), [attrs.evolve(RECORDS[0], features=(1.0, 0.0, 0.5))]
    )
    with pytest.raises(DataError, match="features"):
        read_records(path)


def test_no_source_text_and_no_times_are_kept(tmp_path: Path) -> None:
    """Only what a refit needs: names of places, numbers, tokens' ids."""
    path = tmp_path / "r.jsonl"
    write_records(path, HEADER, RECORDS)
    assert {key for line in path.read_text().splitlines()[1:] for key in json.loads(line)} == {
        *("item", "stratum", "correct", "shown", "stop", "prompt", "tokens", "surprisal", "typed", "entropy")
    }


def test_a_line_takes_few_bytes() -> None:
    """The shipped ones, with the prompts' hashes and the entropies that those had no room for yet."""
    _, shipped = read_records(home.shipped_models() / "records" / "lines" / "line-smollm2-135m.jsonl")
    whole = [
        attrs.evolve(r, prompt="0123456789abcdef", entropies=tuple(-1.5 * value for value in r.logprobs))
        for r in shipped
    ]
    assert sum(len(record.to_line()) for record in whole) / len(whole) < 450


def test_the_group_is_told_from_the_item_where_it_can_be() -> None:
    assert "group" not in RECORDS[0].to_row()
    other = {**RECORDS[0].to_row(), "group": "another"}
    assert Record.from_row(other).group == "another"
    assert Record.from_row(other).to_row()["group"] == "another"


def test_minus_infinity_is_kept_as_the_least_there_is() -> None:
    record = Record("a", "a", "", {}, True, "line", (1,), (-math.inf,), (0.0,))
    assert Record.from_row(json.loads(record.to_line())).logprobs[0] <= -1_000


@pytest.mark.parametrize(
    ("wrong", "complaint"),
    [({"features": (math.nan,)}, "not a finite number"), ({"logprobs": (math.nan,) * 3}, "NaN")],
)
def test_a_number_that_is_none_is_refused(wrong: dict[str, Any], complaint: str) -> None:
    with pytest.raises(DataError, match=complaint):
        attrs.evolve(RECORDS[0], **wrong).to_line()


def test_probabilities_that_cannot_be_believed_are_left_out_and_said_to_be() -> None:
    record = Record("a", "a", "", {"exact": True}, True, "line", (1, 2), (), (), doubt=True)
    assert Record.from_row(json.loads(record.to_line())) == record


def test_what_a_line_of_another_file_lacks_is_said(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    path.write_text(HEADER.to_line() + "\n{}\n")
    with pytest.raises(DataError, match="a line lacks 'item'"):
        read_records(path)


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
    "content", [b"print('hello')\n", b"\xff\xfe\x00", b"[]\n", b'{"schema": 1}\n', b"null\n", b""], ids=ascii
)
def test_a_file_that_holds_no_records_is_a_data_error(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "r.jsonl"
    path.write_bytes(content)
    with pytest.raises(DataError, match=r"r\.jsonl"):
        read_records(path)
    with pytest.raises(DataError, match="cannot be read"):
        read_records(tmp_path / "none.jsonl")


def test_each_token_is_judged_given_what_was_typed_and_is_never_more_than_certain() -> None:
    """Rounding may make the whole less than its part."""
    assert RECORDS[3].logprobs_given_typed == (-0.25, -1.25, -3)
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
    assert sources_of([attrs.evolve(RECORDS[0], group=group)] * 3) == (expected,)


def test_sources_are_counted() -> None:
    rows: list[dict[str, Any]] = [{**RECORDS[0].to_row(), "group": g} for g in ("b-1", "a-2", "b-1")]
    assert sources_of([Record.from_row(row) for row in rows]) == (Origin("a", "2", 1), Origin("b", "1", 2))


SIMILAR = SimilarityList(1, "encoder", "f" * 64, ("cosine", "rouge-l"))


@given(st.lists(st.floats(-1.0, 1.0), min_size=2, max_size=2))
def test_similarities_are_kept_to_four_decimals(values: list[float]) -> None:
    record = attrs.evolve(RECORDS[0], similarity=tuple(values))
    again = Record.from_row(json.loads(record.to_line()))
    assert again.similarity == pytest.approx(tuple(values), abs=5e-5)
    assert Record.from_row(again.to_row()) == again
    assert tuple(SIMILAR.named(again.similarity)) == SIMILAR.names
    assert SIMILAR.named(()) == {}


def test_the_header_says_which_similarities_there_are(tmp_path: Path) -> None:
    header = attrs.evolve(HEADER, similarity=SIMILAR)
    records = [attrs.evolve(RECORDS[0], similarity=(0.5, 0.25)), RECORDS[1]]
    write_records(tmp_path / "r.jsonl", header, records)
    assert read_records(tmp_path / "r.jsonl") == (header, records)
    assert not header.asks_the_same_as(HEADER)
    assert not header.asks_the_same_as(attrs.evolve(header, similarity=attrs.evolve(SIMILAR, version=2)))
    assert "similarity" not in HEADER.to_line() + RECORDS[0].to_line(), "files without them stay as they were"
    for wrong in (HEADER, attrs.evolve(header, similarity=attrs.evolve(SIMILAR, names=("cosine",)))):
        write_records(tmp_path / "r.jsonl", wrong, records)
        with pytest.raises(DataError, match="other similarities than the header says"):
            read_records(tmp_path / "r.jsonl")
