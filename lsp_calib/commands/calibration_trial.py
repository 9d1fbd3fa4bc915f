"""The calibrator in force and a new one, judged by the same lines; whether the new one may take its place."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import compress
from typing import Any

import attrs
import numpy as np
from rich.table import Table

from lsp_calib.calibration.arrays import BoolArray, FloatArray, quietly
from lsp_calib.calibration.calibrators.calibrator import Calibrator
from lsp_calib.calibration.calibrators.calibrator_store import rests_on
from lsp_calib.calibration.calibrators.fitting import Fitted
from lsp_calib.calibration.calibrators.promotion import may_replace, of_one_kind
from lsp_calib.calibration.calibrators.purpose import Purpose
from lsp_calib.calibration.calibrators.refit import MIN_LABELS
from lsp_calib.calibration.scores import auc, expected_calibration_error, skill_score
from lsp_calib.calibration.tiers import PRESETS
from lsp_calib.calibration.validation import (
    Interval,
    bootstrap_difference,
    bootstrap_interval,
    calibrated_band,
)
from lsp_calib.corpus.functions import SUMMARY
from lsp_calib.corpus.records import Header, Record, groups_of, sources_of
from lsp_calib.corpus.thresholds import shipped_thresholds
from lsp_calib.errors import DataError
from lsp_calib.terminal import Console
from lsp_calib.values import Tier

_RESAMPLES = 500


@attrs.frozen(eq=False)
class Side:
    """One calibrator: its id, its confidences of the lines, shape (n,), and how good they are.

    tiers: of each tier the number of suggestions (n), their share of all, and the share of those that are
    right, None if there are none.
    """

    id: str
    confidence: FloatArray
    skill: Interval
    auc: Interval
    ece: Interval
    tiers: dict[str, dict[str, Any]]

    @classmethod
    def of(
        cls, name: str, source: str, confidence: FloatArray, correct: BoolArray, groups: Sequence[str]
    ) -> Side:
        """source: of the calibrator; without labels of its own it accepts nothing."""
        policy = PRESETS["balanced"]
        tiers = np.array([policy.decide(p, source=source)[0].value for p in confidence.tolist()])
        with quietly():  # one class has no AUC
            return cls(
                name,
                confidence,
                bootstrap_interval(skill_score, confidence, correct, groups, resamples=_RESAMPLES),
                bootstrap_interval(auc, confidence, correct, groups, resamples=_RESAMPLES),
                calibrated_band(expected_calibration_error, confidence, correct, resamples=_RESAMPLES),
                {tier.value: _share(tiers == tier.value, correct) for tier in Tier},
            )

    def to_wire(self) -> dict[str, Any]:
        return attrs.asdict(self, filter=attrs.filters.exclude("confidence"))

    def cells(self) -> list[str]:
        return [
            format(self.skill, "+.2f"),
            format(self.auc, ".2f"),
            format(self.ece, ".3f"),
            *(_tier(self.tiers[tier.value]) for tier in Tier),
        ]


@attrs.frozen(eq=False)
class Comparison:
    """The present and the new calibrator on the same lines.

    fresh: whether the present one was fitted on none of these projects; otherwise its figures flatter it.
    gain: the difference in skill, new minus present. correct: bool array of shape (n,).
    """

    before: Side
    after: Side
    correct: BoolArray
    gain: Interval
    fresh: bool

    @classmethod
    def of(
        cls,
        present: tuple[str, str, FloatArray],
        new: tuple[str, str, FloatArray],
        correct: BoolArray,
        groups: Sequence[str],
        *,
        fresh: bool,
    ) -> Comparison:
        """present, new: id, source and confidences of the lines; those of the new one out of fold."""
        with quietly():
            gain = bootstrap_difference(
                skill_score, new[2], present[2], correct, groups, resamples=_RESAMPLES
            )
        return cls(Side.of(*present, correct, groups), Side.of(*new, correct, groups), correct, gain, fresh)

    def to_wire(self) -> dict[str, Any]:
        return {
            "n": self.correct.size,
            "fresh": self.fresh,
            "before": self.before.to_wire(),
            "after": self.after.to_wire(),
            "gain": attrs.asdict(self.gain),
        }

    def print(self, console: Console) -> None:
        n = self.correct.size
        table = Table("", "before", "after", title=f"The same {n} answers, {np.mean(self.correct):.0%} right")
        names = ("skill", "AUC", "ECE", *(f"{tier.value}: share @ right" for tier in Tier))
        for name, before, after in zip(names, self.before.cells(), self.after.cells(), strict=True):
            table.add_row(name, before, after)
        console.print(table)
        seen = "" if self.fresh else " The present calibrator was fitted on some of them, which flatters it."
        console.print(
            f"Before: {self.before.id}. After: {self.after.id}, each answer by a fit without its project "
            f"(of fewer than three: without its file).{seen}"
        )
        console.print(
            f"Skill after minus before: {format(self.gain, '+.2f')}. In brackets: 95 % intervals; for ECE, "
            "the range that a perfectly calibrated confidence would show."
        )


def _share(chosen: BoolArray, correct: BoolArray) -> dict[str, Any]:
    n = int(np.count_nonzero(chosen))
    return {"n": n, "share": n / chosen.size, "right": float(np.mean(correct[chosen])) if n else None}


def _tier(tier: dict[str, Any]) -> str:
    return f"{tier['share']:.0%} @ {'-' if tier['right'] is None else format(tier['right'], '.0%')}"


LINE = "line"
TASKS = (LINE, SUMMARY)
PLURAL = {LINE: "lines", SUMMARY: "functions"}

# With fewer a fit may be worse than what it replaces, and still look better on these very lines.
FEWEST_TO_REPLACE = 200


def labels_of(purpose: Purpose, header: Header, records: Sequence[Record]) -> list[bool]:
    """Whether each answer is right: a line if it is the very one, a summary by the criterion of the purpose.

    Records from before that criterion are judged by their similarities. Raises DataError if these are of
    another encoder or missing.
    """
    criterion = purpose.criterion or "exact"
    if header.task == SUMMARY and any(criterion not in record.correct for record in records):
        if header.similarity is None:
            raise DataError(f"The records say nothing of the criterion {criterion!r}. Make them again.")
        records = shipped_thresholds(header.similarity).judge(header, records)
    return [record.correct[criterion] for record in records]


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
        known: Sequence[Calibrator],
    ) -> Judged:
        """known: calibrators, among them those that `present` was made from."""
        seen = {(origin.name, origin.version) for origin in rests_on(present, known)}
        sources = [sources_of([record])[0] for record in shown]
        return cls(
            fitted,
            present,
            present.probabilities([record.evidence(header) for record in shown]),
            fitted.confidence,
            np.array(labels_of(fitted.calibrator.purpose, header, shown), dtype=np.bool_),
            np.array([(source.name, source.version) not in seen for source in sources], dtype=np.bool_),
            groups_of(shown),
        )

    def proof(self) -> tuple[bool, str]:
        """Whether the new calibrator may replace the present one, and why: it applies to every workspace, not
        only to the one whose lines it was fitted on.

        Besides the rule of a refit it needs `FEWEST_TO_REPLACE` lines, and a skill that is not lower.
        """
        unit = PLURAL[self.fitted.calibrator.purpose.task]
        n, all_lines = int(np.count_nonzero(self.fresh)), self.fresh.size
        if n < MIN_LABELS:
            few = f"{n} of {all_lines} are of projects that the present one was not fitted on"
            return False, f"too few {unit} to compare it with the present calibrator: {few}"
        unseen = f"{n} labels of projects that the present one was not fitted on"
        every = of_one_kind(self.correct, f"{all_lines} labels")
        if refusal := every or of_one_kind(self.correct[self.fresh], unseen):
            return False, refusal
        if all_lines < FEWEST_TO_REPLACE:
            return False, f"it rests on {all_lines} different {unit}, and {FEWEST_TO_REPLACE} are needed"
        total = self.fitted.calibrator.curve("total")
        old, new, correct = self.old[self.fresh], self.new[self.fresh], self.correct[self.fresh]
        may, reason = may_replace(
            1.0 if total is None else total.features[0].weight,
            new,
            old,
            correct,
            compared=f"{n} {unit}",
            used=f"{all_lines} {unit}",
        )
        before, after = skill_score(old, correct), skill_score(new, correct)
        if may and after < before:
            return False, f"its skill is lower: {after:+.3f} against {before:+.3f} on {n} {unit}"
        return may, reason

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
