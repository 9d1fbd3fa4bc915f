"""Scores of what models say of their own summaries, from what their records observed.

Each measure in the forms that the studies give it, and in ours: raw, and rescaled out of fold as any other
confidence is.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

import numpy as np

from lsp_calib.calibration.arrays import quietly
from lsp_calib.calibration.validation import out_of_fold
from lsp_calib.corpus.records import Header, Record, groups_of
from lsp_calib.corpus.tasks import FEWEST
from lsp_calib.errors import DataError
from lsp_calib.studies.measures import SCALE
from lsp_calib.studies.scores import (
    ALL,
    RESAMPLES,
    Row,
    Scores,
    both_sides,
    few_right_note,
    fit_curve,
    labels,
    row_of,
    told_apart,
    too_few_right,
)

Observed = Mapping[str, float]
Form = Callable[[Observed], float | None]
"""The confidence in [0, 1] of a record's numbers by "OBSERVATION.NAME"; None for an invalid answer."""


def _probability(name: str) -> Form:
    """The exponential of a number."""
    return lambda seen: math.exp(min(seen[name], 0.0)) if name in seen else None


def _contained(prefix: str) -> Form:
    """Spiess et al.: true, or 0 where only false is among the likeliest."""

    def confidence(seen: Observed) -> float | None:
        if f"{prefix}.contained-true" in seen:
            return math.exp(min(seen[f"{prefix}.contained-true"], 0.0))
        return 0.0 if f"{prefix}.contained-false" in seen else None

    return confidence


def _normalised(true: str, false: str) -> Form:
    """true / (true + false); one that was not found counts as 0. None if neither was."""

    def confidence(seen: Observed) -> float | None:
        if true not in seen and false not in seen:
            return None
        # Of logarithms: both may be too small for a sum of probabilities.
        one, other = seen.get(true, -math.inf), seen.get(false, -math.inf)
        return 1.0 / (1.0 + math.exp(min(other - one, 700.0)))

    return confidence


def _stated(seen: Observed) -> float | None:
    return seen.get("verbalised.confidence")


def _stated_but_half(seen: Observed) -> float | None:
    """Without every 0.5, whether it was stated or stands for nothing stated."""
    found = _stated(seen)
    return None if found == 0.5 else found


def _expected(seen: Observed) -> float | None:
    """The mean rating by the model's own probabilities of the four, on [0, 1]. Ours."""
    logs = [seen.get(f"scale.{rating}") for rating in SCALE]
    known = [value for value in logs if value is not None]
    if len(known) < len(SCALE):
        return None
    most = max(known)
    weights = [math.exp(value - most) for value in known]
    mean = math.fsum(r * w for r, w in zip(SCALE, weights, strict=True)) / math.fsum(weights)
    return min(max((mean - 1) / (len(SCALE) - 1), 0.0), 1.0)


FORMS: Mapping[str, Mapping[str, Form]] = MappingProxyType(
    {
        "ask": {
            "true": _probability("ask.true"),
            "true, contained in five (Spiess et al.)": _contained("ask"),
            "the token True of five (Virk et al.)": _probability("ask.true-token"),
            "true, in the conversation": _probability("follow-up.true"),
        },
        "normalised": {
            "true / (true + false)": _normalised("ask.true", "ask.false"),
            "contained in five (Spiess et al.)": _normalised("ask.contained-true", "ask.contained-false"),
            "true / (true + false), in the conversation": _normalised("follow-up.true", "follow-up.false"),
        },
        "verbalised": {
            "stated, else 0.5 (Spiess et al.)": _stated,
            "stated, without every 0.5 (Spiess et al.)": _stated_but_half,
        },
        "scale": {
            "vote of five": lambda seen: seen.get("scale.vote"),
            "mean of five": lambda seen: seen.get("scale.mean"),
            "expected rating": _expected,
        },
    }
)
"""The forms of each measure, by what tables call them, the one of the paper or ours that tables begin with
first."""


NEEDED: Mapping[str, frozenset[str]] = MappingProxyType(
    {
        "ask": frozenset({"ask", "follow-up"}),
        "normalised": frozenset({"ask", "follow-up"}),
        "verbalised": frozenset({"verbalised"}),
        "scale": frozenset({"scale"}),
    }
)
"""The observations of which each is enough for some form of a measure of `FORMS`."""


def score_reflective(
    header: Header,
    records: Sequence[Record],
    measure: str,
    held_out: frozenset[str] = frozenset(),
    *,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> Scores:
    """Score a measure of `FORMS` on the answers that would have been offered, without those held out.

    Rows are out of fold where they are rescaled. An answer without the form's confidence is invalid; its rows
    leave it out, and a note says how many there are.
    Raises DataError if fewer than 20 records hold it, or no criterion tells answers apart.
    """
    kept = [record for record in records if record.group not in held_out]
    apart = len(records) - len(kept)
    offered = [record for record in kept if record.shown]
    listed = header.observations
    seen = [listed.named(record.observed) if listed is not None else {} for record in offered]
    read = {name: [form(one) for one in seen] for name, form in FORMS[measure].items()}
    forms = {
        name: found for name, found in read.items() if sum(value is not None for value in found) >= FEWEST
    }
    if not forms:
        raise DataError(
            f"Fewer than {FEWEST} of {len(kept)} records hold what {measure!r} needs. Make them with "
            "`lsp-calib eval summary --observe ask,verbalised,scale`."
        )
    rows: list[Row] = []
    judges = told_apart(offered[0].correct, offered, held_out, len(offered))
    few = {judge: sum(record.correct.get(judge, False) for record in kept) for judge in judges}
    few = {judge: count for judge, count in few.items() if too_few_right(count, len(kept))}
    for judge in [judge for judge in judges if judge not in few]:
        for name, found in forms.items():
            known = [at for at, value in enumerate(found) if value is not None]
            scored = [offered[at] for at in known]
            raw = np.array([found[at] for at in known], dtype=np.float64)
            right = labels(scored, judge)
            if not both_sides(right, scored, held_out):
                continue
            groups = groups_of(scored)
            with quietly():
                rescaled = out_of_fold(raw, right, groups, fit_curve, seed=seed)
            for is_rescaled, confidence in ((False, raw), (True, rescaled)):
                of = confidence, right, np.array(groups)
                what = "fit", judge, ALL, name, is_rescaled
                rows.append(row_of(*what, *of, resamples=resamples, seed=seed))
    return Scores(
        header=header,
        asked=len(kept),
        offered=len(offered),
        doubtful=0,
        right={judge: sum(record.correct[judge] for record in offered) for judge in offered[0].correct},
        best=next(iter(forms)),
        first=dict.fromkeys(judges),
        held_out=tuple(sorted(held_out)),
        rows=tuple(rows),
        notes=(
            *([f"{apart} further items, of what is held out, are left out."] if apart else []),
            *(few_right_note(judge, count, len(kept)) for judge, count in few.items()),
            *_notes(measure, seen, forms),
        ),
    )


def _notes(
    measure: str, seen: Sequence[Observed], forms: Mapping[str, Sequence[float | None]]
) -> tuple[str, ...]:
    """The shares of answers that say nothing, in sentences."""
    notes = [
        f"{name}: {len(found)} answers, {sum(value is None for value in found)} of them invalid."
        for name, found in forms.items()
    ]
    if measure == "verbalised":
        stated = [one for one in seen if "verbalised.confidence" in one]
        fell = sum(bool(one["verbalised.fell-back"]) for one in stated) / len(stated)
        half = sum(one["verbalised.confidence"] == 0.5 for one in stated) / len(stated)
        notes.append(
            f"0.5 for want of a number: {100 * fell:.0f} %; 0.5 from either cause: {100 * half:.0f} %."
        )
    if measure == "scale":
        shares = [one["scale.invalid"] for one in seen if "scale.invalid" in one]
        if shares:
            notes.append(f"Samples that name no rating: {100 * math.fsum(shares) / len(shares):.0f} %.")
    return tuple(notes)
