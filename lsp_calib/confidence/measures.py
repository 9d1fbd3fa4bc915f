"""One number from a generation's token log-probabilities.

Every measure takes the natural logarithms of the probabilities that the model's unmodified softmax gave the
generated tokens, in order, and returns a raw confidence in [0, 1]. Computed in log space with exactly rounded
sums, so a long generation neither underflows early nor depends on the order of summation.

Raises DataError, all of them: no tokens, NaN, or a log-probability above 0 by more than rounding.
Sources: Spiess et al. 2024, 4.1; Virk et al. 2024, 4.3 and 4.7 (the first t tokens).
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from functools import partial
from typing import SupportsFloat

from lsp_calib.errors import DataError

Measure = Callable[[Sequence[float]], float]

# A float32 softmax may put a sure token's log-probability a few 1e-7 above 0; more than that is no
# probability.
_ROUNDING = 1e-6
# Stands for log 0: small enough that exp of any mean with it is 0, large enough that sums stay finite.
_LOG_ZERO = -1e100

_FIRST = re.compile(r"geometric-mean-first-([1-9][0-9]{0,5})")


def total(logprobs: Sequence[float]) -> float:
    """Probability of the whole generation: the product of its tokens' probabilities."""
    return math.exp(math.fsum(_checked(logprobs)))


def arithmetic_mean(logprobs: Sequence[float]) -> float:
    """Mean of the tokens' probabilities."""
    values = _checked(logprobs)
    return math.fsum(math.exp(value) for value in values) / len(values)


def geometric_mean(logprobs: Sequence[float], first: int | None = None) -> float:
    """N-th root of the product of the tokens' probabilities.

    first: how many tokens from the start count; a shorter generation uses all it has. None: all.
    Raises DataError also if `first` is below 1.
    """
    values = _checked(logprobs)
    if first is not None:
        if first < 1:
            raise DataError(f"The first {first} tokens were asked for; at least 1 is needed.")
        values = values[:first]
    return math.exp(math.fsum(values) / len(values))


def minimum(logprobs: Sequence[float]) -> float:
    """Probability of the least likely token."""
    return math.exp(min(_checked(logprobs)))


_PLAIN: dict[str, Measure] = {
    "total": total,
    "arithmetic-mean": arithmetic_mean,
    "geometric-mean": geometric_mean,
    "minimum": minimum,
}


def measure_name(first: int | None = None) -> str:
    """The name on the wire of the geometric mean of the first `first` tokens (None: of all)."""
    return "geometric-mean" if first is None else f"geometric-mean-first-{first}"


def first_tokens(name: str) -> int | None:
    """How many tokens the named measure looks at; None: all. Raises DataError for an unknown name."""
    match = _FIRST.fullmatch(name)
    if match:
        return int(match[1])
    if name in _PLAIN:
        return None
    raise DataError(
        f"Unknown confidence measure {name!r}; known: {', '.join(_PLAIN)}, geometric-mean-first-<number>."
    )


def by_name(name: str) -> Measure:
    """The measure with this name (inverse of `measure_name`). Raises DataError for an unknown name."""
    first = first_tokens(name)
    return _PLAIN[name] if first is None else partial(geometric_mean, first=first)


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
