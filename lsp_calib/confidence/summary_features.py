"""Numbers by which the calibrator tells summaries like a person's from others. Pure.

What the tokens say, and what the texts of the summary and its function say; the latter are counted by
`summarization.features`, whose version goes with these.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from lsp_calib.confidence.features import Feature, probability_features
from lsp_calib.values import Stop

# A change of any value that is computed here, or of a count in `summarization.features`, needs another one.
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

SUMMARY_FEATURES: Mapping[str, Feature] = MappingProxyType(
    {
        "entropy-mean": _TOKENS,
        **{
            f"log-{name}": Feature(f"log1p of the {words}", "", "", "text") for name, words in _COUNTS.items()
        },
        **{name: Feature(words, "", "", "text") for name, words in _SHARES.items()},
    }
)


def summary_features(
    logprobs: Sequence[float], entropies: Sequence[float] | None, stop: Stop, counted: Mapping[str, float]
) -> dict[str, float]:
    """The features of a summary, by name: those of `probability_features`, and those of SUMMARY_FEATURES that
    can be had.

    entropies: in nats, one for each token; None: unknown. counted: `summarization.features.text_features`.
    Empty without log-probabilities. Raises DataError as the measures do.
    """
    values = probability_features(logprobs, entropies, stop)
    if not values:
        return {}
    if entropies:
        values["entropy-mean"] = math.fsum(entropies) / len(entropies)
    values |= {f"log-{name}": math.log1p(counted[name]) for name in _COUNTS if name in counted}
    return values | {name: counted[name] for name in _SHARES if name in counted}
