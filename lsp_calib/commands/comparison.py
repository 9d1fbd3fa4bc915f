"""Before and after: the calibrator in force and a new one, judged by the same lines."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs
import numpy as np
from rich.console import Console
from rich.table import Table

from lsp_calib.calibration.arrays import BoolArray, FloatArray
from lsp_calib.calibration.metrics.scores import auc, expected_calibration_error, skill_score
from lsp_calib.calibration.policies.tiers import PRESETS
from lsp_calib.calibration.validation.intervals import (
    Interval,
    bootstrap_difference,
    bootstrap_interval,
    calibrated_band,
)
from lsp_calib.calibration.warnings import quietly
from lsp_calib.commands.printing import reliability_text
from lsp_calib.values import Tier

_RESAMPLES = 500


@attrs.frozen
class TierShare:
    """n: suggestions in a tier. share: of all. right: of those in the tier, None if there are none."""

    n: int
    share: float
    right: float | None


@attrs.frozen(eq=False)
class Side:
    """One calibrator: its id, its confidences of the lines, shape (n,), and how good they are."""

    id: str
    confidence: FloatArray
    skill: Interval
    auc: Interval
    ece: Interval
    tiers: dict[str, TierShare]

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
        return {
            "id": self.id,
            "skill": attrs.asdict(self.skill),
            "auc": attrs.asdict(self.auc),
            "ece": attrs.asdict(self.ece),
            "tiers": {name: attrs.asdict(tier) for name, tier in self.tiers.items()},
        }

    def cells(self) -> list[str]:
        return [
            _ranged(self.skill, "+.2f"),
            _ranged(self.auc, ".2f"),
            _ranged(self.ece, ".3f"),
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
        table = Table("", "before", "after", title=f"The same {n} lines, {np.mean(self.correct):.0%} right")
        names = ("skill", "AUC", "ECE", *(f"{tier.value}: share @ right" for tier in Tier))
        for name, before, after in zip(names, self.before.cells(), self.after.cells(), strict=True):
            table.add_row(name, before, after)
        console.print(table)
        seen = "" if self.fresh else " The present calibrator was fitted on some of them, which flatters it."
        console.print(
            f"Before: {self.before.id}. After: {self.after.id}, each line by a fit without its project.{seen}"
        )
        console.print(
            f"Skill after minus before: {_ranged(self.gain, '+.2f')}. In brackets: 95 % intervals; for ECE, "
            "the range that a perfectly calibrated confidence would show."
        )
        for title, side in (("Before", self.before), ("After", self.after)):
            console.print(f"\n{title}")
            console.print(reliability_text(side.confidence, self.correct), markup=False, highlight=False)


def _share(chosen: BoolArray, correct: BoolArray) -> TierShare:
    n = int(np.count_nonzero(chosen))
    return TierShare(n, n / chosen.size, float(np.mean(correct[chosen])) if n else None)


def _tier(tier: TierShare) -> str:
    return f"{tier.share:.0%} @ {'-' if tier.right is None else format(tier.right, '.0%')}"


def _ranged(interval: Interval, form: str) -> str:
    if interval.value is None:
        return "undefined"
    if interval.low is None or interval.high is None:
        return format(interval.value, form)
    return f"{interval.value:{form}} ({interval.low:{form}} to {interval.high:{form}})"
