"""The summary service: function in, suggestion out."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING

import attrs

from lsp_calib.calibration.calibrators.purpose import Purpose
from lsp_calib.characters import without_hidden
from lsp_calib.confidence.features import FIT_FEATURES, summary_features
from lsp_calib.inference.engine import Engine, Observe, Priority, Request, Sampling
from lsp_calib.summarization.examples import Example
from lsp_calib.summarization.features import Encodes, fit_features, text_features
from lsp_calib.summarization.prompt import build_prompt
from lsp_calib.syntax import Function, first_sentence_end
from lsp_calib.values import Evidence, Generation, ModelIdentity, Stop, Suggestion

if TYPE_CHECKING:
    from lsp_calib.calibration.calibrators.confidence_estimator import ConfidenceEstimator

MOST_TOKENS = 48

REWORDED = "another wording, drawn at random: regenerated summaries have no confidence"
"""The reason for the tier of a summary that was made again."""

# Far enough from greedy for other words, near enough for the same content.
_TEMPERATURE = 0.7


@attrs.frozen
class Summary:
    """A summary with the data that a label needs.

    evidence: what its confidence follows from. doubt: why there is no confidence in it; "" if its
    log-probabilities say something. document: as for `SummaryService.summarize`.
    """

    suggestion: Suggestion
    evidence: Evidence
    model: ModelIdentity
    prompt_version: str
    language: str
    doubt: str = ""
    document: str = ""


class SummaryService:
    """Summarises functions with one engine.

    encoder: the sentence encoder, None if there is none; called in a thread, and only where the calibrator in
    force weighs what it says.
    """

    def __init__(
        self,
        engine: Engine,
        estimator: ConfidenceEstimator,
        encoder: Callable[[], Encodes | None] = lambda: None,
    ) -> None:
        self._engine = engine
        self._estimator = estimator
        self._encoder = encoder

    async def summarize(
        self,
        function: Function,
        language: str,
        priority: Priority = Priority.BACKGROUND,
        *,
        examples: Sequence[Example] = (),
        seed: int | None = None,
        document: str = "",
    ) -> Summary | None:
        """One sentence on `function`, None if the model has nothing to say.

        examples: functions of the same language with their documentation, the best first; none of them the
            function itself. With none the shipped ones are shown.
        seed: draws another wording than the likeliest one; such a summary has no confidence.
        document: the URI or path of the document, for overrides of the tiers; "": unknown.
        Raises ModelError or EngineError if it could not be asked.
        """
        loaded = await self._engine.ready()
        card, model = loaded.card, loaded.identity
        prompt = build_prompt(function, language, card.chat, card.window, examples)
        # It loads beside the first summary; in a thread, while the event loop answers keystrokes.
        purpose = Purpose(model, prompt.version, "summary", language)
        weighs = seed is None and self._estimator.calibrator(purpose).weighs(FIT_FEATURES)
        loading = asyncio.ensure_future(asyncio.to_thread(self._encoder)) if weighs else None
        sampling = None if seed is None else Sampling(_TEMPERATURE, seed)
        generation = await self._engine.generate(
            Request(prompt, MOST_TOKENS, priority, sampling=sampling, observe=Observe.ENTROPY)
        )
        text = first_sentence(generation.text, whole=generation.stop is not Stop.LENGTH)
        if not text:
            return None
        doubt = generation.doubt or ("" if seed is None else REWORDED)
        evidence = Evidence()
        if not doubt:
            encoder = None if loading is None else await loading
            fit = {}
            if encoder is not None:
                fit = await asyncio.to_thread(fit_features, encoder, text, function)
            evidence = evidence_of(text, function, generation, card.window, fit)
        confidence = self._estimator.of(purpose, document).assess(evidence, doubt)
        suggestion = Suggestion.new("summary", text, confidence, model.name, generation)
        return Summary(suggestion, evidence, model, prompt.version, language, doubt, document)

    def assessed_again(self, summary: Summary) -> Summary:
        """The summary with its confidence and tier by the calibrator and the policy in force now."""
        purpose = Purpose(summary.model, summary.prompt_version, "summary", summary.language)
        in_force = self._estimator.of(purpose, summary.document)
        confidence = in_force.assess(summary.evidence, summary.doubt)
        return attrs.evolve(summary, suggestion=attrs.evolve(summary.suggestion, confidence=confidence))


def evidence_of(
    sentence: str,
    function: Function,
    generation: Generation,
    window: int,
    fit: Mapping[str, float] = MappingProxyType({}),
) -> Evidence:
    """What the confidence of a summary follows from.

    sentence: what is shown of the generation. window: characters of the function that the model saw. fit: of
    `fit_features`, as far as they are known.
    """
    counted = text_features(
        sentence, function, answer=generation.text, ended=generation.stop is not Stop.LENGTH, window=window
    )
    values = summary_features(generation.logprobs, generation.entropies, generation.stop, counted, fit)
    return Evidence(generation.logprobs, values)


def first_sentence(text: str, *, whole: bool) -> str:
    """The first sentence of an answer without hidden characters; marked with … if it was cut short.

    whole: whether the model ended its answer by itself. "" if there is no letter or digit in it.
    """
    # A summary is read, not run: its words stay the same without hidden characters.
    text = without_hidden(" ".join(text.split())).strip()
    end = first_sentence_end(text)
    sentence = text if end is None else text[:end]
    if not any(map(str.isalnum, sentence)):
        return ""
    return sentence if end is not None or whole else f"{text.rsplit(' ', 1)[0]} …"
