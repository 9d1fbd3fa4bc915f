"""Diagnostics are pulled or pushed, and follow the settings."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import attrs
import pytest
from feedback_scene import URI, suggestion
from lsprotocol import types

from lsp_calib.server.documents import CalibDocument
from lsp_calib.server.tracking import Diagnostics
from lsp_calib.settings import Settings


@attrs.define
class Client:
    pulls_itself: bool = True
    settings: Settings = attrs.field(factory=Settings)
    pulls: int = 0
    pushed: list[Any] = attrs.field(factory=list)

    @property
    def client_capabilities(self) -> types.ClientCapabilities:
        pulls = types.DiagnosticWorkspaceClientCapabilities(refresh_support=True)
        return types.ClientCapabilities(
            workspace=types.WorkspaceClientCapabilities(diagnostics=pulls if self.pulls_itself else None),
            text_document=types.TextDocumentClientCapabilities(
                diagnostic=types.DiagnosticClientCapabilities() if self.pulls_itself else None
            ),
        )

    def open_document(self, uri: str) -> CalibDocument | None:
        return CalibDocument(URI, source="x = 1\n", language_id="python") if uri == URI else None

    def workspace_diagnostic_refresh(self, _params: None) -> None:
        self.pulls += 1

    def text_document_publish_diagnostics(self, params: types.PublishDiagnosticsParams) -> None:
        self.pushed.append(params)


# A line that is no longer there carries none.
INSERTED = [(0, suggestion("1")), (7, suggestion("gone"))]


def tracking_of(client: Any) -> Any:
    """What tells the diagnostics of a client of changes."""
    tracking: Any = SimpleNamespace(inserted=lambda _: INSERTED, doubtful=lambda *_: None)
    tracking.diagnostics = Diagnostics(client, tracking)
    return tracking


def diagnostics(client: Any) -> Diagnostics:
    found: Diagnostics = tracking_of(client).diagnostics
    return found


@pytest.mark.parametrize("pulls", [True, False])
def test_a_client_pulls_or_is_pushed_to_never_both(pulls: bool) -> None:
    client = Client(pulls)
    tracking_of(client).marks_changed(URI, INSERTED)
    assert (client.pulls, len(client.pushed)) == ((1, 0) if pulls else (0, 1))
    if not pulls:
        [one] = client.pushed[0].diagnostics
        assert (client.pushed[0].uri, one.range.start.line, one.code) == (URI, 0, "review")


def test_the_setting_turns_them_off() -> None:
    client = Client()
    made = diagnostics(client)
    assert len(made.current(URI)) == 1
    client.settings = attrs.evolve(client.settings, diagnostics=False)
    assert made.current(URI) == []


def test_a_closed_document_has_none() -> None:
    assert diagnostics(Client()).current("file:///closed.py") == []
