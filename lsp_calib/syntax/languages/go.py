"""Go, by tree-sitter-go."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import attrs

from lsp_calib.syntax.languages.braces import (
    COMMENT,
    Finder,
    Parts,
    binding,
    has_words,
    parts,
    text_of,
)
from lsp_calib.syntax.rules import Gap, Gaps, LanguageRules, by_field, grammar_of, words

if TYPE_CHECKING:
    from tree_sitter import Node

# Keywords, and the names that are declared before any package.
_KNOWN = """
    break case chan const continue default defer else fallthrough for func go goto if import interface map
    package range return select struct switch type var
    _ any append bool byte cap clear close comparable complex complex128 complex64 copy delete error false
    float32 float64 imag init int int16 int32 int64 int8 iota len main make max min new nil panic print
    println real recover rune string true uint uint16 uint32 uint64 uint8 uintptr
    Error String
"""

_BINDINGS = by_field(
    name="""
        const_spec field_declaration function_declaration method_declaration method_elem type_alias
        type_parameter_declaration type_spec var_spec
    """,
    alias="type_switch_statement",
    label="labeled_statement",
    left="range_clause receive_statement short_var_declaration",
)


def _literal(node: Node) -> Parts | None:
    """`name := func() {...}` or `var name = func() {...}`, with one name and one function."""
    left = node.child_by_field_name("left")
    right = node.child_by_field_name("right") or node.child_by_field_name("value")
    if node.type == "var_spec" and len(node.children_by_field_name("name")) == 1:
        name = node.child_by_field_name("name")
    else:
        name = left.children[0] if left is not None and left.child_count == 1 else None
    if name is None or right is None or right.child_count != 1:
        return None
    function = right.children[0]
    found = parts(function) if function.type == "func_literal" else None
    return found and attrs.evolve(found, name=text_of(name))


_FINDER = Finder(
    "go",
    {
        "function_declaration": parts,
        "method_declaration": parts,
        "short_var_declaration": _literal,
        "var_spec": _literal,
    },
    documents=has_words,
)


_GAPS = Gaps(
    "tree-sitter-go 0.25.0",
    (
        Gap(
            "1.26",
            "new(",
            # What follows is no type.
            r"(?<![\w.])(new)\((?=\s*(?!struct\b|interface\b|func\b|map\b|chan\b)"
            r"(?:[-+!^&\"'`\d]|[\w.]+\s*(?:[-+*/%&|^({<>!]|==|\[\d)))",
            "min",
        ),
    ),
)


RULES = LanguageRules(
    grammar=grammar_of("tree_sitter_go"),
    names=words("field_identifier identifier package_identifier type_identifier"),
    binds=binding(
        words("import_declaration package_clause"),
        _BINDINGS,
        by_field(no_field="expression_list"),
    ),
    known=words(_KNOWN),
    spans=(("`", "`"), COMMENT),
    begins=re.compile(r"(?:const|func|import|package|type|var)\b"),
    functions=_FINDER.functions,
    wrappers=words("var_declaration"),
    bodies=words("statement_list"),
    gaps=_GAPS,
)
