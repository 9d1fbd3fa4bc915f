"""The tutorial shows the answer that its command gives with the small model."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

from real_server import PATIENCE, SERVER

PAGE = Path(__file__).parents[2] / "docs" / "tutorial.md"
POINTS = 5  # as far as processors and builds of llama.cpp lie apart, which the page says


def _tier(text: str) -> tuple[str, int, str]:
    """The first badge with a number: tier, number and completion."""
    found = re.search(r"[●▲✗] (\w+) +(\d+) % (.+)", text)
    assert found, text
    return found[1], int(found[2]), found[3]


def test_the_completion_is_the_one_that_the_page_shows(home_with_model: Path, tmp_path: Path) -> None:
    """With the model in the reader's own home: there its weights are converted where that is faster."""
    environment = {**os.environ, "LSP_CALIB_HOME": str(home_with_model)}
    page = PAGE.read_text("utf-8")
    code = page.partition("Write this into `largest.py`:\n\n")[2].partition("\n\nAsk for the end")[0]
    (tmp_path / "largest.py").write_text("\n".join(line[4:] for line in code.split("\n")) + "\n", "utf-8")
    done = subprocess.run(
        [*SERVER[:-1], "complete", "largest.py:6", "--model", "smollm2-135m"], env=environment, cwd=tmp_path,
        capture_output=True, text=True, timeout=PATIENCE, check=True,
    )  # fmt: skip
    page_says = _tier(page.partition("`smollm2-135m` completes it with\n")[2])
    accept = re.search(r"Accept begins at (\d+) %", page)
    assert accept
    for tier, number, text in (page_says, _tier(done.stdout)):
        assert text == page_says[2]
        assert abs(number - page_says[1]) <= POINTS
        assert tier == ("accept" if number >= int(accept[1]) else "review")
