"""The report as one page of HTML: no script, nothing from a network, everything escaped."""

from __future__ import annotations

import base64
import hashlib
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from lsp_calib import __version__
from lsp_calib.badges import BADGES, counted
from lsp_calib.calibration.calibrators.calibrator_store import Listed
from lsp_calib.errors import DataError, SettingsError
from lsp_calib.feedback.comparison import Accuracy, Comparison, Share
from lsp_calib.feedback.report import AtCost, FeedbackReport, Hidden, Latency
from lsp_calib.files import open_file, write_atomically
from lsp_calib.report import ThemeName, figures, words
from lsp_calib.report.markup import Markup, joined, legend, prose, section, style, table, tag

_MARK = '<meta name="generator" content="lsp-calib report">'


def html_page(report: FeedbackReport, theme: ThemeName = "auto") -> str:
    """The page. theme: "auto" is what the reader's system prefers."""
    root = {} if theme == "auto" else {"data_theme": theme}
    return f"<!doctype html>\n{tag('html', _head(), tag('body', _body(report)), lang='en', **root)}\n"


def is_report(beginning: bytes) -> bool:
    """Whether a file that begins so is a page of this kind, of any version, and may be replaced."""
    return beginning.startswith(b"<!doctype html>") and _MARK.encode() in beginning


def _head() -> Markup:
    digest = base64.b64encode(hashlib.sha256(style().encode()).digest()).decode("ascii")
    # Only this one style is allowed: nothing that got into the page could run or load anything.
    policy = f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    return tag(
        "head",
        tag("meta", charset="utf-8"),
        Markup(_MARK),
        tag("meta", http_equiv="Content-Security-Policy", content=policy),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="referrer", content="no-referrer"),
        tag("meta", name="robots", content="noindex"),
        tag("title", "lsp-calib: report"),
        tag("style", Markup(style())),
    )


def _body(report: FeedbackReport) -> Markup:
    if not report.statistics.suggestions:
        title = "There is nothing to report yet: no suggestion was shown."
        rest = (_todo("What to do"), _history(report.calibrators), _footer(report))
        return tag("main", _header(title), *rest)
    return tag(
        "main",
        _header(words.headline(report), words.period(report)),
        tag("div", *(_card(one) for one in report.tiers), class_="cards"),
        None if report.overall else _todo("No suggestion has a known outcome yet"),
        _compared(report.comparison),
        _over_time(report),
        *_by_group(report),
        _survival(report),
        _endings(report),
        _costs(report.costs),
        _hidden(report.hidden),
        _latency(report.latency),
        _history(report.calibrators),
        _glossary(),
        _footer(report),
    )


def _header(title: str, lead: str | None = None) -> Markup:
    return tag("header", tag("p", words.PURPOSE), tag("h1", title), tag("p", lead) if lead else None)


def _todo(title: str) -> Markup:
    return section(title, None, tag("ol", *(tag("li", text) for text in words.WHAT_TO_DO), class_="todo"))


def _scroll(
    head: Sequence[str], rows: Sequence[Sequence[str]], right: Sequence[int] = (), kind: str | None = None
) -> Markup:
    """A table, as for `markup.table`, that scrolls where it is too wide."""
    return tag("div", table(head, rows, right, kind), class_="scroll")


def _card(tier: Accuracy) -> Markup:
    badge, share = BADGES[tier.name], tier.share
    mark = tag("b", badge["mark"], class_=tier.name)
    name = tag("div", mark, f"{tier.name} ", tag("span", badge["words"], class_="muted"), class_="name")
    if not share.n:
        return tag("div", name, tag("p", "No visit yet.", class_="note"), class_=f"card {tier.name}")
    note = (
        f"{words.share(tier.promised)} promised: {words.verdict(tier)}. {counted(share.n, 'visit')}, 95 % "
        f"interval {words.share(share.low)} to {words.share(share.high)}."
    )
    return tag(
        "div",
        name,
        tag("p", words.share(share.value), tag("small", "right"), class_="big"),
        figures.scale(tier, tier.name),
        tag("p", note, class_="note"),
        tag("p", prose(advice), class_="note") if (advice := words.advice(tier)) else None,
        class_=f"card {tier.name}",
    )


def _compared(found: Comparison | None) -> Markup | None:
    if found is None:
        return None
    judged = [("In force", "no calibrator of your own in force", found.after)]
    if found.changed:
        judged = [
            ("Before", "without what was learned from you", found.before),
            ("In force", "with what was learned from you", found.after),
        ]
    panels = [
        tag(
            "div",
            tag("h3", title),
            tag("p", note),
            figures.reliability(one.bins, title.lower()),
            class_="panel",
        )
        for title, note, one in judged
    ]
    marks = (
        (tag("circle", cx=6, cy=6, r=4, class_="point"), "the share that was right, with its 95 % interval"),
        (
            tag("rect", x=1, y=1, width=10, height=10, class_="band"),
            "where it would usually be if the promise is true",
        ),
        (tag("rect", x=1, y=2, width=10, height=8, class_="count"), "visits, above"),
    )
    return section(
        "Before and after",
        " ".join(words.comparison(found)),
        tag("div", *panels, None if found.changed else _scores(found), class_="pair"),
        legend(marks),
        _scores(found) if found.changed else None,
        _parts(found) if len(found.parts) > 1 else None,
    )


def _scores(found: Comparison) -> Markup:
    names = (
        "mean promise",
        "Brier score (lower is better)",
        "skill (higher is better)",
        "log loss (lower is better)",
        "calibration error (lower is better)",
    )
    columns = [
        (
            words.share(one.mean_confidence),
            f"{one.brier:.3f}",
            words.signed(one.skill),
            f"{one.log_loss:.3f}",
            f"{one.ece:.3f}",
        )
        for one in ([found.before, found.after] if found.changed else [found.after])
    ]
    head = ("on these visits", "before", "in force") if found.changed else ("on these visits", "")
    listed = table(head, list(zip(names, *columns, strict=True)), right=(1, 2))
    return tag("div", listed, class_="scroll scores")


def _parts(found: Comparison) -> Markup:
    rows = [
        [
            one.model,
            one.language,
            f"{one.n:,}",
            f"{one.before.brier:.3f}",
            f"{one.after.brier:.3f}",
            words.signed(one.before.skill),
            words.signed(one.after.skill),
            one.after.calibrator if one.after.calibrator != one.before.calibrator else "as it came",
        ]
        for one in found.parts
    ]
    head = (
        *("model", "language", "visits", "Brier before", "in force", "skill before", "in force"),
        "calibrator in force",
    )
    return tag(
        "details",
        tag("summary", "By model and language"),
        _scroll(head, rows, right=range(2, 7)),
    )


def _over_time(report: FeedbackReport) -> Markup | None:
    if not report.periods:
        return None
    drawn = figures.skill_over_time(report.periods, report.calibrators)
    if drawn is None:
        return section("Over time", "Too early: two parts of 40 labelled suggestions or more make a line.")
    return section(
        "Over time",
        "The skill of the probabilities as they were shown, in parts of equally many labelled suggestions, "
        "with a 95 % interval. 0: no better than always giving your average.",
        tag("div", drawn, class_="panel"),
    )


def _by_group(report: FeedbackReport) -> Iterator[Markup]:
    """Tables with a row for each number of characters typed along, each tier at the accept, each language and
    source of labels."""
    groups = ("language", report.languages), ("source", report.sources)
    for title, lead, tables in (
        (
            "As you type along",
            "Promised and right when so many characters of a suggestion were typed along. A visit counts "
            "once in each row, at its first moment there.",
            [("characters", report.typed)] if len(report.typed) > 1 else [],
        ),
        ("When you accepted", words.WHEN_ACCEPTED, [("tier", report.accepted)] if report.accepted else []),
        (
            "By language and by source",
            "The stroke is the promise, the dot what was right. Labels from different sources are different "
            "populations.",
            [(name, found) for name, found in groups if found],
        ),
    ):
        if tables:
            yield section(title, lead, *(_outcomes(name, found) for name, found in tables))


def _outcomes(name: str, found: Sequence[Accuracy]) -> Markup:
    rows = [
        [
            one.name,
            f"{one.share.n:,}",
            words.share(one.promised),
            words.share(one.share.value),
            figures.scale(one),
            words.signed(one.skill),
            tag("span", words.verdict(one), class_=_MOODS.get(one.verdict, "muted")),
        ]
        for one in found
    ]
    head = (name, "visits", "promised", "right", "0 % to 100 %", "skill", "")
    return _scroll(head, rows, right=(1, 2, 3, 5), kind="outcomes")


_MOODS = {"asPromised": "good", "more": "good", "less": "bad"}


def _survival(report: FeedbackReport) -> Markup | None:
    drawn = figures.survival(report.survival)
    if drawn is None:
        return None
    times = list(dict.fromkeys(one.seconds for one in report.survival))
    shares = {(one.tier, one.seconds): one.share for one in report.survival}
    rows = [
        [tier or "all", *(_lasted(shares.get((tier, at))) for at in times)]
        for tier in dict.fromkeys(one.tier for one in report.survival)
    ]
    return section(
        "What lasts",
        "Of the suggestions that you inserted, the share whose line was unchanged some time later. Lines "
        "whose document was closed before are not counted from then on.",
        tag("div", drawn, class_="panel"),
        _scroll(("unchanged after", *map(words.seconds_words, times)), rows, right=range(1, len(times) + 1)),
    )


def _lasted(share: Share | None) -> str:
    if share is None or not share.n:
        return "–"
    interval = f"{counted(share.n, 'visit')}, {words.share(share.low)} to {words.share(share.high)}"
    return joined(words.share(share.value), tag("div", interval, class_="under"))


def _endings(report: FeedbackReport) -> Markup | None:
    counts = report.statistics.labels
    drawn = figures.endings(counts, words.ENDINGS)
    if drawn is None:
        return None
    keys = [
        (
            tag("rect", x=1, y=1, width=10, height=10, class_=f"end{at}"),
            joined(f"{words.ENDINGS[name]} ", tag("b", f"{counts[name]:,}")),
        )
        for at, name in enumerate(words.ENDINGS)
        if counts.get(name)
    ]
    lead = (
        "All suggestions with an outcome, each counted. What was kept or typed just so counts as right; what "
        "was gone too soon, or lost sight of, does not count."
    )
    return section("How they ended", lead, drawn, legend(keys))


def _costs(costs: Sequence[AtCost]) -> Markup | None:
    if not costs:
        return None
    return section("What may go unread", words.COSTS, table(words.COST_HEAD, [*map(words.cost_row, costs)]))


def _hidden(hidden: Hidden) -> Markup | None:
    if not (hidden.limits or hidden.explored or hidden.withheld or hidden.cut):
        return None
    rows = [
        [
            words.limit(one.below),
            figures.half_bar(one.wrong_hidden / one.wrong if one.wrong else None, "wrong"),
            f"{one.wrong_hidden:,} of {one.wrong:,}",
            figures.half_bar(one.right_hidden / one.right if one.right else None, "right"),
            f"{one.right_hidden:,} of {one.right:,}",
        ]
        for one in hidden.limits
    ]
    head = ("hideBelow", "wrong ones hidden", "", "right ones hidden", "")
    listed = _scroll(head, rows) if rows else None
    reasons = [
        tag("p", f"{title}: {', '.join(f'{n:,} {name}' for name, n in counts.items())}.", class_="muted")
        for title, counts in (("Answers withheld", hidden.withheld), ("Ends cut off", hidden.cut))
        if counts
    ]
    n = hidden.limits[0].right + hidden.limits[0].wrong if hidden.limits else 0
    lead = f" What a limit would have hidden of your last {counted(n, 'labelled suggestion')}:" if n else ""
    return section("What is hidden", f"{words.explored(hidden)}{lead}", listed, *reasons)


def _latency(latency: Latency | None) -> Markup | None:
    if latency is None:
        return None
    return section(
        "How fast",
        f"Half of the last answers since the server started came within {latency.p50:,.0f} ms, 95 % within "
        f"{latency.p95:,.0f} ms.",
    )


def _history(calibrators: Sequence[Listed]) -> Markup | None:
    if not calibrators:
        return None
    own = sum(words.is_own(one) for one in calibrators)
    shipped = [one for one in calibrators if one.calibrator.source == "shipped"]
    learned = [one for one in calibrators if one.calibrator.source != "shipped"]
    lead = (
        f"{counted(own, 'calibrator')} of your own. " if own else "None of your own yet. "
    ) + "`lsp-calib calibrators show ID` says what one weighs, `rollback` takes yours out of force."
    parts = [_calibrators(learned)] if learned else []
    if shipped:
        heading = f"{counted(len(shipped), 'calibrator')} came with lsp-calib"
        parts.append(tag("details", tag("summary", heading), _calibrators(shipped)))
    return section("Calibrators", lead, *parts)


def _calibrators(calibrators: Sequence[Listed]) -> Markup:
    rows = []
    for one in calibrators:
        c = one.calibrator
        skill, chip = c.metrics.get("skill"), "chip on" if one.in_force else "chip"
        rows.append(
            [
                tag("code", c.id),
                tag("span", "in force" if one.in_force else "kept", class_=chip),
                f"{c.purpose.answers} by {c.purpose.model.name}, prompt {c.purpose.prompt_version}",
                c.source,
                f"{c.n:,}",
                words.signed(None if skill is None else skill.value),
                c.created,
            ]
        )
    head = ("calibrator", "", "of", "source", "labels", "skill", "made")
    return _scroll(head, rows, right=(4, 5), kind="calibrators")


def _glossary() -> Markup:
    entries = [part for term, meaning in words.GLOSSARY for part in (tag("dt", term), tag("dd", meaning))]
    return section("What the words mean", None, tag("dl", *entries))


def _footer(report: FeedbackReport) -> Markup:
    made = f"Made {words.day(report.made_at)} by lsp-calib {__version__} from the feedback on this machine."
    rest = (
        "The page holds numbers and names of models and languages, no source text and no paths. It needs no "
        "network and runs no script. `lsp-calib report --json` prints all its numbers."
    )
    return tag("footer", prose(f"{made} {rest}"))


# More than the beginning by which a page is recognised.
_BEGINNING = 1000


def write_page(report: FeedbackReport, path: Path, theme: ThemeName = "auto") -> None:
    """Write the page, for its owner alone, in one step; a reader sees the old one or the new one.

    An earlier report is replaced.

    Raises SettingsError if there is anything else under this name, DataError if it cannot be written.
    """
    try:
        if path.is_symlink() or path.exists():
            _check_is_report(path)
        write_atomically(path, html_page(report, theme).encode("utf-8"), 0o600, durable=False)
    except OSError as error:
        raise DataError(f"{path} cannot be written: {error.strerror}. Give another place.") from error


def _check_is_report(path: Path) -> None:
    if path.is_file() and not path.is_symlink():
        with os.fdopen(open_file(path, links=False), "rb") as file:
            if is_report(file.read(_BEGINNING)):
                return
    raise SettingsError(f"{path} exists and is no report. Give another name, or remove it.")
