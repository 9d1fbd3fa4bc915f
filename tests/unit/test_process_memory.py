"""Each request that the model process fails meets an exception of its own, which keeps no prompts."""

from __future__ import annotations

import asyncio
import gc
import weakref
from pathlib import Path
from typing import Any

import pytest
from scripted_model import ask, install

from lsp_calib.errors import LspCalibError, ModelFileError, SettingsError
from lsp_calib.inference.choice import EngineChoice
from lsp_calib.inference.process.client import ModelProcess

TIMES = 5
PATIENCE = 30.0


@pytest.mark.parametrize(
    ("wanted", "kind"), [("no-such-model", SettingsError), ("bad", ModelFileError)], ids=["named", "loaded"]
)
@pytest.mark.usefixtures("home")
async def test_requests_that_fail_together_share_no_exception_and_are_let_go(
    wanted: str, kind: type[LspCalibError], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`no-such-model` fails before a process is started; `bad` fails in it, while all wait."""
    path = install(monkeypatch, tmp_path, wanted)
    engine = ModelProcess(EngineChoice(path if wanted == "bad" else wanted))

    async def fail(number: int) -> tuple[LspCalibError, weakref.ref[Any]]:
        asked = ask(f"steps {number}")
        try:
            await engine.generate(asked)
        except LspCalibError as error:
            return error, weakref.ref(asked)
        raise AssertionError("it did not fail")

    async with asyncio.timeout(PATIENCE):
        together = await asyncio.gather(*(fail(number) for number in range(TIMES)))
        later = [await fail(number) for number in range(TIMES)]
    failed = [*together, *later]
    assert [type(error) for error, _ in failed] == [kind] * 2 * TIMES
    assert len({id(error) for error, _ in failed}) == 2 * TIMES
    requests = [asked for _, asked in failed]
    del together, later, failed
    await asyncio.sleep(0)  # asyncio itself holds the last one until it turns to something else
    gc.collect()
    assert [asked for asked in requests if asked() is not None] == []
    await engine.close()
