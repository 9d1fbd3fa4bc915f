"""What each kind of evidence adds to the confidence of summaries, on records.

    python tests/programs/summary_confidence.py RECORDS... [--final]
    python tests/programs/summary_confidence.py RECORDS --hold-out FILE
    python tests/programs/summary_confidence.py RECORDS... --fit FILE
    python tests/programs/summary_confidence.py RECORDS... --table

RECORDS: of `lsp-calib eval summary`, or the journal of an unfinished run of it. Each row of the table is one
set of features; its spread and, where a row has several sets, the choice between them are made inside the
folds, by repository. The last row is no estimate but a ceiling: its weights are fitted on the rows that it
is judged by. 30 % of the repositories, drawn first by a hash of their names, take no part in any. --final:
they are scored, once all is decided, by the row that ships, fitted on the others. --hold-out: write the
records to FILE, with these repositories held out of whatever is fitted on it; this made the committed files.
--fit: write the shipped calibrator to FILE, one over the languages of all RECORDS, which are of one model.
--table: that calibrator by language, as models/records/summaries/README.md has it: out of fold, of the
repositories that are held out, and of all, nested; beside the former criterion, with a calibrator for each
language. Below it, the words that a summary adds to the function's name as one more feature.
"""

from __future__ import annotations

import hashlib
import json
import math
from pathlib import Path

import attrs
import numpy as np
from offered_lines import parser_of, read

from lsp_calib.calibration.arrays import FloatArray, group_codes, quietly
from lsp_calib.calibration.calibrators.calibrator import FEATURES_MEASURE
from lsp_calib.calibration.calibrators.fitting import SUMMARY_RECIPES, FeatureData, FitChoice, Recipe
from lsp_calib.calibration.logistic import WEIGHT_SPREADS, sigmoid
from lsp_calib.calibration.scores import skill_score
from lsp_calib.calibration.tiers import PRESETS, SUMMARY_PRESETS, TierPolicy
from lsp_calib.calibration.validation import bootstrap_difference, summarise
from lsp_calib.commands.calibrate import fit_records
from lsp_calib.confidence.features import BEYOND_NAME, ENCODER, FIT_FEATURES
from lsp_calib.corpus.records import Header, Record, read_records, write_records
from lsp_calib.corpus.thresholds import shipped_thresholds
from lsp_calib.home import shipped_models
from lsp_calib.values import Evidence

APART = 0.3
CRITERIA = ("best-f1", "high-recall", "high-precision")

_RECIPE = {recipe.name: recipe for recipe in SUMMARY_RECIPES}
_TOKENS = _RECIPE["tokens"].features
_ENCODER = tuple(sorted(FIT_FEATURES))
_POORER = tuple(recipe for recipe in SUMMARY_RECIPES if not recipe.needs(ENCODER))
_NEIGHBOURS = ("encoder.neighbours-cosine-max", "encoder.neighbours-f1-max", "encoder.bm25-mean")
_DEAR = {
    "true or false, shown the function alone": ("ask.contained-true",),
    "the probability it states": ("verbalised.confidence",),
    "its mark from 1 to 4": ("scale.mean",),
}
SHIPPED = "of tokens, and the encoder (what ships)"
_BESIDE = "what ships, and "
# Each costs nothing beside the summary, or the encoder's time; of what is asked again see models/records.
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
        "| evidence | skill (95 %) | AUC | ECE; if calibrated | Brier |"
        + (" apart: skill (95 %) | AUC | ECE; if calibrated | Brier |" if final else ""),
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
            data.curve(FEATURES_MEASURE, FitChoice(_RECIPE["tokens-and-fit"], WEIGHT_SPREADS[-1])).scores(
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
        f"{ece:.3f}",
        f"{brier:.3f}",
    ]


def together(paths: list[Path]) -> tuple[Header, list[Record]]:
    """The records of one model in several languages as one file of records would hold them."""
    headers, found = zip(*(read_records(path) for path in paths), strict=True)
    first: Header = headers[0]
    for other in headers[1:]:
        own = "language", "held_out", "sources", "task_version", "prompt_sha256"
        if attrs.evolve(first, **{name: getattr(other, name) for name in own}) != other:
            raise SystemExit("The records differ in more than the language: fit them one by one.")
    header = attrs.evolve(
        first,
        language=",".join(sorted(one.language for one in headers)),
        held_out=tuple(sorted({group for one in headers for group in one.held_out})),
        sources=tuple(source for one in headers for source in one.sources),
    )
    return header, [record for records in found for record in records]


SEEDS = range(5)


def predictions(
    header: Header, kept: list[Record], right: np.ndarray, apart: np.ndarray
) -> list[tuple[str, FloatArray]]:
    """The probabilities by what ships: out of fold and apart ("split"), and nested over all, by seed."""
    groups = group_codes(np.array([record.group for record in kept]), len(kept))
    evidences = [record.evidence(header) for record in kept]
    recipes = [_RECIPE["tokens-and-fit"]]

    def data(items: np.ndarray) -> FeatureData:
        return FeatureData.of([evidences[k] for k in items], right[items], groups[items], recipes)

    fit, others, every = np.flatnonzero(~apart), np.flatnonzero(apart), np.arange(len(kept))
    of_fit, p = data(fit), np.empty(len(kept))
    p[fit] = of_fit.nested(recipes)
    curve = of_fit.curve(FEATURES_MEASURE, of_fit.choose(recipes))
    p[others] = sigmoid(curve.scores([evidences[k] for k in others]))
    nested = [data(every).nested(recipes, seed=seed) for seed in SEEDS]
    return [("split", p), *((f"seed {seed}", one) for seed, one in zip(SEEDS, nested, strict=True))]


def table(paths: list[Path]) -> list[str]:
    """Rows of one model: by criterion, language and part, see `--table`."""
    header, records = together(paths)
    rules = shipped_thresholds(header.similarity)  # type: ignore[arg-type]
    kept = [record for record in rules.judge(header, records) if record.shown and record.logprobs]
    of = {record.item: one.language for one, found in map(read_records, paths) for record in found}
    language = np.array([of[record.item] for record in kept])
    apart = np.array([record.group in header.held_out for record in kept])
    groups = np.array([record.group for record in kept])
    f1 = np.array([dict(header.similarity.named(r.similarity))["bertscore-f1"] for r in kept])  # type: ignore[union-attr]
    curve = json.loads(THRESHOLDS.read_text("utf-8"))["agreement"]
    agreement = sigmoid(curve["slope"] * f1 + curve["intercept"])
    empty = np.array([record.evidence(header).features.get(BEYOND_NAME) == 0.0 for record in kept])
    found = []
    for criterion, pooled in (("most-agree", True), ("best-f1", False)):
        right = np.array([record.correct[criterion] for record in kept])
        scopes = (
            [np.ones(len(kept), dtype=bool)] if pooled else [language == one for one in sorted(set(language))]
        )
        predicted: dict[str, FloatArray] = {}
        for scope in scopes:
            items = np.flatnonzero(scope)
            with quietly():
                for name, p in predictions(header, [kept[k] for k in items], right[items], apart[items]):
                    predicted.setdefault(name, np.empty(len(kept)))[items] = p
        policy = SUMMARY_PRESETS["balanced"] if pooled else PRESETS["balanced"]
        for one in sorted(set(language), reverse=True):
            for part, which, names in (
                ("out of fold", ~apart, ["split"]),
                ("held out", apart, ["split"]),
                ("all, nested, five seeds", apart | ~apart, [name for name in predicted if name != "split"]),
            ):
                at = which & (language == one)
                # By the former criterion a summary that only repeats the name could be accepted.
                capped = empty[at] & pooled
                of_part = predicted[names[0]][at], right[at], agreement[at], groups[at]
                cells = _judged(*of_part, policy, capped)
                # The intervals and the tiers of one split of the folds; the skill of all of them.
                skill = np.mean([skill_score(predicted[name][at], right[at]) for name in names])
                found.append(
                    f"| {header.model.name}, {one} | {criterion} | {part} | {at.sum()} | {skill:+.3f} {cells}"
                )
    return found


def _judged(
    p: FloatArray,
    right: np.ndarray,
    agreement: FloatArray,
    groups: np.ndarray,
    policy: TierPolicy,
    empty: np.ndarray,
) -> str:
    """The interval of the skill, and the other cells of a row. empty: which are not accepted for what they
    say."""
    with quietly():
        found = summarise(p, right, groups)
    skill, auc, ece = found["skill"], found["auc"], found["ece"]
    explained = 1.0 - np.mean((p - agreement) ** 2) / np.var(agreement)
    tiers = []
    for chosen in ((p >= policy.accept_from) & ~empty, p < policy.reject_below):
        share = f"{100 * chosen.mean():.0f} %"
        tiers.append(f"{share} @ {100 * right[chosen].mean():.0f} %" if chosen.any() else "0 %")
    third = len(p) // 3
    order = np.argsort(-p, kind="stable")
    lift = right[order[:third]].mean() - right[order[-third:]].mean()
    band = f"{ece:.3f}"
    rest = f"| {auc.value:.2f} | {explained:+.2f} | {' | '.join(tiers)} | {100 * lift:+.0f} | {band} |"
    return f"({skill.low:+.2f} to {skill.high:+.2f}) {rest}"


def beyond_name(paths: list[Path]) -> str:
    """What the words beyond the function's name would be worth as one more feature, and without any."""
    header, records = together(paths)
    kept = [r for r in records if r.shown and r.logprobs and r.group not in header.held_out]
    right = np.array([record.correct["most-agree"] for record in kept])
    groups = group_codes(np.array([record.group for record in kept]), len(kept))
    evidences = [record.evidence(header) for record in kept]
    shipped = _RECIPE["tokens-and-fit"]
    more = Recipe("more", (*shipped.features, BEYOND_NAME))
    skills = []
    for recipe in (shipped, more):
        with quietly():
            data = FeatureData.of(evidences, right, groups, [recipe])
            skills.append(np.mean([skill_score(data.nested([recipe], seed=seed), right) for seed in SEEDS]))
    empty = np.array([evidence.features[BEYOND_NAME] == 0.0 for evidence in evidences])
    return (
        f"{header.model.name}: skill {skills[0]:+.3f}, with the words beyond the name {skills[1]:+.3f}; "
        f"{right[empty].mean():.0%} of the {empty.sum()} summaries without any are right, "
        f"{right[~empty].mean():.0%} of the others."
    )


HEAD = (
    "| summaries | criterion | predicted | n | skill (95 %) | AUC | R2 | green @ right | red @ right "
    "| top less bottom third | ECE; if calibrated |\n|---|---|---|--:|---|--:|--:|--:|--:|--:|---|"
)
THRESHOLDS = shipped_models() / "thresholds" / "all-minilm-l6-v2-int8.json"


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("records", nargs="+", type=Path)
    parser.add_argument("--final", action="store_true", help="score the repositories that were left out")
    parser.add_argument("--hold-out", type=Path, metavar="FILE", help="write the records to this file")
    parser.add_argument("--fit", type=Path, metavar="FILE", help="write the calibrator of these records")
    parser.add_argument("--table", action="store_true", help="score what ships, by language and repositories")
    given = parser.parse_args()
    if given.fit:
        header, records = together(given.records)
        with quietly():
            fit_records(header, records, shipped=True, created=header.created)[0].calibrator.save(given.fit)
        return
    if given.table:
        models = [read_records(path)[0].model.name for path in given.records]
        of_models = [
            [path for path, of in zip(given.records, models, strict=True) if of == model]
            for model in dict.fromkeys(models)
        ]
        print(HEAD)
        for paths in of_models:
            print("\n".join(table(paths)), flush=True)
        print("", *map(beyond_name, of_models), sep="\n")
        return
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
