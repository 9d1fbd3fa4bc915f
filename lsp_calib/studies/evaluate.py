"""`lsp-calib eval TASK`: a model's answers, or their records, scored: the tables, CSV and JSON."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import attrs
import numpy as np

from lsp_calib.calibration.arrays import BoolArray, FloatArray, group_codes, quietly
from lsp_calib.calibration.binomial import least_rate
from lsp_calib.calibration.calibrators.calibrator import FEATURES_MEASURE
from lsp_calib.calibration.calibrators.fitting import FeatureData, Recipe, recipes_of
from lsp_calib.calibration.logistic import sigmoid
from lsp_calib.calibration.reliability import wilson_interval
from lsp_calib.calibration.tiers import PRESETS
from lsp_calib.calibration.validation import FirstT, select_first_t
from lsp_calib.commands.records import collect_records, make_folder
from lsp_calib.confidence.features import measure_name, raw_confidences
from lsp_calib.corpus.asking import AskingOptions
from lsp_calib.corpus.functions import SUMMARY
from lsp_calib.corpus.places import FEWEST, Task, check_groups
from lsp_calib.corpus.records import Header, Record, check_header, read_records
from lsp_calib.corpus.thresholds import Thresholds, judged
from lsp_calib.errors import DataError
from lsp_calib.files import replace_file
from lsp_calib.studies import headings
from lsp_calib.studies import score as scored
from lsp_calib.studies.score import ALL, APART, FIRST_T, HELD_OUT, RAW, Answers, File, Profile, Row, Rows
from lsp_calib.studies.statistics import OURS, RESAMPLES, fit_curve
from lsp_calib.studies.tables import (
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
    counts = counted(header, records, held_out)
    file = File("", Path(), header, len(records))
    parts = [[record for record in records if (record.group in held_out) is apart] for apart in (False, True)]
    judges = list(dict.fromkeys(judge for record in parts[0] if record.shown for judge in record.correct))
    pairs = [[scored.judged_by(judge, file, part, counts.profile) for part in parts] for judge in judges]
    most = max((fitted.n for fitted, _ in pairs), default=0)
    if most < FEWEST:
        raise DataError(
            f"Only {most} of {len(records)} records have an answer with probabilities to fit on; at "
            f"least {FEWEST} are needed. Ask for more."
        )
    # Check all judges before the slow work on the first.
    told = [(fitted, others) for fitted, others in pairs if scored.both_sides(fitted)]
    if not told:
        raise DataError(
            f"Of {most} answers all are right, or all are wrong, but for those of one group, by every "
            "criterion: there is nothing to tell apart. Ask for more, or ask another model."
        )
    few = {judge: right for judge in judges if too_few_right(right := _right(records, judge), len(records))}
    found = {
        fitted.judge: _rows_of(fitted, others, resamples, seed, headline=headline)
        for fitted, others in told
        if fitted.judge not in few
    }
    return attrs.evolve(
        counts,
        best=[FIRST_T, *(best for best, _, _ in found.values())][-1],
        first={judge: chosen.first for judge, (_, chosen, _) in found.items()},
        per_fold={judge: chosen.per_fold for judge, (_, chosen, _) in found.items()},
        rows=tuple(row for _, _, rows in found.values() for row in rows),
        notes=tuple(
            f"Right ({judge}): {right} of {len(records)} items asked for, at most "
            f"{100 * scored.LEAST_RIGHT:g} %. No scores are given: they would say nothing."
            for judge, right in few.items()
        ),
    )


def counted(header: Header, records: Sequence[Record], held_out: frozenset[str], *notes: str) -> Scores:
    """Scores without rows: how many answers there are and are right. notes: why no more can be said.

    Of summaries those count that an editor shows, by which calibrators are fitted.
    """
    offered = [record for record in records if record.shown]
    judges = dict.fromkeys(judge for record in offered for judge in record.correct)
    return Scores(
        header=header,
        profile="editor" if header.task == SUMMARY else File("", Path(), header, 0).profile,
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
    return right <= scored.LEAST_RIGHT * asked


def cross_table(records: Sequence[Record]) -> dict[str, int]:
    """How many of the answers that were judged both exactly and by tests are right by both, by one alone and
    by neither; empty if there are none. Source: Spiess et al. 2024, Table 4."""
    twice = [record.correct for record in records if {"exact", "tests"}.issubset(record.correct)]
    counts = Counter((correct["exact"], correct["tests"]) for correct in twice)
    names = {"both": (True, True), "exact alone": (True, False), "tests alone": (False, True)}
    return {name: counts[key] for name, key in {**names, "neither": (False, False)}.items()} if twice else {}


def _rows_of(
    fitted: Answers, others: Answers, resamples: int, seed: int, *, headline: bool
) -> tuple[str, FirstT, list[Row]]:
    """The best measure, the chosen number of first tokens and the rows of one criterion.

    fitted, others: the answers that are fitted on, and those held out.
    """
    make = partial(Rows, seed=seed, count=resamples, areas=True)
    maker: Rows = make(fitted)
    known, apart = (one.part(np.flatnonzero(~one.empty)) for one in (fitted, others))
    with quietly():
        chosen = select_first_t(
            *(known.logprobs, known.correct, known.groups, FIRST), fit=fit_curve, seed=seed
        )
    raw = raw_confidences(measure_name(chosen.first), known.logprobs)
    plain = _whole(fitted, chosen.confidence)
    # What calibrators weigh is the product's; the studies score measures alone.
    predicted = _by_features(fitted, others, seed) if fitted.profile == "editor" else None
    best = FIRST_T if predicted is None else FEATURES_MEASURE
    if predicted is None:
        predicted = plain, np.zeros(0)
        if others.n:
            of_others = raw_confidences(measure_name(chosen.first), apart.logprobs)
            predicted = plain, _whole(others, fit_curve(raw, known.correct).predict(of_others))
    rows: list[Row] = []
    for part, answers, confidence in zip((APART, HELD_OUT), (fitted, others), predicted, strict=True):
        if answers.n:
            rows.append((maker if part == APART else make(answers)).row(best, OURS, part, confidence))
            kinds = [record.stratum for record in answers.found], [one.condition for one in answers.found]
            for values in () if headline else kinds:
                for kind in sorted(set(values)) if len(set(values)) > 1 else ():
                    at = np.flatnonzero(np.array(values) == kind)
                    rows.append(make(answers.part(at)).row(best, OURS, part, confidence[at], kind))
    if not headline:
        rows.append(maker.row(FIRST_T, RAW, "", _whole(fitted, raw)))
        rows += [] if best == FIRST_T else [maker.row(FIRST_T, OURS, APART, plain)]
        for name in maker.logs:
            rows += [maker.of(name), maker.of(name, OURS, APART)]
    return best, chosen, rows


def _whole(answers: Answers, known: FloatArray) -> FloatArray:
    """Confidences of all answers, 0 where there is no token."""
    whole = np.zeros(answers.n)
    whole[~answers.empty] = known
    return whole


def _by_features(fitted: Answers, others: Answers, seed: int) -> tuple[FloatArray, FloatArray] | None:
    """The predictions by the calibrator's preferred curve: of what is fitted on out of fold, and of the
    others; None if its features are missing."""
    recipes: Sequence[Recipe] = recipes_of(fitted.header.task)
    seen, apart = ([record.evidence(one.header) for record in one.found] for one in (fitted, others))
    data = FeatureData.of(seen, fitted.correct, group_codes(fitted.groups, fitted.n), recipes)
    # Features count that all answers have, also those of held-out projects.
    if others.n:
        of_others = FeatureData.of(apart, others.correct, np.zeros(others.n, np.intp), recipes)
        recipes = of_others.usable(recipes)
    recipes = data.usable(recipes)
    if not recipes:
        return None
    with quietly():
        out_of_fold = data.nested(recipes, seed=seed)
    if not others.n:
        return out_of_fold, np.zeros(0)
    curve = data.curve(FEATURES_MEASURE, data.choose(recipes, seed=seed))
    return out_of_fold, sigmoid(curve.scores(apart))


@attrs.frozen
class Share:
    """Items of a kind: n of them, of which `right` are right, among `total` items."""

    n: int
    right: int
    total: int

    @property
    def share(self) -> float:
        return self.n / self.total

    @property
    def precision(self) -> float | None:
        """The share that is right; None if there are none."""
        return self.right / self.n if self.n else None

    @property
    def least(self) -> float | None:
        """The one-sided 95 % exact binomial lower bound of the precision; None if there are none."""
        return least_rate(self.right, self.n) if self.n else None

    def to_json(self) -> dict[str, Any]:
        return {**attrs.asdict(self), "share": self.share, "precision": self.precision, "least": self.least}


def tiers(confidence: FloatArray, correct: BoolArray) -> dict[str, Share]:
    """What the balanced preset marks as each tier; arrays of shape (n,)."""
    policy = PRESETS["balanced"]
    marked = np.array([policy.decide(float(p), source="shipped")[0].value for p in confidence])
    of = {tier.value: marked == tier.value for tier in Tier}
    return {name: Share(int(at.sum()), int(correct[at].sum()), correct.size) for name, at in of.items()}


def tiers_of(row: Row) -> dict[str, dict[str, int]]:
    """The items and the right ones of each tier of a rescaled row; empty if raw."""
    found = {} if row.rescaling == RAW else tiers(row.confidence, row.correct)
    return {name: {"n": share.n, "right": share.right} for name, share in found.items()}


# ---------------------------------------------------------------- tables

_PARTS = {APART: "fit", HELD_OUT: "held-out"}


def tables(scores: Scores) -> list[Table]:
    """The tables, in order."""
    found: list[Table] = []
    for judge in scores.first:
        rows = [row for row in scores.rows if row.judge == judge]
        best = [row for row in rows if row.measure == scores.best and row.rescaling != RAW]
        places = [(_PARTS[row.folds], row.stratum) for row in best]
        named = {"judge": judge, "profile": scores.profile}
        numbers = [(str(row.n), _count(row.right, row.n), *quality(row)) for row in best]
        measures = [
            (
                *(_measure(scores, row), "raw" if row.rescaling == RAW else "rescaled", str(row.n)),
                *(percent(row.half) if row.rescaling == RAW else "", *quality(row)),
            )
            for row in rows
            if row.stratum == ALL and row.folds != HELD_OUT
        ]
        marked = [map(_tier, tiers(row.confidence, row.correct).values()) for row in best]
        found += [
            headings.table("evaluate.best", map(_joined, places, numbers), **named),
            headings.table("evaluate.measures", measures, **named),
            headings.table("evaluate.tiers", map(_joined, places, marked), **named),
        ]
    if scores.cross:
        n = sum(scores.cross.values())
        shares = [str(n), *(_count(k, n) for k in scores.cross.values())]
        found.append(headings.table("evaluate.cross", [shares], more=scores.cross))
    return found


def _joined(front: Iterable[str], rest: Iterable[str]) -> list[str]:
    return [*front, *rest]


def _measure(scores: Scores, row: Row) -> str:
    name = measure_name(scores.first[row.judge]) if row.measure == FIRST_T else row.measure
    return f"{name} *" if row.measure in (FIRST_T, scores.best) else name


def quality(row: Row) -> list[str]:
    """Skill, AUC and ECE of a confidence with their intervals, a dash where no ECE is given."""
    return [ranged(row.skill), ranged(row.auc, sign=False), banded(row.ece, 3)]


def _count(k: int, n: int) -> str:
    """A number of n, its share, and the interval of that."""
    if not n:
        return "0"
    low, high = wilson_interval(k, n)
    return f"{k} ({percent(k / n)}; {100 * low:.0f} to {100 * high:.0f})"


def _tier(found: Share) -> str:
    if found.precision is None:
        return "0 %"
    low, high = wilson_interval(found.right, found.n)
    share = f"{percent(found.precision)} ({100 * low:.0f} to {100 * high:.0f})"
    return f"{percent(found.share)}, {found.right}/{found.n} = {share}"


def summary(scores: Scores) -> list[str]:
    """The task, the model and the numbers of items, in sentences."""
    header = scores.header
    sources = ", ".join(f"{origin.name} {origin.version}".strip() for origin in header.sources)
    doubtful = f", {scores.doubtful} of them without believable probabilities" if scores.doubtful else ""
    right = "".join(f"; right ({judge}): {count}" for judge, count in scores.right.items())
    chosen = [
        f"First tokens chosen in each fold ({judge}): {', '.join(str(t or 'all') for t in folds)}."
        for judge, folds in scores.per_fold.items()
    ]
    return [
        f"Task {header.task}, {header.language}; {header.model.name} {header.model.quantisation} "
        f"(SHA-256 {header.model.sha256[:16] or 'unknown'}), prompt {header.prompt_version}, "
        f"seed {header.seed}, {header.created or 'date unknown'}, "
        f"lsp-calib {header.package or 'of unknown version'}.",
        f"{scores.asked} items asked for, {scores.offered} with an answer that would be offered{doubtful}"
        f"{right}. Profile {scores.profile}: {headings.words('evaluate')[scores.profile]}.",
        *scores.notes,
        *chosen,
        *([f"Held out: {', '.join(scores.held_out)}."] if scores.held_out else []),
        *([f"From {len(header.sources)} sources: {sources}."] if sources else []),
    ]


def markdown(scores: Scores) -> str:
    lines = [f"# Evaluation: {scores.header.task}, {scores.header.model.name}", ""]
    balanced = PRESETS["balanced"]
    note = headings.words("evaluate")["note"].format(
        least=scored.LEAST_SKILL, accept=100 * balanced.accept_from, reject=100 * balanced.reject_below
    )
    lines += [line + "\n" for line in summary(scores)] + [note, ""]
    return "\n".join([*lines, *titled_lines(tables(scores))])


def comma_separated(scores: Scores) -> str:
    """One line for each number, with its interval."""
    columns = ("judge", "measure", "rescaling", "folds", "stratum", "n", "right", "invalid")
    lines: list[tuple[object, ...]] = [("profile", *columns, "metric", "value", "low", "high", "kind")]
    for row in scores.rows:
        front = (scores.profile, *(getattr(row, name) for name in columns))
        intervals = {"skill": row.skill, "auc": row.auc, "ece": row.ece}
        lines += [(*front, name, *attrs.astuple(one)) for name, one in intervals.items() if one is not None]
        numbers: dict[str, float | None] = {"brier": row.brier, "above": row.above, "half": row.half}
        found = {} if row.rescaling == RAW else tiers(row.confidence, row.correct)
        for name, share in found.items():
            numbers |= {f"{name}.share": share.share, f"{name}.right": share.precision}
        lines += [(*front, name, value, "", "", "") for name, value in numbers.items()]
    return csv_text(lines)


def write(scores: Scores, folder: Path) -> None:
    """scores.md, scores.csv and scores.json in `folder`. Raises DataError if they cannot be written."""
    replace_file(folder / "scores.md", markdown(scores))
    replace_file(folder / "scores.csv", comma_separated(scores))
    replace_file(folder / "scores.json", json.dumps(scores.to_json(), indent=2) + "\n")


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

    resamples: int
    thresholds: Path | None = None

    def scores(self, header: Header, records: list[Record], held_out: frozenset[str], seed: int) -> Scores:
        rules = None if self.thresholds is None else Thresholds.load(self.thresholds)
        found = judged(header, records, rules)
        try:
            scores = score(header, found, held_out, resamples=self.resamples, seed=seed)
        except DataError as error:
            scores = counted(header, found, held_out, str(error))
            # A share of right answers of 0 is a result of a study, and no reason to ask for more.
            if scores.profile == "editor":
                raise
        repeats = sum(record.repeats_bug is True for record in records)
        note = f"{repeats} of {len(records)} answers are the buggy line again."
        return attrs.evolve(scores, notes=(*scores.notes, note)) if header.task == REPAIR else scores


def evaluate(task: Task, output: Path, asking: AskingOptions, scoring: ScoringOptions) -> EvaluationReport:
    """Ask the model for all items of a task and score its answers. All files go to the folder `output`.

    The same call resumes a run that was stopped. Raises SettingsError if the folder cannot be made, DataError
    for items of too few files; and what `collect` and `score` raise.
    """
    # What cannot be scored fails before the model is asked.
    groups = [(id_, str(payload["group"])) for id_, payload in task.items]
    apart = asking.apart([group for _, group in groups])
    check_groups(groups, apart, "functions" if task.name in (SUMMARY, SYNTHESIS) else "lines")
    if scoring.thresholds is not None:
        Thresholds.load(scoring.thresholds)
    make_folder(output)
    header, records = collect_records(task, output / RECORDS, asking)
    apart = frozenset(header.held_out).intersection(record.group for record in records)
    scores = scoring.scores(header, records, apart, asking.seed)
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
    scores = scoring.scores(header, found, apart, asking.seed)
    if output is not None:
        make_folder(output)
        write(scores, output)
    return EvaluationReport(scores, output, recorded=False)
