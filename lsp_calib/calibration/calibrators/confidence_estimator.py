"""The confidence of an answer, by the calibrator that was in force when the files were last looked at."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import attrs

from lsp_calib.badges import counted, rejected_words
from lsp_calib.calibration.calibrators.calibrator import Calibrator, Wanted
from lsp_calib.calibration.calibrators.calibrator_store import CalibratorStore, LineCurves
from lsp_calib.calibration.calibrators.lent import note
from lsp_calib.calibration.calibrators.line_curves import SecondOpinion
from lsp_calib.calibration.calibrators.purpose import LENT, Purpose
from lsp_calib.calibration.certificates import Ledger, Promise
from lsp_calib.calibration.logistic import CLIP
from lsp_calib.calibration.tiers import PRESETS, Policy, RiskPolicy, StricterPolicy, summary_policy
from lsp_calib.confidence.features import Prefix
from lsp_calib.exclusion import matches
from lsp_calib.values import CalibratorRef, Confidence, Evidence, Override, Sure, Tier

ALTERNATIVE_MEASURE = "share-of-the-rest-1"
"""The measure of alternatives, see `completion.alternatives.shares`."""

AGREED_MEASURE = "second-opinion-1"
"""The measure of an answer that a second one, to the prompt of the other window, repeats."""

SURER_MEASURE = "surer-of-two-1"
"""The measure of both answers where the second one differs, see `line_curves.SecondOpinion`."""

_NO_LABELS = (
    "it has no labels of its own, so its share of what the first suggestion leaves is the model's word alone"
)


@attrs.frozen(eq=False)
class _Chosen:
    """What was found in force for a purpose. lines: what else is known of its lines."""

    stamp: object
    calibrator: Calibrator
    ledger: Ledger
    lines: LineCurves


@attrs.frozen
class InForce:
    """What is in force for the answers to one request.

    policy: with the certificate that covers these answers, as strict as the document has it. derived: of
        probabilities that are derived from theirs; no certificate covers them: where one is needed to accept,
        they are for review at most. measure: as of `ConfidenceEstimator`. lines: what else is known of lines.
    accepts_from: the lowest probability of what is accepted; None if nothing is.
    usage: how often lines that the policy rejects are used, in words; "" if no labels of their model say so.
    """

    calibrator: Calibrator
    policy: Policy
    derived: Policy
    measure: Wanted
    lines: LineCurves
    accepts_from: float | None
    usage: str

    def assess(self, evidence: Evidence, doubt: str = "") -> Confidence:
        """The confidence of one answer, from its evidence.

        doubt: why the log-probabilities cannot be trusted (`Generation.doubt`), or empty. With a doubt there
            is no confidence, the tier is review, and the doubt is the reason.
        """
        if not doubt:
            found = self.calibrator.assess(evidence, self.policy, self.measure)
            return attrs.evolve(found, usage=self.usage) if self.usage else found
        return attrs.evolve(self.calibrator.assess(Evidence(), self.policy, self.measure), reason=doubt)

    def beginnings(self, confidence: Confidence, places: Sequence[Prefix], place: str) -> tuple[Sure, ...]:
        """For each place in a suggested line how likely the line is to be right up to there; none if there is
        no curve for the model and prompt.

        confidence: of the whole line. place: of the cursor.
        """
        whole = confidence.calibrated
        if whole is None or confidence.calibrator.source == "prior":
            return ()
        curve = self.lines.prefix
        if curve is None:
            return ()
        found = curve.probabilities(places, whole, place)
        return tuple(Sure(one.end, p) for one, p in zip(places, found, strict=True))

    def typed_along(
        self,
        confidence: Confidence,
        beginnings: Sequence[Sure],
        typed: int,
        length: int,
        *,
        refuted: float = 0.0,
    ) -> tuple[Confidence, tuple[Sure, ...]]:
        """The confidence of a suggested line, and of its beginnings, once so many of its characters were
        typed as suggested.

        confidence, beginnings: before anything was typed. length: of the text. refuted: the probability that
        other suggestions for the place had, which do not agree with what is typed.
        Where there is no curve for the model and prompt, the confidence stays as it was but for that.
        """
        whole = confidence.calibrated
        if typed <= 0 or whole is None:
            return confidence, tuple(beginnings)
        curve = self.lines.prefix
        if curve is not None and beginnings:
            p, later = curve.typed_along(beginnings, whole, typed, length)
        elif refuted > 0.0:
            p, later = min(whole / max(1.0 - refuted, whole), 1.0), []
        else:
            return confidence, tuple(one for one in beginnings if one.end > typed)
        calibrator, policy = self.calibrator, self.policy
        shown, bound = calibrator.told(p)
        tier, reason = policy.decide(shown, source=calibrator.source)
        if bound:
            reason = reason.replace("about", bound, 1)
        reason = calibrator.of_labels(reason)
        if refuted > 0.0 and tier is Tier.ACCEPT and confidence.tier is not Tier.ACCEPT:
            tier = Tier.REVIEW  # alternatives are never above it
        elif refuted <= 0.0 and confidence.tier is Tier.ACCEPT and tier is not Tier.ACCEPT:
            # Its threshold lies beyond what labels can tell of one suggestion, and what agrees is no evidence
            # against it.
            tier, reason = confidence.tier, confidence.reason
        moved = attrs.evolve(
            confidence,
            calibrated=shown,
            tier=tier,
            reason=f"typed along for {counted(typed, 'character')}; {reason}",
            cause="",
            certified=policy.certified and tier is Tier.ACCEPT,
        )
        return moved, tuple(later)

    def survives(self, evidence: Evidence, confidence: Confidence) -> float | None:
        """The probability that a suggested line is kept, as it is or after an edit, in [0, 1]; None where no
        labels of its model say so.

        confidence: of the line, by `assess`.
        """
        whole = confidence.calibrated
        if whole is None or confidence.calibrator.source == "prior":
            return None
        curve = self.lines.survival
        return None if curve is None else curve.probability(evidence, whole)

    def says_of(self, confidence: Confidence) -> bool:
        """Whether a second answer can be weighed with such a confidence: it is of a line, by the preferred
        curve of a calibrator with labels of its purpose."""
        return (
            self.measure == "best"
            and self.calibrator.source not in LENT
            and confidence.calibrated is not None
            and confidence.measure == self.calibrator.measure
        )

    def both_say(self, first: Confidence, other: Confidence) -> Confidence:
        """The confidence of an answer that is given to the prompts of both windows.

        first, other: as each window's calibrator has it, see `says_of`. There must be a curve,
        `lines.second`.
        """
        curve, p, q = self._pair(first, other)
        words = "a second reading, with the other window, says the same"
        return self._given(first, curve.both_say(p, q), AGREED_MEASURE, words)

    def surer(self, first: Confidence, other: Confidence) -> tuple[bool, Confidence, Confidence]:
        """As `SecondOpinion.surer`, of two answers that differ. The less sure one is never above review.

        first, other: as for `both_say`.
        """
        curve, p, q = self._pair(first, other)
        is_other, surer, rest = curve.surer(p, q)
        words = "the surer of two readings with different windows, which differ"
        best = self._given(other if is_other else first, surer, SURER_MEASURE, words)
        words = "the less sure of two readings with different windows, which differ"
        behind = self._given(first if is_other else other, rest, SURER_MEASURE, words)
        if behind.tier is Tier.ACCEPT:
            behind = attrs.evolve(behind, tier=Tier.REVIEW)
        return is_other, best, behind

    def beginnings_given(
        self, beginnings: Sequence[Sure], before: Confidence, now: Confidence
    ) -> tuple[Sure, ...]:
        """The beginnings of a line that has another confidence now: how likely the line is to be right up to
        each, if it is wrong as a whole, stays."""
        whole, p = before.calibrated, now.calibrated
        if whole is None or p is None:
            return ()
        left = max(1.0 - whole, CLIP)
        shares = (min(max((one.confidence - whole) / left, 0.0), 1.0) for one in beginnings)
        return tuple(
            Sure(one.end, p + (1.0 - p) * share) for one, share in zip(beginnings, shares, strict=True)
        )

    def _pair(self, first: Confidence, other: Confidence) -> tuple[SecondOpinion, float, float]:
        curve, p, q = self.lines.second, first.calibrated, other.calibrated
        assert curve is not None, "the caller has looked"
        assert p is not None, "its calibrator says"
        assert q is not None, "its calibrator says"
        return curve, p, q

    def _given(self, own: Confidence, probability: float, measure: str, words: str) -> Confidence:
        """A confidence with what a second answer says of it: no certificate covers that."""
        p, bound = self.calibrator.told(probability)
        tier, reason = self.derived.decide(p, source=self.calibrator.source)
        if bound:
            reason = reason.replace("about", bound, 1)
        # What speaks for one tier says nothing for another.
        cause = own.cause if tier is own.tier else ""
        return attrs.evolve(
            own,
            calibrated=p,
            measure=measure,
            tier=tier,
            reason="; ".join(filter(None, (cause, self.calibrator.of_labels(reason), words))),
            cause=cause,
            certified=False,
            calibrator=self.calibrator.ref,
            usage="",  # counted on first answers
        )

    def alternatives(self, first: float | None, others: Sequence[tuple[float, Evidence]]) -> list[Confidence]:
        """The confidences of the alternatives at a place, behind what is surer: never above review.

        first: the calibrated probability of the first answer, or of all before them; None if there is none.
        others: each one's share of what the first answer leaves, by the model, in [0, 1], and its evidence.
        """
        found = []
        for share, evidence in others:
            own = self.assess(evidence)
            p, _ = self.calibrator.told(None if first is None else (1.0 - first) * share)
            tier, reason = self.derived.decide(p, source=own.calibrator.source)
            reason = f"{own.cause}; {reason}" if own.cause else reason
            found.append(
                attrs.evolve(
                    own,
                    calibrated=p,
                    measure=ALTERNATIVE_MEASURE,
                    tier=Tier.REVIEW if tier is Tier.ACCEPT else tier,
                    reason=reason if p is None else f"{reason}; an alternative: {_NO_LABELS}",
                    certified=False,
                    usage="",  # counted on first suggestions
                )
            )
        return found


class ConfidenceEstimator:
    """Says how likely an answer is to be right, from its evidence.

    policy: turns probabilities into tiers; may be replaced at any time.
    measure: which of a calibrator's curves is preferred, see `Calibrator.assess`; may be replaced as well.
    on_change: called when a different calibrator or certificate than before is found in force for a purpose,
        such as after a refit here, a command in a terminal or a change in another window of the editor.
    overrides: stricter tiers in some places; may be replaced as well.
    complaints: a sentence for each calibrator file that had to be skipped.
    """

    def __init__(
        self,
        store: CalibratorStore,
        policy: Policy = PRESETS["balanced"],
        on_change: Callable[[CalibratorRef], None] = lambda _: None,
        *,
        measure: Wanted = "best",
    ) -> None:
        self.store = store
        self.policy: Policy = policy
        self.measure: Wanted = measure
        self.overrides: tuple[Override, ...] = ()
        self.complaints: list[str] = []
        self._on_change = on_change
        self._chosen: dict[Purpose, _Chosen] = {}
        self._last: tuple[object, InForce] | None = None  # of `of`, which is asked at every key

    def of(self, purpose: Purpose, document: str = "", language: str = "") -> InForce:
        """What is in force for a purpose in a document.

        document: its URI or path, language: its own, if that is not the purpose's; for overrides. "":
        unknown.
        """
        chosen = self._find(purpose)
        of = chosen, self.policy, self.measure, self.overrides, purpose, document, language
        if self._last is None or self._last[0] != of:
            self._last = of, self._now(chosen, purpose, document, language or purpose.language)
        return self._last[1]

    def _now(self, chosen: _Chosen, purpose: Purpose, document: str, language: str) -> InForce:
        derived = self._stricter(self.policy, language, document)
        calibrator, policy, lines = chosen.calibrator, self.policy, chosen.lines
        if (promise := self.promise) is not None and isinstance(policy, RiskPolicy):
            certificate = chosen.ledger.certificate(calibrator.id, promise)
            policy = attrs.evolve(policy, certificate=certificate)
        policy = summary_policy(policy) if purpose.task == "summary" else policy
        policy = self._stricter(policy, language, document).for_calibrator(calibrator.id)
        reject_below, accepts_from = policy.thresholds
        usage = lines.usage if purpose.task == "line" and calibrator.source != "prior" else None
        shares = usage and usage.shares(reject_below)
        return InForce(
            *(calibrator, policy, derived),
            measure=self.measure,
            lines=lines,
            accepts_from=accepts_from,
            usage=rejected_words(*shares) if shares else "",
        )

    def tier(
        self, probability: float | None, like: Confidence, *, language: str = "", document: str = ""
    ) -> tuple[Tier, str]:
        """The tier and its reason of a probability that was derived from such confidences as `like`.

        No certificate covers it: where one is needed to accept, this is review at most.
        """
        policy = self._stricter(self.policy, language, document)
        return policy.decide(probability, source=like.calibrator.source)

    def calibrator(self, purpose: Purpose) -> Calibrator:
        """The calibrator in force for a purpose: now if it is asked for the first time, else at the last
        `reload`.

        Its state is "drifted" while its certificate is revoked.
        """
        return self._find(purpose).calibrator

    def certificate(self, calibrator_id: str) -> dict[str, Any] | None:
        """What is promised of the tiers of a calibrator in force, as it goes to the client.

        None if the policy promises nothing.
        """
        promise = self.promise
        chosen = self._in_force(calibrator_id)
        if promise is None or chosen is None:
            return None
        return chosen.ledger.to_wire(calibrator_id, promise)

    @property
    def promise(self) -> Promise | None:
        """What the policy promises of accepted suggestions; None if nothing."""
        if not isinstance(self.policy, RiskPolicy):
            return None
        return Promise(risk=self.policy.risk, delta=self.policy.delta, measure=self.measure)

    @property
    def purposes(self) -> list[Purpose]:
        """The purposes that a calibrator has been chosen for so far."""
        return list(self._chosen)

    def _in_force(self, calibrator_id: str) -> _Chosen | None:
        return next((one for one in self._chosen.values() if one.calibrator.id == calibrator_id), None)

    def _find(self, purpose: Purpose) -> _Chosen:
        return self._chosen.get(purpose) or self._look(purpose, None)

    def _look(self, purpose: Purpose, before: _Chosen | None) -> _Chosen:
        """before: what was in force the last time; it still is if no file has changed."""
        stamp = self.store.stamp(purpose)
        if before is not None and before.stamp == stamp:
            return before
        choice = self.store.choose(purpose)
        calibrator, ledger, unread = self.store.standing(choice.calibrator, purpose)
        lines = self.store.line_curves(purpose) if purpose.task == "line" else LineCurves()
        skipped = (*choice.skipped, *unread, *lines.skipped)
        self.complaints += [text for text in skipped if text not in self.complaints]
        now = self._chosen[purpose] = _Chosen(stamp, calibrator, ledger, lines)
        # With another certificate the tiers of earlier suggestions are out of date as well.
        present = calibrator.ref, ledger.latest
        if before is not None and (before.calibrator.ref, before.ledger.latest) != present:
            self._on_change(calibrator.ref)
        return now

    def _stricter(self, policy: Policy, language: str, document: str) -> Policy:
        """The policy with the overrides for a document; of several the strictest counts."""
        found = [
            one
            for one in self.overrides
            if one.language in (None, language)
            and (one.path is None or (document and matches(one.path, document)))
        ]
        if not found:
            return policy
        return StricterPolicy(
            policy, max(one.accept_from for one in found), max(one.reject_below for one in found)
        )

    def note_on(self, calibrator_id: str) -> str | None:
        """What a user should know of a calibrator in force; None if there is nothing to say."""
        chosen = self._in_force(calibrator_id)
        return None if chosen is None else note(chosen.calibrator)

    def reload(self) -> None:
        """Check whether the chosen calibrators are still in force: called at each request, so that a refit by
        any program counts from the next one. Costs ten system calls for each if nothing has changed."""
        for purpose, before in list(self._chosen.items()):
            self._look(purpose, before)
