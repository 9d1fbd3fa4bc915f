"""What is known of each language beyond its grammar: a module like `python` for each, and a line below."""

from __future__ import annotations

from lsp_calib.syntax.languages import python
from lsp_calib.syntax.languages.rules import LanguageRules, Path

__all__ = ["LanguageRules", "Path", "rules_of"]

_RULES = {"python": python.RULES}


def rules_of(language: str) -> LanguageRules | None:
    """The rules of a language, by its LSP identifier; None if it has no grammar here."""
    return _RULES.get(language)
