"""A process that dies before it answers is started again in a safer way, and given up in the end."""

from __future__ import annotations

import os

import pytest

from lsp_calib.inference.process.starting import RestartPolicy, Safety

pytestmark = pytest.mark.skipif(os.name != "posix", reason="exit codes of signals")
SEGV, ILL, BUS, KILL = -11, -4, -7, -9


@pytest.mark.parametrize("code", [SEGV, ILL, BUS])
def test_a_crash_while_loading_is_followed_by_a_careful_start(code: int) -> None:
    deaths = RestartPolicy()
    assert "safer way" in deaths.died(code)
    assert deaths.at_once
    assert deaths.safety == Safety(careful=True)


@pytest.mark.parametrize("code", [KILL, 1, None])
def test_other_deaths_demote_nothing(code: int | None) -> None:
    deaths = RestartPolicy()
    assert "started again." in deaths.died(code)
    assert deaths.at_once
    assert deaths.safety == Safety()


def test_a_crash_before_the_first_answer_is_one_while_loading() -> None:
    deaths = RestartPolicy()
    deaths.ready("cpu")
    deaths.died(SEGV)
    assert deaths.at_once
    assert deaths.safety == Safety(careful=True)
    # It was tried, was fine, and crashed all the same.
    deaths.ready("cpu", tried=True)
    deaths.died(SEGV)
    assert deaths.safety == Safety(careful=True, avoid=("cpu",))


def test_what_crashes_after_its_trial_is_not_tried_again() -> None:
    """Otherwise two accelerations that both do so would take all the deaths there may be."""
    deaths = RestartPolicy()
    for name in ("cpu", "cpu-without-amx"):
        deaths.ready(name, tried=True)
        deaths.died(SEGV)
        assert not deaths.too_many
    assert deaths.safety == Safety(careful=True, avoid=("cpu", "cpu-without-amx"))


def test_a_process_that_has_answered_waits_for_the_next_request() -> None:
    deaths = RestartPolicy()
    deaths.ready("cpu")
    deaths.answered()
    assert "next request" in deaths.died(SEGV)
    assert not deaths.at_once
    assert deaths.safety == Safety()


def test_who_killed_a_loaded_process_does_not_make_its_request_be_asked_again() -> None:
    deaths = RestartPolicy()
    deaths.ready("cpu")
    assert "next request" in deaths.died(KILL)
    assert not deaths.at_once


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


def test_an_answer_makes_up_for_all_deaths() -> None:
    deaths = RestartPolicy()
    for _ in range(10):
        deaths.died(SEGV)
        deaths.ready("cpu")
        deaths.answered()
        assert not deaths.too_many
        assert deaths.safety == Safety()


def test_converted_weights_are_given_up_at_their_first_crash() -> None:
    """The model runs without them; three deaths would not be enough to find what works."""
    deaths = RestartPolicy()
    deaths.ready("cpu-eight-bit")
    deaths.died(SEGV)
    assert deaths.safety == Safety(careful=True, avoid=("cpu-eight-bit",))
    deaths.ready("cpu")
    deaths.died(SEGV)
    assert deaths.safety == Safety(careful=True, avoid=("cpu-eight-bit", "cpu"))
    assert not deaths.too_many
