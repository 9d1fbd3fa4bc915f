"""The log: for people who look for a fault, and never with what stands in their documents."""

from __future__ import annotations

import logging
from pathlib import Path


class WithoutParameters(logging.Filter):
    """Takes from pygls' records what they were made with: messages of the client, with the text it typed."""

    def filter(self, record: logging.LogRecord) -> bool:
        if record.name.startswith("pygls"):
            record.msg = str(record.msg).partition("%")[0].rstrip(" :'\"") + "."
            record.args = ()
            if record.exc_info and record.exc_info[0] is not None:
                # An error's text may quote the value that was wrong; its kind does not.
                record.msg += f" ({record.exc_info[0].__name__})"
                record.exc_info = None
                record.exc_text = None
        return True


def set_up(log_file: Path | None) -> None:
    """Log warnings to standard error, which ends in the editor's log, or everything to a file.

    The file is readable by its owner alone.
    """
    handler: logging.Handler = logging.StreamHandler()
    if log_file is not None:
        log_file.touch(mode=0o600, exist_ok=True)
        handler = logging.FileHandler(log_file, encoding="utf-8")
    handler.addFilter(WithoutParameters())
    logging.basicConfig(
        level=logging.INFO if log_file else logging.WARNING,
        handlers=[handler],
        format="%(asctime)s %(levelname)s %(name)s: %(message)s",
    )
    # At lower levels pygls logs every message.
    logging.getLogger("pygls").setLevel(logging.ERROR)
    # At INFO it logs the address of every request.
    logging.getLogger("httpx").setLevel(logging.WARNING)
