"""All rows of one question: each measure raw, as the studies rescale it, and as this project does."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import attrs
import numpy as np

from lsp_calib.calibration.arrays import FloatArray, IntArray, quietly
from lsp_calib.calibration.scores import brier_score
from lsp_calib.calibration.validation import Interval, grouped_folds
from lsp_calib.confidence.measures import (
    entropy_confidence,
    length_confidence,
    raw_confidences,
    relative_length,
)
from lsp_calib.evaluation.paper.answers import Answers
from lsp_calib.evaluation.paper.numbers import (
    FOLDS,
    OURS,
    PLATT,
    RESCALINGS,
    FirstTokens,
    Resamples,
    first_tokens,
    paired_p_value,
    platt_out_of_fold,
    random_folds,
    rank_correlation,
    rescaled,
)
from lsp_calib.evaluation.scores import LEAST_SKILL, both_sides, too_few_right
from lsp_calib.evaluation.tasks import FEWEST

RAW, RANDOM, APART = "raw", "random", "apart"
UNSKILLED = "unskilled"
FIRST_T = "geometric-mean-first-t"
FIRST_T_ARITHMETIC = "arithmetic-mean-first-t"
# A choice of t, and a test of it, with fewer right or wrong answers than this says nothing.
FEWEST_TO_TEST = 10

Measure = Callable[[Answers], FloatArray | None]


def _of_tokens(name: str) -> Measure:
    return lambda answers: raw_confidences(name, answers.logprobs)


def _entropy(answers: Answers) -> FloatArray | None:
    if not all(record.entropies for record in answers.found):
        return None
    return np.array([entropy_confidence(record.entropies) for record in answers.found])


def _length(answers: Answers) -> FloatArray | None:
    """Spiess et al. 2024, 4.1.3; None where the records hold no counts of characters."""
    lengths = _known(record.characters for record in answers.found)
    references = _known(record.reference_characters for record in answers.found)
    if lengths is None or references is None or len(set(references)) < 2:
        return None
    return length_confidence(lengths, references)


def _relative_length(answers: Answers) -> FloatArray | None:
    """The same paper's other description, 3.1.2."""
    lengths = _known(record.characters for record in answers.found)
    return None if lengths is None or len(set(lengths)) < 2 else relative_length(lengths)


def _known(counts: Iterable[int | None]) -> list[int] | None:
    """The counts; None if one is missing."""
    found = list(counts)
    known = [count for count in found if count is not None]
    return known if len(known) == len(found) else None


MEASURES: Mapping[str, Measure] = MappingProxyType(
    {
        "total": _of_tokens("total"),
        "arithmetic-mean": _of_tokens("arithmetic-mean"),
        "geometric-mean": _of_tokens("geometric-mean"),
        "minimum": _of_tokens("minimum"),
        "geometric-mean-lowest-3": _of_tokens("geometric-mean-lowest-3"),
        "entropy": _entropy,
        "length": _length,
        "length-in-data-set": _relative_length,
    }
)
"""Measures by name. One that the records do not hold is None there, and its row says so."""


@attrs.frozen(eq=False)
class Row:
    """One confidence of the answers.

    rescaling: RAW, a name in PLATT or RESCALINGS. folds: RANDOM, APART (whole groups), "" where nothing is
    fitted. ece: None where it is omitted. auc: of raw rows alone. confidence: shape (n,).
    """

    measure: str
    rescaling: str
    folds: str
    brier: float
    skill: Interval
    ece: Interval | None
    auc: Interval | None
    confidence: FloatArray

    @property
    def key(self) -> tuple[str, str, str]:
        return self.measure, self.rescaling, self.folds


@attrs.frozen(eq=False)
class Cell:
    """The rows of one question and criterion.

    why: why there are none, "" where there are. missing: the measures that the records do not hold.
    first: by the name of the measure, where it was asked for. gain: the skill of the geometric mean of the
    first t tokens minus that of all; p_value: of the paired test of the two. correlations: Spearman's, by
    pair of measures.
    """

    answers: Answers
    why: str = ""
    rows: tuple[Row, ...] = ()
    missing: tuple[str, ...] = ()
    first: Mapping[str, FirstTokens] = attrs.field(factory=dict)
    gain: Interval | None = None
    p_value: float | None = None
    correlations: Mapping[tuple[str, str], float] = attrs.field(factory=dict)

    def row(self, measure: str, rescaling: str = RAW, folds: str = "") -> Row | None:
        """The row with these names, if there is one."""
        wanted = measure, rescaling, folds
        return next((row for row in self.rows if row.key == wanted), None)


def cell_of(answers: Answers, *, paper: str, headline: str, first: bool, seed: int = 0) -> Cell:
    """The rows of some answers.

    paper: the study's own line, a name in PLATT. headline: the measure for which every rescaling is tried.
    first: whether t is chosen. A cell in which too few are right, or too few answers are, has no rows.
    """
    why = _why_not(answers)
    if why:
        return Cell(answers, why)
    return _Rows(answers, seed).cell(paper, headline, first)


def _why_not(answers: Answers) -> str:
    if too_few_right(answers.right_of_asked, answers.asked):
        return f"omitted: {answers.right_of_asked} of {answers.asked} right, at most 1 %"
    if answers.n < FEWEST:
        return f"omitted: {answers.n} answers, fewer than {FEWEST}"
    if not both_sides(answers.correct, answers.found, frozenset()):
        return "omitted: nearly all answers are right, or nearly all are wrong"
    return ""


class _Rows:
    def __init__(self, answers: Answers, seed: int) -> None:
        self._answers = answers
        self._seed = seed
        self._resamples = Resamples(answers.correct, answers.groups, seed=seed)
        self._folds: dict[str, IntArray] = {
            APART: grouped_folds(answers.groups, FOLDS, seed=seed),
            RANDOM: random_folds(answers.n, seed),
        }

    def cell(self, paper: str, headline: str, first: bool) -> Cell:
        answers, y = self._answers, self._answers.correct
        found = {name: measure(answers) for name, measure in MEASURES.items()}
        raw = {name: values for name, values in found.items() if values is not None}
        lines = {
            (name, folds): platt_out_of_fold(np.stack(list(raw.values())), y, fold, input)
            for name, input in PLATT.items()
            for folds, fold in self._folds.items()
        }
        rows = []
        with quietly():
            for at, (name, values) in enumerate(raw.items()):
                rows.append(self._row(name, RAW, "", values))
                for (line, folds), confidence in lines.items():
                    if line == paper or name == headline:
                        rows.append(self._row(name, line, folds, confidence[at]))
                for other, fit in RESCALINGS.items():
                    if other == OURS or name == headline:
                        confidence_ = rescaled(values, y, self._folds[APART], fit)
                        rows.append(self._row(name, other, APART, confidence_))
            unskilled = self._row(UNSKILLED, RAW, "", np.full(y.size, float(np.mean(y))))
            # By definition: the base rate of other data would be another one.
            rows.append(attrs.evolve(unskilled, skill=Interval(0.0, None, None)))
            chosen = self._first(paper) if first else {}
            rows += [self._row(name, paper, APART, one.confidence) for name, one in chosen.items()]
        cell = Cell(
            answers=answers,
            rows=tuple(rows),
            missing=tuple(name for name, values in found.items() if values is None),
            first=chosen,
            correlations=_correlations(raw),
        )
        return self._tested(cell, paper) if chosen else cell

    def _row(self, measure: str, rescaling: str, folds: str, confidence: FloatArray) -> Row:
        skill = self._resamples.skill(confidence)
        # Whatever tells nothing is rescaled to the base rate, and then seems calibrated.
        told = rescaling == RAW or (skill.value is not None and skill.value >= LEAST_SKILL)
        return Row(
            measure=measure,
            rescaling=rescaling,
            folds=folds,
            brier=brier_score(confidence, self._answers.correct),
            skill=skill,
            ece=self._resamples.ece(confidence) if told and measure != UNSKILLED else None,
            auc=self._resamples.auc(confidence) if rescaling == RAW else None,
            confidence=confidence,
        )

    def _first(self, paper: str) -> dict[str, FirstTokens]:
        answers = self._answers
        if paper != "Platt on p" or min(answers.right, answers.n - answers.right) < FEWEST_TO_TEST:
            return {}
        of = answers.logprobs, answers.correct, answers.groups
        return {
            FIRST_T: first_tokens(*of, seed=self._seed),
            FIRST_T_ARITHMETIC: first_tokens(*of, arithmetic=True, seed=self._seed),
        }

    def _tested(self, cell: Cell, paper: str) -> Cell:
        all_tokens = cell.row("geometric-mean", paper, APART)
        assert all_tokens is not None
        chosen = cell.first[FIRST_T].confidence
        return attrs.evolve(
            cell,
            gain=self._resamples.skill_difference(chosen, all_tokens.confidence),
            p_value=paired_p_value(chosen, all_tokens.confidence, self._answers.correct),
        )


def _correlations(raw: Mapping[str, FloatArray]) -> dict[tuple[str, str], float]:
    names = list(raw)
    pairs = [(a, b) for at, a in enumerate(names) for b in names[at + 1 :]]
    found = {(a, b): rank_correlation(raw[a], raw[b]) for a, b in pairs}
    return {pair: value for pair, value in found.items() if value is not None}


@attrs.frozen(eq=False)
class Stated:
    """What a model says of its own answers, in one form.

    answers: those whose answer says something. invalid: the others. rows: raw, and by the study's line with
    groups apart and in random folds.
    above: the share of confidences over 0.9. half: the share of 0.5.
    """

    measure: str
    form: str
    answers: Answers
    invalid: int
    rows: tuple[Row, ...]
    above: float
    half: float
    why: str = ""


def stated(answers: Answers, paper: str, seed: int = 0) -> list[Stated]:
    """The forms of `reflective_scores.FORMS` that the records hold, in order."""
    from lsp_calib.evaluation.reflective_scores import FORMS

    listed = answers.header.observations
    if listed is None:
        return []
    seen = {record.item: listed.named(record.observed) for record in answers.found}
    found = []
    for measure, forms in FORMS.items():
        for form, value in forms.items():
            numbers = {item: value(one) for item, one in seen.items()}
            kept, raw = answers.having(numbers)
            if kept.n < FEWEST:
                continue
            asked = sum(any(name.startswith(f"{_PREFIX[measure]}.") for name in one) for one in seen.values())
            why = "" if both_sides(kept.correct, kept.found, frozenset()) else "too few right or wrong"
            above, half = float(np.mean(raw > 0.9)), float(np.mean(raw == 0.5))
            rows: tuple[Row, ...] = ()
            if not why:
                builder = _Rows(kept, seed)
                with quietly():
                    lines = {
                        folds: platt_out_of_fold(raw[None], kept.correct, fold, PLATT[paper])[0]
                        for folds, fold in builder._folds.items()
                    }
                    rescaled_ = (builder._row(measure, paper, folds, line) for folds, line in lines.items())
                    rows = (builder._row(measure, RAW, "", raw), *rescaled_)
            found.append(Stated(measure, form, kept, max(asked - kept.n, 0), rows, above, half, why))
    return found


_PREFIX = {"ask": "ask", "normalised": "ask", "verbalised": "verbalised", "scale": "scale"}


def number(value: float | None, digits: int = 6) -> float | None:
    """A number as it is written to files: rounded, so that the same run gives the same bytes."""
    return None if value is None or not math.isfinite(value) else round(float(value), digits) + 0.0


def interval_json(interval: Interval | None) -> dict[str, Any] | None:
    if interval is None:
        return None
    return {
        "value": number(interval.value),
        "low": number(interval.low),
        "high": number(interval.high),
        "kind": interval.kind,
    }


def row_json(row: Row, answers: Answers) -> dict[str, Any]:
    """A row as JSON types, without its confidences."""
    return {
        "measure": row.measure,
        "rescaling": row.rescaling,
        "folds": row.folds,
        "n": answers.n,
        "right": answers.right,
        "brier": number(row.brier),
        "skill": interval_json(row.skill),
        "ece": interval_json(row.ece),
        "auc": interval_json(row.auc),
    }


def cell_json(cell: Cell) -> dict[str, Any]:
    """A cell as JSON types."""
    answers, header = cell.answers, cell.answers.header
    document: dict[str, Any] = {
        "file": answers.file.name,
        "model": header.model.name,
        "quantisation": header.model.quantisation,
        "sha256": header.model.sha256,
        "language": header.language,
        "prompt": header.prompt_version,
        "condition": answers.condition,
        "judge": answers.judge,
        "asked": answers.asked,
        "n": answers.n,
        "right": answers.right,
        "groups": len(set(answers.groups)),
        "omitted": cell.why or None,
        "rows": [row_json(row, answers) for row in cell.rows],
        "missing": list(cell.missing),
    }
    if cell.first:
        document["first"] = {
            name: {
                "perFold": list(one.per_fold),
                "skillByT": [number(value) for value in one.skill_by_t],
                "allTokens": number(one.all_tokens),
            }
            for name, one in cell.first.items()
        }
        document["gain"] = interval_json(cell.gain)
        document["pValue"] = number(cell.p_value)
    if cell.correlations:
        document["correlations"] = [[a, b, number(value)] for (a, b), value in cell.correlations.items()]
    return document


def tested_together(cells: Sequence[Cell]) -> dict[str, float]:
    """The p-values of the cells' tests, adjusted for being many, by the answers' name."""
    from lsp_calib.evaluation.paper.numbers import adjusted

    tested = [cell for cell in cells if cell.p_value is not None]
    p_values = adjusted([cell.p_value for cell in tested if cell.p_value is not None])
    return {cell.answers.name: p for cell, p in zip(tested, p_values, strict=True)}
