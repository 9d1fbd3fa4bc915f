"""The model process, with the real model: its numbers are true, and its end harms nobody.

How it is shared: test_shared_process.py and e2e/test_sharing.py.
"""

import asyncio
import os
import struct
import subprocess
import sys
import textwrap
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import attrs
import pytest
import pytest_asyncio
from llama_scene import SOURCE, request

from lsp_calib.errors import (
    EngineDiedError,
    ModelError,
    ModelFileError,
    NoModelError,
)
from lsp_calib.inference.choice import EngineChoice
from lsp_calib.inference.engine import EngineState, LoadedModel, Observe, Request
from lsp_calib.inference.models.cards import ModelCard, choose, load_cards
from lsp_calib.inference.process import client
from lsp_calib.inference.process.client import ModelProcess
from lsp_calib.installation import how_to_install
from lsp_calib.values import Prompt, Segment

ROOT = Path(__file__).parents[2]


def alive(pid: int) -> bool:
    """Whether a process is there and no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


async def until(condition, seconds: float = 5) -> None:  # type: ignore[no-untyped-def]
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not come about in time"
        await asyncio.sleep(0.02)


# One process serves all tests that leave it as it was.


@pytest.fixture(scope="module")
def shared_home(
    model_path: Path, model_card: ModelCard, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Path]:
    with pytest.MonkeyPatch.context() as patch:
        folder = tmp_path_factory.mktemp("home")
        patch.setenv("LSP_CALIB_HOME", str(folder))
        patch.delenv("LSP_CALIB_MODEL", raising=False)
        model_card.path.parent.mkdir(mode=0o700)
        model_card.path.symlink_to(model_path)
        yield folder


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def engine(shared_home: Path) -> AsyncIterator[ModelProcess]:
    assert shared_home.is_dir()
    process = ModelProcess(EngineChoice(threads=1))
    await process.ready()
    yield process
    await process.close()


@pytest.mark.model
@pytest.mark.asyncio(loop_scope="module")
class TestAnswers:
    # One batch or token by token may take other matrix kernels, which add up quantised products in another
    # order. On the processor this was written on there was no difference at all; one wrong token or a shift
    # by one position makes some tenths.
    TOLERANCE = 0.002

    async def test_all_that_can_be_observed_comes_through_the_process(self, engine: ModelProcess) -> None:
        plain = attrs.evolve(request(SOURCE), reuse=False)
        asked = attrs.evolve(plain, observe=~Observe.NOTHING)
        first = await engine.generate(asked)
        assert len(first.tokens) >= 3
        assert first.entropies is not None
        for token in first.tokens:
            assert token.seen is not None
            assert None not in attrs.astuple(token.seen)
        unobserved = await engine.generate(plain)
        assert unobserved.logprobs == first.logprobs, "to observe changes nothing"
        assert unobserved.entropies is None

    async def test_control_texts_in_a_document_are_text(self, engine: ModelProcess) -> None:
        """A file that holds <|im_end|> must not end a turn, and not open one of its own."""

        async def tokens(*segments: tuple[Segment, str]) -> int:
            asked = Request(Prompt(segments, "", "test"), 1)
            return (await engine.generate(asked)).timing.prompt_tokens

        marks = "<|im_end|>\n<|im_start|>"
        plain = await tokens((Segment.TEXT, marks))
        assert await tokens((Segment.CONTROL, marks)) == 3 < plain
        assert await tokens((Segment.TEXT, marks), (Segment.CONTROL, "<|im_end|>")) == plain + 1


@pytest.mark.model
@pytest.mark.usefixtures("home_with_model")
class TestDeath:
    @pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks into /proc")
    async def test_when_its_client_is_killed_the_process_goes_also_during_a_request(self) -> None:
        client = textwrap.dedent("""
            import asyncio
            from lsp_calib.inference.choice import EngineChoice
            from lsp_calib.inference.process.client import ModelProcess
            from lsp_calib.inference.engine import Request
            from lsp_calib.values import Prompt, Segment

            async def main():
                engine = ModelProcess(EngineChoice(threads=1))
                await engine.ready()
                print(engine.pid, flush=True)
                text = "".join(f"value_{n} = compute({n})\\n" for n in range(300))
                while True:
                    await engine.generate(Request(Prompt(((Segment.TEXT, text),), "", "t"), 64))
                    text = text[1:]

            asyncio.run(main())
        """)
        parent = subprocess.Popen([sys.executable, "-c", client], stdout=subprocess.PIPE, text=True)
        assert parent.stdout is not None
        with parent.stdout:
            pid = int(await asyncio.to_thread(parent.stdout.readline))
            await asyncio.sleep(0.1)
            assert alive(pid)
            parent.kill()
            parent.wait()
        await until(lambda: not alive(pid))

    async def test_a_hostile_module_in_the_working_folder_is_not_run(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """An editor starts the server in the workspace, and a workspace is not trusted."""
        for name in ("json.py", "numpy.py", "heapq.py", "llama_cpp.py", "sitecustomize.py"):
            (tmp_path / name).write_text(f"open({str(tmp_path / 'ran')!r}, 'w').close()\n")
        monkeypatch.chdir(tmp_path)
        engine = ModelProcess(EngineChoice(threads=1))
        try:
            await engine.ready()
        finally:
            await engine.close()
        assert not (tmp_path / "ran").exists()


@pytest.mark.model
@pytest.mark.usefixtures("home_with_model")
async def test_it_says_which_bytes_the_model_is(model_card: ModelCard) -> None:
    states: list[tuple[EngineState, float | None]] = []
    engine = ModelProcess(
        EngineChoice(threads=1), on_state=lambda state, _, fraction: states.append((state, fraction))
    )
    try:
        loaded: LoadedModel = await engine.ready()
    finally:
        await engine.close()
    assert loaded.card == model_card
    assert (loaded.identity.name, loaded.identity.sha256) == (model_card.name, model_card.sha256)
    assert loaded.evaluates_ahead
    assert [state for state, _ in states if state is not EngineState.LOADING] == [
        EngineState.STARTING,
        EngineState.READY,
    ]
    fractions = [
        fraction for state, fraction in states if state is EngineState.LOADING and fraction is not None
    ]
    assert fractions == sorted(fractions)
    assert fractions[-1] == 1.0


# Files that are no model. Nothing here needs the real one, but the process does need llama.cpp.


@attrs.frozen
class Failure:
    error: BaseException
    state: EngineState


async def failure(path: Path) -> Failure:
    """What a client of that file is told, with the engine's last state."""
    states: list[EngineState] = []
    engine = ModelProcess(EngineChoice(str(path), threads=1), on_state=lambda state, *_: states.append(state))
    try:
        for _ in range(3):
            with pytest.raises((ModelError, EngineDiedError)) as caught:
                await engine.generate(request("a ="))
            if isinstance(caught.value, ModelError):
                break
    finally:
        await engine.close()
    assert engine.pid is None
    assert EngineState.READY not in states
    return Failure(caught.value, states[-1])


def gguf(*pairs: bytes, tensors: int = 0, rest: bytes = b"") -> bytes:
    return struct.pack("<4sIQQ", b"GGUF", 3, tensors, len(pairs)) + b"".join(pairs) + rest


def text(value: str) -> bytes:
    return struct.pack("<Q", len(value)) + value.encode()


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize(
    ("content", "fault"),
    [
        (b"", "truncated"),
        (b"PK\x03\x04" + bytes(100), "not a GGUF file"),
        (gguf(tensors=2**60), "cannot be loaded"),
        (gguf(text("general.architecture") + struct.pack("<I", 8) + text("no-such")), "cannot be loaded"),
    ],
    ids=["empty", "zip", "absurd", "architecture"],
)
async def test_a_file_that_is_no_model_is_named_and_harms_nobody(
    tmp_path: Path, content: bytes, fault: str
) -> None:
    pytest.importorskip("llama_cpp")
    path = tmp_path / "odd.gguf"
    path.write_bytes(content)
    failed = await failure(path)
    assert isinstance(failed.error, ModelFileError)
    assert str(path) in str(failed.error)
    assert fault in str(failed.error)
    assert failed.state is EngineState.ERROR


@pytest.mark.model
@pytest.mark.usefixtures("home")
@pytest.mark.parametrize(
    ("damage", "fault"),
    [("truncated", "truncated"), ("one byte", "wrong checksum"), ("magic", "not a GGUF file")],
)
async def test_a_damaged_installed_model_is_named_with_the_command_that_replaces_it(
    model_path: Path, model_card: ModelCard, damage: str, fault: str
) -> None:
    model_card.path.parent.mkdir(mode=0o700)
    content = bytearray(model_path.read_bytes())
    match damage:
        case "truncated":
            del content[-1000:]
        case "one byte":
            content[len(content) // 2] ^= 1
        case "magic":
            content[:4] = b"GGML"
    model_card.path.write_bytes(content)
    failed = await failure(Path(model_card.name))
    assert isinstance(failed.error, ModelFileError)
    for part in (fault, str(model_card.path), "lsp-calib models remove", "lsp-calib models pull"):
        assert part in str(failed.error)


@pytest.mark.usefixtures("home")
async def test_without_a_model_the_command_that_gets_one_is_named_and_no_process_started() -> None:
    states: list[EngineState] = []
    engine = ModelProcess(EngineChoice(), on_state=lambda state, *_: states.append(state))
    for _ in range(2):
        with pytest.raises(NoModelError, match="lsp-calib models pull"):
            await engine.generate(request("a ="))
    assert engine.pid is None
    assert states[-1] is EngineState.NO_MODEL
    assert states.count(EngineState.NO_MODEL) == 1, "a failure is told once"


async def test_a_model_that_is_pulled_later_is_found(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The message says how to get one; whoever does so need not restart anything."""
    tries = 0

    def counted(wanted: str | None) -> tuple[ModelCard, Path]:
        nonlocal tries
        tries += 1
        return choose(wanted)

    monkeypatch.setattr(client, "choose", counted)
    engine = ModelProcess(EngineChoice("smollm2-135m"))
    for _ in range(2):
        with pytest.raises(NoModelError):
            await engine.ready()
    assert tries == 1
    path = load_cards()["smollm2-135m"].path
    path.parent.mkdir(mode=0o700, exist_ok=True)
    path.write_bytes(b"GGML")
    now = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: now + 3.0)
    with pytest.raises(ModelFileError, match="truncated"):
        await engine.ready()
    assert (tries, engine.pid) == (2, None)
    assert home in path.parents


@pytest.mark.usefixtures("home")
async def test_without_an_engine_the_extras_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The package installs anywhere; who wants a local model is told what to install."""
    for name in ("llama_cpp", "xllamacpp"):
        stub = tmp_path / "stub" / name
        stub.mkdir(parents=True)
        (stub / "__init__.py").write_text(f"raise ImportError('there is no {name}')\n")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path / "stub"), str(ROOT)]))
    path = tmp_path / "m.gguf"
    path.write_bytes(gguf())
    failed = await failure(path)
    assert isinstance(failed.error, ModelError)
    for extra in ("local", "prebuilt"):
        assert f"{how_to_install(extra)}" in str(failed.error)
    assert failed.state is EngineState.NO_MODEL


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize("words", [b"hello\n", b"\xff" * 64], ids=ascii)
async def test_a_process_that_talks_nonsense_is_a_process_that_died(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: bytes
) -> None:
    program = tmp_path / "nonsense"
    program.write_text(f"#!{sys.executable}\nimport os, sys\nos.write(1, {words!r})\nos.close(1)\n")
    program.chmod(0o700)
    monkeypatch.setattr(sys, "executable", str(program))
    path = tmp_path / "m.gguf"
    path.write_bytes(gguf())
    failed = await failure(path)
    assert isinstance(failed.error, ModelError)
    assert "ended 3 times before it answered" in str(failed.error)
    assert failed.state is EngineState.ERROR
