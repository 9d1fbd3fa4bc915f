"""Virk et al. 2024 repeated: summaries, the first t tokens, what a model says of its own summaries."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from types import MappingProxyType

import numpy as np

from lsp_calib import home
from lsp_calib.calibration.arrays import FloatArray, quietly
from lsp_calib.calibration.reliability import reliability
from lsp_calib.calibration.scores import skill_score
from lsp_calib.corpus.functions import SUMMARY
from lsp_calib.corpus.thresholds import FOLDER, Thresholds
from lsp_calib.report.words import signed
from lsp_calib.studies.figures import (
    draw_example,
    draw_raw_and_rescaled,
    draw_skill_by_t,
    draw_temperature,
    draw_token_positions,
)
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
from lsp_calib.studies.tables import BAND, Picture, Section, Table, banded, ranged
from lsp_calib.summarization.prompt import AUGMENTED, VERSION

NOT_RUN = "not run"
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
_DIFFERS = (
    "Ours are compared with the first sentence of the documentation, at most 48 tokens, by the encoder "
    "MiniLM and thresholds of its own, about 500 functions a language and not 5,000, with examples from "
    "other repositories of the test rows. Where all of a text is judged, the token that ends it counts as "
    "well, which is nearly certain; the services that the study asked do not return it."
)
CAVEATS = (
    "Right means like a person's sentence, not true; why, how and what are not told apart.",
    "At high precision few answers are right: read the intervals.",
    "Rescaling needs answers whose right answer is known.",
    _DIFFERS,
)


def prompting_of(cell: Cell) -> str:
    return PROMPTINGS[cell.answers.header.prompt_version]


def build(files: Sequence[File], others: Sequence[File], seed: int = 0) -> Study:
    """The study on records. files: the largest of each question. others: all, for what models say."""
    cells = [
        cell
        for language in LANGUAGES
        for version in PROMPTINGS
        for cell in in_order(
            [
                cell_of(answers, paper=LINE, headline=HEADLINE, first=True, seed=seed)
                for file in filter(_is_prompted, files)
                if (file.header.language, file.header.prompt_version) == (language, version)
                for answers in answers_of(file, CRITERIA)
            ]
        )
    ]
    asked = in_order(list(_asked(others, seed)))
    return Study(
        name=VIRK,
        title="Calibration of summaries of code",
        reference=published()[VIRK]["reference"],
        caveats=CAVEATS,
        cells=(*cells, *asked),
        sections=tuple(_sections(cells, asked, others)),
        quoted=_quoted,
    )


def _is_prompted(file: File) -> bool:
    return file.header.task == SUMMARY and file.header.prompt_version in PROMPTINGS


def _asked(files: Sequence[File], seed: int) -> Iterator[Cell]:
    """Of each question the answers that the model was asked about: of the file with the most of them."""
    best: dict[tuple[str, ...], tuple[int, Answers]] = {}
    for file in filter(_is_prompted, files):
        for answers in answers_of(file, [BEST]):
            at = [place for place, one in enumerate(answers.found) if set(one.observed) & {"ask", "scale"}]
            if len(at) > best.get(file.question, (0,))[0]:
                best[file.question] = len(at), answers.part(np.array(at))
    for _, answers in best.values():
        yield cell_of(answers, paper=LINE, headline=HEADLINE, first=False, seed=seed)


def _quoted(cell: Cell, row: Row, metric: str) -> Quoted:
    """What the study printed for a row: its confidence is the geometric mean."""
    asked = prompting_of(cell), cell.answers.judge
    for name, (prompting, criterion, rescaling) in _TABLES.items():
        folds = "" if rescaling == RAW else APART
        if (prompting, criterion) == asked and row.key == (HEADLINE, rescaling, folds) and metric != "auc":
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
    yield Section(
        "Virk et al., Tables 1 to 4",
        "The geometric mean of all tokens of the judged text, raw and rescaled, repositories left out: on p "
        "as the text says, on log-odds with scikit-learn's default penalty as the script does. " + _DIFFERS,
        (*(_printed(cells, name) for name in _TABLES), _lengths(cells), _thresholds()),
    )
    yield Section(
        "Virk et al., 4.3: geometric against arithmetic mean",
        "Best F1, Platt on p, repositories left out. BM25 against zero-shot: not run; no record is.",
        (_means(best),),
    )
    yield Section(
        "Virk et al., Figures 1, 4, 5 and 6",
        "Equal raw confidences can be told apart by the first tokens; reliability raw and rescaled; how "
        "probable a model finds its own tokens, by position.",
        (
            *_example(plain),
            *(_reliability(cell) for cell in plain[:1] + _python(plain)[:1]),
            *_positions(plain[:1]),
        ),
    )
    yield Section(
        "Virk et al., 4.7 and 5.3: the first t tokens (Figure 7)",
        f"t is chosen in each fold on the other four, of {FIRST[0]} to {FIRST[-1]}. p: paired t-test on "
        f"squared errors, adjusted by Benjamini and Hochberg; significant at {ALPHA:g} or less. Cells with "
        "fewer than 10 right are not tested.",
        (
            _first_table(scored(cells)),
            *(_by_t(cell) for cell in plain[:1] + _python(plain)[:1] if cell.first),
        ),
    )
    yield Section(
        "Virk et al., 6.4: what models say of their summaries",
        "Published: 94 % of GPT-3.5's confidences by true/false lie above 0.9, skill is negative, and "
        "rescaling leaves the base rate. Invalid: answers that say nothing. 0.5: the share of exactly that.",
        (_stated(asked),),
    )
    yield from _after_temperature(plain, files)
    yield Section(
        "Virk et al.: all measures, and the other reliability plots",
        "The same rescaling for every measure.",
        (*map(_measures, best), *(_reliability(cell) for cell in best if cell not in plain[:1])),
        folded=True,
    )


def _python(cells: Sequence[Cell]) -> list[Cell]:
    return [cell for cell in cells if cell.answers.header.language == "python"]


def _printed(cells: Sequence[Cell], name: str) -> Table:
    """A table in the study's shape, the published rows above ours of each language."""
    prompting, criterion, rescaling = _TABLES[name]
    lines = (RAW,) if rescaling == RAW else (ON_P, ON_LOG_ODDS)
    rows: list[tuple[str, ...]] = []
    for language in LANGUAGES:
        for model, columns in table(VIRK, name).items():
            one = columns[language]
            numbers = (f"{one[metric]:.2f}" for metric in ("successRate", "ece", "brier"))
            rows.append((language.capitalize(), f"{model} (published)", "–", *numbers, signed(one["skill"])))
        for cell in cells:
            answers = cell.answers
            if (answers.judge, prompting_of(cell), answers.header.language) != (
                criterion,
                prompting,
                language,
            ):
                continue
            share = f"{answers.right / answers.n:.2f}"
            counts = f"{answers.n}, {answers.right}"
            if cell.why:
                rows.append((language.capitalize(), cell.model, counts, share, cell.why, "–", "–"))
                continue
            for line in lines:
                row = cell.known(HEADLINE, line, "" if line == RAW else APART)
                named = cell.model if line == RAW else f"{cell.model}, {line}"
                found = banded(row.ece), f"{row.brier:.2f}", ranged(row.skill)
                rows.append((language.capitalize(), named, counts, share, *found))
    columns = "language", "model", "n, right", "success rate", BAND, "Brier", "skill"
    return Table(f"Table {name}: {published()[VIRK]['tables'][name]['what']}", columns, tuple(rows))


def _lengths(cells: Sequence[Cell]) -> Table:
    """How much of each answer is judged, and how many end at the limit."""
    rows = []
    for cell in (one for one in cells if one.answers.judge == BEST):
        found = cell.answers.found
        tokens = [len(record.logprobs_given_typed) for record in found]
        judged = list(map(len, cell.answers.logprobs))
        cut = sum(a < b for a, b in zip(judged, tokens, strict=True))
        rows.append(
            (
                *(cell.answers.header.language.capitalize(), cell.model, prompting_of(cell), str(len(found))),
                f"{sum(record.stop == 'length' for record in found)}",
                *(f"{cut} ({100 * cut / len(found):.0f} %)", f"{100 * sum(judged) / sum(tokens):.0f} %"),
            )
        )
    columns = (
        "language",
        "model",
        "prompting",
        "n",
        "stopped at 48 tokens",
        "with text behind the judged",
        "tokens judged",
    )
    note = "Only the first sentence is compared, so only its tokens count for the confidence."
    return Table("What is judged", columns, tuple(rows), note)


def _thresholds() -> Table:
    text = said(VIRK, "thresholds")
    rows = []
    for path in sorted((home.shipped_models() / FOLDER).glob("*.json")):
        found = Thresholds.load(path)
        for criterion, (metric, threshold) in text["values"].items():
            rule = found.rules.get(criterion)
            ours = "–" if rule is None else f"{rule.metric} {rule.threshold:.2f}"
            rows.append((criterion, found.encoder, ours, f"{metric} {threshold:.2f}"))
    note = "A threshold belongs to its encoder; `lsp-calib eval thresholds` derives ours, with intervals."
    return Table(
        "Thresholds of correctness (4.4)", ("criterion", "encoder", "ours", "published"), tuple(rows), note
    )


def _means(cells: Sequence[Cell]) -> Table:
    rows = []
    for cell in cells:
        geometric, arithmetic = (cell.known(name, LINE, APART) for name in (HEADLINE, ARITHMETIC))
        gain = cell.resamples.skill_difference(geometric.confidence, arithmetic.confidence)
        raw = (signed(cell.known(name).skill.value) for name in (HEADLINE, ARITHMETIC))
        found = ranged(geometric.skill), ranged(arithmetic.skill), ranged(gain, 3)
        rows.append((_named(cell), f"{cell.answers.n}, {cell.answers.right}", *raw, *found))
    columns = (
        *("answers", "n, right", "raw skill, geometric", "arithmetic"),
        *("Platt skill, geometric", "arithmetic", "geometric less arithmetic"),
    )
    return Table("Geometric and arithmetic mean", columns, tuple(rows))


def _named(cell: Cell) -> str:
    return f"{cell.model}, {cell.answers.header.language}, {prompting_of(cell)}"


def _example(cells: Sequence[Cell]) -> Iterator[Picture]:
    """Of the first cell the pair of nearly equal raw confidence, one right and one wrong, that the first
    tokens tell apart most."""
    for cell in [cell for cell in cells if cell.first][:1]:
        raw, rescaled = cell.known(HEADLINE).confidence, cell.first[FIRST_T].confidence
        right, wrong = np.flatnonzero(cell.answers.correct), np.flatnonzero(~cell.answers.correct)
        apart = rescaled[right][:, None] - rescaled[wrong][None]
        apart[np.abs(raw[right][:, None] - raw[wrong][None]) > 0.01] = -1.0
        i, j = np.unravel_index(int(np.argmax(apart)), apart.shape)
        pair = [
            (
                _short(cell.answers.found[at].item),
                bool(cell.answers.correct[at]),
                float(raw[at]),
                float(rescaled[at]),
            )
            for at in (int(wrong[j]), int(right[i]))
        ]
        yield Picture(
            "virk-figure-1",
            f"Two summaries of {_named(cell)} with nearly the same raw confidence: rescaled by the first t "
            "tokens, the one like a person's keeps a higher one",
            partial(draw_example, pair, title="Equal before, apart after"),
        )


def _short(item: str) -> str:
    """The function's name of an item's id."""
    return item.rpartition(":")[2].rpartition(".")[2][:40]


def _reliability(cell: Cell) -> Picture:
    """The reliability of the headline before and after rescaling."""
    rows = cell.known(HEADLINE), cell.known(HEADLINE, LINE, APART)
    with quietly():
        # One resample: the calibrated band is not drawn.
        raw, rescaled = (reliability(row.confidence, row.correct, resamples=1) for row in rows)
    notes = tuple(f"skill {signed(row.skill.value)}" for row in rows)
    return Picture(
        f"virk-{cell.answers.stem}",
        f"Reliability of {_named(cell)}, raw and by Platt on p, with the frequency of confidences above",
        partial(draw_raw_and_rescaled, raw, rescaled, title=_named(cell), notes=(notes[0], notes[1])),
    )


def _positions(cells: Sequence[Cell]) -> Iterator[Picture]:
    for cell in cells:
        yield Picture(
            f"virk-positions-{cell.answers.stem}",
            f"Token probability by position, {_named(cell)}: mean, median and quartiles",
            partial(draw_token_positions, token_positions(cell.answers.logprobs), title=_named(cell)),
        )


def _first_table(cells: Sequence[Cell]) -> Table:
    p_values = adjusted_p_values(cells)
    rows = []
    for cell in (one for one in cells if one.first):
        all_tokens, first, arithmetic = (
            signed(cell.known(measure, LINE, APART).skill.value, 3)
            for measure in (HEADLINE, FIRST_T, FIRST_T_ARITHMETIC)
        )
        folds = [", ".join(map(str, cell.first[name].per_fold)) for name in (FIRST_T, FIRST_T_ARITHMETIC)]
        rows.append(
            (
                *(_named(cell), cell.answers.judge, f"{cell.answers.n}, {cell.answers.right}", all_tokens),
                *(folds[0], first, ranged(cell.gain, 3)),
                *(f"{cell.p_value:.3f}", f"{p_values[cell.answers.name]:.2f}", folds[1], arithmetic),
            )
        )
    columns = (
        *("answers", "right by", "n, right", "skill, all tokens", "t of each fold", "skill, first t"),
        *("gain", "p", "p adjusted", "t, arithmetic mean", "its skill"),
    )
    return Table("", columns, tuple(rows), note=f"Published: {said(VIRK, 'firstTokens')['says']}")


def _by_t(cell: Cell) -> Picture:
    names = {FIRST_T: "geometric mean (text)", FIRST_T_ARITHMETIC: "arithmetic mean (caption)"}
    skill = {
        name: [*cell.first[measure].skill_by_first, (None, cell.skill_of_all(measure) or 0.0)]
        for measure, name in names.items()
    }
    lengths, chosen = list(map(len, cell.answers.logprobs)), cell.first[FIRST_T].per_fold
    return Picture(
        f"virk-skill-by-t-{cell.answers.stem}",
        f"Skill by t, {_named(cell)}, with the lengths of the summaries",
        partial(
            draw_skill_by_t, skill, lengths, chosen=chosen, title=_named(cell), note="Platt on p, out of fold"
        ),
    )


def _stated(cells: Sequence[Cell]) -> Table:
    rows = []
    for cell in scored(cells):
        for name in REFLECTIVE:
            raw, platt = cell.row(name), cell.row(name, LINE, APART)
            if raw is None or platt is None:
                continue
            rows.append(
                (
                    *(_named(cell), name, f"{raw.n}, {raw.right}", str(raw.invalid)),
                    *(f"{100 * raw.above:.0f} %", f"{100 * raw.half:.0f} %"),
                    *(ranged(raw.auc, sign=False), ranged(raw.skill), ranged(platt.skill)),
                )
            )
    columns = (
        *("answers", "measure", "n, right", "invalid", "above 0.9", "0.5"),
        *("AUC", "raw skill", "skill after Platt on p"),
    )
    note = "ask: Spiess et al.'s reading, ask-token: Virk et al.'s; scale: the vote of 1 to 4."
    return Table("", columns, tuple(rows) or (("–", "ask, scale", NOT_RUN, *["–"] * 6),), note)


def tempered(answers: Answers, temperature: float) -> FloatArray:
    """The geometric mean of each answer's tokens if the whole softmax had another temperature, shape (n,).

    To first order in 1 / temperature - 1 =: b from what records hold: d ln p / db is ln p plus the entropy
    of the softmax that the token came from. The tokens stay the same.
    """
    b = 1.0 / temperature - 1.0
    found = []
    for logprobs, record in zip(answers.logprobs, answers.found, strict=True):
        known = np.array(logprobs)
        moved = known + b * (known + np.array(record.entropies[: known.size]))
        found.append(float(np.exp(min(np.mean(moved), 0.0))) if known.size else 0.0)
    return np.array(found)


_TEMPERATURES = tuple(np.linspace(0.8, 1.3, 11).tolist())


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
        line = cell.known(HEADLINE, LINE, APART)
        platt[name] = line.skill.value or 0.0
        moved = cell.resamples.skill(tempered(cell.answers, fitted[name]))
        raw = ranged(cell.known(HEADLINE).skill)
        rows.append((name, f"{fitted[name]:.3f}", raw, ranged(moved), ranged(line.skill)))
    if rows:
        columns = "answers", "temperature fitted on tokens", "raw skill", "after it", "after Platt on p"
        note = (
            "The temperature is that of `eval token`, fitted on functions by likelihood. What it does to an "
            "answer is computed to first order, from the entropies that records hold."
        )
        yield Section(
            "Virk et al., 6.3: the temperature of the whole softmax",
            "The study had no whole softmax. A temperature makes raw confidences less extreme, but does not "
            "make them promises: Platt scaling does.",
            (
                Table("", columns, tuple(rows), note),
                Picture(
                    "virk-temperature",
                    "Raw skill of the geometric mean by the temperature of the whole softmax",
                    partial(draw_temperature, skill, fitted, platt),
                ),
            ),
        )


def _measures(cell: Cell) -> Table:
    rows: list[tuple[str, ...]] = []
    for raw in (row for row in cell.rows if row.rescaling == RAW):
        platt = cell.row(raw.measure, LINE, APART)
        ours = ("–", "–") if platt is None else (ranged(platt.skill), banded(platt.ece))
        found = ranged(raw.auc, sign=False), ranged(raw.skill), banded(raw.ece)
        rows.append((raw.measure, f"{raw.n}", *found, *ours))
    title = f"{_named(cell)}: n = {cell.answers.n}, {cell.answers.right} right"
    columns = "measure", "n", "AUC", "raw skill", BAND, "skill after Platt on p", BAND
    missing = f"Not in these records: {', '.join(cell.missing)}." if cell.missing else ""
    return Table(title, columns, rows, missing)
