"""Asks a model for one line: in this process, in another one, or on another machine.

The server's own functions make the prompt and read the answer.
"""

from __future__ import annotations

import enum
import functools
import math
import operator
from collections.abc import Sequence
from typing import Self

import attrs

from lsp_calib.calibration.calibrators.calibrator_store import CalibratorStore
from lsp_calib.completion.alternatives import Agreement, agreement, alternatives, second_request
from lsp_calib.completion.context import Cursor
from lsp_calib.completion.features import text_features
from lsp_calib.completion.postprocess import offered
from lsp_calib.completion.prompt import Layout, LayoutChooser, WindowSize, build_prompt
from lsp_calib.completion.service import MOST_TOKENS
from lsp_calib.errors import SettingsError
from lsp_calib.evaluation.criteria import is_correct
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
from lsp_calib.evaluation.header import FeatureList
from lsp_calib.evaluation.lines import LineItem, surroundings_of, without_below
from lsp_calib.evaluation.records import Alternative, Record, project
from lsp_calib.evaluation.runner import Plain
from lsp_calib.evaluation.tasks import line_item_of
from lsp_calib.inference.choice import EngineChoice
from lsp_calib.inference.engine import Observe, Priority, Request
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
    """The answer to one item. second: None if there is none, or it was not asked for. others: its
    alternatives, the likeliest first."""

    prompt: Prompt
    generation: Generation
    second: Agreement | None = None
    others: tuple[Generation, ...] = ()


@attrs.frozen
class Completing(Asking):
    """A `runner.Ask` for places in source.

    criteria: names of `criteria.CRITERIA`. observe: what the records hold besides what every record holds.
    window: how much of a document the model sees; None: as much as when it serves an editor on this machine.
    """

    criteria: tuple[str, ...] = ("exact",)
    observe: frozenset[Observed] = frozenset()
    window: WindowSize | None = None

    def expecting(self, answerer: Answerer) -> Self:
        """Asks for the same prompts everywhere: the speeds of machines, and so their windows, differ."""
        return attrs.evolve(self, expected=answerer, window=answerer.window)

    def describe(self) -> Answerer:
        """The model that answers.

        Raises ModelError or EngineError if there is none, SettingsError if its engine cannot observe what is
        to be observed.
        """
        host = self._host()
        loaded = host.loaded()
        if self.observe and not loaded.engine.startswith("llama-cpp-python"):
            raise SettingsError(
                f"The engine {loaded.engine} cannot observe {', '.join(sorted(self.observe))}: leave out "
                "--observe, or use a local model with the engine `local`."
            )
        layout = host.layouts.of(loaded)
        size = WindowSize.SMALL if layout == Layout.of(loaded.card) else WindowSize.LARGE
        return Answerer(loaded.identity, layout.version, FeatureList.present(), size)

    def __call__(self, payload: Plain) -> Plain:
        """Ask, apply the criteria, drop the text. Raises EngineError; DataError if another model answers."""
        item = line_item_of(payload)
        host = self._host()
        if self.expected is not None:
            self.describe().check(self.expected)
        answer = patiently(lambda: host.ask(item, self.observe))
        generation = answer.generation
        text = offered(generation.text, item.cursor).text
        tokens = generation.tokens if is_believable(generation) else ()
        # As in the editor, an empty or runaway answer is not offered.
        shown = bool(text) and generation.stop is not Stop.LENGTH
        record = Record(
            item=item.id,
            group=item.group,
            stratum=item.stratum,
            correct={name: is_correct(name, item, payload, text) for name in self.criteria},
            shown=shown,
            stop=generation.stop.value,
            tokens=tuple(token.id for token in generation.tokens),
            logprobs=tuple(token.logprob for token in tokens),
            typed_logprobs=tuple(token.typed_logprob for token in tokens),
            entropies=generation.entropies or () if tokens else (),
            prompt=prompt_hash(answer.prompt),
            doubt=bool(generation.tokens) and not tokens,
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
        first, text = answer.generation, offered(other.text, item.cursor).text
        pairs = zip(first.tokens, other.tokens, strict=False)
        at = next((n for n, (one, two) in enumerate(pairs) if one.id != two.id), len(first.tokens))
        return Alternative(
            at=at,
            correct={name: is_correct(name, item, payload, text) for name in self.criteria},
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

    def _host(self) -> _Host:
        return _host_for(self.choice, self.private, self.window)


def _text_features(cursor: Cursor, text: str) -> tuple[float | None, ...]:
    return FeatureList.present().ordered(text_features(cursor, text))


class _Host(EngineHost):
    """The engine, and the layout of prompts for lines."""

    def __init__(self, choice: EngineChoice, window: WindowSize | None) -> None:
        super().__init__(choice)
        self.layouts = LayoutChooser(CalibratorStore.open().has_labels, lambda: window)

    def ask(self, item: LineItem, observed: frozenset[Observed]) -> _Answer:
        """The answer, evaluated afresh, so that earlier requests change no number."""
        return self.wait(self._ask(item, observed))

    async def _ask(self, item: LineItem, observed: frozenset[Observed]) -> _Answer:
        observe = functools.reduce(operator.or_, (_NEEDS[one] for one in observed), Observe.ENTROPY)
        cursor, layout = item.cursor, self.layouts.of(await self.engine.ready())
        prompt = build_prompt(cursor, layout, surroundings_of(item, layout))
        request = Request(prompt, MOST_TOKENS, Priority.BACKGROUND, reuse=False, observe=observe)
        first = await self.engine.generate(request)
        answer = _Answer(prompt, first)
        if first.doubt or first.stop is Stop.LENGTH:
            return answer
        # The first answer's request, so that the others go on in what it left in the cache.
        request = Request(prompt, MOST_TOKENS, Priority.BACKGROUND, reuse=False)
        if Observed.AGREEMENT in observed and (second := second_request(request, first)) is not None:
            agrees = agreement(first, await self.engine.generate(second))
            answer = attrs.evolve(answer, second=agrees)

        async def text_of(text: str) -> str:
            return offered(text, cursor).text

        if Observed.ALTERNATIVES in observed and await text_of(first.text):
            ways = alternatives(self.engine.generate, request, first, text_of, draws=False)
            others = [other async for other, _ in ways]
            others.sort(key=lambda other: -math.fsum(other.logprobs))
            answer = attrs.evolve(answer, others=tuple(others))
        return answer


def _host_for(choice: EngineChoice, private: str, window: WindowSize | None) -> _Host:
    return host_for(_Host, (choice, window), private, lambda: _Host(choice, window))
