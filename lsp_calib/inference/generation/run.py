"""One generation, token by token: the part that does not depend on the library that evaluates the tokens."""

from __future__ import annotations

import codecs
import re
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Protocol

import attrs

from lsp_calib.errors import EngineError
from lsp_calib.inference.backend import Counters
from lsp_calib.inference.engine import Request
from lsp_calib.inference.generation.vocabulary import Vocabulary
from lsp_calib.values import Generation, Prompt, Segment, Stop, Timing, Token

# What a line's end does not end (strings of several lines, brackets), and what holds quotes and brackets that
# open nothing (comments, strings); and the beginning of a line that is not blank.
_PIECES = re.compile(
    r"(?P<line>(?:\A|\n)(?P<indentation>[ \t]*)(?=\S))|\\.|#[^\n]*"
    r'|"""(?:\\.|[^\\])*?(?:"""|\\?\Z)|\'\'\'(?:\\.|[^\\])*?(?:\'\'\'|\\?\Z)'
    r'|"(?:\\.|[^"\\\n])*"?|\'(?:\\.|[^\'\\\n])*\'?|[()\[\]{}]',
    re.DOTALL,
)


def function_end(text: str, indentation: int) -> int | None:
    """Where a Python function ends in a text that goes on inside it, from the start of a line: behind the end
    of its last line that is not blank. None if the text does not show that.

    indentation: columns of its definition. A line with no more, comments included, is not part of it, unless
    a string or a bracket is open there.

    >>> function_end("    return x\\n\\n\\nprint(f(1))", 0)
    13
    """
    depth = 0
    for piece in _PIECES.finditer(text):
        if piece["line"] is not None:
            if not depth and len(piece["indentation"].expandtabs()) <= indentation:
                shown = len(text[: piece.start()].rstrip())
                return text.index("\n", shown) + 1 if shown else 0
        elif piece[0] in "([{":
            depth += 1
        elif piece[0] in ")]}":
            depth = max(depth - 1, 0)
    return None


def text_decoder() -> codecs.IncrementalDecoder:
    """A decoder for the bytes of tokens, over several of which a character may be spread.

    A character belongs to the token that completes it, so that the tokens' texts make up the whole.
    """
    return codecs.getincrementaldecoder("utf-8")("replace")


class GenerationBuilder:
    """Collects the tokens of one generation.

    forced: characters that the tokens reproduce first, which are not part of the text. one_line: a line's end
    ends it. function: as for `Request`. `remaining` are the bytes still to be reproduced, `stop` is set once
    a token has ended it.
    """

    def __init__(self, forced: str, *, one_line: bool, function: int | None = None) -> None:
        self.remaining = forced.encode("utf-8", "replace")
        self.tokens: list[Token] = []
        self.stop: Stop | None = None
        self._one_line = one_line
        self._function = function
        self._characters = text_decoder()
        self._healing: list[int] = []
        self._given: list[str] = []

    @property
    def length(self) -> int:
        """The number of tokens that make up the text so far, given ones included."""
        return len(self._given) + len(self.tokens)

    def give(self, piece: bytes) -> None:
        """Add a token that was not chosen here, and does not end the text."""
        if (new := self._new(piece)) is not None:
            self._given.append(self._characters.decode(new))

    def add(self, token: Token, piece: bytes) -> None:
        """Add a token of these bytes that does not end the text; the text that it adds is found out here.

        One that only reproduces forced characters is dropped.
        """
        if (new := self._new(piece)) is not None:
            self.tokens.append(attrs.evolve(token, text=self._characters.decode(new)))
            if self._function is not None:
                self._end_function(self._function)
        elif not self.tokens:
            self._healing.append(token.id)

    def end(self, token: Token) -> None:
        """Add the token that ends the text, which is no text itself."""
        self.tokens.append(attrs.evolve(token, typed_logprob=0.0))
        self.stop = Stop.END_OF_TEXT

    def finish(self, timing: Timing, doubt: str = "") -> Generation:
        """The generation, without an incomplete last character. Stop.LENGTH where no token ended it."""
        text = "".join([*self._given, *(token.text for token in self.tokens)])
        return Generation(
            text=text.rstrip("\r") if self._one_line else text,
            tokens=tuple(self.tokens),
            stop=self.stop or Stop.LENGTH,
            timing=timing,
            doubt=doubt,
            healing=tuple(self._healing),
        )

    def _end_function(self, indentation: int) -> None:
        """Stop where the function has ended, and leave out what is behind it."""
        text = "".join([*self._given, *(token.text for token in self.tokens)])
        end = function_end(text, indentation)
        if end is None:
            return
        self.stop = Stop.FUNCTION
        left = end - sum(map(len, self._given))
        kept: list[Token] = []
        for token in self.tokens:
            if left <= 0:
                break
            kept.append(attrs.evolve(token, text=token.text[:left]))
            left -= len(token.text)
        self.tokens = kept

    def _new(self, piece: bytes) -> bytes | None:
        """What a token adds, up to the line's end; None if it only reproduces forced characters."""
        new = piece[len(self.remaining) :]
        self.remaining = self.remaining[len(piece) :]
        if not new:
            return None
        if self._one_line:
            new, newline, _ = new.partition(b"\n")
            if newline:
                self.stop = Stop.LINE
        return new


@attrs.frozen
class _Fork:
    """Where the run began to follow the model's own choice inside a word that has to be reproduced.

    taken: the number of tokens until then. safe: the allowed token, which is taken if this leads nowhere;
    ended: whether it ends the text.
    """

    taken: int
    safe: Token
    ended: bool


class Evaluator:
    """The parts of a loaded model that all its runs share.

    positions: of the context, for a prompt and its answer. counters: of the engine, to which runs add.
    """

    def __init__(self, vocabulary: Vocabulary, positions: int, counters: Counters) -> None:
        self.vocabulary = vocabulary
        self.positions = positions
        self.counters = counters


class GenerationRun(ABC):
    """One generation: its tokens so far, its end, and its cost. A `backend.Run`.

    It holds no part of the cache, so it can resume after any other run has used the cache.

    prompt: its tokens, which leave some positions free.
    """

    def __init__(self, evaluator: Evaluator, request: Request, prompt: list[int]) -> None:
        self._request = request
        self._pieces = evaluator.vocabulary.pieces
        self._counters = evaluator.counters
        self._prompt = len(prompt)
        self._tokens = prompt.copy()  # and the given and the generated ones, as they come
        self._begin()
        self._lead = request.lead.encode("utf-8", "replace")
        self._led = False
        produced = self._produced
        if not (self._beginning.startswith(produced) or produced.startswith(self._beginning)):
            self._lead = b""  # the given tokens, as of an alternative, have left it already
        # Forced characters may take tokens of their own; they do not use up `max_tokens`.
        forced = len(request.prompt.forced.encode("utf-8", "replace"))
        self._most = min(request.max_tokens + forced, evaluator.positions - len(prompt))
        self._chosen = 0
        self._reused: int | None = None
        self._doubt = ""
        self._prompt_seconds = self._answer_seconds = self._decode_ms = 0.0
        self._since = 0.0
        self._generation: Generation | None = None
        self._fork: _Fork | None = None

    def advance(self) -> Generation:
        """Continue until the end. Raises Interrupted (call again to resume), EngineError."""
        decoded = self._counters.decode_ms
        self._since = time.perf_counter()
        try:
            if self._generation is None and not self._over:
                self._generate()
        finally:
            self._clock()
            self._decode_ms += self._counters.decode_ms - decoded
        if self._generation is None:
            self._generation = self._finish()
        return self._generation

    @abstractmethod
    def _generate(self) -> None:
        """Evaluate and `_take` tokens until the run is `_over`; `_clock` once the prompt is evaluated."""

    def _begin(self, taken: Sequence[tuple[Token, bool]] = ()) -> None:
        """Begin the answer, with the given tokens and with these, each with whether it ends the text."""
        request = self._request
        self._builder = GenerationBuilder(
            request.prompt.forced, one_line=request.one_line, function=request.function
        )
        self._tokens[self._prompt :] = request.given
        for given in request.given:
            self._builder.give(self._pieces[given])
        self._taken: list[tuple[Token, bool]] = []
        for token, ended in taken:
            self._add(token, ended=ended)

    @property
    def _generated(self) -> int:
        return len(self._tokens) - self._prompt

    @property
    def _required(self) -> bytes:
        """What the next tokens have to reproduce: the rest of the forced characters, and of a lead that is
        forced."""
        if not self._led:
            return self._builder.remaining
        return self._beginning[len(self._produced) :]

    @property
    def _beginning(self) -> bytes:
        return self._request.prompt.forced.encode("utf-8", "replace") + self._lead

    @property
    def _produced(self) -> bytes:
        return b"".join(self._pieces[token] for token in self._tokens[self._prompt :])

    def _follow_lead(self) -> None:
        """Begin again, with the lead forced, if the model's own answer does not begin with it.

        For engines that can force it, after each token. Until then the tokens are the model's own, so an
        answer that begins with the lead has the tokens and probabilities that it has without a lead.
        """
        if not self._lead or self._led:
            return
        beginning, produced = self._beginning, self._produced
        if produced.startswith(beginning):
            self._lead = b""  # what follows is the model's own as well
        elif self._builder.stop is not None or not beginning.startswith(produced):
            self._begin()
            self._fork, self._led = None, True

    @property
    def _over(self) -> bool:
        return (
            self._builder.stop is not None
            or self._builder.length >= self._request.max_tokens
            or self._generated >= self._most
        )

    def _clock(self) -> None:
        """Count the time since the last call: for the prompt until the first token is chosen."""
        now = time.perf_counter()
        if self._chosen:
            self._answer_seconds += now - self._since
        else:
            self._prompt_seconds += now - self._since
        self._since = now

    def _take(self, token: Token, *, ended: bool = False) -> None:
        """Add a token that the model has chosen. ended: it ends the text."""
        self._chosen += 1
        self._counters.generated_tokens += 1
        self._add(token, ended=ended)

    def _add(self, token: Token, *, ended: bool = False) -> None:
        """Add a token. ended: it ends the text."""
        self._taken.append((token, ended))
        self._tokens.append(token.id)
        builder, piece = self._builder, self._pieces[token.id]
        # A control token is no text: what came behind it would be joined to what came before.
        if ended or not piece:
            builder.end(token)
        else:
            builder.add(token, piece)

    def _reproduce(self, token: Token, likeliest: Token, *, ended: bool = False) -> None:
        """Add a token while characters are still `_required`; for greedy decoding.

        token: the likeliest of `Vocabulary.allowed`. likeliest: of all tokens. ended: as for `_take`.
        A token that ends inside a required word is not allowed: it may be likely because of another word.
        But where it is what the model would write by itself, the rest of the word may be too, so it is tried.
        As long as the model's own choices agree with what is required, the answer is what it would have been
        without that. At the first that does not, all since are taken back for the allowed token: then the run
        has fewer tokens than were evaluated.
        """
        piece = self._pieces[likeliest.id]
        if likeliest.id == token.id:
            self._take(token, ended=ended)
            if not self._required:
                self._fork = None
        elif piece and self._required.startswith(piece):
            if self._fork is None:
                self._fork = _Fork(len(self._taken), token, ended)
            self._take(likeliest)
        elif (fork := self._fork) is not None:
            self._fork = None
            self._begin(self._taken[: fork.taken])
            self._take(fork.safe, ended=fork.ended)
        else:
            self._take(token, ended=ended)

    def _finish(self) -> Generation:
        prompt, answer = self._prompt_seconds, self._answer_seconds
        timing = Timing(
            prompt_tokens=self._prompt,
            prompt_reused=self._reused or 0,
            prompt_ms=1e3 * prompt,
            generate_ms=1e3 * answer,
            total_ms=1e3 * (prompt + answer),
            decode_ms=self._decode_ms,
            generated_tokens=self._chosen,
        )
        return attrs.evolve(self._builder.finish(timing, self._doubt), led=self._led)


# A shortened prompt leaves this many positions unused beside the answer.
_SPARE = 8
# A cut above `Prompt.most_tokens` moves by this share of them.
_STEPS = 8


def room_for_prompt(positions: int, max_tokens: int) -> int:
    """Tokens that a prompt may have; an answer reserves at most half of the context's `positions`."""
    return positions - min(max_tokens, positions // 2) - _SPARE


class Tokenize(Protocol):
    """A model's tokeniser."""

    def __call__(self, text: bytes, /, *, control: bool = False) -> Sequence[int]:
        """Token ids of UTF-8 bytes; control tokens are recognised only where `control` is set."""
        ...


def prompt_tokens(
    prompt: Prompt, tokenize: Tokenize, room: int, bos: int | None, *, begins: bool
) -> list[int]:
    """At most `room` tokens of a prompt, as `shortened`; at least one, after which there are probabilities.

    bos: the token that begins a text, None if there is none. begins: every prompt has to begin with it.
    """
    begin = [bos] if begins and bos is not None else []
    tokens = begin + shortened(prompt, tokenize, room - 1)
    return tokens or [tokenize(b"\n")[0] if bos is None else bos]


def shortened(prompt: Prompt, tokenize: Tokenize, room: int) -> list[int]:
    """The tokens of a prompt's segments, at most `room` and at most its `most_tokens` of them.

    Callers limit a prompt in characters, of which a token of source has several; this handles texts that take
    more tokens, such as digits, Chinese or encoded bytes. The first text is cut first, at its beginning; the
    one below the cursor at its end. Control segments are never cut. Above `most_tokens` the cuts move in
    steps: while they stay, the next key finds its tokens in the cache.
    Raises EngineError where the control segments alone are too many.
    """
    pieces = [
        tokenize(text.encode("utf-8", "replace"), control=kind is Segment.CONTROL)
        for kind, text in prompt.segments
    ]
    length = sum(map(len, pieces))
    excess = length - room
    if prompt.most_tokens is not None and prompt.most_tokens < min(length, room):
        step = max(prompt.most_tokens // _STEPS, 1)
        excess = -(-(length - prompt.most_tokens) // step) * step
    kept: list[int] = []
    for at, ((kind, _), tokens) in enumerate(zip(prompt.segments, pieces, strict=True)):
        cut = min(max(excess, 0), len(tokens)) if kind is Segment.TEXT else 0
        excess -= cut
        kept += tokens[: len(tokens) - cut] if at == prompt.below else tokens[cut:]
    if len(kept) > room:
        raise EngineError("The prompt is too long for the model's context. Send less text.")
    return kept
