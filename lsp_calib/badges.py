"""The words a person reads for a tier and a probability."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lsp_calib.server.protocol import BADGES

if TYPE_CHECKING:
    from lsp_calib.values import Tier


def tier_words(tier: Tier) -> str:
    return BADGES[tier.value]["words"].capitalize()


def percent(probability: float | None) -> str:
    return "no probability" if probability is None else f"{100 * probability:.0f} %"
