"""The report of a demo: its steps, the evidence, and the JSON document made of them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import attrs
from lsprotocol import types
from lsprotocol.converters import get_converter

from lsp_calib.errors import LspCalibError
from lsp_calib.tools.demo.user import Shown


@attrs.define
class DemoReport:
    """The events of the demo, as `--json` prints them.

    diagnostics: as pulled when a suggestion was inserted. stale: suggestions whose diagnostic remained after
    their line was edited. hidden: places where the server showed nothing by itself, and why; the user asked
    there by hand.
    """

    steps: list[dict[str, Any]] = attrs.field(factory=list)
    suggestions: list[Shown] = attrs.field(factory=list)
    hover: dict[str, Any] = attrs.field(factory=dict)
    diagnostics: list[types.Diagnostic] = attrs.field(factory=list)
    stale: list[str] = attrs.field(factory=list)
    hidden: list[dict[str, Any]] = attrs.field(factory=list)
    refit: dict[str, Any] = attrs.field(factory=dict)
    error: str | None = None

    @property
    def ok(self) -> bool:
        return self.error is None and bool(self.steps) and all(step["ok"] for step in self.steps)

    @contextmanager
    def step(self, name: str) -> Iterator[dict[str, Any]]:
        """A running step. The caller sets its `ok` from the evidence; until then the step is not ok."""
        entry: dict[str, Any] = {"name": name, "ok": False, "ms": 0.0}
        self.steps.append(entry)
        started = time.perf_counter()
        try:
            yield entry
        except LspCalibError as error:
            entry["ok"], entry["error"] = False, str(error)
            raise
        finally:
            entry["ms"] = since(started)

    def to_json(self) -> dict[str, Any]:
        labelled = [one for one in self.suggestions if one.label is not None]
        document: dict[str, Any] = {
            "steps": self.steps,
            "suggestions": [one.to_json() for one in self.suggestions],
            "hidden": self.hidden,
            "hover": self.hover,
            "diagnostics": get_converter().unstructure(self.diagnostics),
            "labels": [{"id": one.id, **(one.label or {})} for one in labelled],
            "refit": self.refit,
        }
        return document if self.error is None else {**document, "error": self.error}


def since(started: float) -> float:
    """Milliseconds since a reading of `time.perf_counter`."""
    return round((time.perf_counter() - started) * 1e3, 1)
