"""The ablation: what each step of evidence adds to a line's confidence, out of fold on the same items.

Also its tables: Markdown, CSV, JSON, and for the terminal; and its figures.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np

from lsp_calib.calibration.arrays import BoolArray, FloatArray, IntArray, group_codes, quietly
from lsp_calib.calibration.binomial import least_rate
from lsp_calib.calibration.calibrators.fitting import RECIPES, FeatureData, Recipe
from lsp_calib.calibration.reliability import reliability
from lsp_calib.calibration.validation import Interval, grouped_folds, out_of_fold, select_first_t, summarise
from lsp_calib.confidence.features import FEATURES, PLACES, raw_confidences
from lsp_calib.corpus.lines import INSERTING, NEW_LINE, WRITING_ON
from lsp_calib.corpus.records import Header, Record, groups_of
from lsp_calib.corpus.tasks import FEWEST
from lsp_calib.errors import DataError
from lsp_calib.files import replace_file
from lsp_calib.studies.calibration_errors import BoundedError, simultaneous_errors
from lsp_calib.studies.report import Table, csv_text, percent, print_tables, quality, titled_lines
from lsp_calib.studies.scores import RESAMPLES, fit_curve, tiers_of, without_empty_ece

if TYPE_CHECKING:
    from lsp_calib.terminal import Console

ALL = "all"
CONDITIONS = (INSERTING, WRITING_ON, NEW_LINE)
# Of what is accepted, so much is to be right.
TARGETS = (0.9, 0.95)
FIRST_T = "geometric-mean-first-t"


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

    @property
    def needs(self) -> set[str]:
        """What must be known: "log-probabilities", "entropies", "text"."""
        return {FEATURES[name].needs if name in FEATURES else "log-probabilities" for name in self.features}


SHIPPED = "what ships"


def _steps() -> tuple[Step, ...]:
    """From one measure over the recipes of calibrators, the preferred one last, to what ships."""
    plain = [recipe for recipe in RECIPES if not recipe.by_place]
    best, *others = plain
    rows = [
        Step.of("geometric mean of the first t tokens", FIRST_T),
        Step.of("probability of all tokens", "total"),
        Step.of("features of the probabilities", *_without(best, "text")),
    ]
    for recipe in (*reversed(others), best):
        rows += [
            Step(f"{recipe.name} features", (recipe,)),
            Step(f"{recipe.name} features, nothing of the text below", (recipe,), below=False),
        ]
    rows += [
        Step.of(f"{best.name} features without entropies", *_without(best, "entropies")),
        Step.of(f"{best.name} features, offsets by place", *best.features, by_place=True),
        Step(SHIPPED, RECIPES),
    ]
    return tuple(rows)


def _without(recipe: Recipe, need: str) -> tuple[str, ...]:
    """The recipe's features that do without something."""
    return tuple(name for name in recipe.features if name not in FEATURES or FEATURES[name].needs != need)


STEPS = _steps()


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


@attrs.frozen(eq=False)
class Row:
    """One confidence: its quality on all items.

    metrics: as named by `intervals.summarise`. errors: the calibration error over all places, at each kind
    and, where there are both, in each condition, with simultaneous limits. tiers: by the balanced preset.
    acceptable: for each of TARGETS, what a threshold that reaches it on the other folds accepts on this one.
    confidence: float array of shape (n,), each item predicted by what was fitted on other groups.
    """

    name: str
    n: int
    n_correct: int
    metrics: Mapping[str, Interval]
    errors: Mapping[str, BoundedError]
    tiers: Mapping[str, Share]
    acceptable: Mapping[float, Share]
    confidence: FloatArray

    @property
    def calibrated(self) -> bool:
        """Whether the calibration error is within its limit everywhere."""
        return all(error.inside for error in self.errors.values())

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "n": self.n,
            "right": self.n_correct,
            "metrics": {name: attrs.asdict(interval) for name, interval in self.metrics.items()},
            "errors": {
                place: {**attrs.asdict(error), "inside": error.inside} for place, error in self.errors.items()
            },
            "tiers": {tier: share.to_json() for tier, share in self.tiers.items()},
            "acceptable": {f"{target:g}": share.to_json() for target, share in self.acceptable.items()},
        }


@attrs.frozen
class Part:
    """The last row of an ablation on the items of one condition.

    asked: items; n of them have an answer, and n_correct of these are right. metrics, tiers: as in `Row`.
    """

    asked: int
    n: int
    n_correct: int
    metrics: Mapping[str, Interval]
    tiers: Mapping[str, Share]

    def to_json(self) -> dict[str, Any]:
        return {
            "asked": self.asked,
            "n": self.n,
            "right": self.n_correct,
            "metrics": {name: attrs.asdict(interval) for name, interval in self.metrics.items()},
            "tiers": {tier: share.to_json() for tier, share in self.tiers.items()},
        }


@attrs.frozen(eq=False)
class Ablation:
    """The rows of one model's records.

    asked: items; left_out: further ones, of projects that are held out. groups, correct: the group of each of
    the n items that count, and whether it is right, bool array of shape (n,). parts: the last row by
    condition, those with `FEWEST` answers at least. by_file: whether groups are files, for want of projects.
    """

    header: Header
    asked: int
    groups: tuple[str, ...]
    correct: BoolArray
    rows: tuple[Row, ...]
    parts: Mapping[str, Part]
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
            "rows": [row.to_json() for row in self.rows],
            "conditions": {name: part.to_json() for name, part in self.parts.items()},
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
    usable = [record for record in fitted if record.shown and record.logprobs]
    if len(usable) < FEWEST:
        apart = " of projects that are not held out" if len(fitted) < len(records) else ""
        raise DataError(
            f"Only {len(usable)} of the records{apart} have an answer; at least {FEWEST} are needed."
        )
    items = _Items(header, usable, resamples, seed)
    rows = []
    for step in steps:
        confidence = items.predict(step)
        if confidence is not None:
            rows.append(items.row(step.name, confidence))
    asked = Counter(record.condition for record in fitted)
    parts = items.parts(rows[-1].confidence, asked) if rows else {}
    left_out = len(records) - len(fitted)
    by_file = not set(items.groups) <= {record.group for record in fitted}
    groups = tuple(items.groups)
    return Ablation(header, len(fitted), groups, items.correct, tuple(rows), parts, left_out, by_file)


class _Items:
    """The answers that count, and their predictions out of fold."""

    def __init__(self, header: Header, records: Sequence[Record], resamples: int, seed: int) -> None:
        self.correct: BoolArray = np.array([record.correct["exact"] for record in records], dtype=np.bool_)
        self.groups = groups_of(records)
        self._codes = group_codes(self.groups, len(records))
        self._fold = grouped_folds(self.groups, seed=seed)
        self._parts = {place: np.array([record.stratum == place for record in records]) for place in PLACES}
        conditions = np.array([record.condition for record in records])
        asked = [condition for condition in CONDITIONS if condition in conditions]
        self._conditions = {condition: conditions == condition for condition in asked}
        if len(set(conditions)) > 1:
            self._parts |= self._conditions
        self._evidences = {
            below: [record.evidence(header, above=not below) for record in records] for below in (True, False)
        }
        self._resamples = resamples
        self._seed = seed

    def predict(self, step: Step) -> FloatArray | None:
        """Probabilities out of fold, shape (n,); None if a feature is missing."""
        evidences = self._evidences[step.below]
        logprobs = [evidence.logprobs for evidence in evidences]
        with quietly():
            if step.features == (FIRST_T,):
                chosen = select_first_t(logprobs, self.correct, self.groups, fit=fit_curve, seed=self._seed)
                return chosen.confidence
            if len(step.features) == 1:
                raw = raw_confidences(step.features[0], logprobs)
                return out_of_fold(raw, self.correct, self.groups, fit_curve, seed=self._seed)
            data = FeatureData.of(evidences, self.correct, self._codes, step.recipes)
            if data.columns.keys() != set(step.features):
                return None
            return data.nested(step.recipes, seed=self._seed)

    def row(self, name: str, confidence: FloatArray) -> Row:
        y = self.correct
        masks = {ALL: np.ones(y.size, np.bool_)} | self._parts
        return Row(
            name=name,
            n=int(y.size),
            n_correct=int(np.count_nonzero(y)),
            metrics=self._metrics(confidence, y, self.groups),
            errors=simultaneous_errors(confidence, y, masks, resamples=self._resamples, seed=self._seed),
            tiers=tiers(confidence, y),
            acceptable={target: acceptable(confidence, y, self._fold, target) for target in TARGETS},
            confidence=confidence,
        )

    def _metrics(self, p: FloatArray, y: BoolArray, groups: Sequence[str]) -> dict[str, Interval]:
        with quietly():
            found = summarise(p, y, groups, resamples=self._resamples, seed=self._seed)
        return without_empty_ece(found)

    def parts(self, confidence: FloatArray, asked: Mapping[str, int]) -> dict[str, Part]:
        """The quality of a confidence in each condition. asked: items by condition."""
        found = {}
        for condition, mask in self._conditions.items():
            p, y = confidence[mask], self.correct[mask]
            if y.size < FEWEST:
                continue
            groups = [group for group, inside in zip(self.groups, mask, strict=True) if inside]
            metrics = self._metrics(p, y, groups)
            right = int(np.count_nonzero(y))
            found[condition] = Part(asked[condition], int(y.size), right, metrics, tiers(p, y))
        return found


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


def tiers(confidence: FloatArray, correct: BoolArray) -> dict[str, Share]:
    """What the balanced preset marks as each tier; arrays of shape (n,)."""
    found = tiers_of(confidence, correct)
    return {tier: Share(n, right, correct.size) for tier, (n, right) in found.items()}


NOTE = (
    "Out of fold: whole projects (files, where there are fewer than three projects) are left out of the "
    "fit and of every choice. Skill: Brier skill score, with its 95 % interval by bootstrap over them. "
    "ECE: with its limit in brackets; a calibrated score stays within the limits of all places and of "
    "each kind of place at once with 95 % probability; ! marks a value above its limit. Accept and "
    "reject: by the balanced preset. At 90 % and at 95 %: the share accepted by a threshold that reaches "
    "this precision on the other folds, and the precision found. In brackets: the one-sided 95 % lower "
    "bound of the share that is right (exact binomial, lines taken as independent)."
)

MOST = 2
"""The most ablations that a figure shows."""

_QUALITY = (
    *("evidence", "skill", "AUC", "accept: share, right", "reject: share, right"),
    *(f"at {target:.0%}".replace("%", " %") for target in TARGETS),
)


def tables(ablation: Ablation) -> list[Table]:
    """Three tables: the quality of each row, its calibration error by kind of place, and the quality of the
    last row in each condition."""
    parts = list(dict.fromkeys(part for row in ablation.rows for part in row.errors))
    return [
        (f"{ablation.model}: evidence", _QUALITY, [_quality(row) for row in ablation.rows]),
        (
            f"{ablation.model}: calibration error",
            ("evidence", *parts),
            [[row.name, *(_error(row, row.errors.get(part)) for part in parts)] for row in ablation.rows],
        ),
        (
            f"{ablation.model}: {ablation.rows[-1].name if ablation.rows else 'nothing'}, by condition",
            CONDITION_COLUMNS,
            condition_rows(ablation),
        ),
    ]


CONDITION_COLUMNS = (
    *("condition", "asked, with an answer", "right of those asked"),
    *("skill", "AUC", "ECE (calibrated)", "accept: share, right", "reject: share, right"),
)


def condition_rows(ablation: Ablation) -> list[list[str]]:
    """A row for each condition of the ablation's items."""
    return [
        [
            condition,
            f"{part.asked}, {part.n}",
            f"{part.n_correct} ({percent(part.n_correct / part.asked)})",
            *quality(part.metrics),
            share(part.tiers["accept"], least=True),
            share(part.tiers["reject"]),
        ]
        for condition, part in ablation.parts.items()
    ]


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


def markdown(ablations: Sequence[Ablation]) -> str:
    lines = ["# Evidence and confidence", "", NOTE, ""]
    for ablation in ablations:
        lines += [summary(ablation), "", *titled_lines(tables(ablation))]
    return "\n".join(lines)


def comma_separated(ablations: Sequence[Ablation]) -> str:
    """One line for each number, with its interval or limit."""
    numbers = (
        (ablation.model, ablation.header.prompt_version, row.name, *number)
        for ablation in ablations
        for row in ablation.rows
        for number in _numbers(row)
    )
    return csv_text((("model", "prompt", "evidence", "metric", "value", "low", "high"), *numbers))


def write(ablations: Sequence[Ablation], folder: Path) -> None:
    """confidence.md, confidence.csv and confidence.json in `folder`. Raises DataError if they cannot be
    written."""
    document = {"schema": 1, "ablations": [ablation.to_json() for ablation in ablations]}
    replace_file(folder / "confidence.md", markdown(ablations))
    replace_file(folder / "confidence.csv", comma_separated(ablations))
    replace_file(folder / "confidence.json", json.dumps(document, indent=2) + "\n")


def draw(ablations: Sequence[Ablation], folder: Path, suffix: str = ".svg") -> list[Path]:
    """The ablation's figure, and a reliability diagram of each ablation's last row.

    Raises DataError if matplotlib is not installed, a file cannot be written, or for more than two ablations.
    """
    from lsp_calib.studies.figures import draw_reliability, save

    files = [draw_steps(ablations, folder / f"confidence-ladder{suffix}")]
    for name, ablation in zip(_names(ablations), ablations, strict=True):
        last = ablation.rows[-1]
        diagram = partial(
            draw_reliability,
            reliability(last.confidence, ablation.correct),
            title=f"{name}: {last.name}",
            note=f"skill {last.metrics['skill']:+.2f}",
        )
        # A name may hold what no file name may: that of a remote model, a slash.
        stem = re.sub(r"[^\w.+-]+", "-", name)
        files.append(save(diagram, folder / f"confidence-reliability-{stem}{suffix}"))
    return files


def draw_steps(ablations: Sequence[Ablation], path: Path) -> Path:
    """The ablation's figure alone; its description is `checksum`. Raises DataError as `draw` does."""
    from lsp_calib.studies.figures import draw_ablation, save

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
        [
            model,
            name,
            *(None if bound is None else f"{bound:.3f}" for bound in (item.low, item.value, item.high)),
        ]
        for model, items in series.items()
        for name, item in zip(names, items, strict=True)
        if item is not None
    ]
    return hashlib.sha256(json.dumps(shown).encode()).hexdigest()[:16]


def print_ablations(ablations: Sequence[Ablation], console: Console) -> None:
    for ablation in ablations:
        console.print(summary(ablation))
        print_tables(tables(ablation), console)
    console.print(NOTE)


def _series(ablations: Sequence[Ablation]) -> tuple[list[str], Mapping[str, list[Interval | None]]]:
    """The rows' names over all ablations, in order, and each ablation's skill by row."""
    names = list(dict.fromkeys(row.name for ablation in ablations for row in ablation.rows))
    series: dict[str, list[Interval | None]] = {}
    for shown, ablation in zip(_names(ablations), ablations, strict=True):
        skill = {row.name: row.metrics["skill"] for row in ablation.rows}
        series[shown] = [skill.get(name) for name in names]
    return names, series


def _names(ablations: Sequence[Ablation]) -> list[str]:
    """What each ablation is called: its model; with its prompt where there are several of the model; with its
    number where that is not enough either."""
    names = [ablation.model for ablation in ablations]
    if len(set(names)) < len(names):
        prompts = [f"{ablation.model}, {ablation.header.prompt_version}" for ablation in ablations]
        names = [
            long if names.count(short) > 1 else short for short, long in zip(names, prompts, strict=True)
        ]
    return [
        f"{name} ({names[:at].count(name) + 1})" if names.count(name) > 1 else name
        for at, name in enumerate(names)
    ]


def _quality(row: Row) -> list[str]:
    return [
        row.name,
        *quality(row.metrics)[:2],
        share(row.tiers["accept"], least=True),
        share(row.tiers["reject"]),
        *(share(row.acceptable[target], least=True) for target in TARGETS),
    ]


def share(found: Share, *, least: bool = False) -> str:
    """A share and how much of it is right, in words."""
    if found.precision is None or found.least is None:
        return "0 %"
    bound = f" (≥ {100 * found.least:.1f})" if least else ""
    return f"{percent(found.share)}, {100 * found.precision:.1f} % right{bound}"


def _error(row: Row, error: BoundedError | None) -> str:
    if error is None:
        return ""
    if "ece" not in row.metrics:
        return "–"
    return f"{error.value:.3f} ({error.limit:.3f}){'' if error.inside else ' !'}"


def _numbers(row: Row) -> list[tuple[str, float | None, float | None, float | None]]:
    """(name, value, low, high) of all numbers of a row."""
    found = [(name, i.value, i.low, i.high) for name, i in row.metrics.items() if name != "ece"]
    if "ece" in row.metrics:
        found += [(f"ece.{place}", error.value, None, error.limit) for place, error in row.errors.items()]
    shares = {**row.tiers, **{f"at-{target:g}": found for target, found in row.acceptable.items()}}
    for name, kind in shares.items():
        found += [
            (f"{name}.share", kind.share, None, None),
            (f"{name}.right", kind.precision, kind.least, None),
        ]
    return found
