"""Numbers by which the calibrator tells right lines from wrong ones. Pure.

Each feature has a name, which calibrator files, records and the feedback store keep. VERSION changes whenever
the value of a feature changes: numbers of different versions are never mixed.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from types import MappingProxyType

import attrs

from lsp_calib.confidence.measures import total
from lsp_calib.values import Stop

VERSION = 1

# The kinds of places of a cursor in its line.
PLACES = ("line-start", "after-indentation", "mid-line", "mid-word")

# As in calibration: probabilities count as no nearer than this to 0 and 1.
_CLIP = 1e-6

# In nats. The surprisal of the token that ends a line runs over five orders of magnitude, and each of them
# says as much as the next. Below this it is noise.
_LEAST = 1e-4


@attrs.frozen
class Feature:
    """A feature's meaning.

    words: the quantity, as in a table. high, low: why a high (a low) value makes a suggestion more or less
    likely to be right, as the reason that a person reads; "{word}" stands for the least certain word. Empty:
    it is never given as a reason.
    needs: what must be known: "log-probabilities", "entropies" or "text".
    """

    words: str
    high: str
    low: str
    needs: str


FEATURES: Mapping[str, Feature] = MappingProxyType(
    {
        "total": Feature(
            "log-odds of the probability of all tokens together",
            "the model was sure of every word",
            "the model was unsure of {word}",
            "log-probabilities",
        ),
        "largest-surprisal": Feature(
            "surprisal of the least likely token, in nats",
            "the model was unsure of {word}",
            "the model was sure of every word",
            "log-probabilities",
        ),
        "last-surprisal": Feature(
            "surprisal of the token that ends the line, in nats", "", "", "log-probabilities"
        ),
        "entropy-sum": Feature(
            "sum of the entropies of all tokens, in nats",
            "the model hesitated between several ways to write this",
            "the model saw no other way to write this",
            "entropies",
        ),
        "ended-by-end-of-text": Feature(
            "1 if the model ended its answer instead of the line", "", "", "log-probabilities"
        ),
        "end-surprisal": Feature(
            "logarithm of 0.0001 plus the surprisal of the token that ends the line, in nats",
            "the model was unsure where the line ends",
            "the model was sure where the line ends",
            "log-probabilities",
        ),
        "end-of-text-surprisal": Feature(
            "end-surprisal if the model ended its answer instead of the line, otherwise 0",
            "",
            "",
            "log-probabilities",
        ),
        "in-word": Feature("1 if the character before the cursor belongs to a word", "", "", "text"),
        "broken": Feature(
            "1 if the file no longer parses around the line, or brackets, quotes or indentation do not fit",
            "the code around it would be broken",
            "",
            "text",
        ),
        "line-repeats": Feature(
            "log1p of how often the whole line stands elsewhere in the file",
            "the same line stands elsewhere in this file",
            "",
            "text",
        ),
        "new-names": Feature(
            "log1p of how many names it uses that are neither bound nor used in the file, nor built in",
            "names used here are new to this file",
            "",
            "text",
        ),
        "line-follows": Feature(
            "1 if the whole line stands among the next three lines already",
            "the same line follows already",
            "",
            "text",
        ),
        "beginning-agrees": Feature(
            "of the other lines that begin like this one up to the cursor, plus one, the share that goes on "
            "like it",
            "other lines of this file that begin like this one go on like it",
            "",
            "text",
        ),
        "beginning-differs": Feature(
            "of the other lines that begin like this one up to the cursor, plus two, the share that goes on "
            "otherwise",
            "other lines of this file that begin like this one go on otherwise",
            "",
            "text",
        ),
    }
)


def probability_features(
    logprobs: Sequence[float], entropies: Sequence[float] | None, stop: Stop
) -> dict[str, float]:
    """The features of an answer's tokens.

    logprobs: natural logarithms, given what is typed. entropies: in nats, one for each token; None if
    unknown: their features are then missing. Empty without log-probabilities.
    Raises DataError as the measures do.
    """
    if not logprobs:
        return {}
    p = min(max(total(logprobs), _CLIP), 1.0 - _CLIP)
    end = math.log(_LEAST - min(logprobs[-1], 0.0))
    values = {
        "total": math.log(p / (1.0 - p)),
        "largest-surprisal": -min(logprobs),
        "last-surprisal": -logprobs[-1],
        "ended-by-end-of-text": float(stop is Stop.END_OF_TEXT),
        "end-surprisal": end,
        "end-of-text-surprisal": end if stop is Stop.END_OF_TEXT else 0.0,
    }
    if entropies is not None:
        values["entropy-sum"] = math.fsum(entropies)
    return values
