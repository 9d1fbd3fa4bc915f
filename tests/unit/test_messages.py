"""Error messages, `--help` and the meanings of settings are plain sentences; a changed message is seen."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import cast

import click
from write_messages import MESSAGES, as_text, messages

from lsp_calib.cli import main
from lsp_calib.settings import SETTINGS

FOUND = messages()
TEXTS = [text for texts in FOUND.values() for text in texts]
MOST_WORDS = 25


def test_the_messages_are_those_that_were_read_before() -> None:
    written = MESSAGES.read_text("utf-8")
    assert as_text(FOUND) == written, "python tests/programs/write_messages.py, and read what has changed"


def test_all_rooms_are_read() -> None:
    assert len(TEXTS) > 350
    assert {path.split("/")[1] for path in FOUND} >= {
        "calibration",
        "cli",
        "corpus",
        "studies",
        "feedback",
        "inference",
    }


def helps(command: click.Command) -> Iterator[str]:
    """The texts of `--help`, of the command and all below it."""
    yield command.help or ""
    yield from (one.help or "" for one in command.params if isinstance(one, click.Option))
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            yield from helps(cast(click.Command, command.get_command(context, name)))


HELPS = [*dict.fromkeys(helps(main))]
MEANINGS = [setting.meaning for setting in SETTINGS.values()]


def test_a_message_ends_as_a_sentence() -> None:
    assert [text for text in TEXTS if not text.rstrip().endswith((".", "!", "?", "}"))] == []


def sentences() -> Iterator[str]:
    for text in [*TEXTS, *HELPS, *MEANINGS]:
        # Expressions and commands count as one word.
        yield from re.split(r"(?<=[.!?:;])\s+", re.sub(r"\{[^{}]*\}|`[^`]*`", "X", text))


def test_no_sentence_is_long() -> None:
    assert [one for one in sentences() if len(one.split()) > MOST_WORDS] == []


def test_no_clause_is_a_subject() -> None:
    clause = re.compile(r"(?i)(what|who|whose|whoever)\b")
    assert [one for one in sentences() if clause.match(one) and not one.endswith("?")] == []
