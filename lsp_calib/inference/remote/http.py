"""HTTP to a remote server: one client, few retries, time limits, and errors that say what to do.

Requests go only to the address that the user has named: redirects are not followed, because they would carry
the key and the source code. No message contains the key, whatever a server sends back.
"""

from __future__ import annotations

import asyncio
import contextlib
import email.utils
import math
import os
import re
import ssl
import time
from collections.abc import AsyncGenerator, AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import attrs
import httpx

from lsp_calib import __version__
from lsp_calib.characters import in_one_line
from lsp_calib.errors import EngineError, RequestCancelledError, SettingsError
from lsp_calib.files import open_file, why
from lsp_calib.inference.choice import URL_WORDS, Remote, base_url, is_local
from lsp_calib.inference.remote.wire import (
    NOT_COMPATIBLE,
    Chunk,
    EventReader,
    Served,
    WholeReader,
    error_message,
    most_tokens,
    parse_chunk,
    parse_models,
)

# So many characters in a row that are in the prompt too are taken for a part of it.
_QUOTED = 12
_ESCAPED = re.compile(r"\\+(?:u([0-9a-fA-F]{4})|x([0-9a-fA-F]{2})|[abfnrtv])?")
# What quoting puts in, takes out or changes. White space other than this is not printable.
_UNSTEADY = " '\"`\u2018\u2019\u201c\u201d"


def repeats(words: str, prompt: str) -> bool:
    """Whether a message has a part of a prompt in it, however quoted, escaped or shortened.

    It may say so of words that are in both by chance. Takes time linear in the prompt's length.
    """
    message = _bare(words)
    lines = prompt.splitlines()
    bare = [_bare(line) for line in lines]
    whole = "".join(bare)
    if any(message[at : at + _QUOTED] in whole for at in range(len(message) - _QUOTED + 1)):
        return True
    # A whole line is too much also where it is shorter.
    return any(
        len(line.strip()) >= 8 and len(short) >= 6 and short in message
        for line, short in zip(lines, bare, strict=True)
    )


def _bare(text: str) -> str:
    """The characters of a text that stay the same wherever it is quoted."""
    plain = _ESCAPED.sub(_unescaped, text)
    return "".join(char for char in plain if char.isprintable() and char not in _UNSTEADY)


def _unescaped(match: re.Match[str]) -> str:
    code = match[1] or match[2]
    return chr(int(code, 16)) if code else ""


KEY_VARIABLE = "LSP_CALIB_REMOTE_KEY"

_KEY = re.compile(r"[\x21-\x7e]{1,4096}\Z")


def read_key(file: Path | None) -> str | None:
    """The key: from the environment, else from a file; None if neither is named.

    Raises SettingsError, which never quotes the key, if the file cannot be read, or others can read it.
    """
    named = os.environ.get(KEY_VARIABLE, "").strip()
    source = f"The environment variable {KEY_VARIABLE}"
    if not named:
        if file is None:
            return None
        source = f"The key file {file}"
        try:
            if not file.expanduser().is_absolute():
                raise SettingsError(
                    f"{source} has a relative path, which depends on the folder that the server is started "
                    "in, usually the workspace. Give `remote.keyFile` an absolute path."
                )
            with os.fdopen(open_file(file.expanduser()), "rb") as stream:
                status = os.fstat(stream.fileno())
                if os.name == "posix" and status.st_mode & 0o077:
                    raise SettingsError(
                        f"{source} is readable by others, so its key is not used. "
                        f"Run `chmod 600 {file}`, and replace the key."
                    )
                named = stream.read(8192).decode("ascii", "replace").strip()
        except (OSError, RuntimeError) as error:
            raise SettingsError(f"{source} cannot be read: {why(error)}. Check `remote.keyFile`.") from None
    if not _KEY.match(named):
        raise SettingsError(f"{source} must hold a key: one line of printable characters without spaces.")
    return named


DONE = "[DONE]"
CLOSED = "The remote engine was closed."

# Bytes of an answer: at most, and as the request has it, for each token and each alternative of one. A
# list of models may have as many.
_MOST_BYTES = 8 << 20
_FEW_BYTES = 256 << 10
_TOKEN_BYTES = 2 << 10
_ALTERNATIVE_BYTES = 256
_LIST_BYTES = 2 << 20
# Seconds of work on an answer after which other tasks have their turn.
_TURN = 0.02
_MOST_ERROR_BYTES = 64 << 10

# A connection that was dropped during the handshake says nothing of the certificate.
_DROPPED = (ssl.SSLEOFError, ssl.SSLZeroReturnError, ssl.SSLWantReadError, ssl.SSLSyscallError)


@attrs.frozen
class Patience:
    """Limits, all in seconds.

    first: until the first piece of an answer; a server may have to load the model before. between: until the
    next piece. back_off: before each further try. longest_wait: the longest time that a server may ask to
    wait; where it asks for more, the request fails, and the server is left alone for that time. pause: how
    long a server that cannot be reached is left alone.
    """

    connect: float = 5.0
    models: float = 15.0
    first: float = 90.0
    between: float = 20.0
    whole: float = 300.0
    back_off: tuple[float, ...] = (0.2, 0.8)
    longest_wait: float = 5.0
    pause: float = 3.0


class _Again(Exception):
    """The same request may succeed later. wait: seconds the server asked for. pause: seconds to leave it."""

    def __init__(self, error: EngineError, wait: float = 0.0, pause: float = 0.0) -> None:
        super().__init__(str(error))
        self.error = error
        self.wait = wait
        self.pause = pause


class RemoteServer:
    """A server that speaks HTTP. It is connected at the first request."""

    def __init__(self, remote: Remote, patience: Patience) -> None:
        self.base = base_url(remote.url)
        self.host = urlsplit(self.base).netloc
        self._remote = remote
        self._patience = patience
        self._client: httpx.AsyncClient | None = None
        self._opening = asyncio.Lock()
        self._key: str | None = None
        # Messages, not exceptions: an exception that is raised again collects the frames of all its callers,
        # with their prompts.
        self._lasting = ""
        self._paused: tuple[float, str] | None = None
        self._closed = False

    async def models(self) -> Served:
        """The server's models. Raises EngineError, SettingsError."""
        async with contextlib.aclosing(
            self._attempts("GET", "/models", None, self._patience.models, _LIST_BYTES)
        ) as bodies:
            body = await anext(bodies, "")
        return Served() if body is None else parse_models(body)

    async def chunks(self, body: dict[str, Any]) -> AsyncGenerator[Chunk]:
        """The pieces of a completion as they arrive. Closing the iterator closes the connection.

        Raises EngineError, SettingsError.
        """
        begun = finished = False
        prompt = str(body.get("prompt", ""))
        # Where the server is to repeat the prompt, it lists the prompt's tokens too.
        tokens = most_tokens(body["max_tokens"]) + (len(prompt) if body.get("echo") else 0)
        most = _FEW_BYTES + tokens * (_TOKEN_BYTES + _ALTERNATIVE_BYTES * body["logprobs"])
        try:
            async with contextlib.aclosing(
                self._attempts("POST", "/completions", body, self._patience.first, min(most, _MOST_BYTES))
            ) as events:
                async for event in events:
                    if event is None:
                        raise EngineError(
                            f"{self.base} has no /completions (404). Check `remote.url` and `remote.model`: "
                            "the server must offer plain completions and the model of that name."
                        )
                    if event == DONE:
                        # An empty answer has a chunk as well, with the reason of its end.
                        if not begun:
                            raise EngineError(
                                f"The server at {self.host} ended its answer before the first piece of it. "
                                "See its log, and ask again."
                            )
                        return
                    chunk = parse_chunk(event, tokens)
                    if chunk.error:
                        raise EngineError(
                            f"The server at {self.host} failed{self._said(chunk.error, prompt)}."
                        )
                    begun, finished = True, finished or bool(chunk.finish)
                    yield chunk
        except EngineError:
            # Some servers break off behind the piece that ends the answer.
            if not finished:
                raise
        if not finished:
            raise self._broke_off()

    def clear_failures(self) -> None:
        """Forget failures: the next request is made as if it were the first."""
        self._lasting = ""
        self._paused = None

    async def disconnect(self) -> None:
        """Close the connections; the next request opens new ones."""
        client, self._client = self._client, None
        if client is not None:
            await client.aclose()

    async def close(self) -> None:
        """Close the connections for good: requests then fail, also those that are being made."""
        self._closed = True
        await self.disconnect()

    def without_key(self, words: str) -> str:
        return words.replace(self._key, "[key]") if self._key else words

    def quoted(self, words: str, most: int) -> str:
        """What the server sent, fit to be shown: one short line without the key."""
        return in_one_line(self.without_key(words), most)

    async def _attempts(
        self, method: str, path: str, body: dict[str, Any] | None, first: float, most: int
    ) -> AsyncGenerator[str | None]:
        """The events of an answer, None for a 404; the request is repeated as long as none has come.

        most: bytes of the answer.
        """
        begun = False
        for back_off in (*self._patience.back_off, None):
            self._check()
            try:
                async with contextlib.aclosing(self._once(method, path, body, first, most)) as events:
                    async for event in events:
                        begun = True
                        self._paused = None
                        yield event
                return
            except _Again as again:
                self._check_open()
                too_long = again.wait > self._patience.longest_wait
                if too_long or begun or back_off is None:
                    self._pause(again.error, again.wait if too_long else again.pause)
                    raise again.error from None
                wait = max(back_off, again.wait)
            await asyncio.sleep(wait)

    async def _once(
        self, method: str, path: str, body: dict[str, Any] | None, first: float, most: int
    ) -> AsyncGenerator[str | None]:
        client = await self._open()
        try:
            async with asyncio.timeout(first + self._patience.connect) as limit:
                response = await client.send(
                    client.build_request(method, f"{self.base}{path}", json=body), stream=True
                )
                limit.reschedule(None)
        except TimeoutError:
            raise self._silent(first) from None
        except (httpx.InvalidURL, httpx.HTTPError) as error:
            if isinstance(error, httpx.InvalidURL) or "Invalid URL in location" in str(error):
                # Of a redirect: ours was checked.
                raise self._redirected("", "an invalid address") from None
            raise self._failed(error, begun=False) from None
        try:
            if response.status_code == 404:
                yield None
                return
            if not response.is_success:
                raise await self._refused(response, str((body or {}).get("prompt", "")))
            async with contextlib.aclosing(self._events(response, first, most)) as events:
                async for event in events:
                    yield event
        finally:
            # Also when cancelled: closing the connection stops the server's work.
            await response.aclose()

    async def _events(self, response: httpx.Response, first: float, most: int) -> AsyncGenerator[str]:
        kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind not in ("text/event-stream", "application/json", "text/json", ""):
            raise EngineError(f"{NOT_COMPATIBLE} It sent {self.quoted(kind, 40)}.")
        streamed = kind == "text/event-stream"
        reader: EventReader | WholeReader = EventReader() if streamed else WholeReader()
        clock, turns = asyncio.get_running_loop().time, _Turns()
        size, begun, limit, end = 0, False, first, math.inf
        deadline = clock() + limit
        raw = aiter(response.aiter_raw())
        data: bytes | None = b""
        while data is not None:
            await turns.next()
            try:
                async with asyncio.timeout_at(deadline):
                    data = await anext(raw, None)
            except TimeoutError:
                raise (self._endless() if clock() >= end else self._silent(limit)) from None
            except httpx.HTTPError as error:
                raise self._failed(error, begun=begun) from None
            size += len(data or b"")
            if size > most:
                raise EngineError(
                    f"The server at {self.host} sent more than {most >> 10} kB, which no answer to this "
                    "request needs."
                )
            events = reader.end() if data is None else reader.feed(data)
            if events and not begun:
                begun, limit, end = True, self._patience.between, clock() + self._patience.whole
            if DONE in events:
                await _drain(raw)
            for event in events:
                await turns.next()
                yield event
            # Comments that only keep the connection open do not count: the limit is on events.
            if events:
                deadline = min(clock() + limit, end)

    async def _refused(self, response: httpx.Response, prompt: str) -> Exception:
        """The exception for an error status. Lasting failures are kept, and not tried again."""
        status = response.status_code
        if response.is_redirect:
            try:
                target = urlsplit(response.headers.get("location", ""))
            except ValueError:
                return self._redirected(f" ({status})", "an invalid address")
            where = self.quoted(f"{target.scheme}://{target.netloc}", 100) if target.netloc else ""
            return self._redirected(f" ({status})", where)
        said = self._said(await _error_text(response), prompt)
        if status in (401, 403):
            why = (
                f"the key was not accepted{said}. Check {KEY_VARIABLE} or the file in `remote.keyFile`"
                if self._key
                else f"it requires a key{said}. Set {KEY_VARIABLE}, or name a key file in `remote.keyFile`"
            )
            return self._last(f"The server at {self.host} refused ({status}): {why}, then restart the model.")
        if status in (429, 503):
            wait = _retry_after(response.headers.get("retry-after", ""))
            busy = "limits the rate of requests" if status == 429 else "is not ready (loading, or overloaded)"
            message = f"The server at {self.host} {busy} ({status}){said}. Try again later."
            return _Again(EngineError(message), wait)
        if status >= 500:
            return EngineError(f"The server at {self.host} failed ({status}){said}. See its log.")
        return EngineError(
            f"The server at {self.host} did not accept the request ({status}){said}. It may not know a "
            "required option, or its context may be too short for the prompt."
        )

    def _redirected(self, status: str, where: str) -> EngineError:
        to = f" to {where}" if where else ""
        return self._last(
            f"The server at {self.host} redirects{to}{status}. Redirects are disabled because they "
            "would carry your key and code. If you trust the other address, set `remote.url` to it."
        )

    def _failed(self, error: httpx.HTTPError, *, begun: bool) -> Exception:
        """The exception for a broken connection."""
        if isinstance(error, httpx.ProxyError):
            return self._unreachable("the proxy named in the environment refused the request")
        if isinstance(error, httpx.ConnectTimeout):
            return self._unreachable(f"no connection within {self._patience.connect:g} s")
        if isinstance(error, httpx.ConnectError):
            fault = _tls_fault(error)
            if isinstance(fault, _DROPPED):
                return self._unreachable("the connection was dropped while it was being secured")
            if fault is not None:
                return self._last(
                    f"No secure connection to {self.host}: {self.quoted(str(error), 160)}. If your "
                    "own authority issued the certificate, name that authority's file in SSL_CERT_FILE. Also "
                    "check that the server speaks https at this port."
                )
            return self._unreachable(self.quoted(str(error), 120) or "no connection")
        if begun:
            return self._broke_off()
        # A kept connection that the server has closed in the meantime fails the same way.
        return _Again(EngineError(f"The server at {self.host} closed the connection without an answer."))

    def _broke_off(self) -> EngineError:
        return EngineError(
            f"The server at {self.host} closed the connection in the middle of an answer. Ask again."
        )

    def _unreachable(self, why: str) -> _Again:
        return _Again(
            EngineError(
                f"The remote server at {self.host} cannot be reached ({why}). "
                "Check that it is running, and check `remote.url`."
            ),
            pause=self._patience.pause,
        )

    def _silent(self, seconds: float) -> EngineError:
        return EngineError(
            f"The server at {self.host} sent nothing for {seconds:g} s. It is overloaded, or has stopped."
        )

    def _endless(self) -> EngineError:
        return EngineError(
            f"The server at {self.host} did not end its answer within {self._patience.whole:g} s. It is "
            "overloaded, or ignores the number of tokens that it was asked for."
        )

    def _last(self, message: str) -> EngineError:
        self._lasting = message
        return EngineError(message)

    def _said(self, words: str, prompt: str) -> str:
        """A server's message, to be quoted in ours: without the key; "" where it quotes the document."""
        words = self.quoted(words, 200).rstrip(".")
        return f": {words}" if words and not repeats(words, prompt) else ""

    def _check_open(self) -> None:
        if self._closed:
            raise RequestCancelledError(CLOSED)

    def _check(self) -> None:
        self._check_open()
        if self._lasting:
            raise EngineError(self._lasting)
        if self._paused is not None and time.monotonic() < self._paused[0]:
            raise EngineError(self._paused[1])

    def _pause(self, error: EngineError, seconds: float) -> None:
        if seconds > 0:
            self._paused = (time.monotonic() + seconds, str(error))

    async def _open(self) -> httpx.AsyncClient:
        async with self._opening:
            if self._client is None:
                self._check_address()
                # Reads the key and the certificates from disk: not on the event loop.
                self._key = await asyncio.to_thread(read_key, self._remote.key_file)
                try:
                    client = await asyncio.to_thread(self._make_client)
                except (ValueError, ImportError, OSError, httpx.InvalidURL) as error:
                    # The error's text may contain a proxy's password.
                    raise EngineError(
                        f"The connection to {self.host} cannot be set up ({type(error).__name__}): check the "
                        "proxy and the certificates that the environment names (HTTPS_PROXY, SSL_CERT_FILE)."
                    ) from None
                if self._closed:
                    await client.aclose()
                self._check_open()
                self._client = client
            return self._client

    def _check_address(self) -> None:
        """Raises SettingsError for an address that the client does not take, such as a wrong `xn--` name."""
        try:
            _ = httpx.URL(self.base).host
        except (httpx.InvalidURL, UnicodeError) as error:
            raise SettingsError(
                f"No server can have the address in `remote.url`: {in_one_line(str(error), 120)}. "
                f"Set it to {URL_WORDS}."
            ) from None

    def _make_client(self) -> httpx.AsyncClient:
        headers = {
            "User-Agent": f"lsp-calib/{__version__}",
            "Accept": "text/event-stream, application/json",
            # Without compression, an answer cannot grow without bounds when it is unpacked.
            "Accept-Encoding": "identity",
        }
        if self._key:
            headers["Authorization"] = f"Bearer {self._key}"
        # Also on this machine, where no proxy of the environment is used, its certificates are.
        secure = urlsplit(self.base).scheme == "https"
        verify = httpx.create_ssl_context(trust_env=True) if secure else True
        most = self._remote.interactive + self._remote.background + 1
        return httpx.AsyncClient(
            headers=headers,
            follow_redirects=False,
            verify=verify,
            trust_env=not is_local(self.base),
            timeout=httpx.Timeout(None, connect=self._patience.connect),
            limits=httpx.Limits(max_connections=most, max_keepalive_connections=most, keepalive_expiry=60),
        )


class _Turns:
    """Lets other tasks have their turn, however fast a server sends."""

    def __init__(self) -> None:
        self._since = time.perf_counter()

    async def next(self) -> None:
        """Give way if the work has gone on for long."""
        if time.perf_counter() - self._since > _TURN:
            await asyncio.sleep(0)
            self._since = time.perf_counter()


async def _drain(raw: AsyncIterator[bytes]) -> None:
    """Read the bytes after the end of an answer: only a connection read to its end can be reused."""
    with contextlib.suppress(httpx.HTTPError, TimeoutError):
        async with asyncio.timeout(0.05):
            for _ in range(4):
                if await anext(raw, None) is None:
                    return


async def _error_text(response: httpx.Response) -> str:
    body, turns = bytearray(), _Turns()
    with contextlib.suppress(httpx.HTTPError, TimeoutError):
        async with asyncio.timeout(5):
            async for data in response.aiter_raw():
                await turns.next()
                body += data
                if len(body) > _MOST_ERROR_BYTES:
                    return ""
    return error_message(body.decode("utf-8", "replace"))


def _retry_after(value: str) -> float:
    """Seconds from now, at most an hour; 0 where the header is missing or invalid."""
    with contextlib.suppress(ValueError):
        return min(max(float(value), 0.0), 3600.0) if value.strip() else 0.0
    with contextlib.suppress(ValueError, TypeError, OverflowError):
        return min(max(email.utils.parsedate_to_datetime(value).timestamp() - time.time(), 0.0), 3600.0)
    return 0.0


def _tls_fault(error: BaseException) -> BaseException | None:
    """The error of TLS that caused another one; None if none did."""
    seen: BaseException | None = error
    while seen is not None:
        if isinstance(seen, ssl.SSLError):
            return seen
        seen = seen.__cause__ or seen.__context__
    return error if "SSL" in str(error) else None
