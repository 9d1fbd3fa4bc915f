"""What a line of TypeScript leaves undefined below it, and what it defines again."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lsp_calib.syntax.languages import RULES
from lsp_calib.syntax.names_below import LANGUAGES, REDEFINED, UNDEFINED_BELOW, NamesBelow, names_outside
from lsp_calib.syntax.source_tree import Overrun, SourceTree

SOURCE = """\
import { read, type Reader } from "./reader";

const LIMIT = 3;

export function sizes(reader: Reader, { names, depth = 1 }: Options) {
  ¦
  for (const name of names) {
    if (name.length > LIMIT) found.push(read(name, depth));
  }
  return found;
}

export const wide = (rows: Row[]) => rows.filter((row) => row.width > LIMIT);
"""

COMPONENT = """\
import { useState } from "react";

export const Panel = ({ title, ...rest }: Props) => {
  ¦
  return (
    <section {...rest} onClick={() => setOpen(!open)}>
      <h1 title={title}>{title}</h1>
      <Body open={open} />
    </section>
  );
};

function Body({ open }: { open: boolean }) {
  return open ? <p /> : null;
}
"""


def of(
    text: str, source: str = SOURCE, language: str = "typescript", outside: frozenset[str] = frozenset()
) -> Mapping[str, str]:
    """The signs of a text in the place of ¦, in the line that ¦ stands in."""
    lines = source.split("\n")
    row = next(at for at, line in enumerate(lines) if "¦" in line)
    before, _, after = lines[row].partition("¦")
    tree = SourceTree(RULES[language], [*lines[:row], "", *lines[row + 1 :]])
    return NamesBelow(tree, row, outside).of(before, text, after)


@pytest.mark.parametrize(
    ("text", "missing"),
    [
        ("const found: string[] = [];", None),
        ("const [found, rest] = split(names);", None),
        ("const { a: found = [], ...others } = reader;", None),
        ("var found = [];", None),
        ("const result: string[] = [];", "found"),
        ("found.length = 0;", "found"),
        ("// nothing", "found"),
        ("const found = [", None),  # the line leaves an error: the feature `broken` says so
    ],
)
def test_a_name_that_is_used_below(text: str, missing: str | None) -> None:
    assert of(text).get(UNDEFINED_BELOW) == missing


@pytest.mark.parametrize(
    ("text", "missing"),
    [
        ("const [open, setOpen] = useState(false);", None),
        ("const [open, setOpened] = useState(false);", "setOpen"),
        ("const opened = useState(false);", "open"),
    ],
)
def test_a_name_that_tags_use_below(text: str, missing: str | None) -> None:
    assert of(text, COMPONENT, "typescriptreact").get(UNDEFINED_BELOW) == missing


@pytest.mark.parametrize(
    "source",
    [
        "function f() {\n  ¦\n  return 1;\n}\n",  # nothing is missing
        "use(given);\nfunction f() {\n  ¦\n  return given;\n}\n",  # it is used above: from somewhere else
        "function f() {\n  ¦\n}\nuse(given);\n",  # it is used behind the scope of the line
        "function f() {\n  const a = ¦\n  return given;\n}\n",  # the line has its names already
        "function f() {\n  use(\n    ¦\n    1);\n  return given;\n}\n",  # an argument binds nothing
        "function f() {\n  ¦\n  return { given: 1 }.given;\n}\n",  # keys and properties are no names
        "function f() {\n  ¦\n  return <K,>(key: K): { [P in K]: P } => make(f);\n}\nmake();",
        "function f() {\n  ¦\n  later();\n  var later = 1;\n}\n",  # bound in the whole function
        "function f() {\n  ¦\n  return () => later;\n}\nconst later = 1;\n",
        "function f(a: HTMLInputElement) {\n  ¦\n  return new ResizeObserver(requestAnimationFrame);\n}\n",
        "function f() {\n  ¦\n  return one + two + three;\n}\n",  # a part of another file
        "¦\nexport { one } from './one';\nexport * from './two';\n",
    ],
)
def test_nothing_is_said_of_other_names(source: str) -> None:
    assert UNDEFINED_BELOW not in of("f(0);", source)


def test_what_is_bound_later_in_a_block_is_missing_before_that() -> None:
    source = "function f() {\n  ¦\n  use(total);\n  {\n    const total = 1;\n  }\n}\n"
    assert of("const size = 1;", source) == {UNDEFINED_BELOW: "total"}


def test_types_are_missed_where_an_import_may_stand() -> None:
    source = "import { a } from './a';\n¦\nexport const b = (one: Other) => a(one);\n"
    assert of("import { Another } from './b';", source) == {UNDEFINED_BELOW: "Other"}
    assert of("import { Other } from './b';", source) == {}


def test_nothing_is_said_of_names_outside() -> None:
    lines = ["import found from 'a';", "function g() {", "  const own = 1;", "  use(own, given);", "}"]
    outside = names_outside(RULES["typescript"], lines)
    assert {"found", "g", "given"} <= outside
    assert "own" not in outside
    assert of("f();", outside=outside) == {}


@pytest.mark.parametrize(
    ("source", "text", "again"),
    [
        ("const a = 1;\n¦\n", "const a = 2;", "a"),
        ("const a = 1;\n¦\n", "const b = 2;", None),
        ("export const a = 1;\n¦\n", "function a() {}", "a"),
        ("const a = 1;\n{\n  ¦\n}\n", "const a = 2;", None),
        ("const a = 1;\nconst ¦\n", "b = 2;", None),
        ("const o = {\n  a: 1,\n  ¦\n};\n", "a: 2,", "a"),
        ("const o = {\n  a: 1,\n  ¦\n};\n", "b: a,", None),
        ("const o = {\n  a: 1,\n  a¦\n};\n", ": 2,", None),  # not the new part
        ("const o = ¦;\n", "{ a: 1, a: 2 }", "a"),
        ("class A {\n  get a() { return 1; }\n  ¦\n}\n", "set a(to) {}", None),
        ("class A {\n  a() { return 1; }\n  ¦\n}\n", "a() { return 2; }", "a"),
        ("class A {\n  a(x: string): void;\n  ¦\n}\n", "a(x: any) {}", None),  # an overload
        ("interface A {\n  a: string;\n  ¦\n}\n", "a?: number;", "a"),
        ("enum A {\n  B,\n  ¦\n}\n", "B,", "B"),
        ("switch (a) {\n  case 'b':\n    break;\n  ¦\n}\n", "case 'b':", "'b'"),
        ("import { a } from 'a';\n¦\n", "import { b } from 'a';", "'a'"),
        ("import { a } from 'a';\n¦\n", "import type { B } from 'a';", None),
        ("export { a as b, ¦ };\n", "a as c", None),
    ],
)
def test_what_is_defined_again(source: str, text: str, again: str | None) -> None:
    assert of(text, source).get(REDEFINED) == again


def test_attributes_of_a_tag() -> None:
    source = 'const a = <p\n  id="b"\n  ¦\n/>;\n'
    assert of('id="c"', source, "typescriptreact") == {REDEFINED: "id"}
    assert of('key="c"', source, "typescriptreact") == {}


@pytest.mark.parametrize("language", sorted(LANGUAGES))
@settings(max_examples=60, deadline=None)
@given(
    above=st.lists(st.sampled_from(SOURCE.split("\n") + COMPONENT.split("\n")), max_size=12),
    line=st.text(st.sampled_from("abc{}()[]<>=;:,.'\"`$ é𝒳import const"), max_size=20),
    below=st.lists(st.sampled_from(SOURCE.split("\n") + COMPONENT.split("\n")), max_size=12),
)
def test_any_file_has_an_answer(language: str, above: list[str], line: str, below: list[str]) -> None:
    lines = [one.replace("¦", "") for one in (*above, line, *below)]
    found = of(line, "\n".join((*lines[: len(above)], "¦", *lines[len(above) + 1 :])), language)
    assert set(found) <= {REDEFINED, UNDEFINED_BELOW}


@pytest.mark.parametrize("piece", ["{", "(() => {", "f(", "<a>", "if (a) {\n"])
def test_deep_nesting_ends(piece: str) -> None:
    source = f"function f() {{\n  ¦\n{piece * 3000}\n  return found;\n}}\n"
    with contextlib.suppress(Overrun):  # the language is treated as one without a grammar
        assert set(of("const a = 1;", source)) <= {REDEFINED, UNDEFINED_BELOW}
