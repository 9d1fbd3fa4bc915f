"""Whether a place gives the same answer however it is evaluated, with the real model.

    python tests/programs/same_answer.py [--model NAME] [--places 60]

The places lie in this package's own source, behind 300 to 600 tokens of it. Each is evaluated afresh, with
two threads and in steps of 64 tokens. Then it is evaluated as happens in service: with other threads and
steps, interrupted by keys and by other requests, grown by typing, behind an answer that was accepted, and
beside a process that wants a processor. Told for each way: at how many places the tokens differ, and how far
the sums of their log-probabilities lie apart. The exit code is 1 if anything differs in the last bit.
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from random import Random
from statistics import median
from typing import Any

import attrs

import lsp_calib
from lsp_calib.inference.backend import Interrupted, LoadOptions
from lsp_calib.inference.engine import Request
from lsp_calib.inference.local.llama import LlamaModel
from lsp_calib.inference.local.steps import StepSize
from lsp_calib.inference.models.cards import locate
from lsp_calib.values import Generation, Prompt, Segment, Token

_MOST = 24
_CONTEXT = 2048
# Characters above a place, which are 300 to 600 tokens.
_ABOVE = (1000, 2000)
# Of one answer and what is asked between.
_INTERRUPTIONS = 16
# What is left to type when the model is asked on the way to a place.
_TYPED = (60, 25, 12, 6, 4, 2, 1)


def places(count: int) -> list[str]:
    """Texts that end inside a line, from the package's longest modules."""
    random = Random(49)
    files = sorted(Path(lsp_calib.__file__).parent.rglob("*.py"), key=lambda path: -path.stat().st_size)
    found = []
    for path in files[:count]:
        text = path.read_text("utf-8")
        above = random.randrange(*_ABOVE)
        line = text.index("\n", above)
        indentation = len(text[line + 1 :]) - len(text[line + 1 :].lstrip())
        found.append(text[line - above : line + 1 + indentation + random.randrange(3, 9)])
    return found


@attrs.frozen
class Difference:
    """Of a way from the fresh evaluation. totals: absolute differences in nats where the tokens are equal."""

    name: str
    places: int
    other_tokens: int
    other_bits: int
    totals: list[float]

    def __str__(self) -> str:
        apart = f"median {median(self.totals):.4f}, largest {max(self.totals):.4f}" if self.totals else "-"
        return (
            f"{self.name}: other tokens at {self.other_tokens} of {self.places}, "
            f"other bits at {self.other_bits}, totals apart by {apart}"
        )


def asked(text: str, *, reuse: bool = True) -> Request:
    return Request(Prompt(((Segment.TEXT, text),), "", "same answer"), _MOST, reuse=reuse)


def answer(model: LlamaModel, text: str, *, reuse: bool = True, between: Sequence[str] = ()) -> Generation:
    """between: texts that are asked before it goes on, one after each interruption."""
    run = model.begin(asked(text, reuse=reuse))
    others = iter(between)
    while True:
        try:
            generation = run.advance()
        except Interrupted:
            model.resume()
            if other := next(others, None):
                answer(model, other)
        else:
            assert isinstance(generation, Generation)
            return generation


def _grown(model: LlamaModel, text: str) -> Generation:
    for left in _TYPED:
        answer(model, text[:-left])
    return answer(model, text)


def _accepted(model: LlamaModel, text: str) -> Generation:
    return answer(model, text + answer(model, text).text + "\n")


def _interrupted(model: LlamaModel, text: str) -> Generation:
    over, random = threading.Event(), Random(len(text))

    def interrupt() -> None:
        for _ in range(_INTERRUPTIONS):
            if over.wait(random.choice((0.002, 0.02, 0.2))):
                return
            model.interrupt()

    thread = threading.Thread(target=interrupt)
    thread.start()
    try:
        return answer(model, text, between=(text[:-9], text[:500], text + "x = ", text[:-1]))
    finally:
        over.set()
        thread.join()
        model.resume()


def _spin() -> None:
    while True:
        pass


@contextmanager
def _beside(busy: bool) -> Iterator[None]:
    process = multiprocessing.get_context("spawn").Process(target=_spin, daemon=True)
    if busy:
        process.start()
    try:
        yield
    finally:
        if busy:
            process.kill()
            process.join()


@attrs.frozen
class Way:
    """How places are evaluated. threads: 0 chooses. step: tokens at once, 0 as in service."""

    name: str
    threads: int = 2
    step: int = 0
    ask: Callable[[LlamaModel, str], Generation] = answer
    busy: bool = False

    def answers(self, path: Path, texts: Sequence[str]) -> list[tuple[Token, ...]]:
        with closing(loaded(path, self.threads)) as model, _beside(self.busy):
            if self.step:
                model._decoder.steps = StepSize(self.step)
            return [self.ask(model, text).tokens for text in texts]


WAYS = (
    Way("one thread", threads=1),
    Way("steps of 4", step=4),
    Way("steps of 16", step=16),
    Way("steps of 64", step=64),
    Way("interrupted", ask=_interrupted),
    Way("grown by typing", ask=_grown),
    Way("behind an accepted answer", ask=_accepted),
    Way("beside a busy process", threads=0, busy=True),
)


def loaded(path: Path, threads: int) -> LlamaModel:
    return LlamaModel(LoadOptions(path, _CONTEXT, threads=threads))


def fresh(path: Path, texts: Sequence[str]) -> dict[bool, list[tuple[Token, ...]]]:
    """The answers evaluated afresh; for True, those behind the answer, accepted, and a new line."""
    with closing(loaded(path, 2)) as model:
        first = [answer(model, text, reuse=False) for text in texts]
        behind = [
            answer(model, text + generation.text + "\n", reuse=False)
            for text, generation in zip(texts, first, strict=True)
        ]
    return {False: [one.tokens for one in first], True: [one.tokens for one in behind]}


def difference(way: Way, path: Path, texts: Sequence[str], expected: dict[bool, list[Any]]) -> Difference:
    """How the answers of a way differ from those evaluated `fresh`."""
    pairs = list(zip(expected[way.ask is _accepted], way.answers(path, texts), strict=True))
    same = [([t.id for t in one] == [t.id for t in other]) for one, other in pairs]
    return Difference(
        way.name,
        len(pairs),
        same.count(False),
        sum(one != other for one, other in pairs),
        [
            abs(sum(t.logprob for t in one) - sum(t.logprob for t in other))
            for (one, other), equal in zip(pairs, same, strict=True)
            if equal
        ],
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--model", default="smollm2-135m")
    parser.add_argument("--places", type=int, default=60)
    options = parser.parse_args()
    path, texts = locate(options.model)[1], places(options.places)
    expected = fresh(path, texts)
    differing = 0
    for way in WAYS:
        found = difference(way, path, texts, expected)
        differing += found.other_bits
        print(found, flush=True)
    return int(differing > 0)


if __name__ == "__main__":
    sys.exit(main())
