"""`lsp-calib eval paper`: the studies repeated on records, as a page, tables, numbers and figures."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import attrs
import joblib

from lsp_calib import __version__
from lsp_calib.badges import counted
from lsp_calib.calibration.validation import Interval
from lsp_calib.commands.engine import Say, settings_in_force
from lsp_calib.commands.records import answers_left, collect_records, make_folder
from lsp_calib.corpus.asking import AskingOptions
from lsp_calib.corpus.places import Task
from lsp_calib.corpus.source import project_names
from lsp_calib.errors import DataError, LspCalibError, StoppedError
from lsp_calib.files import replace_file
from lsp_calib.inference.models.cards import locate
from lsp_calib.report.markup import Markup, joined, prose, section, style, tag
from lsp_calib.report.markup import table as html_table
from lsp_calib.settings import Settings, engine_choice
from lsp_calib.studies import exact, figures, full_ece, headings, spiess, tasks, verdicts, virk
from lsp_calib.studies.covering_tests import with_tests
from lsp_calib.studies.data import data_folder, data_set
from lsp_calib.studies.evaluate import RECORDS
from lsp_calib.studies.harnesses import imported_table
from lsp_calib.studies.published import FULL_ECE, SPIESS, VIRK
from lsp_calib.studies.sandbox.suite import is_test
from lsp_calib.studies.score import Cell, File, Study, cell_json, find_files, largest, number
from lsp_calib.studies.tables import Picture, Section, Table, csv_text, print_tables, table_lines
from lsp_calib.studies.verdicts import CLAIM_COLUMNS, Claim
from lsp_calib.terminal import Console

_DPI = 110
_JOBS = 4


@attrs.frozen(eq=False)
class Report:
    """The page: what was found exactly, the claims, the studies, notes on files, what other harnesses made;
    and the files written."""

    exactly: tuple[Section, ...]
    claims: tuple[Claim, ...]
    studies: tuple[Study, ...]
    notes: tuple[str, ...]
    imported: tuple[Section, ...] = ()
    files: tuple[Path, ...] = ()

    def sections(self) -> Iterator[Section]:
        """All of the page, in order."""
        yield from self.exactly
        if self.claims:
            rows = [claim.cells() for claim in self.claims]
            yield headings.section("page.claims", [Table("", CLAIM_COLUMNS, rows)])
        for study in self.studies:
            yield from (one for one in study.sections if not one.folded)
        yield from self.imported
        for study in self.studies:
            yield from (one for one in study.sections if one.folded)
        left_out = headings.table("page.left-out", tasks.NOTES.items())
        read = headings.table("page.records", [(note,) for note in self.notes])
        yield headings.section("page.files", [left_out, read])

    def to_wire(self) -> dict[str, Any]:
        """Everything as JSON types."""
        return {
            "schema": 2,
            "package": __version__,
            "files": [str(file) for file in self.files],
            "notes": list(self.notes),
            "claims": [claim.to_json() for claim in self.claims],
            "studies": {study.name: _study_json(study) for study in self.studies},
            "imported": [
                dict(zip(one.columns, row, strict=True)) for one in self._others() for row in one.rows
            ],
        }

    def _others(self) -> list[Table]:
        """What other harnesses made."""
        return [part for one in self.imported for part in one.parts if isinstance(part, Table)]

    def print(self) -> None:
        console = Console()
        rows = [(f"{one.study}, {one.where}", one.says, one.found, one.verdict) for one in self.claims]
        print_tables(
            [Table("What holds here", ("study", "it says", "here", "verdict"), tuple(rows))], console
        )
        print_tables(self._others(), console)
        for study in self.studies:
            omitted = sum(bool(cell.why) for cell in study.cells)
            console.print(f"{study.title}: {len(study.cells) - omitted} cells, {omitted} omitted.")
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
    imported: Sequence[Path] = (),
) -> Report:
    """Repeat one study, or "all", on the records in a folder and those below it.

    output: the folder for index.html, tables.md, tables.tex, tables.csv, study.json and the figures; None:
    none are made. model: only this model's records. say: is told what is being done. imported: files of other
    harnesses, which stand in a table of their own.
    Raises DataError if there are no records, or for a file of another harness that is none; SettingsError if
    the folder cannot be made.
    """
    if output is not None:
        make_folder(output)
    files = find_files(records, model)
    used = largest(files)
    makers: dict[str, Callable[[], Study]] = {
        SPIESS: lambda: spiess.build(used, seed),
        VIRK: lambda: virk.build(used, files, seed),
        FULL_ECE: lambda: full_ece.build(used),
    }
    built: list[Study] = []
    for name, make in makers.items():
        if study in (name, "all"):
            say(f"Computing the study {name}.")
            built.append(make())
    claims = verdicts.claims_of({one.name: one.cells for one in built}, full_ece.deviations(used), seed)
    parts = tuple(exact.sections()), tuple(claims), tuple(built), tuple(_notes(files, used))
    others = (Section("Files of other harnesses", "", (imported_table(imported),)),) if imported else ()
    report = Report(*parts, others)
    if output is None:
        return report
    say("Drawing the figures.")
    return attrs.evolve(report, files=tuple(write(report, output)))


def _notes(files: Sequence[File], used: Sequence[File]) -> Iterator[str]:
    """Which files were read, and which answer a question that a larger one answers."""
    for file in files:
        header = file.header
        task = header.task_version or header.task
        what = f"`{file.name}`: {file.size} records, {task}, {header.language}, {file.profile}"
        if header.prompt_sha256:
            what += f", first prompt {header.prompt_sha256}"
        yield what if file in used else f"{what}; another file has more answers to this question"


def write(report: Report, folder: Path) -> list[Path]:
    """index.html, tables.md, tables.tex, tables.csv, study.json and the figures; returns the files.

    Raises DataError if one cannot be written.
    """
    texts = {
        "index.html": html(report),
        "tables.md": markdown(report),
        "tables.tex": latex(report),
        "tables.csv": comma_separated(report.studies),
        "study.json": json.dumps(report.to_wire(), indent=1, ensure_ascii=False) + "\n",
    }
    files = []
    for name, text in texts.items():
        replace_file(folder / name, text)
        files.append(folder / name)
    pictures = [part for one in report.sections() for part in one.parts if isinstance(part, Picture)]
    drawn = joblib.Parallel(n_jobs=min(os.cpu_count() or 1, _JOBS))(
        joblib.delayed(figures.save)(picture.draw, folder / f"{picture.stem}.png", dpi=_DPI)
        for picture in pictures
    )
    return [*files, *drawn]


def markdown(report: Report, *, pictures: bool = True) -> str:
    """The page in Markdown; what is folded away in <details>. pictures: else only what they show is said."""
    said = headings.words("page")
    lines = [f"# {said['title']}", "", said["lead"], "", f"**Caveats.** {said['caveats']}", ""]
    lines += [f"- **{study.title}**: {study.reference}." for study in report.studies]
    for one in report.sections():
        lines += ["", f"<details><summary>{one.title}</summary>" if one.folded else f"## {one.title}", ""]
        lines += [one.lead, ""] if one.lead else []
        for part in one.parts:
            if isinstance(part, Picture):
                lines += [f"![{part.alt}]({part.stem}.png)" if pictures else f"- {part.alt}", ""]
                continue
            lines += [f"**{part.title}**", ""] if part.title else []
            lines += [*table_lines(part.columns, part.rows), ""]
            lines += [part.note, ""] if part.note else []
        lines += ["</details>"] if one.folded else []
    return "\n".join(lines).rstrip("\n") + "\n"


_TEX = {"\\": r"\textbackslash{}", "–": "--", "−": "$-$", "≥": r"$\ge$", "≤": r"$\le$", "×": r"$\times$"}
_TEX |= {character: f"\\{character}" for character in "&%$#_{}"}
_TEX |= {"~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}


def _tex(text: str) -> str:
    found = "".join(_TEX.get(character, character) for character in text)
    found = re.sub(r"\*\*(.+?)\*\*", r"\\textbf{\1}", found)
    return re.sub(r"`(.+?)`", r"\\texttt{\1}", found)


def latex(report: Report) -> str:
    """The tables that are not folded away, for a paper: with booktabs and graphicx, as wide as the text."""
    lines = ["% \\usepackage{booktabs,graphicx}", ""]
    for one in report.sections():
        for part in () if one.folded else one.parts:
            if isinstance(part, Picture):
                continue
            caption = ". ".join(text for text in (one.title, part.title, part.note) if text)
            rows = [" & ".join(map(_tex, row)) + r" \\" for row in (part.columns, *part.rows)]
            lines += [
                *(r"\begin{table}", r"\centering", rf"\caption{{{_tex(caption)}}}"),
                *(r"\resizebox{\textwidth}{!}{%", rf"\begin{{tabular}}{{{'l' * len(part.columns)}}}"),
                *(r"\toprule", rows[0], r"\midrule", *rows[1:], r"\bottomrule"),
                *(r"\end{tabular}}", r"\end{table}", ""),
            ]
    return "\n".join(lines)


_COLUMNS = (
    *("study", "profile", "task", "model", "quantisation", "language", "prompt", "condition", "right_by"),
    *("file", "asked", "state", "measure", "rescaling", "folds", "n", "right", "metric"),
    *("value", "low", "high", "kind", "published_in", "published"),
)


_METRICS = ("brier", "skill", "ece", "auc")


def comma_separated(studies: Sequence[Study]) -> str:
    """One line for each number, with its interval and what the study printed for the same question."""
    numbers = (line for study in studies for cell in study.cells for line in _numbers(study, cell))
    return csv_text((_COLUMNS, *numbers))


def _numbers(study: Study, cell: Cell) -> Iterator[list[object]]:
    answers = cell.answers
    model = answers.header.model
    front: list[object] = [
        *(study.name, answers.file.profile, answers.header.task, model.name, model.quantisation),
        *(answers.header.language, answers.header.prompt_version, answers.condition, answers.judge),
        *(answers.file.name, answers.asked),
    ]
    if cell.why:
        yield [*front, cell.why, "", "", "", answers.n, answers.right]
    for row in cell.rows:
        scores = Interval(row.brier, None, None), row.skill, row.ece, row.auc
        for metric, found in zip(_METRICS, scores, strict=True):
            if found is None:
                continue
            quoted = study.quoted(cell, row, metric)
            printed = "; ".join(f"{name} {value:g}" for name, value in quoted.numbers)
            yield [
                *(*front, "scored", *row.key, row.n, row.right, metric),
                *(number(found.value), number(found.low), number(found.high), found.kind),
                *(quoted.where if printed else "", printed),
            ]
    for missing in cell.missing:
        yield [*front, "not run: the records do not hold it", missing]


def _study_json(study: Study) -> dict[str, Any]:
    cells = []
    for cell in study.cells:
        found = cell_json(cell)
        for row, one in zip(cell.rows, found["rows"], strict=True):
            printed = {metric: study.quoted(cell, row, metric).to_json() for metric in _METRICS}
            one["published"] = {metric: value for metric, value in printed.items() if value is not None}
        cells.append(found)
    told = {"title": study.title, "reference": study.reference, "caveats": list(study.caveats)}
    return {**told, "cells": cells}


def html(report: Report) -> str:
    """The page: no script, no network; the figures lie beside it. What is folded away is not printed."""
    said = headings.words("page")
    references = tag("ul", *(tag("li", f"{study.title}: {study.reference}.") for study in report.studies))
    parts = [
        tag("header", tag("h1", said["title"]), tag("p", _words(said["lead"])), references),
        tag("p", tag("b", "Caveats. "), _words(said["caveats"])),
        *map(_section, report.sections()),
    ]
    css = Path(__file__).with_name("page.css").read_text("utf-8")
    head = joined(
        tag("meta", charset="utf-8"),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("title", f"lsp-calib: {said['title'][0].lower()}{said['title'][1:]}"),
        tag("style", Markup(f"{style()}\n{css}")),
    )
    page = tag("html", tag("head", head), tag("body", tag("main", *parts)), lang="en")
    return f"<!doctype html>\n{page}\n"


def _section(one: Section) -> Markup:
    body = tag("p", _words(one.lead)) if one.lead else None, *map(_part, one.parts)
    return tag("details", tag("summary", one.title), *body) if one.folded else section(one.title, None, *body)


def _part(part: Table | Picture) -> Markup:
    if isinstance(part, Picture):
        image = tag("img", src=f"{part.stem}.png", alt=part.alt, loading="lazy")
        return tag("figure", image, tag("figcaption", part.alt))
    columns = [*zip(*part.rows, strict=True)] or [()] * len(part.columns)
    # Columns of plain numbers.
    right = tuple(
        at
        for at, cells in enumerate(columns)
        if cells and all(set(cell) <= set("0123456789+−.–") for cell in cells)
    )
    rows = [[_cell(cell) for cell in row] for row in part.rows]
    return joined(
        tag("h3", part.title) if part.title else None,
        tag("div", html_table(part.columns, rows, right=right), class_="scroll"),
        tag("p", _words(part.note), class_="note") if part.note else None,
    )


def _words(text: str) -> Markup:
    """A text in which `code` and **bold** or *emphasised* words are marked."""
    parts = re.split(r"\*\*?", text)
    return joined(*(tag("b", prose(part)) if at % 2 else prose(part) for at, part in enumerate(parts)))


def _cell(text: str) -> Markup:
    # Neither an interval nor the scores of a cell are broken over lines.
    pattern = r"(?<=\d) to (?=[+−\d])|(?<!\)) / "
    return _words(re.sub(pattern, lambda spaced: spaced[0].replace(" ", "\u00a0"), text))


@attrs.frozen
class Run:
    """Answers that a study needs, as one of the other commands of `eval` makes them.

    name: of the folder. items: how many. make: the task. observe: as for `AskingOptions`.
    """

    study: str
    name: str
    items: int
    make: Callable[[], Task]
    observe: frozenset[str]


_LINES = 840
_POSITIONS = 100_000
"""As many as the committed records have."""


def runs(study: str, folder: Path, data_dir: Path | None, seed: int, say: Say) -> list[Run]:
    """The runs of a study, or of "all", the shorter ones first, with all that is asked about the answers.

    folder: for what judging by tests keeps. Lines are of the pinned projects in the data folder (`lsp-calib
    data pull projects` and `projects-dypybench`).
    """
    reflected = frozenset({"ask", "verbalised"})

    def of_set(task: str, name: str) -> Run:
        make = tasks.repair_task if task == "repair" else tasks.synthesis_task
        made = partial(make, name, data_dir, None, seed, say)
        return Run(SPIESS, f"{task}-{name}", data_set(name).records, made, reflected)

    def lines(name: str, projects: str, **options: Any) -> Run:
        def make() -> Task:
            paths = _projects(projects, data_dir)
            task = tasks.prefix_task(paths, _LINES, seed, **options)
            if "skip" not in options:
                return task
            roots = {group: root for root, group in project_names(paths)}
            return with_tests(task, roots, Path(sys.prefix), folder / name / "tests", say)

        return Run(SPIESS, name, _LINES, make, reflected)

    def summary(language: str, *, augment: bool) -> Run:
        make = partial(tasks.summary_task, data_dir, language, None, seed, augment=augment)
        name = f"summary-{language}" + ("-asap" if augment else "")
        items = data_set(f"code-to-text-{language}").records
        return Run(VIRK, name, items, make, reflected | {"scale"})

    found = (
        *(of_set("repair", "defects4j"), of_set("synthesis", "humaneval")),
        *(summary(language, augment=augment) for augment in (False, True) for language in ("python", "java")),
        *(lines("line-docstring", "projects"), lines("line-no-docstring", "projects", docstrings=False)),
        # Tests do not reach their own lines.
        lines("line-tests", "projects-dypybench", skip=is_test),
        *(of_set("synthesis", "mbpp"), of_set("repair", "manysstubs4j")),
    )
    return [run for run in found if study in (run.study, "all")]


def _projects(name: str, data_dir: Path | None) -> list[Path]:
    """The folders of a set of pinned projects. Raises DataError if it was not pulled."""
    where = data_folder(data_dir) / name
    if not where.is_dir():
        raise DataError(
            f"The projects {name} are not in {where}. Get them with `lsp-calib data pull {name}`."
        )
    return sorted(path for path in where.iterdir() if path.is_dir())


def decode_missing(study: str, folder: Path, asking: AskingOptions, data_dir: Path | None) -> None:
    """Ask a model for all answers of a study that `folder` does not hold yet; a stopped call goes on.

    First the number of answers that are left is told. What cannot be asked for, such as for lack of an
    encoder or of projects, is told and left out. Raises StoppedError when interrupted, and SettingsError or
    NoModelError without a model.
    """
    say = asking.say
    given = Settings(model=asking.model, threads=asking.threads)
    card, _ = locate(engine_choice(settings_in_force(given, say)).model)
    wanted = runs(study, folder, data_dir, asking.seed, say)
    left = {run.name: answers_left(folder / run.name / RECORDS, run.items) for run in wanted}
    counts = study in (FULL_ECE, "all") and not (folder / "token" / "token.jsonl").exists()
    say(
        f"Missing in {folder}: up to {counted(sum(left.values()), 'answer')} of {card.name}. Stop at any "
        "time; the same command goes on."
    )
    for run in wanted:
        if not left[run.name]:
            continue
        say(f"Asking for {run.name}.")
        try:
            make_folder(folder / run.name)
            collect_records(
                run.make(),
                folder / run.name / RECORDS,
                attrs.evolve(asking, observe=run.observe),
            )
        except StoppedError:
            raise
        except LspCalibError as error:
            say(f"{run.name} is left out: {error}")
    if counts:
        full_ece.count_tokens(_POSITIONS, data_dir, folder / "token", asking)
