"""Token healing: cutting the current line back to a token boundary, where a prompt may end."""

from __future__ import annotations

import re

# A run of white space or of punctuation (with one space before it), then the word being typed. Tokenisers
# join a word to the space or the mark before it ("␣return", ".append"), so the cut takes both along with the
# word.
_LOOSE_END = re.compile(r"(?:[ ]?[^\w\s]{1,8}|\s+)?\w*\Z")

# To tokenisers the underscores of "__init__(" are punctuation like the bracket, and "__(" is one token.
_LOOSE_JOINED_END = re.compile(r"(?:[ ]?_{0,8}[^\w\s]{1,8}|\s+)?\w*\Z")

# A word longer than this is data, not a word; reproducing it would cost a decode for each of its tokens.
_LONGEST = 64


def split_at_boundary(before: str, *, joined: bool = False) -> tuple[str, str]:
    """Split the current line up to the cursor into (stays in the prompt, must be reproduced).

    before: the current line up to the cursor. joined: underscores before a mark are cut off with it.
    >>> split_at_boundary("    return foo.ba")
    ('    return foo', '.ba')
    >>> split_at_boundary("    ")
    ('', '    ')
    >>> split_at_boundary("def __init__(se", joined=True)
    ('def __init', '__(se')
    """
    tail = before[-_LONGEST:]
    match = (_LOOSE_JOINED_END if joined else _LOOSE_END).search(tail)
    assert match is not None, "the pattern matches the empty end"
    loose = match.group()
    return before[: len(before) - len(loose)], loose


def split_line_ends(above: str) -> tuple[str, str]:
    """Split text that ends before an indentation into (stays in the prompt, must be reproduced).

    Tokenisers like GPT-2's join a line's end to the indentation that follows. After a line's end alone, such
    a model goes on with a line that has none.

    >>> split_line_ends("def area(r):\\n")
    ('def area(r):', '\\n')
    """
    stays = above.rstrip()
    loose = above[len(stays) :]
    return (stays, loose) if stays and len(loose) <= _LONGEST else (above, "")
