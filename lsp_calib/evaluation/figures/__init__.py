"""The studies' figures, drawn from data that other modules computed.

Each function takes a finished result and a `Theme`, and returns a matplotlib figure to show, or to write for
light and dark pages with `save_both`. matplotlib (the extra `figures`) is imported on the first drawing; all
functions raise DataError if it is not installed.

    from functools import partial
    save_both(partial(draw_reliability, reliability(confidence, correct)), Path("img/lines.png"))
"""

from lsp_calib.evaluation.figures.confidences import (
    Roc,
    draw_against_auc,
    draw_correlations,
    draw_raw_over_rescaled,
    draw_reliability,
    draw_risk_coverage,
    draw_roc,
)
from lsp_calib.evaluation.figures.evidence import draw_ablation, draw_skill_by_t, draw_token_positions
from lsp_calib.evaluation.figures.theme import DARK, LIGHT, THEMES, Theme, save_both

__all__ = [
    "DARK",
    "LIGHT",
    "THEMES",
    "Roc",
    "Theme",
    "draw_ablation",
    "draw_against_auc",
    "draw_correlations",
    "draw_raw_over_rescaled",
    "draw_reliability",
    "draw_risk_coverage",
    "draw_roc",
    "draw_skill_by_t",
    "draw_token_positions",
    "save_both",
]
