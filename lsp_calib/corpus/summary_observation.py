"""What a summary's confidence could be made of, as numbers for its record: texts are compared and dropped.

Each observation says what it cost in tokens. Those that ask the model are in an order in which each finds
what it can in the cache: first what goes on from the summary's own prompt, then what shows the function
alone. The first request of each family is evaluated afresh, so that earlier work changes no number; of those
that go on from it, the work of other programs may change the last digits.
"""

from __future__ import annotations

import asyncio
import enum
import math
import time
from collections.abc import Mapping, Sequence
from statistics import fmean
from types import MappingProxyType

import attrs

from lsp_calib.corpus.functions import SummaryItem
from lsp_calib.corpus.header import ObservationList
from lsp_calib.inference.engine import (
    Engine,
    LoadedModel,
    Priority,
    Request,
    Sampling,
)
from lsp_calib.inference.models.cards import ChatFormat
from lsp_calib.studies import reflection, scoring
from lsp_calib.studies.measures import (
    SCALE,
    contained_true_false,
    majority_vote,
    parse_probability,
    stated,
    true_token,
)
from lsp_calib.summarization import features
from lsp_calib.summarization.examples import likeness, terms_of
from lsp_calib.summarization.features import (
    Encodes,
    TokenStates,
    cosine,
    fit_features,
    greedy_match,
    plain_words,
    states_of,
)
from lsp_calib.summarization.service import first_sentence
from lsp_calib.syntax import Function
from lsp_calib.values import Generation, Prompt, Segment, Stop

VERSION = 1
"""Changes whenever one of the numbers may come out otherwise for the same summary: formulas and prompts."""


class SummaryObserved(enum.StrEnum):
    """Optional fields of records of summaries; docs/evaluation.md has the cost of each."""

    MARGIN = "margin"
    TEXT = "text"
    ENCODER = "encoder"
    FOLLOW_UP = "follow-up"
    SAMPLES = "samples"
    AGREEMENT = "agreement"
    ASK = "ask"
    VERBALISED = "verbalised"
    SCALE = "scale"
    LIKELIHOOD = "likelihood"


_ANSWER = ("true", "false", "contained-true", "contained-false", "true-token")
FIT_NAMES = (
    "neighbours-cosine-max",
    "neighbours-cosine-mean",
    "neighbours-f1-max",
    "neighbours-agree",
    "code-neighbours-cosine-max",
    "bm25-max",
    "bm25-mean",
    "likeness-max",
    "code-cosine",
    "code-precision",
    "code-recall",
    "code-f1",
    "name-cosine",
    "name-recall",
)
"""How a summary fits its function and what its examples say, in the order of records.

neighbours-...: similarity of the summary to the sentences of the examples in its prompt; neighbours-agree:
mean cosine of these sentences among each other. code-neighbours-cosine-max: of the function's words to their
sentences. bm25-max, -mean: what BM25 says of the examples, over what it says of the function itself.
likeness-max: the most words in common with the code of one. code-...: similarity of the summary to the words
of the code, with the summary as the candidate. name-...: to the words of the function's name.
"""

_FIELDS: Mapping[SummaryObserved, tuple[str, ...]] = MappingProxyType(
    {
        SummaryObserved.TEXT: features.NAMES,
        SummaryObserved.ENCODER: FIT_NAMES,
        SummaryObserved.FOLLOW_UP: _ANSWER,
        SummaryObserved.SAMPLES: ("cosine", "f1", "among", "different", "same", "logprob"),
        SummaryObserved.AGREEMENT: ("cosine", "precision", "recall", "same", "words", "ended", "logprob"),
        SummaryObserved.ASK: _ANSWER,
        SummaryObserved.VERBALISED: ("confidence", "answers", "fell-back"),
        SummaryObserved.SCALE: ("vote", "mean", "invalid", *map(str, SCALE)),
        SummaryObserved.LIKELIHOOD: ("gain", "given", "alone", "tokens"),
    }
)
NEEDS_LOCAL = frozenset(SummaryObserved) - {SummaryObserved.TEXT, SummaryObserved.ENCODER}
"""Those that other engines than the local one cannot observe, or cannot observe again."""

LISTED = ObservationList(VERSION, tuple((name.value, names) for name, names in _FIELDS.items()))
REFLECTED = ObservationList(
    VERSION,
    tuple((name.value, _FIELDS[name]) for name in (SummaryObserved.ASK, SummaryObserved.VERBALISED)),
)
"""What is observed of answers in code."""

_TRUE_FALSE = ("true", "false")
# Long enough for a sentence; a model without examples may go on without end.
_OTHER_TOKENS = 32
_SAMPLES, _SAMPLE_TOKENS, _SAMPLE_TEMPERATURE = 3, 24, 0.8
# Spiess et al. 2024: temperature 1, a first answer and three more at most.
_STATED_TRIES, _STATED_TOKENS, _STATED_TEMPERATURE = 4, 12, 1.0
_VOTES, _VOTE_TOKENS, _VOTE_TEMPERATURE = 5, 6, 1.0

Values = Mapping[str, float | None]
Cost = tuple[int, int, int]


@attrs.frozen
class Subject:
    """A summary and where it comes from. sentence: the first one of the generation's text, not empty."""

    item: SummaryItem
    loaded: LoadedModel
    prompt: Prompt
    generation: Generation
    sentence: str


@attrs.frozen
class Observations:
    """Numbers in the order of `LISTED`, costs as in `Record`, and milliseconds, by observation."""

    values: Mapping[str, tuple[float | None, ...]] = attrs.field(factory=dict)
    costs: Mapping[str, Cost] = attrs.field(factory=dict)
    ms: Mapping[str, float] = attrs.field(factory=dict)


async def observe(
    subject: Subject, wanted: frozenset[SummaryObserved], engine: Engine, encoder: Encodes
) -> Observations:
    """What is wanted of a summary. Raises EngineError."""
    if not wanted:
        return Observations()
    values: dict[str, tuple[float | None, ...]] = {}
    costs, ms = {"summary": cost_of(subject.generation)}, {}
    # What shows the function alone begins alike: only the first of these is evaluated afresh.
    alone = [one for one in SummaryObserved if one in wanted and one in _SHOWING_ALONE]
    for one, names in _FIELDS.items():
        if one not in wanted:
            continue
        began = time.perf_counter()
        asker = Asker(engine, fresh=alone[:1] == [one])
        found = await _observed(one, subject, asker, encoder)
        values[one.value] = tuple(found.get(name) for name in names)
        ms[f"{one.value}_ms"] = round(1e3 * (time.perf_counter() - began), 1)
        if asker.cost != (0, 0, 0):
            costs[one.value] = asker.cost
    return Observations(values, costs, ms)


_SHOWING_ALONE = (
    SummaryObserved.AGREEMENT,
    SummaryObserved.ASK,
    SummaryObserved.VERBALISED,
    SummaryObserved.SCALE,
)


def cost_of(generation: Generation) -> Cost:
    """Tokens evaluated, tokens found in the cache, tokens generated."""
    timing = generation.timing
    return timing.prompt_tokens - timing.prompt_reused, timing.prompt_reused, timing.generated_tokens


class Asker:
    """Asks an engine, and counts. fresh: whether the first answer is evaluated afresh."""

    def __init__(self, engine: Engine, *, fresh: bool) -> None:
        self._engine = engine
        self._fresh = fresh
        self.cost: Cost = (0, 0, 0)

    async def ask(
        self,
        prompt: Prompt,
        tokens: int,
        *,
        sampling: Sampling | None = None,
        words: tuple[str, ...] = (),
        one_line: bool = True,
    ) -> Generation:
        fresh, self._fresh = self._fresh, False
        request = Request(
            prompt,
            tokens,
            Priority.BACKGROUND,
            one_line=one_line,
            sampling=sampling,
            reuse=not fresh,
            words=words,
        )
        generation = await self._engine.generate(request)
        self._add(cost_of(generation))
        return generation

    async def score(self, loaded: LoadedModel, text: str, start: int) -> tuple[float, int]:
        """The log-probability of a text from a character on, in nats, and its number of tokens."""
        prompt = Prompt(((Segment.TEXT, "#"),), "", "likelihood")
        scored = await asyncio.to_thread(lambda: scoring.reader(loaded).score(prompt, text))
        total, at, tokens = 0.0, 0, 0
        for token in scored:
            if at >= start:
                total += token.logprob
                tokens += 1
            at += len(token.text)
        self._add((len(scored), 0, 0))
        return total, tokens

    def _add(self, cost: Cost) -> None:
        evaluated, reused, generated = self.cost
        self.cost = evaluated + cost[0], reused + cost[1], generated + cost[2]


async def _observed(one: SummaryObserved, subject: Subject, asker: Asker, encoder: Encodes) -> Values:
    """The numbers of one observation by name; those that cannot be had are missing."""
    match one:
        case SummaryObserved.TEXT:
            return features.text_features(
                subject.sentence,
                subject.item.function,
                answer=subject.generation.text,
                ended=subject.generation.stop is not Stop.LENGTH,
                window=subject.loaded.card.window,
            )
        case SummaryObserved.ENCODER:
            item = subject.item
            return fit_with_examples(encoder, subject.sentence, item)
        case SummaryObserved.FOLLOW_UP:
            card = subject.loaded.card
            answer = subject.generation.text.rstrip()
            return await true_false(asker, reflection.follow_up(subject.prompt, answer, card.chat))
        case SummaryObserved.SAMPLES:
            return await _samples(subject, asker, encoder)
        case SummaryObserved.AGREEMENT:
            return await _agreement(subject, asker, encoder)
        case SummaryObserved.ASK:
            prompt = reflection.judging_prompt(*_shown(subject), subject.sentence, reflection.TRUE_FALSE)
            return await true_false(asker, prompt)
        case SummaryObserved.VERBALISED:
            prompt = reflection.judging_prompt(*_shown(subject), subject.sentence, reflection.PROBABILITY)
            return await stated_probability(asker, prompt)
        case SummaryObserved.SCALE:
            return await _scale(subject, asker)
        case SummaryObserved.LIKELIHOOD:
            return await _likelihood(subject, asker)
        case SummaryObserved.MARGIN:
            raise AssertionError("margins are in the answer's tokens")


def _shown(subject: Subject) -> tuple[Function, str, ChatFormat, int]:
    """What each prompt that shows the function alone begins with."""
    item, card = subject.item, subject.loaded.card
    return item.function, item.language, card.chat, card.window


async def true_false(asker: Asker, prompt: Prompt) -> Values:
    """How likely each answer to a prompt that asks for true or false is, by the name of the numbers.

    Natural logarithms: small probabilities would be lost in the units of records."""
    generation = await asker.ask(prompt, 2, words=_TRUE_FALSE, one_line=False)
    seen = [token.seen for token in generation.tokens if token.seen is not None and token.seen.words]
    if not seen or generation.doubt:
        return {}
    true, false = seen[0].words
    # The rules of the two studies, which saw the likeliest alternatives alone.
    contained = contained_true_false([one.likeliest for one in seen])
    return {
        "true": true,
        "false": false,
        "contained-true": _log(contained.true),
        "contained-false": _log(contained.false),
        "true-token": _log(true_token(seen[0].likeliest)),
    }


async def _samples(subject: Subject, asker: Asker, encoder: Encodes) -> Values:
    texts, logprobs = [], []
    for seed in range(_SAMPLES):
        drawn = await asker.ask(subject.prompt, _SAMPLE_TOKENS, sampling=Sampling(_SAMPLE_TEMPERATURE, seed))
        texts.append(sentence_of(drawn))
        if drawn.tokens and not drawn.doubt:
            logprobs.append(fmean(drawn.logprobs))
    told = plain_words(subject.sentence)
    forms = [form for text in texts if (form := plain_words(text))]
    values = {
        "different": len({plain_words(text) for text in texts}) / _SAMPLES,
        "same": sum(form == told for form in forms) / _SAMPLES,
        "logprob": fmean(logprobs) if logprobs else None,
    }
    if told and forms:
        one, states = encoder.encode(told), [encoder.encode(form) for form in forms]
        values["cosine"] = fmean([cosine(one, other) for other in states])
        values["f1"] = fmean([greedy_match(one.words, other.words).f1 for other in states])
        values["among"] = mean_cosine(states) if len(states) > 1 else None
    return values


async def _agreement(subject: Subject, asker: Asker, encoder: Encodes) -> Values:
    second = await asker.ask(reflection.other_prompt(*_shown(subject)), _OTHER_TOKENS)
    one, two = plain_words(subject.sentence), plain_words(sentence_of(second))
    values: dict[str, float | None] = {
        "same": float(one == two),
        "words": float(len(two.split())),
        "ended": float(second.stop is not Stop.LENGTH),
        "logprob": fmean(second.logprobs) if second.tokens and not second.doubt else None,
    }
    if one and two:
        # Precision: how far the second answer has what the summary says.
        a, b = encoder.encode(one), encoder.encode(two)
        match = greedy_match(a.words, b.words)
        values |= {"cosine": cosine(a, b), "precision": match.precision, "recall": match.recall}
    return values


async def stated_probability(asker: Asker, prompt: Prompt) -> Values:
    """The probability that an answer to the prompt states, by the name of the numbers."""
    answers: list[str] = []
    for seed in range(_STATED_TRIES):
        sampling = Sampling(_STATED_TEMPERATURE, seed)
        answers.append((await asker.ask(prompt, _STATED_TOKENS, sampling=sampling, one_line=False)).text)
        if parse_probability(answers[-1]) is not None:
            break
    found = stated(answers, resamples=_STATED_TRIES - 1)
    return {
        "confidence": found.confidence,
        "answers": float(found.answers),
        "fell-back": float(found.fell_back),
    }


async def _scale(subject: Subject, asker: Asker) -> Values:
    prompt = reflection.judging_prompt(*_shown(subject), subject.sentence, reflection.SCALE)
    ratings = tuple(map(str, SCALE))
    likeliest = await asker.ask(prompt, 1, words=ratings, one_line=False)
    values: dict[str, float | None] = {}
    seen = [token.seen for token in likeliest.tokens if token.seen is not None and token.seen.words]
    if seen and not likeliest.doubt:
        values |= zip(ratings, seen[0].words, strict=True)
    answers = [
        (await asker.ask(prompt, _VOTE_TOKENS, sampling=Sampling(_VOTE_TEMPERATURE, seed))).text
        for seed in range(_VOTES)
    ]
    vote = majority_vote(answers)
    values |= {
        "vote": vote.confidence,
        "mean": vote.mean_confidence,
        "invalid": vote.invalid / _VOTES,
    }
    return values


async def _likelihood(subject: Subject, asker: Asker) -> Values:
    """Per token of the code, in nats: how much likelier the summary makes it."""
    item, window = subject.item, subject.loaded.card.window
    of = item.function, item.language, window
    alone, tokens = await asker.score(subject.loaded, *reflection.scored_text(*of, ""))
    given, again = await asker.score(subject.loaded, *reflection.scored_text(*of, subject.sentence))
    if not tokens or tokens != again:
        return {}
    return {
        "gain": (given - alone) / tokens,
        "given": given / tokens,
        "alone": alone / tokens,
        "tokens": float(tokens),
    }


def sentence_of(generation: Generation) -> str:
    """The first one of an answer, "" if there is none."""
    return first_sentence(generation.text, whole=generation.stop is not Stop.LENGTH)


def _log(probability: float | None) -> float | None:
    return math.log(probability) if probability else None


def fit_with_examples(encoder: Encodes, summary: str, item: SummaryItem) -> dict[str, float]:
    """As `fit_features`, with what the examples of the prompt say, by the names in `FIT_NAMES`."""
    values = fit_features(encoder, summary, item.function)
    told, code = states_of(encoder, summary), states_of(encoder, item.function.code)
    if told is None:
        return values
    sentences = [states for one in item.examples if (states := states_of(encoder, one.sentence)) is not None]
    if sentences:
        near = [cosine(told, one) for one in sentences]
        values["neighbours-cosine-max"] = max(near)
        values["neighbours-cosine-mean"] = sum(near) / len(near)
        values["neighbours-f1-max"] = max(greedy_match(told.words, one.words).f1 for one in sentences)
        if code is not None:
            values["code-neighbours-cosine-max"] = max(cosine(code, one) for one in sentences)
    if len(sentences) > 1:
        values["neighbours-agree"] = mean_cosine(sentences)
    if item.scores:
        values |= {"bm25-max": max(item.scores), "bm25-mean": sum(item.scores) / len(item.scores)}
    if item.examples:
        own = terms_of(item.function.code)
        values["likeness-max"] = max(likeness(own, terms_of(one.code)) for one in item.examples)
    return values


def mean_cosine(texts: Sequence[TokenStates]) -> float:
    """The mean over all pairs of two or more texts, in [-1, 1]."""
    pairs = [cosine(one, other) for at, one in enumerate(texts) for other in texts[:at]]
    return sum(pairs) / len(pairs)
