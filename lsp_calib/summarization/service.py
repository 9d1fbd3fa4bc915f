"""The summary service: function in, suggestion out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import attrs

from lsp_calib.characters import without_hidden
from lsp_calib.confidence.summary_features import summary_features
from lsp_calib.inference.engine import Engine, Observe, Priority, Request, Sampling
from lsp_calib.summarization.augmentation import augmentation
from lsp_calib.summarization.examples import Example
from lsp_calib.summarization.features import text_features
from lsp_calib.summarization.prompt import build_prompt
from lsp_calib.syntax import Function, first_sentence_end
from lsp_calib.values import Confidence, Evidence, Generation, ModelIdentity, Stop, Suggestion

if TYPE_CHECKING:
    from lsp_calib.calibration.calibrators.confidence_estimator import ConfidenceEstimator

MOST_TOKENS = 48

REWORDED = "another wording, drawn at random: labels say how good the likeliest one is, and nothing of others"
"""The reason for the tier of a summary that was made again."""

# Far enough from greedy for other words, near enough for the same content.
_TEMPERATURE = 0.7


@attrs.frozen
class Summary:
    """A summary with the data that a label needs.

    evidence: what its confidence follows from. doubt: why there is no confidence in it; "" if its
    log-probabilities say something.
    """

    suggestion: Suggestion
    evidence: Evidence
    model: ModelIdentity
    prompt_version: str
    language: str
    doubt: str = ""


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
        seed: int | None = None,
    ) -> Summary | None:
        """One sentence on `function`, None if the model has nothing to say.

        examples: functions of the same language with their documentation, the best first; none of them the
            function itself. With none the shipped ones are shown.
        augment: tell facts about the code beside it, see `augmentation`; among them the name of the
            repository and the path of the file below it. These prompts have a version of their own.
        seed: draws another wording than the likeliest one; such a summary has no confidence.
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
        sampling = None if seed is None else Sampling(_TEMPERATURE, seed)
        generation = await self._engine.generate(
            Request(prompt, MOST_TOKENS, priority, sampling=sampling, observe=Observe.ENTROPY)
        )
        text = first_sentence(generation.text, whole=generation.stop is not Stop.LENGTH)
        if not text:
            return None
        doubt = generation.doubt or ("" if seed is None else REWORDED)
        evidence = Evidence() if doubt else evidence_of(text, function, generation, card.window)
        confidence = self._assess(model, prompt.version, language, evidence, doubt)
        suggestion = Suggestion.new("summary", text, confidence, model.name, generation)
        return Summary(suggestion, evidence, model, prompt.version, language, doubt)

    def assessed_again(self, summary: Summary) -> Summary:
        """The summary with its confidence and tier by the calibrator and the policy in force now."""
        of = summary.model, summary.prompt_version, summary.language, summary.evidence, summary.doubt
        suggestion = attrs.evolve(summary.suggestion, confidence=self._assess(*of))
        return attrs.evolve(summary, suggestion=suggestion)

    def _assess(
        self, model: ModelIdentity, version: str, language: str, evidence: Evidence, doubt: str
    ) -> Confidence:
        return self._estimator.assess(model, version, "summary", language, evidence, doubt=doubt)


def evidence_of(sentence: str, function: Function, generation: Generation, window: int) -> Evidence:
    """What the confidence of a summary follows from.

    sentence: what is shown of the generation. window: characters of the function that the model saw.
    """
    counted = text_features(
        sentence, function, answer=generation.text, ended=generation.stop is not Stop.LENGTH, window=window
    )
    values = summary_features(generation.logprobs, generation.entropies, generation.stop, counted)
    return Evidence(generation.logprobs, values)


def first_sentence(text: str, *, whole: bool) -> str:
    """The first sentence of an answer without hidden characters; marked with … if it was cut short.

    whole: whether the model ended its answer by itself.
    """
    # A summary is read, not run: its words stay the same without hidden characters.
    text = without_hidden(" ".join(text.split())).strip()
    end = first_sentence_end(text)
    if end is not None:
        return text[:end]
    return text if whole or not text else f"{text.rsplit(' ', 1)[0]} …"
