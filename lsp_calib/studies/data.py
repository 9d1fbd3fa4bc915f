"""The known data sets, and the folder that they are in; its files are checked and read row by row."""

from __future__ import annotations

import hashlib
import os
import tomllib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import attrs

from lsp_calib.corpus.tasks import Row, T, read_rows, text
from lsp_calib.errors import DataError, SettingsError
from lsp_calib.files import open_file


@attrs.frozen
class DataSet:
    """One file of evaluation data.

    file: path below the data folder. records: number of rows. sha256: of the file, hexadecimal.
    url, wheel: sources of the same bytes: an address, or a (requirement, member) of a package index; empty if
    the file is a selection that is published nowhere. origin: where the data come from.
    """

    name: str
    what: str
    file: str
    records: int
    licence: str
    origin: str
    sha256: str
    url: str = ""
    wheel: tuple[str, str] = ("", "")


CATALOGUE: Mapping[str, Any] = tomllib.loads(Path(__file__).with_name("catalogue.toml").read_text("utf-8"))
"""The known data sets, as `data`, and the pinned projects by the name of their set, as `projects`."""

DATA_SETS = {row["name"]: DataSet(**row) for row in CATALOGUE["data"]}


def data_set(name: str) -> DataSet:
    """Raises SettingsError for an unknown name."""
    try:
        return DATA_SETS[name]
    except KeyError:
        raise SettingsError(
            f"There is no data set called {name!r}. Known data sets: {', '.join(DATA_SETS)}, and the "
            "pinned projects: `lsp-calib data list` lists them all."
        ) from None


VARIABLE = "LSP_CALIB_DATA"


def data_folder(named: Path | None = None) -> Path:
    """The folder with evaluation data: `named`, else LSP_CALIB_DATA.

    Raises DataError if neither is set, or the folder does not exist.
    """
    try:
        where = named or (Path(text).expanduser() if (text := os.environ.get(VARIABLE)) else None)
    except RuntimeError as error:
        raise DataError(f"{VARIABLE} is {text!r}: {error} Set it to an absolute path.") from error
    if where is None:
        raise DataError(
            f"The folder of the evaluation data is not known. Set {VARIABLE} to it, or give "
            "--data-dir. `lsp-calib data list` lists the data sets."
        )
    if not where.is_dir():
        raise DataError(f"There is no folder {where} with evaluation data. Check {VARIABLE} or --data-dir.")
    return where


def sha256_of(path: Path) -> str:
    with os.fdopen(open_file(path), "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def checked_file(name: str, folder: Path | None = None) -> Path:
    """The path of a data set's file, after its checksum was verified.

    Raises DataError if the file is missing or its checksum differs; SettingsError for an unknown name.
    """
    entry = data_set(name)
    path = data_folder(folder) / entry.file
    if not path.is_file():
        raise DataError(f"The data set {name} is not there: {path} is missing. {_remedy(entry)}")
    try:
        found = sha256_of(path)
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror or error}.") from error
    if found != entry.sha256:
        raise DataError(
            f"{path} has the wrong checksum: SHA-256 {found}, expected {entry.sha256}. It is not the data "
            f"set that results are reported on. Remove it. {_remedy(entry)}"
        )
    return path


def read_items(name: str, make: Callable[[Row], T], folder: Path | None = None) -> Iterator[T]:
    """The items of a data set of JSON lines, one at a time. Raises as `checked_file` and `read_rows` do."""
    return read_rows(checked_file(name, folder), make)


def fields(row: Row, *names: str) -> tuple[str, ...]:
    """Fields that have to be strings. Raises KeyError or TypeError."""
    return tuple(text(row, name) for name in names)


def texts(row: Row, name: str) -> tuple[str, ...]:
    """A field that has to be a list of strings. Raises KeyError or TypeError."""
    value = row[name]
    if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
        raise TypeError(f"{name} is not a list of strings")
    return tuple(value)


def number(row: Row, name: str) -> int:
    """A field that has to be a whole number. Raises KeyError or TypeError."""
    value = row[name]
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"{name} is not a whole number")
    return value


def _remedy(entry: DataSet) -> str:
    if entry.url or entry.wheel[0]:
        return f"Get it with `lsp-calib data pull {entry.name}`."
    return f"It is a selection of {entry.origin} that comes with the evaluation data."
