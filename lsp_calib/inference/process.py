"""The model process: the only place where a model is loaded.

It speaks the frames of `wire` over its standard input and output and goes when its input closes, so it never
outlives its client, however that ends. Native output is sent to standard error: it cannot disturb a frame.
"""

from __future__ import annotations

import argparse
import contextlib
import heapq
import itertools
import os
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from lsp_calib.errors import EngineError, ModelError, RequestCancelledError
from lsp_calib.inference import checksum, gguf, wire
from lsp_calib.inference.engine import Request

if TYPE_CHECKING:
    from lsp_calib.inference.llama import LlamaModel


class Queue:
    """Requests by priority, then by age. Filled by the reading thread, emptied by the decoding one."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, int, Request, float]] = []
        self._count = itertools.count()
        self._changed = threading.Condition()
        self._running: int | None = None
        self._model: LlamaModel | None = None

    def serve(self, model: LlamaModel) -> None:
        """From now on a cancelled request that is already running is stopped inside its decode."""
        with self._changed:
            self._model = model

    def put(self, request_id: int, request: Request) -> None:
        with self._changed:
            heapq.heappush(
                self._heap, (request.priority, next(self._count), request_id, request, time.perf_counter())
            )
            self._changed.notify()

    def take(self) -> tuple[int, Request, float]:
        """The next request with the seconds it waited. Blocks."""
        with self._changed:
            while not self._heap:
                self._changed.wait()
            _, _, request_id, request, since = heapq.heappop(self._heap)
            self._running = request_id
            if self._model is not None:
                self._model.abort.clear()
            return request_id, request, time.perf_counter() - since

    def done(self) -> None:
        with self._changed:
            self._running = None

    def cancel(self, request_id: int) -> bool:
        """Stop a request; True if it was still waiting, and so is not answered by the decoding thread."""
        with self._changed:
            if self._running == request_id and self._model is not None:
                self._model.abort.set()
                return False
            before = len(self._heap)
            self._heap = [entry for entry in self._heap if entry[2] != request_id]
            heapq.heapify(self._heap)
            return len(self._heap) < before


class Writer:
    """Frames to the client, from either thread."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._lock = threading.Lock()

    def send(self, message: wire.Message) -> None:
        with self._lock, contextlib.suppress(BrokenPipeError):
            self._stream.write(wire.encode(message))
            self._stream.flush()


def main() -> None:
    parser = argparse.ArgumentParser(
        description="The model process of lsp-calib; started by it, not by hand."
    )
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--sha256", default="")
    parser.add_argument("--size", type=int, default=0)
    parser.add_argument("--context", type=int, required=True)
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--gpu-layers", type=int, default=0)
    arguments = parser.parse_args()

    # Frames get descriptors of their own; what native code prints goes to standard error.
    frames_out = os.fdopen(os.dup(1), "wb")
    frames_in = os.fdopen(os.dup(0), "rb")
    os.dup2(2, 1)
    with open(os.devnull, "rb") as nothing:  # noqa: PTH123 - a device, not a file
        os.dup2(nothing.fileno(), 0)
    writer = Writer(frames_out)
    queue = Queue()
    threading.Thread(target=_listen, args=(frames_in, queue, writer), daemon=True).start()

    model = _load(arguments, writer)
    if model is None:
        frames_out.close()
        os._exit(1)  # the listening thread is still blocked in a read
    queue.serve(model)
    while True:
        request_id, request, waited = queue.take()
        try:
            generation = model.generate(request, queued=waited)
            writer.send({"id": request_id, "generation": wire.generation_to_wire(generation)})
        except RequestCancelledError as error:
            writer.send({"id": request_id, "error": "cancelled", "message": str(error)})
        except EngineError as error:
            writer.send({"id": request_id, "error": "failed", "message": str(error)})
        finally:
            queue.done()


def _load(arguments: argparse.Namespace, writer: Writer) -> LlamaModel | None:
    path: Path = arguments.model
    try:
        gguf.check_header(path)
        if arguments.size:
            gguf.check_size(path, arguments.size)
        sha256 = checksum.verify(path, arguments.sha256)
        try:
            from lsp_calib.inference.llama import LlamaModel
        except ImportError as error:
            writer.send(
                {
                    "event": "failed",
                    "kind": "missing",
                    "message": f"llama-cpp-python is not installed ({error}). "
                    "Run `pip install 'lsp-calib[local]'` in the environment of lsp-calib.",
                }
            )
            return None
        reported = 0.0

        def progress(fraction: float) -> None:
            nonlocal reported
            if fraction - reported >= 0.1 or fraction == 1.0:
                reported = fraction
                writer.send({"event": "loading", "fraction": fraction})

        writer.send({"event": "loading", "fraction": 0.0})
        model = LlamaModel(
            path,
            context=arguments.context,
            threads=arguments.threads,
            gpu_layers=arguments.gpu_layers,
            on_progress=progress,
        )
    except ModelError as error:
        writer.send({"event": "failed", "kind": "file", "message": str(error)})
        return None
    writer.send({"event": "ready", "sha256": sha256})
    return model


def _listen(stream: BinaryIO, queue: Queue, writer: Writer) -> None:
    """Read frames until the client is gone, then end the process, also out of a running decode."""
    code = 1
    try:
        while (message := wire.read(stream)) is not None:
            if message.get("op") == "cancel":
                request_id = message.get("id")
                if isinstance(request_id, int) and queue.cancel(request_id):
                    writer.send(
                        {"id": request_id, "error": "cancelled", "message": "The request was cancelled."}
                    )
            else:
                request_id, request = wire.request_from_wire(message)
                queue.put(request_id, request)
        code = 0
    except (EngineError, OSError) as error:
        sys.stderr.write(f"{error}\n")
    finally:
        # Whatever happened: without this thread nobody would notice that the client is gone.
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    main()
