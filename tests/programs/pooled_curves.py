"""The pooled curves of the shipped models: fits them, and says what they are worth, from records alone.

    python tests/programs/pooled_curves.py            # the tables of models/records/languages/README.md
    python tests/programs/pooled_curves.py --write    # and models/calibrators/pooled/*.json

A pooled curve serves a model in languages and windows without labels. So it is judged by languages that were
left out of the fit, with their dialects, each predicted by the others. No model decodes anything.
"""

from __future__ import annotations

import argparse
import functools
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import attrs
import numpy as np
import numpy.typing as npt
from msgspec.structs import replace
from pages import written

from lsp_calib import home
from lsp_calib.calibration import document
from lsp_calib.calibration.arrays import BoolArray, FloatArray, IntArray, group_codes, quietly
from lsp_calib.calibration.binomial import least_rate
from lsp_calib.calibration.calibrators.calibrator import (
    FEATURES_MEASURE,
    WITHOUT_ENTROPIES,
    WITHOUT_GRAMMAR,
    Calibrator,
    Curve,
)
from lsp_calib.calibration.calibrators.fitting import RECIPES, FeatureData, FitChoice, Recipe
from lsp_calib.calibration.calibrators.lent import FOLDER, Pooled, PooledCurve
from lsp_calib.calibration.calibrators.purpose import Origin
from lsp_calib.calibration.tiers import PRESETS
from lsp_calib.calibration.validation import Interval, summarise
from lsp_calib.commands.calibrate import nine_digits
from lsp_calib.confidence.features import GRAMMAR
from lsp_calib.corpus.places import INSERTING, WRITING_ON
from lsp_calib.corpus.records import read_records
from lsp_calib.languages import family_of, name_of
from lsp_calib.studies.tables import percent
from lsp_calib.values import Evidence, ModelIdentity

MODELS = home.shipped_models()
PAGE = MODELS / "records" / "languages" / "README.md"
# Thousands of labels: every recipe, and every spread from 1 on, predicts other languages as well, to 0.003.
RECIPE, SPREAD = RECIPES[0], 1.0
BARE = tuple(name for name in RECIPE.features if name not in GRAMMAR)


@attrs.frozen(eq=False)
class Pool:
    """The offered lines of a model in all its records. Arrays of shape (n,), one element for each line.

    calibrators: that ship for the same lines. origins: of each file of records, its calibrator or, where none
    ships, the file.
    """

    model: ModelIdentity
    calibrators: tuple[Calibrator, ...]
    origins: tuple[Origin, ...]
    evidences: tuple[Evidence, ...]
    correct: BoolArray
    languages: npt.NDArray[np.str_]
    prompts: npt.NDArray[np.str_]
    conditions: npt.NDArray[np.str_]
    projects: npt.NDArray[np.str_]

    @classmethod
    def of(cls, paths: Sequence[Path]) -> Pool:
        """The lines of files of records of one model, in their order."""
        rows: list[tuple[Evidence, bool, str, str, str, str]] = []
        shipped, origins = [], []
        for path in paths:
            header, records = read_records(path)
            before = len(rows)
            rows += [
                (
                    record.evidence(header),
                    record.correct["exact"],
                    header.language,
                    header.prompt_version,
                    record.condition,
                    record.group,
                )
                for record in records
                if record.shown and record.logprobs and record.group not in header.held_out
            ]
            if (calibrator := MODELS / "calibrators" / f"{path.stem}.json").exists():
                shipped.append(one := Calibrator.load(calibrator))
                origins.append(Origin(one.id, one.created, one.n))
            else:
                origins.append(Origin(path.stem, header.created, len(rows) - before))
        evidences, correct, *texts = zip(*rows, strict=True)
        return cls(
            read_records(paths[0])[0].model,
            tuple(shipped),
            tuple(origins),
            evidences,
            np.array(correct, dtype=np.bool_),
            *(np.array(column, dtype=str) for column in texts),
        )

    @property
    def base(self) -> Calibrator:
        """The shipped calibrator with the most labels."""
        return max(self.calibrators, key=lambda one: (one.n, one.id))

    def fit(self, items: IntArray, features: Sequence[str], measure: str) -> PooledCurve:
        """A curve over features of these items, with an offset for each language and prompt."""
        versions = sorted(set(self.prompts[items].tolist()))
        data = FeatureData.of(
            # Where a curve has offsets by kind of place, this one has them by language.
            [attrs.evolve(self.evidences[i], place=str(self.languages[i])) for i in items],
            self.correct[items],
            group_codes(self.projects[items], items.size),
            [Recipe("pooled", tuple(features))],
        )
        for version in versions[1:]:
            data.columns[version] = (self.prompts[items] == version).astype(np.float64)
        names = (*features, *versions[1:])
        assert set(names) <= data.columns.keys(), "some lines lack a feature"
        curve = data.curve(FEATURES_MEASURE, FitChoice(Recipe("pooled", names, by_place=True), SPREAD))
        return _apart(curve, measure, versions)

    def left_out(self, features: Sequence[str], measure: str = FEATURES_MEASURE) -> FloatArray:
        """Each line's probability, shape (n,), by the curve of the other languages' lines."""
        families = np.array([family_of(one) for one in self.languages.tolist()])
        found = np.full(self.correct.size, math.nan)
        for family in np.unique(families):
            curve = self.fit(np.flatnonzero(families != family), features, measure)
            for prompt in np.unique(self.prompts[families == family]):
                # A window that no other language has labels for is not predicted.
                if prompt in curve.prompts:
                    items = np.flatnonzero((families == family) & (self.prompts == prompt))
                    scores = curve.at("", str(prompt)).scores([self.evidences[i] for i in items])
                    found[items] = 1.0 / (1.0 + np.exp(-scores))
        return found

    @functools.cached_property
    def unseen(self) -> FloatArray:
        """`left_out` with all features."""
        return self.left_out(RECIPE.features)

    def judged(self, *, prompt: str = "", condition: str = "", language: str = "") -> BoolArray:
        """The lines that a table is about: in languages without the most labels, of these kinds; shape (n,).

        The pool is not judged by the language that most of it is of: without that, little is left.
        """
        chosen = ~np.isnan(self.unseen) & (self.languages != self.base.purpose.language)
        for column, wanted in (
            (self.prompts, prompt),
            (self.conditions, condition),
            (self.languages, language),
        ):
            chosen &= (column == wanted) | (not wanted)
        return np.asarray(chosen, dtype=np.bool_)


def _apart(curve: Curve, measure: str, versions: Sequence[str]) -> PooledCurve:
    """A fitted curve with its offsets apart; the languages' add to 0, so that a new one has their mean."""
    mean = math.fsum(one.offset for one in curve.offsets) / len(curve.offsets)
    added = {one.name: one for one in curve.features if one.name in versions}
    prompts = {
        version: added[version].weight / added[version].scale if version in added else 0.0
        for version in versions
    }
    centre = math.fsum(one.weight * one.mean / one.scale for one in added.values())
    features = tuple(one for one in curve.features if one.name not in versions)
    whole = replace(
        curve, measure=measure, features=features, intercept=curve.intercept + mean - centre, offsets=()
    )
    return PooledCurve(whole, {one.place: one.offset - mean for one in curve.offsets}, prompts)


def fit(pool: Pool) -> Pooled:
    """What ships. Nine digits of each number: further ones depend on the processor."""
    every = np.arange(pool.correct.size)
    raw = pool.base.raw_measure
    kinds = {
        FEATURES_MEASURE: RECIPE.features,
        WITHOUT_ENTROPIES: RECIPE.without("entropies").features,
        WITHOUT_GRAMMAR: BARE,
        "total": ("total",),
        raw: (raw,),
    }
    judged = np.flatnonzero(pool.judged())
    with quietly():
        metrics = summarise(pool.unseen[judged], pool.correct[judged], pool.projects[judged])
    return Pooled(
        model=pool.model,
        curves=tuple(nine_digits(pool.fit(every, names, measure)) for measure, names in kinds.items()),
        raw_measure=raw,
        n=every.size,
        n_correct=int(np.count_nonzero(pool.correct)),
        metrics=nine_digits(metrics),
        provenance=pool.origins,
        created=max(one.version for one in pool.origins),
    )


@functools.cache
def pools() -> dict[str, Pool]:
    """The pools of the shipped models, by name: of every file of lines that a calibrator ships for, and of
    languages in a window that has none of its own."""
    found: dict[str, list[Path]] = {}
    for folder in ("lines", "languages", "windows"):
        for path in sorted((MODELS / "records" / folder).glob("line-*.jsonl")):
            found.setdefault(read_records(path)[0].model.name, []).append(path)
    return {name: Pool.of(paths) for name, paths in found.items()}


def target(model: str) -> Path:
    return MODELS / "calibrators" / FOLDER / f"line-{model}.json"


HEAD = (
    "| languages never seen | prompt | lines | right | promised | skill (95 %) | ECE; if calibrated | "
    "accept: share, right (95 %) |\n|---|---|--:|--:|--:|---|---|---|"
)


@attrs.frozen
class Cell:
    """Lines of one kind by a pool without their language."""

    name: str
    prompt: str
    promised: FloatArray
    correct: BoolArray
    metrics: Mapping[str, Interval]

    @classmethod
    def of(cls, name: str, prompt: str, pool: Pool, chosen: BoolArray, predicted: FloatArray) -> Cell:
        p, y = predicted[chosen], pool.correct[chosen]
        with quietly():
            return cls(name, prompt, p, y, summarise(p, y, pool.projects[chosen]))

    @property
    def accepted(self) -> tuple[int, int, float, float]:
        """What the balanced preset accepts: how many, of these right, and the 95 % interval of the share."""
        taken = self.promised >= PRESETS["balanced"].accept_from
        n, right = int(taken.sum()), int(self.correct[taken].sum())
        return n, right, least_rate(right, n, 0.975), 1.0 - least_rate(n - right, n, 0.975)

    def row(self) -> str:
        n, right, low, high = self.accepted
        cells = [
            *(self.name, self.prompt, f"{self.correct.size:,}", percent(self.correct.mean())),
            *(percent(self.promised.mean()), format(self.metrics["skill"], "+.2f")),
            format(self.metrics["ece"], ".3f"),
            f"{percent(n / self.correct.size)}, {percent(right / max(n, 1))} "
            f"({100 * low:.0f} to {100 * high:.0f})",
        ]
        return f"| {' | '.join(cells)} |"


def cells(pool: Pool) -> Iterator[Cell]:
    """Languages together, by condition, one by one, and without the features of a grammar."""
    for prompt in sorted(set(pool.prompts[pool.judged()].tolist())):
        yield Cell.of("all", prompt, pool, pool.judged(prompt=prompt), pool.unseen)
        for condition, words in ((INSERTING, "inserting"), (WRITING_ON, "writing on")):
            chosen = pool.judged(prompt=prompt, condition=condition)
            yield Cell.of(f"all, {words}", prompt, pool, chosen, pool.unseen)
        for language in sorted(set(pool.languages[pool.judged(prompt=prompt)].tolist())):
            chosen = pool.judged(prompt=prompt, language=language)
            yield Cell.of(name_of(language), prompt, pool, chosen, pool.unseen)
        bare = pool.left_out(BARE, WITHOUT_GRAMMAR)
        yield Cell.of("all, without a grammar", prompt, pool, pool.judged(prompt=prompt), bare)


def block(pool: Pool) -> str:
    return "\n".join((HEAD, *(cell.row() for cell in cells(pool))))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument(
        "--write", action="store_true", help="write the shipped curves and the tables as well"
    )
    options = parser.parse_args()
    for model, pool in pools().items():
        if options.write:
            target(model).parent.mkdir(exist_ok=True)
            target(model).write_text(json.dumps(document.written(fit(pool)), indent=2) + "\n", "utf-8")
        table = block(pool)
        if options.write:
            PAGE.write_text(written(PAGE.read_text("utf-8"), {f"pooled {model}": table}), "utf-8")
        print(f"\n### {model}\n\n{table}", flush=True)


if __name__ == "__main__":
    main()
