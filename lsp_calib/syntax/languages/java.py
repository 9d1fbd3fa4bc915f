"""Java, by tree-sitter-java."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from lsp_calib.syntax.languages.braces import COMMENT, Finder, Parts, binding, bound, parts
from lsp_calib.syntax.rules import Gap, Gaps, LanguageRules, by_field, grammar_of, words

if TYPE_CHECKING:
    from tree_sitter import Node

# Keywords, and java.lang, which needs no import.
_KNOWN = """
    abstract assert boolean break byte case catch char class const continue default do double else enum
    extends false final finally float for goto if implements import instanceof int interface long native new
    null package permits private protected public record return sealed short static strictfp super switch
    synchronized this throw throws transient true try var void volatile when while yield
    Appendable ArithmeticException ArrayIndexOutOfBoundsException AssertionError AutoCloseable Boolean Byte
    CharSequence Character Class ClassCastException ClassLoader ClassNotFoundException
    CloneNotSupportedException Cloneable Comparable Deprecated Double Enum Error Exception Float
    FunctionalInterface IllegalAccessException IllegalArgumentException IllegalStateException
    IndexOutOfBoundsException Integer InterruptedException Iterable LinkageError Long Math
    NoSuchFieldException NoSuchMethodException NullPointerException Number NumberFormatException Object
    OutOfMemoryError Override Process Readable Record ReflectiveOperationException Runnable Runtime
    RuntimeException SafeVarargs SecurityException Short StackOverflowError StackTraceElement String
    StringBuffer StringBuilder SuppressWarnings System Thread ThreadLocal Throwable
    UnsupportedOperationException Void append equals getClass hashCode length out println size toString
    valueOf
"""

_COMMENTS = words("block_comment line_comment")
_BINDINGS = by_field(
    name="""
        annotation_type_declaration annotation_type_element_declaration catch_formal_parameter
        class_declaration compact_constructor_declaration constructor_declaration enhanced_for_statement
        enum_constant enum_declaration instanceof_expression interface_declaration method_declaration
        record_declaration resource variable_declarator
    """,
    no_field="labeled_statement type_parameter",
)

_lambda = bound("name", "value")


def _field(node: Node) -> Parts | None:
    """Of a field that holds a function."""
    declarators = node.children_by_field_name("declarator")
    return _lambda(declarators[0]) if len(declarators) == 1 else None


_FINDER = Finder(
    "java",
    {
        "compact_constructor_declaration": parts,
        "constructor_declaration": parts,
        "field_declaration": _field,
        "method_declaration": parts,
    },
    comments=_COMMENTS,
    documents=lambda text: text.startswith(("/**", "///")),
    between=words("annotation marker_annotation"),
)


_GAPS = Gaps(
    "tree-sitter-java 0.23.5",
    (
        Gap("25", "(", r"(?:^|[;{}])\s*(super|this)\s*\(", "size"),
        Gap("25", "module", r"^\s*import\s+(module)\s+[\w.]+\s*;"),
    ),
)


RULES = LanguageRules(
    grammar=grammar_of("tree_sitter_java"),
    names=words("identifier type_identifier"),
    comments=_COMMENTS,
    binds=binding(words("import_declaration package_declaration"), _BINDINGS),
    known=words(_KNOWN),
    spans=(('"""', '"""'), COMMENT),
    begins=re.compile(
        r"(?:abstract|class|enum|final|import|interface|package|private|protected|public|record|sealed)\b|@"
    ),
    functions=_FINDER.functions,
    finishes={"do": "while (true);", "try": "finally {}"},
    heads={"for": "; ;", "try": "A a = b"},
    braces_below=True,
    marks={"@": ("void m() {}",)},
    gaps=_GAPS,
)
