"""A calibrator: the fitted curves, their data, model and quality. One JSON file each."""

from __future__ import annotations

import datetime
import hashlib
import json
import math
from collections.abc import Collection, Mapping, Sequence
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, Literal, cast

import attrs
import numpy as np

from lsp_calib.calibration.arrays import FloatArray
from lsp_calib.calibration.calibrators.curve import Curve, Wanted, curve_of, in_order, is_plain
from lsp_calib.calibration.calibrators.purpose import (
    SOURCES,
    STATES,
    TASKS,
    Origin,
    Purpose,
    Source,
    State,
    Task,
    slug,
)
from lsp_calib.calibration.calibrators.rank_curves import RankCurve
from lsp_calib.calibration.calibrators.reasons import reason as reason_of
from lsp_calib.calibration.calibrators.stored_metrics import by_place_of, metrics_of, metrics_to_json
from lsp_calib.calibration.document import Fields, parse
from lsp_calib.calibration.policies.tiers import NO_LABELS, Policy
from lsp_calib.calibration.validation.intervals import Interval
from lsp_calib.confidence import by_name, first_tokens
from lsp_calib.errors import CalibratorError, DataError
from lsp_calib.files import write_atomically
from lsp_calib.values import CalibratorRef, Confidence, Evidence, ModelIdentity, Tier

Schema = Literal[1, 2]
SCHEMA: Schema = 2
MAX_BYTES = 1_000_000  # a calibrator is a few kilobytes; anything larger is something else

NO_SUMMARY_LABELS = (
    "no labels for summaries of this model yet; `lsp-calib calibrate PATH --task summary` gets some from "
    "documented code"
)
"""The reason for the tier of a summary while no calibrator of summaries exists for its model."""
METRICS = ("skill", "auc", "brier", "logLoss", "ece", "baseRate")


@attrs.frozen(kw_only=True)
class Calibrator:
    """A fitted calibrator and everything a reader needs to judge it.

    curves: at least one, one for each measure, the preferred first: an answer gets its probability from the
        first curve whose features are all known.
    raw_measure: name of the raw confidence, as `confidence.by_name` takes it: a number that needs no labels,
        shown beside the probability.
    n, n_correct: labels it was fitted on, and how many of them were correct.
    metrics: of out-of-fold predictions of the first curve, by name (METRICS), each with its interval.
    by_place: some of these metrics for each kind of place of the cursor.
    strata: how many labels of each kind of place.
    ranks: curves of the alternatives' ranks, from 2 on, where labels exist for them.
    created: ISO date, YYYY-MM-DD. parent: id of the calibrator that it replaced, or None.
    schema: of its file. One read from a file of schema 1 keeps it: its id is computed from that form.
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
    ranks: tuple[RankCurve, ...] = ()
    schema: Schema = SCHEMA

    def __attrs_post_init__(self) -> None:
        _validate(self, "The calibrator")

    @cached_property
    def id(self) -> str:
        """Such as line-smollm2-135m-1f0c9a3e, computed from the content (but not the state)."""
        content = self._content()
        del content["state"]
        canonical = json.dumps(content, sort_keys=True, separators=(",", ":"), allow_nan=False)
        digest = hashlib.sha256(canonical.encode("utf-8", "surrogatepass")).hexdigest()[:8]
        return f"{self.purpose.task}-{slug(self.purpose.model.name)}-{digest}"

    @property
    def source_and_state(self) -> str:
        """Its source, and its state where that says more: "shipped", "personal, learning"."""
        return ", ".join(dict.fromkeys((self.source, self.state)))

    @property
    def measure(self) -> str:
        """The measure of the preferred curve."""
        return self.curves[0].measure

    @property
    def first_tokens(self) -> int | None:
        """How many tokens the raw confidence looks at; None: all."""
        return first_tokens(self.raw_measure)

    def curve(self, measure: str) -> Curve | None:
        """The curve of a measure, if there is one."""
        return curve_of(self.curves, measure)

    @cached_property
    def ref(self) -> CalibratorRef:
        """The reference to it that a suggestion carries."""
        return CalibratorRef(id=self.id, source=self.source, state=self.state, n=self.n)

    def assess(self, evidence: Evidence, policy: Policy, wanted: Wanted = "best") -> Confidence:
        """The evidence of an answer -> confidence with its tier.

        wanted: "best": the first curve whose features are all known. "geometric-mean" and "total": the curve
            of that measure, if there is one, before all others.
        Never raises for bad evidence: a curve with a missing feature leaves its place to the next one. If
        none is left, or the log-probabilities are impossible, there is no confidence, and the tier is review.
        A suggestion is certified if it is accepted under a certificate for this calibrator.
        """
        ref = self.ref
        policy = policy.for_calibrator(ref.id)
        raw: float | None = None
        calibrated: float | None = None
        used: Curve | None = None
        try:
            if evidence.logprobs:
                raw = by_name(self.raw_measure)(evidence.logprobs)
                if self.has_evidence:
                    used, calibrated = self._predicted(evidence, wanted)
            tier, reason = policy.decide(calibrated, source=self.source)
            if not self.has_evidence:
                reason = NO_SUMMARY_LABELS
            # The tier of a calibrator without labels follows from that, not from the features.
            if self.source == "prior":
                # The policy does not know what it judges.
                reason = reason.replace(NO_LABELS, NO_LABELS.replace(" it ", f" {self.purpose.answers} "))
            # The words are of lines: where one ends, what stands around it.
            explains = self.source != "prior" and self.purpose.task == "line"
            if used is not None and explains and (words := reason_of(used, evidence, tier)):
                reason = f"{reason}; {words}"
        except DataError as error:
            tier, reason = Tier.REVIEW, f"the model's probabilities are invalid: {error}"
        return Confidence(
            calibrated=calibrated,
            raw=raw,
            measure=(used or in_order(self.curves, wanted)[0]).measure,
            tier=tier,
            reason=reason,
            certified=policy.certified and tier is Tier.ACCEPT,
            calibrator=ref,
            first_tokens=self.first_tokens,
        )

    @property
    def has_evidence(self) -> bool:
        """Whether its curves come from labels of its task. If not, `assess` gives no probability.

        The built-in curve of `pooled_prior.borrow` is one of lines; summaries only begin a fit with it.
        """
        return self.purpose.task == "line" or self.source != "prior" or bool(self.provenance)

    def weighs(self, features: Collection[str]) -> bool:
        """Whether some curve weighs one of these features."""
        return any(one.name in features for curve in self.curves for one in curve.features)

    def probability(self, evidence: Evidence, wanted: Wanted = "best") -> float | None:
        """The calibrated probability of an answer, in [0, 1], as `assess` finds it; None if there is none."""
        try:
            return self._predicted(evidence, wanted)[1] if evidence.logprobs else None
        except DataError:
            return None

    def probabilities(self, evidences: Sequence[Evidence], wanted: Wanted = "best") -> FloatArray:
        """`probability` of n answers, float array of shape (n,); nan where there is none."""
        found = [self.probability(evidence, wanted) for evidence in evidences]
        return np.array([math.nan if p is None else p for p in found], dtype=np.float64)

    def _predicted(self, evidence: Evidence, wanted: Wanted) -> tuple[Curve | None, float | None]:
        """The first curve that gives a probability, and the probability. Raises DataError as they do."""
        for curve in in_order(self.curves, wanted):
            probability = curve.probability(evidence)
            if probability is not None:
                return curve, probability
        return None, None

    def check_fits(self, model: ModelIdentity, prompt_version: str, task: str) -> None:
        """Raise CalibratorError, naming every difference, if this was fitted for something else."""
        differences = self.purpose.differences(model, prompt_version, task)
        if differences:
            raise CalibratorError(
                f"Calibrator {self.id} was fitted for {'; '.join(differences)}. "
                "Its probabilities are not valid for anything else."
            )

    def to_json(self) -> dict[str, Any]:
        """The document as JSON types; `from_json` gives back an equal calibrator."""
        return {"schema": self.schema, "id": self.id, **self._content()}

    def _content(self) -> dict[str, Any]:
        first = {"firstTokens": self.first_tokens}
        by_place = {place: metrics_to_json(metrics) for place, metrics in self.by_place.items()}
        if self.schema == 1:
            curves = {"measure": self.measure, **first, **self.curves[0].to_schema_1()}
        else:
            curves = {"rawMeasure": self.raw_measure, **first}
            curves |= {"curves": [curve.to_json() for curve in self.curves]}
            # Left out where there are none, so that files from before keep their ids.
            curves |= {"ranks": [curve.to_json() for curve in self.ranks]} if self.ranks else {}
        return {
            "task": self.purpose.task,
            "language": self.purpose.language,
            "model": attrs.asdict(self.purpose.model),
            "promptVersion": self.purpose.prompt_version,
            **curves,
            "n": self.n,
            "nCorrect": self.n_correct,
            "metrics": metrics_to_json(self.metrics),
            **({} if self.schema == 1 else {"byPlace": by_place}),
            "strata": dict(self.strata),
            "provenance": [attrs.asdict(origin) for origin in self.provenance],
            "source": self.source,
            "state": self.state,
            "created": self.created,
            "parent": self.parent,
        }

    @classmethod
    def from_json(cls, document: object, *, file: str = "calibrator") -> Calibrator:
        """The calibrator in a document made of JSON types.

        file: the name of the document in error messages.
        Raises CalibratorError naming file and field: unknown schema version or field, missing field, wrong
        type, values that contradict each other, an id that is not that of the content.
        """
        fields = Fields.of(document, file)
        schema = fields.get("schema")
        if schema not in (1, SCHEMA) or isinstance(schema, bool):
            fields.wrong(
                "schema",
                f"is {schema!r}; this version reads 1 and {SCHEMA} (newer files need a newer lsp-calib)",
            )
        fields.only(_FIELDS[1 if schema == 1 else SCHEMA])
        model = fields.object("model")
        model.only({"name", "quantisation", "sha256"})
        strata = fields.object("strata")
        try:
            curves = (
                [Curve.from_schema_1(fields)]
                if schema == 1
                else [Curve.from_json(curve) for curve in fields.objects("curves")]
            )
            ranks = fields.objects("ranks") if "ranks" in fields.values else []
            calibrator = cls(
                purpose=Purpose(
                    ModelIdentity(
                        model.text("name"),
                        model.text("quantisation", empty=True),
                        model.text("sha256", empty=True),
                    ),
                    fields.text("promptVersion"),
                    cast(Task, fields.choice("task", TASKS)),
                    fields.text("language"),
                ),
                curves=tuple(curves),
                raw_measure=fields.text("measure" if schema == 1 else "rawMeasure"),
                n=fields.count("n"),
                n_correct=fields.count("nCorrect"),
                metrics=metrics_of(fields.object("metrics")),
                by_place={} if schema == 1 else by_place_of(fields.object("byPlace")),
                strata={name: strata.count(name) for name in strata.values},
                provenance=tuple(_origin(origin) for origin in fields.objects("provenance")),
                source=cast(Source, fields.choice("source", SOURCES)),
                state=cast(State, fields.choice("state", STATES)),
                created=fields.text("created"),
                parent=fields.optional_text("parent"),
                ranks=tuple(RankCurve.from_json(curve) for curve in ranks),
                schema=1 if schema == 1 else SCHEMA,
            )
        except DataError as error:
            raise CalibratorError(f"{file}: curves, slope, intercept or prior: {error}") from error
        except CalibratorError as error:
            message = str(error)
            raise CalibratorError(message if message.startswith(file) else f"{file}: {message}") from error
        if fields.optional_count("firstTokens") != calibrator.first_tokens:
            fields.wrong("firstTokens", f"does not go with measure {calibrator.raw_measure!r}")
        if fields.text("id") != calibrator.id:
            fields.wrong("id", f"is not that of the content ({calibrator.id}): the file was changed")
        return calibrator

    @classmethod
    def load(cls, path: Path) -> Calibrator:
        """Read a file. Raises CalibratorError, naming it, if it cannot be read or `from_json` refuses it."""
        try:
            with path.open("rb") as stream:
                data = stream.read(MAX_BYTES + 1)
            if len(data) > MAX_BYTES:
                raise CalibratorError(f"{path} is larger than {MAX_BYTES} bytes: it is not a calibrator.")
            text = data.decode("utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise CalibratorError(f"{path} cannot be read: {error}.") from error
        return _parsed(text, str(path))

    def save(self, path: Path) -> None:
        """Write the file in one step: readers see the old one or the new one, also after a crash.

        Shipped calibrators are readable by everyone. All others say something about their user's code, and
        are readable by their owner alone.
        Raises CalibratorError if it cannot be written.
        """
        text = json.dumps(self.to_json(), indent=2, ensure_ascii=False, allow_nan=False) + "\n"
        try:
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o755 if self.source == "shipped" else 0o700)
            write_atomically(path, text.encode(), 0o644 if self.source == "shipped" else 0o600)
        except (OSError, UnicodeEncodeError) as error:
            raise CalibratorError(f"{path} cannot be written: {error}.") from error


# Each choice of a calibrator reads every file there is, and listing them all chooses for each. Most have not
# changed since they were read last, and nothing changes a calibrator.
@lru_cache(maxsize=256)
def _parsed(text: str, file: str) -> Calibrator:
    """As `Calibrator.from_json`: what it refuses is refused each time."""
    return Calibrator.from_json(parse(text, file), file=file)


_COMMON = {
    *(
        "schema",
        "id",
        "task",
        "language",
        "model",
        "promptVersion",
        "firstTokens",
        "n",
        "nCorrect",
        "metrics",
    ),
    *("strata", "provenance", "source", "state", "created", "parent"),
}
_FIELDS = {
    1: _COMMON | {"measure", "slope", "intercept", "input", "offsets", "prior"},
    SCHEMA: _COMMON | {"rawMeasure", "curves", "byPlace", "ranks"},
}


def _validate(calibrator: Calibrator, what: str) -> None:
    if calibrator.n_correct > calibrator.n:
        raise CalibratorError(f"{what} has nCorrect {calibrator.n_correct} above n {calibrator.n}.")
    for metrics in (calibrator.metrics, *calibrator.by_place.values()):
        unknown = sorted(set(metrics) - set(METRICS))
        if unknown:
            raise CalibratorError(
                f"{what} has unknown metrics {', '.join(unknown)}; known: {', '.join(METRICS)}."
            )
    measures = [curve.measure for curve in calibrator.curves]
    if not measures or len(set(measures)) < len(measures):
        raise CalibratorError(f"{what} must have curves, one for each measure.")
    if not is_plain(calibrator.raw_measure):
        raise CalibratorError(f"{what} has a wrong measure: {calibrator.raw_measure!r} is not known.")
    if calibrator.schema == 1:
        try:
            calibrator.curves[0].to_schema_1()
        except DataError as error:
            raise CalibratorError(f"{what}: {error}.") from error
        if measures != [calibrator.raw_measure] or calibrator.by_place or calibrator.ranks:
            raise CalibratorError(f"{what} has more than a file of schema 1 can hold.")
    try:
        date = datetime.date.fromisoformat(calibrator.created).isoformat()
    except ValueError:
        date = ""
    if date != calibrator.created:
        raise CalibratorError(
            f"{what} has created {calibrator.created!r}; it must be a date as in 2026-01-31."
        )


def _origin(fields: Fields) -> Origin:
    fields.only({"name", "version", "items"})
    return Origin(fields.text("name"), fields.text("version", empty=True), fields.count("items"))
