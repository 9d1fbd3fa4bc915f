"""Answers of models scored: each measure raw, as the studies rescale it, and as this project does.

One row for each confidence of some answers; one bootstrap over groups and one calibrated band for all rows.
A confidence is kept as its natural logarithm, so that the probability of a long answer loses nothing.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

import attrs
import numpy as np
import numpy.typing as npt

from lsp_calib.calibration.arrays import BoolArray, FloatArray, IntArray, quietly
from lsp_calib.calibration.scores import brier_score
from lsp_calib.calibration.validation import FirstT, Interval, grouped_folds, select_first_t
from lsp_calib.completion.prompt import PLAIN_VERSION
from lsp_calib.corpus.functions import SUMMARY
from lsp_calib.corpus.places import FEWEST
from lsp_calib.corpus.records import Header, Record, groups_of, read_records
from lsp_calib.corpus.thresholds import judged
from lsp_calib.errors import DataError
from lsp_calib.files import read_file
from lsp_calib.json_text import parse_json
from lsp_calib.studies.measures import REFLECTIVE, Form
from lsp_calib.studies.published import Quoted
from lsp_calib.studies.statistics import (
    FOLDS,
    ON_P,
    OURS,
    RESAMPLES,
    RESCALINGS,
    Corrected,
    Platt,
    Resamples,
    adjusted,
    corrected_skill,
    held_out,
    line,
    paired_p_value,
    random_folds,
    rank_correlation,
)
from lsp_calib.studies.tables import Section
from lsp_calib.studies.tasks import LEFT_OUT, REPAIR, SYNTHESIS

PAPER, EDITOR = "paper", "editor"
Profile = Literal["paper", "editor"]
"""Which answers count. paper: of every item asked, under the study's conditions; editor: of those shown."""


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
    def question(self) -> tuple[str, ...]:
        """What files of one question share: also whether a project's tests judge its lines."""
        header = self.header
        asked = header.task, header.language, header.model.name, header.model.quantisation
        tested = ("tests",) if self.tested else ()
        return (*asked, header.prompt_version, self.condition, *tested, *self.data_sets)

    @property
    def data_sets(self) -> tuple[str, ...]:
        """The data set, of a task that has several."""
        several = self.header.task in (SYNTHESIS, REPAIR)
        return tuple(source.name for source in self.header.sources if several)

    @property
    def profile(self) -> Profile:
        """Whether its records were made as a study asks, or as an editor does."""
        header = self.header
        studied = header.task in (SYNTHESIS, REPAIR, SUMMARY) or header.prompt_version == PLAIN_VERSION
        return "paper" if studied else "editor"

    @cached_property
    def records(self) -> list[Record]:
        """Its records, summaries judged by the thresholds that ship. Raises DataError as `read_records`."""
        records = judged(*read_records(self.path))
        return [record for record in records if record.item not in LEFT_OUT]


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
            first: dict[str, Any] = {"correct": (), "condition": ""}
            if header.task == "line":
                first = parse_json(lines[1])
            condition = first["condition"] if header.prompt_version == PLAIN_VERSION else ""
            tested = "tests" in first["correct"]
        except (OSError, IndexError, ValueError, TypeError, KeyError, AttributeError):
            continue
        name = path.relative_to(folder).as_posix()
        found.append(File(name, path, header, len(lines) - 1, condition, tested))
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
    best: dict[tuple[str, ...], File] = {}
    for file in sorted(files, key=lambda file: -file.size):
        best.setdefault(file.question, file)
    return [file for file in files if best[file.question] is file]


@attrs.frozen(eq=False)
class Answers:
    """The answers to one question that count, judged by one criterion.

    profile: which count. asked: items. found: those that count. condition: "" where there is one.
    correct: bool array of shape (n,). groups: of each answer; kept together in folds.
    """

    file: File
    profile: Profile
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

    def _judged(self, record: Record) -> int | None:
        """How many tokens count, those of what was judged: of a summary its first sentence; None: all, as in
        an editor's confidence."""
        return record.judged_tokens if self.profile == "paper" else None

    @cached_property
    def logprobs(self) -> list[tuple[float, ...]]:
        """Of the tokens that count."""
        return [record.logprobs_given_typed[: self._judged(record)] for record in self.found]

    @cached_property
    def entropies(self) -> list[tuple[float, ...]]:
        """Of the same tokens."""
        return [record.entropies[: self._judged(record)] for record in self.found]

    @cached_property
    def empty(self) -> BoolArray:
        """Which answers have no token, shape (n,): their confidence is 0, raw and rescaled."""
        return np.array([not item for item in self.logprobs], dtype=np.bool_)

    @cached_property
    def padded(self) -> FloatArray:
        """The log-probabilities of all tokens, shape (n, most tokens), nan behind an answer's last one."""
        found = np.full((self.n, max(map(len, self.logprobs), default=0)), np.nan)
        for row, item in zip(found, self.logprobs, strict=True):
            row[: len(item)] = item
        return found

    @property
    def name(self) -> str:
        """Such as "qwen2.5-coder-1.5b, line-fim-1, inserting, right: exact"."""
        header = self.header
        language = f" {header.language}" if header.task == SUMMARY else ""
        parts = (header.prompt_version, *self.file.data_sets, self.condition, self.judge)
        return ", ".join(part for part in (f"{header.model.name}{language}", *parts) if part)

    @property
    def stem(self) -> str:
        """A name for files."""
        return self.name.replace(", ", "-").replace(" ", "-")

    def part(self, at: IntArray) -> Answers:
        """Those at some indices."""
        kept, groups = (tuple(values[place] for place in at) for values in (self.found, self.groups))
        return attrs.evolve(self, found=kept, correct=self.correct[at], groups=groups)


def answers_of(file: File, judges: Sequence[str] | None = None) -> list[Answers]:
    """The answers of a file, by condition and criterion. judges: only these criteria."""
    found = []
    for condition in sorted({record.condition for record in file.records}):
        asked = [record for record in file.records if record.condition == condition]
        known = sorted({judge for record in asked for judge in record.correct})
        named = condition if file.header.task == "line" else ""
        for judge in known if judges is None else [judge for judge in judges if judge in known]:
            found.append(judged_by(judge, file, asked, file.profile, named))
    return found


def judged_by(
    judge: str, file: File, asked: Sequence[Record], profile: Profile, condition: str = ""
) -> Answers:
    """The answers among some records of a file that count, by one criterion.

    Answers whose probabilities are missing or unreliable never count. Raises DataError if some of the answers
    were not judged by the criterion.
    """
    if profile == "editor":
        counted = [record for record in asked if record.shown and record.logprobs]
    else:
        # Without a token there is nothing that could be unreliable.
        counted = [record for record in asked if record.logprobs or not record.tokens]
    try:
        correct = np.array([record.correct[judge] for record in counted], dtype=np.bool_)
    except KeyError as error:
        raise DataError(
            f"Some records were judged by {judge} and others were not. Ask again, into another folder."
        ) from error
    return Answers(
        *(file, profile, condition, judge, len(asked)),
        right_of_asked=sum(record.correct.get(judge, False) for record in asked),
        found=tuple(counted),
        correct=correct,
        groups=tuple(groups_of(counted)),
    )


RAW, RANDOM, APART, HELD_OUT = "raw", "random", "apart", "held-out"
UNSKILLED = "unskilled"
FIRST_T = "geometric-mean-first-t"
FIRST_T_ARITHMETIC = "arithmetic-mean-first-t"
ALL = "all"
FIRST = tuple(range(1, 20))
"""The numbers of first tokens that Virk et al. try; a shorter answer uses all it has."""
# A choice of t, and a test of it, with fewer right or wrong answers than this says nothing.
FEWEST_TO_TEST = 10
# Rescaled, a confidence that tells nothing becomes the base rate, and its ECE nearly 0. Below this skill no
# ECE is given, and no row where at most this share of what was asked is right. Source: Spiess et al. 2024.
LEAST_SKILL = 0.05
LEAST_RIGHT = 0.01

Measure = Callable[[Answers], FloatArray | None]
"""The natural logarithm of each answer's confidence, shape (n,): nan without a token, or where the model said
nothing of it; None where the records do not hold it."""


def _log(values: npt.ArrayLike) -> FloatArray:
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(values))


def _mean(values: FloatArray) -> FloatArray:
    """Of each row's numbers, shape (n,); nan where it has none."""
    return np.asarray(np.nansum(values, axis=1) / np.count_nonzero(~np.isnan(values), axis=1))


def _entropy(answers: Answers) -> FloatArray | None:
    """Minus the mean entropy, the expected logarithm of the geometric mean if each token is sampled: the
    token-wise entropy of Malinin & Gales 2021, on the scale of a probability."""
    if not all(one or empty for one, empty in zip(answers.entropies, answers.empty, strict=True)):
        return None
    # Rounded as a probability is: where all tokens are sure, smaller differences tell nothing.
    known = [math.log(math.exp(-math.fsum(one) / len(one))) if one else np.nan for one in answers.entropies]
    return np.array(known)


def _length(answers: Answers) -> FloatArray | None:
    """1 for as many characters as the shortest reference has or fewer, 0 for as many as the longest.

    It needs the right answers, so it is only a baseline, not a measure for use. Spiess et al. 2024, 4.1.3.
    """
    lengths = _characters(answers)
    references = np.array([record.reference_characters for record in answers.found], dtype=np.float64)
    # A difference is no number, either, where one of them is missing.
    if lengths is None or not np.ptp(references) > 0.0:
        return None
    return _log(np.clip((references.max() - lengths) / np.ptp(references), 0.0, 1.0))


def _relative_length(answers: Answers) -> FloatArray | None:
    """0 for the shortest answer, 1 for the longest: the paper's other description, 3.1.2."""
    lengths = _characters(answers)
    if lengths is None or np.ptp(lengths) == 0.0:
        return None
    return _log((lengths - lengths.min()) / np.ptp(lengths))


def _characters(answers: Answers) -> FloatArray | None:
    found = np.array([record.characters for record in answers.found], dtype=np.float64)
    return None if np.isnan(found).any() else found


def _said(observation: str, form: Form) -> Measure:
    """What the model says of its answer."""

    def confidence(answers: Answers) -> FloatArray | None:
        listed = answers.header.observations
        if listed is None or not any(observation in record.observed for record in answers.found):
            return None
        said = (form(listed.named(record.observed)) for record in answers.found)
        values = _log([np.nan if one is None else one for one in said])
        return values if np.count_nonzero(~np.isnan(values)) >= FEWEST else None

    return confidence


MEASURES: Mapping[str, Measure] = MappingProxyType(
    {
        "total": lambda answers: np.where(answers.empty, np.nan, np.nansum(answers.padded, axis=1)),
        "arithmetic-mean": lambda answers: _log(np.minimum(_mean(np.exp(answers.padded)), 1.0)),
        "geometric-mean": lambda answers: _mean(answers.padded),
        "minimum": lambda answers: np.sort(answers.padded, axis=1)[:, 0],
        "geometric-mean-lowest-3": lambda answers: _mean(np.sort(answers.padded, axis=1)[:, :3]),
        "entropy": _entropy,
        "length": _length,
        "length-in-data-set": _relative_length,
        **{name: _said(*said) for name, said in REFLECTIVE.items()},
    }
)
"""Measures by name."""


@attrs.frozen(eq=False)
class Row:
    """One confidence of some answers.

    rescaling: RAW or a name in RESCALINGS. folds: RANDOM, APART (whole groups), HELD_OUT (fitted on all
    others), "" where nothing is fitted. stratum: the kind of place, or ALL. ece: None where it is omitted.
    auc: of raw rows, and of all that `eval TASK` shows. at: indices of these answers, shape (n,); confidence,
    correct: of them. invalid: further answers, of which the model said nothing.
    """

    judge: str
    measure: str
    rescaling: str
    folds: str
    stratum: str
    brier: float
    skill: Interval
    ece: Interval | None
    auc: Interval | None
    confidence: FloatArray
    correct: BoolArray
    at: IntArray
    invalid: int = 0

    @property
    def key(self) -> tuple[str, str, str]:
        return self.measure, self.rescaling, self.folds

    @property
    def n(self) -> int:
        return self.correct.size

    @property
    def right(self) -> int:
        return int(np.count_nonzero(self.correct))

    @property
    def above(self) -> float:
        """The share of confidences over 0.9."""
        return float(np.mean(self.confidence > 0.9))

    @property
    def half(self) -> float:
        """The share of 0.5: of a stated probability often the want of one."""
        return float(np.mean(self.confidence == 0.5))

    def to_json(self) -> dict[str, Any]:
        """Without its confidences."""
        named = ("judge", "measure", "rescaling", "folds", "stratum", "n", "right", "invalid")
        return {
            **{name: getattr(self, name) for name in named},
            **{name: number(getattr(self, name)) for name in ("above", "half", "brier")},
            **{name: interval_json(getattr(self, name)) for name in ("skill", "ece", "auc")},
        }


class Rows:
    """Makes the rows of some answers."""

    def __init__(
        self, answers: Answers, seed: int = 0, *, count: int = RESAMPLES, areas: bool = False
    ) -> None:
        """count: of resamples. areas: whether rescaled rows have an AUC, too."""
        self.answers = answers
        self.resamples = Resamples(answers.correct, answers.groups, count=count, seed=seed)
        self._seed, self._count, self._areas = seed, count, areas
        self._parts: dict[bytes, Rows] = {}

    @cached_property
    def folds(self) -> dict[str, IntArray]:
        """The fold of each answer, shape (n,)."""
        return {
            APART: grouped_folds(self.answers.groups, FOLDS, seed=self._seed),
            RANDOM: random_folds(self.answers.n, self._seed),
        }

    @cached_property
    def logs(self) -> dict[str, FloatArray]:
        """The measures that the records hold: natural logarithms of confidences, of shape (n,)."""
        with np.errstate(all="ignore"):
            found = {name: measure(self.answers) for name, measure in MEASURES.items()}
        return {name: values for name, values in found.items() if values is not None}

    def of(self, measure: str, rescaling: str = RAW, folds: str = "") -> Row:
        """The row of a measure in `logs`."""
        maker = self.part_of(measure)
        if maker is not self:
            at = np.flatnonzero(~np.isnan(self.logs[measure]))
            row = maker.of(measure, rescaling, folds)
            return attrs.evolve(row, at=at, invalid=self.answers.n - at.size)
        log_p = self.logs[measure]
        if rescaling == RAW:
            confidence = np.where(np.isnan(log_p), 0.0, np.exp(log_p))
        else:
            confidence = held_out(log_p, self.answers.correct, self.folds[folds], RESCALINGS[rescaling])
        return self.row(measure, rescaling, folds, confidence)

    def part_of(self, measure: str) -> Rows:
        """Itself; for what the model says of its answers, the rows of those of which it said something."""
        known = ~np.isnan(self.logs[measure])
        if measure not in REFLECTIVE or known.all():
            return self
        key = known.tobytes()
        if key not in self._parts:
            part = self.answers.part(np.flatnonzero(known))
            self._parts[key] = Rows(part, self._seed, count=self._count, areas=self._areas)
        return self._parts[key]

    def row(
        self, measure: str, rescaling: str, folds: str, confidence: FloatArray, stratum: str = ALL
    ) -> Row:
        """The row of a confidence, shape (n,)."""
        correct = self.answers.correct
        with quietly():
            skill = self.resamples.skill(confidence)
            # Whatever tells nothing is rescaled to the base rate, and then seems calibrated.
            told = rescaling == RAW or (skill.value is not None and skill.value >= LEAST_SKILL)
            area = rescaling == RAW or self._areas
            return Row(
                *(self.answers.judge, measure, rescaling, folds, stratum),
                brier=brier_score(confidence, correct),
                skill=skill,
                ece=self.resamples.ece(confidence) if told and measure != UNSKILLED else None,
                auc=self.resamples.auc(confidence) if area else None,
                confidence=confidence,
                correct=correct,
                at=np.arange(correct.size),
            )


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
    maker: Rows | None = None

    @property
    def model(self) -> str:
        return self.answers.header.model.name

    @property
    def rescaled(self) -> Rows:
        """Of a cell that has rows."""
        assert self.maker is not None
        return self.maker

    @property
    def resamples(self) -> Resamples:
        return self.rescaled.resamples

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
        row = self.row(first.removesuffix("-first-t"), ON_P, APART)
        return None if row is None else row.skill.value

    def corrected(self, measure: str, rescaling: str, folds: str, draws: int = 200) -> Corrected:
        """The skill of a row of a study's line, corrected for its bias; see `corrected_skill`."""
        maker, platt = self.rescaled.part_of(measure), RESCALINGS[rescaling]
        assert isinstance(platt, Platt)
        of = maker.logs[measure], maker.folds[folds], platt, maker.resamples
        return corrected_skill(*of, draws=draws)


def cell_of(answers: Answers, *, paper: str, headline: str, first: bool, seed: int = 0) -> Cell:
    """The rows of some answers.

    paper: the study's own rescaling. headline: the measure for which every rescaling is tried. first: whether
    t is chosen. A cell in which too few are right, or too few answers are, has no rows.
    """
    why = why_not(answers)
    if why:
        return Cell(answers, why)
    maker = Rows(answers, seed)
    rows = []
    for name in maker.logs:
        rows.append(maker.of(name))
        for other in RESCALINGS:
            if other == paper or name == headline:
                rows += [maker.of(name, other, folds) for folds in (RANDOM, APART)]
            elif other == OURS:
                rows.append(maker.of(name, other, APART))
    unskilled = maker.row(UNSKILLED, RAW, "", np.full(answers.n, float(np.mean(answers.correct))))
    # By definition: the base rate of other data would be another one.
    rows.append(attrs.evolve(unskilled, skill=Interval(0.0, None, None)))
    chosen = _first(answers, seed) if first else {}
    rows += [maker.row(name, paper, APART, one.confidence) for name, one in chosen.items()]
    gain = p_value = None
    if chosen:
        of_all = next(row for row in rows if row.key == ("geometric-mean", paper, APART))
        both = chosen[FIRST_T].confidence, of_all.confidence
        gain, p_value = maker.resamples.skill_difference(*both), paired_p_value(*both, answers.correct)
    missing = tuple(name for name in MEASURES if name not in maker.logs)
    correlations = _correlations(maker.logs)
    return Cell(answers, "", tuple(rows), missing, chosen, gain, p_value, correlations, maker)


def why_not(answers: Answers) -> str:
    """Why some answers have no rows; "" if they have."""
    if answers.right_of_asked <= LEAST_RIGHT * answers.asked:
        return f"omitted: {answers.right_of_asked} of {answers.asked} right, at most 1 %"
    if answers.n < FEWEST:
        return f"omitted: {answers.n} answers, fewer than {FEWEST}"
    if not both_sides(answers):
        return "omitted: nearly all answers are right, or nearly all are wrong"
    return ""


def both_sides(answers: Answers) -> bool:
    """Whether two groups have right answers, and two have wrong ones: one is left when the other's is."""
    sides = (set(np.array(answers.groups)[of]) for of in (answers.correct, ~answers.correct))
    return min(map(len, sides)) >= 2


def _first(answers: Answers, seed: int) -> dict[str, FirstT]:
    """The number of first tokens, as Virk et al. choose it, over p by maximum likelihood."""
    if min(answers.right, answers.n - answers.right) < FEWEST_TO_TEST or answers.empty.any():
        return {}
    # Instead of its tokens, the mean of each number of first ones.
    counted = np.arange(1, answers.padded.shape[1] + 1)
    means = {
        FIRST_T: np.exp(np.cumsum(answers.padded, axis=1) / counted),
        FIRST_T_ARITHMETIC: np.cumsum(np.exp(answers.padded), axis=1) / counted,
    }
    return {
        name: select_first_t(
            [row[: len(item)].tolist() for row, item in zip(of, answers.logprobs, strict=True)],
            *(answers.correct, answers.groups, FIRST),
            fit=line,
            folds=FOLDS,
            seed=seed,
            together=True,
            mean=lambda row, t: min(row[min(t or len(row), len(row)) - 1], 1.0),
        )
        for name, of in means.items()
    }


def _correlations(logs: Mapping[str, FloatArray]) -> dict[tuple[str, str], float]:
    """Of each pair of measures, over the answers that have both."""
    found = {}
    for a, b in itertools.combinations(logs, 2):
        both = ~np.isnan(logs[a]) & ~np.isnan(logs[b])
        value = rank_correlation(logs[a][both], logs[b][both])
        if value is not None:
            found[a, b] = value
    return found


def number(value: float | None, digits: int = 6) -> float | None:
    """A number as it is written to files: rounded, so that the same run gives the same bytes."""
    return None if value is None or not math.isfinite(value) else round(float(value), digits) + 0.0


def interval_json(interval: Interval | None) -> dict[str, Any] | None:
    if interval is None:
        return None
    value, low, high, kind = attrs.astuple(interval)
    return {"value": number(value), "low": number(low), "high": number(high), "kind": kind}


def cell_json(cell: Cell) -> dict[str, Any]:
    """A cell as JSON types."""
    answers, header = cell.answers, cell.answers.header
    document: dict[str, Any] = {
        "file": answers.file.name,
        "profile": answers.profile,
        "model": header.model.name,
        "quantisation": header.model.quantisation,
        "sha256": header.model.sha256,
        "language": header.language,
        "prompt": header.prompt_version,
        **{name: getattr(answers, name) for name in ("condition", "judge", "asked", "n", "right")},
        "empty": int(np.count_nonzero(answers.empty)),
        "groups": len(set(answers.groups)),
        "omitted": cell.why or None,
        "rows": [row.to_json() for row in cell.rows],
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
    p_values = adjusted([cell.p_value or 0.0 for cell in tested])
    return {cell.answers.name: p for cell, p in zip(tested, p_values, strict=True)}


@attrs.frozen(eq=False)
class Study:
    """A study repeated. caveats: what a reader must know. cells: all, of both profiles. sections: its part of
    the page. quoted: what the study printed for a row and a metric, of the same task and condition alone."""

    name: str
    title: str
    reference: str
    caveats: Sequence[str]
    cells: Sequence[Cell]
    sections: Sequence[Section]
    quoted: Callable[[Cell, Row, str], Quoted]
