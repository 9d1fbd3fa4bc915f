"""An answer as it grows: characters still to be reproduced, then the text and the tokens that carry it."""

from __future__ import annotations

import codecs

from lsp_calib.values import Generation, Softmax, Stop, Timing, Token


class Text:
    """Bytes of tokens to text, where a character may be spread over several tokens.

    A character belongs to the token that completes it, so that the tokens' texts make up the whole.
    """

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def add(self, piece: bytes) -> str:
        """The characters that `piece` completes."""
        return self._decoder.decode(piece)


class Answer:
    """The answer to one request, token by token.

    forced: what it must begin with, which is no part of its text. one_line: it ends at a line's end.
    """

    def __init__(self, forced: str, *, one_line: bool) -> None:
        self.remaining = forced.encode("utf-8", "replace")
        self.tokens: list[Token] = []
        self.stop: Stop | None = None
        self._one_line = one_line
        self._text = Text()

    def add(
        self, token: int, logprob: float, typed_logprob: float, piece: bytes, softmax: Softmax | None = None
    ) -> None:
        """A token that does not end the text. One that only reproduces forced characters leaves no trace."""
        new = piece[len(self.remaining) :]
        self.remaining = self.remaining[len(piece) :]
        if not new:
            return
        if self._one_line:
            new, newline, _ = new.partition(b"\n")
            if newline:
                self.stop = Stop.LINE
        self.tokens.append(Token(token, logprob, typed_logprob, self._text.add(new), softmax))

    def end(self, token: int, logprob: float, softmax: Softmax | None = None) -> None:
        """The token that ends the text."""
        self.tokens.append(Token(token, logprob, 0.0, "", softmax))
        self.stop = Stop.END_OF_TEXT

    def finish(self, timing: Timing) -> Generation:
        """What was answered; a character that was cut off is left out. Stop.LENGTH where nothing ended it."""
        text = "".join(token.text for token in self.tokens)
        return Generation(
            text=text.rstrip("\r") if self._one_line else text,
            tokens=tuple(self.tokens),
            stop=self.stop or Stop.LENGTH,
            timing=timing,
        )
