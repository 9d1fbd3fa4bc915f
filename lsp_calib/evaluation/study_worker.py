"""Asks a model as the studies do: the text above alone, greedily, up to the end of the line or function."""

from __future__ import annotations

import enum
from collections.abc import Mapping

import attrs

from lsp_calib.completion.prompt import PLAIN_VERSION, Layout, build_prompt
from lsp_calib.errors import SettingsError
from lsp_calib.evaluation.correctness import exact_match
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
from lsp_calib.evaluation.lines import LineItem
from lsp_calib.evaluation.records import Record
from lsp_calib.evaluation.runner import Plain
from lsp_calib.evaluation.summary_observation import (
    REFLECTED,
    Asker,
    cost_of,
    stated_probability,
    true_false,
)
from lsp_calib.evaluation.tasks import line_item_of
from lsp_calib.inference.engine import Observe, Priority, Request
from lsp_calib.summarization.reflection import about_code
from lsp_calib.values import Generation, Prompt

MOST_TOKENS = 500
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
class _Answer:
    prompt: Prompt
    generation: Generation
    observed: Mapping[str, tuple[float | None, ...]] = attrs.field(factory=dict)
    costs: Mapping[str, tuple[int, int, int]] = attrs.field(factory=dict)


@attrs.frozen
class Studying(Asking):
    """A `runner.Ask` for items of the studies' tasks.

    criteria: names of `criteria.CRITERIA`. observe: what the model is asked of its answers.
    """

    criteria: tuple[str, ...] = ("exact",)
    observe: frozenset[Reflected] = frozenset()

    def describe(self) -> Answerer:
        """The model that answers. Raises ModelError or EngineError if there is none, SettingsError for a
        remote one, which cannot stop where a function ends."""
        if self.choice.remote is not None:
            raise SettingsError(
                "The studies' tasks need a model on this machine: a server does not stop where a function "
                "ends. Leave --remote and `remote.url` out."
            )
        loaded = self._host().loaded()
        if self.observe and not loaded.engine.startswith("llama-cpp-python"):
            raise SettingsError(
                f"The engine {loaded.engine} cannot observe {', '.join(sorted(self.observe))}: leave out "
                "--observe, or use the engine `local`."
            )
        listed = REFLECTED if self.observe else None
        return Answerer(loaded.identity, PLAIN_VERSION, observations=listed)

    def __call__(self, payload: Plain) -> Plain:
        """Ask, apply the criteria, drop the text. Raises EngineError; DataError if another model answers."""
        item = line_item_of(payload)
        if self.expected is not None:
            self.describe().check(self.expected)
        answer = patiently(lambda: self._host().ask(item, payload, self.observe))
        generation, text = answer.generation, answer.generation.text
        tokens = generation.tokens if is_believable(generation) else ()
        record = Record(
            item=item.id,
            group=item.group,
            stratum=item.stratum,
            correct={name: is_correct(name, item, payload, text) for name in self.criteria},
            # The studies count what never ended, too.
            shown=bool(text.strip()),
            stop=generation.stop.value,
            tokens=tuple(token.id for token in generation.tokens),
            logprobs=tuple(token.logprob for token in tokens),
            typed_logprobs=tuple(token.typed_logprob for token in tokens),
            entropies=generation.entropies or () if tokens else (),
            prompt=prompt_hash(answer.prompt),
            doubt=bool(generation.tokens) and not tokens,
            condition=item.condition,
            observed=answer.observed,
            costs=answer.costs,
            characters=len(text.rstrip()),
            reference_characters=len(item.target.rstrip()),
            repeats_bug=exact_match("", text, payload["buggy"]) if "buggy" in payload else None,
        )
        return {"record": record.to_row(), "timing": timing_of(generation)}

    def _host(self) -> _Host:
        return host_for(_Host, (self.choice,), self.private, lambda: _Host(self.choice))


class _Host(EngineHost):
    """The engine, asked as the studies do."""

    def ask(self, item: LineItem, payload: Plain, observe: frozenset[Reflected]) -> _Answer:
        """The answer, evaluated afresh."""
        return self.wait(self._ask(item, payload, observe))

    async def _ask(self, item: LineItem, payload: Plain, observe: frozenset[Reflected]) -> _Answer:
        loaded = await self.engine.ready()
        indentation = payload["function"]["indentation"] if "function" in payload else None
        prompt = build_prompt(item.cursor, Layout.plain(loaded.card))
        request = Request(
            prompt,
            MOST_TOKENS,
            Priority.BACKGROUND,
            one_line=indentation is None,
            reuse=False,
            observe=Observe.ENTROPY,
            function=indentation,
        )
        generation = await self.engine.generate(request)
        if not observe or not generation.text.strip():
            return _Answer(prompt, generation)
        kind = "function" if "function" in payload else "repair" if "buggy" in payload else "line"
        above = "".join(text for _, text in prompt.segments) + prompt.forced
        code, asker = above + generation.text.rstrip(), Asker(self.engine, fresh=True)
        values, costs = {}, {"answer": cost_of(generation)}
        for one, names in REFLECTED.names:
            if one not in observe:
                continue
            words = (_TRUE_FALSE if one == Reflected.ASK else _PROBABILITY).format(_RIGHT[kind])
            question = about_code(code, item.cursor.language, loaded.card.chat, words)
            before, told = asker.cost, true_false if one == Reflected.ASK else stated_probability
            found = await told(asker, question)
            values[one] = tuple(found.get(name) for name in names)
            evaluated, reused, generated = (a - b for a, b in zip(asker.cost, before, strict=True))
            costs[one] = (evaluated, reused, generated)
        return _Answer(prompt, generation, values, costs)
