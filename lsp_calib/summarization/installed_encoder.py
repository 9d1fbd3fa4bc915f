"""The sentence encoder of this installation, if it has one."""

from __future__ import annotations

import logging
import threading
from functools import cache
from typing import TYPE_CHECKING

import attrs

from lsp_calib.errors import ModelFileError, NoModelError, SettingsError
from lsp_calib.inference.models.encoders import DEFAULT

if TYPE_CHECKING:
    from lsp_calib.summarization.encoder import Encoder

_log = logging.getLogger(__name__)


@attrs.define(eq=False)
class InstalledEncoder:
    """The encoder of this installation, loaded when it is first asked for. It may be used by several threads.

    name: of its card.
    """

    name: str = DEFAULT
    _lock: threading.Lock = attrs.field(factory=threading.Lock, init=False)
    _loaded: Encoder | None = attrs.field(default=None, init=False)
    _damaged: bool = attrs.field(default=False, init=False)

    def __call__(self) -> Encoder | None:
        """The encoder; None while it or its extra is not installed, and for good if it cannot be loaded: the
        log says so once."""
        with self._lock:
            if self._loaded is None and not self._damaged:
                # Numpy and the runtime take a while to import, and most sessions need no encoder.
                from lsp_calib.summarization.encoder import Encoder

                try:
                    self._loaded = Encoder.open(self.name)
                except (SettingsError, NoModelError):
                    return None
                except ModelFileError as error:
                    self._damaged = True
                    _log.warning("Summaries are rated without the encoder: %s", error)
            return self._loaded


@cache
def installed_encoder() -> InstalledEncoder:
    """The one that all connections of this process share."""
    return InstalledEncoder()
