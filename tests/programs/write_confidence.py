"""Write the tables on the shipped records and calibrators into docs/confidence.md, docs/evaluation.md and
README.md, and draw the ladder's figure: `make confidence`.

tests/validity/test_shipped.py fails where the pages or the figure say something else.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path

from confidence_rendering import evaluation_blocks, in_use, ladder_blocks, readme_blocks

from lsp_calib.evaluation.ladder_report import draw_steps

ROOT = Path(__file__).parents[2]
PAGES: Mapping[Path, Callable[[], Mapping[str, str]]] = {
    ROOT / "docs" / "confidence.md": ladder_blocks,
    ROOT / "docs" / "evaluation.md": evaluation_blocks,
    ROOT / "README.md": readme_blocks,
}
FIGURE = ROOT / "docs" / "img" / "confidence-ladder.png"


def written(page: str, blocks: Mapping[str, str]) -> str:
    """The page with its tables as they are to be, each between two comments."""
    for name, block in blocks.items():
        begin, end = f"<!-- begin: {name} (make confidence) -->\n", f"<!-- end: {name} -->\n"
        between = re.compile(f"(?<={re.escape(begin)}).*?(?={re.escape(end)})", re.DOTALL)
        page, count = between.subn(lambda _, block=block: f"\n{block}\n\n", page)
        assert count == 1, f"{begin}...{end} stands {count} times in the page"
    return page


def main() -> None:
    for path, blocks in PAGES.items():
        path.write_text(written(path.read_text("utf-8"), blocks()), "utf-8")
    draw_steps(in_use(), FIGURE)


if __name__ == "__main__":
    main()
