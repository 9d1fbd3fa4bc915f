"""Write the tables on the shipped records and calibrators into docs/confidence.md, docs/evaluation.md,
docs/results.md and README.md, the page of the studies beside their records, and draw the README's and the
ablation's figure: `make confidence`.

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
    ablation_blocks,
    blind_lines,
    costs,
    evaluation_blocks,
    in_use,
    readme_blocks,
    results_blocks,
    studies,
    usage,
)

from lsp_calib.studies import page
from lsp_calib.studies.ablation import draw_steps
from lsp_calib.studies.figures import draw_reliability, save

ROOT = Path(__file__).parents[2]
PAGES: Mapping[Path, Callable[[], Mapping[str, str]]] = {
    ROOT / "docs" / "confidence.md": ablation_blocks,
    ROOT / "docs" / "evaluation.md": evaluation_blocks,
    ROOT / "docs" / "results.md": results_blocks,
    ROOT / "docs" / "tiers.md": lambda: {"costs": costs(), "usage": usage()},
    ROOT / "README.md": readme_blocks,
}
STUDIES = ROOT / "models" / "records" / "studies" / "README.md"
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
    STUDIES.write_text(page.markdown(studies(), pictures=False), "utf-8")
    draw_steps(in_use(), FIGURE)
    _, row, data = blind_lines(README_MODEL)
    note = f"skill {row.skill:+.2f}"
    title = "Lines of 40 blind projects, Qwen2.5-Coder-1.5B"
    figure = partial(draw_reliability, [("", note, data)], title=title)
    save(figure, README_FIGURE, readme_checksum())


if __name__ == "__main__":
    main()
