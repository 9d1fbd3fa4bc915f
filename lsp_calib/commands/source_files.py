"""Source files that commands read, text of a reasonable size; examples from their repository."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from lsp_calib.errors import DataError
from lsp_calib.exclusion import SECRET_NAME, Exclusion
from lsp_calib.files import read_file
from lsp_calib.languages import family_of
from lsp_calib.settings import Trusted, resolve_trusted
from lsp_calib.summarization import Example
from lsp_calib.summarization.prompt import SHOTS
from lsp_calib.summarization.workspace_examples import WorkspaceExamples
from lsp_calib.syntax import Function
from lsp_calib.text_lines import split_lines

_MOST_BYTES = 5_000_000


def read_source(path: Path) -> tuple[str, ...]:
    """A source file's lines. Raises DataError for one that is excluded, binary, huge or unreadable."""
    _refuse_excluded(path)
    try:
        if path.stat().st_size > _MOST_BYTES:
            raise DataError(f"{path} is larger than {_MOST_BYTES // 10**6} MB: too large for a source file.")
        text = read_file(path, _MOST_BYTES).decode("utf-8-sig")
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror or error}.") from error
    except UnicodeDecodeError as error:
        raise DataError(f"{path} is not UTF-8 text: is it a source file?") from error
    if "\0" in text:
        raise DataError(f"{path} is binary: is it a source file?")
    return split_lines(text)


def _refuse_excluded(path: Path) -> None:
    """Raises DataError for a file that is excluded, as in an editor, or a link to one."""
    # Problems with the settings are reported when the engine is opened.
    trusted, _ = resolve_trusted(Trusted(), Trusted())
    exclusion = Exclusion(trusted.exclude)
    reason = exclusion.reason(str(path.absolute())) or exclusion.reason(str(path.resolve()))
    if reason:
        # No setting takes a name off the list of those that hold secrets.
        change = "" if reason == SECRET_NAME else " or change `exclude` in config.toml"
        raise DataError(
            f"{path} is excluded: {reason}. No model may see it. To use it nevertheless, rename it{change}."
        )


def project_of(path: Path) -> tuple[Path, str]:
    """The folder of a file's repository, else its own, and its path below it."""
    file = path.absolute()
    root = next((folder for folder in file.parents if (folder / ".git").exists()), file.parent)
    return root, file.relative_to(root).as_posix()


class RepositoryExamples:
    """Each repository is read once for each language, for `seconds` at most. exclude: patterns of files that
    no model may see."""

    def __init__(self, exclude: Sequence[str], *, seconds: float) -> None:
        self._exclusion = Exclusion(tuple(exclude))
        self._seconds = seconds
        self._of: dict[Path, WorkspaceExamples] = {}
        self._read: set[tuple[Path, str]] = set()

    def best(self, path: Path, function: Function, language: str) -> Sequence[Example]:
        """The examples for a function of a file, the best first. Blocks while a repository is read."""
        root, at = project_of(path)
        index = self._of.setdefault(root, WorkspaceExamples(root, lambda: self._exclusion))
        if (root, family_of(language)) not in self._read:
            self._read.add((root, family_of(language)))
            index.scan(language, (root / at).parent, seconds=self._seconds)
        return index.best(function, language, at, SHOTS)
