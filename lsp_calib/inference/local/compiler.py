"""Whether the C compiler here makes working AMX code of llama.cpp, and how to build it where it does not.

GCC 12 and older tell the optimiser that `_tile_loadconfig` reads 8 bytes; it reads 64. The stores of the rest
are removed, and llama.cpp dies of signal 11 in its first decode (llama.cpp issue 20824). A header that names
all 64 mends that; where it does not, llama.cpp is built without AMX. Set-up runs this module before anything
is installed, so it needs the standard library alone:

    eval "$(python -m lsp_calib.inference.local.compiler)"; python -m pip install --editable '.[local]'
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from lsp_calib.inference import processor

MENDED = ("-include", str(Path(__file__).with_name("tile_configuration.h")))
WITHOUT_AMX = ("-mno-amx-int8", "-mno-amx-bf16", "-mno-amx-tile")
_SECONDS = 60
_EMPTY = "int lsp_calib_nothing;\n"
# Only the store of `value` uses the function's argument, which is in the register edi.
_CONFIGURE = """#include <immintrin.h>
void lsp_calib_configure(unsigned char value)
{
    struct { unsigned char bytes[64]; } configuration = {{1}};
    configuration.bytes[48] = value;
    _tile_loadconfig(&configuration);
}
"""


def compilers(environment: Mapping[str, str]) -> tuple[list[str], list[str]]:
    """The C and C++ compilers that CMake would take, as command lines."""
    return shlex.split(environment.get("CC") or "cc"), shlex.split(environment.get("CXX") or "c++")


def accepts(compiler: Sequence[str], flags: Sequence[str]) -> bool:
    """Whether a compiler takes these flags."""
    return _assembly(compiler, flags, _EMPTY) is not None


def loses_tile_configuration(compiler: Sequence[str], flags: Sequence[str] = ()) -> bool:
    """Whether a compiler removes stores that `_tile_loadconfig` needs. False where it cannot compile AMX."""
    assembly = _assembly(compiler, ("-mamx-tile", *flags), _CONFIGURE)
    return assembly is not None and "%dil" not in assembly and "%edi" not in assembly


def flags(environment: Mapping[str, str] = os.environ) -> tuple[str, ...]:
    """The flags that llama.cpp needs here to be compiled correctly; empty where it needs none."""
    if not processor.has_amx():
        return ()
    both = compilers(environment)
    if not any(loses_tile_configuration(compiler) for compiler in both):
        return ()
    if all(accepts(one, MENDED) and not loses_tile_configuration(one, MENDED) for one in both):
        return MENDED
    return WITHOUT_AMX if all(accepts(compiler, WITHOUT_AMX) for compiler in both) else ()


def cmake_arguments(flags: Sequence[str], environment: Mapping[str, str] = os.environ) -> str:
    """The user's CMAKE_ARGS with these flags for both compilers."""
    # CMake hands these to a shell, in which double quotes hold a path together.
    words = " ".join(f'"{flag}"' if " " in flag else flag for flag in flags)
    ours = " ".join(shlex.quote(f"-DCMAKE_{language}_FLAGS={words}") for language in ("C", "CXX"))
    return f"{environment.get('CMAKE_ARGS', '')} {ours}".strip()


def _assembly(compiler: Sequence[str], flags: Sequence[str], source: str) -> str | None:
    """A compiler's output for C code at -O2; None if it rejects the code or the flags."""
    with tempfile.TemporaryDirectory(prefix="lsp-calib-") as folder:
        file, output = Path(folder) / "try.c", Path(folder) / "try.s"
        file.write_text(source, "ascii")
        command = [*compiler, "-x", "c", "-O2", *flags, "-S", "-o", str(output), str(file)]
        try:
            done = subprocess.run(command, capture_output=True, timeout=_SECONDS, check=False)
        except (OSError, subprocess.TimeoutExpired):
            return None
        return output.read_text("utf-8", "replace") if done.returncode == 0 and output.is_file() else None


def _pip_cache(name: str) -> str:
    """A separate cache for pip, which reuses a cached wheel whatever flags it was compiled with."""
    command = [sys.executable, "-m", "pip", "cache", "dir"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    folder = done.stdout.strip().splitlines()[-1] if done.stdout.strip() else "~/.cache/pip"
    return str(Path(folder).expanduser() / name)


def main() -> None:
    """Print shell commands that set the environment for building, if it needs any."""
    needed = flags()
    if not needed:
        return
    mended = needed == MENDED
    how = "with a correction of its header" if mended else "without AMX"
    sys.stderr.write(f"This compiler makes AMX code that crashes: llama.cpp is built {how}.\n")
    print(f"export CMAKE_ARGS={shlex.quote(cmake_arguments(needed))}")
    cache = "lsp-calib-mended-amx" if mended else "lsp-calib-without-amx"
    print(f"export PIP_CACHE_DIR={shlex.quote(_pip_cache(cache))}")


if __name__ == "__main__":
    main()
