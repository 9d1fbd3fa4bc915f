"""A summary as documentation in the source, in the convention of the language. Pure.

The sentence comes from a model: whatever it holds, it must stay a comment. What could end the comment is
rewritten, and the file is parsed again with the comment in it: unless the documentation that is found there
is the sentence, and everything else of the file is as it was, nothing is inserted.
"""

from __future__ import annotations

import html
import re
import textwrap
from collections.abc import Callable, Iterator, Sequence
from types import MappingProxyType

import attrs

from lsp_calib.characters import indentation_of, without_hidden
from lsp_calib.syntax import Function, functions
from lsp_calib.syntax.languages.tool_comments import is_for_file, is_for_tool

WIDTH = 100
"""Columns, with the indentation, beyond which a comment takes several lines."""

# A deeply indented function still gets some words on each line.
_LEAST_WIDTH = 20
# How far above a function the place for its documentation is looked for: annotations of several lines.
_FARTHEST = 12
_MARKS = re.compile(
    r"""^(?:r?\"{3}|/\*\*|\*/|\*(?=\ )|///?(?=\ |$)|\#(?=\ ))\s*(?:</?summary>)?  # at the beginning
    | \s*(?:</summary>|\"{3}|\*/)$  # at the end""",
    re.VERBOSE,
)
# What stands above a function and belongs to it, as comments for tools do.
_ATTRIBUTE = re.compile(r"\s*(?:@|#\[|\[|template\b)")
# Such an attribute may take several lines.
_ATTRIBUTE_END = re.compile(r".*\]\s*$")
_ATTRIBUTE_BEGIN = re.compile(r"\s*#!?\[")
# Of directives gofmt makes a paragraph of their own.
_GO_DIRECTIVE = re.compile(r"\s*//(?:[a-z0-9]+:[a-z0-9]|(?:line|export|extern) )")


@attrs.frozen
class Insertion:
    """New lines, without line ends, to go before line `line` (from 0) of a document."""

    line: int
    lines: tuple[str, ...]

    @property
    def places(self) -> tuple[tuple[int, str], ...]:
        """(line in the document, text) of each of them that has words: the text without comment marks."""
        bare = ((self.line + at, _MARKS.sub("", line.strip())) for at, line in enumerate(self.lines))
        return tuple((line, text) for line, text in bare if text)

    def apply(self, lines: Sequence[str]) -> tuple[str, ...]:
        """The lines of the document with these in it."""
        return (*lines[: self.line], *self.lines, *lines[self.line :])


@attrs.frozen
class _Style:
    """How a language writes documentation.

    safe: the sentence with everything rewritten that could end the comment, or that a tool would obey.
    write: its lines, given the safe sentence and the columns that there are. read: the safe sentence again,
    from the documentation as it stands in a file.
    noun: what people call it. inside: whether it stands in the body, rather than above the function.
    """

    safe: Callable[[str], str]
    write: Callable[[str, int], list[str]]
    read: Callable[[str], str]
    noun: str = "comment"
    inside: bool = False


def noun(language: str) -> str | None:
    """What documentation is called in a language; None if it cannot be inserted there."""
    style = _STYLES.get(language)
    return None if style is None else style.noun


def may_insert(function: Function, language: str) -> bool:
    """Whether a summary of a function may be inserted: it has no documentation, and a place for it."""
    style = _STYLES.get(language)
    if style is None or function.docstring is not None or not function.has_place:
        return False
    return not style.inside or function.body >= function.signature_end


def insertion(lines: Sequence[str], function: Function, language: str, sentence: str) -> Insertion | None:
    """The sentence as the documentation of a function of a document.

    lines: of the document, without their ends. function: one of its functions.
    None if it has documentation already, or if there is no place for any: a definition, or in Python a body,
    that begins in the midst of a line, a language without a convention here.
    """
    style = _STYLES.get(language)
    if style is None or not may_insert(function, language):
        return None
    plain = without_hidden(" ".join(sentence.split()))
    text = style.safe(after_name(plain, function.name) if language == "go" else plain)
    text = " ".join(text.split())
    if not text:
        return None
    before = functions(lines, language)
    for line in _places(lines, function, style, language):
        beside = lines[function.body] if style.inside else lines[line]
        indentation = indentation_of(beside)
        room = max(WIDTH - len(indentation.expandtabs(4)), _LEAST_WIDTH)
        written = style.write(text, room)
        if language == "go" and _GO_DIRECTIVE.match(beside):
            written.append("//")
        made = Insertion(line, tuple(f"{indentation}{one}" for one in written))
        after = functions(made.apply(lines), language)
        if _documents_only(function, made, before, after, lambda found: style.read(found) == text):
            return made
    return None


def _places(lines: Sequence[str], function: Function, style: _Style, language: str) -> Iterator[int]:
    """The lines that documentation may go before, the usual one first."""
    if style.inside:
        first = function.signature_end
        # PEP 484: a comment on the types of a function is the first line of its body.
        while first < function.body and is_for_tool(lines[first], language):
            first += 1
        yield from dict.fromkeys((first, function.signature_end, function.body))
        return
    top = function.start
    while (above := _attribute_above(lines, top, language)) is not None:
        top = above
    yield from range(top, function.start + 1)
    yield from range(top - 1, max(top - _FARTHEST, 0) - 1, -1)


def _attribute_above(lines: Sequence[str], line: int, language: str) -> int | None:
    """Where the attribute begins, or the comment for a tool, that ends right above a line; None if there is
    none."""
    above = lines[line - 1] if line > 0 else ""
    if _ATTRIBUTE.match(above) or (_is_comment(above) and is_for_tool(above, language)):
        return None if is_for_file(above, language) else line - 1
    if line > 0 and _ATTRIBUTE_END.match(lines[line - 1]):
        rows = range(line - 2, max(line - _FARTHEST, 0) - 1, -1)
        return next((at for at in rows if _ATTRIBUTE_BEGIN.match(lines[at])), None)
    return None


def _is_comment(line: str) -> bool:
    """Whether a line is one comment."""
    text = line.strip()
    return text.startswith(("//", "#")) or (text.startswith("/*") and text.endswith("*/"))


def _documents_only(
    function: Function,
    made: Insertion,
    before: Sequence[Function],
    after: Sequence[Function],
    is_sentence: Callable[[str], bool],
) -> bool:
    """Whether the lines have given this function its documentation, and changed nothing else."""
    if len(before) != len(after):
        return False
    n = len(made.lines)
    documented = 0
    for old, new in zip(before, after, strict=True):
        moved = n if old.start >= made.line else 0
        ends = old.end + (n if old.end > made.line else 0)
        if (new.name, new.start, new.end) != (old.name, old.start + moved, ends):
            return False
        if old == function and new.docstring is not None:
            if not is_sentence(new.docstring) or new.code != old.code:
                return False
            documented += 1
        elif new.docstring != old.docstring:
            return False
    return documented == 1


def _wrapped(text: str, width: int) -> list[str]:
    return textwrap.wrap(text, max(width, _LEAST_WIDTH), break_long_words=False, break_on_hyphens=False)


def _joined(lines: Sequence[str]) -> str:
    return " ".join(" ".join(lines).split())


def _docstring_safe(text: str) -> str:
    # Three greater-than signs begin an example that doctest runs.
    return text.replace('"""', "'''").replace(">>>", "> > >")


def _write_docstring(text: str, width: int) -> list[str]:
    opening = 'r"""' if "\\" in text else '"""'
    # A quote or a backslash at the end would become part of the closing quotes, or undo them.
    end = " " if text[-1] in '"\\' else ""
    if len(opening) + len(text) + len(end) + 3 <= width:
        return [f'{opening}{text}{end}"""']
    return [*_marked(_wrapped(text, width - len(opening)), opening, ""), '"""']


def _read_docstring(found: str) -> str:
    return _joined([found[found.index('"""') + 3 : -3]])


def _marked(lines: Sequence[str], first: str, others: str) -> list[str]:
    return [f"{others if at else first}{line}" for at, line in enumerate(lines)]


def _block_safe(text: str) -> str:
    text = text.replace("*/", "* /").replace("/*", "/ *")
    # A word that begins so is an order to a tool: `@ts-ignore`, `@deprecated`.
    return re.sub(r"(?<!\S)@(\S*)", r"`@\1`", text)


def _java_safe(text: str) -> str:
    # Java reads \\u002a as an asterisk before it knows of comments, and Javadoc is HTML.
    return html.escape(_block_safe(text.replace("\\u", "\\ u")), quote=False)


def _write_block(text: str, width: int) -> list[str]:
    if len(text) + 7 <= width:
        return [f"/** {text} */"]
    return ["/**", *_marked(_wrapped(text, width - 3), " * ", " * "), " */"]


def _read_block(found: str) -> str:
    body = found.removeprefix("/**").removesuffix("*/")
    first, *others = body.split("\n")
    return _joined([first, *(re.sub(r"^\s*\*(?: |$)", "", line) for line in others)])


def _has_words(line: str) -> bool:
    return any(sign.isalnum() for sign in line)


def _write_lines(mark: str) -> Callable[[str, int], list[str]]:
    def write(text: str, width: int) -> list[str]:
        lines: list[str] = []
        for line in _wrapped(text, width - len(mark) - 1):
            # A comment of signs alone is a ruler, which ends the documentation: words come along.
            while lines and " " in lines[-1] and not _has_words(line):
                lines[-1], _, word = lines[-1].rpartition(" ")
                line = f"{word} {line}"
            lines.append(line)
        return [f"{mark} {line}" for line in lines]

    return write


def _read_lines(mark: str) -> Callable[[str], str]:
    return lambda found: _joined([line.strip().removeprefix(mark) for line in found.split("\n")])


def _rust_safe(text: str) -> str:
    # A fence of code in documentation is compiled and run by `cargo test`.
    return text.replace("```", "'''").replace("~~~", "---")


def _write_xml(text: str, width: int) -> list[str]:
    if len(text) + 23 <= width:
        return [f"/// <summary>{text}</summary>"]
    write = _write_lines("///")
    return [*write("<summary>", width), *write(text, width), *write("</summary>", width)]


def _read_xml(found: str) -> str:
    return _joined([_read_lines("///")(found).removeprefix("<summary>").removesuffix("</summary>")])


_BLOCK = _Style(_block_safe, _write_block, _read_block)
_LINE_LANGUAGES = {"go": "//", "ruby": "#"}
_STYLES = MappingProxyType(
    {
        **dict.fromkeys(("c", "cpp", "php"), _BLOCK),
        **dict.fromkeys(("javascript", "javascriptreact", "typescript", "typescriptreact"), _BLOCK),
        "csharp": _Style(lambda text: html.escape(text, quote=False), _write_xml, _read_xml),
        "java": _Style(_java_safe, _write_block, _read_block),
        "python": _Style(_docstring_safe, _write_docstring, _read_docstring, noun="docstring", inside=True),
        "rust": _Style(_rust_safe, _write_lines("///"), _read_lines("///")),
        **{
            language: _Style(lambda text: text, _write_lines(mark), _read_lines(mark))
            for language, mark in _LINE_LANGUAGES.items()
        },
    }
)


# Go's documentation begins with the name of the function, and a verb.
# Verbs with which summaries often begin; only of these is it certain that the word is a verb.
_LISTED = """
    accept access add allocate append apply assign bind build calculate call cancel change check clean clear
    clone close collect combine compare compile complete compress compute configure connect construct consume
    convert copy count create decode decompress decrement decrypt define delete detect determine disable
    discard dispatch display divide download draw drop dump emit enable encode encrypt end ensure escape
    evaluate execute expand extract fetch fill filter find finish flush format forward free generate get
    handle hash implement increment indicate initialize insert inspect install invoke iterate join limit list
    listen load lock log look make map mark marshal match measure merge move multiply normalize notify obtain
    open order parse pass perform play pop populate post prepare print process produce provide pull push put
    query raise read receive record redirect register release reload remove rename render replace report
    represent request reset resolve restart restore retrieve return reverse rotate run save scan schedule
    search select send serialize serve set show shut sort specify split start stop store stream strip
    subscribe subtract sum swap switch take test throw transform translate traverse trim truncate try turn
    unlock unmarshal unwrap update upload use validate verify visit wait walk wrap write yield
"""
_VERBS = frozenset(_LISTED.split())
# The name takes the place of this subject.
_SUBJECT = re.compile(r"^(?:This|The) (?:function|method) (?=[a-z])")


def after_name(sentence: str, name: str) -> str:
    """The sentence with the function's name before its verb; after a colon if no listed verb begins it.

    >>> after_name("Return the sum.", "add"), after_name("This method closes it.", "Close")
    ('add returns the sum.', 'Close closes it.')
    >>> after_name("Always returns nil.", "Close")
    'Close: Always returns nil.'
    """
    if not name:
        return sentence
    first, _, rest = _SUBJECT.sub("", sentence).partition(" ")
    verb = _third_person(first.lower()) if first.lower() in _VERBS else first.lower()
    follows = rest.partition(" ")[0]
    is_verb = verb in _THIRD_PERSONS and rest and follows not in _NO_OBJECT
    if re.match(rf"{re.escape(name)}(?!\w)", sentence) and not (first == name and is_verb):
        return sentence
    return f"{name} {verb} {rest}" if is_verb else f"{name}: {sentence}"


def _third_person(verb: str) -> str:
    """`returns` for `return`."""
    if verb.endswith("y") and verb[-2] not in "aeiou":
        return f"{verb[:-1]}ies"
    return f"{verb}es" if verb.endswith(("ch", "sh", "ss", "x", "z")) else f"{verb}s"


_THIRD_PERSONS = frozenset(map(_third_person, _VERBS))
# Behind what looks like a verb: it was a noun.
_NO_OBJECT = {"can", "has", "is", "of", "was", *_THIRD_PERSONS}
