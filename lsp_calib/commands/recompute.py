"""`lsp-calib calibrate --sources`: verdicts and text features of records, computed again before a fit."""

from __future__ import annotations

from pathlib import Path

from lsp_calib.errors import SettingsError
from lsp_calib.evaluation.recomputed import recompute_features


def recompute(records: Path | None, paths: tuple[Path, ...], sources: Path, model: str | None) -> str:
    """Write verdicts and features into the file of records, see `recompute_features`; returns what was done.

    paths: source to complete lines of, for which the features are computed anyway. Raises SettingsError if
    there is some, or no file of records.
    """
    if records is None or paths:
        raise SettingsError(
            "--sources computes features of records that are there: give --records FILE, and no PATH."
        )
    count = recompute_features(records, sources, model)
    return f"The features of {count} lines were computed again from {sources} and are in {records}."
