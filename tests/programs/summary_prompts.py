"""Two prompts for summaries, on the same functions: how often each is like a person's, and how sure that is.

    python tests/programs/summary_prompts.py RECORDS OTHER

RECORDS, OTHER: of `lsp-calib eval summary`, or the journals of unfinished runs of it; what both have is
compared, OTHER minus RECORDS. Intervals are by bootstrap over repositories.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from observed_evidence import read

from lsp_calib.calibration.arrays import FloatArray
from lsp_calib.evaluation.records import Record

CRITERIA = ("best-f1", "high-recall", "high-precision")
_RESAMPLES = 2000


def difference(values: FloatArray, groups: list[str]) -> tuple[float, float, float]:
    """The mean of paired differences, shape (n,), and its 95 % interval over resampled groups."""
    _, codes = np.unique(groups, return_inverse=True)
    sums, counts = np.bincount(codes, values), np.bincount(codes)
    drawn = np.random.default_rng(0).integers(0, counts.size, (_RESAMPLES, counts.size))
    means = sums[drawn].sum(axis=1) / counts[drawn].sum(axis=1)
    low, high = np.quantile(means, (0.025, 0.975))
    return float(values.mean()), float(low), float(high)


def rows(pairs: list[tuple[Record, Record]], cosine: int) -> list[str]:
    groups = [one.group for one, _ in pairs]
    found = [
        "| | first | other | other minus first (95 %) | only first | only other |",
        "|---|---|---|---|---|---|",
    ]
    for criterion in CRITERIA:
        first, other = (
            np.array([pair[at].correct[criterion] for pair in pairs], dtype=float) for at in (0, 1)
        )
        mean, low, high = difference(other - first, groups)
        found.append(
            f"| right at {criterion} | {first.mean():.1%} | {other.mean():.1%} | {mean:+.1%} ({low:+.1%} to "
            f"{high:+.1%}) | {int((first > other).sum())} | {int((other > first).sum())} |"
        )
    first, other = (np.array([pair[at].similarity[cosine] for pair in pairs]) for at in (0, 1))
    mean, low, high = difference(other - first, groups)
    cells = f"{first.mean():.3f} | {other.mean():.3f} | {mean:+.3f} ({low:+.3f} to {high:+.3f})"
    found.append(f"| mean cosine | {cells} | | |")
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("records", type=Path)
    parser.add_argument("other", type=Path)
    given = parser.parse_args()
    header, first = read(given.records)
    second, other = read(given.other)
    assert header.similarity is not None, "records of summaries"
    assert header.similarity == second.similarity, "judged alike"
    by_item = {record.item: record for record in other if record.similarity}
    pairs = [(one, by_item[one.item]) for one in first if one.similarity and one.item in by_item]
    print(f"{header.model.name}, {header.language}: {len(pairs)} functions")
    print(f"first: {header.prompt_version}; other: {second.prompt_version}\n")
    print("\n".join(rows(pairs, header.similarity.names.index("cosine"))))


if __name__ == "__main__":
    main()
