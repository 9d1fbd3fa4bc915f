"""An editor in miniature, for the tests of the tracker."""

from __future__ import annotations

from typing import Any, Self

import attrs

from lsp_calib.feedback.events import SETTLE_AFTER, Event, EventKind, How, Label
from lsp_calib.feedback.store import FeedbackStore
from lsp_calib.feedback.tracker import Tracker
from lsp_calib.values import CalibratorRef, Confidence, Evidence, ModelIdentity, Suggestion, Tier, Timing

URI = "file:///a.py"
MODEL = ModelIdentity("m", "Q8_0", "abc123")


def tier_of(p: float) -> Tier:
    return Tier.ACCEPT if p >= 0.78 else Tier.REVIEW if p >= 0.25 else Tier.REJECT


def suggestion(text: str, identity: str = "s", p: float = 0.5) -> Suggestion:
    confidence = Confidence(
        calibrated=p,
        raw=0.6,
        measure="geometric-mean-first-4",
        tier=tier_of(p),
        reason="",
        certified=False,
        calibrator=CalibratorRef("c", "prior", "learning", 0),
        first_tokens=4,
    )
    return Suggestion(identity, "line", text, confidence, "m", 3, "model", Timing())


def in_haste(store: FeedbackStore) -> FeedbackStore:
    """A store that does not wait for the disk: for hundreds of labels, where nothing is about a power cut."""
    store._connection.execute("PRAGMA synchronous = OFF")
    return store


def show(
    store: FeedbackStore,
    identity: str = "s",
    *,
    text: str = "x",
    rank: int = 1,
    model: ModelIdentity = MODEL,
    prompt: str = "p1",
    language: str = "python",
    at: float = 1000.0,
    logprobs: tuple[float, ...] = (-0.5,),
    features: dict[str, float] | None = None,
    place: str = "",
    doubtful: str = "",
    p: float = 0.5,
    **more: Any,
) -> None:
    """A suggestion is shown, as a store keeps it. more: as `FeedbackStore.record_shown` has it."""
    store.record_shown(
        attrs.evolve(suggestion(text, identity, p), rank=rank),
        model=model,
        prompt_version=prompt,
        language=language,
        evidence=Evidence(logprobs, features or {}, place, doubtful=doubtful),
        at=at,
        **more,
    )


def settle(store: FeedbackStore, identity: str, correct: bool, at: float, episode: str = "") -> None:
    """It is kept, or edited."""
    label = Label(identity, correct, How.KEPT if correct else How.EDITED, at, episode or identity)
    store.record_events([Event(identity, EventKind.SETTLED, at, label=label)])


def fill(
    store: FeedbackStore, n: int, at: float = 1000.0, *, logprobs: str = "", correct: int | None = None
) -> None:
    """As after n suggestions with their labels, but in one transaction.

    logprobs, correct: of all of them; by default all differ, and every other one is right.
    """
    put = store._connection.executemany
    rows = [(f"{k:016x}", at + k, logprobs or f"[-0.1{k:05}]") for k in range(n)]
    store._connection.execute("BEGIN")
    put(
        "INSERT INTO suggestions (id, shown_at, kind, language, model, model_sha256, prompt_version, "
        "calibrator_id, measure, tier, logprobs, features, features_version, place, shown_probability) "
        "VALUES (?1, ?2, 'line', 'python', 'm', 'abc123', 'p1', 'c', 'total', 'review', "
        "?3, '{}', 1, '', 1.0)",
        rows,
    )
    right = [k % 2 if correct is None else correct for k in range(n)]
    outcomes = [(name, y, when + 30) for y, (name, when, _) in zip(right, rows, strict=True)]
    put("INSERT INTO labels VALUES (?1, ?2, 'kept', ?3, ?1, ?3)", outcomes)
    for kind in ("shown", "settled"):
        events = [(name, kind, when) for name, when, _ in rows]
        put("INSERT INTO events (suggestion_id, kind, at, data) VALUES (?, ?, ?, '{}')", events)
    store._connection.execute("COMMIT")


class Editor:
    """A document, a clock, and a tracker that is told of every change; what is done can be told in a row."""

    def __init__(self, *lines: str) -> None:
        self.lines = list(lines)
        self.now = 1000.0
        self.tracker = Tracker()
        self.events: list[Event] = []

    def show(
        self, line: int, text: str, identity: str = "s", after: str = "", *, typed: int = 0, p: float = 0.5
    ) -> Self:
        """Show `text` at the end of a line, or before `after`, which ends it. typed: characters of the
        suggestion that were typed along, of which it is the rest. p: its probability now."""
        before = self.lines[line].removesuffix(after)
        expected = before + text.split("\n")[0] + after
        shown = suggestion(text, identity, p)
        self.events += self.tracker.shown(URI, self.lines, line, expected, shown, self.now, typed=typed)
        return self

    def wait(self, seconds: float) -> Self:
        """Let time pass as a server would: tick whenever it is due."""
        end = self.now + seconds
        while (due := self.tracker.deadline) is not None and due <= end:
            self.now = max(due, self.now)
            self.events += self.tracker.tick(self.now)
        self.now = end
        return self

    def become(self, *lines: str, after: float = 1.0) -> Self:
        self.wait(after)
        self.lines = list(lines)
        self.events += self.tracker.changed(URI, self.lines, self.now)
        return self

    def put(self, line: int, *new: str, after: float = 1.0) -> Self:
        """Replace one line by others (by none: delete it)."""
        return self.become(*self.lines[:line], *new, *self.lines[line + 1 :], after=after)

    def type(self, line: int, text: str, after: float = 0.2) -> Self:
        for character in text:
            self.put(line, self.lines[line] + character, after=after)
        return self

    def backspace(self, line: int, times: int) -> Self:
        for _ in range(times):
            self.put(line, self.lines[line][:-1], after=0.2)
        return self

    def look_at(self, line: int, after: float = 1.0) -> Self:
        """Go to a line, where the editor asks for a suggestion."""
        self.wait(after)
        self.events += self.tracker.requested(URI, line, self.now)
        return self

    def move_on(self) -> Self:
        """Edit the last line, and stay away."""
        return self.put(len(self.lines) - 1, self.lines[-1] + "#", after=2.0).wait(SETTLE_AFTER)

    def save(self) -> Self:
        self.events += self.tracker.saved(URI, self.now)
        return self

    def close(self) -> Self:
        self.events += self.tracker.closed(URI, self.now)
        self.events += self.tracker.finish(self.now)
        return self

    def labels(self) -> dict[str, Label]:
        """The label of each suggestion as it is now, settled or not."""
        found: dict[str, Label] = {}
        for event in self.events:
            assert (event.label is not None) == (event.kind in (EventKind.SETTLED, EventKind.PROVISIONAL))
            if (label := event.label) is not None:
                before = found.get(event.suggestion_id)
                assert before is None or not before.settled, "settled twice"
                assert label.settled or before is None or before != label, "revised without a reason"
                found[event.suggestion_id] = label
        return found

    def outcome(self, identity: str = "s") -> tuple[bool | None, How]:
        label = self.labels()[identity]
        return label.correct, label.how

    def kinds(self) -> list[EventKind]:
        return [event.kind for event in self.events]

    def marked(self) -> list[tuple[int, str]]:
        return [(line, one.id) for line, one in self.tracker.inserted(URI)]


def offered(before: str, *shown: str, **options: str) -> Editor:
    """With a suggestion at the end of the first of two lines."""
    editor = Editor(before, "")
    editor.show(0, *shown, **options)
    return editor


KEPT = (True, How.KEPT)
KEPT_IN_PARTS = (True, How.KEPT_IN_PARTS)
TYPED = (True, How.TYPED)
EDITED = (False, How.EDITED)
TAKEN_IN_PART = (False, How.TAKEN_IN_PART)
SUPERSEDED = (False, How.SUPERSEDED)
SUPERSEDED_UNKNOWN = (None, How.SUPERSEDED)
TYPED_OVER = (False, How.TYPED_OVER)
IGNORED = (False, How.IGNORED)
DELETED = (False, How.DELETED)
UNREAD = (None, How.UNREAD)
