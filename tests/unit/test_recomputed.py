"""Text features come again from the sources, the tokens and the vocabulary, and from nothing else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs
import pytest

from lsp_calib.completion.context import Cursor
from lsp_calib.completion.prompt import PREFIX_VERSION, Layout, build_prompt
from lsp_calib.corpus import rebuilding as recomputed
from lsp_calib.corpus.item_worker import prompt_hash
from lsp_calib.corpus.places import NEW_LINE, LineItem, Task, sample_lines
from lsp_calib.corpus.records import FeatureList, Header, Record, read_records, write_records
from lsp_calib.errors import DataError
from lsp_calib.inference.models.cards import load_cards
from lsp_calib.studies.tasks import Gap, judge
from lsp_calib.values import ModelIdentity

HEADER = Header("line", "python", ModelIdentity("smollm2-135m", "Q4", ""), PREFIX_VERSION, 0)
SOURCE = "import os\n\n\ndef area(radius):\n    return radius * radius\n\n\ndef é(x):\n    return x\n"
# The last one ends a text.
PIECES = [b"   ", b" return", b"return", b" radius", b"\n", b" x", b"re", b"turn", "é".encode(), b"\xc3"]
PIECES += [b"])", b""]
(SPACES, _RETURN, RETURN, RADIUS, END, X, RE, TURN, E_ACUTE, HALF, CLOSERS, EOT) = range(len(PIECES))


@pytest.fixture
def sources(tmp_path: Path) -> Path:
    folder = tmp_path / "sources" / "shapes-1.0" / "pkg"
    folder.mkdir(parents=True)
    (folder / "a.py").write_text(SOURCE, "utf-8")
    return folder.parents[1]


def record(place: str, tokens: Sequence[int], *, exact: bool, typed: float = 0.0, **more: object) -> Record:
    values: dict[str, object] = {
        "item": f"shapes-1.0/pkg/a.py:{place}",
        "group": "shapes-1.0",
        "stratum": "after-indentation",
        "correct": {"exact": exact},
        "shown": True,
        "stop": "line",
        "tokens": tuple(tokens),
        "logprobs": (-0.5,) * len(tokens),
        "typed_logprobs": (typed, *(0.0,) * (len(tokens) - 1)),
    }
    return Record(**{**values, **more})  # type: ignore[arg-type]


CARD = load_cards()["smollm2-135m"]


def texts(sources: Path, *records: Record) -> list[str]:
    return [found.text for found in recomputed.rebuild(HEADER, records, sources, CARD, PIECES)]


@pytest.fixture
def lengths(monkeypatch: pytest.MonkeyPatch) -> None:
    """Features that tell the cursors with and without the text below apart."""
    first, second, *_ = FeatureList.present().names

    def counted(cursor: Cursor, text: str) -> Mapping[str, float]:
        return {first: float(len(cursor.lines)), second: float(len(text))}

    monkeypatch.setattr(recomputed, "text_features", counted)


@pytest.mark.parametrize("kind", ["", NEW_LINE])
def test_the_place_is_that_of_the_item_it_was_drawn_as(sources: Path, kind: str) -> None:
    for item in sample_lines(sources / "shapes-1.0", "shapes-1.0", 10, seed=1, kind=kind):
        more = {"item": item.id, "stratum": item.stratum, "condition": item.condition}
        of = record("1:1", (), exact=False, **more)
        again = recomputed.item_of(of, sources)
        assert attrs.evolve(again, cursor=item.cursor) == item
        assert tuple(again.cursor.lines) == tuple(item.cursor.lines)
        assert (again.cursor.line, again.cursor.column) == (item.cursor.line, item.cursor.column)


@pytest.mark.parametrize(
    ("place", "tokens", "more", "text"),
    [
        # The line is indented by four: three spaces are a token of their own, the fourth is the word's.
        ("9:5", (_RETURN, X, END), {"exact": True, "typed": -0.01}, "return x"),
        ("9:5", (RETURN, X, END), {"exact": True}, "return x"),
        ("9:7", (TURN, X, END), {"exact": True}, "turn x"),
        # After `re`, the token `return` may complete the word, or stand behind it: it completes it.
        ("9:7", (RETURN, X, END), {"exact": True}, "turn x"),
        # How much the first token adds is taken from the record; without that, it is the least.
        *(("9:5", (SPACES, X, END), {"added": n}, " " * ((n or 1) + 1) + "x") for n in (None, 1, 2, 3)),
        # Characters of several tokens, and the end of the text.
        ("9:5", (RETURN, X, HALF, EOT), {"exact": True, "stop": "endOfText"}, "return x"),
        ("9:5", (RETURN, X, E_ACUTE, EOT), {"stop": "endOfText"}, "return xé"),
        # Answers that were not offered have none.
        ("9:5", (RETURN, X), {"exact": True, "shown": False, "stop": "length"}, ""),
        ("9:5", (END,), {"shown": False}, ""),
    ],
)
def test_typed_characters_at_the_beginning_of_the_first_token_are_not_text(
    sources: Path, place: str, tokens: Sequence[int], more: dict[str, Any], text: str
) -> None:
    assert texts(sources, record(place, tokens, **{"exact": False, **more})) == [text]


@pytest.mark.usefixtures("lengths")
def test_verdicts_are_of_what_is_offered_today(sources: Path) -> None:
    """A record from before a rule: surplus closers were offered, or the whole answer was withheld."""
    answer = (RETURN, X, CLOSERS, END)
    offered, withheld = record("9:5", answer, exact=False), record("9:5", answer, exact=False, shown=False)
    _, found = recomputed.with_features(HEADER, [offered, withheld], sources, CARD, PIECES)
    assert [one.correct["exact"] and one.shown for one in found] == [True, True]
    assert all(one.features[1] == len("return x") for one in found)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"added": 12}, "cannot be the answer"),
        ({"tokens": (SPACES, X, END), "added": 4}, r"a\.py:9:5"),  # more than the first token holds
        ({"prompt": "0" * 16}, "had another prompt"),
        ({"item": "shapes-1.0/pkg/a.py:90:1"}, "does not exist"),
        ({"item": "shapes-1.0/pkg/b.py:1:1"}, "cannot be read"),
        ({"item": "../sources/shapes-1.0/../../x.py:1:1"}, "is not below"),
    ],
)
def test_what_does_not_fit_is_named(sources: Path, wrong: dict[str, object], message: str) -> None:
    bad = attrs.evolve(record("9:5", (RETURN, X, END), exact=True), **wrong)
    with pytest.raises(DataError, match=message) as caught:
        texts(sources, bad)
    assert bad.item.rpartition("/")[2].partition(":")[0] in str(caught.value)


def test_the_prompt_is_the_one_of_the_record(sources: Path) -> None:
    good = record("9:5", (RETURN, X, END), exact=True)
    cursor = recomputed.item_of(good, sources).cursor
    good = attrs.evolve(good, prompt=prompt_hash(build_prompt(cursor, Layout.of(CARD))))
    assert texts(sources, good) == ["return x"]
    path = sources / "shapes-1.0" / "pkg" / "a.py"
    path.write_text(SOURCE.replace("import os", "import sys"), "utf-8")
    with pytest.raises(DataError, match="another version"):
        texts(sources, good)


def test_records_of_other_tasks_and_prompts_are_refused(sources: Path) -> None:
    for header in (attrs.evolve(HEADER, task="infill"), attrs.evolve(HEADER, prompt_version="line-fim-1")):
        with pytest.raises(DataError):
            list(recomputed.rebuild(header, [], sources, CARD, PIECES))


@pytest.mark.usefixtures("lengths")
def test_features_with_and_without_the_text_below(sources: Path) -> None:
    right = record("9:5", (RETURN, X, END), exact=True)
    empty = record("9:5", (END,), exact=False, shown=False)
    header, found = recomputed.with_features(HEADER, [right, empty], sources, CARD, PIECES)
    assert header.features == FeatureList.present()
    rest = (None,) * (len(FeatureList.present().names) - 2)
    lines = SOURCE.count("\n") + 1
    assert found[0].features == (lines, len("return x"), *rest)
    assert found[0].features_above == (9.0, len("return x"), *rest)
    assert (found[1].features, found[1].features_above) == ((), ())
    assert attrs.evolve(found[0], features=(), features_above=()) == right


def test_a_file_is_rewritten_with_its_features_and_the_same_again(
    sources: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = tmp_path / "model.gguf"
    model.write_bytes(b"")
    monkeypatch.setattr(recomputed, "locate", lambda _name: (CARD, model))
    monkeypatch.setattr(recomputed, "_pieces", lambda _file: PIECES)
    path = tmp_path / "r.jsonl"
    item: LineItem = recomputed.item_of(record("9:5", (), exact=False), sources)
    write_records(path, HEADER, [record("9:5", (RETURN, X, END), exact=True)])
    assert recomputed.recompute_features(path, sources) == 1
    first = path.read_bytes()
    header, (found,) = read_records(path)
    assert header.features == FeatureList.present()
    expected = recomputed.text_features(item.cursor, "return x")
    assert (
        found.evidence(header).features.items()
        >= {name: pytest.approx(value, abs=5e-5) for name, value in expected.items()}.items()
    )
    assert recomputed.recompute_features(path, sources) == 1
    assert path.read_bytes() == first


def test_verdicts_of_tests_are_not_lost(sources: Path) -> None:
    first = record("9:5", (RETURN, X, END), exact=True)
    judged = attrs.evolve(first, correct={"exact": True, "tests": True})
    with pytest.raises(DataError, match="projects' tests"):
        recomputed.with_features(HEADER, [first, judged], sources, CARD, PIECES)


@pytest.mark.parametrize(("first", "passes"), [(_RETURN, True), (RADIUS, False)])
def test_an_infilled_line_is_judged_by_its_tests_again(tmp_path: Path, first: int, passes: bool) -> None:
    test = "def check(f):\n    assert f(3) == 3\n"
    missing = Gap("set/f/0/L1", "f/0", "def f(x):\n", "    return x\n", "", f"{test}check(f)\n", ("f",))
    task = Task("infill", ((missing.id, missing.payload()),), criteria=("exact", "tests"), judge=judge)
    judged = {"exact": passes, "tests": not passes}
    tokens = (SPACES, first, X, END)
    answer = record(
        "", tokens, exact=passes, item=missing.id, group="f/0", correct=judged, stratum="line-start"
    )
    header = attrs.evolve(HEADER, task="infill")
    _, (found,) = recomputed.with_features(header, [answer], tmp_path, CARD, PIECES, task)
    assert found.correct == {"exact": passes, "tests": passes}
    other = attrs.evolve(answer, item="set/f/1/L1")
    with pytest.raises(DataError, match="no item"):
        recomputed.with_features(header, [other], tmp_path, CARD, PIECES, task)
