"""Why a request for a completion got no suggestion, in words for the user. Pure.

Each sentence says what happened and what to do. None of them quotes the document or the model's answer.
"""

from __future__ import annotations

import enum

import attrs

from lsp_calib.calibration.policies.tiers import in_percent
from lsp_calib.completion import Hidden, Removal
from lsp_calib.errors import LspCalibError, NoModelError
from lsp_calib.exclusion import SECRET_NAME


class Reason(enum.StrEnum):
    """The codes of the command `lsp-calib.explain`."""

    OFF = "off"
    STARTING = "starting"
    LOADING = "loading"
    WAITING = "waiting"
    TOO_SLOW = "tooSlow"
    EXCLUDED = "excluded"
    SECRET = "secret"
    PAUSED = "paused"
    ON_BATTERY = "onBattery"
    LANGUAGE_OFF = "languageOff"
    BULK_CHANGE = "bulkChange"
    NO_MODEL = "noModel"
    ERROR = "error"
    SUPERSEDED = "superseded"
    DOCUMENT_CHANGED = "documentChanged"
    HIDDEN = "hidden"
    NOTHING_TO_ADD = "nothingToAdd"
    SELECTED_ITEM = "selectedItem"


@attrs.frozen
class Absence:
    """Why there is no suggestion.

    message: sentences for the user. by_hand: one more where the user can ask for a completion by hand: the
    menu of most editors does not tell that from typing.
    """

    reason: Reason
    message: str
    by_hand: str = ""


_BY_HAND = "A completion that you ask for by hand comes all the same."

OFF = Absence(
    Reason.OFF,
    "Completions as ghost text are turned off. Set inlineCompletion.enabled to true to get them.",
)
MENU_OFF = Absence(
    Reason.OFF,
    "Completions in the completion menu are turned off, and this editor shows no ghost text: it has no other "
    'place for them. Set completion.enabled to "auto" or true, and restart the server.',
)
STARTING = Absence(
    Reason.STARTING,
    "The editor has not given its settings yet. Until they are known no document is shown to the model: they "
    "may exclude it. Try again in a moment.",
)
LOADING = Absence(
    Reason.LOADING,
    "The model is not loaded yet. Completions appear as soon as it is; the status says how far it is.",
)
WAITING = Absence(
    Reason.WAITING, "The model is still working on the last request. Wait a moment, without typing on."
)
TOO_SLOW = Absence(
    Reason.TOO_SLOW,
    "The model had not answered when the completion menu opened; the menu does not wait for it. The "
    "completion is there at the next request in the same place.",
)
SUPERSEDED = Absence(
    Reason.SUPERSEDED,
    "The last request was cancelled before the model had answered, as happens while you type or move the "
    "cursor. Pause for a moment, or ask again.",
)
DOCUMENT_CHANGED = Absence(
    Reason.DOCUMENT_CHANGED,
    "The line changed while the model was working on it: its answer no longer fitted and was dropped. Pause "
    "for a moment, or ask again.",
)
SELECTED_ITEM = Absence(
    Reason.SELECTED_ITEM,
    "A suggestion has to go on from the item that is selected in the completion menu, and that item has "
    "several lines or belongs to another place. Close the menu, or select another item.",
)

ON_BATTERY = Absence(
    Reason.ON_BATTERY,
    'The machine runs on its battery, and onBattery is "off". Set onBattery to "less" or "on".',
    _BY_HAND,
)
BULK_CHANGE = Absence(
    Reason.BULK_CHANGE,
    "The document had just changed in a way that is not typing: by many lines, in several places at once, by "
    "a formatter, or by undoing several steps. The next request gets a completion.",
)

_REMOVED = {
    Removal.EMPTY: "The model ended the line at once: it has nothing to add here.",
    Removal.WHITE_SPACE: "The model wrote white space only: it has nothing to add here.",
    Removal.REPEATS_SUFFIX: "The model wrote only what already stands after the cursor.",
    Removal.REPEATS_NEXT_LINE: "The model wrote the next line again.",
    Removal.SURPLUS_CLOSERS: "The model wrote only closing brackets that close nothing.",
    Removal.HIDDEN_CHARACTERS: "The model's answer had invisible or control characters and was dropped: an "
    "editor might act on them, and without them it would be a different text.",
    Removal.NEVER_ENDED: "The model's answer was longer than a line can be, and was dropped.",
}


def excluded(why: str) -> Absence:
    """why: the clause of `Exclusion.reason`."""
    if why == SECRET_NAME:
        return Absence(
            Reason.SECRET,
            f"No model is shown this document: {why}. It gets completions under another name; no setting "
            "admits files that hold secrets.",
        )
    return Absence(
        Reason.EXCLUDED,
        f"No model is shown this document: {why}. It gets completions once no pattern in your settings "
        "matches its name.",
    )


def paused(message: str) -> Absence:
    """message: for how long, a sentence."""
    return Absence(
        Reason.PAUSED,
        f"{message} The command lsp-calib.resume ends the pause.",
        _BY_HAND,
    )


def language_off(language: str) -> Absence:
    return Absence(
        Reason.LANGUAGE_OFF,
        f"The setting `languages` does not name {language}, the language of this document. Add it there.",
        _BY_HAND,
    )


def failed(error: LspCalibError) -> Absence:
    """The model could not be asked, or did not answer; the error itself says what to do."""
    reason = Reason.NO_MODEL if isinstance(error, NoModelError) else Reason.ERROR
    return Absence(reason, f"The model could not answer. {error}")


def hidden(completion: Hidden, below: float) -> Absence:
    """below: the setting `hideBelow` in force."""
    confidence = completion.confidence.calibrated
    if confidence is not None and confidence < below:
        shown, limit = in_percent(confidence, (below,))
        why = f"its confidence is {shown if confidence >= 0.01 else f'about {100 * confidence:.1g} %'}"
    else:
        why, limit = "its first tokens made it too likely to be wrong", f"{100 * below:g} %"
    return Absence(
        Reason.HIDDEN,
        f"The completion is hidden: {why}, and hideBelow is {limit}. Lower hideBelow, or set it to "
        "false, to see such completions.",
    )


def nothing(removal: Removal) -> Absence:
    return Absence(Reason.NOTHING_TO_ADD, f"{_REMOVED[removal]} Type on, or ask in another place.")
