"""The choice of a generation's tokens that a measure counts.

Not all tokens of a generation are part of the answer. White space before the answer repeats the indentation.
A newline or the end of text after it only ends the answer; its probability tells how sure the model is of
that end. The papers do not say which tokens they counted, so this is a named choice, to be compared on data.
"""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from lsp_calib.errors import DataError
from lsp_calib.values import Generation, Stop

# How runtimes spell the token that ends an answer; "" where control tokens are decoded to nothing.
END_OF_TEXT = frozenset({"", "<|endoftext|>", "<|im_end|>", "<|eot_id|>", "<|end_of_text|>", "</s>", "<eos>"})


@attrs.frozen(kw_only=True)
class TokenSelection:
    """The kinds of tokens that count besides those of the answer itself. The default counts all.

    leading_space: tokens of nothing but white space before the answer's first visible character.
    newline: the last token, if it is white space with a newline. One that also carries text always counts.
    end_of_text: the control token that ended the answer; only the last token can be one.
    """

    leading_space: bool = True
    newline: bool = True
    end_of_text: bool = True

    @property
    def name(self) -> str:
        """The kinds that are left out, as in tables: "all", or "without leading-space, newline".

        >>> TokenSelection(newline=False, end_of_text=False).name
        'without newline, end-of-text'
        """
        left_out = [
            field.name.replace("_", "-")
            for field in attrs.fields(type(self))
            if not getattr(self, field.name)
        ]
        return f"without {', '.join(left_out)}" if left_out else "all"

    def indices(self, texts: Sequence[str]) -> tuple[int, ...]:
        """Positions of the tokens that count, ascending.

        texts: the text of each token, in order, the newline included.
        Empty if nothing is left, as for an answer that is only a newline: no measure is defined there.

        >>> TokenSelection(newline=False).indices(["return", " x", "\\n"])
        (0, 1)
        """
        begin, end = 0, len(texts)
        ended = end > 0 and texts[-1] in END_OF_TEXT
        kept_end: tuple[int, ...] = (end - 1,) if ended and self.end_of_text else ()
        if ended:
            end -= 1
        kept_newline: tuple[int, ...] = ()
        if end and not texts[end - 1].strip() and "\n" in texts[end - 1]:
            end -= 1
            kept_newline = (end,) if self.newline else ()
        if not self.leading_space:
            while begin < end and not texts[begin].strip():
                begin += 1
        return (*range(begin, end), *kept_newline, *kept_end)

    def select(self, texts: Sequence[str], logprobs: Sequence[float]) -> tuple[float, ...]:
        """The log-probabilities that count, in order; to be given to any measure.

        texts and logprobs: one of each for every token. Raises DataError if their numbers differ.

        >>> TokenSelection(leading_space=False).select(["  ", "x", "\\n"], [-0.1, -0.7, -0.2])
        (-0.7, -0.2)
        """
        if len(texts) != len(logprobs):
            raise DataError(f"{len(texts)} texts do not belong to {len(logprobs)} log-probabilities.")
        return tuple(logprobs[at] for at in self.indices(texts))


# All eight, the default first, for comparisons on data.
SELECTIONS: tuple[TokenSelection, ...] = tuple(
    TokenSelection(leading_space=space, newline=newline, end_of_text=end)
    for space in (True, False)
    for newline in (True, False)
    for end in (True, False)
)


def token_texts(generation: Generation) -> tuple[str, ...]:
    """The text of each of its tokens, as `TokenSelection` takes them.

    A generation's texts stop before the newline that ended it; a last token without text is completed with
    that newline.
    """
    texts = [token.text for token in generation.tokens]
    if texts and generation.stop is Stop.LINE and not texts[-1].strip():
        texts[-1] += "\n"
    return tuple(texts)
