"""The completion service: cursor in, suggestion out."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from lsp_calib.completion.context import Cursor
from lsp_calib.completion.postprocess import clean
from lsp_calib.completion.prompt import build_ahead, build_prompt
from lsp_calib.inference.engine import Engine, Priority, Request
from lsp_calib.values import Generation, ModelIdentity, Prompt, Stop, Suggestion

if TYPE_CHECKING:
    from lsp_calib.calibration.calibrators.confidence_estimator import ConfidenceEstimator
    from lsp_calib.inference.models.cards import ModelCard

# A line of source seldom has more tokens; a longer answer usually never ends.
MOST_TOKENS = 64


@attrs.frozen
class Completion:
    """A suggestion with the data that a label needs: the log-probabilities and the line it would make."""

    suggestion: Suggestion
    cursor: Cursor
    logprobs: tuple[float, ...]
    model: ModelIdentity
    prompt_version: str

    @property
    def expected_line(self) -> str:
        """The current line as it would be with the suggestion in it."""
        return self.cursor.before + self.suggestion.text + self.cursor.after


class CompletionService:
    """Completes lines with one engine."""

    def __init__(self, engine: Engine, estimator: ConfidenceEstimator) -> None:
        self._engine = engine
        self._estimator = estimator
        self._card: ModelCard | None = None  # of the model that was asked last

    async def complete(
        self, cursor: Cursor, priority: Priority = Priority.INTERACTIVE, *, document: str = ""
    ) -> Completion | None:
        """The completion of the line at `cursor`, None if the model has nothing to offer there.

        document: where given, a later request for the same document supersedes this one.
        Raises ModelError or EngineError if it could not be asked.
        """
        model = (await self._engine.ready()).identity
        prompt, generation = await self.ask(cursor, priority, document=document)
        if generation.stop is Stop.LENGTH:
            return None
        text = clean(generation.text, cursor)
        if not text:
            return None
        # Doubtful numbers are not kept: nothing should be learned from them.
        logprobs = () if generation.doubt else generation.logprobs
        confidence = self._estimator.assess(
            model, prompt.version, "line", cursor.language, logprobs, doubt=generation.doubt
        )
        suggestion = Suggestion.new("line", text, confidence, model.name, generation)
        return Completion(suggestion, cursor, logprobs, model, prompt.version)

    def ahead(self, cursor: Cursor) -> Prompt | None:
        """The new beginning that prompts near `cursor` will soon have, for `prepare`; None if there is
        none."""
        return build_ahead(cursor, self._card.completion, self._card.window) if self._card else None

    async def prepare(self, prompt: Prompt) -> None:
        """Let the model evaluate a prompt of `ahead` while it has nothing else to do. Raises EngineError."""
        await self._engine.generate(Request(prompt, 0, Priority.IDLE))

    async def ask(
        self,
        cursor: Cursor,
        priority: Priority,
        *,
        document: str = "",
        reuse: bool = True,
        temperatures: tuple[float, ...] = (),
    ) -> tuple[Prompt, Generation]:
        """The prompt for `cursor` and the model's bare answer, for evaluation.

        document, reuse, temperatures: as for `Request`.
        """
        card = self._card = (await self._engine.ready()).card
        prompt = build_prompt(cursor, card.completion, card.window)
        request = Request(
            prompt, MOST_TOKENS, priority, document=document, reuse=reuse, temperatures=temperatures
        )
        return prompt, await self._engine.generate(request)
