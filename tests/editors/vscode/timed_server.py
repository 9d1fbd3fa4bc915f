"""A language server between VS Code and the real one that answers late.

    timed_server.py SERVER SECONDS serve

Passes everything on. SECONDS: for how long the first answer with completions at each place is held back, as
if the machine were that slow. When VS Code asks again at the same place, the answer comes at once.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
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


def main() -> int:
    program, seconds, *arguments = sys.argv[1:]
    server = subprocess.Popen([program, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert server.stdin is not None
    assert server.stdout is not None
    places: dict[Any, str] = {}  # of the requests without an answer
    answered: set[str] = set()

    def back(source: BinaryIO) -> None:
        for raw, message in frames(source):
            place = None if "method" in message else places.pop(message.get("id"), None)
            if place is not None and items(message) and place not in answered:
                answered.add(place)
                time.sleep(float(seconds))
            sys.stdout.buffer.write(raw)
            sys.stdout.buffer.flush()

    answers = threading.Thread(target=back, args=(server.stdout,), daemon=True)
    answers.start()
    for raw, message in frames(sys.stdin.buffer):
        if message.get("method") == METHOD:
            params = message["params"]
            places[message["id"]] = json.dumps([params["textDocument"]["uri"], params["position"]])
        server.stdin.write(raw)
        server.stdin.flush()
    server.stdin.close()
    answers.join(10)
    return server.wait(10)


if __name__ == "__main__":
    sys.exit(main())
