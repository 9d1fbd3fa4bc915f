"""Source files below a project's folder, by language; and the names of projects."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from pathlib import Path, PurePath

from lsp_calib.characters import split_lines
from lsp_calib.errors import DataError
from lsp_calib.files import read_file
from lsp_calib.languages import language_of, name_of
from lsp_calib.syntax import has_grammar
from lsp_calib.workspace_files import is_made_by_a_program

_MOST_BYTES = 500_000
_SKIPPED_FOLDERS = {"venv", "node_modules", "__pycache__", "site-packages", "build", "dist"}
# Copies of other projects, and what a build leaves. For Python the folders above stay the only ones, and no
# file is looked into: the shipped calibrators rest on what was drawn that way.
_COPIES = {"3rdparty", "bower_components", "deps", "external", "third-party", "third_party", "thirdparty"}
_SKIPPED_ELSEWHERE = _SKIPPED_FOLDERS | _COPIES | {"out", "target", "vendor"}
# Stubs and declarations have no statements to complete.
_NOT_DRAWN = (".pyi", ".pyw", ".d.ts", ".d.mts", ".d.cts")
HEADER = ".h"  # C's and C++'s: it belongs to the language of the files beside it
Skip = Callable[[str], bool]
"""Whether no lines of a file are drawn, by its path below the project, with "/" between the parts."""
JSON_LINES = (".jsonl", ".jsonl.gz")


def source_files(root: Path, language: str = "python", skip: Skip | None = None) -> Iterator[Path]:
    """The source files of a language below `root` (or `root` itself), sorted; folders of third-party code and
    what a build leaves are left out.

    skip: further files to leave out. Raises DataError if `root` is a file of something else.
    """
    if root.is_file():
        _refuse_other(root, language)
        yield root
        return
    for path in sorted(root.rglob("*.py" if language == "python" else "*")):
        inside = path.relative_to(root)
        if is_source(inside, language) and not (skip is not None and skip(inside.as_posix())):
            yield path


def languages_below(root: Path) -> set[str]:
    """The languages with a grammar that files below `root` (or `root` itself) are written in.

    Headers alone are C; beside other files they say nothing.
    """
    if root.is_file():
        paths = [root]
    else:
        paths = [
            path
            for path in root.rglob("*")
            if not _outside(path.relative_to(root).parts[:-1], _SKIPPED_ELSEWHERE)
        ]
    drawn = [path for path in paths if not path.name.endswith(_NOT_DRAWN)]
    found = {language_of(path) for path in drawn if path.suffix != HEADER}
    found = {language for language in found if has_grammar(language)}
    return found or {language_of(path) for path in drawn if path.suffix == HEADER}


def language_below(paths: Sequence[Path]) -> str:
    """The language of the source below `paths`: Python if there is any, else the only one with a grammar.

    Raises DataError if there are several.
    """
    found = set[str]().union(*map(languages_below, paths))
    if not found or "python" in found:
        return "python"
    if len(found) > 1:
        raise DataError(
            f"There is source in {', '.join(map(name_of, sorted(found)))}: a calibrator is for one language. "
            f"Choose it, such as --language {min(found)}."
        )
    return found.pop()


def is_source(path: PurePath, language: str) -> bool:
    """Whether lines of a file are drawn for a language, by its path below the project."""
    skipped = _SKIPPED_FOLDERS if language == "python" else _SKIPPED_ELSEWHERE
    return _is_of(path, language) and not _outside(path.parts[:-1], skipped)


def _is_of(path: PurePath, language: str) -> bool:
    if path.suffix == HEADER:
        return language == "cpp"
    return language_of(path) == language and not path.name.endswith(_NOT_DRAWN)


def _refuse_other(path: Path, language: str) -> None:
    """Raises DataError for a file that the user has named and that is not of the language."""
    # A header that is named alone is of the language that the user says.
    if _is_of(path, language) or (path.suffix == HEADER and language == "c"):
        return
    own = language_of(path)
    if own == language:
        what = "a stub or holds declarations only: nothing in it is to be completed"
    else:
        what = f"not a {name_of(language)} file: its lines would be taken for {name_of(language)}"
    elsewhere = "or name the folder of the source"
    if own != language and has_grammar(own):
        elsewhere = f"name the folder of the source, or ask for this language alone with --language {own}"
    raise DataError(f"{path} is {what}. Leave it out, {elsewhere}.")


def _outside(folders: Sequence[str], skipped: Collection[str]) -> bool:
    return any(name in skipped or name.startswith(".") for name in folders)


def read_lines_of(path: Path, language: str) -> Sequence[str]:
    """The lines of a source file; none of a link, one that cannot be read, is too large, or was generated
    (but for Python)."""
    lines = lines_of_file(path, _MOST_BYTES)
    return () if language != "python" and is_made_by_a_program(path.name, lines) else lines


def lines_of_file(path: Path, most: int) -> tuple[str, ...]:
    """The lines of a file of at most so many bytes; none of a link, or if it cannot be read."""
    try:
        return tuple(split_lines(read_file(path, most, links=False).decode("utf-8-sig")))
    except (OSError, UnicodeDecodeError):
        return ()


def why_unread(path: Path) -> str:
    """Why `read_lines_of` has no lines of a file, to follow a number of files."""
    try:
        if path.is_symlink():
            return "links"
        if not path.is_file():
            return "no regular files"
        if path.stat().st_size > _MOST_BYTES:
            return f"larger than {_MOST_BYTES // 1000} kB"
        return "generated" if read_file(path, _MOST_BYTES).decode("utf-8-sig").strip() else "empty"
    except UnicodeDecodeError:
        return "not UTF-8 text"
    except OSError:
        return "unreadable"


def project_names(paths: Iterable[Path]) -> list[tuple[Path, str]]:
    """The resolved paths, sorted, each once, with the names of their projects.

    Raises DataError if one of them holds another: the same lines would be of two projects, and what is fitted
    on one would be judged by the other.
    """
    roots = sorted({path.resolve() for path in paths})
    for root in roots:
        holding = next((other for other in roots if other in root.parents), None)
        # Lines of the user's own are read from no source.
        if holding is not None and not root.name.endswith(JSON_LINES):
            raise DataError(
                f"{root} lies in {holding}: each PATH is a project of its own, and the same lines would be "
                "fitted on in one and judged in the other. Leave one of the two out."
            )
    names = Counter(root.name for root in roots)
    # Two folders named src are two projects.
    named = [(root, root.name if names[root.name] == 1 else root.as_posix().lstrip("/")) for root in roots]
    return [(root, writable(name)) for root, name in named]


def writable(name: str) -> str:
    """A name of a file as files can hold it: one that is not UTF-8 is escaped."""
    return name.encode("utf-8", "backslashreplace").decode()
