"""What a user's labels have taught, carried over to another prompt, measure or model. Pure."""

from __future__ import annotations

import re

import attrs

from lsp_calib.calibration.calibrators.calibrator import Calibrator
from lsp_calib.calibration.calibrators.curve import Curve, Shift
from lsp_calib.calibration.calibrators.purpose import Origin

_NAME = "carried over from "
# A shift beyond this says more about few labels than about the user.
_LEAST_SLOPE, _MOST_SLOPE, _MOST_INTERCEPT = 0.25, 4.0, 3.0


def carry_over(base: Calibrator, earlier: Calibrator) -> Calibrator | None:
    """`base` with each curve shifted as the user's earlier calibrator is shifted against its own base.

    base: shipped or borrowed, of the present purpose. earlier: of the user, for the same model.
    A user's own shift (slope and intercept over the shipped score) says how their work differs, whatever the
    prompt. None if the earlier calibrator has none.
    """
    curves = []
    for curve in base.curves:
        shift = shift_of(earlier, curve)
        if shift is None:
            return None
        curves.append(curve.shifted(shift))
    return attrs.evolve(
        base,
        curves=tuple(curves),
        n=earlier.n,
        n_correct=earlier.n_correct,
        metrics={},
        by_place={},
        provenance=(
            Origin(f"{_NAME}{earlier.id}", earlier.created, earlier.n),
            Origin(base.id, base.created, base.n),
        ),
        source="personal",
        state="learning",
        parent=base.id,
        schema=2,
    )


def shift_of(earlier: Calibrator, curve: Curve) -> Shift | None:
    """The shift of the earlier calibrator's curve of the same kind of measure, else of its preferred one.

    Within bounds; None if it has none.
    """
    same = [one for one in earlier.curves if _family(one.measure) == _family(curve.measure)]
    shift = (same or earlier.curves)[0].shift
    if shift is None:
        return None
    return attrs.evolve(
        shift,
        slope=min(max(shift.slope, _LEAST_SLOPE), _MOST_SLOPE),
        intercept=min(max(shift.intercept, -_MOST_INTERCEPT), _MOST_INTERCEPT),
    )


def carried_from(calibrator: Calibrator) -> str | None:
    """The id of the calibrator whose shift was carried over to this one; None if none was."""
    names = (origin.name for origin in calibrator.provenance)
    return next((name.removeprefix(_NAME) for name in names if name.startswith(_NAME)), None)


def note(calibrator: Calibrator) -> str | None:
    """That what was learned is carried over, in words for the user; None if nothing is."""
    earlier = carried_from(calibrator)
    if earlier is None:
        return None
    return (
        f"What was learned from {calibrator.n} labels ({earlier}) is carried over to prompt "
        f"{calibrator.purpose.prompt_version} and {calibrator.measure}; a refit replaces it once there are "
        "labels."
    )


def _family(measure: str) -> str:
    """The kind of a measure, whatever its version."""
    if measure.startswith("features"):
        return re.sub(r"-\d+", "", measure, count=1)
    return "geometric-mean" if measure.startswith("geometric-mean") else measure
