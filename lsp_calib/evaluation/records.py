"""Records: generations as compact lines, from which calibrators are fitted without a model.

The first line of a file names the task and the model; each other line is one generation, in the order of the
items. No source text and no times are kept, so that the same run gives the same bytes. This is schema 2;
docs/evaluation.md lists every field. Files of schema 1 can be read.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import attrs

from lsp_calib import __version__
from lsp_calib.calibration.calibrators.calibrator import Origin
from lsp_calib.errors import DataError
from lsp_calib.files import replace_file
from lsp_calib.values import ModelIdentity

SCHEMA = 2

# A file holds integers: log-probabilities in 1e-5 nat, entropies in 1e-3 nat.
_NAT = 100_000
_ENTROPY = 1_000
# The lowest log-probability; it stands for minus infinity, which JSON cannot represent.
_LEAST = -10_000.0


@attrs.frozen
class Header:
    """The header of a file of records: how its records were made.

    sources: the sampled sources; by default the projects that the records come from.
    held_out: projects (or other groups) that are excluded from fitting.
    created: ISO date of the first generation, "" if unknown.
    package: the version of this package that made the records, "" if unknown.
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

    def asks_the_same_as(self, other: Header) -> bool:
        """Whether generations under both headers may be in one file."""
        return self._question() == other._question()

    def _question(self) -> tuple[object, ...]:
        return self.task, self.language, self.model, self.prompt_version, self.seed

    def to_line(self) -> str:
        return _line({"schema": SCHEMA, **attrs.asdict(self)})

    @classmethod
    def from_row(cls, row: Mapping[str, Any]) -> Self:
        """Raises KeyError, TypeError, ValueError or AttributeError for a row that is not a header."""
        values = dict(row)
        schema = values.pop("schema")
        if schema not in (1, SCHEMA):
            raise ValueError(f"its schema is {schema!r}; this version reads 1 and {SCHEMA}")
        if schema == 1:
            values["package"] = ""
        values["model"] = ModelIdentity(**values["model"])
        values["sources"] = tuple(Origin(**origin) for origin in values.get("sources", ()))
        values["held_out"] = tuple(values.get("held_out", ()))
        return cls(**values)


@attrs.frozen
class Record:
    """One generation.

    group: records of one group stay together in cross-validation. stratum: the kind of place.
    correct: the verdict by name of the criterion. shown: whether an editor would have been offered it.
    stop: a `Stop`'s value. tokens: ids of the answer's tokens, including the one that ended it.
    logprobs: of the tokens, natural logarithms under the unmodified softmax. typed_logprobs: as in `Token`.
    entropies: of the softmax, in nats; empty if unknown.
    prompt: hash of the prompt, "" if unknown. seed: None if nothing was drawn at random.
    doubt: whether the probabilities are missing or unreliable; then the lists of them are empty.
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
    seed: int | None = None
    doubt: bool = False

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
        row: dict[str, Any] = {"item": self.item}
        if self.group != _first_part(self.item):
            row["group"] = self.group
        row |= {
            "stratum": self.stratum,
            "correct": dict(self.correct),
            "shown": self.shown,
            "stop": self.stop,
        }
        if self.prompt:
            row["prompt"] = self.prompt
        row |= {"tokens": list(self.tokens), "surprisal": _whole(self.logprobs, -_NAT)}
        typed = _whole(self.typed_logprobs, -_NAT)
        while typed and typed[-1] == 0:
            typed.pop()
        row |= {"typed": typed} if typed else {}
        row |= {"entropy": _whole(self.entropies, _ENTROPY)} if self.entropies else {}
        row |= {"seed": self.seed} if self.seed is not None else {}
        row |= {"doubt": True} if self.doubt else {}
        return row

    def to_line(self) -> str:
        return _line(self.to_row())

    @classmethod
    def from_row(cls, row: Mapping[str, Any], schema: int = SCHEMA) -> Self:
        """Raises KeyError, TypeError, ValueError or AttributeError for a row that is not a record."""
        values = dict(row)
        tokens = tuple(values.pop("tokens"))
        if schema == 1:
            values.pop("ms")
            first = float(values.pop("typed_logprob"))
            logprobs = tuple(values.pop("logprobs"))
            typed = (first,) + (0.0,) * (len(tokens) - 1) if tokens else ()
            values["correct"] = {"exact": values["correct"]}
        else:
            values.setdefault("group", _first_part(values["item"]))
            logprobs = tuple(_logprob(value) for value in values.pop("surprisal"))
            typed = tuple(_logprob(value) for value in values.pop("typed", ()))
            typed += (0.0,) * (len(logprobs) - len(typed))
            values["entropies"] = tuple(value / _ENTROPY for value in values.pop("entropy", ()))
            values["correct"] = dict(values["correct"])
        if len(typed) != len(logprobs) or len(logprobs) not in (len(tokens), 0):
            raise ValueError(f"the record of {values['item']!r} has lists of different lengths")
        return cls(**values, tokens=tokens, logprobs=logprobs, typed_logprobs=typed)


def read_records(path: Path) -> tuple[Header, list[Record]]:
    """Header and records of a file. An incomplete last line is left out.

    Raises DataError if it is not a file of records, or a line is damaged.
    """
    try:
        lines = path.read_text("utf-8").split("\n")
        first = json.loads(lines[0])
        header = Header.from_row(first)
        return header, [Record.from_row(json.loads(line), first["schema"]) for line in lines[1:-1]]
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror or error}.") from error
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise DataError(
            f"{path} is not a file of records that this version can read: {error}. Name another file."
        ) from error


def write_records(path: Path, header: Header, records: Iterable[Record]) -> None:
    """Replace `path` completely or not at all. Raises DataError if it cannot be written."""
    lines = [header.to_line(), *(record.to_line() for record in records)]
    replace_file(path, "".join(line + "\n" for line in lines))


def sources_of(records: Sequence[Record]) -> tuple[Origin, ...]:
    """Name and version of the projects that records come from, with the number of records."""
    counts: dict[str, int] = {}
    for record in records:
        counts[record.group] = counts.get(record.group, 0) + 1
    return tuple(origin(group, count) for group, count in sorted(counts.items()))


def origin(group: str, count: int) -> Origin:
    """Name and version of a project in a folder such as `click-8.1.7`."""
    stem, _, version = group.rpartition("-")
    return Origin(stem, version, count) if stem and version[:1].isdigit() else Origin(group, "", count)


def _line(row: Mapping[str, Any]) -> str:
    return json.dumps(row, separators=(",", ":"), allow_nan=False)


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
