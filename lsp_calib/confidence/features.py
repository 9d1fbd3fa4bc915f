"""Numbers by which a calibrator tells right lines, summaries and beginnings of lines from wrong ones. Pure.

A measure by name takes the natural logarithms of the probabilities that the model's unmodified softmax gave
the generated tokens, in order, and returns a raw confidence in [0, 1]. Computed in log space with exactly
rounded sums, so a long generation neither underflows early nor depends on the order of summation. All raise
DataError for no tokens, NaN, or a log-probability above 0 by more than rounding.
Sources: Spiess et al. 2024, 4.1; Virk et al. 2024, 4.3 and 4.7 (the first t tokens).

Each feature has a name, which calibrator files, records and the feedback store keep. Each kind has a version,
which changes whenever the value of a feature changes: numbers of different versions are never mixed.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import SupportsFloat

import attrs
import numpy as np
import numpy.typing as npt

from lsp_calib.errors import DataError
from lsp_calib.values import Generation, Stop

Measure = Callable[[Sequence[float]], float]
FloatArray = npt.NDArray[np.float64]

# A float32 softmax may put a sure token's log-probability a few 1e-7 above 0; more than that is no
# probability.
_ROUNDING = 1e-6
# Stands for log 0: small enough that exp of any mean with it is 0, large enough that sums stay finite.
_LOG_ZERO = -1e100


def total(logprobs: Sequence[float]) -> float:
    """Probability of the whole generation: the product of its tokens' probabilities."""
    return math.exp(math.fsum(_checked(logprobs)))


def arithmetic_mean(logprobs: Sequence[float], first: int | None = None) -> float:
    """Mean of the tokens' probabilities.

    first: how many tokens from the start count; a shorter generation uses all it has. None: all.
    Raises DataError also if `first` is below 1.

    >>> arithmetic_mean([math.log(0.5), math.log(0.8), math.log(0.2)])
    0.5
    """
    values = _checked(logprobs)[: _count(first)]
    return min(math.fsum(math.exp(value) for value in values) / len(values), 1.0)


def geometric_mean(logprobs: Sequence[float], first: int | None = None) -> float:
    """N-th root of the product of the tokens' probabilities.

    first: how many tokens from the start count; a shorter generation uses all it has. None: all.
    Raises DataError also if `first` is below 1.
    """
    values = _checked(logprobs)[: _count(first)]
    return math.exp(math.fsum(values) / len(values))


def minimum(logprobs: Sequence[float]) -> float:
    """Probability of the least likely token."""
    return math.exp(min(_checked(logprobs)))


def lowest_mean(logprobs: Sequence[float], count: int) -> float:
    """Geometric mean of the probabilities of the `count` least likely tokens.

    One doubtful token can make a line of sure ones wrong. The mean of all tokens hides it; the minimum
    depends on that token alone. This measure lies between them: `minimum` at a count of 1, the geometric mean
    at a count of the length or more.
    count: a shorter generation uses all it has. Raises DataError also if it is below 1.
    Ours: neither study has it.

    >>> round(lowest_mean([math.log(0.9), math.log(0.4), math.log(0.1)], 2), 6)
    0.2
    """
    values = sorted(_checked(logprobs))[: _count(count)]
    return math.exp(math.fsum(values) / len(values))


_PLAIN: dict[str, Measure] = {
    "total": total,
    "arithmetic-mean": arithmetic_mean,
    "geometric-mean": geometric_mean,
    "minimum": minimum,
}


_BY_NUMBER: dict[str, Callable[[Sequence[float], int], float]] = {
    "geometric-mean-first": geometric_mean,
    "arithmetic-mean-first": arithmetic_mean,
    "geometric-mean-lowest": lowest_mean,
}

_NUMBERED = re.compile(rf"({'|'.join(_BY_NUMBER)})-([1-9][0-9]{{0,5}})")


def measure_name(first: int | None = None) -> str:
    """The name on the wire of the geometric mean of the first `first` tokens (None: of all)."""
    return "geometric-mean" if first is None else f"geometric-mean-first-{first}"


def first_tokens(name: str) -> int | None:
    """How many tokens from the start the named measure looks at; None: all.

    Raises DataError for an unknown name.
    """
    family, number = _parsed(name)
    return number if family.endswith("-first") else None


def by_name(name: str) -> Measure:
    """The measure with this name. Raises DataError for an unknown name.

    Known: total, arithmetic-mean, geometric-mean, minimum, and with a number <n> at the end
    geometric-mean-first-<n>, arithmetic-mean-first-<n>, geometric-mean-lowest-<n>.

    >>> by_name("geometric-mean-lowest-1")([-0.5, 0.0]) == minimum([-0.5, 0.0])
    True
    """
    family, number = _parsed(name)
    if number is None:
        return _PLAIN[family]
    measure = _BY_NUMBER[family]
    return lambda logprobs: measure(logprobs, number)


def raw_confidences(name: str, log_probabilities: Iterable[Sequence[float]]) -> FloatArray:
    """The measure `name` of n answers, float array of shape (n,). Raises DataError as the measure does.

    log_probabilities: for each answer the log-probabilities of its tokens, in order.
    """
    measure = by_name(name)
    return np.array([measure(item) for item in log_probabilities], dtype=np.float64)


def _parsed(name: str) -> tuple[str, int | None]:
    """The family a measure's name belongs to, and the number at its end."""
    match = _NUMBERED.fullmatch(name)
    if match:
        return match[1], int(match[2])
    if name in _PLAIN:
        return name, None
    known = ", ".join([*_PLAIN, *(f"{family}-<number>" for family in _BY_NUMBER)])
    raise DataError(f"Unknown confidence measure {name!r}; known: {known}.")


def _count(tokens: int | None) -> int | None:
    """A number of tokens, as the end of a slice. Raises DataError below 1."""
    if tokens is not None and tokens < 1:
        raise DataError(f"A measure of {tokens} tokens was asked for; at least 1 is needed.")
    return tokens


def _checked(logprobs: Sequence[SupportsFloat]) -> list[float]:
    """The log-probabilities as floats in [_LOG_ZERO, 0]."""
    try:
        values = [float(value) for value in logprobs]
    except (TypeError, ValueError) as error:
        raise DataError(f"Log-probabilities must be numbers: {error}.") from error
    if not values:
        raise DataError("There are no log-probabilities: a confidence needs at least one token.")
    for position, value in enumerate(values):
        if not value <= _ROUNDING:  # NaN fails this too
            raise DataError(
                f"The log-probability at position {position} is {value}; it must be a number not above 0."
            )
    return [min(max(value, _LOG_ZERO), 0.0) for value in values]


VERSION = 2

# The kinds of places of a cursor in its line.
PLACES = ("line-start", "after-indentation", "mid-line", "mid-word")

# As in calibration: probabilities count as no nearer than this to 0 and 1.
_CLIP = 1e-6

GRAMMAR = ("broken", "new-names", "signs")
"""The features that need a grammar of the language."""

# In nats. The surprisal of the token that ends a line runs over five orders of magnitude, and each of them
# says as much as the next. Below this it is noise.
_LEAST = 1e-4


@attrs.frozen
class Feature:
    """A feature's meaning.

    words: the quantity, as in a table. high, low: why a high (a low) value makes a suggestion more or less
    likely to be right, as the reason that a person reads; "{word}" stands for the least certain word,
    "{sign}" for the words of a sign. Empty: it is never given as a reason.
    needs: what must be known: "log-probabilities", "entropies", "text", or ENCODER.
    """

    words: str
    high: str = ""
    low: str = ""
    needs: str = attrs.field(default="text", kw_only=True)


FEATURES: Mapping[str, Feature] = MappingProxyType(
    {
        "total": Feature(
            "log-odds of the probability of all tokens together",
            "the model gave every word a high probability",
            "the model was unsure of {word}",
            needs="log-probabilities",
        ),
        "largest-surprisal": Feature(
            "surprisal of the least likely token, in nats",
            "the model was unsure of {word}",
            "the model gave every word a high probability",
            needs="log-probabilities",
        ),
        "last-surprisal": Feature(
            "surprisal of the token that ends the line, in nats", needs="log-probabilities"
        ),
        "entropy-sum": Feature(
            "sum of the entropies of all tokens, in nats",
            "the model hesitated between several ways to write this",
            "the model saw no other way to write this",
            needs="entropies",
        ),
        "ended-by-end-of-text": Feature(
            "1 if the model ended its answer instead of the line", needs="log-probabilities"
        ),
        "end-surprisal": Feature(
            "logarithm of 0.0001 plus the surprisal of the token that ends the line, in nats",
            "the model was unsure where the line ends",
            "the model was sure where the line ends",
            needs="log-probabilities",
        ),
        "end-of-text-surprisal": Feature(
            "end-surprisal if the model ended its answer instead of the line, otherwise 0",
            needs="log-probabilities",
        ),
        "in-word": Feature("1 if the character before the cursor belongs to a word"),
        "broken": Feature(
            "1 if the file no longer parses around the line, or brackets, quotes or indentation do not fit",
            "the code around it would be broken",
        ),
        "line-repeats": Feature(
            "log1p of how often the whole line stands elsewhere in the file",
            "the same line stands elsewhere in this file",
        ),
        "new-names": Feature(
            "log1p of how many names it uses that are neither bound nor used in the file, nor built in",
            "names used here are new to this file",
        ),
        "line-follows": Feature(
            "1 if the whole line stands among the next three lines already",
            "the same line follows already",
        ),
        "beginning-agrees": Feature(
            "of the other lines that begin like this one up to the cursor, plus one, the share that goes on "
            "like it",
            "other lines of this file that begin like this one go on like it",
        ),
        "beginning-differs": Feature(
            "of the other lines that begin like this one up to the cursor, plus two, the share that goes on "
            "otherwise",
            "other lines of this file that begin like this one go on otherwise",
        ),
        "signs": Feature(
            "log1p of how many kinds of signs a linter sees against it",
            "{sign}",
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


# A change of any value that is computed here or in `summarization.features`, or of the default
# encoder, needs another one.
SUMMARY_VERSION = 1

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

BEYOND_NAME = "beyond-name"
"""The count of words that a summary adds to the function's name; no curve weighs it, see `Calibrator.assess`.
"""

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
        "entropy-mean": Feature("mean of the entropies of all tokens, in nats", needs="entropies"),
        **{f"log-{name}": Feature(f"log1p of the {words}") for name, words in _COUNTS.items()},
        **{name: Feature(words) for name, words in _SHARES.items()},
        BEYOND_NAME: Feature("words of the summary that the function's name lacks"),
        **{name: Feature(words, needs=ENCODER) for name, words in _FIT.items()},
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
    fit: `summarization.features.fit_features`, as far as they are known.
    Empty without log-probabilities. Raises DataError as the measures do.
    """
    values = probability_features(logprobs, entropies, stop)
    if not values:
        return {}
    if entropies:
        values["entropy-mean"] = math.fsum(entropies) / len(entropies)
    values |= {f"log-{name}": math.log1p(counted[name]) for name in _COUNTS if name in counted}
    values |= {name: counted[name] for name in (*_SHARES, BEYOND_NAME) if name in counted}
    return values | {name: fit[name] for name in _FIT if name in fit}


PREFIX_VERSION = 1

PREFIX_FEATURES = (
    "total",  # log-odds of the probability of the tokens so far
    "largest-surprisal",  # of the least likely token so far, in nats
    "entropy-sum",  # of the tokens so far, in nats
    "last-surprisal",  # of the token that ends here, in nats
    "next-surprisal",  # logarithm of 0.0001 plus that of the token behind, in nats
    "next-entropy",  # of the token behind, in nats
    "length",  # logarithm of the characters so far
    "tokens",  # logarithm of their number
    "new-names",  # log1p of the words so far that stand nowhere else in the document
    "error-behind",  # log-odds that the first error is behind, if there is one, by the model
    "rest-entropy",  # of the tokens behind, in nats
    "rest-largest",  # surprisal of the least likely of them, in nats
    "is-all",  # 1 at the end of the suggestion
    "behind-word",  # 1 if a word ends here
    "behind-opener",
    "behind-closer",
    "open-brackets",  # opened so far and not closed; negative: closed and not opened
    "in-string",  # 1 if a quote is open
    "before-opener",  # 1 if a bracket opens behind
    "before-member",  # 1 if a point is behind
)

_WORD = re.compile(r"[^\W\d]\w*")
_OPENERS, _CLOSERS, _QUOTES = "([{", ")]}", "\"'`"


@attrs.frozen
class Prefix:
    """The beginning of a suggestion up to a place where it can be taken: the end of a token and of a word.

    end: in code points of the suggestion's text. values: in the order of `PREFIX_FEATURES`.
    """

    end: int
    values: tuple[float, ...]


def prefixes(generation: Generation, text: str, before: str, words: Container[str]) -> list[Prefix]:
    """The places of a suggestion, the first one first; none without entropies.

    text: as it is offered, the beginning of the generation's. before: the line up to the cursor. words: those
    of the document without this line.
    """
    logprobs, entropies = generation.logprobs, generation.entropies
    if entropies is None:
        return []
    found: list[Prefix] = []
    new_names = _new_names(text, before, words)
    brackets, quote = 0, ""
    total = hesitation = largest = 0.0
    end = 0
    for at, token in enumerate(generation.tokens):
        surprisal = -logprobs[at]
        total += logprobs[at]
        hesitation += entropies[at]
        largest = max(largest, surprisal)
        start, end = end, min(end + len(token.text), len(text))
        for char in text[start:end]:
            if quote:
                quote = "" if char == quote else quote
            elif char in _QUOTES:
                quote = char
            else:
                brackets += (char in _OPENERS) - (char in _CLOSERS)
        last, behind = text[end - 1 : end], text[end : end + 1]
        if start == end or last.isspace() or (behind and is_word(last) and is_word(behind)):
            continue
        p, rest = _clipped(total), _clipped(math.fsum(logprobs[at + 1 :]))
        following = at + 1 < len(logprobs)
        values = (
            math.log(p / (1.0 - p)),
            largest,
            hesitation,
            surprisal,
            math.log(_LEAST - logprobs[at + 1]) if following else math.log(_LEAST),
            entropies[at + 1] if following else 0.0,
            math.log(end),
            math.log(at + 1),
            math.log1p(sum(place <= end for place in new_names)),
            math.log(p * (1.0 - rest) / (1.0 - p)),
            math.fsum(entropies[at + 1 :]),
            -min(logprobs[at + 1 :], default=0.0),
            float(end == len(text)),
            float(is_word(last)),
            float(last in _OPENERS),
            float(last in _CLOSERS),
            float(brackets),
            float(bool(quote)),
            float(behind != "" and behind in _OPENERS),
            float(behind == "."),
        )
        found.append(Prefix(end, values))
        if end == len(text):
            break
    return found


def _clipped(logprob: float) -> float:
    return min(max(math.exp(min(logprob, 0.0)), _CLIP), 1.0 - _CLIP)


def is_word(char: str) -> bool:
    """Whether a character belongs to words."""
    return char.isalnum() or char == "_"


def _new_names(text: str, before: str, words: Container[str]) -> list[int]:
    """Where words of a text end that stand neither in the document nor in the line before; the first may
    begin there."""
    line, known = before + text, {found[0] for found in _WORD.finditer(before)}
    ends: list[int] = []
    for found in _WORD.finditer(line):
        word = found[0]
        if found.end() > len(before) and word not in words and word not in known:
            ends.append(found.end() - len(before))
            known.add(word)
    return ends
