"""One number from the log-probabilities of a generation's tokens.

A calibrator's curve makes a probability of it (`calibration.calibrators.curve`).

A measure by name takes the natural logarithms of the probabilities that the model's unmodified softmax gave
the generated tokens, in order, and returns a raw confidence in [0, 1]. Computed in log space with exactly
rounded sums, so a long generation neither underflows early nor depends on the order of summation.

All raise DataError for no tokens, NaN, or a log-probability above 0 by more than rounding.
Sources: Spiess et al. 2024, 4.1; Virk et al. 2024, 4.3 and 4.7 (the first t tokens).
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Sequence
from typing import SupportsFloat

import numpy as np
import numpy.typing as npt

from lsp_calib.errors import DataError

Measure = Callable[[Sequence[float]], float]
FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.intp]

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
