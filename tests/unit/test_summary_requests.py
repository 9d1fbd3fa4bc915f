"""Which summaries are made again, and which are remembered; and of which functions."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import attrs
import pytest
from feedback_scene import URI, suggestion
from lsprotocol import types
from pygls.workspace import PositionCodec

from lsp_calib.server import summaries
from lsp_calib.server.documents import CalibDocument
from lsp_calib.server.summaries import SummaryRequests, Target, functions_of, parse
from lsp_calib.summarization.examples import Example
from lsp_calib.summarization.service import Summary
from lsp_calib.values import Evidence, ModelIdentity

EXAMPLE = Example("a.py", "g", "def g(): pass", "Do it.")
FUNCTION: Any = SimpleNamespace(code="def f(): pass", name="f")
OTHER: Any = SimpleNamespace(code="def g(): pass", name="g")
MODEL = ModelIdentity("m", "Q4", "0" * 64)


def target(function: Any, language: str = "python", uri: str = URI) -> Target:
    return Target(SimpleNamespace(uri=uri), function, language, SimpleNamespace())  # type: ignore[arg-type]


@attrs.define
class Service:
    """Answers at once, or once `go` is set."""

    go: asyncio.Event = attrs.field(factory=asyncio.Event)
    made: int = 0
    examples: Sequence[Example] = ()
    has_nothing: bool = False

    async def summarize(
        self,
        _function: Any,
        language: str,
        _priority: object,
        *,
        examples: Sequence[Example],
        seed: int | None = None,
        document: str = "",
    ) -> Any:
        self.examples = examples
        await self.go.wait()
        self.made += 1
        if self.has_nothing:
            return None
        text = "Do nothing." if seed is None else f"Wording {seed}."
        return Summary(
            suggestion(text, str(self.made)), Evidence((-0.1,)), MODEL, "v", language, "", document
        )


def at_once(**options: Any) -> Service:
    service = Service(**options)
    service.go.set()
    return service


def requests(service: Any, made: list[str]) -> SummaryRequests:
    async def _admits(_document: object) -> bool:
        return True

    async def _offered() -> bool:
        return True

    async def _examples(_target: Target) -> Sequence[Example]:
        return [EXAMPLE]

    admission: Any = SimpleNamespace(admits=_admits)
    return SummaryRequests(
        service,
        offered=_offered,
        admission=admission,
        examples_for=_examples,
        reload=lambda: None,
        made=lambda one: made.append(one.id),
        known_anew=lambda: None,
    )


async def _identity(asked: SummaryRequests, *, patience: float = 5.0) -> str | None:
    summary = await asked.of(target(FUNCTION), patience=patience)
    return summary if summary is None or isinstance(summary, str) else summary.id


async def test_each_model_has_its_own() -> None:
    """After a restart with another model, and back."""
    service = at_once()
    asked = requests(service, [])
    await _identity(asked)
    asked.loaded(ModelIdentity("n", "Q4", "1" * 64))
    assert asked.known(target(FUNCTION)) is None
    asked.loaded(MODEL)
    assert asked.known(target(FUNCTION)) is not None
    assert asked.known(target(FUNCTION, "go")) is None
    assert asked.known(target(OTHER)) is None


async def test_keys_tell_nothing_of_the_code() -> None:
    """Each connection has its own secret: a digest of known code leads to nothing."""
    service = at_once()
    first, second = requests(service, []), requests(service, [])
    await _identity(first)
    await _identity(second)
    assert set(first._known).isdisjoint(second._known)


async def test_each_rewording_is_another_one_and_takes_the_place() -> None:
    service = at_once()
    asked = requests(service, [])
    await _identity(asked)
    for wanted in ("Wording 1.", "Wording 2."):
        made = await asked.reword(target(FUNCTION))
        assert made is not None
        assert made.text == wanted
    known = asked.known(target(FUNCTION))
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


async def test_closing_cancels_what_is_being_made() -> None:
    service, made = Service(), list[str]()
    asked = requests(service, made)
    assert await _identity(asked, patience=0) == "pending"
    await asked.close()
    assert made == []


async def test_asking_for_other_words_twice_at_once_gives_the_same() -> None:
    service = Service()
    asked = requests(service, [])
    both = [asyncio.create_task(asked.reword(target(FUNCTION))) for _ in range(2)]
    await asyncio.sleep(0.01)
    service.go.set()
    assert [one and one.text for one in await asyncio.gather(*both)] == ["Wording 1.", "Wording 1."]
    assert service.made == 1


async def test_a_function_of_which_the_model_says_nothing_is_asked_for_once() -> None:
    service = at_once(has_nothing=True)
    asked = requests(service, [])
    asked.loaded(MODEL)
    for _ in range(3):
        await asked.prepare(target(FUNCTION))
        assert await _identity(asked) is None
    assert service.made == 1
    asked.loaded(ModelIdentity("n", "Q4", "1" * 64))
    assert await _identity(asked) is None
    assert service.made == 2, "another model may have something to say"


async def test_each_document_has_its_own() -> None:
    """Tiers may be stricter in one of them."""
    service = at_once()
    asked = requests(service, [])
    await _identity(asked)
    assert asked.known(target(FUNCTION, uri="file:///other.py")) is None
    await asked.of(target(FUNCTION, uri="file:///other.py"))
    known = asked.known(target(FUNCTION, uri="file:///other.py"))
    assert known is not None
    assert known.document == "file:///other.py"


def document(text: str, language: str = "python") -> CalibDocument:
    return CalibDocument(
        "file:///module.py",
        source=text,
        version=1,
        language_id=language,
        sync_kind=types.TextDocumentSyncKind.Incremental,
        position_codec=PositionCodec(types.PositionEncodingKind.Utf32),
    )


def type_above(changed: CalibDocument, text: str) -> None:
    start = types.Position(0, 0)
    changed.apply_change(types.TextDocumentContentChangePartial(types.Range(start, start), text))


async def test_each_version_is_parsed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    parsed = []
    real = summaries.functions
    monkeypatch.setattr(summaries, "functions", lambda *given: parsed.append(1) or real(*given))
    one = document("def first():\n    return 1\n")
    await parse(one)
    await parse(one)
    assert [function.name for function in functions_of(one)] == ["first"]
    assert len(parsed) == 1


async def test_what_was_found_in_an_older_version_is_not_taken_for_this_one() -> None:
    one = document("def first():\n    return 1\n")
    running = asyncio.create_task(parse(one))
    await asyncio.sleep(0)  # it has begun, with the lines of now
    type_above(one, "\n\n")
    await running
    assert one.functions_of(one.bare_lines) is None
    assert [function.start for function in functions_of(one)] == [2]


async def test_a_language_without_a_grammar_has_no_functions() -> None:
    one = document("first: 1\n", "yaml")
    await parse(one)
    assert functions_of(one) == ()
