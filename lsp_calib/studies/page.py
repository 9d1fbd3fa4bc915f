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
from lsp_calib.studies import exact, figures, full_ece, spiess, tasks, verdicts, virk
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

TITLE = "The studies, repeated"
LEAD = (
    "Spiess et al. 2024 on completion, synthesis and repair, Virk et al. 2024 on summaries and Liu et al. "
    "2024 on whole distributions, repeated with small local models. Every number is computed from records of "
    "their answers, and the same records give the same page. The tables are the papers', with ours below "
    "theirs. Ours stand only where task and condition are the study's (profile `paper`: every item asked "
    "counts, an empty answer as wrong). Scores are those of all predictions out of fold together. Intervals "
    "are 95 %, by bootstrap over projects, repositories, packages or functions."
)
CAVEATS = (
    "Exact match rewards repeating what was in the training data, bugs included. No measure was called ready "
    "for deployment. Above 90 % the studies found over-confidence. Why, how and what of a summary are not "
    "told apart. The synthesis sets are artificial. Rescaling needs answers whose right answer is known. "
    "What to accept depends on the risk: critical code deserves a stricter policy than a script."
)
RULE = (
    "One cell decides each claim, named before its number is known: the larger model's, in the study's own "
    "condition; where a claim names no task, MBPP, and of summaries Java. **Held**: the interval lies where "
    "the claim says. **Did not hold**: it lies on the other side, or includes no effect and rules out the "
    "least effect published. **Cannot tell**: both are possible. *About* means within 0.05 of a skill and 10 "
    "points of a share. *Could show*: the least effect that so many answers show in four of five draws. "
    "A rescaled skill, but not a difference of two, is less what labels of chance give. *Elsewhere* decides "
    "nothing."
)
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
            yield Section("What holds", RULE, [Table("", CLAIM_COLUMNS, rows)])
        for study in self.studies:
            yield from (one for one in study.sections if not one.folded)
        yield from self.imported
        for study in self.studies:
            yield from (one for one in study.sections if one.folded)
        left_out = Table(
            "", ("task", "left out, and what its verdicts cannot tell"), tuple(tasks.NOTES.items())
        )
        read = Table("", ("records",), [(note,) for note in self.notes])
        yield Section("Tasks and files", "", (left_out, read), folded=True)

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
    lines = [f"# {TITLE}", "", LEAD, "", f"**Caveats.** {CAVEATS}", ""]
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
        brier = Interval(row.brier, None, None)
        for metric, found in (("brier", brier), ("skill", row.skill), ("ece", row.ece), ("auc", row.auc)):
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


_METRICS = ("brier", "skill", "ece", "auc")


def _study_json(study: Study) -> dict[str, Any]:
    cells = []
    for cell in study.cells:
        found = cell_json(cell)
        for row, one in zip(cell.rows, found["rows"], strict=True):
            printed = {
                metric: study.quoted(cell, row, metric).to_json()
                for metric in ("brier", "skill", "ece", "auc")
            }
            one["published"] = {metric: value for metric, value in printed.items() if value is not None}
        cells.append(found)
    return {
        "title": study.title,
        "reference": study.reference,
        "caveats": list(study.caveats),
        "cells": cells,
    }


_STYLE = """
main { max-width: 1180px; }
h3 { margin: 22px 0 4px; }
th { white-space: normal; vertical-align: bottom; padding-right: 10px; }
td { vertical-align: top; padding-right: 10px; font-size: 13px; }
details { margin: 18px 0; }
summary { cursor: pointer; font-weight: 600; }
figure { display: inline-block; margin: 14px 18px 4px 0; vertical-align: top; }
figure img { max-width: 100%; width: 440px; }
figure figcaption { color: var(--muted); font-size: 13px; max-width: 440px; }
.note { color: var(--muted); font-size: 14px; max-width: 90ch; }
@page { size: A4; margin: 12mm 10mm; }
@media print {
  main { max-width: none; padding: 0; margin: 0; }
  body { font-size: 9.5pt; }
  td, th { font-size: 7pt; line-height: 1.2; padding: 1px 4px 1px 0; }
  section { break-inside: auto; }
  tr, figure { break-inside: avoid; }
  h2, h3, h2 + p { break-after: avoid; }
  .scroll { overflow: visible; }
  figure { width: 47%; margin: 4px 2% 4px 0; }
  figure figcaption, .note { font-size: 8pt; line-height: 1.25; max-width: none; }
  figure img { width: 100%; }
  details > :not(summary) { display: none; }
}
"""


def html(report: Report) -> str:
    """The page: no script, no network; the figures lie beside it. What is folded away is not printed."""
    references = tag("ul", *(tag("li", f"{study.title}: {study.reference}.") for study in report.studies))
    parts = [
        tag("header", tag("h1", TITLE), tag("p", _words(LEAD)), references),
        tag("p", tag("b", "Caveats. "), _words(CAVEATS)),
        *map(_section, report.sections()),
    ]
    head = joined(
        tag("meta", charset="utf-8"),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("title", f"lsp-calib: {TITLE[0].lower()}{TITLE[1:]}"),
        tag("style", Markup(style() + _STYLE)),
    )
    page = tag("html", tag("head", head), tag("body", tag("main", *parts)), lang="en")
    return f"<!doctype html>\n{page}\n"


def _section(one: Section) -> Markup:
    if not one.folded:
        return section(one.title, None, *_body(one))
    return tag("details", tag("summary", one.title), *_body(one))


def _body(one: Section) -> Iterator[Markup]:
    if one.lead:
        yield tag("p", _words(one.lead))
    yield from map(_part, one.parts)


def _part(part: Table | Picture) -> Markup:
    if isinstance(part, Picture):
        image = tag("img", src=f"{part.stem}.png", alt=part.alt, loading="lazy")
        return tag("figure", image, tag("figcaption", part.alt))
    right = tuple(at for at in range(len(part.columns)) if _numeric(part, at))
    return joined(
        tag("h3", part.title) if part.title else None,
        tag("div", html_table(part.columns, [*map(_cells, part.rows)], right=right), class_="scroll"),
        tag("p", _words(part.note), class_="note") if part.note else None,
    )


def _words(text: str) -> Markup:
    """A text in which `code` and **bold** or *emphasised* words are marked."""
    parts = re.split(r"\*\*?", text)
    return joined(*(tag("b", prose(part)) if at % 2 else prose(part) for at, part in enumerate(parts)))


def _cells(row: Sequence[str]) -> list[Markup]:
    # Neither an interval nor the scores of a cell are broken over lines.
    return [_words(re.sub(r"(?<=\d) to (?=[+−\d])|(?<!\)) / ", _unbroken, cell)) for cell in row]


def _unbroken(spaced: re.Match[str]) -> str:
    return spaced[0].replace(" ", "\u00a0")


def _numeric(table: Table, column: int) -> bool:
    """Whether a column holds plain numbers alone."""
    cells = [row[column] for row in table.rows]
    return bool(cells) and all(set(cell) <= set("0123456789+−.–") for cell in cells)


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

    def synthesis(name: str) -> Run:
        make = partial(tasks.synthesis_task, name, data_dir, None, seed, say)
        return Run(SPIESS, f"synthesis-{name}", data_set(name).records, make, reflected)

    def repair(name: str) -> Run:
        make = partial(tasks.repair_task, name, data_dir, None, seed, say)
        return Run(SPIESS, f"repair-{name}", data_set(name).records, make, reflected)

    def lines(name: str, *, docstrings: bool) -> Run:
        def make() -> Task:
            return tasks.prefix_task(_projects("projects", data_dir), _LINES, seed, docstrings=docstrings)

        return Run(SPIESS, name, _LINES, make, reflected)

    def tested() -> Task:
        paths = _projects("projects-dypybench", data_dir)
        task = tasks.prefix_task(paths, _LINES, seed, skip=is_test)
        roots = {group: root for root, group in project_names(paths)}
        return with_tests(task, roots, Path(sys.prefix), folder / "line-tests" / "tests", say)

    def summary(language: str, *, augment: bool) -> Run:
        make = partial(tasks.summary_task, data_dir, language, None, seed, augment=augment)
        name = f"summary-{language}" + ("-asap" if augment else "")
        items = data_set(f"code-to-text-{language}").records
        return Run(VIRK, name, items, make, reflected | {"scale"})

    found = (
        *(repair("defects4j"), synthesis("humaneval")),
        *(summary(language, augment=augment) for augment in (False, True) for language in ("python", "java")),
        *(lines("line-docstring", docstrings=True), lines("line-no-docstring", docstrings=False)),
        Run(SPIESS, "line-tests", _LINES, tested, reflected),
        *(synthesis("mbpp"), repair("manysstubs4j")),
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
