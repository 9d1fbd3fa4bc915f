"""The readings of a bench, kept one by one, so that a stopped bench still has its readings."""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from lsp_calib.inference.models.cards import ModelCard
from lsp_calib.inference.process.wire import Stats
from lsp_calib.tools.bench.cancel import Cancelled, CancelNotes
from lsp_calib.tools.bench.comparisons import LongFile, LongFileNotes, Two, TwoNotes
from lsp_calib.tools.bench.idle import Idle
from lsp_calib.tools.bench.peer import PeerPass, PeerReading
from lsp_calib.tools.bench.stopping import Stopped
from lsp_calib.tools.bench.summaries import SummariesNotes
from lsp_calib.tools.bench.typing_on import Burst, TypedOn, typed_on
from lsp_calib.tools.bench.typist import Reading
from lsp_calib.tools.bench.under_load import Beside, BesideNotes


@attrs.frozen
class Measured:
    """All readings. missing: parts that were not measured, with reasons. stopped: None if it ran to its end.

    Parts that were not begun are None or empty. stats, engine, start_ms: of the server of the main part.
    """

    card: ModelCard
    stats: Stats | None = None
    engine: str | None = None
    start_ms: float | None = None
    readings: tuple[Reading, ...] = ()
    idle: Idle | None = None
    cancelled: Cancelled | None = None
    typed_on: TypedOn | None = None
    long_file: LongFile | None = None
    two: Two | None = None
    peer: PeerPass | None = None
    beside: Beside | None = None
    summaries: SummariesNotes | None = None
    missing: dict[str, str] = attrs.field(factory=dict)
    stopped: Stopped | None = None
    seconds: float = 0.0

    @property
    def empty(self) -> bool:
        """Whether there is no reading that a report could show."""
        parts = (
            *(self.idle, self.cancelled, self.typed_on, self.long_file),
            *(self.two, self.peer, self.beside, self.summaries),
        )
        return not self.readings and all(part is None for part in parts)


@attrs.define
class Notes:
    """The readings so far. Each part adds its own; `measured` makes values of them."""

    stats: Stats | None = None
    engine: str | None = None
    start_ms: float | None = None
    readings: list[Reading] = attrs.field(factory=list)
    idle: Idle | None = None
    cancelled: CancelNotes = attrs.field(factory=CancelNotes)
    bursts: list[Burst] = attrs.field(factory=list)
    long_file: LongFileNotes = attrs.field(factory=LongFileNotes)
    two: TwoNotes = attrs.field(factory=TwoNotes)
    description: dict[str, object] = attrs.field(factory=dict)
    against: list[PeerReading] = attrs.field(factory=list)
    beside: BesideNotes = attrs.field(factory=BesideNotes)
    summaries: SummariesNotes = attrs.field(factory=SummariesNotes)
    missing: dict[str, str] = attrs.field(factory=dict)

    def measured(
        self, card: ModelCard, stopped: Stopped | None, unfinished: Sequence[str], seconds: float
    ) -> Measured:
        """unfinished: the parts that were cut short or not begun when it was stopped."""
        # A part that was cut short may still have readings.
        words = (
            dict.fromkeys(unfinished, f"the bench was stopped {stopped.words} before this was finished")
            if stopped
            else {}
        )
        return Measured(
            card=card,
            stats=self.stats or self.beside.stats,
            engine=self.engine or self.beside.engine,
            start_ms=self.start_ms,
            readings=tuple(self.readings),
            idle=self.idle,
            cancelled=self.cancelled.values(),
            typed_on=typed_on(self.bursts),
            long_file=self.long_file.values(),
            two=self.two.values(),
            peer=PeerPass(self.description, tuple(self.against)) if self.against else None,
            beside=self.beside.values(),
            summaries=None if self.summaries.empty else self.summaries,
            missing={**words, **self.missing},
            stopped=stopped,
            seconds=seconds,
        )
