"""The model process: the only place where a model is loaded. One for each user and model.

It holds a lock for its life; a process that does not get it ends at once. It serves the clients that connect
to its socket, and ends some seconds after the last of them, however that one ended.
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
from typing import NoReturn

import attrs

from lsp_calib import home, lockfile
from lsp_calib.errors import LspCalibError
from lsp_calib.files import FULL, why
from lsp_calib.inference import backends
from lsp_calib.inference.backend import Backend, Factory, LoadOptions
from lsp_calib.inference.models import converted, gguf, sidecar
from lsp_calib.inference.process import acceleration, rendezvous, wire
from lsp_calib.inference.process.broker import Broker
from lsp_calib.inference.process.rendezvous import Rendezvous

# Its log is emptied at the start when it has more bytes than this.
_MOST_LOG = 1 << 20

Find = Callable[[], Factory]


def main(find: Find = backends.find) -> None:
    """find: returns the backend's factory; its import takes a second, so it is called with the lock held."""
    home.leave_no_core()
    home.close_memory()
    parser = argparse.ArgumentParser(
        description="The model process of lsp-calib; started by it, not by hand."
    )
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--sha256", default="")
    parser.add_argument("--size", type=int, default=0)
    parser.add_argument("--context", type=int, default=0)
    parser.add_argument("--careful", action="store_true")
    parser.add_argument("--avoid", action="append", default=[])
    parser.add_argument("--trial", default="")
    parser.add_argument("--convert", action="store_true")
    arguments = parser.parse_args()
    if arguments.convert:
        _convert(arguments.model, find())
        os._exit(0)
    if arguments.trial:
        faulthandler.enable()
        acceleration.run_trial(find(), LoadOptions(arguments.model, arguments.context), arguments.trial)
        sys.stderr.flush()
        os._exit(0)  # a driver's clean-up proves nothing

    try:
        where = rendezvous.place(arguments.model, arguments.context)
        if lockfile.take(where.lock) is None:
            sys.exit(rendezvous.LOST)
        _trim_log()
        faulthandler.enable()
        listening = rendezvous.listen(where)
    except (OSError, LspCalibError) as error:
        _tell(rendezvous.UNABLE + _why_unable(error))
        sys.exit(1)
    _tell(rendezvous.LISTENING)
    os.dup2(2, 1)  # the output of native code goes to the log

    code = 1
    try:
        code = asyncio.run(_serve(arguments, find, where, listening))
    except Exception:  # noqa: BLE001 - the last chance to report it
        traceback.print_exc()
    finally:
        _end(code)


async def _serve(
    arguments: argparse.Namespace, find: Find, where: Rendezvous, listening_socket: socket.socket
) -> int:
    options: Future[wire.Options] = Future()
    broker = Broker(where, options)

    def work() -> None:
        try:
            backend = _load(arguments, find, options, broker)
            if backend is not None:
                broker.worker.serve(backend)
        except Exception:  # noqa: BLE001 - whatever it was
            with contextlib.suppress(OSError):  # the log's disk is full
                traceback.print_exc()
        else:
            return
        # Without this thread no request is answered. The clients notice the end and start another process.
        rendezvous.clear(where)
        _end(1)

    threading.Thread(target=work, name="decoding", daemon=True).start()
    return await broker.serve(listening_socket)


def _load(
    arguments: argparse.Namespace, find: Find, options: Future[wire.Options], broker: Broker
) -> Backend | None:
    """The loaded model; None, after telling the clients, if it cannot be loaded."""
    path: Path = arguments.model
    reported = 0.0

    def progress(fraction: float) -> None:
        nonlocal reported
        if fraction - reported >= 0.1 or fraction == 1.0:
            reported = fraction
            broker.loading(fraction)

    try:
        gguf.check_header(path)
        if arguments.size:
            gguf.check_size(path, arguments.size)
        sha256 = sidecar.verify(path, arguments.sha256)
        factory = find()
        wanted = options.result()
        broker.loading(0.0)
        load = LoadOptions(
            path=path,
            context=arguments.context,
            threads=wanted.threads,
            mlock=wanted.mlock,
            on_progress=progress,
        )
        slow = converted.slow(path)
        question = acceleration.Question(factory.hardware(), wanted.gpu_layers, slow, sha256)
        choice = _choose(question, load, arguments)
        backend = factory(attrs.evolve(load, acceleration=choice.acceleration))
    except (LspCalibError, OSError) as error:
        said = f"The model cannot be loaded: {error}." if isinstance(error, OSError) else str(error)
        broker.failed(wire.kind_of(error), said)
        return None
    notes = tuple(filter(None, (acceleration.note(choice), *backend.notes)))
    used = choice.acceleration.name
    broker.loaded(wire.Loaded(sha256, backend.name, notes, backend.threads, used, tried=choice.was_tried))
    return backend


def _choose(
    question: acceleration.Question, load: LoadOptions, arguments: argparse.Namespace
) -> acceleration.AccelerationChoice:
    """The acceleration to use: the remembered one, unless that has just crashed. Raises ModelFileError."""
    known = None if arguments.careful else question.recall()
    if known is not None:
        return known
    choice = acceleration.choose(
        question,
        lambda candidate: acceleration.attempt(attrs.evolve(load, acceleration=candidate)),
        careful=arguments.careful,
        avoid=arguments.avoid,
    )
    question.remember(choice)
    return choice


def _convert(path: Path, factory: Factory) -> None:
    """Convert a model's weights, if that is what would be used."""
    hardware = factory.hardware()
    question = acceleration.Question(hardware, None, converted.slow(path))
    if hardware.convert is not None and any(one.eight_bit for one in question.candidates):
        hardware.convert(path)


def _trim_log() -> None:
    """All model processes of the user append to one log, which they inherit as standard error."""
    status = os.fstat(2)
    if stat.S_ISREG(status.st_mode) and status.st_size > _MOST_LOG:
        with contextlib.suppress(OSError):
            os.ftruncate(2, 0)


def _tell(line: str) -> None:
    """Write a line to the starter, which may be gone while others use this process."""
    with contextlib.suppress(OSError):
        os.write(1, f"{line}\n".encode("utf-8", "replace"))


def _why_unable(error: OSError | LspCalibError) -> str:
    """Why no process can run here, in words for the user."""
    if not isinstance(error, OSError):
        return str(error)
    place, full = error.filename or home.run_folder(), error.errno in FULL
    advice = "Free some space on that disk" if full else "Make it writable"
    cause = f"{place} cannot be written ({why(error)})"
    return f"The model cannot be started: {cause}. {advice}, or set LSP_CALIB_HOME to a folder elsewhere."


def _end(code: int) -> NoReturn:
    """End at once: the decoding thread may be in native code."""
    with contextlib.suppress(OSError):  # the log's disk may be full
        sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    main()
