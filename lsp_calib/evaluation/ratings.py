"""Human ratings of the similarity of generated and human-written summaries (Haque et al. 2022)."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

import attrs
import numpy as np

from lsp_calib.calibration.arrays import FloatArray, IntArray
from lsp_calib.errors import DataError
from lsp_calib.files import read_file

FILE = Path("haque2022") / "similarity_ratings.csv"

RATERS = 3
"""How many people rated a pair in either order."""

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


def read_both_orders(path: Path) -> Ratings:
    """The pairs of `read_ratings`, with the ratings given to each pair in either order: six a pair.

    The file's two sources show people the same pair, once with the person's text as the second, once as the
    first. Raises DataError as `read_ratings`, or if the sources are not of the same methods.
    """
    one, other = read_ratings(path), read_ratings(path, "reference")
    at = {method: row for row, method in enumerate(other.methods)}
    if sorted(at) != sorted(one.methods):
        raise DataError(f"{path} does not rate the same methods in both orders.")
    swapped = other.ratings[[at[method] for method in one.methods]]
    return attrs.evolve(one, ratings=np.column_stack((one.ratings, swapped)))


def read_ratings(path: Path, source: Literal["baseline", "reference"] = "baseline") -> Ratings:
    """The ratings in a file: its rows with this source, three for each method.

    path: the CSV file, `FILE` within the folder of evaluation data.
    source: which question was asked; the study of thresholds uses "baseline".
    Raises DataError if the file cannot be read, lacks a column, or does not have the same number of
    ratings for each method.
    """
    try:
        text = read_file(path).decode("utf-8")
        reader = csv.DictReader(io.StringIO(text, newline=""), strict=True)
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
