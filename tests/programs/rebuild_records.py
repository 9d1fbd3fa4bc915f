"""Text features and verdicts of the shipped records that no calibrator is fitted on, from the pinned sources.

    LSP_CALIB_DATA=FOLDER python tests/programs/rebuild_records.py

`make calibrators` runs it; `lsp-calib calibrate --records FILE --sources FOLDER` does the same for those that
a calibrator is fitted on. No model decodes anything; infilled lines are judged by their tests in the sandbox.
Lines of commits (`records/history`) are in no pinned source and stay as they are.
"""

from __future__ import annotations

from pathlib import Path

from lsp_calib.corpus.rebuilding import LINES, recompute_features
from lsp_calib.studies.data import data_folder
from lsp_calib.studies.tasks import infill_task

RECORDS = Path(__file__).parents[2] / "models" / "records"
PATTERNS = "lines/infill-*", "blind/line-*", "blocks/first-lines-*", "openers/*", "personal/*", "windows/*"


def sources_of_file(file: Path, data: Path) -> Path:
    """The folder of the sources that a file of records was made from."""
    kind = file.parent.name
    if kind == "windows":
        return data / f"projects-{file.stem.rpartition('-')[2]}"
    return data / ("projects-blind" if kind in ("blind", "blocks") else "projects")


def main() -> None:
    data = data_folder()
    for pattern in PATTERNS:
        for file in sorted(RECORDS.glob(f"{pattern}.jsonl")):
            task = infill_task(data, None, 0) if file.name.startswith("infill-") else LINES
            count = recompute_features(file, sources_of_file(file, data), task=task)
            print(f"{file.relative_to(RECORDS)}: features of {count} answers", flush=True)


if __name__ == "__main__":
    main()
