"""Answers of models scored: each measure raw, as the studies rescale it, and as this project does.

One row for one confidence of some answers; one bootstrap over groups and one calibrated band for all rows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property, partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

import attrs
import numpy as np
import numpy.typing as npt
import scipy.stats
from sklearn.metrics import roc_curve
from sklearn.model_selection import KFold

from lsp_calib.calibration.arrays import BoolArray, FloatArray, IntArray, group_codes, quietly
from lsp_calib.calibration.logistic import LOOSE_PRIOR, PlattCalibrator
from lsp_calib.calibration.scores import auc, bin_index, brier_score, expected_calibration_error
from lsp_calib.calibration.validation import (
    FirstT,
    Fit,
    Interval,
    grouped_folds,
    held_out_predictions,
    percentile_interval,
    select_first_t,
)
from lsp_calib.completion.prompt import PLAIN_VERSION
from lsp_calib.confidence.features import arithmetic_mean, geometric_mean, raw_confidences
from lsp_calib.corpus.header import Header
from lsp_calib.corpus.records import Record, groups_of, read_records
from lsp_calib.corpus.tasks import FEWEST
from lsp_calib.corpus.thresholds import judged
from lsp_calib.errors import DataError
from lsp_calib.files import read_file
from lsp_calib.json_text import parse_json
from lsp_calib.studies.baselines import entropy_confidence, length_confidence, relative_length
from lsp_calib.studies.other_curves import (
    BetaCalibrator,
    HistogramCalibrator,
    IsotonicCalibrator,
    TemperatureCalibrator,
)
from lsp_calib.studies.reflective_scores import FORMS
from lsp_calib.studies.scores import LEAST_SKILL, both_sides, too_few_right
from lsp_calib.studies.tasks import REPAIR, SYNTHESIS

FOLDS = 5
RESAMPLES = 1000
FIRST = tuple(range(1, 20))
"""The numbers of first tokens that Virk et al. try; a shorter answer uses all it has."""

OURS = "Platt on log-odds, prior"
"""How this project rescales a single measure; see `scores.fit_curve`."""

PLATT: Mapping[str, Fit] = MappingProxyType(
    {
        "Platt on ln p": partial(PlattCalibrator.maximum_likelihood, input="log-p"),
        "Platt on p": partial(PlattCalibrator.maximum_likelihood, input="p"),
        "Platt on log-odds": partial(PlattCalibrator.maximum_likelihood, input="log-odds"),
    }
)
"""Plain maximum likelihood over each input: Spiess et al. fit on ln p, Virk et al. on p."""

RESCALINGS: Mapping[str, Fit] = MappingProxyType(
    {
        OURS: partial(PlattCalibrator.fit, prior=LOOSE_PRIOR),
        "temperature": partial(TemperatureCalibrator.fit, spread=1e6),
        "isotonic": partial(IsotonicCalibrator.fit, ends=False),
        "histogram": HistogramCalibrator.fit,
        "beta": BetaCalibrator.fit,
    }
)


def random_folds(n: int, seed: int = 0) -> IntArray:
    """Five random folds of n items, whatever they belong to, as Spiess et al. have them. Shape (n,)."""
    fold = np.empty(n, dtype=np.intp)
    split = KFold(FOLDS, shuffle=True, random_state=seed).split(np.zeros(n))
    for k, (_, test) in enumerate(split):
        fold[test] = k
    return fold


def _skills(confidence: FloatArray, correct: BoolArray) -> FloatArray:
    """The skill of each row, shape (m,); nan if all are of one class."""
    rate = float(np.mean(correct))
    reference = rate * (1.0 - rate)
    brier = np.mean((confidence - correct) ** 2, axis=1)
    return 1.0 - brier / reference if reference else np.full(brier.size, np.nan)


class Resamples:
    """The same resamples of whole groups, for the interval of every number of some answers.

    A resample is the number of times that each group is drawn, so that sums over items are products of
    matrices. The draws are those of `bootstrap_interval` with the same seed, and so are the intervals.
    """

    def __init__(
        self, correct: BoolArray, groups: npt.ArrayLike, *, count: int = RESAMPLES, seed: int = 0
    ) -> None:
        self.correct = correct
        self._codes = group_codes(groups, correct.size)
        k = int(self._codes.max()) + 1
        rng = np.random.default_rng(seed)
        self._drawn = np.array([np.bincount(rng.integers(k, size=k), minlength=k) for _ in range(count)])
        self._enough = k >= 2
        self._n = self._sums(np.ones(correct.size))
        rate = self._sums(correct.astype(np.float64)) / self._n
        self._reference = rate * (1.0 - rate)
        self._dice = np.random.default_rng(seed).random((count, correct.size), dtype=np.float32)

    def skill(self, confidence: FloatArray) -> Interval:
        """The Brier skill score."""
        return self._interval(_skills(confidence[None], self.correct)[0], self.skills(confidence))

    def skill_difference(self, first: FloatArray, second: FloatArray) -> Interval:
        """The skill of the first minus that of the second, on the same resamples."""
        value = _skills(np.stack((first, second)), self.correct)
        return self._interval(value[0] - value[1], self.skills(first) - self.skills(second))

    def mean(self, values: FloatArray) -> Interval:
        """The mean of numbers of the items, shape (n,)."""
        return self._interval(float(np.mean(values)), self._sums(values) / self._n)

    def ratio(self, numerator: FloatArray, denominator: FloatArray) -> Interval:
        """The sum of one number of the items over that of another; both of shape (n,)."""
        below = self._sums(denominator)
        found = np.divide(self._sums(numerator), below, out=np.full(below.size, np.nan), where=below != 0.0)
        total = float(np.sum(denominator))
        return self._interval(float(np.sum(numerator)) / total if total else np.nan, found)

    def auc(self, confidence: FloatArray) -> Interval:
        """The area under the ROC curve."""
        # By pairs of groups: how often a right answer of the one is above a wrong one of the other.
        of_right, right = self._codes[self.correct], confidence[self.correct]
        of_wrong, wrong = self._codes[~self.correct], confidence[~self.correct]
        k = self._drawn.shape[1]
        between = np.zeros((k, k))
        for group in np.unique(of_wrong):
            below = np.sort(wrong[of_wrong == group])
            above = np.searchsorted(below, right, "left") + np.searchsorted(below, right, "right")
            between[:, group] = np.bincount(of_right, weights=above / 2.0, minlength=k)
        ranked = np.einsum("rg,gh,rh->r", self._drawn, between, self._drawn, optimize=True)
        positive = self._sums(self.correct.astype(np.float64))
        pairs = positive * (self._n - positive)
        found = np.divide(ranked, pairs, out=np.full(pairs.size, np.nan), where=pairs > 0)
        return self._interval(auc(confidence, self.correct), found)

    def ece(self, confidence: FloatArray) -> Interval:
        """The ECE, and the range that it would have if each confidence were exactly right."""
        index = bin_index(confidence, 10, "width")
        inside = (index[:, None] == np.arange(10)).astype(np.float32)
        hits = (self._dice < confidence.astype(np.float32)).astype(np.float32) @ inside
        expected = np.bincount(index, weights=confidence, minlength=10)
        drawn = np.abs(hits - expected).sum(axis=1) / confidence.size
        value = expected_calibration_error(confidence, self.correct)
        return percentile_interval(value, drawn, "calibrated-band")

    def skills(self, confidence: FloatArray) -> FloatArray:
        """The skill on each resample, shape (count,)."""
        brier = self._sums((confidence - self.correct) ** 2) / self._n
        reference = self._reference
        missed = np.divide(brier, reference, out=np.full(brier.size, np.nan), where=reference > 0.0)
        return np.asarray(1.0 - missed)

    def _sums(self, values: FloatArray) -> FloatArray:
        """The sum over each resample, shape (count,)."""
        summed: FloatArray = self._drawn @ np.bincount(self._codes, weights=values)
        return summed

    def _interval(self, value: float, drawn: FloatArray) -> Interval:
        if not self._enough:
            drawn = np.full(drawn.size, np.nan)
        return percentile_interval(float(value), drawn)


def paired_p_value(first: FloatArray, second: FloatArray, correct: BoolArray) -> float:
    """The two-sided p of a paired t-test on the squared errors of two confidences; 1 if they are the same.

    Items count as independent, as in Virk et al. 2024, 4.7; see `Resamples.skill_difference` for groups.
    """
    differences = (first - correct) ** 2 - (second - correct) ** 2
    if np.ptp(differences) == 0.0:
        return 1.0
    return float(scipy.stats.ttest_1samp(differences, 0.0).pvalue)


def adjusted(p_values: Sequence[float]) -> list[float]:
    """p-values adjusted for being many: significant at a level alpha where this is at most alpha.

    Source: Benjamini & Hochberg 1995.
    """
    if not p_values:
        return []
    found: list[float] = scipy.stats.false_discovery_control(p_values, method="bh").tolist()
    return found


def rank_correlation(a: npt.ArrayLike, b: npt.ArrayLike) -> float | None:
    """Spearman's correlation; None for fewer than 3 items, or if one of the two is constant."""
    x, y = np.asarray(a, dtype=np.float64), np.asarray(b, dtype=np.float64)
    if x.size < 3 or np.ptp(x) == 0.0 or np.ptp(y) == 0.0:
        return None
    return float(scipy.stats.spearmanr(x, y).statistic)


def roc(confidence: FloatArray, correct: BoolArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """False and true positive rates, ascending, and the thresholds from which on an answer is accepted."""
    false, true, thresholds = roc_curve(correct, confidence)
    return false, true, thresholds


Question = tuple[str, ...]
"""Task, language, model, quantisation, prompt and a study's condition, and the data set of a task that has
several, and whether a project's tests judge a line: what files of one question share."""


@attrs.frozen(eq=False)
class File:
    """A file of records. name: its path below the folder. size: its records. condition: of a study's lines,
    of which a file holds one. tested: whether it is of lines that were judged by tests, too."""

    name: str
    path: Path
    header: Header
    size: int
    condition: str = ""
    tested: bool = False

    @property
    def question(self) -> Question:
        header = self.header
        model = header.model
        known = header.task, header.language, model.name, model.quantisation, header.prompt_version
        tested = ("tests",) if self.tested else ()
        return (*known, self.condition, *tested, *self.data_sets)

    @property
    def data_sets(self) -> tuple[str, ...]:
        """The data set, of a task that has several."""
        several = self.header.task in (SYNTHESIS, REPAIR)
        return tuple(source.name for source in self.header.sources if several)

    @cached_property
    def records(self) -> list[Record]:
        """Its records, summaries judged by the thresholds that ship. Raises DataError as `read_records`."""
        return judged(*read_records(self.path))


def find_files(folder: Path, model: str | None = None) -> list[File]:
    """All files of records in a folder and those below it, by name.

    model: only those of this model. Files of other kinds are left out. Raises DataError if the folder holds
    no records, or none of the model.
    """
    found = []
    for path in sorted(folder.rglob("*.jsonl")):
        try:
            lines = read_file(path).splitlines()
            header = Header.from_row(parse_json(lines[0]))
            condition = ""
            tested = False
            if header.task == "line":
                first = parse_json(lines[1])
                tested = "tests" in first["correct"]
                condition = first["condition"] if header.prompt_version == PLAIN_VERSION else ""
        except (OSError, IndexError, ValueError, TypeError, KeyError, AttributeError):
            continue
        found.append(
            File(path.relative_to(folder).as_posix(), path, header, len(lines) - 1, condition, tested)
        )
    if not found:
        raise DataError(
            f"There are no records in {folder} or below it. Name a folder such as models/records."
        )
    models = sorted({file.header.model.name for file in found})
    if model is not None and model not in models:
        raise DataError(f"{folder} holds no records of the model {model!r}; there are {', '.join(models)}.")
    return [file for file in found if model in (None, file.header.model.name)]


def largest(files: Sequence[File]) -> list[File]:
    """Of the files that answer one question the one with the most answers; among equals the first by name."""
    best: dict[Question, File] = {}
    for file in files:
        if file.question not in best or file.size > best[file.question].size:
            best[file.question] = file
    return [file for file in files if best[file.question] is file]


@attrs.frozen(eq=False)
class Answers:
    """The answers to one question that count, judged by one criterion.

    asked: items; found: those with an answer and believable probabilities. condition: "" where there is one.
    correct: bool array of shape (n,). groups: of each answer; kept together in folds.
    """

    file: File
    condition: str
    judge: str
    asked: int
    right_of_asked: int
    found: tuple[Record, ...]
    correct: BoolArray
    groups: tuple[str, ...]

    @property
    def header(self) -> Header:
        return self.file.header

    @property
    def n(self) -> int:
        return self.correct.size

    @property
    def right(self) -> int:
        return int(np.count_nonzero(self.correct))

    @cached_property
    def logprobs(self) -> list[tuple[float, ...]]:
        return [record.logprobs_given_typed for record in self.found]

    @property
    def name(self) -> str:
        """Such as "qwen2.5-coder-1.5b, line-fim-1, inserting, right: exact"."""
        header = self.header
        language = f" {header.language}" if header.task == "summary" else ""
        parts = (header.prompt_version, *self.file.data_sets, self.condition, self.judge)
        return ", ".join(part for part in (f"{header.model.name}{language}", *parts) if part)

    @property
    def stem(self) -> str:
        """A name for files."""
        return self.name.replace(", ", "-").replace(" ", "-")

    def having(self, numbers: Mapping[str, float | None]) -> tuple[Answers, FloatArray]:
        """The answers that have a number, and it: shape (m,). numbers: by item."""
        pairs = [(at, numbers[record.item]) for at, record in enumerate(self.found)]
        known = [(at, number) for at, number in pairs if number is not None]
        at = [place for place, _ in known]
        kept = attrs.evolve(
            self,
            found=tuple(self.found[place] for place in at),
            correct=self.correct[at],
            groups=tuple(self.groups[place] for place in at),
        )
        return kept, np.array([number for _, number in known], dtype=np.float64)


def answers_of(file: File, judges: Sequence[str] | None = None) -> list[Answers]:
    """The answers of a file, by condition and criterion. judges: only these criteria."""
    records = file.records
    conditions = sorted({record.condition for record in records})
    found = []
    for condition in conditions:
        asked = [record for record in records if record.condition == condition]
        counted = [record for record in asked if record.shown and record.logprobs]
        groups = tuple(groups_of(counted))
        known = sorted({judge for record in asked for judge in record.correct})
        for judge in known if judges is None else [judge for judge in judges if judge in known]:
            found.append(
                Answers(
                    file=file,
                    condition=condition if file.header.task == "line" else "",
                    judge=judge,
                    asked=len(asked),
                    right_of_asked=sum(record.correct.get(judge, False) for record in asked),
                    found=tuple(counted),
                    correct=np.array([record.correct[judge] for record in counted], dtype=np.bool_),
                    groups=groups,
                )
            )
    return found


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


_OF_TOKENS = "total", "arithmetic-mean", "geometric-mean", "minimum", "geometric-mean-lowest-3"
MEASURES: Mapping[str, Measure] = MappingProxyType(
    {
        **{name: _of_tokens(name) for name in _OF_TOKENS},
        "entropy": _entropy,
        "length": _length,
        "length-in-data-set": _relative_length,
    }
)
"""Measures by name. One that the records do not hold is None there, and its row says so."""


RowKey = tuple[str, str, str]
"""Measure, rescaling and folds."""


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
    def key(self) -> RowKey:
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
    first: Mapping[str, FirstT] = attrs.field(factory=dict)
    gain: Interval | None = None
    p_value: float | None = None
    correlations: Mapping[tuple[str, str], float] = attrs.field(factory=dict)

    def row(self, measure: str, rescaling: str = RAW, folds: str = "") -> Row | None:
        """The row with these names, if there is one."""
        wanted = measure, rescaling, folds
        return next((row for row in self.rows if row.key == wanted), None)

    def known(self, measure: str, rescaling: str = RAW, folds: str = "") -> Row:
        """A row that every cell with rows has: of a mean or product of probabilities, by the study's line."""
        row = self.row(measure, rescaling, folds)
        assert row is not None
        return row

    def skill_of_all(self, first: str) -> float | None:
        """The skill that the mean of the first tokens has if all of them count. first: a key of `first`."""
        row = self.row(first.removesuffix("-first-t"), "Platt on p", APART)
        return None if row is None else row.skill.value


def cell_of(answers: Answers, *, paper: str, headline: str, first: bool, seed: int = 0) -> Cell:
    """The rows of some answers.

    paper: the study's own line, a name in PLATT. headline: the measure for which every rescaling is tried.
    first: whether t is chosen. A cell in which too few are right, or too few answers are, has no rows.
    """
    why = _why_not(answers)
    if why:
        return Cell(answers, why)
    return Rows(answers, seed).cell(paper, headline, first)


def _why_not(answers: Answers) -> str:
    if too_few_right(answers.right_of_asked, answers.asked):
        return f"omitted: {answers.right_of_asked} of {answers.asked} right, at most 1 %"
    if answers.n < FEWEST:
        return f"omitted: {answers.n} answers, fewer than {FEWEST}"
    if not both_sides(answers.correct, answers.found, frozenset()):
        return "omitted: nearly all answers are right, or nearly all are wrong"
    return ""


class Rows:
    """Makes the rows of some answers."""

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
        rows = []
        with quietly():
            for name, values in raw.items():
                rows.append(self._row(name, RAW, "", values))
                for line in PLATT:
                    if line == paper or name == headline:
                        rows += self._platt(name, values, line)
                for other, fit in RESCALINGS.items():
                    if other == OURS or name == headline:
                        confidence = held_out_predictions(values, y, self._folds[APART], fit)
                        rows.append(self._row(name, other, APART, confidence))
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

    def of_one(self, measure: str, raw: FloatArray, paper: str) -> tuple[Row, ...]:
        """The rows of one further confidence, shape (n,): raw, and by the study's line in both folds."""
        with quietly():
            return self._row(measure, RAW, "", raw), *self._platt(measure, raw, paper)

    def _platt(self, measure: str, raw: FloatArray, line: str) -> list[Row]:
        """The rows of a confidence by a name in PLATT, in both folds."""
        correct = self._answers.correct
        return [
            self._row(measure, line, folds, held_out_predictions(raw, correct, fold, PLATT[line]))
            for folds, fold in self._folds.items()
        ]

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

    def _first(self, paper: str) -> dict[str, FirstT]:
        answers = self._answers
        if paper != "Platt on p" or min(answers.right, answers.n - answers.right) < FEWEST_TO_TEST:
            return {}
        of = answers.logprobs, answers.correct, answers.groups, FIRST
        return {
            name: select_first_t(*of, fit=PLATT[paper], folds=FOLDS, seed=self._seed, mean=mean)
            for name, mean in ((FIRST_T, geometric_mean), (FIRST_T_ARITHMETIC, arithmetic_mean))
        }

    def _tested(self, cell: Cell, paper: str) -> Cell:
        both = cell.first[FIRST_T].confidence, cell.known("geometric-mean", paper, APART).confidence
        return attrs.evolve(
            cell,
            gain=self._resamples.skill_difference(*both),
            p_value=paired_p_value(*both, self._answers.correct),
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
    """The forms of `FORMS` that the records hold, in order."""
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
                rows = Rows(kept, seed).of_one(measure, raw, paper)
            found.append(Stated(measure, form, kept, max(asked - kept.n, 0), rows, above, half, why))
    return found


_PREFIX = {"ask": "ask", "normalised": "ask", "verbalised": "verbalised", "scale": "scale"}


def number(value: float | None, digits: int = 6) -> float | None:
    """A number as it is written to files: rounded, so that the same run gives the same bytes."""
    return None if value is None or not math.isfinite(value) else round(float(value), digits) + 0.0


def interval_json(interval: Interval | None) -> dict[str, Any] | None:
    if interval is None:
        return None
    bounds = {name: number(getattr(interval, name)) for name in ("value", "low", "high")}
    return {**bounds, "kind": interval.kind}


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
                "skillByT": [number(value) for _, value in one.skill_by_first],
                "allTokens": number(cell.skill_of_all(name)),
            }
            for name, one in cell.first.items()
        }
        document["gain"] = interval_json(cell.gain)
        document["pValue"] = number(cell.p_value)
    if cell.correlations:
        document["correlations"] = [[a, b, number(value)] for (a, b), value in cell.correlations.items()]
    return document


def adjusted_p_values(cells: Sequence[Cell]) -> dict[str, float]:
    """The p-values of the cells' tests, adjusted for being many, by the answers' name."""
    tested = [cell for cell in cells if cell.p_value is not None]
    p_values = adjusted([cell.p_value for cell in tested if cell.p_value is not None])
    return {cell.answers.name: p for cell, p in zip(tested, p_values, strict=True)}
