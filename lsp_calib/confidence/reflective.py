"""The probability that a model gives to its own answer being right, when asked for "True" or "False".

Three readings of the same answer. The papers saw only the most likely alternatives of an interface; a local
model gives its whole softmax. None of the three is a calibrated probability: Spiess et al. find no consistent
relationship, Virk et al. 94 % of confidences above 0.9.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence

import attrs
import numpy as np
import numpy.typing as npt

from lsp_calib.errors import DataError

# A token's text, and the natural logarithm of its probability.
Alternative = tuple[str, float]

_ROUNDING = 1e-6
# A token may have white space, quotes, markup or a full stop around the word, but no letter or digit.
_WORD = re.compile(r"[\W_]*(true|false)[\W_]*", re.IGNORECASE)


@attrs.frozen
class TrueFalse:
    """The probabilities that an answer gave to true and to false; both in [0, 1].

    None: the word is not among the alternatives examined. Its probability then has an upper bound, but is
    unknown.
    """

    true: float | None
    false: float | None

    @property
    def valid(self) -> bool:
        """Whether the model answered the question at all."""
        return self.true is not None or self.false is not None

    @property
    def confidence(self) -> float | None:
        """p_B: the probability of true; 0 where only false was found, None where neither was.

        >>> TrueFalse(true=None, false=0.9).confidence
        0.0
        """
        if self.true is not None:
            return self.true
        return None if self.false is None else 0.0

    @property
    def normalised(self) -> float | None:
        """p_NB: true / (true + false); a word that was not found counts as 0. None if neither has any
        probability.

        Source: Spiess et al. 2024, 3.1.2, footnote 4.

        >>> TrueFalse(true=0.75, false=0.25).normalised
        0.75
        """
        true, false = self.true or 0.0, self.false or 0.0
        # Subnormal probabilities lose digits in the sum; below this bound neither word is an answer.
        return true / (true + false) if true + false > 1e-300 else None


def contained_true_false(
    positions: Sequence[Sequence[Alternative]], *, most: int = 5, tokens: int = 2
) -> TrueFalse:
    """Spiess et al.'s rule: the most probable alternative that contains the word.

    positions: for each answered token, in order, its alternatives in any order.
    most: how many of the likeliest alternatives of a position are looked at. tokens: how many positions.
    "true" or "false" may stand in any case and anywhere in a token: "untrue" contains "true", and the
    probability of a second token is conditional on the first one. So the two can sum to over 1.
    Raises DataError for impossible log-probabilities, or `most` or `tokens` below 1.
    Source: Spiess et al. 2024, 3.1.2, footnote 4 (five tokens, two positions).

    >>> first = [("\\n", math.log(0.7)), (" TRUE", math.log(0.2))]
    >>> second = [("True", math.log(0.75)), ("False", math.log(0.25))]
    >>> answer = contained_true_false([first, second])
    >>> round(answer.true, 6), round(answer.normalised, 6)
    (0.75, 0.75)
    """
    if tokens < 1:
        raise DataError(f"At least 1 answered token is needed, not {tokens}.")
    found = [alternative for position in positions[:tokens] for alternative in _likeliest(position, most)]
    return TrueFalse(
        true=_largest(logprob for text, logprob in found if "true" in text.casefold()),
        false=_largest(logprob for text, logprob in found if "false" in text.casefold()),
    )


def true_token(alternatives: Sequence[Alternative], *, most: int = 5) -> float | None:
    """Virk et al.'s rule: the probability of the token "True" among the five likeliest of the first position.

    alternatives: those of the first answered token, in any order. White space around the token is not part of
        the word; "true" and "TRUE" count as other words.
    Returns None where it is not among them: an invalid answer. Raises DataError as `contained_true_false`.
    Source: Virk et al. 2024, 6.4.

    >>> true_token([("False", math.log(0.5)), (" True", math.log(0.25))])
    0.25
    """
    return _largest(logprob for text, logprob in _likeliest(alternatives, most) if text.strip() == "True")


@attrs.frozen(eq=False)
class TrueFalseTokens:
    """Which tokens of a vocabulary spell true and which false: two int arrays of ids, ascending."""

    true: npt.NDArray[np.intp]
    false: npt.NDArray[np.intp]


def true_false_tokens(vocabulary: Sequence[str]) -> TrueFalseTokens:
    """The tokens that are one of the two words: in any case, with white space and punctuation around it.

    vocabulary: the text of each token, by id. Scan it once for a model, not for each answer.
    A token that only begins a word ("Tr", "F") is not included: the text that would follow it is unknown.
    Raises DataError if one of the words has no token.

    >>> words = true_false_tokens(["True", " true", "untrue", "\\"FALSE\\"", "Fal"])
    >>> words.true.tolist(), words.false.tolist()
    ([0, 1], [3])
    """
    ids: dict[str, list[int]] = {"true": [], "false": []}
    for at, text in enumerate(vocabulary):
        match = _WORD.fullmatch(text)
        if match:
            ids[match[1].casefold()].append(at)
    for word, tokens in ids.items():
        if not tokens:
            raise DataError(f"No token of the vocabulary spells {word!r}.")
    return TrueFalseTokens(np.array(ids["true"], np.intp), np.array(ids["false"], np.intp))


def exact_true_false(logprobs: npt.ArrayLike, tokens: TrueFalseTokens) -> TrueFalse:
    """The probability of all tokens that spell true, and of all that spell false.

    logprobs: float array of shape (vocabulary,), natural logarithms of the whole softmax where the answer
        begins. The prompt must end there, so that the model need not add white space first.
    tokens: of the same vocabulary, as `true_false_tokens` finds them.
    Raises DataError for another shape, a vocabulary too small for the tokens, or impossible values.
    Ours: the papers' rules approximate this from the alternatives that an interface returned.

    >>> words = true_false_tokens(["True", " true", "False", "maybe"])
    >>> answer = exact_true_false(np.log([0.3, 0.3, 0.2, 0.2]), words)
    >>> round(answer.true, 6), round(answer.false, 6), round(answer.normalised, 6)
    (0.6, 0.2, 0.75)
    """
    values = np.asarray(logprobs, dtype=np.float64)
    last = max(int(tokens.true.max()), int(tokens.false.max()))
    if values.ndim != 1 or values.size <= last:
        raise DataError(f"One log-probability for each token is needed; the shape is {values.shape}.")
    if not np.all(values <= _ROUNDING):  # NaN fails this too
        raise DataError("Log-probabilities must be numbers not above 0.")
    true, false = (float(np.exp(values[ids]).sum()) for ids in (tokens.true, tokens.false))
    return TrueFalse(true=min(true, 1.0), false=min(false, 1.0))


def _likeliest(alternatives: Sequence[Alternative], most: int) -> list[Alternative]:
    if most < 1:
        raise DataError(f"At least 1 alternative is needed, not {most}.")
    for text, logprob in alternatives:
        if not logprob <= _ROUNDING:  # NaN fails this too
            raise DataError(f"The log-probability of {text!r} is {logprob}; it must be a number not above 0.")
    return sorted(alternatives, key=lambda alternative: -alternative[1])[:most]


def _largest(logprobs: Iterable[float]) -> float | None:
    found = max(logprobs, default=None)
    return None if found is None else math.exp(min(found, 0.0))
