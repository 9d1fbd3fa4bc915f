"""Two ways to ask a model, on the same items: how often each is right, and how sure the difference is.

    python tests/programs/paired_records.py RECORDS OTHER [--by condition] [--by stratum] [--same-prompt]

RECORDS, OTHER: records of `lsp-calib eval line`, `infill` or `summary`, or the journals of unfinished runs.
What both have is compared, OTHER minus RECORDS: of each criterion, and of summaries the cosine. An answer
that an editor would not have been offered counts as wrong. Intervals are by bootstrap over projects.
--same-prompt: of lines that a model was asked twice, such as on another machine. Also told: how many answers
have the same tokens, how far their totals lie apart, and what the shipped calibrator is worth on each.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import attrs
import numpy as np
from offered_lines import Offered, accepted, parser_of, read, shipped_for

from lsp_calib.calibration.arrays import quietly
from lsp_calib.calibration.validation import Interval, bootstrap_mean, summarise
from lsp_calib.corpus.records import Header, Record

Pair = tuple[Record, Record]
Parts = Mapping[str, Sequence[Pair]]

_RESAMPLES = 2000
_BY: Mapping[str, Callable[[Record], str]] = {
    "condition": lambda record: record.condition,
    "stratum": lambda record: record.stratum,
}


@attrs.frozen
class Compared:
    """A quantity of both: its mean in each, other minus first with its interval, and who alone was right."""

    name: str
    first: float
    other: float
    difference: Interval
    only_first: int
    only_other: int


def right(record: Record, criterion: str) -> float:
    return float(record.shown and record.correct[criterion])


def compared(name: str, pairs: Sequence[Pair], value: Callable[[Record], float]) -> Compared:
    first, other = (np.array([value(pair[at]) for pair in pairs]) for at in (0, 1))
    groups = [pair[0].group for pair in pairs]
    return Compared(
        name,
        float(first.mean()),
        float(other.mean()),
        bootstrap_mean(other - first, groups, resamples=_RESAMPLES),
        int((first > other).sum()),
        int((other > first).sum()),
    )


def compare(pairs: Sequence[Pair], header: Header) -> list[Compared]:
    """Each criterion of the first records, then the mean cosine if there is one."""

    def by(criterion: str) -> Callable[[Record], float]:
        return lambda record: right(record, criterion)

    found = [compared(f"right by {one}", pairs, by(one)) for one in sorted(pairs[0][0].correct)]
    if header.similarity is not None:
        at = header.similarity.names.index("cosine")
        found.append(compared("mean cosine", pairs, lambda record: record.similarity[at]))
    return found


def pairs_of(header: Header, first: Sequence[Record], second: Header, other: Sequence[Record]) -> list[Pair]:
    """What both have; of functions, those with a summary in both. Raises SystemExit if there is nothing."""
    if header.task != second.task or header.similarity != second.similarity:
        raise SystemExit("The two files are of different tasks, or were judged by different encoders.")

    def there(record: Record) -> bool:
        return header.similarity is None or bool(record.similarity)

    by_item = {record.item: record for record in other if there(record)}
    pairs = [(one, by_item[one.item]) for one in first if there(one) and one.item in by_item]
    if not pairs:
        raise SystemExit("The two files have no item in common.")
    return pairs


def table(parts: Parts, header: Header) -> str:
    rows = [
        "| | items | first | other | other minus first (95 %) | only first | only other |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, pairs in parts.items():
        for one in compare(pairs, header):
            title = f"{name}: {one.name}" if name else one.name
            rows.append(
                f"| {title} | {len(pairs)} | {one.first:.3f} | {one.other:.3f} | "
                f"{one.difference:+.3f} | {one.only_first} | {one.only_other} |"
            )
    return "\n".join(rows)


def repeated(pairs: Sequence[Pair], headers: tuple[Header, Header]) -> str:
    """How far two answers to the same prompt agree, and both judged by the shipped calibrator."""
    same = [(one, other) for one, other in pairs if one.tokens == other.tokens and one.logprobs]
    apart = np.array([abs(math.fsum(one.logprobs) - math.fsum(other.logprobs)) for one, other in same])
    equal = sum(one.tokens == other.tokens for one, other in pairs)
    lines = [
        f"same tokens: {equal} of {len(pairs)}; there the totals are apart by (nats): "
        f"median {np.median(apart):.4f}, 90 % {np.quantile(apart, 0.9):.3f}, largest {apart.max():.3f}",
        "",
        "| | offered | skill | ECE; if calibrated | accepted @ right (from) |",
        "|---|---|---|---|---|",
    ]
    calibrator = shipped_for(headers[0])
    for at, name in enumerate(("first", "other")):
        offered = Offered.of(headers[at], [pair[at] for pair in pairs])
        p = calibrator.probabilities(offered.evidences)
        with quietly():
            metrics = summarise(p, offered.correct, offered.groups)
        cells = [
            format(metrics["skill"], "+.3f"),
            format(metrics["ece"], ".3f"),
            accepted(p, offered.correct),
        ]
        lines.append(f"| {name} | {p.size} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("records", type=Path)
    parser.add_argument("other", type=Path)
    parser.add_argument("--by", action="append", choices=sorted(_BY), default=[])
    parser.add_argument("--same-prompt", action="store_true")
    given = parser.parse_args()
    (header, first), (second, other) = read(given.records), read(given.other)
    pairs = pairs_of(header, first, second, other)
    parts: dict[str, list[Pair]] = {} if given.by else {"": pairs}
    for one in pairs if given.by else []:
        parts.setdefault(", ".join(_BY[key](one[0]) for key in given.by), []).append(one)
    print(f"{header.model.name}, {header.language}: {len(pairs)} items")
    print(f"first: {header.prompt_version}; other: {second.prompt_version}\n")
    print(table(dict(sorted(parts.items())), header))
    if given.same_prompt:
        same = [(one, two) for one, two in pairs if one.prompt == two.prompt]
        print("\n" + repeated(same, (header, second)))


if __name__ == "__main__":
    main()
