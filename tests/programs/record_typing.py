"""Make the recorded typing out of commits of this repository: `python tests/programs/record_typing.py`.

Real: the text. Each edit begins with a file as it was before a commit and ends with the file as the commit
left it, to the byte, and every character typed on the way is one that its author put there. Within a hunk
(lines that were added or changed together) it is typed from top to bottom, character by character; a line of
which only a part was changed is changed in that part.

Made up: that it was typed in this order, since a commit does not say in which order its hunks were written
(here: from the top of the file down); the rhythm (pauses drawn from a log-normal distribution around 150 ms
for a character); the typing errors (a neighbouring key in about 2 of 100 letters, taken back with backspace);
the editor's part, which is what common editors do by default: Enter inserts a newline and the indentation in
one change, one level more after `:` or an opening bracket and one less after `return` and its like; white
space that nothing was typed after is taken back by the next Enter; backspace in the indentation removes a
level, Tab adds one; a selection is deleted in one change. Brackets and quotes are not closed automatically.

Hunks with fewer than 30 lines of the file below them are there from the beginning, so that there is always
text after the cursor. The random numbers are seeded: the same commits make the same recording.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import random
import subprocess
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from pathlib import Path

import attrs

from lsp_calib.tools.bench import trace
from lsp_calib.tools.bench.trace import Edit, Kind, Place, Step

RECORDING = Path(trace.__file__).with_name("trace.json.gz")

# Commits, and names that files had then.
SOURCES = (
    ("d6d9eff", "lsp_calib/syntax/functions.py"),
    ("055f881", "lsp_calib/values.py"),
    ("e282c97", "lsp_calib/inference/llama.py"),
    ("dcaef6d", "lsp_calib/server/learning.py"),
    ("d6d9eff", "tests/unit/test_feedback_tracker.py"),
    ("3a7e78b", "tests/server/test_server_feedback.py"),
)
_LEAST_BELOW = 30
_LEVEL = 4
_TYPO = 0.02
_NEIGHBOURS = {
    key: near
    for row in ("qwertyuiop", "asdfghjkl", "zxcvbnm")
    for key, near in zip(row, row[1:] + row[-2], strict=True)
}
# Median pause before a step, in milliseconds, and the spread of its logarithm.
_PAUSES = {Kind.TYPE: 150, Kind.NEWLINE: 350, Kind.BACKSPACE: 180, Kind.DELETE: 900}
_JUMP_PAUSE = 1800
_SPREAD = 0.45
_LESS = ("return", "raise", "pass", "break", "continue")


@attrs.define
class _Hand:
    """Types into `lines` and keeps what it did."""

    lines: list[str]
    chance: random.Random
    steps: list[Step] = attrs.field(factory=list)
    cursor: Place = (-1, -1)

    def change(self, kind: Kind, start: Place, end: Place, text: str) -> None:
        jump = self.cursor not in (start, end)
        median = _JUMP_PAUSE if jump else _PAUSES[kind]
        pause = round(median * self.chance.lognormvariate(0, _SPREAD))
        step = Step(kind, start, end, text, pause, jump)
        self.cursor = step.apply(self.lines)
        self.steps.append(step)

    def type_text(self, text: str) -> None:
        for char in text:
            wrong = _NEIGHBOURS.get(char)
            if wrong is not None and self.chance.random() < _TYPO:
                self._put(wrong)
                line, column = self.cursor
                self.change(Kind.BACKSPACE, (line, column - 1), (line, column), "")
            self._put(char)

    def type_lines(self, texts: Sequence[str]) -> None:
        """Type whole lines, the first one where the cursor stands (in an indentation)."""
        for at, text in enumerate(texts):
            if at:
                self.enter()
            if text.strip():
                self._indent(len(text) - len(text.lstrip()))
                self.type_text(text.lstrip())
        if not texts[-1]:
            self._leave_empty()

    def enter(self) -> None:
        line, column = self.cursor
        before = self.lines[line][:column]
        if before.strip():
            self.change(Kind.NEWLINE, self.cursor, self.cursor, "\n" + " " * _auto_indent(before))
        else:  # the white space that nothing was typed after goes
            self.change(Kind.NEWLINE, (line, 0), self.cursor, "\n" + before)

    def _indent(self, wanted: int) -> None:
        line, column = self.cursor
        while column > wanted:
            less = max((column - 1) // _LEVEL * _LEVEL, wanted)
            self.change(Kind.BACKSPACE, (line, less), (line, column), "")
            column = less
        while column < wanted:
            more = min((column // _LEVEL + 1) * _LEVEL, wanted)
            self.change(Kind.TYPE, (line, column), (line, column), " " * (more - column))
            column = more

    def _leave_empty(self) -> None:
        line, column = self.cursor
        if column:
            self.change(Kind.DELETE, (line, 0), (line, column), "")

    def _put(self, char: str) -> None:
        self.change(Kind.TYPE, self.cursor, self.cursor, char)


def record(name: str, commit: str, before: str, after: str) -> Edit:
    """The typing that leads from one text to the other, but for hunks too near the end."""
    old, new = before.split("\n"), after.split("\n")
    hunks = [
        code for code in SequenceMatcher(None, old, new, autojunk=False).get_opcodes() if code[0] != "equal"
    ]
    late = [code for code in hunks if len(new) - code[4] < _LEAST_BELOW or code[1] == 0]
    for _, first, last, new_first, new_last in reversed(late):
        old[first:last] = new[new_first:new_last]
    start = tuple(old)
    hand = _Hand(old, random.Random(f"{commit} {name}"))
    for tag, first, last, new_first, new_last in SequenceMatcher(
        None, list(old), new, autojunk=False
    ).get_opcodes():
        # Everything above is as it shall be: the numbers of the new lines are those of the document.
        if tag != "equal":
            _hunk(hand, new_first, new_first + last - first, new[new_first:new_last])
    if hand.lines != new:
        raise AssertionError(f"{name} was not typed right")
    return Edit(name, commit, start, tuple(hand.steps), sha256_of(new))


def _hunk(hand: _Hand, first: int, last: int, new: Sequence[str]) -> None:
    """Turn lines `first` to `last` of the document into the new ones."""
    old = hand.lines[first:last]
    if old and len(old) == len(new) and all(map(_alike, old, new)):
        for at, text in enumerate(new):
            _within(hand, first + at, text)
    elif not new:
        hand.change(Kind.DELETE, (first - 1, len(hand.lines[first - 1])), (last - 1, len(old[-1])), "")
    elif not old:
        hand.cursor = first - 1, len(hand.lines[first - 1])
        begun = len(hand.steps)
        hand.enter()
        hand.steps[begun] = attrs.evolve(hand.steps[begun], jump=True)
        hand.type_lines(new)
    else:
        indent = len(old[0]) - len(old[0].lstrip())
        hand.change(Kind.DELETE, (first, indent), (last - 1, len(old[-1])), "")
        hand.type_lines(new)


def _within(hand: _Hand, line: int, text: str) -> None:
    """Change the part of a line that differs."""
    old = hand.lines[line]
    head = next(
        (at for at, (a, b) in enumerate(zip(old, text, strict=False)) if a != b), min(len(old), len(text))
    )
    room = min(len(old), len(text)) - head
    pairs = zip(reversed(old), reversed(text), strict=False)
    tail = min(next((at for at, (a, b) in enumerate(pairs) if a != b), room), room)
    end = len(old) - tail
    if end > head:
        hand.change(Kind.DELETE, (line, head), (line, end), "")
        hand.type_text(text[head : len(text) - tail])
    elif text != old:
        begun = len(hand.steps)
        hand.cursor = line, head
        hand.type_text(text[head : len(text) - tail])
        hand.steps[begun] = attrs.evolve(hand.steps[begun], jump=True)


def _alike(old: str, new: str) -> bool:
    return bool(old.strip()) and SequenceMatcher(None, old, new, autojunk=False).ratio() > 0.5


def _auto_indent(before: str) -> int:
    indent = len(before) - len(before.lstrip())
    if before.rstrip().endswith((":", "(", "[", "{")):
        return indent + _LEVEL
    if before.split(maxsplit=1)[0] in _LESS:
        return max(indent - _LEVEL, 0)
    return indent


def at_commit(commit: str, path: str) -> str:
    """A file's text at a commit of this repository."""
    done = subprocess.run(
        ["git", "show", f"{commit}:{path}"],
        cwd=Path(__file__).parent,
        check=True,
        capture_output=True,
    )
    return done.stdout.decode("utf-8")


def recordings() -> Iterator[Edit]:
    """An edit for each of `SOURCES`. Raises subprocess.CalledProcessError without their history."""
    for commit, path in SOURCES:
        yield record(path, commit, at_commit(f"{commit}^", path), at_commit(commit, path))


def sha256_of(lines: Sequence[str]) -> str:
    """Hexadecimal SHA-256 of the document with these lines."""
    return hashlib.sha256("\n".join(lines).encode("utf-8")).hexdigest()


def dump_trace(edits: Sequence[Edit]) -> bytes:
    """The file's bytes for `trace.load_trace`; the same edits give the same bytes."""
    raw = {
        "format": "lsp-calib recorded typing 1",
        "edits": [
            {
                "name": edit.name,
                "commit": edit.commit,
                "before": list(edit.before),
                "afterSha256": edit.after_sha256,
                "steps": [step_to_json(step) for step in edit.steps],
            }
            for edit in edits
        ],
    }
    text = json.dumps(raw, ensure_ascii=False, separators=(",", ":"))
    return gzip.compress(text.encode("utf-8"), compresslevel=9, mtime=0)


def step_to_json(step: Step) -> list[object]:
    return [step.kind.value, *step.start, *step.end, step.text, step.pause_ms, int(step.jump)]


if __name__ == "__main__":
    edits = list(recordings())
    RECORDING.write_bytes(dump_trace(edits))
    for edit in edits:
        lines = sum(step.kind is Kind.NEWLINE for step in edit.steps)
        jumps = sum(step.jump for step in edit.steps)
        print(
            f"{edit.name}: {len(edit.before)} lines, {len(edit.steps)} steps, "
            f"{lines} new lines, {jumps} jumps"
        )
