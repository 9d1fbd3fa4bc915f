"""What can be reproduced exactly, without a model: the studies' own data and printed numbers, computed again.

`exact.json` beside this module holds what follows from the ratings of Haque et al., so that the page needs no
data; `python -m lsp_calib.studies.exact` makes it again from LSP_CALIB_DATA.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator, Mapping
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.metrics import roc_auc_score, roc_curve

from lsp_calib.calibration.arrays import BoolArray, FloatArray
from lsp_calib.files import replace_file
from lsp_calib.studies.data import data_set
from lsp_calib.studies.figures import Roc, draw_haque
from lsp_calib.studies.published import SPIESS, VIRK, published, said, table
from lsp_calib.studies.statistics import rank_correlation
from lsp_calib.studies.tables import Picture, Section, Table
from lsp_calib.studies.thresholds import RATINGS, Ratings, Setting, choose, read_ratings

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
                    criterion: {**_setting(found), "exact": round(_exact(criterion, values, correct), 4)}
                    for criterion, found in choose({name: values}, correct).items()
                    if found is not None
                },
            }
            for name, values in metrics.items()
        },
        "best": {
            criterion: found and {"metric": found.metric, **_setting(found)}
            for criterion, found in choose(every, correct).items()
        },
        "roc": {
            "false": np.round(false, 4).tolist(),
            "true": np.round(true, 4).tolist(),
            "thresholds": np.round(np.minimum(thresholds, 1.0), 4).tolist(),
        },
    }


def _setting(found: Setting) -> dict[str, Any]:
    return {"threshold": found.threshold, "selected": found.selected, "hits": found.hits}


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
    return [
        Section(
            "Reproduced exactly: thresholds of correctness (Virk et al., 4.4)",
            "From the ratings of Haque et al. and the similarities published with them: no model of ours.",
            (_thresholds(), _figure()),
        ),
        Section(
            "Reproduced exactly: the printed tables",
            "Printed numbers that follow from other printed ones, computed again within their rounding.",
            (_relations(), _contradictions()),
        ),
        Section(
            "The authors' script against their text (Virk et al.)",
            "Where the two differ, tables here have a row for each.",
            (Table("", ("what", "text", "script", "here"), published()[VIRK]["script"]),),
        ),
    ]


def _thresholds() -> Table:
    found, printed = record(), said(VIRK, "thresholds")
    rows = []
    for criterion, metric in CHOSEN.items():
        name, threshold = printed["values"][criterion]
        rows.append((criterion, f"{name} {threshold:.2f}", metric, *_words(metric, criterion)))
    rows.append(("high-recall", "–", AS_PRINTED, *_words(AS_PRINTED, "high-recall")))
    area = found["metrics"][RECALL]["auc"]
    rows.append(("AUC", f"BERTScore {printed['auc']:.2f}", RECALL, f"{area:.3f}", *["–"] * 4))
    best = found["best"]["high-precision"]
    note = (
        f"{found['pairs']} pairs; people call {found['positives']} similar (mean of three ratings at least "
        "3). SentenceBERT's 0.80 is on the scale (cos + 1) / 2, which the study does not say. Of all "
        f"published similarities `{best['metric']}` from {best['threshold']:.2f} on has a higher recall at "
        f"that precision ({best['hits']} of {found['positives']}) than the one chosen."
    )
    columns = (
        "criterion",
        "published",
        "similarity",
        "exact",
        "on a grid of 0.01",
        "precision",
        "recall",
        "F1",
    )
    return Table("", columns, tuple(rows), note)


def _words(metric: str, criterion: str) -> tuple[str, ...]:
    one, positives = record()["metrics"][metric]["settings"][criterion], record()["positives"]
    selected, hits = one["selected"], one["hits"]
    shares = f"{hits}/{selected} = {hits / selected:.2f}", f"{hits}/{positives} = {hits / positives:.2f}"
    return (
        f"{one['exact']:.3f}",
        f"{one['threshold']:.2f}",
        *shares,
        f"{2 * hits / (selected + positives):.3f}",
    )


def _figure() -> Picture:
    found = record()["metrics"][RECALL]
    false, true, thresholds = (np.array(record()["roc"][name]) for name in ("false", "true", "thresholds"))
    curve = Roc(false, true, thresholds, found["auc"])
    marks = {name: found["settings"][name]["threshold"] for name in ("high-precision", "best-f1")}
    return Picture(
        "virk-figure-3",
        "ROC of BERTScore recall against people's ratings, with the two thresholds chosen for it",
        functools.partial(draw_haque, curve, marks, record()["pairs"], record()["positives"]),
    )


def _relations() -> Table:
    """Relations between printed numbers, and how many of the cells keep them within rounding."""
    checks = (
        ("Spiess et al., Tables 5 to 7: the unskilled Brier is s (1 - s), s of Table 2", _references()),
        ("Spiess et al., Tables 5 to 7: skill is 1 - Brier / unskilled Brier", _skills()),
        ("Spiess et al., Tables 6, 7: ECE is left out where the skill is below 0.05", _omitted()),
        ("Spiess et al., Table 2: line completion is the docstring column of Table 3", _docstrings()),
        ("Virk et al., Tables 1 to 4: skill is 1 - Brier / (s (1 - s)), s the success rate", _summaries()),
    )
    rows = []
    for relation, cells in checks:
        found = list(cells)
        wrong = "; ".join(name for name, holds in found if not holds)
        rows.append((relation, f"{sum(holds for _, holds in found)} of {len(found)}", wrong or "–"))
    lines = sum(len(rows) for name in "5678" for rows in table(SPIESS, name).values())
    note = f"The {lines} lines of Spiess et al., Tables 5 to 8, and the 30 of Virk et al. take part."
    return Table("", ("relation", "cells that keep it", "those that do not"), tuple(rows), note)


Checks = Iterator[tuple[str, bool]]
"""The name of a cell, and whether it keeps the relation."""


def _references() -> Checks:
    shares = table(SPIESS, "2")
    for name in "567":
        for model, rows in table(SPIESS, name).items():
            for column, cell in rows["Unskilled"].items():
                judge = "exact" if name == "7" or column == "SStubs" else "all pass"
                s = shares[judge][column][model] / 100.0
                yield (
                    f"Table {name}, {model}, {column}",
                    abs(s * (1.0 - s) - cell["brier"]) <= _ROUNDED + 5e-5,
                )


def _skills() -> Checks:
    for name in "567":
        for model, rows in table(SPIESS, name).items():
            for measure, cells in rows.items():
                for column, cell in cells.items():
                    if measure != "Unskilled":
                        reference = rows["Unskilled"][column]["brier"]
                        holds = _is_skill(cell, (reference - _ROUNDED, reference + _ROUNDED))
                        yield f"Table {name}, {model}, {measure}, {column}", holds


def _is_skill(cell: Mapping[str, float], reference: tuple[float, float]) -> bool:
    """Whether the skill can follow from the Brier score. reference: bounds of the unskilled Brier score."""
    low, high = (max(bound, 1e-9) for bound in reference)
    worst = 1.0 - (cell["brier"] + _ROUNDED) / low
    best = 1.0 - max(0.0, cell["brier"] - _ROUNDED) / high
    return worst - _ROUNDED <= cell["skill"] <= best + _ROUNDED


def _omitted() -> Checks:
    for name in "67":
        for model, rows in table(SPIESS, name).items():
            for measure, cells in rows.items():
                for column, cell in cells.items():
                    if measure != "Unskilled":
                        where = f"Table {name}, {model}, {measure}, {column} (skill {cell['skill']:.2f})"
                        yield where, (cell["ece"] is None) == (cell["skill"] < 0.05)


def _docstrings() -> Checks:
    for judge, columns in table(SPIESS, "3").items():
        for model, share in columns["docstring"].items():
            yield f"{model}, {judge}", share == table(SPIESS, "2")[judge]["DyPyBench"][model]


def _summaries() -> Checks:
    for name in ("1", "2", "3", "4 high precision", "4 high recall"):
        for model, languages in table(VIRK, name).items():
            for language, cell in languages.items():
                s = cell["successRate"]
                low, high = (x * (1.0 - x) for x in (max(0.0, s - _ROUNDED), s + _ROUNDED))
                printed = f"s {s:.2f}, Brier {cell['brier']:.2f}, skill {cell['skill']:+.2f}"
                yield f"Table {name}, {model}, {language} ({printed})", _is_skill(cell, (low, high))


def _contradictions() -> Table:
    rows = []
    for study in (SPIESS, VIRK):
        for what, one, other in published()[study]["discrepancies"]:
            rows.append((published()[study]["reference"].split(",")[0], what, f"{one:g}", f"{other:g}"))
    against = {score: published_against_auc(score) for score in ("skill", "ece")}
    known = (
        (score, rank_correlation(*zip(*points, strict=True)), len(points))
        for score, points in against.items()
    )
    words = "; ".join(f"AUC and rescaled {score}: {value or 0.0:+.2f} (n = {n})" for score, value, n in known)
    note = f"Tables are matched here, not the text. Figure 8 follows from Tables 6 and 8 (GPT-3.5): {words}."
    return Table("Contradictions", ("study", "what", "one", "the other"), tuple(rows), note)


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
