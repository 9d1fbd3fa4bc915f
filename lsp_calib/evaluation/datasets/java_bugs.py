"""One-line bugs in Java, of Defects4J (Just et al. 2014) and ManySStuBs4J (Karampatsis and Sutton 2020)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import attrs

from lsp_calib.completion.context import Cursor
from lsp_calib.evaluation.datasets.folder import Row, number, read_items, text, texts
from lsp_calib.evaluation.lines import LineItem
from lsp_calib.text_lines import split_lines

_HUNK = re.compile(r"@@ -\d+(?:,\d+)? \+\d+(?:,\d+)? @@")


@attrs.frozen
class Bug:
    """A wrong line and its fix.

    before, after: lines of context around it, without line ends.
    moved: the buggy line was in another place (5 of Defects4J's); the context then contains it there.
    """

    id: str
    group: str
    path: str
    buggy_line: str
    fixed_line: str
    before: tuple[str, ...]
    after: tuple[str, ...]
    moved: bool = False

    def line_item(self) -> LineItem:
        """The place of the fixed line, which is missing; above it a comment shows the buggy one.

        Spiess et al. 2024 show the buggy line in the prompt as well (4.2.1); the words for it are ours.
        """
        buggy = self.buggy_line
        indentation = buggy[: len(buggy) - len(buggy.lstrip())]
        shown = (f"{indentation}// Buggy line: {buggy.strip()}", f"{indentation}// Fixed line:")
        above = (*self.before, *shown)
        cursor = Cursor.at((*above, "", *self.after), len(above), 0, "java")
        return LineItem(self.id, self.group, "line-start", cursor, self.fixed_line)


def defects4j(folder: Path | None = None) -> Iterator[Bug]:
    """The 142 bugs. Raises DataError if the data are missing or have another checksum."""
    return read_items("defects4j", _of_patch, folder)


def manysstubs4j(folder: Path | None = None) -> Iterator[Bug]:
    """The 2,794 bugs. Raises DataError if the data are missing or have another checksum."""
    return read_items("manysstubs4j", _of_context, folder)


def _of_patch(row: Row) -> Bug:
    project = text(row, "project")
    (path,) = texts(row, "files")
    body = _hunk(text(row, "src_patch"))
    # The patch turns the fixed program into the buggy one.
    (fixed,) = (at for at, line in enumerate(body) if line.startswith("-"))
    (buggy,) = (at for at, line in enumerate(body) if line.startswith("+"))
    moved = buggy != fixed + 1
    context = [(at, line[1:]) for at, line in enumerate(body) if at != fixed and (moved or at != buggy)]
    return Bug(
        id=f"{project}-{number(row, 'bug_id')}",
        group=project,
        path=path,
        buggy_line=body[buggy][1:],
        fixed_line=body[fixed][1:],
        before=tuple(line for at, line in context if at < fixed),
        after=tuple(line for at, line in context if at > fixed),
        moved=moved,
    )


def _hunk(patch: str) -> list[str]:
    """The lines of a patch's only hunk, with their marks. Raises ValueError if there are several hunks."""
    lines = [line.removesuffix("\r") for line in patch.split("\n")]
    starts = [at for at, line in enumerate(lines) if _HUNK.match(line)]
    if len(starts) != 1:
        raise ValueError(f"its patch has {len(starts)} hunks, not one")
    return [line for line in lines[starts[0] + 1 :] if line[:1] in (" ", "-", "+")]


def _of_context(row: Row) -> Bug:
    path = text(row, "path")
    return Bug(
        id=f"SStuB/{number(row, 'bug_index')}",
        group=project_of(path),
        path=path,
        buggy_line=text(row, "buggy_line"),
        fixed_line=text(row, "fixed_line"),
        before=_whole_lines(text(row, "context_before")),
        after=_whole_lines(text(row, "context_after")),
    )


# Where packages begin in a path: behind the last of such folders in a row.
_ROOTS = frozenset({"src", "main", "test", "tests", "java", "jvm", "javatests"})
_DOMAINS = frozenset({"org", "com", "net", "io", "de", "edu", "fi", "fr", "ch", "me", "cn", "uk", "eu", "us"})
# Organisations with many projects: the third part of the package tells these apart.
_MANY = frozenset({"org.apache", "com.google", "com.alibaba", "com.github", "com.googlecode"})
# Projects that use several names: a former one, that of an organisation, or that of their style files.
_ALSO: Mapping[str, str] = {
    "org.apache.hive": "org.apache.hadoop",
    "com.google.checkstyle": "com.puppycrawl",
    "com.alibaba.json": "com.alibaba.fastjson",
    "tachyon": "alluxio",
    "io.druid": "org.apache.druid",
    "com.metamx": "org.apache.druid",
    "org.graylog": "org.graylog2",
    "org.activiti5": "org.activiti",
}


def project_of(path: str) -> str:
    """The project of a file, by its package: the data do not name it.

    Two parts of the package, three where an organisation has many projects, one where it begins with no
    domain. A project with several names not listed here may be split, and two of one name are one.

    >>> project_of("components/camel-core/src/main/java/org/apache/camel/impl/Route.java")
    'org.apache.camel'
    >>> project_of("backends/gdx-backend-lwjgl/src/com/badlogic/gdx/Gdx.java")
    'com.badlogic'
    """
    folders = path.split("/")[:-1]
    starts = [
        at + 1 for at, name in enumerate(folders[:-1]) if name in _ROOTS and folders[at + 1] not in _ROOTS
    ]
    # Modules and their folders have names of roots, too: a domain is the surer sign.
    known = [at for at in starts if folders[at] in _DOMAINS]
    package = folders[(known or starts or [0])[0 if known else -1] :]
    if not package:
        return path
    size = 1 if package[0] not in _DOMAINS else 3 if ".".join(package[:2]) in _MANY else 2
    name = ".".join(package[:size])
    return _ALSO.get(name, name)


def _whole_lines(source: str) -> tuple[str, ...]:
    lines = split_lines(source)
    return lines if lines[-1] else lines[:-1]
