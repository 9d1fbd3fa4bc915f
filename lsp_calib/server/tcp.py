"""One client over TCP: the first that shows the token. Everybody on the machine can connect, browsers too.

A connection that has not shown the token holds nothing that another one needs, and is soon closed.
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
from lsp_calib.server.framing import MOST_BYTES, Frames, Skipped

logger = logging.getLogger(__name__)

# Connections that have not shown the token; where there are more, the oldest is closed.
_MOST_STRANGERS = 32
# Seconds for a refusal to get out.
_LAST_WORDS = 2.0
_AT_ONCE = 4096
_HEADERS = (b"content-length", b"content-type")
_TAKEN = "there is a client already"
_FOREIGN = "it does not speak the language server protocol"
_TOKEN = re.compile(r"[\x21-\x7e]{16,4096}")


@attrs.frozen
class TcpChoice:
    """Where to listen for a client, and how it shows that it may be one.

    any_host: other machines may connect. token_file: the user's own, with the token in it; None makes one up.
    seconds, most_bytes: for a connection to show the token in.
    """

    host: str
    port: int
    any_host: bool = False
    token_file: Path | None = None
    seconds: float = 10.0
    most_bytes: int = 64 << 10


@attrs.frozen
class Client:
    """A client that showed the token. first: its `initialize` without the token. frames: what came after."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    frames: Frames
    first: dict[str, Any]


class Listener:
    """Connections, until one of them is the client's. From then on all others are refused."""

    def __init__(self, token: str, choice: TcpChoice) -> None:
        self._token = token.encode()
        self._choice = choice
        self._client: asyncio.Future[Client] = asyncio.get_running_loop().create_future()
        self._strangers: dict[asyncio.StreamWriter, None] = {}  # oldest first
        self._sent_away: dict[asyncio.StreamWriter, str] = {}  # and why
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
        """End listening, and with it every connection but the client's."""
        if self._server is not None:
            self._server.close()
        for stranger in list(self._strangers):
            self._send_away(stranger, "the server ends")

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._client.done():
            logger.warning("A connection from %s was refused: %s.", _peer(writer), _TAKEN)
            writer.close()
            return
        self._strangers[writer] = None
        if len(self._strangers) > _MOST_STRANGERS:
            # Not the newest: connections that only wait must not keep the client out.
            self._send_away(next(iter(self._strangers)), "too many connections wait to show the token")
        why = "the server ends"
        try:
            async with asyncio.timeout(self._choice.seconds):
                why = await self._examine(reader, writer)
        except TimeoutError:
            why = f"it did not show the token within {self._choice.seconds:g} s"
        except OSError:
            why = "it left without showing the token"
        finally:
            self._strangers.pop(writer, None)
            why = self._sent_away.pop(writer, "") or why
            if why:
                logger.warning("A connection from %s was closed: %s.", _peer(writer), why)
                writer.close()

    async def _examine(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> str:
        """Read the first message. Returns why it is not the client's, "" if it is."""
        most = self._choice.most_bytes
        frames, start, count = Frames(most), b"", 0
        while (body := frames.next()) is None:
            if count == most:
                return f"it sent {most} bytes without showing the token"
            data = await reader.read(min(_AT_ONCE, most - count))
            if not data or writer.is_closing():
                return "it left without showing the token"
            count += len(data)
            start = (start + data)[:_AT_ONCE]
            if not _begins_with_header(start):
                return _FOREIGN
            frames.feed(data)
        if isinstance(body, Skipped):
            return f"it sent {body.why}"
        message = _object(body)
        why = _take_token(message, self._token) or (_TAKEN if self._client.done() else "")
        if why:
            await _refuse(writer, message.get("id"), why)
            return why
        frames.most = MOST_BYTES
        self._client.set_result(Client(reader, writer, frames, message))
        for other in list(self._strangers):
            if other is not writer:
                self._send_away(other, _TAKEN)
        return ""

    def _send_away(self, stranger: asyncio.StreamWriter, why: str) -> None:
        del self._strangers[stranger]
        self._sent_away[stranger] = why
        stranger.close()


def make_token(file: Path | None) -> str:
    """The token in a file of the user's own; without a file, a new one. Raises SettingsError."""
    if file is None:
        return secrets.token_urlsafe(32)
    try:
        with file.expanduser().open("rb") as stream:
            status = os.fstat(stream.fileno())
            if os.name == "posix" and (status.st_mode & 0o077 or status.st_uid != os.geteuid()):
                raise SettingsError(
                    f"The token file {file} can be read by others, or belongs to somebody else: the token in "
                    f"it is not used. Make it yours, run `chmod 600 {file}`, and put a new token in it."
                )
            token = stream.read(8192).decode("ascii", "replace").strip()
    except (OSError, RuntimeError) as error:
        raise SettingsError(f"The token file {file} cannot be read: {error}. Check --token-file.") from None
    if not _TOKEN.fullmatch(token):
        raise SettingsError(
            f"The token file {file} holds no token: one line of 16 or more printable characters, no spaces."
        )
    return token


def announce(addresses: list[tuple[str, int]], token: str, file: Path | None) -> None:
    """Say on standard error where the server listens and what its client has to show."""
    places = ", ".join(f"[{host}]:{port}" if ":" in host else f"{host}:{port}" for host, port in addresses)
    shown = f"is in {file}" if file else f"is {token}"
    sys.stderr.write(f"Listening on {places} for one client. Its initializationOptions.token {shown}\n")
    sys.stderr.flush()


def _addresses(choice: TcpChoice) -> list[str]:
    """The addresses of the host. Raises SettingsError if others could reach one of them, and should not."""
    try:
        found = socket.getaddrinfo(choice.host, choice.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (OSError, UnicodeError) as error:
        raise SettingsError(f"--tcp: the host {choice.host!r} is not known: {error}.") from None
    hosts = list(dict.fromkeys(str(address[0]) for *_, address in found))
    if not choice.any_host and not all(_is_loopback(host) for host in hosts):
        raise SettingsError(
            f"--tcp {choice.host}:{choice.port} can be reached from other machines, and what is typed would "
            "travel unencrypted. Use 127.0.0.1 (and a tunnel, such as ssh -L), or add --tcp-any-host."
        )
    return hosts


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host.partition("%")[0]).is_loopback
    except ValueError:
        return False


def _begins_with_header(start: bytes) -> bool:
    """Whether a stream that begins so can begin with a header of the base protocol."""
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
    """Take the token out of an `initialize`. Returns what is wrong with it, or ""."""
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
    """Answer a request with an error, as far as the other side reads it."""
    if isinstance(identity, bool) or not isinstance(identity, int | str):
        identity = None
    words = f"The connection is closed: {why}."
    if why != _TAKEN:
        words += " The token stands where `lsp-calib serve --tcp` was started, or in its --token-file."
    error = {"code": types.LSPErrorCodes.RequestFailed.value, "message": words, "data": {"retry": False}}
    body = json.dumps({"jsonrpc": "2.0", "id": identity, "error": error}).encode()
    with contextlib.suppress(OSError, TimeoutError):
        async with asyncio.timeout(_LAST_WORDS):
            writer.write(b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
            await writer.drain()


def _peer(writer: asyncio.StreamWriter) -> str:
    name = writer.get_extra_info("peername")
    return f"{name[0]}:{name[1]}" if name else "somebody"
