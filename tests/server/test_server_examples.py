"""Examples for summaries: documented functions of the workspace, in the prompt that the model gets."""

from __future__ import annotations

from pathlib import Path

import pytest
from conftest import Connect
from scripted_editor import Editor

SHOP = '''def total_price(items):
    """Sum the prices of some items."""
    return sum(item.price for item in items if item.fresh)


def cheapest_price(items):
    """Find the cheapest of the items."""
    return min(items, key=lambda item: item.price, default=None)
'''
TEXT = '''def price_of(items):
    """Old words of its own."""
    return sum(item.price for item in items)
'''
PATIENT = {"hoverSeconds": 20}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    (folder / "app").mkdir(parents=True)
    (folder / "app" / "shop.py").write_text(SHOP)
    return folder


async def prompt(editor: Editor, uri: str, line: int = 0) -> str:
    before = len(editor.engine.read("asked"))
    assert await editor.hover(line, 5, uri) is not None
    asked = editor.engine.read("asked")
    assert len(asked) == before + 1
    return str(asked[-1]["prompt"])


async def test_the_prompt_shows_functions_of_the_workspace(root: Path, connect: Connect) -> None:
    """The nearest last, without their documentation in the code; of the function itself, the code alone."""
    editor = await connect(PATIENT, folders=[root.as_uri()])
    uri = (root / "bill.py").as_uri()
    (root / "bill.py").write_text(TEXT)
    editor.open(TEXT, uri=uri)
    shown = await prompt(editor, uri)
    assert "Sum the prices of some items." in shown
    assert "Find the cheapest of the items." in shown
    assert shown.index("cheapest_price") < shown.index("total_price") < shown.index("price_of(items)")
    assert '"""' not in shown
    assert "Old words" not in shown


async def test_what_no_model_may_see_is_not_shown(root: Path, connect: Connect) -> None:
    (root / ".gitignore").write_text("ignored\n")
    (root / "ignored").mkdir()
    (root / "ignored" / "a.py").write_text(SHOP.replace("Sum the", "Ignored: sum the"))
    editor = await connect(PATIENT, folders=[root.as_uri()], options={"exclude": ["app/"]})
    uri = (root / "bill.py").as_uri()
    editor.open(TEXT, uri=uri)
    shown = await prompt(editor, uri)
    assert "price_of" in shown
    assert "prices of some items" not in shown
    assert "Read a JSON file" in shown, "the shipped examples"


@pytest.mark.parametrize("uri", ["untitled:x", "file:///elsewhere/bill.py"])
async def test_outside_of_the_workspace_the_shipped_examples_are_shown(
    uri: str, root: Path, connect: Connect
) -> None:
    editor = await connect(PATIENT, folders=[root.as_uri()])
    editor.open(TEXT, uri=uri)
    shown = await prompt(editor, uri)
    assert "Read a JSON file" in shown
    assert "some items" not in shown


@pytest.mark.parametrize("name", ["C#", "100% sure?"])
async def test_a_folder_of_any_name_is_read(root: Path, connect: Connect, name: str) -> None:
    """And no other one: `C` lies beside `C#`."""
    for folder, sentence in (
        (root.with_name(name), "Sum the prices of some items."),
        (root.with_name("C"), "No."),
    ):
        (folder / "app").mkdir(parents=True)
        (folder / "app" / "shop.py").write_text(SHOP.replace("Sum the prices of some items.", sentence))
    folder = root.with_name(name)
    editor = await connect(PATIENT, folders=[folder.as_uri()])
    uri = (folder / "bill.py").as_uri()
    editor.open(TEXT, uri=uri)
    assert "Sum the prices of some items." in await prompt(editor, uri)


async def test_the_root_of_an_editor_that_knows_of_no_folders_is_one(root: Path, connect: Connect) -> None:
    """As lsp-mode and vim-lsp send it."""
    editor = await connect(PATIENT, root=root.as_uri())
    uri = (root / "bill.py").as_uri()
    editor.open(TEXT, uri=uri)
    assert "Sum the prices of some items." in await prompt(editor, uri)
