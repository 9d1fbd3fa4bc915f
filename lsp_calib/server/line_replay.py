"""Lines that the user has just typed, completed afterwards as if the cursor had been in them: labels of what
nobody was shown.

`TypedLines` tells which lines the user has typed and finished, by the changes of documents alone. Everything
else that changes a line makes it no line of the user's: what is pasted, accepted, inserted by a formatter or
brought back by undo. Where that cannot be told, the line counts as not typed.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import logging
import random
import re
import secrets
import time
from collections import deque
from collections.abc import Sequence

import attrs

from lsp_calib.completion.context import Cursor, drawn_place, in_data, is_asked_for, shared_ends
from lsp_calib.completion.service import Completion
from lsp_calib.errors import LspCalibError
from lsp_calib.feedback.events import SETTLE_AFTER
from lsp_calib.inference.engine import EngineState
from lsp_calib.server import events as on
from lsp_calib.server.admission import Admission
from lsp_calib.server.completions import Completions
from lsp_calib.server.events import Clock, Events, Idle, Pace
from lsp_calib.server.feedback_recorder import FeedbackRecorder
from lsp_calib.server.messages import Connection
from lsp_calib.server.model import Status
from lsp_calib.server.summary_requests import SummaryRequests
from lsp_calib.server.text import CalibDocument
from lsp_calib.syntax import prose_lines
from lsp_calib.syntax.magics import CommandLine
from lsp_calib.text_lines import same_line

logger = logging.getLogger(__name__)

MOST_LINES = 64
"""Finished lines that are kept until they are taken, of all documents together."""

# In characters. Larger documents are data, or generated. A kept line holds the document as it was then; what
# has not changed since is the same strings.
MOST_CHARACTERS = 200_000
_MOST_DOCUMENT_LINES = 20_000
# Lines of a document of which something is known: beyond, the document is not followed any more.
_MOST_KNOWN = 2_000
# A line that came in fewer changes is hardly typed. Editors may collect the keys of half a second.
LEAST_CHANGES = 3
# What one message may insert to count as typed: a burst of keys, or one word with a few other characters, as
# an editor's menu completes it and closes its brackets.
BURST = 8
_WORD = re.compile(r"\W{0,3}\w{0,40}\W{0,3}")


@attrs.frozen
class FinishedLine:
    """A line that the user has typed and left.

    text: as it was then; it still stands there. before, line: the document when the user left it, and the
    line's index there; the line itself may be without the last keys. ready_at: seconds; from then on the line
    counts as finished. draw: 8 bytes, the same for the same line below the same one, as good as random.
    """

    uri: str
    text: str
    before: tuple[str, ...]
    line: int
    ready_at: float
    draw: bytes

    @property
    def lines(self) -> tuple[str, ...]:
        """The document when the user left the line, with the line as it is."""
        return (*self.before[: self.line], self.text, *self.before[self.line + 1 :])


@attrs.define
class _Line:
    """What is known of a line as it is now.

    own: all of it was typed by the user. changes: how many changes typed it. here: the user is on it. shown:
    a suggestion was shown on it. shown_below: so many lines below were shown with it. left: once the user has
    left it.
    """

    text: str
    own: bool = True
    changes: int = 0
    here: bool = False
    shown: bool = False
    shown_below: int = 0
    left: FinishedLine | None = None


@attrs.define
class _Document:
    """lines: as they are now, while the user is on one of them. known: by index. given_up: it is not followed
    any more."""

    lines: tuple[str, ...] = ()
    known: dict[int, _Line] = attrs.field(factory=dict)
    given_up: bool = False


class TypedLines:
    """Follows documents and keeps the lines that the user has typed and left.

    key: what the draws are made with; None: a random one. settle_after: seconds after which a line that the
    user has left counts as finished. Lines count from 0 and come without their ends.
    `now` is in seconds of one clock. Not for use from several threads at once.
    Nothing of this outlives the object: the lines are in memory alone.
    """

    def __init__(self, key: bytes | None = None, settle_after: float = SETTLE_AFTER) -> None:
        self._key = key or secrets.token_bytes(32)
        self._settle_after = settle_after
        self._documents: dict[str, _Document] = {}

    def opened(self, uri: str, lines: tuple[str, ...]) -> None:
        """A document is opened: none of its lines was typed."""
        self._documents[uri] = _Document(given_up=len(lines) > _MOST_DOCUMENT_LINES)

    def changed(
        self,
        uri: str,
        lines: tuple[str, ...],
        region: tuple[int, int, int],
        *,
        old: tuple[str, ...],
        typed: bool,
        changes: int,
        now: float,
    ) -> None:
        """A message has changed a document.

        lines: as they are now; old: as they were. region: (start, old end, new end): the lines from start to
        the old end became those from start to the new end; it may be wider than what changed. typed: whether
        it may have been typed, as far as its shape tells. changes: so many were collected in the message.
        """
        document = self._documents.get(uri)
        if document is None:
            self.opened(uri, lines)
            return
        if document.given_up:
            return
        document.lines = lines
        start, old_end, new_end = region
        fits = 0 <= start <= min(old_end, new_end) and old_end <= len(old) and new_end <= len(lines)
        if not fits or len(lines) - len(old) != new_end - old_end:
            document.known.clear()  # nothing counts as typed that cannot be followed
            return
        if old_end < len(old):
            # What is typed below the last line end is reported as of the line above it.
            old_end, new_end = old_end + 1, new_end + 1
        start, old_end, new_end = _trimmed(old, lines, start, old_end, new_end)
        touched = _taken_out(document, start, old_end, new_end)
        if start == old_end == new_end:
            return
        here = self._edited(document, old, (start, old_end, new_end), touched, typed, changes)
        self._moved_to(uri, here, now, old, (start, old_end, new_end), elsewhere=typed)
        if len(document.known) > _MOST_KNOWN:
            self._documents[uri] = _Document(given_up=True)

    def requested(self, uri: str, line: int, now: float) -> None:
        """The user is on a line."""
        self._moved_to(uri, line, now)

    def shown(self, uri: str, line: int, text: str, below: int = 0) -> None:
        """A suggestion is shown on a line, with so many lines below it. text: of the line."""
        document = self._documents.get(uri)
        if document is None or document.given_up:
            return
        known = document.known.setdefault(line, _Line(text, own=not text.strip()))
        known.shown, known.left = True, None
        known.shown_below = max(known.shown_below, below)

    def saved(self, uri: str, now: float) -> None:
        """A document was saved: all lines in it are finished."""
        self._moved_to(uri, None, now)
        document = self._documents.get(uri)
        for line in document.known.values() if document is not None else ():
            if line.left is not None:
                line.left = attrs.evolve(line.left, ready_at=min(line.left.ready_at, now))

    def closed(self, uri: str) -> None:
        self._documents.pop(uri, None)

    def clear(self) -> None:
        """Forget everything; documents that are open stay open."""
        for document in self._documents.values():
            document.known.clear()

    def waiting(self) -> list[FinishedLine]:
        """The lines that the user has left, in the order of their draws. They stay until they are taken,
        changed, or closed."""
        known = (line for document in self._documents.values() for line in document.known.values())
        return sorted((line.left for line in known if line.left is not None), key=lambda one: one.draw)

    def take(self, finished: FinishedLine) -> bool:
        """Whether a line still stands as it was left; it is not offered again."""
        document = self._documents.get(finished.uri)
        if document is None:
            return False
        for at, line in list(document.known.items()):
            if line.left is finished:
                del document.known[at]
                return True
        return False

    def _edited(
        self,
        document: _Document,
        old: tuple[str, ...],
        region: tuple[int, int, int],
        touched: dict[int, _Line],
        typed: bool,
        changes: int,
    ) -> int | None:
        """Take in what became of the lines in the region; the line that the user is on, None if unknown."""
        start, old_end, new_end = region
        new = document.lines[start:new_end]
        if typed and new and old_end - start <= 1:
            before = old[start] if old_end > start else ""
            known = touched.get(start) or (None if before.strip() else _Line(before))
            # Enter, and perhaps the first keys of the next line; or it took the end of the line with it.
            begun = new[-1].strip() if len(new) == 2 and len(new[-1].strip()) <= BURST else ""
            rest = [text.strip() for text in new[1:] if text.strip() not in ("", begun)]
            stood = known is not None and not known.here and bool(before.strip())
            if (
                _is_typed(before, new[0])
                and not (stood and before != new[0] and _same_ink(before, new[0]))
                and all(before.rstrip().endswith(text) for text in rest)
            ):
                if known is not None:
                    above = document.known.get(start - 1) if old_end == start else None
                    if above is not None and above.shown_below:
                        known.shown, known.shown_below = True, above.shown_below - 1
                    _grown(document, start, known, new, changes)
                if begun and not before.rstrip().endswith(begun) and start + 1 not in document.known:
                    document.known[start + 1] = _Line(new[1], changes=changes, here=True)
                return start + 1 if rest else start + len(new) - 1
        if any(line.shown for line in touched.values()):
            for at, text in enumerate(new, start):  # whichever of them it was shown for
                document.known[at] = _Line(text, own=not text.strip(), shown=True)
        return None

    def _moved_to(
        self,
        uri: str,
        here: int | None,
        now: float,
        old: tuple[str, ...] | None = None,
        region: tuple[int, int, int] = (0, 0, 0),
        *,
        elsewhere: bool = True,
    ) -> None:
        """A change shows that the user is on a line of a document, and on no other.

        old, region: of the change.
        elsewhere: whether the user has left other documents too; not where a program may have changed this.
        """
        for name, document in self._documents.items():
            for at, line in document.known.items():
                if not line.here or (name == uri and at == here) or not (name == uri or elsewhere):
                    continue
                line.here = False
                if old is not None and name == uri:
                    self._leave(name, line, old, _place_before(at, region), now)
                else:
                    self._leave(name, line, document.lines, at, now)
            if not any(line.here for line in document.known.values()):
                document.lines = ()

    def _leave(self, uri: str, line: _Line, lines: tuple[str, ...], at: int | None, now: float) -> None:
        worth = line.own and not line.shown and line.changes >= LEAST_CHANGES and is_asked_for(line.text)
        if not worth or at is None or not _is_small(lines):
            return
        above = lines[at - 1] if at else ""
        message = "\0".join((uri, above, line.text)).encode("utf-8", "surrogatepass")
        draw = hmac.new(self._key, message, hashlib.sha256).digest()[:8]
        line.left = FinishedLine(uri, line.text, lines, at, now + self._settle_after, draw)
        # Those with the least draws stay: every line has the same chance.
        kept = [one for document in self._documents.values() for one in document.known.values() if one.left]
        if len(kept) > MOST_LINES:
            max(kept, key=lambda one: one.left.draw if one.left else b"").left = None


def _trimmed(
    old: Sequence[str], new: Sequence[str], start: int, old_end: int, new_end: int
) -> tuple[int, int, int]:
    """The region without the lines at its ends that are the same in both.

    The later ones go first: of two blank lines, Enter has made the upper one, where the user is.
    """
    while start < min(old_end, new_end) and old[old_end - 1] == new[new_end - 1]:
        old_end, new_end = old_end - 1, new_end - 1
    while start < min(old_end, new_end) and old[start] == new[start]:
        start += 1
    return start, old_end, new_end


def _taken_out(document: _Document, start: int, old_end: int, new_end: int) -> dict[int, _Line]:
    """Move what is known below a region to its new place; returns what was known of lines in the region."""
    touched = {at: document.known.pop(at) for at in list(document.known) if start <= at < old_end}
    moved = new_end - old_end
    if moved:
        document.known = {at if at < start else at + moved: line for at, line in document.known.items()}
    return touched


def _grown(document: _Document, at: int, line: _Line, new: Sequence[str], changes: int) -> None:
    """A line was typed on, and perhaps split by Enter: `new` is what it became."""
    line.text, line.left, line.here = new[0], None, True
    line.own = line.own or not new[0].strip()
    if new[0].strip():
        line.changes += changes
        document.known[at] = line
    else:
        line.changes = 0
        if line.shown:
            document.known[at] = line
    if line.shown_below:
        for below, text in enumerate(new[1 : 1 + line.shown_below], 1):
            document.known[at + below] = _Line(
                text, own=not text.strip(), shown=True, shown_below=line.shown_below - below
            )


def _place_before(at: int, region: tuple[int, int, int]) -> int | None:
    """Where a line was before a change; None if it was not there."""
    start, old_end, new_end = region
    if at < start:
        return at
    if at >= new_end:
        return at - new_end + old_end
    return start if at == start and old_end > start else None


def _is_typed(before: str, after: str) -> bool:
    """Whether a line may have become another by typing."""
    old, new = before.lstrip(), after.lstrip()
    start, end = shared_ends(old, new)
    added = new[start : len(new) - end].strip()
    return len(added) <= BURST or _WORD.fullmatch(added) is not None


def _same_ink(before: str, after: str) -> bool:
    """Whether two lines differ in white space alone, as after a formatter."""
    return "".join(before.split()) == "".join(after.split())


def _is_small(lines: Sequence[str]) -> bool:
    return len(lines) <= _MOST_DOCUMENT_LINES and sum(map(len, lines)) <= MOST_CHARACTERS


# At most this share of the time in which nobody needs the machine.
SHARE = 0.2
_HOUR = 3600.0


@attrs.define(eq=False, repr=False, slots=False)
class LineReplay:
    """Follows what the user types and, when all is idle, completes finished lines one after the other."""

    _connection: Connection
    _completions: Completions
    _recorder: FeedbackRecorder
    _admission: Admission
    _status: Status
    _summaries: SummaryRequests
    _typed: TypedLines
    _idle: Idle
    _pace: Pace
    _events: Events
    _clock: Clock = time.monotonic

    def __attrs_post_init__(self) -> None:
        self._asked: deque[float] = deque()  # when, in the last hour
        self._idle.run("replay", self._replay)
        self._events.on(on.DocumentOpened, self._opened)
        self._events.on(on.DocumentChanged, self._changed)
        self._events.on(on.CompletionRequested, self._requested)
        self._events.on(
            on.SuggestionShown,
            lambda one: self._typed.shown(
                one.uri, one.completion.cursor.own_line, one.completion.present_line, one.below
            ),
        )
        self._events.on(on.DocumentSaved, self._saved)
        self._events.on(on.DocumentClosed, lambda one: self._typed.closed(one.uri))
        self._events.on(on.SettingsChanged, lambda _: self._settings_changed())

    def _opened(self, opened: on.DocumentOpened) -> None:
        if self._admission.replays:
            self._typed.opened(opened.document.uri, opened.lines)

    def _changed(self, changed: on.DocumentChanged) -> None:
        if self._admission.replays and changed.changes.all:
            self._typed.changed(
                changed.document.uri,
                changed.lines,
                changed.changes.region,
                old=changed.changes.old,
                typed=changed.typed,
                changes=len(changed.changes.all),
                now=self._clock(),
            )

    def _saved(self, saved: on.DocumentSaved) -> None:
        if saved.by_hand:
            self._typed.saved(saved.uri, self._clock())

    def _requested(self, requested: on.CompletionRequested) -> None:
        self._typed.requested(requested.uri, requested.cursor.own_line, self._clock())

    def _settings_changed(self) -> None:
        """Where it is forbidden, nothing is kept."""
        if not self._admission.replays:
            self._idle.stop("replay")
            self._typed.clear()

    def _seconds_to_wait(self) -> float | None:
        """Until a line can be replayed; None if there is none, before something happens."""
        waiting = self._typed.waiting() if self._admission.replays else []
        if not waiting:
            return None
        now = self._clock()
        wait = max(min(one.ready_at for one in waiting) - now, 0.0)
        while self._asked and self._asked[0] + _HOUR <= now:
            self._asked.popleft()
        if len(self._asked) >= self._pace.lines_an_hour:
            wait = max(wait, self._asked[0] + _HOUR - now)
        return wait

    async def _replay(self) -> float | None:
        """Replay a line that is ready; the seconds until the next one, None if there is none."""
        wait = self._seconds_to_wait()
        if wait is None or wait > 0:
            return wait
        found = self._next()
        took = None if found is None else await self._replayed(found)
        if took is None:
            return self._pace.retry
        wait = self._seconds_to_wait()
        return None if wait is None else max(took * (1 / SHARE - 1), wait)

    def _next(self) -> FinishedLine | None:
        """A line that is ready, in a document in which it can be replayed now."""
        now = self._clock()
        return next(
            (one for one in self._typed.waiting() if one.ready_at <= now and self._goes(one.uri)), None
        )

    def _goes(self, uri: str) -> bool:
        # Idle work loads no model, and waits while the model works for another window or on a summary.
        is_free = self._status.state is EngineState.READY and not self._summaries.is_busy
        return is_free and self._admission.may_replay(uri)

    async def _replayed(self, found: FinishedLine) -> float | None:
        """Replay a line; the seconds that it took, None if the model could not be asked."""
        begun = self._clock()
        document = self._connection.open_document(found.uri)
        cursor = None if document is None else await _cursor_in(found, document)
        if document is None or cursor is None:
            self._typed.take(found)
            return 0.0
        self._asked.append(begun)
        try:
            outcome = await self._completions.replay(document, cursor)
        except LspCalibError as error:
            logger.debug("A line could not be replayed: %s", error)
            return None
        if self._typed.take(found) and isinstance(outcome, Completion) and outcome.evidence.logprobs:
            correct = same_line(found.text, outcome.expected_line)
            self._recorder.replayed(document, outcome, found.text, correct, time.time())
            self._status.replayed(correct=correct)
            self._events.send(on.LabelsRecorded(1))
        return self._clock() - begun


async def _cursor_in(found: FinishedLine, document: CalibDocument) -> Cursor | None:
    """A place in a line, drawn for it; None in comments, documentation and commands of notebooks, which the
    shipped calibrators have not seen, and in data."""
    language, own = document.language, found.lines
    lines, first = document.in_its_text(own)
    line = first + found.line
    is_command = isinstance(lines[line], CommandLine)
    if is_command or found.line in await asyncio.to_thread(prose_lines, own, language):
        return None
    _, column = drawn_place(found.text, random.Random(found.draw))
    cursor = Cursor.at(lines, line, 0, language, first).in_line(found.text[:column], column)
    return None if in_data(cursor) else cursor
