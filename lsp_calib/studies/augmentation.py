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
class Name:
    """A name with its type as written, "" if none is."""

    name: str
    type: str = ""


@attrs.frozen
class Flow:
    """A name that gets its value from others. direct: it is the value of one other name, unchanged."""

    name: str
    sources: tuple[str, ...]
    direct: bool


@attrs.frozen
class CodeFacts:
    """Each in the order of its first place in the code, none twice.

    returns: the type of what the function returns as written. fields: of its object.
    """

    parameters: tuple[Name, ...] = ()
    variables: tuple[Name, ...] = ()
    fields: tuple[str, ...] = ()
    calls: tuple[str, ...] = ()
    returns: str = ""
    flows: tuple[Flow, ...] = ()


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
            """
                identifier typed_parameter default_parameter typed_default_parameter list_splat_pattern
                dictionary_splat_pattern
            """
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

LANGUAGES = tuple(_GRAMMARS)


def code_facts(code: str, language: str) -> CodeFacts:
    """The facts on the first function of a piece of code; nothing for another language."""
    grammar = _GRAMMARS.get(language)
    root = parse(code.split("\n"), language) if grammar else None
    if grammar is None or root is None:
        return CodeFacts()
    nodes = list(_nodes(root))
    definition = next((node for node in nodes if node.type in grammar.definitions), None)
    if definition is None:
        return CodeFacts()
    held = definition.child_by_field_name("parameters")
    parameters = [
        found
        for child in (held.named_children if held else ())
        if child.type in grammar.parameters and (found := _parameter(child)).name not in grammar.own
    ]
    variables: dict[str, Name] = {}
    fields: dict[str, None] = {}
    calls: dict[str, None] = {}
    flows: dict[Flow, None] = {}
    for node in nodes:
        if node.type in grammar.members:
            field = _own_field(node, grammar)
            if field:
                fields[field] = None
        if node.type in grammar.called:
            name = _text(node.child_by_field_name(grammar.called[node.type])).split("<")[0]
            if name and len(name) <= _LONGEST_CALL:
                calls[name] = None
        if node.type in grammar.values:
            for bound, flow in _bound(node, grammar):
                if flow is not None:
                    flows[flow] = None
                if bound.name not in variables and not any(bound.name == one.name for one in parameters):
                    variables[bound.name] = bound
    methods = {name.partition(".")[2] for name in calls if name.partition(".")[0] in grammar.own}
    variables = {key: one for key, one in variables.items() if key not in fields}
    return CodeFacts(
        tuple(parameters),
        tuple(variables.values()),
        tuple(field for field in fields if field not in methods),
        tuple(calls),
        _text(definition.child_by_field_name(grammar.returns)),
        tuple(flows),
    )


def _nodes(root: Node) -> Iterator[Node]:
    """The nodes in the order in which they begin, `_MOST_NODES` at most."""
    pending, left = [root], _MOST_NODES
    while pending and left:
        node = pending.pop()
        left -= 1
        yield node
        pending.extend(reversed(node.children))


def _parameter(node: Node) -> Name:
    if node.type == "identifier":
        return Name(_text(node))
    named = node.child_by_field_name("name") or next(
        (one for one in _nodes(node) if one.type == "identifier"), node
    )
    return Name(_text(named), _text(node.child_by_field_name("type")))


def _own_field(node: Node, grammar: _Grammar) -> str:
    """The field of a function's own object that a node names, "" if it names none."""
    object_, field = (node.child_by_field_name(one) for one in grammar.members[node.type])
    return _text(field) if _text(object_) in grammar.own else ""


def _bound(node: Node, grammar: _Grammar) -> Iterator[tuple[Name, Flow | None]]:
    """The names that a node gives a value to, and where it comes from."""
    left, right, type_ = (node.child_by_field_name(one) if one else None for one in grammar.values[node.type])
    if left is None:
        return
    parent = node.parent
    declared = type_ or (
        parent.child_by_field_name("type") if parent and node.type == "variable_declarator" else None
    )
    sources = tuple(dict.fromkeys(_names(right, grammar))) if right is not None else ()
    direct = right is not None and len(sources) == 1 and _text(right) == sources[0]
    for name in dict.fromkeys(_names(left, grammar)):
        others = tuple(one for one in sources if one != name)
        yield Name(name, _text(declared)), Flow(name, others, direct) if others else None


def _names(node: Node, grammar: _Grammar) -> Iterator[str]:
    """The names whose values an expression uses: neither what it calls nor fields of other objects."""
    pending = [node]
    while pending:
        one = pending.pop()
        if one.type in grammar.members:
            field = _own_field(one, grammar)
            if field:
                yield field
            elif (object_ := one.child_by_field_name(grammar.members[one.type][0])) is not None:
                pending.append(object_)
        elif one.type == "identifier":
            yield _text(one)
        elif one.type in grammar.called:
            called = one.child_by_field_name(grammar.called[one.type])
            # Of `a.b(c)` the value of `a` is used.
            inner = called.children[:1] if called is not None and called.type in grammar.members else []
            rest = [child for child in one.named_children if child != called]
            pending.extend(reversed([*inner, *rest]))
        elif one.type == "keyword_argument":
            value = one.child_by_field_name("value")
            pending.extend([value] if value is not None else [])
        elif one.type not in ("type_identifier", "generic_type", "string", "type"):
            pending.extend(reversed(one.named_children))


def _text(node: Node | None) -> str:
    return "" if node is None or not node.text else " ".join(node.text.decode("utf-8", "replace").split())


def augmentation(code: str, language: str, *, repository: str = "", path: str = "") -> str:
    """The facts on a function, a line for each kind; "" if nothing is known.

    code: without documentation. repository: the name of its project. path: of its file below it, with `/`.
    """
    facts = code_facts(code, language)
    lines = [
        _fact("Repository", [repository]),
        _fact("File", [path]),
        *_told(facts),
        _fact(
            "Data flow",
            [
                f"{flow.name} {'comes from' if flow.direct else 'is computed from'} {', '.join(flow.sources)}"
                for flow in facts.flows
            ],
            "; ",
        ),
    ]
    text = "\n".join(line for line in lines if line)
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


def _told(facts: CodeFacts) -> Iterable[str]:
    yield _fact("Parameters", map(_typed, facts.parameters))
    yield _fact("Local variables", map(_typed, facts.variables))
    yield _fact("Fields", facts.fields)
    yield _fact("Calls", facts.calls)
    yield _fact("Returns", [facts.returns])


def _typed(name: Name) -> str:
    return f"{name.name} ({name.type})" if name.type else name.name


def _fact(kind: str, facts: Iterable[str], between: str = ", ") -> str:
    told = [fact for fact in facts if fact][:_MOST_OF_KIND]
    return f"{kind}: {between.join(told)}" if told else ""
