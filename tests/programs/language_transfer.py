"""How well a calibrator of Python's lines serves another language, and how much labels of that language add.

    python tests/programs/language_transfer.py RECORDS...
    python tests/programs/language_transfer.py --write    # the tables of models/records/languages/README.md

RECORDS: of `lsp-calib eval line --language ID`, or the journal of an unfinished run, of a model and prompt
for which a calibrator of Python ships. The rows: that calibrator as it stands; the same moved by slope and
intercept, and above some labels by its weights (`calibration.calibrators.refit`, as a user's labels
move it); a calibrator of this language's labels alone; one of both languages' labels together. All but the
first are out of fold by project. Intervals are by bootstrap over projects.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import attrs
import numpy as np
from offered_lines import Offered, accepted, read, shipped_for
from pages import written
from pooled_curves import PAGE

from lsp_calib import home
from lsp_calib.calibration.arrays import FloatArray, IntArray, group_codes, quietly
from lsp_calib.calibration.calibrators.calibrator import Calibrator
from lsp_calib.calibration.calibrators.fitting import RECIPES, FeatureData, Recipe
from lsp_calib.calibration.calibrators.promotion import LabelWeights
from lsp_calib.calibration.calibrators.refit import expected_shift, refit_curve
from lsp_calib.calibration.validation import grouped_folds, summarise
from lsp_calib.corpus.records import Header, Record, read_records
from lsp_calib.languages import name_of

BASE = "python"
SHIPPED = sorted((home.shipped_models() / "records" / "languages").glob("line-*-large.jsonl"))
# The tables of the page, by model.
BLOCKS = {"smollm2-135m": "transfer", "qwen2.5-coder-1.5b": "transfer of Qwen"}
MOST_FOLDS = 5


def predictions(own: Offered, base: Calibrator, others: Offered) -> Mapping[str, FloatArray]:
    """Each line's probability, by the name of the row. base, others: of Python."""
    fold = grouped_folds(own.codes, MOST_FOLDS)
    moved = refit_curve(
        base.curves[0],
        expected_shift(base.curves[0], base.source),
        own.evidences,
        own.correct,
        LabelWeights.of(own.correct.size),
        fold,
    )
    data = FeatureData.of(own.evidences, own.correct, own.codes, RECIPES)
    return {
        "of Python, as it stands": base.probabilities(own.evidences),
        "of Python, moved": moved.predicted,
        "of this language alone": data.nested(data.usable(RECIPES)),
        "of both together": together(own, others, fold),
    }


def together(own: Offered, others: Offered, fold: IntArray) -> FloatArray:
    """Own lines by fits on the others and on own lines of other folds."""
    predicted = np.empty(own.correct.size)
    for k in range(int(fold.max()) + 1):
        kept = np.flatnonzero(fold != k)
        groups = [*(own.groups[at] for at in kept), *others.groups]
        codes = group_codes(np.array(groups), len(groups))
        evidences = [*(own.evidences[at] for at in kept), *others.evidences]
        data = FeatureData.of(evidences, np.concatenate((own.correct[kept], others.correct)), codes, RECIPES)
        recipes: list[Recipe] = data.usable(RECIPES)
        curve = data.curve("features-2", data.choose(recipes))
        test = np.flatnonzero(fold == k)
        scores = curve.scores([own.evidences[at] for at in test])
        predicted[test] = 1.0 / (1.0 + np.exp(-scores))
    return predicted


def rows(
    header: Header, records: Sequence[Record], found: Mapping[str, FloatArray], own: Offered
) -> list[str]:
    """The lines of one language by each calibrator, as cells of Markdown."""
    table = list[str]()
    for name, p in found.items():
        with quietly():
            metrics = summarise(p, own.correct, own.groups)
        cells = [name, format(metrics["skill"], "+.2f"), f"{metrics['auc'].value:.2f}"]
        cells += [format(metrics["ece"], ".3f"), f"{p.mean():.0%}", accepted(p, own.correct)]
        first = ["", "", "", ""]
        if not table:
            exact = sum(record.shown and record.correct["exact"] for record in records) / len(records)
            projects = len({record.group for record in records})
            first = [f"{name_of(header.language)}", f"{len(records)}, {projects}", f"{exact:.0%}"]
            first.append(f"{own.correct.size}, {own.correct.mean():.0%}")
        table.append(f"| {' | '.join([*first, *cells])} |")
    return table


def table(paths: Sequence[Path]) -> list[str]:
    """Lines of Markdown."""
    found = [
        "| language | lines, projects | exact | offered, of these right | calibrator | skill (95 %) | AUC "
        "| ECE; if calibrated | promised | accepted @ right (from) |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for path in paths:
        header, records = read(path)
        base = shipped_for(attrs.evolve(header, language=BASE))
        own = Offered.of(header, records)
        others = Offered.of(*read_records(records_of(base)))
        found += rows(header, records, predictions(own, base, others), own)
    return found


def records_of(shipped: Calibrator) -> Path:
    """The records that a shipped calibrator was fitted on."""
    folder = home.shipped_models()
    (stem,) = (
        path.stem
        for path in (folder / "calibrators").glob("line-*.json")
        if Calibrator.load(path).id == shipped.id
    )
    return folder / "records" / "lines" / f"{stem}.jsonl"


def main() -> None:
    if not sys.argv[1:]:
        sys.exit(__doc__)
    if sys.argv[1:] != ["--write"]:
        print("\n".join(table([Path(name) for name in sys.argv[1:]])))
        return
    page = PAGE.read_text("utf-8")
    for model, block in BLOCKS.items():
        found = "\n".join(table([path for path in SHIPPED if path.name.startswith(f"line-{model}-")]))
        page = written(page, {block: found})
    PAGE.write_text(page, "utf-8")


if __name__ == "__main__":
    main()
