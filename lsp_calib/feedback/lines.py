"""Following single lines from one version of a document to the next.

The editor sends only the new document; the new place of a line must be found by comparison. A change is
nearly always local, so the equal lines at both ends are trimmed first, at the speed of a comparison of lists.
The rest (the region) is searched with rules, from the certain to the plausible.
White space at the ends of a line is ignored throughout: a formatter that indents does not move lines.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from functools import cached_property

from lsp_calib.characters import normalised_line, shared_ends

# A region is aligned if neither side has more lines than this. With repeated lines as junk, the alignment
# costs at most the square of this, some tenths of a second; real ones take milliseconds.
_ALIGNED_AT_MOST = 2_000

# So many lines are compared at most to find where one can have gone: some hundredths of a second.
_COMPARED_AT_MOST = 4_000_000


class LostLineError(Exception):
    """A line may still be there, but the region is too large to search for it."""


class LineMap:
    """From the lines of one version of a document to those of the next.

    `old[start:old_end]` was replaced by `new[start:new_end]`; every line outside is the same in both.
    is_identity: nothing changed at all. grew: there are more lines than before. only_line: the line within
    which the change lies, that stays one line; None: it does not.
    """

    def __init__(self, old: tuple[str, ...], new: tuple[str, ...]) -> None:
        self.old = old
        self.new = new
        self.start, common = shared_ends(old, new)
        self.old_end = len(old) - common
        self.new_end = len(new) - common
        self.is_identity = self.start == self.old_end == self.new_end
        self.grew = self.new_end > self.old_end
        self.only_line = self.start if self.old_end == self.start + 1 == self.new_end else None

    def find(self, line: int, expected: str) -> int | None:
        """The index in `new` of the line with index `line` in `old`, or None if it was deleted.

        expected: the text that the line may have now (with a suggestion inserted), ends stripped. It decides
            between several possible lines.
        Raises LostLineError if the region is too large to tell.
        """
        text = normalised_line(self.old[line])
        inside = self.start <= line < self.old_end
        if inside or (line == self.old_end and self.grew and text != expected):
            # The line after the region counts as well where lines came: a suggestion accepted on a blank line
            # together with Enter looks exactly like a line inserted above that blank line.
            appeared = self._appeared(line, expected)
            if appeared is not None:
                return appeared
        if line < self.start:
            return line
        if line >= self.old_end:
            return line - self.old_end + self.new_end
        if self.start == self.new_end:
            return None
        same_size = self.old_end == self.new_end
        if same_size and normalised_line(self.new[line]) == text:
            return line
        if text and self._old_counts[text] == 1 and len(self._new_places.get(text, ())) == 1:
            return self._new_places[text][0]  # moved, perhaps past others (which no alignment would show)
        return self._beside(line) if same_size else self._aligned(line)

    def _beside(self, line: int) -> int:
        """Where a line of several with the same text is in a region that is as long as before: the only place
        of that text beside the same neighbour, above or else below; the line itself if there is none."""
        text = normalised_line(self.old[line])
        places = self._new_places.get(text, []) if text else []
        for step in (-1, 1):
            if not self.start <= line + step < self.old_end:
                continue
            neighbour = normalised_line(self.old[line + step])
            found = [place for place in places if place + step in self._new_places.get(neighbour, ())]
            if len(found) == 1:
                return found[0]
        return line

    def _appeared(self, line: int, expected: str) -> int | None:
        """The place in the region, nearest to `line`, where `expected` newly appeared and the line itself may
        be now; None if there is none."""
        if (
            self.old_end == self.new_end
            and line < self.old_end
            and normalised_line(self.new[line]) == expected
        ):
            return line
        places = self._brought(expected)
        if len(places) * (self.old_end - self.start) > _COMPARED_AT_MOST:
            places = [place for place in (line, line + self.new_end - self.old_end) if place in places]
        return _nearest([place for place in places if self._may_be_at(line, place)], line)

    def appeared(self, text: str, near: int) -> int | None:
        """The index in `new`, nearest to `near`, of a line that this change has brought; None if it has not.

        text: of the line, ends stripped.
        """
        return _nearest(self._brought(text), near)

    def copies(self, text: str, but: int | None) -> Iterator[tuple[int, bool]]:
        """(line of `new`, whether it is beside) of each line with this text that this change has brought
        whole, but for one.

        text: ends stripped. Beside: what came are the lines right above or below once more, `but` among them,
        as where a user copies lines up or down.
        """
        n = self.new_end - self.old_end
        if self.grew and text:
            came = self.new[self.start : self.new_end]
            beside = but is not None and any(
                first <= but < first + n and self.new[max(first, 0) : first + n] == came
                for first in (self.start - n, self.new_end)
            )
            yield from ((place, beside) for place in self._brought(text) if place != but)

    def _brought(self, text: str) -> list[int]:
        """Where in `new` a text is that this change has brought."""
        places = self._new_places.get(text, [])
        # It may have been there before, as when a formatter replaces the whole document.
        return places if len(places) > self._old_counts[text] else []

    def _may_be_at(self, line: int, place: int) -> bool:
        """Whether a line can have become the one at `place` of `new`, in the region.

        That is: as far from its start as before, or from its end, or right beside all lines of the region
        that were above it, or below it. The same text anywhere else is another line of what came, as of a
        function that is pasted.
        """
        if place == line:
            return True
        above, below = line - self.start, self.old_end - line - 1
        if place == line + self.new_end - self.old_end:
            # Where all that came is in place of a blank line, its first line is the one: nothing of the line
            # itself could tell that it is the last, as of a snippet that ends in `return`.
            return above > 0 or bool(normalised_line(self.old[line]))
        return self._follows(place, line, above) or self._precedes(place, line, below)

    def _follows(self, place: int, line: int, above: int) -> bool:
        """Whether the lines of the region above a line are right above a place. There must be some."""
        # The nearest first: the same text may stand in very many places, and the slices are copies.
        fits = 0 < above <= place - self.start and self.old[line - 1] == self.new[place - 1]
        return fits and self.old[self.start : line] == self.new[place - above : place]

    def _precedes(self, place: int, line: int, below: int) -> bool:
        """Whether the lines of the region below a line are right below a place. There must be some."""
        fits = 0 < below < self.new_end - place and self.old[line + 1] == self.new[place + 1]
        return fits and self.old[line + 1 : self.old_end] == self.new[place + 1 : place + 1 + below]

    @cached_property
    def _old_counts(self) -> Counter[str]:
        return Counter(normalised_line(text) for text in self.old[self.start : self.old_end])

    @cached_property
    def _new_places(self) -> dict[str, list[int]]:
        places: dict[str, list[int]] = {}
        for index in range(self.start, self.new_end):
            places.setdefault(normalised_line(self.new[index]), []).append(index)
        return places

    @cached_property
    def _opcodes(self) -> list[tuple[str, int, int, int, int]]:
        if max(self.old_end, self.new_end) - self.start > _ALIGNED_AT_MOST:
            raise LostLineError
        old = [normalised_line(text) for text in self.old[self.start : self.old_end]]
        new = [normalised_line(text) for text in self.new[self.start : self.new_end]]
        # Only lines that occur once anchor the alignment (repeated ones extend it): better matches, since a
        # closing brace is no evidence, and no cubic time on files full of blank lines.
        matcher = SequenceMatcher(lambda text: len(self._new_places[text]) > 1, old, new, autojunk=False)
        s = self.start
        return [(tag, a + s, b + s, c + s, d + s) for tag, a, b, c, d in matcher.get_opcodes()]

    def _aligned(self, line: int) -> int | None:
        tag, old_from, old_to, new_from, new_to = next(
            opcode for opcode in self._opcodes if opcode[1] <= line < opcode[2]
        )
        if tag == "delete":
            return None
        if tag == "equal" or old_to - old_from == new_to - new_from:
            return line - old_from + new_from
        return self._most_alike(line, old_from, new_from, new_to)

    def _most_alike(self, line: int, old_from: int, new_from: int, new_to: int) -> int | None:
        """The line of `new[new_from:new_to]` that the line became: the one that shares most at both ends."""
        text = normalised_line(self.old[line])
        best, most = None, 0
        for index in range(new_from, new_to):
            candidate = normalised_line(self.new[index])
            before, after = shared_ends(text, candidate)
            shared = before + after
            if shared > most and 2 * shared >= min(len(text), len(candidate)):
                best, most = index, shared
        if best is None and line == old_from:
            return new_from  # a line split by Enter, or typed over, is its first part
        return best


def _nearest(places: Sequence[int], line: int) -> int | None:
    return min(places, key=lambda place: abs(place - line), default=None)


# Characters of a line that are compared: a longer one is data, and the time grows with the square.
COMPARED_CHARACTERS = 400


def share_changed(text: str, line: str) -> float:
    """How much of a text is not in a line any more: its edit distance (Levenshtein 1966) to the piece of the
    line that is most like it, over its length. In [0, 1]; of both, the first COMPARED_CHARACTERS count.

    >>> share_changed("net + tax", "x = net + tax  # all"), share_changed("net + tax", "x = net - tax")
    (0.0, 0.1111111111111111)
    """
    if not text or text in line:
        return 0.0
    return min(edit_distances(text, line, [0] * (len(line) + 1))) / len(text[:COMPARED_CHARACTERS])


def edit_distances(text: str, line: str, row: list[int]) -> list[int]:
    """The edit distances of a text to the pieces of a line that end at each place. row: of nothing to them:
    zeros where a piece may begin anywhere."""
    text, line = text[:COMPARED_CHARACTERS], line[:COMPARED_CHARACTERS]
    row = row[: len(line) + 1]
    for deleted, character in enumerate(text, 1):
        diagonal, row[0] = row[0], deleted
        for at, other in enumerate(line, 1):
            best = min(diagonal + (character != other), row[at] + 1, row[at - 1] + 1)
            diagonal, row[at] = row[at], best
    return row
