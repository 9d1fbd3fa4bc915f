"""JavaScript, also with JSX, by tree-sitter-javascript; and what TypeScript has in common with it."""

from __future__ import annotations

import re
from collections.abc import Callable
from types import MappingProxyType
from typing import TYPE_CHECKING

import attrs

from lsp_calib.syntax.languages.braces import BRACKETS, COMMENT, Finder, Parts, binding, parts, text_of
from lsp_calib.syntax.languages.rules import LanguageRules, by_field, grammar_of

if TYPE_CHECKING:
    from tree_sitter import Node

_KNOWN = """
    async await break case catch class const continue debugger default delete do else export extends false
    finally for from function get if import in instanceof let new null of return set static super switch this
    throw true try typeof undefined var void while with yield
    AbortController AbortSignal AggregateError Array ArrayBuffer Atomics BigInt BigInt64Array BigUint64Array
    Blob Boolean Buffer DataView Date Error Event EventTarget FinalizationRegistry Float32Array Float64Array
    FormData Function Headers Infinity Int16Array Int32Array Int8Array Intl JSON Map Math NaN Number Object
    Promise Proxy RangeError ReferenceError Reflect RegExp Request Response Set SharedArrayBuffer String
    Symbol SyntaxError TextDecoder TextEncoder TypeError URIError URL URLSearchParams Uint16Array Uint32Array
    Uint8Array Uint8ClampedArray WeakMap WeakRef WeakSet WebAssembly __dirname __filename arguments atob btoa
    clearInterval clearTimeout console constructor decodeURI decodeURIComponent document encodeURI
    encodeURIComponent eval exports fetch globalThis isFinite isNaN length module navigator parseFloat
    parseInt process prototype queueMicrotask require self setImmediate setInterval setTimeout
    structuredClone then toString window
"""

NAMES = frozenset(
    {
        "identifier",
        "private_property_identifier",
        "property_identifier",
        "shorthand_property_identifier",
        "shorthand_property_identifier_pattern",
    }
)
COMMENTS = frozenset({"comment"})
IMPORTS = frozenset({"import_statement"})
BINDINGS = by_field(
    name="""
        class_declaration function_declaration generator_function_declaration method_definition
        variable_declarator
    """,
    key="pair",
    left="for_in_statement",
    parameter="catch_clause",
    property="field_definition",
)
WRAPPINGS = by_field(
    left="assignment_pattern object_assignment_pattern",
    value="pair_pattern",
    no_field="array_pattern object_pattern rest_pattern",
)
# What holds a declaration, together with the words before it.
WRAPPERS = frozenset(
    {"ambient_declaration", "export_statement", "expression_statement", "lexical_declaration"}
    | {"variable_declaration"}
)
_FUNCTIONS = frozenset({"arrow_function", "function", "function_expression", "generator_function"})


def _bound(name: str, value: str) -> Callable[[Node], Parts | None]:
    """Takes apart what binds a function to a name: the fields of the name and of the function."""

    def take_apart(node: Node) -> Parts | None:
        function = node.child_by_field_name(value)
        if function is None or function.type not in _FUNCTIONS:
            return None
        found = parts(function)
        return found and attrs.evolve(found, name=text_of(node.child_by_field_name(name)))

    return take_apart


FINDER = Finder(
    MappingProxyType(
        {
            "assignment_expression": _bound("left", "right"),
            "export_statement": _bound("", "value"),  # `export default () => ...`
            "field_definition": _bound("property", "value"),
            "function_declaration": parts,
            "generator_function_declaration": parts,
            "method_definition": parts,
            "pair": _bound("key", "value"),
            "public_field_definition": _bound("name", "value"),
            "variable_declarator": _bound("name", "value"),
        }
    ),
    comments=COMMENTS,
    documents=lambda text: text.startswith("/**"),
    between=frozenset({"decorator"}),
)


RULES = LanguageRules(
    grammar=grammar_of("tree_sitter_javascript"),
    names=NAMES,
    comments=COMMENTS,
    binds=binding(IMPORTS, BINDINGS, WRAPPINGS),
    known=frozenset(_KNOWN.split()),
    spans=(("`", "`"), COMMENT),
    begins=re.compile(r"(?:async|class|const|export|function|import|let|var)\b|@"),
    definitions=frozenset(FINDER.parts),
    function=FINDER.function,
    wrappers=WRAPPERS,
    brackets=MappingProxyType({**BRACKETS, "${": "}"}),
    finishes=MappingProxyType({"do": "while (true);", "import": 'from "m" ;', "try": "finally {}"}),
    heads=MappingProxyType({"for": "; ;"}),
    marks=MappingProxyType({"@": ("m() {}", "class M {}")}),
    tags=True,
)
