"""The table of settings as others read it: Markdown for the documentation, JSON for VS Code.

Called by developers (`make settings`), who write what it returns into docs/reference.md and the extension.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from lsp_calib.settings import SETTINGS, Setting

# What counts of each folder of a workspace with several. A server has one value of the others for all.
PER_FOLDER = ("exclude",)
# What is about one machine, in VS Code under `lspCalib.trusted`: it is not synchronised with others.
OF_MACHINE = ("model", "threads", "gpuLayers", "cacheMb", "remote", "feedback.retentionDays")
# The groups of the documentation, and the first parts of the keys in each. The rest choose the model.
GROUPS = {
    "completions": (
        *("inlineCompletion", "completion", "multiline", "window", "prefetch", "languages"),
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


def vscode_properties() -> dict[str, dict[str, Any]]:
    """The settings as `contributes.configuration.properties` of a VS Code extension, by their full names.

    The scope of those that no workspace sets is `machine` or `application`: VS Code takes them from none. The
    others have `window` or `resource`. An unset one is null: the server's default counts.
    """
    properties = {}
    for key, setting in SETTINGS.items():
        of_machine = key.startswith(OF_MACHINE)
        scope = "machine" if of_machine else "application"
        if setting.in_workspace:
            scope = "resource" if key in PER_FOLDER else "window"
        properties[f"lspCalib.{'trusted.' if of_machine else ''}{key}"] = _property(setting, scope)
    return properties


def _table(settings: Iterable[Setting]) -> str:
    rows = "".join(f"| {' | '.join(_row(setting))} |\n" for setting in settings)
    return f"| key | default | value | meaning |\n|---|---|---|---|\n{rows}"


def _row(setting: Setting) -> tuple[str, str, str, str]:
    also = ", ".join(f"`{name}`" for name in (setting.option, setting.variable) if name)
    return (
        f"`{setting.key}`" + (" ‡" if setting.in_workspace else "") + (f" ({also})" if also else ""),
        _default(setting),
        setting.kind.words,
        setting.meaning + (f" ({setting.see})" if setting.see else ""),
    )


def _default(setting: Setting) -> str:
    """What holds where nothing is set, as Markdown."""
    return setting.unset or f"`{json.dumps(setting.default)}`"


def _property(setting: Setting, scope: str) -> dict[str, Any]:
    schema = setting.kind.schema
    types = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
    words = f"{setting.meaning[0].upper()}{setting.meaning[1:]}. Default: {_default(setting)}."
    return {
        **schema,
        "type": [*types, "null"],
        **({"enum": [*schema["enum"], None]} if "enum" in schema else {}),
        "default": None,
        "scope": scope,
        "markdownDescription": words,
    }
