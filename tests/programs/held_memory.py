"""The memory of a model in a process of its own, before it makes a context, and with one place and with all.

    PYTHONPATH=BUILD python tests/programs/held_memory.py MODEL CONTEXT TOKENS < texts.json

MODEL is the file whose weights are evaluated. The standard input has a JSON list of texts, of each of which
the last TOKENS tokens are a place, with a document of its own. The standard output gets a JSON object:
megabytes by the system's names (`memory`) at each moment, and how many prompt tokens the first
place takes when it is visited again. The program uses nothing that only one build of the package has.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from lsp_calib.inference.backend import LoadOptions
from lsp_calib.inference.engine import Request
from lsp_calib.values import Prompt, Segment, Timing


def memory(pid: int | str) -> dict[str, float]:
    """MB of a process, by the system's names: all that is resident (`Rss`), its share of that (`Pss`), and
    the part of this that no file holds (`Pss_Anon`)."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text("ascii").splitlines()[1:]
    sizes = {name: int(size.split()[0]) for name, _, size in (line.partition(":") for line in lines)}
    return {name: round(sizes[name] * 1024 / 1e6, 1) for name in ("Rss", "Pss", "Pss_Anon") if name in sizes}


def measured(path: Path, context: int, tokens: int, texts: list[str]) -> dict[str, Any]:
    """See above."""
    from lsp_calib.inference.local import llama  # `memory` is of use where llama.cpp is not

    found: dict[str, Any] = {}

    make: Any = vars(llama)["Decoder"]

    def watched(*given: Any, **named: Any) -> Any:
        found["before"] = memory("self")
        return make(*given, **named)

    vars(llama)["Decoder"] = watched
    model = llama.LlamaModel(LoadOptions(path, context))
    found["context"] = memory("self")

    def visit(at: int) -> Timing:
        text = texts[at]
        while len(model.tokenize(_prompt(text), context)) > tokens:
            text = text[max(len(text) // 200, 1) :]
        run = model.begin(Request(_prompt(text), 1, document=f"place {at}"))
        return run.advance().timing

    places = []
    for at in range(len(texts)):
        places.append(visit(at).prompt_tokens)
        if not at:
            found["one"] = memory("self")
    found["all"] = memory("self")
    again = visit(0)
    return {**found, "places": places, "evaluatedAgain": again.prompt_tokens - again.prompt_reused}


def _prompt(text: str) -> Prompt:
    return Prompt(((Segment.TEXT, text),), "", "held memory")


def main() -> None:
    path, context, tokens = sys.argv[1:]
    print(json.dumps(measured(Path(path), int(context), int(tokens), json.load(sys.stdin))))


if __name__ == "__main__":
    main()
