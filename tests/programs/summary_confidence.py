"""What each kind of evidence adds to the confidence of summaries, on records.

    python tests/programs/summary_confidence.py RECORDS... [--final]
    python tests/programs/summary_confidence.py RECORDS --hold-out FILE

RECORDS: of `lsp-calib eval summary`, or the journal of an unfinished run of it. Each row of the table is one
set of features; its spread and, where a row has several sets, the choice between them are made inside the
folds, by repository. The last row is no estimate but a ceiling: its weights are fitted on the rows that it
is judged by. 30 % of the repositories, drawn first by a hash of their names, take no part in any. --final:
they are scored, once all is decided, by the row that ships, fitted on the others. --hold-out: write the
records to FILE, with these repositories held out of whatever is fitted on it; this made the committed files.
"""

from __future__ import annotations

import argparse
import hashlib
import math
from pathlib import Path

import attrs
import numpy as np
from observed_evidence import read

from lsp_calib.calibration.arrays import FloatArray, group_codes
from lsp_calib.calibration.calibrators.curve import FEATURES_MEASURE
from lsp_calib.calibration.calibrators.recipes import SUMMARY_RECIPES, Choice, FeatureData, Recipe
from lsp_calib.calibration.methods.log_odds import sigmoid
from lsp_calib.calibration.methods.logistic import SPREADS
from lsp_calib.calibration.metrics.scores import skill_score
from lsp_calib.calibration.validation.intervals import bootstrap_difference, summarise
from lsp_calib.calibration.warnings import quietly
from lsp_calib.confidence.summary_features import ENCODER, FIT_FEATURES
from lsp_calib.evaluation.header import Header
from lsp_calib.evaluation.records import Record, read_records, write_records
from lsp_calib.values import Evidence

APART = 0.3
CRITERIA = ("best-f1", "high-recall", "high-precision")

_RECIPE = {recipe.name: recipe for recipe in SUMMARY_RECIPES}
_TOKENS = _RECIPE["tokens"].features
_ENCODER = tuple(sorted(FIT_FEATURES))
_POORER = tuple(recipe for recipe in SUMMARY_RECIPES if not recipe.needs(ENCODER))
_NEIGHBOURS = ("encoder.neighbours-cosine-max", "encoder.neighbours-f1-max", "encoder.bm25-mean")
_DEAR = {
    "three samples: how alike": ("samples.cosine", "samples.among"),
    "another prompt: how alike": ("agreement.cosine", "agreement.logprob"),
    "true or false, right after": ("follow-up.contained-true",),
    "true or false, shown the function alone": ("ask.contained-true",),
    "the probability it states": ("verbalised.confidence",),
    "its mark from 1 to 5": ("scale.mean",),
    "how much likelier the code is given it": ("likelihood.gain",),
}
SHIPPED = "of tokens, and the encoder (what ships)"
_BESIDE = "what ships, and "
# Each costs nothing beside the summary, or the encoder's time; what is asked again: see docs/evaluation.md.
STEPS: tuple[tuple[str, tuple[Recipe, ...]], ...] = (
    ("first 12 tokens", (Recipe("first-12", ("geometric-mean-first-12",)),)),
    ("all tokens", (Recipe("mean", ("geometric-mean",)),)),
    ("total", (Recipe("total", ("total",)),)),
    ("lowest token", (Recipe("lowest", ("largest-surprisal",)),)),
    ("mean entropy", (Recipe("entropy", ("entropy-mean",)),)),
    ("of tokens", (_RECIPE["tokens"],)),
    ("of texts alone", (Recipe("texts", tuple(n for n in _RECIPE["all"].features if n not in _TOKENS)),)),
    ("of tokens and texts", _POORER),
    ("fit to the code, by the encoder, alone", (Recipe("encoder", _ENCODER),)),
    (SHIPPED, (_RECIPE["tokens-and-fit"],)),
    (
        "all, and the encoder",
        tuple(Recipe(one.name, (*one.features, *_ENCODER)) for one in _POORER),
    ),
    (
        "all, the encoder and the neighbours",
        tuple(Recipe(one.name, (*one.features, *_ENCODER, *_NEIGHBOURS)) for one in _POORER),
    ),
    # Observed by asking the model again, where records hold it.
    *((title, (Recipe(title, names),)) for title, names in _DEAR.items()),
    *(
        (f"{_BESIDE}{title}", (Recipe(title, (*_RECIPE["tokens-and-fit"].features, *names)),))
        for title, names in {
            **_DEAR,
            "all of these": tuple(n for names in _DEAR.values() for n in names),
        }.items()
    ),
)


def is_apart(repository: str) -> bool:
    """Whether a repository is among those that are scored once."""
    number = int.from_bytes(hashlib.sha256(repository.encode()).digest()[:8], "big")
    return number / 2.0**64 < APART


def evidence_of(record: Record, header: Header) -> Evidence:
    """With all that was observed beside what ships."""
    found = record.evidence(header)
    assert header.observations is not None, "made with --observe"
    return Evidence(found.logprobs, {**found.features, **header.observations.named(record.observed)})


def completed(evidences: list[Evidence]) -> list[Evidence]:
    """With the mean of the others where an answer could not be read: it says nothing then."""
    names = {name for evidence in evidences for name in evidence.features}
    means = {name: np.mean([e.features[name] for e in evidences if name in e.features]) for name in names}
    return [
        Evidence(e.logprobs, {**{n: float(m) for n, m in means.items()}, **e.features}) for e in evidences
    ]


def rows(header: Header, records: list[Record], criterion: str, *, final: bool) -> list[str]:
    right = np.array([record.correct[criterion] for record in records])
    groups = [record.group for record in records]
    codes = group_codes(np.array(groups), len(records))
    apart = np.array([is_apart(group) for group in groups])
    evidences = completed([evidence_of(record, header) for record in records])
    found = [
        f"\n{header.model.name}, {header.language}, {criterion}: {int(right[~apart].sum())} of "
        f"{int((~apart).sum())} right ({right[~apart].mean():.0%}); apart {int(right[apart].sum())} "
        f"of {int(apart.sum())}\n",
        "| evidence | skill (95 %) | AUC | ECE (calibrated) | Brier |"
        + (" apart: skill (95 %) | AUC | ECE (calibrated) | Brier |" if final else ""),
        "|---|---|---|---|---|" + ("---|" * 4 if final else ""),
    ]
    fit = np.flatnonzero(~apart)
    data = FeatureData.of(
        [evidences[k] for k in fit], right[fit], codes[fit], [r for _, s in STEPS for r in s]
    )
    gains, shipped = [], np.empty(0)
    for title, recipes in STEPS:
        with quietly():
            known = [one for one in (r.only(set(data.columns)) for r in recipes) if one.features]
            if [one.features for one in known] != [r.features for r in recipes]:
                continue
            p = data.nested(known)
            cells = _cells(p, right[fit], np.array(groups)[fit])
            if title == SHIPPED:
                shipped = p
            elif title.startswith(_BESIDE):
                gain = bootstrap_difference(skill_score, p, shipped, right[fit], np.array(groups)[fit])
                gains.append(
                    f"{title.removeprefix(_BESIDE)} {gain.value:+.3f} ({gain.low:+.3f} to {gain.high:+.3f})"
                )
            if final and title == SHIPPED:
                curve = data.curve(FEATURES_MEASURE, data.choose(known))
                scores = curve.scores([evidences[k] for k in np.flatnonzero(apart)])
                cells += _cells(sigmoid(scores), right[apart], np.array(groups)[apart])
            elif final:
                cells += [""] * 4
        found.append(f"| {title} | {' | '.join(cells)} |")
    with quietly():
        p = sigmoid(
            data.curve(FEATURES_MEASURE, Choice(_RECIPE["tokens-and-fit"], SPREADS[-1])).scores(
                [evidences[k] for k in fit]
            )
        )
        cells = _cells(p, right[fit], np.array(groups)[fit])
    found.append(f"| what ships, its weights fitted on the rows it is judged by | {' | '.join(cells)} |")
    return [*found, "", f"Skill gained beside what ships: {'; '.join(gains)}."] if gains else found


def _cells(p: FloatArray, right: np.ndarray, groups: np.ndarray) -> list[str]:
    found = summarise(p, right, groups)
    skill, auc, ece = found["skill"], found["auc"], found["ece"]
    brier = math.fsum((p - right) ** 2) / right.size
    return [
        f"{skill.value:+.3f} ({skill.low:+.2f} to {skill.high:+.2f})",
        f"{auc.value:.2f}",
        f"{ece.value:.3f} ({ece.low:.3f} to {ece.high:.3f})",
        f"{brier:.3f}",
    ]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("records", nargs="+", type=Path)
    parser.add_argument("--final", action="store_true", help="score the repositories that were left out")
    parser.add_argument("--hold-out", type=Path, metavar="FILE", help="write the records to this file")
    given = parser.parse_args()
    if given.hold_out:
        (path,) = given.records
        header, records = read_records(path)
        apart = sorted({record.group for record in records if is_apart(record.group)})
        write_records(given.hold_out, attrs.evolve(header, held_out=tuple(apart)), records)
        return
    for path in given.records:
        header, records = read(path)
        shown = [record for record in records if record.shown and record.logprobs]
        for criterion in CRITERIA:
            both = {record.correct[criterion] for record in shown if not is_apart(record.group)}
            if len(both) == 2:
                print("\n".join(rows(header, shown, criterion, final=given.final)), flush=True)


if __name__ == "__main__":
    main()
