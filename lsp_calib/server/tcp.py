"""One client over TCP: the first that shows the token. Any program on the machine can connect, browsers too.

A connection that has not shown the token cannot block the client's, and is closed after a few seconds.
"""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import ipaddress
import json
import logging
import os
import re
import secrets
import socket
import sys
from pathlib import Path
from typing import Any

import attrs
from lsprotocol import types

from lsp_calib.errors import SettingsError
from lsp_calib.files import open_file, why
from lsp_calib.server.streams import MOST_BYTES, MOST_UNSENT, Frames

logger = logging.getLogger(__name__)

# Connections that have not shown the token; if there are more, the oldest is closed.
_MOST_PENDING = 32
# Seconds for a refusal to reach the other side.
_FLUSH_SECONDS = 2.0
_AT_ONCE = 4096
_HEADERS = (b"content-length", b"content-type")
_TAKEN = "there is a client already"
_FOREIGN = "it does not speak the language server protocol"
_TOKEN = re.compile(r"[\x21-\x7e]{16,4096}")


@attrs.frozen
class TcpChoice:
    """Where to listen for a client, and how it authenticates itself.

    any_host: whether other machines may connect. token_file: a file of the user with the token in it; None
    generates a token. seconds, most_bytes: within which a connection must show the token.
    """

    host: str
    port: int
    any_host: bool = False
    token_file: Path | None = None
    seconds: float = 10.0
    most_bytes: int = 64 << 10


@attrs.frozen
class Client:
    """The client that showed the token. first: its `initialize` without the token. frames: the rest."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    frames: Frames
    first: dict[str, Any]


class SocketOutput:
    """An `Outgoing` over TCP."""

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self._writer = writer
        writer.transport.set_write_buffer_limits(high=MOST_UNSENT)

    def write(self, data: bytes) -> None:
        self._writer.write(data)

    @property
    def is_full(self) -> bool:
        transport = self._writer.transport
        return transport.is_closing() or transport.get_write_buffer_size() > MOST_UNSENT

    async def room(self) -> None:
        if self._writer.transport.is_closing():
            raise ConnectionResetError("the client has gone")
        await self._writer.drain()

    def close(self) -> None:
        self._writer.close()


class Listener:
    """Accepts connections until one of them shows the token, and refuses all others from then on."""

    def __init__(self, token: str, choice: TcpChoice) -> None:
        self._token = token.encode()
        self._choice = choice
        self._client: asyncio.Future[Client] = asyncio.get_running_loop().create_future()
        self._pending: dict[asyncio.StreamWriter, None] = {}  # oldest first
        self._reasons: dict[asyncio.StreamWriter, str] = {}  # and why
        self._server: asyncio.Server | None = None

    async def open(self) -> list[tuple[str, int]]:
        """Listen; returns the addresses. Raises SettingsError."""
        choice = self._choice
        hosts = await asyncio.to_thread(_addresses, choice)
        try:
            self._server = await asyncio.start_server(self._connected, hosts, choice.port)
        except OSError as error:
            raise SettingsError(
                f"{choice.host}:{choice.port} cannot be listened on: {error.strerror or error}. "
                "Choose another port, or 0 for any that is free."
            ) from None
        return [found.getsockname()[:2] for found in self._server.sockets]

    async def client(self) -> Client:
        """The first client that shows the token."""
        return await asyncio.shield(self._client)

    def close(self) -> None:
        """Stop listening, and close every connection but the client's."""
        if self._server is not None:
            self._server.close()
        for pending in list(self._pending):
            self._close_pending(pending, "the server is shutting down")

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._client.done():
            logger.warning("A connection from %s was refused: %s.", _peer(writer), _TAKEN)
            writer.close()
            return
        self._pending[writer] = None
        if len(self._pending) > _MOST_PENDING:
            # Not the newest: idle connections must not keep the client out.
            self._close_pending(next(iter(self._pending)), "too many connections have not shown the token")
        why = "the server is shutting down"
        try:
            async with asyncio.timeout(self._choice.seconds):
                why = await self._examine(reader, writer)
        except TimeoutError:
            why = f"it did not show the token within {self._choice.seconds:g} s"
        except OSError:
            why = "it disconnected without showing the token"
        finally:
            self._pending.pop(writer, None)
            why = self._reasons.pop(writer, "") or why
            if why:
                logger.warning("A connection from %s was closed: %s.", _peer(writer), why)
                writer.close()

    async def _examine(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> str:
        """Read the first message. Returns why this is not the client, or "" if it is."""
        most = self._choice.most_bytes
        frames, start, count = Frames(most), b"", 0
        while (body := frames.next()) is None:
            if count == most:
                return f"it sent {most} bytes without showing the token"
            data = await reader.read(min(_AT_ONCE, most - count))
            if not data or writer.is_closing():
                return "it disconnected without showing the token"
            count += len(data)
            start = (start + data)[:_AT_ONCE]
            if not _begins_with_header(start):
                return _FOREIGN
            frames.feed(data)
        if isinstance(body, str):
            return f"it sent {body}"
        message = _object(body)
        why = _take_token(message, self._token) or (_TAKEN if self._client.done() else "")
        if why:
            await _refuse(writer, message.get("id"), why)
            return why
        frames.most = MOST_BYTES
        self._client.set_result(Client(reader, writer, frames, message))
        for other in list(self._pending):
            if other is not writer:
                self._close_pending(other, _TAKEN)
        return ""

    def _close_pending(self, pending: asyncio.StreamWriter, why: str) -> None:
        del self._pending[pending]
        self._reasons[pending] = why
        pending.close()


def make_token(file: Path | None) -> str:
    """The token in a file that only the user can read; without a file, a new one. Raises SettingsError."""
    if file is None:
        return secrets.token_urlsafe(32)
    try:
        with os.fdopen(open_file(file.expanduser()), "rb") as stream:
            status = os.fstat(stream.fileno())
            if os.name == "posix" and (status.st_mode & 0o077 or status.st_uid != os.geteuid()):
                raise SettingsError(
                    f"The token file {file} belongs to another user or can be read by others: its token is "
                    f"not secret. Own the file, run `chmod 600 {file}`, and put a new token in it."
                )
            token = stream.read(8192).decode("ascii", "replace").strip()
    except (OSError, RuntimeError) as error:
        raise SettingsError(
            f"The token file {file} cannot be read: {why(error)}. Check --token-file."
        ) from None
    if not _TOKEN.fullmatch(token):
        raise SettingsError(
            f"The token file {file} holds no token. Write one line to it: at least 16 printable characters, "
            "no spaces."
        )
    return token


def announce(addresses: list[tuple[str, int]], token: str, file: Path | None) -> None:
    """Write to standard error where the server listens and which token its client must show."""
    places = ", ".join(f"[{host}]:{port}" if ":" in host else f"{host}:{port}" for host, port in addresses)
    shown = f"is in {file}" if file else f"is {token}"
    sys.stderr.write(f"Listening on {places} for one client. Its initializationOptions.token {shown}\n")
    sys.stderr.flush()


def _addresses(choice: TcpChoice) -> list[str]:
    """The addresses of the host. Raises SettingsError if other machines can reach one but must not."""
    try:
        found = socket.getaddrinfo(choice.host, choice.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (OSError, UnicodeError) as error:
        raise SettingsError(
            f"--tcp: the host {choice.host!r} cannot be resolved: {error}. Check its spelling."
        ) from None
    hosts = list(dict.fromkeys(str(address[0]) for *_, address in found))
    if not choice.any_host and not all(_is_loopback(host) for host in hosts):
        raise SettingsError(
            f"--tcp {choice.host}:{choice.port} can be reached from other machines, and what you type would "
            "travel unencrypted. Use 127.0.0.1 (and a tunnel, such as ssh -L), or add --tcp-any-host."
        )
    return hosts


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host.partition("%")[0]).is_loopback
    except ValueError:
        return False


def _begins_with_header(start: bytes) -> bool:
    """Whether these bytes can be the beginning of a header of the base protocol."""
    name, colon, _ = start.lstrip(b" \t")[:64].lower().partition(b":")
    name = name.rstrip(b" \t")
    return name in _HEADERS if colon else any(header.startswith(name) for header in _HEADERS)


def _object(body: bytes) -> dict[str, Any]:
    with contextlib.suppress(ValueError, RecursionError):
        message = json.loads(body)
        if isinstance(message, dict):
            return message
    return {}


def _take_token(message: dict[str, Any], token: bytes) -> str:
    """Remove the token from an `initialize` and check it. Returns the fault, or ""."""
    params = message.get("params")
    options = params.get("initializationOptions") if isinstance(params, dict) else None
    given = options.pop("token", None) if isinstance(options, dict) else None
    if message.get("method") != types.INITIALIZE or "id" not in message:
        return "its first message was not the request initialize"
    if not isinstance(given, str):
        return "initializationOptions.token is missing"
    if not hmac.compare_digest(given.encode("utf-8", "surrogatepass"), token):
        return "initializationOptions.token is wrong"
    return ""


async def _refuse(writer: asyncio.StreamWriter, identity: object, why: str) -> None:
    """Answer a request with an error, if the other side still reads."""
    if isinstance(identity, bool) or not isinstance(identity, int | str):
        identity = None
    text = f"The connection is closed: {why}."
    if why != _TAKEN:
        text += " `lsp-calib serve --tcp` prints the token when it starts, or reads it from its --token-file."
    error = {"code": types.LSPErrorCodes.RequestFailed.value, "message": text, "data": {"retry": False}}
    body = json.dumps({"jsonrpc": "2.0", "id": identity, "error": error}).encode()
    with contextlib.suppress(OSError, TimeoutError):
        async with asyncio.timeout(_FLUSH_SECONDS):
            writer.write(b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
            await writer.drain()


def _peer(writer: asyncio.StreamWriter) -> str:
    name = writer.get_extra_info("peername")
    return f"{name[0]}:{name[1]}" if name else "an unknown address"
