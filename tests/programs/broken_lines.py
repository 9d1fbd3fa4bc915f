"""How often `broken` is said of true lines and of damaged ones, over any source on this machine.

    python tests/programs/broken_lines.py LANGUAGE FOLDER... [--lines N] [--ending END]... [--show N]

Of N lines, drawn from at most as many files of FOLDER (by `--ending`, else those of the language): the share
that is broken where the line stands, and with nothing below it; then the same of the line without one of its
brackets, with another indentation, and with a keyword written twice. `language_fit.py` does so for the pinned
projects. To compare two versions, run each from its own checkout: the lines are the same.
"""

from __future__ import annotations

import argparse
import random
import re
from collections import Counter
from pathlib import Path

from lsp_calib.characters import split_lines
from lsp_calib.completion.context import Cursor
from lsp_calib.completion.features import text_features
from lsp_calib.languages import language_of
from lsp_calib.syntax.languages import RULES

_KEYWORD = re.compile(
    r"\b(?:and|as|break|case|class|const|def|do|elif|else|enum|except|export|for|function|if|import|in|int|"
    r"interface|let|match|new|not|or|public|raise|return|static|struct|throw|try|type|var|void|while|with)\b"
)
_BRACKET = re.compile(r"[()\[\]{}]")
_MOST_CHARACTERS = 300_000
_LONGEST = 300


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("language")
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--lines", type=int, default=1000)
    parser.add_argument("--ending", action="append", default=[])
    parser.add_argument("--show", type=int, default=0, help="print so many true lines that are broken")
    given = parser.parse_args()
    rng = random.Random(0)
    paths = sorted({path for folder in given.folders for path in found(folder, given.language, given.ending)})
    rng.shuffle(paths)
    asked: Counter[str] = Counter()
    broken: Counter[str] = Counter()
    shown = 0
    each = max(1, given.lines // max(len(paths), 1))
    for path in paths:
        try:
            lines = split_lines(path.read_text("utf-8"))
        except (OSError, UnicodeDecodeError):
            continue
        rows = [row for row, line in enumerate(lines) if len(line.strip()) > 1 and len(line) <= _LONGEST]
        if not rows or sum(map(len, lines)) > _MOST_CHARACTERS or max(map(len, lines)) > 5000:
            continue
        for row in rng.sample(rows, min(each, len(rows))):
            line = lines[row]
            for name, text in (("true", line), *damaged(line, given.language, rng)):
                for place, below in (("", lines[row + 1 :]), (" at end", ("",))):
                    document = (*lines[:row], "", *below)
                    value = text_features(Cursor.at(document, row, 0, given.language), text).get("broken")
                    if value is None:
                        continue
                    asked[name + place] += 1
                    broken[name + place] += bool(value)
                    if value and name == "true" and shown < given.show:
                        shown += 1
                        print(f"{path}:{row + 1}{place}: {line.strip()[:100]}")
        if asked["true"] >= given.lines:
            break
    for name, count in asked.items():
        print(f"{given.language:<12}{name:<22}{count:>7}{broken[name]:>7}{broken[name] / count:>8.2%}")


def found(folder: Path, language: str, endings: list[str]) -> list[Path]:
    files = [folder] if folder.is_file() else [path for path in folder.rglob("*") if path.is_file()]
    if endings:
        return [path for path in files if path.name.endswith(tuple(endings))]
    return [path for path in files if language_of(path) == language]


def damaged(line: str, language: str, rng: random.Random) -> list[tuple[str, str]]:
    """Kinds of damage and the line with them; comments may be among the lines."""
    results = []
    brackets = list(_BRACKET.finditer(line))
    if brackets:
        at = rng.choice(brackets)
        results.append(("without a bracket", line[: at.start()] + line[at.end() :]))
    rules = RULES.get(language)
    if rules is not None and rules.block_openings:
        deeper = line[:1].isspace() and rng.random() < 0.5
        results.append(("indented otherwise", line[1:] if deeper else "  " + line))
    words = list(_KEYWORD.finditer(line))
    if words:
        word = rng.choice(words)
        results.append(("a keyword twice", f"{line[: word.end()]} {word[0]}{line[word.end() :]}"))
    return results


if __name__ == "__main__":
    main()
