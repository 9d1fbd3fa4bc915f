"""The workspace folder of a document, by their addresses. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable
from urllib.parse import unquote


def address(uri: str) -> str:
    """An address in one form: clients escape the same one in several ways.

    >>> address("file:///a%20b/")
    'file:///a b'
    """
    return unquote(uri).rstrip("/")


# The cells of a notebook lie where its file does; their own part of the address is behind a "#".
_CELL = re.compile("vscode-notebook-cell:(//)?")


def folder_of(uri: str, folders: Iterable[str]) -> str:
    """The address of the innermost of some folders that a document lies in; empty if it is in none.

    >>> folder_of("file:///a/b/c.py", ["file:///a", "file:///a/b/", "file:///a/b/c"])
    'file:///a/b'
    >>> folder_of("vscode-notebook-cell:/a/b/c.ipynb#W0s", ["file:///a"])
    'file:///a'
    """
    document = address(_CELL.sub("file://", uri, count=1) if uri.startswith("vscode-notebook") else uri)
    found = (folder for folder in map(address, folders) if folder and document.startswith(f"{folder}/"))
    return max(found, key=len, default="")
