"""A sentence encoder on onnxruntime: text in, states of its tokens out; and the one that is installed."""

from __future__ import annotations

import logging
import threading
from functools import cache
from typing import TYPE_CHECKING, Any, Self

import attrs
import numpy as np

from lsp_calib.errors import ModelFileError, NoModelError, SettingsError
from lsp_calib.inference.models.cards import EncoderCard, locate_encoder
from lsp_calib.installation import how_to_install
from lsp_calib.summarization.features import TokenStates, plain_words

if TYPE_CHECKING:
    from tokenizers import Tokenizer

_log = logging.getLogger(__name__)


@attrs.frozen(eq=False)
class Encoder:
    """An encoder that is loaded. It may be used by several threads.

    card: its identity; `card.sha256` is that of the network.
    """

    card: EncoderCard
    _tokenizer: Tokenizer
    _session: Any

    @classmethod
    def open(cls) -> Self:
        """Load an installed encoder, its checksums compared first.

        Raises SettingsError if the extra `similarity` or the card is missing, NoModelError if a file is
        missing, ModelFileError if it has other bytes or cannot be loaded.
        """
        try:
            import onnxruntime
            from tokenizers import Tokenizer
        except ImportError as error:
            raise SettingsError(
                f"Comparing summaries needs the extra `similarity`: run {how_to_install('similarity')}."
            ) from error
        card = locate_encoder()
        # Builds for Windows report to their maker unless told not to.
        onnxruntime.disable_telemetry_events()
        options = onnxruntime.SessionOptions()
        # One thread: a second one saves a millisecond of a sentence, and llama.cpp wants the other cores.
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.log_severity_level = 3
        try:
            tokenizer = Tokenizer.from_file(str(card.tokenizer.path))
            session = onnxruntime.InferenceSession(
                str(card.model.path), options, providers=["CPUExecutionProvider"]
            )
        # Both libraries raise classes of their own that derive from nothing narrower.
        except Exception as error:
            raise ModelFileError(
                f"The encoder {card.name} cannot be loaded: {error}. Its files have the right checksums, so "
                f"its libraries are too old or damaged: run {how_to_install('similarity', newer=True)}."
            ) from error
        tokenizer.no_padding()
        tokenizer.enable_truncation(card.most_tokens)
        return cls(card, tokenizer, session)

    def encode(self, text: str) -> TokenStates:
        """The states of the tokens of a text in the form of `plain_words`.

        Each text is evaluated alone: quantised activations would otherwise depend on its neighbours.
        """
        encoding = self._tokenizer.encode(plain_words(text))
        ids = np.array([encoding.ids], dtype=np.int64)
        inputs = {"input_ids": ids, "attention_mask": np.ones_like(ids), "token_type_ids": np.zeros_like(ids)}
        (states,) = self._session.run(["last_hidden_state"], inputs)
        special = np.array(encoding.special_tokens_mask, dtype=np.bool_)
        return TokenStates(states[0].astype(np.float64), special)


@attrs.define(eq=False)
class InstalledEncoder:
    """The encoder of this installation, loaded when it is first asked for. It may be used by several
    threads."""

    _lock: threading.Lock = attrs.field(factory=threading.Lock, init=False)
    _loaded: Encoder | None = attrs.field(default=None, init=False)
    _damaged: bool = attrs.field(default=False, init=False)

    def __call__(self) -> Encoder | None:
        """The encoder; None while it or its extra is not installed, and for good if it cannot be loaded: the
        log says so once."""
        with self._lock:
            if self._loaded is None and not self._damaged:
                try:
                    locate_encoder()  # without its files its libraries need no 30 MB
                    self._loaded = Encoder.open()
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
