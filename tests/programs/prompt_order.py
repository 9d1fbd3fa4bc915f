"""Prompt tokens that recorded typing evaluates, by the order of the prompt and by what the editor closes.

    python tests/programs/prompt_order.py [--model qwen2.5-coder-1.5b] [--window large]

The recorded typing is replayed as an editor would send it that closes brackets and quotes as they are opened
(`--open`: as one that does not). Each step is one request. Counted are the tokens that a request does not
find in the cache, which chooses its sequences as the model process does. No model decodes anything: only the
vocabulary is read.
"""

from __future__ import annotations

import argparse
import itertools
import os
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path

import attrs
import llama_cpp
import numpy as np

from lsp_calib.completion.context import Cursor
from lsp_calib.completion.prompt import Layout, WindowSize, build_prompt
from lsp_calib.inference.generation.kv_cache import CachedSequence, choose, common_prefix
from lsp_calib.inference.models.cards import locate
from lsp_calib.inference.models.memory import count_sequences
from lsp_calib.tools.bench.trace import Edit, Kind, Step, load_trace
from lsp_calib.values import Prompt, Segment

_CLOSERS = {"(": ")", "[": "]", "{": "}", '"': '"', "'": "'"}
# What may stand behind an opener for an editor to close it.
_MAY_FOLLOW = frozenset(" \t)]},;:.")


@attrs.frozen
class Request:
    """A cursor at which a completion is requested, and the kind of step before it."""

    kind: str
    cursor: Cursor


def closing(edit: Edit) -> list[tuple[Step, str]]:
    """The steps in an editor that closes brackets and quotes as they are opened, each with what that adds
    behind the cursor.

    A closer that is typed goes over the editor's, and a backspace in an empty pair takes both. What is left
    over is deleted, in a step of its own, before the cursor moves elsewhere and at the end.
    """
    lines, steps = list(edit.before), list[tuple[Step, str]]()
    pending = ""  # behind the cursor, the innermost closer first

    def make(step: Step, added: str = "") -> None:
        attrs.evolve(step, text=step.text + added).apply(lines)
        steps.append((step, added))

    def tidy() -> None:
        line, column = steps[-1][0].cursor
        end = line, column + len(pending)
        make(Step(Kind.DELETE, (line, column), end, "", 0, jump=False))

    for step in edit.steps:
        typed_at = step.end if step.kind is Kind.BACKSPACE else step.start if step.start == step.end else None
        if pending and (step.jump or steps[-1][0].cursor != typed_at):
            tidy()
            pending = ""
        line, column = step.start
        before, after = lines[line][:column], lines[step.end[0]][step.end[1] :]
        added = ""
        if step.kind is Kind.TYPE and pending and step.text == pending[0]:
            step = attrs.evolve(step, end=(line, column + 1))
            pending = pending[1:]
        elif step.kind is Kind.TYPE and step.text in _CLOSERS and after[:1] in ("", *_MAY_FOLLOW):
            if step.text not in "\"'" or not before[-1:].isalnum():
                added = _CLOSERS[step.text]
                pending = added + pending
        elif step.kind is Kind.BACKSPACE and pending:
            gone = lines[line][column : step.end[1]] if step.end[0] == line else ""
            if _CLOSERS.get(gone) == pending[0]:
                step = attrs.evolve(step, end=(line, step.end[1] + 1))
                pending = pending[1:]
        make(step, added)
    if pending:
        tidy()
    return steps


def requests(before: Sequence[str], steps: Sequence[tuple[Step, str]]) -> Iterator[Request]:
    """One for each step of an edit that begins with these lines."""
    lines = list(before)
    for at, (step, behind) in enumerate(steps):
        attrs.evolve(step, text=step.text + behind).apply(lines)
        line, column = step.cursor
        kind = "first" if not at else "jump" if step.jump else str(step.kind)
        yield Request(kind, Cursor(tuple(lines), line, column, "python"))


class Tokens:
    """The tokens of prompts, by a model's vocabulary."""

    def __init__(self, path: Path) -> None:
        params = llama_cpp.llama_model_default_params()
        params.vocab_only = True
        llama_cpp.llama_log_set(_QUIET, None)
        self._model = llama_cpp.llama_model_load_from_file(os.fsencode(path), params)
        self._vocab = llama_cpp.llama_model_get_vocab(self._model)
        self._known: dict[tuple[str, bool], tuple[int, ...]] = {}

    def __call__(self, prompt: Prompt) -> list[int]:
        return [token for kind, text in prompt.segments for token in self._of(text, kind is Segment.CONTROL)]

    def _of(self, text: str, control: bool) -> tuple[int, ...]:
        if (text, control) not in self._known:
            data = text.encode()
            room = (llama_cpp.llama_token * (len(data) + 1))()
            count = llama_cpp.llama_tokenize(
                self._vocab, data, len(data), room, len(data) + 1, False, control
            )
            self._known[text, control] = tuple(room[:count])
        return self._known[text, control]


@llama_cpp.llama_log_callback  # type: ignore[untyped-decorator]
def _QUIET(_level: int, _text: bytes, _data: object) -> None:
    pass


def evaluated(
    found: Sequence[Request], layout: Layout, tokens: Tokens, sequences: int, *, shows_closers: bool
) -> Iterator[int]:
    """The tokens that each request evaluates. shows_closers: whether the model sees closers behind it."""
    cached = [CachedSequence(id_) for id_ in range(sequences)]
    uses = itertools.count(1)
    for request in found:
        cursor = request.cursor if shows_closers else request.cursor.without_closers_behind()
        prompt = tokens(build_prompt(cursor, layout))
        sequence = choose(cached, prompt, "document")
        kept = min(common_prefix(sequence.tokens, prompt), len(prompt) - 1)
        sequence.tokens, sequence.used, sequence.document = prompt, next(uses), "document"
        yield len(prompt) - kept


def main() -> None:
    parser = argparse.ArgumentParser(description="Count the prompt tokens that recorded typing evaluates.")
    parser.add_argument("--model", default="qwen2.5-coder-1.5b", help="name of a card")
    parser.add_argument("--window", type=WindowSize, default=WindowSize.SMALL)
    parser.add_argument("--open", action="store_true", help="the editor closes nothing by itself")
    parser.add_argument("--show", action="store_true", help="show the model the closers behind the cursor")
    given = parser.parse_args()
    card, path = locate(given.model)
    tokens = Tokens(path)
    sequences = count_sequences(card.context * card.kv_bytes) - 1
    edits = [
        list(requests(edit.before, [(step, "") for step in edit.steps] if given.open else closing(edit)))
        for edit in load_trace()
    ]
    rows: dict[str, dict[str, list[int]]] = {}
    for order in ("prefix-first", "suffix-first"):
        changed = attrs.evolve(card, completion=attrs.evolve(card.completion, order=order))
        layout = Layout.of(changed, given.window)
        rows[order] = defaultdict(list)
        for found in edits:
            counts = evaluated(found, layout, tokens, sequences, shows_closers=given.show)
            for request, count in zip(found, counts, strict=True):
                rows[order][request.kind].append(count)
                rows[order]["all"].append(count)
    print(f"{'':12}{'requests':>10}" + "".join(f"{order:>28}" for order in rows))
    print(f"{'':22}" + f"{'median':>10}{'p95':>8}{'total':>10}" * len(rows))
    for kind in rows["prefix-first"]:
        each = [np.array(rows[order][kind]) for order in rows]
        cells = [f"{np.median(one):10.0f}{np.quantile(one, 0.95):8.0f}{one.sum():10d}" for one in each]
        print(f"{kind:12}{len(each[0]):10d}" + "".join(cells))


if __name__ == "__main__":
    main()
