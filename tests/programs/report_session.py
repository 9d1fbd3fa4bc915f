"""A state folder and pages for the report's pictures: this repository's own history as a session.

    python tests/programs/report_session.py FOLDER      # the store, the calibrators, the pages
    chromium --headless --screenshot=FOLDER/light.png --window-size=1040,4200 FOLDER/report-light.html
    python tests/programs/report_session.py --record    # asks the model again: 15 to 30 minutes

The pictures are docs/img/report-light.png and -dark.png, cut off below the page. Real are the lines, the
files and the times of the commits (`history_visits`), the answers of SmolLM2-135M with their probabilities
(`RECORDS`), the calibrators that judge them, the tracker that says what became of each, and the refits, when
the product itself makes them. By rule is what git does not keep: each commit's visits are evenly spread over
the time since the one before (`SPREAD`); a suggestion is looked at (`LOOKED`), inserted if it makes the line
that was committed, and otherwise typed over key by key (`KEY`). The files are saved when they are committed,
and nobody closes them: a later commit changes them as it did. Of the lines of a commit, the one drawn last
(`SHOWN` come before) is written without a suggestion.
"""

from __future__ import annotations

import argparse
import datetime
import math
from collections.abc import Sequence
from pathlib import Path

import attrs
from history_visits import LANGUAGE, PER_COMMIT, SEED, Step, steps

from lsp_calib.calibration.calibrators.calibrator_store import CalibratorStore
from lsp_calib.calibration.calibrators.purpose import Purpose
from lsp_calib.calibration.tiers import PRESETS
from lsp_calib.completion.prompt import Layout, WindowSize, build_prompt
from lsp_calib.corpus.asking import AskingOptions, collect
from lsp_calib.corpus.item_worker import prompt_hash
from lsp_calib.corpus.places import LineItem, Task, plain
from lsp_calib.corpus.rebuilding import answer_of
from lsp_calib.corpus.records import Header, Record, read_records
from lsp_calib.errors import DataError
from lsp_calib.feedback.events import Event
from lsp_calib.feedback.personalisation import refit_where_due
from lsp_calib.feedback.report import make_report
from lsp_calib.feedback.store import FeedbackStore
from lsp_calib.feedback.tracker import Tracker
from lsp_calib.home import private_folder
from lsp_calib.inference.choice import EngineChoice
from lsp_calib.inference.models import sidecar
from lsp_calib.inference.models.cards import locate
from lsp_calib.report import THEMES
from lsp_calib.report.page import write_page
from lsp_calib.values import Suggestion, Timing

MODELS = Path(__file__).parents[2] / "models"
RECORDS = MODELS / "records" / "history" / "line-smollm2-135m.jsonl"
MODEL = "smollm2-135m"
# The most seconds: from one visit of a commit to the next, or to the commit; before a decision; for a key.
SPREAD, LOOKED, KEY = 90.0, 2.0, 0.2
# Of a commit's lines so many have a suggestion.
SHOWN = 3


def record(path: Path, threads: int, ranks: int) -> None:
    """Ask the model for the lines of the history; answers in `path` or its journal are not asked for again.

    ranks: so many lines of each commit, those that were drawn first.
    """
    found = [
        item for step in steps() for item, rank in zip(step.visits, step.ranks, strict=True) if rank < ranks
    ]
    task = Task("line", tuple((item.id, plain(item)) for item in found), LANGUAGE)
    _, records = collect(
        task,
        EngineChoice(model=MODEL, threads=threads),
        path,
        AskingOptions(seed=SEED, window=WindowSize.SMALL),
        on_progress=lambda done, every: print(f"{done} of {every}", end="\r"),
    )
    print(f"{len(records)} lines, {sum(one.shown for one in records)} with a suggestion")


@attrs.frozen
class Answers:
    """The records, with the text that each offered; the model's vocabulary makes it from the tokens."""

    header: Header
    texts: dict[str, tuple[Record, str]]

    @classmethod
    def read(cls, path: Path, items: dict[str, LineItem]) -> Answers:
        """Raises DataError if a record is of another prompt than its place has now."""
        from lsp_calib.inference.local.native import read_pieces

        header, records = read_records(path)
        card, file = locate(header.model.name)
        sidecar.verify(file, header.model.sha256)
        pieces, layout = read_pieces(file), Layout.named(header.prompt_version, card)
        if layout is None:
            raise DataError(f"The prompt {header.prompt_version} is no longer made: record the lines again.")
        texts = {}
        for one in records:
            prompt = build_prompt(items[one.item].cursor, layout)
            if one.prompt != prompt_hash(prompt):
                raise DataError(f"{one.item} had another prompt when it was recorded: record it again.")
            if one.shown and not one.doubt:
                texts[one.item] = one, answer_of(one, items[one.item], pieces, prompt)[0]
        return cls(header, texts)


@attrs.define
class Session:
    """The user of the history: a document for each file, a clock, a store, calibrators."""

    answers: Answers
    store: FeedbackStore
    calibrators: CalibratorStore
    tracker: Tracker = attrs.field(factory=Tracker)
    visits: int = 0
    earlier: float | None = None

    @property
    def purpose(self) -> Purpose:
        header = self.answers.header
        return Purpose(header.model, header.prompt_version, "line", header.language)

    def goes_on(self, step: Step) -> None:
        """What leads to a commit, and the commit."""
        at = float(step.commit.at)
        offered = [
            item
            for item, rank in zip(step.visits, step.ranks, strict=True)
            if rank < SHOWN and item.id in self.answers.texts
        ]
        since = math.inf if self.earlier is None else max(at - self.earlier, 0.0)
        pause = min(SPREAD, since / (len(offered) + 1))
        for number, item in enumerate(offered):
            self._visit(item, at - pause * (len(offered) - number), pause)
        for name, lines in step.files.items():
            if lines is None:
                self._keep(self.tracker.closed(_uri(name), at))
                self._keep(self.tracker.finish(at))
            else:
                self._keep(self.tracker.changed(_uri(name), lines, at))
                self._keep(self.tracker.saved(_uri(name), at))
        self.earlier = at
        self._refit(at)

    def ends(self) -> float:
        """Everything that is followed comes to its end; returns when."""
        while (deadline := self.tracker.deadline) is not None:
            self._keep(self.tracker.tick(deadline))
            self.earlier = deadline
        assert self.earlier is not None
        return self.earlier

    def _visit(self, item: LineItem, now: float, pause: float) -> None:
        """A line: what is suggested there, what the user does with it. pause: seconds until the next one."""
        suggestion = self._record(item, now)
        text = suggestion.text
        uri, at, lines, before = _uri(item.name), item.cursor.line, item.cursor.lines, item.cursor.before
        self._keep(self.tracker.changed(uri, lines, now))
        self._keep(self.tracker.shown(uri, lines, at, before + text, suggestion, now))
        now += min(LOOKED, pause / 2)
        if item.is_correct(text):
            self._keep(self.tracker.changed(uri, _with(lines, at, before + text), now))
            return
        key = min(KEY, pause / 2 / (len(item.target) + 1))
        for end in range(1, len(item.target) + 1):
            now += key
            self._keep(self.tracker.changed(uri, _with(lines, at, before + item.target[:end]), now))

    def _record(self, item: LineItem, now: float) -> Suggestion:
        found, text = self.answers.texts[item.id]
        header, evidence = self.answers.header, found.evidence(self.answers.header)
        self.visits += 1
        confidence = self.calibrators.choose(self.purpose).calibrator.assess(evidence, PRESETS["balanced"])
        suggestion = Suggestion(
            f"{self.visits:016x}", "line", text, confidence, header.model.name, 1, "model", Timing()
        )
        self.store.record_shown(
            suggestion,
            model=header.model,
            prompt_version=header.prompt_version,
            language=header.language,
            evidence=evidence,
            at=now,
            line=item.cursor.before + text,
        )
        return suggestion

    def _keep(self, events: list[Event]) -> None:
        self.store.record_events(events)

    def _refit(self, now: float) -> None:
        today = datetime.datetime.fromtimestamp(now, datetime.UTC).date().isoformat()
        done = refit_where_due(
            self.store, self.calibrators, self.purpose.model, self.purpose.prompt_version, today, None
        )
        for sentence in done.sentences() if done else ():
            print(f"{datetime.datetime.fromtimestamp(now, datetime.UTC):%d %H:%M} {sentence}")


def _uri(name: str) -> str:
    return f"file:///{name}"


def _with(lines: Sequence[str], at: int, line: str) -> tuple[str, ...]:
    return (*lines[:at], line, *lines[at + 1 :])


def pages(folder: Path, records: Path) -> None:
    """Fill a state folder, which must not have a store yet, and write a page in each theme."""
    history = list(steps())
    answers = Answers.read(records, {item.id: item for step in history for item in step.visits})
    store = FeedbackStore(folder / "feedback.db")
    calibrators = CalibratorStore(private_folder(folder / "calibrators"), MODELS / "calibrators")
    session = Session(answers, store, calibrators)
    for step in history:
        session.goes_on(step)
    now = session.ends()
    print(f"{len(history)} commits, {session.visits} visits")
    report = make_report(store, calibrators, now)
    store.close()
    for theme in THEMES:
        write_page(report, folder / f"report-{theme}.html", theme)


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    arguments.add_argument("folder", type=Path, nargs="?", help="gets the store and the pages")
    arguments.add_argument("--record", action="store_true", help="ask the model for the lines instead")
    arguments.add_argument("--records", type=Path, default=RECORDS, help="the file of its answers")
    arguments.add_argument("--threads", type=int, default=0, help="to decode with; 0: automatic")
    arguments.add_argument("--lines", type=int, default=PER_COMMIT, help="of each commit, to ask for")
    given = arguments.parse_args()
    if given.record:
        given.records.parent.mkdir(exist_ok=True)
        record(given.records, given.threads, given.lines)
    elif given.folder is not None:
        pages(private_folder(given.folder), given.records)
    else:
        arguments.error("name the folder for the pages, or --record")


if __name__ == "__main__":
    main()
