"""Write the table of settings into docs/reference.md and VS Code's package.json: `make settings`.

tests/unit/test_settings.py fails where they say something else.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pages import written
from settings_rendering import markdown_tables, vscode_sections

ROOT = Path(__file__).parents[2]
REFERENCE = ROOT / "docs" / "reference.md"
EXTENSION = ROOT / "editor-configs" / "vscode" / "package.json"
# The extension's own, which no server knows.
OWN = ("lspCalib.server.path", "lspCalib.server.python", "lspCalib.badge.number")
# What their place on the page makes of them.
MADE = ("order", "tags")
# What a workspace can only add to counts in one that is not trusted, too.
ALWAYS = ("lspCalib.exclude",)


def reference(page: str) -> str:
    """The page with its tables of settings as they are to be."""
    tables = {name: table.removesuffix("\n") for name, table in markdown_tables().items()}
    return written(page, tables, "make settings")


def extension(package: str) -> str:
    """VS Code's package.json with the settings as they are to be, in the form that npm writes."""
    document: dict[str, Any] = json.loads(package)
    known = _properties(document)
    own = {key: {name: one for name, one in known[key].items() if name not in MADE} for key in OWN}
    document["contributes"]["configuration"] = vscode_sections(own)
    document["capabilities"]["untrustedWorkspaces"]["restrictedConfigurations"] = [
        key for key in _properties(document) if key not in ALWAYS
    ]
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def _properties(document: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The settings of all sections."""
    sections = document["contributes"]["configuration"]
    return {key: one for section in sections for key, one in section["properties"].items()}


def main() -> None:
    for path, made in ((REFERENCE, reference), (EXTENSION, extension)):
        path.write_text(made(path.read_text("utf-8")), "utf-8")


if __name__ == "__main__":
    main()
