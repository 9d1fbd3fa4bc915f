"""The studies' tasks asked of a server, and what other harnesses made, through the page."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from openai_server import END, Tok, serving

from lsp_calib.cli import main
from lsp_calib.corpus.places import line_item_of
from lsp_calib.corpus.records import read_records
from lsp_calib.studies.tasks import repair_task
from lsp_calib.values import ModelIdentity

DATA = Path(__file__).parents[1] / "data"


def invoke(*arguments: object) -> Any:
    result = CliRunner().invoke(main, ["eval", *map(str, arguments)])
    assert result.exit_code == 0, result.output
    return result


async def test_bugs_are_fixed_by_a_server_and_stand_on_the_page(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server knows the fix of every third bug, and is surer of it; else it says the bug again."""
    monkeypatch.setenv("LSP_CALIB_HOME", str(tmp_path / "home"))
    payloads = [payload for _, payload in repair_task("defects4j", data, None, 0).items]
    cursors = [line_item_of(payload).cursor for payload in payloads]
    above = ["\n".join(cursor.lines[: cursor.line])[-300:] for cursor in cursors]

    def says(prompt: str) -> list[Tok]:
        known = payloads[max(range(len(payloads)), key=lambda at: prompt.rfind(above[at]))]
        fixes = len(known["target"]) % 3 == 0
        value = -0.1 if fixes else -0.9 - len(known["target"]) % 7 / 10
        return [Tok(known["target"] if fixes else known["buggy"], value), Tok("\n", -0.01), Tok(END)]

    folder = tmp_path / "repair-defects4j"
    async with serving(tokens=says, models=["codellama-7b"]) as server:
        common = "--data-dir", data, "--remote", server.url, "--output", folder, "--resamples", 20, "--json"
        await asyncio.to_thread(invoke, "repair", "--set", "defects4j", *common)
        assert len(server.completions) == len(payloads)
    header, records = read_records(folder / "records.jsonl")
    assert header.model == ModelIdentity("codellama-7b", "", "")
    right = sum(record.correct["exact"] for record in records)
    assert right == sum(len(payload["target"]) % 3 == 0 for payload in payloads)
    assert all(record.logprobs for record in records)
    page = tmp_path / "page"
    (samples,) = (DATA / "harnesses" / "smollm2-135m").glob("samples_python_values_choice_*")
    common = "--records", folder, "--output", page, "--import", samples, "--json"
    document = json.loads(invoke("paper", "--study", "spiess", *common).stdout)
    tables = (page / "tables.md").read_text("utf-8")
    assert "codellama-7b" in tables.lower()
    assert [row["right by"] for row in document["imported"]] == ["acc", "acc_norm"]
    assert tables.index("## Files of other harnesses") > tables.index("codellama-7b")
    assert "python_values_choice@1.0, 0-shot" in tables
