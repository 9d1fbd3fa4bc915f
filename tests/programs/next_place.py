"""How often the next place is the one that is guessed: `python tests/programs/next_place.py [FOLDER]`.

Asks no model. Of each line that somebody finishes, as an accepted suggestion finishes it, the guess of
`completion.context.next_place` is compared

- in the recorded typing, with the document after the next change: a hit if lines, line and column are the
  same. The recording's editor indents by rules much like those of the guess, so that this says how often
  people go on with Enter at all, rather than how good the rules are;
- in the text as it was left (of the recording, or of the Python files below FOLDER), with the indentation of
  the next line that is not blank. Here nothing is made up. With blank lines in between, Enter was pressed
  more than once, and the first of them leads to the place that was guessed all the same.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

from lsp_calib.completion.context import next_place
from lsp_calib.server.text import split_keeping_ends
from lsp_calib.tools.bench.trace import Edit, Kind, load_trace


def typed(edits: Iterable[Edit]) -> Counter[str]:
    """What came after each finished line: "hit", "elsewhere" in the document, or another "indentation"."""
    found: Counter[str] = Counter()
    for edit in edits:
        lines = list(edit.before)
        for step, then in zip(edit.steps, [*edit.steps[1:], None], strict=True):
            line, column = step.apply(lines)
            is_last = then is None or then.kind is Kind.NEWLINE or then.jump
            if step.kind is not Kind.TYPE or column < len(lines[line]) or not is_last:
                continue
            guess = next_place(lines, line, "python")
            if then is None or then.kind is not Kind.NEWLINE or then.start != (line, column):
                found["elsewhere"] += 1
                continue
            after = list(lines)
            place = then.apply(after)
            same = (guess.line, guess.column) == place and [*guess.lines] == after
            found["hit" if same else "indentation"] += 1
    return found


def written(documents: Iterable[Sequence[str]]) -> Counter[str]:
    """Of each line of code: whether the next one has the indentation that was guessed."""
    found: Counter[str] = Counter()
    for lines in documents:
        window = [line.rstrip("\r\n") for line in lines]
        for at, line in enumerate(window[:-1]):
            if not line.strip():
                continue
            following = next((text for text in window[at + 1 :] if text.strip()), None)
            if following is None:
                continue
            # The guess reads the lines above and the line itself only.
            column = next_place(window[max(at - 200, 0) : at + 1], min(at, 200), "python").column
            same = column == len(following) - len(following.lstrip())
            blank = "" if window[at + 1].strip() else " after blank lines"
            found[("same" if same else "other") + blank] += 1
    return found


def main() -> None:
    edits = load_trace()
    print("recorded typing, after a finished line:", shares(typed(edits)))
    if len(sys.argv) > 1:
        files = sorted(Path(sys.argv[1]).rglob("*.py"))
        texts = (split_keeping_ends(file.read_text("utf-8", "replace")) for file in files)
        print(f"indentation of the next line, {len(files)} files:", shares(written(texts)))
    else:
        print(
            "indentation of the next line, as the text was left:", shares(written(e.replay() for e in edits))
        )


def shares(found: Counter[str]) -> str:
    total = found.total()
    return ", ".join(f"{name} {n} of {total} ({n / total:.0%})" for name, n in found.most_common())


if __name__ == "__main__":
    main()
