"""The personalisation study finds a shift that is there, and none where there is none.

The users are made: lines of the records, right as often as the shipped calibrator says, or shifted by 1 in
log-odds. Then the truth is known.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import personalisation as study
import pytest

from lsp_calib.calibration.calibrators.calibrator import Calibrator
from lsp_calib.corpus.places import INSERTING
from lsp_calib.corpus.records import read_records

MODELS = Path(__file__).parents[2] / "models"
USERS, LINES, AFTER = 36, 150, (90,)
RULE = (1.0, 0.0)


@pytest.fixture(scope="module")
def everyone() -> list[study.User]:
    """Users with lines of the records."""
    header, records = read_records(study.OTHERS)
    start = Calibrator.load(MODELS / "calibrators" / "line-smollm2-135m-large.json")
    evidences = [
        record.evidence(header)
        for record in records
        if record.shown and not record.doubt and record.condition == INSERTING
    ]
    rng = np.random.default_rng(7)
    return [
        study.User(
            str(k), [evidences[at] for at in rng.integers(0, len(evidences), LINES)], np.zeros(LINES), start
        )
        for k in range(USERS)
    ]


def compared(everyone: list[study.User], shift: float) -> dict[str, study.Compared]:
    scored = [study.score(one.shifted(shift), RULE, AFTER, 2, k) for k, one in enumerate(everyone)]
    return {one.name: one for one in study.compare(scored)}


def test_a_shift_that_is_there_is_found_by_ninety_lines(everyone: list[study.User]) -> None:
    """A third of which have a suggestion."""
    found = compared(everyone, 1.0)
    assert found["personal"].gains
    assert found["personal"].worse == 0


def test_where_there_is_none_nothing_is_gained_and_next_to_nothing_lost(everyone: list[study.User]) -> None:
    found = compared(everyone, 0.0)
    assert not found["personal"].gains
    assert found["personal"].difference < 0.002
    assert found["personal"].worse <= 1, "it may be by chance"
    assert found["Platt"].difference > 0.01, "a general calibrator of one measure costs"


def test_the_first_gain_is_one_that_lasts() -> None:
    def at(after: int, high: float) -> study.Compared:
        return study.Compared("a", after, 0.1, high - 0.01, high - 0.02, high, 0, 0)

    assert study.first_gain([at(5, -0.1), at(10, 0.1), at(20, -0.1), at(30, -0.1)], "a") == 20
    assert study.first_gain([at(5, -0.1), at(10, 0.1)], "a") is None


def test_lines_arrive_in_the_order_of_their_files_from_a_journal_too(tmp_path: Path) -> None:
    lines = study.OTHERS.read_text("utf-8").splitlines()
    rows = [json.loads(line) for line in lines[1:]]
    rows = [row for row in rows if row["item"].startswith(("flask-", "rich-"))]
    journal = tmp_path / "records.jsonl.journal"
    entries = [{"header": json.loads(lines[0])}, *({"record": row, "timing": {}} for row in rows)]
    journal.write_text("".join(json.dumps(entry) + "\n" for entry in entries) + '{"rec', "utf-8")
    header, records = study.read(journal)
    assert len(records) == len(rows)
    streams = study.streams_of([journal], header)
    assert sorted(name.partition("-")[0] for name in streams) == ["flask", "rich"]
    for stream in streams.values():
        places = [record.item.rsplit(":", 2) for record, _ in stream]
        assert places == sorted(places, key=lambda place: (place[0], int(place[1]), int(place[2])))
        assert len({file for file, _, _ in places}) > 1
