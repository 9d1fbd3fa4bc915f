"""C, by tree-sitter-c, and C++, by tree-sitter-cpp."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import attrs

from lsp_calib.syntax.languages.braces import COMMENT, Finder, Parts, binding, bound, text_of
from lsp_calib.syntax.rules import Gap, Gaps, LanguageRules, by_field, grammar_of, words

if TYPE_CHECKING:
    from tree_sitter import Node

# Keywords, and the names of the headers that most files include.
_KNOWN = """
    auto bool break case char const continue default do double else enum extern false float for goto if inline
    int long nullptr register restrict return short signed sizeof static static_assert struct switch true
    typedef typeof union unsigned void volatile while
    EOF FILE INT_MAX INT_MIN LONG_MAX LONG_MIN NULL SIZE_MAX UINT_MAX abort abs argc argv assert atoi bsearch
    calloc defined ctype errno exit fclose fflush fgetc fgets fopen fprintf fputc fputs fread free fseek
    ftell fwrite getenv int16_t int32_t int64_t int8_t intptr_t isalnum isalpha isdigit isspace isupper
    localtime main malloc memchr memcmp memcpy memmove memset off_t offsetof perror pid_t printf ptrdiff_t
    putchar puts qsort rand realloc scanf snprintf sprintf sscanf ssize_t stderr stdin stdout strcat strchr
    strcmp strcpy strdup strerror strlen strncat strncmp strncpy strrchr strstr strtol strtoul time time_t
    tolower toupper uint16_t uint32_t uint64_t uint8_t uintptr_t va_arg va_end va_list va_start vfprintf
    vsnprintf size_t
"""

_NAMES = words("field_identifier identifier statement_identifier type_identifier")
_INCLUDES = words("preproc_include")
_BINDINGS = by_field(
    name="enum_specifier enumerator preproc_def preproc_function_def",
    declarator="declaration field_declaration function_definition type_definition",
    label="labeled_statement",
)
_WRAPPINGS = by_field(
    declarator="array_declarator function_declarator init_declarator pointer_declarator",
    no_field="parenthesized_declarator",
)
_CONTROL = words("catch constexpr do else for if return switch try while")
_BEGINS = re.compile(r"(?!(?:break|case|default|else|goto|return)\b|\w+\s*:(?!:))[A-Za-z_]")


def _definition(node: Node) -> Parts | None:
    """Of a function: its name is the innermost of its declarators. None for a statement that was taken for
    one."""
    body = node.child_by_field_name("body")
    if body is None:
        return None
    name = node
    while name.type != "operator_cast" and (inner := _declarator(name)) is not None:
        name = inner
    named = "" if name == node else _up_to_parameters(name)
    # Where #ifdef splits a chain of conditions, the rest of it reads as functions of these names.
    return None if named in _CONTROL else Parts(named, node, body)


def _up_to_parameters(name: Node) -> str:
    """The text of a name; that of a conversion operator without its parameters: they are of its last part."""
    cast: Node | None = name
    while cast is not None and cast.type == "qualified_identifier":
        cast = cast.child_by_field_name("name")
    part = cast if cast is not None and cast.type == "operator_cast" else None
    while part is not None:
        parameters = part.child_by_field_name("parameters")
        if parameters is not None and name.text:
            shown = name.text[: parameters.start_byte - name.start_byte]
            return " ".join(shown.decode("utf-8", "replace").split())
        part = _declarator(part)
    return text_of(name)


def _declarator(node: Node) -> Node | None:
    found = node.child_by_field_name("declarator")
    if found is None and node.type in (
        "parenthesized_declarator",
        "reference_declarator",
        "abstract_reference_declarator",
    ):
        found = next((child for child in node.named_children if child.type.endswith("declarator")), None)
    return found


_lambda = bound("declarator", "value")


def _variable(node: Node) -> Parts | None:
    """Of a variable that holds a function."""
    declarators = node.children_by_field_name("declarator")
    return _lambda(declarators[0]) if len(declarators) == 1 else None


_FINDER = Finder(
    "c",
    {"declaration": _variable, "function_definition": _definition},
    # `///<` is of what stands before it; four strokes, three stars and other comments are no documentation.
    documents=lambda text: bool(re.match(r"/\*[*!](?![*/<])|//[/!](?![/<])", text)),
)


_CASES = Gap("GNU, C2y", "...", r"\bcase\s+[^:;.]+(\.\.\.[^:;.]+):")

_LABEL = Gap(
    "C23, C++23",
    ":",
    r"^\s*(?!default\b|public\b|private\b|protected\b|signals\b|slots\b)[a-z_]\w*\s*(:)\s*$",
    ";",
)

_GAPS = Gaps(
    "tree-sitter-c 0.24.2",
    (
        Gap("C23", "auto", r"\b(auto)\s+(?=\w+\s*=)", "int"),
        Gap("C23", "enum", r"\benum\b[\w\s]*(:\s*[\w\s]+)(?=[{;])"),
        Gap("C23", "_BitInt", r"\b(_BitInt\s*\([^()]*\))", "int"),
        Gap("C11", "_Atomic", r"\b(_Atomic\s*\()[\w\s*]+(\))"),
        Gap("C99", "_Complex", r"\b(_Complex)\b"),
        Gap("C23", "[[", r"(\[\[[^\[\]]*\]\])"),
        Gap("GNU", "goto", r"\b(goto\s*\*)"),
        Gap("GNU", "__attribute__", r"^\s*(__attribute__\s*\(\(.*?\)\)\s*)(?=struct\b|union\b|enum\b)"),
        Gap("GNU", "__builtin_offsetof", r"\b(__builtin_offsetof)\b", "offsetof"),
        _CASES,
        _LABEL,
    ),
)


RULES = LanguageRules(
    grammar=grammar_of("tree_sitter_c"),
    names=_NAMES,
    binds=binding(_INCLUDES, _BINDINGS, _WRAPPINGS),
    known=words(_KNOWN),
    spans=(COMMENT,),
    begins=_BEGINS,
    functions=_FINDER.functions,
    finishes={"do": "while (0);", "typedef": "_ ;"},
    braces_below=True,
    heads={"for": "; ;"},
    opaque=words("#define #elif #else #endif #if #ifdef #ifndef #include preproc_arg preproc_directive"),
    macros=True,
    gaps=_GAPS,
)


# C++, beyond C.
_CPP_KNOWN = """
    alignas alignof and catch char16_t char32_t char8_t class co_await co_return co_yield concept const_cast
    consteval constexpr constinit decltype delete dynamic_cast explicit export final friend import module
    mutable namespace new noexcept not operator or override private protected public reinterpret_cast
    requires static_cast template this thread_local throw try typeid typename using virtual wchar_t
    array back begin c_str cerr cout data deque emplace_back empty end endl exception find first forward
    front function get initializer_list insert istream iterator list make_pair make_shared make_unique map
    max min move mutex nullptr_t optional ostream out_of_range pair push_back reserve resize runtime_error
    second set shared_ptr size std string string_view swap tuple unique_ptr unordered_map unordered_set
    value_type variant vector
"""

_CPP_BINDINGS = by_field(
    name="""
        alias_declaration class_specifier concept_definition namespace_definition
        optional_type_parameter_declaration
    """,
    declarator="for_range_loop",
    no_field="type_parameter_declaration using_declaration",
)
_CPP_WRAPPINGS = by_field(no_field="destructor_name reference_declarator structured_binding_declarator")


_CPP_GAPS = Gaps(
    "tree-sitter-cpp 0.23.4",
    (
        Gap("C++23", "this", r"\(\s*(this)\s+(?!and\b|or\b|xor\b|not_eq\b|bitand\b|bitor\b)(?=[A-Za-z_])"),
        Gap("C++23", "consteval", r"\bif\s+((?:!\s*|not\s+)?consteval)\b", "(1)"),
        Gap(
            "C++23",
            "]",
            r"\[[^\[\]]*\]\s*((?:(?:static|mutable|constexpr|consteval|noexcept)\s*)+(?:->\s*[\w:<>*&\s]+?)?"
            r"|->\s*[\w:<>*&\s]+?)\s*(?=\{)",
        ),
        Gap("C++20", "module", r"^\s*((?:export\s+)?module\s+[\w.:]+)\s*;"),
        Gap("C++20", "import", r"^\s*(export)\s+import\b"),
        Gap("C++20", "export", r"^\s*(export)\s+(?!import\b|module\b)(?=\w)"),
        Gap("C++98", "template", r"^\s*((?:extern\s+)?template)\s+(?:class|struct)\b"),
        Gap("C++26", "delete", r"=\s*delete(\(\s*\"[^\"]*\"\s*\))"),
        Gap("C++20", ":", r"^\s*[\w:\s]+\s:\s*\w+\s*(=[^=;][^;]*);"),
        Gap("C++98", "->*", r"(->)\*(?=\w)"),
        Gap("C++23", "static", r"\]\s*\([^()]*\)\s*(static)\b"),
        Gap("C++11", "template", r"^\s*(extern)\s+template\s+(?!class\b|struct\b)(?=\w)"),
        Gap("C++98", "::*", r"\(\s*((?:\w+(?:<[^<>]*>)?::)+)\*"),
        Gap("C++98", "throw", r"[?:]\s*(throw)\b"),
        Gap("C++23", "[[", r"(\[\[[^\[\]]*\]\])"),
        _CASES,
        _LABEL,
    ),
)


CPP_RULES = attrs.evolve(
    RULES,
    grammar=grammar_of("tree_sitter_cpp"),
    names=_NAMES | {"namespace_identifier"},
    binds=binding(_INCLUDES, _BINDINGS | _CPP_BINDINGS, _WRAPPINGS | _CPP_WRAPPINGS),
    known=RULES.known | words(_CPP_KNOWN),
    spans=(COMMENT, ('R"(', ')"')),
    # What stands in a namespace is often not indented: it does not show where the outermost level is.
    begins=re.compile(r"#\s*include\b"),
    wrappers=words("linkage_specification template_declaration"),
    finishes={**RULES.finishes, "try": "catch (...) {}"},
    gaps=_CPP_GAPS,
)
