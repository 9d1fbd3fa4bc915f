"""Whether this machine runs on its battery."""

from __future__ import annotations

from pathlib import Path

# Where Linux lists mains adapters and batteries, a folder for each.
SUPPLIES = Path("/sys/class/power_supply")


def on_battery(supplies: Path | None = None) -> bool | None:
    """Whether the machine draws from its battery; None where that is not known, as anywhere but on Linux.

    supplies: the folder to look in, `SUPPLIES` unless given. Machines without a battery run on mains. A
    reading may take some milliseconds, where the firmware is asked.
    """
    try:
        found = list((SUPPLIES if supplies is None else supplies).iterdir())
    except OSError:
        return None
    discharging = False
    for supply in found:
        kind = _read(supply / "type")
        if kind == "Battery":
            # Those of mice and headsets have the scope of a device.
            own = _read(supply / "scope") != "Device"
            discharging = discharging or (own and _read(supply / "status") == "Discharging")
        elif _read(supply / "online") == "1":
            # With a weak adapter the battery may be drained all the same.
            return False
    return discharging


def _read(file: Path) -> str:
    """The text of an attribute; "" where there is none, or it cannot be read."""
    try:
        return file.read_text("ascii", "replace").strip()
    except OSError:
        return ""
