"""The page as a file that only its owner can read."""

from __future__ import annotations

import os
from pathlib import Path

from lsp_calib.errors import DataError, SettingsError
from lsp_calib.feedback.report import FeedbackReport
from lsp_calib.files import open_file, write_atomically
from lsp_calib.report.page import html_page, is_report
from lsp_calib.report.theme import ThemeName

# More than the beginning by which a page is recognised.
_BEGINNING = 1000


def write_page(report: FeedbackReport, path: Path, theme: ThemeName = "auto") -> None:
    """Write the page, in one step; a reader sees the old one or the new one. An earlier report is replaced.

    Raises SettingsError if there is anything else under this name, DataError if it cannot be written.
    """
    try:
        if path.is_symlink() or path.exists():
            _check_is_report(path)
        write_atomically(path, html_page(report, theme).encode("utf-8"), 0o600, durable=False)
    except OSError as error:
        raise DataError(f"{path} cannot be written: {error.strerror}. Give another place.") from error


def _check_is_report(path: Path) -> None:
    if path.is_file() and not path.is_symlink():
        with os.fdopen(open_file(path, links=False), "rb") as file:
            if is_report(file.read(_BEGINNING)):
                return
    raise SettingsError(f"{path} exists and is no report. Give another name, or remove it.")
