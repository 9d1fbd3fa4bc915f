"""Fit the curve of edits and its calibrator on records, and write what they hold into the notebook.

    python tests/programs/next_edits.py             # the tables, on projects set aside
    python tests/programs/next_edits.py --write     # and curve, calibrator and models/records/edits/README.md

`lsp-calib eval edit --output models/records/edits` makes the records from the pinned releases.
"""

from __future__ import annotations

import datetime
from collections import Counter

from offered_lines import parser_of
from pages import written

from lsp_calib import home
from lsp_calib.calibration.calibrators.calibrator import write_document
from lsp_calib.calibration.calibrators.purpose import Origin
from lsp_calib.calibration.document import written as document_of
from lsp_calib.edits.offers import FILE
from lsp_calib.studies.data import release_pairs, sets_named
from lsp_calib.studies.next_edit_fit import APART, FITTED, Judged, fitted, tables
from lsp_calib.studies.next_edits import read_cases
from lsp_calib.studies.tables import table_lines

MODELS = home.shipped_models()
RECORDS = MODELS / "records" / "edits"
PAGE = RECORDS / "README.md"


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--write", action="store_true", help="write curve, calibrator and documentation")
    arguments = parser.parse_args()
    cases = read_cases(RECORDS / FITTED)
    counted = Counter(case.project for case in cases if case.candidates)
    versions = {
        older.name: f"{older.version} to {newer.version}"
        for which in sets_named("releases")
        for older, newer in release_pairs(which)
    }
    origins = [Origin(name, versions[name], n) for name, n in sorted(counted.items())]
    curve, calibrator = fitted(cases, origins, datetime.date.today().isoformat())
    found = list(tables(Judged.by(read_cases(RECORDS / APART), curve, calibrator)))
    parts = {one.title: "\n".join(table_lines(one.columns, one.rows)) for one in found}
    for title, part in parts.items():
        print(f"{title}\n\n{part}\n")
    if arguments.write:
        write_document(MODELS / FILE, document_of(curve), shipped=True)
        calibrator.save(MODELS / "calibrators" / "edit-next-edit.json")
        if PAGE.exists():
            PAGE.write_text(written(PAGE.read_text("utf-8"), parts), "utf-8")


if __name__ == "__main__":
    main()
