"""Facts about a function for a prompt: where it stands, its names with types, what it calls, its data flow.

The three kinds of Ahmed et al. 2024 (ASAP), "Automatic Semantic Augmentation of Language Model Prompts (for
Code Summarization)", whose data flow follows GraphCodeBERT (Guo et al. 2021). Names and data flow are read
from Python and Java. The data flow is that of single statements, without branches or types: which names a
name gets its value from.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import attrs

from lsp_calib.summarization.examples import Example
from lsp_calib.syntax.functions import parse
from lsp_calib.syntax.rules import words

if TYPE_CHECKING:
    from tree_sitter import Node

# Of the facts on one function, in characters; of each kind, how many.
_MOST_FACTS, _MOST_OF_KIND = 600, 8
# Nodes that are looked at: a function beyond it is data.
_MOST_NODES = 5_000
# In characters. What is called may be any expression.
_LONGEST_CALL = 80


@attrs.frozen
class _Grammar:
    """Types of nodes. values: of those that bind a name to a value, the fields of the name, the value and the
    type. own: of what stands for the object. called: of calls, the field of what is called."""

    definitions: frozenset[str]
    parameters: frozenset[str]
    values: Mapping[str, tuple[str, str, str]]
    members: Mapping[str, tuple[str, str]]
    own: frozenset[str]
    called: Mapping[str, str]
    returns: str


_GRAMMARS: Mapping[str, _Grammar] = {
    "python": _Grammar(
        definitions=words("function_definition"),
        parameters=words(
            "identifier typed_parameter default_parameter typed_default_parameter list_splat_pattern "
            "dictionary_splat_pattern"
        ),
        values={
            "assignment": ("left", "right", "type"),
            "augmented_assignment": ("left", "right", ""),
            "for_statement": ("left", "right", ""),
            "for_in_clause": ("left", "right", ""),
            "named_expression": ("name", "value", ""),
        },
        members={"attribute": ("object", "attribute")},
        own=words("self cls"),
        called={"call": "function"},
        returns="return_type",
    ),
    "java": _Grammar(
        definitions=words("method_declaration constructor_declaration"),
        parameters=words("formal_parameter spread_parameter"),
        values={
            "assignment_expression": ("left", "right", ""),
            "enhanced_for_statement": ("name", "value", "type"),
            "resource": ("name", "value", "type"),
            "variable_declarator": ("name", "value", ""),
        },
        members={"field_access": ("object", "field")},
        own=words("this"),
        called={"method_invocation": "name", "object_creation_expression": "type"},
        returns="type",
    ),
}


def augmentation(code: str, language: str, *, repository: str = "", path: str = "") -> str:
    """The facts on a function, a line for each kind; "" if nothing is known.

    code: without documentation. repository: the name of its project. path: of its file below it, with `/`.
    """
    kinds = {"Repository": [repository], "File": [path], **_facts(code, language)}
    told = {kind: [fact for fact in facts if fact][:_MOST_OF_KIND] for kind, facts in kinds.items()}
    between = {"Data flow": "; "}
    text = "\n".join(
        f"{kind}: {between.get(kind, ', ').join(facts)}" for kind, facts in told.items() if facts
    )
    if len(text) > _MOST_FACTS:
        text = text[:_MOST_FACTS].rpartition("\n")[0] or text[:_MOST_FACTS]
    return text


def facts_of(
    code: str, examples: Sequence[Example], language: str, *, repository: str = "", path: str = ""
) -> list[str]:
    """The facts for a prompt: those of each example, then those of the function.

    code: what the prompt shows of it. repository, path: as for `augmentation`; examples have their own paths.
    """
    shown = [*((one.code, one.path) for one in examples), (code, path)]
    return [augmentation(text, language, repository=repository, path=at) for text, at in shown]


def _facts(code: str, language: str) -> dict[str, Iterable[str]]:
    """The facts on the first function of a piece of code by their kind, in the order of their first place,
    none twice; nothing for another language."""
    grammar = _GRAMMARS.get(language)
    if grammar is None or (root := parse(code.split("\n"), language)) is None:
        return {}
    nodes = list(_nodes(root))
    definition = next((node for node in nodes if node.type in grammar.definitions), None)
    if definition is None:
        return {}
    held = definition.child_by_field_name("parameters")
    children = [one for one in (held.named_children if held else ()) if one.type in grammar.parameters]
    parameters = [one for one in map(_parameter, children) if one[0] not in grammar.own]
    variables: dict[str, str] = {}
    fields: dict[str, None] = {}
    calls: dict[str, None] = {}
    flows: dict[str, None] = {}
    for node in nodes:
        if field := _own_field(node, grammar):
            fields[field] = None
        if node.type in grammar.called:
            name = _text(node.child_by_field_name(grammar.called[node.type])).split("<")[0]
            if name and len(name) <= _LONGEST_CALL:
                calls[name] = None
        if node.type not in grammar.values:
            continue
        left, right, type_ = (
            node.child_by_field_name(one) if one else None for one in grammar.values[node.type]
        )
        if node.type == "variable_declarator" and node.parent:
            type_ = node.parent.child_by_field_name("type")
        sources = list(dict.fromkeys(_names(right, grammar)))
        how = "comes from" if sources == [_text(right)] else "is computed from"
        for name in dict.fromkeys(_names(left, grammar)):
            variables.setdefault(name, _text(type_))
            if others := ", ".join(one for one in sources if one != name):
                flows[f"{name} {how} {others}"] = None
    methods = {name.partition(".")[2] for name in calls if name.partition(".")[0] in grammar.own}
    known = {*fields, *(name for name, _ in parameters)}
    return {
        "Parameters": map(_typed, parameters),
        "Local variables": (_typed(one) for one in variables.items() if one[0] not in known),
        "Fields": (field for field in fields if field not in methods),
        "Calls": calls,
        "Returns": [_text(definition.child_by_field_name(grammar.returns))],
        "Data flow": flows,
    }


def _nodes(root: Node) -> Iterator[Node]:
    """The nodes in the order in which they begin, `_MOST_NODES` at most."""
    pending, left = [root], _MOST_NODES
    while pending and left:
        node = pending.pop()
        left -= 1
        yield node
        pending.extend(reversed(node.children))


def _parameter(node: Node) -> tuple[str, str]:
    """Its name and its type as written, "" if none is."""
    if node.type == "identifier":
        return _text(node), ""
    named = node.child_by_field_name("name")
    named = named or next((one for one in _nodes(node) if one.type == "identifier"), node)
    return _text(named), _text(node.child_by_field_name("type"))


def _typed(one: tuple[str, str]) -> str:
    name, type_ = one
    return f"{name} ({type_})" if type_ else name


def _own_field(node: Node, grammar: _Grammar) -> str:
    """The field of a function's own object that a node names, "" if it names none."""
    if node.type not in grammar.members:
        return ""
    object_, field = (node.child_by_field_name(one) for one in grammar.members[node.type])
    return _text(field) if _text(object_) in grammar.own else ""


def _names(node: Node | None, grammar: _Grammar) -> Iterator[str]:
    """The names whose values an expression uses: neither what it calls nor fields of other objects."""
    pending = [node]
    while pending:
        one = pending.pop()
        if one is None:
            continue
        if one.type in grammar.members:
            if field := _own_field(one, grammar):
                yield field
            else:
                pending.append(one.child_by_field_name(grammar.members[one.type][0]))
        elif one.type == "identifier":
            yield _text(one)
        elif one.type in grammar.called:
            called = one.child_by_field_name(grammar.called[one.type])
            # Of `a.b(c)` the value of `a` is used.
            inner = called.children[:1] if called is not None and called.type in grammar.members else []
            rest = [child for child in one.named_children if child != called]
            pending.extend(reversed([*inner, *rest]))
        elif one.type == "keyword_argument":
            pending.append(one.child_by_field_name("value"))
        elif one.type not in ("type_identifier", "generic_type", "string", "type"):
            pending.extend(reversed(one.named_children))


def _text(node: Node | None) -> str:
    return "" if node is None or not node.text else " ".join(node.text.decode("utf-8", "replace").split())
