"""Which calibrators judge the answers of each model, and what is promised of their tiers."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from lsp_calib.calibration.calibrators.calibrator import Calibrator
from lsp_calib.calibration.calibrators.calibrator_store import CalibratorStore
from lsp_calib.calibration.calibrators.purpose import Purpose
from lsp_calib.completion.layouts import Layouts
from lsp_calib.errors import LspCalibError
from lsp_calib.inference.models.inventory import Entry
from lsp_calib.tools.doctor.finding import Finding, Level
from lsp_calib.values import ModelIdentity


def calibrators(usable: Sequence[Entry]) -> list[Finding]:
    """The calibrators in force for each model, with the prompts that it gets on this machine, and files that
    had to be skipped."""
    store = CalibratorStore.open()
    listed, skipped = store.listed()
    in_force = [one.calibrator for one in listed if one.in_force]
    found: list[Finding] = []
    for entry in usable:
        card = entry.card
        identity = ModelIdentity(card.name, card.quantisation, card.sha256)
        version = Layouts(store.has_labels).of_card(card, identity).version
        lines = [one for one in in_force if not one.purpose.differences(identity, version, "line")]
        summaries = [
            one
            for one in in_force
            if not one.purpose.differences(identity, one.purpose.prompt_version, "summary")
        ]
        found.append(_of_model(identity.name, version, lines, summaries))
        # Where nothing is in force, something may be promised all the same.
        purposes = [Purpose(identity, version, "line", "python"), *(one.purpose for one in lines + summaries)]
        for purpose in dict.fromkeys(purposes):
            found += certificate(store, purpose, store.choose(purpose).calibrator)
    advice = "Remove or replace the file. Until then another calibrator is used."
    return found + [Finding("calibrator", Level.PROBLEM, text, advice) for text in skipped]


def _of_model(
    name: str, version: str, lines: Sequence[Calibrator], summaries: Sequence[Calibrator]
) -> Finding:
    """The finding on one model. lines, summaries: its calibrators in force."""
    data = {
        "model": name,
        "prompt": version,
        "calibrators": [
            {
                "id": one.id,
                "task": one.purpose.task,
                "language": one.purpose.language,
                "source": one.source,
                "state": one.state,
                "n": one.n,
            }
            for one in (*lines, *summaries)
        ],
    }
    of_lines, of_summaries = _words("lines", lines), _words("summaries", summaries)
    if not lines:
        says = f"{name} has no calibrator of lines; their tiers are a guess, made from other models."
        says += f" It has calibrators for {of_summaries}." if summaries else ""
        advice = f"Run `lsp-calib calibrate PATH --model {name}`, or refit after using it for a while."
        return Finding("calibrator", Level.NOTE, says, advice, data=data)
    known = f"{of_lines}, and for {of_summaries}" if summaries else of_lines
    return Finding("calibrator", Level.GOOD, f"{name}: calibrators for {known}.", data=data)


def _words(task: str, found: Sequence[Calibrator]) -> str:
    """Calibrators of one task, those that came about in the same way together."""
    together: dict[str, list[Calibrator]] = defaultdict(list)
    for one in found:
        together[one.source_and_state].append(one)
    parts = []
    for origin, some in together.items():
        names = sorted(one.purpose.language_name for one in some)
        least, most = min(one.n for one in some), max(one.n for one in some)
        labels = f"{most} labels" if least == most else f"{least} to {most} labels"
        parts.append(f"{', '.join(names)} ({origin}, {labels})")
    return f"{task} of {'; '.join(parts)}"


def certificate(store: CalibratorStore, purpose: Purpose, calibrator: Calibrator) -> list[Finding]:
    """What is promised of the tiers, where the policy is or was `risk`."""
    try:
        ledger = store.ledger(purpose)
    except LspCalibError as error:
        advice = "Remove the file: certificates then begin anew, with later labels."
        return [Finding("certificate", Level.PROBLEM, str(error), advice)]
    if ledger.promise is None:
        return []
    data = ledger.to_wire(calibrator.id, ledger.promise)
    name = f"{purpose.model.name}, {purpose.language}"
    if data["certified"]:
        return [Finding("certificate", Level.GOOD, f"{name}: certified: {data['reason']}.", data=data)]
    says = f"{name}: nothing is certified to be accepted: {data['reason']}."
    advice = "Labels come with use; `lsp-calib refit` asks for a certificate when there are enough."
    return [Finding("certificate", Level.NOTE, says, advice, data=data)]
