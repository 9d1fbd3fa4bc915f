"""Lines that a user added in recent commits, as places to complete: as if the cursor had been in them.

A checkout is not trusted. Its configuration can name programs, and its `.git` another repository of the user.
In the checkout only `git rev-parse` and `git config` run, without a terminal. They read configuration and
references, and no object, index or attribute; hooks are for changes, pagers for terminals, and a missing
object, which a promised repository would be asked for, is not looked up. So no key can start a program, and
git itself refuses the checkouts of other users (`safe.directory`). Commits, trees and contents are read in an
empty repository of our own, with the folder of objects as its only link to the checkout.
"""

from __future__ import annotations

import difflib
import os
import random
import re
import shlex
import shutil
import subprocess
import tempfile
import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path, PurePosixPath

import attrs

from lsp_calib.badges import counted
from lsp_calib.characters import normalised_line, split_lines
from lsp_calib.completion.context import Cursor
from lsp_calib.corpus.places import (
    FEWEST,
    GIT,
    INSERTING,
    WRITING_ON,
    LineItem,
    Task,
    distinct,
    drawn_place,
    is_asked_for,
    plain,
)
from lsp_calib.corpus.source import is_source, language_below, project_names
from lsp_calib.errors import DataError, SettingsError
from lsp_calib.files import read_file
from lsp_calib.syntax import prose_lines
from lsp_calib.workspace_files import is_made_by_a_program

_PATIENCE_S = 60.0
# An object of a few bytes can be stored as a change to one of gigabytes, which git holds in memory.
# Of a few folders within each other a list of files has no end.
_MEMORY, _PROCESSOR_S = 4 << 30, 20
_MOST_SAID = 32 << 20
_MOST_OF_A_FILE = 500_000
_MOST_FILES = 200  # that a person changes in one commit
_MOST_COMPARED = 2_000_000  # lines before times lines after: difflib is slow
_OF_A_COMMIT = 40  # lines, unless there are too few others: 400 lines are to be of many days
_FILE = (b"100644", b"100755", b"100664")
_LIMITS = (
    *("--no-pager", "--literal-pathspecs", "-c", "protocol.allow=never", "-c", "core.fsmonitor=false"),
    # The files of packs are mapped piece by piece, so that a large repository stays within the memory.
    *("-c", "core.packedGitWindowSize=32m", "-c", "core.packedGitLimit=512m"),
)
_NOTHING = {
    "PATH": os.defpath,
    "LC_ALL": "C",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_ATTR_NOSYSTEM": "1",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_ALLOW_PROTOCOL": "none",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_OPTIONAL_LOCKS": "0",
}
"""All variables that git gets: the user's own do not direct it, but for the place of the user's settings."""


@attrs.frozen
class Commit:
    """author, address: the author's name and e-mail address. at: when it was committed, Unix seconds."""

    id: str
    parents: tuple[str, ...]
    author: str
    address: str
    at: int


Change = tuple[str, str | None, str | None]
"""The path of a file, and the ids of its contents before and after a commit; None where it is not there."""


@attrs.frozen
class Repository:
    """The objects of a checkout. root: its folder. head: the id of the commit that is checked out."""

    root: Path
    head: str
    _scratch: Path
    _variables: Mapping[str, str]

    def commits(self, most: int, *options: str) -> Iterator[Commit]:
        """At most `most` commits that HEAD builds on, the newest first, up to one that cannot be read, as
        beyond the end of a shallow clone. options: of `git rev-list`. Raises DataError if there is none."""
        form = "--format=%H%x00%P%x00%an%x00%ae%x00%ct"
        _, said = self._ask("rev-list", f"--max-count={most}", form, *options, self.head)
        rows = [line.decode("utf-8", "replace").split("\0") for line in said.split(b"\n")[1::2]]
        if not rows:
            raise _gave_up()
        for id_, parents, author, address, at in (row for row in rows if len(row) == 5):
            yield Commit(id_, tuple(parents.split()), author, address, int(at or 0))

    def changes(self, commit: Commit, below: str = "") -> list[Change] | None:
        """The files below a folder that differ from the first parent, by path; None if that cannot be said.

        Links, submodules and names that are not UTF-8 or hold control characters are left out.
        """
        sides = (commit.parents[0], commit.id) if commit.parents else ("--root", "--no-commit-id", commit.id)
        within = ("--", below) if below else ()
        whole, said = self._ask("diff-tree", "-r", "-z", "--raw", "--no-renames", *sides, *within)
        if not whole:
            return None
        found: list[Change] = []
        parts = said.split(b"\0")
        for row, name in zip(parts[::2], parts[1::2], strict=False):
            old_mode, mode, old, new, _ = row.removeprefix(b":").split(b" ")
            path = name.decode("utf-8", "replace")
            before = old.decode() if old_mode in _FILE else None
            after = new.decode() if mode in _FILE else None
            is_name = path.isprintable() and "\ufffd" not in path and "/../" not in f"/{path}/"
            if is_name and before != after:
                found.append((path, before, after))
        return found

    def texts(self, ids: Collection[str]) -> dict[str, str]:
        """The contents of files by id, without those that are missing, large, binary or not UTF-8."""
        _, said = self._ask("cat-file", "--batch-check", text="".join(f"{id_}\n" for id_ in ids))
        rows = [line.split() for line in said.decode("ascii", "replace").split("\n")]
        sizes = {row[0]: int(row[2]) for row in rows if len(row) == 3 and row[1] == "blob"}
        small = {id_: size for id_, size in sizes.items() if size <= _MOST_OF_A_FILE}
        most = sum(small.values()) + 200 * len(small)
        _, said = self._ask("cat-file", "--batch", text="".join(f"{id_}\n" for id_ in small), most=most)
        found: dict[str, str] = {}
        at = 0
        for id_, size in small.items():
            begin = said.find(b"\n", at) + 1
            at = begin + size + 1
            content = said[begin : at - 1]
            if len(content) == size and b"\0" not in content:
                with suppress(UnicodeDecodeError):
                    found[id_] = content.decode("utf-8-sig")
        return found

    def _ask(self, *arguments: str, text: str = "", most: int = _MOST_SAID) -> tuple[bool, bytes]:
        return _git(self._scratch, self._variables, *arguments, text=text, most=most)


@contextmanager
def repository_of(path: Path) -> Iterator[Repository]:
    """The repository that a folder is a checkout of, or is in, as long as it is entered.

    Raises DataError if there is none, if it has no commit, if it belongs to another user, or if its objects
    are not its own; SettingsError if git is not installed.
    """
    start = path.resolve()
    root = next((one for one in (start, *start.parents) if os.path.lexists(one / ".git")), None)
    if root is None:
        raise DataError(f"{path} is in no checkout of git (there is no .git): leave --from-git out.")
    head = _said(root, "rev-parse", "--verify", "HEAD").decode("ascii", "replace")
    if not re.fullmatch("[0-9a-f]{40}(?:[0-9a-f]{24})?", head):
        raise DataError(f"{root} has no commit yet, or its branch is missing: leave --from-git out.")
    objects = _objects(root)
    with tempfile.TemporaryDirectory(prefix="lsp-calib-git-") as scratch:
        empty = Path(scratch) / "empty.git"
        # By hand: `git init` would copy the user's templates.
        (empty / "objects" / "info").mkdir(parents=True)
        (empty / "refs").mkdir()
        (empty / "HEAD").write_text("ref: refs/heads/none\n")
        sha256 = len(head) == 64
        config = f"[core]\n\trepositoryformatversion = {int(sha256)}\n\tbare = true\n"
        (empty / "config").write_text(config + ("[extensions]\n\tobjectformat = sha256\n" if sha256 else ""))
        # In a list of paths, between quotes, since it may hold the character that separates them.
        quoted = str(objects).replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
        own = {"GIT_DIR": str(empty), "GIT_ALTERNATE_OBJECT_DIRECTORIES": f'"{quoted}"', "HOME": scratch}
        yield Repository(root, head, Path(scratch), _NOTHING | own)


def _objects(root: Path) -> Path:
    """The folder of a checkout's objects: in its own `.git`, or in a repository that names the checkout in
    return. Raises DataError for any other, which may be one that nobody is to see."""
    dot = root / ".git"
    git, common = (
        (root / os.fsdecode(_said(root, "rev-parse", what))).resolve()
        for what in ("--git-dir", "--git-common-dir")
    )
    if git != common:  # a worktree beside the main checkout
        beside = git.parent == common / "worktrees"
        knows = beside and (git / os.fsdecode(read_file(git / "gitdir").strip())).resolve() == dot
    elif git != dot:  # a submodule
        named = _said(root, "--git-dir", str(git), "config", "core.worktree")
        knows = (git / os.fsdecode(named)).resolve() == root
    else:
        knows = True
    if not knows or dot.is_symlink():
        raise DataError(
            f"{dot} leads to a repository that does not know this folder. It may be another one of yours, "
            "whose lines would be shown to the model: none is taken. If it is the right one, as after you "
            "have moved a folder, run `git worktree repair` in the main checkout, or in a submodule "
            f"`git --git-dir {shlex.quote(str(git))} config core.worktree {shlex.quote(str(root))}`."
        )
    objects = common / "objects"
    entries = (Path(folder, name) for folder, *some in os.walk(objects) for names in some for name in names)
    if os.path.lexists(objects / "info/alternates") or any(one.is_symlink() for one in (objects, *entries)):
        raise DataError(
            f"{objects} borrows objects from elsewhere, by a link or by info/alternates. These may be of "
            "another repository of yours, whose lines would be shown to the model: none is taken. If they "
            f"belong here, copy them: run `git repack -a -d` in {root}, and remove info/alternates."
        )
    return objects


def _said(root: Path, *arguments: str) -> bytes:
    """What git says in a checkout; nothing if it fails. Raises DataError if that is another user's."""
    names = ("HOME", "XDG_CONFIG_HOME", "GIT_CONFIG_GLOBAL")
    settings = {name: os.environ[name] for name in names if name in os.environ}
    done, said = _git(root, _NOTHING | settings, *arguments)
    _, why = (True, b"") if done else _git(root, _NOTHING | settings, *arguments, errors=subprocess.STDOUT)
    if b"dubious ownership" in why or b"unsafe repository" in why:
        raise DataError(
            f"{root} belongs to another user, whose configuration could run commands. No line is taken from "
            "it. Clone the repository into a folder of your own, and name that."
        )
    return said.removesuffix(b"\n") if done else b""


def _git(
    folder: Path,
    variables: Mapping[str, str],
    *arguments: str,
    text: str = "",
    most: int = _MOST_SAID,
    errors: int = subprocess.DEVNULL,
) -> tuple[bool, bytes]:
    """Whether git has done what it was asked for, and at most `most` bytes of what it said. text: its input.

    Raises DataError if it takes too long: the file of an object may be a pipe. Raises SettingsError if there
    is no git; folders of PATH that are relative would lead into a workspace.
    """
    folders = [one for one in os.environ.get("PATH", os.defpath).split(os.pathsep) if Path(one).is_absolute()]
    program = shutil.which("git", path=os.pathsep.join(folders))
    if program is None:
        raise SettingsError("git is not installed, and --from-git reads commits through it. Install git.")
    with tempfile.TemporaryFile() as given:
        given.write(text.encode())
        given.seek(0)
        command = [program, *_LIMITS, *arguments]
        child = subprocess.Popen(
            command, cwd=folder, env={**variables}, stdin=given, stdout=subprocess.PIPE, stderr=errors
        )
    with suppress(ImportError, AttributeError, OSError, ValueError):  # a lower limit may hold already
        import resource

        for what, limit in ((resource.RLIMIT_AS, _MEMORY), (resource.RLIMIT_CPU, _PROCESSOR_S)):
            resource.prlimit(child.pid, what, (limit, limit))
    timer = threading.Timer(_PATIENCE_S, child.kill)
    timer.start()
    with child:
        assert child.stdout is not None
        said = child.stdout.read(most + 1)
        whole = len(said) <= most
        if not whole:
            child.kill()
    timer.cancel()
    if whole and child.returncode < 0:
        raise _gave_up()
    return whole and child.returncode == 0, said[:most]


def _gave_up() -> DataError:
    return DataError(
        "git could not read an object of the repository, which may be damaged (`git fsck` says so) or hold "
        "something too large. No line was taken."
    )


def addresses_of_user() -> tuple[str, ...]:
    """The e-mail addresses with which the user commits, by the user's own configuration: a checkout's is not
    asked. Raises SettingsError if none is known."""
    found = [os.environ.get("GIT_AUTHOR_EMAIL", ""), os.environ.get("EMAIL", "")]
    asked = ("config", "--global", "--includes", "--get-all", "user.email")
    found += _said(Path(os.sep), *asked).decode("utf-8", "replace").split("\n")
    addresses = tuple(dict.fromkeys(one.strip() for one in found if one.strip()))
    if not addresses:
        raise SettingsError(
            "There is no author: user.email is not set in git. Give --author with the e-mail address of your "
            "commits, several times if there are several."
        )
    return addresses


@attrs.frozen
class Version:
    """A file as a commit left it. path: below the folder that is looked at, with slashes. added: the numbers
    of the lines that the commit added, from 0."""

    commit: str
    path: str
    lines: tuple[str, ...]
    added: frozenset[int]


Place = tuple[Version, int]
"""A file, and the number of a line in it."""


@attrs.frozen
class AddedLines:
    """Finds the lines that a commit added, in each source file that it changed.

    below: the folder whose files are looked at, from the root of the repository. excluded: why no model may
    see a file, by its path; "" for one that may be seen. left_out: counts what is left out, in words.
    """

    repository: Repository
    below: PurePosixPath
    language: str
    excluded: Callable[[str], str]
    left_out: Counter[str]

    def of(self, commit: Commit) -> list[Place]:
        """The lines that a completion may be asked for, by path and number; none for a merge.

        Moved, indented and renamed lines do not count as added. Generated, excluded and binary files are not
        looked at, nor commits of more files than a person changes in one go.
        """
        if len(commit.parents) > 1:
            return []
        below = "" if self.below == PurePosixPath() else str(self.below)
        changed = self.repository.changes(commit, below)
        found = [one for one in changed or () if self._is_wanted(one[0])]
        if changed is None or len(found) > _MOST_FILES:
            self.left_out["commits of too many files, or that are not complete"] += 1
            return []
        texts = self.repository.texts({id_ for _, *ids in found for id_ in ids if id_})
        versions: list[Version] = []
        removed: set[str] = set()
        for path, *ids in found:
            before, after = (split_lines(texts.get(id_, "")) if id_ else () for id_ in ids)
            difference = _difference(before, after)
            if any(id_ and id_ not in texts for id_ in ids):
                self.left_out["changes of large, binary or missing files"] += 1
            elif difference is None:
                self.left_out["changes of files that were rewritten"] += 1
            else:
                added, gone = difference
                removed.update(normalised_line(before[at]) for at in gone)
                if ids[1] and is_made_by_a_program(PurePosixPath(path).name, after):
                    self.left_out["changes of generated files"] += 1
                elif ids[1]:
                    inside = str(PurePosixPath(path).relative_to(self.below))
                    versions.append(Version(commit.id, inside, after, frozenset(added)))
        return [(version, at) for version in versions for at in self._asked(version, removed)]

    def _is_wanted(self, path: str) -> bool:
        if not is_source(PurePosixPath(path).relative_to(self.below), self.language):
            return False
        if self.excluded(str(self.repository.root / path)):
            self.left_out["changes of excluded files"] += 1
            return False
        return True

    def _asked(self, version: Version, removed: Collection[str]) -> list[int]:
        added = {at for at in version.added if is_asked_for(version.lines[at])}
        new = {at for at in added if normalised_line(version.lines[at]) not in removed}
        if len(new) < len(added):
            self.left_out["moved lines"] += len(added) - len(new)
        return sorted(new - prose_lines(version.lines, self.language)) if new else []


def _difference(before: Sequence[str], after: Sequence[str]) -> tuple[list[int], list[int]] | None:
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
        words = ", ".join(f"{n} {what}" for what, n in sorted(self.left_out.items()) if n)
        return f"{taken}, {on} with nothing below.{f' Left out: {words}.' if words else ''}"


def commit_task(
    paths: Sequence[Path], samples: int, seed: int, language: str | None, wish: Wish
) -> tuple[Task, list[str]]:
    """About `samples` lines of commits in the repositories that `paths` are in, each a project;
    and for each path a sentence on what was taken.

    language: of the source; None: as `language_below` finds it.
    Raises DataError if there are too few lines, and as `committed_lines` does.
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
    return Task("line", tuple((item.id, plain(item)) for item in items), chosen), said


def committed_lines(
    path: Path, group: str, count: int, seed: int, language: str, wish: Wish, known: Collection[str] = ()
) -> Taken:
    """At most `count` of the newest lines that the authors added to files of a language below `path`.

    The document is the file as the commit left it up to the cursor; below it stand only the lines that the
    commit did not add, as it is where people write from top to bottom. With nothing left there the condition
    is WRITING_ON. Of lines with the same text only the newest is taken, and none that is `known`, by its
    `LineItem.text`; none that a suggestion has made, which would be right by construction. The same
    repository and seed give the same lines. Raises DataError and SettingsError as `repository_of` does.
    """
    taken = Taken()
    chosen: list[Place] = []
    spare: list[Place] = []
    seen = set(known)
    authors = {author.casefold() for author in wish.authors}
    with repository_of(path) as repository:
        below = PurePosixPath(path.resolve().relative_to(repository.root).as_posix())
        added = AddedLines(repository, below, language, wish.excluded, taken.left_out)
        for commit in repository.commits(wish.commits):
            taken.seen[commit.address] += 1
            if authors.isdisjoint((commit.address.casefold(), commit.author.casefold())):
                continue
            found = added.of(commit)
            made = wish.labelled([version.lines[at] for version, at in found])
            places = [(version, at) for version, at in found if version.lines[at] not in made]
            random.Random(f"{seed}:{commit.id}").shuffle(places)
            kept = distinct(places, _text, seen)
            seen.update(map(_text, kept))
            taken.left_out["lines with labels already"] += len(found) - len(places)
            taken.left_out["repeated lines"] += len(places) - len(kept)
            chosen += kept[:_OF_A_COMMIT]
            spare += kept[_OF_A_COMMIT:][: count - len(spare)]
            if len(chosen) >= count:
                break
    chosen = [*chosen, *spare][:count]
    taken.commits = len({version.commit for version, _ in chosen})
    taken.items = [item_at(version, at, group, seed, language) for version, at in chosen]
    return taken


def _text(place: Place) -> str:
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
