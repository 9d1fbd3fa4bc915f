"""Scores the confidences of records: out of fold, with whole projects left out, by kind of place."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import attrs
import numpy as np
import numpy.typing as npt

from lsp_calib.calibration.arrays import BoolArray, FloatArray, group_codes, quietly
from lsp_calib.calibration.calibrators.calibrator import FEATURES_MEASURE
from lsp_calib.calibration.calibrators.fitting import FeatureData, recipes_of
from lsp_calib.calibration.logistic import LOOSE_PRIOR, PlattCalibrator, sigmoid
from lsp_calib.calibration.tiers import PRESETS
from lsp_calib.calibration.validation import Interval, out_of_fold, select_first_t, summarise
from lsp_calib.confidence.features import measure_name, raw_confidences
from lsp_calib.corpus.records import Header, Record, groups_of
from lsp_calib.corpus.tasks import FEWEST
from lsp_calib.errors import DataError
from lsp_calib.values import Tier

# In addition to the calibrators' measure, whose number of tokens is chosen inside the folds.
MEASURES = ("total", "arithmetic-mean", "geometric-mean", "minimum")
RESAMPLES = 1000
# Numbers of first tokens to choose from: those of Virk et al., and more for long lines; None: all.
FIRST: tuple[int | None, ...] = (*range(1, 20), 24, None)
# Rescaled, a confidence that tells nothing becomes the base rate, and its ECE nearly 0. Below this skill no
# ECE is given, and no row where at most this share of what was asked is right. Source: Spiess et al. 2024.
LEAST_SKILL = 0.05
LEAST_RIGHT = 0.01
CHOSEN = "geometric-mean-first-t"
ALL = "all"


@attrs.frozen
class Row:
    """One line of a table: some of the items, under one confidence.

    part: "fit": predicted out of fold; "held-out": predicted by a calibrator fitted on all other projects.
    judge: the criterion of correctness. stratum: the kind of place, or "all". rescaled: calibrated, or raw.
    metrics: as named by `intervals.summarise`; a rescaled row with a skill below LEAST_SKILL has no "ece".
    tiers: (items, right items) of each; empty if raw.
    """

    part: str
    judge: str
    stratum: str
    measure: str
    rescaled: bool
    n: int
    n_correct: int
    metrics: Mapping[str, Interval]
    tiers: Mapping[str, tuple[int, int]] = attrs.field(factory=dict)

    def to_json(self) -> dict[str, Any]:
        row = attrs.asdict(self)
        row["metrics"] = {name: attrs.asdict(interval) for name, interval in self.metrics.items()}
        row["tiers"] = {name: {"n": n, "right": right} for name, (n, right) in self.tiers.items()}
        return row


@attrs.frozen
class Scores:
    """The scores of records.

    asked: number of items. offered: items with an answer that an editor would have been offered.
    doubtful: offered items with missing or unreliable probabilities; no row counts them.
    right: right answers among the offered, by judge. best: the measure of the calibrator's preferred curve.
    first: the chosen number of first tokens, by judge; None means all. per_fold: that of each fold, chosen on
    the others. held_out: the projects that were excluded from fitting. notes: sentences for readers. cross:
    of the offered answers, as `cross_table` counts them.
    """

    header: Header
    asked: int
    offered: int
    doubtful: int
    right: Mapping[str, int]
    best: str
    first: Mapping[str, int | None]
    held_out: tuple[str, ...]
    rows: tuple[Row, ...]
    notes: tuple[str, ...] = ()
    per_fold: Mapping[str, tuple[int | None, ...]] = attrs.field(factory=dict)
    cross: Mapping[str, int] = attrs.field(factory=dict)

    def to_json(self) -> dict[str, Any]:
        return {
            "schema": 1,
            **attrs.asdict(self, filter=lambda field, _: field.name != "rows"),
            "rows": [row.to_json() for row in self.rows],
        }


def score(
    header: Header,
    records: Sequence[Record],
    held_out: frozenset[str] = frozenset(),
    *,
    resamples: int = RESAMPLES,
    seed: int = 0,
    headline: bool = False,
) -> Scores:
    """Score the confidences of the answers that would have been offered.

    held_out: projects predicted by a calibrator that was fitted on all others. resamples: for the intervals.
    headline: only the rescaled rows of the best measure over all places, with the same values as otherwise.
    A judge by whom fewer than two groups have a right answer, or a wrong one, or at most LEAST_RIGHT of what
    was asked is right, has no rows; of the latter a note says so.
    Raises DataError if there are fewer than 20 answers to fit on, fewer than 3 groups of them, or nothing is
    left to tell apart by any judge.
    """
    offered = [record for record in records if record.shown]
    usable = [record for record in offered if record.logprobs]
    fitted = [record for record in usable if record.group not in held_out]
    if len(fitted) < FEWEST:
        raise DataError(
            f"Only {len(fitted)} of {len(records)} records have an answer with probabilities to fit on; at "
            f"least {FEWEST} are needed. Ask for more."
        )
    rows: list[Row] = []
    best = CHOSEN
    first: dict[str, int | None] = {}
    per_fold: dict[str, tuple[int | None, ...]] = {}
    counts = {
        judge: sum(record.correct.get(judge, False) for record in records) for judge in fitted[0].correct
    }
    few = [judge for judge, count in counts.items() if too_few_right(count, len(records))]
    # Check all judges before the slow work on the first. A fit needs answers that are right, and others: each
    # class twice, so that one is left when the other's group is.
    judges = told_apart(fitted[0].correct, usable, held_out, len(fitted))
    for judge in [judge for judge in judges if judge not in few]:
        apart = [record for record in usable if record.group in held_out]
        table = _Table(judge, header, fitted, apart, resamples, seed)
        rows += table.rows(headline=headline)
        first[judge], per_fold[judge], best = table.first, table.per_fold, table.best
    notes = [few_right_note(judge, counts[judge], len(records)) for judge in few]
    scores = counted(header, records, held_out, *notes)
    return attrs.evolve(scores, best=best, first=first, rows=tuple(rows), per_fold=per_fold)


def counted(header: Header, records: Sequence[Record], held_out: frozenset[str], *notes: str) -> Scores:
    """Scores without rows: how many answers there are and are right. notes: why no more can be said."""
    offered = [record for record in records if record.shown]
    judges = dict.fromkeys(judge for record in offered for judge in record.correct)
    return Scores(
        header=header,
        asked=len(records),
        offered=len(offered),
        doubtful=sum(not record.logprobs for record in offered),
        right={judge: sum(record.correct.get(judge, False) for record in offered) for judge in judges},
        best=CHOSEN,
        first={},
        held_out=tuple(sorted(held_out)),
        rows=(),
        notes=notes,
        cross=cross_table(offered),
    )


def cross_table(records: Sequence[Record]) -> dict[str, int]:
    """How many of the answers that were judged both exactly and by tests are right by both, by one alone and
    by neither; empty if there are none. Source: Spiess et al. 2024, Table 4."""
    twice = [record.correct for record in records if {"exact", "tests"}.issubset(record.correct)]
    if not twice:
        return {}
    counts = Counter((correct["exact"], correct["tests"]) for correct in twice)
    return {
        "both": counts[True, True],
        "exact alone": counts[True, False],
        "tests alone": counts[False, True],
        "neither": counts[False, False],
    }


class _Table:
    """The rows of one criterion."""

    def __init__(
        self,
        judge: str,
        header: Header,
        fitted: list[Record],
        others: list[Record],
        resamples: int,
        seed: int,
    ) -> None:
        self._resamples = resamples
        self._judge = judge
        self._seed = seed
        self._records = {"fit": fitted, "held-out": others}
        self._labels = {part: labels(records, judge) for part, records in self._records.items()}
        self._groups = groups_of(fitted)
        with quietly():
            chosen = select_first_t(
                [record.logprobs_given_typed for record in fitted],
                self._labels["fit"],
                self._groups,
                FIRST,
                fit=fit_curve,
                seed=seed,
            )
        self.first, self.per_fold = chosen.first, chosen.per_fold
        self._chosen = chosen.confidence
        self._evidences = {
            part: [record.evidence(header) for record in records] for part, records in self._records.items()
        }
        codes = group_codes(self._groups, len(fitted))
        recipes = recipes_of(header.task)
        self._data = FeatureData.of(self._evidences["fit"], self._labels["fit"], codes, recipes)
        # Features count that all answers have, also those of held-out projects.
        apart = FeatureData.of(
            self._evidences["held-out"], self._labels["held-out"], np.zeros(len(others), np.intp), recipes
        )
        self._recipes = self._data.usable(apart.usable(recipes) if others else recipes)
        self.best = FEATURES_MEASURE if self._recipes else CHOSEN

    def rows(self, *, headline: bool) -> list[Row]:
        """headline: only the rescaled rows of the best measure over all places."""
        rows: list[Row] = []
        for part, predict in (("fit", self._best), ("held-out", self._held_out)):
            if self._records[part]:
                confidence = predict()
                rows.append(self._row(part, ALL, self.best, True, confidence, slice(None)))
                rows += [] if headline else self._strata(part, confidence)
        if headline:
            return rows
        raw, *rescaled = self._measure(CHOSEN, measure_name(self.first), self._chosen)
        rows += [raw] if self.best == CHOSEN else [raw, *rescaled]
        for name in MEASURES:
            rows += self._measure(name, name, None)
        return rows

    def _measure(self, shown_as: str, name: str, confidence: FloatArray | None) -> list[Row]:
        """The rows of a measure, raw and rescaled."""
        raw = _raw(name, self._records["fit"])
        if confidence is None:
            with quietly():
                confidence = out_of_fold(raw, self._labels["fit"], self._groups, fit_curve, seed=self._seed)
        return [
            self._row("fit", ALL, shown_as, False, raw, slice(None)),
            self._row("fit", ALL, shown_as, True, confidence, slice(None)),
        ]

    def _strata(self, part: str, confidence: FloatArray) -> list[Row]:
        """The same predictions by kind of place, and by condition; nothing of what there is one kind of."""
        records = self._records[part]
        masks: dict[str, npt.NDArray[np.intp]] = {}
        for kinds in ([record.stratum for record in records], [record.condition for record in records]):
            if len(set(kinds)) > 1:
                masks |= {kind: np.flatnonzero(np.array(kinds) == kind) for kind in sorted(set(kinds))}
        return [self._row(part, kind, self.best, True, confidence, at) for kind, at in masks.items()]

    def _best(self) -> FloatArray:
        """The items' predictions out of fold by the calibrator's preferred curve."""
        if not self._recipes:
            return self._chosen
        with quietly():
            return self._data.nested(self._recipes, seed=self._seed)

    def _held_out(self) -> FloatArray:
        if self._recipes:
            curve = self._data.curve(self.best, self._data.choose(self._recipes, seed=self._seed))
            return sigmoid(curve.scores(self._evidences["held-out"]))
        name = measure_name(self.first)
        raw = {part: _raw(name, records) for part, records in self._records.items()}
        predicted: FloatArray = fit_curve(raw["fit"], self._labels["fit"]).predict(raw["held-out"])
        return predicted

    def _row(
        self,
        part: str,
        stratum: str,
        measure: str,
        rescaled: bool,
        confidence: FloatArray,
        at: slice | npt.NDArray[np.intp],
    ) -> Row:
        of = confidence[at], self._labels[part][at], np.array(groups_of(self._records[part]))[at]
        what = part, self._judge, stratum, measure
        return row_of(*what, rescaled, *of, resamples=self._resamples, seed=self._seed)


def row_of(
    part: str,
    judge: str,
    stratum: str,
    measure: str,
    rescaled: bool,
    confidence: FloatArray,
    correct: BoolArray,
    groups: npt.ArrayLike,
    *,
    resamples: int,
    seed: int,
) -> Row:
    """The row of one confidence. confidence, correct, groups: arrays of shape (n,)."""
    with quietly():
        metrics = summarise(confidence, correct, groups, resamples=resamples, seed=seed)
    return Row(
        part=part,
        judge=judge,
        stratum=stratum,
        measure=measure,
        rescaled=rescaled,
        n=int(correct.size),
        n_correct=int(np.count_nonzero(correct)),
        metrics=without_empty_ece(metrics) if rescaled else metrics,
        tiers=tiers_of(confidence, correct) if rescaled else {},
    )


def _raw(measure: str, records: Sequence[Record]) -> FloatArray:
    return raw_confidences(measure, [record.logprobs_given_typed for record in records])


def labels(records: Sequence[Record], judge: str) -> BoolArray:
    """Whether each is right by a criterion. Raises DataError if some were not judged by it."""
    try:
        return np.array([record.correct[judge] for record in records], dtype=np.bool_)
    except KeyError as error:
        raise DataError(
            f"Some records were judged by {judge} and others were not. Ask again, into another folder."
        ) from error


def too_few_right(right: int, asked: int) -> bool:
    """Whether at most LEAST_RIGHT of what was asked is right."""
    return right <= LEAST_RIGHT * asked


def few_right_note(judge: str, right: int, asked: int) -> str:
    """Why a criterion has no scores, as a sentence."""
    return (
        f"Right ({judge}): {right} of {asked} items asked for, at most {100 * LEAST_RIGHT:g} %. No scores "
        "are given: they would say nothing."
    )


def without_empty_ece(metrics: Mapping[str, Interval]) -> dict[str, Interval]:
    """The metrics of a rescaled confidence; without the ECE where its skill is below LEAST_SKILL."""
    skill = metrics["skill"].value
    told = skill is not None and skill >= LEAST_SKILL
    return {name: interval for name, interval in metrics.items() if told or name != "ece"}


def told_apart(
    judges: Iterable[str], records: Sequence[Record], held_out: frozenset[str], count: int
) -> list[str]:
    """The criteria by which there is something to tell apart, see `both_sides`.

    count: of the answers that are fitted on. Raises DataError if there is no such criterion.
    """
    found = [judge for judge in judges if both_sides(labels(records, judge), records, held_out)]
    if not found:
        raise DataError(
            f"Of {count} answers all are right, or all are wrong, but for those of one group, by every "
            "criterion: there is nothing to tell apart. Ask for more, or ask another model."
        )
    return found


def both_sides(correct: BoolArray, records: Sequence[Record], held_out: frozenset[str]) -> bool:
    """Whether two groups that are fitted on have right answers, and two have wrong ones."""
    groups = groups_of(records)
    seen: dict[bool, set[str]] = {True: set(), False: set()}
    for right, group, record in zip(correct, groups, records, strict=True):
        if record.group not in held_out:
            seen[bool(right)].add(group)
    return min(map(len, seen.values())) >= 2


def fit_curve(raw: npt.ArrayLike, correct: npt.ArrayLike) -> PlattCalibrator:
    """Fit as for calibrators of the model's own probabilities; see `fitting.fit_calibrator`."""
    return PlattCalibrator.fit(raw, correct, prior=LOOSE_PRIOR)


def tiers_of(confidence: FloatArray, correct: BoolArray) -> dict[str, tuple[int, int]]:
    """(items, right items) of each tier of the balanced preset."""
    policy = PRESETS["balanced"]
    tiers = np.array([policy.decide(float(p), source="shipped")[0].value for p in confidence])
    return {
        tier.value: (int(np.sum(tiers == tier.value)), int(np.sum(correct[tiers == tier.value])))
        for tier in Tier
    }
