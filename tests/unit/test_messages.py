"""Error messages, `--help` and the meanings of settings are plain sentences; a changed message is seen."""

from __future__ import annotations

import re
from collections.abc import Iterator

import click
import pytest
from write_messages import MESSAGES, as_text, messages

from lsp_calib.cli import main
from lsp_calib.settings.table import TRUSTED, WORKSPACE

FOUND = messages()
TEXTS = [text for texts in FOUND.values() for text in texts]
MOST_WORDS = 25


def test_the_messages_are_those_that_were_read_before() -> None:
    written = MESSAGES.read_text("utf-8")
    assert as_text(FOUND) == written, "python tests/programs/write_messages.py, and read what has changed"


def test_all_rooms_are_read() -> None:
    assert len(TEXTS) > 400
    assert {path.split("/")[1] for path in FOUND} >= {
        "calibration",
        "cli",
        "evaluation",
        "feedback",
        "inference",
    }


def helps(command: click.Command) -> Iterator[str]:
    """The texts of `--help`, of the command and all below it."""
    yield command.help or ""
    yield from (one.help or "" for one in command.params if isinstance(one, click.Option))
    if isinstance(command, click.Group):
        for one in command.commands.values():
            yield from helps(one)


HELPS = [*dict.fromkeys(helps(main))]
MEANINGS = [setting.meaning for setting in {**TRUSTED, **WORKSPACE}.values()]


@pytest.mark.parametrize("text", TEXTS)
def test_a_message_ends_as_a_sentence(text: str) -> None:
    assert text.rstrip().endswith((".", "!", "?", "}"))


@pytest.mark.parametrize("text", [*TEXTS, *HELPS, *MEANINGS])
def test_texts_are_in_plain_sentences(text: str) -> None:
    # Expressions and commands count as one word.
    words = re.sub(r"\{[^{}]*\}|`[^`]*`", "X", text)
    for sentence in re.split(r"(?<=[.!?:;])\s+", words):
        assert len(sentence.split()) <= MOST_WORDS, sentence
        is_question = sentence.endswith("?")
        assert is_question or not re.match(r"(?i)(what|who|whose|whoever)\b", sentence), "a clause as subject"
