"""llama.cpp through its low-level API, as a `Backend`. Only the model process imports this.

The binding's own `logprobs` are not used: they need the logits of every prompt position, and its issue
#1983 shows them shifted by one. Here the last position's logits are read and normalised directly.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import hashlib
import os
import platform
import sys
import threading
import time
from pathlib import Path

import attrs
import llama_cpp

from lsp_calib.errors import EngineError, ModelFileError
from lsp_calib.files import open_file
from lsp_calib.inference import processor
from lsp_calib.inference.backend import Hardware, LoadOptions, Run, load_anyhow
from lsp_calib.inference.engine import Request
from lsp_calib.inference.generation.run import prompt_tokens, room_for_prompt
from lsp_calib.inference.local.decoder import Decoder
from lsp_calib.inference.local.native import Weights, native_log
from lsp_calib.inference.local.run import ANSWER, AheadRun, LocalEvaluator, LocalGenerationRun
from lsp_calib.inference.models import converted, gguf
from lsp_calib.values import Prompt

# The kernel wants about 12,000 bytes with AMX, and 3,500 with AVX-512 but without AMX.
_BYTES = 8192


class _Stack(ctypes.Structure):
    """`stack_t` of <signal.h> on Linux."""

    _fields_ = (("start", ctypes.c_void_p), ("flags", ctypes.c_int), ("size", ctypes.c_size_t))


@functools.cache
def withhold_amx() -> bool:
    """From now on this process cannot be given AMX. False where there is no AMX to withhold, or it failed."""
    if sys.platform != "linux" or platform.machine() not in ("x86_64", "AMD64"):
        return False
    done = threading.Event()
    sizes: list[int] = []
    threading.Thread(target=_park, args=(done, sizes), name="signal stack", daemon=True).start()
    done.wait()
    return sizes == [_BYTES]


def _park(done: threading.Event, sizes: list[int]) -> None:
    """Hold a small signal stack for the life of the process. sizes: receives the kernel's report of it."""
    memory = ctypes.create_string_buffer(_BYTES)
    try:
        sigaltstack = ctypes.CDLL(None, use_errno=True).sigaltstack
        if sigaltstack(ctypes.byref(_Stack(ctypes.addressof(memory), 0, _BYTES)), None) == 0:
            now = _Stack()
            sigaltstack(None, ctypes.byref(now))
            sizes.append(now.size)
    finally:
        done.set()
    threading.Event().wait()


# Seconds. A conversion takes a few: a file that is older is of a process that was killed.
_ABANDONED = 600.0


def convert_to_8_bits(path: Path) -> Path:
    """The file with the weights of `path` in 8 bits; made, in a second for 100 MB, if there is no whole one.

    Raises OSError or ModelFileError if it cannot be made; then nothing is left of it.
    """
    target = converted.place(path)
    with contextlib.suppress(ModelFileError, OSError):
        gguf.check_header(target)
        return target
    unfinished = converted.being_made(target)
    parameters = llama_cpp.llama_model_quantize_default_params()
    parameters.ftype = llama_cpp.LLAMA_FTYPE_MOSTLY_Q8_0
    parameters.allow_requantize = True
    try:
        for left in converted.unfinished(path):
            if time.time() - left.stat().st_mtime > _ABANDONED:
                left.unlink(missing_ok=True)
        native_log().listen()
        failed = llama_cpp.llama_model_quantize(
            os.fsencode(path), os.fsencode(unfinished), ctypes.byref(parameters)
        )
        if failed:
            raise ModelFileError(f"llama.cpp says: {native_log().last_words()}")
        gguf.read_metadata(unfinished)
        unfinished.chmod(0o600)
        with os.fdopen(open_file(unfinished, os.O_RDWR), "rb+") as file:
            os.fsync(file.fileno())  # a power cut must not leave a part of it under its name
        for old in converted.all_of(path):
            old.unlink(missing_ok=True)
        unfinished.replace(target)
    finally:
        unfinished.unlink(missing_ok=True)
    return target


class LlamaModel:
    """A loaded model with a KV cache for several documents.

    Raises ModelFileError, with llama.cpp's own words, if it cannot be loaded. Where the GPU cannot be used,
    it works without and says so in `notes`.
    """

    def __init__(self, options: LoadOptions) -> None:
        self.name = f"llama-cpp-python {llama_cpp.__version__}"
        self.notes: list[str] = []
        if not options.acceleration.amx:
            withhold_amx()
        native_log().listen()  # loading gives its causes there
        llama_cpp.llama_backend_init()
        weights, decoder = self._load(options)
        self.evaluator = LocalEvaluator(weights, decoder)
        self._decoder = decoder
        self._weights = weights
        self.counters = decoder.counters
        self.positions = decoder.positions
        # Recurrent models keep one state, not positions: it is of use to no prompt that goes on otherwise.
        self.evaluates_ahead = decoder.drops_part

    @staticmethod
    def hardware() -> Hardware:
        """The hardware that the library was compiled for and finds here."""
        features = llama_cpp.llama_print_system_info()
        return Hardware(
            build=_build(),
            amx=b"AMX_INT8 = 1" in features and processor.has_amx(),
            gpu=bool(llama_cpp.llama_supports_gpu_offload()),
            exact=True,
            converts=True,
        )

    @property
    def threads(self) -> int:
        return self._decoder.threads

    def begin(self, request: Request) -> Run:
        """A run for a request; nothing is evaluated yet.

        Raises EngineError if it cannot fit the context, or names a token that the model does not have.
        """
        prompt = self.tokenize(request.prompt, room_for_prompt(self.positions, request.max_tokens or ANSWER))
        if any(not 0 <= token < self._weights.size for token in request.given):
            raise EngineError("Unknown token id in `given`. Use the ids of this model.")
        if not request.max_tokens:
            return AheadRun(self.evaluator, prompt)
        return LocalGenerationRun(self.evaluator, request, prompt)

    def interrupt(self, *, after_step: bool = False) -> None:
        """As for `Backend`."""
        self._decoder.abort.set(after_step=after_step)

    def resume(self) -> None:
        """Take the interruption back."""
        self._decoder.resume()

    def close(self) -> None:
        """Free the model. Nothing of it may be used any more."""
        self._decoder.close()
        self._weights.close()

    def _load(self, options: LoadOptions) -> tuple[Weights, Decoder]:
        """The model on the GPU where that was asked for and works, else on the processor."""
        if options.acceleration.eight_bit:
            options = self._converted(options)
        return load_anyhow(
            _open,
            options,
            self.notes,
            gpu=bool(llama_cpp.llama_supports_gpu_offload()),
            advice="llama-cpp-python was built without support for one. Build it again with it (for example "
            'CMAKE_ARGS="-DGGML_CUDA=on"), or set gpuLayers to 0.',
        )

    def _converted(self, options: LoadOptions) -> LoadOptions:
        """With the file of the converted weights; with the model's own, and a note, if there can be none."""
        try:
            return attrs.evolve(options, path=convert_to_8_bits(options.path))
        except (OSError, ModelFileError) as error:
            self.notes.append(
                f"The model runs about half as fast as it could: its weights were not converted ({error})."
            )
            return options

    def tokenize(self, prompt: Prompt, room: int) -> list[int]:
        """At most `room` tokens of a prompt, at least one. Raises EngineError if it cannot be so short."""
        weights = self._weights
        return prompt_tokens(prompt, weights.tokenize, room, weights.bos, begins=weights.begins_with_bos)


def _build() -> str:
    """The binding's version and its compilation, identified by size and time of the libraries."""
    digest = hashlib.sha256()
    for path in sorted((Path(llama_cpp.__file__).parent / "lib").glob("*")):
        status = path.stat()
        digest.update(f"{path.name} {status.st_size} {status.st_mtime_ns}\n".encode())
    return f"llama-cpp-python {llama_cpp.__version__} ({digest.hexdigest()[:8]})"


def _open(options: LoadOptions) -> tuple[Weights, Decoder]:
    weights = Weights(
        options.path,
        acceleration=options.acceleration,
        on_progress=options.on_progress,
    )
    try:
        decoder = Decoder(
            weights,
            context=options.context,
            threads=options.threads,
            on_gpu=bool(options.acceleration.gpu_layers),
            cache_bytes=options.cache_bytes,
        )
    except ModelFileError:
        weights.close()
        raise
    return weights, decoder
