"""A calibrator: the fitted curves, their data, model and quality. One JSON file each.

A curve is a weighted sum of features, and its probability. Platt scaling of one measure is its simplest case:
one feature, the log-odds of the measure, with mean 0 and scale 1.
"""

from __future__ import annotations

import datetime
import hashlib
import itertools
import json
import math
import re
from collections.abc import Collection, Mapping, Sequence
from functools import cached_property, lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, Self

import attrs
import numpy as np
from msgspec.structs import replace

from lsp_calib.calibration.arrays import FloatArray
from lsp_calib.calibration.calibrators.purpose import (
    SUMMARY_CRITERIA,
    Origin,
    Purpose,
    Source,
    State,
    Task,
    slug,
)
from lsp_calib.calibration.document import Count, Document, Text, as_floats, parse, read, written
from lsp_calib.calibration.logistic import Prior, log_odds, sigmoid
from lsp_calib.calibration.tiers import Policy
from lsp_calib.calibration.validation import Interval
from lsp_calib.confidence.features import BEYOND_NAME, FEATURES, VERSION, by_name, first_tokens
from lsp_calib.errors import CalibratorError, DataError
from lsp_calib.files import read_file, why, write_atomically
from lsp_calib.values import CalibratorRef, Confidence, Evidence, ModelIdentity, Tier

# The measures of curves over features: of all features, and of those that do not need something that may be
# missing: an engine may give no entropies, a language have no grammar, an encoder not be installed.
FEATURES_MEASURE = f"features-{VERSION}"
WITHOUT_ENTROPIES = f"{FEATURES_MEASURE}-without-entropies"
WITHOUT_GRAMMAR = f"{FEATURES_MEASURE}-without-grammar"
WITHOUT_ENCODER = f"{FEATURES_MEASURE}-without-encoder"

# Which curve a user wants: the best whose features are known, or that of a plain measure.
Wanted = Literal["best", "geometric-mean", "total"]
_FEATURES = re.compile(r"features-([1-9][0-9]{0,5})(-without-(?:entropies|grammar|encoder))?")
_MOST = 1e6  # of a feature: each is a count, a share or some nats; more is damage, or no number


@lru_cache(maxsize=256)  # asked for each feature of each label of a refit
def is_plain(measure: str) -> bool:
    """Whether a name is that of a measure of log-probabilities alone, as `features.by_name` takes it."""
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


class Weighted(Document, frozen=True):
    """One feature of a curve: it contributes weight * (x - mean) / scale nats.

    Raises DataError unless the numbers are finite and the scale lies in [1e-9, 1e9].
    """

    name: Text
    mean: float
    scale: float
    weight: float

    def __post_init__(self) -> None:
        as_floats(self, bounded=("mean", "weight"), positive=("scale",))


class Shift(Document, frozen=True, kw_only=True):
    """How a person's (or another model's) curve lies to the one it was made from: slope * score + intercept.

    score: the log-odds of the original curve, in nats. slope_sd, intercept_sd: standard deviations, in
    [1e-9, 1e9], of the Gaussian around slope 1 and intercept 0 that such a shift is expected under.
    Raises DataError for other numbers.
    """

    slope: float = 1.0
    intercept: float = 0.0
    slope_sd: float
    intercept_sd: float

    def __post_init__(self) -> None:
        as_floats(self, bounded=("slope", "intercept"), positive=("slope_sd", "intercept_sd"))


class Offset(Document, frozen=True):
    """Nats added at a kind of place of the cursor."""

    place: str
    offset: float

    def __post_init__(self) -> None:
        as_floats(self, bounded=("offset",))


class Curve(Document, frozen=True, omit_defaults=True):
    """probability = sigmoid(intercept + sum of weight * (x - mean) / scale + offset of the place).

    The first of a calibrator's curves whose features are all known counts, unless a measure is preferred.
    Its probability is then kept within what the calibrator's labels support (`Calibrator.told`).

    measure: a plain measure, whose log-odds are then the one feature; or FEATURES_MEASURE (of any version),
        WITHOUT_ENTROPIES, WITHOUT_GRAMMAR or WITHOUT_ENCODER. A curve over features of another version than
        `confidence.features.VERSION` can be read, but gives no probabilities: the numbers would mean
        something else.
    prior: under which a curve over one feature was fitted. spread: the standard deviation, in nats, of the
        Gaussian around 0 under which the weights of standardised features were fitted.
    offsets: a place that is not among them has 0.
    shift: contained in weights, intercept and offsets already.
    Raises CalibratorError for an unknown measure, and DataError for numbers that are not finite, features
    that are named twice, or a plain measure with other features.
    """

    measure: Text
    features: tuple[Weighted, ...]
    intercept: float
    prior: Prior | None = None
    spread: float | None = None
    offsets: tuple[Offset, ...] = ()
    shift: Shift | None = None

    def __post_init__(self) -> None:
        as_floats(self, bounded=("intercept",), positive=() if self.spread is None else ("spread",))
        names = [feature.name for feature in self.features]
        if not names or len(set(names)) < len(names):
            raise DataError(f"features of {self.measure!r} must be at least one, each once.")
        if is_plain(self.measure):
            if names != [self.measure]:
                raise DataError(f"features of {self.measure!r} must be {self.measure!r} alone.")
        elif not _FEATURES.fullmatch(self.measure):
            raise CalibratorError(f"measure {self.measure!r} is not known.")
        if len({one.place for one in self.offsets}) < len(self.offsets):
            raise DataError("offsets must hold one number for each place.")

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
        if not self.readable or any(
            not is_plain(one.name) and one.name not in evidence.features for one in self.features
        ):
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
        return next((one.offset for one in self.offsets if one.place == place), 0.0)

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
        known = {one.place: one.offset for one in self.offsets}
        return np.array([known.get(evidence.place, 0.0) for evidence in evidences], dtype=np.float64)

    def shifted(self, shift: Shift) -> Self:
        """The curve whose score is `shift.slope` times this one's plus `shift.intercept`."""
        return replace(
            self,
            features=tuple(replace(f, weight=shift.slope * f.weight) for f in self.features),
            intercept=shift.slope * self.intercept + shift.intercept,
            offsets=tuple(Offset(one.place, shift.slope * one.offset) for one in self.offsets),
            shift=shift,
        )


def in_order(curves: Sequence[Curve], wanted: Wanted) -> list[Curve]:
    """The curves in the order in which they are tried.

    wanted: "best": the order of the file. "geometric-mean" or "total": such a curve first, if there is one.
    """
    if wanted == "best":
        return list(curves)
    return sorted(curves, key=lambda curve: not curve.measure.startswith(wanted))


MAX_BYTES = 1_000_000  # a calibrator is a few kilobytes; anything larger is something else

NOT_CALIBRATED: Mapping[Task, str] = MappingProxyType(
    {
        "line": "not calibrated: `lsp-calib calibrate PATH`",
        "summary": "not calibrated: `lsp-calib calibrate PATH --task summary`",
        "edit": "not calibrated: the curve of edits is damaged, install lsp-calib again",
    }
)
"""The reason for the tier of an answer while its model has no labels for such answers."""
METRICS = ("skill", "auc", "brier", "logLoss", "ece", "baseRate")


@attrs.frozen(kw_only=True)
class Calibrator:
    """A fitted calibrator and everything a reader needs to judge it.

    curves: at least one, one for each measure, the preferred first: an answer gets its probability from the
        first curve whose features are all known.
    raw_measure: name of the raw confidence, as `features.by_name` takes it: a number that needs no labels,
        shown beside the probability.
    n, n_correct: labels it was fitted on, and how many of them were correct.
    metrics: of out-of-fold predictions of the first curve, by name (METRICS), each with its interval.
    by_place: some of these metrics for each kind of place of the cursor.
    strata: how many labels of each kind of place.
    created: ISO date, YYYY-MM-DD. parent: id of the calibrator that it replaced, or None.
    made_as: the id that it got where it was made, if it was exported or imported since: sharing writes other
        sources of labels into it, and people know it by one id. None: this is its first form.
    Raises CalibratorError for values that contradict each other.
    """

    purpose: Purpose
    curves: tuple[Curve, ...]
    raw_measure: str
    n: int
    n_correct: int
    metrics: Mapping[str, Interval] = attrs.field(factory=dict)
    by_place: Mapping[str, Mapping[str, Interval]] = attrs.field(factory=dict)
    strata: Mapping[str, int] = attrs.field(factory=dict)
    provenance: tuple[Origin, ...] = ()
    source: Source
    state: State
    created: str
    parent: str | None = None
    made_as: str | None = None

    def __attrs_post_init__(self) -> None:
        if self.n_correct > self.n:
            raise CalibratorError(f"The calibrator has nCorrect {self.n_correct} above n {self.n}.")
        unknown = sorted({*self.metrics, *itertools.chain(*self.by_place.values())} - set(METRICS))
        if unknown:
            raise CalibratorError(
                f"The calibrator has unknown metrics {', '.join(unknown)}; known: {', '.join(METRICS)}."
            )
        measures = [curve.measure for curve in self.curves]
        if not measures or len(set(measures)) < len(measures):
            raise CalibratorError("The calibrator must have curves, one for each measure.")
        if not is_plain(self.raw_measure):
            raise CalibratorError(f"The calibrator has a wrong measure: {self.raw_measure!r} is not known.")
        try:
            date = datetime.date.fromisoformat(self.created).isoformat()
        except ValueError:
            date = ""
        if date != self.created:
            raise CalibratorError(
                f"The calibrator has created {self.created!r}; it must be a date as in 2026-01-31."
            )

    @cached_property
    def id(self) -> str:
        """Such as line-smollm2-135m-1f0c9a3e, computed from the content (but not the state) where it was
        made."""
        return self.made_as or self._content_id

    @cached_property
    def _content_id(self) -> str:
        content = written(_CalibratorFile.of(self))
        for field in ("schema", "id", "contentId", "state"):
            content.pop(field, None)
        canonical = json.dumps(content, sort_keys=True, separators=(",", ":"), allow_nan=False)
        digest = hashlib.sha256(canonical.encode("utf-8", "surrogatepass")).hexdigest()[:8]
        return f"{_id_prefix(self.purpose)}{digest}"

    @property
    def source_and_state(self) -> str:
        """Its source, and its state where that says more: "shipped", "personal, learning"."""
        return ", ".join(dict.fromkeys((self.source, self.state)))

    @property
    def measure(self) -> str:
        """The measure of the preferred curve."""
        return self.curves[0].measure

    @cached_property
    def first_tokens(self) -> int | None:
        """How many tokens the raw confidence looks at; None: all."""
        return first_tokens(self.raw_measure)

    def curve(self, measure: str) -> Curve | None:
        """The curve of a measure, if there is one."""
        return next((curve for curve in self.curves if curve.measure == measure), None)

    @cached_property
    def ref(self) -> CalibratorRef:
        """The reference to it that a suggestion carries."""
        return CalibratorRef(id=self.id, source=self.source, state=self.state, n=self.n)

    def assess(self, evidence: Evidence, policy: Policy, wanted: Wanted = "best") -> Confidence:
        """The evidence of an answer -> confidence with its tier.

        policy: made stricter for language and document already (`ConfidenceEstimator.assess`).
        wanted: "best": the first curve whose features are all known. "geometric-mean" and "total": the curve
            of that measure, if there is one, before all others.
        Never raises for bad evidence: a curve with a missing feature leaves its place to the next one. If
        none is left, or the log-probabilities are impossible, there is no confidence, and the tier is review.
        A suggestion is certified if it is accepted under a certificate for this calibrator. A summary that
        only repeats the function's name is not accepted: its author may have written no more, but a reader
        learns nothing from it.
        """
        ref, order = self.ref, in_order(self.curves, wanted)
        raw: float | None = None
        calibrated: float | None = None
        predicted: float | None = None
        cause, bound = "", ""
        used: Curve | None = None
        try:
            if evidence.logprobs:
                raw = by_name(self.raw_measure)(evidence.logprobs)
                if self.has_evidence:
                    used, predicted = self._predicted(evidence, order)
                    calibrated, bound = self.told(predicted)
            policy = policy.for_calibrator(ref.id)
            # A certificate's threshold may lie beyond what labels can tell of one suggestion.
            tier, reason = policy.decide(predicted, source=self.source)
            if bound:
                told_tier, told = policy.decide(calibrated, source=self.source)
                reason = told.replace("about", bound, 1) if told_tier is tier else reason
            if raw is not None and not self.has_evidence:
                reason = NOT_CALIBRATED[self.purpose.task]
            if tier is Tier.ACCEPT and self._repeats_name(evidence):
                tier, reason = Tier.REVIEW, f"{reason}; it says little beyond the function's name"
            if calibrated is not None:
                reason = self.of_labels(reason)
            # The words are of lines: where one ends, what stands around it.
            if (
                used is not None
                and self.purpose.task == "line"
                and (cause := words_for(used, evidence, tier))
            ):
                reason = f"{cause}; {reason}"
        except DataError as error:
            tier, reason = Tier.REVIEW, f"the model's probabilities are invalid: {error}"
        return Confidence(
            calibrated=calibrated,
            raw=raw,
            measure=(used or order[0]).measure,
            tier=tier,
            reason=reason,
            certified=tier is Tier.ACCEPT and policy.certified,
            calibrator=ref,
            first_tokens=self.first_tokens,
            notes=self._notes(evidence) if self.purpose.task == "summary" else (),
            cause=cause,
        )

    def _repeats_name(self, evidence: Evidence) -> bool:
        """Whether a summary has no word beyond the function's name."""
        return self.purpose.task == "summary" and evidence.features.get(BEYOND_NAME) == 0.0

    def _notes(self, evidence: Evidence) -> tuple[str, ...]:
        """Of a summary: whether it only repeats the name, how well it fits the code, and whether this
        calibrator knows much. Sentences."""
        found = ["It says little beyond the function's name."] if self._repeats_name(evidence) else []
        weighed = {one.name: one for curve in self.curves for one in curve.features}
        away = [
            (evidence.features[name] - weighed[name].mean) / weighed[name].scale
            for name in ("code-cosine", "code-f1")
            if name in evidence.features and name in weighed and weighed[name].scale > 0.0
        ]
        if away:
            # As if normal: on the shipped records that misses the share by 2 points, at most by 6.
            better = 0.5 + 0.5 * math.erf(math.fsum(away) / len(away) / math.sqrt(2.0))
            tenths = round(10 * better)
            share = "1 in 20" if tenths < 1 else f"{min(tenths, 9)} in 10"
            found.append(f"Its words fit the code better than those of {share} summaries by this model.")
        skill = self.metrics.get("skill")
        if skill is not None and skill.low is not None and skill.high is not None and skill.low <= 0.0:
            found.append(
                "Its calibrator hardly tells good summaries from others: skill "
                f"{skill.value:+.2f}, 95 % interval {skill.low:+.2f} to {skill.high:+.2f}."
            )
        return tuple(found)

    def told(self, probability: float | None) -> tuple[float | None, str]:
        """A probability as far as the labels can tell it; "less than" or "more than" where they end, else "".

        After n labels of one kind the next one is of the other with a probability of 1 / (n + 2), and no
        smaller one can be told (Laplace's rule of succession). From 1 % on that is rounded up to whole
        percents. The labels of the calibrators that it rests on count too. Without any, 1 % is the least.
        """
        if probability is None:
            return None, ""
        labels = max(self.n, sum(origin.items for origin in self.provenance))
        least = 1.0 / (labels + 2.0) if labels else 0.01
        least = least if least < 0.01 else math.ceil(100.0 * least) / 100.0
        if probability < least:
            return least, "less than"
        return (1.0 - least, "more than") if probability > 1.0 - least else (probability, "")

    def of_labels(self, reason: str) -> str:
        """The reason of a tier, with whose labels its probability rests on where these are others."""
        if self.source != "pooled":
            return reason
        return f"{reason}; calibrated on {self.n:,} lines in other languages and windows"

    @cached_property
    def has_evidence(self) -> bool:
        """Whether its curves come from labels of its model and task. If not, `assess` gives no probability.

        Those of `lent.borrowed_curve` for lines are of other models, and a user's fit only begins with them;
        for summaries they are of the same model in other languages, if of anything.
        """
        return self.source != "prior" or (self.purpose.task == "summary" and bool(self.provenance))

    def weighs(self, features: Collection[str]) -> bool:
        """Whether some curve weighs one of these features."""
        return any(one.name in features for curve in self.curves for one in curve.features)

    def probability(self, evidence: Evidence, wanted: Wanted = "best") -> float | None:
        """The calibrated probability of an answer, in [0, 1]; None if there is none.

        `assess` also bounds it by what labels can tell (`told`).
        """
        try:
            return self._predicted(evidence, in_order(self.curves, wanted))[1] if evidence.logprobs else None
        except DataError:
            return None

    def probabilities(self, evidences: Sequence[Evidence], wanted: Wanted = "best") -> FloatArray:
        """`probability` of n answers, float array of shape (n,); nan where there is none."""
        found = [self.probability(evidence, wanted) for evidence in evidences]
        return np.array([math.nan if p is None else p for p in found], dtype=np.float64)

    def _predicted(self, evidence: Evidence, order: Sequence[Curve]) -> tuple[Curve | None, float | None]:
        """The first curve that gives a probability, and the probability. Raises DataError as they do."""
        for curve in order:
            probability = curve.probability(evidence)
            if probability is not None:
                return curve, probability
        return None, None

    def shared(self, **changes: Any) -> Calibrator:
        """With changed fields, as an export or import makes them, under the id that it was made with."""
        return attrs.evolve(self, **changes, made_as=self.id)

    def to_json(self) -> dict[str, Any]:
        """The document as JSON types; `from_json` gives back an equal calibrator."""
        content_id = "" if self.made_as is None else self._content_id
        document: dict[str, Any] = written(_CalibratorFile.of(self, id=self.id, content_id=content_id))
        return document

    @classmethod
    def from_json(cls, document: object, *, file: str = "calibrator") -> Calibrator:
        """The calibrator in a document made of JSON types.

        file: the name of the document in error messages.
        Raises CalibratorError naming file and field: unknown schema version or field, missing field, wrong
        type, values that contradict each other, an id that is not that of the content.
        """
        found = read(document, _CalibratorFile, file)
        try:
            calibrator = found.calibrator()
        except (CalibratorError, DataError) as error:
            raise CalibratorError(f"{file}: {error}") from error
        stated = "contentId" if found.content_id else "id"
        if (found.content_id or found.id) != calibrator.id:
            raise CalibratorError(
                f"{file}: {stated} is not that of the content ({calibrator.id}): the file was changed."
            )
        return attrs.evolve(calibrator, made_as=found.id) if found.content_id else calibrator

    @classmethod
    def load(cls, path: Path) -> Calibrator:
        """Read a file. Raises CalibratorError, naming it, if it cannot be read or `from_json` refuses it."""
        return cls.from_json(parse_file(path), file=str(path))

    def save(self, path: Path) -> None:
        """Write the file in one step: readers see the old one or the new one, also after a crash.

        Shipped calibrators are readable by everyone. All others say something about their user's code, and
        are readable by their owner alone.
        Raises CalibratorError if it cannot be written.
        """
        write_document(path, self.to_json(), shipped=self.source == "shipped")


def write_document(path: Path, document: object, *, shipped: bool = False) -> None:
    """Write a document of JSON types in one step, with its folder.

    shipped: readable by everyone, not by its owner alone. Raises CalibratorError if it cannot be written.
    """
    text = json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o755 if shipped else 0o700)
        write_atomically(path, text.encode(), 0o644 if shipped else 0o600)
    except (OSError, UnicodeEncodeError) as error:
        raise CalibratorError(f"{path} cannot be written: {why(error)}.") from error


class FileDocument(Document, frozen=True):
    """A document that has a file of its own."""

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read a file. Raises CalibratorError, naming it, if it cannot be read or is something else."""
        return read(parse_file(path), cls, str(path))


def parse_file(path: Path) -> object:
    """The JSON value in a file. Raises CalibratorError naming it."""
    try:
        return parse(read_file(path, MAX_BYTES), str(path))
    except OSError as error:
        raise CalibratorError(f"{path} cannot be read: {error}.") from error


def _id_prefix(purpose: Purpose) -> str:
    return f"{purpose.task}-{slug(purpose.model.name)}-"


class _CalibratorFile(Document, frozen=True, kw_only=True, omit_defaults=True, tag_field="schema", tag=2):
    """The fields of a calibrator's file, in their order."""

    id: str
    content_id: str = ""
    task: Task
    language: Text
    criterion: str = ""
    model: ModelIdentity
    prompt_version: Text
    raw_measure: Text
    first_tokens: Count | None
    curves: tuple[Curve, ...]
    n: Count
    n_correct: Count
    metrics: Mapping[str, Interval]
    by_place: Mapping[str, Mapping[str, Interval]]
    strata: Mapping[str, Count]
    provenance: tuple[Origin, ...]
    source: Source
    state: State
    created: str
    parent: Text | None

    @classmethod
    def of(cls, one: Calibrator, *, id: str = "", content_id: str = "") -> Self:
        return cls(
            id=id,
            content_id=content_id,
            first_tokens=one.first_tokens,
            **attrs.asdict(one.purpose, recurse=False),
            **{name: getattr(one, name) for name in _SHARED},
        )

    def calibrator(self) -> Calibrator:
        """The calibrator, under the id of its content. Raises CalibratorError or DataError."""
        if self.criterion not in (SUMMARY_CRITERIA if self.task == "summary" else ("",)):
            raise CalibratorError(f"criterion {self.criterion!r} is not one of {self.task}.")
        purpose = Purpose(self.model, self.prompt_version, self.task, self.language, self.criterion)
        made = Calibrator(purpose=purpose, **{name: getattr(self, name) for name in _SHARED})
        if self.first_tokens != made.first_tokens:
            raise CalibratorError(f"firstTokens does not go with measure {self.raw_measure!r}.")
        prefix = _id_prefix(purpose)
        if not (self.id.startswith(prefix) and re.fullmatch("[0-9a-f]{8}", self.id.removeprefix(prefix))):
            raise CalibratorError(f"id is not {prefix} and eight hexadecimal digits.")
        return made


# Of a calibrator and of its file alike.
_SHARED = [field.name for field in attrs.fields(Calibrator) if field.name not in ("purpose", "made_as")]


# A smaller pull than this, in nats, explains nothing: it moves a probability of 0.5 by less than 0.08.
LEAST_PULL = 0.3

# In nats. Where nothing pulls towards review or reject, a token that is less likely than not is the reason
# not to accept.
UNSURE = math.log(2.0)

# What a high value of each feature with words says of a suggestion: 1 speaks for it, -1 against it. A weight
# may have the other sign, because features overlap; its words would then contradict the tier.
SPEAKS = MappingProxyType(
    {
        "total": 1,
        "largest-surprisal": -1,
        "entropy-sum": -1,
        "end-surprisal": -1,
        "broken": -1,
        "line-repeats": 1,
        "new-names": -1,
        "line-follows": -1,
        "beginning-agrees": 1,
        "beginning-differs": -1,
        "signs": -1,
    }
)


def words_for(curve: Curve, evidence: Evidence, tier: Tier) -> str:
    """The words for the group of features that pulls most towards the tier, else for a token that is less
    likely than not. Of what is not accepted they name the word in doubt in any case: it is marked, and the
    words would speak of something else. "" if there is neither.

    The features of the tokens' probabilities are one group, because they overlap; each other feature is a
    group of its own. Towards accept pulls what raises the log-odds above those of an average answer, towards
    review and reject what lowers them.
    Raises DataError as `Curve.contributions` does.
    """
    words, doubtful = _cause(curve, evidence, tier), evidence.doubtful
    if tier is Tier.ACCEPT or not doubtful or f"`{doubtful}`" in words:
        return words
    return f"{words}; least sure of `{doubtful}`" if words else f"the model was least sure of `{doubtful}`"


def _cause(curve: Curve, evidence: Evidence, tier: Tier) -> str:
    contributions = curve.contributions(evidence)
    if contributions is None:
        return ""
    sign = 1.0 if tier is Tier.ACCEPT else -1.0
    groups: dict[str, dict[str, float]] = {}
    for name, nats in contributions.items():
        groups.setdefault(_group(name), {})[name] = sign * nats
    weights = {feature.name: feature.weight for feature in curve.features}
    for group in sorted(groups.values(), key=lambda members: -sum(members.values())):
        if sum(group.values()) < LEAST_PULL:
            break
        if words := _words(group, weights, towards=sign):
            return _naming(words, evidence)
    if tier is not Tier.ACCEPT and -min(evidence.logprobs, default=0.0) >= UNSURE:
        return _naming(FEATURES["total"].low, evidence)
    return ""


def _naming(words: str, evidence: Evidence) -> str:
    """With the sign, and the word in doubt; where the token that ends the line is the least likely one, there
    is none."""
    words = words.replace("{sign}", evidence.sign or "a linter would warn of it")
    logprobs = evidence.logprobs
    if "{word}" in words and logprobs and logprobs.index(min(logprobs)) == len(logprobs) - 1:
        return FEATURES["end-surprisal"].high
    return words.replace("{word}", f"`{evidence.doubtful}`" if evidence.doubtful else "one of its words")


def _group(name: str) -> str:
    feature = FEATURES.get(name)
    of_tokens = is_plain(name) if feature is None else feature.needs != "text"
    return "log-probabilities" if of_tokens else name


def _words(pulls: Mapping[str, float], weights: Mapping[str, float], *, towards: float) -> str:
    """The words of the member that pulls most, of those whose words point the way that they pull."""
    for name in sorted(pulls, key=lambda name: -pulls[name]):
        feature = FEATURES.get(name)
        if feature is None or pulls[name] <= 0.0 or weights[name] * SPEAKS.get(name, 0) <= 0.0:
            continue
        if words := feature.high if towards * weights[name] > 0.0 else feature.low:
            return words
    return ""
