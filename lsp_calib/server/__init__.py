"""The language server; this module is the entry point. Imports here delay the answer to `initialize`: keep
them few."""

from __future__ import annotations

import gc
import logging
import os
from pathlib import Path
from typing import TYPE_CHECKING

from lsp_calib.errors import SettingsError
from lsp_calib.files import open_file

if TYPE_CHECKING:
    from lsp_calib.server.app import CalibServer
    from lsp_calib.settings import Settings


def create_server(command_line: Settings | None = None, *, trusts_editor: bool = False) -> CalibServer:
    """A server with all features registered."""
    from lsp_calib.server import app, commands
    from lsp_calib.settings import Settings

    server = app.CalibServer(command_line or Settings(), trusts_editor=trusts_editor)
    for feature in (app, commands):
        feature.register(server)
    return server


def serve(
    command_line: Settings | None = None, *, trusts_editor: bool = False, log_file: Path | None = None
) -> None:
    """Serve one client over standard input and output, until it disconnects.

    trusts_editor: whether the editor takes what it sends as `trusted` from its user alone.
    Raises SystemExit with code 1 if it disconnects without `shutdown`, as the protocol requires.
    """
    # LSP's types leave a tenth of the memory as garbage, which is collected while they are imported. What
    # comes after them stays: searching it repeatedly would only take time.
    set_up_log(log_file)
    gc.disable()
    server = create_server(command_line, trusts_editor=trusts_editor)
    gc.freeze()
    gc.enable()
    server.start_io()
    if not server.shut_down:
        raise SystemExit(1)


def set_up_log(log_file: Path | None) -> None:
    """Log warnings to standard error, which editors keep in their own log, or all messages to a file.

    The file is readable only by its owner. Raises SettingsError if it cannot be written.
    """
    from lsp_calib.server.messages import WithoutParameters

    handler: logging.Handler = logging.StreamHandler()
    if log_file is not None:
        try:
            os.close(open_file(log_file, os.O_WRONLY | os.O_CREAT))
            handler = logging.FileHandler(log_file, encoding="utf-8")
        except OSError as error:
            raise SettingsError(
                f"The log cannot be written to {log_file}: {error.strerror or error}. Give --log-file a file "
                "in a folder that is there and is yours to write in."
            ) from error
    handler.addFilter(WithoutParameters())
    logging.basicConfig(
        level=logging.INFO if log_file else logging.WARNING,
        handlers=[handler],
        format="%(asctime)s %(levelname)s %(name)s: %(message)s",
    )
    # What is read in a file: from the cursor's rest to the suggestion.
    logging.getLogger("lsp_calib").setLevel(logging.DEBUG if log_file else logging.WARNING)
    # At lower levels pygls logs every message.
    logging.getLogger("pygls").setLevel(logging.ERROR)
    # At INFO it logs the address of every request.
    logging.getLogger("httpx").setLevel(logging.WARNING)
