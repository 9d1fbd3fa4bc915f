"""Write what VS Code's extension is to know of the server that it carries: `make vsix`.

Its wheel lies beside the locks already. The models are those that can be had and whose bytes are known.
"""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path

from lsp_calib.inference.models.card import load_cards

FOLDER = Path(__file__).parents[2] / "editor-configs" / "vscode" / "server"
# What the extension offers at first, the recommended one before the small one.
OFFERED = ("qwen2.5-coder-1.5b", "smollm2-135m")
LOCKS = ("server.txt", "prebuilt.txt", "build.txt", "local.txt")


def manifest(wheel: Path) -> dict[str, object]:
    """The manifest of an extension that carries this wheel."""
    cards = load_cards()
    digest = hashlib.sha256()
    for name in LOCKS:
        digest.update((wheel.parent / name).read_bytes())
    return {
        "version": wheel.name.split("-")[1],
        "wheel": wheel.name,
        "sha256": hashlib.sha256(wheel.read_bytes()).hexdigest(),
        "locks": digest.hexdigest(),
        "models": [
            {
                "name": card.name,
                "title": card.title,
                "licence": card.licence,
                "file": card.file,
                "bytes": card.size,
                "code": card.completion.layout == "fim",
            }
            for card in (cards[name] for name in OFFERED)
        ],
    }


def main() -> None:
    wheels = sorted(FOLDER.glob("lsp_calib-*.whl"))
    if len(wheels) != 1:
        sys.exit(f"{FOLDER} has {len(wheels)} wheels of lsp-calib, not one: make vsix builds it.")
    (FOLDER / "manifest.json").write_text(json.dumps(manifest(wheels[0]), indent=2) + "\n", "utf-8")


if __name__ == "__main__":
    main()
