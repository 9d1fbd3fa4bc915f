"""Rust, by tree-sitter-rust."""

from __future__ import annotations

import re

from lsp_calib.syntax.languages.braces import COMMENT, Finder, binding, parts
from lsp_calib.syntax.rules import Gap, Gaps, LanguageRules, by_field, grammar_of, words

# Keywords, primitive types, the prelude, macros of the standard library, and words of attributes.
_KNOWN = """
    Self abstract as async await become box break const continue crate do dyn else enum extern false final fn
    for if impl in let loop macro match mod move mut override priv pub ref return self static struct super
    trait true try type typeof union unsafe unsized use virtual where while yield
    bool char f32 f64 i128 i16 i32 i64 i8 isize str u128 u16 u32 u64 u8 usize
    AsMut AsRef Box Clone Copy Debug Default DoubleEndedIterator Drop Eq Err ExactSizeIterator Extend Fn FnMut
    FnOnce From FromIterator Hash Into IntoIterator Iterator None Ok Option Ord PartialEq PartialOrd Result
    Send Sized Some String Sync ToOwned ToString TryFrom TryInto Unpin Vec _
    alloc allow assert assert_eq assert_ne cfg clone column compile_error concat core dbg debug_assert
    debug_assert_eq debug_assert_ne deny derive doc drop env eprint eprintln expect feature file format
    format_args include include_bytes include_str inline into is_some is_none iter len line macro_rules
    matches must_use new option_env panic print println std stringify test thread_local to_string todo
    unimplemented unreachable unwrap vec warn write writeln
"""

_COMMENTS = words("block_comment line_comment")
_BINDINGS = by_field(
    name="""
        associated_type const_item const_parameter enum_item enum_variant field_declaration
        function_item function_signature_item macro_definition mod_item static_item struct_item
        trait_item type_item type_parameter union_item
    """,
    pattern="for_expression let_condition let_declaration match_arm",
    no_field="lifetime",
)
_WRAPPINGS = by_field(
    name="field_pattern",
    pattern="field_pattern",
    no_field="""
        captured_pattern match_pattern mut_pattern or_pattern ref_pattern reference_pattern
        slice_pattern struct_pattern tuple_pattern tuple_struct_pattern
    """,
)

_FINDER = Finder(
    "rust",
    {"function_item": parts},
    comments=_COMMENTS,
    # Four strokes, or three stars, are no documentation. Attributes hold it too.
    documents=lambda text: bool(re.match(r"///(?!/)|/\*\*(?![*/])|#\[(?:cfg_attr\(.*,\s*)?doc\s*=", text)),
    between=words("attribute_item"),
    inner=re.compile(r"//!|/\*!|#!\[(?:cfg_attr\(.*,\s*)?doc\s*="),
)


_GAPS = Gaps(
    "tree-sitter-rust 0.24.2",
    (
        Gap("1.82", "safe", r"(?:^|[{;])\s*(?:pub(?:\([^)]*\))?\s+)?(safe)\s+(?:fn|static)\b"),
        Gap("1.59", "..", r"\w\s*\{[^{}]*?(,\s*\.\.)\s*\}\s*=(?!=)"),
        Gap("1.51", "-", r"[<,]\s*(-)(?=\d+\s*[,>])"),
    ),
)


RULES = LanguageRules(
    grammar=grammar_of("tree_sitter_rust"),
    names=words("field_identifier identifier shorthand_field_identifier type_identifier"),
    comments=_COMMENTS,
    binds=binding(words("extern_crate_declaration use_declaration"), _BINDINGS, _WRAPPINGS),
    known=words(_KNOWN),
    spans=(('r#"', '"#'), ('"', '"'), COMMENT),
    begins=re.compile(
        r"(?:async|const|enum|extern|fn|impl|macro_rules|mod|pub|static|struct|trait|type|union|unsafe|use)\b|#"
    ),
    functions=_FINDER.functions,
    braces_below=True,
    marks={"#[": ("fn f() {}",)},
    gaps=_GAPS,
)
