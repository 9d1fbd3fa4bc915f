"""Whether a summary is like a person's: its similarity by the encoder, and the thresholds that ship."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Self

import attrs

from lsp_calib import home
from lsp_calib.corpus.records import Header, Record, SimilarityList
from lsp_calib.errors import DataError
from lsp_calib.files import read_file
from lsp_calib.json_text import parse_json
from lsp_calib.summarization.encoder import Encoder
from lsp_calib.summarization.features import cosine, greedy_match, plain_words

COSINE = "cosine"
NAMES = (COSINE, "bertscore-f1", "bertscore-precision", "bertscore-recall")
"""The similarities, in the order in which thresholds prefer them among equals."""

# Changes whenever the same two texts may get other numbers: their form, the tokens that count, the formulas.
VERSION = 1


def similarities(encoder: Encoder, candidate: str, reference: str) -> dict[str, float]:
    """The similarities of two texts, by name, as records keep them: to four decimals.

    All are 0 if one of the texts has no word.
    """
    if not plain_words(candidate) or not plain_words(reference):
        return dict.fromkeys(NAMES, 0.0)
    a, b = encoder.encode(candidate), encoder.encode(reference)
    match = greedy_match(a.words, b.words)
    values = cosine(a, b), match.f1, match.precision, match.recall
    return {name: round(value, 4) for name, value in zip(NAMES, values, strict=True)}


def listed(encoder: Encoder) -> SimilarityList:
    """What the header of a file says of the similarities in its records."""
    return SimilarityList(VERSION, encoder.card.name, encoder.card.sha256, NAMES)


@lru_cache(maxsize=1)
def shared_encoder() -> Encoder:
    """The encoder, loaded once in a process. Raises as `Encoder.open` does."""
    return Encoder.open()


SCHEMA = 1
FOLDER = "thresholds"


@attrs.frozen
class Rule:
    """A summary is like a person's if its similarity by `metric` is at least `threshold`."""

    metric: str
    threshold: float


@attrs.frozen
class Thresholds:
    """The rules by criterion, and what their numbers hold for.

    version, encoder, sha256: as in `records.SimilarityList`.
    """

    version: int
    encoder: str
    sha256: str
    rules: Mapping[str, Rule]

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read a file that `eval thresholds` wrote. Raises DataError if it is none."""
        try:
            document = parse_json(read_file(path))
            if document["schema"] != SCHEMA:
                raise ValueError(f"its schema is {document['schema']!r}; this version reads {SCHEMA}")
            rules = {
                name: Rule(str(one["metric"]), float(one["threshold"]))
                for name, one in document["settings"].items()
                if one is not None
            }
            encoder = document["encoder"]
            if unknown := [rule.metric for rule in rules.values() if rule.metric not in NAMES]:
                raise ValueError(f"it names the similarity {unknown[0]!r}")
            return cls(int(encoder["version"]), str(encoder["name"]), str(encoder["sha256"]), rules)
        except OSError as error:
            raise DataError(f"{path} cannot be read: {error.strerror or error}.") from error
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            raise DataError(f"{path} is not a file of thresholds: {error}. Name another one.") from error

    def verdicts(self, values: Mapping[str, float]) -> dict[str, bool]:
        """Whether a summary is like a person's, by criterion. values: by name; empty without a summary."""
        return {
            name: bool(values) and values[rule.metric] >= rule.threshold for name, rule in self.rules.items()
        }

    def judge(self, header: Header, records: Sequence[Record]) -> list[Record]:
        """The records with the verdicts of these thresholds instead of their own.

        Raises DataError if their similarities are of another encoder or version, or missing.
        """
        listed = header.similarity
        if listed is None or not self.fits(listed):
            raise DataError(
                "The thresholds hold for the similarities of the encoder "
                f"{self.encoder} (SHA-256 {self.sha256[:12]}, version {self.version}), and the records have "
                "others or none. Make the records again, or give thresholds for theirs."
            )
        return [
            attrs.evolve(record, correct=self.verdicts(listed.named(record.similarity))) for record in records
        ]

    def fits(self, listed: SimilarityList) -> bool:
        """Whether the thresholds hold for these similarities."""
        return (self.version, self.sha256) == (listed.version, listed.sha256)


def shipped_thresholds(listed: SimilarityList) -> Thresholds:
    """The shipped thresholds for these similarities. Raises DataError if there are none."""
    for path in sorted((home.shipped_models() / FOLDER).glob("*.json")):
        found = Thresholds.load(path)
        if found.fits(listed):
            return found
    raise DataError(
        f"There are no thresholds for the encoder {listed.encoder} (SHA-256 {listed.sha256[:12]}). "
        "Derive them: `lsp-calib eval thresholds --output FILE`."
    )


def judged(header: Header, records: list[Record], thresholds: Thresholds | None = None) -> list[Record]:
    """The records, those with similarities judged by these thresholds (None: the shipped ones) and not by
    those of their time. Raises DataError as `Thresholds.judge` and `shipped_thresholds`."""
    if thresholds is None and header.similarity is not None:
        thresholds = shipped_thresholds(header.similarity)
    return records if thresholds is None else thresholds.judge(header, records)
