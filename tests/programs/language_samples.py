"""A file in each language, in `samples`; its functions, and words of their documentation."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from lsp_calib.syntax import Function, functions

_FUNCTIONS: dict[str, dict[str, str | None]] = {
    "javascript": {
        "count": "Counts words",
        "twice": None,
        "constructor": "Opens it",
        "orders": None,
        "inner": None,
        "close": "Says goodbye",
        "module.exports.load": None,
        "click": "When it is clicked",
        "key": None,
    },
    "typescript": {"add": "Adds them", "constructor": None, "find": "Finds one", "size": None, "main": None},
    "typescriptreact": {"List": "A list with a button"},
    "java": {
        "Prices": "Makes them",
        "sum": "Sums the prices",
        "all": None,
        "good": None,
        "Kind": None,
        "Range": None,
    },
    "go": {"Sell": "Sell takes items away", "check": None, "Map": None},
    "rust": {"new": "Makes an empty one", "sell": None, "sum": "Sums them", "inner": None},
    "c": {"push": "Adds a value", "sum": "Sums a list"},
    "cpp": {
        "Shop": "Opens it",
        "size": "How many there are",
        "operator==": None,
        "sum": "Sums them",
        "add": None,
        "Other::method": None,
    },
    "csharp": {
        "Shop": "<summary>",
        "~Shop": None,
        "operator +": "Adds two",
        "Sum": None,
        "Twice": None,
        "Count": "Says how many",
    },
    "ruby": {
        "initialize": "Opens it",
        "count": "Counts the words",
        "empty?": None,
        "total": None,
        "build": "Makes one",
        "sum": "Sums them",
    },
    "php": {
        "add": "Adds them",
        "__construct": "Opens it",
        "load": None,
        "count": "Counts them",
        "$check": None,
        "label": None,
    },
}
_FILES = {path.stem: path for path in (Path(__file__).parent / "samples").iterdir()}
SAMPLES = {language: (_FILES[language].read_text("utf-8"), names) for language, names in _FUNCTIONS.items()}


def only(source: str | Sequence[str], language: str) -> Function:
    """The one function of a source, or of its lines."""
    (function,) = functions(source.split("\n") if isinstance(source, str) else source, language)
    return function
