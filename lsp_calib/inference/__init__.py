"""One `Engine` interface, and the engines behind it: the model process, or a remote server.

Imported before `initialize` is answered: the engines themselves are imported when one is opened.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lsp_calib.inference.choice import EngineChoice
    from lsp_calib.inference.engine import Engine, StateListener


def open_engine(choice: EngineChoice, on_state: StateListener | None = None) -> Engine:
    """The engine chosen. It starts and connects nothing before its first request."""
    from lsp_calib.inference.engine import ignore_state

    if choice.remote is not None:
        from lsp_calib.inference.remote.engine import RemoteEngine

        return RemoteEngine(choice.remote, on_state=on_state or ignore_state)
    from lsp_calib.inference.process.client import ModelProcess

    return ModelProcess(choice, on_state=on_state or ignore_state)
