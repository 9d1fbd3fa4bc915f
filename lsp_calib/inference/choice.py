"""Which engine: the model process on this machine, or a server the user has named.

Imported before `initialize` is answered: what an engine needs is imported when one is opened.
"""

from __future__ import annotations

import ipaddress
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import attrs

from lsp_calib.errors import SettingsError

if TYPE_CHECKING:
    from lsp_calib.inference.engine import Engine, EngineState, StateListener

URL_WORDS = (
    "an address like http://localhost:8080/v1 or https://host/v1, without a name, password or query in it"
)


@attrs.frozen
class Remote:
    """An OpenAI-compatible server.

    url: as the user wrote it; `base_url` is what is asked. model: the server's name for it or a card's; None
    where the server has only one. key_file: has the key in it, for the owner's eyes only.
    interactive, background: requests at once, of each priority.
    """

    url: str
    model: str | None = None
    key_file: Path | None = None
    interactive: int = 2
    background: int = 1


@attrs.frozen
class EngineChoice:
    """Everything that settles which engine answers, and how. With `remote` the rest but for it is not used.

    model: a card's name or a GGUF file; None for the best installed one. threads: 0 chooses. gpu_layers:
    None uses a GPU where it is faster. mlock: keep the weights from being swapped out. linger: seconds that
    the model stays loaded after its last user.
    """

    model: str | None = None
    threads: int = 0
    gpu_layers: int | None = None
    mlock: bool = False
    linger: float = 10.0
    remote: Remote | None = None


def unheard(_state: EngineState, _message: str, _fraction: float | None) -> None:
    """A listener for those who do not want to know."""


def open_engine(choice: EngineChoice, on_state: StateListener = unheard) -> Engine:
    """The engine chosen. Nothing is started or asked before the engine is."""
    if choice.remote is not None:
        from lsp_calib.inference.remote.engine import RemoteEngine

        return RemoteEngine(choice.remote, on_state=on_state)
    from lsp_calib.inference.process.client import ModelProcess

    return ModelProcess(
        choice.model,
        threads=choice.threads,
        gpu_layers=choice.gpu_layers,
        mlock=choice.mlock,
        linger=choice.linger,
        on_state=on_state,
    )


def is_url(text: str) -> bool:
    """Whether `text` can be a server's address. One with a password in it cannot: addresses are shown."""
    try:
        parts = urlsplit(text)
        _ = parts.port
    except ValueError:
        return False
    plain = not (parts.username or parts.password or parts.query or parts.fragment)
    readable = text.isascii() and text.isprintable() and " " not in text
    return parts.scheme in ("http", "https") and bool(parts.hostname) and plain and readable


def base_url(url: str) -> str:
    """The address that `/completions` and `/models` are below.

    Raises SettingsError if `url` is no address.
    >>> base_url("http://localhost:8080"), base_url("https://host/v1/completions")
    ('http://localhost:8080/v1', 'https://host/v1')
    """
    if not is_url(url):
        raise SettingsError(f"`remote.url` is not {URL_WORDS}.")
    parts = urlsplit(url)
    path = parts.path.rstrip("/").removesuffix("/completions").removesuffix("/chat").rstrip("/")
    return f"{parts.scheme}://{parts.netloc}{path or '/v1'}"


def is_local(url: str) -> bool:
    """Whether an address is this machine."""
    host = (urlsplit(url).hostname or "").rstrip(".")
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def in_the_clear(url: str) -> str:
    """A warning where everybody on the way to a server can read along, else ""."""
    if not is_url(url) or urlsplit(url).scheme == "https" or is_local(url):
        return ""
    return (
        f"The remote server {urlsplit(url).hostname} is asked over http://: your source code travels there "
        "unencrypted, and anyone on the way can read it. Use an https:// address, or a tunnel."
    )
