"""The sentences of the report, for the page and for the terminal. Pure."""

from __future__ import annotations

import datetime
from collections.abc import Iterator

from lsp_calib.badges import counted, percent
from lsp_calib.calibration.calibrators.calibrator_store import Listed
from lsp_calib.calibration.calibrators.lent import carried_from
from lsp_calib.feedback.comparison import ENOUGH, Accuracy, Comparison
from lsp_calib.feedback.report import AtCost, FeedbackReport, Hidden
from lsp_calib.values import Tier

PURPOSE = "Did the probabilities on your suggestions come true, and what has learning changed?"

WHAT_TO_DO = (
    "Work in an editor that runs lsp-calib. A suggestion is settled when you save or close its document, "
    "or 30 seconds after the last change to its line once you have moved on.",
    "Keep lspCalib.feedback.enabled on in your editor (the default). What is stored are numbers, never your "
    "text.",
    "Then make the report again: about 20 settled lines say something, 100 say much.",
)

GLOSSARY = (
    (
        "visit",
        "The time that you spend on one line. All suggestions shown during a visit count once, together: "
        "they share their outcome.",
    ),
    ("right", "The line ended up as suggested: you kept the suggestion as it was, or typed the same."),
    ("promised", "The mean of the probabilities that were shown."),
    (
        "95 % interval",
        "The range of shares that such counts do not contradict, if visits are independent. A promise "
        "inside it has been kept as far as can be told. One outside it has not, however few the visits.",
    ),
    (
        "Brier score",
        "The mean squared difference between the probability and what happened (1 or 0). Lower is better.",
    ),
    (
        "skill",
        "How much better the Brier score is than that of always giving your average: 0 is no better, 1 is "
        "perfect.",
    ),
    (
        "calibration error",
        "How far promised and right are apart, on average over ten bins. A small one alone says little: "
        "always giving the average has one of 0.",
    ),
)

COSTS = (
    "Accepting a suggestion at a glance saves reading it. Where a wrong line that nobody read costs so many "
    "readings, this is the best threshold, and what it would have brought with your last labels."
)
COST_HEAD = ("a wrong unread line costs", "accept from", "accepted", "of these right", "readings saved")

WHEN_ACCEPTED = (
    "What was on the screen when you accepted a suggestion, and how much of that you kept. You take what you "
    "see to be right, so that more is right here than was promised."
)

_VERDICTS = {
    "notPromised": "of your commits, not shown",
    "tooFew": "too few to say",
    "asPromised": "as promised",
    "more": "better than promised",
    "less": "worse than promised",
}
_OUTSIDE = {
    "more": "The promise lies below the interval: for your code these probabilities are too low. "
    "`lsp-calib refit` corrects them by your labels; until then the preset `lenient` accepts more "
    "(`tiers.preset`).",
    "less": "The promise lies above the interval: for your code these probabilities are too high. "
    "`lsp-calib refit` corrects them by your labels; until then the preset `cautious` accepts less "
    "(`tiers.preset`).",
}
ENDINGS = {
    "kept": "kept as suggested",
    "kept in parts": "kept, taken in parts",
    "typed": "typed just so",
    "edited": "inserted, then changed",
    "taken in part": "a part inserted, another line",
    "typed over": "another line instead",
    "superseded": "replaced before it could be read",
    "ignored": "left aside",
    "deleted": "line deleted",
    "reported": "reported as wrong",
    "unread": "gone too soon to read",
    "lost": "lost sight of",
    "overwritten": "changed by another program",
    "discarded": "closed without saving",
}


# Shares that a reader takes for the same.
_CLOSE = 0.05
_BY_CHANCE = "apart by no more than chance"


def verdict(outcome: Accuracy) -> str:
    """Whether the promise was kept, in a few words."""
    return _BY_CHANCE if _differs_by_chance(outcome) else _VERDICTS[outcome.verdict]


def advice(outcome: Accuracy) -> str:
    """On which side of the interval a promise lies, and what to do; "" if it lies inside, or is none."""
    return _OUTSIDE.get(outcome.verdict, "")


def _differs_by_chance(outcome: Accuracy) -> bool:
    """Whether the two shares look different, and the interval says that this may be chance."""
    right, promised = outcome.share.value, outcome.promised
    if outcome.verdict != "asPromised" or right is None or promised is None:
        return False
    return abs(right - promised) > _CLOSE


def headline(report: FeedbackReport) -> str:
    """The one sentence to read if one reads only one."""
    accept = next((one for one in report.tiers if one.name == Tier.ACCEPT), None)
    known = report.overall.share.n if report.overall else 0
    if not known:
        return f"{counted(report.statistics.suggestions, 'suggestion')} shown, none settled yet."
    if accept is not None and accept.verdict != "tooFew":
        return _tier_headline(accept)
    if (outside := next(filter(advice, report.tiers), None)) is not None:
        return _tier_headline(outside)
    if known < ENOUGH:
        return f"{counted(known, 'visit')} with a known outcome: too few to say anything yet."
    n = accept.share.n if accept else 0
    return f"Too few suggestions were marked accept to judge that mark ({counted(n, 'visit')})."


def _tier_headline(tier: Accuracy) -> str:
    """What came of the promise of a tier that can be judged."""
    right, promised = percent(tier.share.value), percent(tier.promised)
    visits = counted(tier.share.n, "visit")
    was = f"“{tier.name.capitalize()}” was right {right} of the time"
    if _differs_by_chance(tier):
        return f"{was}, {promised} were promised: {_BY_CHANCE} ({visits})."
    ending = _VERDICTS[tier.verdict]
    if tier.name == Tier.ACCEPT and tier.verdict == "less":
        ending += ": read before you accept"
    return f"{was}, {ending} ({promised}{f', {visits}' if tier.share.n < ENOUGH else ''})."


def period(report: FeedbackReport) -> str:
    """How much there is, from when to when."""
    found = report.statistics
    known = report.overall.share.n if report.overall else 0
    parts = [] if found.first is None else [f"{day(found.first)} to {day(found.last)}"]
    parts += [f"{counted(found.suggestions, 'suggestion')} shown", f"{found.labelled:,} with a known outcome"]
    parts += [f"on {counted(known, 'visit')} to a line"] if known else []
    return " · ".join(parts)


def comparison(found: Comparison) -> Iterator[str]:
    """What learning from the user has changed."""
    if not found.changed:
        yield (
            "No calibrator of your own is in force here, so both are the same. `lsp-calib refit` makes one. "
            "It takes force only on evidence that the present one is not right for you."
        )
    elif found.unseen:
        yield f"On {counted(found.n, 'visit')} that your calibrator has not seen: a fair comparison."
    else:
        yield (
            f"Your calibrator was fitted on some of these {counted(found.n, 'visit')}, so it looks better "
            f"here than it is. A fair comparison needs {ENOUGH} visits after the last refit, with right and "
            "wrong ones."
        )
    if found.changed:
        yield gain(found)


def gain(found: Comparison) -> str:
    """The change of the Brier score, and whether it is more than chance."""
    amount = f"The Brier score changed from {found.before.brier:.3f} to {found.after.brier:.3f}"
    if found.gain_low is None or found.gain_high is None or found.n < ENOUGH:
        return f"{amount}: too few to say whether that is chance."
    interval = f"{signed(-found.gain_high, 3)} to {signed(-found.gain_low, 3)}, 95 %"
    if found.gain_low > 0.0:
        return f"{amount}, better by more than chance ({interval})."
    if found.gain_high < 0.0:
        back = "`lsp-calib calibrators rollback` takes it back"
        return f"{amount}, worse by more than chance ({interval}). {back}."
    return f"{amount}; that may be chance ({interval})."


def explored(hidden: Hidden) -> str:
    """What is known of what `hideBelow` hides."""
    if not hidden.explored:
        return "Nothing that hideBelow hides was shown so far: it is off, or has hidden less than a hundred."
    known = hidden.explored_known
    right = f"; {hidden.explored_right} of the {known} with a known outcome were right" if known else ""
    return (
        f"{counted(hidden.explored, 'suggestion')} to be hidden were shown nevertheless, to keep learning. "
        f"They stand for about {hidden.stands_for:,.0f}{right}."
    )


def cost_row(one: AtCost) -> list[str]:
    """The cells of one cost, under `COST_HEAD`."""
    right = f"{one.right / one.accepted:.0%}".replace("%", " %") if one.accepted else ""
    saved = f"{one.saved:+,.0f}".replace("-", "−")
    return [f"{one.cost:g} readings", share(one.accept_from), f"{one.accepted:,}", right, saved]


def is_own(listed: Listed) -> bool:
    """Whether a calibrator is the user's: fitted on feedback or on a code base, or imported; not one that was
    only carried over from it to another prompt."""
    own = listed.calibrator.source in ("personal", "workspace")
    return own and carried_from(listed.calibrator) is None


def day(at: float | None) -> str:
    """The local date of a time in Unix seconds, such as 3 May 2026; empty for None or an impossible time."""
    if at is None:
        return ""
    try:
        moment = datetime.datetime.fromtimestamp(at).astimezone()
    except (OverflowError, OSError, ValueError):
        return ""
    return f"{moment.day} {moment:%b %Y}"


def from_to(start: float, end: float) -> str:
    """From when to when, in local time: days, or the hours of one day, as in 3 May 2026, 9:05 to 11:40."""
    if day(start) != day(end):
        return f"{day(start)} to {day(end)}"
    return f"{day(start)}, {clock(start)} to {clock(end)}"


def clock(at: float) -> str:
    """The local time of day of a time in Unix seconds, such as 9:05."""
    moment = datetime.datetime.fromtimestamp(at).astimezone()
    return f"{moment.hour}:{moment:%M}"


def iso_day(at: float | None) -> str:
    """The local date of a time in Unix seconds, as an ISO date; empty for None."""
    return "" if at is None else datetime.datetime.fromtimestamp(at).astimezone().date().isoformat()


def signed(value: float | None, digits: int = 2) -> str:
    """A score with its sign; a dash where it is undefined.

    >>> signed(0.123), signed(-0.5, 1), signed(None)
    ('+0.12', '−0.5', '–')
    """
    return "–" if value is None else f"{value:+.{digits}f}".replace("-", "−")


def share(value: float | None) -> str:
    """A share in whole percent; a dash where there is none."""
    return "–" if value is None else percent(value)


def limit(below: float) -> str:
    """A limit that a person chose, in percent with all its digits.

    >>> limit(0.125)
    '12.5 %'
    """
    return f"{100 * below:g} %"


def seconds_words(seconds: int) -> str:
    """A duration in words.

    >>> seconds_words(30), seconds_words(120)
    ('30 s', '2 min')
    """
    return f"{seconds} s" if seconds < 60 else f"{seconds // 60} min"
