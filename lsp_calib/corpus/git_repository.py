"""Finds the objects and the commit of a checkout, from its files alone: no program of git is run.

Every file and folder on the way must belong to the user, and none may be a link: whoever writes there decides
what is read. A checkout is not trusted to name another repository, which may be one of the user's that nobody
is to see: its objects are in its own `.git`, or in a folder that names the checkout in return.
"""

from __future__ import annotations

import os
import re
import shlex
import stat
from pathlib import Path

import attrs

from lsp_calib.errors import DataError

_OBJECT_ID = re.compile(rb"[0-9a-f]{40}(?:[0-9a-f]{24})?")
# What git itself refuses in the name of a reference (git-check-ref-format), and links out of the folder.
_WRONG_IN_NAME = re.compile(rb"[\x00-\x20\x7f~^:?*\[\\]|\.\.|//|/\.|\.lock(?:/|$)|[/.]$|@\{")
_WORKTREE = re.compile(rb'\s*worktree\s*=\s*"?(?P<path>.*?)"?\s*', re.I)
_SMALL = 4096  # bytes of a file that holds one path, name or id
_MOST_REFERENCES = 64_000_000
_MOST_ALTERNATES = 64_000
_MOST_CONFIGURATION = 1_000_000
_DEPTH = 5  # of references to references, as in git


@attrs.frozen
class Repository:
    """root: the folder of the checkout. objects: the folder of its objects. head: the hexadecimal id of the
    commit that is checked out; 40 digits (SHA-1) or 64 (SHA-256)."""

    root: Path
    objects: Path
    head: str


def find_repository(path: Path) -> Repository:
    """The repository that a folder is a checkout of, or is in.

    Raises DataError if there is none, if it has no commit, if something on the way belongs to another user,
    is a link, leads to another repository or is not what it must be, or on a system without owners of files.
    """
    if not hasattr(os, "geteuid"):
        raise DataError("On this system the owner of a repository cannot be checked: leave --from-git out.")
    start = path.resolve()
    root = next((one for one in (start, *start.parents) if os.path.lexists(one / ".git")), None)
    if root is None:
        raise DataError(f"{path} is in no checkout of git (there is no .git): leave --from-git out.")
    try:
        git, common = _folders(root)
        objects = _folder(common / "objects")
        _check_links(objects)
        _check_alternates(root, objects)
        return Repository(root, objects, _resolved(b"HEAD", git, common))
    except OSError as error:
        raise DataError(f"{error.filename or root} cannot be read: {error.strerror or error}.") from error


def _folders(root: Path) -> tuple[Path, Path]:
    """The folder of the checkout's own state, and the one that it shares with other checkouts."""
    _check_owner(root)
    dot = root / ".git"
    if dot.is_dir() and not dot.is_symlink():
        git = _folder(dot)
        if _line_of(git / "commondir") is not None:
            raise DataError(
                f"{git}/commondir names another repository, whose lines would be shown to the model: none is "
                "taken. A main checkout has no such file. Remove it, or clone the repository again."
            )
        return git, git
    named = _line_of(dot)
    if named is None or not named.startswith(b"gitdir: "):
        raise DataError(f"{dot} is not a repository of git, and names none.")
    git = _folder((root / os.fsdecode(named.removeprefix(b"gitdir: "))).resolve())
    shared = _line_of(git / "commondir")
    if shared is None:
        # A submodule.
        if _worktree_in_configuration(git) != root:
            file = shlex.quote(_shown(git / "config"))
            repair = f"`git config --file {file} core.worktree {shlex.quote(str(root))}`"
            raise _not_known(dot, git, repair)
        return git, git
    # A worktree beside the main one. Only a folder within the repository tells that the repository knows it.
    common = _folder((git / os.fsdecode(shared)).resolve())
    back = _line_of(git / "gitdir")
    if back is None or (git / os.fsdecode(back)).resolve() != dot or git.parent != common / "worktrees":
        raise _not_known(dot, git, "`git worktree repair`, in the main checkout")
    return git, common


def _not_known(dot: Path, git: Path, repair: str) -> DataError:
    return DataError(
        f"{dot} says that its repository is {_shown(git)}, which does not know it. It may be another "
        "repository of yours, whose lines would be shown to the model: none is taken. If it is the right "
        f"one, as after you have moved a folder, connect them: {repair}."
    )


def _worktree_in_configuration(git: Path) -> Path | None:
    """The folder that the configuration of a repository names as its checkout; None if it names none.

    Whoever writes that file has the objects beside it already. Files that it includes are not read.
    """
    found = None
    for name in ("config", "config.worktree"):
        within = False
        for line in (_content(git / name, _MOST_CONFIGURATION) or b"").split(b"\n"):
            if line.lstrip().startswith(b"["):
                within = line.strip().lower() == b"[core]"
            elif within and (value := _WORKTREE.fullmatch(line)):
                found = re.sub(rb"\\(.)", rb"\1", value["path"])
    return None if found is None else (git / os.fsdecode(found)).resolve()


def _resolved(name: bytes, git: Path, common: Path, depth: int = 0) -> str:
    """The id of the commit that a reference leads to."""
    content = _line_of(git / "HEAD") if name == b"HEAD" else _reference(name, common)
    if content is None:
        if (common / "reftable").is_dir():
            raise DataError(f"{common} keeps its references in a format (reftable) that is not read yet.")
        raise DataError(f"{git} has no commit yet, or its branch ({printable(name)}) is missing.")
    if _OBJECT_ID.fullmatch(content):
        return content.decode()
    target = content.removeprefix(b"ref:").strip()
    # Only refs/: another name could be that of any file.
    known = content.startswith(b"ref:") and target.startswith(b"refs/") and not _WRONG_IN_NAME.search(target)
    if not known or depth == _DEPTH:
        raise DataError(f"{printable(name)} in {git} is neither a commit nor the name of a branch.")
    return _resolved(target, git, common, depth + 1)


def _reference(name: bytes, common: Path) -> bytes | None:
    """The content of a reference: in a file of its own, or in the list of all."""
    place = common
    for part in os.fsdecode(name).split("/"):
        place = place / part
        if place.is_symlink():
            raise DataError(f"{place} is a link. Links are not followed in a repository.")
    found = None if place.is_dir() else _line_of(place)
    if found is not None:
        return found
    for line in (_content(common / "packed-refs", _MOST_REFERENCES) or b"").split(b"\n"):
        id_, _, named = line.strip().partition(b" ")
        if named == name:
            return id_
    return None


def _check_links(objects: Path) -> None:
    """Links at any level would lead to the objects of another repository."""
    waiting = [objects]
    for folder in waiting:  # grows meanwhile
        with os.scandir(folder) as entries:
            waiting += [_folder(Path(one)) for one in entries if one.is_symlink() or one.is_dir()]


def _check_alternates(root: Path, objects: Path) -> None:
    """Git also reads objects from the folders that this file names, which do not name the checkout."""
    content = _content(objects / "info" / "alternates", _MOST_ALTERNATES) or b""
    for line in content.split(b"\n"):
        if line and not line.startswith(b"#"):
            raise DataError(
                f"The repository of {root} borrows objects from {printable(line)}. These may be of another "
                "repository of yours, whose lines would be shown to the model: none is taken. If they belong "
                f"here, copy them: run `git repack -a -d` in {root}, and remove {objects}/info/alternates."
            )


def _folder(path: Path) -> Path:
    """The folder, which must be one, and the user's. Raises DataError."""
    if path.is_symlink():
        raise DataError(f"{_shown(path)} is a link. Name the repository that it leads to.")
    if not path.is_dir():
        raise DataError(f"{_shown(path)} is no folder: the repository is damaged, or has been moved.")
    _check_owner(path)
    return path


def _check_owner(path: Path) -> None:
    if os.lstat(path).st_uid != os.geteuid():
        raise DataError(
            f"{_shown(path)} belongs to another user, whose configuration could run commands. No line "
            "is taken from it. Clone the repository into a folder of your own, and name that."
        )


def _line_of(path: Path) -> bytes | None:
    """The one line of a small file; None if there is no file."""
    content = _content(path, _SMALL)
    if content is None:
        return None
    line = content.rstrip(b"\r\n")
    if not line or b"\n" in line or b"\0" in line:
        raise DataError(f"{path} is damaged: it must hold one line.")
    return line


def _content(path: Path, most: int) -> bytes | None:
    """What a file of the user holds; None if there is none.

    Raises DataError for anything but a plain file, and for one larger than `most` bytes.
    """
    if path.is_symlink():
        raise DataError(f"{path} is a link. Links are not followed in a repository.")
    try:
        # A pipe would be waited for without end.
        file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        return None
    with os.fdopen(file, "rb") as opened:
        if not stat.S_ISREG(os.fstat(file).st_mode):
            raise DataError(f"{path} is not a file.")
        _check_owner(path)
        content = opened.read(most + 1)
    if len(content) > most:
        raise DataError(f"{path} is larger than {most} bytes: the repository is damaged.")
    return content


def _shown(path: Path) -> str:
    """As `printable`: parts of a path may be the checkout's choice."""
    return printable(os.fsencode(path))


def printable(text: bytes) -> str:
    """As a text without control characters, which could direct a terminal."""
    return "".join(c if c.isprintable() else "?" for c in text.decode("utf-8", "replace"))
