"""Functions of a document are found in a thread, and belong to the version they were found in."""

from __future__ import annotations

import asyncio

import pytest
from lsprotocol import types
from pygls.workspace import PositionCodec

from lsp_calib.server import summaries as summary_target
from lsp_calib.server.documents import CalibDocument
from lsp_calib.server.summaries import functions_of, parse


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
    real = summary_target.functions
    monkeypatch.setattr(summary_target, "functions", lambda *given: parsed.append(1) or real(*given))
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
