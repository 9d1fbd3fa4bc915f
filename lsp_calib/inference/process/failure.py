"""Why no model can be run: until the files of models change, for a while, or until the model is restarted."""

from __future__ import annotations

import time
from pathlib import Path

import attrs

from lsp_calib import home
from lsp_calib.errors import LspCalibError, ModelFileError, NoModelError

_Files = frozenset[tuple[str, int, int]]


@attrs.frozen
class Failure:
    """files: those of models, as they were when it happened; None if it has nothing to do with them.

    until: the moment, on the monotonic clock, from which on another try is worth while; None: there is none.
    """

    error: LspCalibError
    files: _Files | None = None
    until: float | None = None

    @classmethod
    def of(cls, error: LspCalibError, wanted: str | None) -> Failure:
        """wanted: the model that was asked for, as for `choose`."""
        of_files = isinstance(error, NoModelError | ModelFileError)
        return cls(error, _files(wanted) if of_files else None)

    def is_over(self, wanted: str | None) -> bool:
        """Whether another try is worth while: a model was pulled, removed or replaced, or time has passed."""
        if self.until is not None:
            return time.monotonic() >= self.until
        return self.files is not None and self.files != _files(wanted)


def _files(wanted: str | None) -> _Files:
    """The files that can be models: names, sizes and times."""
    found = set()
    try:
        entries = [path for path in (home.state_dir() / "models").iterdir() if path.suffix == ".gguf"]
    except OSError:
        entries = []
    for path in (*entries, *([Path(wanted)] if wanted and Path(wanted).is_absolute() else [])):
        try:
            status = path.stat()
        except (OSError, ValueError):
            continue
        found.add((str(path), status.st_size, status.st_mtime_ns))
    return frozenset(found)
