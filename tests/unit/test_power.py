"""The source of power, from trees like those of Linux."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from lsp_calib.server import admission
from lsp_calib.server.admission import Admission, on_battery

MAINS = {"type": "Mains", "online": "1"}
UNPLUGGED = {"type": "Mains", "online": "0"}
CHARGER = {"type": "USB", "online": "1"}
DISCHARGING = {"type": "Battery", "status": "Discharging", "scope": "System"}
MOUSE = {"type": "Battery", "status": "Discharging", "scope": "Device"}


def tree(folder: Path, *supplies: dict[str, str]) -> Path:
    for number, supply in enumerate(supplies):
        one = folder / f"supply{number}"
        one.mkdir(parents=True)
        for name, value in supply.items():
            (one / name).write_text(f"{value}\n")
    return folder


@pytest.mark.parametrize(
    ("supplies", "expected"),
    [
        pytest.param([MAINS], False, id="desktop"),
        pytest.param([DISCHARGING], True, id="battery-only"),
        pytest.param([UNPLUGGED, DISCHARGING], True, id="unplugged"),
        pytest.param([MAINS, DISCHARGING], False, id="weak-adapter"),
        pytest.param([UNPLUGGED, CHARGER, DISCHARGING], False, id="usb-c"),
        pytest.param([MOUSE], False, id="mouse"),
        pytest.param([{"type": "Battery"}, {"status": "Discharging"}, {}], False, id="incomplete"),
        pytest.param([], None, id="nothing-listed"),
    ],
)
def test_the_source_of_power(tmp_path: Path, supplies: list[dict[str, str]], expected: bool | None) -> None:
    assert on_battery(tree(tmp_path / "power", *supplies)) is expected


async def test_a_reading_is_never_waited_for_and_counts_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    now, connection = [0.0], cast(Any, SimpleNamespace())
    go, discharging = threading.Event(), [True]
    monkeypatch.setattr(admission, "on_battery", lambda: go.wait(10) and discharging[0])
    admitted = Admission(connection, lambda _: None, lambda: now[0])
    assert admitted.may_work_ahead(), "until it is known"
    go.set()
    await until(lambda: not admitted.may_work_ahead())
    discharging[0] = False
    await asyncio.sleep(0.02)
    assert not admitted.may_work_ahead()
    now[0] = 60.0
    await until(admitted.may_work_ahead)


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not holds():
            await asyncio.sleep(0.001)
