"""An OpenAI-compatible server for tests: real HTTP, scripted tokens, the dialects of real servers."""

from __future__ import annotations

import asyncio
import contextlib
import json
import math
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import Any

import attrs

END = "<end>"
"""A token with which the model ends its text."""


@attrs.frozen
class Tok:
    """A token the model chooses. others: what else it thought of, with log-probabilities."""

    text: str
    logprob: float = -0.25
    others: Mapping[str, float] = attrs.field(factory=dict)

    @property
    def alternatives(self) -> dict[str, float]:
        return {self.text: self.logprob, **self.others}


@attrs.define
class Exchange:
    """One request, and the means to answer it as one likes."""

    method: str
    path: str
    headers: dict[str, str]
    body: dict[str, Any]
    _reader: asyncio.StreamReader
    _writer: asyncio.StreamWriter
    broken_off: bool = False

    async def head(self, status: int = 200, **headers: str) -> None:
        lines = [f"HTTP/1.1 {status} Whatever", "Transfer-Encoding: chunked"]
        lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
        self._writer.write(("\r\n".join(lines) + "\r\n\r\n").encode())
        await self._writer.drain()

    async def raw(self, data: bytes) -> None:
        self._writer.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
        await self._writer.drain()

    async def event(self, value: Any) -> None:
        data = value if isinstance(value, str) else json.dumps(value)
        await self.raw(f"data: {data}\n\n".encode())

    async def end(self) -> None:
        self._writer.write(b"0\r\n\r\n")
        await self._writer.drain()

    async def json(self, value: Any, status: int = 200, **headers: str) -> None:
        await self.head(status, Content_Type="application/json", **headers)
        await self.raw(json.dumps(value).encode())
        await self.end()

    async def gone(self) -> None:
        """Wait until the client has closed the connection."""
        while await self._reader.read(1024):
            pass
        self.broken_off = True

    async def die(self) -> None:
        self._writer.transport.abort()


Handler = Callable[[Exchange], Awaitable[None]]


@attrs.define
class OpenAIServer:
    """Answers `/v1/models` and `/v1/completions` until told otherwise.

    dialect: "llama", "vllm", "ollama" or "studio". tokens: from the prompt to what the model says. handler:
    where set, answers `/v1/completions` instead. drawn: what it says where several answers are asked for, by
    their index. answers_as: the model's name in its answers, where not the first one's; None leaves it out.
    logprobs: changes those that are sent. secure: where set, it speaks https.
    """

    dialect: str = "llama"
    tokens: Callable[[str], Sequence[Tok]] = lambda _: [Tok("x"), Tok("\n")]
    models: list[str] = attrs.field(factory=lambda: ["smollm2-135m"])
    drawn: Callable[[int], Sequence[Tok]] | None = None
    answers_as: str | None = ""
    handler: Handler | None = None
    models_handler: Handler | None = None
    logprobs: Callable[[int, float], float | None] = lambda _, value: value
    secure: ssl.SSLContext | None = None
    asked: list[Exchange] = attrs.field(factory=list)
    connections: int = 0
    port: int = 0

    @property
    def url(self) -> str:
        return f"http{'s' if self.secure else ''}://127.0.0.1:{self.port}/v1"

    @property
    def completions(self) -> list[Exchange]:
        return [one for one in self.asked if one.path.endswith("/completions")]

    async def connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while not writer.is_closing():
                exchange = await _read(reader, writer)
                self.asked.append(exchange)
                try:
                    await self._handler(exchange.path)(exchange)
                except ConnectionError:
                    exchange.broken_off = True  # while something was sent, or by a reset
                if exchange.broken_off:
                    break
        except (ConnectionError, asyncio.IncompleteReadError):
            pass  # the client has gone
        finally:
            writer.transport.abort()
            with contextlib.suppress(ConnectionError, asyncio.CancelledError):
                await writer.wait_closed()

    def _handler(self, path: str) -> Handler:
        if path.endswith("/models"):
            return self.models_handler or self._list
        if path.endswith("/completions"):
            return self.handler or self.complete
        return self._missing

    async def _missing(self, exchange: Exchange) -> None:
        await exchange.json({"error": {"message": "File Not Found"}}, 404)

    async def _list(self, exchange: Exchange) -> None:
        data = [{"id": name, "owned_by": "somebody"} for name in self.models]
        await exchange.json({"object": "list", "data": data})

    async def complete(self, exchange: Exchange) -> None:
        """Say the model's tokens as the dialect has it."""
        await exchange.head(Content_Type="text/event-stream; charset=utf-8")
        for at in range(1, exchange.body.get("n", 1)):
            assert self.drawn is not None
            await self._say(exchange, self.drawn(at), at)
        await self._say(exchange, self.tokens(exchange.body["prompt"]), 0)
        await exchange.event("[DONE]")
        await exchange.end()

    async def _say(self, exchange: Exchange, tokens: Sequence[Tok], index: int) -> None:
        said, finish = 0, "length"
        for token in tokens:
            if said == exchange.body["max_tokens"]:
                break
            said += 1
            text, finish = _cut(token.text, exchange.body.get("stop", []))
            last = bool(finish)
            chunk = self._chunk(said - 1, token, text, finish if self.dialect == "vllm" else None)
            chunk["choices"][0]["index"] = index
            await exchange.event(chunk)
            if last:
                break
            finish = "length"
        if self.dialect != "vllm":
            extra = {"timings": {"cache_n": 3, "prompt_n": 4}} if self.dialect == "llama" else {}
            last_choice = {**_choice("", finish), "index": index}
            await exchange.event({"choices": [last_choice], **extra, "usage": _usage(said)})
        else:
            await exchange.event({"choices": [], "usage": _usage(said)})

    def _chunk(self, at: int, token: Tok, text: str, finish: str | None) -> dict[str, Any]:
        choice = _choice(text, finish)
        value = self.logprobs(at, token.logprob)
        spoken = "" if token.text == END and self.dialect == "llama" else token.text
        if self.dialect == "llama":
            # Of the chosen token it lists what it sends; what the token is stands among the alternatives.
            top = [
                {"id": i, **_listed("" if word == END else word, number)}
                for i, (word, number) in enumerate(token.alternatives.items())
            ]
            entry = {"id": 0, **_listed(text, value), "top_logprobs": top}
            choice["logprobs"] = {"content": [entry]}
        elif self.dialect == "vllm":
            choice["logprobs"] = {
                "text_offset": [0],
                "tokens": [spoken],
                "token_logprobs": [value],
                "top_logprobs": [token.alternatives],
            }
            choice["stop_reason"] = "\n" if finish and token.text != END else None
        elif self.dialect == "studio":
            choice["logprobs"] = None
        chunk = {"id": "cmpl-1", "object": "text_completion", "choices": [choice]}
        return chunk if self.answers_as is None else {**chunk, "model": self.answers_as or self.models[0]}


@contextlib.asynccontextmanager
async def serving(**options: Any) -> AsyncIterator[OpenAIServer]:
    """A server on a free port of this machine."""
    server = OpenAIServer(**options)
    tasks: set[asyncio.Task[None]] = set()

    def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        tasks.add(asyncio.create_task(server.connected(reader, writer)))

    listening = await asyncio.start_server(accept, "127.0.0.1", 0, limit=1 << 22, ssl=server.secure)
    server.port = listening.sockets[0].getsockname()[1]
    try:
        yield server
    finally:
        listening.close()
        for task in tasks:
            task.cancel()
        results = await asyncio.gather(*tasks, return_exceptions=True)
    for result in results:
        if isinstance(result, Exception):
            raise result


def spoken(text: str, *logprobs: float, others: Mapping[str, float] | None = None) -> list[Tok]:
    """Tokens of up to four characters each, with the log-probabilities in turn."""
    pieces = [text[i : i + 4] for i in range(0, len(text), 4)]
    values = (*logprobs, *[-0.25] * len(pieces))
    return [Tok(piece, value, others or {}) for piece, value in zip(pieces, values, strict=False)]


async def _read(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> Exchange:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    method, path, _ = head[0].split(" ")
    headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in head[1:]) if name}
    data = await reader.readexactly(int(headers.get("content-length", 0)))
    return Exchange(method, path, headers, json.loads(data) if data else {}, reader, writer)


def _cut(text: str, stops: list[str]) -> tuple[str, str]:
    """What is sent of a token, and why the answer ends with it."""
    if text == END:
        return "", "stop"
    for stop in stops:
        if stop in text:
            return text.partition(stop)[0], "stop"
    return text, ""


def _choice(text: str, finish: str | None) -> dict[str, Any]:
    return {"text": text, "index": 0, "logprobs": None, "finish_reason": finish}


def _usage(said: int) -> dict[str, Any]:
    return {"prompt_tokens": 7, "completion_tokens": said, "total_tokens": 7 + said}


def _listed(token: str, logprob: float | None) -> dict[str, Any]:
    if logprob is not None and not math.isfinite(logprob):
        logprob = None
    return {"token": token, "bytes": list(token.encode()), "logprob": logprob}
