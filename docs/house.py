"""Draws docs/img/house.svg: the rooms of lsp_calib and which imports which, made from the imports.

`python docs/house.py` writes the file. Rows are the layers in pyproject.toml (import-linter's first rule).
Arrows are imports between rooms; those that a path of other arrows implies are left out. The lowest rooms
are drawn as one row that every room may import.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path

import grimp

ROOT = Path(__file__).resolve().parents[1]
PICTURE = ROOT / "docs" / "img" / "house.svg"
PACKAGE = "lsp_calib"

# Layers at the bottom that are drawn as one row.
_GROUND = 4
# Where a room stands in its row, from 0 (left) to 1 (right), so that arrows cross little.
_PLACES = {
    "server": 0.28,
    "commands": 0.74,
    "studies": 0.9,
    "corpus": 0.9,
    "report": 0.14,
    "settings": 0.66,
    "feedback": 0.06,
    "completion": 0.4,
    "summarization": 0.76,
    "calibration": 0.14,
    "confidence": 0.14,
    "inference": 0.54,
    "syntax": 0.9,
}
_WIDTH, _ROW, _HEIGHT, _MARGIN = 960, 78, 44, 110


def layers() -> list[list[str]]:
    """The rooms by layer, the highest first, as pyproject.toml has them."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    first = project["tool"]["importlinter"]["contracts"][0]
    return [layer.split(" | ") for layer in first["layers"]]


def imports(graph: grimp.ImportGraph, rooms: Sequence[str]) -> dict[str, set[str]]:
    """Room -> the other rooms that a module of it imports."""
    room_of = {
        module: room
        for room in rooms
        for module in {f"{PACKAGE}.{room}", *graph.find_descendants(f"{PACKAGE}.{room}")}
    }
    found: dict[str, set[str]] = {room: set() for room in rooms}
    for module, room in room_of.items():
        others = graph.find_modules_directly_imported_by(module)
        found[room] |= {room_of[other] for other in others if other in room_of} - {room}
    return found


def without_implied(found: Mapping[str, set[str]]) -> dict[str, set[str]]:
    """The same imports, but for those that a longer path shows as well."""

    def reached(room: str) -> set[str]:
        return found[room].union(*(reached(other) for other in found[room]))

    return {
        room: {one for one in others if not any(one in reached(other) for other in others - {one})}
        for room, others in found.items()
    }


def inside(graph: grimp.ImportGraph, room: str) -> list[str]:
    """The packages in a room."""
    children = graph.find_children(f"{PACKAGE}.{room}")
    return sorted(child.rpartition(".")[2] for child in children if graph.find_children(child))


def draw() -> str:
    """The picture, as SVG."""
    graph = grimp.build_graph(PACKAGE, cache_dir=None)
    rows = layers()
    ground = [room for row in rows[-_GROUND:] for room in row]
    above = rows[:-_GROUND]
    rooms = [room for row in above for room in row]
    at = {
        room: (_MARGIN + _PLACES.get(room, 0.5) * (_WIDTH - 2 * _MARGIN), 34 + _ROW * y)
        for y, row in enumerate(above)
        for room in row
    }
    arrows = [
        _arrow(at[room], at[other])
        for room, others in sorted(without_implied(imports(graph, rooms)).items())
        for other in sorted(others)
    ]
    boxes = [_box(*at[room], room, inside(graph, room)) for room in rooms]
    bottom = 34 + _ROW * len(above)
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {bottom + 44}"'
            ' font-family="sans-serif" text-anchor="middle">',
            f"<title>The rooms of {PACKAGE} and which imports which</title>",
            '<defs><marker id="tip" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="7" markerHeight="7"'
            ' orient="auto"><path d="M0 0 8 4 0 8z" fill="#5b6b7f"/></marker></defs>',
            '<rect width="100%" height="100%" fill="#ffffff"/>',
            *arrows,
            *boxes,
            _ground(bottom, ground),
            "</svg>\n",
        ]
    )


def _arrow(start: tuple[float, float], end: tuple[float, float]) -> str:
    (x1, y1), (x2, y2) = start, end
    y1, y2 = y1 + _HEIGHT / 2, y2 - _HEIGHT / 2
    bend = (y2 - y1) / 2
    path = f"M{x1:.0f} {y1:.0f}C{x1:.0f} {y1 + bend:.0f} {x2:.0f} {y2 - bend:.0f} {x2:.0f} {y2:.0f}"
    return f'<path d="{path}" fill="none" stroke="#5b6b7f" stroke-width="1.4" marker-end="url(#tip)"/>'


def _box(x: float, y: float, room: str, packages: Sequence[str]) -> str:
    width = max(110, 9 * len(room) + 24, 6 * len(" · ".join(packages)) + 24)
    parts = [
        f'<rect x="{x - width / 2:.0f}" y="{y - _HEIGHT / 2:.0f}" width="{width}" height="{_HEIGHT}"'
        ' rx="6" fill="#eef3fa" stroke="#35506f"/>',
        f'<text x="{x:.0f}" y="{y + (-1 if packages else 5):.0f}" font-size="15" fill="#13202e">'
        f"{escape(room)}</text>",
    ]
    if packages:
        names = escape(" · ".join(packages))
        parts.append(f'<text x="{x:.0f}" y="{y + 14:.0f}" font-size="10.5" fill="#44566b">{names}</text>')
    return "".join(parts)


def _ground(y: float, rooms: Sequence[str]) -> str:
    words = "imported from everywhere: " + " · ".join(rooms)
    return (
        f'<rect x="20" y="{y - 14:.0f}" width="{_WIDTH - 40}" height="36" rx="6"'
        ' fill="#f4f1ea" stroke="#8a7a55"/>'
        f'<text x="{_WIDTH / 2:.0f}" y="{y + 9:.0f}" font-size="14" fill="#13202e">{escape(words)}</text>'
    )


if __name__ == "__main__":
    PICTURE.write_text(draw(), "utf-8")
