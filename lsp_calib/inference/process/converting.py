"""Converting an installed model's weights before its first use, by native code in a process of its own."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from pathlib import Path

from lsp_calib import home
from lsp_calib.errors import ModelFileError
from lsp_calib.inference.models import converted
from lsp_calib.inference.process import starting

# In seconds. A model that is small enough takes two.
_PATIENCE = 120.0


def convert(path: Path) -> None:
    """Convert the weights of an installed model if they are slow here.

    Never fails: at worst the model process does it when it loads the model.
    """
    with contextlib.suppress(ModelFileError, OSError, subprocess.TimeoutExpired):
        if converted.slow(path):
            subprocess.run(
                [sys.executable, *starting.PROGRAM, f"--model={path.absolute()}", "--convert"],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env={**os.environ, "LSP_CALIB_HOME": str(home.state_dir().absolute())},
                cwd=home.state_dir(),
                timeout=_PATIENCE,
                check=False,
            )
