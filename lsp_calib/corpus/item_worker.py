"""Asks a model for one item: in this process, in another one, or on another machine.

The server's own functions make the prompt and read the answer: of a line (`Completing`), and of a summary
(`Summarising`), which is compared with what a person wrote. For items of the studies a model is asked as
these do (`Studying`): the text above alone, greedily, up to the end of the line or function. The criteria of
correctness are applied before a record is written: records keep no text.
"""

from __future__ import annotations

import enum
import functools
import math
import operator
from collections.abc import Sequence
from typing import Self

import attrs

from lsp_calib.characters import same_line
from lsp_calib.completion.alternatives import alternatives
from lsp_calib.completion.context import Cursor
from lsp_calib.completion.features import text_features
from lsp_calib.completion.prompt import PLAIN_VERSION, Layout, WindowSize, build_prompt
from lsp_calib.completion.service import MOST_TOKENS
from lsp_calib.corpus.engine_host import (
    Answerer,
    Asking,
    EngineHost,
    believable,
    check_observes,
    record_of,
    timing_of,
)
from lsp_calib.corpus.functions import STRATUM, SummaryItem, function_of, summary_item_of
from lsp_calib.corpus.header import FeatureList
from lsp_calib.corpus.lines import LineItem, line_item_of, surroundings_of, without_below
from lsp_calib.corpus.places import Plain
from lsp_calib.corpus.records import Alternative, project
from lsp_calib.corpus.second_answer import Agreement, agreement, second_request
from lsp_calib.corpus.summary_observation import (
    LISTED,
    NEEDS_LOCAL,
    REFLECTED,
    Asker,
    Observations,
    Subject,
    SummaryObserved,
    cost_of,
    observe,
    sentence_of,
    stated_probability,
    true_false,
)
from lsp_calib.corpus.tasks import Judge, exactly
from lsp_calib.corpus.thresholds import listed, shared_encoder, shipped_thresholds, similarities
from lsp_calib.errors import DataError, SettingsError
from lsp_calib.inference.engine import LoadedModel, Observe, Priority, Request
from lsp_calib.studies.augmentation import facts_of
from lsp_calib.studies.reflection import about_code
from lsp_calib.summarization.examples import Example
from lsp_calib.summarization.features import plain_words
from lsp_calib.summarization.prompt import build_prompt as summary_prompt
from lsp_calib.summarization.service import MOST_TOKENS as MOST_OF_SUMMARIES
from lsp_calib.syntax import Function
from lsp_calib.values import Generation, Prompt, Stop, Token


class Observed(enum.StrEnum):
    """Optional fields of records; docs/evaluation.md has the cost of each."""

    MARGIN = "margin"
    NEWLINE = "newline"
    AGREEMENT = "agreement"
    STATE = "state"
    ALTERNATIVES = "alternatives"


_NEEDS = {
    Observed.MARGIN: Observe.MARGIN,
    Observed.NEWLINE: Observe.NEWLINE,
    Observed.AGREEMENT: Observe.MARGIN,
    Observed.STATE: Observe.STATE,
    Observed.ALTERNATIVES: Observe.MARGIN,
}


@attrs.frozen
class _Answer:
    """The answer to one item.

    second: None if there is none, or it was not asked for. others: its alternatives, the likeliest first.
    observations: of a summary, and what the model said of its answer to a study's item.
    """

    prompt: Prompt
    generation: Generation
    second: Agreement | None = None
    others: tuple[Generation, ...] = ()
    observations: Observations = attrs.field(factory=Observations)


@attrs.frozen
class Completing(Asking):
    """A `runner.Ask` for places in source.

    criteria: as `judge` names them. observe: what the records hold besides what every record holds.
    """

    criteria: tuple[str, ...] = ("exact",)
    judge: Judge = exactly
    observe: frozenset[Observed] = frozenset()

    def expecting(self, answerer: Answerer) -> Self:
        """Asks for the same prompts everywhere: the speeds of machines, and so their windows, differ."""
        return attrs.evolve(self, expected=answerer, window=answerer.window)

    def answerer(self) -> Answerer:
        host = self.host()
        loaded = host.loaded()
        remedy = "leave out --observe, or use a local model with the engine `local`"
        check_observes(loaded, self.observe, remedy)
        layout = host.layouts.of(loaded)
        size = WindowSize.SMALL if layout == Layout.of(loaded.card) else WindowSize.LARGE
        return Answerer(loaded.identity, layout.version, FeatureList.present(), size)

    def result(self, payload: Plain) -> Plain:
        item = line_item_of(payload)
        answer = self.asked(lambda host: self.ask(host, item))
        generation = answer.generation
        text = item.offered_as_code(generation.text)
        tokens = believable(generation)
        # As in the editor, an empty or runaway answer is not offered.
        shown = bool(text) and generation.stop is not Stop.LENGTH
        record = record_of(
            generation,
            answer.prompt,
            item=item.id,
            group=item.group,
            stratum=item.stratum,
            correct={name: self.judge(name, item, payload, text) for name in self.criteria},
            shown=shown,
            added=len(generation.tokens[0].text) if generation.tokens and answer.prompt.forced else None,
            features=_text_features(item.cursor, text) if shown else (),
            features_above=_text_features(without_below(item.cursor), text) if shown else (),
            condition=item.condition,
            source=item.source,
            margins=self._seen(Observed.MARGIN, tokens),
            newlines=self._seen(Observed.NEWLINE, tokens),
            agreement=answer.second if tokens else None,
            state=project(generation.state) if tokens and generation.state else None,
            alternatives=tuple(self._alternative(item, payload, answer, other) for other in answer.others)
            if shown and tokens
            else (),
            characters=len(text),
            reference_characters=len(item.target),
        )
        return {"record": record.to_row(), "timing": timing_of(generation)}

    def _alternative(self, item: LineItem, payload: Plain, answer: _Answer, other: Generation) -> Alternative:
        """What a record holds of an alternative."""
        first, text = answer.generation, item.offered_as_code(other.text)
        pairs = zip(first.tokens, other.tokens, strict=False)
        at = next((n for n, (one, two) in enumerate(pairs) if one.id != two.id), len(first.tokens))
        return Alternative(
            at=at,
            correct={name: self.judge(name, item, payload, text) for name in self.criteria},
            stop=other.stop.value,
            tokens=tuple(token.id for token in other.tokens[at:]),
            logprobs=other.logprobs[at:],
            entropies=(other.entropies or ())[at:],
            added=len(other.tokens[0].text) if not at and answer.prompt.forced else None,
            features=_text_features(item.cursor, text),
        )

    def _seen(self, what: Observed, tokens: Sequence[Token]) -> tuple[float, ...]:
        """What was observed at each token; empty if that was not asked for."""
        if what not in self.observe:
            return ()
        return tuple(getattr(token.seen, what.value) for token in tokens)

    async def ask(self, host: EngineHost, item: LineItem) -> _Answer:
        """The answer, evaluated afresh, so that earlier requests change no number."""
        engine, observed = host.engine, self.observe
        observe = functools.reduce(operator.or_, (_NEEDS[one] for one in observed), Observe.ENTROPY)
        cursor, layout = item.cursor, host.layouts.of(await engine.ready())
        prompt = build_prompt(cursor, layout, surroundings_of(item, layout))
        request = Request(prompt, MOST_TOKENS, Priority.BACKGROUND, reuse=False, observe=observe)
        first = await engine.generate(request)
        answer = _Answer(prompt, first)
        if first.doubt or first.stop is Stop.LENGTH:
            return answer
        # The first answer's request, so that the others go on in what it left in the cache.
        request = Request(prompt, MOST_TOKENS, Priority.BACKGROUND, reuse=False)
        if Observed.AGREEMENT in observed and (second := second_request(request, first)) is not None:
            agrees = agreement(first, await engine.generate(second))
            answer = attrs.evolve(answer, second=agrees)

        async def text_of(text: str) -> str:
            return item.offered_as_code(text)

        if Observed.ALTERNATIVES in observed and await text_of(first.text):
            ways = alternatives(engine.generate, request, first, text_of, draws=False)
            others = [other async for other, _ in ways]
            others.sort(key=lambda other: -math.fsum(other.logprobs))
            answer = attrs.evolve(answer, others=tuple(others))
        return answer


def _text_features(cursor: Cursor, text: str) -> tuple[float | None, ...]:
    return FeatureList.present().ordered(text_features(cursor, text))


MOST_OF_STUDIES = 500
"""Of an answer, as Spiess et al. 2024 have it (3.3)."""


# What is right in each task, and how a model is asked about its answer. The words are ours; what they ask for
# follows Spiess et al. 2024, Figure 1. No question shows a test.
_RIGHT = {
    "function": "this function is correct and does what its docstring says",
    "repair": "the last line of this code fixes the bug of the buggy line",
    "line": "the last line of this code is the right one there",
}
_TRUE_FALSE = "Is it true that {}? Answer with one word: True or False."
_PROBABILITY = "How likely is it that {}? Answer with a probability in per cent, and nothing else."


class Reflected(enum.StrEnum):
    """What the model can be asked of its answer, as in `SummaryObserved`."""

    ASK = "ask"
    VERBALISED = "verbalised"


@attrs.frozen
class Studying(Asking):
    """A `runner.Ask` for items of the studies' tasks.

    criteria: as `judge` names them. observe: what the model is asked of its answers.
    """

    criteria: tuple[str, ...] = ("exact",)
    judge: Judge = exactly
    observe: frozenset[Reflected] = frozenset()

    def answerer(self) -> Answerer:
        """As `Asking.answerer`; SettingsError for a remote model, too, which cannot stop where a function
        ends."""
        if self.choice.remote is not None:
            raise SettingsError(
                "The studies' tasks need a model on this machine: a server does not stop where a function "
                "ends. Leave --remote and `remote.url` out."
            )
        loaded = self.host().loaded()
        check_observes(loaded, self.observe, "leave out --observe, or use the engine `local`")
        listed = REFLECTED if self.observe else None
        return Answerer(loaded.identity, PLAIN_VERSION, observations=listed)

    def result(self, payload: Plain) -> Plain:
        item = line_item_of(payload)
        answer = self.asked(lambda host: self.ask(host, item, payload))
        generation, text = answer.generation, answer.generation.text
        record = record_of(
            generation,
            answer.prompt,
            item=item.id,
            group=item.group,
            stratum=item.stratum,
            correct={name: self.judge(name, item, payload, text) for name in self.criteria},
            # The studies count what never ended, too.
            shown=bool(text.strip()),
            condition=item.condition,
            observed=answer.observations.values,
            costs=answer.observations.costs,
            characters=len(text.rstrip()),
            reference_characters=len(item.target.rstrip()),
            repeats_bug=same_line(text, payload["buggy"]) if "buggy" in payload else None,
        )
        return {"record": record.to_row(), "timing": timing_of(generation)}

    async def ask(self, host: EngineHost, item: LineItem, payload: Plain) -> _Answer:
        """The answer, evaluated afresh."""
        engine, observe = host.engine, self.observe
        loaded = await engine.ready()
        indentation = payload["function"]["indentation"] if "function" in payload else None
        prompt = build_prompt(item.cursor, Layout.plain(loaded.card))
        request = Request(
            prompt,
            MOST_OF_STUDIES,
            Priority.BACKGROUND,
            one_line=indentation is None,
            reuse=False,
            observe=Observe.ENTROPY,
            function=indentation,
        )
        generation = await engine.generate(request)
        if not observe or not generation.text.strip():
            return _Answer(prompt, generation)
        kind = "function" if "function" in payload else "repair" if "buggy" in payload else "line"
        above = "".join(text for _, text in prompt.segments) + prompt.forced
        code = above + generation.text.rstrip()
        values: dict[str, tuple[float | None, ...]] = {}
        costs = {"answer": cost_of(generation)}
        for one, names in REFLECTED.names:
            if one not in observe:
                continue
            asker = Asker(engine, fresh=not values)
            words = (_TRUE_FALSE if one == Reflected.ASK else _PROBABILITY).format(_RIGHT[kind])
            question = about_code(code, item.cursor.language, loaded.card.chat, words)
            found = await (true_false if one == Reflected.ASK else stated_probability)(asker, question)
            values[one] = tuple(found.get(name) for name in names)
            costs[one] = asker.cost
        return _Answer(prompt, generation, observations=Observations(values, costs))


def prompt_of(
    function: Function,
    language: str,
    loaded: LoadedModel,
    examples: Sequence[Example] = (),
    facts: Sequence[str] | None = None,
) -> Prompt:
    """The prompt of the editor for a function. facts: as for `summarization.prompt.build_prompt`."""
    return summary_prompt(function, language, loaded.card.chat, loaded.card.window, examples, facts=facts)


@attrs.frozen
class Summarising(Asking):
    """A `runner.Ask` for functions.

    observe: optional fields of the records.
    augment: show facts about the code beside it, see `evaluation.augmentation`.
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
        return self.answerer()

    def answerer(self) -> Answerer:
        loaded = self.host().loaded()
        # The prompt's version is asked for before there is an item.
        function = function_of("def f():\n    return 1", "python")
        assert function is not None
        version = prompt_of(function, "python", loaded, facts=[""] if self.augment else None).version
        remedy = "leave these out of --observe, or use a local model with the engine `local`"
        check_observes(loaded, self.observe & NEEDS_LOCAL, remedy)
        return Answerer(
            loaded.identity,
            version,
            similarity=listed(shared_encoder()),
            observations=LISTED if self.observe else None,
        )

    def result(self, payload: Plain) -> Plain:
        """Raises DataError if another prompt is made here."""
        item = summary_item_of(payload)
        answer = self.asked(lambda host: self.summarize(host, item))
        prompt, generation, text = answer.prompt, answer.generation, sentence_of(answer.generation)
        if self.expected is not None and prompt.version != self.expected.prompt_version:
            raise DataError(
                f"The prompt for {item.id} has the version {prompt.version}, and the records are of "
                f"{self.expected.prompt_version}: these are not mixed. Give each worker the same version of "
                "lsp-calib."
            )
        encoder = shared_encoder()
        names = listed(encoder)
        values = similarities(encoder, text, item.reference) if text else {}
        record = record_of(
            generation,
            prompt,
            item=item.id,
            group=item.group,
            stratum=STRATUM,
            correct=shipped_thresholds(names).verdicts(values),
            shown=bool(text),
            similarity=tuple(values[name] for name in names.names) if values else (),
            margins=_margins(believable(generation)) if SummaryObserved.MARGIN in self.observe else (),
            observed=answer.observations.values,
            costs=answer.observations.costs,
            characters=len(text),
            reference_characters=len(item.reference),
        )
        return {
            "record": record.to_row(),
            "timing": {**timing_of(generation), **answer.observations.ms},
        }

    async def summarize(self, host: EngineHost, item: SummaryItem) -> _Answer:
        """The answer, evaluated afresh, so that earlier requests change no number."""
        engine, wanted = host.engine, self.observe
        loaded = await engine.ready()
        facts = None
        if self.augment:
            code = item.function.code[: loaded.card.window]
            facts = facts_of(code, item.examples, item.language, repository=item.group, path=item.path)
        prompt = prompt_of(item.function, item.language, loaded, item.examples, facts)
        observe_ = Observe.ENTROPY
        if SummaryObserved.MARGIN in wanted:
            observe_ |= Observe.MARGIN
        request = Request(prompt, MOST_OF_SUMMARIES, Priority.BACKGROUND, reuse=False, observe=observe_)
        generation = await engine.generate(request)
        sentence = sentence_of(generation)
        if not plain_words(sentence):
            return _Answer(prompt, generation)
        subject = Subject(item, loaded, prompt, generation, sentence)
        found = await observe(subject, wanted, engine, shared_encoder())
        return _Answer(prompt, generation, observations=found)


def _margins(tokens: Sequence[Token]) -> tuple[float, ...]:
    """Of the tokens; empty if the engine does not tell them."""
    margins = [token.seen.margin for token in tokens if token.seen is not None]
    known = tuple(margin for margin in margins if margin is not None)
    return known if len(known) == len(tokens) else ()
