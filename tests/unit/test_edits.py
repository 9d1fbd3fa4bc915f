"""Edits that repeat: what a change did, where it can be done again, and what is remembered."""

from __future__ import annotations

import math
import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lsp_calib.calibration.calibrators.calibrator_store import CalibratorStore
from lsp_calib.edits.history import FEATURES, History, passed_over
from lsp_calib.edits.offers import OFFERED_FROM, EditCurve, candidates, offers
from lsp_calib.edits.rules import Place, Rule, Text, applied, edits_of_line

ONE_EDIT = [
    ("x = size + 1", "x = width + 1", Rule(("size",), "width")),
    ("    call(a, b)", "    call(a, b, timeout=t)", Rule((), ", timeout=t", "call", ")", True)),
    ("x = await call()", "x = call()", Rule(("await", "call"), "call")),
    ("x = call()", "x = await call()", Rule(("call",), "await call")),
    ("return self.size", "return size", Rule(("self", ".", "size"), "size")),
    ("def f(x: int = 3):", "def f(x = 3):", Rule(("x", ":", "int"), "x")),
    ("x: List[int]", "x: list[int]", Rule(("List",), "list")),
    ("a = one", "a = one.two", Rule(("one",), "one.two")),
    ("x = 1", "x = 1;", Rule((), ";", "1", "")),
    ("print(x)", "# print(x)", Rule((), "# ", "", "print")),
    ("call(a, b, c)", "call(a, c)", Rule(("b", ","), " ", ",", "c")),
    ("größe = 1", "breite = 1", Rule(("größe",), "breite")),
]


@pytest.mark.parametrize(("old", "new", "rule"), ONE_EDIT)
def test_what_a_change_did(old: str, new: str, rule: Rule) -> None:
    """The same rule applied to the line gives the changed one, and to that it cannot be applied again."""
    (edit,) = edits_of_line(old, new)
    assert edit.rule == rule
    assert applied(old, [edit]) == new
    assert applied(old, Text([old]).places(rule)) == new
    assert Text([new]).places(rule) == []


def test_a_line_that_is_written_anew_is_no_edit() -> None:
    assert edits_of_line("for name in names:", "while not done(queue):") == []
    assert edits_of_line("a" * 501, "b" * 501) == []


def test_signs_alone_are_no_rule() -> None:
    assert edits_of_line("x = 'a'", 'x = "a"') == []


_LINES = st.text(st.sampled_from("ab1_ ().,=+é"), max_size=30)


@given(_LINES, _LINES)
def test_what_was_done_can_be_done_again(old: str, new: str) -> None:
    """Each edit stands among the places of its rule."""
    edits = edits_of_line(old, new)
    for edit in edits:
        spans = [(place.start, place.end) for place in Text([old]).places(edit.rule)]
        assert (edit.start, edit.end) in spans or not spans


@given(st.lists(_LINES, max_size=6), _LINES, _LINES)
def test_places_are_within_their_lines(lines: list[str], old: str, new: str) -> None:
    text = Text(lines)
    for edit in edits_of_line(old, new):
        for place in text.places(edit.rule):
            assert 0 <= place.start <= place.end <= len(lines[place.line])


def test_a_place_in_a_longer_word_is_none() -> None:
    rule = Rule(("size",), "width")
    assert Text(["resize(sizes, my_size)", "size"]).places(rule) == [Place(1, 0, 4, "width", "", "")]


def test_a_place_that_has_it_already_is_none() -> None:
    assert Text(["self.size = size"]).places(Rule(("size",), "self.size")) == [
        Place(0, 12, 16, "self.size", "=", "")
    ]


def test_of_what_stands_everywhere_nothing_is_said() -> None:
    assert Text(["x"] * 201).places(Rule(("x",), "y")) == []
    assert len(Text(["x"] * 200).places(Rule(("x",), "y"))) == 200


LINES = ["a = size", "b = size", "c = size", "d = size"]


def made(history: History, lines: list[str], at: int) -> list[Rule]:
    """Change `size` to `width` in a line."""
    was, lines[at] = lines[at], lines[at].replace("size", "width")
    return history.changed("here", at, was, lines[at])


class TestHistory:
    def test_undo_takes_it_back(self) -> None:
        history, lines = History(), list(LINES)
        (rule,) = made(history, lines, 0)
        assert history.changed("here", 0, lines[0], LINES[0]) == []
        assert history.of(rule) == []

    def test_places_between_two_changes_are_passed_over(self) -> None:
        history, lines = History(), list(LINES)
        made(history, lines, 0)
        (rule,) = made(history, lines, 2)
        places = Text(lines).places(rule)
        assert [place.line for place in places] == [1, 3]
        assert [place.line for place in passed_over(places, history.of(rule), "here")] == [1]
        assert passed_over(places, history.of(rule), "elsewhere") == frozenset()

    def test_lines_that_come_above_move_it(self) -> None:
        history, lines = History(), list(LINES)
        (rule,) = made(history, lines, 1)
        history.moved("here", 0, 0, 5)
        history.moved("here", 20, 20, 5)
        assert [one.line for one in history.of(rule)] == [6]
        history.moved("here", 6, 7, -1)
        assert [one.line for one in history.of(rule)] == [-1]

    def test_a_change_of_many_things_is_none(self) -> None:
        assert History().changed("here", 0, "f(a, b, c, d, e, x, y, z)", "f(k, b, l, d, m, x, n, z)") == []

    def test_a_closed_document_is_forgotten(self) -> None:
        history, lines = History(), list(LINES)
        made(history, lines, 0)
        history.forget("here")
        assert not history.made


QUIET = tomllib.loads(Path(__file__).with_name("quiet_edits.toml").read_text("utf-8"))["scenario"]


@pytest.mark.parametrize("scenario", QUIET, ids=[one["name"] for one in QUIET])
def test_where_nothing_is_left_to_do_nothing_is_offered(scenario: dict[str, Any]) -> None:
    curve = EditCurve.shipped()
    calibrator = CalibratorStore.open().choose(curve.purpose, personal=False).calibrator
    history, lines = History(), scenario["before"].removeprefix("\n").split("\n")
    for number, line in scenario["edits"]:
        was, lines[number - 1] = lines[number - 1], line
        rules = history.changed("here", number - 1, was, line)
    found = offers(candidates(history, rules, {"here": Text(lines)}, "here"), scenario["language"], curve)
    likely = [calibrator.probability(one.evidence) or 0.0 for one in found]
    assert not [p for p in likely if p >= OFFERED_FROM], (found[0], likely[0])


class TestOffers:
    def test_what_is_done_again_becomes_likelier(self) -> None:
        history, lines, curve = History(), list(LINES), EditCurve.shipped()
        likely = []
        for at in range(3):
            rules = made(history, lines, at)
            found = offers(candidates(history, rules, {"here": Text(lines)}, "here"), "python", curve)
            assert [one.candidate.place.line for one in found] == list(range(at + 1, 4))
            likely.append(found[0].logprob)
        assert likely == sorted(likely)
        assert math.exp(likely[-1]) > OFFERED_FROM

    def test_the_nearest_below_come_first_then_above_then_other_documents(self) -> None:
        history, lines = History(), [f"x{at} = size" for at in range(20)]
        rules = made(history, lines, 9)
        texts = {"there": Text(["y = size"]), "here": Text(lines)}
        found = [(one.document, one.place.line) for one in candidates(history, rules, texts, "here")]
        assert found == [*(("here", at) for at in (10, 11, 12, 13, 8, 7)), ("there", 0)]
        everywhere = list(candidates(history, rules, texts, "here", most=100))
        assert len(everywhere) == 20

    def test_a_place_that_the_user_does_not_want_counts_as_passed_over(self) -> None:
        history, lines = History(), list(LINES)
        rules = made(history, lines, 0)
        texts = {"here": Text(lines)}
        usual = list(candidates(history, rules, texts, "here"))
        left = list(candidates(history, rules, texts, "here", refused=lambda *place: place[2].line == 1))
        assert [one.place.line for one in left] == [2, 3]
        assert usual[1].features["passed"] == 0.0 < left[0].features["passed"]

    def test_all_features_are_finite(self) -> None:
        history, lines = History(), list(LINES)
        rules = made(history, lines, 0)
        for one in candidates(history, rules, {"here": Text(lines), "there": Text(LINES)}, "here"):
            assert tuple(one.features) == FEATURES
            assert all(map(math.isfinite, one.features.values()))

    def test_the_shipped_calibrator_is_that_of_the_shipped_curve(self) -> None:
        chosen = CalibratorStore.open().choose(EditCurve.shipped().purpose)
        assert chosen.calibrator.source == "shipped"
