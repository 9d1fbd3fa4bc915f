"""The table of models/records/labels/README.md: each situation, told over the protocol, gets its label."""

from __future__ import annotations

import pytest
from conftest import Connect
from label_author import SUGGESTED, TEXT, Author
from label_situations import NONE, PAGE, SITUATIONS, Situation, rendered
from scripted_editor import Editor, capabilities


@pytest.mark.parametrize("one", SITUATIONS, ids=lambda one: one.title)
async def test_the_label(connect: Connect, one: Situation) -> None:
    script = {"otherwise": {"text": SUGGESTED}, **one.script, "clock": True}

    async def start() -> Editor:
        client = capabilities(**one.client)
        return await connect(script, options=dict(one.options), client=client, process=one.process)

    author = Author(await start(), start)
    await author.open(TEXT)
    await one.steps.by(author)
    if author.editor.client.process.returncode is None:
        await author.editor.in_order()
    assert set(one.labels) == set(author.names.values()) | {n for n, how in one.labels.items() if how == NONE}
    labels = author.editor.labels()
    found = {name: labels.pop(identity, NONE) for identity, name in author.names.items()}
    assert labels == {}, "labels of suggestions that nobody was shown"
    assert dict.fromkeys(one.labels, NONE) | found == one.labels
    right = dict(author.editor.rows("SELECT suggestion_id, correct FROM labels"))
    for identity, name in author.names.items():
        assert right.get(identity) == one.correct(name), name


def test_each_has_its_own_title() -> None:
    titles = [one.title for one in SITUATIONS]
    assert len(set(titles)) == len(titles)


def test_the_page_has_the_table() -> None:
    """`python tests/server/label_situations.py` writes it."""
    page = PAGE.read_text("utf-8")
    assert page == rendered(page)
