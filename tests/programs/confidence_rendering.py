"""The tables of docs/confidence.md, docs/evaluation.md and the README on the shipped records and calibrators,
by the functions of the package.

Called by developers (`make confidence`) and by tests/validity/test_shipped.py, which fails where the pages
say something else.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from pathlib import Path

import alternatives
import numpy as np

from lsp_calib import home
from lsp_calib.calibration import Calibrator, auc, out_of_fold, skill_score
from lsp_calib.calibration.policies.tiers import PRESETS
from lsp_calib.calibration.validation.intervals import Interval
from lsp_calib.commands.calibrators import curve_words, feature_words
from lsp_calib.confidence import by_name
from lsp_calib.evaluation import ladder_report
from lsp_calib.evaluation.ladder import Ladder, Row, climb
from lsp_calib.evaluation.records import Record, read_records
from lsp_calib.evaluation.report import percent, plain, signed, table_lines
from lsp_calib.evaluation.scores import score

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
    for file in sorted((MODELS / "records").glob(f"{kind}-*.jsonl"), key=lambda file: file.stem)
]
# By the name of the records and the calibrator, without `line-`.
TITLES = {
    "qwen2.5-coder-1.5b": "Qwen2.5-Coder-1.5B",
    "qwen2.5-coder-1.5b-large": "Qwen2.5-Coder-1.5B, large window",
    "smollm2-135m": "SmolLM2-135M, small window",
    "smollm2-135m-large": "SmolLM2-135M",
}
# What editors are served with by default.
IN_USE = ("qwen2.5-coder-1.5b", "smollm2-135m-large")
# Of alternatives: fewer places say nothing of their ranks.
_FEWEST_PLACES = 100
PLACES = {
    "line-start": "start of the line",
    "after-indentation": "after the indentation",
    "mid-line": "in the line",
    "mid-word": "in a word",
    "": "all",
    "writing-on": "writing on",
}


def records_of(path: Path) -> Path:
    """The records of a shipped calibrator."""
    return MODELS / "records" / path.with_suffix(".jsonl").name


def fitted_on(path: Path) -> list[Record]:
    """The records that a shipped calibrator was fitted on."""
    header, records = read_records(records_of(path))
    return [record for record in records if record.shown and record.group not in header.held_out]


def name_of(path: Path) -> str:
    """The name of a shipped calibrator or its records, as in TITLES."""
    return path.stem.removeprefix("line-")


@functools.cache
def ladders() -> Mapping[str, Ladder]:
    """The ladder of each shipped calibrator's records, by name."""
    return {name_of(path): climb(*read_records(records_of(path))) for path in SHIPPED}


def in_use() -> tuple[Ladder, ...]:
    """The ladders of what editors are served with by default."""
    return tuple(ladders()[name] for name in IN_USE)


def calibrators() -> Mapping[str, Calibrator]:
    return {name_of(path): Calibrator.load(path) for path in SHIPPED}


def ladder_blocks() -> dict[str, str]:
    """For each model a table of the ladder; one of the calibration error by place; presets, weights."""
    blocks = {}
    for name, ladder in ladders().items():
        (_, columns, rows), (_, places, errors), _ = ladder_report.tables(ladder)
        title = TITLES[name]
        sentence = ladder_report.summary(ladder).replace(ladder.model, f"**{title}**", 1)
        blocks[f"ladder of {name}"] = _block(sentence, "", *table_lines(columns, rows))
        blocks[f"places of {name}"] = _block(
            f"**{title}**", "", *table_lines(["evidence", *(PLACES.get(p, p) for p in places[1:])], errors)
        )
    return {
        **blocks,
        "conditions": conditions(),
        "alternatives": ranks(),
        "presets": presets(),
        "weights": weights(),
        "typed": typed(),
    }


def conditions() -> str:
    """What ships, out of fold, by model and condition."""
    rows = [
        [TITLES[name], *row]
        for name, ladder in ladders().items()
        for row in ladder_report.condition_rows(ladder)
    ]
    return _block(*table_lines(("model", *ladder_report.CONDITION_COLUMNS), rows))


def ranks() -> str:
    """How often alternatives are right, and what they promise, for records that hold them."""
    rows = []
    for path in SHIPPED:
        header, records = read_records(records_of(path))
        if sum(bool(record.alternatives) for record in records) >= _FEWEST_PLACES:
            rows += [[TITLES[name_of(path)], *row] for row in alternatives.table(header, records)]
    return _block(*table_lines(("model", *alternatives.COLUMNS), rows))


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
        for title, ladder in ladders().items():
            row, y = ladder.rows[-1], ladder.correct
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
    without, with_typed = (skill_score(out_of_fold(raw, correct, groups), correct) for raw in (plain_, given))
    return [*rows, f"Skill of it alone, out of fold: {without:+.2f} without, {with_typed:+.2f} with."]


def readme_blocks() -> dict[str, str]:
    """The README's table: what ships, beside the plain geometric mean."""
    chosen = in_use()[::-1]
    columns = ["line completion, Python", *(TITLES[name] for name in IN_USE[::-1])]
    last: Sequence[Row] = [ladder.rows[-1] for ladder in chosen]
    rows = [
        [
            f"lines with an answer, of {len(set(chosen[0].groups))} projects from the package index",
            *(f"{row.n} of {ladder.asked} asked for" for row, ladder in zip(last, chosen, strict=True)),
        ],
        ["right, exactly", *(f"{row.n_correct} ({percent(row.n_correct / row.n)})" for row in last)],
        ["Brier skill score, out of fold", *(signed(row.metrics["skill"]) for row in last)],
        [
            "the same of the plain geometric mean",
            *(signed(ladder.rows[0].metrics["skill"]) for ladder in chosen),
        ],
        ["area under the ROC curve", *(plain(row.metrics["auc"]) for row in last)],
        [
            "expected calibration error",
            *(
                f"{e.value:.3f}; a calibrated score would show {e.low:.3f} to {e.high:.3f}"
                for e in (row.metrics["ece"] for row in last)
            ),
        ],
        ["marked accept", *(ladder_report.share(row.tiers["accept"]) for row in last)],
        ["marked reject", *(ladder_report.share(row.tiers["reject"]) for row in last)],
    ]
    return {"quality": _block(*table_lines(columns, rows))}


def evaluation_blocks() -> dict[str, str]:
    """The table of docs/evaluation.md: a row for each file of records and each criterion."""
    rows = [row for path in RECORDS for row in _score_rows(path)]
    columns = (
        *("model", "prompt", "task, right by", "asked", "offered", "right", "skill, out of fold", "AUC"),
        "ECE",
    )
    return {"records": _block(*table_lines(columns, rows))}


def _score_rows(path: Path) -> list[list[str]]:
    header, records = read_records(path)
    offered = str(sum(record.shown for record in records))
    front = [header.model.name, header.prompt_version, header.task, str(len(records)), offered]
    if header.task == "line":
        # The last row of the ladder is what `score` would compute again.
        last = ladders()[name_of(path)].rows[-1]
        return [_score_row(front, "exact", last.n_correct, last.metrics)]
    scores = score(header, records, headline=True)
    return [_score_row(front, row.judge, scores.right[row.judge], row.metrics) for row in scores.rows]


def _score_row(front: list[str], judge: str, right: int, metrics: Mapping[str, Interval]) -> list[str]:
    model, prompt, task, asked, offered = front
    skill, roc, ece = (metrics[name] for name in ("skill", "auc", "ece"))
    numbers = [signed(skill), f"{roc.value:.2f}", plain(ece, digits=3)]
    return [model, prompt, f"{task}, {judge}", asked, offered, str(right), *numbers]


def _block(*lines: str) -> str:
    return "\n".join(lines)
