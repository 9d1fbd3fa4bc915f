"""A language server between an editor and the real one: the more of a suggestion is typed, the surer it is.

    rising_server.py SERVER... serve

Passes everything on but the probability of inline completions: that rises by a seventh of what is missing
with each character typed along since a suggestion came, from 0.1, and tier and reason follow it. So an editor
is tested with a probability that moves at each key, whatever the real server and its calibrator say.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any, BinaryIO

sys.path.insert(0, str(Path(__file__).parent / "vscode"))

from timed_server import METHOD, frames, items

ACCEPT, REJECT = 0.78, 0.25


def risen(typed: int) -> tuple[float, str]:
    """Probability and tier of a suggestion of which so many characters have been typed."""
    confidence = 1 - 0.9 * (6 / 7) ** typed
    tier = "accept" if confidence >= ACCEPT else "reject" if confidence < REJECT else "review"
    return confidence, tier


def framed(message: dict[str, Any]) -> bytes:
    body = json.dumps(message, separators=(",", ":")).encode()
    return b"Content-Length: %d\r\n\r\n%s" % (len(body), body)


def main() -> int:
    server = subprocess.Popen(sys.argv[1:], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert server.stdin is not None
    assert server.stdout is not None
    places: dict[Any, int] = {}  # characters of the positions of requests without an answer
    first: dict[str, int] = {}  # of the first answer with each suggestion

    def asked(message: dict[str, Any]) -> bool:
        if message.get("method") == METHOD:
            places[message["id"]] = message["params"]["position"]["character"]
        return False

    def answered(message: dict[str, Any]) -> bool:
        at = None if "method" in message else places.pop(message.get("id"), None)
        if at is None:
            return False
        for item in items(message):
            suggestion = item["command"]["arguments"][0]
            typed = at - first.setdefault(suggestion["id"], at)
            suggestion["confidence"], suggestion["tier"] = risen(typed)
            suggestion["reason"] = f"typed along for {typed} characters"
        return True

    def copy(source: BinaryIO, target: BinaryIO, changes: Any) -> None:
        for raw, message in frames(source):
            target.write(framed(message) if changes(message) else raw)
            target.flush()
        target.close()

    back = threading.Thread(target=copy, args=(server.stdout, sys.stdout.buffer, answered), daemon=True)
    back.start()
    copy(sys.stdin.buffer, server.stdin, asked)
    back.join(10)
    return server.wait(10)


if __name__ == "__main__":
    sys.exit(main())
