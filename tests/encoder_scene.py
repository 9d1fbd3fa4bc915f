"""The real encoder: in the user's own state folder, or with its two files in LSP_CALIB_TEST_ENCODER.

Settled before any test has a state folder of its own. `lsp-calib models pull minilm-l6-v2` gets it.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from lsp_calib.errors import SettingsError
from lsp_calib.inference.models.cards import DEFAULT_ENCODER, load_encoders

CARD = load_encoders()[DEFAULT_ENCODER]


def _files() -> list[Path]:
    named = os.environ.get("LSP_CALIB_TEST_ENCODER")
    try:
        files = [Path(named, file.file) if named else file.path for file in CARD.files]
    except SettingsError:
        return []
    return [file.absolute() for file in files if file.is_file()]


FILES = _files()

needs_encoder = pytest.mark.skipif(
    len(FILES) < len(CARD.files), reason="the encoder is not installed: lsp-calib models pull minilm-l6-v2"
)


def install(home: Path) -> None:
    """Put the encoder into a test's state folder."""
    (home / "models").mkdir(mode=0o700, exist_ok=True)
    for file in FILES:
        (home / "models" / file.name).symlink_to(file)
