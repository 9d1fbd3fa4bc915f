"""The prompt for a summary. The version must change whenever the text that the model sees changes.

A task, examples with the sentence that a person wrote about each, then the function. What is the same in
every prompt comes first, and the function last: the model process keeps what a prompt begins with.

Pure.
"""

from __future__ import annotations

from collections.abc import Sequence

from lsp_calib.inference.models.cards import ChatFormat
from lsp_calib.summarization.examples import Example
from lsp_calib.syntax import Function
from lsp_calib.values import Prompt, Segment

VERSION = "summary-bm25-1"
AUGMENTED = f"{VERSION}-asap"
"""The version of prompts with facts about the code beside it (`studies.augmentation`)."""

SHOTS = 3
"""How many examples are looked for."""

_TASK = "Describe each function in one short sentence."
# Two functions with the kind of sentence a docstring begins with. Without them a small model writes an essay.
_SHIPPED = (
    Example(
        "",
        "read_json",
        "def read_json(path):\n    with open(path) as file:\n        return json.load(file)",
        "Read a JSON file and return its content.",
    ),
    Example(
        "",
        "overlap",
        "def overlap(a, b):\n    return max(0, min(a.end, b.end) - max(a.start, b.start))",
        "Return the length of the overlap of two intervals.",
    ),
)
# Characters of an example's code. The sentence says what the function does; the beginning of the code is
# enough to show what kind of sentence is wanted, and each token of it is evaluated before the first answer.
_MOST_OF_EXAMPLE = 300
# The languages' names in fences, where they are not the editors'.
_FENCE = {"javascriptreact": "jsx", "typescriptreact": "tsx"}


def build_prompt(
    function: Function,
    language: str,
    chat: ChatFormat,
    window: int,
    examples: Sequence[Example] = (),
    *,
    facts: Sequence[str] | None = None,
) -> Prompt:
    """The prompt for the summary of `function`. window: characters of its code to show.

    Its own documentation is not shown: the model should read the code, not repeat a comment.
    examples: functions of the same language, the best first; it stands next to the function. Where there are
        fewer than two, shipped ones come before them.
    facts: what else to tell of each example, and at last of the function, "" for nothing. None: of none.
    """
    shipped = _SHIPPED[: max(len(_SHIPPED) - len(examples), 0)]
    told = [""] * (len(examples) + 1) if facts is None else [*facts]
    shots = [
        *((_shown("python", one.code, ""), one.sentence) for one in shipped),
        *(
            (_shown(language, _beginning(one.code), fact), one.sentence)
            for one, fact in reversed([*zip(examples, told[:-1], strict=True)])
        ),
    ]
    asked = _shown(language, function.code[:window], told[-1])
    version = VERSION if facts is None else AUGMENTED
    if not chat.user_open:
        # A base model has no turns: the same text, with a mark where the summary goes.
        plain = "".join(f"{shown}\n\n# Summary: {summary}\n\n\n" for shown, summary in shots)
        text = f"# {_TASK}\n\n{plain}{asked}\n\n# Summary:"
        return Prompt(((Segment.TEXT, text),), forced="", version=version)
    segments: list[tuple[Segment, str]] = []
    opening = _TASK + "\n\n"
    for shown, summary in shots:
        segments += [
            (Segment.CONTROL, chat.user_open),
            (Segment.TEXT, opening + shown),
            (Segment.CONTROL, chat.user_close + chat.assistant_open),
            (Segment.TEXT, summary),
            (Segment.CONTROL, chat.answer_close),
        ]
        opening = ""
    segments += [
        (Segment.CONTROL, chat.user_open),
        (Segment.TEXT, asked),
        (Segment.CONTROL, chat.user_close + chat.assistant_open),
    ]
    return Prompt(tuple(segments), forced="", version=version)


def fenced(language: str, code: str) -> str:
    """Code as Markdown has it."""
    return f"```{_FENCE.get(language, language)}\n{code}\n```"


def _shown(language: str, code: str, facts: str) -> str:
    return fenced(language, code) + (f"\n{facts}" if facts else "")


def _beginning(code: str) -> str:
    """The whole lines of an example that fit; the first line in any case."""
    if len(code) <= _MOST_OF_EXAMPLE:
        return code
    kept = code[:_MOST_OF_EXAMPLE]
    return f"{kept.rpartition(chr(10))[0] or kept}\n..."
