"""Write what VS Code's extension is to know of the server that it carries: `make vsix`.

Its wheel lies beside the locks already. The models are those that can be had and whose bytes are known.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from lsp_calib.inference.models.cards import DEFAULT_ENCODER as ENCODER
from lsp_calib.inference.models.cards import ModelCard, load_cards, load_encoders

FOLDER = Path(__file__).parents[2] / "editor-configs" / "vscode" / "server"
LOCKS = ("server.txt", "prebuilt.txt", "build.txt", "local.txt")
# The encoder's libraries have a digest of their own: a server without them is not asked to fetch newer ones.
SIMILARITY = "similarity.txt"
# Bytes of the package that holds the encoder's tokenizer too, for where the hub cannot be reached.
TOKENIZER_WHEEL = 83_506_384


def manifest(wheel: Path) -> dict[str, Any]:
    """The manifest of an extension that carries this wheel."""
    encoder = load_encoders()[ENCODER]
    return {
        "version": wheel.name.split("-")[1],
        "wheel": wheel.name,
        "sha256": hashlib.sha256(wheel.read_bytes()).hexdigest(),
        "locks": _digest(wheel.parent / name for name in LOCKS),
        "models": [
            {
                "name": card.name,
                "title": card.title,
                "licence": card.licence,
                "file": card.file,
                "bytes": card.size,
                "code": card.completion.layout == "fim",
            }
            for card in offered()
        ],
        "encoder": {
            "name": encoder.name,
            "title": encoder.title,
            "licence": encoder.licence,
            "files": [{"file": file.file, "bytes": file.size} for file in encoder.files],
            "bytesWithoutHub": encoder.model.size + TOKENIZER_WHEEL,
            "locks": _digest([wheel.parent / SIMILARITY]),
        },
    }


def offered() -> tuple[ModelCard, ModelCard]:
    """The models that the extension offers at first: the recommended one, and the smallest one."""
    cards = [*load_cards().values()]
    return cards[0], min(cards, key=lambda card: card.parameters)


def _digest(files: Iterable[Path]) -> str:
    digest = hashlib.sha256()
    for file in files:
        digest.update(file.read_bytes())
    return digest.hexdigest()


def main() -> None:
    wheels = sorted(FOLDER.glob("lsp_calib-*.whl"))
    if len(wheels) != 1:
        sys.exit(f"{FOLDER} has {len(wheels)} wheels of lsp-calib, not one: make vsix builds it.")
    (FOLDER / "manifest.json").write_text(json.dumps(manifest(wheels[0]), indent=2) + "\n", "utf-8")


if __name__ == "__main__":
    main()
