"""Reads objects of a repository through git, in a way that nothing in the repository can direct.

`git cat-file` runs in an empty repository of our own, with the folder of objects as its only link to the
checkout. So git reads neither the checkout's configuration (which may name commands: for fetching a missing
object, for watching files, for showing them), nor its hooks, attributes and replacements.
"""

from __future__ import annotations

import os
import select
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Literal

import attrs

from lsp_calib.corpus.git_repository import Repository
from lsp_calib.errors import DataError, SettingsError

Kind = Literal["commit", "tree", "blob"]

_PATIENCE_S = 60.0
# An object of a few bytes can be stored as a change to one of gigabytes, which git holds in memory.
_MEMORY = 4 << 30
_PROCESSOR_S = 900
_LIMITS = (
    *("-c", "protocol.allow=never", "-c", "core.fsmonitor=false", "-c", f"core.hooksPath={os.devnull}"),
    # The files of packs are mapped piece by piece, so that a large repository stays within the memory.
    *("-c", "core.packedGitWindowSize=32m", "-c", "core.packedGitLimit=512m"),
)


@contextmanager
def object_reader(repository: Repository) -> Iterator[ObjectReader]:
    """A reader, as long as it is entered. Raises SettingsError if git is not installed."""
    git = git_program()
    with ExitStack() as stack:
        home = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="lsp-calib-git-")))
        environment = _environment(_empty_repository(home, repository.head), repository.objects)
        sizes, contents = (
            stack.enter_context(closing(_Process([git, *_LIMITS, "cat-file", options], home, environment)))
            for options in ("--batch-check", "--batch")
        )
        yield ObjectReader(repository.root, sizes, contents)


@attrs.frozen
class ObjectReader:
    """The objects of a repository by id.

    root: the folder of its checkout. sizes, contents: git, asked what an object is, and what it holds.
    """

    root: Path
    sizes: _Process
    contents: _Process

    def read(self, id_: str, kind: Kind, most: int) -> bytes | None:
        """The content of an object; None if it is not there, of another kind, or larger than `most` bytes.

        An object that is missing, as in a partial or shallow clone, is never fetched.
        Raises DataError if git gives up, or says nothing for a minute.
        """
        found = self.sizes.ask(id_)
        if found is None or found[0] != kind or found[1] > most:
            return None
        again = self.contents.ask(id_)
        if again is None or again[1] > most:  # somebody is changing the repository
            raise DataError(f"The object {id_} of {self.root} changed while it was read.")
        return self.contents.take(again[1])


def git_program() -> str:
    """The path of git. Folders with a relative path are left out: they would lead into a workspace.

    Raises SettingsError if there is none.
    """
    folders = os.environ.get("PATH", os.defpath).split(os.pathsep)
    folders = [one for one in folders if Path(one).is_absolute()]
    found = shutil.which("git", path=os.pathsep.join(folders))
    if found is None:
        raise SettingsError("git is not installed, and --from-git reads commits through it. Install git.")
    return found


def _empty_repository(home: Path, some_id: str) -> Path:
    """A repository without anything, in `home`. Made by hand: `git init` would copy the user's templates."""
    git = home / "empty.git"
    (git / "objects" / "info").mkdir(parents=True)
    (git / "refs").mkdir()
    (git / "HEAD").write_text("ref: refs/heads/none\n")
    sha256 = len(some_id) == 64
    config = f"[core]\n\trepositoryformatversion = {int(sha256)}\n\tbare = true\n"
    (git / "config").write_text(config + ("[extensions]\n\tobjectformat = sha256\n" if sha256 else ""))
    return git


def _environment(git: Path, objects: Path) -> dict[str, str]:
    """All variables that git gets: of the user's own none, since many of them direct it."""
    home = str(git.parent)
    return {
        "PATH": os.defpath,
        "HOME": home,
        "XDG_CONFIG_HOME": home,
        "TMPDIR": home,
        "LC_ALL": "C",
        "GIT_DIR": str(git),
        "GIT_ALTERNATE_OBJECT_DIRECTORIES": _quoted(objects),
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_SYSTEM": os.devnull,
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_ATTR_NOSYSTEM": "1",
        "GIT_NO_LAZY_FETCH": "1",
        "GIT_NO_REPLACE_OBJECTS": "1",
        "GIT_ALLOW_PROTOCOL": "none",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_OPTIONAL_LOCKS": "0",
    }


def _quoted(path: Path) -> str:
    """A path in a list of paths: between quotes, since it may hold the character that separates them."""
    escaped = str(path).replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


class _Process:
    """A `git cat-file` that answers one id after the other."""

    def __init__(self, command: list[str], folder: Path, environment: Mapping[str, str]) -> None:
        self._child = subprocess.Popen(
            command,
            cwd=folder,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            bufsize=0,
        )
        _limit(self._child.pid)
        self._read = b""

    def ask(self, id_: str) -> tuple[str, int] | None:
        """Kind and size in bytes of an object; None if it is missing."""
        assert self._child.stdin is not None
        try:
            self._child.stdin.write(f"{id_}\n".encode())
        except BrokenPipeError:
            raise _gave_up() from None
        while b"\n" not in self._read:
            self._more()
        line, _, self._read = self._read.partition(b"\n")
        words = line.split()
        if len(words) != 3:
            return None
        return words[1].decode("ascii", "replace"), int(words[2])

    def take(self, size: int) -> bytes:
        """The content that follows, and the newline after it."""
        while len(self._read) < size + 1:
            self._more()
        content, self._read = self._read[:size], self._read[size + 1 :]
        return content

    def close(self) -> None:
        self._child.kill()
        self._child.wait()
        for pipe in (self._child.stdin, self._child.stdout):
            if pipe is not None:
                pipe.close()

    def _more(self) -> None:
        assert self._child.stdout is not None
        # The file of an object may be a pipe that nobody writes to.
        ready, _, _ = select.select([self._child.stdout], [], [], _PATIENCE_S)
        piece = self._child.stdout.read(1 << 20) if ready else b""
        if not piece:
            raise _gave_up()
        self._read += piece


def _gave_up() -> DataError:
    return DataError(
        "git could not read an object of the repository, which may be damaged (`git fsck` says so) or hold "
        "something too large. No line was taken."
    )


def _limit(pid: int) -> None:
    """Bound memory and time of a process, where the system can."""
    try:
        import resource
    except ImportError:
        return
    if hasattr(resource, "prlimit"):
        for what, most in ((resource.RLIMIT_AS, _MEMORY), (resource.RLIMIT_CPU, _PROCESSOR_S)):
            try:
                resource.prlimit(pid, what, (most, most))
            except (OSError, ValueError):  # a lower limit holds already
                continue


_KEPT = ("HOME", "XDG_CONFIG_HOME", "GIT_CONFIG_GLOBAL")


def addresses_of_user() -> tuple[str, ...]:
    """The e-mail addresses with which the user commits, by the user's own configuration: a checkout's is not
    asked. Raises SettingsError if none is known."""
    found = [os.environ.get("GIT_AUTHOR_EMAIL", ""), os.environ.get("EMAIL", "")]
    with tempfile.TemporaryDirectory(prefix="lsp-calib-git-") as folder:
        environment = {name: os.environ[name] for name in _KEPT if name in os.environ}
        environment |= {
            "PATH": os.defpath,
            "GIT_CONFIG_NOSYSTEM": "1",
            # Nothing above the empty folder is taken for a repository.
            "GIT_CEILING_DIRECTORIES": str(Path(folder).resolve().parent),
        }
        answer = subprocess.run(
            [git_program(), "config", "--global", "--includes", "--get-all", "user.email"],
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=30,
            check=False,
        )
    found += answer.stdout.decode("utf-8", "replace").split("\n")
    addresses = tuple(dict.fromkeys(one.strip() for one in found if one.strip()))
    if not addresses:
        raise SettingsError(
            "There is no author: user.email is not set in git. Give --author with the e-mail address of your "
            "commits, several times if there are several."
        )
    return addresses
