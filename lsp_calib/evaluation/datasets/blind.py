"""The blind set: projects that nothing is chosen or fitted by, so that what ships can be scored on them."""

from __future__ import annotations

import re
from collections.abc import Iterable

from lsp_calib.errors import DataError
from lsp_calib.evaluation.datasets.pinned import SETS

SET = "projects-blind"


def blind_among(names: Iterable[str], language: str = "python") -> tuple[str, ...]:
    """The projects of the blind set among the names of projects, sorted, each once.

    language: of the source. The set is of one language: Redis in C is not redis in Python.
    Of any version, since most lines of two versions are the same; spelt as any package index would take them.
    """
    if language != SETS[SET].language:
        return ()
    blind = {_normal(project.name) for project in SETS[SET].projects}
    return tuple(sorted({name for name in names if _normal(name) in blind}))


def refuse_blind(names: Iterable[str], language: str) -> None:
    """Raises DataError if a calibrator for others would be fitted on a project of the blind set.

    names, language: as in `blind_among`.
    """
    found = blind_among(names, language)
    if found:
        raise DataError(
            f"These projects are in the blind set ({SET}): {', '.join(found)}. A calibrator for others is "
            "measured on them, so it is never fitted on them. To calibrate for yourself, leave --output out; "
            "`lsp-calib calibrators export` writes the result to a file. To fit one for others, leave these "
            "projects out."
        )


def _normal(name: str) -> str:
    """A project's name as package indexes compare names (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()
