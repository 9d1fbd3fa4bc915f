"""`lsp-calib eval confidence`: how much each step of evidence adds to the confidence of lines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs

from lsp_calib.errors import DataError, SettingsError
from lsp_calib.evaluation import ladder_report
from lsp_calib.evaluation.ladder import Ladder, climb
from lsp_calib.evaluation.ladder_report import MOST
from lsp_calib.evaluation.records import read_records
from lsp_calib.evaluation.scores import RESAMPLES
from lsp_calib.terminal import Console


@attrs.frozen
class Report:
    """The ladders, one for each file of records, and the files that were written."""

    ladders: tuple[Ladder, ...]
    files: tuple[Path, ...] = ()

    def to_wire(self) -> dict[str, Any]:
        return {
            "files": [str(file) for file in self.files],
            "ladders": [ladder.to_json() for ladder in self.ladders],
        }

    def print(self) -> None:
        console = Console()
        ladder_report.print_ladders(self.ladders, console)
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
) -> Report:
    """The ladder of each file of line records.

    output: the folder for confidence.md, .csv and .json, and with `figure` for the figures. costs,
    resamples, seed: as for `ladder.climb`.
    Raises DataError for records of another task, SettingsError for a figure without a folder or of more files
    than it can show.
    """
    if figure and output is None:
        raise SettingsError("Say where to write the figures: add --output FOLDER.")
    if figure and len(records) > MOST:
        raise SettingsError(
            f"A figure shows the ladders of at most {MOST} files of records; {len(records)} were given. Name "
            f"at most {MOST}, or leave --figure out: the tables are of any number."
        )
    ladders = []
    for path in records:
        header, found = read_records(path)
        if header.task != "line":
            raise DataError(f"{path} holds records of the task {header.task!r}, not of lines.")
        ladders.append(climb(header, found, costs=costs, resamples=resamples, seed=seed))
    if output is None:
        return Report(tuple(ladders))
    try:
        output.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise SettingsError(f"The folder {output} cannot be created: {error.strerror or error}.") from error
    ladder_report.write(ladders, output)
    files = [output / f"confidence.{kind}" for kind in ("md", "csv", "json")]
    if figure:
        files += ladder_report.draw(ladders, output)
    return Report(tuple(ladders), tuple(files))
