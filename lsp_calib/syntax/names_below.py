"""Signs of a wrong line in TypeScript: what a line leaves undefined below it, and what it defines again.

A file is read without the line first. A name that the text below uses and nothing binds is one that the right
line would bind: an offered line that does not bind it is suspect. Values and functions count, and types where
only an import or a declaration can be missing.

Modules of TypeScript name all that they use, so a missing name says much. In Go, Rust, Java, C and C++ names
come from packages, macros, base classes and headers. On their records, and on those of JavaScript, such signs
gained nothing.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import attrs

from lsp_calib.syntax.rules import LanguageRules, by_field, words
from lsp_calib.syntax.source_tree import ABOVE, BELOW, OFTEN, Deadline, SourceTree, errors

if TYPE_CHECKING:
    from tree_sitter import Node, Tree

LANGUAGES = frozenset(("typescript", "typescriptreact"))
"""Those whose grammar the tables here are of."""

UNDEFINED_BELOW, REDEFINED = "undefined-below", "redefined"

# With more names missing below, a file is a part of another: generated, or read by a tool of its own.
_MOST_MISSING = 2

# Uses of names after which the deadline is checked: scopes may be nested by the thousand.
_OFTEN_BOUND = 16

_FUNCTIONS = words(
    """
        arrow_function function_declaration function_expression generator_function
        generator_function_declaration method_definition
    """
)
_TYPES_OF_FUNCTIONS = words(
    """
        abstract_method_signature call_signature class_static_block construct_signature constructor_type
        function_signature function_type method_signature
    """
)
_OPENING = (
    _FUNCTIONS
    | _TYPES_OF_FUNCTIONS
    | words(
        """
            abstract_class_declaration catch_clause class class_declaration conditional_type for_in_statement
            for_statement index_signature interface_declaration internal_module statement_block switch_body
            type_alias_declaration
        """
    )
)

# Of nodes that open a scope: the fields whose names are bound outside it, and those bound inside.
_OUTSIDE = by_field(
    name="""
        abstract_class_declaration class_declaration function_declaration function_signature
        generator_function_declaration interface_declaration internal_module type_alias_declaration
    """
)
_INSIDE = by_field(
    name="class enum_declaration function_expression generator_function mapped_type_clause module "
    "type_parameter variable_declarator",
    parameter="arrow_function catch_clause",
    left="for_in_statement",
    pattern="optional_parameter required_parameter",
    no_field="infer_type import_statement",
)
# These are bound from their line on; all others in the whole of their scope.
_IN_ORDER = words("abstract_class_declaration class_declaration lexical_declaration")
_PATTERNS = words(
    """
        array_pattern assignment_pattern import_clause import_require_clause import_specifier named_imports
        namespace_import object_assignment_pattern object_pattern pair_pattern rest_pattern
    """
)
_VALUES = by_field(right="assignment_pattern object_assignment_pattern", key="pair_pattern")
_BOUND = words("identifier shorthand_property_identifier_pattern type_identifier")
_USED = words("identifier shorthand_property_identifier type_identifier")
_TAGS = words("jsx_closing_element jsx_opening_element jsx_self_closing_element")

# A line between the rows of these binds nothing for what is below them.
_HOLDING = words("arguments array binary_expression jsx_element object template_string")
_TEXTS = words("comment string template_string")

# What browsers, Node.js and the language's own types define, beyond `LanguageRules.known`.
_GIVEN = words(
    """
        ArrayBufferLike ArrayBufferView ArrayConstructor ArrayIterator ArrayLike AsyncDisposable
        AsyncGenerator AsyncIterable AsyncIterableIterator AsyncIterator Audio BufferSource
        BuiltinIteratorReturn CSSStyleDeclaration CallableFunction Capitalize ClassDecorator ConcatArray
        ConstructorParameters Crypto DOMRect DOMRectReadOnly Disposable Element ErrorConstructor File FileList
        FileReader FrameRequestCallback FunctionConstructor Generator GeneratorFunction IArguments Image
        IterableIterator IteratorObject IteratorResult JSX Lowercase MapIterator MessageChannel MessagePort
        MethodDecorator NewableFunction NoInfer Node NodeJS NodeList NumberConstructor ObjectConstructor
        OmitThisParameter ParameterDecorator PromiseConstructor PromiseConstructorLike PropertyDecorator
        PropertyDescriptor PropertyDescriptorMap PropertyKey SetIterator StringConstructor SymbolConstructor
        TemplateStringsArray ThisParameterType ThisType Uncapitalize Uppercase WeakKey WebSocket Worker
        XMLHttpRequest alert cancelAnimationFrame confirm crypto getComputedStyle global history localStorage
        location performance requestAnimationFrame requestIdleCallback sessionStorage
    """
)
_GIVEN_FORM = re.compile(
    r"(?:HTML|SVG)\w*Element|__\w*|(?:Intersection|Mutation|Performance|Resize)Observer"
    r"|(?:Readable|Transform|Writable)Stream|(?:Animation|BeforeUnload|Clipboard|Close|Composition|Custom|Drag"
    r"|Error|Focus|FormData|HashChange|Input|Keyboard|Message|Mouse|PageTransition|Pointer|PopState|Progress"
    r"|PromiseRejection|Storage|Submit|Touch|Transition|UI|Wheel)Event"
)

# Of nodes that hold definitions: the types of those of which two may not have one name.
_DISTINCT = {
    "class_body": words("method_definition public_field_definition"),
    "enum_body": words("enum_assignment property_identifier"),
    "export_clause": words("export_specifier"),
    "interface_body": words("property_signature"),
    "jsx_opening_element": words("jsx_attribute"),
    "jsx_self_closing_element": words("jsx_attribute"),
    "named_imports": words("import_specifier"),
    "object": words("method_definition pair shorthand_property_identifier"),
    "object_pattern": words("object_assignment_pattern pair_pattern shorthand_property_identifier_pattern"),
    "object_type": words("property_signature"),
    "program": words(
        "class_declaration export_statement function_declaration import_statement lexical_declaration"
    ),
    "statement_block": words("class_declaration function_declaration lexical_declaration"),
    "switch_body": words("switch_case"),
}
_NAMED = words("class_declaration function_declaration")
_NAMING = ("alias", "key", "left", "name", "source", "value")
_KINDS_OF_MEMBER = words("get set static type typeof")


class _Binding(NamedTuple):
    """start: its place, in bytes. in_order: whether it is bound from there on only."""

    start: int
    in_order: bool


@attrs.frozen(eq=False)
class _Scope:
    """names: bound in it. function: number of the function it belongs to."""

    outer: _Scope | None
    node: Node
    function: int
    names: dict[str, list[_Binding]] = attrs.field(factory=dict)

    def binds(self, name: str, start: int) -> bool:
        """Whether a name that is used in it, at a byte, is bound by then."""
        scope: _Scope | None = self
        while scope is not None:
            found = scope.names.get(name, ())
            # What stands in another function runs later.
            if found and scope.function != self.function:
                return True
            if any(not one.in_order or one.start < start for one in found):
                return True
            scope = scope.outer
        return False

    def is_within(self, other: _Scope) -> bool:
        scope: _Scope | None = self
        while scope is not None and scope is not other:
            scope = scope.outer
        return scope is other


class _Use(NamedTuple):
    name: str
    row: int
    scope: _Scope
    is_type: bool


class _Names:
    """The names of a tree. scopes: the outermost first. unbound: the uses of names that nothing binds."""

    def __init__(self, tree: Tree, size: int) -> None:
        self.scopes = [_Scope(None, tree.root_node, 0)]
        self._functions = 0
        uses: list[tuple[_Use, int]] = []
        deadline = Deadline.to_walk(size)
        # Each with its scope, the type of its parent, its field in it, and where its names are bound, None
        # where they are used.
        pending: list[tuple[Node, _Scope, str, str | None, tuple[_Scope, bool] | None]]
        pending = [(tree.root_node, self.scopes[0], "", None, None)]
        count = 0
        while pending:
            count += 1
            if not count % OFTEN:
                deadline.check()
            node, scope, parent, field, target = pending.pop()
            kind = node.type
            if not node.child_count:
                if target is not None:
                    if kind in _BOUND:
                        found = target[0].names.setdefault(_text(node), [])
                        found.append(_Binding(node.start_byte, target[1]))
                elif kind in _USED and node.start_byte < node.end_byte:
                    use = _Use(_text(node), node.start_point.row, scope, kind == "type_identifier")
                    # A tag in small letters is an element.
                    if not (parent in _TAGS and field == "name" and use.name[0].islower()):
                        uses.append((use, node.start_byte))
                continue
            if target is not None and kind in _PATTERNS:
                for child, name in _children(node):
                    is_value = (kind, name) in _VALUES
                    pending.append((child, scope, kind, name, None if is_value else target))
                continue
            if kind == "nested_type_identifier" or (
                kind == "export_statement" and node.child_by_field_name("source") is not None
            ):
                continue  # names of another module
            inner = scope
            is_body = field == "body" and parent in _FUNCTIONS
            if kind in _OPENING and not is_body:
                inner = self._opened(scope, node)
            for child, name in _children(node):
                if kind == "index_signature" and name == "name":
                    continue
                bound = self._target(node, name, scope, inner, parent)
                pending.append((child, inner, kind, name, bound if child.is_named else None))
        self.unbound = list[_Use]()
        for use, start in uses:
            count += 1
            if not count % _OFTEN_BOUND:
                deadline.check()
            if not use.scope.binds(use.name, start):
                self.unbound.append(use)

    def _opened(self, outer: _Scope, node: Node) -> _Scope:
        is_function = node.type in _FUNCTIONS or node.type in _TYPES_OF_FUNCTIONS
        self._functions += is_function
        self.scopes.append(_Scope(outer, node, self._functions if is_function else outer.function))
        return self.scopes[-1]

    def _target(
        self, node: Node, field: str | None, outer: _Scope, inner: _Scope, parent: str
    ) -> tuple[_Scope, bool] | None:
        """Where the names in a field of a node are bound, and whether in order."""
        kind = node.type
        if (kind, field) in _OUTSIDE:
            return outer, kind in _IN_ORDER
        if (kind, field) not in _INSIDE:
            return None
        if kind == "for_in_statement" and node.child_by_field_name("kind") is None:
            return None
        if kind == "import_statement":
            return self.scopes[0], False
        if kind == "variable_declarator" and parent == "variable_declaration":
            scope = inner
            while scope.outer is not None and scope.outer.function == inner.function:
                scope = scope.outer
            return scope, False
        return inner, kind == "variable_declarator"

    def around(self, row: int) -> _Scope:
        """The innermost scope that begins above a row and ends in it or below."""
        found = self.scopes[0]
        for scope in self.scopes[1:]:
            first, last = scope.node.start_point.row, scope.node.end_point.row
            if first < row <= last and scope.node.start_byte >= found.node.start_byte:
                found = scope
        return found

    def missing_below(self, row: int, given: Container[str]) -> frozenset[str]:
        """The names that are used below a row in its scope, and that nothing binds there. Those that are used
        unbound elsewhere, too, come from somewhere else."""
        around = self.around(row)
        below, elsewhere = set[str](), set[str]()
        for use in self.unbound:
            is_below = use.row > row and use.scope.is_within(around)
            # Of types, only imports and outermost declarations are missed in a line.
            if is_below and use.is_type and around.outer is not None:
                continue
            if is_below:
                below.add(use.name)
            elif use.row != row:
                elsewhere.add(use.name)
        return frozenset(
            name for name in below - elsewhere if name not in given and not _GIVEN_FORM.fullmatch(name)
        )


def names_outside(rules: LanguageRules, lines: Sequence[str]) -> frozenset[str]:
    """The names that outermost statements bind for a whole document, and those that come from somewhere else.

    lines: those above and below the part that a `SourceTree` holds (`region_of`). Raises Overrun.
    """
    source = SourceTree(rules, lines)
    names = _Names(source.tree, sum(map(len, lines)))
    return frozenset(names.scopes[0].names).union(use.name for use in names.unbound)


class NamesBelow:
    """The signs against lines in the place of one line of a document.

    source: the lines around it, the line itself empty, in one of LANGUAGES. outside: names of the other lines
    of the document (`names_outside`); nothing is said of them.
    """

    def __init__(self, source: SourceTree, row: int, outside: frozenset[str] = frozenset()) -> None:
        self._source, self._row = source, row
        self._given = outside | source.rules.known | _GIVEN
        self._size = sum(map(len, source.lines()))

    def of(self, before: str, text: str, after: str = "") -> Mapping[str, str]:
        """The kinds of signs against `before` + `text` + `after`, each with a name that it is about.

        text: the new part. UNDEFINED_BELOW: the name is used below, in the scope of the line, and nothing
            would bind it. REDEFINED: the new part defines what stands in the same block, type, list or object
            already. Where nothing stands below the line, or where the line leaves an error, the first says
            nothing.
        Raises Overrun if it takes too long to find out.
        """
        self._source.ask()
        line = before + text + after
        tree = self._source.tree_with(self._row, line)
        first = len(_encoded(before))
        place = first, first + len(_encoded(text))
        found = dict[str, str]()
        again = next(_redefined(tree, self._row, place), None)
        if again is not None:
            found[REDEFINED] = again
        # Without a line that opens a block nothing is known of what is below.
        if self._missing or self._source.tree.root_node.has_error:
            missing = self._missing_with(tree, before, first)
            if 0 < len(missing) <= _MOST_MISSING:
                found[UNDEFINED_BELOW] = min(missing)
        return found

    def read(self) -> None:
        """Read the lines, so that `of` takes little time. Raises Overrun."""
        _ = self._missing

    @cached_property
    def _missing(self) -> frozenset[str]:
        """The names that are missing below without the line."""
        return _Names(self._source.tree, self._size).missing_below(self._row, self._given)

    def _missing_with(self, tree: Tree, before: str, first: int) -> frozenset[str]:
        row, rules = self._row, self._source.rules
        if tree.root_node.has_error and any(True for _ in errors(tree, row - ABOVE, row + BELOW, rules)):
            return frozenset()
        if not _may_bind(tree, row, before, first):
            return frozenset()
        return _Names(tree, self._size).missing_below(row, self._given)


def _may_bind(tree: Tree, row: int, before: str, first: int) -> bool:
    """Whether what follows `before` in a line of the tree may bind a name for the lines below."""
    if "=" in before.replace("=>", ""):
        return False  # the names are written already
    within = list(_around(tree, row, first))
    if not any(node.type == "import_statement" for node in within) and any(
        node.type in _TEXTS and tuple(node.start_point) < (row, first) for node in within
    ):
        return False
    column = len(_encoded(before)) - len(_encoded(before.lstrip()))
    for node in _around(tree, row, column):
        if node.start_point.row < row:
            if node.type in _HOLDING:
                return False
            if node.type in _OPENING:
                break
    return True


def _around(tree: Tree, row: int, column: int) -> Iterator[Node]:
    """The nodes that hold a place, the innermost first."""
    node = tree.root_node.descendant_for_point_range((row, column), (row, column))
    found = []
    cursor: Node | None = tree.root_node
    while cursor is not None and node is not None:
        found.append(cursor)
        cursor = None if cursor == node else cursor.child_with_descendant(node)
    return reversed(found)


def _redefined(tree: Tree, row: int, place: tuple[int, int]) -> Iterator[str]:
    """What the part of a row between two columns, in bytes, defines and something else defines, too."""
    pending = [tree.root_node]
    while pending:
        node = pending.pop()
        kinds = _DISTINCT.get(node.type)
        if kinds is not None:
            mine, others = dict[str, str](), set[str]()
            for child in node.children:
                for key, name in _definitions(child) if child.type in kinds else ():
                    start, end = name.start_point, name.end_point
                    if start.row == row and end.column > place[0] and start.column < place[1]:
                        if key in mine:
                            others.add(key)
                        mine[key] = _text(name)
                    else:
                        others.add(key)
            yield from (mine[key] for key in mine if key in others)
        pending += [
            child
            for child in node.children
            if child.child_count and child.start_point.row <= row <= child.end_point.row
        ]


def _definitions(node: Node) -> Iterator[tuple[str, Node]]:
    """The keys that a node takes in what holds it, and the nodes that name them."""
    kind = node.type
    if kind == "export_statement":
        inner = node.child_by_field_name("declaration")
        if inner is not None and inner.type in _DISTINCT["statement_block"]:
            yield from _definitions(inner)
    elif kind == "lexical_declaration":
        for one in node.named_children:
            name = one.child_by_field_name("name")
            if name is not None and name.type == "identifier":
                yield f"name {_text(name)}", name
    elif not node.child_count:
        yield _text(node), node
    else:
        name = next(filter(None, map(node.child_by_field_name, _NAMING)), None)
        if kind == "jsx_attribute":
            name = node.named_children[0]
        if name is not None:
            members = sorted(one.type for one in node.children if one.type in _KINDS_OF_MEMBER)
            prefix = ["name"] if kind in _NAMED else members
            yield " ".join((*prefix, *_text(name).strip("'\"").split())), name


def _children(node: Node) -> Iterator[tuple[Node, str | None]]:
    return ((child, node.field_name_for_child(at)) for at, child in enumerate(node.children))


def _text(node: Node) -> str:
    return (node.text or b"").decode("utf-8", "replace")


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "replace")
