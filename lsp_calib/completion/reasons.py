"""Why there is no suggestion: a code, and a sentence for each. Pure.

Each sentence says what happened and what to do. None quotes the document or the model's answer.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping

import attrs


class Removal(enum.StrEnum):
    """Why nothing of a model's answer is offered."""

    EMPTY = "empty"  # the model ended the line at once
    WHITE_SPACE = "onlyWhiteSpace"
    REPEATS_SUFFIX = "repeatsSuffix"
    REPEATS_NEXT_LINE = "repeatsNextLine"
    REPEATS_CASE = "repeatsCase"
    SURPLUS_CLOSERS = "surplusClosers"
    LEAVES_OPEN = "leavesOpen"  # what should be closed before what stands behind the cursor, or by it
    HIDDEN_CHARACTERS = "hiddenCharacters"
    FOREIGN_SCRIPT = "foreignScript"
    FILLER = "filler"
    NEVER_ENDED = "neverEnded"  # within the tokens that a line can have
    OTHER_THAN_ITEM = "otherThanItem"  # it does not begin with the item selected in the editor's menu


class Refusal(enum.StrEnum):
    """Why a request has no answer, or its answer is not shown."""

    OFF = "off"
    STARTING = "starting"
    LOADING = "loading"
    WAITING = "waiting"
    SUPERSEDED = "superseded"
    SELECTED_ITEM = "selectedItem"
    DATA = "data"
    COMMENT = "comment"
    REFUSED = "refused"
    PAUSED = "paused"
    LANGUAGE_OFF = "languageOff"
    SECRET = "secret"
    EXCLUDED = "excluded"
    NO_MODEL = "noModel"
    ERROR = "error"
    HIDDEN = "hidden"


_NOTHING_TO_ADD = "nothingToAdd"

_EMPTY = "The model has nothing to add here."
_REPEATS = "The model wrote only what stands there already."
_OPEN = "The model's answer leaves open what is closed behind the cursor, or closes what is closed below."
_COMMENT = "The model wrote a comment in a script that this code does not have, or of filling characters."
_ITEM = (
    "A suggestion has to begin with the item that is selected in the completion menu, and none does. Close "
    "the menu, or select another item."
)

SENTENCES: Mapping[Removal | Refusal, str] = {
    Removal.EMPTY: _EMPTY,
    Removal.WHITE_SPACE: _EMPTY,
    Removal.REPEATS_SUFFIX: _REPEATS,
    Removal.REPEATS_NEXT_LINE: _REPEATS,
    Removal.REPEATS_CASE: _REPEATS,
    Removal.SURPLUS_CLOSERS: _OPEN,
    Removal.LEAVES_OPEN: _OPEN,
    Removal.HIDDEN_CHARACTERS: "The model's answer had invisible or control characters, on which an editor "
    "might act. It was dropped.",
    Removal.FOREIGN_SCRIPT: _COMMENT,
    Removal.FILLER: _COMMENT,
    Removal.NEVER_ENDED: "The model's answer was longer than a line can be, and was dropped.",
    Removal.OTHER_THAN_ITEM: _ITEM,
    Refusal.OFF: "Completions are turned off. {}",
    Refusal.STARTING: "The editor has not given its settings yet, and they may exclude this document. Try "
    "again in a moment.",
    Refusal.LOADING: "The model is not loaded yet. Completions appear as soon as it is; the status says how "
    "far it is.",
    Refusal.WAITING: "The model is still working on the last request. Wait a moment without typing on: the "
    "answer is there at the next request in the same place.",
    Refusal.SUPERSEDED: "The last request was cancelled, or its line changed, before the model had answered. "
    "That happens while you type. Pause for a moment, or ask again.",
    Refusal.SELECTED_ITEM: _ITEM,
    Refusal.DATA: "The cursor is inside data: encoded bytes, minified code, a table of numbers, a literal of "
    "200 characters or a line of 1,000. No completion comes there by itself.",
    Refusal.COMMENT: "The cursor is in a comment or a documentation string. The setting comments says when "
    'completions come there: "on", as you type; "hand", when you ask for one; "off", never. By default the '
    "model's card decides.",
    Refusal.REFUSED: "You have dismissed or undone this suggestion here. It does not come back by itself.",
    Refusal.PAUSED: "{} The command lsp-calib.resume ends the pause.",
    Refusal.LANGUAGE_OFF: "The setting `languages` does not name {}, the language of this document. Add it "
    "there.",
    Refusal.SECRET: "No model is shown this document: {}. It gets completions under another name; no setting "
    "admits files that hold secrets.",
    Refusal.EXCLUDED: "No model is shown this document: {}. It gets completions once no pattern in your "
    "settings matches its name.",
    Refusal.NO_MODEL: "The model could not answer. {}",
    Refusal.ERROR: "The model could not answer. {}",
    Refusal.HIDDEN: "Nothing here is sure enough: the probability that the completion is kept, as it is or "
    "after an edit, is {}. Lower hideBelow, or set it to false, to see such completions.",
}
"""The sentence for each code; {}: its detail."""

_BY_HAND = "A completion that you ask for by hand comes all the same."
_COMES_BY_HAND = frozenset(
    (Refusal.DATA, Refusal.REFUSED, Refusal.PAUSED, Refusal.LANGUAGE_OFF, Refusal.HIDDEN)
)
# Where a request is answered with null: an editor may keep what it shows. An empty answer takes it away.
_NOT_ANSWERED = frozenset(
    (
        *(Refusal.OFF, Refusal.STARTING, Refusal.LOADING, Refusal.WAITING, Refusal.SUPERSEDED),
        *(Refusal.SECRET, Refusal.EXCLUDED, Refusal.NO_MODEL, Refusal.ERROR),
    )
)


@attrs.frozen
class Nothing:
    """There is no suggestion. detail: what the sentence needs to say. key, lead: as of `Completion`."""

    why: Removal | Refusal
    detail: str = ""
    key: bytes | None = attrs.field(default=None, eq=False, repr=False)
    lead: str = ""

    @property
    def code(self) -> str:
        """The code of the command `lsp-calib.explain`."""
        if self.why is Removal.OTHER_THAN_ITEM:
            return Refusal.SELECTED_ITEM
        return self.why if isinstance(self.why, Refusal) else _NOTHING_TO_ADD

    @property
    def is_answer(self) -> bool:
        """Whether the request is answered: with nothing."""
        return self.why not in _NOT_ANSWERED

    @property
    def sentence(self) -> str:
        return SENTENCES[self.why].format(self.detail)

    def advice(self, *, asks_by_hand: bool) -> str:
        """What to do besides what the sentence says, for a user of an editor; "" if nothing.

        asks_by_hand: the user can ask for a completion by hand: the menu of most editors does not tell that
        from typing.
        """
        if self.code == _NOTHING_TO_ADD:
            return "Type on, or ask in another place."
        return _BY_HAND if asks_by_hand and self.why in _COMES_BY_HAND else ""
