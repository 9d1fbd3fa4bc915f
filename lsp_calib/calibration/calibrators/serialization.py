"""Fitted curves as JSON types and back, exactly. Reading executes nothing and refuses unknown fields."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from lsp_calib.calibration.calibrators.document import Fields
from lsp_calib.calibration.methods.beta import BetaCalibrator
from lsp_calib.calibration.methods.histogram import HistogramCalibrator
from lsp_calib.calibration.methods.isotonic import IsotonicCalibrator
from lsp_calib.calibration.methods.logistic import LogisticCalibrator
from lsp_calib.calibration.methods.online import Calibeater, OnlineCalibrator, OnlinePlatt
from lsp_calib.calibration.methods.platt import FADE, INPUTS, Input, PlattCalibrator, Prior
from lsp_calib.calibration.methods.temperature import TemperatureCalibrator
from lsp_calib.errors import CalibratorError, DataError

Curve = (
    PlattCalibrator
    | TemperatureCalibrator
    | BetaCalibrator
    | IsotonicCalibrator
    | HistogramCalibrator
    | LogisticCalibrator
    | OnlineCalibrator
)

PLATT_FIELDS = {"slope", "intercept", "input", "offsets"}


def curve_to_json(curve: Curve) -> dict[str, Any]:
    """The curve as JSON types, with its `kind`; `curve_from_json` gives back an equal one."""
    match curve:
        case PlattCalibrator():
            return {"kind": "platt", **platt_to_json(curve)}
        case TemperatureCalibrator():
            return {"kind": "temperature", "temperature": curve.temperature}
        case BetaCalibrator():
            return {"kind": "beta", "a": curve.a, "b": curve.b, "c": curve.c}
        case IsotonicCalibrator():
            return {"kind": "isotonic", "scores": list(curve.scores), "values": list(curve.values)}
        case HistogramCalibrator():
            return {"kind": "histogram", "edges": list(curve.edges), "values": list(curve.values)}
        case LogisticCalibrator():
            return {
                "kind": "multiple",
                "coefficients": list(curve.coefficients),
                "intercept": curve.intercept,
                "means": list(curve.means),
                "scales": list(curve.scales),
                "spread": curve.spread,
            }
        case OnlineCalibrator():
            return {"kind": "sequential", **_sequential_to_json(curve)}


def curve_from_json(document: object, *, file: str = "curve") -> Curve:
    """The curve in a document made of JSON types.

    file: what to call the document in complaints.
    Raises CalibratorError naming file and field: unknown kind or field, missing field, wrong type, numbers
    that no curve of its kind has.
    """
    fields = Fields.of(document, file)
    kind = fields.choice("kind", tuple(_READERS))
    known, read = _READERS[kind]
    fields.only({"kind", *known})
    try:
        return read(fields)
    except DataError as error:
        raise CalibratorError(f"{file}: {error}") from error


def platt_to_json(platt: PlattCalibrator) -> dict[str, Any]:
    """Slope and intercept; input and offsets only where they are not the usual ones."""
    document: dict[str, Any] = {"slope": platt.slope, "intercept": platt.intercept}
    if platt.input != "log-odds":
        document["input"] = platt.input
    if platt.offsets:
        document["offsets"] = [{"group": group, "offset": offset} for group, offset in platt.offsets]
    return document


def platt_from_json(fields: Fields) -> PlattCalibrator:
    """What `platt_to_json` wrote. Raises CalibratorError or DataError."""
    offsets = []
    for item in fields.objects("offsets") if "offsets" in fields.values else []:
        item.only({"group", "offset"})
        offsets.append((item.text("group", empty=True), item.number("offset")))
    kind = fields.choice("input", INPUTS) if "input" in fields.values else "log-odds"
    return PlattCalibrator(
        fields.number("slope"), fields.number("intercept"), cast(Input, kind), tuple(offsets)
    )


def prior_to_json(prior: Prior) -> dict[str, float]:
    """The prior as JSON types; trust and fade only where they are not the usual ones."""
    document = {
        "slope": prior.slope,
        "intercept": prior.intercept,
        "slopeSd": prior.slope_sd,
        "interceptSd": prior.intercept_sd,
    }
    if (prior.trust, prior.fade) != (0.0, FADE):
        document |= {"trust": prior.trust, "fade": prior.fade}
    return document


def prior_from_json(fields: Fields) -> Prior:
    """What `prior_to_json` wrote. Raises CalibratorError or DataError."""
    fields.only({"slope", "intercept", "slopeSd", "interceptSd", "trust", "fade"})
    names = ["slope", "intercept", "slopeSd", "interceptSd"]
    if "trust" in fields.values:
        names += ["trust", "fade"]
    return Prior(*(fields.number(name) for name in names))


def _sequential_to_json(curve: OnlineCalibrator) -> dict[str, Any]:
    platt, beater = curve.platt, curve.calibeater
    return {
        "platt": {
            "slope": platt.slope,
            "intercept": platt.intercept,
            "precision": list(platt.precision),
            "prior": prior_to_json(platt.prior),
            "memory": platt.memory,
            "n": platt.n,
        },
        "calibeater": {
            "counts": list(beater.counts),
            "residuals": list(beater.residuals),
            "memory": beater.memory,
            "enough": beater.enough,
        },
    }


def _sequential(fields: Fields) -> OnlineCalibrator:
    platt, beater = fields.object("platt"), fields.object("calibeater")
    platt.only({"slope", "intercept", "precision", "prior", "memory", "n"})
    beater.only({"counts", "residuals", "memory", "enough"})
    precision = _numbers(platt, "precision")
    if len(precision) != 3:
        platt.wrong("precision", "must be three numbers")
    return OnlineCalibrator(
        OnlinePlatt(
            platt.number("slope"),
            platt.number("intercept"),
            (precision[0], precision[1], precision[2]),
            prior_from_json(platt.object("prior")),
            platt.number("memory"),
            platt.count("n"),
        ),
        Calibeater(
            _numbers(beater, "counts"),
            _numbers(beater, "residuals"),
            beater.number("memory"),
            beater.number("enough"),
        ),
    )


def _numbers(fields: Fields, name: str) -> tuple[float, ...]:
    values = fields.get(name)
    if not isinstance(values, list):
        fields.wrong(name, "must be a list")
    listed = Fields({f"{name}[{i}]": value for i, value in enumerate(values)}, fields.file, fields.path)
    return tuple(listed.number(item) for item in listed.values)


_READERS: dict[str, tuple[set[str], Callable[[Fields], Curve]]] = {
    "platt": (PLATT_FIELDS, platt_from_json),
    "temperature": ({"temperature"}, lambda fields: TemperatureCalibrator(fields.number("temperature"))),
    "beta": (
        {"a", "b", "c"},
        lambda fields: BetaCalibrator(fields.number("a"), fields.number("b"), fields.number("c")),
    ),
    "isotonic": (
        {"scores", "values"},
        lambda fields: IsotonicCalibrator(_numbers(fields, "scores"), _numbers(fields, "values")),
    ),
    "histogram": (
        {"edges", "values"},
        lambda fields: HistogramCalibrator(_numbers(fields, "edges"), _numbers(fields, "values")),
    ),
    "multiple": (
        {"coefficients", "intercept", "means", "scales", "spread"},
        lambda fields: LogisticCalibrator(
            _numbers(fields, "coefficients"),
            fields.number("intercept"),
            _numbers(fields, "means"),
            _numbers(fields, "scales"),
            fields.number("spread"),
        ),
    ),
    "sequential": ({"platt", "calibeater"}, _sequential),
}
