"""The criteria of correctness by name. They are applied before a record is written: records keep no text."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from lsp_calib.evaluation.lines import LineItem
from lsp_calib.evaluation.runner import Plain


def _tests(item: LineItem, payload: Plain, text: str) -> bool:
    from lsp_calib.evaluation.correctness import tests_pass
    from lsp_calib.evaluation.datasets.python_problems import Infilling
    from lsp_calib.evaluation.study_tasks import function_item_of

    if "suite" in payload:
        from lsp_calib.evaluation.covering_tests import line_passes

        return line_passes(item, payload, text)
    if "function" in payload:
        return tests_pass(function_item_of(payload), text)
    return tests_pass(Infilling(**payload["infilling"]), text)


CRITERIA: Mapping[str, Callable[[LineItem, Plain, str], bool]] = {
    "exact": lambda item, _payload, text: item.is_correct(text),
    "tests": _tests,
}


def is_correct(name: str, item: LineItem, payload: Plain, text: str) -> bool:
    """Whether `text`, inserted at the item's cursor, is right; empty text is not. name: a key of `CRITERIA`.

    Raises SandboxError where tests cannot be run safely.
    """
    return bool(text) and CRITERIA[name](item, payload, text)
