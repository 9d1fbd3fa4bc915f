"""The shipped calibrators on records of projects that they were not fitted on: the blind set.

    python tests/programs/blind.py [--by condition|stratum] [--sources DIR] FILE...

FILE: records of `eval line $LSP_CALIB_DATA/projects-blind/*`, or of `eval infill`. Prints a table for each:
a row for each condition (or kind of place) and judge, scored by the calibrator of lines that ships for its
model and prompt. No model and no source is needed, but with --sources, the folder with the projects: then the
text features are computed again first, as they are now. Records of a project that the calibrator was fitted
on are refused.
"""

from __future__ import annotations

import argparse
import re
import shutil
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from offered_lines import Offered, accepted, shipped_for

from lsp_calib.calibration.arrays import quietly
from lsp_calib.calibration.calibrators.calibrator import Calibrator
from lsp_calib.calibration.validation import summarise
from lsp_calib.corpus.places import INSERTING, NEW_LINE, STRATA, WRITING_ON
from lsp_calib.corpus.rebuilding import recompute_features
from lsp_calib.corpus.records import Header, Record, read_records, sources_of
from lsp_calib.errors import DataError
from lsp_calib.studies.data import SETS

BLIND = SETS["projects-blind"]
"""Python projects that nothing is fitted on."""

ROWS = {"condition": (INSERTING, WRITING_ON, NEW_LINE), "stratum": tuple(STRATA)}


def blind_among(names: Iterable[str], language: str = "python") -> tuple[str, ...]:
    """The projects of the blind set among the names of projects, sorted, each once.

    language: of the source. The set is of one language: Redis in C is not redis in Python.
    Of any version, since most lines of two versions are the same; spelt as any package index would take them.
    """
    blind = {_normal(project.name) for project in BLIND.projects if language == BLIND.language}
    return tuple(sorted({name for name in names if _normal(name) in blind}))


def _normal(name: str) -> str:
    """A project's name as package indexes compare names (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()


def table(
    header: Header, records: Sequence[Record], calibrator: Calibrator, by: str = "condition"
) -> Iterator[str]:
    """Lines of Markdown. by: a field of records, a key of `ROWS`.

    Raises DataError if the calibrator was fitted on a project of the records.
    """
    projects = [source.name for source in sources_of(records)]
    fitted_on = {source.name for source in calibrator.provenance}
    seen = sorted(fitted_on.intersection(projects))
    if seen:
        raise DataError(f"{calibrator.id} was fitted on {len(seen)} of the projects, such as {seen[0]}.")
    blind = len(blind_among(projects))
    yield f"{calibrator.id}; {len(projects)} projects, {blind} of them of the blind set"
    yield ""
    first = "condition" if by == "condition" else "place"
    head = f"{first}, judge | asked | right | offered | skill | AUC | ECE; if calibrated"
    yield f"| {head} | accepted @ right (from) |"
    yield "|---|---:|---:|---:|---|---|---|---|"
    for value in ROWS[by]:
        chosen = [record for record in records if getattr(record, by) == value]
        if chosen:
            for judge in chosen[0].correct:
                yield _row(value, judge, header, chosen, calibrator)


def _row(name: str, judge: str, header: Header, records: Sequence[Record], calibrator: Calibrator) -> str:
    offered = Offered.of(header, records, judge)
    confidence = calibrator.probabilities(offered.evidences)
    with quietly():
        metrics = summarise(confidence, offered.correct, offered.groups)
    share = sum(record.correct[judge] for record in records if record.shown) / len(records)
    cells = [f"{name}, {judge}", f"{len(records)}", f"{share:.1%}", f"{len(offered.records)}"]
    cells += [
        format(metrics["skill"], "+.2f"),
        format(metrics["auc"], ".2f"),
        format(metrics["ece"], ".3f"),
        accepted(confidence, offered.correct),
    ]
    return f"| {' | '.join(cells)} |"


def recomputed(file: Path, sources: Path) -> tuple[Header, list[Record]]:
    """Records with their text features as they are computed now; the file stays as it is."""
    with tempfile.TemporaryDirectory() as folder:
        shutil.copy(file, copy := Path(folder, file.name))
        recompute_features(copy, sources)
        return read_records(copy)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE")
    parser.add_argument("--by", choices=ROWS, default="condition")
    parser.add_argument("--sources", type=Path, metavar="DIR")
    given = parser.parse_args()
    for file in given.files:
        header, records = read_records(file) if given.sources is None else recomputed(file, given.sources)
        for line in table(header, records, shipped_for(header), given.by):
            print(line)
        print()


if __name__ == "__main__":
    try:
        main()
    except DataError as error:
        sys.exit(str(error))
