"""The page and its command: the numbers are the report's, and nothing in it can run or load anything."""

from __future__ import annotations

import base64
import datetime
import hashlib
import json
import os
import re
import stat
import sys
from collections.abc import Sequence
from html.parser import HTMLParser
from pathlib import Path

import attrs
import pytest
from click.testing import CliRunner, Result
from report_scene import NOW, Shown, calibrators_of, drawn, report_on, write

from lsp_calib.badges import percent
from lsp_calib.calibration.calibrators.lent import carried_from
from lsp_calib.calibration.calibrators.purpose import Origin
from lsp_calib.calibration.calibrators.refit import FEEDBACK
from lsp_calib.cli import main
from lsp_calib.commands.feedback import print_report
from lsp_calib.feedback.comparison import Accuracy, Share
from lsp_calib.feedback.removal import remove_everything
from lsp_calib.feedback.report import PAGE, FeedbackReport, Latency
from lsp_calib.feedback.store import FeedbackStore
from lsp_calib.report import figures, words
from lsp_calib.report.page import html_page

HOSTILE = '"><script>alert(1)</script><img src=x onerror=alert(1)>\u202e'


class Page(HTMLParser):
    """The elements, the texts and the tables of a page."""

    def __init__(self, source: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.tables: list[list[list[str]]] = []
        self.text = ""
        self._open: list[str] = []
        self.feed(source)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attributes)))
        if tag not in ("meta", "br"):
            self._open.append(tag)
        if tag == "table":
            self.tables.append([])
        elif tag == "tr":
            self.tables[-1].append([])
        elif tag in ("td", "th"):
            self.tables[-1][-1].append("")

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag, "elements are nested"

    def handle_data(self, data: str) -> None:
        if "style" in self._open:
            return
        self.text += data + "\n"
        if {"td", "th"} & set(self._open) and "svg" not in self._open:
            self.tables[-1][-1][-1] += data

    def table(self, first: str) -> list[list[str]]:
        """The rows below the head of the table with this first head; of all of them, if there are several."""
        found = [rows[1:] for rows in self.tables if rows[0][0] == first]
        assert found
        return [row for rows in found for row in rows]


def report_of(
    folder: Path, rows: Sequence[Shown], *, until: float | None = None, model: str = ""
) -> FeedbackReport:
    write(folder / "feedback.db", rows, model=model)
    latency = Latency(123.4, 987.6)
    return report_on(folder / "feedback.db", calibrators_of(folder, until), latency=latency)


def signed(value: float) -> str:
    return f"{value:+.2f}".replace("-", "−")


@pytest.fixture(scope="module")
def rows() -> list[Shown]:
    return drawn(500)


@pytest.fixture(scope="module")
def report(rows: list[Shown], tmp_path_factory: pytest.TempPathFactory) -> FeedbackReport:
    until = sorted(row.labelled_at for row in rows)[150]
    return report_of(tmp_path_factory.mktemp("home"), rows, until=until)


@pytest.fixture(scope="module")
def page(report: FeedbackReport) -> Page:
    return Page(html_page(report))


class TestNumbers:
    def test_languages_and_sources(self, page: Page, report: FeedbackReport) -> None:
        for name, groups in (("language", report.languages), ("source", report.sources)):
            found = {row[0]: row[1:] for row in page.table(name)}
            assert set(found) == {one.name for one in groups}
            for one in groups:
                visits, promised, right, _, skill, _ = found[one.name]
                shares = percent(one.promised), percent(one.share.value)
                assert (visits, promised, right) == (f"{one.share.n:,}", *shares)
                assert skill == words.signed(one.skill)

    def test_cards(self, page: Page, report: FeedbackReport) -> None:
        for tier in report.tiers:
            interval = f"{percent(tier.share.low)} to {percent(tier.share.high)}"
            assert f"{percent(tier.promised)} promised: " in page.text
            assert f"{tier.share.n:,} visits, 95 % interval {interval}." in page.text
            assert f"{percent(tier.share.value)}\nright\n" in page.text

    def test_before_and_after(self, page: Page, report: FeedbackReport) -> None:
        """Scores as `test_report` computes them, three digits; the diagrams' words name each bin."""
        comparison = report.comparison
        assert comparison is not None
        columns = list(zip(*page.table("on these visits"), strict=True))[1:]
        for shown, one in zip(columns, (comparison.before, comparison.after), strict=True):
            assert one.skill is not None
            numbers = f"{one.brier:.3f}", signed(one.skill), f"{one.log_loss:.3f}", f"{one.ece:.3f}"
            assert shown == (percent(one.mean_confidence), *numbers)
            for item in one.bins:
                if item.n:
                    visits = f"{item.n:,} visit{'s' * (item.n != 1)}"
                    said = f"promised {percent(item.confidence)}, right {percent(item.accuracy)} of {visits}"
                    assert said in page.text
        assert f"On {comparison.n:,} visits that your calibrator has not seen" in page.text
        assert [row[1:3] for row in page.table("model")] == [
            [part.language, f"{part.n:,}"] for part in comparison.parts
        ]

    def test_what_lasts(self, page: Page, report: FeedbackReport) -> None:
        found = {row[0]: row[1:] for row in page.table("unchanged after")}
        for one in report.survival:
            cell = found[one.tier or "all"][(30, 120, 300, 600).index(one.seconds)]
            assert cell.startswith(percent(one.share.value))
            assert f"{one.share.n:,} visit" in cell

    def test_over_time_hidden_endings_and_latency(self, page: Page, report: FeedbackReport) -> None:
        for period in report.periods:
            o = period.outcome
            assert f"skill {signed(o.skill or 0.0)}" in page.text
            assert f"{o.share.n:,} visits" in page.text
        limits = ["5 %", "12.5 %", "20 %", "30 %", "40 %", "50 %"]
        assert [row[0] for row in page.table("hideBelow")] == limits
        for row, one in zip(page.table("hideBelow"), report.hidden.limits, strict=True):
            assert row[2] == f"{one.wrong_hidden:,} of {one.wrong:,}"
            assert row[4] == f"{one.right_hidden:,} of {one.right:,}"
        table = page.table("a wrong unread line costs")
        costs = [["4.5 readings", "78 %"], ["10 readings", "90 %"], ["20 readings", "95 %"]]
        assert [row[:2] for row in table] == costs
        assert [row[2] for row in table] == [f"{one.accepted:,}" for one in report.costs]
        assert f"kept as suggested \n{report.statistics.labels['kept']:,}\n" in page.text
        assert "came within 123 ms, 95 % within 988 ms" in page.text

    @pytest.mark.parametrize("hours", [0.5, 30.0, 2000.0])
    def test_the_parts_of_a_short_time_are_told_apart(self, report: FeedbackReport, hours: float) -> None:
        """A day is named once; the others of its parts have their hour."""
        step = hours * 3600.0 / len(report.periods)
        starts = [report.periods[0].start + n * step for n in range(len(report.periods))]
        periods = [
            attrs.evolve(one, start=start, end=start + step - 1.0)
            for one, start in zip(report.periods, starts, strict=True)
        ]
        drawn = str(figures.skill_over_time(periods, ()))
        labels = re.findall(r'<text[^>]*class="small centre"[^>]*>([^<]+)<', drawn)
        assert len(labels) == len(set(labels)) > 4
        assert labels[0] == words.day(starts[0])
        days = {words.day(start) for start in starts}
        assert {label for label in labels if ":" not in label} <= days
        for one in periods:
            same_day = words.day(one.start) == words.day(one.end)
            assert f"{words.day(one.start)}{',' if same_day else ' to'} " in drawn

    @pytest.mark.parametrize("part", [0, 3, 9])
    def test_a_refit_came_with_its_last_label(self, report: FeedbackReport, part: int) -> None:
        """Not at the beginning of its day. One with a date alone came in the first part of that day."""
        (own,) = [one for one in report.calibrators if words.is_own(one)]
        one = report.periods[part]
        middle = datetime.datetime.fromtimestamp((one.start + one.end) / 2, datetime.UTC).isoformat()
        refitted = attrs.evolve(own.calibrator, provenance=(Origin(FEEDBACK, middle, 9),))
        drawn = str(figures.skill_over_time(report.periods, [attrs.evolve(own, calibrator=refitted)]))
        places = [float(x) for x in re.findall(r'<circle[^>]* cx="([0-9.]+)"', drawn)]
        (line,) = re.findall(r'<line x1="([0-9.]+)"[^>]*class="arrival"', drawn)
        assert float(line) == pytest.approx(places[part], abs=0.2)

    def test_calibrators(self, page: Page, report: FeedbackReport) -> None:
        found = {row[0]: row for row in page.table("calibrator")}
        assert set(found) == {one.calibrator.id for one in report.calibrators}
        carried = {one.calibrator.id for one in report.calibrators if carried_from(one.calibrator)}
        (own,) = [row for name, row in found.items() if row[3] == "personal" and name not in carried]
        assert own[1] == "in force"
        assert "1 calibrator of your own." in page.text
        assert own[2] == "lines of Python by smollm2-135m, prompt line-prefix-1"

    def test_shipped_calibrators_are_folded_away(self, page: Page, report: FeedbackReport) -> None:
        """There are many, and they are the same for everybody."""
        shipped = [one.calibrator.id for one in report.calibrators if one.calibrator.source == "shipped"]
        words = f"{len(shipped)} calibrator{'s' * (len(shipped) != 1)} came with lsp-calib"
        assert words in page.text
        own, below = page.text.split(words)
        assert all(name in below and name not in own.rpartition("Calibrators")[2] for name in shipped)

    def test_nothing_is_drawn_outside_its_figure(self, report: FeedbackReport) -> None:
        """No coordinate is NaN, and circles lie inside the view box."""
        source = html_page(report)
        assert "nan" not in re.sub(r"<style>.*?</style>", "", source).lower().replace("finance", "")
        for box, inside in re.findall(r'<svg viewBox="0 0 ([\d. ]+)"(.*?)</svg>', source, re.S):
            width, height = map(float, box.split())
            for x, y in re.findall(r'<circle cx="([-\d.]+)" cy="([-\d.]+)"', inside):
                assert 0 <= float(x) <= width
                assert 0 <= float(y) <= height


class TestItIsSafe:
    @pytest.fixture
    def source(self, tmp_path: Path) -> str:
        """A page from a store in which somebody has written names that are code."""
        rows = [attrs.evolve(row, language=HOSTILE) for row in drawn(60)]
        return html_page(report_of(tmp_path, rows, until=NOW, model=HOSTILE))

    def test_names_are_text(self, source: str) -> None:
        page = Page(source)
        assert HOSTILE[:-1] in page.text
        assert "\u202e" not in source
        used = {tag for tag, _ in page.elements}
        assert used.isdisjoint({"script", "img", "iframe", "link", "object", "a"})

    def test_nothing_runs_and_nothing_is_loaded(self, source: str) -> None:
        for tag, attributes in Page(source).elements:
            for name, value in attributes.items():
                assert not name.startswith("on"), (tag, name)
                assert name not in ("src", "href", "style", "action", "srcset"), (tag, name)
                assert "://" not in (value or ""), (tag, name)
        (style,) = re.findall(r"<style>(.*?)</style>", source, re.S)
        assert "url(" not in style
        assert "@import" not in style
        assert "<" not in style

    def test_the_policy_allows_the_one_style_and_nothing_else(self, source: str) -> None:
        (style,) = re.findall(r"<style>(.*?)</style>", source, re.S)
        digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
        (policy,) = [
            attributes["content"]
            for tag, attributes in Page(source).elements
            if attributes.get("http-equiv") == "Content-Security-Policy"
        ]
        rules = f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
        assert policy == rules
        assert source.index("Content-Security-Policy") < source.index("<style>")


class TestLittle:
    def test_an_empty_store_says_what_to_do(self, tmp_path: Path) -> None:
        page = Page(html_page(report_of(tmp_path, [])))
        assert "There is nothing to report yet" in page.text
        assert "lspCalib.feedback.enabled" in page.text
        assert "Before and after" not in page.text

    def test_shown_and_not_settled(self, tmp_path: Path) -> None:
        rows = [attrs.evolve(row, correct=None, how="unread", survived={}) for row in drawn(5)]
        page = Page(html_page(report_of(tmp_path, rows)))
        assert "5 suggestions shown, none settled yet." in page.text
        assert "No suggestion has a known outcome yet" in page.text

    def test_a_dozen_labels_are_too_few_to_say(self, tmp_path: Path) -> None:
        rows = [
            attrs.evolve(row, episode=row.id, correct=bool(at % 2), confidence=0.6, language="python")
            for at, row in enumerate(drawn(12))
        ]
        page = Page(html_page(report_of(tmp_path, rows)))
        assert "12 visits with a known outcome: too few to say anything yet." in page.text
        assert page.table("language")[0][-1] == "too few to say"
        assert "No calibrator of your own is in force here" in page.text

    @pytest.mark.parametrize("n", [1, 2, 3])
    @pytest.mark.parametrize("correct", [True, False])
    def test_hardly_any_and_of_one_class(self, tmp_path: Path, n: int, correct: bool) -> None:
        rows = [attrs.evolve(row, correct=correct, confidence=0.5) for row in drawn(n)[:n]]
        page = Page(html_page(report_of(tmp_path, rows, until=NOW)))
        assert "too few to say" in page.text
        assert page.table("language")[0][5] == "–"


class TestSentences:
    @pytest.mark.parametrize(
        ("low", "high", "n", "said"),
        [
            (0.01, 0.03, 50, "better by more than chance (−0.030 to −0.010, 95 %)"),
            (-0.03, -0.01, 50, "worse by more than chance (+0.010 to +0.030, 95 %). `lsp-calib calibrators"),
            (-0.01, 0.02, 50, "that may be chance (−0.020 to +0.010, 95 %)"),
            (0.01, 0.03, 19, "too few to say whether that is chance"),
            (None, None, 1, "too few to say whether that is chance"),
        ],
    )
    def test_a_difference_is_called_one_only_beyond_chance(
        self, report: FeedbackReport, low: float | None, high: float | None, n: int, said: str
    ) -> None:
        assert report.comparison is not None
        found = attrs.evolve(report.comparison, gain_low=low, gain_high=high, n=n)
        assert said in words.gain(found)

    @pytest.mark.parametrize(
        ("right", "n", "promised", "said"),
        [
            (80, 100, 0.8, "80 % of the time, as promised (80 %)."),
            (80, 100, 0.95, "80 % of the time, worse than promised: read before you accept (95 %)."),
            (80, 100, 0.6, "80 % of the time, better than promised (60 %)."),
            (17, 20, 0.93, "85 % of the time, 93 % were promised: apart by no more than chance (20 visits)."),
        ],
    )
    def test_the_headline(
        self, report: FeedbackReport, right: int, n: int, promised: float, said: str
    ) -> None:
        """Chance is no kept promise."""
        accept = Accuracy("accept", n, Share.of(right, n), promised)
        found = words.headline(attrs.evolve(report, tiers=(accept, *report.tiers[1:])))
        assert found == f"“Accept” was right {said}"
        assert (words.verdict(accept) == "apart by no more than chance") == (n == 20)

    @pytest.mark.parametrize(
        "told",
        [
            *((right, n, "below", "better than promised", "lenient") for right, n in ((12, 14), (120, 140))),
            *((right, n, "above", "worse than promised", "cautious") for right, n in ((2, 14), (20, 140))),
            *((7, 14, "", "too few to say", ""), (70, 140, "", "as promised", "")),
        ],
    )
    def test_a_tier_outside_its_interval_says_the_side_and_what_to_do(
        self,
        report: FeedbackReport,
        capsys: pytest.CaptureFixture[str],
        monkeypatch: pytest.MonkeyPatch,
        told: tuple[int, int, str, str, str],
    ) -> None:
        """Each kind of interval, on the page and in the terminal: few visits excuse no broken promise."""
        monkeypatch.setenv("COLUMNS", "200")
        right, n, side, short, preset = told
        tier = Accuracy("review", n, Share.of(right, n), 0.5)
        of_it = attrs.evolve(report, tiers=(tier,), languages=(), sources=(), comparison=None)
        print_report(of_it)
        page, terminal = Page(html_page(of_it)).text, capsys.readouterr().out
        assert words.verdict(tier) == short
        for text in (page, terminal):
            assert short in text
            assert (f"The promise lies {side} the interval" in text) == bool(side)
            assert ("`" in words.advice(tier)) == bool(side)
            for name in ("lenient", "cautious"):
                assert (name in text) == (name == preset)
            assert ("lsp-calib refit" in text) == bool(side)
            assert ("too few to say" in text) == (short == "too few to say")

    @pytest.mark.parametrize(("right", "n"), [(12, 14), (120, 140)])
    def test_the_headline_is_of_a_tier_that_can_be_judged(
        self, report: FeedbackReport, right: int, n: int
    ) -> None:
        review = Accuracy("review", n, Share.of(right, n), 0.5)
        accept = Accuracy("accept", 3, Share.of(3, 3), 0.9)
        overall = Accuracy("", n + 3, Share.of(right + 3, n + 3), 0.5)
        found = words.headline(attrs.evolve(report, tiers=(accept, review), overall=overall))
        few = ", 14 visits" if n < 20 else ""
        assert found == f"“Review” was right 86 % of the time, better than promised (50 %{few})."
        alone = words.headline(attrs.evolve(report, tiers=(accept, *report.tiers[1:])))
        assert alone == "Too few suggestions were marked accept to judge that mark (3 visits)."

    def test_a_calibrator_that_has_seen_the_labels_is_said_to_look_better(
        self, report: FeedbackReport
    ) -> None:
        assert report.comparison is not None
        found = " ".join(words.comparison(attrs.evolve(report.comparison, unseen=False)))
        assert "it looks better here than it is" in found


BEGINNING = "<!doctype html>"


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["report", *arguments])


@pytest.fixture
def filled(home: Path) -> Path:
    write(home / "feedback.db", drawn(300))
    return home


def test_the_terminal_says_the_essentials(filled: Path) -> None:
    result = invoke()
    assert result.exit_code == 0, result.output
    for part in ("“Accept” was right", "promised", "reject", "lsp-calib report --open"):
        assert part in result.output
    assert not (filled / PAGE).exists()


@pytest.mark.usefixtures("home")
def test_an_empty_store_says_what_to_do() -> None:
    result = invoke()
    assert result.exit_code == 0
    assert "nothing to report yet" in result.output
    assert "lspCalib.feedback.enabled" in result.output


@pytest.mark.usefixtures("filled")
def test_json_stands_alone_on_standard_output(tmp_path: Path) -> None:
    """Also with a page: where that is goes to standard error."""
    page = tmp_path / "r.html"
    result = invoke("--json", "--html", str(page))
    found = json.loads(result.stdout)
    assert found["statistics"]["suggestions"] == 300
    assert {one["name"] for one in found["tiers"]} == {"accept", "review", "reject"}
    assert str(page) in result.stderr
    assert page.read_text("utf-8").startswith(BEGINNING)


@pytest.mark.usefixtures("filled")
def test_a_page_is_its_owners_alone_and_replaces_one_of_any_version(tmp_path: Path) -> None:
    page = tmp_path / "r.html"
    mark = '<meta name="generator" content="lsp-calib report">'
    page.write_text(f'<!doctype html>\n<html lang="en" class="x"><head><title>old</title>{mark}')
    for _ in range(2):
        assert invoke("--html", str(page)).exit_code == 0
        assert "old" not in page.read_text("utf-8")[:300]
    if os.name == "posix":
        assert stat.S_IMODE(page.stat().st_mode) == 0o600
    assert list(tmp_path.glob(".r.html*")) == []


@pytest.mark.usefixtures("filled")
def test_nothing_but_a_report_is_replaced(tmp_path: Path) -> None:
    other = tmp_path / "notes.html"
    other.write_text("<!doctype html>\nmine")
    link = tmp_path / "link.html"
    link.symlink_to(other)
    for path in (other, link):
        result = invoke("--html", str(path))
        assert result.exit_code == 2
        assert "is no report" in result.output
        assert other.read_text() == "<!doctype html>\nmine"
    result = invoke("--html", str(tmp_path / "no" / "such" / "folder.html"))
    assert result.exit_code == 3
    assert "Give another place" in result.output


@pytest.mark.skipif(sys.platform == "win32", reason="the browser here is a shell script")
def test_open_starts_the_users_browser(filled: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The page is then in the state folder; `feedback purge` removes it with what it was made from."""
    browser = tmp_path / "browser"
    browser.write_text(f'#!/bin/sh\necho "$1" >> {tmp_path / "opened"}\n')
    browser.chmod(0o700)
    monkeypatch.setenv("BROWSER", f"{browser} %s")
    monkeypatch.setattr("webbrowser._tryorder", None)
    result = invoke("--open")
    assert result.exit_code == 0, result.output
    assert (tmp_path / "opened").read_text().strip() == (filled / PAGE).as_uri()
    assert CliRunner().invoke(main, ["feedback", "purge", "--before", "2020-01-01", "--yes"]).exit_code == 0
    assert not (filled / PAGE).exists()
    assert invoke("--open").exit_code == 0
    store = FeedbackStore(filled / "feedback.db")
    assert remove_everything(store, filled) == 300
    store.close()
    assert not (filled / PAGE).exists()


@pytest.mark.skipif(sys.platform == "win32", reason="the browser here is a shell script")
def test_without_a_browser_the_page_is_named(filled: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BROWSER", "false %s")
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr("webbrowser._tryorder", None)
    result = invoke("--open")
    assert result.exit_code == 1
    assert "No browser could be started" in result.output
    assert (filled / PAGE).exists()
