"""PHP, by tree-sitter-php."""

from __future__ import annotations

import re

from lsp_calib.syntax.languages.braces import COMMENT, Finder, binding, bound, parts
from lsp_calib.syntax.rules import BRACKETS, Gap, Gaps, LanguageRules, by_field, grammar_of, words

# Keywords, and the functions, classes and constants of the language's core that most files use.
_KNOWN = """
    abstract and array as bool break callable case catch class clone const continue declare default die do
    echo else elseif empty enddeclare endfor endforeach endif endswitch endwhile enum eval exit extends false
    final finally float fn for foreach from function global goto if implements include include_once instanceof
    insteadof int interface isset iterable list match mixed namespace never new null object or parent print
    private protected public readonly require require_once return self static strict_types string switch this
    throw trait true try unset use var void while xor yield
    ArgumentCountError ArrayAccess ArrayIterator ArrayObject Attribute BadMethodCallException Closure
    Countable DateInterval DateTime DateTimeImmutable DateTimeInterface DateTimeZone Error ErrorException
    Exception Generator InvalidArgumentException Iterator IteratorAggregate JsonException JsonSerializable
    LogicException OutOfBoundsException PDO ReflectionClass RuntimeException SplObjectStorage Stringable
    Throwable Traversable TypeError UnexpectedValueException ValueError stdClass
    DIRECTORY_SEPARATOR E_ALL E_USER_ERROR JSON_THROW_ON_ERROR NULL PHP_EOL PHP_INT_MAX PHP_VERSION TRUE FALSE
    _COOKIE _ENV _FILES _GET _POST _REQUEST _SERVER _SESSION __CLASS__ __DIR__ __FILE__ __FUNCTION__ __LINE__
    __METHOD__ __NAMESPACE__ __construct __destruct __get __invoke __set __toString
    array_column array_combine array_diff array_fill array_filter array_flip array_intersect array_key_exists
    array_keys array_map array_merge array_pop array_push array_reduce array_reverse array_search array_shift
    array_slice array_sum array_unique array_unshift array_values array_walk basename call_user_func
    call_user_func_array ceil class_exists compact count ctype_digit date define defined dirname end explode
    extract fclose feof fgets file_exists file_get_contents file_put_contents floor fopen fread func_get_args
    function_exists fwrite get_class getenv htmlspecialchars implode in_array ini_set intdiv intval is_array
    is_bool is_callable is_dir is_file is_int is_null is_numeric is_object is_string iterator_to_array
    json_decode json_encode key ksort lcfirst ltrim max mb_strlen mb_strtolower mb_substr md5 method_exists
    microtime min mkdir number_format ob_get_clean ob_start ord parse_url preg_match preg_match_all
    preg_quote preg_replace preg_replace_callback preg_split printf property_exists rand range realpath reset
    round rtrim serialize sort spl_object_id sprintf str_contains str_pad str_repeat str_replace
    str_starts_with str_ends_with strlen strpos strrpos strtolower strtotime strtoupper strtr strval substr
    substr_count time trigger_error trim ucfirst ucwords uniqid unlink unserialize usort var_dump
    version_compare
"""

_BINDINGS = by_field(
    name="""
        catch_clause class_declaration enum_case enum_declaration function_definition
        interface_declaration method_declaration property_element static_variable_declaration
        trait_declaration
    """,
    left="assignment_expression reference_assignment_expression",
    # The grammar does not tell what is looped over from the names for its parts: `foreach`.
    no_field="const_element foreach_statement global_declaration named_label_statement",
)
_WRAPPINGS = by_field(no_field="by_ref list_literal pair variable_name")

_FINDER = Finder(
    "php",
    {
        # `$name = function () {...}`, or with `fn`.
        "assignment_expression": bound("left", "right"),
        "function_definition": parts,
        "method_declaration": parts,
    },
    documents=lambda text: bool(re.match(r"/\*\*\s", text)),
    between=words("attribute_list"),
)


_GAPS = Gaps(
    "tree-sitter-php 0.25.1",
    (
        Gap("8.5", "(void)", r"^\s*(\(void\))"),
        Gap("8.5", "final", r"[(,]\s*(final)\s+(?=[\w?\\|]+\s+\$)"),
    ),
)


RULES = LanguageRules(
    # Part of a document need not have the `<?php` that is above it, so it is read as code.
    grammar=grammar_of("tree_sitter_php", "language_php_only"),
    whole=grammar_of("tree_sitter_php", "language_php"),
    names=words("name"),
    binds=binding(words("namespace_definition namespace_use_declaration"), _BINDINGS, _WRAPPINGS),
    known=words(_KNOWN),
    spans=(('"', '"'), ("'", "'"), COMMENT),
    begins=re.compile(
        r"(?:abstract|class|declare|enum|final|function|interface|namespace|readonly|trait|use)\b|<\?php"
    ),
    functions=_FINDER.functions,
    wrappers=words("expression_statement"),
    brackets={**BRACKETS, "#[": "]", "${": "}"},
    finishes={"do": "while (true);", "try": "finally {}"},
    braces_below=True,
    marks={"#[": ("function m() {}",)},
    # HTML around the code.
    opaque=words("?> php_end_tag php_tag text"),
    gaps=_GAPS,
)
