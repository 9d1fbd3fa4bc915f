"""What a failed request leaves behind: nothing of the document, however often the failure is told."""

from __future__ import annotations

import asyncio
import gc
import traceback
import weakref
from typing import Any

import attrs
import pytest
from openai_server import Exchange
from remote_scene import QUICK, Play, Scene, clean_fixture, play_fixture, request  # noqa: F401 - fixtures

from lsp_calib.errors import EngineError, RequestCancelledError

TIMES = 5


async def _refuses(exchange: Exchange) -> None:
    await exchange.json({}, 401)


async def _is_busy(exchange: Exchange) -> None:
    await exchange.json({}, 503, Retry_After="60")


async def fail(scene: Scene, number: int) -> tuple[EngineError, weakref.ref[Any]]:
    """The exception of a failed request, and the request, which lives as long as somebody holds it."""
    asked = request(f"secret_{number} = 'hunter2'\n")
    try:
        await scene.engine.generate(asked)
    except EngineError as error:
        return error, weakref.ref(asked)
    raise AssertionError("it did not fail")


async def requests_alive(scene: Scene) -> int:
    """How many failed requests are still in memory, now that all have been answered."""
    asked = [(await fail(scene, number))[1] for number in range(TIMES)]
    await asyncio.sleep(0)  # asyncio itself holds the last one until it turns to something else
    gc.collect()
    return len([one for one in asked if one() is not None])


@pytest.mark.parametrize("where", ["handler", "models_handler"])
@pytest.mark.parametrize("handler", [_refuses, _is_busy])
async def test_a_failure_that_lasts_is_a_fresh_exception_each_time(
    play: Play, where: str, handler: Any
) -> None:
    """One that is raised again and again would collect the frames of all who met it, with their prompts."""
    scene = await play(**{where: handler})
    errors = [(await fail(scene, number))[0] for number in range(TIMES)]
    assert len(scene.server.asked) <= 2, "it is remembered, and not asked again"
    assert len({str(error) for error in errors}) == 1
    assert len({id(error) for error in errors}) == TIMES
    # The first one is that of the answer itself and comes from elsewhere.
    assert len({len(traceback.extract_tb(error.__traceback__)) for error in errors[1:]}) == 1


@pytest.mark.parametrize("where", ["handler", "models_handler"])
@pytest.mark.parametrize("handler", [_refuses, _is_busy])
async def test_a_failure_that_lasts_keeps_no_prompts(play: Play, where: str, handler: Any) -> None:
    scene = await play(**{where: handler})
    assert await requests_alive(scene) == 0


async def test_a_server_that_cannot_be_reached_keeps_no_prompts_either(
    play: Play, unused_tcp_port: int
) -> None:
    url = f"http://127.0.0.1:{unused_tcp_port}"
    scene = await play(remote={"url": url}, patience=attrs.evolve(QUICK, pause=60.0))
    assert await requests_alive(scene) == 0


async def test_a_restart_fails_each_request_with_an_exception_of_its_own(play: Play) -> None:
    scene = await play(handler=Exchange.gone)
    await scene.engine.ready()
    asked = [asyncio.create_task(scene.say(f"a{number}")) for number in range(3)]
    while len(scene.server.completions) < 2:  # the third waits for its turn
        await asyncio.sleep(0.005)
    await scene.engine.restart()
    errors = await asyncio.gather(*asked, return_exceptions=True)
    assert [type(error) for error in errors] == [RequestCancelledError] * 3
    assert len({id(error) for error in errors}) == 3
