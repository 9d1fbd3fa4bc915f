"""The entry point: a server with all features, for one client. Imports here delay `initialize`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from lsp_calib.server.language_server import CalibServer
from lsp_calib.settings import Trusted

if TYPE_CHECKING:
    from lsp_calib.server.tcp import TcpChoice


def create_server(command_line: Trusted | None = None, *, trusts_editor: bool = False) -> CalibServer:
    """A server with all features registered."""
    from lsp_calib.server.features import register_all

    server = CalibServer(command_line or Trusted(), trusts_editor=trusts_editor)
    register_all(server)
    return server


def serve(
    command_line: Trusted,
    *,
    trusts_editor: bool = False,
    tcp: TcpChoice | None = None,
    log_file: Path | None = None,
) -> None:
    """Serve one client over standard input and output, or over TCP, until it disconnects.

    trusts_editor: whether the editor takes what it sends as `trusted` from its user alone.
    Raises SystemExit with code 1 if it disconnects without `shutdown`, as the protocol requires.
    """
    from lsp_calib.server import logs

    logs.set_up(log_file)
    server = create_server(command_line, trusts_editor=trusts_editor)
    if tcp:
        server.serve_tcp(tcp)
    else:
        server.start_io()
    if not server.shut_down:
        raise SystemExit(1)
