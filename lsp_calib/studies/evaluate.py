"""`lsp-calib eval TASK`: a model's answers, or their records, scored: the tables, CSV and JSON."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import attrs
import numpy as np

from lsp_calib.calibration.arrays import BoolArray, FloatArray, group_codes, quietly
from lsp_calib.calibration.calibrators.calibrator import FEATURES_MEASURE
from lsp_calib.calibration.calibrators.fitting import FeatureData, recipes_of
from lsp_calib.calibration.logistic import sigmoid
from lsp_calib.calibration.reliability import wilson_interval
from lsp_calib.calibration.tiers import PRESETS
from lsp_calib.calibration.validation import select_first_t
from lsp_calib.commands.records import collect_records, make_folder
from lsp_calib.confidence.features import measure_name, raw_confidences
from lsp_calib.corpus.asking import AskingOptions
from lsp_calib.corpus.functions import SUMMARY
from lsp_calib.corpus.places import FEWEST, Task, check_groups
from lsp_calib.corpus.records import Header, Record, check_header, read_records
from lsp_calib.corpus.thresholds import Thresholds, judged
from lsp_calib.errors import DataError
from lsp_calib.files import replace_file
from lsp_calib.studies.score import (
    ALL,
    APART,
    FIRST_T,
    HELD_OUT,
    LEAST_RIGHT,
    LEAST_SKILL,
    RAW,
    Answers,
    File,
    Profile,
    Row,
    Rows,
    both_sides,
    judged_by,
)
from lsp_calib.studies.statistics import OURS, RESAMPLES, fit_curve
from lsp_calib.studies.tables import (
    BAND,
    Table,
    banded,
    csv_text,
    percent,
    print_tables,
    ranged,
    titled_lines,
)
from lsp_calib.studies.tasks import REPAIR, SYNTHESIS
from lsp_calib.terminal import Console
from lsp_calib.values import Tier

RECORDS = "records.jsonl"
# Numbers of first tokens to choose from: those of Virk et al., and more for long lines; None: all.
FIRST: tuple[int | None, ...] = (*range(1, 20), 24, None)


@attrs.frozen
class Scores:
    """The scores of records.

    profile: which answers count. asked: number of items. offered: items with an answer that an editor would
    have been offered. doubtful: answers with missing or unreliable probabilities; no row counts them.
    right: right answers among the offered, by judge. best: the measure of the calibrator's preferred curve.
    first: the chosen number of first tokens, by judge; None means all. per_fold: that of each fold, chosen on
    the others. held_out: the projects that were excluded from fitting. notes: sentences for readers. cross:
    of the offered answers, as `cross_table` counts them.
    """

    header: Header
    profile: Profile
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
            "schema": 2,
            **attrs.asdict(self, filter=lambda field, _: field.name != "rows"),
            "rows": [{**row.to_json(), "tiers": tiers_of(row)} for row in self.rows],
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
    """Score the confidences of the answers that count.

    held_out: projects predicted by a calibrator that was fitted on all others. resamples: for the intervals.
    headline: only the rescaled rows of the best measure over all places, with the same values as otherwise.
    A judge by whom fewer than two groups have a right answer, or a wrong one, or at most LEAST_RIGHT of what
    was asked is right, has no rows; of the latter a note says so.
    Raises DataError if there are fewer than 20 answers to fit on, fewer than 3 groups of them, or nothing is
    left to tell apart by any judge.
    """
    profile = profile_of_scores(header)
    file = File("", Path(), header, len(records))
    fitted = [record for record in records if record.group not in held_out]
    apart = [record for record in records if record.group in held_out]
    judges = list(dict.fromkeys(judge for record in fitted if record.shown for judge in record.correct))
    pairs = [tuple(judged_by(judge, file, of, profile) for of in (fitted, apart)) for judge in judges]
    most = max((one.n for one, _ in pairs), default=0)
    if most < FEWEST:
        raise DataError(
            f"Only {most} of {len(records)} records have an answer with probabilities to fit on; at "
            f"least {FEWEST} are needed. Ask for more."
        )
    # Check all judges before the slow work on the first.
    told = [(one, other) for one, other in pairs if both_sides(one)]
    if not told:
        raise DataError(
            f"Of {most} answers all are right, or all are wrong, but for those of one group, by every "
            "criterion: there is nothing to tell apart. Ask for more, or ask another model."
        )
    scores = counted(header, records, held_out)
    few = {judge: right for judge in judges if too_few_right(right := _right(records, judge), len(records))}
    tables = [_Judged(one, other, resamples, seed) for one, other in told if one.judge not in few]
    return attrs.evolve(
        scores,
        best=tables[-1].best if tables else FIRST_T,
        first={one.judge: one.first for one in tables},
        per_fold={one.judge: one.per_fold for one in tables},
        rows=tuple(row for one in tables for row in one.rows(headline=headline)),
        notes=tuple(
            f"Right ({judge}): {right} of {len(records)} items asked for, at most {100 * LEAST_RIGHT:g} %. "
            "No scores are given: they would say nothing."
            for judge, right in few.items()
        ),
    )


def profile_of_scores(header: Header) -> Profile:
    """As of files; but of summaries those that an editor shows, by which calibrators are fitted."""
    return "editor" if header.task == SUMMARY else File("", Path(), header, 0).profile


def counted(header: Header, records: Sequence[Record], held_out: frozenset[str], *notes: str) -> Scores:
    """Scores without rows: how many answers there are and are right. notes: why no more can be said."""
    offered = [record for record in records if record.shown]
    judges = dict.fromkeys(judge for record in offered for judge in record.correct)
    return Scores(
        header=header,
        profile=profile_of_scores(header),
        asked=len(records),
        offered=len(offered),
        doubtful=sum(bool(record.tokens) and not record.logprobs for record in offered),
        right={judge: _right(offered, judge) for judge in judges},
        best=FIRST_T,
        first={},
        held_out=tuple(sorted(held_out)),
        rows=(),
        notes=notes,
        cross=cross_table(offered),
    )


def _right(records: Sequence[Record], judge: str) -> int:
    return sum(record.correct.get(judge, False) for record in records)


def too_few_right(right: int, asked: int) -> bool:
    """Whether at most LEAST_RIGHT of what was asked is right."""
    return right <= LEAST_RIGHT * asked


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


class _Judged:
    """The rows of one criterion. fitted, others: the answers that are fitted on, and those held out."""

    def __init__(self, fitted: Answers, others: Answers, resamples: int, seed: int) -> None:
        self.judge = fitted.judge
        self._answers = {APART: fitted, HELD_OUT: others}
        self._make = partial(Rows, seed=seed, count=resamples, areas=True)
        self._maker: Rows = self._make(fitted)
        self._seed = seed
        self._known = ~fitted.empty
        known = fitted.part(np.flatnonzero(self._known))
        with quietly():
            chosen = select_first_t(
                known.logprobs, known.correct, known.groups, FIRST, fit=fit_curve, seed=seed
            )
        self.first, self.per_fold = chosen.first, chosen.per_fold
        self._chosen = self._whole(chosen.confidence)
        # What calibrators weigh is the product's; the studies score measures alone.
        served = fitted.profile == "editor"
        evidences = {
            part: [record.evidence(answers.header) for record in answers.found] if served else []
            for part, answers in self._answers.items()
        }
        self._evidences = evidences
        self._recipes = []
        if served:
            recipes = recipes_of(fitted.header.task)
            codes = group_codes(fitted.groups, fitted.n)
            self._data = FeatureData.of(evidences[APART], fitted.correct, codes, recipes)
            # Features count that all answers have, also those of held-out projects.
            nowhere = np.zeros(others.n, np.intp)
            apart = FeatureData.of(evidences[HELD_OUT], others.correct, nowhere, recipes)
            self._recipes = self._data.usable(apart.usable(recipes) if others.n else recipes)
        self.best = FEATURES_MEASURE if self._recipes else FIRST_T

    def rows(self, *, headline: bool) -> list[Row]:
        """headline: only the rescaled rows of the best measure over all places."""
        rows: list[Row] = []
        predictions: tuple[tuple[str, Callable[[], FloatArray]], ...] = (
            (APART, self._best),
            (HELD_OUT, self._held_out),
        )
        for part, predict in predictions:
            answers = self._answers[part]
            if answers.n:
                confidence = predict()
                maker = self._maker if part == APART else self._make(answers)
                rows.append(maker.row(self.best, OURS, part, confidence))
                rows += [] if headline else self._strata(part, confidence)
        if headline:
            return rows
        told = self._answers[APART].part(np.flatnonzero(self._known))
        raw = raw_confidences(measure_name(self.first), told.logprobs)
        rows.append(self._maker.row(FIRST_T, RAW, "", self._whole(raw)))
        rows += [] if self.best == FIRST_T else [self._maker.row(FIRST_T, OURS, APART, self._chosen)]
        for name in self._maker.logs:
            rows += [self._maker.of(name), self._maker.of(name, OURS, APART)]
        return rows

    def _whole(self, known: FloatArray) -> FloatArray:
        """Confidences of all answers that are fitted on, 0 where there is no token."""
        whole = np.zeros(self._known.size)
        whole[self._known] = known
        return whole

    def _strata(self, part: str, confidence: FloatArray) -> list[Row]:
        """The same predictions by kind of place, and by condition; nothing of what there is one kind of."""
        answers = self._answers[part]
        rows = []
        for kinds in (
            [record.stratum for record in answers.found],
            [record.condition for record in answers.found],
        ):
            for kind in sorted(set(kinds)) if len(set(kinds)) > 1 else []:
                at = np.flatnonzero(np.array(kinds) == kind)
                maker = self._make(answers.part(at))
                rows.append(maker.row(self.best, OURS, part, confidence[at], kind))
        return rows

    def _best(self) -> FloatArray:
        """The items' predictions out of fold by the calibrator's preferred curve."""
        if not self._recipes:
            return self._chosen
        with quietly():
            return self._data.nested(self._recipes, seed=self._seed)

    def _held_out(self) -> FloatArray:
        if self._recipes:
            curve = self._data.curve(self.best, self._data.choose(self._recipes, seed=self._seed))
            return sigmoid(curve.scores(self._evidences[HELD_OUT]))
        fitted, others = self._answers[APART], self._answers[HELD_OUT]
        fitted, told = (one.part(np.flatnonzero(~one.empty)) for one in (fitted, others))
        name = measure_name(self.first)
        raw, apart = (raw_confidences(name, one.logprobs) for one in (fitted, told))
        predicted = np.zeros(others.n)
        predicted[~others.empty] = fit_curve(raw, fitted.correct).predict(apart)
        return predicted


def tiers_of(row: Row) -> dict[str, dict[str, int]]:
    """What the balanced preset makes of a rescaled row: items and right ones of each tier; empty if raw."""
    return {} if row.rescaling == RAW else counts_of_tiers(row.confidence, row.correct)


def counts_of_tiers(confidence: FloatArray, correct: BoolArray) -> dict[str, dict[str, int]]:
    """Items and right ones of each tier of the balanced preset."""
    policy = PRESETS["balanced"]
    tiers = np.array([policy.decide(float(p), source="shipped")[0].value for p in confidence])
    return {
        tier.value: {
            "n": int(np.sum(tiers == tier.value)),
            "right": int(np.sum(correct[tiers == tier.value])),
        }
        for tier in Tier
    }


# ---------------------------------------------------------------- tables

_TIERS = ("accept", "review", "reject")
_PARTS = {APART: "fit", HELD_OUT: "held-out"}


def tables(scores: Scores) -> list[Table]:
    """The tables, in order."""
    found: list[Table] = []
    for judge in scores.first:
        rows = [row for row in scores.rows if row.judge == judge]
        rescaled = [row for row in rows if row.measure == scores.best and row.rescaling != RAW]
        whole = [row for row in rows if row.stratum == ALL and row.folds != HELD_OUT]
        found += [
            Table(
                f"Right: {judge} ({scores.profile})",
                ("items", "place", "n", "right", "skill", "AUC", BAND),
                [
                    [_PARTS[row.folds], row.stratum, str(row.n), _count(row.right, row.n), *quality(row)]
                    for row in rescaled
                ],
            ),
            Table(
                f"Right: {judge}, by measure (out of fold, {scores.profile})",
                ("measure", "", "n", "of 0.5", "skill", "AUC", BAND),
                [
                    [
                        *(_measure(scores, row), "raw" if row.rescaling == RAW else "rescaled", str(row.n)),
                        *(percent(row.half) if row.rescaling == RAW else "", *quality(row)),
                    ]
                    for row in whole
                ],
            ),
            Table(
                f"Right: {judge}, by tier ({scores.profile})",
                ("items", "place", *(f"{tier}: share, right" for tier in _TIERS)),
                [
                    [_PARTS[row.folds], row.stratum, *(_tier(row, tier) for tier in _TIERS)]
                    for row in rescaled
                ],
            ),
        ]
    if scores.cross:
        n = sum(scores.cross.values())
        rows_ = [[str(n), *(_count(k, n) for k in scores.cross.values())]]
        found.append(Table("Exact match against tests", ("n", *scores.cross), rows_))
    return found


def summary(scores: Scores) -> list[str]:
    """The task, the model and the numbers of items, in sentences."""
    header = scores.header
    sources = ", ".join(f"{origin.name} {origin.version}".strip() for origin in header.sources)
    which = {
        "paper": "every item asked for counts, an empty answer as a failure",
        "editor": "the answers count that an editor shows",
    }
    lines = [
        f"Task {header.task}, {header.language}; {header.model.name} {header.model.quantisation} "
        f"(SHA-256 {header.model.sha256[:16] or 'unknown'}), prompt {header.prompt_version}, "
        f"seed {header.seed}, {header.created or 'date unknown'}, "
        f"lsp-calib {header.package or 'of unknown version'}.",
        f"{scores.asked} items asked for, {scores.offered} with an answer that would be offered"
        + (f", {scores.doubtful} of them without believable probabilities" if scores.doubtful else "")
        + "".join(f"; right ({judge}): {count}" for judge, count in scores.right.items())
        + f". Profile {scores.profile}: {which[scores.profile]}.",
    ]
    lines += scores.notes
    for judge, chosen in scores.per_fold.items():
        folds = ", ".join("all" if t is None else str(t) for t in chosen)
        lines.append(f"First tokens chosen in each fold ({judge}): {folds}.")
    if scores.held_out:
        lines.append(f"Held out: {', '.join(scores.held_out)}.")
    if sources:
        lines.append(f"From {len(header.sources)} sources: {sources}.")
    return lines


_BALANCED = PRESETS["balanced"]
NOTE = (
    "Skill: Brier skill score, 0 is always saying the base rate, 1 is knowing. Items that are fitted on "
    "(fit) are predicted out of fold: whole groups (projects, problems) are left out of the fit and of "
    "every choice (*: which features, how many tokens); what is held out is predicted by what was fitted on "
    "all others. Intervals are 95 %, by bootstrap over groups; beside ECE stands what a perfectly calibrated "
    f"score would show; below a rescaled skill of {LEAST_SKILL:g} no ECE is given, for it would only compare "
    f"two means. Tiers: the balanced preset, accept from {100 * _BALANCED.accept_from:g} %, reject "
    f"below {100 * _BALANCED.reject_below:g} %."
)


def markdown(scores: Scores) -> str:
    lines = [f"# Evaluation: {scores.header.task}, {scores.header.model.name}", ""]
    lines += [line + "\n" for line in summary(scores)] + [NOTE, ""]
    return "\n".join([*lines, *titled_lines(tables(scores))])


def comma_separated(scores: Scores) -> str:
    """One line for each number, with its interval."""
    columns = ("profile", "judge", "measure", "rescaling", "folds", "stratum", "n", "right", "invalid")
    lines: list[tuple[object, ...]] = [(*columns, "metric", "value", "low", "high", "kind")]
    for row in scores.rows:
        front = (scores.profile, *(getattr(row, name) for name in columns[1:]))
        for name in ("skill", "auc", "ece"):
            one = getattr(row, name)
            if one is not None:
                lines.append((*front, name, one.value, one.low, one.high, one.kind))
        numbers = {"brier": row.brier, "above": row.above, "half": row.half}
        for tier, counts in tiers_of(row).items():
            n, right = counts["n"], counts["right"]
            numbers |= {f"{tier}.share": n / row.n, f"{tier}.right": right / n if n else float("nan")}
        lines += [
            (*front, name, None if np.isnan(value) else value, "", "", "") for name, value in numbers.items()
        ]
    return csv_text(lines)


def write(scores: Scores, folder: Path) -> None:
    """scores.md, scores.csv and scores.json in `folder`. Raises DataError if they cannot be written."""
    replace_file(folder / "scores.md", markdown(scores))
    replace_file(folder / "scores.csv", comma_separated(scores))
    replace_file(folder / "scores.json", json.dumps(scores.to_json(), indent=2) + "\n")


def _measure(scores: Scores, row: Row) -> str:
    if row.measure == FIRST_T:
        return f"{measure_name(scores.first[row.judge])} *"
    return f"{row.measure} *" if row.measure == scores.best else row.measure


def quality(row: Row) -> list[str]:
    """Skill, AUC and ECE of a confidence with their intervals, a dash where no ECE is given."""
    return [ranged(row.skill), ranged(row.auc, sign=False), banded(row.ece, 3)]


def _count(k: int, n: int) -> str:
    """A number of n, its share, and the interval of that."""
    if not n:
        return "0"
    low, high = wilson_interval(k, n)
    return f"{k} ({percent(k / n)}; {100 * low:.0f} to {100 * high:.0f})"


def _tier(row: Row, tier: str) -> str:
    counts = tiers_of(row)[tier]
    n, right = counts["n"], counts["right"]
    if not n:
        return "0 %"
    low, high = wilson_interval(right, n)
    share = f"{percent(right / n)} ({100 * low:.0f} to {100 * high:.0f})"
    return f"{percent(n / row.n)}, {right}/{n} = {share}"


# ---------------------------------------------------------------- the command


@attrs.frozen
class EvaluationReport:
    """Scores, and the folder that holds them (None: they are only shown). recorded: the records, too."""

    scores: Scores
    folder: Path | None
    recorded: bool

    def to_wire(self) -> dict[str, Any]:
        return {"folder": None if self.folder is None else str(self.folder), **self.scores.to_json()}

    def print(self) -> None:
        console, scores = Console(), self.scores
        for line in summary(scores)[: 2 + len(scores.notes) + len(scores.per_fold)]:
            console.print(line)
        print_tables(tables(scores), console, whole=2)
        if self.folder is not None:
            what = "Tables and records" if self.recorded else "Tables"
            console.print(f"{what} are in {self.folder}.", soft_wrap=True)


@attrs.frozen(kw_only=True)
class ScoringOptions:
    """How records are scored.

    resamples: of the bootstrap. thresholds: of similarities, by which records that hold some are judged;
    None: the shipped ones.
    """

    resamples: int = RESAMPLES
    thresholds: Path | None = None


def evaluate(
    task: Task, output: Path, asking: AskingOptions, scoring: ScoringOptions | None = None
) -> EvaluationReport:
    """Ask the model for all items of a task and score its answers. All files go to the folder `output`.

    The same call resumes a run that was stopped. Raises SettingsError if the folder cannot be made, DataError
    for items of too few files; and what `collect` and `score` raise.
    """
    scoring = scoring or ScoringOptions()
    # What cannot be scored fails before the model is asked.
    groups = [(id_, str(payload["group"])) for id_, payload in task.items]
    apart = asking.apart([group for _, group in groups])
    check_groups(groups, apart, "functions" if task.name in (SUMMARY, SYNTHESIS) else "lines")
    rules = None if scoring.thresholds is None else Thresholds.load(scoring.thresholds)
    make_folder(output)
    header, records = collect_records(task, output / RECORDS, asking)
    apart = frozenset(header.held_out).intersection(record.group for record in records)
    scores = _scores(header, judged(header, records, rules), apart, scoring, asking.seed)
    write(scores, output)
    return EvaluationReport(scores, output, recorded=True)


def replay(
    task: str,
    records: Path,
    output: Path | None,
    asking: AskingOptions,
    scoring: ScoringOptions,
    language: str | None = None,
) -> EvaluationReport:
    """Score existing records, without a model.

    Raises DataError if the records are of another task or language, or the thresholds are for other
    similarities.
    """
    header, found = read_records(records)
    if header.task != task:
        raise DataError(f"{records} holds records of the task {header.task!r}, not of {task!r}.")
    check_header(records, header, None, language)
    groups = [record.group for record in found]
    apart = frozenset(header.held_out).intersection(groups)
    if asking.held_out is not None:
        apart = asking.apart(groups)
    rules = None if scoring.thresholds is None else Thresholds.load(scoring.thresholds)
    scores = _scores(header, judged(header, found, rules), apart, scoring, asking.seed)
    if output is not None:
        make_folder(output)
        write(scores, output)
    return EvaluationReport(scores, output, recorded=False)


def _scores(
    header: Header, records: list[Record], apart: frozenset[str], options: ScoringOptions, seed: int
) -> Scores:
    try:
        scores = score(header, records, apart, resamples=options.resamples, seed=seed)
    except DataError as error:
        # A share of right answers of 0 is a result of a study, and no reason to ask for more.
        if profile_of_scores(header) == "editor":
            raise
        scores = counted(header, records, apart, str(error))
    repeats = sum(record.repeats_bug is True for record in records)
    note = f"{repeats} of {len(records)} answers are the buggy line again."
    return attrs.evolve(scores, notes=(*scores.notes, note)) if header.task == REPAIR else scores
