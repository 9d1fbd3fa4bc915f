"""A session that holds the model process and, when asked, processes that load the processor.

`python -m lsp_calib.tools.bench.session_child MODEL`, to be started as the leader of a new session. Linux
shares the processor by session first (autogroups) and applies niceness only within a session. A process
cannot join an existing session, so the same parent has to start the model process and the nice processes.

One JSON object per line on standard input, one answer per line on standard output, the first unasked:

                                                            -> {"model": pid, "listening": bool}
    {"busy": int, "nice": int, "seconds": float}            -> {"busy": [pid, ...]}; earlier ones end first

At the end of the input it ends all processes that it has started.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Sequence
from concurrent.futures import TimeoutError as NotYet
from subprocess import Popen

from lsp_calib.inference.models.cards import choose
from lsp_calib.inference.process.starting import Child
from lsp_calib.tools.bench.busy import end_all, start_busy
from lsp_calib.tools.bench.json_lines import answer

# Seconds for the model process to start listening, and to end after its clients have gone.
_PATIENCE = 60.0
_END = 5.0


def main(model: str) -> None:
    card, path = choose(model)
    child = Child(card, path, new_session=False)
    busy: Sequence[Popen[bytes]] = ()
    try:
        answer({"model": child.pid, "listening": child.listening.result(_PATIENCE)})
        for line in sys.stdin:
            asked = json.loads(line)
            end_all(busy)
            busy = start_busy(asked["busy"], nice=asked["nice"], seconds=asked["seconds"])
            answer({"busy": [one.pid for one in busy]})
    finally:
        end_all(busy)
        try:
            child.code.result(_END)
        except NotYet:
            os.kill(child.pid, signal.SIGKILL)


if __name__ == "__main__":
    main(*sys.argv[1:])
