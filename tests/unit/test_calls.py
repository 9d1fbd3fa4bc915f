"""Names that are called, by the text of their line."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lsp_calib.syntax import called_name, innermost_function


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
        ("super().ad|d(1)", "add"),
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
    found = called_name(text, column)
    assert (found and found[0]) == name
    if found is not None:
        start, end = found[1]
        assert text[start:end] == name


@given(st.text(max_size=60), st.integers(0, 60))
def test_any_text_is_survived(text: str, column: int) -> None:
    found = called_name(text, column)
    assert found is None or text[slice(*found[1])] == found[0]


def test_the_innermost_function() -> None:
    lines = ["def f():", "    def g():", "        return 1", "    return g", "", "x = 1"]
    names = [found and found.name for found in (innermost_function(lines, n, "python") for n in range(6))]
    assert names == ["f", "g", "g", "f", None, None]
    assert innermost_function(lines, 0, "plaintext") is None
