"""Virk et al. 2024 repeated: summaries, the first t tokens, what a model says of its own summaries."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from types import MappingProxyType
from typing import Any

import numpy as np

from lsp_calib import home
from lsp_calib.calibration.arrays import FloatArray, quietly
from lsp_calib.calibration.reliability import reliability
from lsp_calib.calibration.scores import skill_score
from lsp_calib.corpus.functions import SUMMARY
from lsp_calib.corpus.thresholds import FOLDER, Thresholds
from lsp_calib.report.words import signed
from lsp_calib.studies import figures, headings
from lsp_calib.studies.full_ece import temperatures
from lsp_calib.studies.measures import REFLECTIVE, token_positions
from lsp_calib.studies.published import VIRK, Quoted, published, quoted_from_virk, said, table
from lsp_calib.studies.score import (
    APART,
    FIRST,
    FIRST_T,
    FIRST_T_ARITHMETIC,
    RAW,
    Answers,
    Cell,
    File,
    Row,
    Study,
    adjusted_p_values,
    answers_of,
    cell_of,
)
from lsp_calib.studies.spiess import in_order
from lsp_calib.studies.statistics import ON_LOG_ODDS, ON_P
from lsp_calib.studies.tables import Picture, Section, Table, banded, percent, ranged
from lsp_calib.summarization.prompt import AUGMENTED, VERSION

LINE = ON_P
HEADLINE, ARITHMETIC = "geometric-mean", "arithmetic-mean"
ALPHA = 0.01
BM25, ASAP = "BM25", "ASAP and BM25"
PROMPTINGS = MappingProxyType({VERSION: BM25, AUGMENTED: ASAP})
LANGUAGES = ("java", "python")
BEST = "best-f1"
CRITERIA = (BEST, "high-precision", "high-recall")
# The study's tables: prompting, criterion, rescaling.
_TABLES = {
    "1": (BM25, BEST, RAW),
    "2": (BM25, BEST, LINE),
    "3": (ASAP, BEST, LINE),
    "4 high precision": (ASAP, "high-precision", LINE),
    "4 high recall": (ASAP, "high-recall", LINE),
}
_TEMPERATURES = tuple(np.linspace(0.8, 1.3, 11).tolist())


def prompting_of(cell: Cell) -> str:
    return PROMPTINGS[cell.answers.header.prompt_version]


def build(files: Sequence[File], others: Sequence[File], seed: int = 0) -> Study:
    """The study on records. files: the largest of each question. others: all, for what models say."""

    def cells_of(found: Iterable[Answers], *, first: bool) -> list[Cell]:
        return in_order(
            [cell_of(one, paper=LINE, headline=HEADLINE, first=first, seed=seed) for one in found]
        )

    cells: list[Cell] = []
    for language in LANGUAGES:
        for version in PROMPTINGS:
            wanted = SUMMARY, language, version
            of = [file for file in files if _task_of(file) == wanted]
            cells += cells_of((one for file in of for one in answers_of(file, CRITERIA)), first=True)
    # Of each question the answers that the model was asked about: of the file with the most of them.
    best: dict[tuple[str, ...], Answers] = {}
    for file in others:
        if file.header.task == SUMMARY and file.header.prompt_version in PROMPTINGS:
            for answers in answers_of(file, [BEST]):
                at = [
                    place for place, one in enumerate(answers.found) if {"ask", "scale"} & set(one.observed)
                ]
                if at and (file.question not in best or len(at) > best[file.question].n):
                    best[file.question] = answers.part(np.array(at))
    asked = cells_of(best.values(), first=False)
    words = headings.words(VIRK)
    return Study(
        name=VIRK,
        title=words["title"],
        reference=published()[VIRK]["reference"],
        caveats=(*words["caveats"], words["differs"]),
        cells=(*cells, *asked),
        sections=tuple(_sections(cells, asked, others)),
        quoted=_quoted,
    )


def _task_of(file: File) -> tuple[str, str, str]:
    return file.header.task, file.header.language, file.header.prompt_version


def _quoted(cell: Cell, row: Row, metric: str) -> Quoted:
    """What the study printed for a row: its confidence is the geometric mean."""
    asked = prompting_of(cell), cell.answers.judge
    for name, (prompting, criterion, rescaling) in _TABLES.items():
        key = HEADLINE, rescaling, "" if rescaling == RAW else APART
        if (prompting, criterion) == asked and row.key == key and metric != "auc":
            return quoted_from_virk(name, cell.answers.header.language, metric)
    return Quoted("")


def scored(cells: Iterable[Cell], judge: str = "", prompting: str = "") -> list[Cell]:
    """Those that have rows. judge, prompting: only these."""
    return [
        cell
        for cell in cells
        if not cell.why and judge in ("", cell.answers.judge) and prompting in ("", prompting_of(cell))
    ]


def _sections(cells: Sequence[Cell], asked: Sequence[Cell], files: Sequence[File]) -> Iterator[Section]:
    best = scored(cells, BEST)
    plain = scored(best, prompting=BM25)
    shown = plain[:1] + [cell for cell in plain if cell.answers.header.language == "python"][:1]
    tables = *(_printed(cells, name) for name in _TABLES), _lengths(cells), _thresholds()
    yield headings.section("virk.tables", tables, differs=headings.words(VIRK)["differs"])
    yield headings.section("virk.averages", [_means(best)])
    pictures = [*_example(plain), *map(_reliability, shown), *map(_positions, plain[:1])]
    yield headings.section("virk.figures", pictures)
    first: list[Table | Picture] = [_first_table(scored(cells))]
    first += [_by_t(cell) for cell in shown if cell.first]
    yield headings.section("virk.first", first, least=FIRST[0], most=FIRST[-1], alpha=ALPHA)
    yield headings.section("virk.asked", [_stated(asked)])
    yield from _after_temperature(plain, files)
    others: list[Table | Picture] = [*map(_measures, best)]
    others += [_reliability(cell) for cell in best if cell not in plain[:1]]
    yield headings.section("virk.others", others)


def _counts(cell: Cell) -> str:
    return f"{cell.answers.n}, {cell.answers.right}"


def _named(cell: Cell) -> str:
    return f"{cell.model}, {cell.answers.header.language}, {prompting_of(cell)}"


def _rescaled(cell: Cell, measure: str) -> Row:
    return cell.known(measure, LINE, APART)


def _printed(cells: Sequence[Cell], name: str) -> Table:
    """A table in the study's shape, the published rows above ours of each language."""
    prompting, criterion, rescaling = _TABLES[name]
    lines = {RAW: ""} if rescaling == RAW else {ON_P: f", {ON_P}", ON_LOG_ODDS: f", {ON_LOG_ODDS}"}
    rows: list[tuple[str, ...]] = []
    for language in LANGUAGES:
        title = language.capitalize()
        for model, columns in table(VIRK, name).items():
            one = columns[language]
            numbers = (f"{one[metric]:.2f}" for metric in ("successRate", "ece", "brier"))
            rows.append((title, f"{model} (published)", "–", *numbers, signed(one["skill"])))
        for cell in cells:
            answers = cell.answers
            if (answers.judge, *_task_of(answers.file)[1:]) != (criterion, language, _VERSIONS[prompting]):
                continue
            share = f"{answers.right / answers.n:.2f}"
            if cell.why:
                rows.append((title, cell.model, _counts(cell), share, cell.why, "–", "–"))
                continue
            for line, named in lines.items():
                row = cell.known(HEADLINE, line, "" if line == RAW else APART)
                found = banded(row.ece), f"{row.brier:.2f}", ranged(row.skill)
                rows.append((title, cell.model + named, _counts(cell), share, *found))
    what = published()[VIRK]["tables"][name]["what"]
    return headings.table("virk.printed", rows, name=name, what=what)


_VERSIONS = {prompting: version for version, prompting in PROMPTINGS.items()}


def _lengths(cells: Sequence[Cell]) -> Table:
    """How much of each answer is judged, and how many end at the limit."""
    rows = []
    for cell in (one for one in cells if one.answers.judge == BEST):
        found = cell.answers.found
        tokens = [len(record.logprobs_given_typed) for record in found]
        judged = list(map(len, cell.answers.logprobs))
        cut = sum(a < b for a, b in zip(judged, tokens, strict=True))
        named = cell.answers.header.language.capitalize(), cell.model, prompting_of(cell)
        stopped = sum(record.stop == "length" for record in found)
        counts = str(len(found)), str(stopped), f"{cut} ({percent(cut / len(found))})"
        rows.append((*named, *counts, percent(sum(judged) / sum(tokens))))
    return headings.table("virk.lengths", rows)


def _thresholds() -> Table:
    rows = []
    for path in sorted((home.shipped_models() / FOLDER).glob("*.json")):
        found = Thresholds.load(path)
        for criterion, (metric, threshold) in said(VIRK, "thresholds")["values"].items():
            rule = found.rules.get(criterion)
            ours = "–" if rule is None else f"{rule.metric} {rule.threshold:.2f}"
            rows.append((criterion, found.encoder, ours, f"{metric} {threshold:.2f}"))
    return headings.table("virk.thresholds", rows)


def _means(cells: Sequence[Cell]) -> Table:
    rows = []
    for cell in cells:
        both = [_rescaled(cell, name) for name in (HEADLINE, ARITHMETIC)]
        gain = cell.resamples.skill_difference(*(row.confidence for row in both))
        raw = (signed(cell.known(name).skill.value) for name in (HEADLINE, ARITHMETIC))
        rows.append(
            (_named(cell), _counts(cell), *raw, *(ranged(row.skill) for row in both), ranged(gain, 3))
        )
    return headings.table("virk.means", rows)


def _example(cells: Sequence[Cell]) -> Iterator[Picture]:
    """Of the first cell the pair of nearly equal raw confidence, one right and one wrong, that the first
    tokens tell apart most."""
    for cell in [cell for cell in cells if cell.first][:1]:
        raw, rescaled = cell.known(HEADLINE).confidence, cell.first[FIRST_T].confidence
        right, wrong = np.flatnonzero(cell.answers.correct), np.flatnonzero(~cell.answers.correct)
        apart = rescaled[right][:, None] - rescaled[wrong][None]
        apart[np.abs(raw[right][:, None] - raw[wrong][None]) > 0.01] = -1.0
        i, j = np.unravel_index(int(np.argmax(apart)), apart.shape)
        pair = []
        for at in (int(wrong[j]), int(right[i])):
            function = cell.answers.found[at].item.rpartition(":")[2].rpartition(".")[2][:40]
            pair.append((function, bool(cell.answers.correct[at]), float(raw[at]), float(rescaled[at])))
        draw = partial(figures.draw_example, pair)
        yield headings.picture("virk.example", "virk-figure-1", draw, named=_named(cell))


def _reliability(cell: Cell) -> Picture:
    """The reliability of the headline before and after rescaling."""
    rows = {"raw": cell.known(HEADLINE), "rescaled": _rescaled(cell, HEADLINE)}
    with quietly():
        # One resample: the calibrated band is not drawn.
        diagrams = [
            (name, f"skill {signed(row.skill.value)}", reliability(row.confidence, row.correct, resamples=1))
            for name, row in rows.items()
        ]
    draw = partial(figures.draw_reliability, diagrams, title=_named(cell))
    return headings.picture("virk.reliability", f"virk-{cell.answers.stem}", draw, named=_named(cell))


def _positions(cell: Cell) -> Picture:
    positions = token_positions(cell.answers.logprobs)
    draw = partial(figures.draw_token_positions, positions, title=_named(cell))
    return headings.picture("virk.positions", f"virk-positions-{cell.answers.stem}", draw, named=_named(cell))


def _first_table(cells: Sequence[Cell]) -> Table:
    p_values = adjusted_p_values(cells)
    rows = []
    for cell in (one for one in cells if one.first):
        all_tokens, first, arithmetic = (
            signed(_rescaled(cell, name).skill.value, 3) for name in (HEADLINE, FIRST_T, FIRST_T_ARITHMETIC)
        )
        folds, others = (
            ", ".join(map(str, cell.first[name].per_fold)) for name in (FIRST_T, FIRST_T_ARITHMETIC)
        )
        tested = ranged(cell.gain, 3), f"{cell.p_value:.3f}", f"{p_values[cell.answers.name]:.2f}"
        named = _named(cell), cell.answers.judge, _counts(cell)
        rows.append((*named, all_tokens, folds, first, *tested, others, arithmetic))
    return headings.table("virk.first-tokens", rows, says=said(VIRK, "firstTokens")["says"])


def _by_t(cell: Cell) -> Picture:
    names = {FIRST_T: "geometric mean (text)", FIRST_T_ARITHMETIC: "arithmetic mean (caption)"}
    skill = {
        name: [*cell.first[measure].skill_by_first, (None, cell.skill_of_all(measure) or 0.0)]
        for measure, name in names.items()
    }
    draw = partial(
        figures.draw_skill_by_t,
        skill,
        list(map(len, cell.answers.logprobs)),
        chosen=cell.first[FIRST_T].per_fold,
        title=_named(cell),
    )
    return headings.picture("virk.by-t", f"virk-skill-by-t-{cell.answers.stem}", draw, named=_named(cell))


def _stated(cells: Sequence[Cell]) -> Table:
    rows: list[tuple[str, ...]] = []
    for cell in scored(cells):
        for name in REFLECTIVE:
            raw, platt = cell.row(name), cell.row(name, LINE, APART)
            if raw is not None and platt is not None:
                shares = str(raw.invalid), percent(raw.above), percent(raw.half)
                found = ranged(raw.auc, sign=False), ranged(raw.skill), ranged(platt.skill)
                rows.append((_named(cell), name, f"{raw.n}, {raw.right}", *shares, *found))
    return headings.table("virk.stated", rows or [("–", "ask, scale", "not run", *["–"] * 6)])


def tempered(answers: Answers, temperature: float) -> FloatArray:
    """The geometric mean of each answer's tokens if the whole softmax had another temperature, shape (n,).

    To first order in 1 / temperature - 1 =: b from what records hold: d ln p / db is ln p plus the entropy
    of the softmax that the token came from. The tokens stay the same.
    """
    b = 1.0 / temperature - 1.0
    found = []
    for logprobs, entropies in zip(answers.logprobs, answers.entropies, strict=True):
        known = np.array(logprobs)
        moved = known + b * (known + np.array(entropies[: known.size]))
        found.append(float(np.exp(min(np.mean(moved), 0.0))) if known.size else 0.0)
    return np.array(found)


def _after_temperature(cells: Sequence[Cell], files: Sequence[File]) -> Iterator[Section]:
    """Virk et al. 6.3: what the temperature of the whole softmax, which the study could not have, does."""
    known = temperatures(files)
    rows, skill, fitted, platt = [], {}, {}, {}
    for cell in cells:
        complete = all(len(one.entropies) >= len(one.logprobs_given_typed) for one in cell.answers.found)
        if cell.model not in known or not complete:
            continue
        name, correct = f"{cell.model}, {cell.answers.header.language}", cell.answers.correct
        skill[name] = [(t, skill_score(tempered(cell.answers, t), correct)) for t in _TEMPERATURES]
        fitted[name] = known[cell.model]
        line = _rescaled(cell, HEADLINE).skill
        platt[name] = line.value or 0.0
        moved = cell.resamples.skill(tempered(cell.answers, fitted[name]))
        skills = (ranged(one) for one in (cell.known(HEADLINE).skill, moved, line))
        rows.append((name, f"{fitted[name]:.3f}", *skills))
    if rows:
        draw = partial(figures.draw_temperature, skill, fitted, platt)
        picture = headings.picture("virk.temperature", "virk-temperature", draw)
        yield headings.section("virk.softmax", [headings.table("virk.temperature", rows), picture])


def _measures(cell: Cell) -> Table:
    rows: list[tuple[str, ...]] = []
    for raw in (row for row in cell.rows if row.rescaling == RAW):
        platt = cell.row(raw.measure, LINE, APART)
        ours = ("–", "–") if platt is None else (ranged(platt.skill), banded(platt.ece))
        found = ranged(raw.auc, sign=False), ranged(raw.skill), banded(raw.ece)
        rows.append((raw.measure, f"{raw.n}", *found, *ours))
    missing = f"Not in these records: {', '.join(cell.missing)}." if cell.missing else ""
    given: dict[str, Any] = {"named": _named(cell), "n": cell.answers.n, "right": cell.answers.right}
    return headings.table("virk.measures", rows, missing=missing, **given)
