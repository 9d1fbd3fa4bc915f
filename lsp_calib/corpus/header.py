"""The header of a file of records: the task, the model, and how it was asked."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Self

import attrs
import msgspec

from lsp_calib import __version__
from lsp_calib.calibration.calibrators.purpose import Origin
from lsp_calib.confidence import features
from lsp_calib.json_text import converted
from lsp_calib.values import ModelIdentity

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

    version: the `corpus.thresholds.VERSION` that they were computed with. encoder, sha256: the name of
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
    """What the records of a file may hold besides what every record holds: see `summary_observation`.

    version: the `VERSION` that it was observed with. names: (observation, names of its numbers in their
    order) for each.
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
    observations: what is observed of summaries, None if nothing is.
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

    def asks_the_same_as(self, other: Header) -> bool:
        """Whether generations under both headers may be in one file. Records without features, or without
        observations, may be with others, but those of two versions may not."""
        pairs = (self.features, other.features), (self.observations, other.observations)
        return self._question() == other._question() and all(
            one is None or two is None or one == two for one, two in pairs
        )

    def _question(self) -> tuple[object, ...]:
        return self.task, self.language, self.model, self.prompt_version, self.seed, self.similarity

    def to_line(self) -> str:
        row = {"schema": SCHEMA, **attrs.asdict(self)}
        for optional in ("features", "similarity", "observations"):
            if row[optional] is None:
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
        try:
            for name in _KINDS.keys() & values.keys():
                values[name] = converted(values[name], _KINDS[name])
        except msgspec.ValidationError as error:
            raise ValueError(f"its {name} cannot be read: {error}") from error
        return cls(**values)


_KINDS: Mapping[str, type] = {
    "features": FeatureList,
    "similarity": SimilarityList,
    "observations": ObservationList,
}


def origin(group: str, count: int) -> Origin:
    """Name and version of a project in a folder such as `click-8.1.7`."""
    stem, _, version = group.rpartition("-")
    return Origin(stem, version, count) if stem and version[:1].isdigit() else Origin(group, "", count)


def json_line(row: Mapping[str, Any]) -> str:
    """A row as it stands in a file."""
    return json.dumps(row, separators=(",", ":"), allow_nan=False)
