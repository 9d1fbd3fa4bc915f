"""What `completion.postprocess.offered` changes of the answers in the committed records, and whether rightly.

    python tests/programs/after_the_model.py [FOLDER]      # FOLDER: the pinned projects, `data pull projects`

Prints a row for each model and reason: answers, how many are cut or withheld, and of these how many were
right before and are right then. In the records nothing stands after the cursor. The rows "with a rest" are of
the same answers in a document where a part of the line does: only a model that sees nothing after the cursor
would give the same answer there, so they are of such models alone. docs/evaluation.md quotes the table.
"""

from __future__ import annotations

import os
import random
import re
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import attrs

from lsp_calib.completion.context import Cursor
from lsp_calib.completion.postprocess import Cleaned, Cut, cleaned, offered
from lsp_calib.evaluation.recomputed import Rebuilt, _pieces, rebuild
from lsp_calib.evaluation.records import read_records
from lsp_calib.inference.models.cards import locate
from lsp_calib.text_lines import same_line

RECORDS = Path(__file__).parents[2] / "models" / "records"
# Where a rest may begin: at a word, at a mark. Of each line at most so many rests are tried.
_REST = re.compile(r"\b(?=\w)|(?=[^\w\s])")
_RESTS = 6


@attrs.frozen
class Answer:
    """An answer at a place, and the line that is right there."""

    cursor: Cursor
    text: str
    line: str

    def is_right(self, offered_text: str) -> bool:
        whole = self.cursor.before + offered_text + self.cursor.after
        return bool(offered_text) and same_line(whole, self.line)


def in_records(rebuilt: Rebuilt) -> Iterator[Answer]:
    cursor = rebuilt.item.cursor
    yield Answer(cursor, rebuilt.text, cursor.before + rebuilt.item.target)


def with_a_rest(rebuilt: Rebuilt) -> Iterator[Answer]:
    """The answer in documents that already hold an end of the line."""
    cursor, target = rebuilt.item.cursor, rebuilt.item.target.rstrip()
    starts = [match.start() for match in _REST.finditer(target) if match.start()]
    drawn = random.Random(rebuilt.item.id).sample(starts, min(_RESTS, len(starts)))
    for start in sorted(drawn):
        lines = [
            *cursor.lines[: cursor.line],
            cursor.before + target[start:],
            *cursor.lines[cursor.line + 1 :],
        ]
        place = Cursor.at(lines, cursor.line, cursor.column, cursor.language)
        yield Answer(place, rebuilt.text, cursor.before + target)


def reasons(found: Cleaned) -> tuple[str, ...]:
    if found.removal is not None:
        return (f"withheld: {found.removal.value}",)
    return tuple(f"cut: {cut.value}" for cut in found.cuts if cut is not Cut.SUFFIX)


def table(name: str, answers: list[Answer]) -> None:
    changed: Counter[str] = Counter()
    before: Counter[str] = Counter()
    then: Counter[str] = Counter()
    n = right = 0
    for answer in answers:
        text = cleaned(answer.text, answer.cursor).text
        if not text:
            continue
        n, right = n + 1, right + answer.is_right(text)
        found = offered(answer.text, answer.cursor)
        if found.text == text:
            continue
        for reason in reasons(found):
            changed[reason] += 1
            before[reason] += answer.is_right(text)
            then[reason] += answer.is_right(found.text)
    print(f"| {name} | all | {n} | {right} | |")
    for reason in sorted(changed):
        print(f"| | {reason} | {changed[reason]} | {before[reason]} | {then[reason]} |")


def main() -> None:
    data = Path(os.environ.get("LSP_CALIB_DATA", "."))
    sources = Path(sys.argv[1]) if len(sys.argv) > 1 else data / "projects"
    print("| answers | reason | n | right before | right then |\n|---|---|---:|---:|---:|")
    for path in sorted(RECORDS.glob("line-*.jsonl")):
        header, records = read_records(path)
        card, file = locate(header.model.name)
        rebuilt = [one for one in rebuild(header, records, sources, card, _pieces(file)) if one.record.shown]
        table(header.model.name, [answer for one in rebuilt for answer in in_records(one)])
        if card.completion.layout != "fim":
            answers = [answer for one in rebuilt for answer in with_a_rest(one)]
            table(f"{header.model.name}, with a rest", answers)


if __name__ == "__main__":
    main()
