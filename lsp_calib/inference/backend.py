"""The interface of the libraries that run a model in the model process: llama.cpp's binding or its server.

The process's decoding thread calls `begin` and `Run.advance`; its listening thread may call `interrupt` at
any time.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Protocol, TypeVar

import attrs

from lsp_calib.errors import ModelFileError, SettingsError
from lsp_calib.inference.choice import CACHE_MB
from lsp_calib.inference.engine import Request
from lsp_calib.values import Generation


class Interrupted(Exception):
    """The interrupt flag stopped a run. Nothing is lost: the next `advance` resumes it."""


EIGHT_BIT = "cpu-eight-bit"
"""The name of the acceleration that converts weights."""


@attrs.frozen
class Acceleration:
    """Which hardware features a model may use.

    gpu_layers: layers on the GPU, 0 for none. amx: the matrix unit of newer Intel processors. repack: weights
    are rearranged for the processor's vector instructions; AMX needs that as well. eight_bit: weights of a
    kind that the library multiplies slowly are converted to one of 8 bits, once.
    """

    gpu_layers: int = 0
    amx: bool = True
    repack: bool = True
    eight_bit: bool = False

    @property
    def name(self) -> str:
        """A short name, for files and for people."""
        if self.gpu_layers:
            return "gpu"
        if self.eight_bit:
            return EIGHT_BIT
        if not self.repack:
            return "cpu-without-repacking"
        return "cpu" if self.amx else "cpu-without-amx"


@attrs.frozen
class Hardware:
    """The hardware that a backend finds on this machine before it loads a model.

    build: names the compiled library; another compilation has another name. amx: the library has code for
    AMX, and the processor has AMX. gpu: the library has found a GPU it can use. exact: on the processor a
        probability is a function of the text, to the last bit.
    converts: the library can convert a model's weights to 8 bits.
    """

    build: str
    amx: bool = False
    gpu: bool = False
    exact: bool = False
    converts: bool = False


@attrs.frozen
class LoadOptions:
    """How a model is loaded.

    context: positions for one document. threads: 0 takes as many as physical cores. on_progress: called with
    the loaded fraction in [0, 1]. cache_bytes: for the states of places that are not the active one.
    """

    path: Path
    context: int
    threads: int = 0
    acceleration: Acceleration = Acceleration()
    on_progress: Callable[[float], None] = lambda _: None
    cache_bytes: int = CACHE_MB * 10**6


@attrs.define
class Counters:
    """The work of a backend since it was loaded. Another thread reads it; it is never reset.

    prompt_tokens, generated_tokens: evaluated, reused ones left out. decode_ms: time inside llama.cpp.
    """

    prompt_tokens: int = 0
    generated_tokens: int = 0
    decode_ms: float = 0.0


class Run(Protocol):
    """One request being answered. Only the thread that made it uses it."""

    def advance(self) -> Generation:
        """Continue until the end.

        Raises Interrupted when the backend was interrupted (call again to resume), EngineError on failure.
        """
        ...


T = TypeVar("T")


def load_anyhow(
    load: Callable[[LoadOptions], T], options: LoadOptions, notes: list[str], *, gpu: bool, advice: str
) -> T:
    """Load a model without the GPU where there is none (`gpu`), or where it does not load there; `notes` say
    so. advice: what to do about a GPU that the library does not find."""
    without = attrs.evolve(options, acceleration=attrs.evolve(options.acceleration, gpu_layers=0))
    if options.acceleration.gpu_layers and not gpu:
        notes.append(f"The GPU is not used: {advice}")
        options = without
    try:
        return load(options)
    except ModelFileError as error:
        if not options.acceleration.gpu_layers:
            raise
        notes.append(f"The GPU is not used: the model does not load there. {error}")
        return load(without)


class Backend(Protocol):
    """A loaded model."""

    name: str
    """The library that runs it, with its version, for people: "llama-cpp-python 0.3.36"."""
    notes: list[str]
    """Messages for the user about how it was loaded: "The GPU could not be used: ..."."""
    evaluates_ahead: bool
    """Whether a prompt that is evaluated ahead makes a later request quicker."""

    @property
    def counters(self) -> Counters: ...

    @property
    def threads(self) -> int:
        """Threads it decodes with at present."""
        ...

    def begin(self, request: Request) -> Run:
        """Make a run for a request; nothing is evaluated yet."""
        ...

    def interrupt(self, *, after_step: bool = False) -> None:
        """Stop the running `advance` within tens of milliseconds, or the next one at its start.

        after_step: at the end of the step that runs, which is not lost then. For any thread.
        """
        ...

    def resume(self) -> None:
        """Take the interruption back."""
        ...

    def close(self) -> None: ...


class Factory(Protocol):
    """Makes a backend of one kind."""

    def __call__(self, options: LoadOptions, /) -> Backend:
        """Load a model. Raises ModelError if it cannot be loaded."""
        ...

    def hardware(self) -> Hardware:
        """The hardware that this kind of backend finds on the machine."""
        ...


def forced_library() -> str:
    """The library that LSP_CALIB_ENGINE forces, "" for none. Raises SettingsError for one of another name."""
    wanted = os.environ.get("LSP_CALIB_ENGINE", "")
    if wanted not in ("", "local", "prebuilt"):
        raise SettingsError(f"LSP_CALIB_ENGINE is {wanted!r}; it must be local or prebuilt.")
    return wanted
