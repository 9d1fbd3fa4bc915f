"""Which calibrators judge the answers of each model, and what is promised of their tiers."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from lsp_calib.calibration.calibrators.calibrator import Calibrator
from lsp_calib.calibration.calibrators.calibrator_store import CalibratorStore
from lsp_calib.calibration.calibrators.purpose import LENT, Purpose, is_same_model
from lsp_calib.commands.engine import wanted_window
from lsp_calib.completion.prompt import LayoutChooser
from lsp_calib.errors import LspCalibError
from lsp_calib.inference.models.inventory import Entry
from lsp_calib.settings import Trusted
from lsp_calib.syntax.languages import LANGUAGES
from lsp_calib.tools.doctor.finding import Finding, Level
from lsp_calib.values import ModelIdentity

DEFAULTS = Trusted()
OTHER = "other"
"""A language that nothing is known of, see `languages.bounded`."""


def calibrators(usable: Sequence[Entry], trusted: Trusted = DEFAULTS) -> list[Finding]:
    """The calibrators in force for each model, with the prompts that it gets on this machine, and files that
    had to be skipped."""
    store = CalibratorStore.open()
    listed, skipped = store.listed()
    in_force = [one.calibrator for one in listed if one.in_force]
    found: list[Finding] = []
    layouts = LayoutChooser(store.has_labels, lambda: wanted_window(trusted))
    for entry in usable:
        card = entry.card
        identity = ModelIdentity(card.name, card.quantisation, card.sha256)
        version = layouts.of_card(card, identity).version
        of_model = [one for one in in_force if is_same_model(one.purpose.model, identity)]
        lines = [one for one in of_model if one.purpose.asks_like(Purpose(identity, version, "line", ""))]
        summaries = [one for one in of_model if one.purpose.task == "summary"]
        # A language without a grammar stands for all of these.
        served = {
            language: store.choose(Purpose(identity, version, "line", language)).calibrator
            for language in (*LANGUAGES, OTHER)
        }
        found.append(_of_model(identity.name, version, lines, summaries, served))
        # Where nothing is in force, something may be promised all the same.
        purposes = [Purpose(identity, version, "line", "python"), *(one.purpose for one in lines + summaries)]
        for purpose in dict.fromkeys(purposes):
            found += certificate(store, purpose, store.choose(purpose).calibrator)
    advice = "Remove or replace the file. Until then another calibrator is used."
    return found + [Finding("calibrator", Level.PROBLEM, text, advice) for text in skipped]


def _of_model(
    name: str,
    version: str,
    lines: Sequence[Calibrator],
    summaries: Sequence[Calibrator],
    served: Mapping[str, Calibrator],
) -> Finding:
    """The finding on one model. lines, summaries: its calibrators in force. served: the calibrator of lines
    that each language gets."""
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
        "languages": {language: {"source": one.source, "n": one.n} for language, one in served.items()},
    }
    of_lines, of_summaries = _words("lines", lines), _words("summaries", summaries)
    if not lines:
        says = (
            f"{name} has no calibrator of lines: their confidence is uncalibrated, from other models' labels."
        )
        says += f" It has calibrators for {of_summaries}." if summaries else ""
        advice = f"Run `lsp-calib calibrate PATH --model {name}`, or refit after using it for a while."
        return Finding("calibrator", Level.NOTE, says, advice, data=data)
    known = f"{of_lines}, and for {of_summaries}" if summaries else of_lines
    says = f"{name}: calibrators for {known}. {_of_the_rest(served)}"
    return Finding("calibrator", Level.GOOD, says, data=data)


def _of_the_rest(served: Mapping[str, Calibrator]) -> str:
    """How lines are calibrated in languages without labels, as a sentence."""
    rest = {language: one for language, one in served.items() if one.source in LENT}
    named = sorted(one.purpose.language_name for language, one in rest.items() if language != OTHER)
    others = ", ".join([*named, "languages without a grammar"])
    if rest[OTHER].source == "pooled":
        return f"Lines of {others}: pooled, {rest[OTHER].n:,} labels of other languages and windows."
    return f"Lines of {others}: uncalibrated, never marked accept."


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
