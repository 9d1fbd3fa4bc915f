"""Records: generations as compact lines, from which calibrators are fitted without a model.

The first line of a file names the task and the model (`Header`); each other line is one generation, in the
order of the items. No source text and no times are kept, so that the same run gives the same bytes. This is
schema 2; models/records/README.md lists every field. Fields that came later are optional: a file without them
is written again as it was, to the last byte.

During a run FILE.journal holds a header and one line for each result, appended and synced in the order of
arrival. At the end FILE is written from it, completely or not at all, in the order of the items, so that its
bytes depend only on the questions and answers. Times, and hashes of what was asked, go to FILE.timing.jsonl.
"""

from __future__ import annotations

import contextlib
import errno
import json
import math
import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, Self

import attrs
import msgspec
from filelock import FileLock, Timeout

from lsp_calib import __version__
from lsp_calib.calibration.calibrators.purpose import Origin
from lsp_calib.confidence import features
from lsp_calib.confidence.features import SUMMARY_VERSION, summary_features
from lsp_calib.corpus.places import INSERTING, Plain, grouped
from lsp_calib.errors import DataError
from lsp_calib.files import open_file, read_file, replace_file, sync_folder
from lsp_calib.json_text import converted, parse_json
from lsp_calib.values import Evidence, ModelIdentity, Stop

SCHEMA = 2


@attrs.frozen
class FeatureList:
    """The text features that the records of a file hold, in this order.

    version: the `confidence.features.VERSION` that they were computed with.
    """

    version: int
    names: tuple[str, ...]

    @classmethod
    def present(cls) -> Self:
        """The text features of this version of the package."""
        text = (name for name, feature in features.FEATURES.items() if feature.needs == "text")
        return cls(features.VERSION, tuple(text))

    def ordered(self, values: Mapping[str, float]) -> tuple[float | None, ...]:
        """The values in the order of the names, None for a missing one."""
        return tuple(values.get(name) for name in self.names)

    def named(self, values: Sequence[float | None]) -> dict[str, float]:
        """The inverse of `ordered`. Empty if the names are of another version: numbers of two versions are
        never mixed."""
        if self.version != features.VERSION or not values:
            return {}
        return {name: value for name, value in zip(self.names, values, strict=True) if value is not None}


@attrs.frozen
class SimilarityList:
    """The similarities that the records of a file hold, in this order.

    version: the `thresholds.VERSION` that they were computed with. encoder, sha256: the name of
    the encoder's card, and the checksum of its network.
    """

    version: int
    encoder: str
    sha256: str
    names: tuple[str, ...]

    def named(self, values: Sequence[float]) -> dict[str, float]:
        """The values by name; empty if there are none."""
        return dict(zip(self.names, values, strict=True)) if values else {}


@attrs.frozen
class ObservationList:
    """What the records of a file may hold besides what every record holds.

    version: that of what was observed, as `SUMMARY_VERSION`. names: (observation, names of its numbers in
    their order) for each.
    """

    version: int
    names: tuple[tuple[str, tuple[str, ...]], ...]

    def named(self, observed: Mapping[str, Sequence[float | None]]) -> dict[str, float]:
        """The numbers of a record by "OBSERVATION.NAME"; those that could not be had are missing."""
        return {
            f"{observation}.{name}": value
            for observation, names in self.names
            for name, value in zip(names, observed.get(observation, (None,) * len(names)), strict=True)
            if value is not None
        }


@attrs.frozen
class Header:
    """The header of a file of records: how its records were made.

    sources: the sampled sources; by default the projects that the records come from.
    held_out: projects (or other groups) that are excluded from fitting.
    created: ISO date of the first generation, "" if unknown.
    package: the version of this package that made the records, "" if unknown.
    features: the text features in the records, None if they hold none.
    similarity: the similarities in the records, None if they hold none.
    observations: what is observed of answers, None if nothing is.
    task_version: the task with the version of its definition, such as "spiess-line@1"; "" if unknown.
    prompt_sha256: of the text of the prompt for a study's first item; "" if unknown.
    """

    task: str
    language: str
    model: ModelIdentity
    prompt_version: str
    seed: int
    sources: tuple[Origin, ...] = ()
    held_out: tuple[str, ...] = ()
    created: str = ""
    package: str = __version__
    features: FeatureList | None = None
    similarity: SimilarityList | None = None
    observations: ObservationList | None = None
    task_version: str = ""
    prompt_sha256: str = ""

    def asks_the_same_as(self, other: Header) -> bool:
        """Whether generations under both headers may be in one file. Records that lack features, observations
        or the task's version may be with others, but those of two versions may not."""
        return self.question == other.question and all(
            one == two or not one or not two
            for one, two in ((getattr(self, name), getattr(other, name)) for name in _LATER)
        )

    @property
    def question(self) -> dict[str, object]:
        """What is the same in all files of one run, by name."""
        return {
            "task": self.task,
            "language": self.language,
            "model": self.model,
            "prompt": self.prompt_version,
            "seed": self.seed,
            "similarity": self.similarity,
        }

    def to_line(self) -> str:
        row = {"schema": SCHEMA, **attrs.asdict(self)}
        for optional in ("similarity", *_LATER, "prompt_sha256"):
            if not row[optional]:
                del row[optional]
        return json_line(row)

    @classmethod
    def from_row(cls, row: Mapping[str, Any]) -> Self:
        """Raises KeyError, TypeError, ValueError or AttributeError for a row that is not a header."""
        values = dict(row)
        if (schema := values.pop("schema")) != SCHEMA:
            raise ValueError(f"its schema is {schema!r}; this version reads {SCHEMA}")
        values["model"] = ModelIdentity(**values["model"])  # which refuses what it does not know
        values["sources"] = tuple(Origin(**one) for one in values.get("sources", ()))
        values["held_out"] = tuple(values.get("held_out", ()))
        kinds = {"features": FeatureList, "similarity": SimilarityList, "observations": ObservationList}
        try:
            values |= {name: converted(values[name], kind) for name, kind in kinds.items() if name in values}
        except msgspec.ValidationError as error:
            raise ValueError(f"a list of names cannot be read: {error}") from error
        return cls(**values)


# What came with later versions, so that a file may lack it.
_LATER = ("features", "observations", "task_version")


def json_line(row: Mapping[str, Any]) -> str:
    """A row as it stands in a file."""
    return json.dumps(row, separators=(",", ":"), allow_nan=False)


# A file holds integers: log-probabilities in 1e-5 nat, entropies in 1e-3 nat, features and similarities in
# 1e-4.
_NAT = 100_000
_ENTROPY = 1_000
_FEATURE = 10_000
# The lowest log-probability; it stands for minus infinity, which JSON cannot represent.
_LEAST = -10_000.0


@attrs.frozen
class Record:
    """One generation.

    group: records of one group stay together in cross-validation. stratum: the kind of place.
    correct: the verdict by name of the criterion. shown: whether an editor would have been offered it.
    stop: a `Stop`'s value. tokens: ids of the answer's tokens, including the one that ended it.
    logprobs: of the tokens, natural logarithms under the unmodified softmax. typed_logprobs: as in `Token`.
    entropies: of the softmax, in nats; empty if unknown.
    prompt: hash of the prompt, "" if unknown.
    doubt: whether the probabilities are missing or unreliable; then the lists of them are empty.
    added: the characters that the first token adds to the text; None if unknown or if nothing was typed that
        it could begin with. The text can only be made again from the tokens if that is known.
    features: the text features in the order of `Header.features`, None where one cannot be had; empty if they
        were not computed. features_above: the same if everything below the cursor's line is left out.
    condition, source: as in `LineItem`.
    similarity: to what a person wrote, in the order of `Header.similarity`; empty if there is no answer.
    characters, reference_characters: of the answer's text and of the right answer; None if unknown.
    repeats_bug: of a repair, whether it is the buggy line again. judged_tokens: of a summary, how many of the
        first tokens make the sentence that was judged; None: all, the one that ended it included.
    observed: of a summary, by observation, its numbers in the order of `Header.observations`, None for one
        that cannot be had. costs: of the answer ("summary") and of each observation that asked the model:
        tokens evaluated, tokens found in its cache, tokens generated.
    """

    item: str
    group: str
    stratum: str
    correct: Mapping[str, bool]
    shown: bool
    stop: str
    tokens: tuple[int, ...]
    logprobs: tuple[float, ...]
    typed_logprobs: tuple[float, ...]
    entropies: tuple[float, ...] = ()
    prompt: str = ""
    doubt: bool = False
    added: int | None = None
    features: tuple[float | None, ...] = ()
    features_above: tuple[float | None, ...] = ()
    condition: str = INSERTING
    source: str = ""
    similarity: tuple[float, ...] = ()
    observed: Mapping[str, tuple[float | None, ...]] = attrs.field(factory=dict)
    costs: Mapping[str, tuple[int, int, int]] = attrs.field(factory=dict)
    characters: int | None = None
    reference_characters: int | None = None
    repeats_bug: bool | None = None
    judged_tokens: int | None = None

    def evidence(self, header: Header, *, above: bool = False) -> Evidence:
        """What a calibrator needs of it. header: of its file. above: nothing of the text below was used.

        The features of the probabilities follow from the tokens; those of the text are left out if the file
        has none, or those of another version.
        """
        if self.doubt:
            return Evidence()
        logprobs = self.logprobs_given_typed
        of_tokens = logprobs, self.entropies or None, Stop(self.stop)
        if header.task == "summary":
            texts, fit = (self._listed(header, name) for name in ("text", "encoder"))
            return Evidence(logprobs, summary_features(*of_tokens, texts, fit))
        values = features.probability_features(*of_tokens)
        if header.features is not None:
            values |= header.features.named(self.features_above if above else self.features)
        return Evidence(logprobs, values, self.stratum if self.stratum in features.PLACES else "")

    def _listed(self, header: Header, observation: str) -> dict[str, float]:
        """What an observation of a summary says, by name; nothing if it was another version."""
        listed = header.observations
        if listed is None or listed.version != SUMMARY_VERSION:
            return {}
        names = dict(listed.names).get(observation, ())
        values = self.observed.get(observation, (None,) * len(names))
        return {name: value for name, value in zip(names, values, strict=True) if value is not None}

    @property
    def logprobs_given_typed(self) -> tuple[float, ...]:
        """As in `Generation.logprobs`: given the characters already typed."""
        return tuple(
            min(logprob - typed, 0.0)
            for logprob, typed in zip(self.logprobs, self.typed_logprobs, strict=True)
        )

    def to_row(self) -> dict[str, Any]:
        """JSON types. Values that follow from other fields are left out.

        Raises DataError for NaN; a record without valid probabilities must have `doubt` set.
        """
        typed = _whole(self.typed_logprobs, -_NAT)
        while typed and typed[-1] == 0:
            typed.pop()
        with_below, above = _scaled(self.features), _scaled(self.features_above)
        row = {
            "item": self.item,
            "group": self.group if self.group != _first_part(self.item) else None,
            "stratum": self.stratum,
            "correct": dict(self.correct),
            "shown": self.shown,
            "stop": self.stop,
            "prompt": self.prompt or None,
            "tokens": list(self.tokens),
            "surprisal": _whole(self.logprobs, -_NAT),
            "typed": typed or None,
            "entropy": _whole(self.entropies, _ENTROPY) or None,
            "doubt": self.doubt or None,
            "condition": self.condition if self.condition != INSERTING else None,
            "source": self.source or None,
            "added": self.added,
            "characters": self.characters,
            "referenceCharacters": self.reference_characters,
            "repeatsBug": self.repeats_bug,
            "judgedTokens": self.judged_tokens,
            "similarity": _scaled(self.similarity) or None,
            "observed": {name: _scaled(values) for name, values in self.observed.items()} or None,
            "costs": {name: list(cost) for name, cost in self.costs.items()} or None,
            "features": with_below or None,
            "features_above": above if above != with_below else None,
        }
        return {name: value for name, value in row.items() if value is not None}

    def to_line(self) -> str:
        return json_line(self.to_row())

    @classmethod
    def from_row(cls, row: Mapping[str, Any]) -> Self:
        """Raises KeyError, TypeError, ValueError or AttributeError for a row that is not a record."""
        values = {_ATTRIBUTES.get(name, name): value for name, value in row.items()}
        values.setdefault("group", _first_part(values["item"]))
        tokens, correct = tuple(values.pop("tokens")), dict(values.pop("correct"))
        logprobs = [_logprob(value) for value in values.pop("surprisal")]
        typed = [_logprob(value) for value in values.pop("typed", ())]
        typed += [0.0] * (len(logprobs) - len(typed))
        if len(typed) != len(logprobs) or len(logprobs) not in (len(tokens), 0):
            raise ValueError(f"the record of {values['item']!r} has lists of different lengths")
        with_below = values.pop("features", ())
        return cls(
            tokens=tokens,
            correct=correct,
            logprobs=tuple(logprobs),
            typed_logprobs=tuple(typed),
            entropies=tuple(value / _ENTROPY for value in values.pop("entropy", ())),
            features=_unscaled(with_below),
            features_above=_unscaled(values.pop("features_above", with_below)),
            similarity=tuple(value / _FEATURE for value in values.pop("similarity", ())),
            observed={name: _unscaled(numbers) for name, numbers in values.pop("observed", {}).items()},
            costs={name: (cost[0], cost[1], cost[2]) for name, cost in values.pop("costs", {}).items()},
            **values,
        )


# Where names in a row are others than those of the attributes.
_ATTRIBUTES = {
    "referenceCharacters": "reference_characters",
    "repeatsBug": "repeats_bug",
    "judgedTokens": "judged_tokens",
}


def read_records(path: Path) -> tuple[Header, list[Record]]:
    """Header and records of a file. An incomplete last line is left out.

    Raises DataError if it is not a file of records, or a line is damaged.
    """
    try:
        lines = read_file(path).decode("utf-8").split("\n")
        header = Header.from_row(parse_json(lines[0]))
        records = [Record.from_row(parse_json(line)) for line in lines[1:-1]]
        listed = dict(header.observations.names) if header.observations is not None else {}
        for record in records:
            for what, values, of in (
                ("features", record.features, header.features),
                ("features", record.features_above, header.features),
                ("similarities", record.similarity, header.similarity),
            ):
                if values and len(values) != (0 if of is None else len(of.names)):
                    raise ValueError(f"the record of {record.item!r} has other {what} than the header says")
            if any(len(values) != len(listed.get(name, ())) for name, values in record.observed.items()):
                raise ValueError(f"the record of {record.item!r} has other observations than the header says")
        return header, records
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror or error}.") from error
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        why = f"a line lacks {error}" if isinstance(error, KeyError) else error
        raise DataError(
            f"{path} is not a file of records that this version can read: {why}. Name another file."
        ) from error


def check_header(path: Path, header: Header, task: str | None, language: str | None) -> None:
    """Raises DataError if records are of another task or language than these, as far as they are said."""
    for what, wanted, found in (("task", task, header.task), ("language", language, header.language)):
        if wanted is not None and wanted != found:
            raise DataError(
                f"{path} holds records of the {what} {found!r}, not of {wanted!r}: the {what} of records is "
                "that of the run that made them. Leave the option out, or name other records."
            )


def write_records(path: Path, header: Header, records: Iterable[Record]) -> None:
    """Replace `path` completely or not at all. Raises DataError if it cannot be written."""
    lines = [header.to_line(), *(record.to_line() for record in records)]
    replace_file(path, "".join(line + "\n" for line in lines))


def sources_of(records: Sequence[Record]) -> tuple[Origin, ...]:
    """Name and version of the projects that records come from, whose folders are named such as
    `click-8.1.7`, with the number of records."""
    found = []
    for group, count in sorted(Counter(record.group for record in records).items()):
        stem, _, version = group.rpartition("-")
        named = (stem, version) if stem and version[:1].isdigit() else (group, "")
        found.append(Origin(*named, count))
    return tuple(found)


def _scaled(values: Sequence[float | None]) -> list[int | None]:
    """In 1e-4. Raises DataError for NaN and the infinities, which no feature is."""
    if not all(value is None or math.isfinite(value) for value in values):
        raise DataError(f"A feature is not a finite number: {list(values)}.")
    return [None if value is None else round(_FEATURE * value) for value in values]


def _unscaled(values: Sequence[int | None]) -> tuple[float | None, ...]:
    return tuple(None if value is None else value / _FEATURE for value in values)


def groups_of(records: Iterable[Record]) -> list[str]:
    """The group of each record: its project, or its file if there are fewer than three projects."""
    return grouped([(record.item, record.group) for record in records])


def _first_part(item: str) -> str:
    return item.partition("/")[0]


def _whole(values: Sequence[float], unit: int) -> list[int]:
    if any(math.isnan(value) for value in values):
        raise DataError(
            "A probability is not a number (NaN). A record without valid probabilities must have a `doubt`."
        )
    return [max(round(unit * max(value, _LEAST)), 0) for value in values]


def _logprob(value: int) -> float:
    # Dividing an integer by a power of ten gives the same double as parsing the decimal.
    return -value / _NAT if value else 0.0


# What a row holds beside the record and its times: the hash of the question.
_ASKED = "asked"
_BEGINNING = b'{"header":{"schema":'


class Journal:
    """The results of one run, and of the earlier runs that it continues.

    done: the records so far, by item. keeps_held_out: what the file holds out stays held out: nobody named
    others. If the process is killed, only calls of `add` in progress are lost.
    Raises DataError if the file or its journal was begun for another model, prompt or seed, is in use by
    another run, or cannot be written; then nothing is changed.
    """

    def __init__(self, path: Path, header: Header, *, keeps_held_out: bool = False) -> None:
        self.path = path
        self.header = header
        self._keeps_held_out = keeps_held_out
        self.done: dict[str, Record] = {}
        # Of each answer its times, and the hash of its question if that is known.
        self._notes: dict[str, Plain] = {}
        self._journal = journal_path(path)
        self._file: IO[bytes] | None = None
        # The length of the journal's whole lines: a crash may have cut off the last one.
        self._whole = 0
        try:
            if not path.parent.is_dir():  # filelock would make it
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
            self._lock = FileLock(f"{self._journal}.lock", mode=0o600, thread_local=False)
            self._lock.acquire(blocking=False)
            self._take_over()
        except Timeout:
            raise DataError(
                f"{self._journal} is in use by another run. Wait for it, or name another file."
            ) from None
        except OSError as error:
            raise DataError(f"{path} cannot be written: {error.strerror or error}.") from error

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def asked(self, item: str) -> str | None:
        """The hash of its question that was given with an item's answer; None if none was."""
        found: str | None = self._notes.get(item, {}).get(_ASKED)
        return found

    def add(self, result: Plain, asked: str = "") -> None:
        """Keep a result, as `item_worker.Asking` returns it; it is on disk when this returns. asked: a hash
        of the question."""
        row = {**result, **({_ASKED: asked} if asked else {})}
        self._append(row)
        self._keep(row)

    def forget(self, items: Iterable[str]) -> None:
        """Ask for these again. Their answers stay on disk until others have come."""
        for item in items:
            del self.done[item]
            self._notes.pop(item, None)

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
        items = (record.item for record in records if record.item in self._notes)
        rows = (json_line({"item": item, **self._notes[item]}) for item in items)
        replace_file(self._timing_path, "".join(row + "\n" for row in rows))
        write_records(self.path, header, records)
        # The file now holds everything that is in the journal, which goes while it is locked.
        self._close_file()
        self._journal.unlink(missing_ok=True)
        self.close()
        return records[: len(order)]

    def close(self) -> None:
        self._close_file()
        if self._lock.is_locked:
            with contextlib.suppress(OSError):  # Windows removes no file that is open
                Path(self._lock.lock_file).unlink()
            self._lock.release()

    def _close_file(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    @property
    def _timing_path(self) -> Path:
        return self.path.with_name(self.path.name + ".timing.jsonl")

    def _take_over(self) -> None:
        """Read the file and the journal of earlier runs, as far as they exist."""
        try:
            if self.path.exists():
                found, records = read_records(self.path)
                self._check(found, self.path)
                self.done |= {record.item: record for record in records}
                rows = _rows(read_file(self._timing_path)) if self._timing_path.exists() else []
                for row in rows:
                    item = row.pop("item")
                    # The times may be those of another file of this name.
                    if item in self.done:
                        self._notes[item] = row
            if self._journal.exists():
                self._read(read_file(self._journal))
        except BaseException:
            self.close()
            raise

    def _read(self, content: bytes) -> None:
        """Take over the whole lines of a journal."""
        self._whole = content.rfind(b"\n") + 1
        try:
            if not self._whole and not _BEGINNING.startswith(content[: len(_BEGINNING)]):
                raise ValueError("it does not begin as a journal does")
            for at, row in enumerate(_rows(content)):
                if at:
                    self._keep(row)
                else:
                    self._check(Header.from_row(row["header"]), self._journal)
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise DataError(
                f"{self._journal} is not the journal of a run, or is damaged: {error}. "
                "Move it away to begin again, or name another file of records."
            ) from error

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
            **{
                name: getattr(self.header, name) or getattr(found, name)
                for name in (*_LATER, "prompt_sha256")
            },
        )

    def _keep(self, row: Plain) -> None:
        record = Record.from_row(row["record"])
        self.done[record.item] = record
        asked = {_ASKED: row[_ASKED]} if _ASKED in row else {}
        self._notes[record.item] = {**asked, **row["timing"]}

    def _append(self, row: Plain) -> None:
        try:
            if self._file is None:
                flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
                self._file = os.fdopen(open_file(self._journal, flags), "ab")
                self._file.truncate(self._whole)
                if not self._whole:
                    self._file.write(f"{json_line({'header': json.loads(self.header.to_line())})}\n".encode())
                    sync_folder(self._journal.parent)
            self._file.write(f"{json_line(row)}\n".encode())
            self._file.flush()
            os.fsync(self._file.fileno())
        except OSError as error:
            raise DataError(
                f"{self._journal} cannot be written: {error.strerror or error}. "
                "Its answers are kept: make room and run the same command again."
            ) from error


def journal_path(path: Path) -> Path:
    return path.with_name(path.name + ".journal")


def _rows(content: bytes) -> list[Any]:
    """Of the whole lines."""
    return [parse_json(line) for line in content.split(b"\n")[:-1]]


def difference(found: Header, wanted: Header) -> str:
    """What differs between a file and a run that does not ask the same, on both sides. As sentences."""
    asked = wanted.question
    pairs = {name: (there, asked[name]) for name, there in found.question.items()}
    both = {name.replace("_", " "): (getattr(found, name), getattr(wanted, name)) for name in _LATER}
    pairs |= {name: (there, here) for name, (there, here) in both.items() if there and here}
    told = (
        f"{name}: {_said(one)} there, {_said(two)} now" for name, (one, two) in pairs.items() if one != two
    )
    return f"{'; '.join(told)}. Give that run's options to go on with it, or name another folder or file."


def _said(value: object) -> str:
    """A value of a header in words."""
    match value:
        case ModelIdentity():
            return f"{value.name} {value.quantisation} ({value.sha256[:16] or 'no checksum'})"
        case SimilarityList():
            return f"{value.encoder}, version {value.version}"
        case FeatureList() | ObservationList():
            return f"of version {value.version}"
    return str(value)
