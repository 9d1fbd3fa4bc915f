"""Workspace folders by their addresses, and the source files in them that a model may see.

Never read: links, pipes, large and generated files, what git ignores, and folders of code that the workspace
does not own. Excluded files are the caller's to leave out: only it knows the settings.
"""

from __future__ import annotations

import functools
import itertools
import os
import re
import stat
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path, PurePath
from urllib.parse import unquote

from lsp_calib.characters import split_lines
from lsp_calib.exclusion import Exclusion, is_pattern
from lsp_calib.files import names_of, read_file

# Files and folders that are looked at, of one workspace.
_MOST_NAMES = 20_000
# In bytes. A larger file is data, and ignores of such a length are no person's.
MOST_BYTES = 300_000
# Code that a workspace does not own, and what builds leave.
_FOREIGN = frozenset(
    {
        *("venv", "env", "node_modules", "bower_components", "site-packages", "vendor", "third_party"),
        *("third-party", "thirdparty", "3rdparty", "external", "deps"),
        *("__pycache__", "build", "dist", "target", "out"),
    }
)
_GENERATED = re.compile(r"do not (?:edit|modify)|@generated|(?:auto-?|machine )?generated (?:by|from)", re.I)
_BEGINNING = 2_000  # characters in which a file says that it was generated
_DENSE = 100  # characters of an average line from which on a file is taken for minified

_Ignores = tuple[tuple[Path, Exclusion], ...]
"""Patterns as in `.gitignore`, each with the folder below which they count."""

_SECRETS = Exclusion()

Stamp = tuple[int, int]
"""Size in bytes and time of the last change in nanoseconds."""


def walk(
    root: Path,
    nearest: Path,
    wanted: Callable[[PurePath], bool],
    *,
    seconds: float,
    most_names: int = _MOST_NAMES,
) -> Iterator[Path]:
    """The wanted files below `root`: those in the folder `nearest` first, then folder by folder from the top.

    nearest: folder listed first; ignored if it lies outside the root or is left out.
    seconds: after which it ends, the caller's time included. most_names: files and folders looked at.
    """
    if not _is_looked_into(nearest, root):
        nearest = root
    end, left = time.monotonic() + seconds, most_names
    top = _top(root)
    ignored = _ignored_above(nearest, top)
    waiting = [nearest, root] if nearest != root else [root]
    seen: set[Path] = set()
    for folder in waiting:  # grows meanwhile
        if folder in seen:
            continue
        seen.add(folder)
        ignores = ignored.get(folder)
        if ignores is None:
            ignores = ignored[folder] = _ignored(folder, ignored.get(folder.parent, ()))
        try:
            with os.scandir(folder) as found:
                entries = sorted(itertools.islice(found, left + 1), key=lambda one: one.name)
        except OSError:
            continue
        for one in entries:
            entry = folder / one.name
            left -= 1
            if left < 0 or time.monotonic() > end:
                return
            if entry.name.startswith(".") or _is_ignored(entry, ignores):
                continue
            if wanted(entry):
                yield entry
            elif entry.name not in _FOREIGN and _is_folder(one):
                waiting.append(entry)


def _is_folder(entry: os.DirEntry[str]) -> bool:
    """Whether it is one, and no link; False where nobody can tell, as on a disk that is gone."""
    try:
        return entry.is_dir(follow_symlinks=False)
    except OSError:
        return False


def _is_looked_into(folder: Path, root: Path) -> bool:
    """Whether a folder is part of the workspace: a document may be open in one that is not."""
    if folder == root:
        return True
    if not folder.is_relative_to(root) or is_left_out(folder / "_", root):
        return False
    try:
        return folder.resolve() == root.resolve() / folder.relative_to(root)
    except (OSError, RuntimeError):  # a loop of links
        return False


def is_left_out(path: Path, root: Path) -> bool:
    """Whether `walk` leaves a file below `root` out, whatever it holds: git ignores it, or it lies in a
    hidden folder or in one that the workspace does not own."""
    inside = path.relative_to(root)
    if any(name.startswith(".") for name in inside.parts) or _FOREIGN.intersection(inside.parts[:-1]):
        return True
    top = _top(root)
    ignored = _ignored_above(path.parent, top)
    within = (path, *path.parents[: len(inside.parts) - 1])
    return any(_is_ignored(one, ignored[one.parent]) for one in within)


def exclusion_below(root: Path, exclusion: Exclusion) -> Callable[[str], bool]:
    """Tells by the path of a file below a folder whether it is excluded: the folder may be a link, or lie
    behind one. No other link is followed."""
    roots = names_of(root)
    return lambda name: bool(exclusion.reason(*(f"{one}/{name}" for one in roots)))


def stamp_of(path: Path) -> Stamp | None:
    """What changes with a file; None if there is none, or none that is read."""
    try:
        status = path.lstat()
    except (OSError, ValueError):
        return None
    if not stat.S_ISREG(status.st_mode) or status.st_size > MOST_BYTES:
        return None
    return status.st_size, status.st_mtime_ns


def lines_of(path: Path) -> tuple[str, ...]:
    """The lines of a file, without their ends; none if it cannot be read."""
    try:
        return split_lines(read_file(path, MOST_BYTES, links=False).decode("utf-8-sig"))
    except (OSError, ValueError):
        return ()


def is_made_by_a_program(name: str, lines: Sequence[str]) -> bool:
    """Whether a file says that it was generated, or is minified."""
    filled = [len(line) for line in lines if line.strip()]
    dense = bool(filled) and sum(filled) > _DENSE * len(filled)
    beginning = "\n".join(lines[:40])[:_BEGINNING]
    return ".min." in name or dense or _GENERATED.search(beginning) is not None


def _top(root: Path) -> Path:
    """The folder of the repository that a workspace is in: what is ignored there is ignored below."""
    return next((folder for folder in (root, *root.parents) if os.path.lexists(folder / ".git")), root)


def _ignored_above(folder: Path, top: Path) -> dict[Path, _Ignores]:
    """What is ignored in each folder from `top` down to `folder`."""
    ignores = _with_patterns(top / ".git" / "info" / "exclude", top, ())
    found = {}
    for one in reversed((folder, *folder.parents[: len(folder.relative_to(top).parts)])):
        found[one] = ignores = _ignored(one, ignores)
    return found


def _ignored(folder: Path, above: _Ignores) -> _Ignores:
    """What the folder's `.gitignore` ignores, after that of the folders above."""
    return _with_patterns(folder / ".gitignore", folder, above)


def _with_patterns(path: Path, folder: Path, above: _Ignores) -> _Ignores:
    """The patterns in a file, which count below `folder`, after others.

    Patterns that take others back are left out: a piece that is missing does no harm.
    """
    try:
        # Names are bytes to git. Some editors write a mark at the beginning, which git reads over.
        data = read_file(path, MOST_BYTES, links=False)
        lines = data.decode("utf-8-sig", "surrogateescape").splitlines()
    except (OSError, ValueError):
        return above
    found = (line.strip() for line in lines)
    patterns = tuple(one for one in found if one and not one.startswith("#") and is_pattern(one))
    return (*above, (folder, Exclusion(patterns))) if patterns else above


def _is_ignored(path: Path, ignores: _Ignores) -> bool:
    """Whether patterns match a file or folder, or its name is one of secrets."""
    return bool(_SECRETS.reason(path.name)) or any(
        exclusion.reason(path.relative_to(folder).as_posix()) for folder, exclusion in ignores
    )


# A drive of Windows: clients write its letter in either case, and `:` as it is or escaped.
_DRIVE = re.compile("file:///[A-Z]:(?=/|$)", re.IGNORECASE)


def address(uri: str) -> str:
    """An address in one form: clients escape the same one in several ways.

    >>> address("file:///a%20b/"), address("file:///C%3A/Work")
    ('file:///a b', 'file:///c:/Work')
    """
    return _DRIVE.sub(lambda drive: drive[0].lower(), unquote(uri).rstrip("/"), count=1)


def _compared(address: str) -> str:
    """What decides whether two addresses name one place: on a drive, names are the same in either case."""
    return address.casefold() if _DRIVE.match(address) else address


# The cells of a notebook lie where its file does; their own part of the address is behind a "#".
_CELL = re.compile("vscode-notebook-cell:(//)?")


@functools.lru_cache(maxsize=512)  # asked for every suggestion
def folder_of(uri: str, folders: tuple[str, ...]) -> str:
    """The address of the innermost of some folders that a document lies in; empty if it is in none.

    >>> folder_of("file:///a/b/c.py", ("file:///a", "file:///a/b/", "file:///a/b/c"))
    'file:///a/b'
    >>> folder_of("file:///c%3A/w/a.py", ("file:///C:/W", "file:///D:/w"))
    'file:///c:/W'
    >>> folder_of("vscode-notebook-cell:/a/b/c.ipynb#W0s", ("file:///a",))
    'file:///a'
    """
    document = _compared(
        address(_CELL.sub("file://", uri, count=1) if uri.startswith("vscode-notebook") else uri)
    )
    found = (
        folder for folder in map(address, folders) if folder and document.startswith(f"{_compared(folder)}/")
    )
    return max(found, key=len, default="")
