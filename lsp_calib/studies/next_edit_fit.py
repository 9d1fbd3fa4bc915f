"""The curve of edits and its calibrator, fitted on cases, and what their tiers hold on projects set aside."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import attrs
import numpy as np
import numpy.typing as npt

from lsp_calib.calibration.arrays import BoolArray, FloatArray, IntArray, group_codes, quietly
from lsp_calib.calibration.calibrators.calibrator import FEATURES_MEASURE, Calibrator, Curve
from lsp_calib.calibration.calibrators.calibrator_store import CalibratorStore
from lsp_calib.calibration.calibrators.fitting import FeatureData, LabelledAnswers, Recipe
from lsp_calib.calibration.calibrators.purpose import Origin
from lsp_calib.calibration.logistic import LOOSE_PRIOR, PlattCalibrator
from lsp_calib.calibration.scores import auc, expected_calibration_error, skill_score
from lsp_calib.calibration.tiers import PRESETS
from lsp_calib.calibration.validation import (
    Interval,
    bootstrap_interval,
    bootstrap_mean,
    calibrated_band,
    out_of_fold,
)
from lsp_calib.edits.history import FEATURES
from lsp_calib.edits.offers import OFFERED_FROM, VERSION, EditCurve
from lsp_calib.languages import name_of
from lsp_calib.studies.data import data_folder, sets_named
from lsp_calib.studies.next_edits import Case, cases_of_releases, read_cases, write_cases
from lsp_calib.studies.tables import Table, percent, print_tables, ranged
from lsp_calib.terminal import Console
from lsp_calib.values import Evidence

_RECIPE = Recipe("edits", FEATURES, by_place=True)
# Where the presets' tiers begin, without strictness.
_ACCEPT_FROM = PRESETS["balanced"].accept_from


@attrs.frozen(eq=False, slots=False)
class Places:
    """The places of the cases that have any, n of them.

    values: float array of shape (n, features). right: bool array, of_case: int array, of shape (n,).
    """

    cases: Sequence[Case]
    values: FloatArray
    right: BoolArray
    of_case: IntArray

    @classmethod
    def of(cls, cases: Sequence[Case]) -> Places:
        having = [case for case in cases if case.candidates]
        found = [one for case in having for one in case.candidates]
        return cls(
            having,
            np.array([values for values, _ in found], dtype=np.float64).reshape(-1, len(FEATURES)),
            np.array([right for _, right in found], dtype=np.bool_),
            np.repeat(np.arange(len(having)), [len(case.candidates) for case in having]),
        )

    def names(self, of: Callable[[Case], str]) -> list[str]:
        """A name of the case of each place."""
        return [of(self.cases[at]) for at in self.of_case]

    @cached_property
    def data(self) -> FeatureData:
        """Of all places, with languages as kinds of places and projects as groups."""
        return FeatureData(
            {name: self.values[:, at] for at, name in enumerate(FEATURES)},
            self.right,
            group_codes(self.names(lambda case: case.project), self.right.size),
            np.array(self.names(lambda case: case.language), dtype=str),
        )

    def likeliest(self, logprobs: FloatArray) -> IntArray:
        """Of each case the place with the highest of these logarithms of probabilities, shape (cases,): of
        equal ones the first, as `offers.offers` chooses."""
        order = np.lexsort((np.arange(logprobs.size), -np.round(logprobs, 6), self.of_case))
        return order[np.unique(self.of_case[order], return_index=True)[1]]


def fitted(cases: Sequence[Case], origins: Sequence[Origin], created: str) -> tuple[EditCurve, Calibrator]:
    """The curve on all places, and the calibrator on the likeliest place of each case, by curves that have
    not seen its project.

    origins: the projects. created: ISO date.
    """
    places = Places.of(cases)
    curve = places.data.curve(FEATURES_MEASURE, places.data.choose([_RECIPE]))
    made = EditCurve(
        version=VERSION,
        features=curve.features,
        intercept=curve.intercept,
        offsets=curve.offsets,
        n=places.right.size,
        n_right=int(places.right.sum()),
        provenance=tuple(origins),
    )
    unseen = np.log(places.data.nested([_RECIPE]))
    chosen = places.likeliest(unseen)
    known = [places.cases[at] for at in places.of_case[chosen]]
    counted = Counter(case.language for case in known)
    answers = LabelledAnswers(
        made.purpose,
        [Evidence((float(p),), place=case.language) for p, case in zip(unseen[chosen], known, strict=True)],
        places.right[chosen],
        [case.project for case in known],
        source="shipped",
        state="shipped",
        created=created,
        strata=dict(sorted(counted.items())),
        provenance=origins,
    )
    raw = np.exp(unseen[chosen])
    platt = _platt(raw, answers.labels)
    confidence = out_of_fold(raw, answers.labels, answers.codes, _platt)
    total = Curve.of_measure("total", platt.slope, platt.intercept, LOOSE_PRIOR)
    return made, answers.calibrator([total], confidence, "total")


def _platt(raw: FloatArray, correct: BoolArray) -> PlattCalibrator:
    return PlattCalibrator.fit(raw, correct, prior=LOOSE_PRIOR)


@attrs.frozen(eq=False, slots=False)
class Judged:
    """What would be offered in n cases. confidence: of the likeliest place, right: whether it is changed,
    once: the change is no other line's; all of shape (n,). once_in_all: such cases, those without a place
    included."""

    cases: Sequence[Case]
    confidence: FloatArray
    right: BoolArray
    once_in_all: int

    @classmethod
    def by(cls, cases: Sequence[Case], curve: EditCurve, calibrator: Calibrator) -> Judged:
        places = Places.of(cases)
        logprobs = np.array(
            [
                curve.logprob(dict(zip(FEATURES, values, strict=True)), language)
                for values, language in zip(
                    places.values.tolist(), places.names(lambda case: case.language), strict=True
                )
            ]
        )
        chosen = places.likeliest(logprobs)
        evidences = [Evidence((float(p),)) for p in logprobs[chosen]]
        confidence = calibrator.probabilities(evidences)
        once = sum(case.once for case in cases)
        return cls(places.cases, confidence, places.right[chosen], once)

    @cached_property
    def groups(self) -> list[str]:
        return [case.project for case in self.cases]

    def part(self, language: str) -> Judged:
        """The cases of a language; how many edits are made once is not known of it."""
        at = np.array([case.language == language for case in self.cases])
        cases = [case for case in self.cases if case.language == language]
        return Judged(cases, self.confidence[at], self.right[at], 0)

    def tier(self, least: float, most: float = 1.01) -> tuple[Interval, Interval]:
        """The share of cases with a probability in a range, and how many of these are right; intervals by
        resampled projects."""
        inside = (self.confidence >= least) & (self.confidence < most)

        def precision(confidence: npt.ArrayLike, right: npt.ArrayLike) -> float:
            chosen = (np.asarray(confidence) >= least) & (np.asarray(confidence) < most)
            return float(np.asarray(right)[chosen].mean()) if chosen.any() else np.nan

        codes = group_codes(self.groups, self.right.size)
        with quietly():
            right = bootstrap_interval(precision, self.confidence, self.right, codes)
        return bootstrap_mean(inside, codes), right

    @property
    def languages(self) -> list[str]:
        return sorted({case.language for case in self.cases})

    def once_offered(self, least: float = OFFERED_FROM) -> int:
        """Of the edits that no other line of the release has, after how many one would be offered."""
        once = np.array([case.once for case in self.cases])
        return int((once & (self.confidence >= least)).sum())


def tables(judged: Judged) -> Iterator[Table]:
    """What the tiers hold, for people."""
    yield Table(
        "What is offered",
        ["cases", "of", "share (95 %)", "right (95 %)"],
        [
            [name, str(judged.right.size), *(ranged(one, sign=False) for one in judged.tier(least, most))]
            for name, least, most in (
                ("accept", _ACCEPT_FROM, 1.01),
                ("review", OFFERED_FROM, _ACCEPT_FROM),
                ("offered", OFFERED_FROM, 1.01),
                ("not offered", 0.0, OFFERED_FROM),
            )
        ],
    )
    rows = []
    for name in ("", *judged.languages):
        part = judged.part(name) if name else judged
        codes = group_codes(part.groups, part.right.size)
        with quietly():
            skill = bootstrap_interval(skill_score, part.confidence, part.right, codes)
            area = bootstrap_interval(auc, part.confidence, part.right, codes)
            error = calibrated_band(expected_calibration_error, part.confidence, part.right)
        share, right = part.tier(_ACCEPT_FROM)
        rows.append(
            [
                name_of(name) if name else "all",
                f"{part.right.size}, {len(set(part.groups))}",
                percent(float(part.right.mean())),
                *(ranged(one) for one in (skill, area)),
                format(error, ".3f"),
                *(ranged(one, sign=False) for one in (share, right)),
            ]
        )
    columns = ["language", "cases, projects", "right", "skill (95 %)", "AUC (95 %)"]
    yield Table(
        "By language", [*columns, "ECE; a calibrated one", "accepted (95 %)", "of these right (95 %)"], rows
    )
    if judged.once_in_all:
        offered = judged.once_offered()
        of_all = offered / judged.once_in_all
        yield Table(
            "Edits that are not repeated",
            ["edits", "an edit is offered after", "share"],
            [[str(judged.once_in_all), str(offered), f"{100 * of_all:.1f} %"]],
        )


FITTED, APART = "fitted.jsonl.gz", "apart.jsonl.gz"
"""The files of the records: of the projects that curves are fitted on, and of those set aside."""


@attrs.frozen(eq=False)
class Report:
    """What the shipped curve and calibrator of edits hold on projects set aside."""

    judged: Judged

    def print(self) -> None:
        print_tables(tables(self.judged), Console(), whole=1)

    def to_wire(self) -> dict[str, Any]:
        return to_json(self.judged)


def measure_edits(
    data_dir: Path | None,
    records: Path | None,
    output: Path | None,
    on_progress: Callable[[int, int], None],
) -> Report:
    """Judge the shipped curve and calibrator.

    data_dir: the folder with the releases. records: a folder with the records, without them. output: the
    folder that records are written to. Raises DataError if something is missing.
    """
    if records is None:
        sets = sets_named("releases")
        fitted_on, apart = cases_of_releases(sets, data_folder(data_dir), on_progress)
        if output is not None:
            output.mkdir(parents=True, exist_ok=True)
            write_cases(output / FITTED, fitted_on)
            write_cases(output / APART, apart)
    else:
        apart = read_cases(records / APART)
    curve = EditCurve.shipped()
    calibrator = CalibratorStore.open().choose(curve.purpose, personal=False).calibrator
    return Report(Judged.by(apart, curve, calibrator))


def to_json(judged: Judged) -> dict[str, Any]:
    """The same for programs."""
    found = {}
    for name in ("", *judged.languages):
        part = judged.part(name) if name else judged
        share, right = part.tier(_ACCEPT_FROM)
        offered, of_offered = part.tier(OFFERED_FROM)
        with quietly():
            skill = bootstrap_interval(skill_score, part.confidence, part.right, part.groups)
        found[name or "all"] = {
            "cases": int(part.right.size),
            "skill": _wire(skill),
            "accept": {"share": _wire(share), "right": _wire(right)},
            "offered": {"share": _wire(offered), "right": _wire(of_offered)},
        }
    once = {"edits": judged.once_in_all, "offered": judged.once_offered()}
    return {"languages": found, "once": once}


def _wire(interval: Interval) -> dict[str, float | None]:
    return {"value": interval.value, "low": interval.low, "high": interval.high}
