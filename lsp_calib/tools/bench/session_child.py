"""A session that holds the model process and, when asked, processes that load the processor.

`python -m lsp_calib.tools.bench.session_child MODEL`, to be started as the leader of a new session. Linux
shares the processor by session first (autogroups) and heeds niceness only within one; nobody can join another
one's session, so that what is to be nice to the model process has to come from where that comes from.

One JSON object a line on standard input, one answer a line on standard output, the first without a question:

                                                            -> {"model": pid, "listening": bool}
    {"busy": int, "nice": int, "seconds": float}            -> {"busy": [pid, ...]}; those before end first

At the end of the input it ends what it has started.
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

# Seconds for the model process to listen; and to end, once its clients are gone.
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
