"""The texts of the demo."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from lsp_calib.badges import percent
from lsp_calib.calibration.calibrators.calibrator import Calibrator
from lsp_calib.inference.models.cards import load_cards
from lsp_calib.tools.demo.user import Shown

INTRODUCTION = (
    "A language server, a client that behaves as an editor does, and a real model. Everything happens in a "
    "temporary folder: your own feedback and calibrators stay as they are. Nothing leaves this machine."
)
START = "`lsp-calib serve`, over standard input and output, as an editor would start it."
WRITE = (
    "{file} ({n} lines). The user rewrites {places} of its lines and knows what each should be. "
    "A suggestion that matches is kept; others are typed over or edited."
)
NONE_RIGHT = (
    "No suggestion was what the user meant. The most confident one is requested again and kept anyway."
)
DIAGNOSTICS = (
    "As the editor pulled them when a suggestion was inserted, before its line was changed or saved."
)
HOVER = "A summary of `{function}`, made while you wait, and how far to trust it."
SAVE = (
    "Saving settles whether each suggestion was right, and closing the file those still on the screen. The "
    "server saw only the changes to the document; the feedback store holds numbers and no source text."
)
REFIT = "`lsp-calib.refit` fits the calibrator to this user, and keeps the result only on evidence."

NO_SUMMARY = "The model gave no summary."

_FAILED = {
    "complete": "too few suggestions: the model had nothing to offer at most places",
    "keep": "keep: no suggestion was kept and labelled as kept",
    "type over": "type over: no suggestion was wrong, or its label does not say that it was typed over",
    "edit": "edit: no suggestion was inserted and then edited, or its label does not say so",
    "leave alone": "leave alone: the label does not say that the line was left alone",
    "diagnose": "diagnose: the diagnostics are not those of the inserted suggestions",
    "settle": "settle: not every suggestion has its label",
    "refit": "refit: it compared no calibrators on the labels above",
    "ask again": "ask again: the answer was not assessed by the new calibrator",
}


def failed(step: str) -> str:
    return _FAILED.get(step, f"{step}: the step failed")


def refitted(result: Mapping[str, Any]) -> str:
    done = "A new calibrator is in force" if result["promoted"] else "The calibrator stays as it was"
    return f"{done} (n = {result['n']}): {result['reason']}."


def again(before: Shown, now: Mapping[str, Any]) -> str:
    what = "makes the same suggestion" if now["text"] == before.text else f"suggests {now['text']!r}"
    return (
        f"Line {before.line + 1} was left unchanged. Asked there again, the server {what}, with "
        f"{_percent(now['confidence'])} instead of {_percent(before.wire['confidence'])}."
    )


def closing(shown: Sequence[Shown], calibrator: Calibrator) -> list[str]:
    """The meaning of the numbers, and the next steps."""
    tiers = {
        tier: [one for one in shown if one.wire["tier"] == tier] for tier in ("accept", "review", "reject")
    }
    counted = ", ".join(f"{len(ones)} {tier}" for tier, ones in tiers.items())
    rejected = tiers["reject"]
    wrong = sum(not one.right for one in rejected)
    judged = f"{len(shown)} suggestion{'' if len(shown) == 1 else 's'}: {counted}."
    if rejected:
        judged += f" Of the {len(rejected)} marked reject, {wrong} {'was' if wrong == 1 else 'were'} wrong"
        judged += ": rightly rejected." if wrong == len(rejected) else "."
    return [judged, _quality(shown, calibrator), *_next(shown)]


def _quality(shown: Sequence[Shown], calibrator: Calibrator) -> str:
    model = shown[0].wire["model"] if shown else calibrator.purpose.model.name
    if not calibrator.n:
        known = (
            f"{model} has no labels yet: its confidence is uncalibrated, from other models' labels, and "
            "never above review."
        )
    else:
        share = calibrator.n_correct / calibrator.n
        known = (
            f"On {calibrator.n} lines of real source, {_percent(share)} of what {model} suggested was "
            "exactly right. Most is marked reject, and should be: a weak model that says so is still useful."
        )
    return f"{known} The places here were chosen to show every case; they are no measurement."


def _next(shown: Sequence[Shown]) -> list[str]:
    words = ["Next: let your editor start `lsp-calib serve`; editor-configs/ has VS Code, Neovim and others."]
    cards = load_cards()
    mine = cards.get(shown[0].wire["model"]) if shown else None
    best = max(cards.values(), key=lambda card: card.size)
    if mine is not None and best.size > mine.size:
        words.append(
            f"A better model: `lsp-calib models pull {best.name}` ({best.size / 1e9:.1f} GB); this demo then "
            f"uses it."
        )
    return words


def _percent(value: float | None) -> str:
    return "nothing" if value is None else percent(value)
