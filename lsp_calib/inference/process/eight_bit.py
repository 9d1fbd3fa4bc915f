"""Weights of 8 bits for AMX: made and tried in the background, once the model answers and nobody asks it.

With AMX they are multiplied faster than those of 4 bits with scales of their own, as measured on one machine
(docs/engine.md). Whether they are here, a trial decides. What it finds holds from the next start on.
"""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

import attrs

from lsp_calib.inference.backend import EIGHT_BIT, Acceleration, Hardware, LoadOptions
from lsp_calib.inference.models import converted, demands
from lsp_calib.inference.process.acceleration import FASTER, AccelerationChoice, Question, Tried, attempt

# Seconds without a request before a trial, and how often one that came in the way is made again.
_QUIET, _MOST = 10.0, 50
# The disk keeps so many times the bytes of the converted weights free.
_FREE = 2


class Worker(Protocol):
    """Who answers requests."""

    def wait_until_idle(self, seconds: float) -> None:
        """Wait until nothing has been asked for so many seconds."""
        ...

    @property
    def is_idle(self) -> bool:
        """Whether nothing runs or waits."""
        ...


def are_wanted(path: Path, hardware: Hardware, choice: AccelerationChoice) -> bool:
    """Whether weights of 8 bits are worth a trial beside the acceleration that is used, and there is room."""
    if not (hardware.amx and hardware.converts) or choice.acceleration != Acceleration():
        return False
    if EIGHT_BIT in {one.name for one in choice.tried} or not converted.slow_with_amx(path):
        return False
    size = converted.size_with_amx(path)
    has_space = converted.place(path).is_file() or shutil.disk_usage(path.parent).free >= _FREE * size
    return has_space and demands.leaves_a_third(size - path.stat().st_size)


def preferred(choice: AccelerationChoice, plain: Tried, eight_bit: Tried) -> AccelerationChoice:
    """The choice, now that both were tried under the same conditions."""
    others = [one for one in choice.tried if one.name not in (plain.name, eight_bit.name)]
    tried = (*others, plain, eight_bit)
    faster = eight_bit.seconds and plain.seconds and eight_bit.seconds < FASTER * plain.seconds
    return AccelerationChoice(Acceleration(eight_bit=True) if faster else choice.acceleration, tried)


def consider(
    question: Question,
    choice: AccelerationChoice,
    options: LoadOptions,
    worker: Worker,
    attempt: Callable[[LoadOptions, Callable[[], bool]], Tried | None] = attempt,
) -> None:
    """Make and try weights of 8 bits while the model is idle, and remember what is faster.

    A request ends the trial, which is made again later; converted weights stay. They are removed if they are
    not faster. What ends a trial besides is the lack of memory above all: then it is not made again.
    """

    def tried(acceleration: Acceleration) -> Tried | None:
        return attempt(attrs.evolve(options, acceleration=acceleration), lambda: not worker.is_idle)

    for _ in range(_MOST):
        worker.wait_until_idle(_QUIET)
        if not are_wanted(options.path, question.hardware, choice):  # the memory may be taken by now
            return
        eight_bit = tried(Acceleration(eight_bit=True))
        plain = eight_bit and tried(choice.acceleration)
        if eight_bit is None or plain is None or plain.seconds is None:
            if worker.is_idle:
                return
            continue
        better = preferred(choice, plain, eight_bit)
        question.remember(better)
        if not better.acceleration.eight_bit:
            for one in converted.all_of(options.path):
                one.unlink(missing_ok=True)
        return


def begin(question: Question, choice: AccelerationChoice, options: LoadOptions, worker: Worker) -> None:
    """`consider` them in a thread of its own, where they `are_wanted`."""
    if are_wanted(options.path, question.hardware, choice):
        options = attrs.evolve(options, on_progress=lambda _: None)
        arguments = question, choice, options, worker
        threading.Thread(target=consider, args=arguments, name="weights of 8 bits", daemon=True).start()
