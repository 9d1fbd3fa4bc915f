"""How often ranks 2 and 3 are right, and whether their confidence says so, from records that hold them.

    lsp-calib eval line PROJECTS... --model MODEL --observe alternatives --output FOLDER
    python tests/programs/alternatives.py FOLDER/records.jsonl

Prints, for each rank: how many there are, the share of them that is right, and for both measures (the share
of what the first answer leaves, and what labels of the rank make of it) the mean confidence and the Brier
skill score. All out of fold by project: the first answer's confidence, and the curves of the ranks.
Below, how many leave code that cannot be parsed, and are not offered, and how many of these are right.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from lsp_calib.calibration.calibrators.ranks import Ranked, fit_ranks, rank_probabilities
from lsp_calib.calibration.scores import auc, skill_score
from lsp_calib.calibration.validation import grouped_folds
from lsp_calib.commands.calibrate import ranked
from lsp_calib.corpus.header import Header
from lsp_calib.corpus.records import Record, groups_of, read_records
from lsp_calib.studies.ablation import SHIPPED, STEPS, run_ablation
from lsp_calib.studies.report import percent, table_lines

COLUMNS = (
    *("rank", "n", "right", "share of the rest: mean", "skill"),
    *("by labels of the rank: mean", "skill", "AUC", "from 25 %: share, right"),
)


def table(header: Header, records: Sequence[Record]) -> list[list[str]]:
    """A row for each rank from 2 on."""
    steps = [step for step in STEPS if step.name == SHIPPED]
    shown = [record for record in records if record.shown and record.logprobs]
    ablation = run_ablation(header, shown, steps, resamples=2)
    first = ablation.rows[-1].confidence
    places = [ranked(record) for record in shown]
    fitted = ranks_out_of_fold(places, first, ablation.correct, groups_of(shown))
    plain = [
        rank_probabilities((), float(p), [share for share, _ in place])
        for p, place in zip(first, places, strict=True)
    ]
    return [row for rank in range(2) if (row := _row(rank, places, plain, fitted))]


def ranks_out_of_fold(
    places: Sequence[Ranked],
    first: npt.ArrayLike,
    first_correct: npt.ArrayLike,
    groups: npt.ArrayLike,
    *,
    seed: int = 0,
) -> list[tuple[float, ...]]:
    """The probabilities of the alternatives at n places, each by curves that never saw the place's group.

    first: those of the first answers, float array of shape (n,), out of fold as well. first_correct: bool
    array, groups: array of shape (n,).
    """
    p, correct = np.asarray(first, dtype=np.float64), np.asarray(first_correct, dtype=np.bool_)
    fold = grouped_folds(groups, seed=seed)
    found: list[tuple[float, ...]] = [()] * len(places)
    for k in range(int(fold.max()) + 1):
        others = np.flatnonzero(fold != k).tolist()
        curves = fit_ranks([places[at] for at in others], correct[others])
        for at in np.flatnonzero(fold == k).tolist():
            shares = [share for share, _ in places[at]]
            known = rank_probabilities(curves, float(p[at]), shares)
            found[at] = tuple(probability for probability in known if probability is not None)
    return found


def _row(
    rank: int,
    places: Sequence[Ranked],
    plain: Sequence[tuple[float | None, ...]],
    fitted: Sequence[tuple[float, ...]],
) -> list[str]:
    there = [at for at, place in enumerate(places) if len(place) > rank]
    right = np.array([places[at][rank][1] for at in there], dtype=np.bool_)
    if right.all() or not right.any():
        return []
    shares = np.array([plain[at][rank] for at in there], dtype=np.float64)
    labelled = np.array([fitted[at][rank] for at in there])
    likely = labelled >= 0.25
    return [
        str(rank + 2),
        str(right.size),
        f"{100 * right.mean():.1f} %",
        f"{100 * shares.mean():.1f} %",
        f"{skill_score(shares, right):+.2f}",
        f"{100 * labelled.mean():.1f} %",
        f"{skill_score(labelled, right):+.2f}",
        f"{auc(labelled, right):.2f}",
        f"{percent(likely.mean())}, {percent(right[likely].mean())}" if likely.any() else "none",
    ]


def main() -> None:
    header, records = read_records(Path(sys.argv[1]))
    print(f"{header.model.name}, {header.prompt_version}: {len(records)} records\n")
    print("\n".join(table_lines(COLUMNS, table(header, records))))
    if header.features is None:
        return
    at = header.features.names.index("broken")
    others = [other for record in records for other in record.alternatives or ()]
    broken = [other.correct["exact"] for other in others if other.features and other.features[at] == 1.0]
    right = sum(other.correct["exact"] for other in others)
    print(f"\nBroken: {len(broken)} of {len(others)}, {sum(broken)} of the {right} right ones.")


if __name__ == "__main__":
    main()
