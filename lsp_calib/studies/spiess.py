"""Spiess et al. 2024 repeated: the study's tables 1 to 8, with the answers of local models beside theirs.

A column of theirs holds ours only where task and condition are the same: the function above the line and
nothing below it, one greedy answer, every item counted.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import attrs
import numpy as np

from lsp_calib.calibration.validation import Interval
from lsp_calib.report.words import signed
from lsp_calib.studies import headings
from lsp_calib.studies.exact import published_against_auc
from lsp_calib.studies.figures import against_auc, of_spiess
from lsp_calib.studies.published import (
    SPIESS,
    SPIESS_NAMES,
    Quoted,
    published,
    quoted_from_spiess,
    said,
    table,
)
from lsp_calib.studies.score import (
    APART,
    EDITOR,
    PAPER,
    RANDOM,
    RAW,
    Answers,
    Cell,
    File,
    Row,
    Rows,
    Study,
    answers_of,
    cell_of,
    why_not,
)
from lsp_calib.studies.statistics import OURS, RESCALINGS, Resamples, rank_correlation
from lsp_calib.studies.tables import Picture, Section, Table, percent, ranged, with_band
from lsp_calib.studies.tasks import NO_DOCSTRING, PREFIX

LINE = "Platt on ln p"
"""The study's rescaling, in random folds."""
HEADLINE = "total"
MEASURES = tuple(name for name in SPIESS_NAMES if name != "unskilled")
"""The study's six measures, by our names."""
TESTS, EXACT = "tests", "exact"
NOT_RUN = "not run"
Points = list[tuple[float, float]]


@attrs.frozen
class DataSet:
    """A data set of the study, and what answers its question here.

    name, here: the study's, and ours in a word. task, source: of the records, source "" for any. judges: how
    answers are judged here. ours: what the items are. differs: in what the question is another one. command:
    what makes the records.
    """

    name: str
    here: str
    task: str
    judges: Sequence[str]
    ours: str
    differs: str
    command: str
    source: str = ""

    def holds(self, file: File) -> bool:
        sources = {source.name for source in file.header.sources}
        studied = file.profile == PAPER and file.header.task == self.task
        return studied and (not self.source or self.source in sources)


DATA_SETS = tuple(DataSet(**one) for one in headings.words(SPIESS)["data-sets"])


def data_set_of(cell: Cell) -> DataSet | None:
    """The study's data set that some answers belong to; None for answers as an editor asks for them."""
    return next((one for one in DATA_SETS if one.holds(cell.answers.file)), None)


def name_of(cell: Cell) -> str:
    """The data set of a studied cell, and its judge, in words."""
    one = data_set_of(cell)
    assert one is not None
    return f"{one.here} by {cell.answers.judge}"


def parameters(model: str) -> float:
    """How many parameters a model's name says, 0 where it says none: the larger model's cell is primary.

    >>> [parameters(name) for name in ("qwen2.5-coder-1.5b", "smollm2-135m", "m")]
    [1500000000.0, 135000000.0, 0.0]
    """
    found = re.findall(r"(\d+(?:\.\d+)?)([bm])\b", model.lower())
    return float(found[-1][0]) * (1e9 if found[-1][1] == "b" else 1e6) if found else 0.0


def in_order(cells: Iterable[Cell]) -> list[Cell]:
    """The larger models first."""
    return sorted(cells, key=lambda cell: (-parameters(cell.model), cell.model))


def build(files: Sequence[File], seed: int = 0) -> Study:
    """The study on records. files: the largest of each question."""
    cells = in_order(
        cell_of(answers, paper=LINE, headline=HEADLINE, first=False, seed=seed)
        for one in DATA_SETS
        for file in files
        if one.holds(file)
        for answers in answers_of(file, one.judges)
    )
    served = in_order(
        _as_served(answers, seed)
        for file in files
        if file.profile == EDITOR and file.header.language == "python"
        for answers in answers_of(file)
    )
    return Study(
        name=SPIESS,
        title=headings.words(SPIESS)["title"],
        reference=published()[SPIESS]["reference"],
        caveats=tuple(headings.words(SPIESS)["caveats"]),
        cells=(*cells, *served),
        sections=tuple(_sections(cells, served, seed)),
        quoted=quoted,
    )


def _as_served(answers: Answers, seed: int) -> Cell:
    """The total of answers of the editor, raw and as this project rescales it; `eval TASK` has all rows."""
    why = why_not(answers)
    if why:
        return Cell(answers, why)
    maker = Rows(answers, seed)
    return Cell(answers, rows=(maker.of(HEADLINE), maker.of(HEADLINE, OURS, APART)), maker=maker)


def quoted(cell: Cell, row: Row, metric: str) -> Quoted:
    """What the study printed for the same task, condition and criterion; an empty one where it did not."""
    one = data_set_of(cell)
    if one is None or cell.answers.condition == NO_DOCSTRING:
        return Quoted("")
    by_tests = cell.answers.judge == TESTS or one.name == "SStubs"
    if row.rescaling == RAW:
        name = "" if not by_tests else "8" if metric == "auc" else "5"
    else:
        studied = metric != "auc" and (row.rescaling, row.folds) == (LINE, RANDOM)
        name = "" if not studied else "6" if by_tests else "7"
    return quoted_from_spiess(name, one.name, row.measure, metric) if name else Quoted("")


def chosen(
    cells: Iterable[Cell], name: str, judge: str, condition: str = PREFIX, *, twice: bool = False
) -> list[Cell]:
    """The cells of a data set, one a model, the larger model first.

    condition: of lines. twice: of lines, those that were judged by tests, too; else the larger draw.
    """
    best: dict[str, Cell] = {}
    for cell in cells:
        one, answers = data_set_of(cell), cell.answers
        if one is None or one.name != name or answers.judge != judge:
            continue
        if answers.condition not in ("", condition) or (twice and not answers.file.tested):
            continue
        if cell.model not in best or answers.n > best[cell.model].answers.n:
            best[cell.model] = cell
    return in_order(best.values())


def _all_chosen(cells: Sequence[Cell]) -> Iterator[tuple[DataSet, Cell]]:
    for one in DATA_SETS:
        for judge in one.judges:
            yield from ((one, cell) for cell in chosen(cells, one.name, judge))


def judged_twice(cells: Sequence[Cell]) -> list[tuple[Cell, Cell]]:
    """Cells of the same lines judged exactly and by tests, in this order."""
    exact = {cell.model: cell for cell in chosen(cells, "DyPyBench", EXACT, twice=True)}
    return [(exact[cell.model], cell) for cell in chosen(cells, "DyPyBench", TESTS) if cell.model in exact]


def docstring_pairs(cells: Iterable[Cell], judge: str) -> dict[str, tuple[Cell, Cell]]:
    """The cells of the same lines with their docstrings and without, by model."""
    shown, hidden = (
        {cell.model: cell for cell in chosen(cells, "DyPyBench", judge, condition)}
        for condition in (PREFIX, NO_DOCSTRING)
    )
    return {model: (cell, hidden[model]) for model, cell in shown.items() if model in hidden}


def gain(first: Answers, second: Answers, seed: int = 0) -> tuple[Interval, int]:
    """By how much more of the first answers are right than of the second, on the items of both; their number.

    The interval is a bootstrap over the groups of the items.
    """
    pairs = zip(second.found, second.correct, strict=True)
    other = {record.item: correct for record, correct in pairs}
    part = first.part(
        np.array([at for at, one in enumerate(first.found) if one.item in other], dtype=np.intp)
    )
    differences = part.correct.astype(np.float64) - np.array([other[one.item] for one in part.found])
    return Resamples(part.correct, part.groups, seed=seed).mean(differences), part.n


def _sections(cells: Sequence[Cell], served: Sequence[Cell], seed: int) -> Iterator[Section]:
    rates = _rates(cells, seed), _docstrings(cells, seed), _repetitions(cells)
    yield headings.section("spiess.tasks", [_tasks(cells)])
    yield headings.section("spiess.right", rates)
    yield headings.section("spiess.exactly", _cross_tables(cells))
    yield headings.section("spiess.scores", [_scores(cells, name) for name in _JUDGES])
    yield headings.section("spiess.auc", [_auc_against(cells)])
    yield headings.section("spiess.agreement", [_agreement(cells), _halves(cells)])
    yield headings.section("spiess.figures", _pictures(cells))
    yield headings.section("spiess.rescalings", [_rescalings(cell) for cell in cells if not cell.why])
    yield headings.section("spiess.editor", [_served(served)])


def _pictures(cells: Sequence[Cell]) -> Iterator[Picture]:
    columns = {"DyPyBench": "Lines"}
    study = {columns.get(one.name, one.name): chosen(cells, one.name, one.judges[0]) for one in DATA_SETS}
    # The larger model's lines are not judged by tests yet.
    lines, exact = study["Lines"], chosen(cells, "DyPyBench", EXACT)
    if exact and (not lines or parameters(exact[0].model) > parameters(lines[0].model)):
        study["Lines"] = exact
    judge = study["Lines"][0].answers.judge if study["Lines"] else TESTS
    bare = chosen(cells, "DyPyBench", judge, NO_DOCSTRING)
    printed = {score: published_against_auc(score) for score in ("skill", "ece")}
    yield from of_spiess({name: found for name, found in study.items() if found}, bare, printed)


def _tasks(cells: Sequence[Cell]) -> Table:
    rows = []
    for one in DATA_SETS:
        theirs = table(SPIESS, "1")[one.name]
        of_set = [cell for of, cell in _all_chosen(cells) if of is one]
        asked = [f"{cell.model}, {cell.answers.judge}: {cell.answers.asked:,}" for cell in of_set]
        ours = "; ".join(asked) or f"{NOT_RUN}: `{one.command}`"
        size = f"{theirs['size']:,}, {theirs['right by']}"
        rows.append((theirs["task"], one.name, size, one.ours, ours, one.differs))
    return headings.table("spiess.table-1", rows)


def _models(cells: Iterable[Cell]) -> list[str]:
    return list(dict.fromkeys(cell.model for cell in in_order(cells)))


def share(answers: Answers, seed: int = 0) -> Interval:
    """The share that is right, with its interval over groups."""
    return Resamples(answers.correct, answers.groups, seed=seed).mean(answers.correct.astype(np.float64))


def in_points(found: Interval) -> Interval:
    """A share, or a difference of shares, in per cent."""
    value, low, high = (None if it is None else 100 * it for it in (found.value, found.low, found.high))
    return Interval(value, low, high)


def points(difference: Interval) -> str:
    """A difference of shares in percentage points."""
    return ranged(in_points(difference), 1)


def _share(cell: Cell | None, seed: int) -> str:
    """The share that is right in per cent, such as "28 (24 to 33); 245 of 837"."""
    if cell is None:
        return NOT_RUN
    answers = cell.answers
    return f"{ranged(in_points(share(answers, seed)), 1, sign=False)}; {answers.right} of {answers.n}"


def _rates(cells: Sequence[Cell], seed: int) -> Table:
    models, rows = _models(cells), []
    for judge, kind in ((TESTS, "all pass"), (EXACT, "exact")):
        for name, theirs in table(SPIESS, "2")[kind].items():
            ours = {cell.model: cell for cell in chosen(cells, name, judge)}
            printed = (f"{theirs[model]:.2f}" for model in _THEIRS)
            rows.append((kind, name, *printed, *(_share(ours.get(model), seed) for model in models)))
    return headings.table("spiess.table-2", rows, more=models)


_THEIRS = ("CodeGen2", "Codex", "GPT-3.5")


def _docstrings(cells: Sequence[Cell], seed: int) -> Table:
    printed, rows = table(SPIESS, "3"), []
    for model in _THEIRS:
        row = [model]
        for kind in ("all pass", "exact"):
            shown, hidden = (printed[kind][condition][model] for condition in ("docstring", "none"))
            row += [f"{shown:.2f}", f"{hidden:.2f}", signed(shown - hidden)]
        rows.append(row)
    for model in _models(cells):
        row = [model]
        for judge in (TESTS, EXACT):
            both = docstring_pairs(cells, judge).get(model)
            if both is None:
                row += [NOT_RUN] * 3
                continue
            more, _ = gain(both[0].answers, both[1].answers, seed)
            row += [*(_share(cell, seed) for cell in both), points(more)]
        rows.append(row)
    return headings.table("spiess.table-3", rows)


def _repetitions(cells: Sequence[Cell]) -> Table:
    """How many repairs are the bug again, which the study names for CodeGen2."""
    rows = []
    for one, cell in _all_chosen(cells):
        again = [record.repeats_bug for record in cell.answers.found if record.repeats_bug is not None]
        if one.task == "repair":
            told = f"{sum(again)} of {len(again)} ({percent(sum(again) / len(again))})" if again else NOT_RUN
            rows.append((cell.model, one.name, told))
    return headings.table("spiess.repetitions", rows)


def _cross_tables(cells: Sequence[Cell]) -> Iterator[Table]:
    names = (("no", "false"), ("yes", "true"), ("all", "total"))
    printed = [(name, *(f"{value:.2f}" for value in table(SPIESS, "4")[key])) for name, key in names]
    title = "Published: GPT-3.5 on DyPyBench, 1,988 lines"
    yield headings.table("spiess.table-4", printed, title=title)
    for exact, tests in judged_twice(cells):
        answers, a, b = exact.answers, exact.answers.correct, tests.answers.correct
        rows = []
        for name, kind in {"no": ~a, "yes": a, "all": np.ones_like(a)}.items():
            counts = (int(np.sum(kind & other)) for other in (~b, b, np.ones_like(b)))
            rows.append((name, *(f"{100 * count / a.size:.2f} ({count})" for count in counts)))
        made = f", records of {answers.header.created}" if answers.header.created else ""
        title = f"{exact.model}, {a.size} lines of {len(set(answers.groups))} projects{made}"
        yield headings.table("spiess.table-4", rows, title=title)


# By which criterion ours stand in a column of a table.
_BY_TESTS = {"DyPyBench": TESTS, "HumanEval": TESTS, "MBPP": TESTS, "SStubs": EXACT}
_JUDGES: Mapping[str, Mapping[str, str]] = {
    "5": _BY_TESTS,
    "6": _BY_TESTS,
    "7": {"DyPyBench": EXACT, "Defects4J": EXACT, "SStubs": EXACT},
    "8": _BY_TESTS,
}


def _scores(cells: Sequence[Cell], name: str) -> Table:
    """One of the tables 5 to 8, the study's rows above ours."""
    columns: Sequence[str] = published()[SPIESS]["tables"][name]["columns"]
    rows = [
        ("" if at else model, measure, *(_printed(row.get(column)) for column in columns))
        for model, of_model in table(SPIESS, name).items()
        for at, (measure, row) in enumerate(of_model.items())
    ]
    judges = _JUDGES[name]
    ours = {
        column: {cell.model: cell for cell in chosen(cells, column, judge)}
        for column, judge in judges.items()
    }
    for model in _models(cells):
        found = {column: ours.get(column, {}).get(model) for column in columns}
        if any(found.values()):
            counts = (_counts(cell, judged=column in judges) for column, cell in found.items())
            rows.append((f"**{model}**", "n, right", *counts))
            for measure, shown in SPIESS_NAMES.items():
                rows.append(("", shown, *(_ours(cell, measure, name) for cell in found.values())))
    return headings.table(f"spiess.table-{name}", rows, more=columns)


def _printed(cell: Mapping[str, float | None] | None) -> str:
    if cell is None:
        return "–"
    if "auc" in cell:
        return f"{cell['auc']:.2f}"
    ece = "–" if cell["ece"] is None else f"{cell['ece']:.2f}"
    return f"{cell['brier']:.2f} / {signed(cell['skill'])} / {ece}".replace("+0.00", "0.00")


def _counts(cell: Cell | None, *, judged: bool) -> str:
    if cell is None:
        return NOT_RUN if judged else "not by tests"
    return cell.why or f"{cell.answers.n}, {cell.answers.right}"


def _ours(cell: Cell | None, measure: str, name: str) -> str:
    if cell is None or cell.why:
        return "–"
    rescaled = name in ("6", "7") and measure != "unskilled"
    row = cell.row(measure, LINE, RANDOM) if rescaled else cell.row(measure)
    if row is None:
        return NOT_RUN
    if name == "8":
        return ranged(row.auc, sign=False)
    ece = "–" if row.ece is None or row.ece.value is None else f"{row.ece.value:.2f}"
    return f"{row.brier:.2f} / {ranged(row.skill)} / {ece}"


def of_figure_8(cells: Sequence[Cell]) -> dict[str, list[Cell]]:
    """The cells of the study's tasks and criteria, by model."""
    found: dict[str, list[Cell]] = {}
    for column, judge in (*_BY_TESTS.items(), ("Defects4J", EXACT)):
        for cell in chosen(cells, column, judge):
            if not cell.why:
                found.setdefault(cell.model, []).append(cell)
    return found


def against_auc_by_model(cells: Sequence[Cell]) -> tuple[dict[str, list[Points]], dict[str, list[Points]]]:
    """Ours and the study's, by model: (AUC, rescaled skill) and (AUC, rescaled ECE)."""
    scores = "skill", "ece"
    ours = {
        model: [list(against_auc(of_model, score)) for score in scores]
        for model, of_model in of_figure_8(cells).items()
    }
    theirs = {
        model: [published_against_auc(score, model) for score in scores] for model in table(SPIESS, "6")
    }
    return ours, theirs


def correlation(pairs: Points) -> float | None:
    """Spearman's correlation of pairs; None for fewer than 3."""
    return rank_correlation(*zip(*pairs, strict=True)) if pairs else None


def _auc_against(cells: Sequence[Cell]) -> Table:
    ours, theirs = against_auc_by_model(cells)
    found = {f"{model} (published)": both for model, both in theirs.items()} | ours
    rows = [
        (model, *(f"{signed(correlation(one))} ({len(one)} points)" for one in both))
        for model, both in found.items()
    ]
    return headings.table("spiess.auc-against", rows, says=said(SPIESS, "sameAUC")["says"])


_PAIRS = (
    ("total", "arithmetic-mean"),
    ("ask", "normalised"),
    ("total", "ask"),
    ("arithmetic-mean", "ask"),
    ("total", "verbalised"),
    ("ask", "verbalised"),
)


def _agreement(cells: Sequence[Cell]) -> Table:
    found = [cell for of_model in of_figure_8(cells).values() for cell in of_model]
    rows = []
    for a, b in _PAIRS:
        values = (cell.correlations.get((a, b), cell.correlations.get((b, a))) for cell in found)
        rows.append((f"{SPIESS_NAMES[a]}, {SPIESS_NAMES[b]}", *map(signed, values)))
    return headings.table("spiess.agreeing", rows, more=[f"{cell.model}, {name_of(cell)}" for cell in found])


def _halves(cells: Sequence[Cell]) -> Table:
    """How often the verbalised confidence is 50 %, and what its skill is without these answers."""
    rows = []
    for _, cell in _all_chosen(cells):
        raw = cell.row("verbalised")
        if raw is not None:
            names = ("verbalised", "verbalised-stated")
            scored = [cell.row(name, *line) for line in ((), (LINE, RANDOM)) for name in names]
            skills = (ranged(row.skill if row else None) for row in scored)
            rows.append(
                (f"{cell.model}, {name_of(cell)}", f"{raw.n}, {raw.right}", percent(raw.half), *skills)
            )
    values = said(SPIESS, "halfShare")["values"].items()
    told = ", ".join(f"{name} {percent(value)}" for name, value in values)
    return headings.table("spiess.halves", rows, values=told)


def _rescalings(cell: Cell) -> Table:
    lines = [(RAW, ""), *((name, folds) for name in RESCALINGS for folds in (RANDOM, APART))]
    found = [row for line in lines if (row := cell.row(HEADLINE, *line)) is not None]
    rows = [
        (row.rescaling, row.folds or "–", f"{row.brier:.3f}", ranged(row.skill), with_band(row.ece))
        for row in found
    ]
    answers = cell.answers
    given: dict[str, Any] = {
        "name": answers.name,
        "n": answers.n,
        "right": answers.right,
        "groups": len(set(answers.groups)),
    }
    return headings.table("spiess.rescaled", rows, **given)


def _served(cells: Sequence[Cell]) -> Table:
    rows: list[tuple[str, ...]] = []
    for cell in cells:
        answers, header = cell.answers, cell.answers.header
        front = (
            *(header.task, cell.model, header.prompt_version, answers.condition or "–", answers.judge),
            f"{answers.asked}, {answers.n}, {answers.right}",
        )
        scores = (cell.why, "–", "–", "–")
        if not cell.why:
            raw, ours = cell.known(HEADLINE), cell.known(HEADLINE, OURS, APART)
            told = ranged(raw.skill), ranged(ours.skill), with_band(ours.ece)
            scores = (*told, ranged(raw.auc, sign=False))
        rows.append((*front, *scores))
    return headings.table("spiess.served", rows)
