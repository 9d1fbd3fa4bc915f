"""The layout of a model's prompts in use: the large window where it is known to be worth its time."""

from __future__ import annotations

import logging
from collections.abc import Callable

from lsp_calib.completion.prompt import Layout, WindowSize
from lsp_calib.inference.engine import LoadedModel
from lsp_calib.inference.models.card import ModelCard
from lsp_calib.inference.models.speeds import known_speed
from lsp_calib.values import ModelIdentity

_log = logging.getLogger(__name__)

# In seconds: for the first suggestion in a document, or after a jump, where nothing of the prompt is cached.
PATIENCE = 4.0
# In characters, of source: SmolLM2 takes 4.3 for a token and Qwen2.5-Coder 4.0, over a hundred prompts.
_OF_TOKEN = 4.0
# A model of at most so many parameters reads a large window in that time on most machines.
_QUICK = 500_000_000

HasLabels = Callable[[ModelIdentity, str], bool]
"""Whether there is a calibrator with labels for a model and a version of the prompt."""


class Layouts:
    """Chooses the layout for each model, once: another one would empty the model's cache.

    has_labels: without labels for its prompts a window is not chosen, since its confidence would be borrowed.
    wanted: the size that the user wants; None leaves it to what is known of model and machine.
    """

    def __init__(self, has_labels: HasLabels, wanted: Callable[[], WindowSize | None] = lambda: None) -> None:
        self._has_labels = has_labels
        self._wanted = wanted
        self._known: dict[tuple[ModelIdentity, WindowSize | None], Layout] = {}

    def of(self, loaded: LoadedModel) -> Layout:
        """The layout for the model that is loaded."""
        return self.of_card(loaded.card, loaded.identity)

    def of_card(self, card: ModelCard, identity: ModelIdentity) -> Layout:
        """The layout for a model with this card."""
        wanted = self._wanted()
        key = (identity, wanted)
        if key not in self._known:
            self._known[key] = Layout.of(card, wanted or self._best(card, identity))
            if wanted is WindowSize.LARGE and self._known[key] == Layout.of(card):
                _log.warning(
                    "The window is small, though it was to be large: the context of %s (%d positions) cannot "
                    "hold more.",
                    card.name,
                    card.context,
                )
        return self._known[key]

    def _best(self, card: ModelCard, identity: ModelIdentity) -> WindowSize:
        large = Layout.of(card, WindowSize.LARGE)
        worth = self._has_labels(identity, large.version) and is_quick(card, large)
        return WindowSize.LARGE if worth else WindowSize.SMALL


def is_quick(card: ModelCard, layout: Layout) -> bool:
    """Whether this machine reads a whole prompt of the layout within `PATIENCE`."""
    speed = known_speed(card)
    if speed is None:
        return 0 < card.parameters <= _QUICK
    return (layout.window + layout.related) / _OF_TOKEN / speed.prompt_per_s <= PATIENCE
