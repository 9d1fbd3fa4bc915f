"""The completion service: cursor in, suggestion out."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import math
from collections.abc import Callable
from typing import TYPE_CHECKING

import attrs

from lsp_calib.completion.alternatives import alternatives, shares
from lsp_calib.completion.context import Cursor
from lsp_calib.completion.doubt import doubtful_span
from lsp_calib.completion.features import FeatureExtractor, place_of
from lsp_calib.completion.hiding import EXPLORED, Hidden, Hiding, is_explored, marked
from lsp_calib.completion.nearby import NOTHING_NEARBY, Nearby
from lsp_calib.completion.postprocess import Cut, Removal, next_line, offered
from lsp_calib.completion.prompt import Layout, build_ahead, build_prompt
from lsp_calib.inference.engine import Engine, LoadedModel, Observe, Priority, Request
from lsp_calib.values import (
    Confidence,
    Evidence,
    Generation,
    ModelIdentity,
    Prompt,
    Stop,
    Suggestion,
    new_suggestion_id,
)

if TYPE_CHECKING:
    from lsp_calib.calibration.calibrators.confidence_estimator import ConfidenceEstimator

# A line of source seldom has more tokens; a longer answer usually never ends.
MOST_TOKENS = 64

# Seconds for all alternatives of a suggestion together: who asked for them waits. What is late is left out.
ALTERNATIVES_WITHIN = 2.0


@attrs.frozen
class Completion:
    """A suggestion with the data that a label needs: the evidence and the line it would make.

    shown_probability: of being shown, in (0, 1]; below 1 for one that is to be hidden.
    cuts: why the end of the model's answer is missing.
    replaced: the text between the cursor and the rest of the line that an editor replaces, see `Selected`.
    """

    suggestion: Suggestion
    cursor: Cursor
    evidence: Evidence
    model: ModelIdentity
    prompt_version: str
    shown_probability: float = 1.0
    cuts: tuple[Cut, ...] = ()
    replaced: str = ""

    @property
    def present_line(self) -> str:
        """The current line as it is while the suggestion is shown."""
        return self.cursor.before + self.replaced + self.cursor.after

    @property
    def expected_line(self) -> str:
        """The current line as it would be with the suggestion in it."""
        return self.cursor.before + self.suggestion.text + self.cursor.after


@attrs.frozen
class Nothing:
    """The model has nothing to offer: why nothing of its answer is left."""

    removal: Removal


def _small(loaded: LoadedModel) -> Layout:
    return Layout.of(loaded.card)


class CompletionService:
    """Completes lines with one engine.

    layout_of: the layout of a model's prompts. nearby: what they show of other places.
    """

    def __init__(
        self,
        engine: Engine,
        estimator: ConfidenceEstimator,
        *,
        layout_of: Callable[[LoadedModel], Layout] = _small,
        nearby: Nearby = NOTHING_NEARBY,
    ) -> None:
        self._engine = engine
        self._estimator = estimator
        self._layout_of = layout_of
        self._nearby = nearby
        self._features = FeatureExtractor()
        self._loaded: LoadedModel | None = None  # the model that was asked last

    async def complete(
        self,
        cursor: Cursor,
        priority: Priority = Priority.INTERACTIVE,
        *,
        document: str = "",
        hide_below: float = 0.0,
    ) -> Completion | Hidden | Nothing:
        """The completion of the line at `cursor`, if the model has one to offer there.

        document: where given, a later interactive request for the same document supersedes this one.
        hide_below: a completion with a lower confidence is `Hidden`; 0: none is.
        Raises ModelError or EngineError if it could not be asked.
        """
        loaded = await self._engine.ready()
        prompt = await self._prompt(loaded, cursor, document)
        identity = new_suggestion_id()

        def assess(evidence: Evidence, doubt: str = "") -> Confidence:
            return self._estimator.assess(
                loaded.identity,
                prompt.version,
                "line",
                cursor.language,
                evidence,
                doubt=doubt,
                document=document,
            )

        hiding: Hiding | None = None
        if hide_below:
            hiding = Hiding(hide_below, assess, place_of(cursor), MOST_TOKENS, is_explored(identity))
        request = Request(prompt, MOST_TOKENS, priority, document=document, observe=Observe.ENTROPY)
        features = self._features.of(document)
        # While the model works; the evidence waits for it.
        asyncio.get_running_loop().run_in_executor(None, features.read, cursor)
        generation = await self._engine.generate(request, hiding.early_stop if hiding else None)
        if hiding and generation.stop is Stop.EARLY:
            return Hidden(hiding.ceiling(generation.logprobs), generation.timing)
        if generation.stop is Stop.LENGTH:
            return Nothing(Removal.NEVER_ENDED)
        answer = offered(generation.text, cursor)
        if answer.removal is not None:
            return Nothing(answer.removal)
        text = answer.text
        # Doubtful numbers are not kept: nothing should be learned from them.
        evidence = Evidence()
        if not generation.doubt:
            evidence = await asyncio.to_thread(features.evidence, cursor, text, generation)
        confidence = assess(evidence, generation.doubt)
        hidden = hiding is not None and hiding.hides(generation, confidence)
        if hidden and not is_explored(identity):
            return Hidden(confidence, generation.timing)
        suggestion = Suggestion.new(
            "line",
            text,
            marked(confidence, hide_below) if hidden else confidence,
            loaded.identity.name,
            generation,
            id=identity,
            doubt=None if generation.doubt else doubtful_span(generation, text),
        )
        chance = EXPLORED if hidden else 1.0
        return Completion(suggestion, cursor, evidence, loaded.identity, prompt.version, chance, answer.cuts)

    async def alternatives(
        self, first: Completion, *, document: str = "", hide_below: float = 0.0
    ) -> tuple[Completion, ...]:
        """Other completions at the place of `first`, the likeliest first: ranks 2 and 3, as far as there are.

        They take at most `ALTERNATIVES_WITHIN` seconds; what is not there by then is left out. document,
        hide_below: as for `complete`. Raises ModelError or EngineError if the model could not be asked.
        """
        loaded = await self._engine.ready()
        cursor, known = first.cursor, first.suggestion
        prompt = await self._prompt(loaded, cursor, document)
        request = Request(prompt, MOST_TOKENS, document=document, observe=Observe.ENTROPY | Observe.MARGIN)
        answer: Generation | None = None
        found: list[tuple[Generation, str]] = []
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(ALTERNATIVES_WITHIN):
                # Again, with the second likeliest tokens: what is suggested as one types goes without them.
                answer = await self._engine.generate(request)
                others = alternatives(
                    self._engine.generate,
                    request,
                    answer,
                    lambda text: offered(text, cursor).text,
                    known=(known.text,),
                )
                async for other in others:
                    found.append(other)
        if answer is None or not found:
            return ()
        found.sort(key=lambda one: -math.fsum(one[0].logprobs))
        features = self._features.of(document)
        evidences = [
            await asyncio.to_thread(features.evidence, cursor, text, generation) for generation, text in found
        ]
        given = shares(math.fsum(answer.logprobs), [math.fsum(other.logprobs) for other, _ in found])
        confidences = self._estimator.alternatives(
            loaded.identity,
            prompt.version,
            "line",
            cursor.language,
            known.confidence.calibrated,
            list(zip(given, evidences, strict=True)),
            document=document,
        )
        made: list[Completion] = []
        for (generation, text), evidence, confidence in zip(found, evidences, confidences, strict=True):
            if confidence.calibrated is not None and confidence.calibrated < hide_below:
                continue
            suggestion = Suggestion.new(
                "line",
                text,
                confidence,
                loaded.identity.name,
                generation,
                doubt=doubtful_span(generation, text),
                rank=2 + len(made),
            )
            made.append(Completion(suggestion, cursor, evidence, loaded.identity, prompt.version))
        return tuple(made)

    def forget(self, document: str) -> None:
        """Drop what is remembered of a document."""
        self._features.forget(document)
        self._nearby.forget(document)

    def ahead(self, cursor: Cursor) -> Prompt | None:
        """The new beginning that prompts near `cursor` will soon have, for `prepare`; None if there is
        none, or what it would show of other places is not known yet."""
        if self._loaded is None or (layout := self._layout_of(self._loaded)).related:
            return None
        return build_ahead(cursor, layout)

    def key(self, document: str, cursor: Cursor) -> bytes | None:
        """The same for two cursors if and only if the model asked last is shown the same prompt for both,
        their lines are the same, and so is what their answers are compared with; None if no model has been
        asked, or not with the document's window there.
        No text can be read from it."""
        if self._loaded is None:
            return None
        layout = self._layout_of(self._loaded)
        nearby = self._nearby.known(document, cursor, layout)
        if nearby is None:
            return None
        prompt = build_prompt(cursor, layout, nearby)
        seen = (
            *(self._loaded.identity.sha256, cursor.language, cursor.before, cursor.after),
            *(next_line(cursor), prompt),
        )
        return hashlib.blake2b(repr(seen).encode("ascii", "backslashreplace"), digest_size=16).digest()

    async def prepare(self, prompt: Prompt) -> None:
        """Let the model evaluate a prompt of `ahead` while it has nothing else to do. Raises EngineError."""
        await self._engine.generate(Request(prompt, 0, Priority.IDLE))

    async def _prompt(self, loaded: LoadedModel, cursor: Cursor, document: str) -> Prompt:
        self._loaded = loaded
        layout = self._layout_of(loaded)
        return build_prompt(cursor, layout, await self._nearby.of(document, cursor, layout))
