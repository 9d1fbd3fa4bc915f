"""What other programs make of Python files for `make soak`: an agent, a formatter, another commit.

Each gives edits of whole places, the one furthest down first, and leaves Python that can be parsed. The same
random numbers give the same edits.
"""

from __future__ import annotations

import ast
import keyword
import random
import re
from collections import defaultdict
from collections.abc import Collection, Sequence

from lsp_calib.characters import indentation_of

# From (line, column) to (line, column) there is to be this text.
Edit = tuple[tuple[int, int], tuple[int, int], str]

_NAME = re.compile(r"(?<![\w.'\"])[a-z_]\w{3,}\b(?!['\"])")
_NUMBERED = re.compile(r"_\d+$")
_ASSIGNMENT = re.compile(r"\s+(\w+) = .*[\w)\]}]$")
_CALL = re.compile(r"(\s+.*\()([^()'\"#]+)\)$")
_QUOTED = re.compile(r'"([^"]*)"')
_NOT_REQUOTED = re.compile(r"['\\#{]" + '|"""')
# A name that is used more often is that of something else in each function.
_MOST_USES = 10


def agents_edits(lines: Sequence[str], chance: random.Random, but: int | None = None) -> list[Edit]:
    """What an agent changes at one go: a name wherever it is used, or several lines here and there.

    but: a line that it leaves as it is; it may write above it.
    """
    if chance.random() < 0.4 and (edits := _renamed(lines, chance, but)):
        return edits
    written = [at for at, line in enumerate(lines) if len(line.strip()) > 8]
    places = sorted(chance.sample(written, min(len(written), chance.randint(2, 6))), reverse=True)
    return [edit for at in places if (edit := _changed(lines[at], at, chance, free=at != but))]


def formatters_edits(
    lines: Sequence[str], chance: random.Random, wanted: Collection[int], but: int | None = None
) -> list[Edit]:
    """A few lines in another style: white space, quotes, wrapping. wanted: lines that it takes if it can."""
    styles: dict[int, list[str]] = defaultdict(list)
    for at, line in enumerate(lines):
        for style in (_respaced, _requoted, _wrapped):
            if at != but and (new := style(line)) is not None:
                styles[at].append(new)
    others = chance.sample(sorted(styles), min(len(styles), chance.randint(1, 3)))
    places = sorted({*others, *(at for at in wanted if at in styles)}, reverse=True)
    return [((at, 0), (at, len(lines[at])), chance.choice(styles[at])) for at in places]


def another_version(text: str, chance: random.Random) -> str:
    """The same file at another commit: some changes of an agent, perhaps without one of its functions."""
    lines = text.split("\n")
    if chance.random() < 0.5 and (spans := _functions(text)):
        start, end = chance.choice(spans)
        del lines[start:end]
    for _ in range(chance.randint(1, 3)):
        lines = changed(lines, agents_edits(lines, chance))
    return "\n".join(lines)


def changed(lines: Sequence[str], edits: Sequence[Edit]) -> list[str]:
    """The lines after these edits."""
    new = list(lines)
    for edit in edits:
        replace_in(new, edit)
    return new


def _renamed(lines: Sequence[str], chance: random.Random, but: int | None) -> list[Edit]:
    uses: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for at, line in enumerate(lines):
        for found in _NAME.finditer(line):
            uses[found[0]].append((at, found.start()))
    names = [
        name
        for name, places in uses.items()
        if 2 <= len(places) <= _MOST_USES
        and not keyword.iskeyword(name)
        and all(at != but for at, _ in places)
    ]
    if not names:
        return []
    name = chance.choice(names)
    new = f"{_NUMBERED.sub('', name)}_{chance.randint(2, 99)}"
    return [((at, start), (at, start + len(name)), new) for at, start in reversed(uses[name])]


def _changed(line: str, at: int, chance: random.Random, *, free: bool) -> Edit | None:
    """A comment above a line or behind it, or a statement below; None where none of them goes."""
    number, indentation = chance.randint(2, 999), indentation_of(line)
    kind = chance.randrange(3) if free else 0
    if kind == 0:
        return (at, 0), (at, 0), f"{indentation}# Step {number} of {line.strip()[:20]!r}.\n"
    balanced = all(line.count(a) == line.count(b) for a, b in ("()", "[]", "{}"))
    if kind == 1 and balanced and (found := _ASSIGNMENT.fullmatch(line)):
        return (at, len(line)), (at, len(line)), f"\n{indentation}seen_{number} = {found[1]}"
    plain = not any(mark in line for mark in "#\\\"'")
    return ((at, len(line)), (at, len(line)), f"  # see note {number}") if plain else None


def _respaced(line: str) -> str | None:
    """As formatters that align assignments do, and back."""
    name, between, value = line.partition("  = ")
    if between:
        return f"{name} = {value}"
    name, between, value = line.partition(" = ")
    return f"{name}  = {value}" if between and name.strip().isidentifier() else None


def _requoted(line: str) -> str | None:
    if _NOT_REQUOTED.search(line) or not line.count('"') or line.count('"') % 2:
        return None
    return _QUOTED.sub(r"'\1'", line)


def _wrapped(line: str) -> str | None:
    """A call over three lines."""
    found = _CALL.fullmatch(line)
    if found is None or found[1].count("(") != found[1].count(")") + 1 or "[" in found[1]:
        return None
    indentation = indentation_of(line)
    return f"{found[1]}\n{indentation}    {found[2].strip()}\n{indentation})"


def _functions(text: str) -> list[tuple[int, int]]:
    """(first line, line behind) of the functions beside which there is something else."""
    spans = []
    for node in ast.walk(ast.parse(text)):
        body = getattr(node, "body", None)
        for one in body if isinstance(body, list) and len(body) > 1 else ():
            if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef) and one.end_lineno is not None:
                first = min([one.lineno, *(decorator.lineno for decorator in one.decorator_list)])
                spans.append((first - 1, one.end_lineno))
    return spans


def replace_in(lines: list[str], edit: Edit) -> None:
    """Replace a text in the lines of a document."""
    (first, start), (last, end), text = edit
    lines[first : last + 1] = (lines[first][:start] + text + lines[last][end:]).split("\n")
