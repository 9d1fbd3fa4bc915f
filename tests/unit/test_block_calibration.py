"""The measurement of blocks: the places it asks at, what counts as right, and its tables."""

import json
from pathlib import Path
from types import SimpleNamespace

import attrs
import pytest
from block_calibration import _Place, counted, judged, last, place, rows_of, stretches, tables, true_block
from feedback_scene import suggestion

from lsp_calib.completion.context import Cursor
from lsp_calib.completion.prompt import Layout, WindowSize
from lsp_calib.completion.service import Completion
from lsp_calib.evaluation.lines import read_lines_of
from lsp_calib.inference.models.cards import load_cards
from lsp_calib.values import Evidence, ModelIdentity, Tier

RECORD = Path(__file__).parents[2] / "models" / "records" / "blocks" / "line-smollm2-135m-large.jsonl"
SOURCE = """import os


def area(radius):
    if radius < 0:
        raise ValueError(radius)
    square = radius * radius
    return square


print(area(os.getpid()))
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    root = tmp_path / "shapes-1.0"
    root.mkdir()
    (root / "a.py").write_text(SOURCE, "utf-8")
    (root / "b.py").write_text("\n\n" + "".join(f"value_{n} = {n}\n" for n in range(100)), "utf-8")
    return root


@pytest.mark.parametrize("writing_on", [False, True])
def test_the_block_is_gone_and_below_it_what_writing_on_removes(project: Path, writing_on: bool) -> None:
    lines = read_lines_of(project / "a.py", "python")
    item = place(project, project / "a.py", lines, 4, writing_on=writing_on)
    assert true_block(item, lines) == list(lines[4:6])
    cursor = item.cursor
    assert (cursor.before, cursor.line, cursor.after) == ("    ", 4, "")
    below = [] if writing_on else lines[6:]
    assert list(cursor.lines) == [*lines[:4], "    ", *below]


def test_a_stretch_is_of_one_file_and_its_prompts_begin_alike(project: Path) -> None:
    layout = Layout.of(load_cards()["smollm2-135m"], WindowSize.SMALL)
    found = list(stretches(project, layout, writing_on=True))
    assert sorted(items[0].name for items in found) == ["a.py", "b.py"]
    for items in found:
        assert len({_Place.of(item.cursor, layout) for item in items}) == 1
        assert items[-1].cursor.line - items[0].cursor.line < 24
    assert [[item.id for item in items] for items in stretches(project, layout, writing_on=True)] == [
        [item.id for item in items] for items in found
    ]


def lines_of(*made: tuple[str, float]) -> tuple[Completion, ...]:
    found = []
    above = ["def f():"]
    for text, p in made:
        one = suggestion(text)
        cursor = Cursor.at([*above, ""], len(above), 0, "python")
        one = attrs.evolve(one, confidence=attrs.evolve(one.confidence, calibrated=p))
        found.append(Completion(one, cursor, Evidence(), ModelIdentity("m", "", ""), "p"))
        above.append(text)
    return tuple(found)


def test_a_line_is_right_below_lines_that_are_all_right() -> None:
    """With its indentation; what stands beyond the removed lines counts as wrong."""
    estimator = SimpleNamespace(tier=lambda p, _given: (Tier.ACCEPT if p > 0.5 else Tier.REVIEW, ""))
    made = lines_of(("    a", 0.9), ("    b", 0.8), ("    c", 0.5), ("    d", 1.0))
    found = judged(made, ["    a", "    b ", "  c"], estimator)
    assert found["p"] == pytest.approx([0.9, 0.72, 0.36, 0.36])
    assert found["tier"] == ["accept", "accept", "review", "review"]
    assert found["right"] == [True, True, False, False]
    assert judged(made[:2], ["    a"], estimator)["right"] == [True, False]
    assert judged((), ["    a"], estimator) == {"p": [], "tier": [], "right": []}


def row(project: str, p: list[float], right: list[bool]) -> dict[str, object]:
    tiers = ["accept" if one > 0.7 else "review" for one in p]
    return {"item": f"{project}{p}", "group": project, "p": p, "tier": tiers, "right": right}


def test_the_tables_count_lines_and_blocks(tmp_path: Path) -> None:
    rows = [
        row("a", [0.9, 0.8], [True, True]),
        row("b", [0.9, 0.45, 0.4], [True, False, False]),
        row("c", [0.2], [False]),
        row("c", [], []),
    ]
    assert last(rows[1])["p"] == [0.4]
    file = tmp_path / "rows.jsonl"
    file.write_text("".join(json.dumps(one) + "\n" for one in rows))
    assert rows_of(file) == rows
    assert rows_of(tmp_path / "none") == []
    assert counted(rows) == "4 places of 3 projects, 2 blocks of two lines and more"
    out = tables(rows)
    assert "| 1, of all | 3 | 67% | 67% |" in out
    assert "| 2 | 2 | 50% | 62% |" in out
    assert "| 2 to 12 | 3 | 33% | 55% |" in out
    assert "| the last, so the whole block | 2 | 50% | 60% |" in out
    assert "| accept | 1 | 100%" in out
    assert "| review | 2 | 0%" in out
    # Of lines below lines that are all right: 0.8 / 0.9 and 0.45 / 0.9.
    assert "| a line's own, below lines that are all right | 2 | 50% | 69% |" in out


def test_the_documented_tables_are_those_of_the_record() -> None:
    rows = rows_of(RECORD)
    assert sum(len(row["p"]) > 1 for row in rows) >= 300
    page = (Path(__file__).parents[2] / "docs" / "reference.md").read_text("utf-8")
    shown = page.partition("<!-- begin: blocks -->\n")[2].partition("\n<!-- end: blocks -->")[0]
    assert shown == tables(rows)
    assert counted(rows) in page
