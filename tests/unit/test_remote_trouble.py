"""The remote engine against servers that are slow or broken, and what it does with its key."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import ssl
import subprocess
import weakref
from pathlib import Path
from typing import Any

import attrs
import pytest
from openai_server import Exchange, Handler
from remote_scene import QUICK, Play, clean_fixture, play_fixture, request  # noqa: F401 - fixtures

from lsp_calib.errors import EngineError, RequestCancelledError, SettingsError
from lsp_calib.inference.engine import EngineState
from lsp_calib.inference.remote.server import KEY_VARIABLE

SECRET = "sk-3f9a7c51e2d84b60"


def certificate(folder: Path) -> tuple[Path, ssl.SSLContext]:
    """A certificate that nobody has issued but its owner, for this machine, and a server's context."""
    key, made = folder / "key.pem", folder / "certificate.pem"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"]
    command += ["-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"]
    files = ["-keyout", str(key), "-out", str(made)]
    if subprocess.run([*command, *files], capture_output=True, check=False).returncode:
        pytest.skip("no openssl to make a certificate with")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(made, key)
    return made, context


def refusing(message: str, status: int, **headers: str) -> Handler:
    """A server that answers with an error."""

    async def handler(exchange: Exchange) -> None:
        await exchange.json({"error": {"message": message}}, status, **headers)

    return handler


def streaming(*events: Any, end: Handler = Exchange.end) -> Handler:
    """A server that sends these events, and then ends the answer."""

    async def handler(exchange: Exchange) -> None:
        await exchange.head(Content_Type="text/event-stream")
        for event in events:
            await exchange.event(event)
        await end(exchange)

    return handler


def sending(kind: str, *pieces: bytes, again: bytes = b"", pause: float = 0.0) -> Handler:
    """A server that sends these bytes, and then others again and again, if there are any."""

    async def handler(exchange: Exchange) -> None:
        await exchange.head(Content_Type=kind)
        for piece in pieces:
            await exchange.raw(piece)
        while again:
            await exchange.raw(again)
            await asyncio.sleep(pause)
        await exchange.end()

    return handler


class TestTrouble:
    async def test_nobody_listens(self, play: Play, unused_tcp_port: int) -> None:
        scene = await play(remote={"url": f"http://127.0.0.1:{unused_tcp_port}"})
        with pytest.raises(EngineError, match="cannot be reached") as caught:
            await scene.say()
        assert str(unused_tcp_port) in str(caught.value)
        assert "remote.url" in str(caught.value)
        assert [state for state, _ in scene.states] == [EngineState.STARTING, EngineState.ERROR]

    async def test_a_server_that_comes_back_is_used_again(self, play: Play) -> None:
        scene = await play(patience=attrs.evolve(QUICK, pause=0.0))
        await scene.say("a")
        scene.server.handler = Exchange.die
        with pytest.raises(EngineError, match="closed the connection"):
            await scene.say("b")
        assert len(scene.server.completions) == 4, "it was tried three times"
        scene.server.handler = None
        assert (await scene.say("b")).text == "x"
        states = EngineState.STARTING, EngineState.READY, EngineState.ERROR, EngineState.READY
        assert tuple(state for state, _ in scene.states) == states

    @pytest.mark.parametrize("status", [429, 503])
    async def test_a_busy_server_is_asked_again(self, play: Play, status: int) -> None:
        async def handler(exchange: Exchange) -> None:
            if len(scene.server.completions) < 3:
                await exchange.json({"error": {"message": "Loading model"}}, status, Retry_After="0.05")
            else:
                await scene.server.complete(exchange)

        scene = await play(handler=handler)
        assert (await scene.say()).text == "x"
        assert len(scene.server.completions) == 3

    async def test_but_not_for_ever_nor_before_it_says(self, play: Play) -> None:
        busy = refusing("slow down", 429, Retry_After="0")
        scene = await play(handler=busy, patience=attrs.evolve(QUICK, pause=0.0))
        with pytest.raises(EngineError, match=r"limits the rate of requests \(429\)"):
            await scene.say()
        assert len(scene.server.completions) == 3
        scene.server.handler = refusing("slow down", 429, Retry_After="600")
        for _ in range(2):
            with pytest.raises(EngineError, match="429"):
                await scene.say()
        assert len(scene.server.completions) == 4
        await scene.engine.restart()
        scene.server.handler = None
        assert (await scene.say()).text == "x"

    @pytest.mark.parametrize(
        ("status", "words"),
        [
            (400, "did not accept the request (400)"),
            (401, "requires a key"),
            (403, "requires a key"),
            (404, "remote.model"),
            (422, "(422)"),
            (500, "failed (500)"),
        ],
    )
    async def test_a_refusal_is_told_and_not_tried_again(self, play: Play, status: int, words: str) -> None:
        scene = await play(handler=refusing("too long", status))
        with pytest.raises(EngineError) as caught:
            await scene.say()
        assert words in str(caught.value)
        assert len(scene.server.completions) == 1
        assert scene.states[-1] == (EngineState.ERROR, str(caught.value))

    async def test_a_missing_key_is_not_asked_about_at_every_keystroke(self, play: Play) -> None:
        scene = await play(models_handler=refusing("no", 401))
        for _ in range(3):
            with pytest.raises(EngineError, match=KEY_VARIABLE):
                await scene.say()
        assert len(scene.server.asked) == 1
        scene.server.models_handler = None
        await scene.engine.restart()
        assert (await scene.say()).text == "x"

    async def test_redirects_are_not_followed(self, play: Play, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv(KEY_VARIABLE, SECRET)
        thief = await play()
        scene = await play(handler=refusing("", 307, Location=f"{thief.server.url}/completions?token=1"))
        with pytest.raises(EngineError, match="Redirects are disabled") as caught:
            await scene.say()
        assert "remote.url" in str(caught.value)
        assert thief.server.connections == 0

    async def test_a_redirect_to_no_address_is_one_and_not_asked_again(self, play: Play) -> None:
        scene = await play(handler=refusing("", 307, Location="http://[::1/"))
        with pytest.raises(EngineError, match=r"redirects \(an invalid address\)"):
            await scene.say()
        assert len(scene.server.completions) == 1

    @pytest.mark.parametrize(
        ("kind", "body"),
        [
            ("text/html", b"<html>Welcome</html>"),
            ("application/json", b"{}"),
            ("text/event-stream", b"data: hello\n\n"),
        ],
    )
    @pytest.mark.parametrize("where", ["handler", "models_handler"])
    async def test_garbage_is_named(self, play: Play, kind: str, body: bytes, where: str) -> None:
        scene = await play(**{where: sending(kind, body)})
        with pytest.raises(EngineError, match="OpenAI-compatible"):
            await scene.say()

    async def test_an_answer_is_whole_where_the_server_breaks_off_behind_its_end(self, play: Play) -> None:
        last = {"choices": [{"text": "x", "finish_reason": "stop"}]}
        assert (await (await play(handler=streaming(last, end=Exchange.die))).say()).text == "x"

    @pytest.mark.parametrize(
        ("event", "end"),
        [
            ({"choices": [{"text": "a"}]}, Exchange.die),
            ({"choices": [{"text": "a"}]}, Exchange.end),
            ("[DONE]", Exchange.end),
        ],
        ids=["died", "ended", "without-an-answer"],
    )
    async def test_a_stream_that_ends_midway_is_no_answer(self, play: Play, event: Any, end: Handler) -> None:
        scene = await play(handler=streaming(event, end=end))
        with pytest.raises(EngineError, match="without a whole answer"):
            await scene.say()
        assert len(scene.server.completions) == 1
        scene.server.handler = streaming({"choices": [{"text": "", "finish_reason": "stop"}]}, "[DONE]")
        assert (await scene.say()).text == "", "and an empty one is one"

    @pytest.mark.parametrize("begun", [False, True])
    async def test_a_server_that_stalls_is_given_up(self, play: Play, begun: bool) -> None:
        """Comments that only keep the connection open do not help it."""
        begin = [b'data: {"choices": [{"text": "a"}]}\n\n'] * begun
        stalls = sending("text/event-stream", *begin, again=b": ping\n\n", pause=0.02)
        scene = await play(handler=stalls, patience=attrs.evolve(QUICK, first=0.3, between=0.3))
        with pytest.raises(EngineError, match="did not answer in time"):
            await scene.say()

    async def test_an_endless_answer_is_cut_off(self, play: Play) -> None:
        scene = await play(handler=sending("text/event-stream", again=b"x" * 100_000))
        with pytest.raises(EngineError, match=r"more than \d+ kB"):
            await scene.say()

    async def test_a_server_on_this_machine_with_a_certificate_of_an_authority_that_is_named(
        self, play: Play, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        made, context = certificate(tmp_path)
        scene = await play(secure=context)
        with pytest.raises(EngineError, match="SSL_CERT_FILE"):
            await scene.say()
        assert scene.server.asked == []
        monkeypatch.setenv("SSL_CERT_FILE", str(made))
        await scene.engine.restart()
        assert (await scene.say()).text == "x"

    async def test_a_proxy_that_cannot_be_used_is_named_without_its_password(
        self, play: Play, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("HTTP_PROXY", f"gopher://me:{SECRET}@127.0.0.1:1")
        scene = await play(remote={"url": "http://model.invalid/v1"})
        with pytest.raises(EngineError, match="proxy") as caught:
            await scene.say()
        assert SECRET not in str(caught.value)


async def test_a_proxy_from_the_environment_is_used_but_not_for_this_machine(
    play: Play, monkeypatch: pytest.MonkeyPatch
) -> None:
    proxy = await play()
    for name in ("HTTP_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(name, f"http://127.0.0.1:{proxy.server.port}")
    assert (await (await play()).say()).text == "x"
    assert proxy.server.connections == 0
    assert (await (await play(remote={"url": "http://model.invalid/v1"})).say()).text == "x"
    assert proxy.server.completions[0].path == "http://model.invalid/v1/completions"


def key_in(folder: Path, content: bytes = SECRET.encode() + b"\n") -> Path:
    """A file with a key, of its owner's alone."""
    file = folder / "key"
    file.write_bytes(content)
    file.chmod(0o600)
    return file


class TestTheKey:
    async def test_goes_along_from_the_environment(self, play: Play, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv(KEY_VARIABLE, f" {SECRET}\n")
        scene = await play()
        await scene.say()
        assert {one.headers["authorization"] for one in scene.server.asked} == {f"Bearer {SECRET}"}

    async def test_is_not_told_where_a_server_calls_a_model_by_it(
        self, play: Play, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv(KEY_VARIABLE, SECRET)
        scene = await play(models=["qwen2.5-coder-7b"])
        scene.server.answers_as = SECRET
        doubt = (await scene.say()).doubt
        assert "another model, [key]" in doubt
        assert SECRET not in doubt

    async def test_is_not_looked_for_in_the_workspace(
        self, play: Play, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The server is usually started there: a relative path would lead to a file of the workspace's."""
        monkeypatch.chdir(tmp_path)
        key_in(tmp_path)
        scene = await play(remote={"key_file": Path("key")})
        with pytest.raises(SettingsError, match="absolute path"):
            await scene.say()
        assert scene.server.connections == 0

    @pytest.mark.skipif(os.name != "posix", reason="access rights are those of POSIX")
    @pytest.mark.parametrize("mode", [0o640, 0o604, 0o660])
    async def test_that_others_can_read_is_not_used(self, play: Play, tmp_path: Path, mode: int) -> None:
        file = key_in(tmp_path)
        file.chmod(mode)
        scene = await play(remote={"key_file": file})
        with pytest.raises(SettingsError, match="chmod 600") as caught:
            await scene.say()
        assert SECRET not in str(caught.value)
        assert scene.server.connections == 0
        file.chmod(0o600)
        assert (await scene.say()).text == "x"
        assert scene.server.asked[0].headers["authorization"] == f"Bearer {SECRET}"

    @pytest.mark.parametrize("content", [b"", b"two words", b"a\nb", b"\xff\xfe", b"x" * 5000])
    async def test_that_is_none_is_not_used(self, play: Play, tmp_path: Path, content: bytes) -> None:
        scene = await play(remote={"key_file": key_in(tmp_path, content)})
        with pytest.raises(SettingsError, match="must hold a key"):
            await scene.say()

    async def test_and_the_document_show_up_nowhere(
        self, play: Play, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        """Not in logs at any level, nor in errors, even where the server repeats both."""
        monkeypatch.setenv(KEY_VARIABLE, SECRET)
        caplog.set_level(logging.DEBUG)
        document = "password_of_the_bank = 'hunter2'"
        errors: list[BaseException] = []

        def parrot(status: int) -> Handler:
            async def handler(exchange: Exchange) -> None:
                said = exchange.headers["authorization"] + (exchange.body["prompt"] if status == 400 else "")
                await exchange.json({"error": {"message": f"what is {said}?"}}, status)

            return handler

        scene = await play()
        await scene.say(document)
        for handler in (*map(parrot, (400, 401, 429, 500)), Exchange.die):
            scene.server.handler = handler
            await scene.engine.restart()
            with pytest.raises(EngineError) as caught:
                await scene.say(document)
            errors.append(caught.value)
        said = [record.getMessage() + repr(record.args) for record in caplog.records]
        said += [words for _, words in scene.states]
        while errors:
            error = errors.pop()
            said += [str(error), repr(error), repr(vars(error))]
            errors += [other for other in (error.__cause__, error.__context__) if other is not None]
        said += [repr(scene.engine), repr(vars(scene.engine)), repr(scene.engine._remote)]
        assert any("httpcore" in record.name for record in caplog.records)
        for secret in (SECRET, "hunter2"):
            assert not [words for words in said if secret in words]


@pytest.mark.parametrize("where", ["handler", "models_handler"])
@pytest.mark.parametrize(("status", "headers"), [(401, {}), (503, {"Retry_After": "60"})])
async def test_a_failure_that_lasts_keeps_no_prompts(
    play: Play, where: str, status: int, headers: dict[str, str]
) -> None:
    """An exception that is raised again and again would collect the frames of all who met it."""
    scene = await play(**{where: refusing("no", status, **headers)})
    asked: list[weakref.ref[Any]] = []
    said: list[str] = []
    for number in range(5):
        one = request(f"secret_{number} = 'hunter2'\n")
        asked.append(weakref.ref(one))
        with pytest.raises(EngineError) as caught:
            await scene.engine.generate(one)
        said.append(str(caught.value))
        del one, caught
    assert len(scene.server.asked) <= 2, "it is remembered, and not asked again"
    assert len(set(said)) == 1
    await asyncio.sleep(0)  # asyncio itself holds the last one until it turns to something else
    gc.collect()
    assert not [one for one in asked if one() is not None]


async def test_a_restart_ends_what_is_being_answered(play: Play) -> None:
    scene = await play(handler=Exchange.gone)
    await scene.engine.ready()
    asked = [asyncio.create_task(scene.say(f"a{number}")) for number in range(2)]
    while len(scene.server.completions) < 2:
        await asyncio.sleep(0.005)
    await scene.engine.restart()
    errors = await asyncio.gather(*asked, return_exceptions=True)
    assert [type(error) for error in errors] == [RequestCancelledError] * 2
