"""`lsp-calib eval thresholds`: from which similarity on a summary counts as like a person's."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import attrs
from rich.table import Table

from lsp_calib.calibration.similarity_threshold import Setting
from lsp_calib.evaluation.datasets.folder import checked_file, data_set
from lsp_calib.evaluation.thresholds import Derivation, derive, listed, read_both_orders, shared_encoder
from lsp_calib.files import replace_file
from lsp_calib.terminal import Console

RATINGS = "haque-ratings"

# Kept in the file; that of `models/thresholds/` was made by this, in a checkout.
_COMMAND = "lsp-calib eval thresholds --output {}"


@attrs.frozen
class ThresholdReport:
    """What was derived, and the file that holds it (None: it is only shown)."""

    derivation: Derivation
    file: Path | None

    def to_wire(self) -> dict[str, Any]:
        return {
            "file": None if self.file is None else str(self.file),
            **self.derivation.to_json(_command(self.file)),
        }

    def print(self) -> None:
        found = self.derivation
        console = Console()
        console.print(
            f"{found.pairs} rated pairs; most people agree on {found.agreement.setting.positives}, the mean "
            f"of three ratings on {found.positives}; encoder {found.listed.encoder} "
            f"(SHA-256 {found.listed.sha256[:12]}).",
            soft_wrap=True,
        )
        for title, columns, rows in tables(found):
            table = Table(title=title)
            for at, column in enumerate(columns):
                table.add_column(column, no_wrap=at < 2)
            for row in rows:
                table.add_row(*row)
            console.print(table)
        agreement = found.agreement
        console.print(
            f"P(most agree) = sigmoid({agreement.slope:.1f} {agreement.setting.metric} "
            f"{agreement.intercept:+.2f}), AUC {agreement.auc:.3f} on pairs left out.",
            soft_wrap=True,
        )
        if self.file is not None:
            console.print(f"Written: {self.file}", soft_wrap=True)


def derive_thresholds(data_dir: Path | None, output: Path | None) -> ThresholdReport:
    """Derive the thresholds of the installed encoder from the ratings in the evaluation data.

    data_dir: the folder with the data sets; None: LSP_CALIB_DATA. output: the file to write.
    Raises DataError if the data are missing or other ones, or the file cannot be written; SettingsError and
    NoModelError as `Encoder.open`.
    """
    ratings = read_both_orders(checked_file(RATINGS, data_dir))
    encoder = shared_encoder()
    found = derive(ratings, encoder, listed(encoder), (RATINGS, data_set(RATINGS).sha256))
    if output is not None:
        replace_file(output, json.dumps(found.to_json(_command(output)), indent=2) + "\n")
    return ThresholdReport(found, output)


def tables(found: Derivation) -> list[tuple[str, Sequence[str], list[list[str]]]]:
    """The settings and the similarities, each as title, columns and rows."""
    settings = []
    for name, setting in found.settings.items():
        if setting is None:
            settings.append([name, "none meets the criterion", "", "", "", "", ""])
            continue
        other = found.others[name]
        left_out = f"{other.precision:.2f}, {other.recall:.2f} ({other.selected})"
        settings.append([name, setting.metric, *_cells(setting), f"{setting.selected}", left_out])
    alone = [
        [
            metric,
            f"{value:.3f} ({low:.3f} to {high:.3f})",
            *(
                "none"
                if setting is None
                else f"{setting.threshold:.2f} ({100 * setting.precision:.0f}, {100 * setting.recall:.0f})"
                for setting in found.alone[metric].values()
            ),
        ]
        for metric, (value, low, high) in found.auc.items()
    ]
    papers = next(iter(found.alone.values()))
    columns = ("setting", "similarity", "from", "P", "R", "n", "left out: P, R (n)")
    return [
        ("Thresholds, chosen over all similarities: precision P, recall R, n selected", columns, settings),
        (
            "Each similarity alone: from (P %, R %)",
            ("similarity", "AUC (95 %)", *papers),
            alone,
        ),
    ]


def _cells(setting: Setting) -> tuple[str, str, str]:
    return f"{setting.threshold:.2f}", f"{setting.precision:.2f}", f"{setting.recall:.2f}"


def _command(output: Path | None) -> str:
    # No path of this machine goes into a file that may be shipped.
    return _COMMAND.format("FILE" if output is None or output.is_absolute() else output.as_posix())
