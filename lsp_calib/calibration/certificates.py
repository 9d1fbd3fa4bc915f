"""Certificates for accepted suggestions: at most a given share is wrong, with a given confidence; or none.

The promise holds for suggestions that are exchangeable with the labels it was made from. If they are not, a
`Watch` revokes it: a sequential test, valid after every label. A `Ledger` records what was asked for on one
user's labels. Each refit may ask for another certificate on the same labels, and who asks often enough gets a
false one. So the k-th may be wrong with probability delta * 6 / (pi^2 k^2) only: over all of them that adds
up to delta.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any, Final, Literal, Self

import attrs
import numpy as np
import numpy.typing as npt
from msgspec.structs import replace

from lsp_calib.calibration.arrays import BoolArray, FloatArray, IntArray, paired
from lsp_calib.calibration.binomial import fewest_labels, least_trials, lower_tail
from lsp_calib.calibration.document import Count, Document
from lsp_calib.errors import DataError

LEAST_SHARE = 0.02

# Beginnings that `prospect` compares: 22 to some 560 accepted labels at 0.1 and 0.1.
_MOST_STARTS = 40


# Without slots, msgspec writes the fields in their order.
@attrs.frozen(kw_only=True, slots=False)
class Certificate:
    """The outcome of `certify`.

    threshold: accept at this confidence and above; None where nothing can be promised.
    reason: why, in plain words with the numbers.
    n: number of labels. accepted, errors: how many of them the threshold accepts, and how many of those were
        wrong; both 0 without a threshold.
    risk, delta: the promise: at most `risk` of the accepted ones are wrong, with confidence 1 - delta.
    p_value: of "more than `risk` are wrong", at the threshold; None without one.
    calibrator: id of the calibrator whose confidences these were; "" if unknown. It holds for no other.
    revoked: whether its promise was withdrawn.
    """

    threshold: float | None = None
    reason: str
    n: int
    accepted: int = 0
    errors: int = 0
    risk: float
    delta: float
    p_value: float | None = None
    calibrator: str = ""
    revoked: bool = False

    def revoke(self, reason: str) -> Self:
        """The certificate, revoked. This cannot be undone: certify again, on new labels."""
        if self.revoked:
            return self
        return attrs.evolve(
            self, threshold=None, p_value=None, accepted=0, errors=0, reason=reason, revoked=True
        )


def certify(
    confidence: npt.ArrayLike,
    correct: npt.ArrayLike,
    risk: float = 0.1,
    delta: float = 0.1,
    *,
    least_share: float = LEAST_SHARE,
    calibrator: str = "",
) -> Certificate:
    """The lowest threshold for which "at most `risk` of the accepted ones are wrong" can be promised.

    confidence: float array of shape (n,). correct: bool array of shape (n,). n may be 0.
    risk: the largest tolerable share of errors among accepted ones, in (0, 1).
    delta: the tolerable probability that the promise is wrong, in (0, 1).
    least_share: thresholds that accept a smaller share of the labels are not tried, in [0, 1].
    calibrator: id of the calibrator that made the confidences, for the record.

    The labels must not have been used to fit or choose the calibrator of the confidences. The caller must
    ensure this; it cannot be checked here. (Out-of-fold confidences come from other curves than the one in
    use: good for a forecast, not for a promise.)

    Learn-then-Test by fixed sequence: thresholds are tested from the strictest downwards, each by the exact
    binomial p-value of its integer error count, until one fails; the last that passed is certified. Because
    the first failure ends it, no correction for the number of tests is needed. The sequence depends on the
    confidences alone, never on the labels. It starts at the strictest threshold with any power, where 0
    errors are few enough ((1 - risk)^k <= delta: k = 22 at 0.1 and 0.1), or where `least_share` of the labels
    is accepted if that is more, and goes on where one more error becomes tolerable (38, 52, 65 ...): between
    those a test can only be lost. Items of equal confidence are accepted together.

    Assumes that labels and suggestions to come are exchangeable (independent draws from one population:
    labels of one file, right or wrong together, say less than their number), and that no stricter threshold
    has a higher risk, as with any useful score. Then the promise is exact for every n: let m labels lie above
    the first threshold that is too risky. Given m, their errors are binomial with the risk itself, all others
    are wrong more often, and the first false promise tested passes with probability at most delta.
    (`tests/validity` simulates it, also with scores whose most confident items are the worst.)
    For a calibrated score with density 2x, of which 37 % could be accepted at this risk, it finds a threshold
    in 6, 54, 71, 89 and 99 % of simulated data sets of 50, 200, 400, 1000 and 2000 labels; it accepts on
    average 3, 12, 16, 25 and 31 % of all.
    Raises DataError on arrays that do not fit together, or numbers outside their ranges.
    Source: Angelopoulos et al. 2021, "Learn then Test", sec. 2 and algorithm 1.

    >>> sure = [0.9] * 22 + [0.2] * 10
    >>> certify(sure, [True] * 22 + [False] * 10).threshold
    0.9
    >>> certify(sure[:17], [True] * 17).reason
    'not enough labels yet: 17 of 22'
    >>> certify(sure, [True] * 21 + [False] * 11).reason
    '1 of the 22 most confident was wrong, where none may be'
    """
    p, y = paired(confidence, correct, empty=True)
    if not 0.0 <= least_share <= 1.0:
        raise DataError(f"least_share must lie in [0, 1], not {least_share}.")
    enough = least_trials(risk, delta, p.size)
    certificate = partial(Certificate, n=p.size, risk=risk, delta=delta)
    if not enough.size:
        return certificate(reason=f"not enough labels yet: {p.size} of {fewest_labels(risk, delta)}")
    order = np.argsort(-p, kind="stable")
    descending = p[order]
    wrong_so_far = np.cumsum(~y[order])
    # The number accepted if the threshold is the confidence of the k-th item, equal confidences included.
    accepted = np.searchsorted(-descending, -descending[enough - 1], side="right")
    accepted = np.unique(np.append(accepted, p.size))
    # A share that was made of a number of labels is that number again, whatever rounding did to it.
    strict_enough = accepted >= least_share * p.size - 1e-9 * p.size
    accepted = accepted[strict_enough]
    tolerable = np.searchsorted(enough, accepted, side="right") - 1
    errors = wrong_so_far[accepted - 1]
    passed = errors <= tolerable
    count = passed.size if passed.all() else int(np.argmin(passed))
    if count == 0:
        reason = (
            f"{errors[0]} of the {accepted[0]} most confident {'was' if errors[0] == 1 else 'were'} wrong, "
            f"where {'at most ' + str(tolerable[0]) if tolerable[0] else 'none'} may be"
        )
        return certificate(reason=reason)
    k, e = int(accepted[count - 1]), int(errors[count - 1])
    threshold = float(descending[k - 1])
    return certificate(
        threshold=threshold,
        reason=f"at most {risk * 100:g} % of those at {threshold:.3f} and above are wrong, with "
        f"{(1 - delta) * 100:g} % confidence: {e} of {k} labels were",
        accepted=k,
        errors=e,
        p_value=float(lower_tail(e, k, risk)),
        calibrator=calibrator,
    )


@attrs.frozen
class Prospect:
    """accepted: how many of the most confident labels the first test had best take.

    chance: in [0, 1], that it passes, by the confidences themselves.
    """

    accepted: int
    chance: float


def prospect(confidence: npt.ArrayLike, risk: float = 0.1, delta: float = 0.1) -> Prospect:
    """Whether it is worth asking for a certificate, before any label is looked at.

    confidence: float array of shape (n,), of the labels that it would rest on.
    For each number of labels at which one more error becomes tolerable: the chance of so few, if the
    confidences are true on average. What follows from the confidences alone costs nothing: the tests may
    begin wherever they say, and need not be made at all.
    Raises DataError on numbers outside their ranges.

    >>> prospect([0.99] * 40).chance > 0.7, prospect([0.9] * 40).chance < 0.1, prospect([0.99] * 10).chance
    (True, True, 0.0)
    """
    p, _ = paired(confidence, np.zeros(np.size(confidence), dtype=np.bool_), empty=True)
    enough = least_trials(risk, delta, p.size)[:_MOST_STARTS]
    if not enough.size:
        return Prospect(0, 0.0)
    error = 1.0 - np.cumsum(np.sort(p)[::-1]) / np.arange(1, p.size + 1)
    chances = [
        float(lower_tail(tolerable, int(k), float(np.clip(error[k - 1], 0.0, 1.0))))
        for tolerable, k in enumerate(enough)
    ]
    best = int(np.argmax(chances))
    return Prospect(int(enough[best]), chances[best])


# The levels to which the error may have risen: its odds, as multiples of those of the promised risk. The bet
# is spread evenly over these, from drift that is hardly seen (1.5) to a model that no longer works (6).
RISEN = (1.5, 2.0, 3.0, 6.0)


class Watch(Document, frozen=True):
    """A certificate under observation. Immutable: `after` gives the next one.

    certificate: as it stands; once revoked it stays revoked.
    seen, errors: accepted ones with a label since, and how many of them were wrong.
    log_evidence: for each rise in RISEN, the logarithm of its bets' winnings, None where there are none;
        the watch's memory.

    An e-process: capital 1 is bet on "more than `risk` of the accepted ones are wrong", on each rise in RISEN
    and on each moment at which it may have begun. While the promise is true the capital is a
    supermartingale, so the probability that it ever reaches 1 / delta is at most delta, however often it is
    checked. New bets at every moment, with ever smaller stakes, make it quick after a long good time, in
    which a single bet would have lost nearly all.
    Source: Ville 1939; Waudby-Smith & Ramdas 2024 (betting); Shin, Ramdas & Rinaldo 2023 (e-detectors).
    """

    certificate: Certificate
    seen: Count = 0
    errors: Count = 0
    log_evidence: tuple[float | None, ...] = (None,) * len(RISEN)

    def __post_init__(self) -> None:
        if len(self.log_evidence) != len(RISEN):
            raise DataError(f"logEvidence must hold {len(RISEN)} numbers.")

    def after(self, confidence: npt.ArrayLike, correct: npt.ArrayLike) -> Self:
        """The watch after further labels, in the order in which they came.

        confidence: float array of shape (n,). correct: bool array of shape (n,).
        Only those at the threshold and above count. Labels must come whether the suggestion was right or
        wrong: if wrong ones alone are reported, this revokes for no reason.
        Raises DataError on arrays that do not fit together.
        """
        p, y = paired(confidence, correct, empty=True)
        if self.certificate.threshold is None:
            return self
        wrong = ~y[p >= self.certificate.threshold]
        if not wrong.size:
            return self
        won = np.array([-math.inf if one is None else one for one in self.log_evidence])
        by_rise, total = _capital(wrong, self.certificate.risk, self.seen, won)
        enough = total >= -math.log(self.certificate.delta)
        last = int(np.argmax(enough)) if enough.any() else wrong.size - 1
        seen = self.seen + last + 1
        errors = self.errors + int(np.count_nonzero(wrong[: last + 1]))
        certificate = self.certificate
        if enough.any():
            certificate = certificate.revoke(
                f"revoked: {errors} of {seen} accepted since were wrong, of late more than "
                f"{certificate.risk * 100:g} %"
            )
        return replace(
            self,
            certificate=certificate,
            seen=seen,
            errors=errors,
            log_evidence=tuple(float(value) if math.isfinite(value) else None for value in by_rise[:, last]),
        )


def _capital(
    wrong: BoolArray, risk: float, seen: int, log_evidence: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Log capital after each label: by rise, of shape (rises, n); and in all, with the part not yet
    staked."""
    odds = risk / (1.0 - risk) * np.array(RISEN)
    risen = odds / (1.0 + odds)
    gain = np.where(wrong, np.log(risen / risk)[:, None], np.log((1.0 - risen) / (1.0 - risk))[:, None])
    after = np.cumsum(gain, axis=1)
    before = after - gain
    time = seen + np.arange(1, wrong.size + 1)
    stake = np.log(_unstaked(time - 1) - _unstaked(time))
    # Each moment's stake, multiplied by all gains from then on; in logarithms, summed along the way.
    bets = np.column_stack([log_evidence, stake - before])
    by_rise = after + np.logaddexp.accumulate(bets, axis=1)[:, 1:]
    total = np.logaddexp(np.logaddexp.reduce(by_rise, axis=0) - math.log(len(RISEN)), np.log(_unstaked(time)))
    return by_rise, total


def _unstaked(time: IntArray) -> FloatArray:
    """The part of the capital 1 that is kept for later bets. It falls so slowly that late drift still
    counts."""
    result: FloatArray = 1.0 / (1.0 + np.log1p(time))
    return result


# By how much the labels must have grown before a certificate is asked for again: after a refusal, and to
# lower the threshold of one that holds. Each costs, and a few labels more hardly ever change the answer.
_AGAIN, _LOWER = 1.5, 2.0

# Below this chance of success, by the confidences alone, nothing is asked: an attempt makes all later ones
# dearer. Of 0.3, 0.5, 0.7 and no limit, this gave most certificates in simulation (projects of the records,
# 100 to 1,600 labels): after 200 labels twice as many as no limit.
_LEAST_CHANCE = 0.3


AS_BEFORE: Final = "as before"


# Without slots, msgspec writes the fields in their order.
@attrs.frozen(kw_only=True, slots=False)
class Promise:
    """The requested guarantee: at most `risk` of what is marked accept is wrong, with confidence 1 - `delta`.

    measure: the preferred measure of the confidences, see `Calibrator.assess`: others have other thresholds.
        AS_BEFORE, in a wish alone: that of the promise before.
    """

    risk: float = 0.1
    delta: float = 0.1
    measure: str = "best"


LEAST_CONFIDENCE = 0.5
"""What is used as it is less often than not is never accepted, though a promise on the average could bear it.
"""

Wish = Promise | Literal["as before"] | None
"""For a refit: a certificate, none, or what was wished for last."""


def spent(number: int, delta: float) -> float:
    """The part of `delta` that certificate `number` (from 1) may be wrong with; all parts add up to delta.

    >>> [round(spent(k, 0.1), 4) for k in (1, 2, 3)]
    [0.0608, 0.0152, 0.0068]
    """
    return 6.0 * delta / (math.pi * number) ** 2


class Ledger(Document, frozen=True, kw_only=True, tag_field="schema", tag=1):
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
    aside: Count = 0
    asked: Count = 0
    asked_of: str = ""
    asked_for: Promise | None = None
    asked_n: Count = 0
    refusal: str = ""
    refusal_of: str = ""
    watch: Watch | None = None
    given: Promise | None = None
    tried_until: float = 0.0
    tried_n: Count = 0

    def opened(self, promise: Promise, *, key: str, used_until: float) -> Self:
        """A promise is wanted from now on.

        key: of the present key. used_until: the last label that a refit outside this ledger has used.
        """
        if self.promise is not None and self.key == key:
            return replace(self, promise=promise)
        # With another key the halves are others: what was set aside may have been used for fitting.
        lost = max(self.read_until, self.tried_until) if self.key not in ("", key) else 0.0
        used = max(self.used_until, used_until, lost)
        return replace(
            self, promise=promise, key=key, used_until=used, read_until=max(used, self._watched), aside=0
        )

    def closed(self, until: float) -> Self:
        """No promise is wanted, and a refit uses all labels up to `until`."""
        return replace(
            self, promise=None, used_until=max(self.used_until, until), aside=0, watch=None, given=None
        )

    def reset(self) -> Self:
        """After the labels and the calibrators were removed. How often certificates were asked for stays: the
        promise is over all there will ever be; and no removed label counts again."""
        used = max(self.used_until, self.read_until, self.tried_until)
        return type(self)(promise=self.promise, key=self.key, used_until=used, asked=self.asked)

    def clamped_to(self, now: float) -> Self:
        """After a clock that was ahead has been set right: what is on record up to a moment that has not come
        is on record up to now."""
        used, read, tried = (min(one, now) for one in (self.used_until, self.read_until, self.tried_until))
        return replace(self, used_until=used, read_until=read, tried_until=tried)

    @property
    def _watched(self) -> float:
        return self.read_until if self.watch is not None else 0.0

    def is_unused(self, at: float) -> bool:
        """Whether a certificate is wanted, and one may rest on a label that settled then."""
        return self.promise is not None and at > self.used_until

    def read(self, aside: int, confidence: npt.ArrayLike, correct: npt.ArrayLike, until: float) -> Self:
        """After further labels.

        aside: how many visits of them are set aside, as `aside` counts them. confidence, correct: of all of
            them, by the calibrator in force, shape (n,), in the order in which they came; nan where there is
            none. until: the last one's time.
        """
        read = replace(self, aside=self.aside + aside, read_until=max(self.read_until, until))
        if self.watch is None or self.watch.certificate.revoked:
            return read
        p = np.asarray(confidence, dtype=np.float64)
        known = np.isfinite(p)
        watch = self.watch.after(p[known], np.asarray(correct, dtype=np.bool_)[known])
        if not watch.certificate.revoked:
            return replace(read, watch=watch)
        # What comes is not like what was: another certificate rests on later labels alone.
        return replace(
            read, watch=watch, used_until=read.read_until, aside=0, asked_n=0, refusal="", refusal_of=""
        )

    @property
    def latest(self) -> Certificate | None:
        """The certificate that was given last, as it stands; None: none was."""
        return None if self.watch is None else self.watch.certificate

    def holds(self, calibrator: str) -> bool:
        """Whether a certificate for this calibrator is in force."""
        given = self.latest
        return given is not None and given.threshold is not None and given.calibrator == calibrator

    def keeps(self, calibrator: str) -> bool:
        """Whether the certificate that is in force is one for the promise that is wanted."""
        wanted = self.promise
        return wanted is not None and self.certificate(calibrator, wanted).threshold is not None

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
        p = np.asarray(confidence, dtype=np.float64)
        likely = p >= LEAST_CONFIDENCE
        p, y = p[likely], np.asarray(correct, dtype=np.bool_)[likely]
        counted = replace(self, aside=int(y.size))
        if self.promise is None or not self._is_worth_it(calibrator, y.size):
            return counted
        promise, number = self.promise, self.asked + 1
        delta = spent(number, promise.delta)
        outlook = prospect(p, promise.risk, delta)
        if outlook.chance < _LEAST_CHANCE:
            words = (
                f"not enough labels yet: on {y.size} set aside a certificate has a chance of "
                f"{100 * outlook.chance:.0f} %"
            )
            return replace(counted, refusal=words, refusal_of=calibrator)
        start = outlook.accepted / y.size
        found = certify(p, y, promise.risk, delta, least_share=start, calibrator=calibrator)
        asked = replace(counted, asked=number, asked_of=calibrator, asked_for=promise, asked_n=int(y.size))
        if found.threshold is None:
            words = f"{found.reason} (of {y.size} labels set aside)"
            return replace(asked, refusal=words, refusal_of=calibrator)
        present = self.certificate(calibrator, promise).threshold
        if present is not None and present <= found.threshold:
            return asked
        words = (
            f"at most {promise.risk * 100:g} % of those at {100 * found.threshold:.1f} % and above are "
            f"wrong, with {(1 - promise.delta) * 100:g} % confidence: {found.errors} of "
            f"{found.accepted} labels were"
        )
        found = attrs.evolve(found, reason=words)
        return replace(asked, watch=Watch(found), given=promise, refusal="", refusal_of="")

    def certificate(self, calibrator: str, wanted: Promise) -> Certificate:
        """The certificate for the confidences of a calibrator, or why there is none.

        wanted: what the tiers promise: a certificate that promises less does not hold for them.
        """
        found = self.latest
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
        found = self.latest
        return found is not None and found.revoked and found.calibrator == calibrator

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
        return Certificate(reason=reason, n=self.aside, risk=wanted.risk, delta=wanted.delta)
