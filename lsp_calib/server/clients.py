"""What some editors do and their capabilities do not tell, by the name that each gives itself."""

from __future__ import annotations

import attrs


@attrs.frozen
class ClientTraits:
    """draws_labels_alone: the completion menu shows label and kind of an item, and its detail only beside the
    selected one. drops_results: the user sees nothing of what a command answers.
    """

    draws_labels_alone: bool = False
    drops_results: bool = False


_USUAL = ClientTraits()
_KNOWN = {
    # Tried with 25.07 (tests/editors/helix).
    "helix": ClientTraits(draws_labels_alone=True, drops_results=True),
}


def traits_of(name: str | None) -> ClientTraits:
    """The traits of a client. name: `clientInfo.name`, None if it gave none."""
    return _KNOWN.get((name or "").casefold(), _USUAL)
