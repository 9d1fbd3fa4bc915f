"""Whether token healing gives the completion that a clean prompt gives, with the real model.

    python tests/programs/healing.py SOURCE... [--model NAME] [--window large] [--count 300] [--misses]

SOURCE: a folder with Python files; the places, inside words and after indentation, are spread over them.
The clean prompt ends where a token of the real text begins: the one that holds the first character of the
word being typed, or of the indentation (some tokenisers put the newline before it into the same token). Where
the model goes on from there with the characters that were typed, the healed prompt has to be completed with
the rest. docs/engine.md quotes the shares.
"""

from __future__ import annotations

import argparse
import random
import re
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import attrs

from lsp_calib.completion.context import Cursor
from lsp_calib.completion.prompt import Layout, WindowSize, build_prompt
from lsp_calib.completion.service import MOST_TOKENS
from lsp_calib.evaluation.lines import LineItem, sample_lines
from lsp_calib.inference.backend import LoadOptions
from lsp_calib.inference.engine import Request
from lsp_calib.inference.local.llama import LlamaModel
from lsp_calib.inference.models.cards import locate
from lsp_calib.values import Generation, Prompt, Stop

STRATA = ("mid-word", "after-indentation")
_WORD = re.compile(r"\w*\Z")
# Characters above a line that decide where its tokens begin: more than enough.
_ABOVE = 200
# A line takes a few hundred positions at most beside a large window.
_CONTEXT = 8192


@attrs.frozen
class Comparison:
    """Two completions of one place.

    clean: after the clean prompt, None if it does not go on with the typed characters, or never ends.
    healed: what an editor is offered, before anything is removed from it.
    """

    item: LineItem
    typed: str
    clean: str | None
    healed: str

    @property
    def equal(self) -> bool:
        return self.clean == self.healed


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Compare healed prompts with clean ones.")
    parser.add_argument("sources", nargs="+", type=Path, help="folders with Python files")
    parser.add_argument("--model", default="smollm2-135m", help="name of a card, or a file")
    parser.add_argument("--count", type=int, default=300, help="places to compare")
    parser.add_argument("--window", choices=[*WindowSize], default=WindowSize.LARGE, type=WindowSize)
    parser.add_argument("--threads", type=int, default=0, help="0 chooses by measuring")
    parser.add_argument("--misses", action="store_true", help="print the places where they differ")
    given = parser.parse_args(arguments)
    card, file = locate(given.model)
    layout = Layout.of(card, given.window)
    model = LlamaModel(LoadOptions(file, _CONTEXT, threads=given.threads))
    found = []
    for comparison in compared(model, layout, places(given.sources, given.count)):
        found.append(comparison)
        if given.misses and comparison.clean is not None and not comparison.equal:
            print(f"{comparison.item.id}: typed {comparison.typed!r}", flush=True)
            print(f"    clean  {comparison.clean!r}\n    healed {comparison.healed!r}", flush=True)
        if len(found) % 50 == 0:
            print(f"{len(found)} of {given.count}", file=sys.stderr, flush=True)
    model.close()
    print(f"{given.model}, {layout.version}")
    print(table(found))


def table(found: Sequence[Comparison]) -> str:
    """Places, those to compare, and the share that is equal, by kind of place."""
    rows = [f"{'place':<20}{'drawn':>7}{'compared':>10}{'equal':>7}{'share':>8}"]
    drawn = Counter(each.item.stratum for each in found)
    judged = Counter(each.item.stratum for each in found if each.clean is not None)
    equal = Counter(each.item.stratum for each in found if each.equal)
    for counter in (drawn, judged, equal):
        counter["all"] = counter.total()
    for kind in (*STRATA, "all"):
        share = f"{equal[kind] / judged[kind]:.1%}" if judged[kind] else "-"
        rows.append(f"{kind:<20}{drawn[kind]:>7}{judged[kind]:>10}{equal[kind]:>7}{share:>8}")
    return "\n".join(rows)


def places(sources: Sequence[Path], count: int) -> list[LineItem]:
    """`count` places of `STRATA`, as many from each source; the same each time."""
    each = -(-count // len(sources))
    drawn: list[LineItem] = []
    for source in sources:
        # Two thirds of what is drawn are of these kinds.
        items = sample_lines(source, source.name, 3 * each)
        drawn += [item for item in items if item.stratum in STRATA][:each]
    random.Random(0).shuffle(drawn)
    return drawn[:count]


def compared(model: LlamaModel, layout: Layout, items: Sequence[LineItem]) -> Iterator[Comparison]:
    """Complete each place both ways, greedily."""
    for item in items:
        prompt = build_prompt(item.cursor, layout)
        clean_end = boundary(model, item)
        typed = item.cursor.before[max(clean_end, 0) :]
        clean = complete(model, clean_prompt(prompt, item.cursor, clean_end))
        goes_on = clean.stop in (Stop.LINE, Stop.END_OF_TEXT) and clean.text.startswith(typed)
        yield Comparison(
            item,
            typed,
            clean.text[len(typed) :] if goes_on else None,
            complete(model, prompt).text,
        )


def boundary(model: LlamaModel, item: LineItem) -> int:
    """The column where the token begins that holds the first typed character, in the real text.

    It is negative, by the number of characters, where that is above the line: in line ends, blank lines.
    """
    before = item.cursor.before
    start = 0
    if item.stratum == "mid-word":
        word = _WORD.search(before)
        assert word is not None, "the pattern matches the empty end"
        start = word.start()
    above = "".join(line + "\n" for line in item.cursor.lines[: item.cursor.line])[-_ABOVE:]
    text = (above + before + item.target).encode()
    wanted = len((above + before[:start]).encode())
    begin = end = 0
    pieces = model._machine.vocabulary.pieces
    for token in model._weights.tokenize(text):
        begin, end = end, end + len(pieces[token])
        if end > wanted:
            break
    return len(text[:begin].decode("utf-8", "ignore")) - len(above)


def clean_prompt(healed: Prompt, cursor: Cursor, boundary: int) -> Prompt:
    """The same window, up to the column `boundary`, with nothing to reproduce but line ends above."""
    *others, (kind, text) = healed.segments
    whole = text + healed.forced  # to the cursor
    end = max(len(whole) - len(cursor.before) + boundary, 0)
    forced = whole[end : end + max(-boundary, 0)]
    return attrs.evolve(healed, segments=(*others, (kind, whole[:end])), forced=forced)


def complete(model: LlamaModel, prompt: Prompt) -> Generation:
    # Afresh: where two tokens are as likely as each other, what the cache holds from other steps may decide.
    run = model.begin(Request(prompt, MOST_TOKENS, reuse=False), on_tokens=lambda _: None)
    generation = run.advance()
    assert isinstance(generation, Generation)
    return generation


if __name__ == "__main__":
    main()
