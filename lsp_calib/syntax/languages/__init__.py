"""The rules of each language beyond its grammar: a module for each family, and a row of the table below."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from lsp_calib.syntax.languages import c, csharp, go, java, javascript, php, python, ruby, rust
from lsp_calib.syntax.rules import LanguageRules

RULES: Mapping[str, LanguageRules] = MappingProxyType(
    {
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
)
"""The languages with a grammar, by their LSP identifiers."""

LANGUAGES = tuple(RULES)
