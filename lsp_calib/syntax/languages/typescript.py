"""TypeScript, also with JSX, by tree-sitter-typescript."""

from __future__ import annotations

import re

import attrs

from lsp_calib.syntax.languages import javascript
from lsp_calib.syntax.languages.braces import binding
from lsp_calib.syntax.languages.rules import grammar_of

_KNOWN = """
    abstract any as asserts bigint boolean declare enum implements infer interface is keyof namespace never
    number object override private protected public readonly satisfies string symbol type unique unknown
    Awaited Exclude Extract InstanceType Iterable IterableIterator Iterator NonNullable Omit Parameters
    Partial Pick PromiseLike Readonly ReadonlyArray ReadonlyMap ReadonlySet Record Required ReturnType
"""

_BINDINGS: frozenset[tuple[str, str | None]] = frozenset(
    {
        ("abstract_class_declaration", "name"),
        ("enum_assignment", "name"),
        ("enum_body", "name"),
        ("enum_declaration", "name"),
        ("function_signature", "name"),
        ("interface_declaration", "name"),
        ("internal_module", "name"),
        ("method_signature", "name"),
        ("abstract_method_signature", "name"),
        ("property_signature", "name"),
        ("public_field_definition", "name"),
        ("type_alias_declaration", "name"),
        ("type_parameter", "name"),
    }
)


_FINDER = attrs.evolve(javascript.FINDER, signatures=frozenset({"function_signature", "method_signature"}))
RULES = attrs.evolve(
    javascript.RULES,
    grammar=grammar_of("tree_sitter_typescript", "language_typescript"),
    tags=False,
    function=_FINDER.function,
    names=javascript.NAMES | {"type_identifier"},
    binds=binding(javascript.IMPORTS, javascript.BINDINGS | _BINDINGS, javascript.WRAPPINGS),
    known=javascript.RULES.known | frozenset(_KNOWN.split()),
    begins=re.compile(
        r"(?:abstract|async|class|const|declare|enum|export|function|import|interface|let|module|namespace"
        r"|type|var)\b|@"
    ),
)
REACT_RULES = attrs.evolve(RULES, grammar=grammar_of("tree_sitter_typescript", "language_tsx"), tags=True)
