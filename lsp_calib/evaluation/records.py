"""Generations kept as compact lines, so that calibrators are fitted again without a model.

The first line of a file says what was asked of which model; each other line is one generation. No source
text is kept. A file is appended to, and resumed where it ends.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, Self

import attrs

from lsp_calib.errors import DataError
from lsp_calib.values import ModelIdentity

SCHEMA = 1


@attrs.frozen
class Header:
    """What a file of records holds. sources: what was sampled, as {"name", "version", "items"} objects."""

    task: str
    language: str
    model: ModelIdentity
    prompt_version: str
    seed: int

    def to_json(self) -> dict[str, Any]:
        return {"schema": SCHEMA, **attrs.asdict(self)}


@attrs.frozen
class Record:
    """One generation.

    logprobs: of the tokens that carry the answer, under the unmodified softmax. typed_logprob: that of all
    tokens that agreed with what was typed, where the first of them was chosen. ms: time the model took.
    """

    item: str
    group: str
    stratum: str
    correct: bool
    shown: bool
    stop: str
    tokens: tuple[int, ...]
    logprobs: tuple[float, ...]
    typed_logprob: float
    ms: float

    @property
    def logprobs_given_typed(self) -> tuple[float, ...]:
        """As `Generation.logprobs` has them: given the characters already typed."""
        first, *rest = self.logprobs
        return (min(first - self.typed_logprob, 0.0), *rest)

    def to_line(self) -> str:
        row = attrs.asdict(self)
        row["logprobs"] = [round(value, 5) for value in self.logprobs]
        row["typed_logprob"] = round(self.typed_logprob, 5)
        row["ms"] = round(self.ms)
        return json.dumps(row, separators=(",", ":"))

    @classmethod
    def from_row(cls, row: dict[str, Any]) -> Self:
        return cls(**{**row, "tokens": tuple(row["tokens"]), "logprobs": tuple(row["logprobs"])})


def read_records(path: Path) -> tuple[dict[str, Any], list[Record]]:
    """Header and records of a file. A last line cut short by a crash is left out.

    Raises DataError if the file is not one of records, or a line before the last is damaged.
    """
    try:
        lines = path.read_text("utf-8").split("\n")
        header = json.loads(lines[0])
        if header.get("schema") != SCHEMA:
            raise DataError(f"{path} has schema {header.get('schema')!r}; this version reads {SCHEMA}.")
        # The text after the last newline was not written whole.
        records = [Record.from_row(json.loads(line)) for line in lines[1:-1]]
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise DataError(f"{path} is not a file of records: {error}.") from error
    return header, records


class RecordWriter:
    """Appends records to a file and resumes it: `done` holds the items it has already.

    Raises DataError if the file was begun for another model, prompt or seed, or cannot be written.
    """

    def __init__(self, path: Path, header: Header) -> None:
        self.done: dict[str, Record] = {}
        try:
            self._open(path, header)
        except OSError as error:
            raise DataError(f"{path} cannot be written: {error.strerror or error}.") from error

    def _open(self, path: Path, header: Header) -> None:
        first_line = json.dumps(header.to_json(), separators=(",", ":")) + "\n"
        # A crash may have cut the first line short: then nothing is lost by beginning again.
        if path.exists() and not first_line.startswith(path.read_bytes().decode("utf-8", "replace")):
            found, records = read_records(path)
            if found != header.to_json():
                raise DataError(f"{path} holds records of something else. Name another file, or remove it.")
            self.done = {record.item: record for record in records}
            self._file = path.open("r+", encoding="utf-8")
            text = self._file.read()
            self._file.seek(len(text[: text.rfind("\n") + 1].encode()))
            self._file.truncate()
        else:
            self._file = path.open("w", encoding="utf-8")
            self._write(first_line)

    def add(self, record: Record) -> None:
        """Keep a record; on disk when this returns."""
        line = record.to_line()
        self._write(line + "\n")
        # What is read back is what counts: a line holds its numbers rounded.
        self.done[record.item] = Record.from_row(json.loads(line))

    def close(self) -> None:
        self._file.close()

    def _write(self, text: str) -> None:
        self._file.write(text)
        self._file.flush()
        os.fsync(self._file.fileno())
