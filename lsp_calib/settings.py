"""Every setting, declared once, and how its value is read: from the command line, the environment, an editor
and the user's `config.toml`.

Parsing, its messages, the tables of docs/reference.md and VS Code's settings are all made of `SETTINGS`. A
wrong or unknown value never stops the server: a message names it, and the default is used instead.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal

import attrs

from lsp_calib import home
from lsp_calib.characters import in_one_line
from lsp_calib.exclusion import is_pattern
from lsp_calib.files import read_file, why
from lsp_calib.inference.choice import CACHE_MB, URL_WORDS, EngineChoice, Remote, in_the_clear, is_url
from lsp_calib.languages import ANY, identifier_of, is_choice
from lsp_calib.values import Override

if TYPE_CHECKING:
    from lsp_calib.calibration.tiers import Policy

# Characters of a value that a message repeats: a setting may hold anything, at any length.
_LONGEST = 80
# The end of such a message, see `_kind`.
_REPEATED = re.compile(r", not .*; the default is used")
# Problems of one object that are named; the others are only counted.
_MOST_PROBLEMS = 20
# Of config.toml.
_MOST_BYTES = 1 << 20


@attrs.frozen(eq=False)
class Kind:
    """A kind of value. Values are those of JSON, as `json` or `tomllib` decode them.

    words: the values that fit, to follow "must be". schema: the same as JSON Schema. read: gives for a value
    the setting (None: its default) and the end of a message ("": nothing is wrong).
    """

    words: str
    schema: dict[str, Any]
    read: Callable[[object], tuple[Any, str]]


def _kind(
    words: str,
    schema: dict[str, Any],
    fits: Callable[[object], bool],
    convert: Callable[[Any], Any] = lambda value: value,
) -> Kind:
    """A kind whose messages name the wrong value."""

    def read(value: object) -> tuple[Any, str]:
        if fits(value):
            return convert(value), ""
        return None, f"must be {words}, not {_shortened(repr(value))}; the default is used"

    return Kind(words, schema, read)


def _shortened(text: str) -> str:
    """A text as messages repeat it."""
    text = in_one_line(text[: 2 * _LONGEST], 2 * _LONGEST)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."


def without_value(message: str) -> str:
    """A message without the value that it repeats: anything can be set by mistake, a key included."""
    return _REPEATED.sub(", not what is set; the default is used", message)


def _between(low: float, value: object, high: float, types: tuple[type, ...] = (int, float)) -> bool:
    if isinstance(value, bool) or not isinstance(value, types):
        return False
    return low <= value <= high  # type: ignore[operator]


def _one_of(*options: str | bool) -> Kind:
    """Some texts, and perhaps true and false."""

    def fits(value: object) -> bool:
        # 1 == True and 0 == False, but neither is a truth value.
        return any(value is option or (isinstance(option, str) and value == option) for option in options)

    *first, last = (str(option).lower() if isinstance(option, bool) else f'"{option}"' for option in options)
    types = dict.fromkeys("boolean" if isinstance(option, bool) else "string" for option in options)
    return _kind(f"{', '.join(first)} or {last}", {"type": [*types], "enum": [*options]}, fits)


def _whole_number(low: int, high: int) -> Kind:
    """A whole number from `low` to `high`, both included."""
    schema = {"type": "integer", "minimum": low, "maximum": high}
    words = f"a whole number from {low} to {high}"
    return _kind(words, schema, lambda value: _between(low, value, high, (int,)))


def _share_or_off() -> Kind:
    """A number from 0 on below 1, or false, which becomes 0.0."""
    share = {"type": ["number", "boolean"], "minimum": 0, "exclusiveMaximum": 1}
    schema = {**share, "not": {"const": True}}
    words = "false or a number from 0 on below 1"
    return _kind(words, schema, lambda value: value is False or (_between(0, value, 1) and value != 1), float)


def _url() -> Kind:
    """An address of a server. Messages do not repeat one that does not fit: it may hold a password."""

    def read(value: object) -> tuple[Any, str]:
        if isinstance(value, str) and is_url(value):
            return value, ""
        return None, f"must be {URL_WORDS}; it is ignored"

    return Kind(URL_WORDS, {"type": "string"}, read)


def _list(
    read_one: Callable[[Any], Any], words: str, most: int, items: Mapping[str, Any] = MappingProxyType({})
) -> Kind:
    """A list of `most` entries at most; the setting becomes a tuple of what `read_one` makes of them.

    read_one: gives None for what does not fit. items: an entry, as JSON Schema; a text unless given. Entries
    that fit count even where others do not; if none does, the default counts.
    """
    words = f"a list of at most {most} {words}"

    def read(value: object) -> tuple[Any, str]:
        given = value if isinstance(value, list) else []
        found = [read_one(one) for one in given[:most]]
        good = tuple(one for one in found if one is not None)
        if isinstance(value, list) and len(good) == len(given):
            return good, ""
        return good or None, f"must be {words}; what does not fit is ignored"

    return Kind(words, {"type": "array", "items": dict(items) or {"type": "string"}, "maxItems": most}, read)


def _accepted(accepts: Callable[[str], bool]) -> Callable[[Any], str | None]:
    return lambda one: one if isinstance(one, str) and accepts(one) else None


_SHARES = ("acceptFrom", "rejectBelow")
_TEXTS = ("language", "path")


def _overrides() -> Kind:
    """A list of objects, each of which makes tiers stricter somewhere."""
    share = {"type": "number", "minimum": 0, "maximum": 1}
    properties = {**{name: {"type": "string"} for name in _TEXTS}, **dict.fromkeys(_SHARES, share)}
    entry = {"type": "object", "properties": properties, "additionalProperties": False}
    words = (
        'objects such as {"path": "crypto/**", "acceptFrom": 0.95}: a language or a path, and acceptFrom or '
        "rejectBelow, from 0 to 1"
    )
    return _list(_override, words, 50, entry)


def _override(value: object) -> Override | None:
    """The override in an entry of the list; None if it is none."""
    if not isinstance(value, Mapping) or not set(value) <= {*_TEXTS, *_SHARES}:
        return None
    # Editors send unset members as null.
    given = {name: one for name, one in value.items() if one is not None}
    if not given.keys() & {*_TEXTS} or not given.keys() & {*_SHARES}:
        return None
    language, path = given.get("language"), given.get("path")
    if language is not None and not (isinstance(language, str) and is_choice(language) and language != ANY):
        return None
    if path is not None and not (isinstance(path, str) and is_pattern(path)):
        return None
    accept, reject = (given.get(name, 0) for name in _SHARES)
    if not (_between(0, accept, 1) and _between(0, reject, 1)):
        return None
    language = None if language is None else identifier_of(language)
    return Override(language=language, path=path, accept_from=float(accept), reject_below=float(reject))


_SWITCH = _kind("true or false", {"type": "boolean"}, lambda value: isinstance(value, bool))
_TEXT = _kind("a text", {"type": "string"}, lambda value: isinstance(value, str))
_LAYERS = _kind(
    '"auto" or a whole number from 0 to 100000',
    {"type": "integer", "minimum": 0, "maximum": 100_000},  # editors leave it unset for "auto"
    lambda value: value == "auto" or _between(0, value, 100_000, (int,)),
    lambda value: None if value == "auto" else value,
)
_SHARE = _kind(
    "a number from 0 to 1",
    {"type": "number", "minimum": 0, "maximum": 1},
    lambda value: _between(0, value, 1),
    float,
)


@attrs.frozen(eq=False, repr=False)
class Setting:
    """A setting as its users know it.

    key: its name in a configuration, with dots. kind: the values it takes. title: its name for people, for
    pages of settings. meaning: its purpose, a clause of Markdown. choices: of an enumeration, a name for each
    value, and after a colon its effect, in Markdown. unset: the effect of leaving it unset, if the default
    does not say it. option, variable: its option of the command line, its environment variable. see: the page
    of the documentation with more, a Markdown link. in_workspace: whether a workspace can set it. attribute,
    default: of the field that holds it.
    """

    key: str
    kind: Kind
    title: str
    meaning: str
    choices: tuple[str, ...] = ()
    unset: str = ""
    option: str = ""
    variable: str = ""
    see: str = ""
    in_workspace: bool = False
    attribute: str = ""
    default: Any = None


def _setting(key: str, kind: Kind, default: Any, title: str, meaning: str, **more: Any) -> Any:
    """A field that declares a setting."""
    declared = Setting(key, kind, title, meaning, default=default, **more)
    converter: Any = tuple if isinstance(default, tuple) else None
    return attrs.field(default=default, converter=converter, metadata={"setting": declared})


@attrs.frozen
class Settings:
    """The settings; `{}` is a complete configuration.

    Only the user chooses them: on the command line, in the environment, in `config.toml`, or through an
    editor that is trusted (`serve --trust-editor`). A workspace is not trusted: nothing that comes with a
    checkout may name a file, a host or a command, or change what a tier means. It sets those `in_workspace`
    alone.

    given: the fields that were set, be it to their defaults; settings that differ in it alone are equal.
    """

    inline_completion: bool = _setting(
        "inlineCompletion.enabled",
        _SWITCH,
        True,
        "Completions as ghost text",
        "completions as ghost text",
        in_workspace=True,
    )
    completion: Literal["auto", True, False] = _setting(
        "completion.enabled",
        _one_of("auto", True, False),
        "auto",
        "Completions in the menu",
        "completions in the completion menu",
        choices=("Automatic: where the editor has no ghost text", "On", "Off"),
    )
    window: Literal["auto", "small", "large"] = _setting(
        "window",
        _one_of("auto", "small", "large"),
        "auto",
        "Code that the model is shown",
        "how much code the model is shown",
        choices=(
            "Automatic: `large` where a calibrator knows it",
            "Small: some 40 lines",
            "Large: twice as many, and for some models pieces of other files",
        ),
        see="[more](models.md#the-window)",
    )
    prefetch: bool = _setting(
        "prefetch.enabled",
        _SWITCH,
        True,
        "Work ahead where the cursor rests",
        "where the cursor rests, read the text before the first key, and complete the line after an accepted "
        "suggestion; not on battery",
        see="[when](#when-the-model-is-asked)",
    )
    next_edit: bool = _setting(
        "nextEdit.enabled",
        _SWITCH,
        True,
        "The next edit",
        "offer a change that you have made in a line where it probably belongs next; no model is asked",
        see="[more](confidence.md#next-edits)",
    )
    languages: tuple[str, ...] = _setting(
        "languages",
        _list(_accepted(is_choice), 'language identifiers such as "go"; "*" for all but text', 200),
        (ANY,),
        "Languages",
        'languages with automatic completions; `"*"` stands for all but text such as Markdown and commit '
        "messages",
        see="[when](#when-the-model-is-asked)",
        in_workspace=True,
    )
    comments: Literal["on", "hand", "off"] | None = _setting(
        "comments",
        _one_of("on", "hand", "off"),
        None,
        "Completions in comments",
        "completions in comments and documentation strings",
        choices=("On: as elsewhere", "By hand: those that you ask for by hand", "Off: none"),
        unset="`on` for code models, `hand` for others",
        see="[when](#when-the-model-is-asked)",
    )
    hide_below: float | None = _setting(
        "hideBelow",
        _share_or_off(),
        None,
        "Hide unlikely completions",
        "hide completions that are less likely than this to be kept, as they are or after an edit of at most "
        "half of them. One in a hundred is shown all the same, and everything that you ask for by hand. 0 or "
        "`false`: hide nothing",
        unset="0.125",
        see="[more](confidence.md#hiding)",
    )
    sure: Literal["mark", "cut", "off"] = _setting(
        "sure",
        _one_of("mark", "cut", "off"),
        "mark",
        "The sure beginning of a line",
        "the beginning of a line that is of tier accept, where the whole line is not",
        choices=("Mark: its end is named", "Cut: it is offered alone", "Off: nothing is said of it"),
        see="[more](confidence.md#how-far-a-line-can-be-trusted)",
    )
    hover: bool = _setting(
        "hover.enabled",
        _SWITCH,
        True,
        "Summaries in the hover",
        "summaries in the hover, on signatures and on calls of functions in the same file. Of a model that "
        "is too small for them only with `true` in config.toml",
        see="[more](how-to.md#summaries)",
    )
    code_lens: bool = _setting(
        "codeLens.enabled",
        _SWITCH,
        False,
        "Summaries above functions",
        "a line above each function without documentation, with its summary and the tier",
    )
    diagnostics: bool = _setting(
        "diagnostics.enabled",
        _SWITCH,
        True,
        "Marks on inserted suggestions",
        "mark inserted suggestions until they are changed, reviewed or saved",
    )
    policy: Literal["threshold", "risk"] | None = _setting(
        "tiers.policy",
        _one_of("threshold", "risk"),
        None,
        "How tiers are decided",
        "how tiers follow from probabilities",
        choices=(
            "Threshold: by the thresholds of the preset, or your own",
            "Risk: accept only where a certificate limits the share of wrong ones",
        ),
        unset='`"threshold"`',
        see="[more](confidence.md#by-risk)",
    )
    preset: Literal["cautious", "balanced", "lenient"] | None = _setting(
        "tiers.preset",
        _one_of("cautious", "balanced", "lenient"),
        None,
        "How strict the tiers are",
        "the thresholds of the tiers, and with the policy `risk` the certificate's limit",
        choices=(
            "Cautious: for critical code (accept from 90 %, reject below 40 %, at most 5 % wrong)",
            "Balanced: for accepting at a glance (78 %, 25 %, 10 %)",
            "Lenient: for lines that you read anyway (66 %, 10 %, 20 %)",
        ),
        unset='`"balanced"`',
        see="[more](confidence.md#presets)",
    )
    accept_from: float | None = _setting(
        "tiers.acceptFrom",
        _SHARE,
        None,
        "Accept from",
        "the lowest probability of the tier accept",
        unset="the preset's",
    )
    reject_below: float | None = _setting(
        "tiers.rejectBelow",
        _SHARE,
        None,
        "Reject below",
        "probabilities below this one are of the tier reject",
        unset="the preset's",
    )
    overrides: tuple[Override, ...] = _setting(
        "tiers.overrides",
        _overrides(),
        (),
        "Stricter tiers in some places",
        "stricter tiers for a language or a path, whatever the policy says; those from all places count "
        "together",
        see="[more](confidence.md#overrides)",
    )
    measure: Literal["best", "geometric-mean"] = _setting(
        "confidence.measure",
        _one_of("best", "geometric-mean"),
        "best",
        "Evidence for the confidence",
        "the evidence for the confidence",
        choices=(
            "Best: everything known of a line",
            "Geometric mean: the mean probability of its first tokens",
        ),
        see="[more](confidence.md)",
    )
    auto_refit: bool = _setting(
        "autoRefit",
        _SWITCH,
        True,
        "Refit by itself",
        "refit by itself, in a pause, once 30 lines and a fifth more have labels than at the last refit",
        see="[more](learning.md#refits)",
    )
    feedback: bool = _setting(
        "feedback.enabled",
        _SWITCH,
        True,
        "Learn from what you keep",
        "remember on this machine what became of suggestions, to learn from it",
    )
    retention_days: int = _setting(
        "feedback.retentionDays",
        _whole_number(1, 36_500),
        365,
        "Days that feedback is kept",
        "days after which feedback is deleted, a little at a time",
    )
    exclude: tuple[str, ...] = _setting(
        "exclude",
        _list(_accepted(is_pattern), 'patterns such as "generated/**"', 200),
        (),
        "Excluded documents",
        "patterns of documents that no model may see, besides files that hold secrets (`.env`, keys)",
        see="[more](#excluded-documents)",
        in_workspace=True,
    )
    model: str | None = _setting(
        "model",
        _TEXT,
        None,
        "Model",
        "a model's name, or the absolute path of a GGUF file",
        unset="the best installed one",
        option="--model",
        variable="LSP_CALIB_MODEL",
        see="[models](models.md)",
    )
    threads: int = _setting(
        "threads",
        _whole_number(0, 512),
        0,
        "Threads",
        "the most threads to decode with; 0: automatic. Fewer are used beside other busy programs",
        option="--threads",
    )
    gpu_layers: int | None = _setting(
        "gpuLayers",
        _LAYERS,
        None,
        "Layers on the GPU",
        "layers to put on the GPU; 0: none. By default both it and the processor are tried, and the faster "
        "one is used",
        unset='`"auto"`',
        option="--gpu-layers",
    )
    cache_mb: int = _setting(
        "cacheMb",
        _whole_number(0, 100_000),
        CACHE_MB,
        "Memory for places you have left",
        "the most megabytes of memory for places that you have left, so that the model need not read them "
        "again; 0: none",
        see="[more](engine.md#what-is-not-computed-again)",
    )
    remote_url: str | None = _setting(
        "remote.url",
        _url(),
        None,
        "Remote server",
        "an OpenAI-compatible server to ask instead of a model on this machine",
        unset="none",
        option="--remote",
        variable="LSP_CALIB_REMOTE_URL",
        see="[more](models.md#remote-servers)",
    )
    remote_model: str | None = _setting(
        "remote.model",
        _TEXT,
        None,
        "Remote model",
        "the server's name for the model, or that of a card",
        unset="the only one there",
        variable="LSP_CALIB_REMOTE_MODEL",
    )
    remote_key_file: str | None = _setting(
        "remote.keyFile",
        _TEXT,
        None,
        "File of the remote server's key",
        "the absolute path of a file with the server's key that nobody else can read",
        unset="none",
    )
    given: frozenset[str] = attrs.field(default=frozenset(), kw_only=True, eq=False, repr=False)


SETTINGS: Mapping[str, Setting] = MappingProxyType(
    {
        field.metadata["setting"].key: attrs.evolve(field.metadata["setting"], attribute=field.name)
        for field in attrs.fields(Settings)
        if "setting" in field.metadata
    }
)
"""The settings by key."""

_BY_PRESET = "The preset decides it: choose tiers.preset, or set tiers.acceptFrom and tiers.rejectBelow."
_HINTS = "These marks are hints. Set diagnostics.enabled to false for none."
REMOVED: Mapping[str, str] = MappingProxyType(
    {
        "multiline": "One line comes by itself. Ask by hand on an empty line for a block. Remove it.",
        "debounceMs": "A request waits only while the model works on an outdated one. Remove it.",
        "onBattery": "Nothing is worked ahead on battery. Use the command lsp-calib.pause for less.",
        "hover.scope": "Hovers show summaries on signatures and on names of called functions. Remove it.",
        "hover.budgetMs": "A hover waits 150 ms for its summary in Neovim, 3 s elsewhere. Remove it.",
        "hover.ahead": "Summaries are made ahead on mains. Set hover.enabled to false for none.",
        "diagnostics.severity.accept": _HINTS,
        "diagnostics.severity.review": _HINTS,
        "diagnostics.severity.reject": _HINTS.replace("hints", "information"),
        "tiers.risk": _BY_PRESET,
        "tiers.confidence": _BY_PRESET,
        "tiers.costs.wrongAccepted": "Tiers follow from thresholds. Set tiers.acceptFrom to 1 - 1 / cost.",
        "tiers.costs.rightRejected": "Tiers follow from thresholds. Set tiers.rejectBelow to 1 / cost.",
        "summary.criterion": "The criterion is that most people agree (most-agree). Remove it.",
        "feedback.replay": "Typed lines are not completed again. Run lsp-calib calibrate --from-git instead.",
        "feedback.gitHistory": "Nothing is offered. Run lsp-calib calibrate --from-git yourself.",
        "modelIdleSeconds": "The model stays loaded for 5 minutes after its last user. Remove it.",
        "mlock": "The system may swap the model's weights out. Remove it.",
        'tiers.policy "cost"': "The thresholds of tiers.preset hold. Set others in tiers.acceptFrom.",
        'confidence.measure "total"': '"best" is used. Remove it.',
    }
)
"""What holds now in place of a setting, or of a value, that is gone, and what to do."""

TRUSTED_STEM = "lspCalib.trusted."
DEFAULTS = Settings()


def resolve(command_line: Settings, editor: Settings = DEFAULTS) -> tuple[Settings, list[str]]:
    """Command line over environment over editor over the user's `config.toml`, setting by setting.

    But a `model` that is named in a place above the one with `remote.url` is asked on this machine: the
    address and its key are dropped. `remote.keyFile` counts only where the `remote.url` in force was set.
    Patterns of `exclude`, and overrides of the tiers, from all places count together. Raises SettingsError if
    there is no state folder.
    """
    user, problems = _user_file()
    environment, more = _environment()
    levels = (command_line, environment, editor, user)
    chosen: dict[str, Any] = {one.attribute: _first(levels, one.attribute) for one in SETTINGS.values()}
    # A key belongs to the server it was given for: it is not sent to a server that was named elsewhere.
    named = next((level for level in levels if level.remote_url is not None), None)
    if named is not None:
        chosen["remote_key_file"] = named.remote_key_file
        if any(level.model for level in levels[: levels.index(named)]):
            chosen["remote_url"] = chosen["remote_key_file"] = None
    for name in ("exclude", "overrides"):
        chosen[name] = dict.fromkeys(one for level in levels for one in getattr(level, name))
    given = frozenset().union(*(level.given for level in levels))
    settings = Settings(**chosen, given=given)
    warning = in_the_clear(settings.remote_url or "")
    return settings, [*problems, *more, *([warning] if warning else [])]


def _first(levels: tuple[Settings, ...], name: str) -> Any:
    """The first value that was set. One that is not the default was, also where `given` does not say so."""
    default = getattr(DEFAULTS, name)
    values = ((getattr(level, name), name in level.given) for level in levels)
    return next((value for value, given in values if given or value != default), default)


def _environment() -> tuple[Settings, list[str]]:
    """The settings with a variable. An empty variable counts as unset."""
    variables = {setting.key: setting.variable for setting in SETTINGS.values() if setting.variable}
    return parse(
        {key: os.environ.get(variable) or None for key, variable in variables.items()}, "environment: "
    )


def _user_file() -> tuple[Settings, list[str]]:
    path = home.state_dir() / "config.toml"
    try:
        text = read_file(path, _MOST_BYTES).decode("utf-8")
        import tomllib

        return parse(tomllib.loads(text), "config.toml: ")
    except FileNotFoundError:
        return DEFAULTS, []
    except RecursionError:
        reason = "its values are nested too deeply"
    except (OSError, ValueError) as error:  # it may be no UTF-8, or no TOML
        reason = why(error)
    return DEFAULTS, [f"{path} cannot be read and is ignored: {reason}."]


def parse(raw: object, stem: str = TRUSTED_STEM) -> tuple[Settings, list[str]]:
    """The user's own settings from an object, and a message for each key that cannot be used.

    stem: the prefix of keys in messages.
    """
    changes, problems, _ = _read(raw, SETTINGS, stem)
    low, high = changes.get("reject_below"), changes.get("accept_from")
    if low is not None and high is not None and low > high:
        problems.append(
            f"{stem}tiers: rejectBelow {low} is above acceptFrom {high}; the preset's thresholds are used."
        )
        del changes["reject_below"], changes["accept_from"]
    return Settings(**changes, given=frozenset(changes)), problems


def in_workspace(raw: object, own: Settings) -> tuple[Settings, list[str]]:
    """The user's settings with those of a workspace, from an editor's object, and messages as for `parse`.

    What a workspace excludes comes to what the user does; its other settings go before the user's.
    """
    allowed = {key: setting for key, setting in SETTINGS.items() if setting.in_workspace}
    changes, problems, refused = _read(raw, allowed, "lspCalib.")
    if refused:
        free = ", ".join(allowed)
        problems.append(
            f"These settings of lspCalib do not count here, where a workspace could bring them along: "
            f"{', '.join(refused)}. A workspace sets {free} alone. Set the others in your config.toml, in VS "
            "Code's user settings or in Neovim's setup()."
        )
    if "exclude" in changes:
        changes["exclude"] = dict.fromkeys((*own.exclude, *changes["exclude"]))
    return attrs.evolve(own, **changes), problems


def _read(
    raw: object, table: Mapping[str, Setting], stem: str
) -> tuple[dict[str, Any], list[str], list[str]]:
    """The fields that an object sets, messages, and keys of settings that are not in the table."""
    whole = stem.rstrip(".: ")
    if raw is None or raw == []:  # Lua has one empty table for lists and objects
        return {}, [], []
    if not isinstance(raw, Mapping):
        return {}, [f"{whole} must be an object, not {type(raw).__name__}; the defaults are used."], []
    changes: dict[str, Any] = {}
    problems: list[str] = []
    refused: dict[str, None] = {}
    for key, value in _flat(raw):
        if value is None or (key == "trusted" and table is not SETTINGS):  # `parse` reads that one
            continue
        setting, gone = table.get(key), REMOVED.get(key) or REMOVED.get(f'{key} "{value}"')
        if gone:
            named = key if key in REMOVED else f"{key} {json.dumps(value)}"
            problems.append(f"{stem}{named} was removed. {gone}")
        elif setting is None and key in SETTINGS:
            refused[key] = None
        elif setting is None:
            problems.append(f"{stem}{_shortened(key)} is not a setting; it is ignored.")
        else:
            found, problem = setting.kind.read(value)
            # Without a problem None is a value too, which "auto" has become.
            if found is not None or not problem:
                changes[setting.attribute] = found
            if problem:
                problems.append(f"{stem}{key} {problem}.")
    if len(problems) > _MOST_PROBLEMS:
        problems[_MOST_PROBLEMS:] = [f"{whole}: {len(problems) - _MOST_PROBLEMS} more settings are wrong."]
    return changes, problems, [*refused]


def _flat(raw: Mapping[str, Any], stem: str = "") -> Iterator[tuple[str, Any]]:
    """Nested objects as dotted keys; dotted keys themselves are taken as they are."""
    for key, value in raw.items():
        name = f"{stem}{key}"
        is_group = isinstance(value, Mapping) or value == []
        if is_group and any(one.startswith(f"{name}.") for one in (*SETTINGS, *REMOVED)):
            yield from _flat(value or {}, f"{name}.")
        else:
            yield name, value


def engine_choice(settings: Settings) -> EngineChoice:
    """The engine that the settings name."""
    remote = None
    if settings.remote_url:
        file = Path(settings.remote_key_file) if settings.remote_key_file else None
        remote = Remote(settings.remote_url, settings.remote_model, file)
    return EngineChoice(
        model=settings.model,
        threads=settings.threads,
        gpu_layers=settings.gpu_layers,
        cache_mb=settings.cache_mb,
        remote=remote,
    )


def tier_policy(settings: Settings) -> Policy:
    """The policy of the tiers that the settings ask for."""
    from lsp_calib.calibration.tiers import policy_of  # it imports numpy

    return policy_of(settings.policy, settings.preset, settings.accept_from, settings.reject_below)
