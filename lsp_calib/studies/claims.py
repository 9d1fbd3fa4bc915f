"""Claims of the studies, and whether they hold on the records at hand: each with its number and interval."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from lsp_calib.calibration.arrays import FloatArray
from lsp_calib.calibration.reliability import wilson_interval
from lsp_calib.calibration.validation import Interval, percentile_interval
from lsp_calib.report.words import signed
from lsp_calib.studies.page import Claim, Study, ranged
from lsp_calib.studies.score import (
    APART,
    FIRST_T,
    RANDOM,
    Cell,
    adjusted_p_values,
)
from lsp_calib.studies.spiess import LINE as ON_LN_P
from lsp_calib.studies.spiess import against_auc, pairs_judged_twice, scored
from lsp_calib.studies.statistics import Resamples, rank_correlation
from lsp_calib.studies.virk import ALPHA, HEADLINE
from lsp_calib.studies.virk import LINE as ON_P
from lsp_calib.summarization.prompt import AUGMENTED, VERSION

HELD, DID_NOT, CANNOT, NOT_RUN = "held", "did not hold", "cannot tell", "not run"
# From here on a rank correlation counts as strong.
_STRONG = 0.7
# Tokens that count as early.
_EARLY = 5


def claims_of(studies: Sequence[Study], seed: int = 0) -> Iterator[Claim]:
    """The claims of these studies, at most 15, in the order of the studies."""
    for study in studies:
        cells = [cell for _, cell in scored(study.compared)]
        if study.name == "spiess":
            yield from _of_spiess(cells, seed)
        elif study.name == "virk":
            yield from _of_virk(cells, seed)
        else:
            told = [one.numbers for one in study.compared if one.numbers is not None]
            says = "cw-ECE depends on the number of bins far more than Full-ECE does."
            yield _claim("full-ece", "Table 1", says, _deviates(told) if told else None)


def _deviates(told: Sequence[Mapping[str, Any]]) -> tuple[str, str]:
    """Whether the relative standard deviation of cw-ECE over M is at least twice that of Full-ECE."""
    pairs = [(one["relativeDeviation"][0]["classwise"], one["relativeDeviation"][0]["full"]) for one in told]
    words = (f"{100 * classwise:.1f} % and {100 * full:.1f} %" for classwise, full in pairs)
    held = all(classwise >= 2 * full for classwise, full in pairs)
    return (HELD if held else DID_NOT), f"deviation of cw-ECE and of Full-ECE: {'; '.join(words)}"


def _of_spiess(cells: Sequence[Cell], seed: int) -> Iterator[Claim]:
    claim = partial(_claim, "spiess")
    both = "total", "arithmetic-mean"
    lines = [cell for cell in cells if (cell.answers.header.task, cell.answers.judge) == ("line", "exact")]
    by_tests = [cell for cell in cells if cell.answers.judge == "tests"]
    yield claim(
        "4.2.1",
        "By tests, raw confidences are poorly calibrated: the best raw skill is about 0.05.",
        _at_most([cell.known(name).skill for cell in by_tests for name in both], 0.05),
    )
    yield claim(
        "4.2.1",
        "The average token probability is over-confident: it exceeds the share that is right.",
        _least([_excess(cell, "arithmetic-mean", seed) for cell in cells]),
    )
    yield claim(
        "4.2.2",
        "Rescaling improves ECE: from 0.38 to 0.05 where the rescaled skill is at least 0.05.",
        _ece_falls(cells),
    )
    yield claim(
        "4.2.6",
        "By exact match, the rescaled skill of the total probability is high: 0.31 to 0.43.",
        _least([cell.known("total", ON_LN_P, RANDOM).skill for cell in lines], 0.31),
    )
    yield claim(
        "4.2.6",
        "The total probability tells exact match better than passing tests.",
        _exact_minus_tests(cells, seed),
    )
    yield claim(
        "Figure 8",
        "AUC goes with the rescaled skill (rank correlation 0.7 or more), and less with the rescaled ECE.",
        _auc_tells(cells),
    )
    yield claim(
        "5",
        "Above 90 % rescaled confidences are over-confident (here: the total).",
        _above_nine(lines, seed),
    )
    yield claim(
        "Table 4",
        "Half of the answers that pass the tests (49 %) are not the original text.",
        _other_text(cells, seed),
    )


def _claim(study: str, where: str, says: str, found: tuple[str, str] | None) -> Claim:
    """found: verdict and words; None if it was not run."""
    return Claim(study, where, says, *(found or (NOT_RUN, "–")))


def _of_virk(cells: Sequence[Cell], seed: int) -> Iterator[Claim]:
    claim = partial(_claim, "virk")
    best = [cell for cell in cells if cell.answers.judge == "best-f1"]
    yield claim(
        "5.1",
        "Raw, the skill is negative everywhere.",
        _at_most([cell.known(HEADLINE).skill for cell in best], 0.0),
    )
    by_line = [(cell.answers.judge, cell.known(HEADLINE, ON_P, APART).skill) for cell in cells]
    yield claim(
        "5.2",
        "Platt scaling makes every skill positive (0.01 to 0.19).",
        _least([skill for judge, skill in by_line if judge == "best-f1"]),
    )
    yield claim(
        "5.2",
        "At high precision the skill is over 0.2 (all models but GPT-3.5).",
        _least([skill for judge, skill in by_line if judge == "high-precision"], 0.2),
    )
    yield claim("5.2", "ASAP raises the skill of Python's summaries.", _asap_raises(best, seed))
    yield claim(
        "5.3",
        f"The first t tokens are significantly better than all in some configurations (alpha {ALPHA:g}).",
        _first_better(cells),
    )
    yield claim(
        "5.3, Figure 6",
        "Later tokens are more probable: those from the sixth on against the first five.",
        _least([_later(cell, seed) for cell in best]),
    )


def _of(value: Interval) -> tuple[float, float, float]:
    """Value and bounds; the value where there are none."""
    number = float("nan") if value.value is None else value.value
    low = number if value.low is None else value.low
    return number, low, number if value.high is None else value.high


def _least(found: Sequence[Interval], bound: float = 0.0) -> tuple[str, str] | None:
    """Whether all lie above a bound."""
    held = [_of(one)[1] > bound for one in found]
    return _judged(found, held, [_of(one)[2] <= bound for one in found], "lowest", "highest")


def _at_most(found: Sequence[Interval], bound: float) -> tuple[str, str] | None:
    """Whether all lie below a bound."""
    held = [_of(one)[2] < bound or _of(one)[0] == bound for one in found]
    return _judged(found, held, [_of(one)[1] >= bound for one in found], "highest", "lowest")


def _judged(
    found: Sequence[Interval], held: Sequence[bool], failed: Sequence[bool], first: str, second: str
) -> tuple[str, str] | None:
    """The verdict, and the ends of the values. first, second: "lowest" and "highest", as they are told."""
    if not found:
        return None
    verdict = HELD if all(held) else DID_NOT if any(failed) else CANNOT
    if len(found) == 1:
        return verdict, ranged(found[0])
    ends = {
        "lowest": ranged(min(found, key=lambda one: _of(one)[0])),
        "highest": ranged(max(found, key=lambda one: _of(one)[0])),
    }
    return verdict, f"{first} {ends[first]}, {second} {ends[second]}, {len(found)} rows"


def _excess(cell: Cell, measure: str, seed: int) -> Interval:
    """By how much the mean confidence exceeds the share that is right."""
    return _resamples(cell, seed).mean(cell.known(measure).confidence - cell.answers.correct)


def _resamples(cell: Cell, seed: int) -> Resamples:
    return Resamples(cell.answers.correct, cell.answers.groups, seed=seed)


def _ece_falls(cells: Sequence[Cell]) -> tuple[str, str] | None:
    pairs = []
    for cell in cells:
        for raw in (row for row in cell.rows if row.rescaling == "raw"):
            platt = cell.row(raw.measure, ON_LN_P, RANDOM)
            if platt is not None and platt.ece is not None and raw.ece is not None:
                pairs.append((raw.ece.value or 0.0, platt.ece.value or 0.0))
    if not pairs:
        return None
    before, after = np.mean(pairs, axis=0)
    fell = sum(b < a for a, b in pairs)
    low, high = wilson_interval(fell, len(pairs))
    verdict = HELD if low > 0.5 else DID_NOT if high < 0.5 else CANNOT
    share = f"{fell} of {len(pairs)} rows ({100 * low:.0f} to {100 * high:.0f} %)"
    return verdict, f"from {before:.2f} to {after:.2f} on average; lower in {share}"


def _exact_minus_tests(cells: Sequence[Cell], seed: int) -> tuple[str, str] | None:
    found = []
    for exact, tests in pairs_judged_twice(cells):
        p, q = (cell.known("total", ON_LN_P, RANDOM).confidence for cell in (exact, tests))
        found.append(_skill_difference(_resamples(exact, seed), p, _resamples(tests, seed), q))
    return _least(found)


def _auc_tells(cells: Sequence[Cell]) -> tuple[str, str] | None:
    points = against_auc(cells)
    with_skill, with_ece = (
        rank_correlation(*zip(*points[score], strict=True)) if points[score] else None
        for score in ("skill", "ECE")
    )
    if with_skill is None or with_ece is None:
        return None
    held = with_skill >= _STRONG and abs(with_ece) < with_skill
    rows = len(points["skill"]), len(points["ECE"])
    words = f"skill {signed(with_skill)} ({rows[0]} rows), ECE {signed(with_ece)} ({rows[1]})"
    return HELD if held else DID_NOT, words


def _above_nine(cells: Sequence[Cell], seed: int) -> tuple[str, str] | None:
    """The mean confidence of what lies above 0.9, minus the share of it that is right, over all cells."""
    if not cells:
        return None
    p = np.concatenate([cell.known("total", ON_LN_P, RANDOM).confidence for cell in cells])
    correct = np.concatenate([cell.answers.correct for cell in cells])
    groups = [group for cell in cells for group in cell.answers.groups]
    above = (p >= 0.9).astype(np.float64)
    count = int(above.sum())
    if not count:
        return CANNOT, "no confidence above 90 %"
    excess = Resamples(correct, groups, seed=seed).ratio((p - correct) * above, above)
    _, low, high = _of(excess)
    verdict = HELD if low > 0.0 else DID_NOT if high <= 0.0 else CANNOT
    return verdict, f"promised minus right {ranged(excess)}, {count} answers"


def _other_text(cells: Sequence[Cell], seed: int) -> tuple[str, str] | None:
    published = 0.4864
    found = []
    for exact, tests in pairs_judged_twice(cells):
        passed = tests.answers.correct.astype(np.float64)
        found.append(_resamples(tests, seed).ratio(passed * ~exact.answers.correct, passed))
    if not found:
        return None
    inside = [low <= published <= high for _, low, high in map(_of, found)]
    verdict = HELD if all(inside) else DID_NOT if not any(inside) else CANNOT
    words = [ranged(one, sign=False) for one in found]
    return verdict, "; ".join(words)


def _asap_raises(cells: Sequence[Cell], seed: int) -> tuple[str, str] | None:
    """The skill with ASAP minus that without, on the same functions."""
    plain = _by_model(cells, VERSION)
    found = []
    for model, cell in _by_model(cells, AUGMENTED).items():
        if model not in plain:
            continue
        both = [{record.item for record in one.answers.found} for one in (cell, plain[model])]
        (p, y, groups), (q, z, _) = (_on(one, both[0] & both[1]) for one in (cell, plain[model]))
        if not groups:
            continue
        found.append(
            _skill_difference(Resamples(y, groups, seed=seed), p, Resamples(z, groups, seed=seed), q)
        )
    return _least(found)


def _skill_difference(a: Resamples, p: FloatArray, b: Resamples, q: FloatArray) -> Interval:
    """The skill of confidences p of the answers of a minus that of q of those of b."""
    value = (a.skill(p).value or 0.0) - (b.skill(q).value or 0.0)
    return percentile_interval(value, a.skills(p) - b.skills(q))


def _by_model(cells: Sequence[Cell], prompt: str) -> Mapping[str, Cell]:
    return {
        cell.answers.header.model.name: cell
        for cell in cells
        if cell.answers.header.language == "python" and cell.answers.header.prompt_version == prompt
    }


def _on(cell: Cell, items: set[str]) -> tuple[FloatArray, np.typing.NDArray[np.bool_], list[str]]:
    """Rescaled confidences, verdicts and groups of some items, in the order of their ids."""
    row = cell.known(HEADLINE, ON_P, APART)
    names = [record.item for record in cell.answers.found]
    at = sorted((place for place, name in enumerate(names) if name in items), key=names.__getitem__)
    return row.confidence[at], cell.answers.correct[at], [cell.answers.groups[place] for place in at]


def _first_better(cells: Sequence[Cell]) -> tuple[str, str] | None:
    tested = [cell for cell in cells if FIRST_T in cell.first and cell.gain is not None]
    if not tested:
        return None
    adjusted = adjusted_p_values(cells)
    least = min(adjusted.values())
    best = max(tested, key=lambda cell: (cell.gain.value or 0.0) if cell.gain else 0.0)
    words = f"least adjusted p {least:.2f} of {len(tested)} tests; best gain {ranged(best.gain, 3)}"
    return HELD if least <= ALPHA else CANNOT, words


def _later(cell: Cell, seed: int) -> Interval:
    """The mean probability of the later tokens minus that of the early ones, of answers that have both."""
    logprobs = cell.answers.logprobs
    kept = [at for at, item in enumerate(logprobs) if len(item) > _EARLY]
    probabilities = [np.exp(logprobs[at]) for at in kept]
    gaps = np.array([np.mean(one[_EARLY:]) - np.mean(one[:_EARLY]) for one in probabilities])
    groups = [cell.answers.groups[at] for at in kept]
    return Resamples(cell.answers.correct[kept], groups, seed=seed).mean(gaps)
