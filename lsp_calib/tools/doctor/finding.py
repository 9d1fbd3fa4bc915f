"""The result of one check."""

from __future__ import annotations

import enum
from typing import Any

import attrs


class Level(enum.StrEnum):
    """good: it works. note: worth knowing. problem: it does not work, or not as it should."""

    GOOD = "good"
    NOTE = "note"
    PROBLEM = "problem"


@attrs.frozen
class Finding:
    """The result of one check.

    about: the subject, such as "engine" or "model". says: the result as a sentence. advice: next steps for
    the user, empty if none. fatal: whether completions cannot work before that is done.
    data: the same for programs, JSON types only.
    """

    about: str
    level: Level
    says: str
    advice: str = ""
    fatal: bool = False
    data: dict[str, Any] = attrs.field(factory=dict)

    def to_json(self) -> dict[str, Any]:
        return {
            "about": self.about,
            "level": self.level.value,
            "says": self.says,
            "advice": self.advice,
            "fatal": self.fatal,
            "data": self.data,
        }
