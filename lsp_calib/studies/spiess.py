"""Spiess et al. 2024 repeated: the study's tables 1 to 8, with the answers of local models beside theirs.

A column of theirs holds ours only where task and condition are the same: the function above the line and
nothing below it, one greedy answer, every item counted.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

import attrs
import numpy as np

from lsp_calib.calibration.validation import Interval
from lsp_calib.report.words import signed
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
from lsp_calib.studies.tables import Picture, Section, Table, ranged, with_band
from lsp_calib.studies.tasks import NO_DOCSTRING, PREFIX

LINE = "Platt on ln p"
"""The study's rescaling, in random folds."""
HEADLINE = "total"
MEASURES = tuple(name for name in SPIESS_NAMES if name != "unskilled")
"""The study's six measures, by our names."""
TESTS, EXACT = "tests", "exact"
NOT_RUN = "not run"


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
    source: str
    judges: tuple[str, ...]
    ours: str
    differs: str
    command: str

    def holds(self, file: File) -> bool:
        sources = {source.name for source in file.header.sources}
        return (
            file.profile == PAPER
            and file.header.task == self.task
            and (not self.source or self.source in sources)
        )


DATA_SETS = (
    DataSet(
        *("DyPyBench", "lines", "line", "", (TESTS, EXACT)),
        ours="lines of documented functions of Python projects of the package index",
        differs="by tests: Qwen's lines are of 21 of DyPyBench's 50 projects, SmolLM2's of 11 others; at "
        "least one of the project's tests reaches each, and at most 50 of these judge it; exactly: lines of "
        "70 other projects without regard to tests, where tests cover the study's",
        command="lsp-calib eval line PROJECTS --condition prefix [--tests]",
    ),
    DataSet(
        *("HumanEval", "HumanEval", "synthesis", "humaneval", (TESTS,)),
        ours="its 164 functions",
        differs="the same functions and tests",
        command="lsp-calib eval synthesis --set humaneval",
    ),
    DataSet(
        *("MBPP", "MBPP", "synthesis", "mbpp", (TESTS,)),
        ours="its problems as functions, the text as docstring",
        differs="the same problems; which references fail their own tests depends on the machine",
        command="lsp-calib eval synthesis --set mbpp",
    ),
    DataSet(
        *("Defects4J", "Defects4J", "repair", "defects4j", (EXACT,)),
        ours="its one-line patches, moved lines left out",
        differs="judged by exact match alone, so it stands beside Table 7 and not beside Tables 5, 6 and 8",
        command="lsp-calib eval repair --set defects4j",
    ),
    DataSet(
        *("SStubs", "SStubs", "repair", "manysstubs4j", (EXACT,)),
        ours="its bugs with a context of one hunk",
        differs="another draw of the data set",
        command="lsp-calib eval repair --set sstubs",
    ),
)

CAVEATS = (
    "Exact match rewards repeating what was in the training data, bugs included.",
    "The synthesis sets are artificial: results may not hold for other code.",
    "The study called no measure ready for deployment.",
    "Rescaling needs answers whose right answer is known.",
    "The models here have 0.1 and 1.5 billion parameters and are quantised; the study's were GPT-3.5, Codex "
    "and CodeGen2-16B.",
)


def data_set_of(cell: Cell) -> DataSet | None:
    """The study's data set that some answers belong to; None for answers as an editor asks for them."""
    return next((one for one in DATA_SETS if one.holds(cell.answers.file)), None)


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
        title="Calibration and correctness of language models for code",
        reference=published()[SPIESS]["reference"],
        caveats=CAVEATS,
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
    if metric == "auc":
        name = "8" if by_tests and row.rescaling == RAW else ""
    elif row.rescaling == RAW:
        name = "5" if by_tests else ""
    else:
        name = ("6" if by_tests else "7") if (row.rescaling, row.folds) == (LINE, RANDOM) else ""
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


def judged_twice(cells: Sequence[Cell]) -> list[tuple[Cell, Cell]]:
    """Cells of the same lines judged exactly and by tests, in this order."""
    exact = {cell.model: cell for cell in chosen(cells, "DyPyBench", EXACT, twice=True)}
    return [(exact[cell.model], cell) for cell in chosen(cells, "DyPyBench", TESTS) if cell.model in exact]


def gain(first: Answers, second: Answers, seed: int = 0) -> tuple[Interval, int]:
    """By how much more of the first answers are right than of the second, on the items of both; their number.

    The interval is a bootstrap over the groups of the items.
    """
    pairs = zip(second.found, second.correct, strict=True)
    other = {record.item: correct for record, correct in pairs}
    at = [place for place, record in enumerate(first.found) if record.item in other]
    right = first.correct[at]
    differences = right.astype(np.float64) - np.array([other[first.found[place].item] for place in at])
    groups = [first.groups[place] for place in at]
    return Resamples(right, groups, seed=seed).mean(differences), len(at)


def _sections(cells: Sequence[Cell], served: Sequence[Cell], seed: int) -> Iterator[Section]:
    yield Section("Spiess et al., Table 1: tasks", "", (_tasks(cells),))
    yield Section(
        "Spiess et al., Tables 2 and 3: how much is right",
        "Per cent of what was asked, with its 95 % interval; an empty answer counts as wrong.",
        (_rates(cells, seed), _docstrings(cells, seed), _repetitions(cells)),
    )
    yield Section(
        "Spiess et al., Table 4: exact match against tests",
        "Per cent of the lines. In records from 2026-11-29 on a line that is the original is run like any "
        "other; before, it counted as passing without a run.",
        tuple(_cross_tables(cells)),
    )
    yield Section(
        "Spiess et al., Tables 5 to 8",
        "Each cell as in the paper: Brier score / skill score / ECE; Table 8: AUC. Ours have the interval of "
        "the skill, and of the AUC, in parentheses. ECE is left out where the rescaled skill is below 0.05. "
        "The first row of a model has its number of answers and of right ones. Out of fold, a confidence "
        "that tells nothing has a skill a little below 0, and so may be its whole interval: verdicts "
        "subtract that, these tables do not. A probability is that of all tokens, the one that ends the "
        "answer included; where the last characters of a prompt were asked for again (SmolLM2), it is given "
        "these.",
        (
            _scores(cells, "5", "raw, by tests; SStubs exactly"),
            _scores(cells, "6", "Platt on ln p in 5 random folds, by tests; SStubs exactly"),
            _scores(cells, "7", "the same by exact match"),
            _scores(cells, "8", "AUC, by tests; SStubs exactly"),
        ),
    )
    yield Section(
        "Spiess et al., Figures 7 and 8: AUC, ECE and skill",
        "Rank correlation over the six measures of the study's tasks, after its rescaling, one model at a "
        "time. The points share their answers: no interval is given.",
        (_auc_against(cells),),
    )
    yield Section(
        "Spiess et al., 4.1.3 and appendix: do measures agree, and how often is 50 % said?",
        "Spearman's correlation of raw confidences on the same answers.",
        (_agreement(cells), _halves(cells)),
    )
    yield Section(
        "Spiess et al., figures",
        "The larger model's answers; n stands at each bar's foot, and the points are five quantiles.",
        tuple(_pictures(cells)),
    )
    yield Section(
        "Every rescaling of the total probability",
        "`random`: in random folds, as in the study; `apart`: whole projects, functions or packages left "
        "out. Isotonic regression and bins have many parameters: see what few answers do to them.",
        tuple(_rescalings(cell) for cell in cells if not cell.why),
        folded=True,
    )
    yield Section(
        "As served in an editor",
        "Another profile, which no claim rests on and no published number stands beside: the prompt and the "
        "conditions of the server, and only what an editor would have been offered. The total probability.",
        (_served(served),),
        folded=True,
    )


def _pictures(cells: Sequence[Cell]) -> Iterator[Picture]:
    columns = {"DyPyBench": "Lines"}
    study = {columns.get(one.name, one.name): chosen(cells, one.name, one.judges[0]) for one in DATA_SETS}
    # The larger model's lines are not judged by tests yet.
    lines, exact = study["Lines"], chosen(cells, "DyPyBench", EXACT)
    if exact and (not lines or parameters(exact[0].model) > parameters(lines[0].model)):
        study["Lines"] = exact
    bare = chosen(
        cells, "DyPyBench", study["Lines"][0].answers.judge if study["Lines"] else TESTS, NO_DOCSTRING
    )
    printed = {score: published_against_auc(score) for score in ("skill", "ece")}
    yield from of_spiess({name: found for name, found in study.items() if found}, bare, printed)


def _tasks(cells: Sequence[Cell]) -> Table:
    rows = []
    for one in DATA_SETS:
        theirs = table(SPIESS, "1")[one.name]
        asked = [
            f"{cell.model}, {judge}: {cell.answers.asked:,}"
            for judge in one.judges
            for cell in chosen(cells, one.name, judge)
        ]
        size = f"{theirs['size']:,}, {theirs['right by']}"
        rows.append(
            (
                theirs["task"],
                one.name,
                size,
                one.ours,
                "; ".join(asked) or f"{NOT_RUN}: `{one.command}`",
                one.differs,
            )
        )
    columns = "task", "data set", "study: items, right by", "here", "here: items, right by", "differs in"
    return Table("", columns, tuple(rows))


def _models(cells: Iterable[Cell]) -> list[str]:
    return list(dict.fromkeys(cell.model for cell in in_order(cells)))


def share(answers: Answers, seed: int = 0) -> Interval:
    """The share that is right, with its interval over groups."""
    return Resamples(answers.correct, answers.groups, seed=seed).mean(answers.correct.astype(np.float64))


def _share(answers: Answers, seed: int) -> str:
    """The share that is right in per cent, such as "28 (24 to 33); 245 of 837"."""
    return f"{ranged(in_points(share(answers, seed)), 1, sign=False)}; {answers.right} of {answers.n}"


def _rates(cells: Sequence[Cell], seed: int) -> Table:
    models = _models(cells)
    rows = []
    for judge, kind in ((TESTS, "all pass"), (EXACT, "exact")):
        for name, theirs in table(SPIESS, "2")[kind].items():
            ours = {cell.model: cell.answers for cell in chosen(cells, name, judge)}
            shares = (_share(ours[model], seed) if model in ours else NOT_RUN for model in models)
            printed = (f"{theirs[model]:.2f}" for model in ("CodeGen2", "Codex", "GPT-3.5"))
            rows.append((kind, name, *printed, *shares))
    return Table("Table 2", ("right by", "data set", "CodeGen2", "Codex", "GPT-3.5", *models), tuple(rows))


def _docstrings(cells: Sequence[Cell], seed: int) -> Table:
    printed = table(SPIESS, "3")
    rows = []
    for model in ("CodeGen2", "Codex", "GPT-3.5"):
        row = [model]
        for kind in ("all pass", "exact"):
            shown, hidden = (printed[kind][condition][model] for condition in ("docstring", "none"))
            row += [f"{shown:.2f}", f"{hidden:.2f}", signed(shown - hidden)]
        rows.append(tuple(row))
    for model in _models(cells):
        row = [model]
        for judge in (TESTS, EXACT):
            both = docstring_pairs(cells, judge).get(model)
            if both is None:
                row += [NOT_RUN] * 3
                continue
            more, _ = gain(both[0].answers, both[1].answers, seed)
            row += [*(_share(cell.answers, seed) for cell in both), points(more)]
        rows.append(tuple(row))
    columns = (
        *("model", "all pass: docstring", "none", "gain, points"),
        *("exact: docstring", "none", "gain, points"),
    )
    return Table("Table 3: DyPyBench, with and without docstring; the same lines", columns, tuple(rows))


def _repetitions(cells: Sequence[Cell]) -> Table:
    """How many repairs are the bug again, which the study names for CodeGen2."""
    rows = []
    for one in DATA_SETS:
        for cell in chosen(cells, one.name, EXACT) if one.task == "repair" else ():
            again = [record.repeats_bug for record in cell.answers.found if record.repeats_bug is not None]
            share_ = (
                f"{sum(again)} of {len(again)} ({100 * sum(again) / len(again):.0f} %)" if again else NOT_RUN
            )
            rows.append((cell.model, one.name, share_))
    title = "Repair: answers that are the buggy line again"
    return Table(title, ("model", "data set", "the buggy line again"), tuple(rows))


def docstring_pairs(cells: Iterable[Cell], judge: str) -> dict[str, tuple[Cell, Cell]]:
    """The cells of the same lines with their docstrings and without, by model."""
    shown, hidden = (
        {cell.model: cell for cell in chosen(cells, "DyPyBench", judge, condition)}
        for condition in (PREFIX, NO_DOCSTRING)
    )
    return {model: (cell, hidden[model]) for model, cell in shown.items() if model in hidden}


def in_points(found: Interval) -> Interval:
    """A share, or a difference of shares, in per cent."""
    value, low, high = (None if it is None else 100 * it for it in (found.value, found.low, found.high))
    return Interval(value, low, high)


def points(difference: Interval) -> str:
    """A difference of shares in percentage points."""
    return ranged(in_points(difference), 1)


def _cross_tables(cells: Sequence[Cell]) -> Iterator[Table]:
    columns = ("exact match", "tests fail", "tests pass", "all")
    printed = table(SPIESS, "4")
    yield Table(
        "Published: GPT-3.5 on DyPyBench, 1,988 lines",
        columns,
        tuple(
            (name, *(f"{value:.2f}" for value in printed[key]))
            for name, key in (("no", "false"), ("yes", "true"), ("all", "total"))
        ),
    )
    for exact, tests in judged_twice(cells):
        a, b = exact.answers.correct, tests.answers.correct
        kinds = {"no": ~a, "yes": a, "all": np.ones_like(a)}
        rows = []
        for name, kind in kinds.items():
            counts = (int(np.sum(kind & other)) for other in (~b, b, np.ones_like(b)))
            rows.append((name, *(f"{100 * count / a.size:.2f} ({count})" for count in counts)))
        answers = exact.answers
        made = f", records of {answers.header.created}" if answers.header.created else ""
        yield Table(
            f"{exact.model}, {a.size} lines of {len(set(answers.groups))} projects{made}",
            columns,
            tuple(rows),
        )


# By which criterion ours stand in a column of a table.
_BY_TESTS = {"DyPyBench": TESTS, "HumanEval": TESTS, "MBPP": TESTS, "SStubs": EXACT}
_JUDGES: Mapping[str, Mapping[str, str]] = {
    "5": _BY_TESTS,
    "6": _BY_TESTS,
    "7": {"DyPyBench": EXACT, "Defects4J": EXACT, "SStubs": EXACT},
    "8": _BY_TESTS,
}


def _scores(cells: Sequence[Cell], name: str, what: str) -> Table:
    """One of the tables 5 to 8, the study's rows above ours."""
    one = published()[SPIESS]["tables"][name]
    columns: Sequence[str] = one["columns"]
    printed = table(SPIESS, name)
    rows = [
        ("" if at else model, measure, *(_printed(row.get(column)) for column in columns))
        for model, of_model in printed.items()
        for at, (measure, row) in enumerate(of_model.items())
    ]
    ours = {
        column: {cell.model: cell for cell in chosen(cells, column, judge)}
        for column, judge in _JUDGES[name].items()
    }
    for model in _models(cells):
        found = [ours.get(column, {}).get(model) for column in columns]
        judged = [column in _JUDGES[name] for column in columns]
        if not any(found):
            continue
        counts = (_counts(cell, known) for cell, known in zip(found, judged, strict=True))
        rows.append((f"**{model}**", "n, right", *counts))
        for measure, shown in SPIESS_NAMES.items():
            rows.append(("", shown, *(_ours(cell, measure, name) for cell in found)))
    return Table(f"Table {name}: {what}", ("model", "measure", *columns), tuple(rows))


def _printed(cell: Mapping[str, float | None] | None) -> str:
    if cell is None:
        return "–"
    if "auc" in cell:
        return f"{cell['auc']:.2f}"
    ece = "–" if cell["ece"] is None else f"{cell['ece']:.2f}"
    return f"{cell['brier']:.2f} / {signed(cell['skill'])} / {ece}".replace("+0.00", "0.00")


def _counts(cell: Cell | None, judged: bool) -> str:
    if cell is None:
        return NOT_RUN if judged else "not by tests"
    return cell.why or f"{cell.answers.n}, {cell.answers.right}"


def _ours(cell: Cell | None, measure: str, name: str) -> str:
    if cell is None or cell.why:
        return "–"
    row = cell.row(measure)
    if name in ("6", "7") and measure != "unskilled":
        row = cell.row(measure, LINE, RANDOM)
    if row is None:
        return NOT_RUN
    if name == "8":
        return ranged(row.auc, sign=False)
    ece = "–" if row.ece is None or row.ece.value is None else f"{row.ece.value:.2f}"
    return f"{row.brier:.2f} / {ranged(row.skill)} / {ece}"


def of_figure_8(cells: Iterable[Cell]) -> dict[str, list[Cell]]:
    """The cells of the study's tasks and criteria, by model."""
    found: dict[str, list[Cell]] = {}
    listed = list(cells)
    for column, judge in (*_JUDGES["6"].items(), ("Defects4J", EXACT)):
        for cell in chosen(listed, column, judge):
            if not cell.why:
                found.setdefault(cell.model, []).append(cell)
    return found


def correlation(points_: Sequence[tuple[float, float]]) -> float | None:
    """Spearman's correlation of pairs; None for fewer than 3."""
    return rank_correlation(*zip(*points_, strict=True)) if points_ else None


def _auc_against(cells: Sequence[Cell]) -> Table:
    scores = "skill", "ece"
    found = {
        f"{model} (published)": [published_against_auc(score, model) for score in scores]
        for model in table(SPIESS, "6")
    }
    for model, of_model in of_figure_8(cells).items():
        found[model] = [list(against_auc(of_model, score)) for score in scores]
    rows = [
        (model, *(f"{signed(correlation(one))} ({len(one)} points)" for one in both))
        for model, both in found.items()
    ]
    note = (
        "ECE counts where the rescaled skill is 0.05 or more, as the tables print it; cells with 10 right "
        f"answers or more. Published in Figure 7: {said(SPIESS, 'sameAUC')['says']}"
    )
    return Table(
        "Rank correlation of AUC",
        ("model", "with the rescaled skill", "with the rescaled ECE"),
        tuple(rows),
        note,
    )


def _name(cell: Cell) -> str:
    one = data_set_of(cell)
    assert one is not None
    return f"{one.here} by {cell.answers.judge}"


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
    return Table("", ("measures", *(f"{cell.model}, {_name(cell)}" for cell in found)), tuple(rows))


def _halves(cells: Sequence[Cell]) -> Table:
    """How often the verbalised confidence is 50 %, and what its skill is without these answers."""
    rows = []
    for one in DATA_SETS:
        for judge in one.judges:
            for cell in chosen(cells, one.name, judge):
                raw, without = cell.row("verbalised"), cell.row("verbalised-stated")
                if raw is None:
                    continue
                scaled = cell.row("verbalised", LINE, RANDOM), cell.row("verbalised-stated", LINE, RANDOM)
                rows.append(
                    (
                        f"{cell.model}, {_name(cell)}",
                        f"{raw.n}, {raw.right}",
                        f"{100 * raw.half:.0f} %",
                        *(ranged(row.skill if row else None) for row in (raw, without, *scaled)),
                    )
                )
    values = ", ".join(
        f"{name} {100 * value:.0f} %" for name, value in said(SPIESS, "halfShare")["values"].items()
    )
    columns = ("answers", "n, right", "50 %", "raw skill", "without these", "Platt skill", "without these")
    return Table(
        "Verbalised confidences of 50 %", columns, tuple(rows), f"Published: {values}, over its data sets."
    )


def _rescalings(cell: Cell) -> Table:
    rows = []
    for name in (RAW, *RESCALINGS):
        for folds in ("",) if name == RAW else (RANDOM, APART):
            row = cell.row(HEADLINE, name, folds)
            if row is not None:
                rows.append((name, folds or "–", f"{row.brier:.3f}", ranged(row.skill), with_band(row.ece)))
    answers = cell.answers
    title = f"{answers.name}: {answers.n} answers, {answers.right} right, {len(set(answers.groups))} groups"
    return Table(title, ("rescaling", "folds", "Brier", "skill", "ECE"), tuple(rows))


def _served(cells: Sequence[Cell]) -> Table:
    rows = []
    for cell in cells:
        answers = cell.answers
        front = (
            *(answers.header.task, cell.model, answers.header.prompt_version, answers.condition or "–"),
            *(answers.judge, f"{answers.asked}, {answers.n}, {answers.right}"),
        )
        if cell.why:
            rows.append((*front, cell.why, "–", "–", "–"))
            continue
        raw, ours = cell.known(HEADLINE), cell.known(HEADLINE, OURS, APART)
        rows.append(
            (*front, ranged(raw.skill), ranged(ours.skill), with_band(ours.ece), ranged(raw.auc, sign=False))
        )
    columns = (
        *("task", "model", "prompt", "condition", "right by", "asked, offered, right"),
        *("raw skill", "rescaled skill, projects apart", "ECE", "AUC"),
    )
    return Table("", columns, tuple(rows))
