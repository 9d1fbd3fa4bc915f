"""Small JSON files beside the models, with measurements of them. Losing one costs only time."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

from lsp_calib import home
from lsp_calib.errors import LspCalibError
from lsp_calib.files import read_file, why, write_atomically
from lsp_calib.json_text import parse_json

logger = logging.getLogger(__name__)


def models_folder() -> Path:
    """The folder of the models. Raises SettingsError if it cannot be created."""
    return home.private_folder(home.state_dir() / "models")


def redownload_hint(path: Path) -> str:
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
        known = parse_json(read_file(home.state_dir() / "models" / name))
    except (OSError, ValueError):
        return {}
    return known if isinstance(known, dict) else {}


def update(name: str, key: str, value: Any) -> None:
    """Put one entry into a side file (None removes it), whole or not at all.

    Never fails: at worst it is measured again, and the log says so.
    """
    known = {kept: old for kept, old in read(name).items() if kept != key}
    if value is not None:
        known[key] = value
    try:
        target = models_folder() / name
        write_atomically(target, json.dumps(known, indent=1).encode(), 0o600, durable=False)
    except (OSError, LspCalibError) as error:
        logger.warning("%s cannot be written: %s. What it would say is found out again.", name, why(error))
