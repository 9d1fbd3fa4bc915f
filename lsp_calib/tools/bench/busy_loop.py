"""A process that wants a core, and nothing else: what `lsp-calib bench --beside` measures beside.

`python -m lsp_calib.tools.bench.busy_loop PARENT NICE SECONDS`: prints a line when it is about to begin; ends
after so many seconds, or as soon as process PARENT is no longer its parent, so that none outlives a bench.
"""

from __future__ import annotations

import os
import sys
import time

# Some milliseconds between two looks at the parent.
_ROUND = 100_000


def main(parent: str, nice: str, seconds: str) -> None:
    end = time.monotonic() + float(seconds)
    if int(nice):
        os.nice(max(int(nice) - os.nice(0), 0))
    sys.stdout.write("busy\n")
    sys.stdout.flush()
    while os.getppid() == int(parent) and time.monotonic() < end:
        for _ in range(_ROUND):
            pass


if __name__ == "__main__":
    main(*sys.argv[1:])
