"""Whether a calibrator of new lines may take the place of the present one."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import compress

import attrs
import numpy as np

from lsp_calib.calibration.arrays import BoolArray, FloatArray
from lsp_calib.calibration.calibrators.calibrator import Calibrator
from lsp_calib.calibration.calibrators.fitting import Fitted
from lsp_calib.calibration.calibrators.lineage import rests_on
from lsp_calib.calibration.calibrators.promotion import may_replace, of_one_kind
from lsp_calib.calibration.calibrators.refit import MIN_LABELS
from lsp_calib.commands.comparison import Comparison
from lsp_calib.evaluation.header import Header
from lsp_calib.evaluation.records import Record, sources_of
from lsp_calib.evaluation.summary_task import SUMMARY

LINE = "line"
JUDGED_BY = {LINE: "exact", SUMMARY: "best-f1"}
"""The criterion of the labels of each task."""


@attrs.frozen(eq=False)
class Judged:
    """The present and the new calibrator on the lines that the new one was fitted on.

    old, new: confidences, the new ones out of fold. correct: the labels. fresh: whether the present one was
    not fitted on the line's project, nor was one that it was made from: lines that it was fitted on would
    make it look better than it is. All of shape (n,).
    """

    fitted: Fitted
    present: Calibrator
    old: FloatArray
    new: FloatArray
    correct: BoolArray
    fresh: BoolArray
    groups: list[str]

    @classmethod
    def of(
        cls,
        fitted: Fitted,
        header: Header,
        shown: list[Record],
        present: Calibrator,
        known: Mapping[str, Calibrator],
    ) -> Judged:
        """known: calibrators by their ids, among them those that `present` was made from."""
        seen = {(origin.name, origin.version) for origin in rests_on(present, known)}
        sources = [sources_of([record])[0] for record in shown]
        return cls(
            fitted,
            present,
            present.probabilities([record.evidence(header) for record in shown]),
            fitted.confidence,
            np.array([record.correct[JUDGED_BY[header.task]] for record in shown], dtype=np.bool_),
            np.array([(source.name, source.version) not in seen for source in sources], dtype=np.bool_),
            [record.group for record in shown],
        )

    def proof(self) -> tuple[bool, str]:
        """Whether the new calibrator may replace the present one, by the rule of a refit; and why.

        It applies to every workspace, not only to the one whose lines it was fitted on.
        """
        n, all_lines = int(np.count_nonzero(self.fresh)), self.fresh.size
        if n < MIN_LABELS:
            few = f"{n} of {all_lines} are of projects that the present one was not fitted on"
            return False, f"too few lines to compare it with the present calibrator: {few}"
        unseen = f"{n} labels of projects that the present one was not fitted on"
        every = of_one_kind(self.correct, f"{all_lines} labels")
        if refusal := every or of_one_kind(self.correct[self.fresh], unseen):
            return False, refusal
        total = self.fitted.calibrator.curve("total")
        return may_replace(
            1.0 if total is None else total.features[0].weight,
            self.new[self.fresh],
            self.old[self.fresh],
            self.correct[self.fresh],
            compared=f"{n} lines",
            used=f"{all_lines} lines",
        )

    def comparison(self) -> Comparison:
        """Both on the fresh lines; on all of them if these are too few."""
        enough = np.count_nonzero(self.fresh) >= MIN_LABELS
        items = self.fresh if enough else np.ones_like(self.fresh)
        new = self.fitted.calibrator
        return Comparison.of(
            (self.present.id, self.present.source, self.old[items]),
            (new.id, new.source, self.new[items]),
            self.correct[items],
            list(compress(self.groups, items)),
            fresh=bool(self.fresh[items].all()),
        )
