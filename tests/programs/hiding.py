"""How likely a line is to survive: fits the shipped curves, says what `hideBelow` hides by them, and counts
how often lines of a low probability are used.

    python tests/programs/hiding.py            # the table of models/records/lines/README.md, and more
    python tests/programs/hiding.py --write    # and models/survival/*.json and models/usage/*.json
    python tests/programs/hiding.py --blind    # of the blind projects, with the shipped curves

A line survives if what was written in its place keeps half of it or more (`survives`). The
folder with the sets of `lsp-calib data pull` is LSP_CALIB_DATA. No model decodes anything: a record holds the
ids of its tokens, and the source the line that was to be written. Each line is judged by curves that have not
seen its project.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Iterator, Sequence
from pathlib import Path

import attrs
import numpy as np
from sure_parts import MODELS, loaded, offered, wilson

from lsp_calib.calibration.arrays import BoolArray, FloatArray, group_codes, quietly
from lsp_calib.calibration.calibrators.calibrator import (
    FEATURES_MEASURE,
    WITHOUT_ENTROPIES,
    WITHOUT_GRAMMAR,
    Calibrator,
)
from lsp_calib.calibration.calibrators.fitting import RECIPES, FeatureData, FitChoice, Recipe
from lsp_calib.calibration.calibrators.line_curves import SURVIVAL, USAGE, SurvivalCurve, Usage, UsedLines
from lsp_calib.calibration.document import written
from lsp_calib.calibration.tiers import PRESETS
from lsp_calib.calibration.validation import grouped_folds, summarise
from lsp_calib.characters import normalised_line
from lsp_calib.commands.calibrate import nine_digits
from lsp_calib.completion.context import Cursor
from lsp_calib.confidence.features import GRAMMAR
from lsp_calib.corpus.records import Header
from lsp_calib.feedback.lines import COMPARED_CHARACTERS, edit_distances
from lsp_calib.values import Evidence

_BEST = next(one for one in RECIPES if one.by_place)
# The total and the mean of its tokens together tell how long a line is: of a long one half is sooner kept.
RECIPE = attrs.evolve(_BEST, features=(*_BEST.features, "geometric-mean", "largest-surprisal"))
# Standard deviation of the weights of standardised features, in nats.
SPREAD = 1.0
FOLDS = 5
LIMIT = 0.125
"""The default of `hideBelow`."""
LEAST = 60
"""Of a kind of lines: fewer have no row."""
STEPS = 20
"""Parts of equal width of the probabilities from 0 to 1, in which the use of lines is counted."""
MOST_CHANGED = 0.5
"""The largest edit distance, over its length, of a text that survives."""


def survives(text: str, written: str) -> bool:
    """Whether what was written in the end keeps a text: as it is, or after an edit of at most half of it.

    written: all that stands in the text's place. Both are `normalised_line`.

    >>> survives("net + tax", "net - tax"), survives("x", "x = net + tax")
    (True, False)
    """
    changed = edit_distances(text, written, [*range(len(written) + 1)])[-1]
    return changed <= MOST_CHANGED * len(text[:COMPARED_CHARACTERS])


@attrs.frozen(eq=False)
class Line:
    """An offered line. whole: the probability that it ends unchanged, by a calibrator that has not seen its
    project. right: whether it is the line that was to be written; survives: whether that keeps it."""

    language: str
    project: str
    condition: str
    place: str
    evidence: Evidence
    whole: float
    right: bool
    survives: bool


def is_in_empty_body(cursor: Cursor) -> bool:
    """Whether a line is written right below the head of a block in which nothing else stands."""
    above = next((line for line in reversed(cursor.lines[: cursor.line]) if line.strip()), "")
    below = next((line for line in cursor.lines[cursor.line + 1 :] if line.strip()), "")
    return (
        not cursor.before.strip()
        and above.rstrip().endswith((":", "{"))
        and _indentation(below) <= _indentation(above)
    )


def _indentation(line: str) -> int:
    expanded = line.expandtabs(4)
    return len(expanded) - len(expanded.lstrip())


def lines_of(path: Path, sources: Path, calibrator: Calibrator) -> list[Line]:
    """The offered lines of a file of records."""
    header, rebuilt = offered(path, sources, calibrator)
    found: list[Line] = []
    for one, whole in rebuilt:
        record, target = one.record, one.item.target
        found.append(
            Line(
                header.language,
                record.group,
                record.condition,
                "empty body" if is_in_empty_body(one.item.cursor) else record.stratum,
                record.evidence(header),
                whole,
                record.correct["exact"],
                record.correct["exact"] or survives(normalised_line(one.text), normalised_line(target)),
            )
        )
    return found


def fit(header: Header, lines: Sequence[Line]) -> SurvivalCurve:
    """The curves of lines that do not end unchanged. Nine digits of each number: further ones depend on the
    processor."""
    changed = [line for line in lines if not line.right]
    kept = np.array([line.survives for line in changed])
    groups = np.arange(kept.size)
    recipes = {
        FEATURES_MEASURE: RECIPE,
        WITHOUT_ENTROPIES: RECIPE.without("entropies"),
        WITHOUT_GRAMMAR: RECIPE.only(set(RECIPE.features) - set(GRAMMAR)),
        "total": Recipe("total", ("total",)),
    }
    curves = []
    for measure, one in recipes.items():
        data = FeatureData.of([line.evidence for line in changed], kept, groups, [one])
        curves.append(nine_digits(data.curve(measure, FitChoice(one, SPREAD))))
    return SurvivalCurve(
        model=header.model,
        prompt_version=header.prompt_version,
        n=kept.size,
        n_survived=int(np.count_nonzero(kept)),
        curves=tuple(curves),
    )


def predicted(curve: SurvivalCurve, lines: Sequence[Line]) -> FloatArray:
    found = [curve.probability(line.evidence, line.whole) for line in lines]
    return np.array([math.nan if p is None else p for p in found])


def out_of_fold(header: Header, lines: Sequence[Line]) -> FloatArray:
    """Each line's probability of surviving, by a curve of other projects. Shape (n,)."""
    fold = grouped_folds(np.array([line.project for line in lines]), FOLDS)
    found = np.full(len(lines), math.nan)
    for k in range(FOLDS):
        curve = fit(header, [line for line, f in zip(lines, fold, strict=True) if f != k])
        found[fold == k] = predicted(curve, [line for line, f in zip(lines, fold, strict=True) if f == k])
    return found


def counted(header: Header, lines: Sequence[Line], hidden: BoolArray) -> Usage:
    """What became of the lines that are shown, by their probability: who reads its words sees a line."""
    step = np.minimum((np.array([line.whole for line in lines]) * STEPS).astype(int), STEPS - 1)
    right = np.array([line.right for line in lines])
    kept = np.array([line.survives for line in lines])
    used = []
    for at in range(STEPS):
        of = (step == at) & ~hidden
        counts = (int(np.count_nonzero(of & which)) for which in (of, right, kept))
        used.append(UsedLines((at + 1) / STEPS, *counts))
    return Usage(model=header.model, prompt_version=header.prompt_version, lines=tuple(used))


def rejected(usage: Usage) -> Iterator[str]:
    """A table of the lines that each preset rejects."""
    yield "| preset | rejected, shown | used as they are | as they are or after an edit |\n|---|--:|--:|--:|"
    for preset, policy in PRESETS.items():
        n = sum(one.n for one in usage.lines if one.below <= policy.reject_below + 1e-9)
        shares = usage.shares(policy.reject_below)
        cells = "– | –" if shares is None else " | ".join(f"{100 * share:.0f} %" for share in shares)
        yield f"| {preset} (below {100 * policy.reject_below:.0f} %) | {n} | {cells} |"


HEAD = (
    "| lines | n | survive | promised | skill (95 %) | ECE; if calibrated | hidden "
    "| of these survive (95 %) | are right | of all right ones |\n|---|--:|--:|--:|---|---|--:|---|--:|--:|"
)


def row(name: str, lines: Sequence[Line], p: FloatArray, hidden: BoolArray) -> str:
    """What is promised and hidden of some lines. p, hidden: shape (n,)."""
    kept = np.array([line.survives for line in lines])
    right = np.array([line.right for line in lines])
    projects = group_codes(np.array([line.project for line in lines]), len(lines))
    with quietly():
        metrics = summarise(p, kept, projects)
    cells = [
        *(name, f"{len(lines):,}", f"{kept.mean():.0%}", f"{p.mean():.0%}"),
        *(f"{metrics['skill']:+.2f}", f"{metrics['ece']:.3f}", f"{hidden.mean():.0%}"),
        wilson(int(kept[hidden].sum()), int(hidden.sum())),
        f"{right[hidden].mean():.1%}" if hidden.any() else "",
        f"{hidden[right].mean():.1%}",
    ]
    return f"| {' | '.join(cells)} |"


def kinds(lines: Sequence[Line]) -> Iterator[tuple[str, BoolArray]]:
    """The kinds of lines that have a row, each with which lines are of it."""
    yield "all", np.ones(len(lines), dtype=np.bool_)
    for column in ("language", "condition", "place"):
        values = np.array([getattr(line, column) for line in lines])
        for value in sorted(set(values.tolist())):
            if LEAST <= np.count_nonzero(values == value) < len(lines):
                yield str(value), values == value


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("--write", action="store_true", help="write the shipped curves as well")
    parser.add_argument("--blind", action="store_true", help="the blind projects, with the shipped curves")
    options = parser.parse_args()
    for header, stem, lines in loaded(options.blind, lines_of):
        target = MODELS / SURVIVAL / f"{stem}.json"
        p = predicted(SurvivalCurve.load(target), lines) if options.blind else out_of_fold(header, lines)
        if options.write:
            of_lines = {
                target: fit(header, lines),
                MODELS / USAGE / target.name: counted(header, lines, p < LIMIT),
            }
            for path, made in of_lines.items():
                path.parent.mkdir(exist_ok=True)
                path.write_text(json.dumps(written(made), indent=2) + "\n", "utf-8")
        print(f"\n### {header.model.name}, {header.prompt_version}\n\n{HEAD}")
        for name, chosen in kinds(lines):
            of_kind = [line for line, is_one in zip(lines, chosen, strict=True) if is_one]
            print(row(name, of_kind, p[chosen], p[chosen] < LIMIT), flush=True)
        print("\n" + "\n".join(rejected(counted(header, lines, p < LIMIT))), flush=True)


if __name__ == "__main__":
    main()
