"""Where the settings of the user come from, and which of them count."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from lsp_calib import home
from lsp_calib.files import read_file, why
from lsp_calib.inference.choice import EngineChoice, Remote, in_the_clear
from lsp_calib.settings.parsing import of_the_user, parse_trusted
from lsp_calib.settings.table import TRUSTED, Trusted

# Of config.toml.
_MOST_BYTES = 1 << 20

NOT_TRUSTED_OVER_TCP = (
    "lspCalib.trusted is ignored: a client over TCP may not choose files, servers or how a model is loaded. "
    "Set these where the server is started: on its command line, in its environment or in config.toml."
)


def resolve_trusted(command_line: Trusted, editor: Trusted) -> tuple[Trusted, list[str]]:
    """Command line over environment over editor over the user's `config.toml`, setting by setting.

    But a `model` that is named in a place above the one with `remote.url` is asked on this machine: the
    address and its key are dropped. `remote.keyFile` counts only where the `remote.url` in force was set;
    patterns of `exclude`, and overrides of the tiers, from all places count together; and `feedback.replay`
    and `feedback.gitHistory` are false where one place says so. Raises SettingsError if there is no state
    folder.
    """
    user, problems = _user_file()
    environment, more = _environment()
    levels = (command_line, environment, editor, user)
    names = (setting.attribute for setting in TRUSTED.values())
    chosen: dict[str, Any] = {name: _first(levels, name) for name in names}
    # A key belongs to the server it was given for: it is not sent to a server that was named elsewhere.
    named = next((level for level in levels if level.remote_url is not None), None)
    if named is not None:
        chosen["remote_key_file"] = named.remote_key_file
        if any(level.model for level in levels[: levels.index(named)]):
            chosen["remote_url"] = chosen["remote_key_file"] = None
    chosen["exclude"] = tuple(dict.fromkeys(pattern for level in levels for pattern in level.exclude))
    chosen["overrides"] = tuple(dict.fromkeys(one for level in levels for one in level.overrides))
    for name in ("replay", "git_history"):
        if any(getattr(level, name) is False for level in levels):
            chosen[name] = False
    trusted = Trusted(**chosen)
    warning = in_the_clear(trusted.remote_url or "")
    return trusted, [*problems, *more, *([warning] if warning else [])]


def engine_choice(trusted: Trusted) -> EngineChoice:
    """The engine that the settings name."""
    remote = None
    if trusted.remote_url:
        file = Path(trusted.remote_key_file) if trusted.remote_key_file else None
        remote = Remote(trusted.remote_url, trusted.remote_model, file)
    return EngineChoice(
        model=trusted.model,
        threads=trusted.threads,
        gpu_layers=trusted.gpu_layers,
        mlock=trusted.mlock,
        linger=of_the_user(trusted).model_idle_seconds,
        remote=remote,
    )


def _first(levels: tuple[Trusted, ...], name: str) -> Any:
    """The first value that was set. One that is not the default was, also where `given` does not say so."""
    default = getattr(Trusted(), name)
    values = ((getattr(level, name), name in level.given) for level in levels)
    return next((value for value, given in values if given or value != default), default)


def _environment() -> tuple[Trusted, list[str]]:
    """The settings with a variable. An empty variable counts as unset."""
    variables = {setting.key: setting.variable for setting in TRUSTED.values() if setting.variable}
    raw = {key: os.environ.get(variable) or None for key, variable in variables.items()}
    return parse_trusted(raw, "environment: ")


def _user_file() -> tuple[Trusted, list[str]]:
    path = home.state_dir() / "config.toml"
    try:
        text = read_file(path, _MOST_BYTES).decode("utf-8")
        import tomllib

        return parse_trusted(tomllib.loads(text), "config.toml: ")
    except FileNotFoundError:
        return Trusted(), []
    except RecursionError:
        reason = "its values are nested too deeply"
    except (OSError, ValueError) as error:  # it may be no UTF-8, or no TOML
        reason = why(error)
    return Trusted(), [f"{path} cannot be read and is ignored: {reason}."]
