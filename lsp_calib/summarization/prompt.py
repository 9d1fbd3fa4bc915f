"""The prompt for a summary. The version must change whenever the text that the model sees changes."""

from __future__ import annotations

from lsp_calib.inference.models.cards import ChatFormat
from lsp_calib.syntax import Function
from lsp_calib.values import Prompt, Segment

VERSION = "summary-shots-1"

_TASK = "Describe each function in one short sentence."
# Two functions with the kind of sentence a docstring begins with. Without them a small model writes an essay.
_SHOTS = (
    (
        "def read_json(path):\n    with open(path) as file:\n        return json.load(file)",
        "Read a JSON file and return its content.",
    ),
    (
        "def overlap(a, b):\n    return max(0, min(a.end, b.end) - max(a.start, b.start))",
        "Return the length of the overlap of two intervals.",
    ),
)


def build_prompt(function: Function, chat: ChatFormat, window: int) -> Prompt:
    """The prompt for the summary of `function`. window: characters of its code to show.

    Its own documentation is not shown: the model should read the code, not repeat a comment.
    """
    segments: list[tuple[Segment, str]] = []
    opening = _TASK + "\n\n"
    for code, summary in _SHOTS:
        segments += [
            (Segment.CONTROL, chat.user_open),
            (Segment.TEXT, f"{opening}```\n{code}\n```"),
            (Segment.CONTROL, chat.user_close + chat.assistant_open),
            (Segment.TEXT, summary),
            (Segment.CONTROL, chat.answer_close),
        ]
        opening = ""
    segments += [
        (Segment.CONTROL, chat.user_open),
        (Segment.TEXT, f"```\n{function.code[:window]}\n```"),
        (Segment.CONTROL, chat.user_close + chat.assistant_open),
    ]
    if not chat.user_open:
        # A base model has no turns: the same text, with a mark where the summary goes.
        segments = [(Segment.TEXT, _plain(function.code[:window]))]
    return Prompt(tuple(segments), forced="", version=VERSION)


def _plain(code: str) -> str:
    shown = "".join(f"{shot}\n\n# Summary: {summary}\n\n\n" for shot, summary in _SHOTS)
    return f"# {_TASK}\n\n{shown}{code}\n\n# Summary:"
