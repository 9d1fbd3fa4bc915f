"""The parts of a source file: functions, their signatures and documentation."""

from lsp_calib.syntax.function import Function
from lsp_calib.syntax.functions import function_at, functions, has_grammar
from lsp_calib.syntax.prose import prose_lines

__all__ = ["Function", "function_at", "functions", "has_grammar", "prose_lines"]
