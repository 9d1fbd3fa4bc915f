"""ManySStuBs4J (Karampatsis and Sutton 2020): simple one-line bugs in Java, with their context."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import attrs

from lsp_calib.evaluation.datasets.defects4j import line_item
from lsp_calib.evaluation.datasets.folder import Row, number, read_items, text
from lsp_calib.evaluation.lines import LineItem
from lsp_calib.text_lines import split_lines


@attrs.frozen
class Bug:
    """A wrong line and its fix.

    line: its number in the file, from 1. before, after: lines of context around it, without line ends.
    """

    id: str
    group: str
    path: str
    line: int
    buggy_line: str
    fixed_line: str
    before: tuple[str, ...]
    after: tuple[str, ...]

    def line_item(self) -> LineItem:
        """The place of the fixed line, below the buggy one in a comment."""
        return line_item(self.id, self.group, self.before, self.after, self.buggy_line, self.fixed_line)


def bugs(folder: Path | None = None) -> Iterator[Bug]:
    """The 2,794 bugs. Raises DataError if the data are missing or have another checksum."""
    return read_items("manysstubs4j", _bug, folder)


def _bug(row: Row) -> Bug:
    path = text(row, "path")
    return Bug(
        id=f"SStuB/{number(row, 'bug_index')}",
        group=project_of(path),
        path=path,
        line=number(row, "line"),
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
