"""Starting for an editor, as fast as possible up to the answer to `initialize`."""

from __future__ import annotations

import gc


def serve_editor(*, trusts_editor: bool = False) -> None:
    """Serve one client over standard input and output, with nothing else set on the command line."""
    # The imports create some hundred thousand objects that all stay. Searching them for garbage repeatedly
    # would take a tenth of the time until the answer.
    gc.disable()
    from lsp_calib.server.main import serve
    from lsp_calib.settings import Trusted

    gc.freeze()
    gc.enable()
    serve(Trusted(), trusts_editor=trusts_editor)
