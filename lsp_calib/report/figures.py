"""The figures of the page, as SVG. Colours are those of the page's style, by class."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterable, Mapping, Sequence

from lsp_calib.badges import counted, percent
from lsp_calib.calibration.calibrators.calibrator import Calibrator
from lsp_calib.calibration.calibrators.calibrator_store import Listed
from lsp_calib.calibration.calibrators.refit import seen_until
from lsp_calib.calibration.reliability import ReliabilityBin
from lsp_calib.feedback.comparison import Accuracy
from lsp_calib.feedback.report_data import Period, Survival
from lsp_calib.report.markup import Markup, tag
from lsp_calib.report.words import (
    clock,
    day,
    from_to,
    is_own,
    iso_day,
    seconds_words,
    share,
    signed,
)
from lsp_calib.values import Tier

_TICKS = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
# Pixels between the labels of two lines that stand close together.
_LABEL_APART = 44.0
_Axis = Callable[[float], float]
_Height = Callable[[float | None], float]
"""That of a value; None, which is undefined, has that of 0."""


def figure(width: float, height: float, label: str, *children: Markup) -> Markup:
    """An SVG of this size in pixels, that shrinks with the page.

    label: what it shows, for those who do not see it.
    """
    return tag(
        "svg",
        *children,
        viewBox=f"0 0 {width:g} {height:g}",
        width=width,
        height=height,
        role="img",
        aria_label=label,
    )


def _line(x1: float, x2: float, y1: float, y2: float, kind: str, title: str | None = None) -> Markup:
    """title: what is shown where the pointer rests on it."""
    return tag("line", _about(title), x1=x1, x2=x2, y1=y1, y2=y2, class_=kind)


def _rect(x: float, y: float, width: float, height: float, kind: str, title: str | None = None) -> Markup:
    return tag("rect", _about(title), x=x, y=y, width=width, height=height, class_=kind)


def _dot(x: float, y: float, r: float, kind: str, title: str | None = None) -> Markup:
    return tag("circle", _about(title), cx=x, cy=y, r=r, class_=kind)


def _about(title: str | None) -> Markup | None:
    return None if title is None else tag("title", title)


def _text(words: str, x: float, y: float, kind: str) -> Markup:
    return tag("text", words, x=x, y=y, class_=kind)


def _points(x: _Axis, y: _Height, places: Iterable[tuple[float, float | None]]) -> str:
    """Places, as a polygon or a line has them."""
    return " ".join(f"{x(at):.1f},{y(value):.1f}" for at, value in places)


def _levels(left: float, width: float, y: _Height, names: Mapping[float, str]) -> list[Markup]:
    """A line across the figure for each value, and its name beside it."""
    lines = [_line(left, left + width, y(at), y(at), "grid") for at in names]
    return lines + [_text(name, left - 8, y(at) + 4, "small end") for at, name in names.items()]


def scale(outcome: Accuracy, tier: str = "") -> Markup:
    """Promise (stroke) and outcome (dot, with its interval) on a line from 0 to 100 %."""
    width, middle = 200.0, 11.0

    def x(value: float) -> float:
        return 4.0 + value * (width - 8.0)

    parts = [_line(x(0), x(1), middle, middle, "rail")]
    parts += [_line(x(at), x(at), middle - 3, middle + 3, "rail") for at in (0, 0.5, 1)]
    s = outcome.share
    if s.low is not None and s.high is not None and s.value is not None:
        parts.append(_line(x(s.low), x(s.high), middle, middle, f"span {tier}"))
        if outcome.promised is not None:
            at = x(outcome.promised)
            parts.append(_line(at, at, middle - 9, middle + 9, "promise"))
        parts.append(_dot(x(s.value), middle, 4.5, f"dot {tier}"))
    label = (
        f"promised {share(outcome.promised)}, right {share(s.value)}, interval {share(s.low)} to "
        f"{share(s.high)}"
    )
    return figure(width, 22, label, tag("title", label), *parts)


def reliability(bins: Sequence[ReliabilityBin], name: str) -> Markup:
    """Share right by promised probability; above, how many visits there are in each bin."""
    left, top, size, strip = 44.0, 56.0, 300.0, 34.0
    most = max((item.n for item in bins), default=0) or 1

    def x(value: float) -> float:
        return left + value * size

    def y(value: float) -> float:
        return top + (1.0 - value) * size

    parts = _grid(x, y, "promised", "right")
    parts.append(tag("line", x1=x(0), y1=y(0), x2=x(1), y2=y(1), class_="diagonal"))
    parts += [_bar(item, x, y, top - 8.0, strip, most) for item in bins if item.n]
    return figure(left + size + 20, top + size + 44, f"Reliability, {name}", *parts)


def _bar(item: ReliabilityBin, x: _Axis, y: _Axis, base: float, strip: float, most: int) -> Markup:
    """One bin with visits: its count, bar, band of a calibrated confidence, and point with its interval."""
    shares = (item.accuracy, item.confidence, item.low, item.high, item.band_low, item.band_high)
    accuracy, confidence, low, high, band_low, band_high = (value or 0.0 for value in shares)
    left, right = x(item.lower), x(item.upper)
    middle, width = (left + right) / 2.0, right - left
    tall = max(strip * item.n / most, 1.0)
    words = (
        f"promised {share(confidence)}, right {share(accuracy)} of {counted(item.n, 'visit')} (interval "
        f"{share(low)} to {share(high)}); {share(band_low)} to {share(band_high)} would be usual"
    )
    return tag(
        "g",
        tag("title", words),
        _rect(left + 1, base - tall, width - 2, tall, "count"),
        _text(f"{item.n:,}", middle, base - tall - 4, "small centre"),
        _rect(left + 1, y(accuracy), width - 2, y(0) - y(accuracy), "bar"),
        _rect(middle - width * 0.3, y(band_high), width * 0.6, max(y(band_low) - y(band_high), 1.0), "band"),
        _line(x(confidence), x(confidence), y(low), y(high), "whisker"),
        _dot(x(confidence), y(accuracy), 4, "point"),
    )


def skill_over_time(periods: Sequence[Period], calibrators: Sequence[Listed]) -> Markup | None:
    """The skill score of what was shown, part by part of the time, with its interval, and new calibrators.

    None with fewer than two parts whose skill is defined.
    """
    known = [(at, one) for at, one in enumerate(periods) if one.outcome.skill is not None]
    if len(known) < 2:
        return None
    left, top, width, height = 52.0, 26.0, 840.0, 190.0
    values = [v for _, one in known for v in (one.outcome.skill, one.outcome.skill_low) if v is not None]
    highs = [one.outcome.skill_high or one.outcome.skill or 0.0 for _, one in known]
    # Beyond -1 the height of a point says no more than "far worse".
    low = max(min(0.0, *values) - 0.05, -1.0)
    high = min(max(0.2, *highs) + 0.05, 1.0)

    def x(at: float) -> float:
        return left + (at + 0.5) / len(periods) * width

    def y(value: float | None) -> float:
        return top + (high - min(max(value or 0.0, low), high)) / (high - low) * height

    step = next(step for step in (0.1, 0.2, 0.5) if (high - low) / step <= 6 or step == 0.5)
    ticks = [n * step for n in range(-10, 11) if low <= n * step <= high]
    parts = _levels(left, width, y, {at: signed(at, 1) if at else "0" for at in ticks})
    parts.append(_line(left, left + width, y(0.0), y(0.0), "zero"))
    parts += _arrivals(periods, calibrators, x, top, height)
    banded = [(at, one.outcome) for at, one in known if one.outcome.skill_low is not None]
    if len(banded) > 1:
        edge = [(at, o.skill_high) for at, o in banded] + [(at, o.skill_low) for at, o in reversed(banded)]
        parts.append(tag("polygon", points=_points(x, y, edge), class_="area"))
    line = _points(x, y, ((at, one.outcome.skill) for at, one in known))
    parts.append(tag("polyline", points=line, class_="line"))
    for at, one in known:
        o = one.outcome
        words = (
            f"{from_to(one.start, one.end)}: skill {signed(o.skill)} ({signed(o.skill_low)} to "
            f"{signed(o.skill_high)}), {counted(o.share.n, 'visit')}"
        )
        parts.append(_dot(x(at), y(o.skill), 4, "mark", words))
    before = ""
    for at in range(0, len(periods), max(len(periods) // 6, 1)):
        # A day is named once; then the hours tell the parts of a short time from each other.
        begin = periods[at].start
        label = day(begin) if day(begin) != before else clock(begin)
        before = day(begin)
        parts.append(_text(label, x(at), top + height + 20, "small centre"))
    return figure(left + width + 24, top + height + 30, "Skill over time", *parts)


def _arrivals(
    periods: Sequence[Period], calibrators: Sequence[Listed], x: _Axis, top: float, height: float
) -> list[Markup]:
    """A line for each calibrator of the user's own, by a refit or from a code base, where it came."""
    found = {one.calibrator.id: _arrival(one.calibrator, periods) for one in calibrators if is_own(one)}
    parts = []
    labelled = -_LABEL_APART
    for at, when in sorted(set(filter(None, found.values()))):
        place = x(at)
        words = f"a calibrator of your own, {when}"
        parts.append(_line(place, place, top, top + height, "arrival", words))
        if place - labelled >= _LABEL_APART:
            labelled = place
            parts.append(_text("new", place, top - 8, "small centre muted"))
    return parts


def _arrival(calibrator: Calibrator, periods: Sequence[Period]) -> tuple[float, str] | None:
    """Where a calibrator came, in parts of the time from the middle of the first, and when; None: before.

    A refit comes with its last label. Of others the day alone is known: they come in the first part that had
    not ended then.
    """
    until = seen_until(calibrator)
    if until is None or "T" not in until:
        created = calibrator.created
        day_of = next((n for n, one in enumerate(periods) if iso_day(one.end) >= created), None)
        return None if day_of is None or iso_day(periods[0].start) > created else (day_of, created)
    moment = datetime.datetime.fromisoformat(until).timestamp()
    at = next((n for n, one in enumerate(periods) if one.end >= moment), None)
    if at is None or moment < periods[0].start:
        return None
    begin, end = periods[at].start, periods[at].end
    share_of = min(max((moment - begin) / (end - begin), 0.0), 1.0) if end > begin else 0.5
    return at - 0.5 + share_of, f"{day(moment)}, {clock(moment)}"


def survival(found: Sequence[Survival]) -> Markup | None:
    """The share of inserted suggestions that were unchanged some time later, by tier. None without any."""
    overall = [one for one in found if not one.tier and one.share.n]
    if not overall:
        return None
    left, top, width, height = 52.0, 16.0, 760.0, 190.0
    times = [one.seconds for one in overall]
    lowest = min(one.share.value or 0.0 for one in found if one.share.n)
    floor = 0.5 if lowest > 0.55 else 0.0

    def x(seconds: float) -> float:
        return left + (0 if not seconds else times.index(int(seconds)) + 1) / len(times) * width

    def y(value: float | None) -> float:
        return top + (1.0 - max(value or 0.0, floor)) / (1.0 - floor) * height

    ticks = [floor + n * (1.0 - floor) / 5 for n in range(6)]
    parts = _levels(left, width, y, {at: percent(at) for at in ticks})
    edge = [(0, 1.0), *((o.seconds, o.share.high) for o in overall)]
    edge += [(o.seconds, o.share.low) for o in reversed(overall)]
    parts.append(tag("polygon", points=_points(x, y, edge), class_="area"))
    ends: dict[str, float] = {}
    for tier in ("", *(tier.value for tier in Tier)):
        mine = [one for one in found if one.tier == tier and one.share.n]
        if not mine:
            continue
        points = _points(x, y, [(0, 1.0), *((o.seconds, o.share.value) for o in mine)])
        parts.append(tag("polyline", points=points, class_=f"line {tier or 'all'}"))
        for one in mine:
            words = (
                f"{tier or 'all'} after {seconds_words(one.seconds)}: {share(one.share.value)} unchanged of "
                f"{counted(one.share.n, 'visit')} ({share(one.share.low)} to {share(one.share.high)})"
            )
            parts.append(_dot(x(one.seconds), y(one.share.value), 3.5, f"mark {tier or 'all'}", words))
        if mine[-1].seconds == times[-1]:
            ends[tier or "all"] = y(mine[-1].share.value)
    parts += [
        _text(name, left + width + 10, at + 4, f"small label {name}")
        for name, at in _apart(ends, 15.0).items()
    ]
    parts.append(_text("inserted", x(0), top + height + 20, "small centre"))
    for one in overall:
        place = x(one.seconds)
        parts.append(_text(seconds_words(one.seconds), place, top + height + 20, "small centre"))
        parts.append(_text(f"n = {one.share.n:,}", place, top + height + 36, "small centre muted"))
    return figure(left + width + 70, top + height + 44, "Unchanged after insertion", *parts)


def endings(counts: Mapping[str, int], names: Mapping[str, str]) -> Markup | None:
    """How suggestions ended, as one bar in parts. None without any."""
    total = sum(counts.values())
    if not total:
        return None
    left, width = 0.0, 932.0
    parts = []
    for at, name in enumerate(names):
        n = counts.get(name, 0)
        if not n:
            continue
        wide = n / total * width
        words = f"{names[name]}: {n:,} ({percent(n / total)})"
        parts.append(_rect(left, 0, max(wide - 1.5, 1.0), 26, f"end{at}", words))
        left += wide
    return figure(width, 26, "How suggestions ended", *parts)


def half_bar(value: float | None, kind: str) -> Markup:
    """A share as a bar. kind: the class that colours it."""
    wide = 0.0 if value is None else value * 140.0
    return figure(140, 12, share(value), _rect(0, 0, 140, 12, "track"), _rect(0, 0, wide, 12, kind))


def _grid(x: _Axis, y: _Axis, below: str, beside: str) -> list[Markup]:
    """Axes of shares from 0 to 100 %, with their titles."""
    parts = []
    for at in _TICKS:
        parts.append(_line(x(at), x(at), y(0), y(1), "grid"))
        parts.append(_line(x(0), x(1), y(at), y(at), "grid"))
        parts.append(_text(percent(at), x(at), y(0) + 18, "small centre"))
        parts.append(_text(percent(at), x(0) - 8, y(at) + 4, "small end"))
    parts.append(_text(below, x(0.5), y(0) + 38, "axis centre"))
    across = f"translate({x(0) - 36:.1f} {y(0.5):.1f}) rotate(-90)"
    parts.append(tag("text", beside, transform=across, class_="axis centre"))
    return parts


def _apart(places: Mapping[str, float], least: float) -> dict[str, float]:
    """Labels moved down until each is at least so far below the one above it."""
    found: dict[str, float] = {}
    last = -1e9
    for name, at in sorted(places.items(), key=lambda pair: pair[1]):
        last = max(at, last + least)
        found[name] = last
    return found
