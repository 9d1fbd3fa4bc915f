"""What many open documents take of the server's memory, and what is left once they are closed."""

from __future__ import annotations

import sys

import psutil
import pytest
from conftest import Connect
from scripted_editor import until

DOCUMENTS = 200


def text_of(number: int) -> str:
    return "".join(f"    value_{number}_{line} = {line}\n" for line in range(8_000))


@pytest.mark.long
@pytest.mark.skipif(sys.platform != "linux", reason="only glibc is told to give memory back")
async def test_many_documents_take_little_more_than_their_text_and_give_it_back(connect: Connect) -> None:
    """In ratio to the text. With the lines of all held it would be 4.5, and 1.7 would stay."""
    editor = await connect(process=True, forked=False)
    process = psutil.Process(editor.client.process.pid)

    def private() -> int:
        return int(process.memory_full_info().uss)

    def uri(number: int) -> str:
        return f"file:///project/many_{number}.py"

    for number in range(3):
        editor.open(text_of(number), uri(number))
        editor.close(uri(number))
    await editor.status()
    before, size = private(), sum(len(text_of(number)) for number in range(DOCUMENTS))
    for number in range(DOCUMENTS):
        editor.open(text_of(number), uri(number))
    await editor.status()
    assert private() - before < 2.2 * size
    for number in range(DOCUMENTS):
        editor.close(uri(number))
    await editor.status()
    await until(lambda: private() - before < 0.5 * size, "memory given back")
