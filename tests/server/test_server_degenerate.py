"""Small texts that take tree-sitter minutes: the server answers beside them as beside an ordinary file.

`python -m pytest -m long -s tests/server/test_server_degenerate.py` prints the times.
docs/languages.md quotes the slowest.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest
from conftest import Connect
from marks import repetitions
from scripted_editor import Editor, capabilities

SIZE = 200_000
# What an answer may take longer than beside an ordinary file of that size; a completion among such lines,
# which are parsed in a budget of their own. NOTHING: seconds so few that load decides.
MOST, MOST_OF_COMPLETION, NOTHING = 3.0, 20.0, 0.1
# Each time is the longest of many, so that one pause of the machine decides. What the text holds up, it holds
# up each time.
LOOKS = 2
NAMES = ("status in it", "requests in it", "completion in it", "status beside it", "requests beside it")

SUFFIXES = {"python": "py", "typescript": "ts", "javascript": "js", "cpp": "cpp", "java": "java"}
TEXTS = [
    ("python", "\\\n"),
    ("typescript", "/*\n"),
    ("typescript", "a<@"),
    ("javascript", '"'),
    ("cpp", "/*\n"),
    ("java", "%w("),
    ("python", "/*\n"),
    ("python", "("),
    ("typescript", "->\n"),
    ("javascript", "function a(){"),
    ("cpp", "%w("),
    ("java", "{"),
][: repetitions(thorough=12, long=6)]

_BRACES = """\
{head} total{n}({item}items) {{
  {item}sum = {n};
  for ({item}at = 0; at < {n}; at++) {{
    if (sum > limit) {{ sum = other(sum, at, "{n}"); }}
  }}
  return sum;
}}

"""
_ORDINARY = {
    "python": "def total{n}(items):\n    total = {n}\n    for item in items:\n        if item.price > {n}:\n"
    '            total += other(item, "{n}")\n    return total\n\n\n',
    "typescript": _BRACES.replace("{head}", "function").replace("{item}", "").replace("(at =", "(let at ="),
    "javascript": _BRACES.replace("{head}", "function").replace("{item}", "").replace("(at =", "(let at ="),
    "cpp": _BRACES.replace("{head}", "int").replace("{item}", "int "),
    "java": _BRACES.replace("{head}", "int").replace("{item}", "int "),
}


def ordinary(language: str, size: int) -> str:
    """A file of the language with nothing odd in it."""
    one = _ORDINARY[language]
    text = "".join(one.format(n=n) for n in range(size // len(one.format(n=1000)) + 1))
    return f"class All {{\n{text}}}\n" if language == "java" else text


def degenerate(unit: str, size: int) -> str:
    return unit * (size // len(unit))


async def longest(
    editor: Editor, others: list[Callable[[], Awaitable[object]]], seconds: float = 0.0
) -> tuple[float, float]:
    """The longest that `status` takes while other requests are answered one after the other, and that one of
    these takes; it looks for so many seconds at least."""
    slowest = [0.0, 0.0]

    async def timed(at: int, request: Callable[[], Awaitable[object]]) -> None:
        start = time.perf_counter()
        await request()
        slowest[at] = max(slowest[at], time.perf_counter() - start)

    over = asyncio.Event()

    async def ask() -> None:
        while not over.is_set():
            await timed(0, editor.status)
            await asyncio.sleep(0.01)

    end = time.perf_counter() + seconds
    asking = asyncio.create_task(ask())
    for request in others:
        await timed(1, request)
    await asyncio.sleep(max(end - time.perf_counter(), 0.05))
    over.set()
    await asking
    return slowest[0], slowest[1]


async def as_document(connect: Connect, language: str, text: str) -> tuple[float, float, float]:
    """Seconds: as `longest`, and that an inline completion takes."""
    client = capabilities(inline=True, pull=True, edits=True)
    options = {"codeLens": {"enabled": True}}
    editor = await connect({"otherwise": {"text": "x"}}, client=client, options=options, process=True)
    uri = f"file:///project/file.{SUFFIXES[language]}"
    await editor.status()
    editor.open(text, uri=uri, language=language)
    line = text.count("\n") // 2
    status, other = await longest(
        editor,
        [
            lambda: editor.hover(line, 0, uri),
            lambda: editor.lenses(uri),
            lambda: editor.actions(line, 0, uri),
            lambda: editor.pull(uri),
        ],
    )
    # A change, after which all is asked anew.
    editor.insert(line, 0, "\n", uri)
    again = await longest(
        editor,
        [lambda: editor.actions(line, 0, uri), lambda: editor.hover(line, 0, uri), lambda: editor.pull(uri)],
    )
    typed = await longest(editor, [lambda: editor.inline(line, 0, uri)])
    await editor.leave()
    return max(status, again[0], typed[0]), max(other, again[1]), typed[1]


async def as_neighbour(connect: Connect, language: str, text: str, root: Path) -> tuple[float, float]:
    """Seconds, as `longest`, for an innocent document beside the file, and a second one that is open."""
    suffix = SUFFIXES[language]
    root.mkdir()
    (root / f"beside.{suffix}").write_text(text)
    innocent = ordinary(language, 2000)
    (root / f"innocent.{suffix}").write_text(innocent)
    script = {"summary": {"text": "Add all."}, "otherwise": {"text": "x"}}
    client = capabilities(inline=True, pull=True, edits=True)
    editor = await connect(script, client=client, folders=[root.as_uri()], process=True)
    await editor.status()
    uri, line = (root / f"innocent.{suffix}").as_uri(), 1 if language == "java" else 0
    editor.open(innocent, uri=uri, language=language)
    editor.open(text, uri=(root / f"open.{suffix}").as_uri(), language=language)
    found = await longest(
        editor,
        [
            lambda: editor.hover(line, 5, uri),
            lambda: editor.actions(line, 5, uri),
            lambda: editor.pull(uri),
            lambda: editor.inline(line + 1, 0, uri),
        ],
        seconds=3.0,
    )
    await editor.leave()
    return found


_measured: dict[tuple[str, str], tuple[float, ...]] = {}


@pytest.fixture(scope="module", autouse=True)
def table() -> Iterator[None]:
    yield
    print()
    for (language, unit), row in _measured.items():
        print(f"| {language} | `{unit!r}` |", " | ".join(f"{one:.2f}" for one in row), "|")


@pytest.mark.long
@pytest.mark.alone
@pytest.mark.parametrize(("language", "unit"), TEXTS)
async def test_it_answers_as_beside_an_ordinary_file(
    language: str, unit: str, connect: Connect, tmp_path: Path
) -> None:
    bad, good = degenerate(unit, SIZE), ordinary(language, SIZE)
    late: list[str] = []
    for look in range(LOOKS):
        (root := tmp_path / str(look)).mkdir()
        usual, slowest = [
            (
                *await as_document(connect, language, text),
                *await as_neighbour(connect, language, text, root / name),
            )
            for name, text in (("good", good), ("bad", bad))
        ]
        _measured[language, unit] = tuple(x for pair in zip(usual, slowest, strict=True) for x in pair)
        late = [
            f"{name}: {one:.2f} s, in an ordinary file {other:.2f} s"
            for name, one, other in zip(NAMES, slowest, usual, strict=True)
            if one > max((MOST_OF_COMPLETION if among(name, unit) else MOST) * other, NOTHING)
        ]
        if not late:
            return
    pytest.fail("; ".join(late))


def among(name: str, unit: str) -> bool:
    """Whether it is the time of a completion among lines of a text."""
    return name.startswith("completion") and "\n" in unit


async def test_a_text_of_24_kilobytes_does_not_hold_the_server_up(connect: Connect) -> None:
    """71 seconds before parsing had a budget: more than the patience of any request here."""
    status, other, typed = await as_document(connect, "typescript", degenerate("->\n", 24_000))
    assert max(status, other, typed) < 30
