"""The value types that pass between the rooms, and the memory that they are kept in: know these, and you know
the program.

document + position -> Prompt -> Generation -> raw confidence -> Confidence -> Suggestion -> LSP shapes
                                                                                  |
                                                               Event -> Label -> Calibrator
"""

from __future__ import annotations

import enum
import re
import uuid
from collections import OrderedDict
from collections.abc import Mapping
from functools import cached_property
from typing import Any, Self, TypeVar

import attrs

_ID_DIGITS = 16
_ID = re.compile(rf"[0-9a-f]{{{_ID_DIGITS}}}")


class Tier(enum.StrEnum):
    """The recommended action on a suggestion."""

    ACCEPT = "accept"
    REVIEW = "review"
    REJECT = "reject"


class Segment(enum.StrEnum):
    """How a piece of a prompt is tokenised.

    Text from a document is never parsed for control tokens: a file that contains ``<|im_end|>`` must not
    be able to end a prompt.
    """

    TEXT = "text"
    CONTROL = "control"


@attrs.frozen
class Prompt:
    """The input of a model.

    segments: (kind, text) pairs, in order.
    forced: the text that the answer must begin with: characters already in the document that were cut from
        the prompt so that it ends at a token boundary (token healing). They are not part of the answer's
        text.
    version: names the layout; each calibrator is made for one version.
    most_tokens: an engine that counts tokens cuts longer prompts, at the ends of texts that are far from the
        cursor; None: only where they exceed the context. below: the index of the segment whose text follows
        the cursor, -1 if there is none. All other texts come before it.
    """

    segments: tuple[tuple[Segment, str], ...]
    forced: str
    version: str
    most_tokens: int | None = None
    below: int = -1


@attrs.frozen
class Observation:
    """What was observed of the distribution that a token was chosen from; None where it was not requested.

    entropy: of the unmodified softmax, in nats.
    margin: log-probability of the most likely token minus that of the second, in nats, at most 100. second:
        the second's id; None if only one token could come. While characters already typed are reproduced,
        both are of the tokens that agree with these.
    words: of each of `Request.words`, the natural logarithm of the probability of all tokens together that
        spell it. At least -200.
    likeliest: the five most likely tokens, the likeliest first: text, and natural logarithm of the
        probability. Empty unless words were asked for.
    """

    entropy: float | None = None
    margin: float | None = None
    second: int | None = None
    words: tuple[float, ...] = ()
    likeliest: tuple[tuple[str, float], ...] = ()


@attrs.frozen
class Token:
    """A generated token.

    logprob: natural logarithm of its probability under the model's unmodified softmax.
    typed_logprob: that of all tokens together that agree with the characters already typed; 0 if no typed
        characters were left.
    text: the text that it adds to the answer.
    seen: what the request wanted to be observed; None if nothing, or if the engine cannot.
    """

    id: int
    logprob: float
    typed_logprob: float
    text: str
    seen: Observation | None = None


class Stop(enum.StrEnum):
    """Why a generation ended."""

    LINE = "line"
    FUNCTION = "function"
    END_OF_TEXT = "endOfText"
    LENGTH = "length"


@attrs.frozen
class Timing:
    """Times in milliseconds; token counts of the prompt and of the answer.

    decode_ms: the part of the whole time spent inside llama.cpp; 0 if unknown.
    generated_tokens: all tokens that the model generated, including those that only reproduced typed
    characters.
    """

    queue_ms: float = 0.0
    prompt_tokens: int = 0
    prompt_reused: int = 0
    prompt_ms: float = 0.0
    generate_ms: float = 0.0
    total_ms: float = 0.0
    decode_ms: float = 0.0
    generated_tokens: int = 0


@attrs.frozen
class Generation:
    """A model's answer.

    text: after the forced characters, up to (not including) the stop; of a function all its lines.
    tokens: those of the answer, with the token that ended it last; tokens of forced text only are left out.
        A function's last token ends its last line: that showed only behind it, in tokens that are left out.
    doubt: why the probabilities are missing or invalid, in words for the user; empty if they are fine. No
        confidence is derived from an answer in doubt.
    healing: ids of the tokens of forced text only, which came before `tokens`.
    led: whether it was made to begin with the request's `lead`, which the model's own answer does not.
    others: further answers that were drawn with it, see `Sampling.answers`.
    """

    text: str
    tokens: tuple[Token, ...]
    stop: Stop
    timing: Timing
    doubt: str = ""
    healing: tuple[int, ...] = ()
    led: bool = False
    others: tuple[Generation, ...] = ()

    @cached_property
    def entropies(self) -> tuple[float, ...] | None:
        """Of the tokens' softmaxes, in nats; None unless all are known."""
        known = [token.seen.entropy for token in self.tokens if token.seen is not None]
        entropies = tuple(entropy for entropy in known if entropy is not None)
        return entropies if len(entropies) == len(self.tokens) else None

    @cached_property
    def logprobs(self) -> tuple[float, ...]:
        """Natural logarithms of the tokens' probabilities, given the characters already typed.

        The typed characters are known: after `ret`, the probability of `urn` matters, not the earlier one of
        `return`.
        """
        return tuple(min(token.logprob - token.typed_logprob, 0.0) for token in self.tokens)


@attrs.frozen
class Evidence:
    """All that is known of an answer when its confidence is computed.

    logprobs: natural logarithms of its tokens' probabilities, given the characters already typed.
    features: finite numbers by name, see `confidence.features`. One that cannot be had is missing: a remote
        engine gives no entropies, a language without a grammar no syntax.
    place: the kind of place of the cursor, see `confidence.features.PLACES`; "" if there is none.
    doubtful: the word of the answer that holds its least certain token, for sentences; "" if there is none.
    sign: what a linter would say against the answer, in words; "" if nothing.
    """

    logprobs: tuple[float, ...] = ()
    features: Mapping[str, float] = attrs.field(factory=dict)
    place: str = ""
    doubtful: str = ""
    sign: str = ""


@attrs.frozen
class CalibratorRef:
    """The calibrator that a confidence came from. n is the number of labels it was fitted on."""

    id: str
    source: str
    state: str
    n: int

    def to_wire(self) -> dict[str, Any] | None:
        """For the client; None of a model without labels, whose calibrator gives no probability."""
        return None if self.source == "prior" else attrs.asdict(self)


@attrs.frozen
class Confidence:
    """How likely a suggestion is to be right.

    calibrated: probability in [0, 1], None if there is none or it cannot be trusted (the tier is then
    review).
    raw: the measure before rescaling, in [0, 1], or None.
    notes: of a summary, sentences beside its tier.
    reason: why the tier is this one: the cause first, then the probability beside the thresholds.
    cause: what of the suggestion itself decided, the beginning of the reason; "" if nothing is known.
    usage: what became of its model's lines that were rejected, in words; "" if that is not known.
    """

    calibrated: float | None
    raw: float | None
    measure: str
    tier: Tier
    reason: str
    certified: bool
    calibrator: CalibratorRef
    first_tokens: int | None
    notes: tuple[str, ...] = ()
    cause: str = ""
    usage: str = ""


@attrs.frozen
class LineConfidence:
    """Of a line of a block: the probability in [0, 1] that it and all lines above it are right, or None."""

    calibrated: float | None
    tier: Tier


@attrs.frozen
class Sure:
    """The beginning of a suggestion that can be trusted like an accepted one.

    end: in code points of the text. confidence: the calibrated probability that the line is right up to
    there.
    """

    end: int
    confidence: float


# In characters: a shorter beginning is not worth words.
_WORTH_WORDS = 4
_LAST_WORD = re.compile(r"(\w+|[^\w\s]+)\s*$")


@attrs.frozen
class Suggestion:
    """A completion or a summary with its confidence: the one object on every wire.

    doubt: (start, end) of the word of the text that holds the least certain token, in code points of the
    text, start < end; None if there is none.
    sure: how far it can be trusted; None if nowhere, or if that is not known.
    rank: of the suggestions for one place, from 1; the others are alternatives.
    lines: of a block, for each of its lines; empty for anything else.
    """

    id: str
    kind: str
    text: str
    confidence: Confidence
    model: str
    tokens: int
    source: str
    timing: Timing
    doubt: tuple[int, int] | None = None
    rank: int = 1
    lines: tuple[LineConfidence, ...] = ()
    sure: Sure | None = None

    @classmethod
    def new(
        cls,
        kind: str,
        text: str,
        confidence: Confidence,
        model: str,
        generation: Generation,
        *,
        doubt: tuple[int, int] | None = None,
        rank: int = 1,
        sure: Sure | None = None,
    ) -> Self:
        """A suggestion that a model has just made."""
        return cls(
            id=new_suggestion_id(),
            kind=kind,
            text=text,
            confidence=confidence,
            model=model,
            tokens=len(generation.tokens),
            source="model",
            timing=generation.timing,
            doubt=doubt,
            rank=rank,
            sure=sure,
        )

    @property
    def reason(self) -> str:
        """Why it has its tier, for the user's screen alone: it may name a word of the text. One that is
        rejected says how often such lines are used."""
        return "; ".join(filter(None, (self.why, self.usage)))

    @property
    def usage(self) -> str:
        """How often such lines are used, of one that is rejected; "" of others, or if that is not known."""
        return self.confidence.usage if self.confidence.tier is Tier.REJECT else ""

    @property
    def why(self) -> str:
        """The reason without that. One that is not to be accepted as a whole says how far it can be."""
        reason = self.confidence.reason
        first = self.lines[0] if self.lines else self.confidence
        if self.sure is None or first.tier is Tier.ACCEPT or self.sure.end < _WORTH_WORDS:
            return reason
        word = _LAST_WORD.search(self.text[: self.sure.end])
        return f"{reason}; sure up to `{word[1]}`" if word else reason

    def to_wire(self) -> dict[str, Any]:
        """The suggestion object of the contract (camelCase, JSON types only)."""
        c = self.confidence
        t = self.timing
        lines = [{"confidence": one.calibrated, "tier": one.tier.value} for one in self.lines]
        return {
            "id": self.id,
            "kind": self.kind,
            "text": self.text,
            "confidence": c.calibrated,
            "rawConfidence": c.raw,
            "measure": c.measure,
            "tier": c.tier.value,
            "reason": self.reason,
            "certified": c.certified,
            "calibrator": c.calibrator.to_wire() if c.calibrated is None else attrs.asdict(c.calibrator),
            "model": self.model,
            "tokens": self.tokens,
            "firstTokens": c.first_tokens,
            "source": self.source,
            "timing": {
                "queueMs": round(t.queue_ms, 1),
                "promptTokens": t.prompt_tokens,
                "promptReused": t.prompt_reused,
                "promptMs": round(t.prompt_ms, 1),
                "generateMs": round(t.generate_ms, 1),
                "totalMs": round(t.total_ms, 1),
            },
            "rank": self.rank,
            "doubt": self._doubt_on_wire(),
            "sure": self._sure_on_wire(),
            **({"lines": lines} if lines else {}),
            **({"notes": list(c.notes)} if c.notes else {}),
        }

    def _sure_on_wire(self) -> dict[str, int | float] | None:
        """How far it can be trusted, in UTF-16 units of the text."""
        if self.sure is None:
            return None
        return {"end": utf16_units(self.text[: self.sure.end]), "confidence": self.sure.confidence}

    def _doubt_on_wire(self) -> dict[str, int] | None:
        """The doubtful span in UTF-16 units of the text, as editors count."""
        if self.doubt is None:
            return None
        start, end = self.doubt
        before, inside = utf16_units(self.text[:start]), utf16_units(self.text[start:end])
        return {"start": before, "end": before + inside}


@attrs.frozen
class ModelIdentity:
    """The model that answered: part of a calibrator's identity.

    name: the card's name, or the file's stem for a model without a card.
    """

    name: str
    quantisation: str
    sha256: str


def new_suggestion_id() -> str:
    """A random id for a suggestion."""
    return uuid.uuid4().hex[:_ID_DIGITS]


def utf16_units(text: str) -> int:
    """The length of a text in UTF-16 code units."""
    return len(text) + sum(char > "\uffff" for char in text)


def is_suggestion_id(text: object) -> bool:
    """Whether a text may be the id of a suggestion that was made here: 16 hexadecimal digits."""
    return isinstance(text, str) and _ID.fullmatch(text) is not None


@attrs.frozen(kw_only=True)
class Override:
    """Thresholds for the documents of a language, or at a path, or both.

    language: an identifier; None: all. path: a pattern as in `exclusion`; None: all.
    accept_from: below it nothing is accepted; 0: no more than the policy says. reject_below: below it all is
        rejected. Both in [0, 1].
    """

    language: str | None = None
    path: str | None = None
    accept_from: float = 0.0
    reject_below: float = 0.0


K = TypeVar("K")
V = TypeVar("V")


class LRU(OrderedDict[K, V]):
    """A dictionary of so many entries at most: the one that was used longest ago makes room.

    Setting a key, and `recall`, make it the one used last; `in`, `[]` and `get` look without using it.

    >>> one = LRU[str, int](2)
    >>> one["a"], one["b"] = 1, 2
    >>> one.recall("a")
    1
    >>> one["c"] = 3
    >>> list(one)
    ['a', 'c']
    """

    def __init__(self, most: int) -> None:
        super().__init__()
        self.most = most

    def __setitem__(self, key: K, value: V) -> None:
        super().__setitem__(key, value)
        self.move_to_end(key)
        while len(self) > self.most:
            self.popitem(last=False)

    def amend(self, key: K, value: V) -> None:
        """Another value of a key that is there, which does not count as a use."""
        super().__setitem__(key, value)

    def recall(self, key: K) -> V | None:
        """The value of a key, which counts as used now; None without one."""
        if key in self:
            self.move_to_end(key)
        return self.get(key)
