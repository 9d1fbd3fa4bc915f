"""Writes each result to disk at once, and at the end a file of records in the order of the items.

During a run FILE.journal holds a header and one line for each result, appended and synced in the order of
arrival. At the end FILE is written from it, completely or not at all, in the order of the items, so that its
bytes depend only on the questions and answers. Times, and hashes of what was asked, go to FILE.timing.jsonl.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, Self

import attrs
from filelock import FileLock, Timeout

from lsp_calib.completion.prompt import SIZES
from lsp_calib.corpus.header import Header, json_line
from lsp_calib.corpus.records import Record, read_records, sources_of, write_records
from lsp_calib.errors import DataError
from lsp_calib.files import open_file, read_file, replace_file, sync_folder
from lsp_calib.inference.models.cards import load_cards
from lsp_calib.json_text import parse_json
from lsp_calib.summarization.prompt import AUGMENTED
from lsp_calib.summarization.prompt import VERSION as PLAIN

Timings = Mapping[str, float]

# What a row holds beside the record and its times: the hash of the question.
_ASKED = "asked"
_BEGINNING = b'{"header":{"schema":'


class Journal:
    """The results of one run, and of the earlier runs that it continues.

    done: the records so far, by item. asked: the hashes that `add` was given with them; an item of which no
    hash is known is missing. keeps_held_out: what the file holds out stays held out: nobody named others. If
    the process is killed, only calls of `add` in progress are lost.
    Raises DataError if the file or its journal was begun for another model, prompt or seed, is in use by
    another run, or cannot be written; then nothing is changed.
    """

    def __init__(self, path: Path, header: Header, *, keeps_held_out: bool = False) -> None:
        self.path = path
        self.header = header
        self._keeps_held_out = keeps_held_out
        self.done: dict[str, Record] = {}
        self.asked: dict[str, str] = {}
        self._timings: dict[str, dict[str, float]] = {}
        self._file: IO[bytes] | None = None
        self._is_new = False
        try:
            self._open()
        except OSError as error:
            raise DataError(f"{path} cannot be written: {error.strerror or error}.") from error

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def add(self, record: Record, timings: Timings, asked: str = "") -> None:
        """Keep a result; it is on disk when this returns. asked: a hash of the question."""
        row = {"record": record.to_row(), "timing": dict(timings), **({_ASKED: asked} if asked else {})}
        self._append(row)
        # Keep the row as it will be read back: numbers in a line are rounded.
        self._keep(row)

    def forget(self, items: Iterable[str]) -> None:
        """Ask for these again. Their answers stay on disk until others have come."""
        for item in items:
            for kept in (self.done, self.asked, self._timings):
                kept.pop(item, None)

    def finish(self, order: Sequence[str]) -> list[Record]:
        """Write the file and its times; returns the records of the items in `order`.

        In the file, records of other items (from an earlier, larger run) follow them.
        """
        # `feedback purge` removes unfinished calibrations, also of a command that is still running.
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        wanted = set(order)
        rest = [item for item in self.done if item not in wanted]
        records = [self.done[item] for item in (*order, *rest)]
        header = attrs.evolve(self.header, sources=self.header.sources or sources_of(records))
        rows = (self._notes(record.item) for record in records if record.item in self._timings)
        replace_file(self._timing_path, "".join(json_line(row) + "\n" for row in rows))
        write_records(self.path, header, records)
        # The file now holds everything that is in the journal.
        self._remove()
        return records[: len(order)]

    def leave_as_found(self) -> None:
        """Give the run up before anything was added: a journal that was not there before is removed."""
        if self._is_new:
            self._is_new = False
            self._remove()
        self.close()

    def _remove(self) -> None:
        """Close and remove the journal, while it is locked, so that no run is using it."""
        if self._file is not None:
            self._file.close()
            self._file = None
        journal_path(self.path).unlink(missing_ok=True)
        self.close()

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None
        if self._lock.is_locked:
            with contextlib.suppress(OSError):  # Windows removes no file that is open
                Path(self._lock.lock_file).unlink()
            self._lock.release()

    @property
    def _timing_path(self) -> Path:
        return self.path.with_name(self.path.name + ".timing.jsonl")

    def _notes(self, item: str) -> dict[str, Any]:
        """What is kept of an answer beside its record."""
        asked = {_ASKED: self.asked[item]} if item in self.asked else {}
        return {"item": item, **asked, **self._timings[item]}

    def _take_over(self, path: Path) -> None:
        """Take over the file of a finished run, and its times and hashes as far as they exist."""
        found, records = read_records(path)
        self._check(found, path)
        self.done |= {record.item: record for record in records}
        if self._timing_path.exists():
            for row in _rows(read_file(self._timing_path)):
                item = row.pop("item")
                # The times may be those of another file of this name.
                if item in self.done:
                    self._note(item, row.pop(_ASKED, ""), row)

    def _open(self) -> None:
        path = journal_path(self.path)
        if not path.parent.is_dir():  # filelock would make it
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
        self._lock = FileLock(f"{path}.lock", mode=0o600, thread_local=False)
        try:
            self._lock.acquire(blocking=False)
        except Timeout:
            raise DataError(f"{path} is in use by another run. Wait for it, or name another file.") from None
        new = not path.exists()
        content = b""
        try:
            self._file = os.fdopen(open_file(path, os.O_RDWR | os.O_CREAT | os.O_APPEND), "ab+")
            self._file.seek(0)
            content = self._file.read()
            # Not before: a run that ends meanwhile replaces it.
            if self.path.exists():
                self._take_over(self.path)
            whole = content[: content.rfind(b"\n") + 1]
            try:
                first, *rows = _rows(whole) or [None]
                if first is None:
                    if not _BEGINNING.startswith(content[: len(_BEGINNING)]):
                        raise ValueError("it does not begin as a journal does")
                    # A crash may have cut off the first line; then beginning again loses nothing.
                    self._file.truncate(0)
                    self._append({"header": json.loads(self.header.to_line())})
                else:
                    self._check(Header.from_row(first["header"]), path)
                    for row in rows:
                        self._keep(row)
                    self._file.truncate(len(whole))
            except (ValueError, TypeError, KeyError, AttributeError) as error:
                raise DataError(
                    f"{path} is not the journal of a run, or is damaged: {error}. "
                    "Move it away to begin again, or name another file of records."
                ) from error
            if new:
                sync_folder(path.parent)
            self._is_new = new
        except BaseException:
            if new and not content:
                self._remove()
            self.close()
            raise

    def _check(self, found: Header, path: Path) -> None:
        if not found.asks_the_same_as(self.header):
            raise DataError(f"{path} holds answers of another run: {difference(found, self.header)}")
        # `created` and `package` are those of the first record. Groups that were held out stay held out
        # where nothing is said of it: a forgotten option must not include them in a fit.
        self.header = attrs.evolve(
            self.header,
            created=found.created,
            package=found.package,
            held_out=found.held_out if self._keeps_held_out else self.header.held_out,
            features=self.header.features or found.features,
            observations=self.header.observations or found.observations,
        )

    def _keep(self, row: dict[str, Any]) -> None:
        record = Record.from_row(row["record"])
        self.done[record.item] = record
        self._note(record.item, row.get(_ASKED, ""), dict(row["timing"]))

    def _note(self, item: str, asked: str, timings: dict[str, float]) -> None:
        self._timings[item] = timings
        # An answer of an earlier version replaces one of which more was known.
        self.asked.pop(item, None)
        if asked:
            self.asked[item] = asked

    def _append(self, row: Mapping[str, Any]) -> None:
        assert self._file is not None, "nothing is added after the end"
        try:
            self._file.write(f"{json_line(row)}\n".encode())
            self._file.flush()
            os.fsync(self._file.fileno())
        except OSError as error:
            raise DataError(
                f"{journal_path(self.path)} cannot be written: {error.strerror or error}. "
                "Its answers are kept: make room and run the same command again."
            ) from error


def journal_path(path: Path) -> Path:
    return path.with_name(path.name + ".journal")


def _rows(content: bytes) -> list[Any]:
    """Of the whole lines."""
    return [parse_json(line) for line in content.split(b"\n")[:-1]]


_ELSEWHERE = "name another folder or file for this run"
_AUGMENT = {AUGMENTED: "use `eval summary` with --augment", PLAIN: "leave --augment out"}


def difference(found: Header, wanted: Header) -> str:
    """What differs, on both sides, and the options that go on with what is there. As sentences.

    found: of the file. wanted: of the run, which does not ask the same.
    """
    all_ = list(_differences(found, wanted))
    told = "; ".join(f"{what}: {there} there, {here} now" for what, there, here, _ in all_)
    remedies = [remedy for *_, remedy in all_]
    if not all(remedies):
        return f"{told}. No option makes this run as that one was: {_ELSEWHERE}."
    return f"{told}. To go on with them, {' and '.join(remedies)}; otherwise {_ELSEWHERE}."


_Difference = tuple[str, str, str, str]
"""What is one thing there and another one here, and the option to have it as there, "" if there is none."""


def _differences(found: Header, wanted: Header) -> Iterator[_Difference]:
    """The differences for which `Header.asks_the_same_as` tells the two apart."""
    for name in ("task", "language"):
        there, here = getattr(found, name), getattr(wanted, name)
        if there != here:
            # Another task is another command or another file, not only another option.
            yield name, there, here, f"add --{name} {there}" if name == "language" else ""
    model, other = found.model, wanted.model
    if model.name != other.name:
        # A file of one's own, and a server's model, are named otherwise.
        remedy = f"add --model {model.name}" if model.name in load_cards() else ""
        yield "model", model.name, other.name, remedy
    elif model != other:
        pair = [f"{one.quantisation} ({one.sha256[:16] or 'no checksum'})" for one in (model, other)]
        yield f"the file of {model.name}", pair[0], pair[1], ""
    if found.task == wanted.task:
        yield from _of_prompt(found, wanted)
    if found.seed != wanted.seed:
        yield "seed", str(found.seed), str(wanted.seed), f"add --seed {found.seed}"
    if found.similarity != wanted.similarity:
        pair = [one.encoder if one is not None else "none" for one in (found.similarity, wanted.similarity)]
        yield "similarities, by encoder", pair[0], pair[1], ""
    for name in ("features", "observations"):
        lists = getattr(found, name), getattr(wanted, name)
        if None not in lists and lists[0] != lists[1]:
            yield name, f"of version {lists[0].version}", f"of version {lists[1].version}", ""


def _of_prompt(found: Header, wanted: Header) -> Iterator[_Difference]:
    there, here = found.prompt_version, wanted.prompt_version
    sizes = SIZES.get(there), SIZES.get(here)
    if sizes[0] is not None and sizes[1] is not None and sizes[0] is not sizes[1]:
        yield "window", sizes[0].value, sizes[1].value, f"add --window {sizes[0].value}"
    # Of another model the prompt of a line is another one, whatever the window.
    elif there != here and (None in sizes or found.model == wanted.model):
        yield "prompt", there, here, _AUGMENT[there] if {there, here} == {PLAIN, AUGMENTED} else ""
