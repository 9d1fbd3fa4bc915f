"""Numbers by which the calibrator tells summaries like a person's from others. Pure.

What the tokens say, what the texts of the summary and its function say, and how well the summary fits the
function by a sentence encoder. The texts are counted by `summarization.features`, the fit is measured by
`summarization.fit`; the version goes with both, and with the encoder that is the default.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from lsp_calib.confidence.features import Feature, probability_features
from lsp_calib.values import Stop

# A change of any value that is computed here or in `summarization.features` and `.fit`, or of the default
# encoder, needs another one.
VERSION = 1

_TOKENS = Feature("mean of the entropies of all tokens, in nats", "", "", "entropies")

# Counts count by their logarithm: ten calls more mean little beside fifty.
_COUNTS = {
    "words": "words of the summary",
    "code-lines": "lines of the function",
    "calls": "calls in the function",
    "branches": "branches in the function",
    "parameters": "parameters of the function",
    "name-words": "words of the function's name",
}
_SHARES = {
    "code-in-summary": "share of the code's words that the summary has",
    "summary-in-code": "share of the summary's words that the code has",
    "name-in-summary": "share of the words of the function's name that the summary has",
    "name-vague": "share of the words of the function's name that are short or say little",
}

_FIT = {
    "code-cosine": "cosine between the summary and the words of the code, by the encoder",
    "code-f1": "BERTScore-style F1 of the summary and the words of the code, by the encoder",
    "name-cosine": "cosine between the summary and the words of the function's name, by the encoder",
}

ENCODER = "encoder"
"""What `Feature.needs` says of features that a sentence encoder computes."""

FIT_FEATURES = frozenset(_FIT)
"""The names of these features."""

SUMMARY_FEATURES: Mapping[str, Feature] = MappingProxyType(
    {
        "entropy-mean": _TOKENS,
        **{
            f"log-{name}": Feature(f"log1p of the {words}", "", "", "text") for name, words in _COUNTS.items()
        },
        **{name: Feature(words, "", "", "text") for name, words in _SHARES.items()},
        **{name: Feature(words, "", "", ENCODER) for name, words in _FIT.items()},
    }
)


def summary_features(
    logprobs: Sequence[float],
    entropies: Sequence[float] | None,
    stop: Stop,
    counted: Mapping[str, float],
    fit: Mapping[str, float] = MappingProxyType({}),
) -> dict[str, float]:
    """The features of a summary, by name: those of `probability_features`, and those of SUMMARY_FEATURES that
    can be had.

    entropies: in nats, one for each token; None: unknown. counted: `summarization.features.text_features`.
    fit: `summarization.fit.fit_features`, as far as they are known.
    Empty without log-probabilities. Raises DataError as the measures do.
    """
    values = probability_features(logprobs, entropies, stop)
    if not values:
        return {}
    if entropies:
        values["entropy-mean"] = math.fsum(entropies) / len(entropies)
    values |= {f"log-{name}": math.log1p(counted[name]) for name in _COUNTS if name in counted}
    values |= {name: counted[name] for name in _SHARES if name in counted}
    return values | {name: fit[name] for name in _FIT if name in fit}
