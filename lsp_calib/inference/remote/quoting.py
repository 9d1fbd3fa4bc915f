"""Whether what a server says has a part of the prompt in it. Pure."""

from __future__ import annotations

import re

# So many characters in a row that are in the prompt too are taken for a part of it.
_QUOTED = 12
_ESCAPED = re.compile(r"\\+(?:u([0-9a-fA-F]{4})|x([0-9a-fA-F]{2})|[abfnrtv])?")
# What quoting puts in, takes out or changes. White space other than this is not printable.
_UNSTEADY = " '\"`\u2018\u2019\u201c\u201d"


def repeats(words: str, prompt: str) -> bool:
    """Whether a message has a part of a prompt in it, however quoted, escaped or shortened.

    It may say so of words that are in both by chance. Takes time linear in the prompt's length.
    """
    message = _bare(words)
    lines = prompt.splitlines()
    bare = [_bare(line) for line in lines]
    whole = "".join(bare)
    if any(message[at : at + _QUOTED] in whole for at in range(len(message) - _QUOTED + 1)):
        return True
    # A whole line is too much also where it is shorter.
    return any(
        len(line.strip()) >= 8 and len(short) >= 6 and short in message
        for line, short in zip(lines, bare, strict=True)
    )


def _bare(text: str) -> str:
    """The characters of a text that stay the same wherever it is quoted."""
    plain = _ESCAPED.sub(_unescaped, text)
    return "".join(char for char in plain if char.isprintable() and char not in _UNSTEADY)


def _unescaped(match: re.Match[str]) -> str:
    code = match[1] or match[2]
    return chr(int(code, 16)) if code else ""
