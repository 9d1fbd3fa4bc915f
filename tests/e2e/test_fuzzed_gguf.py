"""Model files that are damaged on purpose: no front of one harms whoever reads it, no model the server.

500 files are made from the front of the real default model: cut, flipped, with counts and lengths that cannot
be, wrong types, arrays of arrays. Behind each front lie zeros (a sparse file of the right size), so that its
tensors lie within the file where it says so. `make test-long` takes the first 100 of them, loads 4 and
serves 2; `make test-thorough` takes all, loads 12 and serves 4.
"""

from __future__ import annotations

import itertools
import random
import re
import struct
import time
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import pytest
from marks import repetitions
from real_server import PATIENCE

from lsp_calib.errors import EngineError, ModelError, ModelFileError
from lsp_calib.inference.choice import EngineChoice
from lsp_calib.inference.engine import Request
from lsp_calib.inference.models.gguf import Metadata, read_metadata
from lsp_calib.inference.process.client import ModelProcess
from lsp_calib.values import Prompt, Segment

pytestmark = [pytest.mark.model, pytest.mark.long]

FILES = repetitions(thorough=500, long=100)
# Of the files whose front is in order, so many are given to the model process, and to the server.
LOADED, SERVED = repetitions(thorough=12, long=4), repetitions(thorough=4, long=2)

HUGE = (2**64 - 1, 2**63, 2**62, 2**40, 2**32, 2**31 - 1, 10**7)
KEY = re.compile(rb"(?:general|llama|tokenizer)\.[a-z_.]+")


class Front:
    """The front of the real model, and what can be done to it."""

    def __init__(self, model: Path) -> None:
        self.size = model.stat().st_size
        # Metadata and tensor table, up to about the first tensor's bytes.
        with model.open("rb") as file:
            self.bytes = file.read(8 << 20)
        self.tensors = self.bytes.index(b"token_embd.weight")
        self.bytes = self.bytes[: self.bytes.rindex(b".weight") + 48]
        self.keys = [found.end() for found in KEY.finditer(self.bytes)]

    def damaged(self, chance: random.Random) -> tuple[bytes, int]:
        """A damaged front, and the size of the file that it stands before."""
        content = bytearray(self.bytes)
        size = self.size
        match chance.randrange(8):
            case 0:
                size = chance.choice([chance.randrange(size), chance.randrange(len(content))])
            case 1:
                for _ in range(chance.randint(1, 20)):
                    content[chance.randrange(len(content))] = chance.randrange(256)
            case 2:
                for _ in range(chance.randint(1, 4)):
                    content[chance.randrange(24)] = chance.randrange(256)
            case 3:
                struct.pack_into("<Q", content, chance.choice([8, 16]), chance.choice(HUGE))
            case 4:  # the length of a key, a text or an array, or a number
                place = chance.choice(self.keys) + chance.choice([4, 8])
                struct.pack_into("<Q", content, place, chance.choice(HUGE))
            case 5:  # the type of a value, or of an array's elements
                place = chance.choice(self.keys) + chance.choice([0, 4])
                struct.pack_into("<I", content, place, chance.choice([*range(14), 2**31, 255]))
            case 6:  # arrays of arrays, as deep as they go
                place = chance.choice(self.keys)
                nested = struct.pack("<IQ", 9, 1) * 1000
                content[place : place + len(nested)] = nested
            case 7:  # the tensor table: shapes, types, offsets
                for _ in range(chance.randint(1, 8)):
                    place = chance.randrange(self.tensors, len(content) - 8)
                    struct.pack_into("<Q", content, place, chance.choice([0, 1, 4096, *HUGE]))
        return bytes(content), size

    def write(self, path: Path, damaged: tuple[bytes, int]) -> Path:
        content, size = damaged
        path.write_bytes(content[:size])
        with path.open("rb+") as file:
            file.truncate(size)
        return path


@pytest.fixture(scope="module")
def front(model_path: Path) -> Front:
    return Front(model_path)


@pytest.fixture
def files(front: Front, tmp_path: Path) -> Iterator[Path]:
    """The files, one after the other under one name; the same ones each time."""
    chance = random.Random(20)
    return (front.write(tmp_path / f"{number}.gguf", front.damaged(chance)) for number in range(FILES))


def test_any_front_is_read_or_refused_soon_and_in_little_memory(
    files: Iterator[Path], front: Front, tmp_path: Path
) -> None:
    intact = front.write(tmp_path / "intact.gguf", (front.bytes, front.size))
    began = time.thread_time()
    assert read_metadata(intact).architecture == "llama"
    usual = time.thread_time() - began
    passed = refused = 0
    for number, path in enumerate(files):
        if watched := number % 10 == 0:
            tracemalloc.start()
        began = time.thread_time()
        said = fault(path)
        spent = time.thread_time() - began
        passed, refused = passed + (not said), refused + bool(said)
        assert not said or (str(path) in said and len(said) < 1000)
        if watched:
            assert tracemalloc.get_traced_memory()[1] < 80 << 20
            tracemalloc.stop()
        else:
            assert spent < 10 * usual + 0.5, path
        path.unlink()
    assert refused > FILES / 4
    assert passed > FILES / 20, "some damage cannot be seen from the front"


def fault(path: Path) -> str:
    """What the reader says against a file, empty if nothing."""
    try:
        assert isinstance(read_metadata(path), Metadata)
    except ModelFileError as error:
        return str(error)
    return ""


def sound(files: Iterator[Path], wanted: int) -> list[Path]:
    """Files whose front is in order."""
    return list(itertools.islice((path for path in files if not fault(path)), wanted))


REQUEST = Request(Prompt(((Segment.TEXT, "def add(a, b):\n    return"),), "", "test"), 4)


async def asked(engine: ModelProcess) -> str:
    """What becomes of a request: an answer, or the words of an error."""
    try:
        await engine.generate(REQUEST)
    except (EngineError, ModelError) as error:
        return str(error)
    return "an answer"


@pytest.mark.usefixtures("home")
async def test_whatever_llama_cpp_makes_of_a_damaged_model_the_client_is_told(
    files: Iterator[Path], model_path: Path
) -> None:
    """It may refuse the file, answer nonsense or crash: each is an error in words or an answer."""
    pytest.importorskip("llama_cpp")
    told: list[str] = []
    for path in sound(files, LOADED):
        engine = ModelProcess(EngineChoice(str(path), threads=1, linger=0))
        try:
            told += [await asked(engine) for _ in range(3)]
        finally:
            await engine.close()
        assert told[-1] == "an answer" or path.name in told[-1] or "3 times" in told[-1], told[-3:]
    assert all(told)
    engine = ModelProcess(EngineChoice(str(model_path), threads=1, linger=0))
    try:
        assert (await engine.generate(REQUEST)).tokens, "the next model works"
    finally:
        await engine.close()


@pytest.mark.usefixtures("home")
async def test_a_front_that_is_not_in_order_starts_no_process(
    files: Iterator[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("subprocess.Popen", lambda *_, **__: pytest.fail("a process was started"))
    for path in itertools.islice((path for path in files if fault(path)), 50):
        engine = ModelProcess(EngineChoice(str(path)))
        with pytest.raises(ModelFileError, match=re.escape(path.name)):
            await engine.generate(REQUEST)
        assert engine.pid is None
        await engine.close()


async def test_the_server_outlives_any_damaged_model(files: Iterator[Path], start, write) -> None:  # type: ignore[no-untyped-def]
    pytest.importorskip("llama_cpp")
    for path in [next(files), *sound(files, SERVED)]:
        async with start(wait=False, LSP_CALIB_MODEL=str(path)) as editor:
            document, line, column = write(editor, "value = ‸\n")
            for _ in range(4):
                await document.complete(line, column, PATIENCE)
                if editor.state == "error":
                    break
            if editor.state == "error":
                assert any(path.name in message or "3 times" in message for message in editor.messages)
            assert await editor.command("lsp-calib.status", seconds=PATIENCE)
            assert await editor.quit() == 0
