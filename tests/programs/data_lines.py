"""Where nothing is asked by itself, because it is data: the share of places in source and in data.

    python tests/programs/data_lines.py FOLDER... [--data FILE_OR_FOLDER...] [--show N]

In source files of each language, 40 lines of a file and a column in each, drawn at random; in the files of
--data, 200 characters of a file. --show prints so many of the lines that count as data, to be judged by hand.
"""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Iterator
from pathlib import Path

from lsp_calib.completion.context import Cursor, in_data
from lsp_calib.text_lines import split_lines

_LANGUAGES = {
    ".py": "Python",
    ".js": "JavaScript",
    ".ts": "TypeScript",
    ".rs": "Rust",
    ".c": "C",
    ".h": "C",
    ".go": "Go",
    ".java": "Java",
}
_LINES, _CHARACTERS = 40, 200
_MOST_BYTES = 5_000_000


def _files(roots: list[Path]) -> Iterator[tuple[Path, tuple[str, ...]]]:
    for root in roots:
        for path in sorted(root.rglob("*")) if root.is_dir() else [root]:
            if path.is_file() and path.stat().st_size <= _MOST_BYTES:
                try:
                    yield path, split_lines(path.read_bytes().decode())
                except UnicodeDecodeError:
                    continue


def _places(lines: tuple[str, ...], rng: random.Random) -> Iterator[Cursor]:
    chosen = [at for at, line in enumerate(lines) if len(line.strip()) > 3]
    for at in rng.sample(chosen, min(_LINES, len(chosen))):
        line = lines[at]
        yield Cursor(lines, at, rng.randint(len(line) - len(line.lstrip()), len(line)))


def _characters(lines: tuple[str, ...], rng: random.Random) -> Iterator[Cursor]:
    for at in rng.choices(range(len(lines)), [len(line) for line in lines], k=_CHARACTERS):
        yield Cursor(lines, at, rng.randint(0, len(lines[at])))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folders", nargs="*", type=Path)
    parser.add_argument("--data", nargs="+", type=Path, default=[])
    parser.add_argument("--show", type=int, default=0)
    options = parser.parse_args()
    rng = random.Random(0)
    counts: dict[str, list[bool]] = {}
    found: list[str] = []
    seconds, cursors = 0.0, 0
    sources = ((_LANGUAGES[path.suffix], path, lines) for path, lines in _files(options.folders)
               if path.suffix in _LANGUAGES)  # fmt: skip
    data = ((path.name, path, lines) for path, lines in _files(options.data) if any(lines))
    for places, files in ((_places, sources), (_characters, data)):
        for name, path, lines in files:
            for cursor in places(lines, rng):
                began = time.process_time()
                is_data = in_data(cursor)
                seconds += time.process_time() - began
                cursors += 1
                counts.setdefault(name, []).append(is_data)
                if is_data and places is _places:
                    found.append(f"{path}:{cursor.line + 1}: {lines[cursor.line].strip()[:100]}")
    for name, verdicts in counts.items():
        share = sum(verdicts) / len(verdicts)
        print(f"{name}: {sum(verdicts)} of {len(verdicts)} places are data ({share:.2%})")
    print(f"{1e6 * seconds / max(cursors, 1):.1f} µs a place")
    for line in rng.sample(found, min(options.show, len(found))):
        print(line)


if __name__ == "__main__":
    main()
