"""`lsp-calib eval paper`: the studies repeated on records, as a page, tables and figures."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import attrs

from lsp_calib.badges import counted
from lsp_calib.commands.engine import Say, settings_in_force
from lsp_calib.commands.records import answers_left, make_folder
from lsp_calib.corpus.asking import AskingOptions
from lsp_calib.corpus.places import Task
from lsp_calib.errors import LspCalibError, StoppedError
from lsp_calib.inference.models.cards import locate
from lsp_calib.settings import Settings, engine_choice
from lsp_calib.studies import page, spiess, virk
from lsp_calib.studies.claims import claims_of
from lsp_calib.studies.data import data_set
from lsp_calib.studies.page import CLAIM_COLUMNS, Claim, Study
from lsp_calib.studies.score import File, find_files, largest
from lsp_calib.studies.tables import Table, print_tables
from lsp_calib.studies.token_study import TOKEN
from lsp_calib.terminal import Console


@attrs.frozen(eq=False)
class PaperReport:
    """The studies, the claims, and the files that were written."""

    studies: tuple[Study, ...]
    claims: tuple[Claim, ...]
    notes: tuple[str, ...]
    files: tuple[Path, ...]

    def to_wire(self) -> dict[str, Any]:
        return {
            "files": [str(file) for file in self.files],
            **page.as_json(self.studies, self.claims, self.notes),
        }

    def print(self) -> None:
        console = Console()
        rows = [[cell.replace("**", "") for cell in claim.cells()] for claim in self.claims]
        print_tables([Table("What holds here", CLAIM_COLUMNS, rows)], console)
        for study in self.studies:
            told = sum(one.numbers is not None for one in study.compared)
            scored = told + sum(one.cell is not None and not one.cell.why for one in study.compared)
            omitted = sum(one.cell is not None and bool(one.cell.why) for one in study.compared)
            absent = sum(one.cell is None for one in study.compared) - told
            console.print(f"{study.title}: {scored} cells, {omitted} omitted, {absent} not run.")
        if self.files:
            console.print(f"The page is {self.files[0]}; {len(self.files)} files in all.", soft_wrap=True)


def repeat_studies(
    study: str,
    records: Path,
    output: Path | None,
    say: Say,
    *,
    model: str | None = None,
    seed: int = 0,
) -> PaperReport:
    """Repeat one study, or "all", on the records in a folder and those below it.

    output: the folder for index.html, tables.md, tables.csv, study.json and the figures; None: none are made.
    model: only this model's records. say: is told what is being done.
    Raises DataError if there are no records, or an extra is missing; SettingsError if the folder cannot be
    made.
    """
    if output is not None:
        make_folder(output)
    files = find_files(records, model)
    used = largest(files)
    makers: dict[str, Callable[[], Study]] = {
        "spiess": lambda: spiess.build(used, seed),
        "virk": lambda: virk.build(used, files, seed),
        "full-ece": lambda: virk.full_ece(used),
    }
    built: list[Study] = []
    for name, make in makers.items():
        if study in (name, "all"):
            say(f"Computing the study {name}.")
            built.append(make())
    claims = tuple(claims_of(built))
    notes = tuple(_notes(files, used))
    written: list[Path] = []
    if output is not None:
        say("Drawing the figures.")
        written = page.write(built, claims, notes, output)
    return PaperReport(tuple(built), claims, notes, tuple(written))


@attrs.frozen
class Run:
    """Answers that a study needs, as one of the other commands of `eval` makes them.

    name: of the folder. items: how many. make: the task. observe: as for `AskingOptions`.
    """

    study: str
    name: str
    items: int
    make: Callable[[], Task]
    observe: frozenset[str] = frozenset()


def runs(study: str, data_dir: Path | None, seed: int, say: Say) -> list[Run]:
    """The runs of a study, or of "all", the shorter ones first; lines of projects are not among them."""
    from lsp_calib.studies.tasks import infill_task, repair_task, summary_task, synthesis_task

    ask = frozenset({"ask", "verbalised"})

    def size(name: str) -> int:
        return data_set(name).records

    def synthesis(name: str) -> Run:
        make = partial(synthesis_task, name, data_dir, None, seed, say)
        return Run("spiess", f"synthesis-{name}", size(name), make, ask)

    def repair(name: str) -> Run:
        make = partial(repair_task, name, data_dir, None, seed)
        return Run("spiess", f"repair-{name}", size(name), make, ask)

    def summary(language: str) -> Run:
        make = partial(summary_task, data_dir, language, None, seed)
        return Run("virk", f"summary-{language}", size(f"code-to-text-{language}"), make)

    infill = partial(infill_task, data_dir, None, seed)
    found = (
        *(repair("defects4j"), synthesis("humaneval"), summary("python"), summary("java")),
        Run("spiess", "infill", size("humaneval-infilling"), infill),
        *(synthesis("mbpp"), repair("manysstubs4j")),
    )
    return [run for run in found if study in (run.study, "all")]


def decode_missing(study: str, folder: Path, asking: AskingOptions, data_dir: Path | None) -> None:
    """Ask a model for all answers of a study that `folder` does not hold yet; a stopped call goes on.

    First the number of answers that are left is told. What cannot be asked for, such as for lack of an
    encoder, is told and left out. Raises StoppedError when interrupted, and SettingsError or NoModelError
    without a model.
    """
    from lsp_calib.studies.evaluate import RECORDS, evaluate
    from lsp_calib.studies.full_ece import TOKENS, count_tokens

    say = asking.say
    given = Settings(model=asking.model, threads=asking.threads)
    card, _ = locate(engine_choice(settings_in_force(given, say)).model)
    wanted = runs(study, data_dir, asking.seed, say)
    left = {run.name: answers_left(folder / run.name / RECORDS, run.items) for run in wanted}
    counts = study in ("full-ece", "all") and not (folder / TOKEN / TOKENS).exists()
    say(
        f"Missing in {folder}: {counted(sum(left.values()), 'answer')} of {card.name}. Stop at any time; the "
        "same command goes on."
    )
    for run in wanted:
        if not left[run.name]:
            continue
        say(f"Asking for {run.name}.")
        try:
            evaluate(run.make(), folder / run.name, attrs.evolve(asking, observe=run.observe))
        except StoppedError:
            raise
        except LspCalibError as error:
            say(f"{run.name} is left out: {error}")
    if counts:
        count_tokens(_POSITIONS, data_dir, folder / TOKEN, asking)


_POSITIONS = 100_000


def _notes(files: list[File], used: list[File]) -> list[str]:
    """Which files were read, and which answer a question that a larger one answers."""
    notes = []
    for file in files:
        what = f"`{file.name}`: {file.size} records, {file.header.task}, {file.header.language}"
        if file not in used:
            what += "; another file has more answers to this question"
            if file.header.task == "summary":
                what += ", so this one counts for what models say alone"
        elif file.header.task in ("line", "infill") and file.header.language != "python":
            what += "; left out, for the study's lines are Python"
        notes.append(f"{what}.")
    return notes
