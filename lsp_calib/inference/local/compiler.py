"""How llama.cpp has to be compiled on a processor with AMX.

GCC 12 and older tell the optimiser that `_tile_loadconfig` reads 8 bytes; it reads 64. The stores of the rest
are removed, and llama.cpp dies of signal 11 in its first decode (llama.cpp issue 20824). A header that names
all 64 mends that, and changes nothing for other compilers. Set-up runs this module before anything is
installed, so it needs the standard library alone:

    eval "$(python -m lsp_calib.inference.local.compiler)"; pip install 'lsp-calib[local]'
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from lsp_calib.inference import processor

MENDED = ("-include", str(Path(__file__).with_name("tile_configuration.h")))


def cmake_arguments(environment: Mapping[str, str] = os.environ) -> str:
    """The user's CMAKE_ARGS, with the header for both compilers."""
    # CMake hands these to a shell, in which double quotes hold a path together.
    words = " ".join(f'"{flag}"' if " " in flag else flag for flag in MENDED)
    ours = " ".join(shlex.quote(f"-DCMAKE_{language}_FLAGS={words}") for language in ("C", "CXX"))
    return f"{environment.get('CMAKE_ARGS', '')} {ours}".strip()


def _pip_cache(name: str) -> str:
    """A separate cache for pip, which reuses a cached wheel whatever flags it was compiled with."""
    command = [sys.executable, "-m", "pip", "cache", "dir"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    folder = done.stdout.strip().splitlines()[-1] if done.stdout.strip() else "~/.cache/pip"
    return str(Path(folder).expanduser() / name)


def main() -> None:
    """Print shell commands that set the environment for building; nothing where there is no AMX."""
    if processor.has_amx():
        print(f"export CMAKE_ARGS={shlex.quote(cmake_arguments())}")
        print(f"export PIP_CACHE_DIR={shlex.quote(_pip_cache('lsp-calib-mended-amx'))}")


if __name__ == "__main__":
    main()
