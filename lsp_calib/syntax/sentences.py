"""Where the first sentence of a text ends: of documentation, and of a model's answer. Pure."""

from __future__ import annotations

import re

# No pattern repeats something that can match in two ways: texts may be hostile.
_MARK = re.compile(r"[.!?](?=[)\]\"'\u2019\u201d]{0,3}(?:\s|$))|\u3002")
_CLOSING = re.compile(r"[)\]\"'\u2019\u201d]{0,3}")
# Characters before a mark in which its word is looked for.
_NEAR = 24


def _words(pattern: str) -> re.Pattern[str]:
    return re.compile(rf"(?:^|[\s(\[\"'])(?:{pattern})\.$", re.IGNORECASE)


# After these a sentence always goes on.
_GOES_ON = _words(r"e\. ?g|i\. ?e|eg|ie|vs|cf|viz|approx|resp|incl|excl|esp|ca|mr|mrs|ms|dr|prof|st")
# After these it goes on unless a new one begins with a capital letter.
_MAY_END = _words(r"etc|al|inc|ltd|corp|jr|max|min|sec|msec|hrs?|dept|misc|ext|[a-z]")
# After these it goes on if a number follows.
_NUMBERED = _words(r"nos?|fig|figs|sec|secs|eq|eqs|ch|chap|pp?|vols?|v|ver|tab|par|art|rfc|ed")
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
        closing = _CLOSING.match(text, match.end())
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
