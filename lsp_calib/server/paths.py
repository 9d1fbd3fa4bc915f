"""Paths of files and folders on this machine, by what clients call them. Pure."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import quote

from pygls import uris


def path_of(uri: str) -> Path | None:
    """The path of a document, None if its URI is that of something else.

    >>> path_of("file:///a/C%23/b.py").as_posix(), path_of("untitled:1")
    ('/a/C#/b.py', None)
    """
    path = uris.to_fs_path(uri) if uri.startswith("file:") else None
    return Path(path) if path else None


def path_of_folder(address: str) -> Path | None:
    """The path of a workspace folder by its address, in which nothing is escaped (`feedback.workspace`).

    >>> path_of_folder("file:///a/C#").as_posix(), path_of_folder("file:///a/100%25").as_posix()
    ('/a/C#', '/a/100%25')
    """
    return path_of(quote(address, safe="/:"))
