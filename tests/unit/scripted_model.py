"""A model process with a backend that does as its prompts say. Everything but the model is the real thing.

A prompt is words: `steps N` takes N steps of 10 ms, each of which makes a token; `stuck` never comes back;
`die` ends the process; `bug` and `fail` raise. An answer says how often it was interrupted. A model file
called `bad` cannot be loaded, and one called `slow` takes a while. `crash` and `killed` end the process that
loads them, by SIGSEGV and SIGKILL; `repack` crashes unless weights are not repacked, and `tired` cannot be
loaded the first time.
"""

from __future__ import annotations

import os
import signal
import struct
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

from lsp_calib.errors import EngineError, ModelFileError
from lsp_calib.inference.backend import Counters, Hardware, Interrupted, LoadOptions, Run
from lsp_calib.inference.engine import Priority, Request
from lsp_calib.inference.process import __main__ as process
from lsp_calib.inference.process import starting
from lsp_calib.values import Generation, Prompt, Segment, Stop, Timing, Token

if TYPE_CHECKING:  # each process that a test starts imports this module
    import pytest

STEP = 0.01


def install(monkeypatch: pytest.MonkeyPatch, folder: Path, name: str = "scripted") -> str:
    """From now on clients start this process; returns the path of a file that passes for a model."""
    monkeypatch.setattr(starting, "PROGRAM", ("-P", __file__))
    path = folder / f"{name}.gguf"
    path.write_bytes(struct.pack("<4sIQQ", b"GGUF", 3, 0, 0))
    return str(path)


def ask(script: str, *, background: bool = False, document: str = "") -> Request:
    priority = Priority.BACKGROUND if background else Priority.INTERACTIVE
    return Request(Prompt(((Segment.TEXT, script),), "", "test"), 100, priority, document)


class ScriptedRun:
    def __init__(self, model: ScriptedModel, request: Request) -> None:
        self._model = model
        self._words = request.prompt.segments[0][1].split()
        self._tokens: list[Token] = []
        self._interruptions = 0
        self._trial = request.prompt.version == "trial"

    def advance(self) -> Generation:
        if self._trial:
            return Generation("", (), Stop.LENGTH, Timing(prompt_ms=1.0, generate_ms=1.0, generated_tokens=1))
        match self._words:
            case ["steps", number]:
                self._do(int(number))
            case ["stuck"]:
                time.sleep(3600)
            case ["die"]:
                os.kill(os.getpid(), signal.SIGKILL)
            case ["bug"]:
                raise RuntimeError("a bug in the backend")
            case _:
                raise EngineError("The script says that it fails.")
        return Generation(
            f"{self._interruptions} interruptions",
            tuple(self._tokens),
            Stop.LINE,
            Timing(),
        )

    def _do(self, steps: int) -> None:
        for at in range(len(self._tokens), steps):
            if self._model.stopped.wait(STEP):
                self._interruptions += 1
                raise Interrupted
            self._tokens.append(Token(at, -0.5, -0.25, "x"))
            self._model.counters.generated_tokens += 1


class ScriptedModel:
    evaluates_ahead = False

    def __init__(self, options: LoadOptions) -> None:
        if options.path.stem == "bad":
            raise ModelFileError(f"The model file {options.path} is bad.")
        if options.path.stem == "tired" and not (once := options.path.with_suffix(".once")).exists():
            once.touch()
            raise BlockingIOError(11, "Resource temporarily unavailable")
        if options.path.stem == "crash":
            os.kill(os.getpid(), signal.SIGSEGV)
        if options.path.stem == "killed":
            os.kill(os.getpid(), signal.SIGKILL)
        if options.path.stem == "repack" and options.acceleration.repack:
            os.kill(os.getpid(), signal.SIGSEGV)
        self.name = "scripted 1.0"
        self.notes = ["It follows a script."]
        self.counters = Counters()
        self.threads = options.threads or 1
        self.stopped = threading.Event()
        for tenth in range(10):
            options.on_progress((tenth + 1) / 10)
            if options.path.stem == "slow":
                time.sleep(0.1)

    @staticmethod
    def hardware() -> Hardware:
        return Hardware("scripted 1.0")

    def begin(self, request: Request) -> Run:
        return ScriptedRun(self, request)

    def interrupt(self, *, after_step: bool = False) -> None:  # noqa: ARG002 - it has no steps
        self.stopped.set()

    def resume(self) -> None:
        self.stopped.clear()

    def close(self) -> None:
        return


if __name__ == "__main__":
    process.main(lambda: ScriptedModel)
