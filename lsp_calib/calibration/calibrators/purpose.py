"""The purpose of a calibrator, and the origin of its labels."""

from __future__ import annotations

import hashlib
import re
from functools import cached_property
from typing import Literal

import attrs

from lsp_calib.calibration.document import Count, Text
from lsp_calib.languages import bounded, name_of
from lsp_calib.values import ModelIdentity

Task = Literal["line", "summary", "edit"]
Source = Literal["prior", "pooled", "shipped", "workspace", "personal"]
State = Literal["shipped", "learning", "ready", "drifted"]

MOST_AGREE = "most-agree"
SUMMARY_CRITERIA = (MOST_AGREE, "high-precision", "best-f1", "high-recall")
"""Criteria of a summary that is like a person's, the default first; rules: `corpus.thresholds`."""
LENT: tuple[Source, ...] = ("prior", "pooled")
"""The sources of calibrators without labels of their purpose: these come from other models, or from other
languages and windows."""

_ANSWERS: dict[Task, str] = {"line": "lines", "summary": "summaries", "edit": "edits"}


@attrs.frozen
class Purpose:
    """The purpose of a calibrator: one model's raw confidences, for one prompt version, task and language.

    language: an identifier, or several joined by commas where one calibrator serves them all. criterion: of
    summaries, one of SUMMARY_CRITERIA, by default the first; "" for lines, which are judged in one way.
    """

    model: ModelIdentity
    prompt_version: str
    task: Task
    language: str
    criterion: str = ""

    def __attrs_post_init__(self) -> None:
        if self.task != "summary" or not self.criterion:
            object.__setattr__(self, "criterion", MOST_AGREE if self.task == "summary" else "")

    @property
    def languages(self) -> frozenset[str]:
        return frozenset(self.language.split(","))

    def fits(self, wanted: Purpose) -> bool:
        """Whether a calibrator of this purpose is one for a wanted one: its model, prompt and task, its
        languages and its criterion."""
        return self.asks_like(wanted) and self.serves(wanted)

    def asks_like(self, other: Purpose) -> bool:
        """Whether model, prompt and task are the same."""
        return (self.prompt_version, self.task) == (other.prompt_version, other.task) and is_same_model(
            self.model, other.model
        )

    def serves(self, other: Purpose) -> bool:
        """Whether a calibrator of this purpose is one for the languages and the criterion of another."""
        return other.languages <= self.languages and other.criterion == self.criterion

    @cached_property
    def file(self) -> str:
        """The name of the file with the user's calibrator."""
        return f"{self.task}-{slug(self.model.name)}-{slug(self.language)}-{self.key}.json"

    @cached_property
    def key(self) -> str:
        """Eight hexadecimal digits that tell it from other purposes in the name of a file."""
        model = self.model.sha256 or f"{self.model.name} {self.model.quantisation}"
        parts = [model, self.prompt_version, self.language, *([self.criterion] if self.criterion else [])]
        return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:8]

    @cached_property
    def answers(self) -> str:
        """The answers that it is about, in words: lines of Java; summaries of Go, criterion best-f1."""
        if self.task == "edit":
            return _ANSWERS["edit"]
        criterion = "" if self.criterion in ("", MOST_AGREE) else f", criterion {self.criterion}"
        return f"{_ANSWERS[self.task]} of {self.language_name}{criterion}"

    @property
    def language_name(self) -> str:
        """The language as people write it: C++."""
        return " and ".join(name_of(bounded(one)) for one in sorted(self.languages))


# Without slots, msgspec writes the fields in their order.
@attrs.frozen(slots=False)
class Origin:
    """A source of labels: its name, version, and how many items came from it."""

    name: Text
    version: str
    items: Count


def slug(name: str) -> str:
    """`name` as part of a file name: lower-case letters, digits, dots and hyphens, at most 60 of them."""
    return re.sub(r"[^a-z0-9.]+", "-", name.lower()).strip("-.")[:60] or "model"


def is_same_model(one: ModelIdentity, other: ModelIdentity) -> bool:
    """Whether two models are the same: with checksums if these are, whatever the names."""
    if one.sha256 and other.sha256:
        return one.sha256 == other.sha256
    return (one.name, one.quantisation) == (other.name, other.quantisation)
