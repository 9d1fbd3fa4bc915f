"""What prompt lookup would gain: drafts copied from the context, verified in one batch.

    python tests/programs/prompt_lookup.py [--model smollm2-135m] [--projects FOLDER]

A draft is what followed the last tokens when they last stood in the context (the prompt and the answer so
far). The model evaluates it in one batch with the token before it; as much of it counts as greedy decoding
chooses anyway. So it saves forward passes, but each that has a draft costs more. This program counts the
passes on greedy answers: those of the committed records (`--projects`: the sources they were drawn from) and
those at places of the recorded typing. And it measures what a batch costs beside a single token, one after
the other in the same second: a ratio that other work on the machine hardly changes. Nothing here needs an
engine that drafts. docs/engine.md quotes the result.

A. Saxena, Prompt Lookup Decoding (2023), https://github.com/apoorvumang/prompt-lookup-decoding
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import attrs

from lsp_calib import home
from lsp_calib.completion.context import Cursor
from lsp_calib.completion.prompt import Layout, build_prompt
from lsp_calib.completion.service import MOST_TOKENS
from lsp_calib.evaluation.recomputed import item_of
from lsp_calib.evaluation.records import read_records
from lsp_calib.inference.backend import LoadOptions
from lsp_calib.inference.engine import Priority, Request
from lsp_calib.inference.local.llama import LlamaModel
from lsp_calib.inference.models.cards import ModelCard, locate
from lsp_calib.tools.bench.trace import load_trace
from lsp_calib.values import Generation

# Tokens that have to be the same before a draft, the most first.
LENGTHS = (3, 2)
DRAFTS = (1, 2, 4, 8)
_CONTEXT = 2048
# Tokens in the cache while the cost of a batch is measured: about as many as a prompt has.
_FILLED = 448


@attrs.frozen
class Answer:
    """A greedy answer. prompt, tokens: ids; `tokens` begin with the first that adds text."""

    prompt: Sequence[int]
    tokens: Sequence[int]


@attrs.define
class Count:
    """Forward passes by the number of tokens in them, and what became of the drafts (in tokens).

    The first token of an answer comes with its prompt and is no pass of its own.
    """

    passes: Counter[int] = attrs.Factory(Counter)
    drafted: int = 0
    accepted: int = 0
    tokens: int = 0

    @property
    def saved(self) -> float:
        """The share of passes that drafts save."""
        return 1 - self.passes.total() / self.tokens if self.tokens else 0.0

    def speed(self, cost: Mapping[int, float]) -> float:
        """Generated tokens a second over those without drafts. cost: of a batch by its size, in passes of one
        token."""
        return self.tokens / sum(cost[size] * times for size, times in self.passes.items())


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Count and time what prompt lookup would gain.")
    parser.add_argument("--model", default="smollm2-135m", help="name of a card")
    parser.add_argument("--projects", type=Path, help="folder with the sources of the records")
    parser.add_argument("--trace", type=int, default=100, help="places of the recorded typing to complete")
    parser.add_argument("--rounds", type=int, default=10, help="how often each batch is timed")
    parser.add_argument("--threads", type=int, default=0, help="0 chooses by measuring")
    given = parser.parse_args(arguments)
    card, file = locate(given.model)
    model = LlamaModel(LoadOptions(file, _CONTEXT, threads=given.threads))
    sources = {}
    if given.projects:
        sources["records"] = list(recorded(model, card, given.projects))
    if given.trace:
        sources["typing"] = list(typed(model, card, given.trace))
    cost = batch_costs(model, given.rounds)
    model.close()
    print("tokens in a batch  " + "".join(f"{size:>6}" for size in cost))
    print("cost, in passes    " + "".join(f"{ratio:>6.2f}" for ratio in cost.values()))
    for name, answers in sources.items():
        print(f"\n{name}: {len(answers)} answers, {sum(len(each.tokens) for each in answers)} tokens")
        print(f"{'draft':>7}{'passes saved':>14}{'accepted':>10}{'speed':>7}{'if batches were free':>22}")
        for most in DRAFTS:
            count = counted(answers, most)
            accepted = count.accepted / max(count.drafted, 1)
            free = count.speed(dict.fromkeys(cost, 1.0))
            print(f"{most:>7}{count.saved:>14.0%}{accepted:>10.0%}{count.speed(cost):>7.2f}{free:>22.2f}")


def draft(context: Sequence[int], most: int, lengths: Sequence[int] = LENGTHS) -> Sequence[int]:
    """At most `most` tokens that followed the last tokens of `context` when they stood there last.

    lengths: of the last tokens that have to be the same, in the order of preference.
    """
    tokens = list(context)
    for length in lengths:
        last = tokens[-length:]
        for start in range(len(tokens) - length - 1, -1, -1):
            if tokens[start : start + length] == last:
                return tokens[start + length : start + length + most]
    return []


def counted(answers: Sequence[Answer], most: int) -> Count:
    """The passes that the answers take with drafts of at most `most` tokens."""
    count = Count()
    for answer in answers:
        at = 1
        while at < len(answer.tokens):
            proposed = draft([*answer.prompt, *answer.tokens[:at]], most)
            same = 0
            for one, other in zip(proposed, answer.tokens[at:], strict=False):
                if one != other:
                    break
                same += 1
            count.passes[1 + len(proposed)] += 1
            count.drafted += len(proposed)
            count.accepted += same
            # Beside those accepted a pass gives one token of its own, unless the answer has ended.
            new = min(same + 1, len(answer.tokens) - at)
            count.tokens += new
            at += new
    return count


def recorded(model: LlamaModel, card: ModelCard, projects: Path) -> Iterator[Answer]:
    """The answers of the committed records, with their prompts."""
    _, records = read_records(home.shipped_models() / "records" / f"line-{card.name}.jsonl")
    for record in records:
        if record.tokens:
            prompt = build_prompt(item_of(record, projects).cursor, Layout.of(card))
            yield Answer(model._tokenize_prompt(prompt, _CONTEXT), record.tokens)


def typed(model: LlamaModel, card: ModelCard, count: int) -> Iterator[Answer]:
    """Answers at places of the recorded typing, spread over its edits."""
    edits = load_trace()
    for edit in edits:
        each = -(-count // len(edits))
        lines = list(edit.before)
        every = max(len(edit.steps) // each, 1)
        for at, step in enumerate(edit.steps):
            line, column = step.apply(lines)
            if at % every == 0 and at // every < each:
                prompt = build_prompt(Cursor(lines, line, column, "python"), Layout.of(card))
                run = model.begin(Request(prompt, MOST_TOKENS), on_tokens=lambda _: None)
                generation = run.advance()
                assert isinstance(generation, Generation)
                given = [*model._tokenize_prompt(prompt, _CONTEXT), *generation.healing]
                yield Answer(given, [token.id for token in generation.tokens])


def batch_costs(model: LlamaModel, rounds: int) -> dict[int, float]:
    """Time of a batch with the logits of all its tokens, by its size, over that of a single token.

    Medians of ratios of neighbours in time, each of the shorter of two.
    """
    decoder = model._decoder
    tokens = list(range(1000, 1000 + _FILLED))
    sequence = decoder.sequence(Priority.INTERACTIVE, tokens)
    model._machine.evaluate(sequence, tokens, 1, None)

    def seconds(size: int) -> float:
        decoder.reuse(sequence, tokens, _FILLED, _FILLED)
        start = time.perf_counter()
        decoder.decode(sequence, tokens[:size], size)
        return time.perf_counter() - start

    ratios: dict[int, list[float]] = {size: [] for size in range(2, max(DRAFTS) + 2)}
    for _ in range(rounds):
        for size, found in ratios.items():
            # A single token comes after a single token, a batch too.
            times = [(seconds(1), seconds(1), seconds(size)) for _ in range(2)]
            found.append(min(batch for *_, batch in times) / min(one for _, one, _ in times))
    return {1: 1.0} | {size: statistics.median(found) for size, found in ratios.items()}


if __name__ == "__main__":
    main()
