"""What `hideBelow` hides, on the committed records.

    python tests/programs/hiding.py

Prints a table for each model and window with records of lines, in some minutes: with calibrators fitted out
of fold by project, on what the records hold. docs/hiding.md quotes it.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import attrs
import numpy as np

from lsp_calib.calibration.arrays import BoolArray, FloatArray, group_codes
from lsp_calib.calibration.calibrators.calibrator import Calibrator
from lsp_calib.calibration.calibrators.fitting import LabelledAnswers, fit_calibrator
from lsp_calib.calibration.calibrators.purpose import Purpose
from lsp_calib.calibration.validation import grouped_folds
from lsp_calib.evaluation.header import Header
from lsp_calib.evaluation.records import Record, read_records
from lsp_calib.values import Evidence

RECORDS = Path(__file__).parents[2] / "models" / "records"
LIMITS = (0.05, 0.1, 0.2, 0.3)


@attrs.frozen
class Lines:
    """n lines that an editor would have been offered: evidence, verdict (bool array of shape (n,)), and for
    each the calibrator fitted on the lines of other projects."""

    evidences: Sequence[Evidence]
    right: BoolArray
    calibrators: Sequence[Calibrator]

    def confidences(self) -> FloatArray:
        """Shape (n,); the records hold no line without one."""
        pairs = zip(self.calibrators, self.evidences, strict=True)
        return np.array(
            [calibrator.probability(evidence) for calibrator, evidence in pairs], dtype=np.float64
        )


def lines_of(header: Header, records: Sequence[Record]) -> Lines:
    """The lines of records, each with the calibrator of four of five folds."""
    evidences = [record.evidence(header) for record in records]
    right = np.array([record.correct["exact"] for record in records])
    groups = np.array([record.group for record in records])
    fold = grouped_folds(group_codes(groups, len(records)), 5)
    fitted = [_fitted(header, evidences, right, groups, fold != k) for k in range(int(fold.max()) + 1)]
    return Lines(evidences, right, [fitted[k] for k in fold])


def _fitted(
    header: Header, evidences: Sequence[Evidence], right: BoolArray, groups: np.ndarray, kept: BoolArray
) -> Calibrator:
    return fit_calibrator(
        LabelledAnswers(
            Purpose(header.model, header.prompt_version, "line", header.language),
            [evidence for evidence, is_kept in zip(evidences, kept, strict=True) if is_kept],
            right[kept],
            groups[kept],
            source="workspace",
            state="ready",
            created="2026-01-01",
        )
    ).calibrator


def main() -> None:
    for path in sorted(RECORDS.glob("line-*.jsonl")):
        header, records = read_records(path)
        lines = lines_of(header, [record for record in records if record.shown and not record.doubt])
        model, measure = f"{header.model.name}, {header.prompt_version}", lines.calibrators[0].measure
        print(f"{model}: {lines.right.size} lines, {measure}", flush=True)
        final, right = lines.confidences(), lines.right
        for limit in LIMITS:
            hidden = final < limit
            print(
                f"below {limit}: {hidden.mean():6.1%} hidden, {hidden[~right].mean():6.1%} of the wrong, "
                f"{hidden[right].mean():6.1%} of the right"
            )


if __name__ == "__main__":
    main()
