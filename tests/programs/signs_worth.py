"""What signs of wrong lines are worth to the confidence, out of fold and on the blind set.

    python tests/programs/signs_worth.py             # the table of worth, from records alone
    python tests/programs/signs_worth.py --write     # into the notebook, with the kinds, from sources

The recipes with signs against the same without them: chosen and fitted inside the folds, and on the blind set
by the choice and fit on all other projects. The folder with the sets of `lsp-calib data pull` is
LSP_CALIB_DATA. No model decodes anything.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import attrs
import numpy as np
from offered_lines import Offered, accepted, parser_of
from pages import written

from lsp_calib import home
from lsp_calib.calibration.arrays import FloatArray, quietly
from lsp_calib.calibration.calibrators.calibrator import FEATURES_MEASURE
from lsp_calib.calibration.calibrators.fitting import RECIPES, FeatureData, Recipe
from lsp_calib.calibration.logistic import sigmoid
from lsp_calib.calibration.scores import auc, skill_score
from lsp_calib.calibration.tiers import PRESETS
from lsp_calib.calibration.validation import bootstrap_difference
from lsp_calib.corpus.rebuilding import rebuild
from lsp_calib.corpus.records import read_records
from lsp_calib.inference.local.native import read_pieces
from lsp_calib.inference.models.cards import locate
from lsp_calib.studies.data import data_folder
from lsp_calib.syntax.signs import KINDS, Signs
from lsp_calib.syntax.source_tree import unhurried

RECORDS = home.shipped_models() / "records"
PAGE = RECORDS / "lines" / "README.md"
SIGNS = "signs"
FILES = {
    "Qwen2.5-Coder-1.5B, large window": "lines/line-qwen2.5-coder-1.5b-large",
    "Qwen2.5-Coder-1.5B": "lines/line-qwen2.5-coder-1.5b",
    "SmolLM2-135M": "lines/line-smollm2-135m-large",
    "SmolLM2-135M, small window": "lines/line-smollm2-135m",
    "Qwen2.5-Coder-1.5B, TSX": "languages/line-qwen2.5-coder-1.5b-typescriptreact-large",
    "Qwen2.5-Coder-1.5B, TypeScript": "languages/line-qwen2.5-coder-1.5b-typescript-large",
    "SmolLM2-135M, TSX": "languages/line-smollm2-135m-typescriptreact-large",
    "SmolLM2-135M, TypeScript": "languages/line-smollm2-135m-typescript-large",
}
COUNTED = "Qwen2.5-Coder-1.5B, large window"
WITH = [recipe for recipe in RECIPES if SIGNS in recipe.features]
WITHOUT = [attrs.evolve(one, features=tuple(name for name in one.features if name != SIGNS)) for one in WITH]


def blind_of(stem: str) -> Path:
    """The file of the same model and window with the lines of the blind projects."""
    return RECORDS / "blind" / Path(f"{stem}.jsonl").name


def offered(path: Path) -> Offered:
    return Offered.of(*read_records(path))


def out_of_fold(lines: Offered, recipes: Sequence[Recipe]) -> FloatArray:
    """Each line's probability, shape (n,), by the choice and fit of other projects."""
    data = FeatureData.of(lines.evidences, lines.correct, lines.codes, recipes)
    return data.nested(data.usable(recipes))


def elsewhere(lines: Offered, others: Offered, recipes: Sequence[Recipe]) -> FloatArray:
    """The probability of each of the others, shape (n,), by the choice and fit on the lines."""
    data = FeatureData.of(lines.evidences, lines.correct, lines.codes, recipes)
    curve = data.curve(FEATURES_MEASURE, data.choose(data.usable(recipes)))
    return sigmoid(curve.scores(others.evidences))


def row(name: str, lines: Offered, without: FloatArray, with_signs: FloatArray) -> str:
    """A line of Markdown."""
    y = lines.correct
    with quietly():
        gained = bootstrap_difference(skill_score, with_signs, without, y, lines.codes)
        scores = [f"{skill_score(p, y):+.3f}" for p in (without, with_signs)]
        areas = [f"{auc(p, y):.3f}" for p in (without, with_signs)]
    marked = np.array([one.features.get(SIGNS, 0.0) > 0.0 for one in lines.evidences])
    cells = [name, f"{y.size}, {int(marked.sum())}", " → ".join(scores), format(gained, "+.3f")]
    cells += [" → ".join(areas), " → ".join(accepted(p, y) for p in (without, with_signs))]
    return f"| {' | '.join(cells)} |"


def worth() -> Iterator[str]:
    """Lines of Markdown."""
    yield "| lines | offered, with a sign | skill | gained (95 %) | AUC | accepted @ right (from) |"
    yield "|---|---|---|---|---|---|"
    for name, stem in FILES.items():
        lines = offered(RECORDS / f"{stem}.jsonl")
        yield row(f"{name}, out of fold", lines, out_of_fold(lines, WITHOUT), out_of_fold(lines, WITH))
        blind = blind_of(stem)
        if blind.is_file():
            others = offered(blind)
            found = [elsewhere(lines, others, recipes) for recipes in (WITHOUT, WITH)]
            yield row(f"{name}, blind", others, *found)


@unhurried()
def kinds_of(path: Path, sources: Path) -> list[set[str]]:
    """Of each offered line the kinds of its signs."""
    header, records = read_records(path)
    card, file = locate(header.model.name)
    asked = [record for record in records if record.shown and record.logprobs]
    found = []
    for one in rebuild(header, asked, sources, card, read_pieces(file)):
        cursor = one.item.cursor
        signs = Signs(cursor.lines, cursor.line).of(cursor.before + one.text + cursor.after)
        found.append({sign.kind for sign in signs})
    return found


def kinds() -> Iterator[str]:
    """Lines of Markdown: how often each kind is there, and what was promised of these lines without it."""
    data = data_folder()
    fitted, blind = RECORDS / f"{FILES[COUNTED]}.jsonl", blind_of(FILES[COUNTED])
    lines, others = offered(fitted), offered(blind)
    of_all = [*kinds_of(fitted, data / "projects"), *kinds_of(blind, data / "projects-blind")]
    promised = np.concatenate([out_of_fold(lines, WITHOUT), elsewhere(lines, others, WITHOUT)])
    right = np.concatenate([lines.correct, others.correct])
    yield "| sign | lines | promised without it | right | accepted without it, of these right |"
    yield "|---|---|---|---|---|"
    for kind in KINDS:
        chosen = np.array([kind in found for found in of_all])
        taken = chosen & (promised >= PRESETS["balanced"].accept_from)
        cells = [kind.replace("-", " "), f"{chosen.sum()}", f"{promised[chosen].mean():.0%}"]
        cells += [f"{right[chosen].mean():.0%}", f"{taken.sum()}, {right[taken].sum()}"]
        yield f"| {' | '.join(cells)} |"


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--write", action="store_true")
    parts = {"signs": "\n".join(worth())}
    if parser.parse_args().write:
        parts["kinds of signs"] = "\n".join(kinds())
        PAGE.write_text(written(PAGE.read_text("utf-8"), parts), "utf-8")
    for part in parts.values():
        print(part)


if __name__ == "__main__":
    main()
