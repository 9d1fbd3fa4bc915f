"""What is remembered of a document: the same prompt has the same answer, and nothing else has one."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lsp_calib.completion.context import Cursor
from lsp_calib.completion.memory import MOST_REMEMBERED, CompletionMemory, TypedAlong
from lsp_calib.completion.prompt import Layout, build_prompt
from lsp_calib.completion.reasons import Nothing, Removal
from lsp_calib.completion.service import Completion, CompletionService, Hiding, as_prose
from lsp_calib.inference.engine import LoadedModel
from lsp_calib.inference.models.cards import CompletionFormat, ModelCard, load_cards
from lsp_calib.values import (
    CalibratorRef,
    Confidence,
    Evidence,
    ModelIdentity,
    Prompt,
    Suggestion,
    Sure,
    Tier,
    Timing,
)

DOCUMENT = "file:///a.py"
CONFIDENCE = Confidence(
    0.7, 0.8, "total", Tier.REVIEW, "", False, CalibratorRef("c", "prior", "learning", 0), None
)
MODEL = ModelIdentity("m", "Q4", "0" * 64)
WINDOW = 120
FORMATS = {
    "fim": CompletionFormat("fim", "<prefix>", "<suffix>", "<middle>"),
    "prefix": CompletionFormat(),
}


def card(layout: str) -> ModelCard:
    shipped = load_cards()["smollm2-135m"]
    return attrs.evolve(shipped, window=WINDOW, completion=FORMATS[layout])


def key_of(layout: str = "fim") -> Callable[[str, Cursor], bytes | None]:
    """The key of a service whose model is loaded."""
    service = CompletionService(None, None)  # type: ignore[arg-type]
    loaded = LoadedModel(MODEL, card(layout))
    return lambda document, cursor: service.key(document, cursor, loaded)


def as_at_first(_document: str, known: Completion, _typed: int, _refuted: float) -> Completion:
    return known


def memory(layout: str = "fim", typed_along: TypedAlong = as_at_first) -> CompletionMemory:
    return CompletionMemory(key_of(layout), typed_along)


def completion(cursor: Cursor, text: str, name: str = "an-id", **of: Any) -> Completion:
    """of: of the suggestion."""
    suggestion = Suggestion(name, "line", text, CONFIDENCE, "m", 3, "model", Timing(1, 2, 3, 4, 5, 6))
    return Completion(attrs.evolve(suggestion, **of), cursor, Evidence((-0.1, -0.2)), MODEL, "v")


def ranked(cursor: Cursor, rank: int, text: str, probability: float) -> Completion:
    """The suggestion with this rank at its place, which has the rank's number for its id."""
    confidence = attrs.evolve(CONFIDENCE, calibrated=probability)
    return completion(cursor, text, str(rank), rank=rank, confidence=confidence)


def recalled(known: CompletionMemory, cursor: Cursor) -> Completion | None:
    found = known.recall(DOCUMENT, cursor)
    assert found is None or isinstance(found, Completion)
    return found


def known_at(known: CompletionMemory, cursor: Cursor) -> Completion:
    """What is recalled, which there is."""
    found = recalled(known, cursor)
    assert found is not None
    return found


def replaced(cursor: Cursor, line: str, column: int) -> Cursor:
    lines = [*cursor.lines]
    lines[cursor.line] = line
    return Cursor.at(tuple(lines), cursor.line, column, cursor.language)


def typed(cursor: Cursor, text: str) -> Cursor:
    return replaced(cursor, cursor.before + text + cursor.after, cursor.column + len(text))


line_texts = st.text(st.characters(exclude_characters="\r\n"), max_size=12)


@st.composite
def completions(draw: st.DrawFn) -> Completion:
    lines = draw(st.lists(line_texts, min_size=1, max_size=5))
    line = draw(st.integers(0, len(lines) - 1))
    cursor = Cursor.at(lines, line, draw(st.integers(0, len(lines[line]))), "python")
    return completion(cursor, draw(line_texts.map(str.rstrip).filter(bool)))


@given(completions(), st.data())
def test_typing_along_and_back_leaves_the_same_line_id_and_confidence(
    old: Completion, data: st.DataObject
) -> None:
    known = memory()
    known.remember(DOCUMENT, old.cursor, old)
    text = old.suggestion.text
    for count in data.draw(st.lists(st.integers(0, len(text) - 1), min_size=1, max_size=4)):
        rest = known_at(known, typed(old.cursor, text[:count]))
        assert rest.expected_line == old.expected_line
        assert attrs.evolve(rest.suggestion, doubt=old.suggestion.doubt) == attrs.evolve(
            old.suggestion, text=text[count:], source="memory", timing=Timing()
        )
        assert rest.evidence == old.evidence
    assert recalled(known, typed(old.cursor, text)) is None, "nothing is left once all is typed"


@pytest.mark.parametrize(
    ("text", "doubt"), [("", (3, 5)), ("a.", (1, 3)), ("a.b", (0, 2)), ("a.bc", (0, 1)), ("a.bcd", None)]
)
def test_the_span_of_doubt_goes_with_what_is_typed(text: str, doubt: tuple[int, int] | None) -> None:
    old = completion(Cursor.at(["x = "], 0, 4, "python"), "a.bcd()", doubt=(3, 5))
    known = memory()
    known.remember(DOCUMENT, old.cursor, old)
    assert known_at(known, typed(old.cursor, text)).suggestion.doubt == doubt


@pytest.mark.parametrize(("text", "end"), [("", 4), ("a.", 2), ("a.b", 1), ("a.bc", None), ("a.bcd", None)])
def test_what_can_be_trusted_shrinks_as_it_is_typed(text: str, end: int | None) -> None:
    places = (Sure(1, 0.95), Sure(4, 0.9), Sure(7, 0.5))
    old = completion(Cursor.at(["x = "], 0, 4, "python"), "a.bcd()", sure=places[1])
    known = memory()
    known.remember(DOCUMENT, old.cursor, attrs.evolve(old, beginnings=places))
    rest = known_at(known, typed(old.cursor, text))
    assert rest.suggestion.sure == (None if end is None else Sure(end, 0.9))
    assert rest.beginnings[-1] == Sure(7 - len(text), 0.5)


OLD = Cursor.at(("above", "x = fo)", "below"), 1, 6, "python")


@pytest.mark.parametrize(
    "cursor",
    [
        Cursor.at(["above", "x = fox)", "below"], 1, 7, "python"),
        Cursor.at(["above", "y = foo)", "below"], 1, 7, "python"),
        Cursor.at(["ABOVE", "x = foo)", "below"], 1, 7, "python"),
        Cursor.at(["above", "x = foo)", "BELOW"], 1, 7, "python"),
        Cursor.at(["above", "x = foo)", "below"], 1, 7, "plaintext"),
        Cursor.at(["x = foo)", "below"], 0, 7, "python"),
    ],
    ids=["typed-over", "changed", "above", "below", "language", "other-line"],
)
def test_nothing_is_known_once_the_document_went_another_way(cursor: Cursor) -> None:
    known = memory()
    known.remember(DOCUMENT, OLD, completion(OLD, "o(1"))
    assert recalled(known, typed(OLD, "o")) is not None
    assert recalled(known, cursor) is None
    known.remember(DOCUMENT, OLD, Nothing(Removal.EMPTY))
    assert known.recall(DOCUMENT, OLD) == Nothing(Removal.EMPTY)
    assert known.recall(DOCUMENT, typed(OLD, "x")) is None, "there was nothing to offer at that place alone"
    assert known.recall("file:///b.py", OLD) is None


@pytest.mark.parametrize("layout", FORMATS)
@pytest.mark.parametrize(
    ("text", "typed_", "added", "left"),
    [
        ("foo(bar, 1)", "foo(", ")", "bar, 1"),
        ("foo(bar, 1)", "foo(ba", ")", "r, 1"),
        ("foo([1, 2])", "foo([", "])", "1, 2"),
        ('print("a")', 'print("', '")', "a"),
        # Nothing is left that could be offered.
        ("foo()", "foo(", ")", None),
        ("{ return; }", "{ return;", "}", None),
        ("{ return; }", "{ return", "}", "; "),
        # The rest does not end with what the editor has added: it cannot be put before that.
        ("foo(bar) + 1", "foo(", ")", None),
        ('print("a", 1)', 'print("', '")', None),
        # The editor has added something else.
        ("foo(bar, 1)", "foo(", "]", None),
        ("foo(bar, 1)", "foo", ")", None),
    ],
)
def test_brackets_that_the_editor_closes_while_one_types_change_nothing(
    layout: str, text: str, typed_: str, added: str, left: str | None
) -> None:
    place = Cursor.at(("above", "x = ;", "below"), 1, 4, "python")
    known = memory(layout)
    old = completion(place, text, doubt=(1, len(text)))
    known.remember(DOCUMENT, place, old)
    line = place.before + typed_ + added + place.after
    found = recalled(known, replaced(place, line, place.column + len(typed_)))
    if left is None:
        assert found is None
        return
    assert found is not None
    assert (found.suggestion.text, found.suggestion.id) == (left, "an-id")
    assert found.expected_line == old.expected_line
    assert found.suggestion.doubt == (0, len(left))


def test_an_alternative_is_recalled_once_its_beginning_is_typed() -> None:
    known = memory()
    for rank, text in ((1, "stop()"), (2, "stop_all(now)"), (3, "start()")):
        known.remember(DOCUMENT, OLD, ranked(OLD, rank, text, 0.5))
    for beginning, rest in (("", "stop()"), ("stop", "()"), ("stop_", "all(now)"), ("star", "t()")):
        assert known_at(known, typed(OLD, beginning)).suggestion.text == rest


def test_what_is_typed_refutes_the_suggestions_that_begin_otherwise() -> None:
    told: list[float] = []

    def typed_along(_document: str, known: Completion, _typed: int, refuted: float) -> Completion:
        told.append(refuted)
        return known

    known = memory(typed_along=typed_along)
    for rank, text, p in ((1, "stop()", 0.5), (2, "stop_all(now)", 0.25), (3, "start()", 0.125)):
        known.remember(DOCUMENT, OLD, ranked(OLD, rank, text, p))
    for beginning in ("", "st", "stop_", "sta"):
        known_at(known, typed(OLD, beginning))
    assert told == [0.0, 0.625, 0.75]


def test_what_is_typed_refutes_the_rest_beside_which_an_alternative_was_made() -> None:
    """Asked for by hand while the first is typed: the first counts as it did there."""
    told: list[tuple[str, int, float]] = []

    def typed_along(_document: str, known: Completion, typed: int, refuted: float) -> Completion:
        told.append((known.suggestion.id, typed, refuted))
        return known.with_confidence(attrs.evolve(known.suggestion.confidence, calibrated=0.5 + typed / 16))

    known = memory(typed_along=typed_along)
    known.remember(DOCUMENT, OLD, completion(OLD, "stop()", "1"))
    place = typed(OLD, "st")
    for rank, text, p in ((2, "art()", 0.25), (3, "ill()", 0.125)):
        known.remember(DOCUMENT, place, ranked(place, rank, text, p))
    assert known_at(known, typed(OLD, "sta")).suggestion.text == "rt()"
    assert told == [("1", 2, 0.0), ("2", 1, 0.625 + 0.125)]
    assert known_at(known, typed(OLD, "sto")).suggestion.text == "p()"
    assert told[2:] == [("1", 3, 0.0)]


@pytest.mark.parametrize("layout", FORMATS)
@pytest.mark.parametrize(
    ("lines", "later"),
    [
        # The next line again is not offered, whether or not the model sees it.
        (("def f(x):", "", "", "    return x"), ("def f(x):", "", "", "    return y")),
        # `@property` directly above another one is withheld, above a blank line it is not.
        (("class A:", "", "    @property"), ("class A:", "", "", "    @property")),
    ],
    ids=["line", "mark"],
)
def test_a_whole_line_is_known_only_above_the_lines_that_it_was_compared_with(
    layout: str, lines: Sequence[str], later: Sequence[str]
) -> None:
    place = Cursor.at(lines, 1, 0, "python")
    known = memory(layout)
    known.remember(DOCUMENT, place, Nothing(Removal.REPEATS_NEXT_LINE))
    assert known.recall(DOCUMENT, place) == Nothing(Removal.REPEATS_NEXT_LINE)
    assert known.recall(DOCUMENT, Cursor.at(later, 1, 0, "python")) is None


def test_an_edit_that_no_prompt_shows_changes_nothing() -> None:
    lines = tuple(f"value_{n:03} = {n:03}" for n in range(100))
    cursor = Cursor.at(lines, 50, 9, "python")
    known = memory()
    known.remember(DOCUMENT, cursor, completion(cursor, "12"))
    far = ("other", *lines[1:99], "other")
    assert recalled(known, Cursor.at(far, 50, 9, "python")) is not None
    near = (*lines[:49], "other", *lines[50:])
    assert recalled(known, Cursor.at(near, 50, 9, "python")) is None


def lifted(by: Sequence[float]) -> TypedAlong:
    """The confidence after so many typed characters, the last one from there on."""

    def typed_along(_document: str, known: Completion, typed: int, _refuted: float) -> Completion:
        probability = by[min(typed, len(by) - 1)]
        return known.with_confidence(attrs.evolve(known.suggestion.confidence, calibrated=probability))

    return typed_along


def hidden(one: Completion, by: Sequence[float], below: float) -> Completion:
    """A completion as the service hides it."""
    confidence = attrs.evolve(one.suggestion.confidence, calibrated=by[0])
    return attrs.evolve(one.with_confidence(confidence), survives=by[0], hidden_by=Hiding(below))


probabilities = st.lists(st.floats(0.0, 1.0), min_size=1, max_size=8)


@given(completions(), st.data(), st.floats(0.01, 0.99))
def test_a_hidden_one_is_known_while_it_is_typed_and_shown_from_the_limit_on(
    old: Completion, data: st.DataObject, below: float
) -> None:
    by = data.draw(probabilities.filter(lambda by: by[0] < below))
    known = memory(typed_along=lifted(by))
    known.remember(DOCUMENT, old.cursor, hidden(old, by, below))
    text = old.suggestion.text
    for count in data.draw(st.lists(st.integers(0, len(text) - 1), min_size=1, max_size=4)):
        cursor = typed(old.cursor, text[:count])
        found, probability = known.recall(DOCUMENT, cursor), by[min(count, len(by) - 1)]
        assert isinstance(found, Completion)
        assert (found.hidden_by is not None) == (probability < below)
        assert found.likely_kept == max(by[0], probability)
        assert found.key is None, "of another prompt"
        assert (found.cursor, found.expected_line) == (cursor, old.expected_line)
        assert found.suggestion.confidence.calibrated == probability
        assert (found.suggestion.id, found.suggestion.text) == (old.suggestion.id, text[count:])
        assert (found.suggestion.source, found.suggestion.timing) == ("memory", Timing())
        assert (found.shown_probability, found.evidence) == (1.0, old.evidence)
        assert found.was_hidden == (count > 0)
    assert known.recall(DOCUMENT, typed(old.cursor, text)) is None


@given(completions(), st.data())
def test_once_something_else_is_typed_nothing_is_known_of_a_hidden_one(
    old: Completion, data: st.DataObject
) -> None:
    """Neither that it is hidden nor its text; taken back, it is what it was."""
    by = (0.1, 0.1, 0.9)
    known = memory(typed_along=lifted(by))
    known.remember(DOCUMENT, old.cursor, hidden(old, by, 0.5))
    text = old.suggestion.text
    count = data.draw(st.integers(0, len(text) - 1))
    other = data.draw(st.characters(exclude_characters="\r\n" + text[count]))
    before = known.recall(DOCUMENT, typed(old.cursor, text[:count]))
    assert known.recall(DOCUMENT, typed(old.cursor, text[:count] + other)) is None
    assert known.recall(DOCUMENT, typed(old.cursor, text[:count] + other + text[count:])) is None
    assert known.recall(DOCUMENT, typed(old.cursor, text[:count])) == before


@given(completions(), probabilities, st.integers(0, 11))
def test_what_is_shown_stays_wherever_its_confidence_goes(
    old: Completion, by: Sequence[float], count: int
) -> None:
    known = memory(typed_along=lifted(by))
    known.remember(DOCUMENT, old.cursor, old)
    count = min(count, len(old.suggestion.text) - 1)
    rest = known_at(known, typed(old.cursor, old.suggestion.text[:count]))
    first = old.suggestion.confidence.calibrated
    assert rest.suggestion.confidence.calibrated == (by[min(count, len(by) - 1)] if count else first)
    assert not rest.was_hidden


def test_what_opens_documentation_comes_back_without_a_number_and_nothing_is_learned_from_it() -> None:
    old = completion(Cursor.at(["def f():", "    "], 1, 4, "python"), '"""Sum."""')
    prose = attrs.evolve(CONFIDENCE, calibrated=None, reason="prose")
    by = (0.1, 0.1, 0.9)
    known = memory(typed_along=lifted(by))
    known.remember(DOCUMENT, old.cursor, attrs.evolve(hidden(old, by, 0.5), prose=prose))
    still = known.recall(DOCUMENT, typed(old.cursor, '"'))
    assert isinstance(still, Completion)
    assert still.hidden_by is not None
    assert still.likely_kept == 0.1
    rest = known_at(known, typed(old.cursor, '""'))
    assert rest == as_prose(attrs.evolve(rest, evidence=old.evidence), prose)
    assert (rest.evidence, rest.was_hidden) == (Evidence(), True)


def test_the_one_used_last_goes_before_others_that_fit() -> None:
    """Two suggestions may have the same beginning; the one on screen stays there."""
    start = Cursor.at(("",), 0, 0, "python")
    known = memory()
    known.remember(DOCUMENT, start, completion(start, "foo(1)", "first"))
    later = typed(start, "f")
    known.remember(DOCUMENT, later, completion(later, "oo(2)", "second"))
    for cursor, identity in ((typed(start, "fo"), "second"), (start, "first"), (typed(start, "fo"), "first")):
        assert known_at(known, cursor).suggestion.id == identity


def test_it_is_bounded_and_can_be_emptied() -> None:
    known = memory()
    cursors = [Cursor.at((f"line {n}",), 0, 6, "python") for n in range(MOST_REMEMBERED + 10)]
    for cursor in cursors:
        known.remember(DOCUMENT, cursor, completion(cursor, "x"))
    assert [recalled(known, cursor) is None for cursor in cursors] == [True] * 10 + [False] * MOST_REMEMBERED
    known.remember("file:///b.py", OLD, completion(OLD, "x"))
    known.forget(DOCUMENT)
    assert known.recall(DOCUMENT, cursors[-1]) is None
    assert known.recall("file:///b.py", OLD) is not None
    known.clear()
    assert known.recall("file:///b.py", OLD) is None


def test_what_the_service_has_shown_the_model_is_not_computed_again() -> None:
    asked: list[Cursor] = []

    def key(_document: str, cursor: Cursor) -> bytes:
        asked.append(cursor)
        return b"another prompt"

    known = CompletionMemory(key, as_at_first)
    known.remember(DOCUMENT, OLD, attrs.evolve(completion(OLD, "x"), key=b"its prompt"))
    assert not asked
    assert known.recall(DOCUMENT, OLD) is None


def test_nothing_is_remembered_before_a_model_was_asked() -> None:
    known = CompletionMemory(lambda *_: None, as_at_first)
    known.remember(DOCUMENT, OLD, completion(OLD, "x"))
    assert known.recall(DOCUMENT, OLD) is None


def answer_to(prompt: Prompt) -> str:
    """What some model answers: any text, always the same to the same prompt."""
    drawn = hashlib.sha256(repr(prompt).encode()).digest()
    return "ab(" * (1 + drawn[0] % 3) + "xy"[drawn[1] % 2]


@attrs.frozen
class Made:
    """A suggestion as it was made."""

    cursor: Cursor
    prompt: Prompt
    text: str


small_texts = st.text("ab(x", max_size=4)
edits = st.one_of(
    st.tuples(st.just("type"), st.text("ab(xy", min_size=1, max_size=1)),
    st.tuples(st.just("accept"), st.integers(1, 9)),
    st.tuples(st.just("backspace"), st.integers(1, 3)),
    st.tuples(st.just("move"), st.tuples(st.integers(0, 30), st.integers(0, 12))),
    st.tuples(st.just("insert line"), st.tuples(st.integers(0, 30), small_texts)),
    st.tuples(st.just("delete line"), st.integers(0, 30)),
    st.tuples(st.just("undo"), st.just(None)),
)


def edited(states: list[Cursor], kind: str, how: object, shown: str) -> Cursor:
    """The document and the cursor after an edit."""
    cursor = states[-1]
    lines, line, column = list(cursor.lines), cursor.line, cursor.column
    if kind == "undo":
        return states[-2] if len(states) > 1 else cursor
    if kind in ("type", "accept"):
        return typed(cursor, how if isinstance(how, str) else shown[:how])  # type: ignore[misc]
    if kind == "backspace":
        assert isinstance(how, int)
        return replaced(cursor, cursor.before[:-how] + cursor.after, max(column - how, 0))
    if kind == "move":
        line, column = how  # type: ignore[misc]
        return Cursor.at(cursor.lines, line % len(lines), column, "python")
    if kind == "insert line":
        at, text = how  # type: ignore[misc]
        at %= len(lines) + 1
        lines.insert(at, text)
        line += at <= line
    elif len(lines) > 1:
        assert isinstance(how, int)
        at = how % len(lines)
        del lines[at]
        line = min(line - (at < line), len(lines) - 1)
    return Cursor.at(tuple(lines), line, column, "python")


@pytest.mark.parametrize("layout", FORMATS)
@given(st.lists(small_texts, min_size=1, max_size=30), st.lists(edits, max_size=25))
def test_whatever_is_edited_memory_says_what_the_model_would(
    layout: str, lines: Sequence[str], changes: list[tuple[str, object]]
) -> None:
    """An answer from memory is the model's to the same prompt, or the rest of one that is typed along; and
    the model is asked no more often where all are hidden."""
    known, kept_back, layout_ = memory(layout), memory(layout), Layout.of(card(layout))
    made: dict[str, Made] = {}
    states, shown = [Cursor.at(tuple(lines), 0, 0, "python")], ""
    for kind, how in [("move", (0, 0)), *changes]:
        cursor = edited(states, kind, how, shown)
        states.append(cursor)
        found, unseen = recalled(known, cursor), kept_back.recall(DOCUMENT, cursor)
        assert (found is None) == (unseen is None)
        if found is None:
            prompt = build_prompt(cursor, layout_)
            one = Made(cursor, prompt, answer_to(prompt))
            name = str(len(made))
            made[name] = one
            found = attrs.evolve(completion(cursor, one.text, name), survives=0.1)
            known.remember(DOCUMENT, cursor, found)
            kept_back.remember(DOCUMENT, cursor, attrs.evolve(found, hidden_by=Hiding(0.9)))
        else:
            assert isinstance(unseen, Completion)
            assert unseen.hidden_by is not None
            assert attrs.evolve(unseen.shown, was_hidden=False) == found
        one, shown = made[found.suggestion.id], found.suggestion.text
        assert found.cursor == cursor
        assert shown
        beginning = one.text.removesuffix(shown)
        assert beginning + shown == one.text
        assert cursor.before.endswith(beginning)
        # As it was before that was typed: the same line, shown the same to the model.
        column = cursor.column - len(beginning)
        then = replaced(cursor, cursor.before[:column] + cursor.after, column)
        assert (then.before, then.after) == (one.cursor.before, one.cursor.after)
        assert build_prompt(then, layout_) == one.prompt
        assert answer_to(one.prompt) == beginning + shown


class TestLead:
    """Beside a menu's selected item: `self.na|`, with an answer that was made to begin with `me`."""

    CURSOR = Cursor.at(("self.na",), 0, 7, "python")

    def known(self) -> CompletionMemory:
        known = memory()
        known.remember(DOCUMENT, self.CURSOR, completion(self.CURSOR, "t = 1", "own"))
        led = attrs.evolve(completion(self.CURSOR, "me = 2", "led"), lead="me")
        known.remember(DOCUMENT, self.CURSOR, led)
        return known

    def recalled(self, known: CompletionMemory, typed_: str, lead: str) -> tuple[str, str] | None:
        cursor = typed(self.CURSOR, typed_)
        found = known.recall(DOCUMENT, cursor, lead)
        assert found is None or isinstance(found, Completion)
        return None if found is None else (found.suggestion.id, found.suggestion.text)

    @pytest.mark.parametrize(
        ("typed_", "lead", "found"),
        [
            ("", "", ("own", "t = 1")),
            ("", "t", ("own", "t = 1")),
            ("", "me", ("led", "me = 2")),
            ("", "me = ", ("led", "me = 2")),
            # Another item that begins alike: the model may go on otherwise behind it.
            ("", "m", None),
            ("", "men", None),
            ("m", "e", ("led", "e = 2")),
            # The menu is closed before all of the item is typed: nothing says what the model would write.
            ("m", "", None),
            ("me", "", ("led", " = 2")),
            ("t", "", ("own", " = 1")),
            ("t", "e", None),
        ],
    )
    def test_it_stands_beside_the_own_answer(
        self, typed_: str, lead: str, found: tuple[str, str] | None
    ) -> None:
        known = self.known()
        assert self.recalled(known, typed_, lead) == found
        assert self.recalled(known, typed_, lead) == found, "the latest first, and none goes"

    def test_that_there_is_nothing_for_an_item_says_nothing_of_the_place(self) -> None:
        known = memory()
        known.remember(DOCUMENT, self.CURSOR, Nothing(Removal.OTHER_THAN_ITEM, lead="me"))
        assert known.recall(DOCUMENT, self.CURSOR) is None
        assert known.recall(DOCUMENT, self.CURSOR, "men") is None
        assert known.recall(DOCUMENT, self.CURSOR, "me") == Nothing(Removal.OTHER_THAN_ITEM, lead="me")

    def test_what_is_left_of_it_can_be_remembered_anew(self) -> None:
        """As a settled suggestion is, which gets another id."""
        known, cursor = self.known(), typed(self.CURSOR, "m")
        rest = known.recall(DOCUMENT, cursor, "e")
        assert isinstance(rest, Completion)
        assert rest.lead == "e"
        anew = attrs.evolve(rest.suggestion, id="new")
        known.remember(DOCUMENT, cursor, attrs.evolve(rest, suggestion=anew))
        assert self.recalled(known, "m", "e") == ("new", "e = 2")
        assert self.recalled(known, "m", "") is None
