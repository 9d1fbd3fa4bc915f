"""Commands as a user types them, run in this process, and what came of them."""

from __future__ import annotations

import json
from typing import Any

from click.testing import CliRunner, Result

from lsp_calib.cli import main
from lsp_calib.errors import LspCalibError


def invoke(*arguments: object, answer: str | None = None) -> Result:
    return CliRunner().invoke(main, [str(one) for one in arguments], input=answer)


def said(*arguments: object, answer: str | None = None) -> str:
    """What a command that ends well prints."""
    result = invoke(*arguments, answer=answer)
    assert result.exit_code == 0, result.output
    return result.stdout


def document(*arguments: object) -> Any:
    """The JSON document that a command prints."""
    return json.loads(said(*arguments, "--json"))


def refused(error: type[LspCalibError], *arguments: object) -> str:
    """The only line that a command says, which ends with an error."""
    result = invoke(*arguments)
    assert (result.exit_code, result.stdout) == (error.exit_code, ""), result.output
    assert result.stderr.startswith("lsp-calib: ")
    assert result.stderr.count("\n") == 1
    return result.stderr
