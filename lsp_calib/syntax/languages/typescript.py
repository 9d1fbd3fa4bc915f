"""TypeScript, also with JSX, by tree-sitter-typescript."""

from __future__ import annotations

import re

import attrs

from lsp_calib.syntax.languages import javascript
from lsp_calib.syntax.languages.braces import binding
from lsp_calib.syntax.languages.rules import by_field, grammar_of

_KNOWN = """
    abstract any as asserts bigint boolean declare enum implements infer interface is keyof namespace never
    number object override private protected public readonly satisfies string symbol type unique unknown
    Awaited Exclude Extract InstanceType Iterable IterableIterator Iterator NonNullable Omit Parameters
    Partial Pick PromiseLike Readonly ReadonlyArray ReadonlyMap ReadonlySet Record Required ReturnType
"""

_BINDINGS = by_field(
    name="""
        abstract_class_declaration enum_assignment enum_body enum_declaration function_signature
        interface_declaration internal_module method_signature abstract_method_signature
        property_signature public_field_definition type_alias_declaration type_parameter
    """,
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
