"""The model process: the only place where a model is loaded. One for each user and model.

It holds a lock for its life; who does not get it leaves at once. It serves the clients that find it at its
socket, and goes some seconds after the last of them, however that one ended.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import faulthandler
import os
import socket
import stat
import sys
import threading
import traceback
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path

import attrs

from lsp_calib import lockfile
from lsp_calib.errors import ModelError, ModelFileError
from lsp_calib.inference import backends
from lsp_calib.inference.backend import Backend, Factory, LoadOptions
from lsp_calib.inference.models import checksum, gguf
from lsp_calib.inference.process import acceleration, trial, wire
from lsp_calib.inference.process import rendezvous as meeting
from lsp_calib.inference.process.broker import Listening
from lsp_calib.inference.process.rendezvous import Meeting

# Its log is emptied at the start when it has more bytes than this.
_MOST_LOG = 1 << 20

Find = Callable[[], Factory]


def main(find: Find = backends.find) -> None:
    """find: what gives the backend's factory; an import of a second, done after the lock is held."""
    parser = argparse.ArgumentParser(
        description="The model process of lsp-calib; started by it, not by hand."
    )
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--sha256", default="")
    parser.add_argument("--size", type=int, default=0)
    parser.add_argument("--context", type=int, required=True)
    parser.add_argument("--careful", action="store_true")
    parser.add_argument("--avoid", action="append", default=[])
    parser.add_argument("--trial", default="")
    arguments = parser.parse_args()
    if arguments.trial:
        faulthandler.enable()
        trial.run(find(), LoadOptions(arguments.model, arguments.context), arguments.trial)
        sys.stderr.flush()
        os._exit(0)  # a driver's clean-up proves nothing

    where = meeting.place(arguments.model, arguments.context)
    if lockfile.take(where.lock) is None:
        sys.exit(meeting.LOST)
    _trim_log()
    faulthandler.enable()
    listening = meeting.listen(where)
    with contextlib.suppress(OSError):  # who started it may be gone, and others have come
        os.write(1, f"{meeting.LISTENING}\n".encode())
    os.dup2(2, 1)  # what native code prints goes to the log

    code = 1
    try:
        code = asyncio.run(_serve(arguments, find, where, listening))
    except Exception:  # noqa: BLE001 - the last chance to say what it was
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)  # the decoding thread may be in native code


async def _serve(
    arguments: argparse.Namespace, find: Find, where: Meeting, listening_socket: socket.socket
) -> int:
    options: Future[wire.Options] = Future()
    listening = Listening(where, options)

    def work() -> None:
        try:
            backend = _load(arguments, find, options, listening)
            if backend is not None:
                listening.decoding.serve(backend)
        except Exception:  # noqa: BLE001 - whatever it was
            traceback.print_exc()
        else:
            return
        # Without this thread nobody is answered. The clients notice the end and start another process.
        sys.stderr.flush()
        meeting.clear(where)
        os._exit(1)

    threading.Thread(target=work, name="decoding", daemon=True).start()
    return await listening.serve(listening_socket)


def _load(
    arguments: argparse.Namespace, find: Find, options: Future[wire.Options], listening: Listening
) -> Backend | None:
    """The loaded model; None if it cannot be, which the clients are told."""
    path: Path = arguments.model
    reported = 0.0

    def progress(fraction: float) -> None:
        nonlocal reported
        if fraction - reported >= 0.1 or fraction == 1.0:
            reported = fraction
            listening.loading(fraction)

    try:
        gguf.check_header(path)
        if arguments.size:
            gguf.check_size(path, arguments.size)
        sha256 = checksum.verify(path, arguments.sha256)
        factory = find()
        wanted = options.result()
        listening.loading(0.0)
        load = LoadOptions(
            path=path,
            context=arguments.context,
            threads=wanted.threads,
            mlock=wanted.mlock,
            on_progress=progress,
        )
        question = acceleration.Question(factory.hardware(), sha256, wanted.gpu_layers)
        choice = _choose(question, load, arguments)
        backend = factory(attrs.evolve(load, acceleration=choice.acceleration))
    except ModelError as error:
        listening.failed("file" if isinstance(error, ModelFileError) else "missing", str(error))
        return None
    notes = tuple(filter(None, (acceleration.note(choice), *backend.notes)))
    listening.loaded(wire.Loaded(sha256, backend.name, notes, backend.threads, choice.acceleration.name))
    return backend


def _choose(
    question: acceleration.Question, load: LoadOptions, arguments: argparse.Namespace
) -> acceleration.Choice:
    """What the model is run with: as remembered, unless that has just crashed. Raises ModelFileError."""
    known = None if arguments.careful else question.recall()
    if known is not None:
        return known
    choice = acceleration.choose(
        question.hardware,
        question.gpu_layers,
        lambda candidate: trial.attempt(attrs.evolve(load, acceleration=candidate)),
        careful=arguments.careful,
        avoid=arguments.avoid,
    )
    question.remember(choice)
    return choice


def _trim_log() -> None:
    """All model processes of the user append to one log, which they inherit as standard error."""
    status = os.fstat(2)
    if stat.S_ISREG(status.st_mode) and status.st_size > _MOST_LOG:
        os.ftruncate(2, 0)


if __name__ == "__main__":
    main()
