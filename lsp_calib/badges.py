"""How a tier, a state of the server and a probability are shown: mark, colour name and words."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lsp_calib.values import Confidence, Suggestion, Tier

# The badge that an editor shows for each tier, and for each state. Colour comes before
# words: arXiv 2510.22614 reports that developers prefer it. The colours are names that every terminal knows.
# Each tier has a shape of its own as well, for those who do not tell the colours apart.
BADGES = {
    "accept": {"mark": "●", "color": "green", "words": "usually used as it is"},
    "review": {"mark": "▲", "color": "yellow", "words": "read it first"},
    "reject": {"mark": "✗", "color": "red", "words": "rarely used as it is"},
    "starting": {"mark": "◌", "color": "blue", "words": "starting"},
    "loading": {"mark": "◌", "color": "blue", "words": "loading the model"},
    "busy": {"mark": "◌", "color": "blue", "words": "thinking"},
    "ready": {"mark": "○", "color": "green", "words": "ready"},
    "paused": {"mark": "‖", "color": "yellow", "words": "paused"},
    "noModel": {"mark": "✗", "color": "red", "words": "no model"},
    "error": {"mark": "✗", "color": "red", "words": "not working"},
    # Of a calibrator.
    "learning": {"mark": "◔", "color": "blue", "words": "few labels yet"},
    "drifted": {"mark": "✗", "color": "yellow", "words": "certificate revoked"},
}


# The colour as a character, for places that show text alone: hovers and code lenses.
DOTS = {
    "accept": "\N{LARGE GREEN CIRCLE}",
    "review": "\N{LARGE YELLOW CIRCLE}",
    "reject": "\N{LARGE RED CIRCLE}",
}


# A summary is read, not run: its tier says how likely it says what its author would.
_SUMMARY_WORDS = {
    "accept": "likely says what its author would",
    "review": "may say what its author would",
    "reject": "unlikely to say what its author would",
}


def tier_words(tier: Tier) -> str:
    """The words of a summary's tier, as the beginning of a sentence."""
    return _SUMMARY_WORDS[tier.value].capitalize()


def tier_and_reason(suggestion: Suggestion) -> str:
    """The words of a tier and its reason, as one sentence without a full stop. A rejected line says how often
    such lines are used, if that is known."""
    confidence = suggestion.confidence
    if suggestion.kind == "summary":
        return f"{tier_words(confidence.tier)}: {tier_sentence(confidence)}"
    words = suggestion.usage or BADGES[confidence.tier.value]["words"]
    return f"{words.capitalize()}: {suggestion.why}"


def rejected_words(unchanged: float, survived: float) -> str:
    """The words of reject where it is known what became of such lines. Shares in [0, 1]: of those that were
    used as they are, and as they are or after an edit.

    >>> rejected_words(0.13, 0.38)
    'rarely used as it is (about 1 in 10; 4 in 10 after an edit)'
    """
    edited = _in_ten(survived).removeprefix("about ")
    return f"{BADGES['reject']['words']} ({_in_ten(unchanged)}; {edited} after an edit)"


def percent(probability: float | None) -> str:
    """A probability from 0 to 1 in whole percent; "no probability" for None.

    What is not certain reads neither 0 nor 100 %.
    """
    if probability is None:
        return "no probability"
    if 0.0 < probability < 0.005:
        return "<1 %"
    return ">99 %" if 0.995 <= probability < 1.0 else f"{100 * probability:.0f} %"


def counted(n: int, noun: str) -> str:
    """A number and what it counts.

    >>> counted(1, "visit"), counted(12345, "visit")
    ('1 visit', '12,345 visits')
    """
    return f"{n:,} {noun}{'' if n == 1 else 's'}"


def tier_sentence(confidence: Confidence) -> str:
    """What the confidence of a summary means, in numbers that people can picture; no full stop.

    Right is a summary that is like what a person wrote of the function, and the labels are such comparisons.
    """
    probability = confidence.calibrated
    if probability is None:
        return confidence.reason
    n = confidence.calibrator.n
    checked = f"({n:,} checked)" if n else "(a guess, from other languages)"
    return f"{_in_ten(probability)} summaries like this match what a person wrote {checked}"


def _in_ten(probability: float) -> str:
    """A probability in [0, 1] as so many in 10, where that is near enough."""
    tenths = round(probability * 10)
    if probability < 0.075:
        return f"{'fewer than' if probability < 0.05 else 'about'} 1 in 20"
    return "more than 19 in 20" if tenths > 9 else f"about {tenths} in 10"
