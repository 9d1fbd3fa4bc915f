"""`lsp-calib calibrate`: complete lines of real source and fit a calibrator; or fit one from records."""

from __future__ import annotations

import datetime
import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, TypeVar, cast

import attrs
import msgspec
from msgspec.structs import replace
from rich.table import Table

from lsp_calib import home
from lsp_calib.calibration.calibrators.calibrator import Calibrator
from lsp_calib.calibration.calibrators.calibrator_store import CalibratorStore
from lsp_calib.calibration.calibrators.fitting import (
    Fitted,
    LabelledAnswers,
    adapt_calibrator,
    base_for,
    fit_calibrator,
)
from lsp_calib.calibration.calibrators.purpose import Origin, Purpose
from lsp_calib.calibration.calibrators.purpose import Task as TaskName
from lsp_calib.calibration.calibrators.refit import COMMITS
from lsp_calib.calibration.validation import Interval
from lsp_calib.commands.calibration_trial import PLURAL, TASKS, Comparison, Judged, labels_of
from lsp_calib.commands.engine import Say, settings_in_force
from lsp_calib.commands.feedback import feedback_store
from lsp_calib.commands.records import (
    check_output,
    check_place,
    collect_records,
    remove_unfinished,
    unfinished,
)
from lsp_calib.corpus.asking import AskingOptions
from lsp_calib.corpus.commits import Wish, addresses_of_user, commit_task
from lsp_calib.corpus.functions import SUMMARY, documented_task
from lsp_calib.corpus.places import FEWEST, GIT, Task, check_groups, distinct, line_task
from lsp_calib.corpus.rebuilding import recompute_features
from lsp_calib.corpus.records import Header, Record, check_header, groups_of, read_records, sources_of
from lsp_calib.errors import DataError, SettingsError
from lsp_calib.exclusion import Exclusion
from lsp_calib.settings import Settings
from lsp_calib.terminal import Console

T = TypeVar("T")


# Numbers of a curve that are given, not fitted: they stay as they are.
_GIVEN = frozenset({"prior", "slope_sd", "intercept_sd"})


def nine_digits(value: T) -> T:
    """A value with nine significant digits of each fitted number in it: further digits depend on the
    processor, and the same records must give the same file on all of them."""
    found: Any = value
    if isinstance(value, float):
        found = float(f"{value:.9g}")
    elif isinstance(value, Mapping):
        found = {key: nine_digits(one) for key, one in value.items()}
    elif isinstance(value, tuple):
        found = tuple(map(nine_digits, value))
    elif isinstance(value, msgspec.Struct):
        names = [name for name in value.__struct_fields__ if name not in _GIVEN]
        found = replace(value, **{name: nine_digits(getattr(value, name)) for name in names})
    elif isinstance(value, Interval):
        found = Interval(*map(nine_digits, attrs.astuple(value)))
    return cast(T, found)


@attrs.frozen
class CalibrationReport:
    """A fitted calibrator, its file, and how many lines the model was asked for (of projects not held out).

    repeated: further answers, to lines that were there already: they count neither here nor in the fit.
    promoted: whether it is in force now. reason: why, or why not. present: id of the calibrator that it was
    compared with, and that it replaced if it was promoted; None if it was only written to a file.
    comparison: with the one in force before, on the lines that it had not seen; on all if these are too few.
    """

    calibrator: Calibrator
    path: Path
    asked: int
    repeated: int
    promoted: bool
    reason: str
    present: str | None
    comparison: Comparison

    def to_wire(self) -> dict[str, Any]:
        return {
            "path": str(self.path),
            "asked": self.asked,
            "repeated": self.repeated,
            "promoted": self.promoted,
            "reason": self.reason,
            "present": self.present,
            "calibrator": self.calibrator.to_json(),
            "comparison": self.comparison.to_wire(),
        }

    def print(self) -> None:
        """The conclusion first, then what it rests on."""
        console, c = Console(), self.calibrator
        unit = PLURAL[c.purpose.task]
        further = f"{self.repeated} of the same {unit} again did not count. " if self.repeated else ""
        if self.promoted:
            console.print(f"{c.id} is now in force instead of {self.present}: {self.reason}.", soft_wrap=True)
        elif self.present is not None:
            console.print(
                f"{c.id} is not in force; {self.present} stays: {self.reason}. "
                "To put it in force nevertheless, add --install.",
                soft_wrap=True,
            )
        console.print(
            f"{c.n} of {self.asked} {unit} had an answer, {c.n_correct} of them right. "
            f"{further}Its measure is {c.measure}. It is in {self.path}.",
            soft_wrap=True,
        )
        if (shift := c.curves[0].shift) is not None:
            moved = f"slope {shift.slope:.2f}, intercept {shift.intercept:+.2f}"
            console.print(
                f"They are too few to weigh each feature anew: it is {c.provenance[-1].name}, moved by them "
                f"({moved}).",
                soft_wrap=True,
            )
        table = Table("measure", "value", "95 % interval", title=c.id)
        for name, interval in c.metrics.items():
            value = "undefined" if interval.value is None else f"{interval.value:+.3f}"
            known = interval.low is not None and interval.high is not None
            table.add_row(name, value, f"{interval.low:+.3f} to {interval.high:+.3f}" if known else "")
        console.print(table)
        self.comparison.print(console)


@attrs.frozen
class FromGit:
    """authors: e-mail addresses or names; none: those of the user's configuration of git. commits: so many
    are looked at."""

    authors: tuple[str, ...] = ()
    commits: int = 1000


@attrs.frozen(kw_only=True)
class CalibrationOptions:
    """What `calibrate` fits a calibrator on, and what becomes of it. Raises SettingsError for options that
    contradict each other.

    paths: source, each a project. task: "line": lines are completed; "summary": documented functions are
        summarised, their documentation hidden; None: "line", or that of the records. language: of the source;
        None: Python if there is any, else the only one there is. samples: how many are asked for.
    from_git: complete lines of the user's commits instead, in the repositories of `paths`.
    no_suffix: the number of further lines, with nothing below them.
    exclude: patterns of files that no model may see, beside those of the settings.
    records: the file that keeps the generations; a run continues with those it already holds. None: one in
        the state folder, which is removed at the end. Without `paths` the calibrator is fitted on these
        records: neither a model nor source is needed.
    output: write the calibrator to this file, and leave the one in force alone. None puts it in force for
        this user, in every workspace, if `Judged.proof` says so, or else keeps it beside the earlier ones.
        install: put it in force without that proof.
    asking: how the model is asked; its `created` is None for the day of the records.
    """

    asking: AskingOptions
    paths: tuple[Path, ...] = ()
    samples: int = 400
    records: Path | None = None
    output: Path | None = None
    no_suffix: int = 0
    install: bool = False
    language: str | None = None
    from_git: FromGit | None = None
    task: str | None = None
    exclude: Sequence[str] = ()

    def __attrs_post_init__(self) -> None:
        if self.install and self.output is not None:
            raise SettingsError("Give --output (write a file) or --install (put it in force), not both.")
        if self.from_git is not None and not self.paths:
            raise SettingsError("--from-git takes the lines of a repository: name its folder (PATH).")
        if self.from_git is not None and self.no_suffix:
            raise SettingsError(
                "With --from-git each commit says what stood below a line: leave --no-suffix out."
            )
        if self.task == SUMMARY and (self.from_git is not None or self.no_suffix):
            raise SettingsError("--from-git and --no-suffix are for lines: leave them out.")


def calibrate(options: CalibrationOptions, tell: Say) -> CalibrationReport:
    """Fit a calibrator on source or on records. tell: is told which commits were taken.

    Raises DataError if there is too little source, or for records of another task or language than asked for;
    SettingsError if there is nothing to fit on, or if `output` is a file of something else.
    """
    output, asking = options.output, options.asking
    # Before the model is asked for hours.
    if output is not None:
        check_output(output)
    kept_in: Path | None = None
    if options.paths:
        if options.records is not None:
            check_place(options.records)
        # Problems with the settings are reported when the engine is opened.
        engine = settings_in_force(Settings(remote_url=asking.remote, model=asking.model))
        items = _items(options, engine, tell)
        if options.records is None:
            kept_in = _kept_in(options, items, engine)
        header, kept = collect_records(items, options.records or cast(Path, kept_in), asking)
    elif options.records is not None:
        header, kept = read_records(options.records)
        check_header(options.records, header, options.task, options.language)
        if asking.held_out is not None:
            apart = asking.apart([record.group for record in kept])
            header = attrs.evolve(header, held_out=tuple(sorted(apart)))
    else:
        raise SettingsError("Name the source to calibrate on (PATH...), or records to fit again (--records).")
    day = asking.created or header.created or datetime.date.today().isoformat()
    fit_on = [record for record in kept if record.group not in header.held_out]
    fitted, shown = fit_records(header, kept, shipped=output is not None, created=day)
    store = CalibratorStore.open()
    purpose = fitted.calibrator.purpose
    present = store.choose(purpose).calibrator
    judged = Judged.of(fitted, header, shown, present, store.known(purpose))
    repeated = sum(map(_has_answer, fit_on)) - len(shown)
    counts = len(fit_on) - repeated, repeated
    if output is None:
        report = _put_in_force(store, fitted.calibrator, judged, counts, install=options.install)
    else:
        fitted.calibrator.save(output)
        reason, comparison = "it was written to a file only", judged.comparison()
        report = CalibrationReport(fitted.calibrator, output, *counts, False, reason, None, comparison)
    if kept_in is not None:
        remove_unfinished(kept_in)
    return report


def _has_answer(record: Record) -> bool:
    """Whether an editor would have shown an answer with a probability."""
    return record.shown and bool(record.logprobs)


def _counted(records: Iterable[Record]) -> list[Record]:
    """The records with an answer, one of each line.

    They hold no text. Where answer, evidence and verdict are the same to the last digit, so is the line.
    """

    def told(record: Record) -> str:
        return attrs.evolve(record, item="", group="", prompt="", costs={}).to_line()

    return distinct(filter(_has_answer, records), told)


def _items(options: CalibrationOptions, engine: Settings, tell: Say) -> Task:
    """The lines or functions to ask for. Raises DataError if they are too few."""
    paths, samples, asking = options.paths, options.samples, options.asking
    unseen = (*engine.exclude, *options.exclude)
    if options.task == SUMMARY:
        items = documented_task(paths, samples, asking.seed, options.language, unseen)
    elif options.from_git is None:
        items = line_task(
            *(paths, samples, asking.seed, options.no_suffix),
            language=options.language,
            exclude=unseen,
            once=True,
        )
    else:
        items = _committed_task(options, options.from_git, unseen, tell)
    asked_for = [(id_, str(payload["group"])) for id_, payload in items.items]
    check_groups(asked_for, asking.apart([group for _, group in asked_for]), PLURAL[items.name])
    return items


def _committed_task(
    options: CalibrationOptions, from_git: FromGit, exclude: Sequence[str], tell: Say
) -> Task:
    """The newest lines of the user in the repositories of `options.paths`.

    exclude: patterns of files that no model may see.
    Raises SettingsError for a path that is no folder, or if it is not known who the user is; DataError and
    LspCalibError as `commit_task` and the feedback store do.
    """
    paths = options.paths
    other = next((path for path in paths if not path.is_dir()), None)
    if other is not None:
        raise SettingsError(f"{other} is no folder. With --from-git each PATH is a repository, or in one.")
    with ExitStack() as stack:
        # Which lines have labels of their own; none where there is no store yet.
        known = home.feedback_file().exists()
        made = stack.enter_context(feedback_store()).accepted_lines() if known else lambda _: ()
        wish = Wish(
            authors=from_git.authors or addresses_of_user(),
            commits=from_git.commits,
            excluded=Exclusion(tuple(exclude)).reason,
            labelled=made,
        )
        task, sentences = commit_task(paths, options.samples, options.asking.seed, options.language, wish)
    for sentence in sentences:
        tell(sentence)
    return task


def _kept_in(options: CalibrationOptions, items: Task, engine: Settings) -> Path:
    """The file of a calibration without --records: of all that says what is asked for."""
    asking, from_git = options.asking, options.from_git
    roots = sorted(str(path.resolve()) for path in options.paths)
    git = None if from_git is None else [from_git.authors, from_git.commits]
    asked_of = [asking.model, asking.remote, asking.window]
    # An item's id is a place: after an edit other text stands there, to which its answer is none.
    texts = [hashlib.sha256(json.dumps(item).encode()).hexdigest() for item in items.items]
    drawn = [options.samples, asking.seed, options.no_suffix, items.language, asking.held_out, texts]
    unseen = (*engine.exclude, *options.exclude)
    return unfinished([roots, items.name, git, *asked_of, *drawn, unseen], engine)


def _put_in_force(
    store: CalibratorStore, fitted: Calibrator, judged: Judged, counts: tuple[int, int], *, install: bool
) -> CalibrationReport:
    """Put a new calibrator in force if it proves itself, or if `install` says so. counts: the report's."""
    present = judged.present
    calibrator = attrs.evolve(fitted, parent=present.id)
    promoted, reason = judged.proof()
    if install and not promoted:
        promoted, reason = True, f"installed because of --install, although {reason}"
    path = store.promote(calibrator) if promoted else store.keep(calibrator)
    return CalibrationReport(calibrator, path, *counts, promoted, reason, present.id, judged.comparison())


def fit_records(
    header: Header, records: list[Record], *, shipped: bool, created: str
) -> tuple[Fitted, list[Record]]:
    """A calibrator, and the records that it was fitted on: those of answers that would have been shown, in
    projects that are not held out. Each line counts once, unless the calibrator is to be shipped. created:
    ISO date.

    Raises DataError if they are of another task, or too few.
    """
    if header.task not in TASKS:
        raise DataError(
            f"The records are of the task {header.task!r}: a calibrator for the editor is made of lines as "
            "people ask for them (task `line`), or of summaries (task `summary`)."
        )
    shown = [record for record in records if _has_answer(record) and record.group not in header.held_out]
    if not shipped:  # those rest on the records as they are
        answered, shown = shown, _counted(shown)
        if len(shown) < FEWEST <= len(answered):
            raise DataError(
                f"The {len(answered)} answers are to {len(shown)} different {PLURAL[header.task]}; at least "
                f"{FEWEST} are needed. Name more source."
            )
    purpose = Purpose(header.model, header.prompt_version, cast(TaskName, header.task), header.language)
    answers = LabelledAnswers(
        purpose,
        [record.evidence(header) for record in shown],
        labels_of(purpose, header, shown),
        groups_of(shown),
        source="shipped" if shipped else "workspace",
        state="shipped" if shipped else "ready",
        created=created,
        strata=dict(sorted(Counter(record.stratum for record in shown).items())),
        provenance=(*sources_of(shown), *_commits(shown, created)),
    )
    base = base_for(
        purpose,
        CalibratorStore.open().all_shipped(),
        len(shown),
        {source.name for source in answers.provenance},
        for_others=shipped,
    )
    fitted = (base and adapt_calibrator(base, answers)) or fit_calibrator(answers)
    numbers = ("curves", "metrics", "by_place")
    rounded = {name: nine_digits(getattr(fitted.calibrator, name)) for name in numbers}
    return attrs.evolve(fitted, calibrator=attrs.evolve(fitted.calibrator, **rounded)), shown


def _commits(shown: list[Record], created: str) -> Iterator[Origin]:
    """How many records are of lines that the user has committed, if any."""
    n = sum(record.source == GIT for record in shown)
    if n:
        yield Origin(COMMITS, created, n)


def recompute(records: Path | None, paths: tuple[Path, ...], sources: Path, model: str | None) -> str:
    """Write verdicts and features into the file of records, see `recompute_features`; returns what was done.

    paths: source to complete lines of, for which the features are computed anyway. Raises SettingsError if
    there is some, or no file of records.
    """
    if records is None or paths:
        raise SettingsError(
            "--sources computes features of records that are there: give --records FILE, and no PATH."
        )
    count = recompute_features(records, sources, model)
    return f"The features of {count} lines were computed again from {sources} and are in {records}."
