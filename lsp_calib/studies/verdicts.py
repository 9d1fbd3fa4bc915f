"""Claims of the studies, and whether they hold here: one cell decides each, named before its number is known.

The primary cell is the larger model's, in the study's own condition, on the study's own task; where a claim
names no task, on MBPP, the largest set that tests judge, and on Java, the first language of the summaries.
The other cells are told, and decide nothing. No interval is given over rows that share their answers. What
the claims say stands in claims.toml.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import attrs
import numpy as np

from lsp_calib.calibration.arrays import FloatArray
from lsp_calib.calibration.reliability import wilson_interval
from lsp_calib.calibration.scores import expected_calibration_error, skill_score
from lsp_calib.calibration.validation import Interval, percentile_interval
from lsp_calib.report.words import signed
from lsp_calib.studies import spiess, virk
from lsp_calib.studies.published import FULL_ECE, SPIESS, SPIESS_NAMES, VIRK, said, table
from lsp_calib.studies.score import (
    APART,
    PAPER,
    RANDOM,
    Answers,
    Cell,
    Row,
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
_CLAIMS: Mapping[str, Any] = tomllib.loads(Path(__file__).with_name("claims.toml").read_text("utf-8"))


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
        low, high, bound, sizes = found.low, found.high, self.bound, self.sizes
        if self.kind == "about":
            assert sizes is not None
            if sizes[0] - self.margin <= low and high <= sizes[1] + self.margin:
                return HELD
            return DID_NOT if high < sizes[0] or low > sizes[1] else CANNOT
        if self.kind in ("less", "at most"):
            low, high, bound = -high, -low, -bound
            sizes = None if sizes is None else (-sizes[1], -sizes[0])
        if low > bound:
            return HELD
        effect = self.kind in ("more", "less") and sizes is not None and bound < sizes[0]
        too_small = effect and sizes is not None and high < sizes[0] - self.rounding
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
        least = None if self.value is None else number(least_effect(self.value))
        return {**named, "value": interval_json(self.value), "leastEffect": least}


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
    remark, least = rule.remark(first.value), least_effect(first.value)
    return Claim(
        *(study, where, says, rule.verdict(first.value), first.cell),
        found=words(first.value) + (f", {remark}" if remark else ""),
        least="–" if least is None else words(Interval(least, None, None)).lstrip("+"),
        elsewhere="; ".join(f"{one.cell.split(':')[0]}: {words(one.value)}" for one in others) or "–",
        value=first.value,
    )


_unsigned = partial(ranged, sign=False)
_UNITS: Mapping[str, Callable[[Interval], str]] = {"points": spiess.points, "share": _unsigned}


def _claim(
    study: str,
    name: str,
    measured: Sequence[Measured],
    published: Iterable[float] = (),
    bound: float = 0.0,
    **values: Any,
) -> Claim:
    """A claim of claims.toml. published: its sizes. values: what is filled in besides."""
    one, found = _CLAIMS[study][name], sorted(published)
    sizes, unit = (found[0], found[-1]) if found else None, one.get("unit", "")
    span = _span(found, 100 if unit == "points" else 1)
    margin = one.get("margin", 0.0)
    about = one["kind"] == "about"
    rule = Rule(
        *(one["kind"], bound if about else bound + margin, sizes),
        margin=margin if about else 0.0,
        rounding=one.get("rounding", 0.0),
    )
    says = one["says"].format(sizes=span, bound=bound, **values)
    return decided(study, one["where"], says, rule, measured, _UNITS.get(unit, ranged))


def _told(study: str, name: str, verdict: str, **more: Any) -> Claim:
    """A claim of claims.toml that no interval decides."""
    return Claim(study, _CLAIMS[study][name]["where"], _CLAIMS[study][name]["says"], verdict, **more)


def _span(found: Sequence[float], times: float = 1.0) -> str:
    """Sizes in words, one if they are the same."""
    digits = 2 if times == 1.0 else 1
    ends = (f"{times * value:.{digits}f}".replace("-", "−") for value in (*found[:1], *found[-1:]))
    return " to ".join(dict.fromkeys(ends))


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


def _measured(
    cells: Iterable[Cell],
    number: Callable[[Cell, Row], Interval] = lambda _, row: row.skill,
    measure: str = spiess.HEADLINE,
    *line: str,
) -> list[Measured]:
    """The numbers of the cells that hold a row. line: its rescaling and folds."""
    rows = ((cell, cell.row(measure, *line)) for cell in cells)
    return [
        Measured(_named(cell, row.n, row.right), number(cell, row)) for cell, row in rows if row is not None
    ]


_STUDIED, _PLATT = (spiess.LINE, RANDOM), (virk.LINE, APART)


def _corrected(cells: Iterable[Cell], measure: str, line: tuple[str, str] = _STUDIED) -> list[Measured]:
    """The skills out of fold, less what chance labels give, of the cells that hold a measure."""
    return _measured(cells, lambda cell, _: cell.corrected(measure, *line).skill, measure, *line)


def _printed(name: str, measure: str, column: str, metric: str = "skill") -> list[float]:
    """What a table of Spiess et al. prints, for each of its models that it prints it for."""
    cells = (rows[measure].get(column, {}).get(metric) for rows in table(SPIESS, name).values())
    return [value for value in cells if value is not None]


def _of_spiess(cells: Sequence[Cell], seed: int) -> Iterator[Claim]:
    claim = partial(_claim, SPIESS)
    lines, exact = chosen(cells, "DyPyBench", TESTS), chosen(cells, "DyPyBench", EXACT)
    mbpp, twice = chosen(cells, "MBPP", TESTS), spiess.judged_twice(cells)
    docstrings = table(SPIESS, "3")["exact"]
    more = [(docstrings["docstring"][model] - none) / 100 for model, none in docstrings["none"].items()]
    both = [
        Measured(f"{model}, lines by exact: {n} lines of both", value)
        for model, (shown, hidden) in spiess.docstring_pairs(cells, EXACT).items()
        for value, n in [gain(shown.answers, hidden.answers, seed)]
    ]
    yield claim("docstrings", both, more)
    tests_alone, passing = table(SPIESS, "4")["false"][1], table(SPIESS, "4")["true"][1]
    other = tests_alone / (tests_alone + passing)
    others = [
        Measured(_named(tests), tests.resamples.ratio(passed * ~alike.answers.correct, passed))
        for alike, tests in twice
        for passed in [tests.answers.correct.astype(np.float64)]
    ]
    yield claim("not-original", others, [other], percent=100 * other)
    raw = _best_raw((*lines, *mbpp, *chosen(cells, "HumanEval", TESTS)))
    yield claim("raw-skill", raw, bound=said(SPIESS, "rawSkill")["value"])
    yield claim("base-rate", _measured(lines), _printed("5", "Total Prob", "DyPyBench"))
    excess = _measured(
        lines,
        lambda cell, row: cell.resamples.mean(row.confidence - cell.answers.correct),
        "arithmetic-mean",
    )
    yield claim("over-confident", excess, _printed("5", "Avg Prob", "DyPyBench", "ece"))
    eces = zip(*(_printed(name, "Total Prob", "MBPP", "ece") for name in ("5", "6")), strict=False)
    fell = " and ".join(f"{raw:.2f} to {rescaled:.2f}" for raw, rescaled in eces)
    yield claim("ece-falls", _measured(mbpp, _ece_fall), fell=fell)
    yield claim("reflective-lines", _corrected(exact, "ask"))
    asked = table(SPIESS, "6")["GPT-3.5"]["Ask T/F"]["MBPP"]["skill"]
    yield claim("ask-mbpp", _corrected(mbpp, "ask"), [asked])
    normalised = [cell for cell in mbpp if cell.row("normalised") and cell.row("ask")]
    changes = _less(_printed("6", "Ask T/F N", "MBPP"), _printed("6", "Ask T/F", "MBPP"))
    between = _measured(normalised, lambda cell, _: _between(cell, "normalised", "ask", seed))
    yield claim("normalised", between, changes)
    high = said(SPIESS, "exactSkill")["values"]
    yield claim("exact", _corrected(exact, "total"), high, min(high))
    apart = _less(*(_printed(name, "Total Prob", "DyPyBench") for name in ("7", "6")))
    differences = [Measured(_named(tests), _apart(alike, tests)) for alike, tests in twice]
    yield claim("apart", differences, apart)
    stubs = _corrected(chosen(cells, "SStubs", EXACT), "total")
    yield claim("stubs", stubs, bound=said(SPIESS, "stubsSkill")["value"])
    averages = [(cell, cell.known("arithmetic-mean", *_STUDIED).confidence) for cell in lines]
    if averages and not np.any(averages[0][1] >= 0.9):
        found = "no confidence of 90 % or more"
        yield _told(SPIESS, "over-ninety", CANNOT, primary=_named(lines[0]), found=found)
    else:
        yield claim("over-ninety", [_above_nine(*one) for one in averages if np.any(one[1] >= 0.9)])
    yield _auc_tells(cells)


def _best_raw(cells: Sequence[Cell]) -> list[Measured]:
    """Of each model the highest raw skill of any measure, the larger model first."""
    best: dict[str, Measured] = {}
    for cell in in_order(cells):
        for measure in spiess.MEASURES:
            row = cell.row(measure)
            if row is None or row.skill.value is None:
                continue
            if cell.model not in best or row.skill.value > (best[cell.model].value.value or 0.0):
                named = f"{_named(cell, row.n, row.right)} ({SPIESS_NAMES[measure]})"
                best[cell.model] = Measured(named, row.skill)
    return list(best.values())


def _auc_tells(cells: Sequence[Cell]) -> Claim:
    ours, theirs = spiess.against_auc_by_model(cells)
    if not ours:
        return _told(SPIESS, "auc", NOT_RUN)
    found = {**ours, **{f"published {model}": points for model, points in theirs.items()}}
    first, *others = sorted(ours, key=lambda model: -spiess.parameters(model))
    told = {model: tuple(map(correlation, both)) for model, both in found.items()}
    verdicts = {model: _tells(*both) for model, both in told.items()}
    words = {
        model: f"{signed(told[model][0])} ({len(skills)} points) and {signed(told[model][1])} ({len(eces)})"
        for model, (skills, eces) in found.items()
    }
    rest = [*others, *(model for model in found if model not in ours)]
    return _told(
        *(SPIESS, "auc", verdicts[first]),
        primary=f"{first}: the study's tasks and measures",
        found=f"{words[first]}; dependent: no interval",
        elsewhere="; ".join(f"{model}: {words[model]}, {verdicts[model]}" for model in rest),
    )


def _tells(with_skill: float | None, with_ece: float | None) -> str:
    """The verdict on the correlations of AUC."""
    if with_skill is None or with_ece is None:
        return CANNOT
    return HELD if with_skill >= _STRONG and abs(with_ece) < with_skill else DID_NOT


def _of_virk(cells: Sequence[Cell], seed: int) -> Iterator[Claim]:
    claim = partial(_claim, VIRK)

    def of(judge: str, prompting: str, measure: str = virk.HEADLINE) -> list[Cell]:
        """Of each language and model the cell with most answers that holds a measure, Java's and the larger
        model's first."""
        best: dict[tuple[str, str], tuple[int, Cell]] = {}
        for cell in cells:
            key = cell.answers.header.language, cell.model
            asked = cell.answers.judge, virk.PROMPTINGS.get(cell.answers.header.prompt_version)
            row = cell.row(measure)
            if asked == (judge, prompting) and row is not None and row.n > best.get(key, (-1,))[0]:
                best[key] = row.n, cell
        return [best[key][1] for key in sorted(best, key=lambda key: virk.LANGUAGES.index(key[0]))]

    best, asap = of("best-f1", virk.BM25), of("best-f1", virk.ASAP)
    yield claim("raw", _measured(best, measure=virk.HEADLINE), _of_table("1", "java", "skill"))
    means = _measured(
        best,
        lambda cell, row: cell.resamples.skill_difference(
            row.confidence, cell.known("arithmetic-mean").confidence
        ),
        "geometric-mean",
    )
    yield claim("geometric", means)
    platt = _corrected(best, virk.HEADLINE, _PLATT)
    yield claim("platt", platt, _of_table("2", "java", "skill"))
    pairs = [
        (cell, plain)
        for plain in best
        for cell in asap
        if (cell.model, cell.answers.header.language) == (plain.model, plain.answers.header.language)
    ]
    success = _less(*(_of_table(name, "java", "successRate") for name in ("3", "2")))
    more = [_on_both(cell, *gain(cell.answers, plain.answers, seed)) for cell, plain in pairs]
    yield claim("asap", more, success)
    for language, sign in (("java", -1), ("python", 1)):
        changes = _less(*(_of_table(name, language, "skill") for name in ("3", "2")))
        told = [change for change in np.round(changes, 2).tolist() if change * sign > 0]
        of_language = [pair for pair in pairs if pair[0].answers.header.language == language]
        differences = [_on_both(pair[0], *_skill_on_both(*pair, seed)) for pair in of_language]
        yield claim(f"asap-{language}", differences, told, most=max(map(abs, told)))
    for judge, bound in (("high-precision", 0.2), ("high-recall", 0.08)):
        yield claim(judge, _corrected(of(judge, virk.ASAP), virk.HEADLINE, _PLATT), bound=bound)
    yield _first_better(cells, best)
    yield claim("later", _measured(best, lambda cell, _: _later(cell, seed), virk.HEADLINE))
    asked = of("best-f1", virk.BM25, "ask-token")
    share = said(VIRK, "askAboveNine")["share"]
    above = [
        attrs.evolve(one, cell=f"{one.cell}, all that were asked about")
        for one in _measured(asked, _share_above_nine, "ask-token")
    ]
    yield claim("above-nine", above, [share], percent=100 * share)
    yield claim("ask", _corrected(asked, "ask-token", _PLATT))
    # With the study's four examples; where no records hold these, with none.
    scale = "scale" if of("best-f1", virk.BM25, "scale") else "scale-number"
    how = "" if scale == "scale" else " (here the number alone, without examples)"
    yield claim("scale", _measured(of("best-f1", virk.BM25, scale), measure=scale), how=how)


def _on_both(cell: Cell, value: Interval, n: int) -> Measured:
    return Measured(f"{_named(cell).split(':')[0]}: {n} functions of both", value)


def _first_better(cells: Sequence[Cell], best: Sequence[Cell]) -> Claim:
    """best: the cells that may decide it, the primary one first. Adjusted over all cells that were tested."""
    adjusted = adjusted_p_values([cell for cell in cells if cell.gain is not None])
    first = next((cell for cell in best if cell.gain is not None), None)
    if first is None or first.gain is None:
        return _told(VIRK, "first", NOT_RUN)
    alpha, p, least = (
        said(VIRK, "firstTokens")["alpha"],
        adjusted[first.answers.name],
        least_effect(first.gain),
    )
    significant, lowest = sum(p <= alpha for p in adjusted.values()), min(adjusted.values())
    return _told(
        *(VIRK, "first", HELD if p <= alpha else CANNOT),
        primary=_named(first),
        found=f"{ranged(first.gain, 3)}, adjusted p {p:.2f}",
        least="–" if least is None else f"{least:.3f}",
        elsewhere=f"{significant} of {len(adjusted)} tests significant, least adjusted p {lowest:.2f}",
        value=first.gain,
    )


Deviation = tuple[str, float, float, tuple[float, float], float]
"""Of `full_ece.deviations`: a model, the relative deviations over M of cw-ECE and Full-ECE, the least and the
largest of Full-ECE that a calibrated model shows at as many positions, and how much of the rise of Full-ECE
over M counting noise alone makes."""
# From this share of the rise on, noise may be why Full-ECE depends on M.
_NOISE = 0.5


def _of_bins(deviations: Sequence[Deviation]) -> Claim:
    one, printed = _CLAIMS[FULL_ECE]["bins"], table(FULL_ECE, "1")
    classwise, full = (_span(sorted(printed[name].values())) for name in ("cw-ECE", "Full-ECE"))
    claim = partial(Claim, FULL_ECE, one["where"], one["says"].format(classwise=classwise, full=full))
    if not deviations:
        return claim(NOT_RUN)
    found = sorted(deviations, key=lambda one: -spiess.parameters(one[0]))
    words = {
        name: f"{100 * cw:.1f} % and {100 * full:.1f} % (Full-ECE of a calibrated model: {100 * low:.0f} to "
        f"{100 * high:.0f} %)"
        for name, cw, full, (low, high), _ in found
    }
    name, cw, full_, _, noise = found[0]
    undecided = full_ > cw and noise >= _NOISE
    verdict = CANNOT if undecided else HELD if cw >= 2 * full_ else DID_NOT
    others = "; ".join(f"{model}: {told}" for model, told in words.items() if model != name)
    return claim(verdict, primary=name, found=words[name], elsewhere=others or "–")


def _less(first: Sequence[float], second: Sequence[float]) -> list[float]:
    """Printed numbers less others."""
    differences: list[float] = np.subtract(first, second).tolist()
    return differences


def _of_table(name: str, language: str, metric: str) -> list[float]:
    return [one[language][metric] for one in table(VIRK, name).values()]


def _named(cell: Cell, n: int | None = None, right: int | None = None) -> str:
    """A cell in words, with its answers and right ones."""
    answers, header = cell.answers, cell.answers.header
    if header.task == "summary":
        asked = virk.PROMPTINGS[header.prompt_version]
        what = f"{header.language.capitalize()}, {asked}, {answers.judge}"
    else:
        what = spiess.name_of(cell)
    counts = answers.n if n is None else n, answers.right if right is None else right
    return f"{cell.model}, {what}: {counts[0]}, {counts[1]}"


def share_of(share: float, groups: int) -> Interval:
    """A share with Wilson's interval, which says something of a share of 0, too, as if the answers of a group
    were all alike."""
    return Interval(share, *wilson_interval(round(share * groups), groups))


def _share_above_nine(cell: Cell, row: Row) -> Interval:
    return share_of(row.above, len(set(cell.answers.part(row.at).groups)))


def _of(answers: Answers, seed: int) -> Resamples:
    return Resamples(answers.correct, answers.groups, seed=seed)


def _ece_fall(cell: Cell, raw: Row) -> Interval:
    """By how much the study's rescaling lowers the ECE of the total."""
    both = raw.confidence, cell.known("total", *_STUDIED).confidence
    before, after = (expected_calibration_error(one, cell.answers.correct) for one in both)
    return percentile_interval(before - after, np.subtract(*map(cell.resamples.eces, both)))


def _between(cell: Cell, measure: str, other: str, seed: int) -> Interval:
    """The rescaled skill of a measure less that of another, on the answers that have both."""
    a, b = (cell.known(name, *_STUDIED) for name in (measure, other))
    at, first, second = np.intersect1d(a.at, b.at, return_indices=True)
    both = a.confidence[first], b.confidence[second]
    return _of(cell.answers.part(at), seed).skill_difference(*both)


def _apart(alike: Cell, tests: Cell) -> Interval:
    """The rescaled skill of the total by exact match less that by tests, on the same resamples."""
    p, q = (cell.known("total", *_STUDIED) for cell in (alike, tests))
    drawn = alike.resamples.skills(p.confidence) - tests.resamples.skills(q.confidence)
    return percentile_interval((p.skill.value or 0.0) - (q.skill.value or 0.0), drawn)


def _above_nine(cell: Cell, confidence: FloatArray) -> Measured:
    """The mean of the confidences of at least 0.9 less the share of these that is right."""
    above = (confidence >= 0.9).astype(np.float64)
    found = cell.resamples.ratio((confidence - cell.answers.correct) * above, above)
    return Measured(f"{_named(cell)}; {int(above.sum())} of 90 % or more", found)


def _later(cell: Cell, seed: int) -> Interval:
    """The mean probability of the later tokens less that of the early ones, of answers that have both.

    The token that ends the text is always late and nearly certain: it does not count.
    """
    logprobs = [
        item[:-1] if record.stop != "length" and len(item) == len(record.logprobs) else item
        for item, record in zip(cell.answers.logprobs, cell.answers.found, strict=True)
    ]
    kept = np.array([at for at, item in enumerate(logprobs) if len(item) > _EARLY], dtype=np.intp)
    p = [np.exp(logprobs[at]) for at in kept]
    gaps = np.array([np.mean(one[_EARLY:]) - np.mean(one[:_EARLY]) for one in p])
    return _of(cell.answers.part(kept), seed).mean(gaps)


def _skill_on_both(first: Cell, second: Cell, seed: int) -> tuple[Interval, int]:
    """The rescaled skill of the first less that of the second, on the items of both; and their number."""
    places = [{record.item: at for at, record in enumerate(cell.answers.found)} for cell in (first, second)]
    both = sorted(places[0].keys() & places[1].keys())
    skills = []
    for cell, place in zip((first, second), places, strict=True):
        at = np.array([place[name] for name in both], dtype=np.intp)
        part, confidence = cell.answers.part(at), cell.known(virk.HEADLINE, *_PLATT).confidence[at]
        skills.append((skill_score(confidence, part.correct), _of(part, seed).skills(confidence)))
    (a, drawn_a), (b, drawn_b) = skills
    return percentile_interval(a - b, drawn_a - drawn_b), len(both)
