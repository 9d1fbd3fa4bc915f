"""The table of settings as others read it: Markdown for the documentation, JSON for VS Code.

Called by developers (`make settings`), who write what it returns into docs/reference.md and the extension.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from lsp_calib.settings.kinds import THE_USERS
from lsp_calib.settings.table import TRUSTED, WORKSPACE, Setting

# What counts of each folder of a workspace with several. A server has one value of the others for all.
PER_FOLDER = ("exclude",)
# The groups of the documentation, and the first parts of the keys in each. The rest choose the model.
GROUPS = {
    "completions": (
        *("inlineCompletion", "completion", "multiline", "window", "prefetch", "debounceMs", "languages"),
        *("comments", "onBattery", "hideBelow", "sure"),
    ),
    "summaries": ("hover", "codeLens", "summary"),
    "tiers": ("tiers", "confidence", "diagnostics"),
    "learning": ("autoRefit", "feedback", "exclude"),
    "model": (),
}


def markdown_tables() -> dict[str, str]:
    """A table in Markdown for each group of settings. † marks those that a workspace cannot set."""
    tables: dict[str, list[Setting]] = {name: [] for name in GROUPS}
    for key, setting in {**TRUSTED, **WORKSPACE}.items():
        first = key.partition(".")[0]
        name = next((name for name, parts in GROUPS.items() if first in parts), "model")
        tables[name].append(setting)
    return {f"settings: {name}": _table(settings) for name, settings in tables.items()}


def vscode_properties() -> dict[str, dict[str, Any]]:
    """The settings as `contributes.configuration.properties` of a VS Code extension, by their full names.

    Those that no workspace may change have the scope `machine`: VS Code takes them from none. The others have
    `window`: VS Code says in the settings of a single folder that they do not count there. An unset one is
    null: the server's default counts.
    """
    workspace = {f"lspCalib.{key}": _property(setting) for key, setting in WORKSPACE.items()}
    trusted = {
        f"lspCalib.trusted.{key}": _property(setting, trusted=True)
        for key, setting in TRUSTED.items()
        if key not in WORKSPACE
    }
    return {**trusted, **workspace}


def _table(settings: Iterable[Setting]) -> str:
    rows = "".join(f"| {' | '.join(_row(setting))} |\n" for setting in settings)
    return f"| key | default | value | meaning |\n|---|---|---|---|\n{rows}"


def _row(setting: Setting) -> tuple[str, str, str, str]:
    also = ", ".join(f"`{name}`" for name in (setting.option, setting.variable) if name)
    return (
        f"`{setting.key}`" + ("" if setting.key in WORKSPACE else " †") + (f" ({also})" if also else ""),
        _default(setting),
        setting.kind.words,
        setting.meaning + (f" ({setting.see})" if setting.see else ""),
    )


def _default(setting: Setting) -> str:
    """What holds where nothing is set, as Markdown."""
    value = setting.default
    if isinstance(value, float):
        value = int(value) if value.is_integer() else value
    return setting.unset or f"`{json.dumps(value)}`"


def _property(setting: Setting, *, trusted: bool = False) -> dict[str, Any]:
    of_machine = trusted or setting.bound is THE_USERS
    schema = setting.kind.schema
    types = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
    shared = "resource" if setting.key in PER_FOLDER else "window"
    words = f"{setting.meaning[0].upper()}{setting.meaning[1:]}. Default: {_default(setting)}."
    return {
        **schema,
        "type": [*types, "null"],
        **({"enum": [*schema["enum"], None]} if "enum" in schema else {}),
        "default": None,
        "scope": "machine" if of_machine else shared,
        "markdownDescription": words + (" Workspace settings cannot change it." if trusted else ""),
    }
