"""A process that dies before it answers is started again in a safer way, and given up in the end."""

from __future__ import annotations

import os

import pytest

from lsp_calib.inference.process.starting import RestartPolicy, Safety

pytestmark = pytest.mark.skipif(os.name != "posix", reason="exit codes of signals")
SEGV, ILL, BUS, KILL = -11, -4, -7, -9


NOTHING, CAREFUL = Safety(), Safety(careful=True)
# What became of a process, step by step (an acceleration that loaded, "tried" before or not; an answer; a
# death), and what follows the last death: words of the message, whether it is started at once, how.
STORIES = {
    "a crash while loading is followed by a careful start": (
        ([SEGV], [ILL], [BUS]),
        "safer way",
        True,
        CAREFUL,
    ),
    "other deaths demote nothing": (([KILL], [1], [None]), "started again.", True, NOTHING),
    "a crash before the first answer is one while loading": ((["cpu", SEGV],), "safer way", True, CAREFUL),
    "it was tried, was fine, and crashed all the same": (
        (["cpu", SEGV, "cpu tried", SEGV],),
        "",
        True,
        Safety(careful=True, avoid=("cpu",)),
    ),
    # Otherwise two accelerations that both do so would take all the deaths there may be.
    "what crashes after its trial is not tried again": (
        (["cpu tried", SEGV, "cpu-without-amx tried", SEGV],),
        "",
        True,
        Safety(careful=True, avoid=("cpu", "cpu-without-amx")),
    ),
    "a process that has answered waits for the next request": (
        (["cpu", "answered", SEGV],),
        "next request",
        False,
        NOTHING,
    ),
    # Who killed it does not make its request be asked again.
    "a loaded process that was killed waits as well": ((["cpu", KILL],), "next request", False, NOTHING),
    # The model runs without them; three deaths would not be enough to find what works.
    "converted weights are given up at their first crash": (
        (["cpu-eight-bit", SEGV],),
        "",
        True,
        Safety(careful=True, avoid=("cpu-eight-bit",)),
    ),
    "and what runs without them has its trial": (
        (["cpu-eight-bit", SEGV, "cpu", SEGV],),
        "",
        True,
        Safety(careful=True, avoid=("cpu-eight-bit", "cpu")),
    ),
    "an answer makes up for all deaths": ((["cpu", "answered", SEGV] * 10,), "next request", False, NOTHING),
}


@pytest.mark.parametrize("story", STORIES)
def test_a_death_is_followed_by_what_the_ones_before_it_say(story: str) -> None:
    every, said, at_once, safety = STORIES[story]
    for steps in every:
        deaths, message = RestartPolicy(), ""
        for step in steps:
            if step == "answered":
                deaths.answered()
            elif isinstance(step, str):
                deaths.ready(step.split()[0], tried=step.endswith(" tried"))
            else:
                message = deaths.died(step)
                assert not deaths.too_many
        assert said in message
        assert (deaths.at_once, deaths.safety) == (at_once, safety)


@pytest.mark.parametrize("code", [SEGV, KILL, None])
def test_after_three_deaths_it_says_what_to_do(code: int | None) -> None:
    deaths = RestartPolicy()
    for _ in range(2):
        deaths.died(code)
        assert not deaths.too_many
    message = deaths.died(code)
    assert deaths.too_many
    assert not deaths.at_once
    assert "3 times before it answered" in message
    for advice in ("smaller model", "prebuilt", "remote.url", "doctor"):
        assert advice in message
