"""Which engine is wanted, as a value, and the addresses of remote servers.

Imported before `initialize` is answered, so it needs nothing of an engine.
"""

from __future__ import annotations

import ipaddress
import re
from pathlib import Path
from urllib.parse import SplitResult, urlsplit

import attrs

from lsp_calib.errors import SettingsError

URL_WORDS = (
    "an address like http://localhost:8080/v1 or https://host/v1, without a name, password or query in it"
)

CACHE_MB = 250
"""What places that may be wanted again take, at most, unless the user says otherwise."""

_DIGITS = re.compile(r"[0-9]+(?:\.[0-9]+){3}\Z")
_BRACKETS = re.compile(r"\[[^\[\]]+\](?::[0-9]*)?\Z")


@attrs.frozen
class Remote:
    """An OpenAI-compatible server.

    url: as the user wrote it; requests go to its `base_url`. model: its name on the server or a card's; None
    where the server has only one. key_file: holds the key, readable by its owner alone.
    interactive, background: concurrent requests of each priority.
    """

    url: str
    model: str | None = None
    key_file: Path | None = None
    interactive: int = 2
    background: int = 1


@attrs.frozen
class EngineChoice:
    """Everything that decides which engine answers, and how. With `remote`, the other fields are not used.

    model: a card's name or a GGUF file; None for the best installed one. threads: 0 takes as many as
    physical cores. gpu_layers: None uses a GPU where it is faster. linger: seconds that the model stays
    loaded after its last user. cache_mb: megabytes for the places that are kept beside the active one.
    """

    model: str | None = None
    threads: int = 0
    gpu_layers: int | None = None
    linger: float = 300.0
    remote: Remote | None = None
    cache_mb: int = CACHE_MB


def is_url(text: str) -> bool:
    """Whether `text` can be a server's address. One with a password cannot: messages show addresses."""
    try:
        parts = urlsplit(text)
        _ = parts.port
    except ValueError:
        return False
    plain = not (parts.username or parts.password or parts.query or parts.fragment)
    readable = text.isascii() and text.isprintable() and " " not in text
    return parts.scheme in ("http", "https") and plain and readable and _can_be_host(parts)


def _can_be_host(parts: SplitResult) -> bool:
    """Whether the host of an address is a name, or an IP address that exists: HTTP clients refuse others."""
    host = parts.hostname or ""
    try:
        if "[" in parts.netloc:
            ipaddress.IPv6Address(host)
            return _BRACKETS.match(parts.netloc) is not None
        if _DIGITS.match(host):
            ipaddress.IPv4Address(host)
    except ValueError:
        return False
    return bool(host)


def base_url(url: str) -> str:
    """The address to which `/completions` and `/models` are appended.

    Raises SettingsError if `url` is not an address.
    >>> base_url("http://localhost:8080"), base_url("https://host/v1/completions")
    ('http://localhost:8080/v1', 'https://host/v1')
    """
    if not is_url(url):
        raise SettingsError(f"`remote.url` is not {URL_WORDS}.")
    parts = urlsplit(url)
    path = parts.path.rstrip("/").removesuffix("/completions").removesuffix("/chat").rstrip("/")
    return f"{parts.scheme}://{parts.netloc}{path or '/v1'}"


def is_local(url: str) -> bool:
    """Whether an address names this machine."""
    host = (urlsplit(url).hostname or "").rstrip(".")
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        address = address.ipv4_mapped
    # A connection to the unspecified address, which a server listens at, is one to this machine.
    return address.is_loopback or address.is_unspecified


def in_the_clear(url: str) -> str:
    """A warning for an unencrypted connection to another machine, else ""."""
    if not is_url(url) or urlsplit(url).scheme == "https" or is_local(url):
        return ""
    return (
        f"The remote server {urlsplit(url).hostname} is asked over http://: your source code travels there "
        "unencrypted, and anyone on the way can read it. Use an https:// address, or a tunnel."
    )
