"""How the confidence does where a line is new: what it opens is not written yet.

    python tests/programs/new_openers.py RECORDS SOURCES

RECORDS: of lines, made with a prompt that does not show what stands below; with one that does, the answers
might have been others. SOURCES: the folder with their projects. The lines were removed from finished files,
so where the true one opens something, that stands below. Here it is taken away from under these lines before
the features of the text are computed. Two readings of `broken` are compared, without and with a second
judgement (`syntax.line_fit`), on the records as they stand and on these lines; out of fold, with the same
folds. Nothing is decoded.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from unittest import mock

import attrs
import numpy as np

from lsp_calib.calibration.arrays import BoolArray, FloatArray, group_codes
from lsp_calib.calibration.calibrators.fitting import RECIPES, FeatureData
from lsp_calib.calibration.logistic import sigmoid
from lsp_calib.calibration.scores import skill_score
from lsp_calib.calibration.tiers import PRESETS
from lsp_calib.calibration.validation import bootstrap_difference, grouped_folds
from lsp_calib.completion.context import Cursor
from lsp_calib.completion.features import text_features
from lsp_calib.evaluation import recomputed
from lsp_calib.evaluation.lines import WRITING_ON
from lsp_calib.evaluation.records import Record, read_records
from lsp_calib.inference.models.cards import locate
from lsp_calib.syntax import line_fit
from lsp_calib.values import Evidence

FOLDS = 5
_OPENING = (":", "{", "(", "[", ",")
_CLOSING = (")", "]", "}")


@attrs.frozen
class Line:
    """removed: without and with the second judgement, the features with what the line opens taken away; None
    if it opens nothing."""

    record: Record
    standing: tuple[Evidence, Evidence]
    removed: tuple[Evidence, Evidence] | None


def without_body(cursor: Cursor, target: str) -> Cursor | None:
    """The document without what the line with `target` opens, by indentation; None if that is nothing."""
    whole = (cursor.before + target).rstrip()
    first = end = cursor.line + 1
    lines = cursor.lines
    if not whole.endswith(_OPENING):
        return None
    while end < len(lines) and (not lines[end].strip() or _indentation(lines[end]) > _indentation(whole)):
        end += 1
    while end > first and not lines[end - 1].strip():
        end -= 1
    if end == first:
        return None
    closes = end < len(lines) and lines[end].strip().startswith(_CLOSING)
    if closes and _indentation(lines[end]) == _indentation(whole) and not whole.endswith(":"):
        end += 1
    return attrs.evolve(cursor, lines=(*lines[:first], *lines[end:]))


def _indentation(line: str) -> int:
    line = line.expandtabs()
    return len(line) - len(line.lstrip())


def lines_of(path: Path, sources: Path) -> Iterator[Line]:
    header, records = read_records(path)
    card, file = locate(header.model.name)
    pieces = recomputed._pieces(file)
    for rebuilt in recomputed.rebuild(header, records, sources, card, pieces):
        record, cursor, text = rebuilt.record, rebuilt.item.cursor, rebuilt.text
        if not record.shown or not record.logprobs:
            continue
        below = None if record.condition == WRITING_ON else without_body(cursor, rebuilt.item.target)
        evidence = record.evidence(header)
        yield Line(
            record, _both(evidence, cursor, text), None if below is None else _both(evidence, below, text)
        )


def _both(evidence: Evidence, cursor: Cursor, text: str) -> tuple[Evidence, Evidence]:
    with mock.patch.object(line_fit, "_opens", return_value=False):
        once = text_features(cursor, text)
    twice = text_features(cursor, text)
    return (
        attrs.evolve(evidence, features={**evidence.features, **once}),
        attrs.evolve(evidence, features={**evidence.features, **twice}),
    )


def predicted(
    lines: Sequence[Line], correct: BoolArray, fitted: int, asked: int
) -> tuple[FloatArray, FloatArray]:
    """Out of fold: of all lines as they stand, and of those that have something removed.

    fitted, asked: the judgement (0: one, 1: two) of what the curve is fitted on, and of what it is asked for.
    """
    groups = [line.record.group for line in lines]
    fold = grouped_folds(group_codes(np.array(groups), len(groups)), FOLDS)
    standing, removed = np.empty(len(lines)), np.full(len(lines), np.nan)
    for k in range(FOLDS):
        kept, test = np.flatnonzero(fold != k).tolist(), np.flatnonzero(fold == k).tolist()
        codes = group_codes(np.array([groups[at] for at in kept]), len(kept))
        data = FeatureData.of([lines[at].standing[fitted] for at in kept], correct[kept], codes, RECIPES)
        curve = data.curve("features-2", data.choose(data.usable(RECIPES)))
        standing[test] = sigmoid(curve.scores([lines[at].standing[asked] for at in test]))
        found = [(at, pair[asked]) for at in test if (pair := lines[at].removed) is not None]
        if found:
            removed[[at for at, _ in found]] = sigmoid(curve.scores([one for _, one in found]))
    return standing, removed[~np.isnan(removed)]


def accepted(p: FloatArray, correct: BoolArray) -> str:
    mask = np.array([PRESETS["balanced"].decide(one, source="shipped")[0] == "accept" for one in p.tolist()])
    return f"{mask.mean():.1%} @ {correct[mask].mean():.1%}" if mask.any() else "0 %"


def main() -> None:
    lines = list(lines_of(Path(sys.argv[1]), Path(sys.argv[2])))
    correct = np.array([line.record.correct["exact"] for line in lines], dtype=np.bool_)
    opening = np.array([line.removed is not None for line in lines])
    groups = [line.record.group for line in lines]
    parts = (
        ("as recorded", correct, groups),
        (
            "what it opens removed",
            correct[opening],
            [g for g, one in zip(groups, opening, strict=True) if one],
        ),
    )
    first = predicted(lines, correct, 0, 0)
    print("| fitted on, asked for | lines | skill | gained (95 %) | promised, right | accepted @ right |")
    print("|---|---|--:|--:|---|---|")
    for fitted, asked in ((0, 0), (0, 1), (1, 1)):
        for (words, y, of), p, before in zip(
            parts, predicted(lines, correct, fitted, asked), first, strict=True
        ):
            gained = bootstrap_difference(skill_score, p, before, y, of)
            print(
                f"| {('one', 'two')[fitted]}, {('one', 'two')[asked]} | {words}: {y.size} "
                f"| {skill_score(p, y):+.3f} | {gained.value:+.3f} ({gained.low:+.3f} to {gained.high:+.3f}) "
                f"| {p.mean():.0%}, {y.mean():.0%} | {accepted(p, y)} |"
            )


if __name__ == "__main__":
    main()
