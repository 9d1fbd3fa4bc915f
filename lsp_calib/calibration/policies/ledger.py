"""The certificates that were asked for on one user's labels: what they cost, and which one holds. Pure.

Each refit may ask for another certificate on the same labels, and who asks often enough gets a false one. So
the k-th may be wrong with probability delta * 6 / (pi^2 k^2) only: over all of them that adds up to delta.
"""

from __future__ import annotations

import math
from typing import Any, Final, Literal, Self

import attrs
import numpy as np
import numpy.typing as npt

from lsp_calib.calibration.metrics.binomial import fewest_labels
from lsp_calib.calibration.policies.certificates import Certificate, certify, prospect
from lsp_calib.calibration.policies.drift import Watch

# By how much the labels must have grown before a certificate is asked for again: after a refusal, and to
# lower the threshold of one that holds. Each costs, and a few labels more hardly ever change the answer.
_AGAIN, _LOWER = 1.5, 2.0

# Below this chance of success, by the confidences alone, nothing is asked: an attempt makes all later ones
# dearer. Of 0.3, 0.5, 0.7 and no limit, this gave most certificates in simulation (projects of the records,
# 100 to 1,600 labels): after 200 labels twice as many as no limit.
_LEAST_CHANCE = 0.3


AS_BEFORE: Final = "as before"


@attrs.frozen(kw_only=True)
class Promise:
    """What a user wants: at most `risk` of what is marked accept is wrong, with confidence 1 - `delta`.

    measure: the preferred measure of the confidences, see `Calibrator.assess`: others have other thresholds.
        AS_BEFORE, in a wish alone: that of the promise before.
    """

    risk: float = 0.1
    delta: float = 0.1
    measure: str = "best"


LEAST_CONFIDENCE = 0.5
"""What is less likely right than wrong is never accepted, though a promise on the average could bear it."""

Wish = Promise | Literal["as before"] | None
"""For a refit: a certificate, none, or what was wished for last."""


def spent(number: int, delta: float) -> float:
    """The part of `delta` that certificate `number` (from 1) may be wrong with; all parts add up to delta.

    >>> [round(spent(k, 0.1), 4) for k in (1, 2, 3)]
    [0.0608, 0.0152, 0.0068]
    """
    return 6.0 * delta / (math.pi * number) ** 2


@attrs.frozen(kw_only=True)
class Ledger:
    """What is on record of the certificates of one purpose (a model, a prompt, a task, a language).

    Times are Unix seconds of labels.
    promise: wanted now; None: none is, and all labels are for fitting.
    used_until: labels up to it may have been used to fit or to choose a calibrator: no certificate rests on
        them. key: tells the key by which labels are set aside; another one divides them differently.
    read_until: labels up to it have been counted and watched. aside: visits set aside so far whose confidence
        is at least LEAST_CONFIDENCE.
    asked: how many certificates were asked for, ever. asked_of, asked_for, asked_n: the calibrator (its id),
        the promise and the number of labels of the last one.
    refusal: why none was given at the last refit, or ""; refusal_of: for which calibrator.
    watch: over the certificate that was given last; None: none was. given: the promise it was given for.
    tried_until, tried_n: the last label and the number of visits that there were at the last refit.
    """

    promise: Promise | None = None
    used_until: float = 0.0
    key: str = ""
    read_until: float = 0.0
    aside: int = 0
    asked: int = 0
    asked_of: str = ""
    asked_for: Promise | None = None
    asked_n: int = 0
    refusal: str = ""
    refusal_of: str = ""
    watch: Watch | None = None
    given: Promise | None = None
    tried_until: float = 0.0
    tried_n: int = 0

    def opened(self, promise: Promise, *, key: str, used_until: float) -> Self:
        """A promise is wanted from now on.

        key: of the present key. used_until: the last label that a refit outside this ledger has used.
        """
        if self.promise is not None and self.key == key:
            return attrs.evolve(self, promise=promise)
        # With another key the halves are others: what was set aside may have been used for fitting.
        lost = max(self.read_until, self.tried_until) if self.key not in ("", key) else 0.0
        used = max(self.used_until, used_until, lost)
        return attrs.evolve(
            self, promise=promise, key=key, used_until=used, read_until=max(used, self._watched), aside=0
        )

    def closed(self, until: float) -> Self:
        """No promise is wanted, and a refit uses all labels up to `until`."""
        return attrs.evolve(
            self, promise=None, used_until=max(self.used_until, until), aside=0, watch=None, given=None
        )

    def begun_anew(self) -> Self:
        """After the labels and the calibrators were removed. How often certificates were asked for stays: the
        promise is over all there will ever be; and no removed label counts again."""
        used = max(self.used_until, self.read_until, self.tried_until)
        return type(self)(promise=self.promise, key=self.key, used_until=used, asked=self.asked)

    @property
    def moments(self) -> tuple[float, ...]:
        """Up to when labels were used, read and tried."""
        return self.used_until, self.read_until, self.tried_until

    def not_beyond(self, now: float) -> Self:
        """After a clock that was ahead has been set right: what is on record up to a moment that has not come
        is on record up to now."""
        used, read, tried = (min(moment, now) for moment in self.moments)
        return attrs.evolve(self, used_until=used, read_until=read, tried_until=tried)

    @property
    def _watched(self) -> float:
        return self.read_until if self.watch is not None else 0.0

    def is_aside(self, half: bool, at: float) -> bool:
        """Whether a label is set aside for certificates. half: of the half that is; at: when it settled."""
        return self.promise is not None and half and at > self.used_until

    def read(self, aside: int, confidence: npt.ArrayLike, correct: npt.ArrayLike, until: float) -> Self:
        """After further labels.

        aside: how many visits of them are set aside, as `aside` counts them. confidence, correct: of all of
            them, by the calibrator in force, shape (n,), in the order in which they came; nan where there is
            none. until: the last one's time.
        """
        read = attrs.evolve(self, aside=self.aside + aside, read_until=max(self.read_until, until))
        if self.watch is None or self.watch.certificate.revoked:
            return read
        p = np.asarray(confidence, dtype=np.float64)
        known = np.isfinite(p)
        watch = self.watch.after(p[known], np.asarray(correct, dtype=np.bool_)[known])
        if not watch.certificate.revoked:
            return attrs.evolve(read, watch=watch)
        # What comes is not like what was: another certificate rests on later labels alone.
        return attrs.evolve(
            read, watch=watch, used_until=read.read_until, aside=0, asked_n=0, refusal="", refusal_of=""
        )

    def holds(self, calibrator: str) -> bool:
        """Whether a certificate for this calibrator is in force."""
        given = self.watch.certificate if self.watch is not None else None
        return given is not None and given.threshold is not None and given.calibrator == calibrator

    def keeps(self, calibrator: str) -> bool:
        """Whether the certificate that is in force is one for the promise that is wanted."""
        wanted = self.promise
        return (
            wanted is not None
            and self.holds(calibrator)
            and self.certificate(calibrator, wanted).threshold is not None
        )

    @property
    def needed(self) -> int:
        """The fewest labels on which the next certificate can be given."""
        promise = self.promise or Promise()
        return fewest_labels(promise.risk, spent(self.asked + 1, promise.delta))

    def asking(self, calibrator: str, confidence: npt.ArrayLike, correct: npt.ArrayLike) -> Self:
        """After asking for a certificate for a calibrator, if that is worth its price now.

        confidence, correct: of all visits that are set aside, shape (n,), by this calibrator. Those below
            LEAST_CONFIDENCE do not count.
        With too few labels, hardly more than the last time, or hardly a chance, nothing is asked, and nothing
        spent. A certificate that holds is replaced only by one with a lower threshold; all of them hold
        together, with confidence 1 - delta.
        """
        likely = np.asarray(confidence, dtype=np.float64) >= LEAST_CONFIDENCE
        confidence = np.asarray(confidence, dtype=np.float64)[likely]
        y = np.asarray(correct, dtype=np.bool_)[likely]
        counted = attrs.evolve(self, aside=int(y.size))
        if self.promise is None or not self._is_worth_it(calibrator, y.size):
            return counted
        promise, number = self.promise, self.asked + 1
        delta = spent(number, promise.delta)
        outlook = prospect(confidence, promise.risk, delta)
        if outlook.chance < _LEAST_CHANCE:
            words = (
                f"not enough labels yet: on {y.size} set aside a certificate has a chance of "
                f"{100 * outlook.chance:.0f} %"
            )
            return attrs.evolve(counted, refusal=words, refusal_of=calibrator)
        start = outlook.accepted / y.size
        found = certify(confidence, y, promise.risk, delta, least_share=start, calibrator=calibrator)
        asked = attrs.evolve(
            counted, asked=number, asked_of=calibrator, asked_for=promise, asked_n=int(y.size)
        )
        if found.threshold is None:
            words = f"{found.reason} (of {y.size} labels set aside)"
            return attrs.evolve(asked, refusal=words, refusal_of=calibrator)
        if self.keeps(calibrator) and self._threshold <= found.threshold:
            return asked
        found = attrs.evolve(found, reason=_words(found, promise))
        return attrs.evolve(asked, watch=Watch(found), given=promise, refusal="", refusal_of="")

    def certificate(self, calibrator: str, wanted: Promise) -> Certificate:
        """The certificate for the confidences of a calibrator, or why there is none.

        wanted: what the tiers promise: a certificate that promises less does not hold for them.
        """
        found = self.watch.certificate if self.watch is not None else None
        if found is None or found.calibrator != calibrator or self.given is None:
            return self._none(self._progress(calibrator), wanted)
        if found.revoked:
            words = f"{found.reason}; since then {self._progress(calibrator)}"
            return attrs.evolve(found, reason=words, risk=wanted.risk, delta=wanted.delta)
        given = self.given
        if given.measure != wanted.measure:
            return self._none(f"the certificate is for the measure {given.measure}", wanted)
        if given.risk > wanted.risk or given.delta > wanted.delta:
            less = f"{given.risk * 100:g} % wrong, with {(1 - given.delta) * 100:g} % confidence"
            return self._none(f"the certificate promises less ({less})", wanted)
        return found

    def to_wire(self, calibrator: str, wanted: Promise) -> dict[str, Any]:
        """The standing of a calibrator as it goes to the client."""
        found = self.certificate(calibrator, wanted)
        return {
            "certified": found.threshold is not None,
            "revoked": found.revoked,
            "reason": found.reason,
            "threshold": found.threshold,
            "risk": wanted.risk,
            "delta": wanted.delta,
            "accepted": found.accepted,
            "errors": found.errors,
            "aside": self.aside,
            "asked": self.asked,
        }

    def is_drifted(self, calibrator: str) -> bool:
        """Whether a certificate for this calibrator was revoked, and no other has been given."""
        return (
            self.watch is not None
            and self.watch.certificate.revoked
            and self.watch.certificate.calibrator == calibrator
        )

    @property
    def _threshold(self) -> float:
        found = None if self.watch is None else self.watch.certificate.threshold
        return math.inf if found is None else found

    def _is_worth_it(self, calibrator: str, n: int) -> bool:
        if n < self.needed:
            return False
        if (self.asked_of, self.asked_for) != (calibrator, self.promise):
            return True
        return n >= (_LOWER if self.keeps(calibrator) else _AGAIN) * self.asked_n

    def _progress(self, calibrator: str) -> str:
        if self.refusal and self.refusal_of == calibrator and self.aside >= self.needed:
            return self.refusal
        if self.aside < self.needed:
            return f"not enough labels yet: {self.aside} of {self.needed}"
        return f"{self.aside} labels are set aside: the next refit asks for a certificate"

    def _none(self, reason: str, wanted: Promise) -> Certificate:
        return Certificate(
            threshold=None,
            reason=reason,
            n=self.aside,
            accepted=0,
            errors=0,
            risk=wanted.risk,
            delta=wanted.delta,
        )


def _words(found: Certificate, promise: Promise) -> str:
    return (
        f"at most {promise.risk * 100:g} % of those at {100 * (found.threshold or 0.0):.1f} % and above are "
        f"wrong, with {(1 - promise.delta) * 100:g} % confidence: {found.errors} of {found.accepted} labels "
        "were"
    )
