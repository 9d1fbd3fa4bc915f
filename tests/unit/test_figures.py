"""Figures: what they say and how many of each thing they draw; never which pixel."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any

import attrs
import matplotlib.colors
import matplotlib.text
import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from test_score import STUDY, header_of, records_of, written

from lsp_calib.calibration.reliability import reliability
from lsp_calib.calibration.validation import Interval
from lsp_calib.errors import DataError
from lsp_calib.studies import figures
from lsp_calib.studies.figures import Roc, save
from lsp_calib.studies.full_ece import BINS
from lsp_calib.studies.measures import token_positions
from lsp_calib.studies.score import answers_of, cell_of

rng = np.random.default_rng(7)
CONFIDENCE = rng.beta(2, 1, 400)
CORRECT = rng.random(400) < CONFIDENCE**2
LOGPROBS = [-rng.exponential(0.5, size) for size in rng.integers(1, 30, 200)]
SKILL = {
    "geometric mean": [(1, 0.05), (2, 0.11), (4, 0.2), (8, 0.18), (None, 0.15)],
    "arithmetic mean": [(1, 0.05), (2, 0.1), (4, 0.15), (8, 0.14), (None, -0.02)],
}
LENGTHS = [len(item) for item in LOGPROBS]
STEPS = ["one measure", "features", "all of it"]
LADDER = {
    "large": [Interval(0.2, 0.1, 0.3), Interval(0.5, 0.45, 0.55), Interval(0.55, 0.5, 0.6)],
    "small": [Interval(0.4, 0.3, 0.45), None, Interval(0.6, None, None)],
}
DATA = reliability(CONFIDENCE, CORRECT)
RESCALED = reliability(CONFIDENCE**2, CORRECT)
CURVE = Roc.of(CONFIDENCE, CORRECT, 0.71)
FULL = {"m": (np.array([0.1, 0.5]), np.array([0.2, 0.5]))}
OVER_M = {"m": (np.linspace(0.01, 0.04, len(BINS)), np.full((3, len(BINS)), 0.01))}
NAMED = {"title": "A title", "note": "a note"}
DRAWINGS: dict[str, Callable[[], Figure]] = {
    "ablation": partial(figures.draw_ablation, STEPS, LADDER, (1250, 900), **NAMED),
    "reliability": partial(figures.draw_reliability, [("", "a note", DATA)], title="A title"),
    "raw and rescaled": partial(
        figures.draw_reliability, [("raw", "a note", DATA), ("rescaled", "b", RESCALED)], title="A title"
    ),
    "row": partial(figures.draw_diagrams, [("A title", "a note", DATA)] * 3),
    "lines": partial(figures.draw_diagrams, [("A title", "a note", DATA)] * 2, {"m": CURVE}),
    "grid": partial(figures.draw_grid, ["a", "b"], ["x", "y"], {("a", "x"): (DATA, RESCALED)}),
    "roc": partial(figures.draw_roc, {"m": CURVE}),
    "haque": partial(figures.draw_haque, CURVE, {"best-f1": 0.5, "high-precision": 0.9}, 210, 48),
    "against auc": partial(figures.draw_against_auc, {"skill": {"ours": [(0.6, 0.1)]}, "ECE": {}}),
    "skill": partial(figures.draw_skill_by_t, SKILL, LENGTHS, chosen=[4, 4, 8], title="A title"),
    "positions": partial(figures.draw_token_positions, token_positions(LOGPROBS), title="A title"),
    "example": partial(figures.draw_example, [("f", True, 0.82, 0.9), ("g", False, 0.81, 0.4)]),
    "temperature": partial(
        figures.draw_temperature, {"m": [(0.8, -0.5), (1.2, -0.1)]}, {"m": 1.1}, {"m": 0.1}
    ),
    "full-ece": partial(figures.draw_full_ece, FULL, OVER_M, BINS),
}


@cache
def drawn(name: str) -> Figure:
    figure = DRAWINGS[name]()
    figure.canvas.draw()
    return figure


def texts(figure: Figure) -> list[str]:
    """Everything that can be read in the figure."""
    return [text.get_text() for text in figure.findobj(matplotlib.text.Text) if text.get_visible()]


def bars(axes: Axes, label: str) -> Any:
    (found,) = [container for container in axes.containers if str(container.get_label()).startswith(label)]
    return found.patches


@pytest.mark.parametrize("name", DRAWINGS)
def test_every_figure_fits_a_printed_page_and_can_be_read(name: str) -> None:
    figure = drawn(name)
    width, height = figure.get_size_inches()
    assert width <= 7.0
    assert height <= 9.5
    for text in figure.findobj(matplotlib.text.Text):
        if text.get_text() and text.get_visible():
            assert contrast(text.get_color(), figures.PAPER) >= 4.4, text.get_text()
    if name in ("ablation", "reliability", "skill", "positions"):
        assert "A title" in texts(figure)
        assert any(text.startswith("n = ") for text in texts(figure))


def contrast(one: Any, other: Any) -> float:
    """WCAG 2.1 contrast ratio."""

    def luminance(color: Any) -> float:
        rgb = np.array(matplotlib.colors.to_rgb(color))
        linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
        return float(linear @ [0.2126, 0.7152, 0.0722])

    high, low = sorted((luminance(one), luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def test_the_reliability_diagram_draws_its_data() -> None:
    above, axes = drawn("reliability").axes
    filled = [item for item in DATA.bins if item.n]
    assert [bar.get_height() for bar in bars(axes, "share correct")] == [item.accuracy for item in filled]
    boxes = bars(axes, "range if calibrated (95 %)")
    assert [box.get_y() for box in boxes] == [item.band_low for item in filled]
    tops = [box.get_y() + box.get_height() for box in boxes]
    assert tops == pytest.approx([item.band_high for item in filled])
    assert [bar.get_height() for bar in above.containers[0]] == [item.n for item in DATA.bins]
    assert [text.get_text() for text in axes.texts] == [f"{item.n:,}" for item in filled], "at their feet"
    (points,) = [item for item in axes.containers if str(item.get_label()).startswith("5 quantiles")]
    assert points.lines[0].get_xydata().tolist() == [[item.confidence, item.accuracy] for item in DATA.points]


def test_a_grid_has_a_panel_for_each_measure_and_data_set_and_says_which_is_missing() -> None:
    axes = drawn("grid").axes
    assert len(axes) == 4
    assert [bar.get_height() for bar in bars(axes[0], "rescaled")] == [
        item.accuracy for item in RESCALED.bins if item.n
    ]
    assert [text.get_text() for text in axes[3].texts] == ["–"]


def test_a_curve_meets_the_rates_of_accepting_from_a_threshold_on() -> None:
    chosen = CONFIDENCE >= 0.7
    false, true = CURVE.at(0.7)
    assert true == pytest.approx((chosen & CORRECT).sum() / CORRECT.sum(), abs=0.02)
    assert false == pytest.approx((chosen & ~CORRECT).sum() / (~CORRECT).sum(), abs=0.02)
    assert {"best-f1: 0.50", "high-precision: 0.90", "210 pairs, 48 similar"} < set(texts(drawn("haque")))


def test_skill_by_t_sets_all_tokens_apart_and_counts_the_choices() -> None:
    """Above it all generations are counted, as above the probabilities by position."""
    data = token_positions(LOGPROBS)
    assert [bar.get_height() for bar in bars(drawn("positions").axes[0], "_container0")] == data.n.tolist()
    figure = figures.draw_skill_by_t(SKILL, LENGTHS, chosen=[4, 4, 8, 8, None], title="A title")
    above, axes = figure.axes
    said = texts(figure)
    assert {"all", "base rate", "geometric mean", "arithmetic mean", "chosen in k folds"} < set(said)
    assert (said.count("2/5"), said.count("1/5")) == (2, 1)
    curve = next(line for line in axes.lines if line.get_label() == "geometric mean")
    assert np.asarray(curve.get_xydata()).tolist() == [[1, 0.05], [2, 0.11], [4, 0.2], [8, 0.18]]
    assert sum(bar.get_height() for bar in bars(above, "_container0")) == len(LENGTHS)


def test_a_ladder_has_a_row_for_each_step_and_a_dot_for_each_value() -> None:
    (axes,) = drawn("ablation").axes
    assert [label.get_text() for label in axes.get_yticklabels()] == STEPS
    low, high = axes.get_ylim()
    assert low > high, "from top to bottom"
    found: dict[str, Any] = {str(bar.get_label()): bar for bar in axes.containers}
    assert found["large"].lines[0].get_xdata().tolist() == [0.2, 0.5, 0.55]
    assert found["small"].lines[0].get_xdata().tolist() == [0.4, 0.6], "what is not known is not drawn"
    segments = [path[:, 0].tolist() for path in found["large"].lines[2][0].get_segments()]
    assert segments == [pytest.approx([item.low, item.high]) for item in LADDER["large"] if item]
    # The rows of two series stand apart, but each next to its name.
    heights = [found[name].lines[0].get_ydata()[0] for name in LADDER]
    assert heights[0] < 0 < heights[1]
    assert max(map(abs, heights)) < 0.5


def test_the_same_numbers_make_the_same_bytes_and_a_description_is_kept(tmp_path: Path) -> None:
    for suffix in ("png", "svg"):
        one, two = (save(DRAWINGS["positions"], tmp_path / f"{n}.{suffix}", "0123456789abcdef") for n in "ab")
        assert one.read_bytes() == two.read_bytes() or suffix == "svg", "SVG names its parts at random"
        assert b"0123456789abcdef" in one.read_bytes()


@pytest.mark.parametrize("name", ["missing/a.png", "a.docx"])
def test_a_file_that_cannot_be_written_is_an_error_of_ours(tmp_path: Path, name: str) -> None:
    with pytest.raises(DataError, match="cannot be written"):
        save(DRAWINGS["positions"], tmp_path / name)


def test_the_figures_of_spiess_are_of_the_studys_measures_and_conditions(tmp_path: Path) -> None:
    """Figure 6 has a panel for each measure and data set; Figure 8 stands beside the paper's points."""
    records = [
        attrs.evolve(one, correct={"tests": one.correct["tests"]}, condition="prefix")
        for one in records_of(lengths=True)
    ]
    file = written(tmp_path, header_of(), records)
    cell = cell_of(answers_of(file)[0], **STUDY)
    printed = {"skill": [(0.7, 0.1)], "ece": [(0.7, 0.02)]}
    pictures = {one.stem: one.draw() for one in figures.of_spiess({"Lines": [cell]}, [], printed)}
    assert list(pictures) == ["spiess-figure-5", "spiess-figure-6", "spiess-figure-8", "spiess-roc"]
    assert len(pictures["spiess-figure-6"].axes) == 6
    assert "Average" in texts(pictures["spiess-figure-6"])
    (ece, skill) = pictures["spiess-figure-8"].axes
    ours = {line.get_label(): len(line.get_xdata()) for line in skill.lines}
    assert ours == {"ours": 3, "published, GPT-3.5": 1}, "total, average and length"
    assert ece.get_ylabel() == "rescaled ECE"
    assert not list(figures.of_spiess({"Lines": []}, [], printed))
