"""The rules of each language beyond its grammar: a module for each family, and a row of the table below."""

from __future__ import annotations

from lsp_calib.syntax.languages import c, csharp, go, java, javascript, php, python, ruby, rust
from lsp_calib.syntax.languages.rules import LanguageRules, Path, Place

__all__ = ["LANGUAGES", "LanguageRules", "Path", "Place", "rules_of"]

_RULES = {
    "c": c.RULES,
    "cpp": c.CPP_RULES,
    "csharp": csharp.RULES,
    "go": go.RULES,
    "java": java.RULES,
    "javascript": javascript.RULES,
    "javascriptreact": javascript.RULES,
    "php": php.RULES,
    "python": python.RULES,
    "ruby": ruby.RULES,
    "rust": rust.RULES,
    "typescript": javascript.TYPESCRIPT_RULES,
    "typescriptreact": javascript.TYPESCRIPT_REACT_RULES,
}

LANGUAGES = tuple(_RULES)
"""The languages with a grammar, by their LSP identifiers."""


def rules_of(language: str) -> LanguageRules | None:
    """The rules of a language, by its LSP identifier; None if it has no grammar here."""
    return _RULES.get(language)
