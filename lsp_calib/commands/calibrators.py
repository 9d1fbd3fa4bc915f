"""`lsp-calib calibrators`: which calibrators there are, and what one of them weighs, in words."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import attrs
from rich.console import Console
from rich.table import Table

from lsp_calib.calibration.calibrators.calibrator import Calibrator
from lsp_calib.calibration.calibrators.calibrator_store import CalibratorStore, Listed
from lsp_calib.calibration.calibrators.carrying_over import carried_from, note
from lsp_calib.calibration.calibrators.curve import Curve, is_plain
from lsp_calib.calibration.validation.intervals import Interval
from lsp_calib.confidence.features import FEATURES
from lsp_calib.confidence.summary_features import SUMMARY_FEATURES
from lsp_calib.errors import SettingsError

_SHOWN = ("skill", "auc", "ece")


@attrs.frozen
class Listing:
    """All calibrators of this user and installation, and a sentence for each file that cannot be used."""

    entries: tuple[Listed, ...]
    skipped: tuple[str, ...]

    def to_wire(self) -> dict[str, Any]:
        return {"calibrators": [_wire(entry) for entry in self.entries], "skipped": list(self.skipped)}

    def print(self) -> None:
        console = Console(highlight=False)
        for entry in self.entries:
            c = entry.calibrator
            standing = "in force" if entry.in_force else "kept"
            # Ids are copied from here: each has a line that is never wrapped.
            console.print(f"[bold]{c.id}[/bold]  {standing}", soft_wrap=True)
            skill = _number(c.metrics.get("skill"), signed=True) or "unknown"
            console.print(
                f"  {c.purpose.model.name}, {c.purpose.answers}, prompt {c.purpose.prompt_version}; "
                f"{c.source_and_state}; {c.n} labels; {c.measure}, skill {skill}; {c.created}",
                soft_wrap=True,
            )
            if words := note(c):
                console.print(f"  {words}", soft_wrap=True)
            if words := _promised(entry):
                console.print(f"  {words}", soft_wrap=True)
        for sentence in self.skipped:
            console.print(sentence)
        if self.entries:
            console.print("`lsp-calib calibrators show ID` prints what one of them weighs.")


@attrs.frozen
class Description:
    """Calibrators in detail."""

    entries: tuple[Listed, ...]

    def to_wire(self) -> list[dict[str, Any]]:
        return [
            {
                **_wire(entry),
                "calibrator": entry.calibrator.to_json(),
                "words": [curve_words(curve) for curve in entry.calibrator.curves],
            }
            for entry in self.entries
        ]

    def print(self) -> None:
        console = Console(highlight=False)
        for entry in self.entries:
            _print(entry, console)


def list_calibrators() -> Listing:
    """The calibrators in force and those that are kept."""
    entries, skipped = CalibratorStore.open().listed()
    return Listing(tuple(entries), tuple(skipped))


def show_calibrators(wanted: str | None) -> Description:
    """The calibrator with this id (or the only one that begins so), or those of the model of this name; None:
    those in force. Raises SettingsError if there is none."""
    entries, _ = CalibratorStore.open().listed()
    in_force = [entry for entry in entries if entry.in_force]
    if wanted is None:
        return Description(tuple(in_force))
    exact = [entry for entry in entries if entry.calibrator.id == wanted]
    named = [entry for entry in in_force if entry.calibrator.purpose.model.name == wanted]
    begun = [entry for entry in entries if entry.calibrator.id.startswith(wanted)]
    found = exact[:1] or named or begun
    if not found or (found is begun and len({entry.calibrator.id for entry in begun}) > 1):
        known = ", ".join(dict.fromkeys(entry.calibrator.id for entry in begun or entries))
        problem = "Several calibrators begin with" if begun else "There is no calibrator"
        raise SettingsError(f"{problem} {wanted!r}. Known: {known}.")
    return Description(tuple(found))


def curve_words(curve: Curve) -> dict[str, Any]:
    """What a curve weighs, in words: its measure, and for each feature what it is and what it does.

    factor: by what the odds of being right are multiplied where the feature is one standard deviation higher.
    """
    return {
        "measure": curve.measure,
        "features": [
            {
                "name": feature.name,
                "words": feature_words(feature.name),
                "mean": feature.mean,
                "scale": feature.scale,
                "weight": feature.weight,
                "factor": math.exp(min(feature.weight, 100.0)),
                "effect": effect(feature.weight),
            }
            for feature in curve.features
        ],
        "places": {place: math.exp(min(offset, 100.0)) for place, offset in curve.offsets},
    }


def feature_words(name: str) -> str:
    """The quantity of a feature, or of a measure that serves as one."""
    known = FEATURES.get(name) or SUMMARY_FEATURES.get(name)
    return known.words if known else f"log-odds of the measure {name}"


def effect(weight: float) -> str:
    """What a high value does.

    >>> effect(0.4), effect(-1.83), effect(0.0)
    ('more likely right', 'less likely right', 'no effect')
    """
    if abs(weight) < 0.005:
        return "no effect"
    return "more likely right" if weight > 0 else "less likely right"


def _wire(entry: Listed) -> dict[str, Any]:
    c = entry.calibrator
    skill = c.metrics.get("skill")
    return {
        "id": c.id,
        "path": str(entry.path),
        "inForce": entry.in_force,
        "model": c.purpose.model.name,
        "language": c.purpose.language,
        "task": c.purpose.task,
        "source": c.source,
        "state": c.state,
        "n": c.n,
        "measure": c.measure,
        "skill": None if skill is None else skill.value,
        "created": c.created,
        "carriedFrom": carried_from(c),
        "certificate": _certificate(entry),
    }


def _certificate(entry: Listed) -> dict[str, Any] | None:
    """What is promised of the tiers of a calibrator in force; None where nothing is to be."""
    promise = entry.ledger.promise if entry.in_force else None
    return None if promise is None else entry.ledger.to_wire(entry.calibrator.id, promise)


def _promised(entry: Listed) -> str:
    """The same in words; empty where nothing is to be promised."""
    found = _certificate(entry)
    if found is None:
        return ""
    return (
        f"{'Certified' if found['certified'] else 'Nothing is certified to be accepted'}: {found['reason']}."
    )


def _print(entry: Listed, console: Console) -> None:
    c = entry.calibrator
    standing = "in force" if entry.in_force else "kept, not in force"
    answers = c.purpose.answers
    console.print(f"{c.id} ({c.source_and_state}; {standing})", style="bold")
    console.print(
        f"{answers[0].upper()}{answers[1:]} by {c.purpose.model.name}, prompt {c.purpose.prompt_version}; "
        f"made {c.created} from {c.n} labels, {c.n_correct} right, of {len(c.provenance)} sources. "
        f"{entry.path}",
        soft_wrap=True,
    )
    if words := _promised(entry):
        console.print(words, soft_wrap=True)
    for at, curve in enumerate(c.curves):
        when = "used first" if at == 0 else "used where those above lack evidence"
        if is_plain(curve.measure):
            slope = curve.features[0].weight
            console.print(
                f"{curve.measure} ({when}): log-odds = {slope:.2f} × those of the measure "
                f"{curve.intercept:+.2f}",
                soft_wrap=True,
            )
        else:
            console.print(_curve_table(curve, when))
    if c.metrics:
        console.print(_metrics_table(c))


def _curve_table(curve: Curve, when: str) -> Table:
    """The weights of a curve; the strongest first."""
    words = curve_words(curve)
    table = Table(
        "evidence",
        "average",
        "spread",
        "weight",
        "one spread more",
        title=f"{curve.measure} ({when}), intercept {curve.intercept:+.2f}",
    )
    for feature in sorted(words["features"], key=lambda row: -abs(row["weight"])):
        table.add_row(
            feature["words"],
            f"{feature['mean']:.2f}",
            f"{feature['scale']:.2f}",
            f"{feature['weight']:+.2f}",
            f"odds × {feature['factor']:.2f}, {feature['effect']}",
        )
    for place, factor in words["places"].items():
        table.add_row(
            f"the cursor's place: {place}", "", "", f"{math.log(factor):+.2f}", f"odds × {factor:.2f}"
        )
    return table


def _metrics_table(calibrator: Calibrator) -> Table:
    """The metrics over all places and at each kind of place."""
    rows: dict[str, Mapping[str, Interval]] = {"all places": calibrator.metrics, **calibrator.by_place}
    table = Table("", *_SHOWN, title=f"{calibrator.measure}, out of fold, with 95 % intervals")
    for place, metrics in rows.items():
        table.add_row(place, *(_number(metrics.get(name), signed=name == "skill") for name in _SHOWN))
    return table


def _number(interval: Interval | None, *, signed: bool = False) -> str:
    if interval is None:
        return ""
    if interval.value is None:
        return "undefined"
    form = "+.2f" if signed else ".3f"
    bounds = (
        ""
        if interval.low is None or interval.high is None
        else f" ({interval.low:{form}} to {interval.high:{form}})"
    )
    return f"{interval.value:{form}}{bounds}"
