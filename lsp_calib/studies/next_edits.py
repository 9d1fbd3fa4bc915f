"""How often an edit that was made goes on: cases from the differences between two releases of projects.

Each changed line of the newer release is made in turn, as a person would who goes through a file, and what
the server would offer after it is compared with what the release has there. The order of the changes is not
known: it is from the top of a file, or from a place within it to the end and on from the top.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import random
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from difflib import SequenceMatcher
from functools import cached_property
from pathlib import Path

import attrs

from lsp_calib.characters import shared_ends, split_lines
from lsp_calib.corpus.source import source_files
from lsp_calib.edits.history import FEATURES, History
from lsp_calib.edits.offers import VERSION, Candidate, candidates
from lsp_calib.edits.rules import Place, Rule, Text, edits_of_line, tokens_of
from lsp_calib.errors import DataError
from lsp_calib.files import read_file, why
from lsp_calib.studies.data import ProjectSet, release_pairs

_MOST_BYTES = 300_000
# Lines of a block that was replaced by another one are matched if they share half of their tokens; of a
# larger block nothing is known.
_LEAST_ALIKE = 0.5
_LARGEST_BLOCK = 400
# The share of files that are gone through from the top.
_FROM_TOP = 0.6
# Other documents that are open: the next ones that are changed, and as many that are not.
_OPEN = 2
# Changed files of a project in which edits are made.
_MOST_FILES = 60

_MOST_BYTES_OF_RECORDS = 16 << 20

MOST_CASES = 150
"""Of a project, drawn at random: one that renamed everything would count for all others."""


@attrs.frozen
class Step:
    """Lines of the older release, from `start` up to `end`, that became others."""

    start: int
    end: int
    lines: tuple[str, ...]

    @property
    def is_line(self) -> bool:
        return self.end - self.start == len(self.lines) == 1


@attrs.frozen
class Case:
    """A change of one line, and what could be offered after it.

    once: no other line of the release was changed in the same way. candidates: of each place its features, in
    the order of FEATURES, and whether the release has the change there; empty if there is no place.
    """

    project: str
    language: str
    once: bool
    candidates: tuple[tuple[tuple[float, ...], bool], ...]


def steps_of(old: Sequence[str], new: Sequence[str]) -> list[Step]:
    """The changes that make the lines of a file those of another, from the top. Lines that became others are
    matched where they can be."""
    start, common = shared_ends(old, new)
    matcher = SequenceMatcher(None, old[start : len(old) - common], new[start : len(new) - common], False)
    found: list[Step] = []
    for tag, a, b, c, d in matcher.get_opcodes():
        if tag != "equal":
            found += _matched(old, new, (a + start, b + start, c + start, d + start))
    return found


def _matched(old: Sequence[str], new: Sequence[str], block: tuple[int, int, int, int]) -> Iterator[Step]:
    a, b, c, d = block
    if b - a == d - c and all(_share(old[a + at], new[c + at]) >= _LEAST_ALIKE for at in range(b - a)):
        pairs = [(a + at, c + at) for at in range(b - a)]
    elif (b - a) * (d - c) <= _LARGEST_BLOCK:
        pairs = [(a + i, c + j) for i, j in _alike(old[a:b], new[c:d])]
    else:
        pairs = []
    last, put = a, c
    for i, j in (*pairs, (b, d)):
        if last < i or put < j:
            yield Step(last, i, tuple(new[put:j]))
        if i < b and old[i] != new[j]:
            yield Step(i, i + 1, (new[j],))
        last, put = i + 1, j + 1


def _alike(old: Sequence[str], new: Sequence[str]) -> list[tuple[int, int]]:
    """Pairs of lines, in order, whose shared tokens are most in sum."""
    n, m = len(old), len(new)
    alike = [[_share(x, y) for y in new] for x in old]
    best = [[0.0] * (m + 1) for _ in range(n + 1)]
    for i in reversed(range(n)):
        for j in reversed(range(m)):
            both = best[i + 1][j + 1] + alike[i][j] if alike[i][j] >= _LEAST_ALIKE else 0.0
            best[i][j] = max(best[i + 1][j], best[i][j + 1], both)
    pairs, i, j = [], 0, 0
    while i < n and j < m:
        if best[i][j] == best[i + 1][j]:
            i += 1
        elif best[i][j] == best[i][j + 1]:
            j += 1
        else:
            pairs.append((i, j))
            i, j = i + 1, j + 1
    return pairs


def _share(one: str, other: str) -> float:
    """The share of their tokens that two lines have in common."""
    x, y = frozenset(tokens_of(one)), frozenset(tokens_of(other))
    return len(x & y) / len(x | y) if x | y else 0.0


@attrs.frozen(slots=False)
class ReleasedFile:
    """A file in two releases. steps: from the top; none if it is the same in both."""

    path: str
    old: tuple[str, ...]
    steps: tuple[Step, ...]

    @classmethod
    def of(cls, path: str, old: tuple[str, ...], new: tuple[str, ...]) -> ReleasedFile:
        return cls(path, old, tuple(steps_of(old, new)))

    @cached_property
    def text(self) -> Text:
        return Text(self.old)

    @cached_property
    def _changes(self) -> Mapping[int, tuple[str, frozenset[tuple[Rule, int, int]]]]:
        """Of each line that became another, that one and what was done to it."""
        return {
            step.start: (step.lines[0], frozenset((edit.rule, edit.start, edit.end) for edit in found))
            for step in self.steps
            if step.is_line
            for found in (edits_of_line(self.old[step.start], step.lines[0]),)
        }

    @property
    def rules(self) -> Iterator[Rule]:
        """Of all its changes."""
        return (rule for _, edits in self._changes.values() for rule, _, _ in edits)

    def has(self, place: Place, rule: Rule, line: int) -> bool:
        """Whether the newer release has the change at a place of a line of the older one."""
        new, edits = self._changes.get(line, ("", ()))
        old = self.old[line]
        alone = old[: place.start] + place.text + old[place.end :]
        return (rule, place.start, place.end) in edits or alone == new


def released_files(older: Path, newer: Path, language: str) -> list[ReleasedFile]:
    """The files of a language that both folders have, by path. Those that cannot be read, and large ones, are
    left out."""
    found = []
    older, newer = _inner(older), _inner(newer)
    for path in source_files(older, language):
        inside = path.relative_to(older)
        lines = [_lines(root / inside) for root in (older, newer)]
        if lines[0] is not None and lines[1] is not None:
            found.append(ReleasedFile.of(inside.as_posix(), lines[0], lines[1]))
    return found


def _inner(folder: Path) -> Path:
    """The only folder in a folder, such as `package` or `name-1.2`; else the folder itself."""
    inside = list(folder.iterdir())
    return inside[0] if len(inside) == 1 and inside[0].is_dir() else folder


def _lines(path: Path) -> tuple[str, ...] | None:
    try:
        return tuple(split_lines(read_file(path, _MOST_BYTES).decode()))
    except (OSError, UnicodeDecodeError, DataError):
        return None


def cases_of(files: Sequence[ReleasedFile], project: str, language: str) -> Iterator[Case]:
    """A case for each line that became another; of a large project, in files that follow each other."""
    chance = random.Random(int(hashlib.sha256(project.encode()).hexdigest()[:8], 16))
    times = Counter(rule for one in files for rule in one.rules)
    changed = [one for one in files if one.steps]
    start = chance.randrange(max(len(changed) - _MOST_FILES, 0) + 1)
    changed = changed[start : start + _MOST_FILES]
    history = History()
    for number, file in enumerate(changed):
        beside = [one for one in files if not one.steps and _folder(one.path) == _folder(file.path)]
        others = {one.path: one for one in (*changed[number + 1 : number + 1 + _OPEN], *beside[:_OPEN])}
        first = 0 if chance.random() < _FROM_TOP else chance.randrange(len(file.steps))
        for made, found in _walk(history, file, (*file.steps[first:], *file.steps[:first]), others):
            once = all(times[rule] == 1 for rule in made)
            yield Case(project, language, once, tuple(found))


def _folder(path: str) -> str:
    return path.rpartition("/")[0]


def _walk(
    history: History, file: ReleasedFile, steps: Iterable[Step], others: Mapping[str, ReleasedFile]
) -> Iterator[tuple[Sequence[Rule], Iterable[tuple[tuple[float, ...], bool]]]]:
    """The rules of each line that is changed, and the candidates."""
    # Each line as it is, with its number in the older release; None if the line is a new one.
    state: list[tuple[str, int | None]] = [(line, at) for at, line in enumerate(file.old)]
    texts: dict[Hashable, Text] = {path: one.text for path, one in others.items()}
    for step in steps:
        at = next((i for i, (_, o) in enumerate(state) if o is not None and o >= step.start), len(state))
        came: list[tuple[str, int | None]] = [(line, None) for line in step.lines]
        state[at : at + step.end - step.start] = came
        if not step.is_line:
            history.moved(file.path, at, at + step.end - step.start, len(came) - step.end + step.start)
            continue
        rules = history.changed(file.path, at, file.old[step.start], step.lines[0])
        here = Text([line for line, _ in state])
        yield (
            rules,
            [
                (
                    tuple(round(one.features[name], 3) for name in FEATURES),
                    _is_right(one, file, state, others),
                )
                for one in candidates(history, rules, {file.path: here, **texts}, file.path)
            ],
        )


def _is_right(
    one: Candidate,
    file: ReleasedFile,
    state: Sequence[tuple[str, int | None]],
    others: Mapping[str, ReleasedFile],
) -> bool:
    if one.document != file.path:
        return others[str(one.document)].has(one.place, one.rule, one.place.line)
    line = state[one.place.line][1]
    # A line that was changed is as the newer release has it.
    return line is not None and file.has(one.place, one.rule, line)


_ALSO = {"typescript": ("typescript", "typescriptreact", "javascript")}


def cases_of_releases(
    sets: Iterable[ProjectSet], data: Path, on_progress: Callable[[int, int], None]
) -> tuple[list[Case], list[Case]]:
    """The cases of the projects that curves are fitted on, and those of the projects set aside.

    data: the folder with the sets. on_progress: called with projects done, and all.
    Raises DataError if a project is missing.
    """
    pairs = [(which, *pair) for which in sets for pair in release_pairs(which)]
    folders = [[data / which.name / one.folder for one in pair] for which, *pair in pairs]
    if missing := [folder for pair in folders for folder in pair if not folder.is_dir()]:
        raise DataError(f"{missing[0]} is missing. Get it with `lsp-calib data pull releases`.")
    fitted: list[Case] = []
    apart: list[Case] = []
    with ProcessPoolExecutor() as processes:
        tasks = [
            (older.name, which.language, *pair)
            for (which, older, _), pair in zip(pairs, folders, strict=True)
        ]
        for at, found in enumerate(processes.map(_of_pair, tasks)):
            on_progress(at + 1, len(pairs))
            which, older, _ = pairs[at]
            (apart if older.name in which.apart else fitted).extend(found)
    return fitted, apart


def _of_pair(task: tuple[str, str, Path, Path]) -> list[Case]:
    project, language, older, newer = task
    found: list[Case] = []
    for one in _ALSO.get(language, (language,)):
        found += cases_of(released_files(older, newer, one), project, one.removesuffix("react"))
    return drawn(found)


def drawn(cases: Iterable[Case], most: int = MOST_CASES, seed: int = 0) -> list[Case]:
    """At most so many cases with candidates, drawn at random, and the same share of those without."""
    known = list(cases)
    having = [at for at, case in enumerate(known) if case.candidates]
    chance = random.Random(seed)
    share = min(1.0, most / max(len(having), 1))
    kept = set(chance.sample(having, min(most, len(having))))
    return [
        case for at, case in enumerate(known) if (at in kept if case.candidates else chance.random() < share)
    ]


def write_cases(path: Path, cases: Iterable[Case]) -> None:
    """Write records: a header, and a line for each case."""
    header = {"schema": 1, "version": VERSION, "features": FEATURES}
    rows = [
        [
            one.project,
            one.language,
            int(one.once),
            [[int(right), *values] for values, right in one.candidates],
        ]
        for one in cases
    ]
    lines = "".join(json.dumps(row, separators=(",", ":")) + "\n" for row in (header, *rows))
    path.write_bytes(gzip.compress(lines.encode(), 9, mtime=0))


def read_cases(path: Path) -> list[Case]:
    """Raises DataError if the file cannot be read, or is of another version."""
    try:
        text = gzip.decompress(read_file(path, _MOST_BYTES_OF_RECORDS))
    except OSError as error:
        raise DataError(f"{path} cannot be read: {why(error)}.") from error
    first, *rows = map(json.loads, text.splitlines())
    if (first.get("version"), tuple(first.get("features", ()))) != (VERSION, FEATURES):
        raise DataError(f"{path} has other features than this version computes: make it again.")
    return [
        Case(name, language, bool(once), tuple((tuple(values), bool(right)) for right, *values in found))
        for name, language, once, found in rows
    ]
