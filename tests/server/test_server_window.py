"""The large window: pieces of other files, which stay while the window does, and never of excluded ones."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path
from typing import Any

import pytest
from conftest import Connect
from scripted_editor import Editor

FORMAT = {
    "layout": "fim",
    "fim_prefix": "<pre>",
    "fim_suffix": "<suf>",
    "fim_middle": "<mid>",
    "file": "<file>",
    "project": "<repo>",
}
SCRIPT: dict[str, Any] = {"format": FORMAT, "otherwise": {"text": "convert(total, rate)"}}
LARGE = {"window": "large"}
RATES = "def convert(total, rate):\n    fee = total * rate\n    return total - fee\n"
MODULE = "from app import rates\n\ntotal, rate = 10, 0.2\nprice = "
PIECE = f"<file>app/rates.py\n{RATES}"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A small project with a module that another one imports."""
    root = tmp_path / "shop"
    (root / "app").mkdir(parents=True)
    (root / "app" / "rates.py").write_text(RATES)
    return root


async def opened(connect: Connect, project: Path, **more: Any) -> tuple[Editor, str]:
    """An editor with the module open, and the module's address."""
    editor = await connect(SCRIPT, **{"options": LARGE, "folders": [project.as_uri()], **more})
    uri = (project / "app" / "module.py").as_uri()
    editor.open(MODULE, uri)
    return editor, uri


def prompts(editor: Editor) -> list[str]:
    """What the model was shown, in order."""
    return [one["prompt"] for one in editor.engine.read("asked")]


async def shown(editor: Editor, uri: str, line: int = 3, column: int = 8) -> str:
    await editor.suggestion(line, column, uri)
    return prompts(editor)[-1]


async def test_a_piece_of_an_imported_file_comes_first(connect: Connect, project: Path) -> None:
    editor, uri = await opened(connect, project)
    prompt = await shown(editor, uri)
    assert prompt.startswith(f"<repo>shop\n{PIECE}<file>app/module.py\n<pre>")
    suggestion = await editor.suggestion(3, 8, uri)
    # Nothing is known of such prompts.
    assert (suggestion["tier"], suggestion["calibrator"]) == ("review", None)


@pytest.mark.parametrize("options", [{}, {"window": "auto"}, {"window": "small"}])
async def test_without_labels_for_it_the_window_stays_small(
    connect: Connect, project: Path, options: dict[str, Any]
) -> None:
    editor, uri = await opened(connect, project, options=options)
    assert (await shown(editor, uri)).startswith("<pre>from app import rates")


async def test_an_open_file_is_shown_as_it_is_in_the_editor(connect: Connect, project: Path) -> None:
    editor, uri = await opened(connect, project)
    editor.open(RATES.replace("fee", "levy"), (project / "app" / "rates.py").as_uri())
    prompt = await shown(editor, uri)
    assert "levy = total * rate" in prompt
    assert "fee" not in prompt


async def test_an_open_file_counts_wherever_it_lies(connect: Connect, project: Path) -> None:
    editor, uri = await opened(connect, project)
    (project / "lib").mkdir()
    other = project / "lib" / "fees.py"
    other.write_text(RATES.replace("convert", "charge"))
    assert "<file>lib/fees.py" not in await shown(editor, uri)
    editor.open(other.read_text(), other.as_uri())
    second = (project / "app" / "second.py").as_uri()
    editor.open(MODULE, second)
    assert "<file>lib/fees.py" in await shown(editor, second)


@pytest.mark.parametrize("how", ["setting", "secret", "ignored", "link", "open link", "pipe"])
async def test_what_no_model_may_see_is_not_shown(
    connect: Connect, project: Path, tmp_path: Path, how: str
) -> None:
    file = project / "app" / "rates.py"
    options: dict[str, Any] = LARGE
    if how == "setting":
        options = {**LARGE, "exclude": ["rates.py"]}
    elif how == "secret":
        (project / "app" / ".ssh").mkdir()
        file.rename(project / "app" / ".ssh" / "rates.py")
    elif how == "ignored":
        (project / ".gitignore").write_text("# made anew\n/app/rates.py\n")
    elif sys.platform == "win32":
        pytest.skip("links and pipes need rights there, or are others")
    elif how == "link":
        file.rename(tmp_path / "outside.py")
        file.symlink_to(tmp_path / "outside.py")
    elif how == "open link":
        file.rename(tmp_path / ".env")
        file.symlink_to(tmp_path / ".env")
    elif how == "pipe":
        file.unlink()
        os.mkfifo(file)
    editor, uri = await opened(connect, project, options=options)
    if how == "open link":
        editor.open(RATES, file.as_uri())
    prompt = await shown(editor, uri)
    assert "fee = total" not in prompt
    assert "<file>app/rates.py" not in prompt


async def test_what_is_excluded_later_is_not_shown_any_more(connect: Connect, project: Path) -> None:
    editor, uri = await opened(connect, project, options=LARGE)
    assert PIECE in await shown(editor, uri)
    editor.configure({"exclude": ["rates.py"]}, push=True)
    editor.insert(3, 8, "f", uri)
    assert PIECE not in await shown(editor, uri, 3, 9)


async def test_what_is_deleted_is_not_shown_any_more(
    connect: Connect, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lsp_calib.completion.related_code._LOOK", 0.0)
    editor, uri = await opened(connect, project)
    assert PIECE in await shown(editor, uri)
    (project / "app" / "rates.py").unlink()
    editor.insert(3, 8, "f", uri)
    assert "fee = total" not in await shown(editor, uri, 3, 9)


async def test_a_document_outside_of_workspaces_stands_for_itself(connect: Connect, tmp_path: Path) -> None:
    (tmp_path / "rates.py").write_text(RATES)
    editor = await connect(SCRIPT, options=LARGE)
    uri = (tmp_path / "module.py").as_uri()
    editor.open(MODULE, uri)
    assert (await shown(editor, uri)).startswith("<file>module.py\n<pre>")


@pytest.mark.parametrize("editors", [None, "small"])
async def test_the_user_s_own_file_sets_it_and_the_status_says_so(
    connect: Connect, project: Path, tmp_path: Path, editors: str | None
) -> None:
    """An editor's value goes before it."""
    (tmp_path / "home").mkdir(exist_ok=True)
    (tmp_path / "home" / "config.toml").write_text('window = "large"\n')
    editor, uri = await opened(connect, project, options={"window": editors} if editors else {})
    prompt = await shown(editor, uri)
    assert prompt.startswith("<pre>" if editors else "<repo>")
    while (status := await editor.status())["window"] is None:
        await asyncio.sleep(0.01)
    assert status["window"] == (editors or "large")
