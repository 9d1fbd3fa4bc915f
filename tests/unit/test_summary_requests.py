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
from lsp_calib.summarization import Example, Summary
from lsp_calib.values import Evidence, ModelIdentity, Tier

EXAMPLE = Example("a.py", "g", "def g(): pass", "Do it.")
FUNCTION: Any = SimpleNamespace(code="def f(): pass", name="f")
OTHER: Any = SimpleNamespace(code="def g(): pass", name="g")
MODEL = ModelIdentity("m", "Q4", "0" * 64)


@attrs.define
class Service:
    """Answers once `go` is set."""

    go: asyncio.Event = attrs.field(factory=asyncio.Event)
    made: int = 0
    examples: Sequence[Example] = ()
    fails: bool = False

    async def summarize(
        self,
        _function: Any,
        language: str,
        _priority: object,
        *,
        examples: Sequence[Example],
        seed: int | None = None,
    ) -> Any:
        self.examples = examples
        await self.go.wait()
        self.made += 1
        if self.fails:
            raise EngineError("The model is gone.")
        text = "Do nothing." if seed is None else f"Wording {seed}."
        return Summary(suggestion(text, str(self.made)), Evidence((-0.1,)), MODEL, "v", language)

    def assessed_again(self, summary: Summary) -> Summary:
        again = attrs.evolve(summary.suggestion.confidence, tier=Tier.ACCEPT)
        return attrs.evolve(summary, suggestion=attrs.evolve(summary.suggestion, confidence=again))


def requests(
    service: Any, made: list[str], *, admits: bool = True, known: list[None] | None = None
) -> SummaryRequests:
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
        on_known=lambda: None if known is None else known.append(None),
    )


async def _identity(asked: SummaryRequests, *, patience: float = 5.0) -> str | None:
    summary = await asked.of(URI, FUNCTION, "python", patience=patience)
    return summary if summary is None or isinstance(summary, str) else summary.id


async def test_a_summary_is_made_once_and_remembered() -> None:
    service, made = Service(), list[str]()
    asked = requests(service, made)
    assert await _identity(asked, patience=0) == "pending"
    service.go.set()
    assert await asyncio.gather(_identity(asked), _identity(asked)) == ["1", "1"]
    assert await _identity(asked) == "1"
    assert made == ["1"]


async def test_a_new_policy_gives_what_is_remembered_another_tier() -> None:
    service, made, known = Service(), list[str](), list[None]()
    service.go.set()
    asked = requests(service, made, known=known)
    await _identity(asked)
    asked.assess_again()
    summary = asked.known(FUNCTION, "python")
    assert summary is not None
    assert summary.suggestion.confidence.tier is Tier.ACCEPT
    assert service.made == 1
    assert len(known) == 2, "once when it was made, once when its tier changed"


async def test_each_model_has_its_own() -> None:
    """After a restart with another model, and back."""
    service = Service()
    service.go.set()
    asked = requests(service, [])
    await _identity(asked)
    asked.loaded(ModelIdentity("n", "Q4", "1" * 64))
    assert asked.known(FUNCTION, "python") is None
    asked.loaded(MODEL)
    assert asked.known(FUNCTION, "python") is not None
    assert asked.known(FUNCTION, "go") is None
    assert asked.known(OTHER, "python") is None


async def test_keys_tell_nothing_of_the_code() -> None:
    """Each connection has its own secret: a digest of known code leads to nothing."""
    service = Service()
    service.go.set()
    first, second = requests(service, []), requests(service, [])
    await _identity(first)
    await _identity(second)
    assert set(first._known).isdisjoint(second._known)


async def test_idle_work_gives_way_unless_somebody_asked_for_it_meanwhile() -> None:
    service = Service()
    asked = requests(service, [])
    idle = asyncio.create_task(asked.prepare(URI, FUNCTION, "python"))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    asked.give_way()
    await idle
    assert service.made == 0
    idle = asyncio.create_task(asked.prepare(URI, OTHER, "python"))
    await asyncio.sleep(0)
    assert await asked.of(URI, OTHER, "python", patience=0) == "pending"
    asked.give_way()
    service.go.set()
    await idle
    assert service.made == 1


async def test_each_rewording_is_another_one_and_takes_the_place() -> None:
    service = Service()
    service.go.set()
    asked = requests(service, [])
    await _identity(asked)
    for wanted in ("Wording 1.", "Wording 2."):
        made = await asked.reword(URI, FUNCTION, "python")
        assert made is not None
        assert made.text == wanted
    known = asked.known(FUNCTION, "python")
    assert known is not None
    assert known.suggestion.text == "Wording 2."


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
