"""How often lines of a low probability are used: counts that ship beside the calibrators, from records alone.

    python tests/programs/rejected_lines.py            # a table for each model and window
    python tests/programs/rejected_lines.py --write    # and models/usage/*.json: `make calibrators`

The folder with the sets of `lsp-calib data pull` is LSP_CALIB_DATA. No model decodes anything. Each line has
a probability by a curve that has not seen its project. A line is used as it is if it is the one that was
written, and after an edit if the edit distance to what was written is at most half of its length. What would
be hidden is left out: who reads the words sees a line.
"""

from __future__ import annotations

import argparse
import json
import math
import os
from collections.abc import Sequence
from pathlib import Path

import attrs
import numpy as np
from offered_lines import shipped_for
from sure_parts import FOLDS, MODELS, SPREAD, pieces_of, records_of, whole_lines

from lsp_calib.calibration.arrays import BoolArray, FloatArray
from lsp_calib.calibration.calibrators.usage import FOLDER, Usage, UsedLines
from lsp_calib.calibration.document import written
from lsp_calib.calibration.logistic import fit_standardised, sigmoid
from lsp_calib.calibration.tiers import PRESETS
from lsp_calib.calibration.validation import grouped_folds
from lsp_calib.completion.alternatives import edit_similarity
from lsp_calib.evaluation.recomputed import rebuild
from lsp_calib.evaluation.records import read_records
from lsp_calib.inference.models.cards import locate
from lsp_calib.text_lines import normalised_line

MOST_CHANGED = 0.5
HIDDEN_BELOW = 1 / 8
"""The probability to survive below which a line is hidden."""
STEPS = 20
"""Parts of equal width of the probabilities from 0 to 1."""


@attrs.frozen(eq=False)
class Lines:
    """n offered lines: the probability of each, and whether it stands in the source as it is, and as it is or
    after an edit. hidden: whether it would not be shown. Arrays of shape (n,)."""

    p: FloatArray
    unchanged: BoolArray
    survived: BoolArray
    hidden: BoolArray


def survives(text: str, target: str) -> bool:
    """Whether a text is used in a target as it is or after an edit: by edit distance over its length."""
    text, target = normalised_line(text), normalised_line(target)
    distance = (1.0 - edit_similarity(text, target)) * max(len(text), len(target))
    return distance <= MOST_CHANGED * len(text) + 1e-9


def lines_of(path: Path, sources: Path) -> Lines:
    header, records = read_records(path)
    calibrator = shipped_for(header)
    card, _ = locate(header.model.name)
    shown = [record for record in records if record.shown and not record.doubt and record.entropies]
    pieces = pieces_of(header.model.name)
    rebuilt = list(rebuild(header, shown, sources, card, pieces, with_surroundings=False))
    p = whole_lines(header, rebuilt, calibrator)
    unchanged = np.array([one.record.correct["exact"] for one in rebuilt], dtype=np.bool_)
    kept = [survives(one.text, one.item.target) for one in rebuilt]
    survived = np.array(kept, dtype=np.bool_) | unchanged
    table = calibrator.curves[0].standardised([one.record.evidence(header) for one in rebuilt])
    edited = _edited(table, p, unchanged, survived, [one.record.group for one in rebuilt])
    return Lines(p, unchanged, survived, p + (1.0 - p) * edited < HIDDEN_BELOW)


def _edited(
    table: FloatArray, p: FloatArray, unchanged: BoolArray, survived: BoolArray, groups: Sequence[str]
) -> FloatArray:
    """The probability that a line survives if it does not stand as it is, out of fold. Shape (n,)."""
    q = np.clip(p, 1e-6, 1.0 - 1e-6)
    table = np.column_stack((table, np.log(q / (1.0 - q))))
    fold = grouped_folds(groups, FOLDS)
    found = np.full(p.size, math.nan)
    for k in range(int(fold.max()) + 1):
        of = (fold != k) & ~unchanged
        weights, intercept, means, scales = fit_standardised(
            table[of], survived[of], np.ones(np.count_nonzero(of)), SPREAD
        )
        found[fold == k] = sigmoid((table[fold == k] - means) / scales @ weights + intercept)
    return found


def counted(parts: Sequence[Lines]) -> tuple[UsedLines, ...]:
    """The lines that are shown, by their probability."""
    p, unchanged, survived, hidden = (
        np.concatenate([getattr(one, name) for one in parts])
        for name in ("p", "unchanged", "survived", "hidden")
    )
    step = np.minimum((p * STEPS).astype(int), STEPS - 1)
    found = []
    for at in range(STEPS):
        of = (step == at) & ~hidden
        counts = (int(np.count_nonzero(of & which)) for which in (of, unchanged, survived))
        found.append(UsedLines((at + 1) / STEPS, *counts))
    return tuple(found)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--write", action="store_true", help="write the shipped counts as well")
    options = parser.parse_args()
    data = Path(os.environ["LSP_CALIB_DATA"])
    for (model, version), paths in records_of(("", "languages")).items():
        parts = []
        for path in paths:
            with path.open(encoding="utf-8") as stream:
                language = json.loads(stream.readline())["language"]
            name = "projects" if language == "python" else f"projects-{language}"
            parts.append(lines_of(path, data / name))
        usage = Usage(model=read_records(paths[0])[0].model, prompt_version=version, lines=counted(parts))
        print(f"\n### {model}, {version}: {sum(one.p.size for one in parts)} lines")
        print(f"hidden: {sum(int(one.hidden.sum()) for one in parts)}")
        print("\n| preset | rejected, shown | used as they are | as they are or after an edit |")
        print("|---|--:|--:|--:|")
        for preset, policy in PRESETS.items():
            n = sum(one.n for one in usage.lines if one.below <= policy.reject_below + 1e-9)
            shares = usage.shares(policy.reject_below)
            cells = "– | –" if shares is None else " | ".join(f"{100 * share:.0f} %" for share in shares)
            print(f"| {preset} (below {100 * policy.reject_below:.0f} %) | {n} | {cells} |", flush=True)
        if options.write:
            target = MODELS / FOLDER / f"{paths[0].stem}.json"
            target.parent.mkdir(exist_ok=True)
            target.write_text(json.dumps(written(usage), indent=2) + "\n", "utf-8")


if __name__ == "__main__":
    main()
