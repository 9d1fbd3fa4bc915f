"""The documented functions of one workspace folder, and those that resemble a function most.

Kept of a file are the lines of its functions, the words of each without their order (for the ranking), and a
hash of its text. The text of an example is read again when it is chosen; if it has changed, it is dropped.
Nothing is written to a disk.
"""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path, PurePath

import attrs

from lsp_calib.exclusion import Exclusion
from lsp_calib.languages import family_of, language_of
from lsp_calib.summarization.examples import (
    Example,
    Ranked,
    Ranking,
    Terms,
    chosen,
    has_length,
    is_short,
    terms_of,
)
from lsp_calib.syntax import Function, documentation_sentence, functions, has_grammar
from lsp_calib.workspace_files import (
    Stamp,
    exclusion_below,
    is_made_by_a_program,
    lines_of,
    stamp_of,
    walk,
)

# Of one folder. Files in characters: a larger one takes too long beside other work.
_MOST_FUNCTIONS, _MOST_FILES, _MOST_CHARACTERS = 20_000, 5_000, 60_000_000
_LARGEST = 200_000
_MOST_NAMES = 50_000
# Documented functions of one file: beyond it is data.
_MOST_OF_FILE = 500
# Ranked functions that are looked at for the few that are shown.
_LOOKED_AT = 40


@attrs.frozen
class _Place:
    """Where an example stands in its file. documented, code: first line and the line after the last one.

    name: its line, first column and the column after the last one. digest: of its text.
    """

    documented: tuple[int, int]
    code: tuple[int, int]
    name: tuple[int, int, int]
    digest: bytes


@attrs.frozen
class _File:
    """What is kept of a file. stamp: None for a document that is open. characters: its size."""

    language: str
    places: tuple[_Place, ...]
    stamp: Stamp | None
    characters: int


class WorkspaceExamples:
    """An index of the files below a folder, for any thread.

    exclusion: of the files that no model may see, as it is now.
    """

    def __init__(self, root: Path, exclusion: Callable[[], Exclusion]) -> None:
        self.root = root
        self._exclusion = exclusion
        self._lock = threading.RLock()
        self._files: dict[str, _File] = {}
        self._rankings: dict[str, Ranking[str]] = {}
        self._functions = 0
        self._characters = 0

    def __len__(self) -> int:
        """How many documented functions there are."""
        return self._functions

    def scan(
        self,
        language: str,
        nearest: Path,
        *,
        seconds: float,
        goes_on: Callable[[float], bool] = lambda _: True,
        open_: Mapping[str, Sequence[str]] | None = None,
    ) -> int:
        """Read the files of a language that are new or have changed, and forget those that are gone.

        nearest: the folder to begin with. seconds: after which it ends. goes_on: called after each file that
        was read, with the seconds that it took; may wait, and ends the scan by False. open_: documents that
        `put` looks after. Returns how many files were read.
        """
        family, is_excluded = family_of(language), exclusion_below(self.root, self._exclusion())
        read, met = 0, set(open_ or ())
        end = time.monotonic() + seconds
        files = walk(
            self.root,
            nearest,
            lambda path: has_grammar(of := _language_of(path, language)) and family_of(of) == family,
            seconds=seconds,
            most_names=_MOST_NAMES,
        )
        for path in files:
            name = path.relative_to(self.root).as_posix()
            if name in met or is_excluded(name):
                continue
            met.add(name)
            stamp = stamp_of(path)
            known = self._files.get(name)
            found = _language_of(path, language)
            # A header that was found to be C++'s stays so.
            if known is not None and (known.language, found) == ("cpp", "c"):
                continue
            if stamp is None or (known is not None and (known.stamp, known.language) == (stamp, found)):
                continue
            if self._is_full(known):
                break
            start = time.monotonic()
            self._keep(name, found, lines_of(path), stamp)
            read += 1
            if not goes_on(time.monotonic() - start) or time.monotonic() > end:
                break
        else:
            if time.monotonic() < end:
                self._forget_others(family, met)
        return read

    def put(self, name: str, language: str, lines: Sequence[str]) -> None:
        """Take the functions of an open document as it is now. name: its path below the folder."""
        if has_grammar(language):
            self._keep(name, language, lines, None)

    def drop(self, name: str) -> None:
        """Forget a file, until the next scan."""
        self._keep(name, "", (), None)

    def best(
        self,
        function: Function,
        language: str,
        name: str,
        count: int,
        open_: Mapping[str, Sequence[str]] | None = None,
    ) -> list[Example]:
        """At most `count` documented functions that resemble one most, the best first.

        Neither itself, nor what it holds, nor what holds it, nor a near-duplicate. name: its document's path
        below the folder, "" outside. open_: the lines of open documents, by their paths below the folder.
        """
        query = terms_of(function.code)
        is_excluded = exclusion_below(self.root, self._exclusion())
        texts = dict(open_ or {})
        found: list[Example] = []

        def admits(one: Ranked[str]) -> bool:
            with self._lock:
                file = self._files.get(one.group)
            if file is None or one.index >= len(file.places):
                return False
            place = file.places[one.index]
            if one.group == name and place.code[0] < function.end and function.start < place.code[1]:
                return False
            if is_excluded(one.group):
                return False
            if one.group not in texts:
                texts[one.group] = lines_of(self.root / one.group)
            example = self._read(one.group, file.language, place, texts[one.group])
            if example is None:
                # Its file has changed since; a scan reads it again.
                self.drop(one.group)
                return False
            found.append(example)
            return True

        ranking = self._ranking(family_of(language))
        for _ in chosen(ranking.best(query, _LOOKED_AT), query, count, admits):
            pass
        return found

    def _ranking(self, family: str) -> Ranking[str]:
        with self._lock:
            return self._rankings.setdefault(family, Ranking())

    def _is_full(self, known: _File | None) -> bool:
        return known is None and (
            len(self._files) >= _MOST_FILES
            or self._functions >= _MOST_FUNCTIONS
            or self._characters >= _MOST_CHARACTERS
        )

    def _keep(self, name: str, language: str, lines: Sequence[str], stamp: Stamp | None) -> None:
        found = list(islice(self._documented(name, language, lines), _MOST_OF_FILE))
        family, size = family_of(language), sum(map(len, lines))
        with self._lock:
            old = self._files.pop(name, None)
            if old is not None:
                self._functions -= len(old.places)
                self._characters -= old.characters
                if family_of(old.language) != family:
                    self._ranking(family_of(old.language)).put(name, ())
            if not language:
                return
            if self._is_full(None):
                found = []
            self._files[name] = _File(language, tuple(place for place, _ in found), stamp, size)
            self._functions += len(found)
            self._characters += size
            self._ranking(family).put(name, [terms for _, terms in found])

    def _documented(self, name: str, language: str, lines: Sequence[str]) -> Iterator[tuple[_Place, Terms]]:
        """The functions that can be examples."""
        if not language or sum(map(len, lines)) > _LARGEST:
            return
        if is_made_by_a_program(name.rpartition("/")[2], lines):
            return
        for function in functions(lines, language):
            place = self._place(function, language, lines)
            if place is not None:
                yield place, terms_of(function.code)

    def _place(self, function: Function, language: str, lines: Sequence[str]) -> _Place | None:
        documented = function.documented
        if documented is None or not has_length(function.code):
            return None
        sentence = documentation_sentence(function, language)
        if sentence is None or not is_short(sentence):
            return None
        name = _place_of_name(function, lines)
        place = _Place(documented, (function.start, function.end), name, b"")
        if _code(place, lines) != function.code:
            return None  # documentation and code share a line
        if _sentence(place, function.name, language, lines) != sentence:
            return None  # something else stands beside the documentation
        return attrs.evolve(place, digest=self._digest(place, lines))

    def _digest(self, place: _Place, lines: Sequence[str]) -> bytes:
        text = "\n".join((*lines[slice(*place.documented)], "", *lines[slice(*place.code)]))
        return hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=8).digest()

    def _read(self, path: str, language: str, place: _Place, lines: Sequence[str]) -> Example | None:
        """The example at a place of a file; None if it is no longer there."""
        if self._digest(place, lines) != place.digest:
            return None
        row, first, last = place.name
        name = lines[row][first:last]
        sentence = _sentence(place, name, language, lines)
        return None if sentence is None else Example(path, name, _code(place, lines), sentence)

    def _forget_others(self, family: str, met: set[str]) -> None:
        with self._lock:
            gone = [
                name
                for name, file in self._files.items()
                if family_of(file.language) == family and name not in met
            ]
        for name in gone:
            self.drop(name)


def _language_of(path: PurePath, wanted: str) -> str:
    """The language of a file where functions of the language `wanted` are looked for: a header is C's or
    C++'s."""
    return "cpp" if path.suffix == ".h" and wanted == "cpp" else language_of(path)


def _code(place: _Place, lines: Sequence[str]) -> str:
    """The code at a place without its documentation."""
    start, end = place.code
    first, last = place.documented
    if first >= end or last <= start:
        return "\n".join(lines[start:end])
    return "\n".join((*lines[start:first], *lines[last:end]))


def _sentence(place: _Place, name: str, language: str, lines: Sequence[str]) -> str | None:
    text = "\n".join(line.strip() for line in lines[slice(*place.documented)])
    start, end = place.code
    return documentation_sentence(Function(name, start, end, end, start + 1, text, ""), language)


def _place_of_name(function: Function, lines: Sequence[str]) -> tuple[int, int, int]:
    """Line and columns of the name of a function; no columns where it stands otherwise."""
    for row in range(function.start, min(function.signature_end, len(lines))):
        at = lines[row].find(function.name)
        if at >= 0:
            return row, at, at + len(function.name)
    return function.start, 0, 0
