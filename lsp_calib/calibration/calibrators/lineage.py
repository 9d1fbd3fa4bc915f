"""What a calibrator rests on: its own labels, and those of the calibrators that it was made from. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from lsp_calib.calibration.calibrators.calibrator import Calibrator
from lsp_calib.calibration.calibrators.carrying_over import carried_from
from lsp_calib.calibration.calibrators.purpose import Origin

IMPORTED = "imported "
"""In a provenance, before the id of the calibrator that was imported."""


def rests_on(calibrator: Calibrator, known: Mapping[str, Calibrator]) -> frozenset[Origin]:
    """Every source of labels of a calibrator: those of its provenance, and of the calibrators named in it.

    known: calibrators by their ids; one that is not among them is a source by itself.
    """
    found: set[Origin] = set()
    waiting, followed = [calibrator], {calibrator.id}
    while waiting:
        one = waiting.pop()
        found.update(one.provenance)
        named = {name for name in _ids(one) if name in known} - followed
        followed |= named
        waiting += [known[name] for name in named]
    return frozenset(found)


def by_id(calibrators: Iterable[Calibrator]) -> dict[str, Calibrator]:
    """As `rests_on` takes them."""
    return {one.id: one for one in calibrators}


def _ids(calibrator: Calibrator) -> Iterable[str]:
    """What may be ids of the calibrators that one was made from."""
    yield from (origin.name.removeprefix(IMPORTED) for origin in calibrator.provenance)
    if (earlier := carried_from(calibrator)) is not None:
        yield earlier
