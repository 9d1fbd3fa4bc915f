"""The command that starts a jail: Python without site-packages, importing only from this package's folder."""

from __future__ import annotations

import os
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]

_CODE = (
    "import sys; sys.path.insert(0, sys.argv.pop(1)); "
    "from lsp_calib.evaluation.sandbox.jail import main; main()"
)


def interpreter() -> str:
    """The running Python with all links resolved, so not a virtual environment's."""
    return os.path.realpath(sys.executable)


def python(*words: str) -> list[str]:
    """The words of a command with that Python, ignoring the user's packages and variables."""
    return [interpreter(), "-I", "-S", "-B", *words]


def command(root: str = str(ROOT)) -> list[str]:
    """root: the folder that holds the package, as the new process sees it."""
    return [interpreter(), "-I", "-S", "-c", _CODE, root]
