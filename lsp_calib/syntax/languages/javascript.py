"""JavaScript, by tree-sitter-javascript, and TypeScript, by tree-sitter-typescript; both also with JSX."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

import attrs

from lsp_calib.syntax.languages.braces import COMMENT, Finder, Parts, binding, bound, parts, text_of
from lsp_calib.syntax.rules import BRACKETS, Gap, Gaps, LanguageRules, by_field, grammar_of, words

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

_NAMES = words(
    """
        identifier private_property_identifier property_identifier shorthand_property_identifier
        shorthand_property_identifier_pattern
    """
)
_IMPORTS = words("import_statement")
_BINDINGS = by_field(
    name="""
        class_declaration function_declaration generator_function_declaration method_definition
        variable_declarator
    """,
    key="pair",
    left="for_in_statement",
    parameter="catch_clause",
    property="field_definition",
)
_WRAPPINGS = by_field(
    left="assignment_pattern object_assignment_pattern",
    value="pair_pattern",
    no_field="array_pattern object_pattern rest_pattern",
)
# What holds a declaration, together with the words before it.
_WRAPPERS = words(
    """
        ambient_declaration export_statement expression_statement lexical_declaration return_statement
        variable_declaration
    """
)

# Calls that give their first argument with more to it, so that the name is the function's.
_KEEPING = words(
    "asyncHandler cache debounce forwardRef memo memoize observer once promisify throttle useCallback"
)
_CASTS = words("as_expression non_null_expression parenthesized_expression satisfies_expression")


def _inside(value: Node) -> Node:
    """The function of `memo(function () {...})` and of `(() => ...) as any`."""
    inner: Node | None = value
    while inner is not None:
        value = inner
        held: Sequence[Node] = ()
        if value.type in _CASTS:
            held = value.named_children
        elif value.type == "call_expression" and _called(value) in _KEEPING:
            arguments = value.child_by_field_name("arguments")
            held = arguments.named_children if arguments is not None else ()
        inner = next((one for one in held if one.type != "comment"), None)
    return value


def _called(call: Node) -> str:
    """The last name of what a call calls."""
    function = call.child_by_field_name("function")
    name = function and function.child_by_field_name("property")
    return text_of(name or function)


def _named(node: Node) -> Parts | None:
    """Of a function with a name that is a value: an argument, or what is returned."""
    return parts(node) if node.child_by_field_name("name") is not None else None


_FINDER = Finder(
    "javascript",
    {
        "assignment_expression": bound("left", "right", _inside),
        "export_statement": bound("", "value", _inside),  # `export default () => ...`
        "field_definition": bound("property", "value", _inside),
        "function_declaration": parts,
        "function_expression": _named,
        "generator_function": _named,
        "generator_function_declaration": parts,
        "method_definition": parts,
        "pair": bound("key", "value", _inside),
        "public_field_definition": bound("name", "value", _inside),
        "variable_declarator": bound("name", "value", _inside),
    },
    documents=lambda text: text.startswith("/**"),
    between=words("decorator"),
    expressions=words("function_expression generator_function"),
)


_ACCESSOR = (
    r"(?:^|[{;])\s*(?:(?:public|private|protected|static|override|abstract|declare)\s+)*"
    r"(accessor)\s+[\w#\[\"']"
)
_FROM = r"\bfrom\s*(?:'[^']*'|\"[^\"]*\")\s*"

_GAPS = Gaps(
    "tree-sitter-javascript 0.25.0",
    (
        Gap("decorators proposal", "accessor", _ACCESSOR),
        Gap("ES2025", "export", rf"\bexport\b.*{_FROM}(with\s*\{{[^}}]*\}})"),
        Gap("before ES2025", "assert", rf"\b(?:import|export)\b.*{_FROM}(assert\s*\{{[^}}]*\}})"),
        Gap("ES proposal", "defer", r"\bimport\s+(defer)\s+\*"),
    ),
)


RULES = LanguageRules(
    grammar=grammar_of("tree_sitter_javascript"),
    names=_NAMES,
    binds=binding(_IMPORTS, _BINDINGS, _WRAPPINGS),
    known=words(_KNOWN),
    spans=(("`", "`"), COMMENT),
    begins=re.compile(r"(?:async|class|const|export|function|import|let|var)\b|@"),
    functions=_FINDER.functions,
    wrappers=_WRAPPERS,
    brackets={**BRACKETS, "${": "}"},
    finishes={"do": "while (true);", "import": 'from "m" ;', "try": "finally {}"},
    heads={"for": "; ;"},
    marks={"@": ("m() {}", "class M {}")},
    tags=True,
    gaps=_GAPS,
)


# TypeScript, beyond JavaScript.
_TS_KNOWN = """
    abstract any as asserts bigint boolean declare enum implements infer interface is keyof namespace never
    number object override private protected public readonly satisfies string symbol type unique unknown
    Awaited Exclude Extract InstanceType Iterable IterableIterator Iterator NonNullable Omit Parameters
    Partial Pick PromiseLike Readonly ReadonlyArray ReadonlyMap ReadonlySet Record Required ReturnType
"""

_TS_BINDINGS = by_field(
    name="""
        abstract_class_declaration enum_assignment enum_body enum_declaration function_signature
        interface_declaration internal_module method_signature abstract_method_signature
        property_signature public_field_definition type_alias_declaration type_parameter
    """,
)


_TS_GAPS = Gaps(
    "tree-sitter-typescript 0.23.2",
    (
        Gap("5.0", "type", r"\bexport\s+(type)\s+\*"),
        Gap("2.9", "import(", r"(?<!\w)(import\(\s*(?:'[^']*'|\"[^\"]*\")\s*\)\s*\.)(?=\s*[\w.]+<)"),
        Gap("4.7", "out", r"(?:^|[<,])\s*((?:in\s+)?out)\s+(?=\w+\s*(?:[,>=]|extends\b|$))"),
        Gap("4.7", "in ", r"[<,]\s*(in)\s+(?=\w+\s*(?:[,>=]|extends\b))"),
        Gap("4.9", "accessor", _ACCESSOR),
        Gap("5.3", "export", rf"\bexport\b.*{_FROM}(with\s*\{{[^}}]*\}})"),
        Gap("4.9", "accessor", r"(?:^|[{;])\s*(accessor)\s*[?!]?:", "_"),
        Gap("4.3", "static", r"\b(static)\s+(?:readonly\s+)?(?=\[\w+\s*:)"),
        Gap("2.0", "global", r"^\s*(global)\s*\{"),
        Gap("1.6", "abstract", r"(?:^|[{;])\s*(abstract)\s*\??:", "_"),
        Gap("3.4", "keyof", r"\bkeyof\s+(readonly)\b"),
        Gap("5.9", "defer", r"\bimport\s+(defer)\s+\*"),
        Gap("5.2", "using", r"\bfor\s*(?:await\s*)?\(\s*((?:await\s+)?using)\s+\w+\s+of\b", "const"),
    ),
)


_TS_FINDER = attrs.evolve(
    _FINDER, language="typescript", signatures=words("function_signature method_signature")
)
TYPESCRIPT_RULES = attrs.evolve(
    RULES,
    grammar=grammar_of("tree_sitter_typescript", "language_typescript"),
    tags=False,
    functions=_TS_FINDER.functions,
    names=_NAMES | {"type_identifier"},
    binds=binding(_IMPORTS, _BINDINGS | _TS_BINDINGS, _WRAPPINGS),
    known=RULES.known | words(_TS_KNOWN),
    begins=re.compile(
        r"(?:abstract|async|class|const|declare|enum|export|function|import|interface|let|module|namespace"
        r"|type|var)\b|@"
    ),
    gaps=_TS_GAPS,
)
TYPESCRIPT_REACT_RULES = attrs.evolve(
    TYPESCRIPT_RULES, grammar=grammar_of("tree_sitter_typescript", "language_tsx"), tags=True
)
