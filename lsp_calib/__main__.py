"""The entry point. An editor waits for the server to start: this module imports only what it needs."""

from __future__ import annotations

import sys

from lsp_calib import home


def main() -> None:
    home.leave_no_core()
    command, options = sys.argv[1:2], set(sys.argv[2:])
    if command == ["serve"] and options <= {"--stdio", "--trust-editor"}:
        from lsp_calib.server import serve

        serve(trusts_editor="--trust-editor" in options)
    else:
        home.close_memory()
        from lsp_calib.cli import main as command_line

        command_line()


if __name__ == "__main__":
    main()
