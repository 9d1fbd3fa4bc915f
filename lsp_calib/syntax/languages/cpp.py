"""C++, by tree-sitter-cpp."""

from __future__ import annotations

import re
from types import MappingProxyType

import attrs

from lsp_calib.syntax.languages import c
from lsp_calib.syntax.languages.braces import COMMENT, binding
from lsp_calib.syntax.languages.rules import by_field, grammar_of

_KNOWN = """
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

_BINDINGS = by_field(
    name="""
        alias_declaration class_specifier concept_definition namespace_definition
        optional_type_parameter_declaration
    """,
    declarator="for_range_loop",
    no_field="type_parameter_declaration using_declaration",
)
_WRAPPINGS = by_field(no_field="destructor_name reference_declarator structured_binding_declarator")


RULES = attrs.evolve(
    c.RULES,
    grammar=grammar_of("tree_sitter_cpp"),
    names=c.NAMES | {"namespace_identifier"},
    binds=binding(c.INCLUDES, c.BINDINGS | _BINDINGS, c.WRAPPINGS | _WRAPPINGS),
    known=c.RULES.known | frozenset(_KNOWN.split()),
    spans=(COMMENT, ('R"(', ')"')),
    # What stands in a namespace is often not indented: it does not show where the outermost level is.
    begins=re.compile(r"#\s*include\b"),
    wrappers=frozenset({"template_declaration"}),
    finishes=MappingProxyType({**c.RULES.finishes, "try": "catch (...) {}"}),
)
