"""HTTP to a remote server: one client, one loop of retries, limits of time and size, one table of failures.

Requests go only to the address that the user has named: redirects are not followed, because they would carry
the key and the source code. Nothing that a server says about a failure is repeated: it may quote both.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import ssl
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import attrs
import httpx

from lsp_calib import __version__
from lsp_calib.characters import in_one_line
from lsp_calib.errors import EngineError, RequestCancelledError, SettingsError
from lsp_calib.files import open_file, why
from lsp_calib.inference.choice import Remote, base_url, is_local
from lsp_calib.inference.remote.answer import NotCompatibleError

KEY_VARIABLE = "LSP_CALIB_REMOTE_KEY"
CLOSED = "The remote engine was closed."

_KEY = re.compile(r"[\x21-\x7e]{1,4096}\Z")
_DONE = "[DONE]"
# Bytes of an answer, or of a list of models.
_MOST_BYTES = 1 << 20
# Seconds for the rest of an answer that has ended: only a connection read to its end can be used again.
_REST = 0.05


@attrs.frozen
class Patience:
    """Limits, all in seconds.

    first: until the first piece of an answer; a server may have to load the model before. between: until the
    next piece. back_off: before each further try. longest_wait: the longest time that a server may ask to
    wait; where it asks for more, the request fails. pause: how long a server that could not answer is left
    alone, or longer if it asks for that.
    """

    connect: float = 5.0
    first: float = 90.0
    between: float = 20.0
    whole: float = 300.0
    back_off: tuple[float, ...] = (0.2, 0.8)
    longest_wait: float = 5.0
    pause: float = 3.0


@attrs.frozen
class _Fault:
    """A row of the table. again: the same request may succeed soon. lasting: it fails until a restart."""

    words: str
    again: bool = False
    lasting: bool = False


_FAULTS = {
    "unreachable": _Fault(
        "The remote server at {host} cannot be reached ({why}). Check that it is running, and check "
        "`remote.url`.",
        again=True,
    ),
    "certificate": _Fault(
        "No secure connection to {host}: {why}. If your own authority issued the certificate, name that "
        "authority's file in SSL_CERT_FILE, then restart the model.",
        lasting=True,
    ),
    "setup": _Fault(
        "The connection to {host} cannot be set up ({why}). Check `remote.url`, and the proxy and the "
        "certificates that the environment names (HTTPS_PROXY, SSL_CERT_FILE)."
    ),
    "redirect": _Fault(
        "The server at {host} redirects ({why}). Redirects are disabled because they would carry your key "
        "and code. If you trust the other address, set `remote.url` to it.",
        lasting=True,
    ),
    "key": _Fault(
        "The server at {host} requires a key, or refused the one it got ({why}). Check LSP_CALIB_REMOTE_KEY "
        "or the file in `remote.keyFile`, then restart the model.",
        lasting=True,
    ),
    "missing": _Fault(
        "The server at {host} does not know the address or the model ({why}). Check `remote.url` and "
        "`remote.model`: it must offer plain completions, and the model of that name."
    ),
    "busy": _Fault(
        "The server at {host} is loading, overloaded, or limits the rate of requests ({why}). Try again "
        "later.",
        again=True,
    ),
    "refused": _Fault(
        "The server at {host} did not accept the request ({why}). It may not know a required option, or its "
        "context may be too short for the prompt. See its log."
    ),
    "failed": _Fault("The server at {host} failed ({why}). See its log."),
    "broken": _Fault(
        "The server at {host} closed the connection without a whole answer. Ask again.", again=True
    ),
    "late": _Fault(
        "The server at {host} did not answer in time. It is overloaded, has stopped, or ignores the number "
        "of tokens that it was asked for."
    ),
    "large": _Fault("The server at {host} sent more than {why}, which no answer needs."),
    "foreign": _Fault(
        "The remote server's answer is not OpenAI-compatible. Check `remote.url`: it usually ends in /v1."
    ),
}
_BY_STATUS = {401: "key", 403: "key", 404: "missing", 429: "busy", 503: "busy"}


class RefusedError(EngineError):
    """The server does not take the request as it is."""


class _Failure(Exception):
    """A request failed. kind: the row of the table. wait: seconds that the server asked for."""

    def __init__(self, kind: str, why: str = "", wait: float = 0.0) -> None:
        super().__init__(kind)
        self.kind, self.why, self.wait = kind, why, wait


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


class EventReader:
    """The events of an answer from its bytes: the `data:` lines of a stream, or the whole of another body.

    llama-server sends an error after `error:`; the event is then an error as other servers send one.
    """

    def __init__(self, *, streamed: bool) -> None:
        self._streamed = streamed
        self._rest: list[bytes] = []

    def feed(self, data: bytes) -> list[str]:
        """The events that `data` completes."""
        *lines, rest = data.split(b"\n") if self._streamed else [data]
        if lines:
            lines[0] = b"".join([*self._rest, lines[0]])
            self._rest = []
        self._rest.append(rest)
        return [event for line in lines if (event := _event(line))]

    def end(self) -> list[str]:
        """The last event, if no line end followed it."""
        rest = b"".join(self._rest)
        event = _event(rest) if self._streamed else rest.decode("utf-8", "replace")
        return [event] if event else []


def _event(line: bytes) -> str:
    field, _, value = line.strip().decode("utf-8", "replace").partition(":")
    return '{"error": true}' if field == "error" else value.strip() if field == "data" else ""


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
        self._refusal: tuple[float, str] | None = None  # until when, by the monotonic clock
        self._epoch = 0  # restarts
        self._closed = False

    async def ask(
        self, method: str, path: str, body: dict[str, Any] | None, take: Callable[[str], bool]
    ) -> None:
        """Make a request, again where that may help, and give each event of the answer to `take` until it
        returns False. Leaving early closes the connection, which stops the server's work.

        Raises EngineError, SettingsError.
        """
        begun, epoch = False, self._epoch

        def taken(event: str) -> bool:
            nonlocal begun
            begun = True
            return take(event)

        for back_off in (*self._patience.back_off, None):
            self._check()
            try:
                await self._once(method, path, body, taken)
            except _Failure as failure:
                failed = failure
            else:
                return
            if epoch != self._epoch:
                raise RequestCancelledError("The remote engine was restarted or closed.")
            fault, error = _FAULTS[failed.kind], self.error(failed.kind, failed.why)
            tries = fault.again and not begun and failed.wait <= self._patience.longest_wait
            if back_off is None or not tries:
                if fault.lasting:
                    self._refusal = float("inf"), str(error)
                elif fault.again and not begun:
                    self._refusal = time.monotonic() + max(self._patience.pause, failed.wait), str(error)
                raise error
            await asyncio.sleep(max(back_off, failed.wait))

    def error(self, kind: str, why: str = "") -> EngineError:
        """The error of a row of the table."""
        made = RefusedError if kind == "refused" else EngineError
        return made(_FAULTS[kind].words.format(host=self.host, why=why))

    async def restart(self) -> None:
        """Forget failures and close the connections: running requests fail, the next one starts afresh."""
        self._epoch += 1
        self._refusal = None
        client, self._client = self._client, None
        if client is not None:
            await client.aclose()

    async def close(self) -> None:
        """Close the connections for good: requests then fail, also those that are being made."""
        self._closed = True
        await self.restart()

    def without_key(self, words: str) -> str:
        return words.replace(self._key, "[key]") if self._key else words

    def _check(self) -> None:
        if self._closed:
            raise RequestCancelledError(CLOSED)
        if self._refusal is not None and time.monotonic() < self._refusal[0]:
            raise EngineError(self._refusal[1])

    async def _once(
        self, method: str, path: str, body: dict[str, Any] | None, take: Callable[[str], bool]
    ) -> None:
        client = await self._open()
        clock, patience = asyncio.get_running_loop().time, self._patience
        end, size, done = clock() + patience.whole, 0, False
        try:
            async with asyncio.timeout(patience.connect + patience.first) as limit:
                async with client.stream(method, f"{self.base}{path}", json=body) as response:
                    reader = EventReader(streamed=_is_stream(response))
                    async for data in response.aiter_raw():
                        size += len(data)
                        if size > _MOST_BYTES:
                            raise _Failure("large", f"{_MOST_BYTES >> 10} kB")
                        events = [] if done else reader.feed(data)
                        if _DONE in events:
                            events, done = events[: events.index(_DONE)], True
                        for event in events:
                            if not take(event):
                                return
                        # Comments that only keep the connection open do not prolong it.
                        if done or events:
                            limit.reschedule(min(clock() + (_REST if done else patience.between), end))
                    for event in () if done else reader.end():
                        take(event)
        except NotCompatibleError:
            raise _Failure("foreign") from None
        except TimeoutError:
            if not done:
                raise _Failure("late") from None
        except httpx.HTTPError as error:
            if not done:
                raise _failure_of(error) from None

    async def _open(self) -> httpx.AsyncClient:
        async with self._opening:
            if self._client is None:
                # Reads the key and the certificates from disk: not on the event loop.
                self._key = await asyncio.to_thread(read_key, self._remote.key_file)
                try:
                    client = await asyncio.to_thread(self._make_client)
                except (ValueError, ImportError, OSError, httpx.InvalidURL) as error:
                    # The error's text may contain a proxy's password.
                    raise _Failure("setup", type(error).__name__) from None
                if self._closed:
                    await client.aclose()
                self._check()
                self._client = client
            return self._client

    def _make_client(self) -> httpx.AsyncClient:
        headers = {
            "User-Agent": f"lsp-calib/{__version__}",
            "Accept": "text/event-stream, application/json",
            # Without compression, an answer cannot grow without bounds when it is unpacked.
            "Accept-Encoding": "identity",
        }
        if self._key:
            headers["Authorization"] = f"Bearer {self._key}"
        _ = httpx.URL(self.base).host  # raises where no host can have the name
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


def _is_stream(response: httpx.Response) -> bool:
    """Whether an answer is a stream of events, or one object. Raises _Failure if it is neither."""
    status = str(response.status_code)
    if response.is_redirect:
        raise _Failure("redirect", status)
    if not response.is_success:
        otherwise = "failed" if response.is_server_error else "refused"
        wait = 0.0
        with contextlib.suppress(ValueError):
            wait = min(max(float(response.headers.get("retry-after", "0")), 0.0), 3600.0)
        raise _Failure(_BY_STATUS.get(response.status_code, otherwise), status, wait)
    kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind not in ("text/event-stream", "application/json", "text/json", ""):
        raise _Failure("foreign")
    return bool(kind == "text/event-stream")


def _failure_of(error: httpx.HTTPError) -> _Failure:
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, ssl.SSLCertVerificationError):
        cause = cause.__cause__ or cause.__context__
    if cause is not None:
        return _Failure("certificate", in_one_line(str(error), 160))
    if isinstance(error, httpx.ConnectTimeout | httpx.ConnectError | httpx.ProxyError):
        # A proxy's own words are left out: they may contain its password.
        words = "" if isinstance(error, httpx.ProxyError) else in_one_line(str(error), 120)
        return _Failure("unreachable", words or type(error).__name__)
    if "Invalid URL in location" in str(error):  # httpx reads where a redirect leads, though none is followed
        return _Failure("redirect", "an invalid address")
    # A kept connection that the server has closed in the meantime fails the same way.
    return _Failure("broken")
