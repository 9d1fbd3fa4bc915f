"""Trying an acceleration in a process that may crash: it loads the model, decodes, and says how fast."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading

import attrs

from lsp_calib.errors import ModelError
from lsp_calib.inference.backend import Acceleration, Backend, Factory, LoadOptions
from lsp_calib.inference.engine import Request
from lsp_calib.inference.process import starting
from lsp_calib.inference.process.acceleration import TrialOutcome
from lsp_calib.values import Generation, Prompt, Segment

# Long enough for every kernel of a prompt and of an answer, and short enough to wait for.
_TEXT = """def read_settings(path):
    with open(path, encoding="utf-8") as file:
        settings = json.load(file)
    if not isinstance(settings, dict):
        raise ValueError("the settings are not an object")
    return {key: value for key, value in settings.items() if value is not None}


def write_settings(path, settings):
"""
_ANSWER = 8
# A trial ends after so many seconds, and one more for each 20 MB of the model: a hang is a failure as well.
_SECONDS, _BYTES_A_SECOND = 60.0, 20 << 20

# The child's exit code where llama.cpp refuses the model.
_NOT_LOADED = 4


def attempt(options: LoadOptions) -> TrialOutcome | None:
    """Try `options.acceleration` in a child of this process, by this process's own program.

    None where that is no evidence: the child was ended from outside (for lack of memory above all), or the
    model cannot be loaded in any way, which is reported when it is loaded.
    """
    wanted = {**attrs.asdict(options.acceleration), "threads": options.threads}
    command = [sys.executable, *sys.orig_argv[1:], f"--trial={json.dumps(wanted)}"]
    limit = _SECONDS + options.path.stat().st_size / _BYTES_A_SECOND
    late = threading.Event()
    # The child's standard input ends with this process, and then the child ends as well.
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:

        def end() -> None:
            late.set()
            child.kill()

        timer = threading.Timer(limit, end)
        timer.start()
        try:
            assert child.stdout is not None
            output = child.stdout.read()
        finally:
            timer.cancel()
    if late.is_set():
        return TrialOutcome(None, f"no answer in {limit:.0f} s")
    if starting.killed(child.returncode) or child.returncode == _NOT_LOADED:
        return None
    if child.returncode:
        return TrialOutcome(None, starting.how(child.returncode))
    try:
        seconds = float(json.loads(output)["seconds"])
    except (ValueError, TypeError, KeyError):
        return TrialOutcome(None, "no figures")
    return TrialOutcome(seconds) if seconds > 0 else TrialOutcome(None, "no figures")


def run(factory: Factory, options: LoadOptions, wanted: str) -> None:
    """The child's part: load, decode twice, print the second time. wanted: JSON from `attempt`."""
    fields = json.loads(wanted)
    threads = fields.pop("threads")
    threading.Thread(target=_end_with_parent, name="parent", daemon=True).start()
    try:
        backend = factory(attrs.evolve(options, threads=threads, acceleration=Acceleration(**fields)))
    except ModelError:
        os._exit(_NOT_LOADED)
    # The first time, pages are read in and kernels of a GPU are compiled.
    seconds = min(_seconds(backend), _seconds(backend))
    os.write(1, json.dumps({"seconds": seconds}).encode())


def _seconds(backend: Backend) -> float:
    request = Request(Prompt(((Segment.TEXT, _TEXT),), "", "trial"), _ANSWER, one_line=False, reuse=False)
    run = backend.begin(request, on_tokens=lambda _: None)
    generation = run.advance()
    run.close()
    assert isinstance(generation, Generation), "a request is answered"
    timing = generation.timing
    # An answer may end early: other kernels compute slightly other numbers.
    answer = timing.generate_ms * _ANSWER / max(timing.generated_tokens, 1)
    return (timing.prompt_ms + answer) / 1e3


def _end_with_parent() -> None:
    while os.read(0, 64):
        pass
    os._exit(1)
