"""Reports which known data sets are in a folder, for people and programs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from lsp_calib.evaluation.datasets.catalogue import DATA_SETS, DataSet
from lsp_calib.evaluation.datasets.folder import sha256_of
from lsp_calib.evaluation.datasets.pinned import SETS, ProjectSet


def status_of_all(folder: Path | None) -> list[dict[str, Any]]:
    """One JSON object for each data set. folder: the data folder, None if there is none.

    checksumOk is null if the file is missing or cannot be read.
    """
    return [
        *(_status(entry, folder) for entry in DATA_SETS.values()),
        *(_projects(which, folder) for which in SETS.values()),
    ]


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


def _projects(which: ProjectSet, folder: Path | None) -> dict[str, Any]:
    place = folder / which.name if folder else None
    here = sum((place / project.folder).is_dir() for project in which.projects) if place else 0
    whole = here == len(which.projects)
    return {
        "name": which.name,
        "what": f"{which.what} ({here} of {len(which.projects)} here)",
        "records": len(which.projects),
        "licence": "each project: its own",
        "origin": which.origin,
        "sha256": None,
        "path": str(place) if place else None,
        "present": whole,
        # The checksum of each archive was verified on download; the sources are not checked again.
        "checksumOk": True if whole else None,
        "pullable": True,
    }
