"""Which of a generation's tokens a measure counts.

An answer's tokens are not all answer. White space before it repeats the indentation; a newline or the end of
text after it says only that it is over, and how sure the model is of that. The papers do not say what they
counted, so here it is a choice with a name, to be compared on data.
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
    """What counts besides the tokens that carry the answer. The default counts all.

    leading_space: tokens of nothing but white space before the answer's first visible character.
    newline: the last token, if it is white space with a newline. One that also carries text always counts.
    end_of_text: the control token that ended the answer; only the last token can be one.
    """

    leading_space: bool = True
    newline: bool = True
    end_of_text: bool = True

    @property
    def name(self) -> str:
        """What is left out, as a table has it: "all", or "without leading-space, newline".

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

        texts: what each token spells, in order, the newline included.
        Empty where nothing is left, as of an answer that is only a newline: no measure has a value there.

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

        texts and logprobs: one of each a token. Raises DataError if they are not equally many.

        >>> TokenSelection(leading_space=False).select(["  ", "x", "\\n"], [-0.1, -0.7, -0.2])
        (-0.7, -0.2)
        """
        if len(texts) != len(logprobs):
            raise DataError(f"{len(texts)} texts do not belong to {len(logprobs)} log-probabilities.")
        return tuple(logprobs[at] for at in self.indices(texts))


# All eight, the default first: what a comparison on data goes through.
SELECTIONS: tuple[TokenSelection, ...] = tuple(
    TokenSelection(leading_space=space, newline=newline, end_of_text=end)
    for space in (True, False)
    for newline in (True, False)
    for end in (True, False)
)


def token_texts(generation: Generation) -> tuple[str, ...]:
    """What each of its tokens spells, as `TokenSelection` wants it.

    A generation's texts stop before the newline that ended it; a last token left with no text was that.
    """
    texts = [token.text for token in generation.tokens]
    if texts and generation.stop is Stop.LINE and not texts[-1].strip():
        texts[-1] += "\n"
    return tuple(texts)
