"""Small JSON files beside the models, with measurements of them. Losing one costs only time."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any

from lsp_calib import home
from lsp_calib.errors import LspCalibError
from lsp_calib.files import write_atomically


def models_folder() -> Path:
    """The folder of the models. Raises SettingsError if it cannot be created."""
    return home.private_folder(home.home() / "models")


def again(path: Path) -> str:
    """Advice to the user about a model file whose bytes are wrong; `models remove` takes no other file."""
    try:
        pulled = path.absolute().parent.resolve() == models_folder().resolve()
    except (LspCalibError, OSError):
        pulled = False
    if pulled:
        return (
            f"Remove it (`lsp-calib models remove {path.name}`) and get it again with `lsp-calib models pull "
            "NAME`; `lsp-calib models list` has the names."
        )
    return "It is a file of your own: get it again from where it came from, or name another model."


def read(name: str) -> dict[str, Any]:
    """The object in a side file; empty if it is missing or damaged."""
    try:
        known = json.loads((models_folder() / name).read_text("utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return known if isinstance(known, dict) else {}


def update(name: str, key: str, value: Any) -> None:
    """Put one entry into a side file (None removes it), whole or not at all.

    Never fails: at worst it is measured again.
    """
    target = models_folder() / name
    with contextlib.suppress(OSError):
        known = {kept: old for kept, old in read(name).items() if kept != key}
        if value is not None:
            known[key] = value
        write_atomically(target, json.dumps(known, indent=1).encode(), 0o600, durable=False)
