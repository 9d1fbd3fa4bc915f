"""`lsp-calib eval`: the answers to a task, or its records, scored; the tables.

`eval TASK`: a model's answers. `token`: distributions over tokens. `confidence`: how much each step of
evidence adds to the confidence of lines.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

import attrs

from lsp_calib.commands.engine import Say
from lsp_calib.commands.printing import item_progress
from lsp_calib.commands.records import collect_records, make_folder
from lsp_calib.completion.prompt import PLAIN_VERSION
from lsp_calib.corpus.asking import AskingOptions
from lsp_calib.corpus.functions import SUMMARY
from lsp_calib.corpus.places import check_groups
from lsp_calib.corpus.records import Header, Record, check_header, read_records
from lsp_calib.corpus.tasks import Task, project_names
from lsp_calib.corpus.thresholds import Thresholds, judged
from lsp_calib.errors import DataError, SettingsError
from lsp_calib.studies import ablation, report
from lsp_calib.studies.ablation import Ablation, run_ablation
from lsp_calib.studies.reflective_scores import NEEDED, score_reflective
from lsp_calib.studies.scores import RESAMPLES, Scores, counted, score
from lsp_calib.studies.tasks import REPAIR, SYNTHESIS
from lsp_calib.terminal import Console

RECORDS = "records.jsonl"


@attrs.frozen
class EvaluationReport:
    """Scores, and the folder that holds them (None: they are only shown). recorded: the records, too."""

    scores: Scores
    folder: Path | None
    recorded: bool

    def to_wire(self) -> dict[str, Any]:
        return {"folder": None if self.folder is None else str(self.folder), **self.scores.to_json()}

    def print(self) -> None:
        console = Console()
        report.print_scores(self.scores, console)
        if self.folder is not None:
            what = "Tables and records" if self.recorded else "Tables"
            console.print(f"{what} are in {self.folder}.", soft_wrap=True)


@attrs.frozen(kw_only=True)
class ScoringOptions:
    """How records are scored.

    resamples: of the bootstrap. thresholds: of similarities, by which records that hold some are judged;
    None: the shipped ones. measure: of `reflective_scores.FORMS`, to score what the model says of its answers
    in the place of their probabilities; None: these.
    """

    resamples: int = RESAMPLES
    thresholds: Path | None = None
    measure: str | None = None


def evaluate(
    task: Task, output: Path, asking: AskingOptions, scoring: ScoringOptions | None = None
) -> EvaluationReport:
    """Ask the model for all items of a task and score its answers. All files go to the folder `output`.

    The same call resumes a run that was stopped. Raises SettingsError if the folder cannot be made, or if
    nothing that the measure needs is observed; DataError for items of too few files; and what `collect` and
    `score` raise.
    """
    scoring = scoring or ScoringOptions()
    # What cannot be scored fails before the model is asked.
    groups = [(id_, str(payload["group"])) for id_, payload in task.items]
    apart = asking.apart([group for _, group in groups])
    check_groups(groups, apart, "functions" if task.name in (SUMMARY, SYNTHESIS) else "lines")
    rules = None if scoring.thresholds is None else Thresholds.load(scoring.thresholds)
    make_folder(output)
    if scoring.measure is not None and not (output / RECORDS).exists():
        _check_observed(scoring.measure, asking.observe)
    header, records = collect_records(task, output / RECORDS, asking)
    apart = frozenset(header.held_out).intersection(record.group for record in records)
    scores = _scores(header, judged(header, records, rules), apart, scoring, asking.seed)
    report.write(scores, output)
    return EvaluationReport(scores, output, recorded=True)


def replay(
    task: str,
    records: Path,
    output: Path | None,
    asking: AskingOptions,
    scoring: ScoringOptions,
    language: str | None = None,
) -> EvaluationReport:
    """Score existing records, without a model.

    Raises DataError if the records are of another task or language, or the thresholds are for other
    similarities.
    """
    header, found = read_records(records)
    if header.task != task:
        raise DataError(f"{records} holds records of the task {header.task!r}, not of {task!r}.")
    check_header(records, header, None, language)
    groups = [record.group for record in found]
    apart = frozenset(header.held_out).intersection(groups)
    if asking.held_out is not None:
        apart = asking.apart(groups)
    rules = None if scoring.thresholds is None else Thresholds.load(scoring.thresholds)
    scores = _scores(header, judged(header, found, rules), apart, scoring, asking.seed)
    if output is not None:
        make_folder(output)
        report.write(scores, output)
    return EvaluationReport(scores, output, recorded=False)


def judged_by_tests(
    task: Task, paths: Sequence[Path], environment: Path | None, output: Path, say: Say, *, quiet: bool
) -> Task:
    """The lines of a task that their projects' tests reach; see `covering_tests.with_tests`, whose errors it
    raises. environment: None: the one that lsp-calib runs in. output: the folder of the run."""
    from lsp_calib.studies.covering_tests import with_tests

    make_folder(output)
    roots = {group: root for root, group in project_names(paths)}
    with item_progress("Running tests on the reference", quiet=quiet) as show:
        return with_tests(task, roots, environment or Path(sys.prefix), output / "tests", say, show)


def _scores(
    header: Header, records: list[Record], apart: frozenset[str], options: ScoringOptions, seed: int
) -> Scores:
    resamples = options.resamples
    if options.measure is not None:
        return score_reflective(header, records, options.measure, apart, resamples=resamples, seed=seed)
    try:
        scores = score(header, records, apart, resamples=resamples, seed=seed)
    except DataError as error:
        # A share of right answers of 0 is a result of a study, and no reason to ask for more.
        if header.task not in (SYNTHESIS, REPAIR) and header.prompt_version != PLAIN_VERSION:
            raise
        scores = counted(header, records, apart, str(error))
    repeats = sum(record.repeats_bug is True for record in records)
    note = f"{repeats} of {len(records)} answers are the buggy line again."
    return attrs.evolve(scores, notes=(*scores.notes, note)) if header.task == REPAIR else scores


def _check_observed(measure: str, observe: Collection[str]) -> None:
    """Raises SettingsError if the records will hold nothing that a measure is made of."""
    needed = NEEDED[measure]
    if not needed.intersection(observe):
        raise SettingsError(
            f"--measure {measure} is made of what is observed with --observe {' or '.join(sorted(needed))}: "
            "add it, or leave --measure out."
        )


@attrs.frozen
class AblationReport:
    """The ablations, one for each file of records, and the files that were written."""

    ablations: tuple[Ablation, ...]
    files: tuple[Path, ...] = ()

    def to_wire(self) -> dict[str, Any]:
        return {
            "files": [str(file) for file in self.files],
            "ablations": [ablation.to_json() for ablation in self.ablations],
        }

    def print(self) -> None:
        console = Console()
        ablation.print_ablations(self.ablations, console)
        for file in self.files:
            console.print(f"Written: {file}", soft_wrap=True)


def compare_evidence(
    records: Sequence[Path],
    output: Path | None = None,
    *,
    figure: bool = False,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> AblationReport:
    """The ablation of each file of line records.

    output: the folder for confidence.md, .csv and .json, and with `figure` for the figures. resamples, seed:
    as for `ablation.run_ablation`.
    Raises DataError for records of another task, SettingsError for a figure without a folder or of more files
    than it can show.
    """
    if figure and output is None:
        raise SettingsError("Say where to write the figures: add --output FOLDER.")
    if figure and len(records) > ablation.MOST:
        raise SettingsError(
            f"A figure shows the ablations of at most {ablation.MOST} files of records; {len(records)} were "
            f"given. Name at most {ablation.MOST}, or leave --figure out: the tables are of any number."
        )
    ablations = []
    for path in records:
        header, found = read_records(path)
        if header.task != "line":
            raise DataError(f"{path} holds records of the task {header.task!r}, not of lines.")
        ablations.append(run_ablation(header, found, resamples=resamples, seed=seed))
    if output is None:
        return AblationReport(tuple(ablations))
    make_folder(output)
    ablation.write(ablations, output)
    files = [output / f"confidence.{kind}" for kind in ("md", "csv", "json")]
    if figure:
        files += ablation.draw(ablations, output)
    return AblationReport(tuple(ablations), tuple(files))
