"""Which of several concurrent requests is answered."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import attrs
import pytest
from feedback_scene import suggestion

from lsp_calib.completion.context import Cursor
from lsp_calib.completion.reasons import Nothing, Refusal
from lsp_calib.completion.service import Completion
from lsp_calib.server.completion import Completions, Outcome
from lsp_calib.server.documents import CalibDocument
from lsp_calib.server.messages import ProgressBar
from lsp_calib.settings import Settings
from lsp_calib.values import Evidence, ModelIdentity, Timing

URI = "file:///a.py"
DOCUMENT = CalibDocument(URI, "", language_id="python")


class Service:
    """Answers once `go` is set: with a text that is the same for the same line number."""

    def __init__(self, text: str = "x") -> None:
        self.text = text
        self.go = asyncio.Event()
        self.asked: list[int] = []
        self.cancelled: list[int] = []

    async def complete(
        self,
        cursor: Cursor,
        *,
        document: str,
        hide_below: float | None,
        lead: str,
        timed: Callable[[Timing], object],
    ) -> Completion:
        assert (document, hide_below, lead) == (URI, 0.0, "")
        self.asked.append(cursor.column)
        try:
            await self.go.wait()
        except asyncio.CancelledError:
            self.cancelled.append(cursor.column)
            raise
        timed(Timing())
        made = attrs.evolve(suggestion("x", f"at {cursor.line}"), text=self.text)
        return Completion(made, cursor, Evidence((-0.1,)), ModelIdentity("m", "", ""), "p1")

    async def keeps_out(self, _cursor: Cursor, wanted: bool | None, *, document: str) -> bool:
        return wanted is not True or document != URI

    def typed_along(self, known: Completion, _typed: int, *, refuted: float, document: str) -> Completion:
        assert (document, refuted) == (URI, 0.0)
        return known

    def key(self, _document: str, cursor: Cursor, _loaded: object) -> bytes:
        return repr((tuple(cursor.lines), cursor.line, cursor.column)).encode()

    def forget(self, _document: str) -> None:
        pass


class Admission:
    """Refuses nothing."""

    async def refusal(self, _document: CalibDocument, _patience: float | None, **_: str | None) -> None:
        return None


def requests(
    service: Any,
    settled: Callable[[str], bool] = lambda _: False,
    *,
    is_loaded_again: bool = False,
    **waits: float,
) -> Completions:
    connection: Any = SimpleNamespace(settings=Settings(prefetch=False, hide_below=0.0, comments="on"))
    tracking: Any = SimpleNamespace(
        is_elsewhere=lambda *_: False,
        is_settled=settled,
        refused=SimpleNamespace(refuses=lambda *_, **__: False),
        shown=lambda *_: True,
    )
    status: Any = SimpleNamespace(loads_again=is_loaded_again, withheld=lambda _: None, made=lambda *_: None)
    return Completions(
        *(connection, cast(Any, SimpleNamespace(loaded=object())), cast(Any, None)),
        admission=cast(Any, Admission()),
        status=status,
        tracking=tracking,
        recorder=cast(Any, SimpleNamespace(withheld=lambda _: None, cut=lambda _: None)),
        progress=ProgressBar(None),
        asked=lambda *_: None,
        service=service,
        **waits,
    )


def text_of(outcome: Outcome) -> str:
    assert isinstance(outcome, Completion)
    return outcome.suggestion.text


def why(outcome: Outcome) -> object:
    assert isinstance(outcome, Nothing)
    return outcome.why


async def ready(asked: Completions) -> None:
    """Until the reply is made, and the request that waits for it has not yet received it."""
    while URI not in asked._running or not asked._running[URI][1].done():
        await asyncio.sleep(0)


async def test_a_reply_is_not_delivered_after_a_request_at_another_place() -> None:
    """The editor would discard a reply for the old place, and it would count as shown."""
    service = Service()
    asked = requests(service)
    lines = ("a", "b")
    first = asyncio.create_task(asked.newest(DOCUMENT, Cursor.at(lines, 0, 1, "python")))
    await asyncio.sleep(0)
    service.go.set()
    await ready(asked)
    second = asyncio.create_task(asked.newest(DOCUMENT, Cursor.at(lines, 1, 1, "python")))
    assert why(await first) is Refusal.SUPERSEDED
    answer = await second
    assert isinstance(answer, Completion)
    assert answer.suggestion.id == "at 1"


async def test_while_the_model_is_loaded_again_a_request_is_answered_with_the_reason() -> None:
    """And the completion is there for the next request in the same place."""
    service = Service()
    asked = requests(service, is_loaded_again=True, loads_again=0.05)
    cursor = Cursor.at(("a", "b"), 0, 1, "python")
    told = await asyncio.wait_for(asked.newest(DOCUMENT, cursor), 10)
    assert told == asked.last(URI).nothing == Nothing(Refusal.LOADING)  # type: ignore[union-attr]
    service.go.set()
    await ready(asked)
    assert text_of(await asked.newest(DOCUMENT, cursor)) == "x"
    assert asked.last(URI).nothing is None  # type: ignore[union-attr]
    assert service.cancelled == []


async def test_a_request_after_one_that_is_being_cancelled_is_answered() -> None:
    """As when the user asks by hand while the editor's own request is under way. A remote server's connection
    takes a moment to close."""

    class Slow(Service):
        async def complete(self, cursor: Cursor, **how: Any) -> Completion:
            try:
                return await super().complete(cursor, **how)
            except asyncio.CancelledError:
                await asyncio.sleep(0.01)
                raise

    service = Slow()
    asked = requests(service)
    cursor = Cursor.at(("a", "b"), 0, 1, "python")
    first = asyncio.create_task(asked.newest(DOCUMENT, cursor))
    while not service.asked:
        await asyncio.sleep(0)
    first.cancel()
    await asyncio.sleep(0)
    second = asyncio.create_task(asked.newest(DOCUMENT, cursor, by_hand=True))
    await asyncio.sleep(0.03)
    service.go.set()
    assert text_of(await second) == "x"


class TestPause:
    """A request leaves the model for a moment to the one that it supersedes."""

    FIRST = Cursor.at(("a",), 0, 1, "python")
    SECOND = Cursor.at(("af",), 0, 2, "python")
    THIRD = Cursor.at(("afo",), 0, 3, "python")

    async def started(self, asked: Completions, *cursors: Cursor, by_hand: bool = False) -> list[Any]:
        """Requests at these places, one after the other, each before the answer to the one before it."""
        tasks = []
        for cursor in cursors:
            tasks.append(asyncio.create_task(asked.newest(DOCUMENT, cursor, by_hand=by_hand)))
            for _ in range(5):
                await asyncio.sleep(0)
        return tasks

    async def test_what_is_typed_along_meanwhile_is_not_asked_again(self) -> None:
        service = Service("foo(1)")
        asked = requests(service, busy_pause=30.0)
        first, second, third = await self.started(asked, self.FIRST, self.SECOND, self.THIRD)
        assert why(await first) is why(await second) is Refusal.SUPERSEDED, "answered at once"
        service.go.set()
        assert text_of(await third) == "o(1)"
        assert (service.asked, service.cancelled) == ([1], [])

    async def test_the_model_is_asked_after_the_pause(self) -> None:
        service = Service("other")
        asked = requests(service)
        first, second = await self.started(asked, self.FIRST, self.SECOND)
        assert why(await first) is Refusal.SUPERSEDED
        assert service.asked == [1]
        while len(service.asked) < 2:
            await asyncio.sleep(0.001)
        await asyncio.sleep(0)
        assert service.cancelled == [1]
        service.go.set()
        assert text_of(await second) == "other"

    async def test_an_answer_that_does_not_fit_is_no_reason_to_wait_on(self) -> None:
        service = Service("other")
        _, second = await self.started(requests(service, busy_pause=30.0), self.FIRST, self.SECOND)
        service.go.set()
        assert text_of(await second) == "other"
        assert service.asked == [1, 2]

    async def test_who_asks_by_hand_does_not_wait(self) -> None:
        service = Service("other")
        asked = requests(service, busy_pause=30.0)
        _, second = await self.started(asked, self.FIRST, self.SECOND, by_hand=True)
        while service.asked != [1, 2]:
            await asyncio.sleep(0.001)
        service.go.set()
        assert text_of(await second) == "other"

    @pytest.mark.parametrize("first_by_hand", [True, False])
    async def test_both_requests_at_one_place_are_answered(self, first_by_hand: bool) -> None:
        service = Service("other")
        service.go.set()
        asked = requests(service)
        answers = await asyncio.gather(
            asked.newest(DOCUMENT, self.FIRST, by_hand=first_by_hand),
            asked.newest(DOCUMENT, self.FIRST, by_hand=True),
        )
        assert list(map(text_of, answers)) == ["other", "other"]
        assert service.asked == [1]

    @pytest.mark.parametrize("how", ["cancel", "forget", "close", "stop"])
    async def test_whatever_ends_it_ends_the_work_before_it_as_well(self, how: str) -> None:
        service = Service()
        asked = requests(service, busy_pause=30.0)
        _, second = await self.started(asked, self.FIRST, self.SECOND)
        if how == "cancel":
            second.cancel()
        elif how == "forget":
            asked.forget(URI)
        elif how == "stop":
            asked.paused("Paused.")
        else:
            await asked.close()
        await asyncio.wait({second})
        for _ in range(3):
            await asyncio.sleep(0)
        assert service.cancelled == [1]
        assert not [task for task in asyncio.all_tasks() if "Completions._complete" in repr(task)]
