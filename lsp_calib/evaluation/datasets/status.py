"""Reports which known data sets are in a folder, for people and programs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from lsp_calib.evaluation.datasets.catalogue import DATA_SETS, DataSet
from lsp_calib.evaluation.datasets.folder import sha256_of
from lsp_calib.evaluation.datasets.pinned import FOLDER, PROJECTS


def status_of_all(folder: Path | None) -> list[dict[str, Any]]:
    """One JSON object for each data set. folder: the data folder, None if there is none.

    checksumOk is null if the file is missing or cannot be read.
    """
    return [*(_status(entry, folder) for entry in DATA_SETS.values()), _projects(folder)]


def _status(entry: DataSet, folder: Path | None) -> dict[str, Any]:
    path = folder / entry.file if folder else None
    present = path is not None and path.is_file()
    matches: bool | None = None
    if path is not None and present:
        try:
            matches = sha256_of(path) == entry.sha256
        except OSError:
            matches = None
    return {
        "name": entry.name,
        "what": entry.what,
        "records": entry.records,
        "licence": entry.licence,
        "origin": entry.origin,
        "sha256": entry.sha256,
        "path": str(path) if path else None,
        "present": present,
        "checksumOk": matches,
        "pullable": bool(entry.url or entry.wheel[0]),
    }


def _projects(folder: Path | None) -> dict[str, Any]:
    place = folder / FOLDER if folder else None
    here = sum((place / project.folder).is_dir() for project in PROJECTS) if place else 0
    return {
        "name": FOLDER,
        "what": f"sources of well-known Python projects at pinned versions ({here} of {len(PROJECTS)} here)",
        "records": len(PROJECTS),
        "licence": "each project: its own",
        "origin": "https://pypi.org",
        "sha256": None,
        "path": str(place) if place else None,
        "present": here == len(PROJECTS),
        # The checksum of each wheel was verified on download; the sources are not checked again.
        "checksumOk": True if here == len(PROJECTS) else None,
        "pullable": True,
    }
