"""The places of the cursor that an editor has told the server, as the scripted server's `wire` has them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import attrs

METHOD = "lsp-calib/cursor"
EVERY = 0.3  # seconds from one to the next, at least


@attrs.frozen
class Wire:
    """file: the script's `wire`."""

    file: Path

    def read(self) -> list[dict[str, Any]]:
        """What the servers have read so far, in order."""
        whole, _, _ = (self.file.read_text("utf-8") if self.file.exists() else "").rpartition("\n")
        return [message["in"] for line in whole.splitlines() if "in" in (message := json.loads(line))]

    def methods(self) -> list[str | None]:
        """Of the messages; None for an answer."""
        return [message.get("method") for message in self.read()]

    def places(self) -> list[tuple[str, int, int]]:
        """File, line and character of each place that was told."""
        told = [message["params"] for message in self.read() if message.get("method") == METHOD]
        return [
            (Path(one["textDocument"]["uri"]).name, one["position"]["line"], one["position"]["character"])
            for one in told
        ]
