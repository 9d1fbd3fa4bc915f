"""Virk et al. 2024 repeated: summaries, the first t tokens, what a model says of its own summaries."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from types import MappingProxyType

import attrs

from lsp_calib.calibration.arrays import quietly
from lsp_calib.calibration.reliability import reliability
from lsp_calib.errors import DataError
from lsp_calib.report.words import signed
from lsp_calib.studies.figures import (
    Roc,
    draw_raw_and_rescaled,
    draw_roc,
    draw_skill_by_t,
    draw_token_positions,
)
from lsp_calib.studies.measures import REFLECTIVE, token_positions
from lsp_calib.studies.published import (
    VIRK,
    Quoted,
    published,
    quoted_from_virk,
    said,
    table,
)
from lsp_calib.studies.score import (
    APART,
    FIRST,
    FIRST_T,
    FIRST_T_ARITHMETIC,
    RANDOM,
    RAW,
    Cell,
    File,
    Row,
    RowKey,
    Study,
    adjusted_p_values,
    answers_of,
    cell_of,
)
from lsp_calib.studies.tables import Picture, Section, Table, ranged
from lsp_calib.summarization.prompt import AUGMENTED, VERSION

NOT_RUN = "not run"
LINE = "Platt on p"
HEADLINE = "geometric-mean"
ALPHA = 0.01
BM25, ASAP = "BM25", "ASAP and BM25"
PROMPTINGS = MappingProxyType({VERSION: BM25, AUGMENTED: ASAP})
LANGUAGES = ("java", "python")
CRITERIA = ("best-f1", "high-precision", "high-recall")
# The tables with raw and with rescaled numbers, by prompting and criterion.
_RAW = {(BM25, "best-f1"): "1"}
_RESCALED = {
    (BM25, "best-f1"): "2",
    (ASAP, "best-f1"): "3",
    (ASAP, "high-precision"): "4 high precision",
    (ASAP, "high-recall"): "4 high recall",
}
DIFFERS = (
    "compared with the first sentence of the documentation, at most 48 tokens, similarity by the encoder "
    "MiniLM, about 500 functions and not 5,000 a language, examples from the other repositories' test rows"
)
CAVEATS = (
    "The tests differ from the study's: the first sentence of the documentation, the encoder MiniLM with "
    "thresholds of its own, at most 48 tokens, about 500 rows a language.",
    "Right means like a person's sentence, not true; why, how and what are not told apart.",
    "At high precision few answers are right: read the intervals.",
    "Rescaling needs answers whose right answer is known.",
)


@attrs.frozen(eq=False)
class Compared:
    """A cell of ours, None without records, and what the study printed for a row and a metric."""

    task: str
    command: str
    cell: Cell | None
    quoted: Callable[[RowKey, str], Quoted]


def scored(compared: Sequence[Compared]) -> list[tuple[Compared, Cell]]:
    """Those that have rows, with their cells."""
    return [(one, one.cell) for one in compared if one.cell is not None and not one.cell.why]


def _quoted(prompting: str, criterion: str, language: str, key: RowKey, metric: str) -> Quoted:
    """What the study printed for a row: its confidence is the geometric mean."""
    tables = {(HEADLINE, RAW, ""): _RAW, (HEADLINE, LINE, APART): _RESCALED}.get(key, {})
    name = tables.get((prompting, criterion), "") if metric != "auc" else ""
    return quoted_from_virk(name, language, metric) if name else Quoted("")


def build(files: Sequence[File], others: Sequence[File], seed: int = 0) -> Study:
    """The study on records. files: the largest of each question. others: all, for what models say."""
    compared = []
    for prompting in (BM25, ASAP):
        for language in LANGUAGES:
            task = f"Summaries, {language.capitalize()}, {prompting}"
            augment = " --augment" if prompting == ASAP else ""
            command = f"lsp-calib eval summary --language {language}{augment}"
            cells = [
                cell_of(answers, paper=LINE, headline=HEADLINE, first=True, seed=seed)
                for file in files
                if _is_prompted(file, prompting) and file.header.language == language
                for answers in answers_of(file, CRITERIA)
            ]
            compared += [
                Compared(task, command, cell, partial(_quoted, prompting, cell.answers.judge, language))
                for cell in cells
            ] or [Compared(task, command, None, partial(_quoted, prompting, "best-f1", language))]
    return Study(
        name="virk",
        title="Calibration of summaries of code",
        reference=published()[VIRK]["reference"],
        caveats=CAVEATS,
        cells=(*(one.cell for one in compared if one.cell is not None), *all_stated(others, seed)),
        sections=tuple(_sections(compared, others, seed)),
        quoted=_of_cell,
    )


def _of_cell(cell: Cell, row: Row, metric: str) -> Quoted:
    header = cell.answers.header
    prompting = PROMPTINGS[header.prompt_version]
    return _quoted(prompting, cell.answers.judge, header.language, row.key, metric)


def _is_prompted(file: File, prompting: str) -> bool:
    """Whether a file is of summaries with a prompting."""
    return file.header.task == "summary" and PROMPTINGS.get(file.header.prompt_version) == prompting


def _sections(compared: Sequence[Compared], others: Sequence[File], seed: int) -> Iterator[Section]:
    cells = scored(compared)
    yield Section(
        "Tables 1 to 4 beside ours",
        "The geometric mean of all tokens, raw and by Platt on p, repositories left out, as in the study.",
        tuple(_overview(compared, criterion) for criterion in CRITERIA),
    )
    yield Section("Thresholds of correctness (4.4, Figure 3)", "From 210 rated pairs.", (_thresholds(),))
    yield Section(
        "The first t tokens (4.7, 5.3, Figure 7)",
        f"t is chosen in each fold on the other four, of {FIRST[0]} to {FIRST[-1]}. p: paired t-test on "
        "squared errors, adjusted over all cells by Benjamini and Hochberg; significant at "
        f"{ALPHA:g} or less. Cells with fewer than 10 right are not tested.",
        (_first_table(cells), *_first_pictures(cells)),
    )
    yield Section(
        "All measures",
        "The same rescaling for every measure.",
        tuple(_measures(cell) for _, cell in cells if cell.answers.judge == "best-f1"),
    )
    yield Section(
        "What models say of their summaries (6.4)",
        "Published: 94 % of GPT-3.5's confidences by true/false lie above 0.9, skill is negative, and "
        "rescaling leaves the base rate. Invalid: answers that say nothing. 0.5: the share of exactly that.",
        (_stated_table(others, seed),),
    )
    yield Section(
        "Reliability and ROC (Figures 3 to 5)",
        "Raw above rescaled, with the frequency of confidences above each.",
        tuple(_pictures(cells, seed)),
    )
    yield Section(
        "Token positions (Figure 6)",
        "How probable models find their own tokens, by position.",
        tuple(_positions(cells)),
    )


def _overview(compared: Sequence[Compared], criterion: str) -> Table:
    rows = []
    for one in compared:
        if one.cell is None:
            if criterion == "best-f1":
                rows.append((one.task, NOT_RUN, *["–"] * 10, f"`{one.command}`"))
            continue
        cell = one.cell
        answers = cell.answers
        if answers.judge != criterion:
            continue
        front = (one.task, answers.header.model.name, str(answers.n), str(answers.right))
        if cell.why:
            rows.append((*front, cell.why, *["–"] * 8))
            continue
        raw, platt = cell.known(HEADLINE), cell.known(HEADLINE, LINE, APART)
        success = one.quoted(platt.key, "successRate").words()
        rows.append((*front, *_beside(one, raw), *_beside(one, platt), success))
    columns = (
        *("task", "model", "n", "right", "raw Brier", "skill", "ECE", "published skill; ECE"),
        *("Platt Brier", "skill", "ECE", "published skill; ECE", "published success"),
    )
    models = ", ".join(table(VIRK, "2"))
    return Table(
        f"Right: {criterion}", columns, tuple(rows), note=f"Published: {models}. Differs in: {DIFFERS}."
    )


def _beside(one: Compared, row: Row) -> tuple[str, ...]:
    return f"{row.brier:.2f}", ranged(row.skill), ranged(row.ece, sign=False), _quoted_pair(one, row)


def _quoted_pair(one: Compared, row: Row) -> str:
    """The published skill and ECE of a row, a dash where there are none."""
    skill, ece = one.quoted(row.key, "skill"), one.quoted(row.key, "ece")
    return f"{skill.words(sign=True)}; {ece.words()}" if skill.numbers else "–"


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
    skill, rescaled_skill = (f"skill {signed(row.skill.value)}" for row in rows)
    return Picture(
        f"{study}-{answers.stem}",
        f"Reliability of {answers.name}: {measure}",
        partial(draw_raw_and_rescaled, raw, rescaled, title=answers.name, notes=(skill, rescaled_skill)),
    )


def _thresholds() -> Table:
    from lsp_calib import home
    from lsp_calib.corpus.thresholds import FOLDER, Thresholds

    text = said(VIRK, "thresholds")
    rows = []
    for path in sorted((home.shipped_models() / FOLDER).glob("*.json")):
        found = Thresholds.load(path)
        for criterion, (metric, threshold) in text["values"].items():
            rule = found.rules.get(criterion)
            ours = "–" if rule is None else f"{rule.metric} {rule.threshold:.2f}"
            rows.append((criterion, found.encoder, ours, f"{metric} {threshold:.2f}"))
    note = "A threshold belongs to its encoder; `lsp-calib eval thresholds` derives ours, with intervals."
    return Table("", ("criterion", "encoder", "ours", "published"), tuple(rows), note)


def _first_table(cells: Sequence[tuple[Compared, Cell]]) -> Table:
    adjusted = adjusted_p_values([cell for _, cell in cells])
    rows = []
    for one, cell in cells:
        if FIRST_T not in cell.first:
            continue
        all_tokens, first, arithmetic = (
            cell.known(measure, LINE, APART).skill.value
            for measure in (HEADLINE, FIRST_T, FIRST_T_ARITHMETIC)
        )
        rows.append(
            (
                *(one.task, cell.answers.header.model.name, cell.answers.judge),
                *(f"{cell.answers.n}, {cell.answers.right}", signed(all_tokens, 3)),
                ", ".join(map(str, cell.first[FIRST_T].per_fold)),
                *(signed(first, 3), ranged(cell.gain, 3)),
                *(f"{cell.p_value:.3f}", f"{adjusted[cell.answers.name]:.2f}"),
                ", ".join(map(str, cell.first[FIRST_T_ARITHMETIC].per_fold)),
                signed(arithmetic, 3),
            )
        )
    columns = (
        *("task", "model", "right by", "n, right", "skill, all tokens", "t of each fold", "skill, first t"),
        *("gain", "p", "p adjusted", "t, arithmetic mean", "its skill"),
    )
    return Table("", columns, tuple(rows), note=f"Published: {said(VIRK, 'firstTokens')['says']}")


def _first_pictures(cells: Sequence[tuple[Compared, Cell]]) -> Iterator[Picture]:
    for one, cell in cells:
        if cell.answers.judge != "best-f1" or FIRST_T not in cell.first:
            continue
        skill = {
            name: [*cell.first[measure].skill_by_first, (None, cell.skill_of_all(measure) or 0.0)]
            for name, measure in (
                ("geometric mean (text)", FIRST_T),
                ("arithmetic mean (caption)", FIRST_T_ARITHMETIC),
            )
        }
        yield Picture(
            f"virk-skill-by-t-{cell.answers.stem}",
            f"Skill by t, {one.task}, {cell.answers.header.model.name}",
            partial(
                draw_skill_by_t,
                skill,
                [len(item) for item in cell.answers.logprobs],
                chosen=cell.first[FIRST_T].per_fold,
                title=f"{cell.answers.header.model.name}: {one.task}",
                note="Platt on p, out of fold",
            ),
        )


def _measures(cell: Cell) -> Table:
    rows: list[tuple[str, ...]] = []
    for raw in (row for row in cell.rows if row.rescaling == RAW):
        platt = cell.row(raw.measure, LINE, APART)
        ece = "–" if platt is None else ranged(platt.ece, sign=False)
        rows.append(
            (
                *(raw.measure, ranged(raw.auc, sign=False), ranged(raw.skill)),
                *(ranged(raw.ece, sign=False), "–" if platt is None else ranged(platt.skill), ece),
            )
        )
    rows += [(name, NOT_RUN, *["–"] * 4) for name in cell.missing]
    title = f"{cell.answers.name}: n = {cell.answers.n}, {cell.answers.right} right"
    return Table(title, ("measure", "AUC", "raw skill", "raw ECE", "Platt skill", "ECE"), tuple(rows))


def all_stated(files: Sequence[File], seed: int = 0) -> list[Cell]:
    """The cells that hold what models say, of each question from the file with the most such answers."""
    best: dict[tuple[object, ...], Cell] = {}
    for file in files:
        for answers in answers_of(file, ["best-f1"]) if _is_prompted(file, BM25) else []:
            if answers.header.observations is None:
                continue
            cell = cell_of(answers, paper=LINE, headline=HEADLINE, first=False, seed=seed)
            held = [name for name in REFLECTIVE if cell.row(name) is not None]
            if held and (file.question not in best or answers.n > best[file.question].answers.n):
                best[file.question] = cell
    return list(best.values())


def _stated_table(files: Sequence[File], seed: int) -> Table:
    rows: list[tuple[str, ...]] = []
    for cell in all_stated(files, seed):
        for name in REFLECTIVE:
            raw, platt = cell.row(name), cell.row(name, LINE, RANDOM)
            if raw is None or platt is None:
                continue
            rows.append(
                (
                    *(f"{cell.answers.header.model.name}, {cell.answers.header.language}", name),
                    *(f"{raw.n}, {raw.right}", str(raw.invalid)),
                    *(f"{100 * raw.above:.0f} %", f"{100 * raw.half:.0f} %"),
                    *(ranged(raw.auc, sign=False), ranged(raw.skill), ranged(platt.skill)),
                )
            )
    columns = (
        *("answers", "measure", "n, right", "invalid", "above 0.9", "0.5"),
        *("AUC", "raw skill", "Platt skill"),
    )
    if not rows:
        rows = [("–", "ask, verbalised, scale", NOT_RUN, *["–"] * 6)]
    return Table("", columns, tuple(rows))


def _pictures(cells: Sequence[tuple[Compared, Cell]], seed: int) -> Iterator[Picture]:
    shown = [(one, cell) for one, cell in cells if cell.answers.judge == "best-f1"]
    bm25 = [cell for _, cell in shown if cell.answers.header.prompt_version == VERSION]
    curves = {
        f"{cell.answers.header.model.name}, {cell.answers.header.language}": roc_of(
            cell, HEADLINE, LINE, APART
        )
        for cell in bm25[:4]
    }
    if curves:
        yield Picture(
            "virk-roc",
            "ROC of the rescaled geometric mean, BM25, best F1; dots: accepting from 0.1, 0.3, 0.7, 0.9 on",
            partial(draw_roc, curves, title="Accepting summaries", note="rescaled, best F1, BM25"),
        )
    for _, cell in shown:
        yield raw_over_rescaled("virk", cell, HEADLINE, LINE, APART, seed)


def _positions(cells: Sequence[tuple[Compared, Cell]]) -> Iterator[Picture]:
    for one, cell in cells:
        if cell.answers.judge != "best-f1" or cell.answers.header.prompt_version != VERSION:
            continue
        try:
            data = token_positions(cell.answers.logprobs)
        except DataError:
            continue
        model = cell.answers.header.model.name
        yield Picture(
            f"virk-positions-{cell.answers.stem}",
            f"Token probability by position, {one.task}, {model}",
            partial(draw_token_positions, data, title=f"{model}: {one.task}"),
        )
