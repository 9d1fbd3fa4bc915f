"""Chooses the library that runs a model, and the hardware features it uses: the fastest that work.

Compiled libraries can crash on hardware they were never tried on: GCC 12 compiles llama.cpp's code for AMX
wrongly, drivers of GPUs fail. So doubtful features are tried in a process of their own (`attempt`) before the
model process relies on them. The result is remembered for this build of the library and this processor.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Self

import attrs
import msgspec
from msgspec import Meta

from lsp_calib.errors import ModelError, ModelFileError, SettingsError
from lsp_calib.inference import processor
from lsp_calib.inference.backend import (
    EIGHT_BIT,
    Acceleration,
    Backend,
    Factory,
    Hardware,
    LoadOptions,
    forced_library,
)
from lsp_calib.inference.engine import Request
from lsp_calib.inference.models import converted, sidecar
from lsp_calib.inference.process import starting
from lsp_calib.installation import how_to_install
from lsp_calib.values import Prompt, Segment

# An installed library may fail to load: it is for another system, or the processor is too old for it.
_UNUSABLE = (ImportError, OSError, RuntimeError)


def find_library() -> Factory:
    """llama.cpp's compiled binding where it is installed, else the prebuilt one; LSP_CALIB_ENGINE ("local",
    "prebuilt") forces one. Its import takes a moment.

    Raises ModelError, which names the packages to install, if there is none.
    """
    try:
        wanted = forced_library()
    except SettingsError as error:
        raise ModelError(str(error)) from error
    missing, remedies = [], []
    for name, package, remark in (
        ("local", "llama-cpp-python", "the fast one; it needs a C compiler"),
        ("prebuilt", "xllamacpp", "ready-made"),
    ):
        if wanted not in ("", name):
            continue
        try:
            if name == "local":
                from lsp_calib.inference.local.llama import LlamaModel

                return LlamaModel
            from lsp_calib.inference.prebuilt.model import PrebuiltModel
        except _UNUSABLE as error:
            missing.append(f"{package} cannot be used ({error})")
            remedies.append(f"{how_to_install(name)} ({remark})")
        else:
            return PrebuiltModel
    what = f"LSP_CALIB_ENGINE is {wanted}, and" if wanted else "No inference engine is installed:"
    unset = ", or unset LSP_CALIB_ENGINE: then any that is installed is used" if wanted else ""
    raise ModelError(f"{what} {'; '.join(missing)}. Run {' or '.join(remedies)}{unset}.")


MEMORY = ".acceleration.json"
# More layers than any model has.
ALL_LAYERS = 999
FASTER = 0.9
"""A safer acceleration must be faster by this much to be preferred: a trial's time is not exact."""


class Tried(msgspec.Struct, frozen=True, array_like=True):
    """The trial of an acceleration, by its name. seconds: for a fixed prompt and answer, None if it failed.
    how: the cause."""

    name: str
    seconds: Annotated[float, Meta(gt=0.0)] | None
    how: str = ""


@attrs.frozen
class AccelerationChoice:
    """An acceleration, and the trials that led to it: none where nothing was in doubt."""

    acceleration: Acceleration
    tried: tuple[Tried, ...] = ()

    @property
    def failed(self) -> tuple[Tried, ...]:
        return tuple(one for one in self.tried if one.seconds is None)

    @property
    def was_tried(self) -> bool:
        """Whether a trial with it succeeded."""
        return self.acceleration.name in {one.name for one in self.tried if one.seconds is not None}


Try = Callable[[Acceleration], Tried | None]
"""A trial; None where it was ended from outside and shows nothing."""


@attrs.frozen
class Question:
    """Which acceleration a model is to use on some hardware.

    gpu_layers: as the user wants it; None leaves it to the trial. slow_weights: the model's are worth
    converting (`converted.slow`); AMX multiplies them as they are. model: its SHA-256, by which the answer
    is remembered. has_eight_bit: there are converted weights for AMX, which `eight_bit` makes and tries once
    the model answers; until then they are no candidate.
    """

    hardware: Hardware
    gpu_layers: int | None
    slow_weights: bool = False
    model: str = ""
    has_eight_bit: bool = False

    @classmethod
    def of(cls, path: Path, hardware: Hardware, gpu_layers: int | None, sha256: str) -> Self:
        """The question for a model file. Raises ModelFileError if it is no model."""
        amx = hardware.amx and hardware.converts and converted.slow_with_amx(path)
        there = amx and converted.place(path).is_file()
        return cls(hardware, gpu_layers, converted.slow(path), sha256, there)

    @property
    def candidates(self) -> tuple[Acceleration, ...]:
        """The accelerations that may be used, the most promising first and the safest last."""
        hardware, layers = self.hardware, self.gpu_layers
        if layers is None and hardware.gpu:
            layers = ALL_LAYERS
        converts = self.slow_weights and hardware.converts and not hardware.amx
        return (
            *([Acceleration(gpu_layers=layers)] if layers else []),
            *([Acceleration(eight_bit=True)] if converts else []),
            Acceleration(),
            *([Acceleration(amx=False)] if hardware.amx else []),
            Acceleration(amx=False, repack=False),
        )

    @property
    def rivals(self) -> frozenset[str]:
        """Names of the accelerations whose speeds are compared; empty where the first is taken untried."""
        hardware, layers = self.hardware, self.gpu_layers
        if layers is None and hardware.gpu:
            return frozenset({"gpu", "cpu", "cpu-without-amx" if hardware.amx else EIGHT_BIT})
        return frozenset({"cpu", "cpu-without-amx"} if hardware.amx and not layers else ())

    @property
    def _key(self) -> str:
        wanted = "auto" if self.gpu_layers is None else str(self.gpu_layers)
        return f"{self.model[:16]} gpu={wanted}"

    def recall(self) -> AccelerationChoice | None:
        """The remembered choice, None if there is none."""
        choice = _entries(machine(self.hardware)).get(self._key)
        later = [Acceleration(eight_bit=True)] if self.has_eight_bit else []
        known = {one.name: one for one in (*self.candidates, *later)}
        if choice is None or choice.acceleration.name not in known:
            return None
        return attrs.evolve(choice, acceleration=known[choice.acceleration.name])

    def remember(self, choice: AccelerationChoice) -> None:
        """Keep the results of the trials. Never fails: at worst the trials are repeated."""
        if not choice.tried:
            return
        models = sidecar.read(MEMORY).get(machine(self.hardware))
        entry = msgspec.to_builtins(_Entry(choice.acceleration.name, choice.tried))
        kept = dict(models) if isinstance(models, Mapping) else {}
        sidecar.update(MEMORY, machine(self.hardware), {**kept, self._key: entry})


def fastest_that_works(
    question: Question, attempt: Try, *, careful: bool = False, avoid: Collection[str] = ()
) -> AccelerationChoice:
    """The fastest acceleration that works.

    attempt: tries one. careful: the process crashed before it answered, so everything is tried before it is
    used. avoid: names of accelerations that crashed although their trial succeeded.
    Raises ModelFileError if nothing works.
    """
    offered = [one for one in question.candidates if one.name not in avoid]
    rivals = question.rivals
    if offered and not careful and not rivals:
        return AccelerationChoice(offered[0])
    tried = [Tried(name, None, "while it answered") for name in avoid]
    best: tuple[float, Acceleration] | None = None
    for candidate in offered:
        if best is not None and candidate.name not in rivals:
            continue
        outcome = attempt(candidate)
        if outcome is None:
            return AccelerationChoice(candidate)
        tried.append(outcome)
        if outcome.seconds is not None and (best is None or outcome.seconds < FASTER * best[0]):
            best = outcome.seconds, candidate
    if best is None:
        raise ModelFileError(_nothing_works(tried))
    return AccelerationChoice(best[1], tuple(tried))


def _nothing_works(tried: Sequence[Tried]) -> str:
    hows = ", ".join(dict.fromkeys(one.how for one in tried))
    return (
        f"llama.cpp crashes with this model on this machine ({hows}), also with the simplest kernels. "
        "The file may be damaged (`lsp-calib models verify`), or this build of llama.cpp faulty. "
        f"Use the prebuilt engine ({how_to_install('prebuilt')} and LSP_CALIB_ENGINE=prebuilt), "
        "another model, or a remote server (`remote.url`). `lsp-calib doctor` shows what works here."
    )


def failure(choice: AccelerationChoice) -> str:
    """The crashes before a working acceleration was found, in one sentence; empty if there were none."""
    if not choice.failed:
        return ""
    last = choice.failed[-1]  # the others need the same and more
    words = {"gpu": "the GPU", "cpu": "AMX", EIGHT_BIT: "weights of 8 bits"}
    what = words.get(last.name, "") if choice.acceleration.repack else "repacked weights"
    return f"The model runs without {what}: llama.cpp crashed with {what} ({last.how})."


def note(choice: AccelerationChoice) -> str:
    """`failure`, with the command that helps."""
    return f"{failure(choice)} `lsp-calib doctor` says how to get a faster build." if choice.failed else ""


def machine(hardware: Hardware) -> str:
    """The scope in which trials are valid: this build of the library, on this processor."""
    return f"{hardware.build} on {processor.name()}"


class _Entry(msgspec.Struct):
    chosen: str
    tried: tuple[Tried, ...] = ()


def remembered(of: str) -> list[AccelerationChoice]:
    """The remembered choices for a `machine`, one for each model that was tried."""
    return list(_entries(of).values())


def _entries(of: str) -> dict[str, AccelerationChoice]:
    """The remembered choices for a `machine`, by key; damaged ones are left out."""
    amx_and_gpu = Question(Hardware("", amx=True, gpu=True), None)
    by_name = {one.name: one for one in (*amx_and_gpu.candidates, Acceleration(eight_bit=True))}
    found = {}
    models = sidecar.read(MEMORY).get(of)
    for key, raw in models.items() if isinstance(models, Mapping) else ():
        with contextlib.suppress(msgspec.ValidationError, KeyError):
            entry = msgspec.convert(raw, _Entry)
            found[key] = AccelerationChoice(by_name[entry.chosen], entry.tried)
    return found


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
# Seconds between two looks whether a trial is in the way.
_LOOK = 0.1

# The child's exit code where llama.cpp refuses the model, and those of SIGKILL and SIGTERM.
_NOT_LOADED = 4
_KILLED = (-9, -15)


def attempt(options: LoadOptions, in_the_way: Callable[[], bool] | None = None) -> Tried | None:
    """Try `options.acceleration` in a child of this process, by this process's own program.

    in_the_way: asked while it runs; then the trial is ended.
    None where that is no evidence: the child was ended from outside (for lack of memory above all), or the
    model cannot be loaded in any way, which is reported when it is loaded.
    """
    name = options.acceleration.name
    wanted = {**attrs.asdict(options.acceleration), "threads": options.threads}
    command = [sys.executable, *sys.orig_argv[1:], f"--trial={json.dumps(wanted)}"]
    limit = _SECONDS + options.path.stat().st_size / _BYTES_A_SECOND
    # The child's standard input ends with this process, and then the child ends as well.
    reading, writing = os.pipe()
    end = time.monotonic() + limit
    output: bytes | None = None
    try:
        with subprocess.Popen(command, stdin=reading, stdout=subprocess.PIPE) as child:
            while output is None:
                try:
                    output, _ = child.communicate(timeout=_LOOK if in_the_way else limit)
                except subprocess.TimeoutExpired:
                    late = time.monotonic() >= end
                    if not late and (in_the_way is None or not in_the_way()):
                        continue
                    child.kill()
                    child.wait()
                    converted.discard(options.path, child.pid)
                    return Tried(name, None, f"no answer in {limit:.0f} s") if late else None
    finally:
        os.close(reading)
        os.close(writing)
    if child.returncode in (*_KILLED, _NOT_LOADED):
        return None
    if child.returncode:
        return Tried(name, None, starting.how(child.returncode))
    with contextlib.suppress(ValueError, TypeError, KeyError):
        if (seconds := float(json.loads(output)["seconds"])) > 0:
            return Tried(name, seconds)
    return Tried(name, None, "no figures")


def run_trial(factory: Factory, options: LoadOptions, wanted: str) -> None:
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
    timing = backend.begin(request).advance().timing
    # An answer may end early: other kernels compute slightly other numbers.
    answer = timing.generate_ms * _ANSWER / max(timing.generated_tokens, 1)
    return (timing.prompt_ms + answer) / 1e3


def _end_with_parent() -> None:
    while os.read(0, 64):
        pass
    os._exit(1)
