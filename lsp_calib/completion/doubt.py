"""The word of a completion that its model was least sure of."""

from __future__ import annotations

from lsp_calib.values import Generation


def doubtful_span(generation: Generation, text: str) -> tuple[int, int] | None:
    """Start and end, in code points of `text`, of the word that holds the least likely token.

    text: as it is offered, the beginning of the generation's. A word is a run of letters, digits and
    underscores, or else of other visible characters. Tokens that add nothing visible to `text` do not count;
    None if no other is left.
    """
    least: tuple[float, int] | None = None
    end = 0
    for token, logprob in zip(generation.tokens, generation.logprobs, strict=True):
        start, end = end, end + len(token.text)
        visible = [at for at in range(start, min(end, len(text))) if not text[at].isspace()]
        if visible and (least is None or logprob < least[0]):
            # Of `.name`, the name: its mark is seldom what a model hesitates about.
            least = logprob, next((at for at in visible if is_word(text[at])), visible[0])
    return None if least is None else _run_around(text, least[1])


def is_word(char: str) -> bool:
    """Whether a character belongs to words."""
    return char.isalnum() or char == "_"


def _run_around(text: str, at: int) -> tuple[int, int]:
    def same(char: str) -> bool:
        return not char.isspace() and is_word(char) == is_word(text[at])

    start, end = at, at + 1
    while start > 0 and same(text[start - 1]):
        start -= 1
    while end < len(text) and same(text[end]):
        end += 1
    return start, end
