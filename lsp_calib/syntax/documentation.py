"""The first sentence of a text, and of a function's documentation, as a person would say it. Pure.

Comment marks, tags and markup of the languages' documentation tools are left out: docstrings
(reStructuredText, Google, NumPy), Javadoc, JSDoc, PHPDoc, Doxygen, XML comments of C#, rustdoc, YARD, RDoc,
TomDoc.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Iterator

from lsp_calib.characters import without_hidden
from lsp_calib.syntax.languages.tool_comments import is_for_tool
from lsp_calib.syntax.rules import Function

# Characters of documentation that are looked at: the sentence comes first.
_MOST = 2000

# No pattern repeats something that can match in two ways: documentation may be hostile.
_QUOTES = re.compile(r"^[rRuU]{0,2}(\"\"\"|'''|\"|')")
# Documentation as Rust's attribute.
_ATTRIBUTE = re.compile(r"#!?\[(?:cfg_attr\(.{0,200},\s*)?doc\s*=\s*r?#*\"(.*?)\"#*\s*\)?\]$")
_SUMMARY = re.compile(r"<summary>(.*?)(?:</summary>|$)", re.DOTALL | re.IGNORECASE)
# Tags whose text is somewhere else, or that stand in place of a word.
_NAMED = re.compile(r"<(?:see|seealso|paramref|typeparamref)\s[^<>]{0,20}=\s*\"([^\"<>]{1,200})\"\s*/?>")
_TAG = re.compile(r"</?[A-Za-z][^<>\n]{0,200}>")
_INLINE = re.compile(r"\{@(\w+)[ \t]*([^{}]{0,200})\}")
_LINK = re.compile(r"\[([^\[\]]{1,200})\](?:\([^()\s]{0,300}\)|\[[^\[\]]{0,200}\])?")
_ROLE = re.compile(r":[A-Za-z][\w:+-]{0,40}:`([^`]{1,200})`")
_TARGET = re.compile(r"^(.{1,150}?)\s*<[^<>]{1,150}>$")
_CODE = re.compile(r"(`{1,2})([^`]{1,200})\1_{0,2}")
_YARD_LINK = re.compile(r"\{([A-Z][\w:#.]{0,100})(?:\s[^{}]{0,100})?\}")
_RDOC_CODE = re.compile(r"(?<!\w)\+([\w:?!.]{1,80})\+(?!\w)")
_STRONG = re.compile(r"(?<![\w*])(\*\*|__)(?=\S)([^*_\n]{1,200})\1(?!\w)")
_BRIEF = re.compile(r"^[@\\](?:brief|short|summary|description|desc)\b[ \t]*", re.IGNORECASE)
_AUDIENCE = re.compile(r"^(?:Public|Internal|Private|Protected|Deprecated): +(?=[A-Z])")
_NAME_TAG = re.compile(
    r"^[@\\](?:fn|function|name|method|memberof|public|private|protected|static|internal)\b"
)
# A line with which something else than a description begins.
_END = re.compile(
    r"[@\\](?!inheritdoc)[A-Za-z!]|:(?:param|type|returns?|rtype|raises?|arg|call-seq|yields?|var)\b|>>>|```"
    r"|(?:Args|Arguments|Parameters|Params|Returns|Return|Raises|Yields|Examples?|Notes?|Usage|Warnings?|Attributes"
    r"|See Also|References|Keyword Args)\s*:?\s*$|#+ |\.\. [\w-]+::|\[source|\|"
)
_RULER = re.compile(r"[-=~^*#]{3,}\s*$")
_WORD = re.compile(r"[^\W\d_]{2,}")
_NO_DESCRIPTION = re.compile(
    r"(?:TODO|FIXME|XXX|HACK|NOTE|@|non-javadoc|\(non-Javadoc\)|inheritdoc)",
    re.IGNORECASE,
)
# What ends a line of code that was commented out, and seldom a sentence.
_CODE_END = (";", "{", "}", "=>", "->", "&&", "||", "=", ",", "(", "\\")


def documentation_sentence(function: Function, language: str) -> str | None:
    """The first sentence that documents a function, in one line without comment marks, tags and markup.

    None if it has no documentation, or none in prose: parameters alone, a name, code that was commented out.
    """
    if function.docstring is None:
        return None
    text = function.docstring[:_MOST]
    lines = list(_docstring(text) if language == "python" else _comment(text, language))
    if language == "csharp" and (summary := _SUMMARY.search("\n".join(lines))):
        lines = summary[1].split("\n")
    sentence = _first_sentence(_plain(_first_paragraph(lines)))
    return sentence if _is_prose(sentence) else None


def _docstring(text: str) -> Iterator[str]:
    """The lines of a string without its quotes; none of another expression."""
    quotes = _QUOTES.match(text)
    if quotes is not None:
        yield from (line.strip() for line in text[quotes.end() :].removesuffix(quotes[1]).split("\n"))


def _comment(text: str, language: str) -> Iterator[str]:
    """The lines of comments without their marks, and without comments for tools between them."""
    inside = ""  # the mark that ends the comment of several lines that this line is in
    for line in text.split("\n"):
        line = line.strip()
        if not inside:
            if is_for_tool(line, language):
                continue
            if attribute := _ATTRIBUTE.match(line):
                line = f"///{attribute[1]}"
            if re.fullmatch(r"=begin(?:\s+rdoc)?", line):
                inside = "=end"
                continue
            if line.startswith("/*"):
                inside = "*/"
                line = line[2:].lstrip("*!").removeprefix("<")
            elif line.startswith("#"):
                line = line.lstrip("#")
            else:
                line = line.lstrip("/").removeprefix("!").removeprefix("<")
        elif inside == "*/":
            line = line.lstrip("*") if not line.startswith("*/") else line
        if inside and line.endswith(inside):
            line = line[: -len(inside)].rstrip("*")
            inside = ""
        yield line.strip()


def _first_paragraph(lines: Iterable[str]) -> str:
    found: list[str] = []
    calls = False  # within the ways to call a method that RDoc lists before its description
    for line in lines:
        if brief := _BRIEF.match(line):
            found, line = [], line[brief.end() :]
        if _NAME_TAG.match(line) or (_RULER.match(line) and not found):
            continue
        if _END.match(line) or _RULER.match(line) or not line:
            if found or (line and not line.startswith(":call-seq:")):
                break
            calls = bool(line)
        elif not calls:
            found.append(line)
    return " ".join(found)


def _plain(text: str) -> str:
    """A text without markup."""
    text = _NAMED.sub(lambda match: _last_name(match[1]), text)
    text = _INLINE.sub(lambda match: "" if match[1].lower() == "inheritdoc" else _shown(match[2]), text)
    text = _TAG.sub(" ", text)
    text = _ROLE.sub(lambda match: _last_name(_title(match[1])), text)
    text = _LINK.sub(r"\1", text)
    text = _CODE.sub(lambda match: _title(match[2]), text)
    text = _YARD_LINK.sub(r"\1", text)
    text = _RDOC_CODE.sub(r"\1", text)
    text = _STRONG.sub(r"\2", text)
    text = " ".join(without_hidden(html.unescape(text)).split())
    text = re.sub(r" (?=[.,;:!?)](?:\s|$))", "", text)
    return _AUDIENCE.sub("", text).lstrip("-*• ").strip()


def _first_sentence(text: str) -> str:
    end = first_sentence_end(text)
    return text.rstrip(":") if end is None else text[:end]


def _is_prose(sentence: str) -> bool:
    words = _WORD.findall(sentence)
    if len(words) < 2 or _NO_DESCRIPTION.match(sentence) or sentence.endswith(_CODE_END):
        return False
    # Code that was commented out, tables and drawings have few letters for their length.
    return sum(letter.isalpha() or letter == " " for letter in sentence) >= 0.7 * len(sentence)


def _last_name(reference: str) -> str:
    """`M:Shop.Item.Sell(System.Int32)` and `~shop.Item.sell` are called by their last name."""
    name = reference.split("(")[0].removeprefix("~").removeprefix("!")
    return re.split(r"[.:#]", name)[-1] or name


def _shown(link: str) -> str:
    """The text of `{@link target text}`: a target without a text is called by its name."""
    target, _, text = link.strip().partition("|" if "|" in link else " ")
    return text.strip() or target.strip().lstrip("#").replace("#", ".")


def _title(text: str) -> str:
    """Of `text <target>` the text."""
    match = _TARGET.match(text.strip())
    return match[1] if match else text.strip()


# Where a sentence ends.
_MARK = re.compile(r"[.!?](?=[)\]\"'\u2019\u201d]{0,3}(?:\s|$))|\u3002")
_CLOSING_MARKS = re.compile(r"[)\]\"'\u2019\u201d]{0,3}")
# Characters before a mark in which its word is looked for.
_NEAR = 24


def _before(pattern: str) -> re.Pattern[str]:
    return re.compile(rf"(?:^|[\s(\[\"'])(?:{pattern})\.$", re.IGNORECASE)


# After these a sentence always goes on.
_GOES_ON = _before(r"e\. ?g|i\. ?e|eg|ie|vs|cf|viz|approx|resp|incl|excl|esp|ca|mr|mrs|ms|dr|prof|st")
# After these it goes on unless a new one begins with a capital letter.
_MAY_END = _before(r"etc|al|inc|ltd|corp|jr|max|min|sec|msec|hrs?|dept|misc|ext|[a-z]")
# After these it goes on if a number follows.
_NUMBERED = _before(r"nos?|fig|figs|sec|secs|eq|eqs|ch|chap|pp?|vols?|v|ver|tab|par|art|rfc|ed")
_INITIAL = re.compile(r"(?:^|[\s(.])[A-Z]\.$")
_LIST_ITEM = re.compile(r"^\W{0,2}(?:\d{1,3}|[a-zA-Z])\.$")


def first_sentence_end(text: str) -> int | None:
    """The index after the first sentence of a text in one line, None if it has no end.

    Abbreviations (`e.g.`, `fig. 2`, `J. Smith`), numbers and versions, addresses, ellipses in the midst, the
    number of a list's item, and names such as Ruby's `empty?` do not end a sentence.

    >>> text = "Read the file, e.g. a log of v. 1.2. Then more."
    >>> text[:first_sentence_end(text)]
    'Read the file, e.g. a log of v. 1.2.'
    """
    for match in _MARK.finditer(text):
        closing = _CLOSING_MARKS.match(text, match.end())
        end = closing.end() if closing else match.end()
        rest = text[end : end + _NEAR].lstrip()
        if not rest:
            return None if _GOES_ON.search(text[max(match.start() - _NEAR, 0) : match.end()]) else end
        if match.group() == "\u3002" or _ends(text, match.start(), end > match.end(), rest):
            return end
    return None


def _ends(text: str, at: int, closed: bool, rest: str) -> bool:
    """Whether the mark at `at` ends a sentence. closed: by a bracket or quote. rest: what follows."""
    follows_lower, follows_number = rest[0].islower(), rest[0].isdigit()
    # `a ? b : c`, and marks in brackets and quotes, in the midst of a sentence.
    if text[at - 1 : at].isspace() or at == 0 or (closed and not rest[0].isupper()):
        return False
    if text[at] != "." or text[at - 1] == ".":
        return not follows_lower
    before = text[max(at - _NEAR, 0) : at + 1]
    if _GOES_ON.search(before) or (at < _NEAR and _LIST_ITEM.search(before)):
        return False
    if _NUMBERED.search(before) and follows_number:
        return False
    if _INITIAL.search(before):
        return False
    return not (_MAY_END.search(before) and not rest[0].isupper())
