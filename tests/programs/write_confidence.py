"""Write the tables on shipped records and calibrators into README.md, docs/confidence.md and the notebooks
beside the records, the page of the studies among them, and draw the README's and the ablation's figure:
`make confidence`.

tests/validity/test_shipped.py fails where the pages or a figure say something else.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

import pages
from confidence_rendering import (
    blind_lines,
    claims_blocks,
    evidence_blocks,
    in_use,
    readme_blocks,
    records_blocks,
    studies,
    tier_blocks,
)

from lsp_calib.studies import page
from lsp_calib.studies.ablation import draw_steps
from lsp_calib.studies.figures import draw_reliability, save

ROOT = Path(__file__).parents[2]
RECORDS = ROOT / "models" / "records"
PAGES: Mapping[Path, Callable[[], Mapping[str, str]]] = {
    ROOT / "README.md": readme_blocks,
    ROOT / "docs" / "confidence.md": tier_blocks,
    RECORDS / "README.md": records_blocks,
    RECORDS / "lines" / "README.md": evidence_blocks,
}
CLAIMS = RECORDS / "README.md"
STUDIES = RECORDS / "studies" / "README.md"
FIGURE = ROOT / "docs" / "img" / "confidence-ladder.png"
README_FIGURE = FIGURE.with_name("reliability.png")
README_MODEL = "qwen2.5-coder-1.5b-large"


written = partial(pages.written, by="make confidence")


def readme_checksum() -> str:
    """Changes with anything that the README's figure shows, but not with the last digits of floats."""
    asked, row, data = blind_lines(README_MODEL)
    exact = repr((asked, row.to_json(), data))
    shown = re.sub(r"\d+\.\d+(e-?\d+)?", lambda one: f"{float(one[0]):.3f}", exact)
    return hashlib.sha256(shown.encode()).hexdigest()[:16]


def main() -> None:
    for path, blocks in PAGES.items():
        path.write_text(written(path.read_text("utf-8"), blocks()), "utf-8")
    CLAIMS.write_text(written(CLAIMS.read_text("utf-8"), claims_blocks()), "utf-8")
    STUDIES.write_text(page.markdown(studies(), pictures=False), "utf-8")
    draw_steps(in_use(), FIGURE)
    _, row, data = blind_lines(README_MODEL)
    note = f"skill {row.skill:+.2f}"
    title = "Lines of 40 blind projects, Qwen2.5-Coder-1.5B"
    figure = partial(draw_reliability, [("", note, data)], title=title)
    save(figure, README_FIGURE, readme_checksum())


if __name__ == "__main__":
    main()
