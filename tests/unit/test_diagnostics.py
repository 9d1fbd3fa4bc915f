"""Diagnostics are pulled or pushed, and follow the settings."""

from __future__ import annotations

from typing import Any

import attrs
import pytest
from feedback_scene import URI, suggestion

from lsp_calib.server.diagnostics import Diagnostics
from lsp_calib.server.text import CalibDocument
from lsp_calib.settings import Settings


@attrs.define
class Client:
    settings: Settings = attrs.field(factory=Settings)
    pulls: int = 0
    pushed: list[Any] = attrs.field(factory=list)

    def pull(self) -> None:
        self.pulls += 1


def diagnostics(client: Client, *, pulls: bool) -> Diagnostics:
    document = CalibDocument(URI, source="x = 1\n", language_id="python")
    return Diagnostics(
        settings=lambda: client.settings,
        document={URI: document}.get,
        # A line that is no longer there carries none.
        inserted=lambda _: [(0, suggestion("1")), (7, suggestion("gone"))],
        doubtful=lambda *_: None,
        request_pull=client.pull if pulls else None,
        publish=client.pushed.append,
    )


@pytest.mark.parametrize("pulls", [True, False])
def test_a_client_pulls_or_is_pushed_to_never_both(pulls: bool) -> None:
    client = Client()
    diagnostics(client, pulls=pulls).refresh(URI)
    assert (client.pulls, len(client.pushed)) == ((1, 0) if pulls else (0, 1))
    if not pulls:
        [one] = client.pushed[0].diagnostics
        assert (client.pushed[0].uri, one.range.start.line, one.code) == (URI, 0, "review")


@pytest.mark.parametrize("off", [{"diagnostics": False}, {"severity_review": "off"}])
def test_the_settings_of_now_decide(off: dict[str, Any]) -> None:
    client = Client()
    made = diagnostics(client, pulls=True)
    assert len(made.current(URI)) == 1
    client.settings = attrs.evolve(client.settings, **off)
    assert made.current(URI) == []


def test_a_closed_document_has_none() -> None:
    assert diagnostics(Client(), pulls=True).current("file:///closed.py") == []
