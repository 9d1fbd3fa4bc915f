"""C#, by tree-sitter-c-sharp."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import attrs

from lsp_calib.syntax.languages.braces import COMMENT, Finder, Parts, binding, parts, text_of
from lsp_calib.syntax.rules import Gap, Gaps, LanguageRules, by_field, grammar_of, words

if TYPE_CHECKING:
    from tree_sitter import Node

# Keywords, and the types of the namespaces that a new project uses everywhere, with their commonest members.
_KNOWN = """
    abstract add alias and as async await base bool break by byte case catch char checked class const continue
    decimal default delegate do double dynamic else enum equals event explicit extern false file finally fixed
    float for foreach from get global goto group if implicit in init int interface internal into is join let
    lock long managed nameof namespace new nint not notnull nuint null object on operator or orderby out
    override params partial private protected public readonly record ref remove required return sbyte scoped
    sealed select set short sizeof stackalloc static string struct switch this throw true try typeof uint
    ulong unchecked unmanaged unsafe ushort using value var virtual void volatile when where while with yield
    Action Any ArgumentException ArgumentNullException ArgumentOutOfRangeException Array Attribute Boolean
    CancellationToken Char Console Convert Count DateTime DateTimeOffset Dictionary Dispose Double Enum
    Enumerable Environment Equals EventArgs EventHandler Exception File FirstOrDefault Format FormatException
    Func GC GetHashCode GetType Guid HashSet IAsyncEnumerable ICollection IDictionary IDisposable IEnumerable
    IEnumerator IEquatable IList IOException IReadOnlyCollection IReadOnlyList Int32 Int64
    InvalidOperationException Join Key KeyValuePair Lazy Length List Math Memory NotImplementedException
    NotSupportedException Nullable Object ObjectDisposedException Obsolete Path Predicate Random ReadOnlySpan
    Select Span Stream String StringBuilder StringComparison Task Thread TimeSpan ToArray ToList ToString
    Tuple Type Uri ValueTask Version Where WriteLine _ args nameof
"""

_BINDINGS = by_field(
    name="""
        catch_declaration class_declaration constructor_declaration declaration_expression
        declaration_pattern delegate_declaration destructor_declaration enum_declaration
        enum_member_declaration event_declaration from_clause interface_declaration
        local_function_statement method_declaration property_declaration record_declaration
        recursive_pattern struct_declaration tuple_pattern type_parameter var_pattern
        variable_declarator
    """,
    left="foreach_statement",
    no_field="labeled_statement let_clause parenthesized_variable_designation variable_declarator",
)
_WRAPPINGS = by_field(no_field="tuple_pattern")


def _operator(node: Node) -> Parts | None:
    """Of an operator, or of a conversion to a type: its name is the word `operator` and what follows it."""
    body = node.child_by_field_name("body")
    if body is None:
        return None
    what = node.child_by_field_name("operator") or node.child_by_field_name("type")
    return Parts(f"operator {text_of(what)}", node, body)


def _destructor(node: Node) -> Parts | None:
    found = parts(node)
    return found and attrs.evolve(found, name=f"~{found.name}")


_FINDER = Finder(
    "csharp",
    {
        "constructor_declaration": parts,
        "conversion_operator_declaration": _operator,
        "destructor_declaration": _destructor,
        "local_function_statement": parts,
        "method_declaration": parts,
        "operator_declaration": _operator,
    },
    # Four strokes, or three stars, are no documentation.
    documents=lambda text: bool(re.match(r"///(?!/)|/\*\*(?![*/])", text)),
    between=words("attribute_list"),
)


_GAPS = Gaps(
    "tree-sitter-c-sharp 0.23.5",
    (
        Gap("14", "?.", r"(\?)(?=\.[\w.?]+(?:\[[^\]]*\])?\s*(?:[-+*/%&|^]|<<|>>>?|\?\?)?=(?![=>]))"),
        Gap("14", "?[", r"(\?)(?=\[[^\]]*\](?:\.\w+)*\s*(?:[-+*/%&|^]|<<|>>>?|\?\?)?=(?![=>]))"),
        Gap("14", "extension", r"^\s*(extension\s*(?:<[^>]*>)?\s*\([^()]*\))\s*(?:\{|where\b|$)", "class _"),
        Gap("13", "allows", r"[:,]\s*(allows\s+ref\s+struct)\b", "struct"),
        Gap("14", "operator", r"\boperator\s*(?:checked\s+)?(?:[-+*/%&|^]|<<|>>>?)(=)\s*\("),
        Gap("14", "=>", r"[(,]\s*(ref\s+readonly|scoped|ref|out|in)\s+(?=\w+\s*[,)][^=]*=>)"),
        Gap("14", "#:", r"^(#:)", "//"),
    ),
)


RULES = LanguageRules(
    grammar=grammar_of("tree_sitter_c_sharp"),
    names=words("identifier"),
    binds=binding(words("file_scoped_namespace_declaration using_directive"), _BINDINGS, _WRAPPINGS),
    known=words(_KNOWN),
    spans=(('"""', '"""'), ('@"', '"'), COMMENT),
    begins=re.compile(
        r"(?:abstract|class|delegate|enum|file|global|interface|internal|namespace|partial|public|record|sealed"
        r"|static|struct|using)\b"
    ),
    functions=_FINDER.functions,
    wrappers=words("global_statement"),
    finishes={"do": "while (true);", "try": "finally {}"},
    heads={"for": "; ;", "foreach": "var a in b"},
    braces_below=True,
    marks={"[": ("void M() {}", "class M {}")},
    opaque=words(
        """
            #define #elif #else #endif #error #if #line #nullable #pragma #undef #warning preproc_arg
            preproc_region preproc_endregion shebang_directive
        """
    ),
    gaps=_GAPS,
)
