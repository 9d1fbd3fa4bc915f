"""Which summaries are made again, and which are remembered."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import attrs
from feedback_scene import URI, suggestion

from lsp_calib.errors import EngineError
from lsp_calib.server.summary_requests import SummaryRequests
from lsp_calib.summarization import Example

EXAMPLE = Example("a.py", "g", "def g(): pass", "Do it.")
FUNCTION: Any = SimpleNamespace(code="def f(): pass")


@attrs.define
class Service:
    """Answers once `go` is set."""

    go: asyncio.Event = attrs.field(factory=asyncio.Event)
    made: int = 0
    examples: Sequence[Example] = ()
    fails: bool = False

    async def summarize(self, _function: object, _language: str, *, examples: Sequence[Example]) -> Any:
        self.examples = examples
        await self.go.wait()
        self.made += 1
        if self.fails:
            raise EngineError("The model is gone.")
        return SimpleNamespace(suggestion=suggestion("Do nothing.", str(self.made)))


def requests(service: Any, made: list[str], *, admits: bool = True) -> SummaryRequests:
    async def _admits(_uri: str) -> bool:
        return admits

    async def _examples(_uri: str, _function: object, _language: str) -> Sequence[Example]:
        return [EXAMPLE]

    return SummaryRequests(
        service,
        admits=_admits,
        examples_for=_examples,
        on_request=lambda: None,
        on_made=lambda one: made.append(one.id),
    )


async def _identity(asked: SummaryRequests, *, patience: float = 5.0) -> str | None:
    summary = await asked.of(URI, FUNCTION, "python", patience=patience)
    return summary if summary is None or isinstance(summary, str) else summary.id


async def test_a_summary_is_made_once_and_remembered_until_it_is_forgotten() -> None:
    service, made = Service(), list[str]()
    asked = requests(service, made)
    assert await _identity(asked, patience=0) == "pending"
    service.go.set()
    assert await asyncio.gather(_identity(asked), _identity(asked)) == ["1", "1"]
    assert await _identity(asked) == "1"
    asked.forget()
    assert await _identity(asked) == "2"
    assert made == ["1", "2"]
    assert service.examples == [EXAMPLE]


async def test_cancelling_a_request_does_not_cancel_the_summary() -> None:
    service, made = Service(), list[str]()
    asked = requests(service, made)
    hover = asyncio.create_task(_identity(asked))
    await asyncio.sleep(0.01)
    hover.cancel()
    service.go.set()
    assert await _identity(asked) == "1"
    assert service.made == 1


async def test_a_failure_is_not_remembered() -> None:
    service, made = Service(fails=True), list[str]()
    service.go.set()
    asked = requests(service, made)
    assert await _identity(asked) is None
    service.fails = False
    assert await _identity(asked) == "2"


async def test_an_excluded_document_gets_none() -> None:
    service, made = Service(), list[str]()
    assert await _identity(requests(service, made, admits=False)) is None
    assert service.made == 0


async def test_closing_cancels_what_is_being_made() -> None:
    service, made = Service(), list[str]()
    asked = requests(service, made)
    assert await _identity(asked, patience=0) == "pending"
    await asked.close()
    assert made == []
