"""The confidence of an answer, by the calibrator in force: read again only when files have changed."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import attrs

from lsp_calib.calibration.calibrators.calibrator import Calibrator, Purpose, Task
from lsp_calib.calibration.calibrators.calibrator_store import CalibratorStore
from lsp_calib.calibration.policies.tiers import PRESETS, Policy
from lsp_calib.values import CalibratorRef, Confidence, ModelIdentity


class ConfidenceEstimator:
    """Says how likely an answer is to be right, from its log-probabilities.

    policy: turns probabilities into tiers; may be replaced at any time.
    on_change: called when a different calibrator than before is found in force for a purpose, such as after a
        refit here, a command in a terminal or a change in another window of the editor.
    complaints: a sentence for each calibrator file that had to be skipped.
    """

    def __init__(
        self,
        store: CalibratorStore,
        policy: Policy = PRESETS["balanced"],
        on_change: Callable[[CalibratorRef], None] = lambda _: None,
    ) -> None:
        self.store = store
        self.policy: Policy = policy
        self.complaints: list[str] = []
        self._on_change = on_change
        self._chosen: dict[Purpose, tuple[object, Calibrator]] = {}

    def assess(
        self,
        model: ModelIdentity,
        prompt_version: str,
        task: Task,
        language: str,
        logprobs: Sequence[float],
        *,
        doubt: str = "",
    ) -> Confidence:
        """The confidence of one answer. logprobs: natural logarithms, one for each token that carries it.

        doubt: why the log-probabilities cannot be trusted (`Generation.doubt`), or empty. With a doubt there
            is no confidence, the tier is review, and the doubt is the reason.
        """
        calibrator = self.calibrator(Purpose(model, prompt_version, task, language))
        if not doubt:
            return calibrator.assess(logprobs, self.policy)
        return attrs.evolve(calibrator.assess((), self.policy), reason=doubt)

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

    def notice(self) -> None:
        """Check whether the chosen calibrators are still in force."""
        for purpose in list(self._chosen):
            self.calibrator(purpose)
