"""What observations beside a line's probabilities would add to its confidence.

    lsp-calib eval line PROJECTS... --observe margin,newline,agreement,state --output FOLDER
    python tests/programs/observed_evidence.py FOLDER/records.jsonl [--seeds 8]

Each idea is added to the features of the best recipe. Skill is out of fold by project, with the prior chosen
inside the folds: the mean over splits, and the standard deviation from split to split. The journal of a run
that is not finished can be given as well: its lines are a fair sample.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import attrs
import numpy as np
import numpy.typing as npt
from offered_lines import Offered, parser_of, read

from lsp_calib.calibration.arrays import group_codes
from lsp_calib.calibration.calibrators.fitting import RECIPES, FeatureData, Recipe
from lsp_calib.calibration.scores import auc, skill_score
from lsp_calib.evaluation.lines import WRITING_ON
from lsp_calib.evaluation.records import Record
from lsp_calib.evaluation.scores import groups_of

Column = Callable[[Record], float]

_LEAST = 1e-4
_COMPONENTS = 8


def _newline_end(record: Record) -> float:
    return math.log(_LEAST - record.newlines[-1])


def _newline_total(record: Record) -> float:
    """Log-odds of all tokens together, the line's end counted as that of any token that ends a line."""
    logprob = math.fsum(record.logprobs_given_typed[:-1]) + max(record.newlines[-1], record.logprobs[-1])
    p = min(max(math.exp(min(logprob, 0.0)), 1e-6), 1 - 1e-6)
    return math.log(p / (1 - p))


def _ends_earlier(record: Record) -> float:
    """How likely at most the line was to end before it did."""
    return max((math.exp(value) for value in record.newlines[:-1]), default=0.0)


def _least_margin(record: Record) -> float:
    return min(record.margins)


def _similarity(record: Record) -> float:
    return 1.0 if record.agreement is None else record.agreement.similarity


def _odds_of_second(record: Record) -> float:
    """How much likelier the first answer is than the second from where they part, in nats, at most 20."""
    if record.agreement is None:
        return 20.0
    own = math.fsum(record.logprobs_given_typed[record.agreement.at :])
    return min(max(own - record.agreement.logprob, -20.0), 20.0)


def _writing_on(record: Record) -> float:
    return float(record.condition == WRITING_ON)


IDEAS: Mapping[str, Mapping[str, Column]] = {
    "all newline tokens together at the end": {"newline-end": _newline_end},
    "the same, and in the total": {"newline-end": _newline_end, "newline-total": _newline_total},
    "how likely the line was to end earlier": {"ends-earlier": _ends_earlier},
    "least margin between the first two tokens": {"least-margin": _least_margin},
    "similarity of a second answer": {"similarity": _similarity},
    "likelihood of the first over the second": {"odds-of-second": _odds_of_second},
    "both": {"similarity": _similarity, "odds-of-second": _odds_of_second},
    "writing on": {"writing-on": _writing_on},
}


def states(records: Sequence[Record]) -> npt.NDArray[np.float64]:
    """The first principal components of the states, shape (n, components). Labels play no part in them."""
    table = np.array(
        [np.array(one.state.values) * one.state.scale if one.state else np.zeros(64) for one in records]
    )
    centred = table - table.mean(axis=0)
    return np.asarray(centred @ np.linalg.svd(centred, full_matrices=False)[2][:_COMPONENTS].T)


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("records", type=Path)
    parser.add_argument("--seeds", type=int, default=8)
    given = parser.parse_args()
    header, every = read(given.records)
    offered = Offered.of(header, [record for record in every if record.newlines])
    records, correct = offered.records, offered.correct
    codes = group_codes(groups_of(records), len(records))
    base = RECIPES[0]
    data = FeatureData.of(offered.evidences, correct, codes, RECIPES)
    columns = {
        name: np.array([column(record) for record in records])
        for idea in IDEAS.values()
        for name, column in idea.items()
    }
    components = states(records)
    columns |= {f"state-{k}": components[:, k] for k in range(components.shape[1])}
    data = attrs.evolve(data, columns={**data.columns, **columns})
    ideas = {name: tuple(idea) for name, idea in IDEAS.items()}
    ideas[f"{_COMPONENTS} components of the last state"] = tuple(f"state-{k}" for k in range(_COMPONENTS))

    def skills(recipe: Recipe) -> tuple[npt.NDArray[np.float64], float]:
        found = [data.nested([recipe], seed=seed) for seed in range(given.seeds)]
        return np.array([skill_score(p, correct) for p in found]), auc(found[0], correct)

    plain, rank = skills(base)
    print(
        f"{header.model.name}, {header.prompt_version}: {len(records)} lines, {correct.mean():.1%} right; "
        f"{base.name} features: skill {plain.mean():+.3f}, AUC {rank:.3f}\n"
    )
    print("| idea | skill gained | from split to split | AUC |\n|---|--:|--:|--:|")
    for name, more in ideas.items():
        gained, rank = skills(Recipe(name, (*base.features, *more)))
        gained = gained - plain
        print(f"| {name} | {gained.mean():+.3f} | {gained.std(ddof=1):.3f} | {rank:.3f} |", flush=True)


if __name__ == "__main__":
    main()
