"""Figures: what they say and how many of each thing they draw; never which pixel."""

import os
import subprocess
import sys
from functools import cache, partial

import matplotlib.colors
import matplotlib.text
import numpy as np
import pytest

from lsp_calib.calibration.reliability import reliability
from lsp_calib.calibration.validation import Interval
from lsp_calib.errors import DataError
from lsp_calib.studies.calibration_errors import risk_coverage
from lsp_calib.studies.figures import (
    draw_ablation,
    draw_reliability,
    draw_risk_coverage,
    draw_skill_by_t,
    draw_token_positions,
)
from lsp_calib.studies.figures_theme import DARK, LIGHT, THEMES, save_both
from lsp_calib.studies.measures import token_positions

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
DRAWINGS = {
    "ablation": partial(draw_ablation, STEPS, LADDER, (1250, 900)),
    "reliability": partial(draw_reliability, reliability(CONFIDENCE, CORRECT)),
    "skill": partial(draw_skill_by_t, SKILL, LENGTHS, chosen=[4, 4, 8]),
    "positions": partial(draw_token_positions, token_positions(LOGPROBS)),
    "risk": partial(draw_risk_coverage, risk_coverage(CONFIDENCE, CORRECT), marks={"accept": 0.9}),
}


@cache
def drawn(name, theme):
    figure = DRAWINGS[name](theme=theme, title="A title", note="a note")
    figure.canvas.draw()
    return figure


def texts(figure):
    """Everything that can be read in the figure."""
    return [text.get_text() for text in figure.findobj(matplotlib.text.Text) if text.get_visible()]


def bars(axes, label):
    (found,) = [container for container in axes.containers if container.get_label().startswith(label)]
    return found.patches


@pytest.mark.parametrize("name", DRAWINGS)
@pytest.mark.parametrize("theme", THEMES, ids=["light", "dark"])
def test_every_figure_says_what_was_counted_in_both_themes(name, theme):
    figure = drawn(name, theme)
    assert "A title" in texts(figure)
    assert any(text.startswith("n = ") and text.endswith(" · a note") for text in texts(figure))
    assert matplotlib.colors.to_hex(figure.get_facecolor()) == theme.paper
    for text in figure.findobj(matplotlib.text.Text):
        if text.get_text() and text.get_visible():
            assert contrast(text.get_color(), theme.paper) >= 4.5, text.get_text()


@pytest.mark.parametrize("theme", THEMES)
def test_lines_and_text_stand_out_from_the_paper(theme):
    for color in (theme.ink, theme.muted, theme.first, theme.second):
        assert contrast(color, theme.paper) >= 4.5
    assert contrast(theme.ink, theme.fill) >= 4.5


def contrast(one, other):
    """WCAG 2.1 contrast ratio."""

    def luminance(color):
        rgb = np.array(matplotlib.colors.to_rgb(color))
        linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
        return float(linear @ [0.2126, 0.7152, 0.0722])

    high, low = sorted((luminance(one), luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def test_the_reliability_diagram_draws_its_data():
    data = reliability(CONFIDENCE, CORRECT)
    figure = draw_reliability(data)
    above, axes = figure.axes
    filled = [item for item in data.bins if item.n]
    assert [bar.get_height() for bar in bars(axes, "share correct")] == [item.accuracy for item in filled]
    boxes = bars(axes, "range if calibrated (95 %)")
    assert [box.get_y() for box in boxes] == [item.band_low for item in filled]
    tops = [box.get_y() + box.get_height() for box in boxes]
    assert tops == pytest.approx([item.band_high for item in filled])
    assert [bar.get_height() for bar in above.containers[0]] == [item.n for item in data.bins]
    assert [text.get_text() for text in axes.texts] == [f"{item.n:,}" for item in filled], "at their feet"
    (points,) = [item for item in axes.containers if item.get_label().startswith("5 quantiles")]
    assert points.lines[0].get_xydata().tolist() == [[item.confidence, item.accuracy] for item in data.points]


def test_skill_by_t_sets_all_tokens_apart_and_counts_the_choices():
    figure = draw_skill_by_t(SKILL, LENGTHS, chosen=[4, 4, 8, 8, None])
    above, axes = figure.axes
    said = texts(figure)
    assert {"all", "base rate", "geometric mean", "arithmetic mean", "chosen in k folds"} < set(said)
    assert (said.count("2/5"), said.count("1/5")) == (2, 1)
    curve = next(line for line in axes.lines if line.get_label() == "geometric mean")
    assert curve.get_xydata().tolist() == [[1, 0.05], [2, 0.11], [4, 0.2], [8, 0.18]]
    assert sum(bar.get_height() for bar in above.patches) == len(LENGTHS)


def test_positions_draw_mean_and_median_and_how_many_reach_them():
    data = token_positions(LOGPROBS)
    above, axes = draw_token_positions(data).axes
    lines = {line.get_label(): line.get_ydata().tolist() for line in axes.lines}
    assert lines == {"median": data.median.tolist(), "mean": data.mean.tolist()}
    assert [bar.get_height() for bar in above.patches] == data.n.tolist()


def test_risk_coverage_ends_at_the_error_rate_and_marks_thresholds():
    data = risk_coverage(CONFIDENCE, CORRECT)
    figure = draw_risk_coverage(data, marks={"accept": 0.9, "never": 1.5})
    (axes,) = figure.axes
    curve = next(line for line in axes.lines if line.get_label() == "by confidence")
    assert curve.get_xydata()[-1].tolist() == [1.0, pytest.approx(1 - CORRECT.mean())]
    assert {"accept ≥ 0.90", "perfect ranking", "no ranking"} < set(texts(figure))
    assert not any("never" in text for text in texts(figure))
    for threshold, coverage, risk in zip(data.threshold, data.coverage, data.risk, strict=True):
        assert coverage == pytest.approx(np.mean(threshold <= CONFIDENCE))
        assert risk == pytest.approx(np.interp(coverage, *curve.get_xydata().T))


def test_a_ladder_has_a_row_for_each_step_and_a_dot_for_each_value():
    (axes,) = draw_ablation(STEPS, LADDER, (1250, 900)).axes
    assert [label.get_text() for label in axes.get_yticklabels()] == STEPS
    low, high = axes.get_ylim()
    assert low > high, "from top to bottom"
    bars = {bar.get_label(): bar for bar in axes.containers}
    assert bars["large"].lines[0].get_xdata().tolist() == [0.2, 0.5, 0.55]
    assert bars["small"].lines[0].get_xdata().tolist() == [0.4, 0.6], "what is not known is not drawn"
    segments = [path[:, 0].tolist() for path in bars["large"].lines[2][0].get_segments()]
    assert segments == [pytest.approx([item.low, item.high]) for item in LADDER["large"]]
    # The rows of two series stand apart, but each next to its name.
    heights = [bars[name].lines[0].get_ydata()[0] for name in LADDER]
    assert heights[0] < 0 < heights[1]
    assert max(map(abs, heights)) < 0.5
    assert {"+0.20", "+0.60", "n = 1,250 and 900"} < set(texts(axes.figure))


@pytest.mark.parametrize(
    ("skill", "counts"),
    [
        ({}, ()),
        ({"a": [None] * 3}, (9,)),
        ({"a": [Interval(None, None, None)] * 3}, (9,)),
        ({"a": LADDER["large"][:2]}, (9,)),
        ({"a": LADDER["large"]}, (9, 9)),
        (dict.fromkeys("abc", LADDER["large"]), (9, 9, 9)),
    ],
)
def test_a_ladder_without_values_or_of_three_models_is_refused(skill, counts):
    with pytest.raises(DataError, match="An ablation needs"):
        draw_ablation(STEPS, skill, counts)


def test_a_description_is_kept_in_the_file(tmp_path):
    for suffix in ("png", "svg"):
        for file in save_both(DRAWINGS["risk"], tmp_path / f"a.{suffix}", "0123456789abcdef"):
            assert b"0123456789abcdef" in file.read_bytes()


def test_two_files_are_written_and_the_same_data_make_the_same_bytes(tmp_path):
    draw = partial(draw_token_positions, token_positions(LOGPROBS))
    files = save_both(draw, tmp_path / "a.png")
    assert [file.name for file in files] == ["a-light.png", "a-dark.png"]
    again = save_both(draw, tmp_path / "b.png")
    assert [file.read_bytes() for file in files] == [file.read_bytes() for file in again]
    assert files[0].read_bytes() != files[1].read_bytes()
    for suffix in ("svg", "pdf"):
        assert all(file.stat().st_size for file in save_both(draw, tmp_path / f"c.{suffix}"))


@pytest.mark.parametrize("name", ["missing/a.png", "a.docx"])
def test_a_file_that_cannot_be_written_is_an_error_of_ours(tmp_path, name):
    with pytest.raises(DataError, match="cannot be written"):
        save_both(partial(draw_token_positions, token_positions(LOGPROBS)), tmp_path / name)


def test_matplotlib_is_imported_by_the_first_drawing_and_pyplot_by_none():
    program = (
        "import sys; from lsp_calib.studies.figures import draw_token_positions\n"
        "assert 'matplotlib' not in sys.modules\n"
        "from lsp_calib.studies.measures import token_positions\n"
        "draw_token_positions(token_positions([[-1.0]], least=1)).canvas.draw()\n"
        "assert 'matplotlib' in sys.modules and 'matplotlib.pyplot' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True, env=os.environ)


def test_without_matplotlib_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.backends.backend_agg", None)
    for theme in (LIGHT, DARK):
        with pytest.raises(DataError, match=r"pip install .*\[figures\]"):
            draw_risk_coverage(risk_coverage([0.1, 0.9], [False, True]), theme)
