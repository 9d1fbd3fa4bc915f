"""Prompts that ask a model about a summary of its own, or for the same summary in another way. Pure.

Those that show the function alone begin alike, so that the function is evaluated once for all of them; what
goes on from the summary's own prompt needs the question alone. The questions are ours; what they ask for
follows Spiess et al. 2024 (true or false, a probability in words) and Virk et al. 2024 (that the developer
writes one line at most; 1 to 4).
"""

from __future__ import annotations

from lsp_calib.inference.models.cards import ChatFormat
from lsp_calib.summarization.prompt import fenced
from lsp_calib.syntax import Function
from lsp_calib.values import Prompt, Segment

VERSION = 1
"""Changes whenever one of these prompts does."""

_OTHER = (
    "What does this function do? Write the first line of its documentation: one short sentence, nothing else."
)
_WRITER = "The developer of this function writes summaries of at most one line."
# Questions about a summary: the answer is one word, a probability in words, a rating from 1 to 4.
TRUE_FALSE = (
    "Is this summary correct, and does it say what the developer would have written? "
    "Answer with one word: True or False."
)
PROBABILITY = (
    "How likely is it that this summary is correct and says what the developer would have written? "
    "Answer with a probability in per cent, and nothing else."
)
SCALE = (
    "Does this summary say the same as the developer's own would? Rate it: 1 for strongly disagree, "
    "2 for disagree, 3 for agree, 4 for strongly agree. Answer with the number alone."
)


def other_prompt(function: Function, language: str, chat: ChatFormat, window: int) -> Prompt:
    """Asks for a summary in other words than `build_prompt`, and without examples."""
    return about_code(function.code[:window], language, chat, _OTHER, "Documentation:")


def judging_prompt(
    function: Function, language: str, chat: ChatFormat, window: int, summary: str, question: str
) -> Prompt:
    """Asks about a summary, without examples. question: `TRUE_FALSE`, `PROBABILITY` or `SCALE`."""
    text = f"{_WRITER}\n\nSummary: {summary}\n\n{question}"
    return about_code(function.code[:window], language, chat, text)


def follow_up(prompt: Prompt, answer: str, chat: ChatFormat) -> Prompt:
    """Asks whether an answer is right, where the conversation stands.

    prompt: of the answer, by `build_prompt`. answer: as the model wrote it: its tokens are in the cache.
    """
    question = f"{_WRITER} {TRUE_FALSE}"
    if not chat.user_open:
        ((kind, text),) = prompt.segments
        return _version(((kind, f"{text}{answer}\n\n# {question}\n# Answer:"),))
    return _version(
        (
            *prompt.segments,
            (Segment.TEXT, answer),
            (Segment.CONTROL, chat.answer_close),
            (Segment.CONTROL, chat.user_open),
            (Segment.TEXT, question),
            (Segment.CONTROL, chat.user_close + chat.assistant_open),
        )
    )


def scored_text(function: Function, language: str, window: int, summary: str) -> tuple[str, int]:
    """A text in which a summary stands before the code, and the character at which the code begins.

    summary: "" for the code alone. The likelihood of the code is that of the text from there on.
    """
    shown = fenced(language, function.code[:window])
    fence, _, _ = shown.partition("\n")
    before = f" {summary}\n\n{fence}\n" if summary else f"\n\n{fence}\n"
    return before + function.code[:window], len(before)


def about_code(code: str, language: str, chat: ChatFormat, question: str, lead: str = "Answer:") -> Prompt:
    """Asks a question about code. lead: how the answer begins, for a model without turns."""
    text = f"{fenced(language, code)}\n\n{question}"
    if not chat.user_open:
        return _version(((Segment.TEXT, f"{text}\n\n{lead}"),))
    return _version(
        (
            (Segment.CONTROL, chat.user_open),
            (Segment.TEXT, text),
            (Segment.CONTROL, chat.user_close + chat.assistant_open),
        )
    )


def _version(segments: tuple[tuple[Segment, str], ...]) -> Prompt:
    return Prompt(segments, forced="", version=f"reflection-{VERSION}")
