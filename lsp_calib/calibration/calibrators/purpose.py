"""The purpose of a calibrator, and the origin of its labels."""

from __future__ import annotations

import re
from typing import Literal

import attrs

from lsp_calib.languages import bounded, name_of
from lsp_calib.values import ModelIdentity

Task = Literal["line", "summary"]
Source = Literal["prior", "shipped", "workspace", "personal"]
State = Literal["shipped", "learning", "ready", "drifted"]

TASKS: tuple[Task, ...] = ("line", "summary")
SOURCES: tuple[Source, ...] = ("prior", "shipped", "workspace", "personal")
STATES: tuple[State, ...] = ("shipped", "learning", "ready", "drifted")

_ANSWERS: dict[Task, str] = {"line": "lines", "summary": "summaries"}


@attrs.frozen
class Purpose:
    """The purpose of a calibrator: one model's raw confidences, for one prompt version, task and language."""

    model: ModelIdentity
    prompt_version: str
    task: Task
    language: str

    @property
    def answers(self) -> str:
        """The answers that it is about, in words: lines of Java."""
        return f"{_ANSWERS[self.task]} of {self.language_name}"

    @property
    def language_name(self) -> str:
        """The language as people write it: C++."""
        return name_of(bounded(self.language))

    def differences(self, model: ModelIdentity, prompt_version: str, task: str) -> list[str]:
        """What of these differs from this purpose, in words.

        Two models with checksums are the same if the checksums are, whatever their names.
        """
        if self.model.sha256 and model.sha256:
            same = self.model.sha256 == model.sha256
        else:
            same = (self.model.name, self.model.quantisation) == (model.name, model.quantisation)
        found = []
        if not same:
            found.append(f"model {_named(self.model)}, not {_named(model)}")
        if self.prompt_version != prompt_version:
            found.append(f"prompt version {self.prompt_version!r}, not {prompt_version!r}")
        if self.task != task:
            found.append(f"task {self.task!r}, not {task!r}")
        return found


@attrs.frozen
class Origin:
    """A source of labels: its name, version, and how many items came from it."""

    name: str
    version: str
    items: int


def slug(name: str) -> str:
    """`name` as part of a file name: lower-case letters, digits, dots and hyphens, at most 60 of them."""
    return re.sub(r"[^a-z0-9.]+", "-", name.lower()).strip("-.")[:60] or "model"


def _named(model: ModelIdentity) -> str:
    checksum = f", sha256 {model.sha256[:12]}" if model.sha256 else ""
    return f"{model.name} ({model.quantisation or 'quantisation unknown'}{checksum})"
