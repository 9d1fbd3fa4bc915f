"""Where settings come from, which of them count, and how they are read: from an editor's object, the user's
file, the environment, the command line.

A wrong or unknown value never stops the server: a message names it, and the default is used instead.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

import attrs

from lsp_calib import home
from lsp_calib.files import read_file, why
from lsp_calib.inference.choice import EngineChoice, Remote, in_the_clear
from lsp_calib.settings.kinds import shortened
from lsp_calib.settings.table import DEFAULTS, TRUSTED, WORKSPACE, Setting, Settings, Trusted

S = TypeVar("S", Settings, Trusted)

# Problems of one object that are named; the others are only counted.
_MOST_PROBLEMS = 20
# Of config.toml.
_MOST_BYTES = 1 << 20


def resolve_trusted(command_line: Trusted, editor: Trusted) -> tuple[Trusted, list[str]]:
    """Command line over environment over editor over the user's `config.toml`, setting by setting.

    But a `model` that is named in a place above the one with `remote.url` is asked on this machine: the
    address and its key are dropped. `remote.keyFile` counts only where the `remote.url` in force was set;
    patterns of `exclude`, and overrides of the tiers, from all places count together; and
    `feedback.gitHistory` is false where one place says so. Raises SettingsError if there is no state
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
    if any(level.git_history is False for level in levels):
        chosen["git_history"] = False
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


def of_the_user(trusted: Trusted) -> Settings:
    """The settings where neither an editor nor a workspace sets any, but for the tiers: see `tier_policy`."""
    apart = ("exclude", "tiers.")
    shared = [key for key in TRUSTED if key in WORKSPACE and not key.startswith(apart)]
    own = {(name := TRUSTED[key].attribute): getattr(trusted, name) for key in shared}
    return attrs.evolve(DEFAULTS, **{name: value for name, value in own.items() if value is not None})


def parse(raw: object, base: Settings = DEFAULTS, own: Settings = DEFAULTS) -> tuple[Settings, list[str]]:
    """Settings from an editor's object over `base`, with a message for each key that cannot be used.

    own: see `of_the_user`. The object may come from a workspace: a value counts within its setting's bound.
    """
    changes, problems = _read(raw, WORKSPACE, "lspCalib.")
    for key, setting in WORKSPACE.items():
        name, bound = setting.attribute, setting.bound
        if bound is None or name not in changes:
            continue
        wished, changes[name] = changes[name], bound.combined(getattr(own, name), changes[name])
        if changes[name] != wished:
            problems.append(not_counted(key, wished, changes[name], bound.words))
    # A workspace may add to its user's exclusions and overrides, but not remove any of them.
    changes["exclude"] = dict.fromkeys((*base.exclude, *changes.get("exclude", ())))
    changes["overrides"] = dict.fromkeys((*base.overrides, *changes.get("overrides", ())))
    return _in_order(attrs.evolve(base, **changes), problems, "lspCalib.")


def not_counted(key: str, wished: object, held: object, words: str) -> str:
    """The message about a value that does not count. words: the values that do, to follow "can"."""
    shown = [f"{one:g}" if isinstance(one, float) else json.dumps(one) for one in (wished, held)]
    return (
        f"lspCalib.{key} {shown[0]} does not count, {shown[1]} does: settings that may come from a workspace "
        f"can {words}. To choose it yourself, set {key} in config.toml or in VS Code's user settings."
    )


def parse_trusted(raw: object, stem: str = "lspCalib.trusted.") -> tuple[Trusted, list[str]]:
    """Settings that only the user may set, with a message for each key that cannot be used.

    stem: the prefix of keys in messages.
    """
    changes, problems = _read(raw, TRUSTED, stem)
    return _in_order(Trusted(**changes, given=frozenset(changes)), problems, stem)


def _in_order(settings: S, problems: list[str], stem: str) -> tuple[S, list[str]]:
    """The settings without thresholds that contradict each other."""
    low, high = settings.reject_below, settings.accept_from
    if low is None or high is None or low <= high:
        return settings, problems
    problem = f"{stem}tiers: rejectBelow {low} is above acceptFrom {high}; the preset's thresholds are used."
    return attrs.evolve(settings, accept_from=None, reject_below=None), [*problems, problem]


def _read(raw: object, table: Mapping[str, Setting], stem: str) -> tuple[dict[str, Any], list[str]]:
    """The fields that an object sets, and the messages."""
    whole = stem.rstrip(".: ")
    if raw is None or raw == []:  # Lua has one empty table for lists and objects
        return {}, []
    if not isinstance(raw, Mapping):
        return {}, [f"{whole} must be an object, not {type(raw).__name__}; the defaults are used."]
    changes: dict[str, Any] = {}
    problems: list[str] = []
    for key, value in _flat(raw, table):
        setting = table.get(key)
        if setting is None and key in WORKSPACE:
            problems.append(
                f"{stem}{key} is a setting of your editor (`lspCalib.{key}`); {whole} cannot set it."
            )
        elif setting is None:
            problems.append(f"{stem}{shortened(key)} is not a setting; it is ignored.")
        elif value is not None:
            found, problem = setting.kind.read(value)
            # Without a problem None is a value too, which "auto" has become.
            if found is not None or not problem:
                changes[setting.attribute] = found
            if problem:
                problems.append(f"{stem}{key} {problem}.")
    if len(problems) > _MOST_PROBLEMS:
        problems[_MOST_PROBLEMS:] = [f"{whole}: {len(problems) - _MOST_PROBLEMS} more settings are wrong."]
    return changes, problems


def _flat(raw: Mapping[str, Any], table: Mapping[str, Setting], stem: str = "") -> Iterator[tuple[str, Any]]:
    """Nested objects as dotted keys; dotted keys themselves are taken as they are."""
    # What is not of this table is named in full where the editor's has it.
    known = (*table, *WORKSPACE)
    for key, value in raw.items():
        name = f"{stem}{key}"
        # This key holds the object that `parse_trusted` reads.
        if name == "trusted" and table is not TRUSTED:
            continue
        is_group = isinstance(value, Mapping) or value == []
        if is_group and any(one.startswith(f"{name}.") for one in known):
            yield from _flat(value or {}, table, f"{name}.")
        else:
            yield name, value
