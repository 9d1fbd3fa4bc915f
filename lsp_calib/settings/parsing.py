"""From an editor's or a file's object to settings. A wrong or unknown value never stops the server: a message
names it, and the default is used instead."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, TypeVar

import attrs

from lsp_calib.settings.kinds import shortened
from lsp_calib.settings.table import DEFAULTS, RENAMED, TRUSTED, WORKSPACE, Setting, Settings, Trusted

S = TypeVar("S", Settings, Trusted)

# Problems of one object that are named; the others are only counted.
_MOST_PROBLEMS = 20


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
    # A present name is read after a former one, and so wins over it.
    for key, value in sorted(_flat(raw, table), key=lambda entry: entry[0] not in RENAMED):
        if key in RENAMED:
            former, (key, converted) = key, RENAMED[key]
            problems.append(f"{stem}{former} is now called {key}. The old name still works; change it.")
            value = converted(value)
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
    known = (*table, *WORKSPACE, *RENAMED)
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
