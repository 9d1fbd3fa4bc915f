"""Human ratings of the similarity of generated and human-written summaries (Haque et al. 2022)."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

import attrs
import numpy as np

from lsp_calib.calibration.arrays import FloatArray, IntArray
from lsp_calib.errors import DataError

FILE = Path("haque2022") / "similarity_ratings.csv"

# These columns are read by name; every later column is a metric published with the ratings.
COLUMNS = (
    "function_id",
    "rater_id",
    "source",
    "similarity_1_to_4",
    "generated_summary",
    "reference_summary",
)


@attrs.frozen(eq=False)
class Ratings:
    """n methods with their ratings, in the file's order.

    methods: ids. generated, reference: the two summaries that were compared.
    ratings: int array of shape (n, raters): 1 (strongly disagree that they are similar) to 4.
    metrics: by column name, float arrays of shape (n,): similarities published with the ratings.
    """

    methods: tuple[str, ...]
    generated: tuple[str, ...]
    reference: tuple[str, ...]
    ratings: IntArray
    metrics: Mapping[str, FloatArray]


def read_ratings(path: Path, source: Literal["baseline", "reference"] = "baseline") -> Ratings:
    """The ratings in a file: its rows with this source, three for each method.

    path: the CSV file, `FILE` within the folder of evaluation data.
    source: which question was asked; the study of thresholds uses "baseline".
    Raises DataError if the file cannot be read, lacks a column, or does not have the same number of
    ratings for each method.
    """
    try:
        with path.open(encoding="utf-8", newline="") as file:
            reader = csv.DictReader(file, strict=True)
            rows = [row for row in reader if row.get("source") == source]
            names = tuple(reader.fieldnames or ())
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror or error}.") from error
    except (csv.Error, UnicodeDecodeError) as error:
        raise DataError(f"{path} is not a CSV file: {error}.") from error
    missing = [name for name in COLUMNS if name not in names]
    if missing:
        raise DataError(f"{path} lacks the columns {', '.join(missing)}.")
    by_method: dict[str, list[dict[str, str]]] = {}
    for row in rows:
        by_method.setdefault(row["function_id"], []).append(row)
    if not by_method:
        raise DataError(f"{path} has no rows with source {source!r}.")
    if len({len(ratings) for ratings in by_method.values()}) > 1:
        raise DataError(f"{path} does not rate every method equally often.")
    firsts = [ratings[0] for ratings in by_method.values()]
    try:
        ratings = [[int(row["similarity_1_to_4"]) for row in rows] for rows in by_method.values()]
        metrics = {
            name: np.array([float(row[name]) for row in firsts]) for name in names if name not in COLUMNS
        }
    except (TypeError, ValueError) as error:
        raise DataError(f"{path} holds something that is no number: {error}.") from error
    return Ratings(
        methods=tuple(by_method),
        generated=tuple(row["generated_summary"] for row in firsts),
        reference=tuple(row["reference_summary"] for row in firsts),
        ratings=np.array(ratings, dtype=np.intp),
        metrics=metrics,
    )
