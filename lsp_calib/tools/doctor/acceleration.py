"""The hardware that llama.cpp uses, the causes of its crashes, and how to get a faster build."""

from __future__ import annotations

from lsp_calib.errors import ModelError
from lsp_calib.inference import backends, processor
from lsp_calib.inference.backend import Hardware
from lsp_calib.inference.local import compiler
from lsp_calib.inference.process import acceleration
from lsp_calib.inference.process.acceleration import AccelerationChoice
from lsp_calib.tools.doctor.finding import Finding, Level

_REBUILD = "pip install --force-reinstall --no-cache-dir --no-binary llama-cpp-python llama-cpp-python"
_PREPARE = 'eval "$(python -m lsp_calib.inference.local.compiler)"; '
_NEWER = f"CC=gcc-14 CXX=g++-14 {_REBUILD}"


def findings() -> list[Finding]:
    """One finding about the library that runs models; none if there is no such library."""
    try:
        hardware = backends.find().hardware()
    except ModelError:
        return []
    choices = acceleration.remembered(acceleration.machine(hardware))
    return [described(hardware, choices)]


def described(hardware: Hardware, choices: list[AccelerationChoice]) -> Finding:
    """The finding. choices: the results of trials on this machine with this build."""
    data = {
        "build": hardware.build,
        "processor": processor.name(),
        "amx": hardware.amx,
        "gpu": hardware.gpu,
        "chosen": sorted({choice.acceleration.name for choice in choices}),
        "failed": sorted({f"{one.name}: {one.outcome.how}" for choice in choices for one in choice.failed}),
    }
    for choice in choices:
        if choice.failed:
            return Finding(
                "acceleration", Level.NOTE, acceleration.failure(choice), _advice(hardware, choice), data=data
            )
    names = {choice.acceleration.name for choice in choices}
    if "gpu" in names:
        says = "llama.cpp uses the GPU, which was faster than the processor."
    elif hardware.gpu and choices:
        says = "llama.cpp uses the processor, which was faster than the GPU."
    elif hardware.amx and names == {"cpu-without-amx"}:
        says = "llama.cpp runs without AMX, because it was slower with it."
    elif hardware.amx and choices:
        says = "llama.cpp uses all instructions of this processor, AMX included."
    elif processor.has_amx() and not hardware.amx:
        return _without_amx(data)
    else:
        says = "llama.cpp uses all instructions of this processor."
    return Finding("acceleration", Level.GOOD, says, data=data)


def _without_amx(data: dict[str, object]) -> Finding:
    says = "This processor has AMX, but llama.cpp was compiled without it."
    if compiler.flags() == compiler.WITHOUT_AMX:
        says += " The installed compiler generates AMX code that crashes, so this is its fastest build."
        advice = f"Try a build with AMX and a newer compiler (GCC 14, Clang): `{_NEWER}`."
        return Finding("acceleration", Level.GOOD, says, advice, data=data)
    return Finding("acceleration", Level.NOTE, says, f"Build it with AMX: `{_PREPARE}{_REBUILD}`.", data=data)


def _advice(hardware: Hardware, choice: AccelerationChoice) -> str:
    failed = {one.name for one in choice.failed}
    if "gpu" in failed:
        return "Update the GPU's driver or the library, or set `gpuLayers = 0` in config.toml."
    without_amx = hardware.amx and choice.acceleration.amx is False and choice.acceleration.repack
    if without_amx and compiler.flags() != compiler.MENDED:
        return f"A newer compiler (GCC 14, Clang) makes AMX code that works and may be faster: `{_NEWER}`."
    prepare = _PREPARE if hardware.amx else ""
    return f"Build the library again, for this processor: `{prepare}{_REBUILD}`."
