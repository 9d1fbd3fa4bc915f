"""The table of settings as others read it: Markdown for the documentation, JSON for VS Code.

Called by developers (`make settings`), who write what it returns into docs/reference.md and the extension.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from lsp_calib.completion.service import HIDE_BELOW
from lsp_calib.settings import SETTINGS, Setting

# What counts of each folder of a workspace with several. A server has one value of the others for all.
PER_FOLDER = ("exclude",)
# What is about one machine, in VS Code under `lspCalib.trusted`: it is not synchronised with others.
OF_MACHINE = ("model", "threads", "gpuLayers", "cacheMb", "remote", "feedback.retentionDays")
# What most users need, in the order of VS Code's page. The other settings follow in a section of their own.
FIRST = (
    *("model", "inlineCompletion.enabled", "languages", "nextEdit.enabled"),
    *("tiers.preset", "hideBelow", "feedback.enabled"),
)
# The groups of the documentation, and the first parts of the keys in each. The rest choose the model.
GROUPS = {
    "completions": (
        *("inlineCompletion", "completion", "window", "prefetch", "languages"),
        *("comments", "hideBelow", "sure", "nextEdit"),
    ),
    "summaries": ("hover", "codeLens"),
    "tiers": ("tiers", "confidence", "diagnostics"),
    "learning": ("autoRefit", "feedback", "exclude"),
    "model": (),
}


def markdown_tables() -> dict[str, str]:
    """A table in Markdown for each group of settings. ‡ marks those that a workspace can set."""
    tables: dict[str, list[Setting]] = {name: [] for name in GROUPS}
    for key, setting in SETTINGS.items():
        first = key.partition(".")[0]
        name = next((name for name, parts in GROUPS.items() if first in parts), "model")
        tables[name].append(setting)
    return {f"settings: {name}": _table(settings) for name, settings in tables.items()}


def vscode_sections(own: Mapping[str, dict[str, Any]]) -> list[dict[str, Any]]:
    """The settings as `contributes.configuration` of a VS Code extension: what most users need, the rest.

    own: the extension's own settings, by their full names; they begin the second section. The scope of those
    that no workspace sets is `machine` or `application`: VS Code takes them from none. The others have
    `window` or `resource`. Only what a user sets is sent to the server: a default is shown, and may be null.
    """
    served = {key: _property(setting) for key, setting in SETTINGS.items()}
    first = {_full_name(key): served.pop(key) for key in FIRST}
    rest = {**own, **{_full_name(key): one for key, one in served.items()}}
    return [
        {"title": "LSP Calib", "properties": _in_order(first)},
        {
            "title": "Advanced",
            "properties": {name: {**one, "tags": ["advanced"]} for name, one in _in_order(rest).items()},
        },
    ]


def _in_order(properties: Mapping[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """VS Code sorts by name what has no number."""
    return {name: {**one, "order": at} for at, (name, one) in enumerate(properties.items(), 1)}


def _full_name(key: str) -> str:
    return f"lspCalib.{'trusted.' if key.startswith(OF_MACHINE) else ''}{key}"


def _table(settings: Iterable[Setting]) -> str:
    rows = "".join(f"| {' | '.join(_row(setting))} |\n" for setting in settings)
    return f"| key | default | value | meaning |\n|---|---|---|---|\n{rows}"


def _row(setting: Setting) -> tuple[str, str, str, str]:
    also = ", ".join(f"`{name}`" for name in (setting.option, setting.variable) if name)
    return (
        f"`{setting.key}`" + (" ‡" if setting.in_workspace else "") + (f" ({also})" if also else ""),
        _default(setting),
        setting.kind.words,
        _meaning(setting) + (f" ({setting.see})" if setting.see else ""),
    )


def _default(setting: Setting) -> str:
    """What holds where nothing is set, as Markdown."""
    return setting.unset or f"`{json.dumps(setting.default)}`"


def _meaning(setting: Setting) -> str:
    """Its purpose, with the effect of each value of an enumeration."""
    pairs = zip(setting.kind.schema.get("enum", ()), _choices(setting), strict=True)
    effects = [f"`{value}`: {effect}" for value, (_, effect) in pairs if effect]
    return f"{setting.meaning}. {'; '.join(effects)}" if effects else setting.meaning


def _choices(setting: Setting) -> list[tuple[str, str]]:
    """The name and the effect, "" for what goes without saying, of each value of an enumeration."""
    parts = [choice.partition(": ") for choice in setting.choices]
    return [(name, effect) for name, _, effect in parts]


def _sentence(clause: str) -> str:
    return f"{clause[0].upper()}{clause[1:]}."


def _property(setting: Setting) -> dict[str, Any]:
    """A setting as VS Code draws it: a check box, an enumeration, a number, a text or a list, with a title.

    VS Code has a field for nothing else: what may be of several types it leaves to settings.json.
    """
    scope = "machine" if setting.key.startswith(OF_MACHINE) else "application"
    if setting.in_workspace:
        scope = "resource" if setting.key in PER_FOLDER else "window"
    words, title = _sentence(setting.meaning), f"{setting.title}."
    if words != title:  # of a title VS Code draws nothing yet
        words = f"**{title}** {words}"
    schema = dict(setting.kind.schema)
    if "enum" in schema:
        # Null leaves the choice to config.toml; VS Code unsets what is set to its default.
        choices, unset = _choices(setting), _default(setting)
        named = {json.dumps(value): name for value, (name, _) in zip(schema["enum"], choices, strict=True)}
        # Of what depends on the model or on another setting there is no one name.
        nothing = f"Default: {named[plain].lower()}" if (plain := unset.strip("`")) in named else "Default"
        names, effects = zip((nothing, f"Unset: {unset}."), *choices, strict=True)
        types = [schema["type"]] if isinstance(schema["type"], str) else schema["type"]
        schema |= {
            "type": [*types, "null"],
            "enum": [None, *schema["enum"]],
            "enumItemLabels": [*names],
            "markdownEnumDescriptions": [effects[0], *(_sentence(one) if one else "" for one in effects[1:])],
            "default": None,
        }
    elif setting.key == "hideBelow":  # false is 0
        schema = {"type": "number", "minimum": 0, "exclusiveMaximum": 1, "default": HIDE_BELOW}
    elif schema["type"] in ("number", "integer") and setting.default is None:
        schema |= {"type": [schema["type"], "null"], "default": None}
        words += f" Default: {_default(setting)}."
    elif schema["type"] == "string":
        schema["default"] = ""
        words += f" Empty: {_default(setting)}."
    else:
        default = setting.default
        schema["default"] = [*default] if isinstance(default, tuple) else default
    return {"title": setting.title, **schema, "scope": scope, "markdownDescription": words}
