"""Asks a model for one summary, as the editor does, and compares it with what a person wrote."""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from lsp_calib.errors import DataError, SettingsError
from lsp_calib.evaluation.engine_host import (
    Answerer,
    Asking,
    EngineHost,
    host_for,
    is_believable,
    patiently,
    prompt_hash,
    timing_of,
)
from lsp_calib.evaluation.records import Record
from lsp_calib.evaluation.runner import Plain
from lsp_calib.evaluation.similarity import listed, shared_encoder, similarities
from lsp_calib.evaluation.summary_observation import (
    LISTED,
    NEEDS_LOCAL,
    Observations,
    Subject,
    SummaryObserved,
    observe,
)
from lsp_calib.evaluation.summary_task import STRATUM, SummaryItem, function_of, summary_item_of
from lsp_calib.evaluation.thresholds import shipped_thresholds
from lsp_calib.inference.engine import LoadedModel, Observe, Priority, Request
from lsp_calib.summarization.examples import Example
from lsp_calib.summarization.prompt import build_prompt, facts_of
from lsp_calib.summarization.service import MOST_TOKENS, first_sentence
from lsp_calib.summarization.similarity import plain_words
from lsp_calib.syntax import Function
from lsp_calib.values import Generation, Prompt, Stop, Token


def prompt_of(
    function: Function,
    language: str,
    loaded: LoadedModel,
    examples: Sequence[Example] = (),
    facts: Sequence[str] | None = None,
) -> Prompt:
    """The prompt of the editor for a function. facts: as for `build_prompt`."""
    return build_prompt(function, language, loaded.card.chat, loaded.card.window, examples, facts=facts)


@attrs.frozen
class Summarising(Asking):
    """A `runner.Ask` for functions.

    observe: optional fields of the records.
    augment: show facts about the code beside it, as `SummaryService` does.
    """

    observe: frozenset[SummaryObserved] = frozenset()
    augment: bool = False

    def describe(self) -> Answerer:
        """The model that answers, and the similarities that are computed.

        Raises ModelError or EngineError if there is no model, SettingsError or NoModelError if there is no
        encoder or the engine cannot observe what is to be observed, DataError without thresholds for it:
        before anything is asked.
        """
        shipped_thresholds(listed(shared_encoder()))
        # BLEU and ROUGE-L need an extra of their own.
        similarities(shared_encoder(), "one word", "one word")
        return self._answerer()

    def _answerer(self) -> Answerer:
        loaded = self._host().loaded()
        # The prompt's version is asked for before there is an item.
        function = function_of("def f():\n    return 1", "python")
        assert function is not None
        version = prompt_of(function, "python", loaded, facts=[""] if self.augment else None).version
        needing = sorted(self.observe & NEEDS_LOCAL)
        if needing and not loaded.engine.startswith("llama-cpp-python"):
            raise SettingsError(
                f"The engine {loaded.engine} cannot observe {', '.join(needing)}: leave these out of "
                "--observe, or use a local model with the engine `local`."
            )
        return Answerer(
            loaded.identity,
            version,
            similarity=listed(shared_encoder()),
            observations=LISTED if self.observe else None,
        )

    def __call__(self, payload: Plain) -> Plain:
        """Ask, compare, drop the text. Raises EngineError; DataError if another model or prompt answers."""
        item = summary_item_of(payload)
        if self.expected is not None:
            self._answerer().check(self.expected)
        answer = patiently(lambda: self._host().summarize(item, self.observe, self.augment))
        prompt, generation, text = answer.prompt, answer.generation, answer.sentence
        if self.expected is not None and prompt.version != self.expected.prompt_version:
            raise DataError(
                f"The prompt for {item.id} has the version {prompt.version}, and the records are of "
                f"{self.expected.prompt_version}: these are not mixed. Give each worker the same version of "
                "lsp-calib."
            )
        encoder = shared_encoder()
        names = listed(encoder)
        values = similarities(encoder, text, item.reference) if text else {}
        tokens = generation.tokens if is_believable(generation) else ()
        record = Record(
            item=item.id,
            group=item.group,
            stratum=STRATUM,
            correct=shipped_thresholds(names).verdicts(values),
            shown=bool(text),
            stop=generation.stop.value,
            tokens=tuple(token.id for token in generation.tokens),
            logprobs=tuple(token.logprob for token in tokens),
            typed_logprobs=tuple(token.typed_logprob for token in tokens),
            entropies=generation.entropies or () if tokens else (),
            prompt=prompt_hash(prompt),
            doubt=bool(generation.tokens) and not tokens,
            similarity=tuple(values[name] for name in names.names) if values else (),
            margins=_margins(tokens) if SummaryObserved.MARGIN in self.observe else (),
            observed=answer.observations.values,
            costs=answer.observations.costs,
            characters=len(text),
            reference_characters=len(item.reference),
        )
        return {
            "record": record.to_row(),
            "timing": {**timing_of(generation), **answer.observations.ms},
        }

    def _host(self) -> _Host:
        return host_for(_Host, (self.choice,), self.private, lambda: _Host(self.choice))


@attrs.frozen
class _Answer:
    """The answer to one item. sentence: the first one, "" if there is none."""

    prompt: Prompt
    generation: Generation
    sentence: str
    observations: Observations = attrs.field(factory=Observations)


class _Host(EngineHost):
    """The engine, asked for summaries."""

    def summarize(self, item: SummaryItem, wanted: frozenset[SummaryObserved], augment: bool) -> _Answer:
        """The answer, evaluated afresh, so that earlier requests change no number."""
        return self.wait(self._summarize(item, wanted, augment))

    async def _summarize(
        self, item: SummaryItem, wanted: frozenset[SummaryObserved], augment: bool
    ) -> _Answer:
        loaded = await self.engine.ready()
        facts = None
        if augment:
            code = item.function.code[: loaded.card.window]
            facts = facts_of(code, item.examples, item.language, repository=item.group, path=item.path)
        prompt = prompt_of(item.function, item.language, loaded, item.examples, facts)
        observe_ = Observe.ENTROPY
        if SummaryObserved.MARGIN in wanted:
            observe_ |= Observe.MARGIN
        request = Request(prompt, MOST_TOKENS, Priority.BACKGROUND, reuse=False, observe=observe_)
        generation = await self.engine.generate(request)
        sentence = first_sentence(generation.text, whole=generation.stop is not Stop.LENGTH)
        if not plain_words(sentence):
            return _Answer(prompt, generation, sentence)
        subject = Subject(item, loaded, prompt, generation, sentence)
        found = await observe(subject, wanted, self.engine, shared_encoder()) if wanted else Observations()
        return _Answer(prompt, generation, sentence, found)


def _margins(tokens: Sequence[Token]) -> tuple[float, ...]:
    """Of the tokens; empty if the engine does not tell them."""
    margins = [token.seen.margin for token in tokens if token.seen is not None]
    known = tuple(margin for margin in margins if margin is not None)
    return known if len(known) == len(tokens) else ()
