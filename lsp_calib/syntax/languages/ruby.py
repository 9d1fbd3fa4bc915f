"""Ruby, by tree-sitter-ruby: documentation stands in comments above a method; words open and end blocks."""

from __future__ import annotations

import re

from lsp_calib.syntax.languages.braces import Finder, binding, has_words, parts
from lsp_calib.syntax.rules import BRACKETS, Gap, Gaps, LanguageRules, by_field, grammar_of, words

# Keywords, and the names that every program has without a `require`, with the commonest methods.
_KNOWN = """
    BEGIN END __FILE__ __LINE__ __dir__ __method__ alias and begin break case class def defined? do else elsif
    end ensure false for if in module next nil not or redo rescue retry return self super then true undef
    unless until when while yield
    ARGV ArgumentError Array BasicObject Class Comparable Complex Dir ENV EOFError Encoding Enumerable
    Enumerator Errno Exception FalseClass Fiber File Float FrozenError GC Hash IO IOError IndexError Integer
    Interrupt Kernel KeyError LoadError LocalJumpError Marshal MatchData Math Method Module Mutex NameError
    NilClass NoMethodError NotImplementedError Numeric Object ObjectSpace Proc Process Queue Random Range
    RangeError Rational Regexp RegexpError RuntimeError STDERR STDIN STDOUT ScriptError SecurityError Set
    Signal StandardError StopIteration String Struct Symbol SyntaxError SystemCallError SystemExit Thread
    ThreadError Time TrueClass TypeError ZeroDivisionError _
    any? all? attr_accessor attr_reader attr_writer block_given? call catch class collect compact
    define_method delete detect dig dup each each_with_index each_with_object empty? equal? exit extend fetch
    find first flatten format freeze gsub include include? inject inspect instance_of? instance_variable_get
    instance_variable_set is_a? join key? keys kind_of? lambda last length loop map match merge message
    method_missing min max module_function new nil? p prepend present? print printf private
    private_class_method private_constant proc protected public public_send push puts raise reduce reject
    require require_relative respond_to? respond_to_missing? reverse select send shift size sleep sort
    sort_by split sprintf start_with? end_with? strip sub sum tap then throw times to_a to_f to_h to_i to_proc
    to_s to_sym uniq unshift update upcase downcase values warn zip
"""

_NAMES = words("class_variable constant global_variable identifier instance_variable")
_BINDINGS = by_field(
    name="alias as_pattern class method module singleton_method",
    left="assignment operator_assignment",
    pattern="for in_clause",
    no_field="exception_variable",
)
_WRAPPINGS = by_field(
    name="scope_resolution splat_parameter",
    no_field="array_pattern destructured_left_assignment left_assignment_list rest_assignment",
)
# Words that `end` closes. Those that may also stand behind a statement, as in `return if done`, are among
# them: behind one that can be read they are part of it, and no node of their own is looked at.
_BLOCKS = dict.fromkeys(
    ("begin", "case", "class", "def", "do", "for", "if", "module", "unless", "until", "while"), "end"
)
_FINDER = Finder("ruby", {"method": parts, "singleton_method": parts}, documents=has_words)


def _misplaced(holder: str, clause: str, before: str) -> bool:
    """As `LanguageRules.misplaced`. Ruby (3.1) refuses what its grammar (0.23.1) reads: an `else` of a method
    or of `begin` without a `rescue`, as behind an `if` that has ended."""
    if holder not in ("begin", "body_statement"):
        return False
    if clause == "else":
        return before != "rescue"
    return before in {"rescue": ("else", "ensure"), "ensure": ("ensure",)}.get(clause, ())


_GAPS = Gaps(
    "tree-sitter-ruby 0.23.1",
    (
        Gap("1.9", "->", r"->\s*\([^();]*(;[^()]*)\)"),
        Gap(
            "3.1",
            "def ",
            r"\bdef\s+[\w.]+[?!]?\s*(?:\([^()]*\))?\s*=\s*(?!(?:begin|case|if|not|unless|while|yield)\b)"
            # Its arguments, unless they go on below.
            r"[a-z_]\w*[?!]?(\s+[\w:\"'@](?:[^#()\[\]{}]|\([^()]*\)|\[[^\[\]]*\])*(?<![,|\s]))$",
        ),
    ),
)


RULES = LanguageRules(
    grammar=grammar_of("tree_sitter_ruby"),
    names=_NAMES,
    binds=binding(frozenset(), _BINDINGS, _WRAPPINGS),
    known=words(_KNOWN),
    spans=(('"', '"'), ("'", "'")),
    begins=re.compile(r"(?:class|def|module|require|require_relative)\b"),
    functions=_FINDER.functions,
    wrappers=words("argument_list call"),  # `private def ...`
    bodies=words("block_body body_statement then"),
    misplaced=_misplaced,
    brackets={**BRACKETS, **_BLOCKS, "#{": "}", "%w(": ")", "%i(": ")"},
    gaps=_GAPS,
)
