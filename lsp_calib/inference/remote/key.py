"""The key of a remote server: from the environment, or from a file that only its owner can read."""

from __future__ import annotations

import os
import re
from pathlib import Path

from lsp_calib.errors import SettingsError
from lsp_calib.files import open_file, why

KEY_VARIABLE = "LSP_CALIB_REMOTE_KEY"

_KEY = re.compile(r"[\x21-\x7e]{1,4096}\Z")


def read_key(file: Path | None) -> str | None:
    """The key: from the environment, else from a file; None if neither is named.

    Raises SettingsError, which never quotes the key, if the file cannot be read, or others can read it.
    """
    named = os.environ.get(KEY_VARIABLE, "").strip()
    source = f"The environment variable {KEY_VARIABLE}"
    if not named:
        if file is None:
            return None
        source = f"The key file {file}"
        try:
            if not file.expanduser().is_absolute():
                raise SettingsError(
                    f"{source} has a relative path, which depends on the folder that the server is started "
                    "in, usually the workspace. Give `remote.keyFile` an absolute path."
                )
            with os.fdopen(open_file(file.expanduser()), "rb") as stream:
                status = os.fstat(stream.fileno())
                if os.name == "posix" and status.st_mode & 0o077:
                    raise SettingsError(
                        f"{source} is readable by others, so its key is not used. "
                        f"Run `chmod 600 {file}`, and replace the key."
                    )
                named = stream.read(8192).decode("ascii", "replace").strip()
        except (OSError, RuntimeError) as error:
            raise SettingsError(f"{source} cannot be read: {why(error)}. Check `remote.keyFile`.") from None
    if not _KEY.match(named):
        raise SettingsError(f"{source} must hold a key: one line of printable characters without spaces.")
    return named
