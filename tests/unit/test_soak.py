"""`make soak` tells a leak from a warm-up, in runs of five minutes and of an hour."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from soak import Readings, report

KEYS_A_SECOND = 1.5


def readings(
    seconds: float,
    memory: Callable[[float], float],
    handles: float = 0.0,
    keys_a_second: float = KEYS_A_SECOND,
) -> Readings:
    """One server's. memory: its MB after so many seconds. handles: how many more at the end."""
    made = Readings()
    for at in range(10, int(seconds) + 1, 10):
        made.memory["server 1"].append((at, memory(at)))
        made.keys["server 1"].append((at, keys_a_second * at))
        made.handles["server 1"].append((at, 40 + (handles if at > 0.8 * seconds else 0)))
        made.store.append((at, 0.1))
    return made


def warming(at: float) -> float:
    """Caches fill and modules load for five minutes: steps of 2 MB at 60 s, 170 s and 260 s."""
    return 110.0 + 2.0 * sum(at >= step for step in (60, 170, 260))


def leaking(at: float, kb: float = 20.0) -> float:
    """A leak for each answered key, in the allocator's arenas of 1 MB."""
    return warming(at) + (kb * KEYS_A_SECOND * at) // 1e3


@pytest.mark.parametrize("seconds", [300, 3600])
@pytest.mark.parametrize("level", [1.0, 2.0])
def test_a_warm_up_in_steps_is_no_leak(seconds: float, level: float) -> None:
    assert report(readings(seconds, lambda at: level * warming(at)), seconds) == []


def test_a_page_more_is_no_leak_on_a_machine_that_answers_a_key_in_20_seconds() -> None:
    """As measured: 48 keys in five minutes."""
    assert report(readings(300, lambda at: 58.0 + 0.2 * (at // 60), keys_a_second=0.04), 300) == []


@pytest.mark.parametrize("seconds", [300, 600, 3600])
def test_a_leak_of_20_kb_a_key_fails_with_a_sentence(
    seconds: float, capsys: pytest.CaptureFixture[str]
) -> None:
    [sentence] = report(readings(seconds, leaking), seconds)
    assert sentence.startswith("The memory of server 1 grew by +")
    assert "GROWS" in capsys.readouterr().out


def test_the_sentence_of_a_short_run_has_the_growth_for_each_key() -> None:
    [sentence] = report(readings(300, lambda at: leaking(at, 40)), 300)
    assert "kB a key after the warm-up; at most 15 kB a key or 1.5 MB is allowed." in sentence


@pytest.mark.parametrize(("more", "failed"), [(6, 0), (7, 1)])
def test_six_more_handles_are_opened_when_first_needed(more: int, failed: int) -> None:
    assert len(report(readings(300, warming, more), 300)) == failed
