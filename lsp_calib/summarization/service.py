"""The summary service: function in, suggestion out."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

import attrs

from lsp_calib.characters import without_hidden
from lsp_calib.inference.engine import Engine, Priority, Request
from lsp_calib.summarization.augmentation import augmentation
from lsp_calib.summarization.examples import Example
from lsp_calib.summarization.prompt import build_prompt
from lsp_calib.syntax import Function
from lsp_calib.values import Evidence, ModelIdentity, Stop, Suggestion

if TYPE_CHECKING:
    from lsp_calib.calibration.calibrators.confidence_estimator import ConfidenceEstimator

MOST_TOKENS = 48

_SENTENCE = re.compile(r"^.*?[.!?](?=\s|$)")


@attrs.frozen
class Summary:
    """A summary with the data that a label needs."""

    suggestion: Suggestion
    logprobs: tuple[float, ...]
    model: ModelIdentity
    prompt_version: str


class SummaryService:
    """Summarises functions with one engine."""

    def __init__(self, engine: Engine, estimator: ConfidenceEstimator) -> None:
        self._engine = engine
        self._estimator = estimator

    async def summarize(
        self,
        function: Function,
        language: str,
        priority: Priority = Priority.BACKGROUND,
        *,
        examples: Sequence[Example] = (),
        augment: bool = False,
        repository: str = "",
        path: str = "",
    ) -> Summary | None:
        """One sentence on `function`, None if the model has nothing to say.

        examples: functions of the same language with their documentation, the best first; none of them the
            function itself. With none the shipped ones are shown.
        augment: tell facts about the code beside it, see `augmentation`; among them the name of the
            repository and the path of the file below it. These prompts have a version of their own.
        Raises ModelError or EngineError if it could not be asked.
        """
        loaded = await self._engine.ready()
        card, model = loaded.card, loaded.identity
        facts = None
        if augment:
            shown = [(one.code, one.path) for one in examples]
            shown.append((function.code[: card.window], path))
            facts = [augmentation(code, language, repository=repository, path=at) for code, at in shown]
        prompt = build_prompt(function, language, card.chat, card.window, examples, facts=facts)
        generation = await self._engine.generate(Request(prompt, MOST_TOKENS, priority))
        text = first_sentence(generation.text, whole=generation.stop is not Stop.LENGTH)
        if not text:
            return None
        logprobs = () if generation.doubt else generation.logprobs
        confidence = self._estimator.assess(
            model, prompt.version, "summary", language, Evidence(logprobs), doubt=generation.doubt
        )
        suggestion = Suggestion.new("summary", text, confidence, model.name, generation)
        return Summary(suggestion, logprobs, model, prompt.version)


def first_sentence(text: str, *, whole: bool) -> str:
    """The first sentence of an answer without hidden characters; marked with … if it was cut short.

    whole: whether the model ended its answer by itself.
    """
    # A summary is read, not run: its words stay the same without hidden characters.
    text = without_hidden(" ".join(text.split())).strip()
    match = _SENTENCE.match(text)
    if match:
        return match.group()
    return text if whole or not text else f"{text.rsplit(' ', 1)[0]} …"
