"""The calibrator in force, asked often: chosen once per purpose and kept until told otherwise."""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from lsp_calib.calibration.calibrator import Calibrator, Purpose, Task
from lsp_calib.calibration.shelf import Shelf
from lsp_calib.calibration.tiers import PRESETS, Policy
from lsp_calib.values import Confidence, ModelIdentity


class Judge:
    """Says how likely an answer is to be right, from its log-probabilities.

    policy: turns probabilities into tiers; may be replaced at any time.
    complaints: a sentence for each calibrator file that had to be skipped.
    """

    def __init__(self, shelf: Shelf, policy: Policy = PRESETS["balanced"]) -> None:
        self.shelf = shelf
        self.policy: Policy = policy
        self.complaints: list[str] = []
        self._chosen: dict[Purpose, Calibrator] = {}

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

        doubt: why these cannot be believed, as `Generation.doubt` has it. Then there is no confidence, the
        tier is review, and the doubt is the reason.
        """
        calibrator = self.calibrator(Purpose(model, prompt_version, task, language))
        if not doubt:
            return calibrator.assess(logprobs, self.policy)
        return attrs.evolve(calibrator.assess((), self.policy), reason=doubt)

    def calibrator(self, purpose: Purpose) -> Calibrator:
        """The calibrator in force for a purpose."""
        if purpose not in self._chosen:
            choice = self.shelf.choose(purpose)
            self.complaints += [text for text in choice.skipped if text not in self.complaints]
            self._chosen[purpose] = choice.calibrator
        return self._chosen[purpose]

    def reload(self) -> None:
        """Choose afresh: calibrators on the shelf have changed."""
        self._chosen.clear()
