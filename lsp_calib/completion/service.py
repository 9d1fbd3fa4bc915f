"""The completion service: cursor in, suggestion out, or why nothing is offered or shown.

A completion is hidden (setting `hideBelow`) if it is less likely to survive than the setting says; where no
labels of its model say how likely that is, nothing is. One in a hundred of those is shown nevertheless:
without labels from below the setting, nobody would notice if the probability there became wrong.
What is hidden is kept, and shown once what is typed along it lifts it over the limit.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

import attrs

from lsp_calib.characters import shared_ends, words_by_script
from lsp_calib.completion.alternatives import alternatives, shares
from lsp_calib.completion.context import Cursor
from lsp_calib.completion.features import (
    UNWANTED,
    DocumentFeatures,
    FeatureExtractor,
    Texts,
    doubtful_span,
)
from lsp_calib.completion.postprocess import Cut, closes_as, next_line, part_before
from lsp_calib.completion.prompt import ALONE, Layout, build_prompt, line_purpose
from lsp_calib.completion.reasons import Nothing, Removal
from lsp_calib.completion.related_code import Nearby
from lsp_calib.inference.engine import Engine, LoadedModel, Observe, Priority, Request
from lsp_calib.values import (
    Confidence,
    Evidence,
    Generation,
    ModelIdentity,
    Prompt,
    Segment,
    Stop,
    Suggestion,
    Sure,
    Tier,
    Timing,
)

if TYPE_CHECKING:
    from lsp_calib.calibration.calibrators.confidence_estimator import ConfidenceEstimator


EXPLORED = 0.01
"""The share of the completions to hide that are shown."""


HIDE_BELOW = 0.125
"""The limit where none is set: of what is hidden less than 1 in 8 would have survived."""


@attrs.frozen
class Hiding:
    """Decides for one completion whether it is hidden. below: those that survive with a lower probability
    are; in [0, 1)."""

    below: float

    def hides(self, survives: float | None, unchanged: float | None) -> bool:
        """Whether a completion is to be hidden, explored or not.

        survives: the probability that it does, before any of it is typed; None: no labels of the model say
            so, and nothing is hidden. unchanged: that the line ends with it as it stands, now that some of it
            is typed. Such a line survives, so the larger one counts.
        """
        return survives is not None and max(survives, unchanged or 0.0) < self.below


def is_explored(suggestion_id: str) -> bool:
    """Whether a suggestion is shown even if it is to be hidden: true of `EXPLORED` of all ids.

    Always the same for one id.
    """
    digest = hashlib.sha256(f"explored {suggestion_id}".encode()).digest()
    return int.from_bytes(digest[:8]) < EXPLORED * 2**64


def marked(confidence: Confidence, below: float) -> Confidence:
    """The confidence of a completion that is shown although it is to be hidden: its reason says so."""
    reason = f"shown although it is below hideBelow ({below:g}), to keep learning; {confidence.reason}"
    return attrs.evolve(confidence, reason=reason)


Decide = Callable[[float | None], tuple[Tier, str]]

# A line of source seldom has more tokens; a longer answer usually never ends.
MOST_TOKENS = 64

# Seconds for all alternatives of a suggestion together: who asked for them waits. What is late is left out.
ALTERNATIVES_WITHIN = 2.0


@attrs.frozen
class Completion:
    """A suggestion with the data that a label needs: the evidence and the line it would make.

    shown_probability: of being shown, in (0, 1]; below 1 for one that is to be hidden.
    explored: the limit by which such a one is to be hidden; None of all others.
    cuts: why the end of the model's answer is missing.
    replaced: the text between the cursor and the rest of the line that an editor replaces: closers behind the
    cursor, and see `Selected`. kept: what stands behind that and is in no prompt, the end of such closers.
    beginnings: how likely the line is to be right up to each place in the text, the first place first; empty
    if that is not known.
    typed: how many characters of it stand before the cursor, typed along; the confidence is of that moment.
    survives: the probability that the whole of it is kept, as it is or after an edit, before any of it was
    typed; None if that is not known.
    key: as `CompletionService.key` gives it of the prompt; None if it is not known.
    lead: the beginning that the answer was made to have; "" for the model's own.
    hidden_by: the limit by which it is not shown; None of one that is. prose: the confidence that such a one
    is shown with later, where it opens documentation; None: its own.
    was_hidden: whether it was hidden at first, and is known because the user typed along it. Labels of such
    ones are selected by agreeing.
    stands_behind: it is the model's first answer, behind a surer one. Its label counts as a first one's: else
    those that count would be selected by being sure.
    behind: of two answers that differ the second one; None if it is alone.
    """

    suggestion: Suggestion
    cursor: Cursor
    evidence: Evidence
    model: ModelIdentity
    prompt_version: str
    shown_probability: float = 1.0
    explored: Hiding | None = None
    cuts: tuple[Cut, ...] = ()
    replaced: str = ""
    kept: str = ""
    beginnings: tuple[Sure, ...] = ()
    typed: int = 0
    survives: float | None = None
    key: bytes | None = attrs.field(default=None, eq=False, repr=False)
    lead: str = ""
    hidden_by: Hiding | None = None
    prose: Confidence | None = None
    was_hidden: bool = False
    stands_behind: bool = False
    behind: Completion | None = attrs.field(default=None, eq=False, repr=False)

    @cached_property
    def present_line(self) -> str:
        """The current line as it is while the suggestion is shown."""
        return self.cursor.before + self.replaced + self.kept + self.cursor.after

    @cached_property
    def expected_line(self) -> str:
        """The current line as it would be with the suggestion in it."""
        return self.cursor.before + self.suggestion.text + self.kept + self.cursor.after

    @property
    def is_less_sure(self) -> bool:
        """Whether the second one of two answers, which stands behind it, is surer."""
        if self.behind is None:
            return False
        other = self.behind.suggestion.confidence.calibrated
        return (other or 0.0) > (self.suggestion.confidence.calibrated or 0.0)

    @property
    def shown(self) -> Completion:
        """It as it is shown, hidden or not."""
        shown = attrs.evolve(self, hidden_by=None, prose=None)
        return shown if self.prose is None else as_prose(shown, self.prose)

    @property
    def likely_kept(self) -> float:
        """The probability by which it is hidden, see `Hiding.hides`."""
        return max(p or 0.0 for p in (self.survives, self.suggestion.confidence.calibrated))

    @property
    def without_sure(self) -> Completion:
        return attrs.evolve(self, suggestion=attrs.evolve(self.suggestion, sure=None))

    def with_confidence(self, confidence: Confidence) -> Completion:
        return attrs.evolve(self, suggestion=attrs.evolve(self.suggestion, confidence=confidence))

    def with_text(self, text: str, moved: int) -> Completion:
        """The completion with another text, in which its own stands so many characters further on. The places
        that are known of it move along, up to the end of the text; those before its beginning go."""

        def place(sure: Sure) -> Sure | None:
            end = min(sure.end + moved, len(text))
            return attrs.evolve(sure, end=end) if end > 0 else None

        suggestion = self.suggestion
        doubt = suggestion.doubt
        if doubt is not None:
            start, end = max(doubt[0] + moved, 0), min(doubt[1] + moved, len(text))
            doubt = (start, end) if start < end else None
        sure = as_part(suggestion.sure and place(suggestion.sure), text)
        return attrs.evolve(
            self,
            suggestion=attrs.evolve(suggestion, text=text, doubt=doubt, sure=sure),
            beginnings=tuple(filter(None, map(place, self.beginnings))),
        )

    def over(self, closers: str) -> Completion | Nothing:
        """The completion where closers stand behind its cursor, which go as it is accepted; Nothing if it
        leaves open what they close, or writes just them.

        What ends a statement or an element behind them stays, unless the text ends with it too.
        """
        text, cursor = self.suggestion.text, self.cursor
        if not closes_as(text, cursor.before, closers, cursor.language):
            return Nothing(Removal.LEAVES_OPEN)
        end = closers.rstrip()[-1:]
        replaced = closers if end not in ";," or text.endswith(end) else closers[: closers.rindex(end)]
        over = attrs.evolve(self, replaced=replaced, kept=closers[len(replaced) :])
        changes = over.expected_line.rstrip() != over.present_line.rstrip()
        return over if changes else Nothing(Removal.REPEATS_SUFFIX)

    def beside(self, others: Iterable[Completion]) -> list[Completion]:
        """Alternatives to this completion, over the same closers; those that cannot go over them go."""
        closers = self.replaced + self.kept
        found = [one.over(closers) if closers else one for one in others]
        return [one for one in found if isinstance(one, Completion)]

    def up_to_closers(self, decide: Decide | None = None) -> Completion | None:
        """The part of a completion `over` closers that stands before them, for editors that replace nothing
        behind the cursor; None if it has none.

        decide: the tier of a probability. With it the confidence is that of the part, where that is known;
        else that of the whole line, which the part's is not below.
        """
        if not self.replaced:
            return self
        text = self.suggestion.text
        end = part_before(text, self.replaced, self.cursor.language)
        if end is None or not text[:end].strip():
            return None
        # The last place may stand behind the part: up to there it is no more likely to be right.
        known = (one.confidence for one in self.beginnings if one.end >= len(text[:end].rstrip()))
        return self._up_to(end, next(known, None), decide)

    def up_to_sure(self, decide: Decide) -> Completion:
        """The part of a completion that can be trusted; all of it if there is no such part."""
        text, sure = self.suggestion.text, self.suggestion.sure
        if sure is None:
            return self
        end = sure.end
        if self.replaced:
            # Without the rest the closers behind the cursor stay: the part must not write them as well.
            closer = part_before(text, self.replaced, self.cursor.language)
            end = min(end, end if closer is None else closer)
        return self._up_to(end, sure.confidence, decide) if text[:end].strip() else self

    def _up_to(self, end: int, probability: float | None, decide: Decide | None) -> Completion:
        """The part up to a place in the text, with its probability if that is known."""
        part = self.with_text(self.suggestion.text[:end], 0)
        suggestion, confidence = part.suggestion, part.suggestion.confidence
        if decide is not None and probability is not None and confidence.calibrated is not None:
            tier, reason = decide(probability)
            # What is said of a word that is not in the part says nothing of it.
            cause = confidence.cause if suggestion.doubt is not None else ""
            reason = f"{cause}{'; ' if cause else ''}{reason}; up to here, not of the whole line"
            confidence = attrs.evolve(
                confidence, calibrated=probability, tier=tier, reason=reason, cause=cause, certified=False
            )
        suggestion = attrs.evolve(suggestion, confidence=confidence)
        return attrs.evolve(part, suggestion=suggestion, replaced="", kept=self.replaced + self.kept)


def longest(beginnings: Iterable[Sure], accepts_from: float | None, text: str) -> Sure | None:
    """The longest beginning of a text with at least this probability; None if there is none, if nothing is
    accepted, or if it is no part (`as_part`)."""
    found = [one for one in beginnings if accepts_from is not None and one.confidence >= accepts_from]
    return as_part(max(found, key=lambda one: one.end, default=None), text)


_CLOSERS = frozenset(")]}\"'`;:,")


def as_part(sure: Sure | None, text: str) -> Sure | None:
    """A sure beginning of a text; None if it is all of it, or all but closers: to name its end then says
    nothing that the tier of the line does not, and to offer it alone leaves the user to type brackets.

    >>> as_part(Sure(3, 0.9), "f(x)"), as_part(Sure(2, 0.9), 'x=""')
    (None, Sure(end=2, confidence=0.9))
    """
    rest = "" if sure is None else "".join(text[sure.end :].split())
    # Two quotes open and close a string; three are one mark.
    opens = any(rest.count(quote) == 2 for quote in "\"'`")
    return sure if not _CLOSERS.issuperset(rest) or opens else None


def beginning_with(lead: str, outcome: Completion | Nothing) -> Completion | Nothing:
    """An outcome where a suggestion has to begin with `lead`: Nothing for one that does not."""
    if isinstance(outcome, Nothing):
        return attrs.evolve(outcome, lead=lead)
    if outcome.suggestion.text.startswith(lead):
        return outcome
    return Nothing(Removal.OTHER_THAN_ITEM, "", outcome.key, lead)


PROSE = (
    "text in a comment or a documentation string: labels are of code, and say nothing of how often such text "
    "is what you want"
)
"""The reason for the tier of a completion in prose, which has no probability."""


def as_prose(completion: Completion, confidence: Confidence) -> Completion:
    """A completion in prose. Nothing is learned from it."""
    return attrs.evolve(completion.with_confidence(confidence), evidence=Evidence())


def _small(loaded: LoadedModel) -> Layout:
    return Layout.of(loaded.card)


class CompletionService:
    """Completes lines with one engine.

    layout_of: the layout of a model's prompts. nearby: what they show of other places; None: nothing.
    opened: the lines of the documents that the user has open beside one.
    Documents are named by the URI of their file: that of the notebook, for its cells.
    """

    def __init__(
        self,
        engine: Engine,
        estimator: ConfidenceEstimator,
        *,
        layout_of: Callable[[LoadedModel], Layout] = _small,
        nearby: Nearby | None = None,
        opened: Callable[[str], Iterable[Sequence[str]]] = lambda _: (),
    ) -> None:
        self._engine = engine
        self._opened = opened
        self._estimator = estimator
        self._layout_of = layout_of
        self._nearby = nearby
        self._features = FeatureExtractor()

    async def complete(
        self,
        cursor: Cursor,
        priority: Priority = Priority.INTERACTIVE,
        *,
        document: str = "",
        hide_below: float | None = 0.0,
        lead: str = "",
        timed: Callable[[Timing], object] = lambda _: None,
        layout: Layout | None = None,
    ) -> Completion | Nothing:
        """The completion of the line at `cursor`, if the model has one to offer there.

        document: where given, a later interactive request for the same document supersedes this one. timed:
        is told how long the model took, whatever becomes of its answer.
        lead: what it should begin with. An engine that cannot force it gives the model's own answer; the lead
        counts like all other text of an answer.
        hide_below: a completion that is less likely to survive is hidden; 0: none is. None: `HIDE_BELOW`.
        layout: of the prompt; None: the one in use.
        Raises ModelError or EngineError if it could not be asked.
        """
        loaded = await self._engine.ready()
        prompt = await self._prompt(loaded, cursor, document, layout)
        key = _key_of(loaded, cursor, prompt)

        features = self._features.of(document)

        hiding = Hiding(HIDE_BELOW if hide_below is None else hide_below)
        request = Request(
            *(prompt, MOST_TOKENS, priority), document=document, observe=Observe.ENTROPY, lead=lead
        )
        # While the model works; the evidence waits for it.
        asyncio.get_running_loop().run_in_executor(None, features.read, cursor)
        generation = await self._engine.generate(request)
        timed(generation.timing)
        lead = lead if generation.led else ""
        if generation.stop is Stop.LENGTH:
            return Nothing(Removal.NEVER_ENDED, "", key, lead)
        # Seldom is one of another script, and only then others matter.
        elsewhere: Texts = tuple if generation.text.isascii() else self._elsewhere(prompt, document)
        answer, is_prose, evidence, places, doubt = await asyncio.to_thread(
            features.judged, cursor, generation, elsewhere
        )
        withheld: Generation | None = None
        if answer.removal in UNWANTED:
            elsewhere = self._elsewhere(prompt, document)
            if other := await self._instead(request, cursor, features, elsewhere):
                withheld, generation = generation, other
                answer, is_prose, evidence, _, doubt = await asyncio.to_thread(
                    features.judged, cursor, generation, elsewhere
                )
                places = []
        if answer.removal is not None:
            return Nothing(answer.removal, "", key, lead)
        text = answer.text
        # A line of code that opens documentation has evidence, and is hidden by that.
        doubt_of = generation.doubt or (PROSE if is_prose and not evidence.logprobs else "")
        purpose = line_purpose(loaded.identity, prompt.version, cursor.language)
        in_force = self._estimator.of(purpose, document)
        confidence = in_force.assess(evidence, doubt_of)
        if withheld is not None and not is_prose:
            # How often a first answer is right says nothing of a second.
            first = await asyncio.to_thread(features.evidence, cursor, withheld.text, withheld)
            left = shares(math.fsum(withheld.logprobs), [math.fsum(generation.logprobs)])
            (confidence,) = in_force.alternatives(in_force.assess(first).calibrated, [(left[0], evidence)])
        survives = None if withheld else in_force.survives(evidence, confidence)
        if withheld is not None:
            evidence = Evidence()  # nothing is learned from it
        beginnings = in_force.beginnings(confidence, places, evidence.place)
        suggestion = Suggestion.new(
            "line",
            text,
            confidence,
            loaded.identity.name,
            generation,
            doubt=doubt,
            sure=longest(beginnings, in_force.accepts_from, text),
        )
        completion = Completion(
            *(suggestion, cursor, evidence, loaded.identity, prompt.version),
            cuts=answer.cuts,
            beginnings=beginnings,
            survives=survives,
            key=key,
            lead=lead,
        )
        prose = in_force.assess(Evidence(), PROSE) if is_prose else None
        if hiding.hides(survives, confidence.calibrated):
            if not is_explored(suggestion.id):
                return attrs.evolve(completion, hidden_by=hiding, prose=prose)
            if prose is None:
                explored = completion.with_confidence(marked(confidence, hiding.below))
                return attrs.evolve(explored, shown_probability=EXPLORED, explored=hiding)
        return completion if prose is None else as_prose(completion, prose)

    async def evaluation(self, cursor: Cursor, *, document: str = "") -> Request:
        """The request that only evaluates the prompt for a completion at `cursor`, see `Request.max_tokens`.
        document: as for `complete`. Raises ModelError or EngineError if there is no model."""
        prompt = await self._prompt(await self._engine.ready(), cursor, document)
        return Request(prompt, 0, Priority.IDLE, document=document)

    def typed_along(
        self, known: Completion, typed: int, *, refuted: float = 0.0, document: str = ""
    ) -> Completion:
        """A completion once so many characters of its text were typed, with the confidence of that moment.

        Its text stays whole. refuted: the probability that other suggestions for the place had, which do not
        agree with what was typed. document: as for `complete`.
        """
        suggestion = known.suggestion
        purpose = line_purpose(known.model, known.prompt_version, known.cursor.language)
        in_force = self._estimator.of(purpose, document)
        confidence, beginnings = in_force.typed_along(
            *(suggestion.confidence, known.beginnings, typed, len(suggestion.text)), refuted=refuted
        )
        limit, moved = known.explored, confidence != suggestion.confidence
        if moved and limit is not None and limit.hides(known.survives, confidence.calibrated):
            confidence = marked(confidence, limit.below)  # as at first
        sure = longest(beginnings, in_force.accepts_from, suggestion.text)
        suggestion = attrs.evolve(suggestion, confidence=confidence, sure=sure)
        return attrs.evolve(known, suggestion=suggestion, beginnings=beginnings, typed=typed)

    async def keeps_out(self, cursor: Cursor, wanted: bool | None, *, document: str = "") -> bool:
        """Whether a cursor stands in a comment or a documentation string where nothing is to be completed.

        wanted: whether completions there are; None: as the model's card says. document: as for `complete`.
        Raises ModelError if there is no model to say so.
        """
        if wanted is None:
            wanted = (await self._engine.ready()).card.comments
        return not wanted and await asyncio.to_thread(self._features.of(document).is_prose, cursor)

    async def _instead(
        self, request: Request, cursor: Cursor, features: DocumentFeatures, elsewhere: Texts
    ) -> Generation | None:
        """The likeliest other answer that can be offered in the place of an unwanted comment; None if none
        comes soon enough, or the engine does not tell other tokens."""

        async def offered(text: str) -> str:
            return (await asyncio.to_thread(features.offered, cursor, text, elsewhere)).text

        request = attrs.evolve(request, observe=Observe.ENTROPY | Observe.MARGIN)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(ALTERNATIVES_WITHIN):
                answer = await self._engine.generate(request)
                until = next((start for _, start, _ in words_by_script(answer.text)), None)
                others = alternatives(
                    *(self._engine.generate, request, answer, offered), draws=False, until=until
                )
                async with contextlib.aclosing(others):
                    async for other, _ in others:
                        return other
        return None

    def _elsewhere(self, prompt: Prompt, document: str) -> Texts:
        """The texts beside the document whose letters the user reads: related code, other open documents."""
        opened = [*self._opened(document)] if document else []
        shown = [text for kind, text in prompt.segments if kind is Segment.TEXT]
        return lambda: itertools.chain(shown, *opened)

    async def alternatives(
        self, first: Completion, *, beside: Sequence[Completion] = (), document: str = ""
    ) -> tuple[Completion, ...]:
        """Other completions at the place of `first`, the likeliest first: two at most, as far as there are.

        They take at most `ALTERNATIVES_WITHIN` seconds; what is not there by then is left out. None that can
        be parsed is hidden: they are asked for by hand. beside: what stands between `first` and them.
        document: as for `complete`.
        Raises ModelError or EngineError if the model could not be asked.
        """
        loaded = await self._engine.ready()
        cursor, known = first.cursor, first.suggestion
        prompt = await self._prompt(loaded, cursor, document)
        request = Request(
            *(prompt, MOST_TOKENS),
            document=document,
            observe=Observe.ENTROPY | Observe.MARGIN,
            lead=first.lead,
        )
        answer: Generation | None = None
        found: list[tuple[Generation, str]] = []
        features = self._features.of(document)
        elsewhere = self._elsewhere(prompt, document)

        def unbroken(answer: str) -> str:
            text = features.offered(cursor, answer, elsewhere).text
            is_begun = features.begins_documentation(cursor, text)  # and goes on below
            if not text.startswith(first.lead):
                return ""
            return "" if features.is_broken(cursor, text) and not is_begun else text

        async def offered(text: str) -> str:
            return await asyncio.to_thread(unbroken, text)

        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(ALTERNATIVES_WITHIN):
                # Again, with the second likeliest tokens: what is suggested as one types goes without them.
                answer = await self._engine.generate(request)
                others = alternatives(
                    self._engine.generate,
                    request,
                    answer,
                    offered,
                    known=(known.text, *(one.suggestion.text for one in beside)),
                )
                async for other in others:
                    found.append(other)
        if answer is None or not found:
            return ()
        found.sort(key=lambda one: -math.fsum(one[0].logprobs))

        def read() -> list[Evidence | None]:
            """The evidence of each; None where its text is prose."""
            if features.is_prose(cursor):
                return [None] * len(found)
            return [
                None
                if features.begins_documentation(cursor, text)
                else features.evidence(cursor, text, generation)
                for generation, text in found
            ]

        evidences = await asyncio.to_thread(read)
        given = shares(math.fsum(answer.logprobs), [math.fsum(other.logprobs) for other, _ in found])
        purpose = line_purpose(loaded.identity, prompt.version, cursor.language)
        in_force = self._estimator.of(purpose, document)
        before = known.confidence.calibrated
        if before is not None:
            before = math.fsum((before, *(one.suggestion.confidence.calibrated or 0.0 for one in beside)))
            before = min(before, 1.0)
        confidences = in_force.alternatives(
            before,
            [(share, one or Evidence()) for share, one in zip(given, evidences, strict=True)],
        )
        made: list[Completion] = []
        for (generation, text), evidence, confidence in zip(found, evidences, confidences, strict=True):
            is_prose = evidence is None
            if is_prose:
                confidence = in_force.assess(Evidence(), PROSE)
            suggestion = Suggestion.new(
                "line",
                text,
                confidence,
                loaded.identity.name,
                generation,
                doubt=None if is_prose else doubtful_span(generation, text),
                rank=2 + len(beside) + len(made),
            )
            made.append(
                Completion(
                    *(suggestion, cursor, evidence or Evidence(), loaded.identity, prompt.version),
                    lead=first.lead,
                )
            )
        return tuple(made)

    def forget(self, document: str) -> None:
        """Drop what is remembered of a file."""
        self._features.forget(document)
        if self._nearby is not None:
            self._nearby.forget(document)

    def key(self, document: str, cursor: Cursor, loaded: LoadedModel) -> bytes | None:
        """The same for two cursors if and only if a model is shown the same prompt for both, their lines are
        the same, and so is what their answers are compared with; None if what the prompt shows of other
        places is not known yet.
        No text can be read from it."""
        layout, found = self._layout_of(loaded), ALONE
        if self._nearby is not None and layout.related and document:
            if (known := self._nearby.known(document, cursor, layout)) is None:
                return None
            found = known
        return _key_of(loaded, cursor, build_prompt(cursor, layout, found))

    async def _prompt(
        self, loaded: LoadedModel, cursor: Cursor, document: str, layout: Layout | None = None
    ) -> Prompt:
        layout, found = layout or self._layout_of(loaded), ALONE
        if self._nearby is not None and layout.related and document:
            found = await self._nearby.of(document, cursor, layout)
        return build_prompt(cursor, layout, found)


def _key_of(loaded: LoadedModel, cursor: Cursor, prompt: Prompt) -> bytes:
    seen = (
        *(loaded.identity, cursor.language, cursor.before, cursor.after),
        *(next_line(cursor), prompt),
    )
    return hashlib.blake2b(repr(seen).encode("ascii", "backslashreplace"), digest_size=16).digest()


@attrs.frozen
class Selected:
    """An item that is selected in a completion menu: it would replace a part of the cursor's line.

    What is offered beside it begins with it, and the item counts like the rest: the model is asked where the
    user has typed the item's beginning, and gives all that would be inserted.

    cursor: after the item, in the document as it would be with it. start: the column where the item begins,
    in code points. replaced: the text that it would replace. lead: the end of the item, from the first
    character on that the user has not typed.
    """

    cursor: Cursor
    start: int
    replaced: str
    lead: str

    @classmethod
    def at(cls, cursor: Cursor, start: int, end: int, text: str) -> Selected | None:
        """The item `text` that would replace the columns from `start` to `end` of the line of `cursor`.

        None if nothing can go on from it: it has several lines, or does not reach the cursor.
        """
        line = cursor.lines[cursor.line]
        if not 0 <= start <= cursor.column <= end <= len(line) or "\n" in text or "\r" in text:
            return None
        with_item = line[:start] + text + line[end:]
        # What an editor finds by single letters or in another case may begin otherwise than what is typed.
        typed, _ = shared_ends(text, line[start : cursor.column])
        return cls(cursor.in_line(with_item, start + len(text)), start, line[start:end], text[typed:])

    def extended(self, completion: Completion) -> Completion | None:
        """A completion in front of the lead, as it is offered while the menu is open: from the beginning of
        the item on. None if it does not begin with the item."""
        if not completion.suggestion.text.startswith(self.lead):
            return None
        at = completion.cursor
        typed = at.before[self.start :]
        line = at.before[: self.start] + at.after
        return attrs.evolve(
            completion.with_text(typed + completion.suggestion.text, len(typed)),
            cursor=at.in_line(line, self.start),
            replaced=self.replaced + completion.replaced,
        )
