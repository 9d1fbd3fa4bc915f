"""The parts of a source file: functions, their signatures and documentation."""

from lsp_calib.syntax.documentation import documentation_sentence, first_sentence_end
from lsp_calib.syntax.functions import (
    Call,
    call_at,
    functions,
    has_grammar,
    innermost_function,
    may_mean,
    prose_lines,
)
from lsp_calib.syntax.rules import Function

__all__ = [
    "Call",
    "Function",
    "call_at",
    "documentation_sentence",
    "first_sentence_end",
    "functions",
    "has_grammar",
    "innermost_function",
    "may_mean",
    "prose_lines",
]
