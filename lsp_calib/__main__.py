"""The entry point. An editor waits for the server to start: this module imports only what it needs."""

from __future__ import annotations

import sys


def main() -> None:
    if sys.argv[1:] in (["serve"], ["serve", "--stdio"]):
        from lsp_calib.server.start import serve_editor

        serve_editor()
    else:
        from lsp_calib.cli import main as command_line

        command_line()


if __name__ == "__main__":
    main()
