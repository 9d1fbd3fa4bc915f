"""Facts about code that a prompt may tell: names, types, calls and data flow, in Python and Java."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_summarization import CHAT, EXAMPLE, example

from lsp_calib.inference.models.cards import ChatFormat
from lsp_calib.studies.augmentation import augmentation
from lsp_calib.summarization.prompt import build_prompt

PYTHON = """def total(self, items: list[Item], tax=0.1, *more, **kw) -> float:
    fresh = [item for item in items if item.fresh]
    base: float = sum(one.price for one in fresh)
    self.total = base * (1 + tax)
    key = tax
    for name, value in kw.items():
        self.log(name, x=value)
    return self.total
"""
JAVA = """@Override
public long sum(final String currency, int... more) {
    long total = 0, other = total;
    for (T item : items) {
        if (item.in(currency)) { total += priced.price() * more[0]; this.count = total; }
    }
    List<String> x = new ArrayList<>(total);
    return total;
}"""


FACTS = {
    "python": """Parameters: items (list[Item]), tax, more, kw
Local variables: fresh, item, base (float), one, key, name, value
Fields: total
Calls: sum, kw.items, self.log
Returns: float
""",
    "java": """Parameters: currency (String), more
Local variables: total (long), other (long), item (T), x (List<String>)
Fields: count
Calls: in, price, ArrayList
Returns: long
""",
}
FLOWS = {
    "python": ("key comes from tax", "total is computed from base, tax", "value is computed from kw"),
    "java": ("other comes from total", "total is computed from priced, more"),
}


@pytest.mark.parametrize(("code", "language"), [(PYTHON, "python"), (JAVA, "java")])
def test_facts_on_a_function(code: str, language: str) -> None:
    told = augmentation(code, language, repository="shop", path="app/shop.py")
    assert told.startswith(f"Repository: shop\nFile: app/shop.py\n{FACTS[language]}Data flow: ")
    assert all(flow in told.rpartition("Data flow: ")[2].split("; ") for flow in FLOWS[language])


@pytest.mark.parametrize(("code", "language"), [("x = 1", "python"), ("", "java"), ("func f() {}", "go")])
def test_without_a_function_or_a_grammar_there_are_none(code: str, language: str) -> None:
    assert augmentation(code, language) == ""
    assert augmentation(code, language, repository="a", path="b/c") == "Repository: a\nFile: b/c"


def test_facts_in_words_are_bounded() -> None:
    many = "".join(f"    long_variable_name_{n} = long_function_name_{n}(a)\n" for n in range(200))
    assert len(augmentation(f"def f(a):\n{many}", "python")) <= 600


@given(
    st.sampled_from(["python", "java"]),
    st.lists(
        st.sampled_from(
            ["def f(a", "): ", "int g(", "{", "}", "x = ", "a.b", "(", ")", "\n  ", "for ", " in ", "é;"]
        )
    ),
)
@settings(max_examples=60, deadline=None)
def test_broken_code_does_no_harm(language: str, pieces: list[str]) -> None:
    assert len(augmentation("".join(pieces), language)) <= 600


@pytest.mark.parametrize("chat", [CHAT, ChatFormat()])
def test_facts_stand_below_the_code_that_they_are_on(chat: ChatFormat) -> None:
    examples = [example(0), example(1)]
    prompt = build_prompt(EXAMPLE, "python", chat, 1600, examples, facts=["On 0.", "", "On it."])
    shown = "".join(text for _, text in prompt.segments)
    order = ("def f1", "Sentence 1", "def f0", "On 0.", "Sentence 0", EXAMPLE.code, "On it.")
    at = [shown.index(text) for text in order]
    assert at == sorted(at)
    assert prompt.version == "summary-bm25-1-asap"
