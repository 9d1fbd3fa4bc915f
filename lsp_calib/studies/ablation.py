"""The ablation: what each step of evidence adds to a line's confidence, out of fold on the same items."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import attrs
import numpy as np

from lsp_calib.calibration.arrays import BoolArray, FloatArray, IntArray, group_codes, quietly
from lsp_calib.calibration.calibrators.fitting import RECIPES, FeatureData, Recipe
from lsp_calib.calibration.validation import Interval, grouped_folds, out_of_fold, select_first_t
from lsp_calib.commands.records import make_folder
from lsp_calib.confidence.features import FEATURES, PLACES, raw_confidences
from lsp_calib.corpus.places import FEWEST, INSERTING, NEW_LINE, WRITING_ON
from lsp_calib.corpus.records import Header, Record, read_records
from lsp_calib.errors import DataError, SettingsError
from lsp_calib.files import replace_file
from lsp_calib.studies import headings
from lsp_calib.studies.evaluate import Share, quality, tiers
from lsp_calib.studies.figures import draw_ablation, save
from lsp_calib.studies.score import ALL, APART, FIRST_T, File, Row, Rows, judged_by
from lsp_calib.studies.statistics import OURS, RESAMPLES, BoundedError, fit_curve, simultaneous_errors
from lsp_calib.studies.tables import Table, csv_text, percent, print_tables
from lsp_calib.terminal import Console

CONDITIONS = (INSERTING, WRITING_ON, NEW_LINE)
# Of what is accepted, so much is to be right.
TARGETS = (0.9, 0.95)


@attrs.frozen
class Step:
    """The evidence of one row.

    name: of the row, in words. recipes: one, or those of which the best is chosen inside the folds. A recipe
        of one feature is a measure that Platt's method rescales; FIRST_T: with t chosen inside the folds.
    below: whether features of the text may use what stands below the cursor's line.
    """

    name: str
    recipes: tuple[Recipe, ...]
    below: bool = True

    @classmethod
    def of(cls, name: str, *features: str, by_place: bool = False, below: bool = True) -> Step:
        """A step with a single recipe."""
        return cls(name, (Recipe(name, features, by_place=by_place),), below)

    @property
    def features(self) -> tuple[str, ...]:
        """The features of all recipes."""
        return tuple(dict.fromkeys(name for recipe in self.recipes for name in recipe.features))


SHIPPED = "what ships"


def _steps() -> list[Step]:
    """From one measure over the recipes of calibrators, the preferred one last, to what ships."""
    best, *others = [recipe for recipe in RECIPES if not recipe.by_place]

    def without(need: str) -> list[str]:
        return [one for one in best.features if one not in FEATURES or FEATURES[one].needs != need]

    rows = [
        Step.of("geometric mean of the first t tokens", FIRST_T),
        Step.of("probability of all tokens", "total"),
        Step.of("features of the probabilities", *without("text")),
    ]
    for recipe in (*reversed(others), best):
        rows += [
            Step(f"{recipe.name} features", (recipe,)),
            Step(f"{recipe.name} features, nothing of the text below", (recipe,), below=False),
        ]
    return [
        *rows,
        Step.of(f"{best.name} features without entropies", *without("entropies")),
        Step.of(f"{best.name} features, offsets by place", *best.features, by_place=True),
        Step(SHIPPED, RECIPES),
    ]


STEPS = _steps()


@attrs.frozen(eq=False)
class Stage:
    """One confidence: its quality on all items.

    row: out of fold on other groups; its measure is the step's name. errors: the calibration error over all
    places, at each kind and, where there are several, in each condition, with simultaneous limits.
    acceptable: for each of TARGETS, what a threshold that reaches it on the other folds accepts on this one.
    """

    row: Row
    errors: Mapping[str, BoundedError]
    acceptable: Mapping[float, Share]

    @property
    def name(self) -> str:
        return self.row.measure

    @property
    def tiers(self) -> Mapping[str, Share]:
        return tiers(self.row.confidence, self.row.correct)

    def to_json(self) -> dict[str, Any]:
        errors = {name: {**attrs.asdict(one), "inside": one.inside} for name, one in self.errors.items()}
        return {
            "name": self.name,
            **self.row.to_json(),
            "errors": errors,
            "tiers": {tier: share.to_json() for tier, share in self.tiers.items()},
            "acceptable": {f"{target:g}": share.to_json() for target, share in self.acceptable.items()},
        }


@attrs.frozen(eq=False)
class Ablation:
    """The stages of one model's records.

    asked: items; left_out: further ones, of projects that are held out. groups, correct: the group of each of
    the n items that count, and whether it is right, bool array of shape (n,). parts: the last row by
    condition, those with `FEWEST` answers at least, with the number of items asked for. by_file: whether
    groups are files, for want of projects.
    """

    header: Header
    asked: int
    groups: tuple[str, ...]
    correct: BoolArray
    stages: tuple[Stage, ...]
    parts: Mapping[str, tuple[int, Row]]
    left_out: int = 0
    by_file: bool = False

    @property
    def model(self) -> str:
        return self.header.model.name

    def to_json(self) -> dict[str, Any]:
        return {
            "model": attrs.asdict(self.header.model),
            "prompt": self.header.prompt_version,
            "asked": self.asked,
            "leftOut": self.left_out,
            "groups": len(set(self.groups)),
            "rows": [stage.to_json() for stage in self.stages],
            "conditions": {
                name: {"asked": asked, **row.to_json()} for name, (asked, row) in self.parts.items()
            },
        }


def run_ablation(
    header: Header,
    records: Sequence[Record],
    steps: Sequence[Step] = STEPS,
    *,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> Ablation:
    """The ablation of the answers that would have been offered, without those of held-out projects.

    steps: the rows. Those whose features the records lack are left out. resamples: for the intervals.
    Raises DataError if there are fewer than 20 such answers, or fewer than 3 groups of them.
    """
    fitted = [record for record in records if record.group not in header.held_out]
    answers = judged_by("exact", File("", Path(), header, len(records)), fitted, "editor")
    if answers.n < FEWEST:
        apart = " of projects that are not held out" if len(fitted) < len(records) else ""
        raise DataError(
            f"Only {answers.n} of the records{apart} have an answer; at least {FEWEST} are needed."
        )
    make = partial(Rows, seed=seed, count=resamples, areas=True)
    whole, y = make(answers), answers.correct
    fold = grouped_folds(answers.groups, seed=seed)
    conditions = np.array([record.condition for record in answers.found])
    asked = Counter(record.condition for record in fitted)
    by_condition = {name: conditions == name for name in CONDITIONS if name in conditions}
    strata = np.array([record.stratum for record in answers.found])
    masks = {ALL: np.ones(y.size, np.bool_)} | {place: strata == place for place in PLACES}
    masks |= by_condition if len(by_condition) > 1 else {}
    evidences = {
        below: [record.evidence(header, above=not below) for record in answers.found]
        for below in (True, False)
    }
    codes = group_codes(answers.groups, answers.n)

    def predict(step: Step) -> FloatArray | None:
        """Probabilities out of fold, shape (n,); None if a feature is missing."""
        if step.features == (FIRST_T,):
            return select_first_t(answers.logprobs, y, answers.groups, fit=fit_curve, seed=seed).confidence
        if len(step.features) == 1:
            raw = raw_confidences(step.features[0], answers.logprobs)
            return out_of_fold(raw, y, answers.groups, fit_curve, seed=seed)
        data = FeatureData.of(evidences[step.below], y, codes, step.recipes)
        return data.nested(step.recipes, seed=seed) if data.columns.keys() == set(step.features) else None

    stages = []
    for step in steps:
        with quietly():
            confidence = predict(step)
        if confidence is not None:
            stages.append(
                Stage(
                    whole.row(step.name, OURS, APART, confidence),
                    simultaneous_errors(confidence, y, masks, resamples=resamples, seed=seed),
                    {target: acceptable(confidence, y, fold, target) for target in TARGETS},
                )
            )
    parts = {}
    for name, mask in by_condition.items() if stages else ():
        at = np.flatnonzero(mask)
        if at.size >= FEWEST:
            last = stages[-1].row
            row = make(answers.part(at)).row(last.measure, OURS, APART, last.confidence[at], name)
            parts[name] = asked[name], row
    by_file = not set(answers.groups) <= {record.group for record in fitted}
    left_out = len(records) - len(fitted)
    return Ablation(header, len(fitted), answers.groups, y, tuple(stages), parts, left_out, by_file)


def acceptable(confidence: FloatArray, correct: BoolArray, fold: IntArray, target: float) -> Share:
    """How much can be accepted if `target` of it is to be right.

    confidence: float array of shape (n,), out of fold. correct: bool array, fold: int array of shape (n,).
    For each fold the threshold is the least one that reaches the target on all the others, and what it
    accepts on this fold is counted. The precision found may fall short of the target.
    """
    n = right = 0
    for k in range(int(fold.max()) + 1):
        test = fold == k
        order = np.argsort(-confidence[~test], kind="stable")
        p, y = confidence[~test][order], correct[~test][order]
        last_of_run = np.append(p[1:] != p[:-1], True)
        reached = last_of_run & (np.cumsum(y) >= target * np.arange(1, y.size + 1))
        if reached.any():
            accepted = test & (confidence >= p[np.flatnonzero(reached)[-1]])
            n += int(np.count_nonzero(accepted))
            right += int(np.count_nonzero(correct[accepted]))
    return Share(n, right, correct.size)


# ---------------------------------------------------------------- tables and figures


def tables(ablation: Ablation) -> list[Table]:
    """Three tables: the quality of each row, its calibration error by kind of place, and the quality of the
    last row in each condition."""
    stages = ablation.stages
    evidence = [
        [
            *(stage.name, *quality(stage.row)[:2]),
            *_accepted(stage.row),
            *(share(stage.acceptable[target], least=True) for target in TARGETS),
        ]
        for stage in stages
    ]
    parts = list(dict.fromkeys(part for stage in stages for part in stage.errors))
    errors = [[stage.name, *(_error(stage, stage.errors.get(part)) for part in parts)] for stage in stages]
    named = {"model": ablation.model, "last": stages[-1].name if stages else "nothing"}
    return [
        headings.table("ablation.evidence", evidence, **named),
        headings.table("ablation.errors", errors, more=parts, **named),
        headings.table("ablation.conditions", condition_rows(ablation), **named),
    ]


def condition_rows(ablation: Ablation) -> list[list[str]]:
    """A row for each condition of the ablation's items."""
    rows = []
    for condition, (asked, row) in ablation.parts.items():
        counted = f"{asked}, {row.n}", f"{row.right} ({percent(row.right / asked)})"
        rows.append([condition, *counted, *quality(row), *_accepted(row)])
    return rows


def _accepted(row: Row) -> tuple[str, str]:
    """What is accepted and what is rejected."""
    found = tiers(row.confidence, row.correct)
    return share(found["accept"], least=True), share(found["reject"])


def summary(ablation: Ablation) -> str:
    """The items, in a sentence."""
    n, right = ablation.correct.size, int(ablation.correct.sum())
    left_out = ablation.left_out
    apart = f" {left_out} further lines, of held-out projects, are left out." if left_out else ""
    groups = f"{len(set(ablation.groups))} {'files' if ablation.by_file else 'projects'}"
    return (
        f"{ablation.model} ({ablation.header.model.quantisation}), prompt {ablation.header.prompt_version}: "
        f"{n} of {ablation.asked} lines of {groups} had an answer, {right} right ({percent(right / n)})."
        f"{apart}"
    )


def share(found: Share, *, least: bool = False) -> str:
    """A share and how much of it is right, in words."""
    if found.precision is None or found.least is None:
        return "0 %"
    bound = f" (≥ {100 * found.least:.1f})" if least else ""
    return f"{percent(found.share)}, {100 * found.precision:.1f} % right{bound}"


def _error(stage: Stage, error: BoundedError | None) -> str:
    if error is None:
        return ""
    if stage.row.ece is None:
        return "–"
    return f"{error.value:.3f} ({error.limit:.3f}){'' if error.inside else ' !'}"


def comma_separated(ablations: Sequence[Ablation]) -> str:
    """One line for each number, with its interval or limit."""
    lines: list[tuple[object, ...]] = [("model", "prompt", "evidence", "metric", "value", "low", "high")]
    for ablation in ablations:
        for stage in ablation.stages:
            row = stage.row
            front = ablation.model, ablation.header.prompt_version, stage.name
            for name, one in (("skill", row.skill), ("auc", row.auc)):
                lines.append((*front, name, *((one.value, one.low, one.high) if one else (None,) * 3)))
            lines.append((*front, "brier", row.brier, None, None))
            for place, error in stage.errors.items() if row.ece is not None else ():
                lines.append((*front, f"ece.{place}", error.value, None, error.limit))
            at_targets = {f"at-{target:g}": found for target, found in stage.acceptable.items()}
            for name, kind in {**stage.tiers, **at_targets}.items():
                lines.append((*front, f"{name}.share", kind.share, None, None))
                lines.append((*front, f"{name}.right", kind.precision, kind.least, None))
    return csv_text(lines)


def draw_steps(ablations: Sequence[Ablation], path: Path) -> Path:
    """The ablation's figure alone; its description is `checksum`."""
    figure = partial(
        draw_ablation,
        *_series(ablations),
        [ablation.correct.size for ablation in ablations],
        title="What each step of evidence adds",
        note="out of fold by project; 95 % intervals",
    )
    return save(figure, path, checksum(ablations))


def checksum(ablations: Sequence[Ablation]) -> str:
    """16 hexadecimal digits that change with anything that the ablation's figure shows."""
    names, series = _series(ablations)
    shown = [
        [model, name, *(None if x is None else f"{x:.3f}" for x in (item.low, item.value, item.high))]
        for model, items in series.items()
        for name, item in zip(names, items, strict=True)
        if item is not None
    ]
    return hashlib.sha256(json.dumps(shown).encode()).hexdigest()[:16]


def _series(ablations: Sequence[Ablation]) -> tuple[list[str], Mapping[str, list[Interval | None]]]:
    """The rows' names over all ablations, in order, and each ablation's skill by row.

    An ablation is called by its model, and by its prompt where there are several of the model.
    """
    names = list(dict.fromkeys(stage.name for ablation in ablations for stage in ablation.stages))
    models = [ablation.model for ablation in ablations]
    series: dict[str, list[Interval | None]] = {}
    for one in ablations:
        skill = {stage.name: stage.row.skill for stage in one.stages}
        several = models.count(one.model) > 1
        shown = f"{one.model}, {one.header.prompt_version}" if several else one.model
        series[shown] = [skill.get(name) for name in names]
    return names, series


# ---------------------------------------------------------------- the command

MOST = 2
"""The most ablations that a figure shows."""


@attrs.frozen
class AblationReport:
    """The ablations, one for each file of records, and the files that were written."""

    ablations: tuple[Ablation, ...]
    files: tuple[Path, ...] = ()

    def to_wire(self) -> dict[str, Any]:
        return {
            "files": [str(file) for file in self.files],
            "ablations": [ablation.to_json() for ablation in self.ablations],
        }

    def print(self) -> None:
        console = Console()
        for ablation in self.ablations:
            console.print(summary(ablation))
            print_tables(tables(ablation), console)
        console.print(headings.words("ablation")["note"])
        for file in self.files:
            console.print(f"Written: {file}", soft_wrap=True)


def compare_evidence(
    records: Sequence[Path],
    output: Path | None = None,
    *,
    figure: bool = False,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> AblationReport:
    """The ablation of each file of line records.

    output: the folder for confidence.csv and .json, and with `figure` for the figure. resamples, seed:
    as for `run_ablation`.
    Raises DataError for records of another task, SettingsError for a figure without a folder or of more files
    than it can show.
    """
    if figure and output is None:
        raise SettingsError("Say where to write the figures: add --output FOLDER.")
    if figure and len(records) > MOST:
        raise SettingsError(
            f"A figure shows the ablations of at most {MOST} files of records; {len(records)} were "
            f"given. Name at most {MOST}, or leave --figure out: the tables are of any number."
        )
    ablations = []
    for path in records:
        header, found = read_records(path)
        if header.task != "line":
            raise DataError(f"{path} holds records of the task {header.task!r}, not of lines.")
        ablations.append(run_ablation(header, found, resamples=resamples, seed=seed))
    if output is None:
        return AblationReport(tuple(ablations))
    make_folder(output)
    document = {"schema": 2, "ablations": [ablation.to_json() for ablation in ablations]}
    files = [output / "confidence.csv", output / "confidence.json"]
    replace_file(files[0], comma_separated(ablations))
    replace_file(files[1], json.dumps(document, indent=2) + "\n")
    files += [draw_steps(ablations, output / "confidence-ladder.svg")] if figure else []
    return AblationReport(tuple(ablations), tuple(files))
