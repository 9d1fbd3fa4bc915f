"""Records: generations as compact lines, from which calibrators are fitted without a model.

The first line of a file names the task and the model; each other line is one generation, in the order of the
items. No source text and no times are kept, so that the same run gives the same bytes. This is schema 2;
docs/evaluation.md lists every field. Fields that came later are optional: a file without them is written
again as it was, to the last byte.
"""

from __future__ import annotations

import base64
import functools
import hashlib
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import attrs
import numpy as np
from numpy.typing import NDArray

from lsp_calib.calibration.calibrators.purpose import Origin
from lsp_calib.confidence import features
from lsp_calib.confidence.features import SUMMARY_VERSION, summary_features
from lsp_calib.corpus.header import Header, json_line, origin
from lsp_calib.corpus.lines import INSERTING
from lsp_calib.corpus.places import grouped
from lsp_calib.corpus.second_answer import Agreement
from lsp_calib.errors import DataError
from lsp_calib.files import read_file, replace_file
from lsp_calib.json_text import parse_json
from lsp_calib.values import Evidence, Stop

# A file holds integers: log-probabilities in 1e-5 nat, entropies and margins in 1e-3 nat, features,
# shares and similarities in 1e-4.
_NAT = 100_000
_ENTROPY = 1_000
_FEATURE = 10_000
# Signed bytes are written with this added.
_BYTE = 128
# The lowest log-probability; it stands for minus infinity, which JSON cannot represent.
_LEAST = -10_000.0


@attrs.frozen
class State:
    """The model's last state, projected to a few numbers: see `project`.

    values: integers in [-127, 127]; times `scale` they are the projection's coordinates.
    """

    scale: float
    values: tuple[int, ...]


@attrs.frozen
class Alternative:
    """Another answer at the place of a record: it shares the first `at` tokens with the record's.

    tokens, logprobs, entropies: of those from there on; the log-probabilities given what is typed. features:
    as in `Record`, and its evidence is that of all its tokens, see `evidence`. added: as in `Record`, where
    no token is shared.
    """

    at: int
    correct: Mapping[str, bool]
    stop: str
    tokens: tuple[int, ...]
    logprobs: tuple[float, ...]
    entropies: tuple[float, ...] = ()
    added: int | None = None
    features: tuple[float | None, ...] = ()

    def evidence(self, record: Record, header: Header) -> Evidence:
        """What a calibrator needs of it. record: the one it is in. header: of its file."""
        logprobs = (*record.logprobs_given_typed[: self.at], *self.logprobs)
        entropies = (*record.entropies[: self.at], *self.entropies)
        known = entropies if len(entropies) == len(logprobs) else None
        values = features.probability_features(logprobs, known, Stop(self.stop))
        if header.features is not None:
            values |= header.features.named(self.features)
        return Evidence(logprobs, values, record.stratum if record.stratum in features.PLACES else "")

    def logprob(self, record: Record) -> float:
        """The log-probability of all its tokens, given what is typed. record: the one it is in."""
        return math.fsum((*record.logprobs_given_typed[: self.at], *self.logprobs))

    def to_row(self) -> dict[str, Any]:
        row: dict[str, Any] = {"at": self.at, "correct": dict(self.correct), "stop": self.stop}
        row |= {"tokens": list(self.tokens), "surprisal": _whole(self.logprobs, -_NAT)}
        row |= {"entropy": _whole(self.entropies, _ENTROPY)} if self.entropies else {}
        row |= {"added": self.added} if self.added is not None else {}
        return row | ({"features": _scaled(self.features)} if self.features else {})

    @classmethod
    def from_row(cls, row: Mapping[str, Any]) -> Self:
        """Raises KeyError, TypeError, ValueError or AttributeError for a row that is not an alternative."""
        found = cls(
            at=int(row["at"]),
            correct=dict(row["correct"]),
            stop=Stop(row["stop"]).value,
            tokens=tuple(row["tokens"]),
            logprobs=tuple(_logprob(value) for value in row["surprisal"]),
            entropies=tuple(value / _ENTROPY for value in row.get("entropy", ())),
            added=row.get("added"),
            features=_unscaled(row.get("features", ())),
        )
        if len(found.logprobs) != len(found.tokens) or len(found.entropies) not in (len(found.tokens), 0):
            raise ValueError("an alternative has lists of different lengths")
        return found


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
    added: the characters that the first token adds to the text; None if unknown or if nothing was typed that
        it could begin with. The text can only be made again from the tokens if that is known.
    features: the text features in the order of `Header.features`, None where one cannot be had; empty if they
        were not computed. features_above: the same if everything below the cursor's line is left out.
    margins, newlines: of the tokens, as in `Observation`; empty if they were not observed.
    agreement, state: None if they were not asked for, or cannot be had.
    alternatives: ranks 2 and 3, as far as there are; empty if they were not asked for.
    condition, source: as in `evaluation.lines.LineItem`.
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
    seed: int | None = None
    doubt: bool = False
    added: int | None = None
    features: tuple[float | None, ...] = ()
    features_above: tuple[float | None, ...] = ()
    margins: tuple[float, ...] = ()
    newlines: tuple[float, ...] = ()
    agreement: Agreement | None = None
    state: State | None = None
    alternatives: tuple[Alternative, ...] = ()
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
        return row | self._optional()

    def _optional(self) -> dict[str, Any]:
        """The fields that came with later versions."""
        row: dict[str, Any] = {}
        with_below, above = _scaled(self.features), _scaled(self.features_above)
        row |= {"condition": self.condition} if self.condition != INSERTING else {}
        row |= {"source": self.source} if self.source else {}
        row |= {"added": self.added} if self.added is not None else {}
        row |= {"characters": self.characters} if self.characters is not None else {}
        if self.reference_characters is not None:
            row["referenceCharacters"] = self.reference_characters
        row |= {"repeatsBug": self.repeats_bug} if self.repeats_bug is not None else {}
        row |= {"judgedTokens": self.judged_tokens} if self.judged_tokens is not None else {}
        row |= {"similarity": _scaled(self.similarity)} if self.similarity else {}
        observed = {name: _scaled(values) for name, values in self.observed.items()}
        row |= {"observed": observed} if observed else {}
        row |= {"costs": {name: list(cost) for name, cost in self.costs.items()}} if self.costs else {}
        row |= {"features": with_below} if with_below else {}
        row |= {"features_above": above} if above != with_below else {}
        row |= {"margin": _whole(self.margins, _ENTROPY)} if self.margins else {}
        row |= {"newline": _whole(self.newlines, -_NAT)} if self.newlines else {}
        if (second := self.agreement) is not None:
            (similarity,) = _scaled((second.similarity,))
            (surprisal,) = _whole((second.logprob,), -_NAT)
            row["agreement"] = [second.at, similarity, surprisal, second.tokens]
        if (state := self.state) is not None:
            numbers = bytes(value + _BYTE for value in state.values)
            row["state"] = [float(f"{state.scale:.6g}"), base64.b64encode(numbers).decode("ascii")]
        if self.alternatives:
            row["alternatives"] = [one.to_row() for one in self.alternatives]
        return row

    def to_line(self) -> str:
        return json_line(self.to_row())

    @classmethod
    def from_row(cls, row: Mapping[str, Any]) -> Self:
        """Raises KeyError, TypeError, ValueError or AttributeError for a row that is not a record."""
        values = dict(row)
        tokens = tuple(values.pop("tokens"))
        values.setdefault("group", _first_part(values["item"]))
        logprobs = tuple(_logprob(value) for value in values.pop("surprisal"))
        typed = tuple(_logprob(value) for value in values.pop("typed", ()))
        typed += (0.0,) * (len(logprobs) - len(typed))
        values["entropies"] = tuple(value / _ENTROPY for value in values.pop("entropy", ()))
        values["correct"] = dict(values["correct"])
        values |= _read_optional(values)
        of_tokens = (values.get(name, ()) for name in ("margins", "newlines"))
        if (
            len(typed) != len(logprobs)
            or len(logprobs) not in (len(tokens), 0)
            or any(len(numbers) not in (len(logprobs), 0) for numbers in of_tokens)
        ):
            raise ValueError(f"the record of {values['item']!r} has lists of different lengths")
        return cls(**values, tokens=tokens, logprobs=logprobs, typed_logprobs=typed)


def read_records(path: Path) -> tuple[Header, list[Record]]:
    """Header and records of a file. An incomplete last line is left out.

    Raises DataError if it is not a file of records, or a line is damaged.
    """
    try:
        lines = read_file(path).decode("utf-8").split("\n")
        header = Header.from_row(parse_json(lines[0]))
        records = [Record.from_row(parse_json(line)) for line in lines[1:-1]]
        sizes = {0, 0 if header.features is None else len(header.features.names)}
        listed = dict(header.observations.names) if header.observations is not None else {}
        similarities = 0 if header.similarity is None else len(header.similarity.names)
        for record in records:
            # Without a list none can be read.
            others = record.alternatives if header.features is not None else ()
            numbers = (record.features, record.features_above, *(other.features for other in others))
            if not sizes.issuperset(map(len, numbers)):
                raise ValueError(f"the record of {record.item!r} has other features than the header says")
            if len(record.similarity) not in (0, similarities):
                raise ValueError(f"the record of {record.item!r} has other similarities than the header says")
            if any(len(values) != len(listed.get(name, ())) for name, values in record.observed.items()):
                raise ValueError(f"the record of {record.item!r} has other observations than the header says")
        return header, records
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror or error}.") from error
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise DataError(
            f"{path} is not a file of records that this version can read: {error}. Name another file."
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
    """Name and version of the projects that records come from, with the number of records."""
    counts: dict[str, int] = {}
    for record in records:
        counts[record.group] = counts.get(record.group, 0) + 1
    return tuple(origin(group, count) for group, count in sorted(counts.items()))


def _read_optional(values: dict[str, Any]) -> dict[str, Any]:
    """The fields of `Record._optional`, taken out of a row."""
    found: dict[str, Any] = {"features": _unscaled(values.pop("features", ()))}
    above = values.pop("features_above", None)
    found["features_above"] = found["features"] if above is None else _unscaled(above)
    found["similarity"] = tuple(value / _FEATURE for value in values.pop("similarity", ()))
    found["observed"] = {name: _unscaled(row) for name, row in values.pop("observed", {}).items()}
    found["costs"] = {name: _cost(row) for name, row in values.pop("costs", {}).items()}
    found["reference_characters"] = values.pop("referenceCharacters", None)
    found["repeats_bug"] = values.pop("repeatsBug", None)
    found["judged_tokens"] = values.pop("judgedTokens", None)
    found["margins"] = tuple(value / _ENTROPY for value in values.pop("margin", ()))
    found["newlines"] = tuple(_logprob(value) for value in values.pop("newline", ()))
    if (second := values.pop("agreement", None)) is not None:
        at, similarity, surprisal, tokens = second
        found["agreement"] = Agreement(at, similarity / _FEATURE, _logprob(surprisal), tokens)
    if (state := values.pop("state", None)) is not None:
        scale, numbers = state
        found["state"] = State(
            float(scale), tuple(value - _BYTE for value in base64.b64decode(numbers, validate=True))
        )
    found["alternatives"] = tuple(map(Alternative.from_row, values.pop("alternatives", ())))
    return found


def _scaled(values: Sequence[float | None]) -> list[int | None]:
    """In 1e-4. Raises DataError for NaN and the infinities, which no feature is."""
    if not all(value is None or math.isfinite(value) for value in values):
        raise DataError(f"A feature is not a finite number: {list(values)}.")
    return [None if value is None else round(_FEATURE * value) for value in values]


def _unscaled(values: Sequence[int | None]) -> tuple[float | None, ...]:
    return tuple(None if value is None else value / _FEATURE for value in values)


def _cost(row: Sequence[int]) -> tuple[int, int, int]:
    evaluated, reused, generated = row
    return int(evaluated), int(reused), int(generated)


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


COORDINATES = 64
_SIGNS_OF = "lsp-calib, projection of states, 1"
_LARGEST = 127


def project(state: Sequence[float]) -> State:
    """The projection of a state, of as many numbers as the model is wide, to `COORDINATES` integers.

    A random projection preserves the distances between states approximately (Johnson & Lindenstrauss 1984),
    and with them what a linear probe can learn. Its matrix has entries of +1 and -1 (Achlioptas 2003) and is
    the same on every machine: its bits are those of SHAKE-256 of a fixed text.
    Coordinate i is the sum of sign(i, j) * state[j], over the square root of `COORDINATES`, so that squared
    distances are preserved on average. It is rounded to a multiple of the largest one over 127.
    Raises DataError if the state is empty, or holds a number that is not finite.
    """
    values = np.asarray(state, np.float64)
    if values.ndim != 1 or not values.size or not np.isfinite(values).all():
        raise DataError("A model's state must be a list of finite numbers.")
    coordinates = _signs(values.size) @ values / math.sqrt(COORDINATES)
    largest = float(np.abs(coordinates).max())
    if largest == 0.0:
        return State(0.0, (0,) * COORDINATES)
    scale = largest / _LARGEST
    return State(scale, tuple(int(value) for value in np.rint(coordinates / scale)))


@functools.lru_cache(4)
def _signs(width: int) -> NDArray[np.float64]:
    """The matrix of +1 and -1, of shape (COORDINATES, width)."""
    bits = hashlib.shake_256(_SIGNS_OF.encode()).digest((COORDINATES * width + 7) // 8)
    signs = np.unpackbits(np.frombuffer(bits, np.uint8))[: COORDINATES * width].astype(np.float64) * 2.0 - 1.0
    return signs.reshape(COORDINATES, width)
