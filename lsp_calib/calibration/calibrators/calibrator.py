"""A calibrator: the fitted curve, its data, model and quality. One JSON file each."""

from __future__ import annotations

import datetime
import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, cast

import attrs

from lsp_calib.calibration.calibrators.serialization import field_names
from lsp_calib.calibration.document import Fields, parse
from lsp_calib.calibration.methods.platt import PlattCalibrator, Prior
from lsp_calib.calibration.policies.tiers import Policy
from lsp_calib.calibration.validation.intervals import Interval, Kind
from lsp_calib.confidence import by_name, first_tokens
from lsp_calib.errors import CalibratorError, DataError
from lsp_calib.files import write_atomically
from lsp_calib.values import CalibratorRef, Confidence, ModelIdentity, Tier

SCHEMA = 1
MAX_BYTES = 1_000_000  # a calibrator is a few kilobytes; anything larger is something else

Task = Literal["line", "summary"]
Source = Literal["prior", "shipped", "workspace", "personal"]
State = Literal["shipped", "learning", "ready", "drifted"]

TASKS: tuple[Task, ...] = ("line", "summary")
SOURCES: tuple[Source, ...] = ("prior", "shipped", "workspace", "personal")
STATES: tuple[State, ...] = ("shipped", "learning", "ready", "drifted")
METRICS = ("skill", "auc", "brier", "logLoss", "ece", "baseRate")


@attrs.frozen
class Purpose:
    """The purpose of a calibrator: one model's raw confidences, for one prompt version, task and language."""

    model: ModelIdentity
    prompt_version: str
    task: Task
    language: str


@attrs.frozen
class Origin:
    """A source of labels: its name, version, and how many items came from it."""

    name: str
    version: str
    items: int


@attrs.frozen(kw_only=True)
class Calibrator:
    """A fitted calibrator and everything a reader needs to judge it.

    measure: name of the raw confidence, as `confidence.by_name` takes it.
    platt: the curve. prior: the belief it was fitted under.
    n, n_correct: labels it was fitted on, and how many of them were correct.
    metrics: of out-of-fold predictions, by name (METRICS), each with its interval.
    strata: how many labels of each kind (such as where in the line the cursor stood).
    created: ISO date, YYYY-MM-DD. parent: id of the calibrator that it replaced, or None.
    Raises CalibratorError for values that contradict each other.
    """

    purpose: Purpose
    measure: str
    platt: PlattCalibrator
    prior: Prior
    n: int
    n_correct: int
    metrics: Mapping[str, Interval] = attrs.field(factory=dict)
    strata: Mapping[str, int] = attrs.field(factory=dict)
    provenance: tuple[Origin, ...] = ()
    source: Source
    state: State
    created: str
    parent: str | None = None

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
    def first_tokens(self) -> int | None:
        """How many tokens the measure looks at; None: all."""
        return first_tokens(self.measure)

    @cached_property
    def ref(self) -> CalibratorRef:
        """The reference to it that a suggestion carries."""
        return CalibratorRef(id=self.id, source=self.source, state=self.state, n=self.n)

    def assess(self, logprobs: Sequence[float], policy: Policy) -> Confidence:
        """Token log-probabilities (natural logarithms, in order) -> confidence with its tier.

        Never raises for bad log-probabilities: if they are missing or impossible, there is no confidence, and
        the tier is review. A suggestion is certified if it is accepted under a certificate for this
        calibrator.
        """
        ref = self.ref
        policy = policy.for_calibrator(ref.id)
        raw: float | None = None
        calibrated: float | None = None
        try:
            raw = by_name(self.measure)(logprobs)
            calibrated = self.platt.predict(raw)
            tier, reason = policy.decide(calibrated, source=self.source)
        except DataError as error:
            tier, reason = policy.decide(None, source=self.source)
            if len(logprobs):
                tier, reason = Tier.REVIEW, f"the model's probabilities are invalid: {error}"
        return Confidence(
            calibrated=calibrated,
            raw=raw,
            measure=self.measure,
            tier=tier,
            reason=reason,
            certified=policy.certified and tier is Tier.ACCEPT,
            calibrator=ref,
            first_tokens=self.first_tokens,
        )

    def check_fits(self, model: ModelIdentity, prompt_version: str, task: str) -> None:
        """Raise CalibratorError, naming every difference, if this was fitted for something else.

        Two models with checksums are the same if the checksums are, whatever their names.
        """
        mine = self.purpose
        differences = []
        if mine.model.sha256 and model.sha256:
            same = mine.model.sha256 == model.sha256
        else:
            same = (mine.model.name, mine.model.quantisation) == (model.name, model.quantisation)
        if not same:
            differences.append(f"model {_named(mine.model)}, not {_named(model)}")
        if mine.prompt_version != prompt_version:
            differences.append(f"prompt version {mine.prompt_version!r}, not {prompt_version!r}")
        if mine.task != task:
            differences.append(f"task {mine.task!r}, not {task!r}")
        if differences:
            raise CalibratorError(
                f"Calibrator {self.id} was fitted for {'; '.join(differences)}. "
                "Its probabilities are not valid for anything else."
            )

    def to_json(self) -> dict[str, Any]:
        """The document as JSON types; `from_json` gives back an equal calibrator."""
        return {"schema": SCHEMA, "id": self.id, **self._content()}

    def _content(self) -> dict[str, Any]:
        return {
            "task": self.purpose.task,
            "language": self.purpose.language,
            "model": attrs.asdict(self.purpose.model),
            "promptVersion": self.purpose.prompt_version,
            "measure": self.measure,
            "firstTokens": self.first_tokens,
            **self.platt.to_json(),
            "prior": self.prior.to_json(),
            "n": self.n,
            "nCorrect": self.n_correct,
            "metrics": {name: attrs.asdict(interval) for name, interval in self.metrics.items()},
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
        if schema != SCHEMA or isinstance(schema, bool):
            fields.wrong(
                "schema", f"is {schema!r}; this version reads {SCHEMA} (newer files need a newer lsp-calib)"
            )
        fields.only(_FIELDS)
        model = fields.object("model")
        model.only({"name", "quantisation", "sha256"})
        metrics, strata = fields.object("metrics"), fields.object("strata")
        try:
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
                measure=fields.text("measure"),
                platt=PlattCalibrator.from_json(fields),
                prior=Prior.from_json(fields.object("prior")),
                n=fields.count("n"),
                n_correct=fields.count("nCorrect"),
                metrics={name: _interval(metrics.object(name)) for name in metrics.values},
                strata={name: strata.count(name) for name in strata.values},
                provenance=tuple(_origin(origin) for origin in fields.objects("provenance")),
                source=cast(Source, fields.choice("source", SOURCES)),
                state=cast(State, fields.choice("state", STATES)),
                created=fields.text("created"),
                parent=fields.optional_text("parent"),
            )
        except DataError as error:
            raise CalibratorError(f"{file}: slope, intercept or prior: {error}") from error
        except CalibratorError as error:
            message = str(error)
            raise CalibratorError(message if message.startswith(file) else f"{file}: {message}") from error
        if fields.optional_count("firstTokens") != calibrator.first_tokens:
            fields.wrong("firstTokens", f"does not go with measure {calibrator.measure!r}")
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
        return cls.from_json(parse(text, str(path)), file=str(path))

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


_FIELDS = {
    *(
        "schema",
        "id",
        "task",
        "language",
        "model",
        "promptVersion",
        "measure",
        "firstTokens",
    ),
    *field_names(PlattCalibrator),
    *("prior", "n", "nCorrect", "metrics", "strata", "provenance", "source", "state", "created", "parent"),
}


def slug(name: str) -> str:
    """`name` as part of a file name: lower-case letters, digits, dots and hyphens, at most 60 of them."""
    return re.sub(r"[^a-z0-9.]+", "-", name.lower()).strip("-.")[:60] or "model"


def _validate(calibrator: Calibrator, what: str) -> None:
    if calibrator.n_correct > calibrator.n:
        raise CalibratorError(f"{what} has nCorrect {calibrator.n_correct} above n {calibrator.n}.")
    unknown = sorted(set(calibrator.metrics) - set(METRICS))
    if unknown:
        raise CalibratorError(
            f"{what} has unknown metrics {', '.join(unknown)}; known: {', '.join(METRICS)}."
        )
    try:
        first_tokens(calibrator.measure)
    except DataError as error:
        raise CalibratorError(f"{what} has a wrong measure: {error}") from error
    try:
        date = datetime.date.fromisoformat(calibrator.created).isoformat()
    except ValueError:
        date = ""
    if date != calibrator.created:
        raise CalibratorError(
            f"{what} has created {calibrator.created!r}; it must be a date as in 2026-01-31."
        )


def _interval(fields: Fields) -> Interval:
    fields.only({"value", "low", "high", "kind"})
    return Interval(
        fields.optional_number("value"),
        fields.optional_number("low"),
        fields.optional_number("high"),
        cast(Kind, fields.choice("kind", ("bootstrap", "calibrated-band"))),
    )


def _origin(fields: Fields) -> Origin:
    fields.only({"name", "version", "items"})
    return Origin(fields.text("name"), fields.text("version", empty=True), fields.count("items"))


def _named(model: ModelIdentity) -> str:
    checksum = f", sha256 {model.sha256[:12]}" if model.sha256 else ""
    return f"{model.name} ({model.quantisation or 'quantisation unknown'}{checksum})"
