"""A language server between VS Code and the real one: passes everything on, and notes when completions are
asked for and answered.

    timed_server.py SERVER JOURNAL SECONDS serve

JOURNAL: a file of JSON lines, {"what": "asked" | "answered" | "cancelled", "id", "at", "n", "model"}:
at in milliseconds since the epoch, as the page's clock has it; an answer has n items, model of them from the
model and the others from the server's memory. It holds no source text.
SECONDS: for how long the first answer with completions at each place is held back, as if the machine were
that slow; usually 0. It may come from the server's memory: a fast machine completes the words before the last
key while that is typed. When VS Code asks again at the same place, the answer comes at once.
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
    source: BinaryIO,
    target: BinaryIO,
    note: Callable[[dict[str, Any], float], None],
    hold_back: Callable[[dict[str, Any]], None] | None = None,
) -> None:
    for raw, message in frames(source):
        if hold_back is not None:
            hold_back(message)
        # Noted first: an answer may come before the next line is run.
        note(message, 1000 * time.time())
        target.write(raw)
        target.flush()
    target.close()


def main() -> int:
    program, journal, seconds, *arguments = sys.argv[1:]
    server = subprocess.Popen([program, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert server.stdin is not None
    assert server.stdout is not None
    places: dict[Any, str] = {}  # of the requests without an answer
    answered_places: set[str] = set()
    lock = threading.Lock()
    with Path(journal).open("a", buffering=1, encoding="utf-8") as file:

        def write(what: str, message: dict[str, Any], at: float, **more: int) -> None:
            with lock:
                file.write(json.dumps({"what": what, "id": message["id"], "at": at, **more}) + "\n")

        def asked(message: dict[str, Any], at: float) -> None:
            if message.get("method") == METHOD:
                params = message["params"]
                places[message["id"]] = json.dumps([params["textDocument"]["uri"], params["position"]])
                write("asked", message, at)
            elif message.get("method") == "$/cancelRequest" and message["params"]["id"] in places:
                write("cancelled", message["params"], at)

        def answered(message: dict[str, Any], at: float) -> None:
            if "method" not in message and places.pop(message.get("id"), None):
                write("answered", message, at, n=len(items(message)), model=from_model(message))

        def hold_back(message: dict[str, Any]) -> None:
            place = None if "method" in message else places.get(message.get("id"))
            if place is not None and items(message) and place not in answered_places:
                answered_places.add(place)
                time.sleep(float(seconds))

        back = threading.Thread(
            target=copy, args=(server.stdout, sys.stdout.buffer, answered, hold_back), daemon=True
        )
        back.start()
        copy(sys.stdin.buffer, server.stdin, asked)
        back.join(10)
        return server.wait(10)


if __name__ == "__main__":
    sys.exit(main())
