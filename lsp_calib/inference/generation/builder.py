"""A generation as it grows, token by token. Pure."""

from __future__ import annotations

import codecs
import re

import attrs

from lsp_calib.values import Generation, Observation, Softmax, Stop, Timing, Token

# What a line's end does not end (strings of several lines, brackets), and what holds quotes and brackets that
# open nothing (comments, strings); and the beginning of a line that is not blank.
_PIECES = re.compile(
    r"(?P<line>(?:\A|\n)(?P<indentation>[ \t]*)(?=\S))|\\.|#[^\n]*"
    r'|"""(?:\\.|[^\\])*?(?:"""|\Z)|\'\'\'(?:\\.|[^\\])*?(?:\'\'\'|\Z)'
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


class TextDecoder:
    """Bytes of tokens to text, where a character may be spread over several tokens.

    A character belongs to the token that completes it, so that the tokens' texts make up the whole.
    """

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def add(self, piece: bytes) -> str:
        """The characters that `piece` completes."""
        return self._decoder.decode(piece)


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
        self._text = TextDecoder()
        self._healing: list[int] = []
        self._given: list[str] = []

    @property
    def length(self) -> int:
        """The number of tokens that make up the text so far, given ones included."""
        return len(self._given) + len(self.tokens)

    def give(self, piece: bytes) -> None:
        """Add a token that was not chosen here, and does not end the text."""
        if (new := self._new(piece)) is not None:
            self._given.append(self._text.add(new))

    def add(
        self,
        token: int,
        logprob: float,
        typed_logprob: float,
        piece: bytes,
        softmax: Softmax | None = None,
        seen: Observation | None = None,
    ) -> None:
        """Add a token that does not end the text. One that only reproduces forced characters is dropped."""
        if (new := self._new(piece)) is not None:
            self.tokens.append(Token(token, logprob, typed_logprob, self._text.add(new), softmax, seen))
            if self._function is not None:
                self._end_function(self._function)
        elif not self.tokens:
            self._healing.append(token)

    def end(
        self, token: int, logprob: float, softmax: Softmax | None = None, seen: Observation | None = None
    ) -> None:
        """Add the token that ends the text."""
        self.tokens.append(Token(token, logprob, 0.0, "", softmax, seen))
        self.stop = Stop.END_OF_TEXT

    def rewind(self, healing: int, remaining: bytes) -> None:
        """Take back all but the first `healing` tokens, before any has added text: `remaining` was left."""
        assert not self.tokens, "there is no text yet"
        del self._healing[healing:]
        self.remaining = remaining

    @property
    def healed(self) -> int:
        """The number of tokens that only reproduced forced characters."""
        return len(self._healing)

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
