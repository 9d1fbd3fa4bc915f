"""How far a line can be trusted: places in a suggestion, their probabilities, and the part on the wire."""

from __future__ import annotations

import itertools
import json
import math
import random
from pathlib import Path

import attrs
import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec.structs import replace

from lsp_calib import home
from lsp_calib.calibration.calibrators.calibrator import Weighted
from lsp_calib.calibration.calibrators.calibrator_store import CalibratorStore
from lsp_calib.calibration.calibrators.line_curves import (
    LEAST_LINES,
    NAMES,
    PREFIXES,
    PrefixCurve,
    ShownPart,
    TypedAlong,
)
from lsp_calib.calibration.calibrators.purpose import Purpose
from lsp_calib.calibration.document import read, written
from lsp_calib.calibration.tiers import TierPolicy
from lsp_calib.completion.context import Cursor
from lsp_calib.completion.service import Completion, as_part, longest
from lsp_calib.confidence.features import PLACES, PREFIX_FEATURES, PREFIX_VERSION, Prefix, prefixes
from lsp_calib.errors import CalibratorError
from lsp_calib.values import (
    CalibratorRef,
    Confidence,
    Evidence,
    Generation,
    ModelIdentity,
    Observation,
    Stop,
    Suggestion,
    Sure,
    Tier,
    Timing,
    Token,
)

MODEL = ModelIdentity("m", "Q4", "0" * 64)
REVIEW = Confidence(
    0.5,
    0.5,
    "features-2",
    Tier.REVIEW,
    "about 50 %",
    False,
    CalibratorRef("c", "shipped", "shipped", 9),
    None,
)


def generation(*tokens: tuple[str, float], entropies: bool = True) -> Generation:
    made = tuple(
        Token(at, logprob, 0.0, text, seen=Observation(-logprob) if entropies else None)
        for at, (text, logprob) in enumerate(tokens)
    )
    return Generation("".join(token.text for token in made), made, Stop.LINE, Timing())


def curve(**weights: float) -> PrefixCurve:
    """With these weights of features as they are, all others 0."""
    features = tuple(Weighted(name, 0.0, 1.0, weights.get(name.replace("-", "_"), 0.0)) for name in NAMES)
    return PrefixCurve(
        version=PREFIX_VERSION,
        model=MODEL,
        prompt_version="line-fim-1",
        n=10,
        n_right=5,
        intercept=0.0,
        features=features,
        typed=TypedAlong(0.0, 0.0, 1.0, 10, 5),
    )


def value(prefix: Prefix, name: str) -> float:
    return prefix.values[PREFIX_FEATURES.index(name)]


@pytest.mark.parametrize(
    ("tokens", "text", "ends"),
    [
        (
            ("get", "_time", "out", "(", ")"),
            "get_timeout()",
            ["get_timeout", "get_timeout(", "get_timeout()"],
        ),
        (("a", " =", " b", ""), "a = b", ["a", "a =", "a = b"]),
        (("a ", "=", " "), "a =", ["a ="]),  # no place is behind white space
        (("f(x", "))"), "f(x)", ["f(x", "f(x)"]),  # the last bracket stands there already
        (("ab", "c", "\n"), "abc", ["abc"]),
        (("naï", "ve", "🐍"), "naïve🐍", ["naïve", "naïve🐍"]),
        ((), "", []),
    ],
)
def test_places_are_ends_of_tokens_and_of_words(tokens: tuple[str, ...], text: str, ends: list[str]) -> None:
    found = prefixes(generation(*((token, -0.1) for token in tokens)), text, "", ())
    assert [text[: one.end] for one in found] == ends
    assert all(
        len(one.values) == len(PREFIX_FEATURES) and all(map(math.isfinite, one.values)) for one in found
    )


def test_without_entropies_there_are_no_places() -> None:
    assert prefixes(generation(("a", -0.1), entropies=False), "a", "", ()) == []


def test_names_that_stand_nowhere_else_are_counted_once() -> None:
    tokens = generation(
        ("self", -0.1), (".", -0.1), ("colour", -0.1), (" =", -0.1), (" colour", -0.1), ("s", -0.1)
    )
    found = prefixes(tokens, "self.colour = colours", "x.", {"self"})
    assert [round(math.expm1(value(one, "new-names"))) for one in found] == [0, 0, 1, 1, 2]


@given(st.lists(st.tuples(st.text("ab ().'", max_size=3), st.floats(-20, 0)), max_size=20), st.floats(0, 1))
def test_probabilities_are_never_below_the_whole_line_and_never_grow(
    tokens: list[tuple[str, float]], whole: float
) -> None:
    made = generation(*tokens)
    places = prefixes(made, made.text, "x", ())
    found = curve(total=1.0, next_surprisal=0.5, whole=0.3).probabilities(places, whole, "mid-line")
    assert len(found) == len(places)
    assert all(whole <= later <= earlier <= 1.0 for earlier, later in itertools.pairwise(found))


def test_the_probability_of_a_place_is_the_whole_line_and_what_is_left() -> None:
    """P(right up to here) = P(whole) + P(not whole) P(right up to here, if not whole)."""
    (place,) = prefixes(generation(("ab", 0.0)), "ab", "", ())
    (found,) = curve(behind_word=math.log(3.0)).probabilities([place], 0.6, "mid-line")
    assert found == pytest.approx(0.6 + 0.4 * 0.75)
    (found,) = curve(mid_word=math.log(3.0)).probabilities([place], 0.6, PLACES[3])
    assert found == pytest.approx(0.6 + 0.4 * 0.75)


@st.composite
def promises(draw: st.DrawFn) -> tuple[list[Sure], float, int]:
    """Places with falling probabilities, that of the whole line, and its length."""
    ends = sorted(draw(st.sets(st.integers(1, 40), min_size=1, max_size=8)))
    found = sorted(draw(st.lists(st.floats(0, 1), min_size=len(ends) + 1, max_size=len(ends) + 1)))
    *right, whole = reversed(found)
    return (
        [Sure(end, p) for end, p in zip(ends, right, strict=True)],
        whole,
        ends[-1] + draw(st.integers(0, 4)),
    )


# Here arrays of another shape at each key gave a lower probability, by rounding.
@example(([Sure(1, 0.0)], 0.0, 4), -1.609375, 0.23802907834354547, 0.0)
@given(promises(), *[st.floats(-2, 2)] * 3)
def test_typing_along_never_lowers_a_probability(
    promised: tuple[list[Sure], float, int], characters: float, share: float, quotient: float
) -> None:
    beginnings, whole, length = promised
    shown = replace(curve(), typed=TypedAlong(characters, share, quotient, 10, 5))
    assert shown.typed_along(beginnings, whole, 0, length) == (whole, beginnings)
    before = whole
    known = {one.end: one.confidence for one in beginnings}
    for typed in range(1, length):
        now, later = shown.typed_along(beginnings, whole, typed, length)
        assert before <= now <= 1.0
        assert [one.end for one in later] == [one.end for one in beginnings if one.end > typed]
        assert all(now <= b.confidence <= a.confidence for a, b in itertools.pairwise(later))
        assert all(one.confidence >= known[one.end] for one in later), "nor that of a beginning"
        known.update({one.end: one.confidence for one in later})
        before = now


def test_what_is_typed_counts_as_certain() -> None:
    """P(line | its first characters) = P(line) / P(its first characters), where the weights say no more."""
    beginnings = [Sure(4, 0.8), Sure(8, 0.5)]
    found, later = curve().typed_along(beginnings, 0.4, 4, 10)
    assert found == pytest.approx(0.4 / 0.8)
    assert later == [Sure(8, pytest.approx(0.5 / 0.8))]
    # Between two places, and behind the last one, the logarithm runs straight.
    assert curve().typed_along(beginnings, 0.4, 2, 10)[0] == pytest.approx(0.4 / math.sqrt(0.8))
    assert curve().typed_along(beginnings, 0.4, 9, 10)[0] == pytest.approx(0.4 / math.sqrt(0.5 * 0.4))


def test_the_longest_sure_beginning() -> None:
    places = (Sure(2, 0.95), Sure(5, 0.85), Sure(9, 0.6))
    text = "a = b + c and d"
    assert longest(places, 0.8, text) == places[1]
    assert longest(places, 0.5, text) == places[2]
    assert longest(places, 0.96, text) is None
    assert longest(places, None, text) is None, "nothing is accepted"
    assert longest(places, 0.5, text[:9]) is None, "it is all of the line, and no shorter one stands for it"


@pytest.mark.parametrize(
    ("part", "rest", "shown"),
    [
        ("total", "", False),
        ("f(x", ")", False),
        ("print('a", "'):", False),
        ("g(h(x", ")), ", False),
        ("{'a': [1", "]};", False),
        ('"""All', '"""', False),
        ("f", "()", True),  # a call is more than a closer
        ("x = ", '""', True),  # an empty string is a value
        ("f(x", "):  # all", True),
        ("total", " + 1)", True),
        ("a", ".", True),
    ],
)
def test_a_part_is_shown_where_more_than_closers_follows_it(part: str, rest: str, shown: bool) -> None:
    """The mark, the words in the reason, the cut and the wire all follow from it."""
    sure = Sure(len(part), 0.9)
    assert as_part(sure, part + rest) == (sure if shown else None)
    one = completion(part + rest, sure)
    wire = one.suggestion.to_wire()
    assert (wire["sure"] is not None) == shown
    assert ("sure up to" in wire["reason"]) == (shown and len(part) >= 4)
    assert one.up_to_sure(decide).suggestion.text == (part if shown and part.strip() else part + rest)
    # As it is typed along, the rest may come to be all closers.
    typed = completion(f"abc{part}{rest} ", Sure(3 + len(part), 0.9)).with_text(part + rest, -3)
    assert typed.suggestion.sure == (sure if shown else None)


def suggestion(text: str, sure: Sure | None, tier: Tier = Tier.REVIEW) -> Suggestion:
    confidence = attrs.evolve(REVIEW, tier=tier)
    return Suggestion.new("line", text, confidence, "m", generation((text, -0.1)), sure=sure)


@pytest.mark.parametrize(
    ("text", "sure", "tier", "reason"),
    [
        ("count + other", Sure(5, 0.9), Tier.REVIEW, "about 50 %; sure up to `count`"),
        ("count += 1", Sure(8, 0.9), Tier.REJECT, "about 50 %; sure up to `+=`"),
        ("count + other", Sure(13, 0.9), Tier.ACCEPT, "about 50 %"),
        ("abc + other", Sure(3, 0.9), Tier.REVIEW, "about 50 %"),  # too short for words
        ("count + other", None, Tier.REVIEW, "about 50 %"),
    ],
)
def test_the_reason_names_the_end_of_what_can_be_trusted(
    text: str, sure: Sure | None, tier: Tier, reason: str
) -> None:
    one = suggestion(text, sure, tier)
    assert one.to_wire()["reason"] == reason
    assert one.confidence.reason == "about 50 %", "what is kept holds no text"


def test_the_part_counts_as_editors_do() -> None:
    one = suggestion("'🐍' + name", Sure(3, 0.9))
    assert one.to_wire()["sure"] == {"end": 4, "confidence": 0.9}
    assert suggestion("x", None).to_wire()["sure"] is None


def completion(text: str, *places: Sure, replaced: str = "", kept: str = "") -> Completion:
    cursor = Cursor.at(["f("], 0, 2, "python")
    one = suggestion(text, longest(places, 0.8, text))
    made = Completion(one, cursor, Evidence(), MODEL, "line-fim-1", replaced=replaced, kept=kept)
    return attrs.evolve(made, beginnings=places)


def decide(p: float | None) -> tuple[Tier, str]:
    return TierPolicy(0.8).decide(p, source="shipped")


def test_the_part_before_closers_has_its_own_probability() -> None:
    whole = completion("alpha):", Sure(5, 0.9), Sure(6, 0.6), Sure(7, 0.5), replaced=")")
    part = whole.up_to_closers(decide)
    assert part is not None
    assert (part.suggestion.text, part.suggestion.confidence.calibrated) == ("alpha", 0.9)
    assert part.suggestion.confidence.tier is Tier.ACCEPT
    assert (part.replaced, part.kept) == ("", ")")
    followed = whole.up_to_closers()
    assert followed is not None
    assert followed.suggestion.confidence == REVIEW, "what is kept is of the whole line"


def test_a_part_writes_no_closer_that_stays() -> None:
    """Where only the part is put in, what stands behind the cursor is not replaced."""
    part = completion("alpha) + b", Sure(6, 0.9), Sure(10, 0.5), replaced=")").up_to_sure(decide)
    assert part.suggestion.text == "alpha"
    assert part.expected_line == "f(alpha)"


def test_shipped_curves_are_whole_and_written_as_they_are_read() -> None:
    folder = home.shipped_models() / PREFIXES
    files = sorted(folder.glob("*.json"))
    assert files
    assert len({(one.model.sha256, one.prompt_version) for one in map(PrefixCurve.load, files)}) == len(files)
    for path in files:
        text = path.read_text("utf-8")
        assert json.dumps(written(PrefixCurve.load(path)), indent=2) + "\n" == text
        assert (home.shipped_models() / "calibrators" / path.name).is_file()


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"version": 99}, "version is 99"),
        ({"n": -1}, "n: Expected `int` >= 0"),
        ({"features": []}, "features must"),
        ({"n": 1}, "nRight"),
        ({"typed": written(TypedAlong(0.0, 0.0, 1.0, 5, 5)) | {"nRight": 6}}, "nRight"),
        ({"typed": written(TypedAlong(0.0, 0.0, 1.0, 5, 5)) | {"share": 1e200}}, "share"),
    ],
)
def test_a_damaged_curve_is_refused(tmp_path: Path, change: dict[str, object], complaint: str) -> None:
    path = tmp_path / "curve.json"
    path.write_text(json.dumps(written(curve()) | change))
    with pytest.raises(CalibratorError, match=complaint):
        PrefixCurve.load(path)


def parts(n: int, offset: float, slope: float = 1.0, seed: int = 0) -> list[ShownPart]:
    """Of lines that are wrong as a whole: promised by the curve, right by another offset and slope."""
    chance = random.Random(seed)
    found = []
    for number in range(n):
        score, whole = chance.gauss(2.0, 1.0), chance.uniform(0.1, 0.6)
        promised, truth = (1.0 / (1.0 + math.exp(-one)) for one in (score, offset + slope * score))
        right = chance.random() < truth
        found.append(ShownPart(whole, whole + (1.0 - whole) * promised, right, str(number), float(number)))
    return found


@pytest.mark.parametrize(("offset", "slope"), [(-1.5, 1.0), (0.2, 0.3)])
def test_a_curve_moves_to_what_came_of_its_promises(offset: float, slope: float) -> None:
    before = curve(total=1.0)
    after = before.moved(parts(400, offset, slope))
    assert after is not None
    assert (after.base, after.until, after.n) == (before.id, 399.0, before.n + 400)
    log_odds = np.array([1.0, 2.0, 3.0])
    places = [Prefix(1, tuple(one * (name == "total") for name in PREFIX_FEATURES)) for one in log_odds]
    told = np.array([after.probabilities([place], 0.0, PLACES[0])[0] for place in places])
    moved = np.log(told / (1.0 - told))
    assert np.allclose(np.diff(moved, 2), 0.0, atol=1e-4), "an offset and a slope"
    aim = offset + slope * log_odds
    assert np.all(np.abs(moved - aim) < 0.4 * np.abs(log_odds - aim) + 0.15)
    assert read(written(after), PrefixCurve, "file") == after


@pytest.mark.parametrize("shown", [parts(LEAST_LINES - 1, -3.0), parts(5, -3.0) * LEAST_LINES, []])
def test_few_lines_move_no_curve(shown: list[ShownPart]) -> None:
    assert curve(total=1.0).moved(shown) is None


def test_kept_promises_hardly_ever_move_a_curve() -> None:
    moved = [curve(total=1.0).moved(parts(100, 0.0, seed=seed)) for seed in range(40)]
    assert sum(one is not None for one in moved) <= 8


def test_the_own_curve_counts_as_long_as_its_shipped_one_is_there(tmp_path: Path) -> None:
    store = CalibratorStore(tmp_path / "own", tmp_path / "shipped" / "calibrators")
    shipped, own = tmp_path / "shipped" / PREFIXES, tmp_path / "own" / PREFIXES
    purpose = Purpose(MODEL, "line-fim-1", "line", "python")

    def in_force() -> tuple[PrefixCurve | None, tuple[str, ...]]:
        found = store.line_curves(purpose)
        return found.prefix, found.skipped

    base, other = curve(total=1.0), curve(total=2.0)
    assert in_force() == (None, ())
    base.save(shipped)
    assert in_force() == (base, ())
    moved = base.moved(parts(200, -1.5))
    assert moved is not None
    moved.save(own)
    assert in_force() == (moved, ()), "without a new start"
    again = moved.moved(parts(200, -1.5))
    assert again is not None
    assert again.base == base.id
    other.save(shipped)
    assert in_force() == (other, ())
    base.save(own)
    assert in_force() == (base, ()), "a fit of the user's own"
    (file,) = own.iterdir()
    assert file.stat().st_mode & 0o077 == 0
    file.unlink()
    (own / "damaged.json").write_text("{")
    found, complaint = in_force()
    assert found == other
    assert "damaged.json" in complaint[0]
