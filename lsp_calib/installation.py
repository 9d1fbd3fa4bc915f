"""The command that adds an optional part to this installation."""

from __future__ import annotations


def install_command(*extras: str) -> str:
    """The command that adds extras, for a shell in the environment of lsp-calib.

    >>> install_command("local", "figures")
    "pip install 'lsp-calib[local,figures]'"
    """
    return f"pip install 'lsp-calib[{','.join(extras)}]'"
