"""A sentence as Go's documentation begins it: with the name of the function, and a verb. Pure."""

from __future__ import annotations

import re

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
# Before a verb, in front of which the name takes their place.
_SUBJECT = re.compile(r"(?:This|The) (?:function|method) (?=[a-z])")
# What often follows a verb that is not listed: `Frobnicates the widgets`.
_OBJECT = frozenset(
    {"a", "all", "an", "any", "each", "every", "if", "its", "one", "the", "this", "that", "whether"}
)
_ADVERBS = frozenset({"always", "perhaps", "sometimes"})
_AUXILIARIES = frozenset({"can", "does", "has", "is", "may", "must", "will"})


def after_name(sentence: str, name: str) -> str:
    """The sentence with the name of the function before its verb; after a colon if its verb is not found.

    >>> after_name("Return the sum.", "add"), after_name("This method closes it.", "Close")
    ('add returns the sum.', 'Close closes it.')
    >>> after_name("Always returns nil.", "Close")
    'Close: Always returns nil.'
    """
    if not name:
        return sentence
    first, _, rest = sentence.partition(" ")
    is_verb = first.lower() in _VERBS and not rest.startswith("of ") and not _is_third_person(rest)
    if re.match(rf"{re.escape(name)}(?!\w)", sentence) and not (first == name and is_verb):
        return sentence
    found = _SUBJECT.match(sentence)
    if found is not None:
        predicate = sentence[found.end() :]
        if predicate.partition(" ")[0] in _AUXILIARIES or _is_third_person(predicate):
            return f"{name} {predicate}"
        return f"{name}: {sentence}"
    verb = first.lower()
    if not rest or not re.fullmatch(r"[A-Za-z]+", first):
        return f"{name}: {sentence}"
    if is_verb:
        return f"{name} {_third_person(verb)} {rest}"
    if _is_third_person(f"{verb} {rest}"):
        return f"{name} {verb} {rest}"
    return f"{name}: {sentence}"


def _is_third_person(text: str) -> bool:
    """Whether a text begins with a verb such as `returns`."""
    first, _, rest = text.partition(" ")
    if first in _THIRD_PERSONS:
        return True
    looks = re.fullmatch(r"[a-z]{2,}[^s\W]s", first) is not None and first not in _ADVERBS
    return looks and rest.partition(" ")[0] in _OBJECT


def _third_person(verb: str) -> str:
    """`returns` for `return`."""
    if verb.endswith("y") and verb[-2] not in "aeiou":
        return f"{verb[:-1]}ies"
    return f"{verb}es" if verb.endswith(("ch", "sh", "ss", "x", "z")) else f"{verb}s"


_THIRD_PERSONS = frozenset(map(_third_person, _VERBS))
