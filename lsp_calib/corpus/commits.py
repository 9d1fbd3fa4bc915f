"""Lines that a user added in recent commits, as places to complete: as if the cursor had been in them.

Commits are read from the newest on, with what each changed in the files that are looked at.
"""

from __future__ import annotations

import difflib
import heapq
import random
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath

import attrs

from lsp_calib.badges import counted
from lsp_calib.characters import normalised_line, split_lines
from lsp_calib.completion.context import Cursor
from lsp_calib.corpus.git_objects import ObjectReader, object_reader
from lsp_calib.corpus.git_repository import find_repository, printable
from lsp_calib.corpus.lines import GIT, INSERTING, WRITING_ON, LineItem, distinct, is_source, plain
from lsp_calib.corpus.places import FEWEST_GROUPS, drawn_place, grouped, is_asked_for
from lsp_calib.corpus.tasks import (
    FEWEST,
    Task,
    language_below,
    project_names,
)
from lsp_calib.errors import DataError
from lsp_calib.syntax import prose_lines
from lsp_calib.workspace_files import is_made_by_a_program

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


_MOST_FILES = 200
# The longest rewritten parts (lines before times lines after) that are compared: difflib is slow.
_MOST_COMPARED = 2_000_000


@attrs.frozen
class Version:
    """A file as a commit left it.

    path: below the folder that is looked at, with slashes. added: the numbers of the lines that the commit
    added, from 0. asked: those of them that a completion may be asked for.
    """

    commit: str
    path: str
    lines: tuple[str, ...]
    added: frozenset[int]
    asked: frozenset[int] = frozenset()


@attrs.frozen
class AddedLines:
    """Finds the lines that a commit added, in each source file that it changed.

    below: the folder whose files are looked at, from the root of the repository. excluded: why no model may
    see a file, by its path from there; "" for one that may be seen. left_out: counts
    what is left out, in words.
    """

    reader: ObjectReader
    below: PurePosixPath
    language: str
    excluded: Callable[[str], str]
    left_out: Counter[str]

    def of(self, commit: Commit) -> list[Version]:
        """The files with lines that the commit added, by path; none for a merge.

        Moved, indented and renamed lines do not count as added. Generated, excluded and binary files are not
        looked at, nor commits of more files than a person changes in one go.
        """
        if len(commit.parents) > 1:
            return []
        before = None
        if commit.parents:
            parent = read_commit(self.reader, commit.parents[0])
            if parent is None:
                self.left_out["commits whose parent is missing"] += 1
                return []
            before = parent.tree
        try:
            found = changes(self.reader, before, commit.tree, self._is_wanted, self._enters, _MOST_FILES)
        except UnusableCommitError:
            self.left_out["commits of too many files, or that are not complete"] += 1
            return []
        versions: list[Version] = []
        removed: set[str] = set()
        for change in found:
            version, gone = self._compared(commit, change)
            removed.update(gone)
            versions += [version] if version is not None else []
        return [asked for version in versions if (asked := self._asked(version, removed)).asked]

    def _is_wanted(self, path: str) -> bool:
        inside = self._inside(path)
        if inside is None or not is_source(inside, self.language):
            return False
        if self.excluded(path):
            self.left_out["changes of excluded files"] += 1
            return False
        return True

    def _enters(self, path: str) -> bool:
        folder = PurePosixPath(path)
        return self._inside(path) is not None or self.below.is_relative_to(folder)

    def _inside(self, path: str) -> PurePosixPath | None:
        """The path below the folder that is looked at; None for one that is not below it."""
        whole = PurePosixPath(path)
        return whole.relative_to(self.below) if whole.is_relative_to(self.below) else None

    def _compared(self, commit: Commit, change: Change) -> tuple[Version | None, list[str]]:
        """The new version of a file, and the lines that are gone, as they are compared."""
        old, new = read_text(self.reader, change.before), read_text(self.reader, change.after)
        if old is None or new is None:
            self.left_out["changes of large, binary or missing files"] += 1
            return None, []
        before, after = split_lines(old) if old else (), split_lines(new)
        difference = _difference(before, after)
        if difference is None:
            self.left_out["changes of files that were rewritten"] += 1
            return None, []
        added, gone = difference
        removed = [normalised_line(before[at]) for at in gone]
        name = PurePosixPath(change.path).name
        if change.after is None:
            return None, removed
        if is_made_by_a_program(name, after):
            self.left_out["changes of generated files"] += 1
            return None, removed
        inside = self._inside(change.path)
        return Version(commit.id, str(inside), after, frozenset(added)), removed

    def _asked(self, version: Version, removed: set[str]) -> Version:
        added = {at for at in version.added if is_asked_for(version.lines[at])}
        new = {at for at in added if normalised_line(version.lines[at]) not in removed}
        if len(new) < len(added):
            self.left_out["moved lines"] += len(added) - len(new)
        prose = prose_lines(version.lines, self.language) if new else set()
        return attrs.evolve(version, asked=frozenset(new - prose))


def _difference(before: tuple[str, ...], after: tuple[str, ...]) -> tuple[list[int], list[int]] | None:
    """The numbers of the lines of `after` that are new, and of those of `before` that are gone.

    None if so much is rewritten that comparing would take long.
    """
    most = min(len(before), len(after))
    top = next((at for at in range(most) if before[at] != after[at]), most)
    end = next((at for at in range(most - top) if before[-1 - at] != after[-1 - at]), most - top)
    old, new = before[top : len(before) - end], after[top : len(after) - end]
    if len(old) * len(new) > _MOST_COMPARED:
        return None
    added: list[int] = []
    gone: list[int] = []
    for kind, one, one_end, two, two_end in difflib.SequenceMatcher(None, old, new).get_opcodes():
        if kind != "equal":
            gone += range(top + one, top + one_end)
            added += range(top + two, top + two_end)
    return added, gone


# Of one commit at most so many lines, unless there are too few others: 400 lines are to be of many days.
_OF_A_COMMIT = 40

_Place = tuple[Version, int]  # a file, and the number of a line in it


@attrs.frozen
class Wish:
    """Whose lines, and which.

    authors: e-mail addresses, or names, of whom the lines are; upper and lower case are the same. commits:
    so many commits are looked at, the newest. excluded: why no model may see a file, by its path; "" for one
    that may be seen. labelled: those of some lines that have labels of their own.
    """

    authors: tuple[str, ...]
    commits: int
    excluded: Callable[[str], str]
    labelled: Callable[[Collection[str]], Collection[str]]

    def is_by(self, commit: Commit) -> bool:
        known = {commit.address.casefold(), commit.author.casefold()}
        return any(author.casefold() in known for author in self.authors)


@attrs.define
class Taken:
    """The lines, and what was found on the way.

    commits: those with lines among `items`. seen: commits looked at, by the address of the author. left_out:
    how many, by what, in words.
    """

    items: list[LineItem] = attrs.field(factory=list)
    commits: int = 0
    seen: Counter[str] = attrs.field(factory=Counter)
    left_out: Counter[str] = attrs.field(factory=Counter)

    def sentence(self, path: Path) -> str:
        """What was taken and left out, for the user."""
        on = sum(item.condition == WRITING_ON for item in self.items)
        taken = f"{path}: {counted(len(self.items), 'line')} of {counted(self.commits, 'commit')}"
        taken += f", {on} with nothing below."
        words = ", ".join(f"{n} {what}" for what, n in sorted(self.left_out.items()))
        return f"{taken} Left out: {words}." if words else taken


def commit_task(
    paths: Sequence[Path], samples: int, seed: int, language: str | None, wish: Wish
) -> tuple[Task, list[str]]:
    """About `samples` lines of commits in the repositories that `paths` are in, each a project;
    and for each path a sentence on what was taken.

    language: of the source; None: as `language_below` finds it.
    Raises DataError if there are too few lines, or of too few files, and as `committed_lines` does.
    """
    chosen = language or language_below(paths)
    each = -(-samples // len(paths))
    items: list[LineItem] = []
    said: list[str] = []
    seen: Counter[str] = Counter()
    for path, group in project_names(paths):
        taken = committed_lines(path, group, each, seed, chosen, wish, {item.text for item in items})
        items += taken.items
        seen += taken.seen
        said.append(taken.sentence(path))
    if len(items) < FEWEST:
        by = ", ".join(f"{address} ({n})" for address, n in seen.most_common(5)) or "nobody"
        raise DataError(
            f"There are only {len(items)} different lines by {' or '.join(wish.authors)} in the last "
            f"{seen.total()} commits; at least {FEWEST} are needed. These commits are by {by}. Name yourself "
            "with --author, look at more of them with --commits, or leave --from-git out. " + " ".join(said)
        )
    # Before the model is asked for hours: what is fitted on some of these is judged by the others.
    files = set(grouped([(item.id, item.group) for item in items]))
    if len(files) < FEWEST_GROUPS:
        raise DataError(
            f"The {len(items)} lines are of {len(files)} files. A calibrator is tried on lines of other "
            f"files than it is fitted on: {FEWEST_GROUPS} are needed. Ask for more lines (--samples), or "
            "name more repositories. " + " ".join(said)
        )
    return Task("line", tuple((item.id, plain(item)) for item in items), chosen), said


def committed_lines(
    path: Path, group: str, count: int, seed: int, language: str, wish: Wish, known: Collection[str] = ()
) -> Taken:
    """At most `count` of the newest lines that the authors added to files of a language below `path`.

    The document is the file as the commit left it up to the cursor; below it stand only the lines that the
    commit did not add, as it is where people write from top to bottom. With nothing left there the condition
    is WRITING_ON. Of lines with the same text only the newest is taken, and none that is `known`, by its
    `LineItem.text`. The same repository and seed give the same lines.
    Raises DataError and SettingsError as `find_repository`, `object_reader` and `ObjectReader` do.
    """
    repository = find_repository(path)
    below = PurePosixPath(path.resolve().relative_to(repository.root).as_posix())
    taken = Taken()
    chosen: list[_Place] = []
    spare: list[_Place] = []
    seen = set(known)

    def excluded(name: str) -> str:
        return wish.excluded(str(repository.root / name))

    with object_reader(repository) as reader:
        added = AddedLines(reader, below, language, excluded, taken.left_out)
        for commit in newest_first(reader, repository.head, wish.commits):
            taken.seen[commit.address] += 1
            if wish.is_by(commit):
                places = [(version, at) for version in added.of(commit) for at in sorted(version.asked)]
                places = _without_suggested(places, wish, taken.left_out)
                random.Random(f"{seed}:{commit.id}").shuffle(places)
                places = _without_repeated(places, seen, taken.left_out)
                chosen += places[:_OF_A_COMMIT]
                spare += places[_OF_A_COMMIT:][: count - len(spare)]
            if len(chosen) >= count:
                break
    chosen = [*chosen, *spare][:count]
    taken.commits = len({version.commit for version, _ in chosen})
    taken.items = [item_at(version, at, group, seed, language) for version, at in chosen]
    return taken


def _without_suggested(places: list[_Place], wish: Wish, left_out: Counter[str]) -> list[_Place]:
    """Without lines that a suggestion has made: they would be right by construction."""
    made = wish.labelled([version.lines[at] for version, at in places])
    kept = [(version, at) for version, at in places if version.lines[at] not in made]
    if len(kept) < len(places):
        left_out["lines with labels already"] += len(places) - len(kept)
    return kept


def _without_repeated(places: list[_Place], seen: set[str], left_out: Counter[str]) -> list[_Place]:
    """Without lines whose text is `seen`, to which the others are added."""
    kept = distinct(places, _text, seen)
    seen.update(map(_text, kept))
    if len(kept) < len(places):
        left_out["repeated lines"] += len(places) - len(kept)
    return kept


def _text(place: _Place) -> str:
    version, at = place
    return normalised_line(version.lines[at])


def item_at(version: Version, at: int, group: str, seed: int, language: str) -> LineItem:
    """A place in a line that a commit added, in the document that `committed_lines` describes.

    at: the number of the line, from 0. group: the project's name.
    """
    line = version.lines[at]
    # By the place alone, so that further commits do not change it.
    rng = random.Random(f"{seed}:{version.commit}:{version.path}:{at}")
    stratum, column = drawn_place(line, rng)
    below = [
        text for number, text in enumerate(version.lines[at + 1 :], at + 1) if number not in version.added
    ]
    nothing = not any(text.strip() for text in below)
    shown = [*version.lines[:at], line[:column], *([] if nothing else below)]
    return LineItem(
        # The file stays in front of the first colon from the right but one, by which lines are grouped.
        id=f"{group}/{version.path}:{version.commit[:12]}.{at + 1}:{column + 1}",
        group=group,
        stratum=stratum,
        cursor=Cursor.at(shown, at, column, language),
        target=line[column:],
        condition=WRITING_ON if nothing else INSERTING,
        name=version.path,
        source=GIT,
    )
