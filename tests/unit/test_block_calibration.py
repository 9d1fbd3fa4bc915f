"""The measurement of blocks that the documentation shows."""

from __future__ import annotations

from pathlib import Path

from block_calibration import counted, rows_of, tables

ROOT = Path(__file__).parents[2]
RECORD = ROOT / "models" / "records" / "blocks" / "line-smollm2-135m-large.jsonl"


def test_the_documented_tables_are_those_of_the_record() -> None:
    rows = rows_of(RECORD)
    assert sum(len(row["p"]) > 1 for row in rows) >= 300
    page = (ROOT / "docs" / "reference.md").read_text("utf-8")
    shown = page.partition("<!-- begin: blocks -->\n")[2].partition("\n<!-- end: blocks -->")[0]
    assert shown == tables(rows)
    assert counted(rows) in page
