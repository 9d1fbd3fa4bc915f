"""What programs share that judge records: the lines that were offered, and what ships for them."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path

import attrs
import numpy as np

from lsp_calib.calibration.arrays import BoolArray, FloatArray, IntArray, group_codes
from lsp_calib.calibration.calibrators.calibrator import Calibrator
from lsp_calib.calibration.calibrators.purpose import Purpose
from lsp_calib.calibration.reliability import wilson_interval
from lsp_calib.calibration.tiers import PRESETS
from lsp_calib.corpus.records import Header, Record, read_records
from lsp_calib.errors import DataError
from lsp_calib.values import Evidence

CALIBRATORS = Path(__file__).parents[2] / "models" / "calibrators"


def parser_of(documentation: str | None) -> argparse.ArgumentParser:
    """A parser of a program's arguments, which shows the program's documentation as it is written."""
    return argparse.ArgumentParser(
        description=documentation, formatter_class=argparse.RawDescriptionHelpFormatter
    )


def read(path: Path) -> tuple[Header, list[Record]]:
    """Records, or the journal of an unfinished run, which may be at work on its last line."""
    if path.suffix != ".journal":
        return read_records(path)
    rows = [json.loads(line) for line in path.read_text("utf-8").split("\n")[:-1]]
    return Header.from_row(rows[0]["header"]), [Record.from_row(row["record"]) for row in rows[1:]]


def shipped_for(header: Header) -> Calibrator:
    """The calibrator that ships for the model and prompt of records. Raises DataError if there is none."""
    purpose = Purpose(header.model, header.prompt_version, "line", header.language)
    for path in sorted(CALIBRATORS.glob("*.json")):
        calibrator = Calibrator.load(path)
        if calibrator.purpose == purpose:
            return calibrator
    raise DataError(
        f"No calibrator ships for {header.model.name}, {header.prompt_version}, {header.language}."
    )


@attrs.frozen(eq=False)
class Offered:
    """The n lines of records that were offered, with their verdict (bool array of shape (n,)) and group."""

    records: list[Record]
    evidences: list[Evidence]
    correct: BoolArray
    groups: list[str]

    @classmethod
    def of(cls, header: Header, records: Sequence[Record], judge: str = "exact") -> Offered:
        offered = [record for record in records if record.shown and record.logprobs]
        return cls(
            offered,
            [record.evidence(header) for record in offered],
            np.array([record.correct[judge] for record in offered], dtype=np.bool_),
            [record.group for record in offered],
        )

    @property
    def codes(self) -> IntArray:
        return group_codes(np.array(self.groups), len(self.groups))


def accepted(p: FloatArray, correct: BoolArray) -> str:
    """The share that the balanced preset accepts, and how many of these are right (from)."""
    taken = np.array(
        [PRESETS["balanced"].decide(one, source="shipped")[0].value == "accept" for one in p.tolist()]
    )
    n, right = int(taken.sum()), int(correct[taken].sum())
    return f"{n / p.size:.0%}" + (f" @ {right / n:.0%} ({wilson_interval(right, n)[0]:.0%})" if n else "")
