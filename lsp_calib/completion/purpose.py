"""The purpose of a calibrator of completions, given the model that answers."""

from __future__ import annotations

from lsp_calib.calibration.calibrators.calibrator import Purpose
from lsp_calib.completion.prompt import Layout
from lsp_calib.inference.engine import LoadedModel


def line_purpose(loaded: LoadedModel, language: str) -> Purpose:
    """The purpose of line completions by this model, with its prompt's version, in one language."""
    return Purpose(loaded.identity, Layout.of(loaded.card).version, "line", language)
