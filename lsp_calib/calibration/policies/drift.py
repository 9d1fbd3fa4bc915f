"""Revoking a certificate on drift: a sequential test, valid after every label."""

from __future__ import annotations

import math
from typing import Self

import attrs
import numpy as np
import numpy.typing as npt

from lsp_calib.calibration.arrays import BoolArray, FloatArray, IntArray, paired
from lsp_calib.calibration.policies.certificates import Certificate

# The levels to which the error may have risen: its odds, as multiples of those of the promised risk. The bet
# is spread evenly over these, from drift that is hardly seen (1.5) to a model that no longer works (6).
RISEN = (1.5, 2.0, 3.0, 6.0)


@attrs.frozen
class Watch:
    """A certificate under observation. Immutable: `after` gives the next one.

    certificate: as it stands; once revoked it stays revoked.
    seen, errors: accepted ones with a label since, and how many of them were wrong.
    log_evidence: for each rise in RISEN, the logarithm of its bets' winnings; the watch's memory.

    An e-process: capital 1 is bet on "more than `risk` of the accepted ones are wrong", on each rise in RISEN
    and on each moment at which it may have begun. While the promise is true the capital is a
    supermartingale, so the probability that it ever reaches 1 / delta is at most delta, however often it is
    checked. New bets at every moment, with ever smaller stakes, make it quick after a long good time, in
    which a single bet would have lost nearly all.
    Source: Ville 1939; Waudby-Smith & Ramdas 2024 (betting); Shin, Ramdas & Rinaldo 2023 (e-detectors).
    """

    certificate: Certificate
    seen: int = 0
    errors: int = 0
    log_evidence: tuple[float, ...] = (-math.inf,) * len(RISEN)

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
        by_rise, total = _capital(wrong, self.certificate.risk, self.seen, np.array(self.log_evidence))
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
        return attrs.evolve(
            self,
            certificate=certificate,
            seen=seen,
            errors=errors,
            log_evidence=tuple(float(value) for value in by_rise[:, last]),
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
