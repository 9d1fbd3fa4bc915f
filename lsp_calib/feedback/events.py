"""Events of a suggestion (`Event`) and its outcome (`Label`).

Neither can carry source text: an event's data are numbers and truth values only, checked when it is made.
Times are seconds of the caller's clock; the store holds Unix time.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Any, Self

import attrs

from lsp_calib.values import Suggestion, Tier

# A suggestion is settled after this many seconds without a change to its line, once the user has moved on.
SETTLE_AFTER = 30.0
# A suggestion shown for fewer seconds cannot have been read: leaving it is no evidence against it.
UNREAD_BELOW = 0.75
# Seconds within which editors send what is one action to the user in several messages: Neovim, which collects
# changes for 150 ms, the copy of a line that it moves before the removal of the line.
TOGETHER = 0.5
# Seconds after insertion at which it is recorded what still stands of the suggestion.
SURVIVAL = (30, 120, 300, 600)


class EventKind(enum.StrEnum):
    """The kind of an event."""

    SHOWN = "shown"
    INSERTED = "inserted"  # one change turned the line into the suggested one
    CHANGED = "changed"  # the line had been inserted and is no longer as suggested
    SURVIVED = "survived"  # a fixed time after the insertion: what still stands of it?
    PROVISIONAL = "provisional"  # a save: carries a label, which an edit of the line soon after revises
    SETTLED = "settled"  # carries the label
    ACCEPTED = "accepted"  # the editor said so
    REJECTED = "rejected"  # the user said so
    REVIEWED = "reviewed"  # the user said so
    WITHHELD = "withheld"  # an answer of which nothing was offered, and so nothing shown
    CUT = "cut"  # its end was not offered


class By(enum.Enum):
    """Who has changed a document."""

    USER = enum.auto()  # by hand, as far as can be told: by typing, pasting, undoing
    PROGRAM = enum.auto()  # by its shape nobody has done it by hand; an editor may have, on Tab
    FILE = enum.auto()  # the document is what another program has written into its file


class How(enum.StrEnum):
    """How a suggestion came to its label.

    Those of `RIGHT` are correct, those of `UNKNOWN` are no label at all, and `SUPERSEDED` is none where the
    line is as it was; the others are not correct.
    """

    KEPT = "kept"  # inserted in one change, and the line is as suggested
    KEPT_IN_PARTS = "kept in parts"  # a part of it was inserted, then the rest came; the line is as suggested
    TYPED = "typed"  # the line is as suggested, but the user typed it
    EDITED = "edited"  # all of it was inserted, and the line is not as suggested, or is gone
    TAKEN_IN_PART = "taken in part"  # a part of it was inserted; the line became another, or is gone
    SUPERSEDED = "superseded"  # another took its place before it could be read; the line is not as suggested
    TYPED_OVER = "typed over"  # never inserted; the line became another
    IGNORED = "ignored"  # the line is as it was when the suggestion was shown
    DELETED = "deleted"  # never inserted; the line is gone
    UNREAD = "unread"  # as ignored or deleted, but nobody can have read it
    REPORTED = "reported"  # the user said that it is wrong
    LOST = "lost"  # so much changed at once that the line could not be found again
    OVERWRITTEN = "overwritten"  # a program took the line out, or made another one of it
    DISCARDED = "discarded"  # its document was closed, and the line is not in what was saved


RIGHT = frozenset({How.KEPT, How.KEPT_IN_PARTS, How.TYPED})
"""The line is as suggested."""

UNKNOWN = frozenset({How.UNREAD, How.LOST, How.OVERWRITTEN, How.DISCARDED})
"""What the user would have kept is not known."""


TYPED = (0, 1, 5, 9, 15)
"""Where ranges of characters typed along begin: what is promised is looked at in each of them."""


@attrs.frozen
class Moment:
    """What was shown of a suggestion at one time.

    typed: characters of it that were typed along by then. confidence: its probability given these, in [0, 1];
    None if there was none.
    """

    typed: int
    confidence: float | None
    tier: Tier

    @classmethod
    def of(cls, suggestion: Suggestion, typed: int) -> Self:
        return cls(typed, suggestion.confidence.calibrated, suggestion.confidence.tier)

    @property
    def typed_range(self) -> int:
        """The range of `TYPED` that it lies in, from 0.

        >>> [Moment(typed, 0.5, Tier.REVIEW).typed_range for typed in (0, 4, 5, 40)]
        [0, 1, 2, 4]
        """
        return sum(self.typed >= begin for begin in TYPED) - 1


@attrs.frozen
class Label:
    """The outcome of a suggestion.

    correct: whether the line ended up as suggested; None if that says nothing about the suggestion.
    at: when it became known, in seconds.
    episode: the visit to the line during which it was shown, named after the first suggestion of that visit.
        Labels of one episode describe one line and are not independent. By default each label has its own
        episode.
    settled: False for one that a save has made, and that an edit of the line soon after revises.
    """

    suggestion_id: str
    correct: bool | None
    how: How
    at: float
    episode: str = attrs.field(default=attrs.Factory(lambda label: label.suggestion_id, takes_self=True))
    settled: bool = True


def _numbers_only(_event: object, _attribute: object, data: Mapping[str, Any]) -> None:
    for key, value in data.items():
        if not isinstance(value, (bool, int, float)):
            raise TypeError(
                f"event data holds numbers and truth values only, not {key}={type(value).__name__}"
            )


@attrs.frozen
class Event:
    """One thing that happened to a suggestion.

    at: when, in seconds.
    data: `shownProbability`, in (0, 1] (shown): below 1 for a suggestion that was to be hidden;
    `sureConfidence`, of the part that can be trusted (shown), and `sureRight`, whether the line came to begin
    with that (provisional, settled), where there is one; `seconds` since showing
    (inserted) or since insertion (changed, survived); `unchanged`, and `distance`, of what was
    accepted to what stands, over its length, in [0, 1] (survived); the reason, with the value 1 (withheld,
    cut).
    label: only on a provisional and on a settled event.
    moments, accepted: on these and on an inserted event, the moments of the suggestion: see `news` and
    `accepted` of `tracked.Moments`.
    Raises TypeError if `data` holds anything but numbers and truth values.
    """

    suggestion_id: str
    kind: EventKind
    at: float
    data: Mapping[str, bool | int | float] = attrs.field(factory=dict, validator=_numbers_only)
    label: Label | None = None
    moments: tuple[Moment, ...] = ()
    accepted: Moment | None = None
