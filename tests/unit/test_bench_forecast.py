"""How long a bench takes: an estimate that gets better, and that a limit is set against."""

from __future__ import annotations

import attrs
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from lsp_calib.cli import main
from lsp_calib.inference.models.cards import load_cards
from lsp_calib.inference.models.speeds import Speed
from lsp_calib.tools.bench import PARTS
from lsp_calib.tools.bench.forecast import Cost, Forecast, Part, Unit, Watch, about
from lsp_calib.tools.bench.run import _SWITCHES, Options, chosen, costs

CARD = load_cards()["qwen2.5-coder-1.5b"]
SPEED = Speed(1.0, 40, 60.0, 10.0)


def total(options: Options, speed: Speed = SPEED) -> float:
    return Forecast(costs(options, Unit.of(CARD, speed))).left(0.0)


@given(
    slower=st.floats(0.2, 30.0),
    work=st.lists(st.floats(5.0, 500.0), min_size=2, max_size=5),
    wait=st.floats(0.0, 60.0),
)
def test_the_rest_is_foreseen_by_how_long_the_first_part_took(
    slower: float, work: list[float], wait: float
) -> None:
    parts = list(Part)[: len(work)]
    forecast = Forecast({part: Cost(each, wait) for part, each in zip(parts, work, strict=True)})
    forecast.did(parts[0], 1.0)
    elapsed = slower * work[0] + wait
    true = slower * sum(work[1:]) + wait * (len(work) - 1)
    # The less was done, the more of the first guess is in it.
    share = work[0] / (work[0] + 3.0)
    between = sorted((1.0, slower))
    foreseen = forecast.left(elapsed)
    assert foreseen == pytest.approx((share * slower + (1 - share)) * sum(work[1:]) + wait * (len(work) - 1))
    assert between[0] * sum(work[1:]) <= foreseen - wait * (len(work) - 1) + 1e-6
    assert foreseen - wait * (len(work) - 1) <= between[1] * sum(work[1:]) + 1e-6
    assert abs(foreseen - true) <= abs(sum(work[1:]) * (1 - slower)) + 1e-6


def test_at_the_end_nothing_is_left() -> None:
    forecast = Forecast({Part.TYPING: Cost(10, 3), Part.IDLE: Cost(0, 11)})
    assert forecast.left(0) == 24
    forecast.did(Part.TYPING, 1.0)
    assert forecast.unfinished() == [Part.IDLE]
    forecast.did(Part.IDLE, 1.0)
    assert forecast.left(500) == 0
    assert forecast.unfinished() == []


def test_more_to_do_takes_longer_and_so_does_a_slower_model() -> None:
    short = Options(steps=36, cancels=3, typing_on=False, long_file=False, idle=2.0)
    assert total(short) < total(Options()) < total(Options(two=True)) < total(Options(two=True, beside=1))
    assert total(Options(), Speed(10.0, 40, 6.0, 1.0)) > 5 * total(Options())
    assert total(attrs.evolve(short, raw=False)) <= total(short)


def test_a_model_that_was_never_measured_is_judged_by_its_size() -> None:
    small = Unit.of(load_cards()["smollm2-135m"], None)
    large = Unit.of(CARD, None)
    assert 3 * small.key < large.key
    assert small.window < large.window


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class TestWords:
    def test_at_the_start_it_says_how_long_it_takes_and_how_long_at_most(self) -> None:
        said: list[str] = []
        watch = Watch(Forecast({Part.TYPING: Cost(240)}), said.append, 600)
        watch.announce(measured=True)
        assert said == [
            "This takes about 4 min (by this model's speed on this machine); at most 10 min (--limit)."
        ]

    def test_it_says_if_the_limit_will_not_do(self) -> None:
        said: list[str] = []
        Watch(Forecast({Part.TYPING: Cost(1500)}), said.append, 600).announce(measured=False)
        assert said[0].startswith(
            "This takes about 25 min (a guess by the model's size), longer than the time"
        )
        assert "limit of 10 min" in said[0]
        assert "--limit" in said[0]

    def test_it_says_where_it_is_from_time_to_time_and_what_is_left_then(self) -> None:
        said: list[str] = []
        clock = Clock()
        watch = Watch(Forecast({Part.TYPING: Cost(40)}), said.append, 600, clock)
        for done in range(1, 41):
            clock.now += 20  # 20 s for what was to take one
            watch.did(Part.TYPING, f"Typing: {done} of 40.", done, 40)
        assert said[0].startswith("Typing: 1 of 40. About")
        assert len(said) == 40
        # 39 keys of 20 s each: by and by it finds that out.
        assert said[9] == "Typing: 10 of 40. About 8 min left."
        assert said[-1] == "Typing: 40 of 40. Less than 10 s left."

    def test_a_fast_machine_is_not_talked_about(self) -> None:
        said: list[str] = []
        clock = Clock()
        watch = Watch(Forecast({Part.TYPING: Cost(40)}), said.append, 600, clock)
        for done in range(1, 41):
            clock.now += 0.1
            watch.did(Part.TYPING, "Typing.", done, 40)
        assert said == []

    @pytest.mark.parametrize(
        ("seconds", "words"),
        [(3, "less than 10 s"), (42, "about 40 s"), (239, "about 4 min"), (7200, "about 2.0 h")],
    )
    def test_durations_are_as_rough_as_an_estimate(self, seconds: float, words: str) -> None:
        assert about(seconds) == words


class TestParts:
    def test_only_names_every_part_but_the_peer(self) -> None:
        assert tuple(_SWITCHES) == PARTS
        assert len(PARTS) == len(Part) - 1

    def test_what_is_given_goes_before_what_a_part_is_by_itself(self) -> None:
        options = Options(**chosen(short=True, only=["beside", "idle"], given={"beside": 3, "idle": 5.0}))
        assert options.parts() == (Part.IDLE, Part.BESIDE)
        assert (options.beside, options.idle) == (3, 5.0)

    def test_without_a_choice_the_usual_parts_are_measured(self) -> None:
        usual = Options(**chosen(short=False, only=(), given={}))
        assert usual.parts() == (Part.TYPING, Part.CANCEL, Part.TYPING_ON, Part.LONG_FILE, Part.IDLE)
        assert usual.limit == 600
        short = Options(**chosen(short=True, only=(), given={"peer": "http://127.0.0.1:9", "beside": 2}))
        assert short.parts() == (Part.TYPING, Part.CANCEL, Part.IDLE, Part.PEER, Part.BESIDE)

    def test_nothing_to_measure_is_a_mistake_in_the_options(self) -> None:
        result = CliRunner().invoke(main, ["bench", "--only", "beside", "--beside", "0"])
        assert result.exit_code == 2
        assert "There is nothing to measure" in result.output


@pytest.mark.parametrize("part", PARTS)
def test_each_part_can_be_measured_alone(part: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Options that the user leaves out do not turn it off again."""
    found: list[Options] = []
    monkeypatch.setattr("lsp_calib.tools.bench.run._measured", lambda options, _: found.append(options))
    CliRunner().invoke(main, ["bench", "--only", part])
    assert [one.value.lower() for one in found[0].parts()] == [part.replace("-", "")]
