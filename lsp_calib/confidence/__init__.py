"""A model's answer with its probabilities -> one raw confidence in [0, 1]."""

from lsp_calib.confidence.entropy import entropy_confidence, normalised_entropy_confidence, token_entropies
from lsp_calib.confidence.length import length_confidence, relative_length
from lsp_calib.confidence.measures import (
    Measure,
    arithmetic_mean,
    by_name,
    first_tokens,
    geometric_mean,
    lowest_mean,
    measure_name,
    minimum,
    raw_confidences,
    total,
)
from lsp_calib.confidence.positions import TokenPositions, token_positions
from lsp_calib.confidence.rating import Vote, invalid_share, majority_vote, parse_rating
from lsp_calib.confidence.reflective import (
    TrueFalse,
    TrueFalseTokens,
    contained_true_false,
    exact_true_false,
    true_false_tokens,
    true_token,
)
from lsp_calib.confidence.selection import SELECTIONS, TokenSelection, token_texts
from lsp_calib.confidence.verbalised import (
    Stated,
    StatedSummary,
    parse_probability,
    stated,
    summarise_stated,
)

__all__ = [
    "SELECTIONS",
    "Measure",
    "Stated",
    "StatedSummary",
    "TokenPositions",
    "TokenSelection",
    "TrueFalse",
    "TrueFalseTokens",
    "Vote",
    "arithmetic_mean",
    "by_name",
    "contained_true_false",
    "entropy_confidence",
    "exact_true_false",
    "first_tokens",
    "geometric_mean",
    "invalid_share",
    "length_confidence",
    "lowest_mean",
    "majority_vote",
    "measure_name",
    "minimum",
    "normalised_entropy_confidence",
    "parse_probability",
    "parse_rating",
    "raw_confidences",
    "relative_length",
    "stated",
    "summarise_stated",
    "token_entropies",
    "token_positions",
    "token_texts",
    "total",
    "true_false_tokens",
    "true_token",
]
