"""Examples for summaries: which functions resemble one, and what an index of a workspace keeps of them."""

from __future__ import annotations

import gc
import math
from collections.abc import Collection
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lsp_calib.characters import split_lines
from lsp_calib.corpus.functions import ExamplePool
from lsp_calib.exclusion import Exclusion
from lsp_calib.summarization import examples, workspace_examples
from lsp_calib.summarization.examples import K1, B, Example, Ranking, likeness, terms_of, words_of
from lsp_calib.summarization.workspace_examples import WorkspaceExamples
from lsp_calib.syntax import Function, functions

WORDS = ["read", "file", "write", "sum", "price", "shop", "open", "close", "token", "tree"]
CODES = st.lists(st.sampled_from(WORDS), min_size=1, max_size=12).map(" ".join)


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("parse_file(readJSONFile2)", "parse file read json file"),
        ("HTTPServer.x = aB", "http server"),
        ("größeDerDatei x1y", "größe der datei"),
        ("if a == 3.14e5: pass  # why", "if pass why"),
        ("", ""),
    ],
)
def test_identifiers_are_split_into_words(code: str, words: str) -> None:
    assert list(words_of(code)) == words.split()


def test_functions_of_the_same_words_are_alike_in_any_order() -> None:
    assert terms_of("read the file, read") == {"read": 2, "the": 1, "file": 1}
    assert likeness(terms_of("read the secret"), terms_of("secret read the")) == 1.0
    assert likeness(terms_of("read read it"), terms_of("read it")) == 2 / 3


@given(CODES, CODES)
def test_likeness_is_symmetric_and_one_for_the_same_words(one: str, other: str) -> None:
    a, b = terms_of(one), terms_of(other)
    assert likeness(a, b) == likeness(b, a)
    assert 0 <= likeness(a, b) <= 1
    assert (likeness(a, b) == 1) == (sorted(one.split()) == sorted(other.split()))


@given(st.lists(CODES, min_size=1, max_size=20), CODES)
@settings(max_examples=50)
def test_scores_are_those_of_bm25(codes: list[str], query: str) -> None:
    """In the variant of Lucene: Kamphuis et al. 2020, table 1."""
    documents = [code.split() for code in codes]
    average = sum(map(len, documents)) / len(documents)
    ranking = Ranking[int]()
    for at, code in enumerate(codes):
        ranking.put(at, (terms_of(code),))
    found = {one.group: one.score for one in ranking.best(terms_of(query), len(codes))}
    for at, document in enumerate(documents):
        expected = 0.0
        for word in set(query.split()):
            n, times = sum(word in one for one in documents), document.count(word)
            rarity = math.log(1 + (len(documents) - n + 0.5) / (n + 0.5))
            expected += rarity * times / (times + K1 * (1 - B + B * len(document) / average))
        assert found.get(at, 0.0) == pytest.approx(expected)


@pytest.mark.parametrize("most_gone", [0, 256])
@given(st.lists(st.tuples(st.integers(0, 4), st.lists(CODES, max_size=3)), max_size=12), CODES)
@settings(max_examples=50)
def test_what_has_changed_is_ranked_and_what_is_gone_is_not(
    most_gone: int, changes: list[tuple[int, list[str]]], query: str
) -> None:
    """Each function that shares a word is found, and no other one; with the scores of a new ranking."""
    ranking, fresh = Ranking[int](), Ranking[int]()
    now: dict[int, list[str]] = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(examples, "_MOST_GONE", most_gone)
        for group, codes in changes:
            ranking.put(group, [terms_of(code) for code in codes])
            now.pop(group, None)
            now[group] = codes
    for group, codes in now.items():
        fresh.put(group, [terms_of(code) for code in codes])
    assert len(ranking) == sum(map(len, now.values()))
    ranked, anew = (
        [(one.group, one.index, one.score) for one in which.best(terms_of(query), 1000)]
        for which in (ranking, fresh)
    )
    assert ranked == anew
    assert ranking.ideal(terms_of(query)) == fresh.ideal(terms_of(query))
    codes_of = ((group, at, code) for group, codes in now.items() for at, code in enumerate(codes))
    sharing = {(group, at) for group, at, code in codes_of if set(code.split()) & set(query.split())}
    assert {(group, at) for group, at, _ in ranked} == sharing


def test_a_pool_leaves_out_near_duplicates_and_a_group() -> None:
    given = [
        Example("", "a", "def total(prices): return sum(price for price in prices)", "A."),
        Example("", "b", "def total_(prices):  return sum(price  for price in prices)", "B."),
        Example("", "c", "def total(prices): return max(prices) - min(prices)", "C."),
        Example("", "d", "def read(path): return open(path).read()", "D."),
    ]

    def names(code: str, without: Collection[int] = ()) -> list[str]:
        shown = ExamplePool(given).shown(code, lambda at: at not in without)
        assert len(shown["scores"]) == len(shown["examples"])
        return [one["name"] for one in shown["examples"]]

    assert names(given[0].code) == ["c", "d"]
    assert names("def total_price(prices): return sum(prices)")[:2] == ["a", "c"]
    assert names("total prices sum", {0, 1}) == ["c"]
    assert ExamplePool([]).shown("x", lambda _: True) == {"examples": [], "scores": []}


SHOP = '''class Shop:
    def total_price(self, items):
        """Sum the prices of some items."""
        return sum(item.price for item in items if item.fresh)

    def plain(self, items):
        return sum(item.price for item in items)

    def cheapest_price(self, items):
        """Find the cheapest item. It may be None."""
        return min(items, key=lambda item: item.price, default=None)
'''
BILL = '''import shop


def total_bill(items, tax):
    """Return the price of all items with tax."""
    return sum(item.price for item in items) * (1 + tax)


def read_bill(path):
    """:param path: of the bill"""
    return [line.split() for line in open(path) if line.strip()]
'''
QUERY = "def price_of(items):\n    return sum(item.price for item in items)"


def query(code: str = QUERY) -> Function:
    return functions(split_lines(code), "python")[0]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    (folder / "app").mkdir(parents=True)
    (folder / "app" / "shop.py").write_text(SHOP)
    (folder / "bill.py").write_text(BILL)
    return folder


def index_of(root: Path, *patterns: str) -> WorkspaceExamples:
    index = WorkspaceExamples(root, lambda: Exclusion(patterns))
    index.scan("python", root, seconds=20)
    return index


def names(
    index: WorkspaceExamples, function: Function | None = None, name: str = "", **more: object
) -> list[str]:
    found = index.best(function or query(), "python", name, 3, **more)  # type: ignore[arg-type]
    return [one.name for one in found]


def test_documented_functions_of_a_workspace_are_found(root: Path) -> None:
    index = index_of(root)
    assert len(index) == 3
    best = index.best(query(), "python", "", 3)
    assert {one.name for one in best} == {"total_price", "total_bill", "cheapest_price"}
    (one,) = (one for one in best if one.name == "total_price")
    assert one == Example(
        "app/shop.py",
        "total_price",
        "    def total_price(self, items):\n        return sum(item.price for item in items if item.fresh)",
        "Sum the prices of some items.",
    )


def test_a_function_is_no_example_for_itself_nor_is_its_copy(root: Path) -> None:
    (root / "copy.py").write_text(SHOP.replace("Sum the prices", "Copy the prices"))
    index = index_of(root)
    lines = split_lines(SHOP)
    function = next(one for one in functions(lines, "python") if one.name == "total_price")
    sentences = [one.sentence for one in index.best(function, "python", "app/shop.py", 5)]
    assert not any("the prices of some items" in sentence for sentence in sentences)
    # What holds a function tells of it as well.
    inner = "    def price(items):\n        return sum(items)\n    return price(items)\n"
    lines = split_lines(f'def outer(items):\n    """Price all items."""\n{inner}')
    index.put("nested.py", "python", lines)
    function = functions(lines, "python")[1]
    assert "outer" not in names(index, function, "nested.py", open_={"nested.py": lines})
    assert "outer" in names(index, function, "", open_={"nested.py": lines})


def test_a_changed_file_is_dropped_until_it_is_read_again_and_no_other_is(root: Path) -> None:
    index = index_of(root)
    assert index.scan("python", root, seconds=20) == 0
    (root / "bill.py").write_text("# moved\n" + BILL)
    assert "total_bill" not in names(index)
    assert len(index) == 2
    assert index.scan("python", root, seconds=20) == 1
    assert "total_bill" in names(index)
    (root / "bill.py").unlink()
    index.scan("python", root, seconds=20)
    assert "total_bill" not in names(index)
    assert len(index) == 2
    (root / "app" / "new.py").write_text(BILL.replace("bill", "offer"))
    assert index.scan("python", root, seconds=20) == 1
    assert len(index) == 3


def test_open_documents_are_taken_as_they_are(root: Path) -> None:
    index = index_of(root)
    lines = split_lines(BILL.replace("all items", "everything"))
    index.put("bill.py", "python", lines)
    best = index.best(query(), "python", "", 3, {"bill.py": lines})
    assert "Return the price of everything with tax." in [one.sentence for one in best]
    assert index.scan("python", root, seconds=20, open_={"bill.py": lines}) == 0


def test_of_a_workspace_that_is_a_link_both_names_decide(root: Path, tmp_path: Path) -> None:
    (link := tmp_path / "notes").symlink_to(root)
    assert len(index_of(link)) == 3
    (secret := tmp_path / ".ssh").mkdir()
    link.unlink()
    link.symlink_to(root.rename(secret / "project"))
    assert len(index_of(link)) == 0


def test_what_no_model_may_see_is_no_example(root: Path) -> None:
    (root / ".gitignore").write_text("ignored\n")
    for folder in ("ignored", "node_modules", ".hidden", "secrets"):
        (root / folder).mkdir()
        (root / folder / "bill.py").write_text(BILL)
    (root / "made.py").write_text("# Generated by a tool. DO NOT EDIT.\n" + BILL)
    (root / "link.py").symlink_to(root / "bill.py")
    (root / "large.py").write_text(BILL + "# x\n" * 100_000)
    (root / "bytes.py").write_bytes(b"\xff" + BILL.encode())
    assert len(index_of(root, "secrets/")) == 3
    # A file that is excluded later is not shown either.
    patterns: list[str] = []
    index = WorkspaceExamples(root, lambda: Exclusion(tuple(patterns)))
    index.scan("python", root, seconds=20)
    patterns.append("bill.py")
    assert not {"total_bill"} & set(names(index))


def test_languages_are_kept_apart_and_dialects_together(root: Path) -> None:
    code = "function total(items) {\n  return items.map((item) => item.price);\n}\n"
    code = f"/** Sums the prices of items. */\n{code}"
    (root / "a.js").write_text(code)
    (root / "b.jsx").write_text(code.replace("total", "price"))
    index = WorkspaceExamples(root, Exclusion)
    assert index.scan("javascript", root, seconds=20) == 2
    assert {one.name for one in index.best(query(), "javascriptreact", "", 3)} <= {"total", "price"}
    assert index.best(query(), "javascript", "", 3)
    assert index.best(query(), "python", "", 3) == []


def test_headers_are_c_plus_plus_where_that_is_looked_for(tmp_path: Path) -> None:
    body = "inline int total_price(int items, int price) {\n  return items * price;\n}\n"
    (tmp_path / "a.h").write_text(f"namespace shop {{\n/// Multiplies the prices of items.\n{body}}}\n")
    (tmp_path / "b.c").write_text(f"/// Multiplies the prices of items.\nstatic {body}")
    index = WorkspaceExamples(tmp_path, Exclusion)

    def paths(language: str) -> list[str]:
        index.scan(language, tmp_path, seconds=20)
        return [one.path for one in index.best(query(), language, "", 3)]

    assert index.scan("c", tmp_path, seconds=20) == 2
    assert paths("cpp") == ["a.h"]
    (found,) = index.best(query(), "cpp", "", 3)
    assert found.name == "total_price"
    # It stays so, and is not read again.
    assert paths("c") == ["b.c"]
    assert index.scan("cpp", tmp_path, seconds=20) == 0
    assert paths("cpp") == ["a.h"]


def test_a_scan_ends_where_it_is_told_to_and_goes_on_later(root: Path) -> None:
    index = WorkspaceExamples(root, Exclusion)
    done = index.scan("python", root / "app", seconds=20, goes_on=lambda _: False)
    assert done == 1
    assert names(index), "what is nearest comes first"
    assert {one.path for one in index.best(query(), "python", "", 3)} == {"app/shop.py"}
    assert index.scan("python", root, seconds=20) == 1


def test_an_index_is_bounded(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workspace_examples, "_MOST_FUNCTIONS", 2)
    for n in range(10):
        (root / f"more{n}.py").write_text(BILL)
    index = WorkspaceExamples(root, Exclusion)
    index.scan("python", root, seconds=20)
    assert len(index) <= 3


def test_no_text_of_a_workspace_is_kept(root: Path) -> None:
    """Single words, of code alone: neither lines nor documentation."""
    index = index_of(root)
    names(index)
    gc.collect()
    texts: list[str] = []
    seen: set[int] = set()
    waiting: list[object] = [index]
    while waiting:
        one = waiting.pop()
        if id(one) in seen or isinstance(one, type):
            continue
        seen.add(id(one))
        if isinstance(one, str | bytes):
            texts.append(one if isinstance(one, str) else one.decode("latin-1"))
        elif isinstance(one, dict):
            waiting += [*one, *one.values()]
        elif isinstance(one, list | tuple | set) or "summarization" in type(one).__module__:
            waiting += gc.get_referents(one)
    held = " ".join(texts).replace(str(root), "")
    assert "price" in texts
    for word in ("total_price", "item.price", "prices", "tax)"):
        assert word not in held


@given(st.text(max_size=300), st.sampled_from(["python", "java", "ruby", "php", "csharp"]))
@settings(max_examples=50, deadline=None)
def test_hostile_files_do_no_harm(text: str, language: str) -> None:
    index = WorkspaceExamples(Path("/nowhere"), Exclusion)
    index.put("a", language, split_lines(BILL + text))
    index.best(query(), language, "a", 3, {"a": split_lines(text)})
    index.drop("a")
    assert len(index) == 0
