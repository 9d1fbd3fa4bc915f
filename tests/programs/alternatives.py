"""How often ranks 2 and 3 are right, and whether their shares say so, from records that hold them.

    lsp-calib eval line PROJECTS... --model MODEL --observe alternatives --output FOLDER
    python tests/programs/alternatives.py FOLDER/records.jsonl

Prints, for each rank: how many there are, the share of them that is right, the mean confidence, and the Brier
skill score. The first answer's confidence is that of the calibrator in force, as in the editor. If that was
fitted on these lines, rank 1 looks better than it is.
"""

from __future__ import annotations

import math
import sys
from pathlib import Path

import numpy as np

from lsp_calib.calibration.calibrators.calibrator import Purpose
from lsp_calib.calibration.calibrators.calibrator_store import CalibratorStore
from lsp_calib.calibration.metrics.scores import skill_score
from lsp_calib.completion.alternatives import shares
from lsp_calib.evaluation.records import read_records


def main() -> None:
    header, records = read_records(Path(sys.argv[1]))
    purpose = Purpose(header.model, header.prompt_version, "line", header.language)
    calibrator = CalibratorStore.open().choose(purpose).calibrator
    found: dict[int, list[tuple[float, bool]]] = {}
    for record in records:
        evidence = record.evidence(header)
        p = calibrator.probability(evidence) if record.shown else None
        if p is None:
            continue
        others = [(math.fsum(one.evidence(record, header).logprobs), one) for one in record.alternatives]
        given = shares(p, math.fsum(evidence.logprobs), [logprob for logprob, _ in others])
        found.setdefault(1, []).append((p, record.correct["exact"]))
        for rank, (share, (_, one)) in enumerate(zip(given, others, strict=True), start=2):
            assert share is not None, "the first answer has a confidence"
            found.setdefault(rank, []).append((share, one.correct["exact"]))
    print(f"{calibrator.id}, {len(records)} records\n")
    print("| rank | n | right | confidence | skill |\n|---|--:|--:|--:|--:|")
    for rank, pairs in sorted(found.items()):
        confidence = np.array([p for p, _ in pairs])
        right = np.array([correct for _, correct in pairs])
        skill = skill_score(confidence, right)
        print(f"| {rank} | {right.size} | {right.mean():.1%} | {confidence.mean():.1%} | {skill:+.2f} |")


if __name__ == "__main__":
    main()
