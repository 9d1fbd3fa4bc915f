"""Commits from the newest on, and what each changed in the files that are looked at."""

from __future__ import annotations

import heapq
import re
from collections.abc import Callable, Iterator, Mapping

import attrs

from lsp_calib.evaluation.git_history.objects import ObjectReader
from lsp_calib.evaluation.git_history.repository import printable

_MOST_OF_A_COMMIT = 1_000_000  # bytes, most of them its message
_MOST_OF_A_TREE = 5_000_000
_MOST_ENTRIES = (
    200_000  # of all folders that a commit changes: few folders within each other can seem to be many
)
_MOST_PARENTS = 16
_MOST_OF_A_FILE = 500_000
_DEEPEST = 64
_FILE, _FOLDER = (b"100644", b"100755", b"100664"), b"40000"
_PERSON = re.compile(rb"(?P<name>.*?) ?<(?P<address>[^<>\n]*)> (?P<at>-?[0-9]{1,15}) [+-][0-9]{4}")
_ID = re.compile(rb"[0-9a-f]{40}(?:[0-9a-f]{24})?")


@attrs.frozen
class Commit:
    """author, address: the author's name and e-mail address. at: when it was committed, Unix seconds."""

    id: str
    tree: str
    parents: tuple[str, ...]
    author: str
    address: str
    at: int


@attrs.frozen
class Change:
    """A file before and after a commit: ids of its contents, None where it is not there."""

    path: str
    before: str | None
    after: str | None


class UnusableCommitError(Exception):
    """A commit changes more files than a person does in one go, or a folder of it is missing."""


def newest_first(reader: ObjectReader, head: str, most: int) -> Iterator[Commit]:
    """At most `most` commits that `head` builds on, by the time they were committed, the newest first.

    Commits that cannot be read, as beyond the end of a shallow clone, end their branch.
    """
    waiting: list[tuple[int, int, Commit]] = []
    seen: set[str] = set()

    def meet(id_: str) -> None:
        if id_ not in seen:
            seen.add(id_)
            if (commit := read_commit(reader, id_)) is not None:
                heapq.heappush(waiting, (-commit.at, len(seen), commit))

    meet(head)
    for _ in range(most):
        if not waiting:
            return
        *_, commit = heapq.heappop(waiting)
        yield commit
        for parent in commit.parents:
            meet(parent)


def read_commit(reader: ObjectReader, id_: str) -> Commit | None:
    """A commit; None if it is missing or not written as git does."""
    content = reader.read(id_, "commit", _MOST_OF_A_COMMIT)
    fields: dict[bytes, list[bytes]] = {}
    for line in (content or b"").partition(b"\n\n")[0].split(b"\n"):
        name, _, value = line.partition(b" ")
        fields.setdefault(name, []).append(value)
    author = _PERSON.fullmatch(fields.get(b"author", [b""])[0])
    committer = _PERSON.fullmatch(fields.get(b"committer", [b""])[0])
    ids = [*fields.get(b"tree", [])[:1], *fields.get(b"parent", [])[:_MOST_PARENTS]]
    if author is None or committer is None or not ids or not all(map(_ID.fullmatch, ids)):
        return None
    tree, *parents = (one.decode() for one in ids)
    return Commit(
        id_,
        tree,
        tuple(parents),
        printable(author["name"]),
        printable(author["address"]),
        int(committer["at"]),
    )


def changes(
    reader: ObjectReader,
    before: str | None,
    after: str,
    wanted: Callable[[str], bool],
    enters: Callable[[str], bool],
    most: int,
) -> list[Change]:
    """The wanted files that differ between two trees, by path.

    before: None: there was nothing. wanted: whether a file is looked at, by its path from the root of the
    repository, with slashes. enters: whether a folder is, likewise. Links, submodules and names that are not
    UTF-8 or hold control characters are left out.
    Raises UnusableCommitError if there are more than `most`, or if a folder is missing: it would look empty.
    """
    found: list[Change] = []
    entries = 0

    def walk(old: str | None, new: str | None, above: str, depth: int) -> None:
        nonlocal entries
        one, other = _entries(reader, old), _entries(reader, new)
        entries += len(one) + len(other) + 1
        if entries > _MOST_ENTRIES:
            raise UnusableCommitError
        for name in sorted(one.keys() | other.keys()):
            left, right = one.get(name), other.get(name)
            if left == right or (path := _path(above, name)) is None:
                continue
            folders = _only(left, (_FOLDER,)), _only(right, (_FOLDER,))
            if any(folders) and depth < _DEEPEST and enters(path):
                walk(*folders, path, depth + 1)
            files = _only(left, _FILE), _only(right, _FILE)
            if any(files) and files[0] != files[1] and wanted(path):
                found.append(Change(path, *files))
                if len(found) > most:
                    raise UnusableCommitError

    walk(before, after, "", 0)
    return found


def read_text(reader: ObjectReader, id_: str | None) -> str | None:
    """The text of a file; "" for none, None if it is binary, not UTF-8, huge or missing."""
    content = b"" if id_ is None else reader.read(id_, "blob", _MOST_OF_A_FILE)
    if content is None or b"\0" in content:
        return None
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        return None


def _entries(reader: ObjectReader, tree: str | None) -> Mapping[bytes, tuple[bytes, str]]:
    """(mode, id) by name. None is an empty tree. Raises UnusableCommitError for one that is missing."""
    if tree is None:
        return {}
    content = reader.read(tree, "tree", _MOST_OF_A_TREE)
    if content is None:
        raise UnusableCommitError
    length = len(tree) // 2
    entries: dict[bytes, tuple[bytes, str]] = {}
    at = 0
    while at < len(content):
        end = content.find(b"\0", at)
        if end < 0 or end + 1 + length > len(content):
            break
        mode, _, name = content[at:end].partition(b" ")
        entries[name] = mode, content[end + 1 : end + 1 + length].hex()
        at = end + 1 + length
    return entries


def _only(entry: tuple[bytes, str] | None, modes: tuple[bytes, ...]) -> str | None:
    return entry[1] if entry is not None and entry[0] in modes else None


def _path(above: str, name: bytes) -> str | None:
    """The path of an entry; None for a name that no source file has."""
    try:
        text = name.decode("utf-8")
    except UnicodeDecodeError:
        return None
    if not text.isprintable() or "/" in text or text in ("", ".", ".."):
        return None
    return f"{above}/{text}" if above else text
