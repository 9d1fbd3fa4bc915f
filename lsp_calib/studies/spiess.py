"""Spiess et al. 2024 repeated: line completion, synthesis and repair, with every measure and rescaling."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from functools import partial

import attrs
import numpy as np

from lsp_calib.calibration.arrays import quietly
from lsp_calib.calibration.reliability import reliability
from lsp_calib.corpus.places import INSERTING
from lsp_calib.report.words import signed
from lsp_calib.studies.figures import (
    Roc,
    draw_against_auc,
    draw_raw_and_rescaled,
    draw_roc,
)
from lsp_calib.studies.page import NOT_RUN, Compared, Picture, Section, Study, Table, ranged
from lsp_calib.studies.published import (
    SPIESS,
    Quoted,
    published,
    quoted_from_spiess,
    table,
)
from lsp_calib.studies.score import (
    APART,
    RANDOM,
    RAW,
    Answers,
    Cell,
    File,
    Row,
    RowKey,
    answers_of,
    cell_of,
)
from lsp_calib.studies.statistics import OURS, RESCALINGS, rank_correlation
from lsp_calib.studies.tasks import NO_DOCSTRING, PREFIX

LINE = "Platt on ln p"
"""The study's rescaling, in random folds."""
HEADLINE = "total"


@attrs.frozen
class Target:
    """What the study asks of a model, and which records answer it here.

    judge: the criterion. raw, rescaled: its tables, "" where it has none. column: the data set there.
    task, suite: of the records; suite "" for any. differs: in what ours is another question.
    command: what makes the records.
    """

    title: str
    judge: str
    raw: str
    rescaled: str
    column: str
    task: str
    suite: str
    differs: str
    command: str

    def matches(self, file: File) -> bool:
        header = file.header
        suites = {source.name for source in header.sources}
        return (
            header.task == self.task
            and (header.language == "python" or self.task == "repair")
            and (not self.suite or self.suite in suites)
        )

    def quoted(self, key: RowKey, metric: str) -> Quoted:
        """What the study printed for a row."""
        measure, rescaling, _ = key
        if metric == "auc":
            name = "8" if self.judge == "tests" and rescaling == RAW else ""
        else:
            name = self.raw if rescaling == RAW else self.rescaled if rescaling == LINE else ""
        return quoted_from_spiess(name, self.column, measure, metric) if name else Quoted("")


_LINES = "no DyPyBench: places in projects from the package index, also within a line, any line of a body"
_DOCUMENTED = "no DyPyBench: documented functions of projects from the package index, not all of them tested"
_TESTED = "no DyPyBench: functions of other projects, judged by at most 50 of the tests that reach the line"
_HUMAN_EVAL = (
    "HumanEval's functions with one line removed, short and artificial; the published column is DyPyBench's"
)
TARGETS = (
    Target(
        *("Line completion, right by the project's tests", "tests", "5", "6", "DyPyBench", "line", ""),
        differs=_TESTED,
        command="lsp-calib eval line PROJECTS --condition prefix --tests",
    ),
    Target(
        *("Line completion, right exactly", "exact", "", "7", "DyPyBench", "line", ""),
        differs=_LINES,
        command="lsp-calib eval line PROJECTS --window large --no-suffix N",
    ),
    Target(
        *("A line of HumanEval, right by tests", "tests", "5", "6", "DyPyBench", "infill", ""),
        differs=_HUMAN_EVAL,
        command="lsp-calib eval infill",
    ),
    Target(
        *("A line of HumanEval, right exactly", "exact", "", "7", "DyPyBench", "infill", ""),
        differs=_HUMAN_EVAL,
        command="lsp-calib eval infill --no-tests",
    ),
    Target(
        *("Synthesis, HumanEval", "tests", "5", "6", "HumanEval", "synthesis", "humaneval"),
        differs="synthesis sets are artificial",
        command="lsp-calib eval synthesis --set humaneval",
    ),
    Target(
        *("Synthesis, MBPP", "tests", "5", "6", "MBPP", "synthesis", "mbpp"),
        differs="synthesis sets are artificial",
        command="lsp-calib eval synthesis --set mbpp",
    ),
    Target(
        *("Repair, Defects4J", "exact", "", "7", "Defects4J", "repair", "defects4j"),
        differs="142 one-line patches by exact match: not comparable with 120 bugs judged by tests",
        command="lsp-calib eval repair --set defects4j",
    ),
    Target(
        *("Repair, SStubs", "exact", "5", "6", "SStubs", "repair", "manysstubs4j"),
        differs="another draw of the data set",
        command="lsp-calib eval repair --set sstubs",
    ),
)

CAVEATS = (
    "Exact match rewards repeating what was in the training data, bugs included.",
    "The synthesis sets are artificial, and so are HumanEval's lines: results may not hold for other code.",
    "The study called no measure ready for deployment; above 90 % its confidences were over-confident.",
    "Rescaling needs answers whose right answer is known.",
    "The models here are small and quantised; the study's were GPT-3.5, Codex and CodeGen2-16B.",
)


def _seen(answers: Answers) -> str:
    """What the model saw, in words."""
    prompt = answers.header.prompt_version
    if answers.condition in (PREFIX, NO_DOCSTRING):
        docstring = "with" if answers.condition == PREFIX else "without"
        return f"the function from its signature down, {docstring} its docstring, as in the study"
    below = "fim" in prompt and answers.condition in (INSERTING, "")
    sees = "the text above and below the line" if below else "the text above, up to a window"
    return f"{sees}, and pieces of other files" if "large" in prompt else sees


def _differs(target: Target, answers: Answers) -> str:
    """In what some answers are to another question than the study's."""
    by_tests = answers.judge == "tests"
    documented = answers.condition in (PREFIX, NO_DOCSTRING) and not by_tests
    return _DOCUMENTED if documented else target.differs


def build(files: Sequence[File], seed: int = 0) -> Study:
    """The study on records. files: the largest of each question."""
    compared: list[Compared] = []
    for target in TARGETS:
        cells = [
            cell_of(answers, paper=LINE, headline=HEADLINE, first=False, seed=seed)
            for file in files
            if target.matches(file)
            for answers in answers_of(file, [target.judge])
        ]
        compared += [
            Compared(
                target.title,
                f"{_differs(target, cell.answers)}; the model saw {_seen(cell.answers)}",
                target.command,
                cell,
                target.quoted,
            )
            for cell in cells
        ] or [Compared(target.title, target.differs, target.command, None, target.quoted)]
    return Study(
        name="spiess",
        title="Calibration and correctness of language models for code",
        reference=published()[SPIESS]["reference"],
        caveats=CAVEATS,
        compared=tuple(compared),
        sections=tuple(_sections(compared, seed)),
    )


def scored(compared: Sequence[Compared]) -> list[tuple[Compared, Cell]]:
    """Those that have rows, with their cells."""
    return [(one, one.cell) for one in compared if one.cell is not None and not one.cell.why]


def _sections(compared: Sequence[Compared], seed: int) -> Iterator[Section]:
    pairs = scored(compared)
    cells = [cell for _, cell in pairs]
    yield Section(
        "Tables 5, 6 and 7 beside ours: the total probability",
        "One row for each model and prompt; the tables below have all measures. Platt: on ln p in random "
        "folds, as in the study.",
        (_overview(compared),),
    )
    for title, group in itertools.groupby(pairs, key=lambda pair: pair[0].task):
        same = list(group)
        yield Section(
            title,
            f"Differs in: {same[0][0].differs}.",
            tuple(_measures(one, cell) for one, cell in same),
        )
    yield Section(
        "Rescaling",
        "The total probability rescaled in every way. Isotonic regression and bins have many parameters: see "
        "what few answers do to them.",
        tuple(map(_rescalings, cells)),
    )
    yield Section(
        "Exact match against tests (Table 4)",
        "Shares of the answers that an editor would have been offered, in per cent.",
        (_cross_table(cells),),
    )
    yield Section(
        "AUC, ECE and skill (Table 8, Figures 7 and 8)",
        "Rank correlation over all measures and cells, after rescaling as in the study. Similar AUC may go "
        "with very different raw ECE.",
        tuple(_against_auc(cells)),
    )
    yield Section(
        "Do measures agree? (4.1.3)",
        "Spearman's correlation of raw confidences on the same answers.",
        tuple(_correlations(cells)),
    )
    yield Section(
        "Reliability and ROC (Figures 5 and 6)",
        "Raw above rescaled (Platt on ln p, random folds); n at each bar's foot, five quantile points.",
        tuple(_pictures(pairs, seed)),
    )
    yield Section(
        "Where the study contradicts itself",
        "Found from the printed numbers; tables are matched, not the text.",
        (
            Table(
                "",
                ("statements", "one", "the other"),
                tuple((what, f"{a:g}", f"{b:g}") for what, a, b in published()[SPIESS]["discrepancies"]),
            ),
        ),
    )


def _overview(compared: Sequence[Compared]) -> Table:
    rows = []
    for one in compared:
        if one.cell is None:
            quoted = _probe(one)
            rows.append(
                (one.task, NOT_RUN, "–", "–", quoted[0], "–", "–", quoted[1], "–", f"`{one.command}`")
            )
            continue
        cell = one.cell
        answers = cell.answers
        front = (one.task, answers.name, f"{answers.n}, {answers.right}")
        if cell.why:
            rows.append((*front, cell.why, "–", "–", "–", "–", "–", _seen(answers)))
            continue
        raw = cell.known(HEADLINE)
        platt, apart = (cell.known(HEADLINE, LINE, folds) for folds in (RANDOM, APART))
        published_raw, published_platt = (
            one.quoted(row.key, "skill").words(sign=True) for row in (raw, platt)
        )
        ours = f"{ranged(raw.skill)}; {_ece(raw)}", published_raw, ranged(platt.skill), _ece(platt)
        rows.append((*front, *ours, published_platt, signed(apart.skill.value), _seen(answers)))
    columns = (
        *("task", "model, prompt, right by", "n, right", "raw skill; ECE", "published"),
        *("Platt skill", "ECE", "published", "projects apart", "the model saw"),
    )
    models = ", ".join(table(SPIESS, "5"))
    differs = " ".join(f"{target.title}: {target.differs}." for target in TARGETS)
    note = f"Published: {models}; Tables 5 (raw), 6 and 7 (Platt). Differs in: {differs}"
    return Table("", columns, tuple(rows), note)


def _probe(one: Compared) -> tuple[str, str]:
    """The published skill of the total, raw and rescaled, of a task without records."""
    raw, line = (one.quoted((HEADLINE, rescaling, ""), "skill") for rescaling in (RAW, LINE))
    return raw.words(sign=True), line.words(sign=True)


def _ece(row: Row | None) -> str:
    """The ECE, a dash where it is omitted."""
    return "–" if row is None or row.ece is None or row.ece.value is None else f"{row.ece.value:.2f}"


def _measures(one: Compared, cell: Cell) -> Table:
    """All measures of a cell."""
    answers = cell.answers
    rows: list[tuple[str, ...]] = []
    for raw in (row for row in cell.rows if row.rescaling == RAW):
        platt, apart, ours = (
            cell.row(raw.measure, line, folds)
            for line, folds in ((LINE, RANDOM), (LINE, APART), (OURS, APART))
        )
        rows.append(
            (
                raw.measure,
                *(ranged(raw.auc, sign=False), one.quoted(raw.key, "auc").words()),
                *(f"{raw.brier:.2f}", ranged(raw.skill), _ece(raw), quoted_pair(one, raw)),
                *("–" if platt is None else f"{platt.brier:.2f}", ranged(platt.skill if platt else None)),
                *(_ece(platt), "–" if platt is None else quoted_pair(one, platt)),
                *(signed(row.skill.value if row else None) for row in (apart, ours)),
            )
        )
    for name in ("length", "ask", "normalised", "verbalised"):
        if name in cell.missing:
            rows.append((name, NOT_RUN, *["–"] * 11))
    columns = (
        *("measure", "AUC", "published", "raw Brier", "skill", "ECE", "published skill, ECE"),
        *("Platt Brier", "skill", "ECE", "published skill, ECE", "apart: skill", "ours: skill"),
    )
    share = f"{100 * answers.right / answers.n:.0f} %"
    title = f"{answers.name}: n = {answers.n} of {answers.asked} asked, {answers.right} right ({share}), "
    title += f"{len(set(answers.groups))} groups"
    repeats = [record.repeats_bug for record in answers.found if record.repeats_bug is not None]
    if repeats:
        title += f"; {sum(repeats)} ({100 * sum(repeats) / len(repeats):.0f} %) are the buggy line again"
    return Table(title, columns, tuple(rows), note=f"Differs in: {one.differs}.")


def quoted_pair(one: Compared, row: Row) -> str:
    """The published skill and ECE of a row, a dash where there are none."""
    skill, ece = one.quoted(row.key, "skill"), one.quoted(row.key, "ece")
    return f"{skill.words(sign=True)}; {ece.words()}" if skill.numbers else "–"


def _rescalings(cell: Cell) -> Table:
    rows = []
    for name in (RAW, *RESCALINGS):
        for folds in ("",) if name == RAW else (RANDOM, APART):
            row = cell.row(HEADLINE, name, folds)
            if row is not None:
                rows.append(
                    (
                        *(name, folds or "–", f"{row.brier:.3f}", ranged(row.skill)),
                        ranged(row.ece, 3, sign=False),
                    )
                )
    columns = ("rescaling", "folds", "Brier", "skill", "ECE; if calibrated")
    return Table(f"{cell.answers.name}, {HEADLINE}", columns, tuple(rows))


def pairs_judged_twice(cells: Sequence[Cell]) -> list[tuple[Cell, Cell]]:
    """Cells of the same answers judged exactly and by tests, in this order."""
    exact, tests = (
        {_asked(cell): cell for cell in cells if cell.answers.judge == judge} for judge in ("exact", "tests")
    )
    return [(cell, tests[asked]) for asked, cell in exact.items() if asked in tests]


def _asked(cell: Cell) -> tuple[str, str]:
    """What cells of the same answers share."""
    return cell.answers.file.name, cell.answers.condition


def _cross_table(cells: Sequence[Cell]) -> Table:
    printed = table(SPIESS, "4")
    (neither, tests_alone, _), (exact_alone, both, _) = printed["false"], printed["true"]
    shares = (f"{x:.2f}" for x in (both, exact_alone, tests_alone, neither))
    rows = [("published: GPT-3.5, DyPyBench", "1,988", *shares)]
    for exact, tests in pairs_judged_twice(cells):
        a, b = exact.answers.correct, tests.answers.correct
        counts = [int(np.sum(x)) for x in (a & b, a & ~b, ~a & b, ~a & ~b)]
        name = f"{exact.answers.header.model.name}, {exact.answers.header.prompt_version}"
        rows.append((name, str(a.size), *(f"{100 * c / a.size:.2f} ({c})" for c in counts)))
    columns = ("answers", "n", "both", "exact alone", "tests alone", "neither")
    return Table("", columns, tuple(rows))


def against_auc(cells: Sequence[Cell]) -> dict[str, list[tuple[float, float]]]:
    """(AUC, score) of each measure of each cell after the study's rescaling: by "ECE" and "skill"."""
    found: dict[str, list[tuple[float, float]]] = {"ECE": [], "skill": []}
    for cell in cells:
        for raw in (row for row in cell.rows if row.rescaling == RAW):
            platt = cell.row(raw.measure, LINE, RANDOM)
            if platt is None or raw.auc is None or raw.auc.value is None or platt.skill.value is None:
                continue
            found["skill"].append((raw.auc.value, platt.skill.value))
            if platt.ece is not None and platt.ece.value is not None:
                found["ECE"].append((raw.auc.value, platt.ece.value))
    return found


def published_against_auc() -> dict[str, list[tuple[float, float]]]:
    """The same of the study's Tables 6 and 8."""
    found: dict[str, list[tuple[float, float]]] = {"ECE": [], "skill": []}
    aucs = table(SPIESS, "8")
    for model, rows in table(SPIESS, "6").items():
        for measure, columns in rows.items():
            for column, cell in columns.items():
                if measure == "Unskilled":
                    continue
                found["skill"].append((aucs[model][measure][column]["auc"], cell["skill"]))
                if cell["ece"] is not None:
                    found["ECE"].append((aucs[model][measure][column]["auc"], cell["ece"]))
    return found


def _against_auc(cells: Sequence[Cell]) -> Iterator[Table | Picture]:
    ours, theirs = against_auc(cells), published_against_auc()
    rows = []
    for score in ours:
        cells_of = (
            f"{signed(rank_correlation(*zip(*points, strict=True)) if points else None)} (n = {len(points)})"
            for points in (ours[score], theirs[score])
        )
        rows.append((f"AUC and rescaled {score}", *cells_of))
    yield Table("", ("rank correlation of", "ours", "published (Tables 6 and 8)"), tuple(rows))
    pair = _same_auc(cells)
    if pair is not None:
        yield Table(
            "Nearly the same AUC, other raw ECE",
            ("answers and measure", "AUC", "raw ECE", "rescaled skill"),
            pair,
            note="Published (Figure 7): AUC 0.73, 0.71 and 0.73 with an ECE of 0.11, 0.06 and 0.37.",
        )
    if ours["skill"]:
        yield Picture(
            "spiess-auc",
            "AUC against the rescaled ECE and against the rescaled skill, ours and published",
            partial(
                draw_against_auc,
                {
                    f"rescaled {score}": {"ours": ours[score], "published": theirs[score]}
                    for score in ("ECE", "skill")
                },
            ),
        )


def _same_auc(cells: Sequence[Cell]) -> tuple[tuple[str, ...], ...] | None:
    """The two rows of AUC within 0.01 that differ most in raw ECE."""
    found = [
        (row.auc.value, row.ece.value, cell, row)
        for cell in cells
        for row in cell.rows
        if row.auc is not None and row.ece is not None and row.auc.value and row.ece.value is not None
    ]
    near = [(abs(a[1] - b[1]), a, b) for a, b in itertools.combinations(found, 2) if abs(a[0] - b[0]) <= 0.01]
    if not near:
        return None
    _, *pair = max(near, key=lambda one: one[0])
    lines = []
    for area, error, cell, row in sorted(pair, key=lambda one: one[1]):
        platt = cell.row(row.measure, LINE, RANDOM)
        skill = "–" if platt is None else signed(platt.skill.value)
        lines.append((f"{cell.answers.name}: {row.measure}", f"{area:.2f}", f"{error:.2f}", skill))
    return tuple(lines)


def _correlations(cells: Sequence[Cell]) -> Iterator[Table | Picture]:
    rows = []
    once: dict[tuple[str, str], Cell] = {}  # for the same answers by several criteria
    for cell in cells:
        once.setdefault(_asked(cell), cell)
    for cell in once.values():
        value = cell.correlations.get(("total", "arithmetic-mean"))
        rows.append((cell.answers.name.rpartition(", ")[0], str(cell.answers.n), signed(value)))
    yield Table("Total and average", ("answers", "n", "correlation"), tuple(rows))


def _best_of_models(cells: Sequence[Cell]) -> list[Cell]:
    """For each model the cell with the most answers."""
    return _largest((cell.answers.header.model.name, cell) for cell in cells)


def _largest(cells: Iterable[tuple[object, Cell]]) -> list[Cell]:
    """For each key the cell with the most answers; among equals the first."""
    best: dict[object, Cell] = {}
    for key, cell in cells:
        if key not in best or cell.answers.n > best[key].answers.n:
            best[key] = cell
    return list(best.values())


def _pictures(pairs: Sequence[tuple[Compared, Cell]], seed: int) -> Iterator[Picture]:
    best = _best_of_models([cell for _, cell in pairs])
    curves = {cell.answers.name: roc_of(cell, HEADLINE, LINE, RANDOM) for cell in best[:4]}
    if curves:
        yield Picture(
            "spiess-roc",
            "ROC of the rescaled total probability; dots: accepting from 0.1, 0.3, 0.7 and 0.9 on",
            partial(draw_roc, curves, title="Accepting by the total probability", note="rescaled"),
        )
    # The same question with the small and the large window is drawn once: with the larger number of answers.
    asked = (
        ((one.task, cell.answers.header.model.name, cell.answers.condition), cell) for one, cell in pairs
    )
    for cell in _largest(asked):
        yield raw_over_rescaled("spiess", cell, HEADLINE, LINE, RANDOM, seed)


def roc_of(cell: Cell, measure: str, line: str, folds: str) -> Roc:
    """The ROC curve of a rescaled measure, with the area of the raw one."""
    row, area = cell.known(measure, line, folds), cell.known(measure).auc
    assert area is not None
    assert area.value is not None
    return Roc.of(row.confidence, cell.answers.correct, area.value)


def raw_over_rescaled(study: str, cell: Cell, measure: str, line: str, folds: str, seed: int = 0) -> Picture:
    """The reliability of a measure before and after rescaling."""
    answers = cell.answers
    rows = cell.known(measure), cell.known(measure, line, folds)
    with quietly():
        raw, rescaled = (reliability(row.confidence, answers.correct, seed=seed) for row in rows)
    skill, rescaled_skill = (f"skill {signed(row.skill.value)}, ECE {_ece(row)}" for row in rows)
    return Picture(
        f"{study}-{answers.stem}",
        f"Reliability of {answers.name}: {measure}",
        partial(
            draw_raw_and_rescaled,
            raw,
            rescaled,
            title=_wrapped(answers),
            notes=(skill, rescaled_skill),
        ),
    )


def _wrapped(answers: Answers) -> str:
    """The name of some answers, short enough for a figure's title."""
    parts = answers.name.split(", ")
    return f"{parts[0]}\n{', '.join(parts[1:])}"
