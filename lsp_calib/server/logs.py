"""The log: for finding faults. It never contains text of the user's documents."""

from __future__ import annotations

import logging
from pathlib import Path

from lsp_calib.errors import SettingsError


class WithoutParameters(logging.Filter):
    """Removes the parameters of pygls' records: messages of the client, with the text of documents."""

    def filter(self, record: logging.LogRecord) -> bool:
        if record.name.startswith("pygls"):
            record.msg = str(record.msg).partition("%")[0].rstrip(" :'\"") + "."
            record.args = ()
            if record.exc_info and record.exc_info[0] is not None:
                # An error's text may quote the wrong value; its type does not.
                record.msg += f" ({record.exc_info[0].__name__})"
                record.exc_info = None
                record.exc_text = None
        return True


def set_up(log_file: Path | None) -> None:
    """Log warnings to standard error, which editors keep in their own log, or all messages to a file.

    The file is readable only by its owner. Raises SettingsError if it cannot be written.
    """
    handler: logging.Handler = logging.StreamHandler()
    if log_file is not None:
        try:
            log_file.touch(mode=0o600, exist_ok=True)
            handler = logging.FileHandler(log_file, encoding="utf-8")
        except OSError as error:
            raise SettingsError(
                f"The log cannot be written to {log_file}: {error.strerror or error}. Give --log-file a file "
                "in a folder that is there and is yours to write in."
            ) from error
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
