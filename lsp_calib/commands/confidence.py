"""`lsp-calib eval confidence`: how much each step of evidence adds to the confidence of lines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs

from lsp_calib.errors import DataError, SettingsError
from lsp_calib.evaluation import ablation_report
from lsp_calib.evaluation.ablation import Ablation, run_ablation
from lsp_calib.evaluation.ablation_report import MOST
from lsp_calib.evaluation.records import read_records
from lsp_calib.evaluation.scores import RESAMPLES
from lsp_calib.terminal import Console


@attrs.frozen
class AblationReport:
    """The ablations, one for each file of records, and the files that were written."""

    ablations: tuple[Ablation, ...]
    files: tuple[Path, ...] = ()

    def to_wire(self) -> dict[str, Any]:
        return {
            "files": [str(file) for file in self.files],
            "ablations": [ablation.to_json() for ablation in self.ablations],
        }

    def print(self) -> None:
        console = Console()
        ablation_report.print_ablations(self.ablations, console)
        for file in self.files:
            console.print(f"Written: {file}", soft_wrap=True)


def compare_evidence(
    records: Sequence[Path],
    output: Path | None = None,
    *,
    figure: bool = False,
    costs: Mapping[str, float] | None = None,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> AblationReport:
    """The ablation of each file of line records.

    output: the folder for confidence.md, .csv and .json, and with `figure` for the figures. costs,
    resamples, seed: as for `ablation.climb`.
    Raises DataError for records of another task, SettingsError for a figure without a folder or of more files
    than it can show.
    """
    if figure and output is None:
        raise SettingsError("Say where to write the figures: add --output FOLDER.")
    if figure and len(records) > MOST:
        raise SettingsError(
            f"A figure shows the ablations of at most {MOST} files of records; {len(records)} were given. "
            f"Name at most {MOST}, or leave --figure out: the tables are of any number."
        )
    ablations = []
    for path in records:
        header, found = read_records(path)
        if header.task != "line":
            raise DataError(f"{path} holds records of the task {header.task!r}, not of lines.")
        ablations.append(run_ablation(header, found, costs=costs, resamples=resamples, seed=seed))
    if output is None:
        return AblationReport(tuple(ablations))
    try:
        output.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise SettingsError(f"The folder {output} cannot be created: {error.strerror or error}.") from error
    ablation_report.write(ablations, output)
    files = [output / f"confidence.{kind}" for kind in ("md", "csv", "json")]
    if figure:
        files += ablation_report.draw(ablations, output)
    return AblationReport(tuple(ablations), tuple(files))
