"""The confidence of an answer, by the calibrator in force: read again only when files have changed."""

from __future__ import annotations

from collections.abc import Callable

import attrs

from lsp_calib.calibration.calibrators.calibrator import Calibrator, Purpose, Task
from lsp_calib.calibration.calibrators.calibrator_store import CalibratorStore
from lsp_calib.calibration.calibrators.carrying_over import note
from lsp_calib.calibration.calibrators.curve import Wanted
from lsp_calib.calibration.policies.tiers import PRESETS, Policy
from lsp_calib.values import CalibratorRef, Confidence, Evidence, ModelIdentity, Tier

ALTERNATIVE_MEASURE = "share-of-the-rest-1"
"""The name of the measure of alternatives, see `completion.alternatives.shares`."""

_NO_LABELS = (
    "it has no labels of its own, so its share of what the first suggestion leaves is the model's word alone"
)


class ConfidenceEstimator:
    """Says how likely an answer is to be right, from its evidence.

    policy: turns probabilities into tiers; may be replaced at any time.
    measure: which of a calibrator's curves is preferred, see `Calibrator.assess`; may be replaced as well.
    on_change: called when a different calibrator than before is found in force for a purpose, such as after a
        refit here, a command in a terminal or a change in another window of the editor.
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
        self.complaints: list[str] = []
        self._on_change = on_change
        self._chosen: dict[Purpose, tuple[object, Calibrator]] = {}

    def assess(
        self,
        model: ModelIdentity,
        prompt_version: str,
        task: Task,
        language: str,
        evidence: Evidence,
        *,
        doubt: str = "",
    ) -> Confidence:
        """The confidence of one answer, from its evidence.

        doubt: why the log-probabilities cannot be trusted (`Generation.doubt`), or empty. With a doubt there
            is no confidence, the tier is review, and the doubt is the reason.
        """
        calibrator = self.calibrator(Purpose(model, prompt_version, task, language))
        if not doubt:
            return calibrator.assess(evidence, self.policy, self.measure)
        return attrs.evolve(calibrator.assess(Evidence(), self.policy, self.measure), reason=doubt)

    def tier(self, probability: float | None, like: Confidence) -> tuple[Tier, str]:
        """The tier and its reason of a probability that was derived from such confidences as `like`."""
        return self.policy.decide(probability, source=like.calibrator.source)

    def alternative(self, own: Confidence, probability: float | None) -> Confidence:
        """The confidence of an alternative, which has no labels of its own: never above review.

        own: that of the first answer's calibrator for its evidence. probability: its share of what the first
            answer leaves, in [0, 1]; None if there is none.
        """
        tier, reason = self.tier(probability, own)
        if probability is not None:
            reason = f"{reason}; an alternative: {_NO_LABELS}"
        return attrs.evolve(
            own,
            calibrated=probability,
            measure=ALTERNATIVE_MEASURE,
            tier=Tier.REVIEW if tier is Tier.ACCEPT else tier,
            reason=reason,
            certified=False,
        )

    def calibrator(self, purpose: Purpose) -> Calibrator:
        """The calibrator in force for a purpose now. Costs two system calls if nothing has changed."""
        stamp = self.store.stamp(purpose)
        before = self._chosen.get(purpose)
        if before is not None and before[0] == stamp:
            return before[1]
        choice = self.store.choose(purpose)
        self.complaints += [text for text in choice.skipped if text not in self.complaints]
        self._chosen[purpose] = stamp, choice.calibrator
        if before is not None and before[1].ref != choice.calibrator.ref:
            self._on_change(choice.calibrator.ref)
        return choice.calibrator

    def note_on(self, calibrator_id: str) -> str | None:
        """What a user should know of a calibrator in force; None if there is nothing to say."""
        chosen = (calibrator for _, calibrator in self._chosen.values())
        return next((note(one) for one in chosen if one.id == calibrator_id), None)

    def notice(self) -> None:
        """Check whether the chosen calibrators are still in force."""
        for purpose in list(self._chosen):
            self.calibrator(purpose)
