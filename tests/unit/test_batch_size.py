"""The size of steps, with a simulated model: how far somebody gets who interrupts, and who does not."""

from hypothesis import given
from hypothesis import strategies as st

from lsp_calib.inference.local.thread_budget import SIZES, BatchSizer

LARGEST = 128
each = st.floats(1e-4, 0.05)


class Scene:
    """Prompts that are evaluated on a clock of their own. each: seconds of a token; a step costs 4 more."""

    def __init__(self, each: float, largest: int = LARGEST) -> None:
        self.steps = BatchSizer(largest)
        self.each = each
        self.now = 100.0
        self.done = 0
        self.sizes: list[int] = []
        self.steps.took(4, 8 * each)

    def run(self, tokens: int, seconds: float, *, urgent: bool = True) -> bool:
        """Evaluate until there are so many tokens more, or for so long. False: it was interrupted."""
        end, wanted = self.now + seconds, self.done + tokens
        self.sizes = []
        self.steps.begins(self.now)
        while self.done < wanted:
            size = self.steps.size(self.now, urgent=urgent)
            self.sizes.append(size)
            step = (size + 4) * self.each
            if self.now + step > end:
                self.now = end
                self.steps.interrupted(self.now)
                return False
            self.now += step
            self.steps.took(size, step)
            self.done += size
        return True


def tokens_in(seconds: float, each: float, size: int) -> int:
    """What steps that are always the same get done before they are interrupted."""
    return int(seconds / ((size + 4) * each) + 1e-9) * size


@given(each, st.floats(0.05, 2.0))
def test_who_types_on_gets_on_almost_as_far_as_with_the_best_size_for_that_rhythm(
    each: float, gap: float
) -> None:
    scene = Scene(each)
    for _ in range(2):
        scene.run(10**9, gap)  # two keys make a rhythm, and may lose all
    scene.done, keys = 0, 10
    for _ in range(keys):
        assert not scene.run(10**9, gap)
    best = max(tokens_in(gap, each, size) for size in SIZES if size <= LARGEST)
    # Half, because that best one is the one which ends just before the next key, by luck.
    assert scene.done >= keys * best / 2 - keys * SIZES[0]


@given(each)
def test_who_waits_gets_the_largest_steps_at_once(each: float) -> None:
    scene = Scene(each)
    assert scene.run(2000, 1e9)
    quick = each <= 0.01
    assert scene.sizes[0] >= (LARGEST if quick else LARGEST / 2)
    assert scene.sizes == sorted(scene.sizes)


@given(each, st.floats(0.05, 0.5))
def test_who_pauses_after_typing_waits_little_longer_than_one_who_never_typed(
    each: float, gap: float
) -> None:
    scene = Scene(each)
    scene.run(10**9, gap)
    scene.run(10**9, gap)
    began, done = scene.now, scene.done
    scene.run(600, 1e9)
    took = scene.now - began
    assert took <= 1.35 * (scene.done - done) * each + 2 * gap


@given(each, st.floats(0.01, 5.0))
def test_an_interruption_counts_until_the_next_run_has_come_to_its_end(each: float, gap: float) -> None:
    scene, calm = Scene(each), Scene(each)
    scene.run(10**9, gap)
    scene.run(10**9, gap)
    for one in (scene, calm):
        one.steps.begins(one.now)
    careful = scene.steps.size(scene.now, urgent=True)
    assert careful == SIZES[0] or (careful + 4) * each <= 0.5 * gap * (1 + 1e-6)
    scene.steps.begins(scene.now)
    assert scene.steps.size(scene.now, urgent=True) == calm.steps.size(calm.now, urgent=True)


@given(each, st.floats(0.0, 2.0))
def test_who_shares_the_model_takes_no_step_longer_than_its_turn(each: float, left: float) -> None:
    scene = Scene(each)
    scene.steps.begins(scene.now)
    size = scene.steps.size(scene.now, urgent=True, left=left)
    assert size == 16 or (size + 4) * each <= left * (1 + 1e-6)
    assert size <= scene.steps.size(scene.now, urgent=True)


def test_an_interruption_that_is_long_past_counts_no_more() -> None:
    scene = Scene(0.01)
    scene.run(10**9, 0.2)
    scene.run(10**9, 0.2)
    scene.steps.begins(scene.now)
    assert scene.steps.size(scene.now, urgent=True) == SIZES[0]
    scene.steps.interrupted(scene.now)
    scene.steps.begins(scene.now + 3)
    assert scene.steps.size(scene.now + 3, urgent=True) == LARGEST


@given(each, st.floats(0.1, 10.0))
def test_what_nobody_waits_for_begins_small_and_grows(each: float, seconds: float) -> None:
    scene = Scene(each)
    scene.run(10**9, seconds, urgent=False)
    assert scene.sizes[0] == SIZES[0]
    assert scene.sizes == sorted(scene.sizes)
    assert scene.done >= 0.25 * seconds / each - LARGEST
