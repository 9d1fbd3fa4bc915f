"""A second opinion: the model's answer to the prompt of the other window, at the same place.

Where it says the same, that is evidence for the first answer. Where it differs, the surer one goes first,
unless the other one is on the screen already. Labels of both windows at the same places say what either is
worth (`line_curves.SecondOpinion`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import attrs

from lsp_calib.calibration.calibrators.confidence_estimator import ConfidenceEstimator, InForce
from lsp_calib.calibration.calibrators.purpose import LENT
from lsp_calib.characters import normalised_line
from lsp_calib.completion.context import Cursor
from lsp_calib.completion.prompt import Layout, line_purpose
from lsp_calib.completion.service import Completion, longest
from lsp_calib.inference.engine import LoadedModel
from lsp_calib.values import Confidence, Evidence

WITHIN = 4.0
"""Seconds for the second answer: all of its prompt has to be evaluated at first."""

Ask = Callable[[Layout], Awaitable[object]]
"""Gives the completion with a layout of the prompt, or something else where there is none."""


@attrs.frozen
class Witness:
    """The prompt of the other window, of which a curve says what its answer is worth beside the present one.

    in_force: of the present window. beside: of the other one, whose layout is `layout`.
    """

    layout: Layout
    in_force: InForce
    beside: InForce

    @classmethod
    def for_(
        cls,
        first: Completion,
        loaded: LoadedModel,
        present: Layout,
        estimator: ConfidenceEstimator,
        document: str,
    ) -> Witness | None:
        """The one for a first answer; None where it cannot be weighed: it was made to begin with something,
        some of it is typed, there are no labels of both windows, or tiers are certified, which two answers
        are not.

        present: the layout of prompts in use. document: as for `CompletionService.complete`.
        """
        layout, language = present.with_other_window(loaded.card), first.cursor.language
        is_first = not (first.lead or first.typed or first.suggestion.rank > 1)
        if layout is None or not is_first or first.prompt_version != present.version:
            return None
        if estimator.promise is not None:
            return None
        in_force = estimator.of(line_purpose(loaded.identity, present.version, language), document)
        curve = in_force.lines.second
        if curve is None or curve.other_version != layout.version:
            return None
        if not in_force.says_of(first.suggestion.confidence):
            return None
        beside = estimator.of(line_purpose(loaded.identity, layout.version, language), document)
        return None if beside.calibrator.source in LENT else cls(layout, in_force, beside)

    def judged(
        self, first: Completion, other: Completion, *, on_screen: bool = False
    ) -> tuple[Completion, ...]:
        """The first answer alone if the other one says the same, else both, the surer one first; each with
        its probability, given both. Nothing where the other one has none.

        other: at the same cursor, over the same closers. on_screen: the first answer is, and stays first:
        what is read is not exchanged, and the next one is the surer one.
        """
        own, second = first.suggestion.confidence, other.suggestion.confidence
        if not self.beside.says_of(second):
            return ()
        if normalised_line(other.suggestion.text) == normalised_line(first.suggestion.text):
            return (self._anew(first, self.in_force.both_say(own, second)),)
        is_other, best, rest = self.in_force.surer(own, second)
        # From an answer that is asked for where there is one already nothing is learned.
        other = attrs.evolve(
            other, evidence=Evidence(), prompt_version=first.prompt_version, key=first.key, survives=None
        )
        surer, less = (other, first) if is_other else (first, other)
        surer, less = self._anew(surer, best), self._anew(less, rest)
        # While it is typed along, the surer one is refuted: that moves it, and not how it begins.
        less = attrs.evolve(less, beginnings=(), suggestion=attrs.evolve(less.suggestion, sure=None))
        turned = is_other and on_screen
        leads, behind = (less, surer) if turned else (surer, less)
        behind = attrs.evolve(behind, stands_behind=is_other and not turned)
        behind = attrs.evolve(behind, suggestion=attrs.evolve(behind.suggestion, rank=2, sure=None))
        # What is remembered holds no document.
        nowhere = Cursor.at(("",), 0, 0, first.cursor.language)
        known = attrs.evolve(behind, cursor=nowhere, replaced="", kept="", key=None)
        return attrs.evolve(leads, behind=known), behind

    def _anew(self, known: Completion, confidence: Confidence) -> Completion:
        suggestion = known.suggestion
        beginnings = self.in_force.beginnings_given(known.beginnings, suggestion.confidence, confidence)
        sure = longest(beginnings, self.in_force.accepts_from, suggestion.text)
        suggestion = attrs.evolve(suggestion, confidence=confidence, sure=sure)
        return attrs.evolve(known, suggestion=suggestion, beginnings=beginnings)


async def second_opinion(
    first: Completion, witness: Witness, ask: Ask, *, on_screen: bool = False
) -> tuple[Completion, ...]:
    """As `Witness.judged`, of the answer that `ask` gives; nothing where it gives none, or none that can go
    over the closers behind the cursor.

    Raises TimeoutError after `WITHIN` seconds, and what `ask` raises.
    """
    async with asyncio.timeout(WITHIN):
        other = await ask(witness.layout)
    if not isinstance(other, Completion):
        return ()
    over = first.beside([other])
    return witness.judged(first, over[0], on_screen=on_screen) if over else ()


def known_pair(first: Completion) -> tuple[Completion, ...]:
    """The first of two answers that is remembered, with the one behind it; nothing of other completions."""
    behind = first.behind
    if behind is None or first.typed:
        return ()
    return first, *first.beside([attrs.evolve(behind, cursor=first.cursor)])
