"""C, by tree-sitter-c; and what C++ has in common with it."""

from __future__ import annotations

import re
from types import MappingProxyType
from typing import TYPE_CHECKING

from lsp_calib.syntax.languages.braces import BRACKETS, COMMENT, Finder, Parts, binding, has_words, text_of
from lsp_calib.syntax.languages.rules import LanguageRules, by_field, grammar_of

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

NAMES = frozenset({"field_identifier", "identifier", "statement_identifier", "type_identifier"})
COMMENTS = frozenset({"comment"})
INCLUDES = frozenset({"preproc_include"})
BINDINGS = by_field(
    name="enum_specifier enumerator preproc_def preproc_function_def",
    declarator="declaration field_declaration function_definition type_definition",
    label="labeled_statement",
)
WRAPPINGS = by_field(
    declarator="array_declarator function_declarator init_declarator pointer_declarator",
    no_field="parenthesized_declarator",
)
_CONTROL = frozenset({"catch", "constexpr", "do", "else", "for", "if", "return", "switch", "try", "while"})
BEGINS = re.compile(r"(?!(?:break|case|default|else|goto|return)\b|\w+\s*:(?!:))[A-Za-z_]")


def definition(node: Node) -> Parts | None:
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


FINDER = Finder(MappingProxyType({"function_definition": definition}), comments=COMMENTS, documents=has_words)


RULES = LanguageRules(
    grammar=grammar_of("tree_sitter_c"),
    names=NAMES,
    comments=COMMENTS,
    binds=binding(INCLUDES, BINDINGS, WRAPPINGS),
    known=frozenset(_KNOWN.split()),
    spans=(COMMENT,),
    begins=BEGINS,
    definitions=frozenset(FINDER.parts),
    function=FINDER.function,
    brackets=BRACKETS,
    finishes=MappingProxyType({"do": "while (0);", "typedef": "_ ;"}),
    braces_below=True,
    heads=MappingProxyType({"for": "; ;"}),
    opaque=frozenset(
        {
            "#define",
            "#elif",
            "#else",
            "#endif",
            "#if",
            "#ifdef",
            "#ifndef",
            "#include",
            "preproc_arg",
            "preproc_directive",
        }
    ),
)
