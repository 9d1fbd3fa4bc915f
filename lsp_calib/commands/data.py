"""`lsp-calib data`: the known data sets, and getting one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from lsp_calib.commands.printing import download_progress
from lsp_calib.errors import SettingsError
from lsp_calib.evaluation.datasets import folder, pinned, pull


def table(rows: list[dict[str, Any]]) -> Iterator[str]:
    """Two lines for each data set: `pull.status_of_all`, for people."""
    for row in rows:
        yield f"{row['name']:20} {row['records']:6}  {row['licence']:27} {_state(row)}"
        yield f"{'':20} {row['what']}"


def pull_data(name: str, data_dir: Path) -> str:
    """Get a data set, or a set of pinned projects, with a progress bar. Returns a sentence: where it is.

    Raises SettingsError for an unknown name or a folder that cannot be written, DataError for a set that is
    published nowhere, DownloadError if it cannot be obtained.
    """
    try:
        return _pulled(name, data_dir)
    except OSError as error:
        raise SettingsError(
            f"{error.filename or data_dir} cannot be used: {error.strerror or error}. Give a folder that "
            "you can write in, with --data-dir or as LSP_CALIB_DATA."
        ) from error


def _pulled(name: str, data_dir: Path) -> str:
    if name in pinned.SETS:
        with download_progress("Projects", files=True) as progress:
            folders = pinned.pull_projects(pinned.SETS[name], data_dir, progress)
        return f"{len(folders)} projects are in {data_dir / name}; their checksums are right."
    entry = folder.data_set(name)
    with download_progress(entry.name) as progress:
        path = pull.pull(entry, data_dir, progress)
    return f"{name} is at {path}; its checksum is right."


def _state(row: dict[str, Any]) -> str:
    if not row["present"]:
        return "can be pulled" if row["pullable"] else "-"
    return "here" if row["checksumOk"] else "here, but with the WRONG CHECKSUM"
