"""A curve of a calibrator: a weighted sum of features, its probability, and its form in a file. Pure.

Platt scaling of one measure is its simplest case: one feature, the log-odds of the measure, with mean 0 and
scale 1.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Literal, Self

import attrs
import numpy as np

from lsp_calib.calibration.arrays import FloatArray
from lsp_calib.calibration.document import Fields
from lsp_calib.calibration.methods.log_odds import log_odds, sigmoid
from lsp_calib.calibration.methods.platt import Prior
from lsp_calib.confidence import by_name, first_tokens
from lsp_calib.confidence.features import VERSION
from lsp_calib.errors import CalibratorError, DataError
from lsp_calib.values import Evidence

# The measures of curves over features: of all features, and of those that do not need what is not always
# there: an engine may give no entropies, and a sentence encoder may not be installed.
FEATURES_MEASURE = f"features-{VERSION}"
WITHOUT_ENTROPIES = f"{FEATURES_MEASURE}-without-entropies"
WITHOUT_ENCODER = f"{FEATURES_MEASURE}-without-encoder"

# Which curve a user wants: the best whose features are known, or that of a plain measure.
Wanted = Literal["best", "geometric-mean", "total"]
WANTED: tuple[Wanted, ...] = ("best", "geometric-mean", "total")

_FEATURES = re.compile(r"features-([1-9][0-9]{0,5})(-without-entropies|-without-encoder)?")
_MOST = 1e6  # of a feature: each is a count, a share or some nats; more is damage, or no number
_LIMIT = 1e100  # keeps weight * (x - mean) / scale from overflowing for any feature that occurs


@lru_cache(maxsize=256)  # asked for each feature of each label of a refit
def is_plain(measure: str) -> bool:
    """Whether a name is that of a measure of log-probabilities alone, as `confidence.by_name` takes it."""
    try:
        first_tokens(measure)
    except DataError:
        return False
    return True


def value_of(feature: str, evidence: Evidence) -> float | None:
    """The number of a feature; None if it cannot be had, or is absurd.

    feature: a name of `confidence.features.FEATURES`, or a plain measure: its number is the log-odds of the
        measure of the log-probabilities (probabilities count as no nearer than 1e-6 to 0 and 1).
    Raises DataError if a measure refuses the log-probabilities.
    """
    if is_plain(feature):
        if not evidence.logprobs:
            return None
        return float(log_odds(by_name(feature)(evidence.logprobs)))
    value = evidence.features.get(feature)
    return value if value is not None and abs(value) <= _MOST else None


def values_of(feature: str, evidences: Sequence[Evidence]) -> FloatArray:
    """`value_of` n answers, float array of shape (n,); nan where there is none."""
    if not is_plain(feature):
        found = [evidence.features.get(feature, math.nan) for evidence in evidences]
        values = np.array(found, dtype=np.float64)
        return np.where(np.abs(values) <= _MOST, values, math.nan)
    measure = by_name(feature)
    shares = [measure(evidence.logprobs) if evidence.logprobs else math.nan for evidence in evidences]
    values = np.array(shares, dtype=np.float64)
    known = ~np.isnan(values)
    values[known] = log_odds(values[known])
    return values


def _bounded(_: object, attribute: attrs.Attribute[float], value: float) -> None:
    if not abs(value) <= _LIMIT:
        raise DataError(f"{attribute.name} must be a finite number, not {value}.")


def _positive(_: object, attribute: attrs.Attribute[float], value: float) -> None:
    if not 1e-9 <= value <= 1e9:
        raise DataError(f"{attribute.name} must be a number in [1e-9, 1e9], not {value}.")


@attrs.frozen
class Weighted:
    """One feature of a curve: it contributes weight * (x - mean) / scale nats.

    Raises DataError unless the numbers are finite and the scale lies in [1e-9, 1e9].
    """

    name: str
    mean: float = attrs.field(converter=float, validator=_bounded)
    scale: float = attrs.field(converter=float, validator=_positive)
    weight: float = attrs.field(converter=float, validator=_bounded)


@attrs.frozen
class Shift:
    """How a person's (or another model's) curve lies to the one it was made from: slope * score + intercept.

    score: the log-odds of the original curve, in nats. slope_sd, intercept_sd: standard deviations, in
    [1e-9, 1e9], of the Gaussian around slope 1 and intercept 0 that such a shift is expected under.
    Raises DataError for other numbers.
    """

    slope: float = attrs.field(default=1.0, converter=float, validator=_bounded)
    intercept: float = attrs.field(default=0.0, converter=float, validator=_bounded)
    slope_sd: float = attrs.field(kw_only=True, converter=float, validator=_positive)
    intercept_sd: float = attrs.field(kw_only=True, converter=float, validator=_positive)


@attrs.frozen
class Curve:
    """probability = sigmoid(intercept + sum of weight * (x - mean) / scale + offset of the place).

    measure: a plain measure, whose log-odds are then the one feature; or FEATURES_MEASURE (of any version),
        WITHOUT_ENTROPIES or WITHOUT_ENCODER. A curve over features of another version than
        `confidence.features.VERSION` can be read, but gives no probabilities: the numbers would mean
        something else.
    prior: under which a curve over one feature was fitted. spread: the standard deviation, in nats, of the
        Gaussian around 0 under which the weights of standardised features were fitted.
    offsets: (place, nats); a place that is not among them has 0.
    shift: contained in weights, intercept and offsets already.
    Raises CalibratorError for an unknown measure, and DataError for numbers that are not finite, features
    that are named twice, or a plain measure with other features.
    """

    measure: str
    features: tuple[Weighted, ...]
    intercept: float = attrs.field(converter=float, validator=_bounded)
    prior: Prior | None = None
    spread: float | None = attrs.field(default=None, validator=attrs.validators.optional(_positive))
    offsets: tuple[tuple[str, float], ...] = ()
    shift: Shift | None = None

    def __attrs_post_init__(self) -> None:
        names = [feature.name for feature in self.features]
        if not names or len(set(names)) < len(names):
            raise DataError(f"features of {self.measure!r} must be at least one, each once.")
        if is_plain(self.measure):
            if names != [self.measure]:
                raise DataError(f"features of {self.measure!r} must be {self.measure!r} alone.")
        elif not _FEATURES.fullmatch(self.measure):
            raise CalibratorError(f"measure {self.measure!r} is not known.")
        if len(dict(self.offsets)) < len(self.offsets) or not all(abs(o) <= _LIMIT for _, o in self.offsets):
            raise DataError("offsets must hold one finite number for each place.")

    @classmethod
    def of_measure(cls, measure: str, slope: float, intercept: float, prior: Prior | None = None) -> Self:
        """Platt scaling of a plain measure: sigmoid(slope * log-odds + intercept)."""
        return cls(measure, (Weighted(measure, 0.0, 1.0, slope),), intercept, prior)

    @property
    def readable(self) -> bool:
        """Whether the features are of the version that this program computes."""
        match = _FEATURES.fullmatch(self.measure)
        return match is None or int(match[1]) == VERSION

    def contributions(self, evidence: Evidence) -> dict[str, float] | None:
        """Nats by feature: how far each moves the log-odds from those of an average answer.

        None if a feature is missing. Raises DataError as `value_of` does.
        """
        if not self.readable:
            return None
        found: dict[str, float] = {}
        for feature in self.features:
            value = value_of(feature.name, evidence)
            if value is None:
                return None
            found[feature.name] = feature.weight * (value - feature.mean) / feature.scale
        return found

    def score(self, evidence: Evidence) -> float | None:
        """The log-odds of the probability, in nats; None if a feature is missing.

        Raises DataError as `value_of` does.
        """
        contributions = self.contributions(evidence)
        if contributions is None:
            return None
        try:
            score = math.fsum((self.intercept, *contributions.values(), self.offset(evidence.place)))
        except (OverflowError, ValueError):  # infinite contributions of either sign
            return None
        return score if math.isfinite(score) else None

    def offset(self, place: str) -> float:
        """Nats added at a kind of place."""
        return dict(self.offsets).get(place, 0.0)

    def probability(self, evidence: Evidence) -> float | None:
        """In [0, 1]; None if a feature is missing. Raises DataError as `value_of` does."""
        score = self.score(evidence)
        return None if score is None else float(sigmoid(score))

    def scores(self, evidences: Sequence[Evidence]) -> FloatArray:
        """`score` of n answers, float array of shape (n,); nan where a feature is missing."""
        if not self.readable:
            return np.full(len(evidences), math.nan)
        weights = np.array([feature.weight for feature in self.features])
        scales = np.array([feature.scale for feature in self.features])
        moved = weights * self._from_mean(evidences) / scales
        offsets = self.offsets_at(evidences)
        moved = np.column_stack((np.full(offsets.size, self.intercept), moved, offsets))
        moved[~np.isfinite(moved).all(axis=1)] = math.nan
        return np.array([math.fsum(row) for row in moved.tolist()], dtype=np.float64)

    def standardised(self, evidences: Sequence[Evidence]) -> FloatArray:
        """The features of n answers in standard deviations from their mean, shape (n, d); nan where one is
        missing. Raises DataError as `value_of` does."""
        found: FloatArray = self._from_mean(evidences) / np.array([one.scale for one in self.features])
        return found

    def _from_mean(self, evidences: Sequence[Evidence]) -> FloatArray:
        columns = np.empty((len(evidences), len(self.features)))
        for d, feature in enumerate(self.features):
            columns[:, d] = values_of(feature.name, evidences) - feature.mean
        return columns

    def offsets_at(self, evidences: Sequence[Evidence]) -> FloatArray:
        """`offset` of n answers, shape (n,)."""
        known = dict(self.offsets)
        return np.array([known.get(evidence.place, 0.0) for evidence in evidences], dtype=np.float64)

    def shifted(self, shift: Shift) -> Self:
        """The curve whose score is `shift.slope` times this one's plus `shift.intercept`."""
        return attrs.evolve(
            self,
            features=tuple(attrs.evolve(f, weight=shift.slope * f.weight) for f in self.features),
            intercept=shift.slope * self.intercept + shift.intercept,
            offsets=tuple((place, shift.slope * offset) for place, offset in self.offsets),
            shift=shift,
        )

    def rounded(self, rounding: Callable[[float], float]) -> Self:
        """The curve with the fitted numbers rounded."""
        return attrs.evolve(
            self,
            features=tuple(
                Weighted(f.name, rounding(f.mean), rounding(f.scale), rounding(f.weight))
                for f in self.features
            ),
            intercept=rounding(self.intercept),
            offsets=tuple((place, rounding(offset)) for place, offset in self.offsets),
            shift=self.shift
            and attrs.evolve(
                self.shift, slope=rounding(self.shift.slope), intercept=rounding(self.shift.intercept)
            ),
        )

    def to_json(self) -> dict[str, Any]:
        """The curve as JSON types; what it has not is left out."""
        document: dict[str, Any] = {
            "measure": self.measure,
            "features": [attrs.asdict(feature) for feature in self.features],
            "intercept": self.intercept,
        }
        if self.prior is not None:
            document["prior"] = self.prior.to_json()
        if self.spread is not None:
            document["spread"] = self.spread
        if self.offsets:
            document["offsets"] = [{"place": place, "offset": offset} for place, offset in self.offsets]
        if self.shift is not None:
            shift = self.shift
            document["shift"] = {
                "slope": shift.slope,
                "intercept": shift.intercept,
                "slopeSd": shift.slope_sd,
                "interceptSd": shift.intercept_sd,
            }
        return document

    @classmethod
    def from_json(cls, fields: Fields) -> Self:
        """The curve that `to_json` wrote. Raises CalibratorError or DataError for anything else."""
        fields.only({"measure", "features", "intercept", "prior", "spread", "offsets", "shift"})
        features = []
        for item in fields.objects("features"):
            item.only({"name", "mean", "scale", "weight"})
            features.append(
                Weighted(item.text("name"), *(item.number(name) for name in ("mean", "scale", "weight")))
            )
        return cls(
            fields.text("measure"),
            tuple(features),
            fields.number("intercept"),
            prior=Prior.from_json(fields.object("prior")) if "prior" in fields.values else None,
            spread=fields.number("spread") if "spread" in fields.values else None,
            offsets=_offsets(fields, "place"),
            shift=_shift(fields.object("shift")) if "shift" in fields.values else None,
        )

    @classmethod
    def from_schema_1(cls, fields: Fields) -> Self:
        """The Platt curve of a file of schema 1, whose document is the curve as well.

        Raises CalibratorError or DataError for anything else, and for a line over something other than
        log-odds, which no released version has written.
        """
        if fields.values.get("input", "log-odds") != "log-odds":
            fields.wrong("input", "must be 'log-odds'")
        return attrs.evolve(
            cls.of_measure(
                fields.text("measure"),
                fields.number("slope"),
                fields.number("intercept"),
                Prior.from_json(fields.object("prior")),
            ),
            offsets=_offsets(fields, "group"),
        )

    def to_schema_1(self) -> dict[str, Any]:
        """The part of a document of schema 1 that describes the curve.

        Raises DataError if it is more than Platt scaling.
        """
        (feature, *more) = self.features
        plain = is_plain(self.measure) and (feature.mean, feature.scale) == (0.0, 1.0)
        if more or not plain or self.prior is None or self.shift is not None:
            raise DataError(f"a curve of {self.measure!r} as it is cannot be written in schema 1")
        document: dict[str, Any] = {"slope": feature.weight, "intercept": self.intercept}
        if self.offsets:
            document["offsets"] = [{"group": group, "offset": offset} for group, offset in self.offsets]
        return document | {"prior": self.prior.to_json()}


def curve_of(curves: Sequence[Curve], measure: str) -> Curve | None:
    """The curve of a measure, if there is one."""
    return next((curve for curve in curves if curve.measure == measure), None)


def in_order(curves: Sequence[Curve], wanted: Wanted) -> list[Curve]:
    """The curves in the order in which they are tried.

    wanted: "best": the order of the file. "geometric-mean" or "total": such a curve first, if there is one.
    """
    if wanted == "best":
        return list(curves)
    return sorted(curves, key=lambda curve: not curve.measure.startswith(wanted))


def _offsets(fields: Fields, key: str) -> tuple[tuple[str, float], ...]:
    offsets = []
    for item in fields.objects("offsets") if "offsets" in fields.values else []:
        item.only({key, "offset"})
        offsets.append((item.text(key, empty=True), item.number("offset")))
    return tuple(offsets)


def _shift(fields: Fields) -> Shift:
    names: Mapping[str, str] = {
        "slope": "slope",
        "intercept": "intercept",
        "slope_sd": "slopeSd",
        "intercept_sd": "interceptSd",
    }
    fields.only(set(names.values()))
    return Shift(**{name: fields.number(written) for name, written in names.items()})
