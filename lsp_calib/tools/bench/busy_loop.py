"""A process that only keeps one core busy, for `lsp-calib bench --beside`.

`python -m lsp_calib.tools.bench.busy_loop PARENT NICE SECONDS`: prints a line just before it begins. It ends
after SECONDS, or as soon as process PARENT is no longer its parent, so that it never outlives a bench.
"""

from __future__ import annotations

import os
import sys
import time

# Some milliseconds of work between two checks of the parent.
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
