"""A language server between an editor and the real one that has next edits, as a script says.

    edit_server.py SCRIPT SERVER... serve

Passes everything on but `lsp-calib/nextEdit` and what is said of its edits. SCRIPT is a JSON file that is
read at each request: {"edits": answers of `lsp-calib/nextEdit`, with a range for each encoding of positions,
"announced": whether it is, "wire": file to which each message of the editor is appended, as the scripted
server does}. The first answer counts until an edit is applied or dismissed, then the next one; after the last
one the answer is null.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from rising_server import framed
from timed_server import frames

METHOD = "lsp-calib/nextEdit"
SETTLED = ("lsp-calib.editApplied", "lsp-calib.editDismissed")


def main() -> int:
    script = Path(sys.argv[1])
    server = subprocess.Popen(sys.argv[2:], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert server.stdin is not None
    assert server.stdout is not None
    first: list[Any] = []  # the id of `initialize`
    writing = threading.Lock()
    settled, encoding = 0, "utf-16"

    def write(data: bytes) -> None:
        with writing:
            sys.stdout.buffer.write(data)
            sys.stdout.buffer.flush()

    def answered() -> None:
        nonlocal encoding
        for raw, message in frames(server.stdout):
            if first and message.get("id") == first[0] and "method" not in message:
                first.clear()
                capabilities = message["result"]["capabilities"]
                encoding = capabilities.get("positionEncoding", encoding)
                announced = json.loads(script.read_text("utf-8"))["announced"]
                capabilities["experimental"]["lspCalib"]["nextEdit"] = announced
                raw = framed(message)
            write(raw)
        os._exit(server.wait())  # the editor waits for this end

    back = threading.Thread(target=answered, daemon=True)
    back.start()
    for raw, message in frames(sys.stdin.buffer):
        told = json.loads(script.read_text("utf-8"))
        with Path(told["wire"]).open("a", encoding="utf-8") as wire:
            wire.write(json.dumps({"in": message}) + "\n")
        method, result = message.get("method"), None
        if method == "initialize":
            first.append(message["id"])
        if method == METHOD:
            result = (told["edits"][settled:] or [None])[0]
            result = result and result | {"range": result["range"][encoding]}
        elif method == "workspace/executeCommand" and message["params"]["command"] in SETTLED:
            settled += 1
        else:
            server.stdin.write(raw)
            server.stdin.flush()
            continue
        write(framed({"jsonrpc": "2.0", "id": message["id"], "result": result}))
    server.stdin.close()
    back.join(10)
    return server.wait(10)


if __name__ == "__main__":
    sys.exit(main())
