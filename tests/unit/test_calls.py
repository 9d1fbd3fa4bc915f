"""Names that are called, by the text of their line."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lsp_calib.syntax import call_at, functions, may_mean


@pytest.mark.parametrize(
    ("marked", "name"),
    [
        ("x = a|dd(1)", "add"),
        ("x = |add(1)", "add"),
        ("x = add|(1)", "add"),
        ("x = add(|1)", None),
        ("x = ad|d", None),
        ("outer(in|ner(1))", "inner"),
        ("self.ad|d(1)", "add"),
        ("this->ad|d(1)", "add"),
        ("Self::ad|d(1)", "add"),
        ("$this->ad|d(1)", "add"),
        ("super().ad|d(1)", None),
        ("parent::ad|d(1)", None),
        ("items.ad|d(1)", None),
        ("self.items.ad|d(1)", None),
        ("myself.ad|d(1)", None),
        ("std::ad|d(1)", None),
        ("$ad|d(1)", None),
        ("1ad|d(1)", None),
        ("größ|e (1)", "größe"),
    ],
)
def test_the_name_at_a_column(marked: str, name: str | None) -> None:
    text, column = marked.replace("|", ""), marked.index("|")
    found = call_at(text, column)
    assert (found and found.name) == name
    if found is not None:
        assert text[slice(*found.span)] == name


@given(st.text(max_size=60), st.integers(0, 60))
def test_any_text_is_survived(text: str, column: int) -> None:
    found = call_at(text, column)
    assert found is None or text[slice(*found.span)] == found.name


METHODS = {
    "python": "class Store(\n    Base,\n):\n# Comment.\n    @cached\n    def open(self):\n        pass\n",
    "typescript": "export class Client {\n  private async open(url: string) {\n    return url;\n  }\n}\n",
    "javascript": "const client = {\n  open: function (url) {\n    return url;\n  },\n};\n",
    "go": "package a\n\nfunc (b *Box) open(at int) int {\n\treturn at\n}\n",
    "rust": (
        "unsafe impl<T> Store<T>\nwhere\n    T: Copy,\n{\n    #[inline]\n"
        "    fn open(&self) -> u8 {\n        1\n    }\n}\n"
    ),
    "php": "<?php\nfinal class Store\n{\n    function open($at)\n    {\n        return $at;\n    }\n}\n",
}
PLAIN = {
    "python": "class Store:\n    def all(self):\n        def open(self):\n            pass\n",
    "typescript": "export const open = async (url: string) => {\n  return url;\n};\n",
    "javascript": "function open(url) {\n  return url;\n}\n",
    "go": "package a\n\nfunc open(at int) int {\n\treturn at\n}\n",
    "rust": "mod store {\n    pub fn open() -> u8 {\n        1\n    }\n}\n",
    "php": "<?php\nfunction open($at)\n{\n    return $at;\n}\n",
    "java": "class A {\n    int open(int at) {\n        return at;\n    }\n}\n",
    "ruby": "class A\n  def open(at)\n    at\n  end\nend\n",
}


@pytest.mark.parametrize(
    ("source", "name", "bare"),
    [
        ("export async function sync() {\n  return 1;\n}\n", "sync", True),
        ("const t = (key) => {\n  return key;\n};\n", "t", True),
        ("function on(event) {\n  return event;\n}\n", "on", True),
        ("let foo;\nfoo = function (a) {\n  return a;\n};\n", "foo", True),
        ("export default\nfunction foo(a) {\n  return a;\n}\n", "foo", True),
        ("class A {\n  foo = (a) => {\n    return a;\n  };\n}\n", "foo", False),
        ("class A {\n  static async *foo(a) {\n    yield a;\n  }\n}\n", "foo", False),
    ],
)
def test_functions_of_javascript_by_their_headings(source: str, name: str, bare: bool) -> None:
    lines = source.split("\n")
    (function,) = functions(lines, "javascript")
    call = call_at(f"{name}(1)", 0)
    assert may_mean(call, function, lines, "javascript") == bare


@pytest.mark.parametrize(
    ("language", "source", "bare"),
    [*((*one, False) for one in METHODS.items()), *((*one, True) for one in PLAIN.items())],
)
def test_a_bare_name_means_no_method_where_these_are_called_on_something(
    language: str, source: str, bare: bool
) -> None:
    """`open(path)` in Python is not the method `Store.open`; in Java it may be."""
    lines = source.split("\n")
    (function,) = [one for one in functions(lines, language) if one.name == "open"]
    for text, means in (("x = open(1)", bare), ("this.open(1)", True), ("self::open(1)", True)):
        call = call_at(text, text.index("open"))
        assert may_mean(call, function, lines, language) == means
    other = call_at("close(1)", 1)
    assert not may_mean(other, function, lines, language)
