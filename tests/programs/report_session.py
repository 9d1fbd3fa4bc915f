"""A state folder for the report's pictures: the recorded lines of Qwen2.5-Coder-1.5B, replayed as labels.

    python tests/programs/report_session.py FOLDER
    chromium --headless --screenshot=FOLDER/light.png --window-size=1040,4200 FOLDER/report-light.html

Also writes the pages. The pictures are docs/img/report-light.png and -dark.png, cut off below the page.
What is recorded: lines of 70 projects, what the model said of each with its probabilities, and whether it was
right. What is simulated: the user, who works on one project after the other. There is no shipped calibrator
for this model here: it borrows that of SmolLM2-135M, as a model without one does. Each line is a visit,
followed by the real tracker. A suggestion that is right is inserted or, one in six times, typed; one that is
wrong is typed over, or inserted and put right later: by the tier that it was shown with (`WRONGLY_INSERTED`),
after a time from an exponential distribution. The calibrator is refitted on the way (`REFITS`), as
`lsp-calib refit` does.
"""

from __future__ import annotations

import datetime
import shutil
import sys
from pathlib import Path

import attrs
import numpy as np

from lsp_calib.calibration.calibrators.calibrator import Purpose
from lsp_calib.calibration.calibrators.calibrator_store import CalibratorStore
from lsp_calib.calibration.policies.tiers import PRESETS
from lsp_calib.evaluation.header import Header
from lsp_calib.evaluation.records import Record, read_records
from lsp_calib.feedback.events import Event
from lsp_calib.feedback.learning import refit_languages
from lsp_calib.feedback.report import make_report
from lsp_calib.feedback.report_data import read_data
from lsp_calib.feedback.store import FeedbackStore
from lsp_calib.feedback.tracker import Tracker
from lsp_calib.home import private_folder
from lsp_calib.report.theme import THEMES
from lsp_calib.report.writing import write_page
from lsp_calib.values import Suggestion, Tier, Timing

MODELS = Path(__file__).parents[2] / "models"
RECORDS = MODELS / "records" / "line-qwen2.5-coder-1.5b.jsonl"
LENDER = MODELS / "calibrators" / "line-smollm2-135m.json"
WRONGLY_INSERTED = {Tier.ACCEPT: 0.6, Tier.REVIEW: 0.35, Tier.REJECT: 0.05}
TYPED, CORRECTED_AFTER = 1 / 6, 100.0  # the share typed; mean seconds
# Visits of a working day; after which visits there is a refit.
PER_DAY, REFITS = 25, (60, 250, 700)
BEGINS = datetime.datetime(2026, 9, 7, 9, 0, tzinfo=datetime.UTC)


@attrs.define
class Session:
    """A user at work, with a clock."""

    header: Header
    store: FeedbackStore
    calibrators: CalibratorStore
    now: float
    rng: np.random.Generator = attrs.field(factory=lambda: np.random.default_rng(7))
    lines: int = 0

    @property
    def purpose(self) -> Purpose:
        return Purpose(self.header.model, self.header.prompt_version, "line", self.header.language)

    def visit(self, record: Record) -> None:
        """One line: what the model suggests there, what the user does, and what is stored of it."""
        tracker = Tracker()
        self.lines += 1
        right, wrong = f"right {self.lines}", f"wrong {self.lines}"
        text = right if record.correct["exact"] else wrong
        uri, number = f"file:///{self.lines}.py", str(self.lines)
        evidence = record.evidence(self.header)
        calibrator = self.calibrators.choose(self.purpose).calibrator
        confidence = calibrator.assess(evidence, PRESETS["balanced"])
        suggestion = Suggestion(
            f"{self.lines:016x}", "line", text, confidence, self.header.model.name, 1, "model", Timing()
        )
        self.store.record_shown(
            suggestion,
            model=self.header.model,
            prompt_version=self.header.prompt_version,
            language=self.header.language,
            evidence=evidence,
            at=self.now,
            line=number,
        )
        events = tracker.shown(uri, ("", ""), 0, text, suggestion, self.now)
        self.now += 1.0 + self.rng.exponential(2.0)
        events += self._goes_on(tracker, uri, text, right, confidence.tier)
        self.store.record_events(events)
        self.now += self.rng.exponential(60.0)

    def _goes_on(self, tracker: Tracker, uri: str, text: str, right: str, tier: Tier) -> list[Event]:
        inserted = text == right or self.rng.random() < WRONGLY_INSERTED[tier]
        by_hand = text == right and self.rng.random() < TYPED
        if not inserted or by_hand:
            events: list[Event] = []
            for end in range(1, len(right) + 1):
                events += tracker.changed(uri, (right[:end], ""), self.now)
            return [*events, *tracker.closed(uri, self.now + 60.0)]
        events = tracker.changed(uri, (text, ""), self.now)
        closes = self.now + 700.0 * self.rng.random() ** 0.3
        if text != right:
            corrected = self.now + 2.0 + self.rng.exponential(CORRECTED_AFTER)
            closes = max(closes, corrected + 1.0)
            events += tracker.changed(uri, (right, ""), corrected)
        return [*events, *tracker.closed(uri, closes)]

    def next_day(self) -> None:
        """Nine o'clock of the next working day."""
        day = datetime.datetime.fromtimestamp(self.now, datetime.UTC) + datetime.timedelta(days=1)
        while day.weekday() > 4:
            day += datetime.timedelta(days=1)
        self.now = day.replace(hour=9, minute=0, second=0).timestamp()

    def today(self) -> str:
        return datetime.datetime.fromtimestamp(self.now, datetime.UTC).date().isoformat()


def replay(folder: Path) -> None:
    """Fill a state folder, which must not have a store yet."""
    header, records = read_records(RECORDS)
    records = [record for record in records if record.shown and not record.doubt]
    projects = sorted({record.group for record in records})
    np.random.default_rng(1).shuffle(projects)
    shipped = private_folder(folder / "shipped")
    shutil.copy(LENDER, shipped)
    store = FeedbackStore(folder / "feedback.db")
    calibrators = CalibratorStore(private_folder(folder / "calibrators"), shipped)
    session = Session(header, store, calibrators, BEGINS.timestamp())
    for project in projects:
        mine = [record for record in records if record.group == project]
        for record in mine:
            session.visit(record)
            if session.lines % PER_DAY == 0:
                session.next_day()
            if session.lines in REFITS:
                for _, result in refit_languages(
                    store, calibrators, session.purpose, session.today()
                ).results:
                    print(f"after {session.lines}: {result.reason}")
    print(f"{session.lines} visits")
    report = make_report(read_data(store, calibrators, session.now), session.now)
    store.close()
    for theme in THEMES:
        write_page(report, folder / f"report-{theme}.html", theme)


if __name__ == "__main__":
    replay(private_folder(Path(sys.argv[1])))
