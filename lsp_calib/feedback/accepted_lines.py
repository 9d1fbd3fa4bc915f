"""The lines with labels of their own, as the store knows them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import attrs


@attrs.frozen
class AcceptedLines:
    """The lines that suggestions made, and those that were replayed, as hashes of the store.

    hashes: those of lines, by line; raises LspCalibError as the store does.
    """

    _hashes: Callable[[Iterable[str]], Mapping[str, str | None]]
    _known: frozenset[str]

    def among(self, lines: Iterable[str]) -> frozenset[str]:
        """Those of some lines. Raises LspCalibError as the store does."""
        if not self._known:
            return frozenset()
        return frozenset(line for line, hashed in self._hashes(lines).items() if hashed in self._known)
