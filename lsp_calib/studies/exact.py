"""What can be reproduced exactly, without a model: the studies' own data and printed numbers, computed again.

`exact.json` beside this module holds what follows from the ratings of Haque et al., so that the page needs no
data; `python -m lsp_calib.studies.exact` makes it again from LSP_CALIB_DATA.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.metrics import roc_auc_score, roc_curve

from lsp_calib.calibration.arrays import BoolArray, FloatArray
from lsp_calib.files import replace_file
from lsp_calib.studies import headings
from lsp_calib.studies.data import data_set
from lsp_calib.studies.figures import Roc, draw_haque
from lsp_calib.studies.published import SPIESS, VIRK, published, said, table
from lsp_calib.studies.statistics import rank_correlation
from lsp_calib.studies.tables import Picture, Section, Table
from lsp_calib.studies.thresholds import RATINGS, Ratings, Tally, choose, read_ratings

FILE = "exact.json"
RECALL, COSINE, AS_PRINTED = "BERTScore recall", "SentenceBERT, (cos + 1) / 2", "SentenceBERT, cos"
_COLUMNS = {RECALL: "bertscore_recall", COSINE: "sentence_bert_cosine", AS_PRINTED: "sentence_bert_cosine"}
# The study's choices: of each criterion the metric.
CHOSEN = {"high-precision": RECALL, "best-f1": RECALL, "high-recall": COSINE}
_ROUNDED = 0.005 + 1e-9  # half of the last printed digit


def derive(ratings: Ratings) -> dict[str, Any]:
    """What `exact.json` keeps, from the ratings.

    By metric the AUC, and by criterion the threshold on the study's grid of 0.01 and the exact one: the
    lowest similarity that the best of all thresholds accepts. best: chosen over all published metrics.
    """
    correct = ratings.correct
    scaled = {"sentence_bert_cosine": lambda x: (x + 1) / 2, "use_cosine": lambda x: (x + 1) / 2}
    every = {name: scaled.get(name, np.array)(column) for name, column in ratings.metrics.items()}
    metrics = {
        name: ratings.metrics[column] if name == AS_PRINTED else every[column]
        for name, column in _COLUMNS.items()
    }
    false, true, thresholds = roc_curve(correct, metrics[RECALL])
    return {
        "command": "python -m lsp_calib.studies.exact",
        "data": {"name": RATINGS, "sha256": data_set(RATINGS).sha256},
        "pairs": correct.size,
        "positives": int(correct.sum()),
        "metrics": {
            name: {
                "auc": round(float(roc_auc_score(correct, values)), 4),
                "settings": {
                    criterion: {**found.brief, "exact": round(_exact(criterion, values, correct), 4)}
                    for criterion, found in choose({name: values}, correct).items()
                    if found is not None
                },
            }
            for name, values in metrics.items()
        },
        "best": {
            criterion: found and {"metric": found.metric, **found.brief}
            for criterion, found in choose(every, correct).items()
        },
        "roc": {
            "false": np.round(false, 4).tolist(),
            "true": np.round(true, 4).tolist(),
            "thresholds": np.round(np.minimum(thresholds, 1.0), 4).tolist(),
        },
    }


def _exact(criterion: str, values: FloatArray, correct: BoolArray) -> float:
    """The best threshold among all values, not only multiples of 0.01."""
    order = np.sort(np.unique(values))
    ranks = np.searchsorted(order, values) / 100.0  # each value is a step of the grid
    found = choose({"": ranks}, correct)[criterion]
    assert found is not None
    return float(order[round(100 * found.threshold)])


@functools.cache
def record() -> Mapping[str, Any]:
    """The content of `exact.json`."""
    document: Mapping[str, Any] = json.loads(resources.files(__package__).joinpath(FILE).read_text("utf-8"))
    return document


def sections() -> list[Section]:
    """The page's first section."""
    script = headings.table("exact.script", published()[VIRK]["script"])
    return [
        headings.section("exact.haque", (_thresholds(), _figure())),
        headings.section("exact.printed", (_relations(), _contradictions())),
        headings.section("exact.scripts", [script]),
    ]


def _thresholds() -> Table:
    found, printed = record(), said(VIRK, "thresholds")

    def row(criterion: str, theirs: str, metric: str) -> tuple[str, ...]:
        one = found["metrics"][metric]["settings"][criterion]
        tally = Tally(one["selected"], found["positives"], one["hits"])
        grid = f"{one['exact']:.3f}", f"{one['threshold']:.2f}"
        precision = f"{tally.hits}/{tally.selected} = {tally.precision:.2f}"
        recall = f"{tally.hits}/{tally.positives} = {tally.recall:.2f}"
        return criterion, theirs, metric, *grid, precision, recall, f"{tally.f1:.3f}"

    rows = []
    for criterion, metric in CHOSEN.items():
        name, threshold = printed["values"][criterion]
        rows.append(row(criterion, f"{name} {threshold:.2f}", metric))
    rows.append(row("high-recall", "–", AS_PRINTED))
    area = f"{found['metrics'][RECALL]['auc']:.3f}"
    rows.append(("AUC", f"BERTScore {printed['auc']:.2f}", RECALL, area, *["–"] * 4))
    given = {**found["best"]["high-precision"], "pairs": found["pairs"], "positives": found["positives"]}
    return headings.table("exact.thresholds", rows, **given)


def _figure() -> Picture:
    found = record()
    recall, rates = found["metrics"][RECALL], found["roc"]
    false, true, thresholds = (np.array(rates[name]) for name in ("false", "true", "thresholds"))
    curve = Roc(false, true, thresholds, recall["auc"])
    marks = {name: recall["settings"][name]["threshold"] for name in ("high-precision", "best-f1")}
    draw = functools.partial(draw_haque, curve, marks, found["pairs"], found["positives"])
    return headings.picture("exact.figure", "virk-figure-3", draw)


Checks = list[tuple[str, bool]]
"""The name of each cell, and whether it keeps a relation."""


def _relations() -> Table:
    """Relations between printed numbers, and how many of the cells keep them within rounding."""
    rows = []
    for relation, found in (_of_spiess() | _of_virk()).items():
        wrong = "; ".join(name for name, holds in found if not holds)
        rows.append((relation, f"{sum(holds for _, holds in found)} of {len(found)}", wrong or "–"))
    lines = sum(len(rows) for name in "5678" for rows in table(SPIESS, name).values())
    return headings.table("exact.relations", rows, lines=lines)


def _of_spiess() -> dict[str, Checks]:
    references: Checks = []
    skills: Checks = []
    omitted: Checks = []
    shares = table(SPIESS, "2")
    cells = (
        (name, model, measure, column, cell, rows["Unskilled"][column]["brier"])
        for name in "567"
        for model, rows in table(SPIESS, name).items()
        for measure, columns in rows.items()
        for column, cell in columns.items()
    )
    for name, model, measure, column, cell, unskilled in cells:
        if measure == "Unskilled":
            judge = "exact" if name == "7" or column == "SStubs" else "all pass"
            s = shares[judge][column][model] / 100.0
            near = abs(s * (1.0 - s) - unskilled) <= _ROUNDED + 5e-5
            references.append((f"Table {name}, {model}, {column}", near))
            continue
        where, bounds = (
            f"Table {name}, {model}, {measure}, {column}",
            (unskilled - _ROUNDED, unskilled + _ROUNDED),
        )
        skills.append((where, _is_skill(cell, bounds)))
        if name != "5":
            missing = (cell["ece"] is None) == (cell["skill"] < 0.05)
            omitted.append((f"{where} (skill {cell['skill']:.2f})", missing))
    docstrings = [
        (f"{model}, {judge}", share == shares[judge]["DyPyBench"][model])
        for judge, columns in table(SPIESS, "3").items()
        for model, share in columns["docstring"].items()
    ]
    return {
        "Spiess et al., Tables 5 to 7: the unskilled Brier is s (1 - s), s of Table 2": references,
        "Spiess et al., Tables 5 to 7: skill is 1 - Brier / unskilled Brier": skills,
        "Spiess et al., Tables 6, 7: ECE is left out where the skill is below 0.05": omitted,
        "Spiess et al., Table 2: line completion is the docstring column of Table 3": docstrings,
    }


def _of_virk() -> dict[str, Checks]:
    found: Checks = []
    for name in ("1", "2", "3", "4 high precision", "4 high recall"):
        for model, languages in table(VIRK, name).items():
            for language, cell in languages.items():
                s = cell["successRate"]
                low, high = (x * (1.0 - x) for x in (max(0.0, s - _ROUNDED), s + _ROUNDED))
                printed = f"s {s:.2f}, Brier {cell['brier']:.2f}, skill {cell['skill']:+.2f}"
                where = f"Table {name}, {model}, {language} ({printed})"
                found.append((where, _is_skill(cell, (low, high))))
    return {"Virk et al., Tables 1 to 4: skill is 1 - Brier / (s (1 - s)), s the success rate": found}


def _is_skill(cell: Mapping[str, float], reference: tuple[float, float]) -> bool:
    """Whether the skill can follow from the Brier score. reference: bounds of the unskilled Brier score."""
    low, high = (max(bound, 1e-9) for bound in reference)
    worst = 1.0 - (cell["brier"] + _ROUNDED) / low
    best = 1.0 - max(0.0, cell["brier"] - _ROUNDED) / high
    return worst - _ROUNDED <= cell["skill"] <= best + _ROUNDED


def _contradictions() -> Table:
    rows = [
        (published()[study]["reference"].split(",")[0], what, f"{one:g}", f"{other:g}")
        for study in (SPIESS, VIRK)
        for what, one, other in published()[study]["discrepancies"]
    ]
    found = []
    for score in ("skill", "ece"):
        points = published_against_auc(score)
        value = rank_correlation(*zip(*points, strict=True)) or 0.0
        found.append(f"AUC and rescaled {score}: {value:+.2f} (n = {len(points)})")
    return headings.table("exact.contradictions", rows, correlations="; ".join(found))


def published_against_auc(score: str, model: str = "GPT-3.5") -> list[tuple[float, float]]:
    """(AUC, rescaled score) of each measure and data set of a model, as in Figure 8: Tables 8 and 6.

    score: "skill" or "ece", which is left out where the skill is below 0.05.
    """
    return [
        (table(SPIESS, "8")[model][measure][column]["auc"], cell[score])
        for measure, cells in table(SPIESS, "6")[model].items()
        for column, cell in cells.items()
        if measure != "Unskilled" and cell[score] is not None
    ]


def main() -> None:
    """Write `exact.json` again. Raises DataError without the data."""
    path = Path(__file__).with_name(FILE)
    replace_file(path, json.dumps(derive(read_ratings(None))) + "\n")


if __name__ == "__main__":
    main()
