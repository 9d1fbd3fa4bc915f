"""The lines of HumanEval's functions that its tests prove nothing about: they pass without the line.

    python tests/programs/unproved_lines.py [--data-dir DIR] > lsp_calib/studies/unproved.json

Each of the 1,033 removed lines is judged twice in the sandbox: with nothing in its place, and with `pass` at
its indentation, for a line that is the whole of a block. About five minutes on two processors.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from pathlib import Path

from lsp_calib.characters import indentation_of
from lsp_calib.studies.sandbox.runner import all_tests_pass
from lsp_calib.studies.tasks import Gap, infilling


def unproved(items: list[Gap]) -> Iterator[tuple[str, str]]:
    """Id of each line without which the tests pass, and what stood in its place: "" or "pass"."""
    for place in ("", "pass"):
        texts = [place and indentation_of(one.missing) + place for one in items]
        verdicts = all_tests_pass(list(zip(items, texts, strict=True)))
        yield from ((one.id, place) for one, passed in zip(items, verdicts, strict=True) if passed)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--data-dir", type=Path)
    items = list(infilling(parser.parse_args().data_dir))
    found: dict[str, list[str]] = {one.id: [] for one in items}
    for id_, place in unproved(items):
        found[id_].append(place or "nothing")
    made_by = "python tests/programs/unproved_lines.py > lsp_calib/studies/unproved.json"
    lines = {id_: places for id_, places in found.items() if places}
    print(json.dumps({"made_by": made_by, "asked": len(items), "lines": lines}, indent=1))


if __name__ == "__main__":
    main()
