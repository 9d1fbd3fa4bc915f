"""A suggestion's way from request to label, and from labels to the next calibrator."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any

from lsp_calib.calibration.calibrators.calibrator_store import CalibratorStore
from lsp_calib.calibration.calibrators.purpose import Purpose
from lsp_calib.calibration.policies.ledger import Promise
from lsp_calib.completion import Completion, Cursor
from lsp_calib.feedback.events import Event
from lsp_calib.feedback.learning import Refits
from lsp_calib.server.feedback_recorder import FeedbackRecorder
from lsp_calib.server.suggestion_tracking import SuggestionTracking
from lsp_calib.values import CalibratorRef, Suggestion


class SuggestionLifecycle:
    """Line suggestions: requested, shown, followed until they are settled, refitted on.

    recorder: keeps the events, and refits on their labels.
    calibrators: where a refit puts its calibrators.
    lines: the lines of an open document without their ends; None if it is not open.
    purpose: of completions by the loaded model; raises LspCalibError if there is none.
    on_requested: called before each request is made.
    on_shown: called with each suggestion that is about to be shown, again if it is shown again.
    on_place: called with the URI and the line where it is shown, and how many lines below it shows as well.
    on_outdated: called with the URI of each document that changed before its suggestion could be shown.
    on_marks_changed: called with the URI of each document whose inserted suggestions have changed.
    on_inserted: called with the URI and the line of each suggestion that a change has inserted.
    on_refitted: called with the calibrator that a refit has put in force.
    on_labelled: called with the number of new labels. promise: what the tiers promise now; None: nothing.
    """

    def __init__(
        self,
        recorder: FeedbackRecorder,
        calibrators: CalibratorStore,
        *,
        lines: Callable[[str], Sequence[str] | None],
        purpose: Callable[[], Awaitable[Purpose]],
        on_requested: Callable[[], None],
        on_shown: Callable[[Suggestion], None],
        on_outdated: Callable[[str], None],
        on_marks_changed: Callable[[str], None],
        on_refitted: Callable[[CalibratorRef], None],
        on_inserted: Callable[[str, int], None] = lambda *_: None,
        on_labelled: Callable[[int], None] = lambda _: None,
        on_place: Callable[[str, int, int], None] = lambda *_: None,
        promise: Callable[[], Promise | None] = lambda: None,
    ) -> None:
        self.tracking = SuggestionTracking(
            lines,
            on_first_shown=recorder.shown,
            on_events=self._record,
            on_marks_changed=on_marks_changed,
            on_inserted=on_inserted,
        )
        self._recorder = recorder
        self._calibrators = calibrators
        self._purpose = purpose
        self._on_requested = on_requested
        self._on_shown = on_shown
        self._on_place = on_place
        self._on_outdated = on_outdated
        self._on_refitted = on_refitted
        self._on_labelled = on_labelled
        self._promise = promise
        self._closed = False

    def requested(self, uri: str, cursor: Cursor) -> None:
        """The editor requests a completion; the model may not be needed for it."""
        self._on_requested()
        self.tracking.requested(uri, cursor.line)

    def shown(self, uri: str, completion: Completion, block: Suggestion | None = None) -> bool:
        """Follow a suggestion that is about to be shown; False if it must not be shown any more.

        block: what is shown, where the completion is only its first line.
        """
        if self._closed:
            return False
        if not self.tracking.shown(uri, completion):
            self._on_outdated(uri)
            return False
        self._on_shown(completion.suggestion)
        self._on_place(uri, completion.cursor.line, block.text.count("\n") if block else 0)
        return True

    async def hinted(self, kind: str, suggestion_id: str) -> None:
        """Keep the editor's report on a suggestion, "accepted" or "rejected"; on disk when this returns.

        It is no more than a hint: the label comes from the document. Raises LspCalibError.
        """
        await self._recorder.hint(kind, suggestion_id)

    def settle(self, uris: Iterable[str]) -> None:
        """Settle the suggestions in these documents, and show no more: the editor is shutting down."""
        self.tracking.close(uris)
        self._closed = True

    async def refit(self) -> dict[str, Any]:
        """Refit the calibrators of the loaded model on the labels so far, each language on its own.

        Returns the result as it goes to the client. Raises LspCalibError.
        """
        refits = await self._recorder.refit(self._calibrators, await self._purpose(), self._promise())
        self._refitted(refits)
        return refits.to_wire()

    async def refit_where_due(self) -> list[str]:
        """Refit in the languages where enough is new; a sentence for each. Raises LspCalibError."""
        purpose = await self._purpose()
        refits = await self._recorder.refit_where_due(self._calibrators, purpose, self._promise())
        if refits is None:
            return []
        self._refitted(refits)
        return list(refits.sentences())

    def _refitted(self, refits: Refits) -> None:
        _, result = refits.leading
        if result.calibrator is not None:
            self._on_refitted(result.calibrator.ref)

    def _record(self, events: Sequence[Event]) -> None:
        self._recorder.record(events)
        labels = sum(event.label is not None and event.label.correct is not None for event in events)
        if labels:
            self._on_labelled(labels)
