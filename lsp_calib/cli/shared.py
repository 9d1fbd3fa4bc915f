"""What the commands share."""

from __future__ import annotations

import json
from typing import Any

import click


class Command(click.Command):
    """Answers to -h as to --help, under a group and without one.

    Names inherited from the group would not do: click makes a command's help option once and keeps it, with
    the names of its first run in the process.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.context_settings = {"help_option_names": ["-h", "--help"], **self.context_settings}


class Group(Command, click.Group):
    """A group of such commands and groups."""

    command_class = Command
    group_class = type


json_option = click.option(
    "--json", "as_json", is_flag=True, help="Print one JSON document alone on standard output."
)


def _typed_by_hand(_context: click.Context, _parameter: click.Parameter, name: str | None) -> str | None:
    from lsp_calib.inference.models.cards import typed_by_hand

    return typed_by_hand(name) if name else name


model_option = click.option(
    "--model", metavar="M", callback=_typed_by_hand, help="A model's name, or the path of a GGUF file."
)
# An editor starts the server in the workspace's folder: a relative path would lead into it.
serve_model_option = click.option(
    "--model", metavar="M", help="A model's name, or the absolute path of a GGUF file."
)
model_argument = click.argument("name", callback=_typed_by_hand)
threads_option = click.option(
    "--threads", type=click.IntRange(0, 512), default=0, help="Threads to decode with; 0 chooses."
)


def _checked_url(_context: click.Context, _parameter: click.Parameter, url: str | None) -> str | None:
    from lsp_calib.inference.choice import URL_WORDS, is_url

    if url is not None and not is_url(url):
        # The address is not repeated: it may hold a password.
        raise click.BadParameter(f"it must be {URL_WORDS}.")
    return url


remote_option = click.option(
    "--remote",
    metavar="URL",
    callback=_checked_url,
    help="Ask the OpenAI-compatible server at this address instead of a model on this machine.",
)


def print_json(value: Any) -> None:
    click.echo(json.dumps(value, ensure_ascii=False, indent=2))
