"""The purpose of a calibrator of completions, given the model that answers."""

from __future__ import annotations

from lsp_calib.calibration.calibrators.purpose import Purpose
from lsp_calib.completion.prompt import Layout
from lsp_calib.inference.engine import LoadedModel


def line_purpose(loaded: LoadedModel, layout: Layout, language: str) -> Purpose:
    """The purpose of line completions by this model, with prompts of a layout, in one language."""
    return Purpose(loaded.identity, layout.version, "line", language)
