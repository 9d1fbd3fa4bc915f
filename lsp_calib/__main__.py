"""The entry point. An editor that starts the server waits: only what it needs is imported for it."""

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
