"""Starting for an editor: what counts is how soon `initialize` is answered."""

from __future__ import annotations

import gc


def serve_editor() -> None:
    """Serve one client over standard input and output, with nothing set on the command line."""
    # The imports make some hundred thousand objects that all stay: looking through them for garbage again
    # and again takes a tenth of the time until the answer.
    gc.disable()
    from lsp_calib.server.main import serve
    from lsp_calib.settings import Trusted

    gc.freeze()
    gc.enable()
    serve(Trusted())
