"""The tables of README.md, docs/confidence.md and the notebooks in models/records on the shipped records and
calibrators, by the functions of the package.

Called by developers (`make confidence`) and by tests/validity/test_shipped.py, which fails where the pages
say something else.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from functools import partial
from pathlib import Path

import numpy as np

from lsp_calib import home
from lsp_calib.calibration.calibrators.calibrator import Calibrator
from lsp_calib.calibration.calibrators.line_curves import USAGE, Usage
from lsp_calib.calibration.logistic import LOOSE_PRIOR, PlattCalibrator
from lsp_calib.calibration.reliability import ReliabilityData, reliability
from lsp_calib.calibration.scores import auc, skill_score
from lsp_calib.calibration.tiers import PRESETS
from lsp_calib.calibration.validation import out_of_fold
from lsp_calib.commands.calibrators import curve_words, feature_words
from lsp_calib.confidence.features import by_name
from lsp_calib.corpus.places import INSERTING, NEW_LINE, WRITING_ON
from lsp_calib.corpus.records import Record, read_records
from lsp_calib.feedback.report import COSTS, AtCost
from lsp_calib.inference.models.cards import load_cards
from lsp_calib.inference.models.demands import needed
from lsp_calib.studies import ablation as ablation_
from lsp_calib.studies import headings
from lsp_calib.studies.ablation import Ablation, run_ablation
from lsp_calib.studies.evaluate import score, tiers, too_few_right
from lsp_calib.studies.page import Report, repeat_studies
from lsp_calib.studies.score import APART, File, Row, Rows, judged_by
from lsp_calib.studies.tables import BAND, banded, percent, table_lines
from lsp_calib.studies.verdicts import CLAIM_COLUMNS

MODELS = home.shipped_models()
# Of lines of Python; those of summaries are tests/programs/summary_confidence.py's, those of other languages
# tests/programs/language_transfer.py's.
SHIPPED = [
    path
    for path in sorted((MODELS / "calibrators").glob("line-*.json"))
    if Calibrator.load(path).purpose.language == "python"
]
RECORDS = [
    file
    for kind in ("line", "infill")
    for file in sorted((MODELS / "records" / "lines").glob(f"{kind}-*.jsonl"), key=lambda file: file.stem)
]
# By the name of the records and the calibrator, without `line-`.
TITLES = {
    "qwen2.5-coder-1.5b": "Qwen2.5-Coder-1.5B",
    "qwen2.5-coder-1.5b-large": "Qwen2.5-Coder-1.5B, large window",
    "smollm2-135m": "SmolLM2-135M, small window",
    "smollm2-135m-large": "SmolLM2-135M",
}
# What editors are served with by default: the large window, for both; the recommended model first.
IN_USE = ("qwen2.5-coder-1.5b-large", "smollm2-135m-large")
LIKE_FOR_LIKE = IN_USE[::-1]
SUITS = {
    4.5: "accepting at a glance (`balanced`)",
    10.0: "critical code (`cautious`)",
    20.0: "what nobody may get wrong (`acceptFrom = 0.95`)",
}
PLACES = {
    "line-start": "start of the line",
    "after-indentation": "after the indentation",
    "mid-line": "in the line",
    "mid-word": "in a word",
    "": "all",
    WRITING_ON: "writing on",
    NEW_LINE: "new line",
}


def records_of(path: Path) -> Path:
    """The records of a shipped calibrator."""
    return MODELS / "records" / "lines" / path.with_suffix(".jsonl").name


def fitted_on(path: Path) -> list[Record]:
    """The records that a shipped calibrator was fitted on."""
    header, records = read_records(records_of(path))
    return [record for record in records if record.shown and record.group not in header.held_out]


def name_of(path: Path) -> str:
    """The name of a shipped calibrator or its records, as in TITLES."""
    return path.stem.removeprefix("line-")


@functools.cache
def ablations() -> Mapping[str, Ablation]:
    """The ablation of each shipped calibrator's records, by name."""
    return {name_of(path): run_ablation(*read_records(records_of(path))) for path in SHIPPED}


def in_use() -> tuple[Ablation, ...]:
    """The ablations of what editors are served with by default."""
    return tuple(ablations()[name] for name in IN_USE)


def calibrators() -> Mapping[str, Calibrator]:
    return {name_of(path): Calibrator.load(path) for path in SHIPPED}


def tier_blocks() -> dict[str, str]:
    """The tables of docs/confidence.md: presets, and what a rejected or an unread line is worth."""
    return {"presets": presets(), "usage": usage(), "costs": costs()}


def evidence_blocks() -> dict[str, str]:
    """The tables of the notebook on lines: for each model the ablation and the calibration error by place;
    weights, conditions, places within words."""
    blocks = {}
    for name, ablation in ablations().items():
        quality, errors, _ = ablation_.tables(ablation)
        plain_and_shipped = [*errors.rows[:2], errors.rows[-1]]
        title = TITLES[name]
        sentence = ablation_.summary(ablation).replace(ablation.model, f"**{title}**", 1)
        blocks[f"ablation of {name}"] = _block(sentence, "", *table_lines(quality.columns, quality.rows))
        blocks[f"places of {name}"] = _block(
            f"**{title}**",
            "",
            *table_lines(["evidence", *(PLACES.get(p, p) for p in errors.columns[1:])], plain_and_shipped),
        )
    return {
        **blocks,
        "conditions": conditions(),
        "weights": weights(),
        "typed": typed(),
    }


def conditions() -> str:
    """What ships, out of fold, by model and condition."""
    rows = [
        [TITLES[name], *row]
        for name, ablation in ablations().items()
        for row in ablation_.condition_rows(ablation)
    ]
    return _block(*table_lines(("model", *headings.words("ablation")["conditions"]["columns"]), rows))


def weights() -> str:
    """What the preferred curves weigh, in words: by how much the odds of being right change."""
    columns, factors, averages = ["evidence"], [], []
    for title, calibrator in calibrators().items():
        words = curve_words(calibrator.curves[0])
        columns.append(TITLES[title])
        factors.append({row["name"]: row["factor"] for row in words["features"]})
        averages.append(words["places"])
    names = sorted(
        dict.fromkeys(name for one in factors for name in one),
        key=lambda name: -max(abs(np.log(one[name])) for one in factors if name in one),
    )
    rows = [
        [feature_words(name), *(f"× {one[name]:.2f}" if name in one else "–" for one in factors)]
        for name in names
    ]
    for place in dict.fromkeys(place for one in averages for place in one):
        cells = (f"× {one[place]:.2f}" if place in one else "–" for one in averages)
        rows.append([f"the cursor's place: {PLACES.get(place, place)}", *cells])
    return _block(*table_lines(columns, rows))


def presets() -> str:
    """What each preset accepts and rejects with the shipped calibrators, out of fold."""
    rows = []
    for name, policy in PRESETS.items():
        for title, ablation in ablations().items():
            row, y = ablation.stages[-1].row, ablation.correct
            accepted, rejected = row.confidence >= policy.accept_from, row.confidence < policy.reject_below
            rows.append(
                [
                    name,
                    f"{percent(policy.accept_from)}, {percent(policy.reject_below)}",
                    TITLES[title],
                    *(
                        f"{percent(m.mean())}, {percent(y[m].mean())} right"
                        for m in (accepted, rejected)
                        if m.any()
                    ),
                ]
            )
    return _block(
        *table_lines(("preset", "accept from, reject below", "model", "accepted", "rejected"), rows)
    )


def typed() -> str:
    """How well the raw confidence ranks, with and without counting what is typed as known."""
    lines = []
    for path in SHIPPED:
        calibrator = Calibrator.load(path)
        first = calibrator.first_tokens or "all tokens"
        lines += [f"**{TITLES[name_of(path)]}**, t = {first}:", ""]
        *rows, sentence = typed_rows(path)
        lines += ["| cursor | lines | right | AUC without | AUC with |", "|---|---|---|---|---|", *rows, ""]
        lines += [sentence, ""]
    return _block(*lines[:-1])


def typed_rows(path: Path) -> list[str]:
    """The rows on a shipped calibrator, and a sentence on skill."""
    measure = by_name(Calibrator.load(path).raw_measure)
    records = fitted_on(path)
    correct = np.array([record.correct["exact"] for record in records])
    groups = [record.group for record in records]
    plain_ = np.array([measure(record.logprobs) for record in records])
    given = np.array([measure(record.logprobs_given_typed) for record in records])
    strata = np.array([record.stratum for record in records])
    rows = []
    for stratum, words in PLACES.items():
        at = strata == stratum if stratum else np.ones(strata.size, np.bool_)
        if not at.any():  # a condition, which is no kind of place
            continue
        ranks = (
            [f"{auc(raw[at], correct[at]):.2f}" for raw in (plain_, given)]
            if 0 < correct[at].sum() < at.sum()
            else ["–", "–"]
        )
        rows.append("| " + " | ".join([words, str(at.sum()), percent(correct[at].mean()), *ranks]) + " |")
    fit = partial(PlattCalibrator.fit, prior=LOOSE_PRIOR)
    without, with_typed = (
        skill_score(out_of_fold(raw, correct, groups, fit), correct) for raw in (plain_, given)
    )
    return [*rows, f"Skill of it alone, out of fold: {without:+.2f} without, {with_typed:+.2f} with."]


def readme_blocks() -> dict[str, str]:
    """The README's table: lines inserted in the blind projects, with the default window; sizes of cards."""
    columns = "model", "right", "marked accept", "marked reject", "memory", "download"
    rows = []
    for name in IN_USE:
        card = load_cards()[name.removesuffix("-large")]
        asked, row, _ = blind_lines(name, INSERTING)
        found = tiers(row.confidence, row.correct)
        download = f"{card.size / 1e9:.1f} GB" if card.size >= 1e9 else f"{card.size / 1e6:.0f} MB"
        rows.append(
            [
                f"`{card.name}` ({'recommended' if card.recommended else 'for a first look'})",
                percent(row.right / asked),
                *(ablation_.share(found[tier]) for tier in ("accept", "reject")),
                *(f"{needed(card) / 1e9:.1f} GB", download),
            ]
        )
    return {"quality": _block(*table_lines(columns, rows))}


def blind_lines(name: str, condition: str | None = None) -> tuple[int, Row, ReliabilityData]:
    """What ships on the lines of the blind projects, of one condition or of both: how many were asked for,
    the row and its reliability. The records hold the text features of when they were scored, once."""
    header, records = read_records(MODELS / "records" / "blind" / f"line-{name}.jsonl")
    calibrator = Calibrator.load(MODELS / "calibrators" / f"line-{name}.json")
    asked = [record for record in records if condition in (None, record.condition)]
    answers = judged_by("exact", File("", Path(), header, len(records)), asked, "editor")
    confidence = calibrator.probabilities([record.evidence(header) for record in answers.found])
    row = Rows(answers, areas=True).row("what ships", "calibrator", APART, confidence)
    return len(asked), row, reliability(confidence, answers.correct)


def costs() -> str:
    """For what a wrong unread line costs, the best threshold, and what it accepts of the blind lines."""
    rows = []
    for cost in COSTS:
        accept_from = 1.0 - 1.0 / cost
        row = [f"{cost:g} readings", percent(accept_from), SUITS[cost]]
        for name in LIKE_FOR_LIKE:
            header, records = read_records(MODELS / "records" / "blind" / f"line-{name}.jsonl")
            calibrator = Calibrator.load(MODELS / "calibrators" / f"line-{name}.json")
            offered = [record for record in records if record.shown and record.logprobs]
            found = AtCost.of(
                cost,
                calibrator.probabilities([record.evidence(header) for record in offered]),
                np.array([record.correct["exact"] for record in offered]),
            )
            n, right = found.accepted, found.right
            saved = f"{found.saved / len(offered):+.2f}".replace("-", "−")
            row.append(f"{percent(n / len(offered))}, {percent(right / n)} right, {saved}")
        rows.append(row)
    columns = ["a wrong unread line costs", "accept from", "suits"]
    return _block(*table_lines([*columns, *(TITLES[name] for name in LIKE_FOR_LIKE)], rows))


def usage() -> str:
    """What became of the lines that each preset rejects and shows, by model and window."""
    rows = []
    for name in TITLES:
        found = Usage.load(MODELS / USAGE / f"line-{name}.json")
        for preset, policy in PRESETS.items():
            counted = [one for one in found.lines if one.below <= policy.reject_below + 1e-9]
            shares = found.shares(policy.reject_below)
            cells = ["too few", "too few"] if shares is None else [percent(share) for share in shares]
            limit = f"{preset}: below {percent(policy.reject_below)}"
            rows.append([TITLES[name], limit, f"{sum(one.n for one in counted):,}", *cells])
    columns = ["model", "rejected", "lines", "used as they are", "as they are, or after an edit"]
    return _block(*table_lines(columns, rows))


def records_blocks() -> dict[str, str]:
    """The table of models/records/README.md: a row for each file of records and each criterion."""
    rows = [row for path in RECORDS for row in _score_rows(path)]
    columns = (
        *("model", "prompt", "task, right by", "asked", "offered", "right", "skill, out of fold", "AUC"),
        BAND,
    )
    return {"records": _block(*table_lines(columns, rows))}


def _score_rows(path: Path) -> list[list[str]]:
    header, records = read_records(path)
    offered = str(sum(record.shown for record in records))
    front = [header.model.name, header.prompt_version, header.task, str(len(records)), offered]
    if header.task == "line":
        # The last row of the ablation is what `score` would compute again.
        return [_score_row(front, ablations()[name_of(path)].stages[-1].row)]
    scores = score(header, records, headline=True)
    rows = [_score_row(front, row) for row in scores.rows]
    model, prompt, task, asked, offered = front
    return rows + [
        [model, prompt, f"{task}, {judge}", asked, offered, str(right), "–", "–", "–"]
        for judge, right in scores.right.items()
        if too_few_right(right, len(records))
    ]


def _score_row(front: list[str], row: Row) -> list[str]:
    model, prompt, task, asked, offered = front
    assert row.auc is not None
    numbers = [f"{row.skill:+.2f}", f"{row.auc.value:.2f}", banded(row.ece, 3)]
    return [model, prompt, f"{task}, {row.judge}", asked, offered, str(row.right), *numbers]


@functools.cache
def studies() -> Report:
    """The studies repeated on the committed records."""
    return repeat_studies("all", MODELS / "records", None, lambda _: None)


def claims_blocks() -> dict[str, str]:
    """The table of models/records/README.md on the claims of the studies."""
    return {"claims": _block(*table_lines(CLAIM_COLUMNS, [claim.cells() for claim in studies().claims]))}


def _block(*lines: str) -> str:
    return "\n".join(lines)
