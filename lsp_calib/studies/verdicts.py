"""Claims of the studies, and whether they hold here: one cell decides each, named before its number is known.

The primary cell is the larger model's, in the study's own condition, on the study's own task; where a claim
names no task, on MBPP, the largest set that tests judge, and on Java, the first language of the summaries.
The other cells are told, and decide nothing. No interval is given over rows that share their answers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import attrs
import numpy as np

from lsp_calib.calibration.arrays import BoolArray, FloatArray
from lsp_calib.calibration.reliability import wilson_interval
from lsp_calib.calibration.scores import expected_calibration_error, skill_score
from lsp_calib.calibration.validation import Interval, percentile_interval
from lsp_calib.report.words import signed
from lsp_calib.studies import spiess, virk
from lsp_calib.studies.exact import published_against_auc
from lsp_calib.studies.figures import against_auc
from lsp_calib.studies.published import FULL_ECE, SPIESS, SPIESS_NAMES, VIRK, said, table
from lsp_calib.studies.score import (
    APART,
    PAPER,
    RANDOM,
    Cell,
    adjusted_p_values,
    interval_json,
    number,
)
from lsp_calib.studies.spiess import EXACT, TESTS, chosen, correlation, gain, in_order
from lsp_calib.studies.statistics import Resamples, least_effect
from lsp_calib.studies.tables import ranged

HELD, DID_NOT, CANNOT, NOT_RUN = "held", "did not hold", "cannot tell", "not run"
# From here on a rank correlation counts as strong.
_STRONG = 0.7
# Tokens that count as early.
_EARLY = 5
# What still counts as the published share or skill.
_NEAR_SHARE, _NEAR_SKILL = 0.1, 0.05
# Tables print two digits: half a unit, and that of a difference of two such numbers.
_ROUNDED, _ROUNDED_TWICE = 0.005, 0.01


@attrs.frozen
class Rule:
    """What a claim says of its number, and the sizes that the study printed, least and greatest.

    kind: "more" or "less" than `bound`; "at least" or "at most" `bound`; "about": within `margin` of sizes.
    rounding: how far the printed sizes may be from what was found.
    """

    kind: str
    bound: float = 0.0
    sizes: tuple[float, float] | None = None
    margin: float = 0.0
    rounding: float = 0.0

    def verdict(self, found: Interval) -> str:
        """Whether the claim holds, by the interval against the bound and against the published sizes.

        "more" and "less" hold where the interval excludes the bound. They do not hold where it lies on the
        other side, or includes the bound and rules out even the least published size. "about" holds where the
        whole interval is that near, and not where it excludes the sizes.
        """
        if found.low is None or found.high is None:
            return CANNOT
        low, high = found.low, found.high
        if self.kind == "about":
            assert self.sizes is not None
            least, greatest = self.sizes
            if least - self.margin <= low and high <= greatest + self.margin:
                return HELD
            return DID_NOT if high < least or low > greatest else CANNOT
        bound, sizes = self.bound, self.sizes
        if self.kind in ("less", "at most"):
            low, high, bound = -high, -low, -bound
            sizes = None if sizes is None else (-sizes[1], -sizes[0])
        if low > bound:
            return HELD
        too_small = (
            self.kind in ("more", "less")
            and sizes is not None
            and bound < sizes[0]
            and high < sizes[0] - self.rounding
        )
        return DID_NOT if high <= bound or too_small else CANNOT

    def remark(self, found: Interval) -> str:
        """How the number stands to the published sizes, where it excludes them; else nothing."""
        if self.sizes is None or found.low is None or found.high is None:
            return ""
        if found.high < self.sizes[0] - self.rounding:
            return "below what was published"
        return "above what was published" if found.low > self.sizes[1] + self.rounding else ""


@attrs.frozen(eq=False)
class Measured:
    """The number of one cell. cell: it in words, with its answers and right ones."""

    cell: str
    value: Interval


@attrs.frozen(eq=False)
class Claim:
    """A claim of a study and its verdict.

    says: with the published size. primary: the cell that decides. found: its number and interval. least: the
    least effect that this cell shows in four of five draws. elsewhere: the numbers of the other cells.
    """

    study: str
    where: str
    says: str
    verdict: str
    primary: str = "–"
    found: str = "–"
    least: str = "–"
    elsewhere: str = "–"
    value: Interval | None = None

    def cells(self) -> tuple[str, ...]:
        where = f"{self.study}, {self.where}"
        return where, self.says, self.primary, self.found, self.least, f"**{self.verdict}**", self.elsewhere

    def to_json(self) -> dict[str, Any]:
        named = attrs.asdict(self, filter=lambda field, _: field.name != "value")
        value = self.value
        least = None if value is None else number(least_effect(value))
        return {**named, "value": interval_json(value), "leastEffect": least}


CLAIM_COLUMNS = (
    *("study", "it says (published)", "primary cell: answers, right", "here, 95 % interval"),
    *("could show", "verdict", "elsewhere"),
)


def decided(
    study: str,
    where: str,
    says: str,
    rule: Rule,
    measured: Sequence[Measured],
    words: Callable[[Interval], str] = ranged,
) -> Claim:
    """A claim on its first number. words: a number and its interval in words."""
    if not measured:
        return Claim(study, where, says, NOT_RUN)
    first, *others = measured
    remark = rule.remark(first.value)
    verdict = rule.verdict(first.value)
    least = least_effect(first.value)
    return Claim(
        study,
        where,
        says,
        verdict,
        first.cell,
        words(first.value) + (f", {remark}" if remark else ""),
        "–" if least is None else words(Interval(least, None, None)).lstrip("+"),
        "; ".join(f"{one.cell.split(':')[0]}: {words(one.value)}" for one in others) or "–",
        first.value,
    )


def claims_of(
    cells: Mapping[str, Sequence[Cell]], deviations: Sequence[Deviation], seed: int = 0
) -> Iterator[Claim]:
    """The claims of the studies whose cells are given, by study. deviations: of Full-ECE, by model."""
    for name, of_study in cells.items():
        studied = [cell for cell in in_order(of_study) if cell.answers.file.profile == PAPER and not cell.why]
        if name == SPIESS:
            yield from _of_spiess(studied, seed)
        elif name == VIRK:
            yield from _of_virk(studied, seed)
        elif name == FULL_ECE:
            yield _of_bins(deviations)


def sizes(values: Iterable[float]) -> tuple[float, float]:
    """The least and the greatest published number."""
    found = list(values)
    return min(found), max(found)


def _printed(name: str, measure: str, column: str, metric: str = "skill") -> list[float]:
    """What a table of Spiess et al. prints, for each of its models that it prints it for."""
    cells = (rows[measure].get(column, {}).get(metric) for rows in table(SPIESS, name).values())
    return [value for value in cells if value is not None]


def _of_spiess(cells: Sequence[Cell], seed: int) -> Iterator[Claim]:
    lines, exact = chosen(cells, "DyPyBench", TESTS), chosen(cells, "DyPyBench", EXACT)
    mbpp, stubs = chosen(cells, "MBPP", TESTS), chosen(cells, "SStubs", EXACT)
    docstrings = table(SPIESS, "3")["exact"]
    more = sizes(
        (docstrings["docstring"][model] - docstrings["none"][model]) / 100 for model in docstrings["none"]
    )
    yield decided(
        *(SPIESS, "4.1.1", f"Docstrings raise correctness (exact match: by {_span(more, 100)} points)."),
        Rule("more", sizes=more),
        [
            Measured(f"{model}, lines by exact: {n} lines of both", value)
            for model, (shown, hidden) in spiess.docstring_pairs(cells, EXACT).items()
            for value, n in [gain(shown.answers, hidden.answers, seed)]
        ],
        spiess.points,
    )
    (_, tests_alone, _), (_, both, _) = table(SPIESS, "4")["false"], table(SPIESS, "4")["true"]
    other = tests_alone / (tests_alone + both)
    yield decided(
        *(
            SPIESS,
            "4.1.2",
            f"About half of the lines that pass the tests ({100 * other:.0f} %) are not the original.",
        ),
        Rule("about", sizes=(other, other), margin=_NEAR_SHARE),
        [
            Measured(_named(tests), _resamples(tests, seed).ratio(passed * ~alike.answers.correct, passed))
            for alike, tests in spiess.judged_twice(cells)
            for passed in [tests.answers.correct.astype(np.float64)]
        ],
        _unsigned,
    )
    best = said(SPIESS, "rawSkill")["value"]
    yield decided(
        *(
            SPIESS,
            "4.2.1",
            "By tests, raw confidences are poorly calibrated: the best skill of all measures and data sets "
            f"is about {best}.",
        ),
        Rule("at most", best + _NEAR_SKILL),
        _best_raw((*lines, *mbpp, *chosen(cells, "HumanEval", TESTS))),
    )
    total = sizes(_printed("5", "Total Prob", "DyPyBench"))
    yield decided(
        *(SPIESS, "4.2.1", f"On lines the total is about as good as the base rate (skill {_span(total)})."),
        Rule("about", sizes=total, margin=_NEAR_SKILL),
        [Measured(_named(cell), cell.known("total").skill) for cell in lines],
    )
    excess = sizes(_printed("5", "Avg Prob", "DyPyBench", "ece"))
    yield decided(
        *(SPIESS, "4.2.1", f"On lines the average probability is over-confident (ECE {_span(excess)})."),
        Rule("more", sizes=excess, rounding=_ROUNDED),
        [
            Measured(
                _named(cell),
                cell.resamples.mean(cell.known("arithmetic-mean").confidence - cell.answers.correct),
            )
            for cell in lines
        ],
    )
    fell = " and ".join(
        f"{raw:.2f} to {rescaled:.2f}"
        for raw, rescaled in zip(
            *(_printed(name, "Total Prob", "MBPP", "ece") for name in ("5", "6")), strict=False
        )
    )
    # A fall is no larger than what is there to fall: its published size is no measure of ours.
    yield decided(
        *(SPIESS, "4.2.2", f"Rescaling lowers ECE (the total on MBPP: {fell})."),
        Rule("more"),
        [Measured(_named(cell), _ece_fall(cell)) for cell in mbpp],
    )
    yield decided(
        *(
            SPIESS,
            "4.2.2",
            "On lines reflective measures add nothing after rescaling (Ask T/F, exact match: 0.00 to 0.01).",
        ),
        Rule("at most", _NEAR_SKILL),
        _corrected(exact, "ask"),
    )
    asked = table(SPIESS, "6")["GPT-3.5"]["Ask T/F"]["MBPP"]["skill"]
    yield decided(
        *(SPIESS, "4.2.2", f"Rescaled, Ask T/F tells on MBPP, too (GPT-3.5: +{asked:.2f})."),
        Rule("more", sizes=(asked, asked), rounding=_ROUNDED),
        _corrected(mbpp, "ask"),
    )
    yield decided(
        *(SPIESS, "4.2.5", "Rescaled, normalising Ask T/F changes little (MBPP: −0.01 to +0.02)."),
        Rule(
            "about",
            sizes=sizes(
                np.subtract(_printed("6", "Ask T/F N", "MBPP"), _printed("6", "Ask T/F", "MBPP")).tolist()
            ),
            margin=_NEAR_SKILL,
        ),
        [
            Measured(_named(cell), _between(cell, "normalised", "ask", seed))
            for cell in mbpp
            if cell.row("normalised") and cell.row("ask")
        ],
    )
    high = sizes(said(SPIESS, "exactSkill")["values"])
    yield decided(
        *(SPIESS, "4.2.6", f"By exact match, the rescaled skill of the total is high ({_span(high)})."),
        Rule("at least", high[0], sizes=high, rounding=_ROUNDED),
        _corrected(exact, "total"),
    )
    apart = sizes(
        np.subtract(
            _printed("7", "Total Prob", "DyPyBench"), _printed("6", "Total Prob", "DyPyBench")
        ).tolist()
    )
    yield decided(
        *(
            SPIESS,
            "4.2.6",
            f"The total tells exact match better than passing tests (skill {_span(apart)} apart).",
        ),
        Rule("more", sizes=apart, rounding=_ROUNDED_TWICE),
        [Measured(_named(tests), _apart(alike, tests)) for alike, tests in spiess.judged_twice(cells)],
    )
    most = said(SPIESS, "stubsSkill")["value"]
    yield decided(
        *(SPIESS, "4.2.6", f"On SStubs exact match is told much less: a skill of at most about {most}."),
        Rule("at most", most, rounding=_ROUNDED),
        _corrected(stubs, "total"),
    )
    yield _over_ninety(lines)
    yield _auc_tells(cells)


def _best_raw(cells: Sequence[Cell]) -> list[Measured]:
    """Of each model the highest raw skill of any measure, the larger model first."""
    best: dict[str, tuple[float, Measured]] = {}
    for cell in in_order(cells):
        for measure in spiess.MEASURES:
            row = cell.row(measure)
            value = None if row is None else row.skill.value
            if row is None or value is None or (cell.model in best and value <= best[cell.model][0]):
                continue
            named = f"{_named(cell, row.n, row.right)} ({SPIESS_NAMES[measure]})"
            best[cell.model] = value, Measured(named, row.skill)
    return [one for _, one in best.values()]


def _over_ninety(lines: Sequence[Cell]) -> Claim:
    claim = SPIESS, "5", "On lines, above 90 % the rescaled average is over-confident (promised minus right)."
    rows = [(cell, cell.known("arithmetic-mean", spiess.LINE, RANDOM).confidence) for cell in lines]
    if rows and not np.any(rows[0][1] >= 0.9):
        return Claim(*claim, CANNOT, _named(rows[0][0]), found="no confidence of 90 % or more")
    return decided(
        *claim,
        Rule("more"),
        [
            Measured(f"{_named(cell)}; {int(np.sum(row >= 0.9))} of 90 % or more", _above_nine(cell, row))
            for cell, row in rows
            if np.any(row >= 0.9)
        ],
    )


def _auc_tells(cells: Sequence[Cell]) -> Claim:
    says = "AUC goes with the rescaled skill (rank correlation 0.7 or more), and less with the rescaled ECE."
    found = {}
    for model, of_model in spiess.of_figure_8(cells).items():
        skills, eces = (list(against_auc(of_model, score)) for score in ("skill", "ece"))
        found[model] = skills, eces
    if not found:
        return Claim(SPIESS, "Figure 8", says, NOT_RUN)
    first, *others = sorted(found, key=lambda model: -spiess.parameters(model))
    for model in table(SPIESS, "6"):
        skills, eces = (published_against_auc(score, model) for score in ("skill", "ece"))
        found[f"published {model}"] = skills, eces
        others.append(f"published {model}")
    verdicts = {model: _tells(*both) for model, both in found.items()}
    words = {
        model: f"{signed(correlation(skills))} ({len(skills)} points) and {signed(correlation(eces))} "
        f"({len(eces)})"
        for model, (skills, eces) in found.items()
    }
    return Claim(
        *(SPIESS, "Figure 8", says, verdicts[first]),
        primary=f"{first}: the study's tasks and measures",
        found=f"{words[first]}; dependent: no interval",
        elsewhere="; ".join(f"{model}: {words[model]}, {verdicts[model]}" for model in others),
    )


def _tells(skills: Sequence[tuple[float, float]], eces: Sequence[tuple[float, float]]) -> str:
    """The verdict on (AUC, rescaled skill) and (AUC, rescaled ECE)."""
    with_skill, with_ece = correlation(skills), correlation(eces)
    if with_skill is None or with_ece is None:
        return CANNOT
    return HELD if with_skill >= _STRONG and abs(with_ece) < with_skill else DID_NOT


def _of_virk(cells: Sequence[Cell], seed: int) -> Iterator[Claim]:
    def of(judge: str, prompting: str, measure: str = virk.HEADLINE) -> list[Cell]:
        """Of each language and model the cell with most answers that holds a measure, Java's and the larger
        model's first."""
        best: dict[tuple[str, str], Cell] = {}
        for cell in cells:
            key = cell.answers.header.language, cell.model
            asked = cell.answers.judge, virk.PROMPTINGS.get(cell.answers.header.prompt_version)
            row = cell.row(measure)
            if asked != (judge, prompting) or row is None:
                continue
            held = best[key].row(measure) if key in best else None
            if held is None or row.n > held.n:
                best[key] = cell
        in_languages = sorted(best, key=lambda key: virk.LANGUAGES.index(key[0]))
        return [best[key] for key in in_languages]

    best = of("best-f1", virk.BM25)
    raw = sizes(_of_table("1", "java", "skill"))
    yield decided(
        *(VIRK, "5.1", f"Raw, the skill is negative everywhere (Java: {_span(raw)})."),
        Rule("less", sizes=raw, rounding=_ROUNDED),
        [Measured(_named(cell), cell.known(virk.HEADLINE).skill) for cell in best],
    )
    yield decided(
        *(
            VIRK,
            "4.3",
            "The geometric mean is better calibrated than the arithmetic one (raw skill, their difference).",
        ),
        Rule("more"),
        [
            Measured(
                _named(cell),
                cell.resamples.skill_difference(
                    cell.known("geometric-mean").confidence, cell.known("arithmetic-mean").confidence
                ),
            )
            for cell in best
        ],
    )
    platt = sizes(_of_table("2", "java", "skill"))
    yield decided(
        *(VIRK, "5.2", f"Platt scaling makes every skill positive (Java: {_span(platt)})."),
        Rule("more", sizes=platt, rounding=_ROUNDED),
        _corrected(best, virk.HEADLINE, virk.LINE, APART),
    )
    yield from _of_asap(of, seed)
    yield from (
        decided(
            *(VIRK, "5.2", says),
            Rule("at least", bound),
            _corrected(of(judge, virk.ASAP), virk.HEADLINE, virk.LINE, APART),
        )
        for judge, bound, says in (
            ("high-precision", 0.2, "With ASAP, at high precision, the skill is over 0.2 (all but GPT-3.5)."),
            ("high-recall", 0.08, "With ASAP, at high recall, the skill is 0.08 or more (Java)."),
        )
    )
    yield _first_better(cells, best)
    yield decided(
        *(
            VIRK,
            "5.3",
            "Later tokens are more probable (sixth and on against the first five, without the ending).",
        ),
        Rule("more"),
        [Measured(_named(cell), _later(cell, seed)) for cell in best],
    )
    share = said(VIRK, "askAboveNine")["share"]
    yield decided(
        *(
            VIRK,
            "6.4",
            f"Asked for true or false, {100 * share:.0f} % of the confidences lie above 0.9 (GPT-3.5).",
        ),
        Rule("about", sizes=(share, share), margin=_NEAR_SHARE),
        [
            Measured(
                f"{_named(cell, row.n, row.right)}, all that were asked about",
                share_of(float(np.mean(row.confidence > 0.9)), len(set(_groups(cell, row.at.tolist())))),
            )
            for cell in of("best-f1", virk.BM25, "ask-token")
            if (row := cell.row("ask-token")) is not None
        ],
        _unsigned,
    )
    yield decided(
        *(VIRK, "6.4", "Rescaled, true or false tells no more than the base rate."),
        Rule("at most", _NEAR_SKILL),
        _corrected(of("best-f1", virk.BM25, "ask-token"), "ask-token", virk.LINE, APART),
    )
    # With the study's four examples; where no records hold these, with none.
    scale = "scale" if of("best-f1", virk.BM25, "scale") else "scale-number"
    how = "" if scale == "scale" else " (here the number alone, without examples)"
    yield decided(
        *(VIRK, "6.4", f"Ratings of 1 to 4 are not well calibrated: their raw skill is negative{how}."),
        Rule("less"),
        [
            Measured(_named(cell, row.n, row.right), row.skill)
            for cell in of("best-f1", virk.BM25, scale)
            if (row := cell.row(scale)) is not None
        ],
    )


def _of_asap(of: Callable[..., list[Cell]], seed: int) -> Iterator[Claim]:
    """What facts about the code change: on the functions that both promptings have."""
    pairs = [
        (cell, plain)
        for plain in of("best-f1", virk.BM25)
        for cell in of("best-f1", virk.ASAP)
        if (cell.model, cell.answers.header.language) == (plain.model, plain.answers.header.language)
    ]
    success = sizes(
        np.subtract(_of_table("3", "java", "successRate"), _of_table("2", "java", "successRate")).tolist()
    )
    yield decided(
        *(VIRK, "5.2", f"ASAP raises the share of good summaries (Java: by {_span(success, 100)} points)."),
        Rule("more", sizes=success, rounding=_ROUNDED_TWICE),
        [
            Measured(f"{_named(cell).split(':')[0]}: {n} functions of both", value)
            for cell, plain in pairs
            for value, n in [gain(cell.answers, plain.answers, seed)]
        ],
        spiess.points,
    )
    for language, kind in (("java", "less"), ("python", "more")):
        changes = np.subtract(_of_table("3", language, "skill"), _of_table("2", language, "skill")).round(2)
        told = sizes(change for change in changes.tolist() if (change < 0) == (kind == "less") and change)
        verb = "lowers" if kind == "less" else "raises"
        yield decided(
            *(
                VIRK,
                "5.2",
                f"ASAP {verb} the skill of {language.capitalize()} (by up to {max(map(abs, told)):.2f}).",
            ),
            Rule(kind, sizes=told, rounding=_ROUNDED_TWICE),
            [
                Measured(f"{_named(cell).split(':')[0]}: {n} functions of both", value)
                for cell, plain in pairs
                if cell.answers.header.language == language
                for value, n in [_skill_on_both(cell, plain, seed)]
            ],
        )


def _first_better(cells: Sequence[Cell], best: Sequence[Cell]) -> Claim:
    """best: the cells that may decide it, the primary one first. Adjusted over all cells that were tested."""
    says = "The first t tokens are significantly better than all in some configurations (alpha 0.01)."
    tested = [cell for cell in cells if cell.gain is not None]
    first = next((cell for cell in best if cell.gain is not None), None)
    if first is None or first.gain is None:
        return Claim(VIRK, "5.3", says, NOT_RUN)
    adjusted = adjusted_p_values(tested)
    lowest = min(adjusted.values())
    alpha = said(VIRK, "firstTokens")["alpha"]
    least = least_effect(first.gain)
    significant = sum(p <= alpha for p in adjusted.values())
    p = adjusted[first.answers.name]
    return Claim(
        *(VIRK, "5.3", says, HELD if p <= alpha else CANNOT, _named(first)),
        found=f"{ranged(first.gain, 3)}, adjusted p {p:.2f}",
        least="–" if least is None else f"{least:.3f}",
        elsewhere=f"{significant} of {len(tested)} tests significant, least adjusted p {lowest:.2f}",
        value=first.gain,
    )


Deviation = tuple[str, float, float, tuple[float, float], float]
"""Of `full_ece.deviations`: a model, the relative deviations over M of cw-ECE and Full-ECE, the least and the
largest of Full-ECE that a calibrated model shows at as many positions, and how much of the rise of Full-ECE
over M counting noise alone makes."""
# From this share of the rise on, noise may be why Full-ECE depends on M.
_NOISE = 0.5


def _of_bins(deviations: Sequence[Deviation]) -> Claim:
    printed = (sizes(table(FULL_ECE, "1")[name].values()) for name in ("cw-ECE", "Full-ECE"))
    classwise, full = (_span(found) for found in printed)
    says = (
        f"cw-ECE depends on the number of bins far more than Full-ECE (deviation {classwise} % and {full} %)."
    )
    if not deviations:
        return Claim(FULL_ECE, "Table 1", says, NOT_RUN)
    found = sorted(deviations, key=lambda one: -spiess.parameters(one[0]))
    words = [
        f"{100 * cw:.1f} % and {100 * full:.1f} % (Full-ECE of a calibrated model: {100 * low:.0f} to "
        f"{100 * high:.0f} %)"
        for _, cw, full, (low, high), _ in found
    ]
    name, cw, full_, _, noise = found[0]
    undecided = full_ > cw and noise >= _NOISE
    verdict = CANNOT if undecided else HELD if cw >= 2 * full_ else DID_NOT
    others = "; ".join(f"{one[0]}: {told}" for one, told in zip(found[1:], words[1:], strict=True))
    return Claim(FULL_ECE, "Table 1", says, verdict, primary=name, found=words[0], elsewhere=others or "–")


def _of_table(name: str, language: str, metric: str) -> list[float]:
    return [one[language][metric] for one in table(VIRK, name).values()]


def _span(found: tuple[float, float], times: float = 1.0) -> str:
    """Two sizes in words, one if they are the same."""
    digits = 2 if times == 1.0 else 1
    low, high = (f"{times * value:.{digits}f}".replace("-", "−") for value in found)
    return low if low == high else f"{low} to {high}"


def _unsigned(found: Interval) -> str:
    return ranged(found, sign=False)


def _named(cell: Cell, n: int | None = None, right: int | None = None) -> str:
    """A cell in words, with its answers and right ones."""
    answers = cell.answers
    if answers.header.task == "summary":
        asked = virk.PROMPTINGS[answers.header.prompt_version]
        what = f"{answers.header.language.capitalize()}, {asked}, {answers.judge}"
    else:
        one = spiess.data_set_of(cell)
        assert one is not None
        what = f"{one.here} by {answers.judge}"
    counts = answers.n if n is None else n, answers.right if right is None else right
    return f"{cell.model}, {what}: {counts[0]}, {counts[1]}"


def share_of(share: float, groups: int) -> Interval:
    """A share with Wilson's interval, which says something of a share of 0, too, as if the answers of a group
    were all alike."""
    return Interval(share, *wilson_interval(round(share * groups), groups))


def _resamples(cell: Cell, seed: int) -> Resamples:
    return Resamples(cell.answers.correct, cell.answers.groups, seed=seed)


def _groups(cell: Cell, at: Sequence[int]) -> list[str]:
    return [cell.answers.groups[place] for place in at]


def _corrected(
    cells: Iterable[Cell], measure: str, line: str = spiess.LINE, folds: str = RANDOM
) -> list[Measured]:
    """The skills out of fold, less what chance labels give, of the cells that hold a measure."""
    found = []
    for cell in cells:
        row = cell.row(measure, line, folds)
        if row is not None:
            found.append(Measured(_named(cell, row.n, row.right), cell.corrected(measure, line, folds).skill))
    return found


def _ece_fall(cell: Cell) -> Interval:
    """By how much the study's rescaling lowers the ECE of the total."""
    raw, rescaled = (
        row.confidence for row in (cell.known("total"), cell.known("total", spiess.LINE, RANDOM))
    )
    drawn = cell.resamples.eces(raw) - cell.resamples.eces(rescaled)
    correct = cell.answers.correct
    return percentile_interval(
        expected_calibration_error(raw, correct) - expected_calibration_error(rescaled, correct), drawn
    )


def _between(cell: Cell, measure: str, other: str, seed: int) -> Interval:
    """The rescaled skill of a measure less that of another, on the answers that have both."""
    a, b = (cell.row(name, spiess.LINE, RANDOM) for name in (measure, other))
    assert a is not None
    assert b is not None
    at, first, second = np.intersect1d(a.at, b.at, return_indices=True)
    resamples = Resamples(cell.answers.correct[at], _groups(cell, at.tolist()), seed=seed)
    return resamples.skill_difference(a.confidence[first], b.confidence[second])


def _apart(alike: Cell, tests: Cell) -> Interval:
    """The rescaled skill of the total by exact match less that by tests, on the same resamples."""
    p, q = (cell.known("total", spiess.LINE, RANDOM) for cell in (alike, tests))
    drawn = alike.resamples.skills(p.confidence) - tests.resamples.skills(q.confidence)
    return percentile_interval((p.skill.value or 0.0) - (q.skill.value or 0.0), drawn)


def _above_nine(cell: Cell, confidence: FloatArray) -> Interval:
    """The mean of the confidences of at least 0.9 less the share of these that is right."""
    above = (confidence >= 0.9).astype(np.float64)
    return cell.resamples.ratio((confidence - cell.answers.correct) * above, above)


def _later(cell: Cell, seed: int) -> Interval:
    """The mean probability of the later tokens less that of the early ones, of answers that have both.

    The token that ends the text is always late and nearly certain: it does not count.
    """
    answers = cell.answers
    logprobs = [
        item[:-1] if record.stop != "length" and len(item) == len(record.logprobs) else item
        for item, record in zip(answers.logprobs, answers.found, strict=True)
    ]
    kept = [at for at, item in enumerate(logprobs) if len(item) > _EARLY]
    gaps = [np.mean(np.exp(logprobs[at][_EARLY:])) - np.mean(np.exp(logprobs[at][:_EARLY])) for at in kept]
    return Resamples(cell.answers.correct[kept], _groups(cell, kept), seed=seed).mean(np.array(gaps))


def _skill_on_both(first: Cell, second: Cell, seed: int) -> tuple[Interval, int]:
    """The rescaled skill of the first less that of the second, on the items of both; and their number."""
    items = [[record.item for record in cell.answers.found] for cell in (first, second)]
    both = sorted(set(items[0]) & set(items[1]))
    parts: list[tuple[FloatArray, BoolArray, Resamples]] = []
    for cell, names in zip((first, second), items, strict=True):
        place = {name: at for at, name in enumerate(names)}
        at = [place[name] for name in both]
        correct = cell.answers.correct[at]
        resamples = Resamples(correct, _groups(cell, at), seed=seed)
        parts.append((cell.known(virk.HEADLINE, virk.LINE, APART).confidence[at], correct, resamples))
    (p, y, a), (q, z, b) = parts
    return percentile_interval(skill_score(p, y) - skill_score(q, z), a.skills(p) - b.skills(q)), len(both)
