"""What probabilities promise behind an opening bracket or quote, where the editor has written the closer.

    python tests/programs/behind_openers.py RECORDS --sources FOLDER [--fitted FILE]

RECORDS: of `lsp-calib eval line`, or the journal of an unfinished run. FOLDER: the projects that they are of.
The places are those of the records whose cursor stands behind an opener. With the closers that an editor puts
there, the model is shown the same prompt, and the completion goes over them; one that leaves them open is
not offered (`Completion.over`). Probabilities are out of fold by project, fitted on all places of the
records; with --fitted, those of the calibrator that ships, for places that FILE, its own records, does not
hold.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from offered_lines import Offered, read, shipped_for

from lsp_calib.calibration.arrays import quietly
from lsp_calib.calibration.calibrators.fitting import RECIPES, FeatureData
from lsp_calib.calibration.reliability import wilson_interval
from lsp_calib.calibration.tiers import PRESETS
from lsp_calib.calibration.validation import summarise
from lsp_calib.completion.postprocess import closed_by_editors, closes_as
from lsp_calib.evaluation.recomputed import _pieces, rebuild
from lsp_calib.inference.models.cards import locate

_OPENERS = tuple("([{\"'`")


def main() -> None:
    parser = argparse.ArgumentParser(description="Score places behind openers.")
    parser.add_argument("records", type=Path)
    parser.add_argument("--sources", type=Path, required=True)
    parser.add_argument("--fitted", type=Path)
    given = parser.parse_args()
    header, records = read(given.records)
    known = {record.item for record in read(given.fitted)[1]} if given.fitted else set()
    card, file = locate(header.model.name)
    offered = Offered.of(header, [one for one in records if one.item not in known])
    correct, groups = offered.correct, offered.groups
    if given.fitted:
        confidence = shipped_for(header).probabilities(offered.evidences)
    else:
        data = FeatureData.of(offered.evidences, correct, offered.codes, RECIPES)
        with quietly():
            confidence = data.nested(data.usable(RECIPES))
    behind, closed = [], []
    for one in rebuild(header, offered.records, given.sources, card, _pieces(file)):
        before = one.item.cursor.before
        closers = closed_by_editors(before) if before.endswith(_OPENERS) else ""
        behind.append(bool(closers))
        closed.append(closes_as(one.text, before, closers, header.language))
    at_openers, whole = np.array(behind), np.array(closed)
    print(f"{header.model.name}, {header.prompt_version}, {header.language}")
    print("| places | lines | right | promised | skill | ECE | accept @ right | review @ right |")
    print("|---|---:|---:|---:|---|---|---|---|")
    for name, chosen in (
        ("behind an opener, offered over the closers", at_openers & whole),
        ("behind an opener, nothing behind the cursor", at_openers),
        ("elsewhere", ~at_openers),
    ):
        if not chosen.any():
            continue
        p, right = confidence[chosen], correct[chosen]
        with quietly():
            found = summarise(p, right, [group for group, kept in zip(groups, chosen, strict=True) if kept])
        tiers = np.array([PRESETS["balanced"].decide(one, source="shipped")[0].value for one in p.tolist()])
        shares = []
        for tier in ("accept", "review"):
            n, good = int((tiers == tier).sum()), int(right[tiers == tier].sum())
            least = f" (from {wilson_interval(good, n)[0]:.0%})" if n else ""
            shares.append(f"{n} @ {good / max(n, 1):.0%}{least}")
        row = [name, f"{p.size}", f"{right.mean():.2f}", f"{p.mean():.2f}", format(found["skill"], "+.2f")]
        print(f"| {' | '.join([*row, format(found['ece'], '.3f'), *shares])} |")


if __name__ == "__main__":
    main()
