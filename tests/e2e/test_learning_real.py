"""Labels that nobody was asked for, with the real server and the real model: commits."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import time
from pathlib import Path

import pytest
from lsprotocol import types
from real_server import PATIENCE

from lsp_calib.feedback.events import Event, EventKind
from lsp_calib.feedback.store import FeedbackStore
from lsp_calib.home import private_folder
from lsp_calib.server.refits import YES
from lsp_calib.tools.client import Document
from lsp_calib.values import (
    CalibratorRef,
    Confidence,
    Evidence,
    ModelIdentity,
    Suggestion,
    Tier,
    Timing,
    new_suggestion_id,
)

pytestmark = [pytest.mark.model, pytest.mark.long]

# What everybody abbreviates in the same way, and this user does not: the model is sure, and wrong.
ODD = {
    "colours": ("numpy as nmp", "pandas as pds", "matplotlib.pyplot as plot", "seaborn as sbn"),
    "shapes": ("tensorflow as tfl", "numpy as num", "pandas as pand", "networkx as nwx"),
    "fruits": ("matplotlib.pyplot as pyp", "numpy as npy", "scipy.stats as stat", "pandas as pda"),
}
WORDS = {
    "colours": ("red", "green", "blue", "black"),
    "shapes": ("circle", "square", "line", "point"),
    "fruits": ("apple", "pear", "plum", "cherry"),
}
ANN = "ann@example.org"
# Seconds. The places drawn follow from the commit's id: with this one many stand before an abbreviation, so
# that the shipped calibrator is seen to promise too much.
COMMITTED_AT = 1_795_366_878


def committed(root: Path) -> int:
    """A repository with a commit of three files; how many lines are worth a completion."""
    environment = {"PATH": os.environ["PATH"], "HOME": str(root), "GIT_CONFIG_NOSYSTEM": "1"}
    for role in ("AUTHOR", "COMMITTER"):
        environment |= {f"GIT_{role}_NAME": "Ann", f"GIT_{role}_EMAIL": ANN}
        environment[f"GIT_{role}_DATE"] = f"{COMMITTED_AT} +0000"
    lines = 0
    for name, odd in ODD.items():
        text = "".join(f"import {one}\n" for one in odd)
        text += "".join(f"\n\ndef get_{word}(table):\n    return table['{word}']\n" for word in WORDS[name])
        (root / f"{name}.py").write_text(text, "utf-8")
        lines += sum(bool(line) for line in text.split("\n"))
    for command in (("init", "-q", "-b", "main"), ("add", "*.py"), ("commit", "-q", "-m", "x")):
        subprocess.run(["git", *command], cwd=root, env=environment, check=True, capture_output=True)
    return lines


def accept(home: Path, line: str) -> None:
    """As if a suggestion had made this line in an earlier session."""
    store = FeedbackStore(private_folder(home) / "feedback.db")
    ref = CalibratorRef("c", "shipped", "shipped", 1)
    confidence = Confidence(0.5, 0.5, "total", Tier.REVIEW, "", False, ref, None)
    suggestion = Suggestion(new_suggestion_id(), "line", "x", confidence, "m", 1, "model", Timing())
    model = ModelIdentity("m", "q", "0" * 64)
    store.record_shown(
        suggestion,
        model=model,
        prompt_version="p",
        language="python",
        evidence=Evidence(),
        at=time.time(),
        line=line,
    )
    store.record_events([Event(suggestion.id, EventKind.INSERTED, time.time())])
    store.close()


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
async def test_from_a_yes_to_a_calibrator(start, tmp_path: Path) -> None:
    """The question comes in the first pause; the lines are those of the commit, but for one that a
    suggestion made; the calibrator is fitted on them and kept. They are too few for it to judge by itself."""
    lines, home = committed(tmp_path), tmp_path / "home"
    accept(home, "    return table['red']")
    asked: list[str] = []
    async with start(GIT_AUTHOR_EMAIL=ANN) as editor:

        @editor.feature(types.WINDOW_SHOW_MESSAGE_REQUEST)
        def answer(params: types.ShowMessageRequestParams) -> types.MessageActionItem:
            asked.append(params.message)
            return types.MessageActionItem(YES)

        assert (await editor.command("lsp-calib.status"))["calibrator"]["source"] == "shipped"
        async with asyncio.timeout(6 * PATIENCE):
            while not any("is in force now" in text or "not in force" in text for text in editor.messages):
                await asyncio.sleep(1.0)
        (sentence,) = [text for text in editor.messages if "in force" in text]
        assert len(asked) == 1
        assert f"of {lines - 1} lines had an answer" in sentence
        assert "is not in force: it rests on" in sentence
        assert "200 are needed" in sentence
        document = Document(editor, tmp_path / "shapes.py", "python")
        await document.complete(5, 4, PATIENCE)
        found = (await editor.command("lsp-calib.status"))["calibrator"]
        assert found["source"] == "shipped"
        assert found["id"] not in sentence
    written = b"".join(one.read_bytes() for one in home.rglob("*") if one.is_file() and one.suffix != ".gguf")
    for line in ("numpy as nmp", "get_cherry", "table['", "colours"):
        assert line.encode() not in written
