"""Asks models as the studies ask, and what they say of their own answers; the answers' texts are dropped.

Answers to items of code are asked for as in Spiess et al. 2024: the text above alone, greedily, up to the end
of the line or function. Summaries are asked for as the editor does, with facts about the code where wanted.
Then a model may be asked about its answer: whether it is right (true or false), how likely that is (in per
cent), how much it agrees (1 to 4). The words are ours; what they ask for follows Spiess et al. 2024 (Figure
1) and Virk et al. 2024 (6.4, and the authors' script). No question shows a test or a reference.

Questions that show the same code begin alike, so that it is evaluated once for all of them. The first request
of each family is evaluated afresh, so that earlier work changes no number; of those that go on from it, the
work of other programs may change the last digits.
"""

from __future__ import annotations

import enum
import math
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from operator import itemgetter
from pathlib import Path

import attrs

from lsp_calib.characters import same_line
from lsp_calib.completion.prompt import PLAIN_VERSION, Layout, build_prompt
from lsp_calib.confidence.features import SUMMARY_VERSION
from lsp_calib.corpus.asking import AskingOptions
from lsp_calib.corpus.functions import SummaryItem, summary_item_of
from lsp_calib.corpus.item_worker import (
    OBSERVED,
    Answer,
    Answerer,
    Asking,
    EngineHost,
    Summarising,
    cost_of,
    record_of,
    sentence_of,
)
from lsp_calib.corpus.places import Judge, Plain, Task, exactly, line_item_of
from lsp_calib.corpus.records import ObservationList, Record
from lsp_calib.errors import SettingsError
from lsp_calib.inference.choice import EngineChoice
from lsp_calib.inference.engine import Engine, LoadedModel, Priority, Request, Sampling
from lsp_calib.inference.models.cards import ChatFormat
from lsp_calib.studies.augmentation import facts_of
from lsp_calib.studies.measures import (
    SCALE,
    contained_true_false,
    majority_vote,
    parse_probability,
    stated,
    true_token,
)
from lsp_calib.studies.thresholds import Ratings, read_ratings
from lsp_calib.summarization.features import plain_words
from lsp_calib.summarization.prompt import build_prompt as summary_prompt
from lsp_calib.summarization.prompt import fenced
from lsp_calib.values import Generation, Observation, Prompt, Segment

MOST_TOKENS = 500
"""Of an answer in code, as Spiess et al. 2024 have it (3.3)."""

VERSION = 2
"""Changes whenever one of the prompts below does."""


class Reflected(enum.StrEnum):
    """What a model can be asked of its answer; models/records/README.md has the cost of each."""

    ASK = "ask"
    VERBALISED = "verbalised"
    SCALE = "scale"


_VOTES = tuple(f"{form}-{name}" for form in ("reasoned", "shots") for name in ("vote", "mean", "invalid"))
_NUMBERS: Mapping[Reflected, tuple[str, ...]] = {
    Reflected.ASK: ("true", "false", "contained-true", "contained-false", "true-token"),
    Reflected.VERBALISED: ("confidence", "answers", "fell-back"),
    Reflected.SCALE: (*_VOTES, *map(str, SCALE)),
}
"""The numbers of each, in the order of records.

Probabilities are natural logarithms: small ones would be lost in the units of records. reasoned-...: the
votes of samples that begin with a sentence of reasoning; shots-...: the same behind four examples of Haque et
al. 2022. 1 to 4: of the rating as the whole answer.
"""

REFLECTED = ObservationList(
    SUMMARY_VERSION, tuple((one.value, _NUMBERS[one]) for one in (Reflected.ASK, Reflected.VERBALISED))
)
"""What is observed of answers in code."""

LISTED = attrs.evolve(
    OBSERVED, names=(*OBSERVED.names, *((one.value, names) for one, names in _NUMBERS.items()))
)
"""What is observed of summaries."""

# Of samples, as in Spiess et al. 2024; Virk et al. 2024 say neither it nor their number.
_TEMPERATURE = 1.0
# Spiess et al. 2024: a first answer and three more at most.
_STATED_TRIES, _STATED_TOKENS = 4, 12
_VOTERS, _VOTE_TOKENS = 5, 64

_RIGHT = {
    "function": "this function is correct and does what its docstring says",
    "repair": "the last line of this code fixes the bug of the buggy line",
    "line": "the last line of this code is the right one there",
}
_IS_TRUE = "Is it true that {}? Answer with one word: True or False."
_HOW_LIKELY = "How likely is it that {}? Answer with a probability in per cent, and nothing else."
_WRITER = "The developer of this function writes summaries of at most one line."
_IS_SUMMARY_TRUE = (
    "Is this summary correct, and does it say what the developer would have written? "
    "Answer with one word: True or False."
)
_HOW_LIKELY_IS_SUMMARY = (
    "How likely is it that this summary is correct and says what the developer would have written? "
    "Answer with a probability in per cent, and nothing else."
)
_RATE = (
    "Does this summary say the same as the developer's own would? Rate it: 1 for strongly disagree, "
    "2 for disagree, 3 for agree, 4 for strongly agree."
)
_ALONE = f"{_RATE} Answer with the number alone."
_REASONED = f'{_RATE} First give your reason in one sentence, then write "Rating:" and the number.'
# What the reasons of the examples say, by rating. The ratings' file holds no reasons.
_BECAUSE = {
    1: "which says something else",
    2: "which has little in common with the summary",
    3: "which says nearly the same",
    4: "which says the same",
}
_RATED = re.compile(r"\brating\W{0,6}(\d[^\n]*)", re.IGNORECASE)


@attrs.frozen
class Shot:
    """A rated pair: texts of a model and of the developer, and how similar people found them, 1 to 4."""

    summary: str
    reference: str
    rating: int


def shots_of(ratings: Ratings) -> tuple[Shot, ...]:
    """Four examples from the ratings of Haque et al. 2022, one for each rounded mean of a pair's ratings.

    The authors of Virk et al. 2024 take the pair with the most adequate reference. The published file has no
    ratings of adequacy: here it is the pair that people agree on most, of several the one with the longest
    reference. Pairs with unknown words and pairs of equal texts are left out.
    """
    found = []
    for summary, reference, given in zip(ratings.generated, ratings.reference, ratings.ratings, strict=True):
        if "<unk>" not in f"{summary}{reference}".casefold() and summary != reference:
            shot = Shot(summary, reference, math.floor(given.mean() + 0.5))
            found.append((float(given.var()), -len(reference.split()), shot))
    of_each = [[one for one in found if one[2].rating == rating] for rating in SCALE]
    return tuple(min(those, key=itemgetter(0, 1))[2] for those in of_each)


def _question(text: str, chat: ChatFormat, shots: Sequence[tuple[str, str]] = ()) -> Prompt:
    """Asks a question, behind others with their answers."""
    version = f"reflection-{VERSION}"
    if not chat.user_open:
        answered = "".join(f"{asked}\n\nAnswer: {answer}\n\n\n" for asked, answer in shots)
        return Prompt(((Segment.TEXT, f"{answered}{text}\n\nAnswer:"),), forced="", version=version)
    segments: list[tuple[Segment, str]] = []
    for asked, answer in (*shots, (text, "")):
        segments += [
            (Segment.CONTROL, chat.user_open),
            (Segment.TEXT, asked),
            (Segment.CONTROL, chat.user_close + chat.assistant_open),
            (Segment.TEXT, answer),
            (Segment.CONTROL, chat.answer_close),
        ]
    # The last one has no answer yet.
    return Prompt(tuple(segments[:-2]), forced="", version=version)


def about_summary(
    item: SummaryItem, loaded: LoadedModel, summary: str, question: str, shots: Sequence[Shot] = ()
) -> Prompt:
    """Asks about a summary; the function is shown without its examples.

    shots: rated pairs to show first. Their code is not shown: the ratings' file does not hold it.
    """

    def asked(about: str) -> str:
        return f"{_WRITER}\n\nSummary: {about}\n\n{question}"

    card = loaded.card
    shown = fenced(item.language, item.function.code[: card.window])
    examples = [
        (
            asked(shot.summary),
            f'The developer wrote "{shot.reference}", {_BECAUSE[shot.rating]}. Rating: {shot.rating}',
        )
        for shot in shots
    ]
    return _question(f"{shown}\n\n{asked(summary)}", card.chat, examples)


Values = Mapping[str, float | None]
Questions = Mapping[Reflected, Callable[["Asker"], Awaitable[Values]]]


class Asker:
    """Asks an engine about an answer, and counts tokens: `cost` is as in `Record.costs`.

    Its methods tell what an answer says, by the name of the numbers.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._fresh = True
        self.cost = 0, 0, 0

    async def _ask(
        self, prompt: Prompt, tokens: int, *, seed: int | None = None, words: tuple[str, ...] = ()
    ) -> Generation:
        """seed: of a sample; None: the likeliest answer. words: as in `Request`."""
        request = Request(
            prompt,
            tokens,
            Priority.BACKGROUND,
            one_line=False,
            sampling=None if seed is None else Sampling(_TEMPERATURE, seed),
            reuse=not self._fresh,
            words=words,
        )
        self._fresh = False
        generation = await self._engine.generate(request)
        evaluated, reused, generated = cost_of(generation)
        self.cost = self.cost[0] + evaluated, self.cost[1] + reused, self.cost[2] + generated
        return generation

    async def true_false(self, prompt: Prompt) -> Values:
        """How likely each answer to a prompt that asks for true or false is."""
        seen = _seen(await self._ask(prompt, 2, words=("true", "false")))
        if not seen:
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

    async def stated(self, prompt: Prompt) -> Values:
        """The probability that an answer to the prompt states."""
        answers: list[str] = []
        for seed in range(_STATED_TRIES):
            answers.append((await self._ask(prompt, _STATED_TOKENS, seed=seed)).text)
            if parse_probability(answers[-1]) is not None:
                break
        found = stated(answers)
        return {
            "confidence": found.confidence,
            "answers": float(found.answers),
            "fell-back": float(found.fell_back),
        }

    async def rated(self, about: Callable[..., Prompt], shots: Sequence[Shot]) -> Values:
        """The ratings of a summary. about: `about_summary` of a summary."""
        ratings = tuple(map(str, SCALE))
        seen = _seen(await self._ask(about(_ALONE), 1, words=ratings))
        values: dict[str, float | None] = dict(zip(ratings, seen[0].words, strict=True)) if seen else {}
        for form, shown in (("reasoned", ()), ("shots", shots)):
            # Behind the examples all is evaluated afresh.
            self._fresh = bool(shown)
            answers = []
            for seed in range(_VOTERS):
                text = (await self._ask(about(_REASONED, shown), _VOTE_TOKENS, seed=seed)).text
                # Behind its first rating a model may go on with questions of its own.
                found = _RATED.search(text)
                answers.append(found[1] if found else text)
            vote = majority_vote(answers)
            values |= {
                f"{form}-vote": vote.confidence,
                f"{form}-mean": vote.mean_confidence,
                f"{form}-invalid": vote.invalid / _VOTERS,
            }
        return values


def _seen(generation: Generation) -> list[Observation]:
    """What was seen at each token that could be one of the words asked for."""
    tokens = () if generation.doubt else generation.tokens
    return [token.seen for token in tokens if token.seen is not None and token.seen.words]


def _log(probability: float | None) -> float | None:
    return math.log(probability) if probability else None


async def _reflected(
    answer: Answer, name: str, engine: Engine, observe: frozenset[Reflected], questions: Questions
) -> Answer:
    """The answer with what the model says of it. name: of the answer's own cost."""
    observed: dict[str, tuple[float | None, ...]] = {}
    costs, asker = {name: cost_of(answer.generation)}, Asker(engine)
    for one in filter(observe.__contains__, questions):
        found = await questions[one](asker)
        observed[one.value] = tuple(found.get(number) for number in _NUMBERS[one])
        costs[one.value], asker.cost = asker.cost, (0, 0, 0)
    return attrs.evolve(answer, observed=observed, costs=costs)


def _check_observes(loaded: LoadedModel, observe: frozenset[Reflected]) -> None:
    """Raises SettingsError for an engine that cannot observe what a model says."""
    if observe and not loaded.engine.startswith("llama-cpp-python"):
        raise SettingsError(
            f"The engine {loaded.engine} cannot observe {', '.join(sorted(observe))}: leave these out of "
            "--observe, or use a local model with the engine `local`."
        )


@attrs.frozen
class Studying(Asking):
    """Asks for code of the studies' tasks. criteria: as `judge` names them. observe: what the model is asked
    of its answers."""

    most_tokens = MOST_TOKENS
    criteria: tuple[str, ...] = ("exact",)
    judge: Judge = exactly
    observe: frozenset[Reflected] = frozenset()

    def answerer(self) -> Answerer:
        loaded = self.host().loaded()
        _check_observes(loaded, self.observe)
        listed = REFLECTED if self.observe else None
        return Answerer(loaded.identity, PLAIN_VERSION, observations=listed)

    async def prompt(self, host: EngineHost, payload: Plain) -> Prompt:
        return build_prompt(line_item_of(payload).cursor, Layout.plain((await host.engine.ready()).card))

    def request(self, prompt: Prompt, payload: Plain) -> Request:
        indentation = payload["function"]["indentation"] if "function" in payload else None
        request = super().request(prompt, payload)
        return attrs.evolve(request, one_line=indentation is None, function=indentation)

    async def ask(self, host: EngineHost, payload: Plain) -> Answer:
        answer, card = await super().ask(host, payload), (await host.engine.ready()).card
        prompt, text = answer.prompt, answer.generation.text.rstrip()
        if not self.observe or not text:
            return answer
        kind = "function" if "function" in payload else "repair" if "buggy" in payload else "line"
        code = "".join(shown for _, shown in prompt.segments) + prompt.forced + text
        shown = fenced(payload["language"], code)

        def about(words: str) -> Prompt:
            return _question(f"{shown}\n\n{words.format(_RIGHT[kind])}", card.chat)

        questions: Questions = {
            Reflected.ASK: lambda asker: asker.true_false(about(_IS_TRUE)),
            Reflected.VERBALISED: lambda asker: asker.stated(about(_HOW_LIKELY)),
        }
        return await _reflected(answer, "answer", host.engine, self.observe, questions)

    def record(self, payload: Plain, answer: Answer) -> Record:
        item, text = line_item_of(payload), answer.generation.text
        return record_of(
            answer,
            item=item.id,
            group=item.group,
            stratum=item.stratum,
            correct={name: self.judge(name, item, payload, text) for name in self.criteria},
            # The studies count what never ended, too.
            shown=bool(text.strip()),
            condition=item.condition,
            characters=len(text.rstrip()),
            reference_characters=len(item.target.rstrip()),
            repeats_bug=same_line(text, payload["buggy"]) if "buggy" in payload else None,
        )


def studying(task: Task, choice: EngineChoice, asking: AskingOptions) -> Studying:
    """What asks for the items of a task in code."""
    observe = frozenset(map(Reflected, asking.observe))
    return Studying(choice, criteria=task.criteria, judge=task.judge, observe=observe)


@attrs.frozen
class Reflecting(Summarising):
    """Asks for summaries, and about them.

    augment: show facts about the code beside it, see `augmentation`. shots: for the ratings.
    """

    observe: frozenset[Reflected] = frozenset()
    augment: bool = False
    shots: tuple[Shot, ...] = ()

    def answerer(self) -> Answerer:
        found = super().answerer()
        _check_observes(self.host().loaded(), self.observe)
        return found

    def observations(self) -> ObservationList:
        return LISTED

    def shown(self, item: SummaryItem, loaded: LoadedModel) -> Prompt:
        if not self.augment:
            return super().shown(item, loaded)
        card = loaded.card
        code = item.function.code[: card.window]
        facts = facts_of(code, item.examples, item.language, repository=item.group, path=item.path)
        shown = item.function, item.language, card.chat, card.window, item.examples
        return summary_prompt(*shown, facts=facts)

    async def ask(self, host: EngineHost, payload: Plain) -> Answer:
        answer = await super().ask(host, payload)
        item, summary = summary_item_of(payload), sentence_of(answer.generation)
        if not plain_words(summary):
            return answer
        loaded = await host.engine.ready()
        about = partial(about_summary, item, loaded, summary)
        questions: Questions = {
            Reflected.ASK: lambda asker: asker.true_false(about(_IS_SUMMARY_TRUE)),
            Reflected.VERBALISED: lambda asker: asker.stated(about(_HOW_LIKELY_IS_SUMMARY)),
            Reflected.SCALE: lambda asker: asker.rated(about, self.shots),
        }
        return await _reflected(answer, "summary", host.engine, self.observe, questions)


def summarising(
    _: Task,
    choice: EngineChoice,
    asking: AskingOptions,
    *,
    augment: bool = False,
    folder: Path | None = None,
) -> Reflecting:
    """What asks for summaries. folder: the evaluation data; None: LSP_CALIB_DATA.

    Raises DataError if the scale is asked for and its examples are missing.
    """
    observe = frozenset(map(Reflected, asking.observe))
    shots = shots_of(read_ratings(folder)) if Reflected.SCALE in observe else ()
    return Reflecting(choice, observe=observe, augment=augment, shots=shots)
