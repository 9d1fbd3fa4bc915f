"""Token healing: cutting the current line back to a token boundary, where a prompt may end."""

from __future__ import annotations

import re

# A run of white space or of punctuation (with one space before it), then the word being typed. Tokenisers
# join a word to the space or the mark before it ("␣return", ".append"), so the cut takes both along with the
# word.
_LOOSE_END = re.compile(r"(?:[ ]?[^\w\s]{1,8}|\s+)?\w*\Z")

# A word longer than this is data, not a word; reproducing it would cost a decode for each of its tokens.
_LONGEST = 64


def split_at_boundary(before: str) -> tuple[str, str]:
    """Split the current line up to the cursor into (stays in the prompt, must be reproduced).

    before: the current line up to the cursor.
    >>> split_at_boundary("    return foo.ba")
    ('    return foo', '.ba')
    >>> split_at_boundary("    ")
    ('', '    ')
    """
    tail = before[-_LONGEST:]
    match = _LOOSE_END.search(tail)
    assert match is not None, "the pattern matches the empty end"
    loose = match.group()
    return before[: len(before) - len(loose)], loose
