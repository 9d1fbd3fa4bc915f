"""A language server between VS Code and the real one: passes everything on, and notes when completions are
asked for and answered.

    timed_server.py SERVER JOURNAL SECONDS serve

JOURNAL: a file of JSON lines, {"what": "asked" | "answered" | "cancelled", "id", "at", "n", "model"}:
at in milliseconds since the epoch, as the page's clock has it; an answer has n items, model of them from the
model and the others from the server's memory. It holds no source text.
SECONDS: for how long each answer of the model is held back, as if the machine were that slow; usually 0.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

METHOD = "textDocument/inlineCompletion"


def frames(stream: BinaryIO) -> Any:
    """Each message with its header, as bytes, and its content, parsed."""
    while True:
        header = b""
        while not header.endswith(b"\r\n\r\n"):
            line = stream.readline()
            if not line:
                return
            header += line
        length = next(
            int(line.split(b":")[1])
            for line in header.split(b"\r\n")
            if line.lower().startswith(b"content-length")
        )
        body = stream.read(length)
        yield header + body, json.loads(body)


def items(message: dict[str, Any]) -> list[dict[str, Any]]:
    """The completions in a message; none in one that is something else."""
    result = message.get("result")
    found = result.get("items", []) if isinstance(result, dict) else result
    return [one for one in found or [] if isinstance(one, dict) and "insertText" in one]


def from_model(message: dict[str, Any]) -> int:
    """How many of the completions in a message the model was asked for."""
    return sum(item["command"]["arguments"][0]["source"] == "model" for item in items(message))


def copy(
    source: BinaryIO, target: BinaryIO, note: Callable[[dict[str, Any], float], None], held_back: float = 0.0
) -> None:
    for raw, message in frames(source):
        if held_back and from_model(message):
            time.sleep(held_back)
        at = 1000 * time.time()
        target.write(raw)
        target.flush()
        note(message, at)
    target.close()


def main() -> int:
    program, journal, seconds, *arguments = sys.argv[1:]
    server = subprocess.Popen([program, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert server.stdin is not None
    assert server.stdout is not None
    open_ids: set[Any] = set()
    lock = threading.Lock()
    with Path(journal).open("a", buffering=1, encoding="utf-8") as file:

        def write(what: str, message: dict[str, Any], at: float, **more: int) -> None:
            with lock:
                file.write(json.dumps({"what": what, "id": message["id"], "at": at, **more}) + "\n")

        def asked(message: dict[str, Any], at: float) -> None:
            if message.get("method") == METHOD:
                open_ids.add(message["id"])
                write("asked", message, at)
            elif message.get("method") == "$/cancelRequest" and message["params"]["id"] in open_ids:
                write("cancelled", message["params"], at)

        def answered(message: dict[str, Any], at: float) -> None:
            if "method" not in message and message.get("id") in open_ids:
                open_ids.discard(message["id"])
                write("answered", message, at, n=len(items(message)), model=from_model(message))

        back = threading.Thread(
            target=copy, args=(server.stdout, sys.stdout.buffer, answered, float(seconds)), daemon=True
        )
        back.start()
        copy(sys.stdin.buffer, server.stdin, asked)
        back.join(10)
        return server.wait(10)


if __name__ == "__main__":
    sys.exit(main())
