"""llama.cpp's own server, ready-made (xllamacpp), as a `Backend`: for machines without a compiler.

Only the model process imports this.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import attrs
import xllamacpp

from lsp_calib.errors import EngineError, ModelError, ModelFileError
from lsp_calib.inference.backend import NOT_LOCKED, Acceleration, Counters, Hardware, LoadOptions, Run
from lsp_calib.inference.engine import Request, ScoreRequest
from lsp_calib.inference.generation.run import room_for_prompt, shortened
from lsp_calib.inference.generation.vocabulary import Vocabulary
from lsp_calib.inference.prebuilt.run import INTERACTIVE_SEQUENCES, SEQUENCES, Machine, PrebuiltGenerationRun
from lsp_calib.inference.prebuilt.server import Server, has_gpu, locked_memory
from lsp_calib.values import Prompt, Segment, Token

# The server does not say how far loading has come. Reading the vocabulary is the last tenth of it.
_LOADED = 0.9


class PrebuiltModel:
    """A loaded model. Raises ModelFileError, with llama.cpp's own words, if it cannot be loaded.

    Raises ModelError if this version of xllamacpp does not work as expected.

    An interruption is noticed between two pieces of a prompt (see `PieceSize`) and between two tokens: the
    server cannot be stopped inside an evaluation. The number of threads stays as it was at the start.
    """

    def __init__(self, options: LoadOptions) -> None:
        self.name = f"xllamacpp {xllamacpp.__version__}"
        self.notes: list[str] = []
        options.on_progress(0.0)
        try:
            self._server = self._load(options)
            options.on_progress(_LOADED)
            self._bos, self._begins_with_bos = self._server.bos()
            self._machine = Machine(self._server, Vocabulary(self._server.pieces(), self._tokens_of_bytes))
        except EngineError as error:
            raise ModelError(str(error)) from error
        options.on_progress(1.0)

    documents = INTERACTIVE_SEQUENCES

    @staticmethod
    def hardware() -> Hardware:
        """The hardware that the wheel finds here. The compilers' fault does not affect its code for AMX."""
        return Hardware(build=f"xllamacpp {xllamacpp.__version__}", gpu=has_gpu())

    @staticmethod
    def convert(path: Path) -> Path:
        """As `Factory.convert`; never called, since `hardware` does not claim it."""
        raise ModelFileError(f"xllamacpp does not convert weights, so {path} stays as it is.")

    @property
    def counters(self) -> Counters:
        return self._machine.counters

    @property
    def threads(self) -> int:
        return self._server.threads

    @property
    def positions(self) -> int:
        """The positions that a prompt and its answer may take together."""
        return self._server.positions

    def begin(
        self,
        request: Request | ScoreRequest,
        *,
        on_tokens: Callable[[list[Token]], None],
        tell_after: int = 0,
    ) -> Run:
        """A run for a request; nothing is evaluated yet.

        Raises EngineError if it cannot fit the context, and for requests that the server cannot answer: the
        scores of a given text, the whole softmax at other temperatures, an answer that begins with given
        tokens. What it cannot observe is left out.
        """
        if isinstance(request, ScoreRequest) or request.temperatures or request.given:
            raise EngineError(
                "The prebuilt engine (xllamacpp) reports only the probabilities of the tokens it chooses. It "
                "cannot score a given text, continue given tokens or describe a whole distribution. The "
                "engine `local` can: run `pip install 'lsp-calib[local]'` (it needs a C compiler)."
            )
        prompt = self._tokenize(request.prompt, room_for_prompt(self.positions, request.max_tokens))
        return PrebuiltGenerationRun(
            self._machine, request, prompt, on_tokens=on_tokens, tell_after=tell_after
        )

    def share(self, left: Callable[[], float]) -> None:
        """Let runs take turns: a run raises Preempted between two pieces once `left`, in seconds, is 0."""
        self._machine.turn_left = left

    def interrupt(self) -> None:
        """Stop the running `advance`, or the next one at its start. For any thread."""
        self._machine.interrupted = True

    def resume(self) -> None:
        """Take the interruption back."""
        self._machine.interrupted = False

    def close(self) -> None:
        """Free the model. Nothing of it may be used any more."""
        self._server.close()

    def _load(self, options: LoadOptions) -> Server:
        """The model on the GPU where that was asked for and works, else on the processor."""
        on_gpu = bool(options.acceleration.gpu_layers)
        if on_gpu and not has_gpu():
            self.notes.append(
                "The GPU is not used: this build of xllamacpp has no support for one, or found none. Its "
                "project page says where builds for CUDA, ROCm and Vulkan are. Install one, or set gpuLayers "
                "to 0."
            )
            options, on_gpu = attrs.evolve(options, acceleration=Acceleration()), False
        try:
            server = Server(options, sequences=SEQUENCES)
        except ModelFileError as error:
            if not on_gpu:
                raise
            server = Server(attrs.evolve(options, acceleration=Acceleration()), sequences=SEQUENCES)
            self.notes.append(f"The GPU is not used: the model does not load there. {error}")
        if options.mlock and locked_memory() == 0:
            self.notes.append(NOT_LOCKED)
        return server

    def _tokenize(self, prompt: Prompt, room: int) -> list[int]:
        """The tokens of a prompt; at least one, after which there are probabilities."""
        begin = [self._bos] if self._begins_with_bos and self._bos is not None else []

        def tokenize(kind: Segment, text: str) -> list[int]:
            return list(self._server.tokenize(text, control=kind is Segment.CONTROL))

        tokens = begin + shortened(prompt, tokenize, room - len(begin))
        return tokens or [self._tokens_of_bytes(b"\n")[0] if self._bos is None else self._bos]

    def _tokens_of_bytes(self, text: bytes) -> list[int]:
        return list(self._server.tokenize(text.decode("utf-8", "replace")))
