"""`lsp-calib.calibrateWorkspace`: the command of the terminal, with progress that can be cancelled."""

from __future__ import annotations

import asyncio
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from conftest import Connect
from lsprotocol import types
from pygls.exceptions import JsonRpcException
from scripted_editor import Editor, capabilities, until

import lsp_calib
from lsp_calib.server.refits import YES

SOURCE = Path(lsp_calib.__file__).parent / "calibration" / "calibrators"
SHORT = """
def a_function_that_only_this_workspace_has_{n}(width, height):
    if width < {n} or height < 0:
        raise ValueError("no such rectangle")
    return width * height + {n}


def names_{n}(people):
    return [person.name for person in people if person.age > {n}]
"""


def workspace(tmp_path: Path) -> Path:
    """A folder with some real source."""
    return Path(shutil.copytree(SOURCE, tmp_path / "work", ignore=shutil.ignore_patterns("__pycache__")))


def percentages(editor: Editor) -> list[str]:
    """The messages of the calibration's progress."""
    reports = (value for values in editor.client.progress_reports.values() for value in values)
    return [one.message for one in reports if isinstance(one, types.WorkDoneProgressReport) and one.message]


@pytest.mark.parametrize(
    "argument",
    [
        "work",
        {"samples": 59},
        {"samples": 5001},
        {"samples": True},
        {"fromGit": 1},
        {"task": "summary"},
        {"uri": ["file:///a"]},
    ],
)
async def test_a_wrong_argument_is_refused(connect: Connect, argument: Any) -> None:
    editor = await connect()
    with pytest.raises(JsonRpcException, match="argument must be an object"):
        await editor.command("calibrateWorkspace", argument)


async def test_without_a_folder_it_says_what_to_do(connect: Connect, tmp_path: Path) -> None:
    for folders in ((), ((tmp_path / "gone").as_uri(),), (tmp_path.as_uri(), (tmp_path / "b").as_uri())):
        editor = await connect(folders=folders)
        with pytest.raises(JsonRpcException, match="no folder to calibrate on"):
            await editor.command("calibrateWorkspace")


async def test_a_remote_engine_is_not_asked_hundreds_of_times(connect: Connect, tmp_path: Path) -> None:
    options = {"trusted": {"remote": {"url": "http://127.0.0.1:9/v1", "model": "m"}}}
    editor = await connect(folders=(workspace(tmp_path).as_uri(),), options=options)
    with pytest.raises(JsonRpcException, match="another machine"):
        await editor.command("calibrateWorkspace")


async def test_what_the_command_says_is_the_answer(connect: Connect, tmp_path: Path) -> None:
    """Its last sentence is the error; another one can begin then."""
    work = workspace(tmp_path)
    editor = await connect(folders=(work.as_uri(),), env={"LSP_CALIB_MODEL": "qwen2.5-coder-7b"})
    for _ in range(2):
        with pytest.raises(JsonRpcException, match=r"The model qwen2\.5-coder-7b is not installed"):
            await editor.command("calibrateWorkspace")


async def test_a_module_of_the_workspace_is_not_imported(connect: Connect, tmp_path: Path) -> None:
    """The process does not run in the workspace, nor with it on its path."""
    work = workspace(tmp_path)
    for name in ("lsp_calib.py", "click.py", "sitecustomize.py"):
        (work / name).write_text(f"open({str(tmp_path / 'owned')!r}, 'w')\n", "utf-8")
    editor = await connect(folders=(work.as_uri(),), env={"LSP_CALIB_MODEL": "qwen2.5-coder-7b"})
    with pytest.raises(JsonRpcException, match="not installed"):
        await editor.command("calibrateWorkspace")
    assert not (tmp_path / "owned").exists()


async def test_one_at_a_time(connect: Connect, tmp_path: Path) -> None:
    editor = await connect(folders=(workspace(tmp_path).as_uri(),))
    first = asyncio.ensure_future(editor.command("calibrateWorkspace"))
    with pytest.raises(JsonRpcException, match="running already"):
        await asyncio.gather(editor.command("calibrateWorkspace"), editor.command("calibrateWorkspace"))
    with pytest.raises(JsonRpcException):
        await first


async def test_after_a_yes_to_the_offer_it_begins_and_a_failure_is_said(
    connect: Connect, tmp_path: Path
) -> None:
    """Whoever has said yes waits for it."""
    work = workspace(tmp_path)
    (work / ".git").mkdir()
    editor = await connect(
        {"afterLabels": {"idle": 0.5}},
        calibrated=False,
        folders=(work.as_uri(),),
        env={"LSP_CALIB_MODEL": "qwen2.5-coder-7b", "GIT_AUTHOR_EMAIL": "ann@example.org"},
    )
    asked: list[str] = []

    @editor.client.feature(types.WINDOW_SHOW_MESSAGE_REQUEST)
    def answer(params: types.ShowMessageRequestParams) -> types.MessageActionItem:
        asked.append(params.message)
        return types.MessageActionItem(YES)

    editor.open("x = 1\n", (work / "module.py").as_uri())
    said = "lsp-calib was not calibrated on your commits: "
    await until(lambda: any(text.startswith(said) for text in editor.messages), "the failure")
    (message,) = [text for text in editor.messages if text.startswith(said)]
    assert "There is no folder" not in message, "it has begun"
    assert len(asked) == 1


@pytest.mark.long
async def test_cancelled_it_goes_on_where_it_was(connect: Connect, tmp_path: Path, model_path: Path) -> None:
    """By a real model: the first run is cancelled, the second one has its lines already."""
    work = tmp_path / "work"
    work.mkdir()
    for n in range(10):  # short, so that the prompts are
        (work / f"mine_{n}.py").write_text(SHORT.format(n=n), "utf-8")
    editor = await connect(
        client=capabilities(progress=True),
        folders=(work.as_uri(),),
        env={"LSP_CALIB_MODEL": str(model_path), "LSP_CALIB_LINGER": "0"},
    )
    wanted = types.ExecuteCommandParams("lsp-calib.calibrateWorkspace", [{"samples": 60}])
    running = asyncio.ensure_future(editor.client.workspace_execute_command_async(wanted))
    async with asyncio.timeout(120):
        while len(percentages(editor)) < 4:
            await asyncio.sleep(0.1)
    (token,) = (
        token
        for token, values in editor.client.progress_reports.items()
        if any("calibrating" in str(getattr(value, "title", "")) for value in values)
    )
    editor.client.window_work_done_progress_cancel(types.WorkDoneProgressCancelParams(token))
    with pytest.raises(JsonRpcException, match="cancelled"):
        await running
    (journal,) = (editor.home / "calibrating").glob("*.journal")
    kept = len(journal.read_text("utf-8").splitlines()) - 1
    assert kept >= 3
    assert "a_function_that_only" not in journal.read_text("utf-8")
    seen = len(percentages(editor))
    result = await asyncio.wait_for(editor.client.workspace_execute_command_async(wanted), 240)
    first = percentages(editor)[seen]
    assert int(first.split()[0]) >= kept
    assert result["asked"] >= 18
    assert result["n"] <= result["asked"]
    assert isinstance(result["promoted"], bool)
    assert any(result["sentence"] in message for message in editor.messages)
    assert json.dumps(result["after"])
    assert not list((editor.home / "calibrating").iterdir()), "what is finished is not kept"
