"""The source of power, from trees like those of Linux."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from lsp_calib.power import on_battery
from lsp_calib.server.admission import PowerWatch

MAINS = {"type": "Mains", "online": "1"}
UNPLUGGED = {"type": "Mains", "online": "0"}
CHARGER = {"type": "USB", "online": "1"}
DISCHARGING = {"type": "Battery", "status": "Discharging", "scope": "System"}
CHARGING = {"type": "Battery", "status": "Charging"}
MOUSE = {"type": "Battery", "status": "Discharging", "scope": "Device"}


def tree(folder: Path, *supplies: dict[str, str]) -> Path:
    for number, supply in enumerate(supplies):
        one = folder / f"supply{number}"
        one.mkdir()
        for name, value in supply.items():
            (one / name).write_text(f"{value}\n")
    return folder


@pytest.mark.parametrize(
    ("supplies", "expected"),
    [
        ([], False),
        ([MAINS], False),
        ([DISCHARGING], True),
        ([UNPLUGGED, DISCHARGING], True),
        ([MAINS, CHARGING], False),
        ([MAINS, DISCHARGING], False),
        ([UNPLUGGED, CHARGER, DISCHARGING], False),
        ([MOUSE], False),
        ([UNPLUGGED, CHARGING], False),
        ([{"type": "Battery"}, {"status": "Discharging"}, {}], False),
    ],
    ids=[
        "server",
        "desktop",
        "battery-only",
        "unplugged",
        "charging",
        "weak-adapter",
        "usb-c",
        "mouse",
        "odd",
        "incomplete",
    ],
)
def test_the_source_of_power(tmp_path: Path, supplies: list[dict[str, str]], expected: bool) -> None:
    assert on_battery(tree(tmp_path, *supplies)) is expected


def test_where_nothing_is_listed_nothing_is_known(tmp_path: Path) -> None:
    assert on_battery(tmp_path / "none") is None


async def test_a_reading_is_never_waited_for_and_counts_for_a_while() -> None:
    gate, readings, now = threading.Event(), [0], [0.0]

    def read() -> bool:
        gate.wait(10)
        readings[0] += 1
        return True

    watch = PowerWatch(read, lambda: now[0])
    assert not watch.on_battery(), "until it is known"
    assert not watch.on_battery()
    gate.set()
    await watch.close()
    assert watch.on_battery()
    assert readings == [1]
    now[0] = 60.0
    assert watch.on_battery()
    await watch.close()
    assert readings == [2]
