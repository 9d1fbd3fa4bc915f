"""The remote engine against servers that are slow, broken or hostile, and what it does with its key."""

from __future__ import annotations

import asyncio
import logging
import os
import ssl
import subprocess
from pathlib import Path
from typing import Any

import attrs
import pytest
from openai_server import Exchange, Handler
from remote_scene import QUICK, Play, clean_fixture, play_fixture  # noqa: F401 - fixtures

from lsp_calib.errors import EngineError, ModelError, SettingsError
from lsp_calib.inference.engine import EngineState
from lsp_calib.inference.remote.http import KEY_VARIABLE

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


class TestTrouble:
    async def test_nobody_listens(self, play: Play, unused_tcp_port: int) -> None:
        scene = await play(remote={"url": f"http://127.0.0.1:{unused_tcp_port}"})
        with pytest.raises(EngineError, match="cannot be reached") as caught:
            await scene.say()
        assert str(unused_tcp_port) in str(caught.value)
        assert "remote.url" in str(caught.value)
        assert [state for state, _ in scene.states] == [EngineState.STARTING, EngineState.ERROR]

    async def test_a_server_that_comes_back_is_used_again(self, play: Play) -> None:
        scene = await play()
        await scene.say()
        scene.server.handler = Exchange.die
        with pytest.raises(EngineError, match="closed the connection"):
            await scene.say()
        scene.server.handler = None
        assert (await scene.say()).text == "x"
        assert [state for state, _ in scene.states] == [
            EngineState.STARTING,
            EngineState.READY,
            EngineState.ERROR,
            EngineState.READY,
        ]

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
        scene = await play(handler=refusing("slow down", 429, Retry_After="0"))
        with pytest.raises(EngineError, match=r"limits the rate of requests \(429\): slow down"):
            await scene.say()
        assert len(scene.server.completions) == 3
        scene.server.handler = refusing("slow down", 429, Retry_After="600")
        with pytest.raises(EngineError, match="429"):
            await scene.say()
        with pytest.raises(EngineError, match="429"):
            await scene.say()
        assert len(scene.server.completions) == 4
        await scene.engine.restart()
        scene.server.handler = None
        assert (await scene.say()).text == "x"

    @pytest.mark.parametrize(
        ("status", "words"),
        [
            (400, "did not accept the request (400): too long"),
            (401, "it requires a key"),
            (403, "it requires a key"),
            (404, "remote.model"),
            (422, "(422)"),
            (500, "failed (500): too long"),
            (502, "failed (502)"),
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
        async def handler(exchange: Exchange) -> None:
            await exchange.json({}, 401)

        scene = await play(models_handler=handler)
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

        async def handler(exchange: Exchange) -> None:
            await exchange.json({}, 307, Location=f"{thief.server.url}/completions?token=1")

        scene = await play(handler=handler)
        with pytest.raises(EngineError, match="Redirects are disabled") as caught:
            await scene.say()
        assert str(thief.server.port) in str(caught.value)
        assert thief.server.connections == 0

    @pytest.mark.parametrize(
        ("kind", "body"),
        [
            ("text/html", b"<html>Welcome</html>"),
            ("application/json", b"{}"),
            ("application/json", b"\xff\xfe"),
            ("text/event-stream", b"data: hello\n\n"),
            ("text/event-stream", b"data: [1]\n\n"),
            ("image/png", b"\x89PNG"),
        ],
    )
    @pytest.mark.parametrize("where", ["handler", "models_handler"])
    async def test_garbage_is_named(self, play: Play, kind: str, body: bytes, where: str) -> None:
        async def handler(exchange: Exchange) -> None:
            await exchange.head(Content_Type=kind)
            await exchange.raw(body)
            await exchange.end()

        scene = await play(**{where: handler})
        with pytest.raises(EngineError, match="OpenAI-compatible"):
            await scene.say()

    @pytest.mark.parametrize("location", ["http://[", "//[", "http://[::1", "javascript:alert(1)", ""])
    @pytest.mark.parametrize("where", ["handler", "models_handler"])
    async def test_a_redirect_to_no_address_is_one_too(self, play: Play, location: str, where: str) -> None:
        async def handler(exchange: Exchange) -> None:
            await exchange.json({}, 307, Location=location)

        scene = await play(**{where: handler})
        for _ in range(2):
            with pytest.raises(EngineError, match="Redirects are disabled"):
                await scene.say()
        assert scene.states[-1][0] is EngineState.ERROR

    async def test_an_answer_is_whole_where_the_server_breaks_off_behind_its_end(self, play: Play) -> None:
        last = {"choices": [{"text": "x", "finish_reason": "stop"}]}
        assert (await (await play(handler=streaming(last, end=Exchange.die))).say()).text == "x"

    @pytest.mark.parametrize("end", [Exchange.die, Exchange.end], ids=["died", "ended"])
    async def test_a_stream_that_ends_midway(self, play: Play, end: Handler) -> None:
        scene = await play(handler=streaming({"choices": [{"text": "a"}]}, end=end))
        with pytest.raises(EngineError, match="in the middle of an answer"):
            await scene.say()
        assert len(scene.server.completions) == 1

    async def test_an_end_without_an_answer_is_no_empty_answer(self, play: Play) -> None:
        scene = await play(handler=streaming("[DONE]"))
        with pytest.raises(EngineError, match="before the first piece"):
            await scene.say()
        scene.server.handler = streaming({"choices": [{"text": "", "finish_reason": "stop"}]}, "[DONE]")
        assert (await scene.say()).text == ""

    @pytest.mark.parametrize("begun", [False, True])
    async def test_a_server_that_stalls_is_given_up(self, play: Play, begun: bool) -> None:
        """Comments that only keep the connection open do not help it."""

        async def handler(exchange: Exchange) -> None:
            await exchange.head(Content_Type="text/event-stream")
            if begun:
                await exchange.event({"choices": [{"text": "a"}]})
            while True:
                await exchange.raw(b": ping\n\n")
                await asyncio.sleep(0.02)

        scene = await play(handler=handler, patience=attrs.evolve(QUICK, first=0.3, between=0.3))
        with pytest.raises(EngineError, match=r"sent nothing for 0\.3 s"):
            await scene.say()

    async def test_an_endless_answer_is_cut_off(self, play: Play) -> None:
        async def handler(exchange: Exchange) -> None:
            await exchange.head(Content_Type="text/event-stream")
            while True:
                await exchange.raw(b"x" * 100_000)

        scene = await play(handler=handler)
        with pytest.raises(EngineError, match=r"more than \d+ kB"):
            await scene.say()

    async def test_a_server_without_a_trusted_certificate(self, play: Play, tmp_path: Path) -> None:
        _, context = certificate(tmp_path)
        asked: list[bytes] = []

        async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            asked.append(await reader.read(1))
            writer.close()

        listening = await asyncio.start_server(connected, "127.0.0.1", 0, ssl=context)
        port = listening.sockets[0].getsockname()[1]
        scene = await play(remote={"url": f"https://127.0.0.1:{port}/v1"})
        with pytest.raises(EngineError, match="No secure connection") as caught:
            await scene.say()
        assert "SSL_CERT_FILE" in str(caught.value)
        assert asked == []
        listening.close()

    async def test_a_server_on_this_machine_with_a_certificate_of_an_authority_that_is_named(
        self, play: Play, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        made, context = certificate(tmp_path)
        scene = await play(secure=context)
        with pytest.raises(EngineError, match="SSL_CERT_FILE"):
            await scene.say()
        monkeypatch.setenv("SSL_CERT_FILE", str(made))
        await scene.engine.restart()
        assert (await scene.say()).text == "x"

    async def test_a_connection_dropped_while_it_is_secured_is_tried_again(self, play: Play) -> None:
        """It says nothing of the certificate: a proxy that starts again does the same."""
        connections = 0

        def connected(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            nonlocal connections
            connections += 1
            writer.close()

        listening = await asyncio.start_server(connected, "127.0.0.1", 0)
        port = listening.sockets[0].getsockname()[1]
        patience = attrs.evolve(QUICK, pause=0)
        scene = await play(remote={"url": f"https://127.0.0.1:{port}/v1"}, patience=patience)
        for tries in (3, 6):
            with pytest.raises(EngineError, match="cannot be reached"):
                await scene.say()
            assert connections == tries
        listening.close()

    @pytest.mark.parametrize("url", ["http://xn--a.org:1/v1", "http://xn--:1/v1", "http://h/" + "a" * 70_000])
    async def test_an_address_that_no_server_can_have_is_named(self, play: Play, url: str) -> None:
        scene = await play(remote={"url": url})
        for _ in range(2):
            with pytest.raises(SettingsError, match=r"remote\.url") as caught:
                await scene.say()
            assert scene.states[-1] == (EngineState.ERROR, str(caught.value))

    async def test_a_proxy_that_cannot_be_used_is_named_without_its_password(
        self, play: Play, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("HTTP_PROXY", f"gopher://me:{SECRET}@127.0.0.1:1")
        scene = await play(remote={"url": "http://model.invalid/v1"})
        with pytest.raises(EngineError, match="proxy") as caught:
            await scene.say()
        assert SECRET not in str(caught.value)


class TestProxies:
    async def test_one_from_the_environment_is_used(
        self, play: Play, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        proxy = await play()
        monkeypatch.setenv("HTTP_PROXY", f"http://127.0.0.1:{proxy.server.port}")
        scene = await play(remote={"url": "http://model.invalid/v1"})
        assert (await scene.say()).text == "x"
        assert proxy.server.completions[0].path == "http://model.invalid/v1/completions"

    async def test_but_not_for_this_machine(self, play: Play, monkeypatch: pytest.MonkeyPatch) -> None:
        proxy = await play()
        monkeypatch.setenv("HTTP_PROXY", f"http://127.0.0.1:{proxy.server.port}")
        monkeypatch.setenv("ALL_PROXY", f"http://127.0.0.1:{proxy.server.port}")
        scene = await play()
        assert (await scene.say()).text == "x"
        assert proxy.server.connections == 0


class TestTheKey:
    async def test_goes_along_from_the_environment(self, play: Play, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv(KEY_VARIABLE, f" {SECRET}\n")
        scene = await play()
        await scene.say()
        assert {one.headers["authorization"] for one in scene.server.asked} == {f"Bearer {SECRET}"}

    async def test_goes_along_from_a_file_of_its_owners_alone(self, play: Play, tmp_path: Path) -> None:
        file = tmp_path / "key"
        file.write_text(SECRET + "\n")
        file.chmod(0o600)
        scene = await play(remote={"key_file": file})
        await scene.say()
        assert scene.server.asked[0].headers["authorization"] == f"Bearer {SECRET}"

    async def test_is_not_looked_for_in_the_workspace(
        self, play: Play, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The server is usually started there: a relative path would lead to a file of the workspace's."""
        monkeypatch.chdir(tmp_path)
        (tmp_path / "key").write_text(SECRET)
        (tmp_path / "key").chmod(0o600)
        scene = await play(remote={"key_file": Path("key")})
        with pytest.raises(SettingsError, match="absolute path"):
            await scene.say()
        assert scene.server.connections == 0

    @pytest.mark.skipif(os.name != "posix", reason="access rights are those of POSIX")
    @pytest.mark.parametrize("mode", [0o640, 0o604, 0o660])
    async def test_that_others_can_read_is_not_used(self, play: Play, tmp_path: Path, mode: int) -> None:
        file = tmp_path / "key"
        file.write_text(SECRET)
        file.chmod(mode)
        scene = await play(remote={"key_file": file})
        with pytest.raises(SettingsError, match="chmod 600") as caught:
            await scene.say()
        assert SECRET not in str(caught.value)
        assert scene.server.connections == 0
        file.chmod(0o600)
        assert (await scene.say()).text == "x"

    @pytest.mark.parametrize("content", [b"", b"two words", b"a\nb", b"\xff\xfe", b"x" * 5000])
    async def test_that_is_none_is_not_used(self, play: Play, tmp_path: Path, content: bytes) -> None:
        file = tmp_path / "key"
        file.write_bytes(content)
        file.chmod(0o600)
        scene = await play(remote={"key_file": file})
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
        for status in (400, 401, 429, 500):
            scene.server.handler = parrot(status)
            await scene.engine.restart()
            with pytest.raises(EngineError) as caught:
                await scene.say(document)
            errors.append(caught.value)
        scene.server.handler = Exchange.die
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
        assert "what is Bearer [key]?" in "".join(said)
        for secret in (SECRET, "hunter2"):
            assert not [words for words in said if secret in words]

    async def test_shows_up_nowhere_where_the_server_has_it_among_the_names_of_its_models(
        self, play: Play, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        async def handler(exchange: Exchange) -> None:
            names = [f"model for {exchange.headers['authorization']}", *others]
            await exchange.json({"object": "list", "data": [{"id": name} for name in names]})

        monkeypatch.setenv(KEY_VARIABLE, SECRET)
        others = ["another"]
        scene = await play(models_handler=handler)
        with pytest.raises(ModelError, match=r"model for Bearer \[key\], another"):
            await scene.say()
        others = []
        assert (await scene.say()).text == "x"
        assert scene.server.completions[0].body["model"] == f"model for Bearer {SECRET}"
        assert SECRET not in repr(await scene.engine.ready())
        assert not [words for _, words in scene.states if SECRET in words]


class TestTheDocument:
    @pytest.mark.parametrize(
        ("document", "quoted"),
        [
            ("import os\nPassword    = 'hunter2'   # prod\n", "Password    = 'hunter2'   # prod"),
            ("import os\nPassword\t= 'hunter2'\n", "Password\t= 'hunter2'"),
            ("connect('db', password='hunter2', retries=3)\n", "connect('db', password='hunter2'"),
            ("import os\n\nPassword = 'hunter2'\n", r"input_value='import o...word = \'hunter2\'\n'"),
            ("if x:\n        a = 'hunter2'\n", r"input_value='if x...        a = \'hunter2\'\n'"),
            ("if a < b: say('hunter2')\n", r"if a \u003c b: say(\u0027hunter2\u0027)"),
            ("if a < b: say('hunter2')\n", r'\\"if a < b: say(\'hunter2\')\\"'),
            ("é = '\x1b[31mhunter2'\n", r"é = '\x1b[31mhunter2'"),
            ("x = [\n  'hunter2'\n", "'hunter2'"),
            ("#" * 300 + "hunter2", "#" * 20 + "hunter2"),
        ],
    )
    @pytest.mark.parametrize("streamed", [False, True])
    async def test_is_in_no_message_however_the_server_quotes_it(
        self, play: Play, document: str, quoted: str, streamed: bool
    ) -> None:
        said = f"1 error near {quoted}"
        stream = streaming({"error": {"message": said, "code": 400}})
        scene = await play(handler=stream if streamed else refusing(said, 400))
        with pytest.raises(EngineError, match="failed" if streamed else r"\(400\)") as caught:
            await scene.say(document)
        assert not [words for words in (str(caught.value), scene.states[-1][1]) if "hunter2" in words]
        assert "1 error" not in str(caught.value)

    async def test_does_not_keep_a_message_back_that_has_only_a_word_in_common(self, play: Play) -> None:
        scene = await play(handler=refusing("the temperature is no number", 400))
        with pytest.raises(EngineError, match="the temperature is no number"):
            await scene.say("class Sensor:\n    temperature = 20  # degrees\n" * 2000)
