"""Settings: what may be set, by whom, and what a wrong value means.

A wrong or unknown value never stops the server: it is named in a message and the default stands in its place.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Literal

import attrs

from lsp_calib import home
from lsp_calib.exclusion import is_pattern
from lsp_calib.inference.choice import URL_WORDS, EngineChoice, Remote, in_the_clear, is_url

Switch = Literal["auto", True, False]

_SEVERITIES = ("error", "warning", "information", "hint", "off")


NOT_TRUSTED_OVER_TCP = (
    "lspCalib.trusted is ignored: a client over TCP may not choose files, servers or how a model is loaded. "
    "Set these where the server is started: on its command line, in its environment or in config.toml."
)


@attrs.frozen
class Trusted:
    """What only the user may choose: command line, environment, `config.toml`, or an editor's machine scope.

    A workspace is not trusted: nothing that comes with a checkout may name a file, a host or a command.
    """

    model: str | None = None
    threads: int = 0
    gpu_layers: int | None = None  # None: "auto"
    mlock: bool = False
    remote_url: str | None = None  # remote.url
    remote_model: str | None = None  # remote.model
    remote_key_file: str | None = None  # remote.keyFile
    exclude: tuple[str, ...] = ()
    retention_days: int = 365  # feedback.retentionDays


def _texts(value: Iterable[str]) -> tuple[str, ...]:
    return tuple(value)


@attrs.frozen
class Settings:
    """What an editor may set. The key on the wire stands beside each; `{}` is a complete configuration."""

    inline_completion: bool = True  # inlineCompletion.enabled
    completion: Switch = "auto"  # completion.enabled; auto: on where the client has no inline completion
    ahead: bool = True  # ahead.enabled
    hover: bool = True  # hover.enabled
    hover_budget_ms: int = 3000  # hover.budgetMs
    diagnostics: bool = True  # diagnostics.enabled
    severity_accept: str = "hint"  # diagnostics.severity.accept
    severity_review: str = "information"  # diagnostics.severity.review
    severity_reject: str = "warning"  # diagnostics.severity.reject
    preset: str = "balanced"  # tiers.preset
    accept_from: float | None = None  # tiers.acceptFrom
    reject_below: float | None = None  # tiers.rejectBelow
    feedback: bool = True  # feedback.enabled
    linger_seconds: float = 10.0  # lingerSeconds
    exclude: tuple[str, ...] = attrs.field(default=(), converter=_texts)  # exclude


@attrs.frozen
class _Checked:
    """A text that has to be of some kind; a wrong one is not repeated in messages: it may hold a password."""

    fits: Callable[[str], bool]
    words: str


@attrs.frozen
class _OrAuto:
    """A value of some kind, or "auto", which is the default."""

    kind: Any


@attrs.frozen
class _Several:
    """A list of texts, so many at most. Those that fit count even where others do not."""

    fits: Callable[[str], bool]
    words: str
    most: int


_PATTERNS = _Several(is_pattern, 'a list of patterns such as "generated/**"', 200)
_KEYS: dict[str, tuple[str, Any]] = {
    "inlineCompletion.enabled": ("inline_completion", bool),
    "completion.enabled": ("completion", ("auto", True, False)),
    "ahead.enabled": ("ahead", bool),
    "hover.enabled": ("hover", bool),
    "hover.budgetMs": ("hover_budget_ms", (0, 60_000, int)),
    "diagnostics.enabled": ("diagnostics", bool),
    "diagnostics.severity.accept": ("severity_accept", _SEVERITIES),
    "diagnostics.severity.review": ("severity_review", _SEVERITIES),
    "diagnostics.severity.reject": ("severity_reject", _SEVERITIES),
    "tiers.preset": ("preset", ("cautious", "balanced", "lenient")),
    "tiers.acceptFrom": ("accept_from", (0.0, 1.0, float)),
    "tiers.rejectBelow": ("reject_below", (0.0, 1.0, float)),
    "feedback.enabled": ("feedback", bool),
    "lingerSeconds": ("linger_seconds", (0.0, 3600.0, float)),
    "exclude": ("exclude", _PATTERNS),
}
_TRUSTED_KEYS: dict[str, tuple[str, Any]] = {
    "model": ("model", str),
    "threads": ("threads", (0, 512, int)),
    "gpuLayers": ("gpu_layers", _OrAuto((0, 100_000, int))),
    "mlock": ("mlock", bool),
    "remote.url": ("remote_url", _Checked(is_url, URL_WORDS)),
    "remote.model": ("remote_model", str),
    "remote.keyFile": ("remote_key_file", str),
    "exclude": ("exclude", _PATTERNS),
    # A workspace that set it could have feedback deleted.
    "feedback.retentionDays": ("retention_days", (1, 36_500, int)),
}
# Problems told of one object, and characters of a value that is repeated.
_MOST_PROBLEMS = 20
_LONGEST = 80
_FLOATS = ("accept_from", "reject_below", "linger_seconds")


def parse(raw: object, base: Settings = Settings()) -> tuple[Settings, list[str]]:
    """Settings from an editor's object over `base`, with a message for each key that cannot be used."""
    changes, problems = _read(raw, _KEYS, "lspCalib")
    for name in list(changes):
        if name in _FLOATS:
            changes[name] = float(changes[name])
    # A workspace may add to what its user has excluded, and take nothing back.
    changes["exclude"] = dict.fromkeys((*base.exclude, *changes.get("exclude", ())))
    settings = attrs.evolve(base, **changes)
    low, high = settings.reject_below, settings.accept_from
    if low is not None and high is not None and low > high:
        problems.append(
            f"lspCalib.tiers: rejectBelow {low} is above acceptFrom {high}; the preset's thresholds are used."
        )
        settings = attrs.evolve(settings, accept_from=None, reject_below=None)
    return settings, problems


def parse_trusted(raw: object) -> tuple[Trusted, list[str]]:
    """The machine-scoped settings of `initializationOptions.trusted`."""
    changes, problems = _read(raw, _TRUSTED_KEYS, "lspCalib.trusted")
    return Trusted(**changes), problems


def resolve_trusted(command_line: Trusted, editor: Trusted) -> tuple[Trusted, list[str]]:
    """Command line over environment over editor over the user's `config.toml`, setting by setting.

    But `remote.keyFile` counts only where the `remote.url` in force was set.
    """
    unreadable: list[str] = []
    user, problems = parse_trusted(_user_file(unreadable))
    environment, more = _environment()
    problems = unreadable + problems + more
    levels = (command_line, environment, editor, user)
    default = Trusted()
    chosen = {
        field.name: next(
            (
                value
                for level in levels
                if (value := getattr(level, field.name)) != getattr(default, field.name)
            ),
            getattr(default, field.name),
        )
        for field in attrs.fields(Trusted)
    }
    # A key belongs to the server it was given for: it does not follow to one that was named elsewhere.
    named = next((level for level in levels if level.remote_url is not None), None)
    if named is not None and named.remote_key_file != chosen["remote_key_file"]:
        chosen["remote_key_file"] = named.remote_key_file
    chosen["exclude"] = tuple(dict.fromkeys(pattern for level in levels for pattern in level.exclude))
    trusted = Trusted(**chosen)
    if warning := in_the_clear(trusted.remote_url or ""):
        problems.append(warning)
    return trusted, problems


def engine_choice(trusted: Trusted, settings: Settings = Settings()) -> EngineChoice:
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
        linger=settings.linger_seconds,
        remote=remote,
    )


def _environment() -> tuple[Trusted, list[str]]:
    """What the environment sets; an empty variable is none."""
    raw = {
        "model": os.environ.get("LSP_CALIB_MODEL") or None,
        "remote.url": os.environ.get("LSP_CALIB_REMOTE_URL") or None,
        "remote.model": os.environ.get("LSP_CALIB_REMOTE_MODEL") or None,
    }
    changes, problems = _read(raw, _TRUSTED_KEYS, "environment")
    return Trusted(**changes), problems


def _user_file(problems: list[str]) -> object:
    path = home.home() / "config.toml"
    return _toml(path, problems) if path.exists() else {}


def _toml(path: Path, problems: list[str]) -> object:
    import tomllib

    try:
        return tomllib.loads(path.read_text("utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        problems.append(f"{path} cannot be read and is ignored: {error}.")
        return {}


def _read(raw: object, keys: Mapping[str, tuple[str, Any]], where: str) -> tuple[dict[str, Any], list[str]]:
    if raw is None:
        return {}, []
    if not isinstance(raw, Mapping):
        return {}, [f"{where} must be an object, not {type(raw).__name__}; the defaults are used."]
    changes: dict[str, Any] = {}
    problems: list[str] = []
    for key, value in _flat(raw, keys):
        if key not in keys:
            problems.append(f"{where}.{_short(key)} is not a setting; it is ignored.")
            continue
        name, kind = keys[key]
        if value is None:
            continue
        if isinstance(kind, _OrAuto) and value == "auto":
            continue
        if isinstance(kind, _Several):
            changes[name], whole = _fitting(value, kind)
            if not whole:
                problems.append(f"{where}.{key} must be {kind.words}; what is not is ignored.")
        elif _fits(value, kind):
            changes[name] = value
        elif isinstance(kind, _Checked):
            problems.append(f"{where}.{key} must be {kind.words}; it is ignored.")
        else:
            problems.append(
                f"{where}.{key} cannot be {_short(repr(value))} ({_words(kind)}); the default is used."
            )
    if len(problems) > _MOST_PROBLEMS:
        problems[_MOST_PROBLEMS:] = [f"{where}: {len(problems) - _MOST_PROBLEMS} more are wrong."]
    return changes, problems


def _short(text: str) -> str:
    """What stands in a message: a setting may hold anything, at any length."""
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."


def _flat(raw: Mapping[str, Any], keys: Mapping[str, Any], stem: str = "") -> list[tuple[str, Any]]:
    """Nested objects as dotted keys; dotted keys themselves are taken as they are."""
    pairs: list[tuple[str, Any]] = []
    for key, value in raw.items():
        name = f"{stem}{key}"
        if name == "trusted" and "trusted" not in keys:
            continue
        inside = any(known.startswith(f"{name}.") for known in keys)
        if isinstance(value, Mapping) and inside:
            pairs += _flat(value, keys, f"{name}.")
        else:
            pairs.append((name, value))
    return pairs


def _fitting(value: object, kind: _Several) -> tuple[tuple[str, ...], bool]:
    """The texts that fit, and whether these are all there is."""
    given = value if isinstance(value, list) else []
    good = tuple(one for one in given[: kind.most] if isinstance(one, str) and kind.fits(one))
    return good, isinstance(value, list) and len(good) == len(given)


def _fits(value: object, kind: Any) -> bool:
    if kind is bool:
        return isinstance(value, bool)
    if kind is str:
        return isinstance(value, str)
    if isinstance(kind, _Checked):
        return isinstance(value, str) and kind.fits(value)
    if isinstance(kind, _OrAuto):
        return _fits(value, kind.kind)
    if len(kind) == 3 and isinstance(kind[2], type):
        low, high, number = kind
        types = (int,) if number is int else (int, float)
        return isinstance(value, types) and not isinstance(value, bool) and low <= value <= high
    return any(value is option or (isinstance(option, str) and value == option) for option in kind)


def _words(kind: Any) -> str:
    if kind is bool:
        return "true or false"
    if kind is str:
        return "a text"
    if isinstance(kind, _OrAuto):
        return f"auto or {_words(kind.kind)}"
    if len(kind) == 3 and isinstance(kind[2], type):
        return f"a number from {kind[0]} to {kind[1]}"
    return "one of " + ", ".join(
        str(option).lower() if isinstance(option, bool) else option for option in kind
    )
