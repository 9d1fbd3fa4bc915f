"""The model process and its clients, with a model that follows a script: shared, fair, and hard to harm."""

import asyncio
import contextlib
import json
import os
import shutil
import signal
import socket
import stat
import struct
import sys
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import msgspec
import psutil
import pytest
import pytest_asyncio
from disk import fill, fill_names
from scripted_model import STEP, ask, install

from lsp_calib import home as state
from lsp_calib import lockfile
from lsp_calib.errors import (
    DeadlineError,
    EngineDiedError,
    EngineError,
    ModelError,
    ModelFileError,
    RequestCancelledError,
    SettingsError,
    SupersededError,
)
from lsp_calib.inference.choice import EngineChoice
from lsp_calib.inference.engine import EngineState, ignore_state
from lsp_calib.inference.process import client as process_client
from lsp_calib.inference.process import protocol
from lsp_calib.inference.process.client import ModelProcess
from lsp_calib.inference.process.protocol import Place

CONTEXT = 2048  # of a model without a card
HELLO = msgspec.to_builtins(protocol.Hello(threads=0, gpu_layers=None, linger=0.0, cache_mb=0))
PATIENCE = 30.0


async def until(condition: Callable[[], bool], seconds: float = PATIENCE) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not come about in time"
        await asyncio.sleep(0.02)


def alive(pid: int | None) -> bool:
    assert pid is not None
    with contextlib.suppress(psutil.NoSuchProcess):
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    return False


@pytest.fixture
def model(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    assert home.is_dir()
    return install(monkeypatch, tmp_path)


Client = Callable[..., ModelProcess]
Pair = tuple[ModelProcess, ModelProcess]


@pytest_asyncio.fixture
async def client(model: str) -> AsyncIterator[Client]:
    """Makes clients, which are closed at the end."""
    made: list[ModelProcess] = []

    def make(**options: object) -> ModelProcess:
        listener: Any = options.pop("on_state", ignore_state)
        choice = EngineChoice(**{"model": model, **options})  # type: ignore[arg-type]
        made.append(ModelProcess(choice, on_state=listener))
        return made[-1]

    yield make
    for engine in made:
        await engine.close()


@pytest_asyncio.fixture
async def engine(client: Client) -> ModelProcess:
    """A client of a process that is ready."""
    found = client()
    await found.ready()
    return found


@pytest_asyncio.fixture
async def pair(client: Client) -> Pair:
    """Two clients of one process that is ready."""
    first, second = client(), client()
    await asyncio.gather(first.ready(), second.ready())
    return first, second


def place(model: str) -> Place:
    return Place.of(Path(model), CONTEXT)


async def until_closed(model: str, sent: bytes) -> None:
    """Send bytes on a connection of their own, until the process closes it."""
    reader, writer = await protocol.connect(place(model))
    writer.write(sent)
    with contextlib.suppress(ConnectionError):
        await asyncio.wait_for(reader.read(), PATIENCE)
    writer.close()


class TestSharing:
    async def test_two_clients_have_one_process_and_both_get_answers(self, client: Client) -> None:
        first, second = client(), client()
        loaded = await asyncio.gather(first.ready(), second.ready())
        assert first.pid == second.pid
        assert [one.engine for one in loaded] == ["scripted 1.0", "scripted 1.0"]
        answers = await asyncio.gather(first.generate(ask("steps 3")), second.generate(ask("steps 3")))
        assert [len(answer.tokens) for answer in answers] == [3, 3]
        assert (await first.stats()).clients == 2

    async def test_many_that_start_at_once_elect_one(self, client: Client) -> None:
        clients = [client() for _ in range(6)]
        await asyncio.gather(*(one.ready() for one in clients))
        assert len({one.pid for one in clients}) == 1
        assert len([True for process in psutil.process_iter() if _runs(process, clients[0])]) == 1

    async def test_who_joins_later_is_told_what_loaded(self, client: Client) -> None:
        states: list[EngineState] = []
        first, second = client(threads=3), client(on_state=lambda state, *_: states.append(state))
        await first.ready()
        assert (await second.ready()).identity == (await first.ready()).identity
        assert states == [EngineState.STARTING, EngineState.READY]
        assert (await second.stats()).threads == 3, "the first client's wishes hold"

    async def test_what_loading_fails_with_reaches_every_client(
        self, client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        bad = install(monkeypatch, tmp_path, "bad")
        states: list[EngineState] = []
        clients = [client(model=bad, on_state=lambda state, *_: states.append(state)) for _ in range(3)]
        failures = await asyncio.gather(*(one.ready() for one in clients), return_exceptions=True)
        assert [type(failure) for failure in failures] == [ModelFileError] * 3
        assert all(f"{bad} is bad" in str(failure) for failure in failures)
        assert states.count(EngineState.ERROR) == 3
        with pytest.raises(ModelFileError, match="is bad"):
            await clients[0].generate(ask("steps 1"))

    async def test_a_restart_ends_it_for_all_and_all_go_on(self, pair: Pair) -> None:
        first, second = pair
        before = first.pid
        running = asyncio.create_task(second.generate(ask("stuck")))
        await asyncio.sleep(10 * STEP)
        await first.restart()
        with pytest.raises(EngineDiedError, match="The model is restarted"):
            await running
        for one in (second, first):
            assert (await one.generate(ask("steps 1"))).tokens
        assert first.pid == second.pid != before

    @pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGSTOP")
    async def test_a_restart_ends_a_process_that_does_not_react(self, engine: ModelProcess) -> None:
        pid = engine.pid
        assert pid is not None
        os.kill(pid, signal.SIGSTOP)
        await engine.restart()
        await until(lambda: not alive(pid))
        assert (await engine.generate(ask("steps 1"))).tokens

    async def test_another_model_has_another_process(
        self, client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        first, second = client(), client(model=install(monkeypatch, tmp_path, "other"))
        await asyncio.gather(first.ready(), second.ready())
        assert first.pid != second.pid
        where, other = place(str(tmp_path / "other.gguf")), Place.of(tmp_path / "other.gguf", 64)
        assert where.lock != other.lock, "nor has another context"


class TestTurns:
    async def test_interactive_work_interrupts_background_work_which_goes_on(self, pair: Pair) -> None:
        """In the same run: of what it had, nothing is done again."""
        first, second = pair
        behind = asyncio.create_task(first.generate(ask("steps 100", background=True)))
        await asyncio.sleep(10 * STEP)
        typed = await second.generate(ask("steps 2"))
        assert not behind.done()
        assert len(typed.tokens) == 2
        assert typed.timing.queue_ms < 1e3 * 50 * STEP, "it did not wait for the end"
        done = await behind
        assert done.text == "1 interruptions"
        assert len(done.tokens) == 100
        assert (await first.stats()).generated_tokens == 102
        assert done.timing.queue_ms >= 1e3 * 2 * STEP, "the time it stood still counts as waiting"

    async def test_only_the_newest_request_for_a_document_is_answered(self, client: Client) -> None:
        engine, other = client(), client()
        await asyncio.gather(engine.ready(), other.ready())
        keys = [asyncio.create_task(engine.generate(ask("steps 100", document="a")))]
        await asyncio.sleep(5 * STEP)
        keys += [asyncio.create_task(engine.generate(ask("steps 3", document="a"))) for _ in range(3)]
        elsewhere = asyncio.create_task(other.generate(ask("steps 3", document="a")))
        results = await asyncio.gather(*keys, return_exceptions=True)
        assert [type(result) for result in results[:-1]] == [SupersededError] * 3
        assert not isinstance(results[-1], BaseException)
        assert len((await elsewhere).tokens) == 3

    async def test_four_clients_that_ask_at_once_are_all_answered(self, client: Client) -> None:
        clients = [client() for _ in range(4)]
        await asyncio.gather(*(one.ready() for one in clients))
        for _ in range(3):
            async with asyncio.timeout(PATIENCE):
                answers = await asyncio.gather(*(one.generate(ask("steps 3")) for one in clients))
            assert [answer.text for answer in answers] == ["0 interruptions"] * 4

    async def test_cancelling_a_task_frees_the_model(self, engine: ModelProcess) -> None:
        running = asyncio.create_task(engine.generate(ask("steps 100000")))
        waiting = asyncio.create_task(engine.generate(ask("steps 100000")))
        await asyncio.sleep(5 * STEP)
        for task in (waiting, running):
            task.cancel()
        after = await asyncio.wait_for(engine.generate(ask("steps 1")), PATIENCE)
        assert len(after.tokens) == 1
        for task in (waiting, running):
            with pytest.raises(asyncio.CancelledError):
                await task

    @pytest.mark.parametrize("occupied", [False, True], ids=["running", "waiting"])
    async def test_what_is_not_answered_in_time_fails_with_that(
        self, engine: ModelProcess, monkeypatch: pytest.MonkeyPatch, occupied: bool
    ) -> None:
        before = asyncio.create_task(engine.generate(ask("steps 40"))) if occupied else None
        await asyncio.sleep(2 * STEP)
        with monkeypatch.context() as patch:
            patch.setattr(process_client, "_INTERACTIVE", 10 * STEP)
            with pytest.raises(DeadlineError, match=r"did not answer within 0\.1 s: it is stopped"):
                await engine.generate(ask("steps 100000"))
        if before is not None:
            assert len((await before).tokens) == 40
        assert len((await engine.generate(ask("steps 1"))).tokens) == 1

    async def test_who_waits_for_another_window_is_told_so_and_when_it_is_over(self, client: Client) -> None:
        states: list[EngineState] = []
        first, second = client(), client(on_state=lambda state, *_: states.append(state))
        await asyncio.gather(first.ready(), second.ready())
        states.clear()
        first_task = asyncio.create_task(first.generate(ask("steps 20")))
        await asyncio.sleep(2 * STEP)
        await second.generate(ask("steps 1"))
        await first_task
        assert states == [], "a moment is not worth a word"
        first_task = asyncio.create_task(first.generate(ask("steps 150")))
        await asyncio.sleep(2 * STEP)
        await second.generate(ask("steps 10"))
        await first_task
        assert states == [EngineState.BUSY, EngineState.READY]

    async def test_who_no_longer_waits_for_another_window_is_told_that_too(self, pair: Pair) -> None:
        """As who typed on: the request that waited is cancelled, and no answer comes."""
        first, second = pair
        states: list[EngineState] = []
        second._on_state = lambda state, *_: states.append(state)
        running = asyncio.create_task(first.generate(ask("steps 100000")))
        await asyncio.sleep(2 * STEP)
        waiting = [asyncio.create_task(second.generate(ask("steps 1"))) for _ in range(2)]
        await until(lambda: states == [EngineState.BUSY])
        waiting[0].cancel()
        await second.stats()
        assert states == [EngineState.BUSY], "the other waits"
        waiting[1].cancel()
        await until(lambda: states == [EngineState.BUSY, EngineState.READY])
        running.cancel()
        await asyncio.wait([running, *waiting])


class TestHarm:
    async def test_a_failure_in_the_model_fails_that_request_alone(self, client: Client) -> None:
        engine = client()
        with pytest.raises(EngineError, match="script says"):
            await engine.generate(ask("fail"))
        assert (await engine.generate(ask("steps 1"))).tokens

    @pytest.mark.parametrize("script", ["die", "bug"])
    async def test_an_end_of_the_process_fails_what_runs_and_the_next_is_answered(
        self, pair: Pair, script: str
    ) -> None:
        first, second = pair
        before = first.pid
        waiting = asyncio.create_task(second.generate(ask("steps 5", background=True)))
        with pytest.raises(EngineDiedError, match="unexpectedly"):
            await first.generate(ask(script))
        with contextlib.suppress(EngineDiedError):
            await waiting
        assert (await second.generate(ask("steps 1"))).tokens
        assert (await first.generate(ask("steps 1"))).tokens
        assert first.pid == second.pid != before

    async def test_a_load_that_the_system_refuses_is_tried_again(
        self, client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(process_client, "_UNABLE", 0.0)
        engine = client(model=install(monkeypatch, tmp_path, "tired"))
        with pytest.raises(EngineError, match="temporarily unavailable"):
            await engine.ready()
        await until(lambda: engine.pid is None)
        assert (await engine.generate(ask("steps 1"))).tokens

    async def test_what_kills_it_each_time_is_given_up(self, client: Client) -> None:
        states: list[EngineState] = []
        engine = client(on_state=lambda state, *_: states.append(state))
        for _ in range(2):
            with pytest.raises(EngineDiedError):
                await engine.generate(ask("die"))
        for script in ("die", "steps 1"):
            with pytest.raises(ModelError, match=r"3 times.*restart the model"):
                await engine.generate(ask(script))
        assert states[-1] is EngineState.ERROR
        await engine.restart()
        assert (await engine.generate(ask("steps 1"))).tokens

    @pytest.mark.parametrize(
        "words",
        [
            struct.pack(">I", protocol.MOST_BYTES + 1),
            struct.pack(">I", 5) + b"[1,2]",
            b"GET / HTTP/1.1\r\n\r\n",
            protocol.encode({"op": "generate"}),
            protocol.encode(HELLO) + protocol.encode({"op": "fly"}),
            protocol.encode(HELLO) + protocol.encode({"op": "generate", "id": 1}),
            protocol.encode(HELLO) + protocol.encode({"op": "cancel"}),
            protocol.encode(HELLO) + b"\xff" * 40,
        ],
        ids=range(8),
    )
    async def test_who_talks_nonsense_is_let_go_and_harms_nobody(
        self, engine: ModelProcess, model: str, words: bytes
    ) -> None:
        running = asyncio.create_task(engine.generate(ask("steps 30")))
        await until_closed(model, words)
        assert len((await running).tokens) == 30

    async def test_it_answers_while_the_model_is_in_native_code(self, engine: ModelProcess) -> None:
        stuck = asyncio.create_task(engine.generate(ask("stuck")))
        await asyncio.sleep(5 * STEP)
        stats = await asyncio.wait_for(engine.stats(), PATIENCE)
        assert (stats.running, stats.idle_since) == (1, None)
        stuck.cancel()
        await asyncio.wait([stuck])

    async def test_while_nobody_asks_it_does_nothing(self, client: Client) -> None:
        engine = client()
        await engine.generate(ask("steps 1"))
        process = psutil.Process(engine.pid)
        before = process.cpu_times()
        switches = process.num_ctx_switches().voluntary
        await asyncio.sleep(2)
        after = process.cpu_times()
        assert after.user + after.system - before.user - before.system <= 0.02
        assert process.num_ctx_switches().voluntary - switches <= 10
        stats = await engine.stats()
        assert stats.idle_since is not None
        assert stats.now - stats.idle_since >= 2


class TestComingAndGoing:
    async def test_it_goes_when_its_last_client_has_gone(
        self, client: Client, model: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.delenv("LSP_CALIB_LINGER", raising=False)
        first, second = client(linger=60.0), client(linger=0.2)
        await first.ready()
        await second.ready()
        pid = first.pid
        await first.close()
        await asyncio.sleep(1)
        assert alive(pid), "one is left"
        await second.close()
        await until(lambda: not alive(pid))
        where = place(model)
        assert where.socket is not None
        assert not where.socket.exists()
        # The last thread of a process may end a moment after its first.
        await until(lambda: lockfile.holder(where.lock) is None)

    async def test_it_stays_for_who_comes_back_soon(
        self, client: Client, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.delenv("LSP_CALIB_LINGER", raising=False)
        engine = client(linger=60.0)
        await engine.ready()
        pid = engine.pid
        await engine.close()
        await asyncio.sleep(0.5)
        await engine.ready()
        assert engine.pid == pid
        await engine.restart()
        await until(lambda: not alive(pid))

    async def test_closing_stops_a_start(self, client: Client) -> None:
        """Whenever: before the process is there, while it comes up, while it loads."""
        for steps in range(12):
            engine = client()
            starting = asyncio.create_task(engine.generate(ask("steps 1")))
            await asyncio.sleep(0.05 * steps)
            await asyncio.wait_for(engine.close(), PATIENCE)
            with contextlib.suppress(EngineDiedError):
                await asyncio.wait_for(starting, PATIENCE)
            assert engine.pid is None
        # Who had come up by then has lost its only client, or never had one.
        assert (await client().generate(ask("steps 1"))).tokens

    @pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGSTOP")
    async def test_a_process_that_is_stopped_costs_a_request_its_time_and_goes_on(
        self, engine: ModelProcess, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """As by a debugger. The message says what to do; nobody else ends a process of the user's."""
        monkeypatch.setattr(process_client, "_INTERACTIVE", 0.2)
        pid = engine.pid
        assert pid is not None
        os.kill(pid, signal.SIGSTOP)
        with pytest.raises(DeadlineError, match=r"within 0\.2 s: it is stopped.*restart the model"):
            await engine.generate(ask("steps 1"))
        os.kill(pid, signal.SIGCONT)
        monkeypatch.setattr(process_client, "_INTERACTIVE", PATIENCE)
        assert (await engine.generate(ask("steps 1"))).tokens
        assert engine.pid == pid

    @pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGSTOP")
    async def test_a_process_that_is_stopped_while_it_loads_is_not_waited_for_without_end(
        self, client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(process_client, "_LOADING", 0.8)
        states: list[EngineState] = []
        slow = install(monkeypatch, tmp_path, "slow")
        engine = client(model=slow, on_state=lambda state, *_: states.append(state))
        asked = asyncio.create_task(engine.generate(ask("steps 1")))
        await until(lambda: EngineState.LOADING in states)
        pid = lockfile.holder(place(slow).lock)
        assert pid is not None
        os.kill(pid, signal.SIGSTOP)
        with pytest.raises(DeadlineError, match=r"loaded nothing for .* Restart the model"):
            await asyncio.wait_for(asked, PATIENCE)
        assert states[-1] is EngineState.ERROR
        await engine.restart()
        await until(lambda: not alive(pid))
        assert (await engine.generate(ask("steps 1"))).tokens

    @pytest.mark.parametrize("linger", ["inf", "nan", "-1", "soon"])
    async def test_a_wish_to_stay_that_is_no_time_prevents_no_start(
        self, client: Client, monkeypatch: pytest.MonkeyPatch, linger: str
    ) -> None:
        monkeypatch.setenv("LSP_CALIB_LINGER", linger)
        engine = client(linger=0.0)
        assert (await engine.generate(ask("steps 1"))).tokens
        await engine.restart()

    async def test_what_was_left_behind_by_a_killed_process_does_not_matter(
        self, engine: ModelProcess, client: Client, model: str
    ) -> None:
        assert engine.pid is not None
        os.kill(engine.pid, signal.SIGKILL)
        await until(lambda: engine.pid is None)
        where = place(model)
        assert where.socket is not None
        assert where.socket.exists(), "it had no time to clean up"
        assert where.lock.exists()
        assert (await client().generate(ask("steps 1"))).tokens

    async def test_only_who_holds_the_lock_is_killed(self, engine: ModelProcess, model: str) -> None:
        pid, where = engine.pid, place(model)
        assert pid is not None
        assert lockfile.holder(where.lock) == pid
        assert not lockfile.kill_holder(where.lock, os.getpid())
        assert alive(pid)
        assert lockfile.kill_holder(where.lock, pid)
        await until(lambda: lockfile.holder(where.lock) is None)
        assert not lockfile.kill_holder(where.lock, pid)

    @pytest.mark.skipif(sys.platform == "win32", reason="there are no named pipes in folders")
    async def test_what_lies_where_its_number_belongs_is_neither_waited_for_nor_believed(
        self, client: Client, model: str
    ) -> None:
        where = place(model)
        os.mkfifo(where.lock.with_suffix(".pid"))
        engine = client()
        await asyncio.wait_for(engine.ready(), PATIENCE)
        assert lockfile.holder(where.lock) == engine.pid
        assert stat.S_IMODE(where.lock.with_suffix(".pid").stat().st_mode) == 0o600


class TestPrivacy:
    async def test_socket_and_folder_are_the_users_own(self, client: Client, model: str) -> None:
        await client().ready()
        where = place(model)
        assert where.socket is not None
        assert stat.S_IMODE(where.socket.stat().st_mode) == 0o600
        assert stat.S_IMODE(where.socket.parent.stat().st_mode) == 0o700
        assert stat.S_IMODE(where.lock.stat().st_mode) == 0o600

    @pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="needs another user's folder")
    async def test_a_folder_of_somebody_else_is_refused(self, client: Client, home: Path) -> None:
        folder = home / "run"
        folder.mkdir(mode=0o700)
        os.chown(folder, 12345, 12345)
        with pytest.raises(SettingsError, match="belongs to another user"):
            await client().generate(ask("steps 1"))

    async def test_a_link_in_the_place_of_the_folder_is_refused(
        self, client: Client, home: Path, tmp_path: Path
    ) -> None:
        (tmp_path / "elsewhere").mkdir(mode=0o700)
        (home / "run").symlink_to(tmp_path / "elsewhere")
        with pytest.raises(SettingsError, match="is a link"):
            await client().generate(ask("steps 1"))

    @pytest.mark.skipif(
        not hasattr(os, "geteuid") or os.geteuid() != 0, reason="needs to become another user"
    )
    async def test_another_user_is_not_served(self, engine: ModelProcess, model: str) -> None:
        """Even one who gets through to the socket."""
        where = place(model)
        assert where.socket is not None
        for folder in [where.socket.parent, *where.socket.parents]:
            if folder.stat().st_mode & 0o005 != 0o005 and "pytest" in str(folder):
                folder.chmod(0o755)
        where.socket.chmod(0o666)
        child = os.fork()
        if child == 0:
            try:
                os.setuid(12345)
                with socket.socket(socket.AF_UNIX) as stranger:
                    stranger.settimeout(PATIENCE)
                    stranger.connect(str(where.socket))
                    stranger.sendall(protocol.encode(HELLO))
                    os._exit(10 if stranger.recv(1) == b"" else 11)
            except ConnectionError:
                os._exit(10)
            finally:
                os._exit(12)
        _, status = await asyncio.to_thread(os.waitpid, child, 0)
        assert os.waitstatus_to_exitcode(status) == 10, "the connection was closed without a word"
        assert (await engine.stats()).clients == 1


class TestDiskWithoutRoom:
    """The state folder is on a disk that is full, or may not be written."""

    @pytest.fixture
    def disk(self, small_disk: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        """With a state folder that has been used."""
        monkeypatch.setenv("LSP_CALIB_HOME", str(small_disk / "h"))
        state.run_folder()
        return small_disk

    async def test_a_process_runs_without_its_number(self, model: str, disk: Path) -> None:
        ballast = fill(disk)
        first, second = ModelProcess(EngineChoice(model)), ModelProcess(EngineChoice(model))
        try:
            assert (await first.generate(ask("steps 1"))).tokens
            assert (await second.generate(ask("steps 1"))).tokens
            assert first.pid == second.pid
            lock = place(model).lock
            assert lockfile.holder(lock) == lockfile.UNKNOWN
            pid = first.pid
            ballast.unlink()
            await first.restart()
            assert not alive(pid)
            assert (await first.generate(ask("steps 1"))).tokens
            assert lockfile.holder(lock) == first.pid
        finally:
            await asyncio.gather(first.close(), second.close())

    async def test_where_no_socket_can_be_made_the_disk_is_named_and_later_it_works(
        self, model: str, disk: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        names, states = fill_names(disk), []
        monkeypatch.setattr(process_client, "_UNABLE", 1.0)
        engine = ModelProcess(
            EngineChoice(model), on_state=lambda state, text, _: states.append((state, text))
        )
        try:
            for _ in range(3):
                with pytest.raises(EngineError, match="cannot be written") as refused:
                    await engine.generate(ask("steps 1"))
            assert str(refused.value).startswith("The model cannot be started: ")
            assert "(No space left on device). Free some space there or make it writable, or set" in str(
                refused.value
            )
            assert [text for state, text in states if state is EngineState.ERROR] == [str(refused.value)]
            shutil.rmtree(names)
            await asyncio.sleep(1.0)
            assert (await engine.generate(ask("steps 1"))).tokens
        finally:
            await engine.close()


class TestLoopback:
    """How it goes on Windows, and where the state folder's path is too long for a socket file."""

    @pytest.fixture(autouse=True)
    def _loopback(self, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        assert home.is_dir()
        monkeypatch.setenv("LSP_CALIB_HOME", str(tmp_path / ("deep" * 30) / "home"))

    async def test_two_clients_share_a_process(self, pair: Pair, model: str) -> None:
        first, second = pair
        assert first.pid == second.pid
        assert (await second.generate(ask("steps 1"))).tokens
        where = place(model)
        assert where.socket is None
        assert stat.S_IMODE(where.port.stat().st_mode) == 0o600
        address = psutil.Process(first.pid).net_connections()[0].laddr
        assert address.ip == "127.0.0.1"

    async def test_who_does_not_know_the_secret_is_not_served(self, engine: ModelProcess, model: str) -> None:
        port, _ = json.loads(place(model).port.read_text())
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(bytes(16))
        challenge = await reader.readexactly(48)
        writer.write(challenge[16:] + protocol.encode(HELLO))
        assert await asyncio.wait_for(reader.read(1), PATIENCE) == b""
        writer.close()
        assert (await engine.stats()).clients == 1

    async def test_who_listens_at_the_port_of_a_dead_process_is_told_nothing(
        self, client: Client, model: str
    ) -> None:
        """A request is source code: it goes to nobody who cannot prove to be the process."""
        got: list[bytes] = []

        async def impostor(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            got.append(await reader.readexactly(16))
            writer.write(bytes(48))
            got.append(await reader.read(1000))
            writer.close()

        server = await asyncio.start_server(impostor, "127.0.0.1", 0)
        where = place(model)
        where.port.write_text(json.dumps([server.sockets[0].getsockname()[1], "00" * 32]))
        assert (await client().generate(ask("steps 1"))).tokens
        server.close()
        assert len(got[0]) == 16
        assert got[1:] == [b""]


class TestRaces:
    async def test_killed_at_any_moment_each_request_is_answered_or_fails_at_once(self, pair: Pair) -> None:
        first, second = pair
        outcomes: list[bool] = []

        async def ask_on(engine: ModelProcess, number: int) -> None:
            for count in range(number):
                try:
                    answer = await asyncio.wait_for(engine.generate(ask(f"steps {count % 4}")), PATIENCE)
                    outcomes.append(True)
                    assert len(answer.tokens) == count % 4
                except EngineDiedError:
                    outcomes.append(False)
                except ModelError:
                    await engine.restart()

        asking = [asyncio.create_task(ask_on(engine, 60)) for engine in (first, second)]
        kills = 0
        while not all(task.done() for task in asking):
            await asyncio.sleep(0.03 * (kills * 7 % 10))
            with contextlib.suppress(ProcessLookupError):
                if (pid := first.pid) is not None:
                    os.kill(pid, signal.SIGKILL)
                    kills += 1
            if kills == 15:
                break
        await asyncio.gather(*asking)
        assert outcomes.count(True) > 60
        assert outcomes.count(False) >= 1
        with contextlib.suppress(EngineDiedError):  # the last one may be dying still
            await first.generate(ask("steps 1"))
        assert (await first.generate(ask("steps 1"))).tokens

    async def test_a_late_interruption_never_hits_the_next_run(self, engine: ModelProcess) -> None:
        """Cancelled at all moments around its end, a request never disturbs the one behind it."""
        for moment in range(40):
            first = asyncio.create_task(engine.generate(ask("steps 2")))
            second = asyncio.create_task(engine.generate(ask("steps 2")))
            await asyncio.sleep(moment * STEP / 10)
            first.cancel()
            answer = await asyncio.wait_for(second, PATIENCE)
            assert answer.text == "0 interruptions"
            with contextlib.suppress(asyncio.CancelledError, RequestCancelledError):
                await first


def _runs(process: psutil.Process, engine: ModelProcess) -> bool:
    with contextlib.suppress(psutil.NoSuchProcess, psutil.AccessDenied):
        arguments = process.cmdline()
        return any(part.startswith("--model=") and part == _model_of(engine) for part in arguments)
    return False


def _model_of(engine: ModelProcess) -> str:
    assert engine.pid is not None
    return next(part for part in psutil.Process(engine.pid).cmdline() if part.startswith("--model="))
