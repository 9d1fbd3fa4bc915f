"""The tasks of the studies behind this project: functions to write, lines of them, one-line bugs to repair.

Items are those of `tasks`, and models see the text above alone (`Layout.plain`).
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TypeVar

import attrs

from lsp_calib.calibration.calibrators.purpose import Origin
from lsp_calib.completion.context import Cursor
from lsp_calib.errors import DataError
from lsp_calib.evaluation.correctness import TestedProgram, run_all_tests
from lsp_calib.evaluation.datasets import java_bugs, python_problems
from lsp_calib.evaluation.datasets.folder import data_set
from lsp_calib.evaluation.lines import NO_DOCSTRING, PREFIX, LineItem, Skip, read_lines_of, source_files
from lsp_calib.evaluation.runner import Plain
from lsp_calib.evaluation.tasks import FEWEST, Task, plain, project_names
from lsp_calib.exclusion import Exclusion
from lsp_calib.syntax import functions, prose_lines
from lsp_calib.text_lines import split_lines

SYNTHESIS, REPAIR = "synthesis", "repair"
# In lines, as the study has it.
_SHORTEST_BODY = 3
Say = Callable[[str], None]
T = TypeVar("T")


@attrs.frozen
class FunctionItem:
    """A function whose body is to be written.

    before, behind: the source up to and including its docstring, and what follows it. body: the right one.
    indentation: columns of its definition. tests, entry_points: as for `TestedProgram`.
    """

    id: str
    before: str
    body: str
    behind: str
    tests: str
    entry_points: tuple[str, ...]
    indentation: int = 0

    def program(self, completion: str) -> TestedProgram:
        source = f"{self.before}{completion.rstrip()}\n{self.behind}"
        return TestedProgram(source, self.tests, self.entry_points)

    def payload(self) -> Plain:
        """The item as a question: the cursor at the start of the line below the docstring."""
        lines = split_lines(self.before)
        item = LineItem(
            id=self.id,
            group=self.id,
            stratum="function",
            cursor=Cursor.at(lines, len(lines) - 1, 0, "python"),
            target=self.body,
        )
        return plain(item, function=attrs.asdict(self))


def function_item_of(payload: Plain) -> FunctionItem:
    """The item from which `FunctionItem.payload` made this one."""
    values = dict(payload["function"])
    return FunctionItem(**{**values, "entry_points": tuple(values["entry_points"])})


def synthesis_task(
    name: str, folder: Path | None, samples: int | None, seed: int, say: Say = lambda _: None
) -> Task:
    """Functions to be written from their signature and docstring, judged by tests; each is a group.

    name: "humaneval" or "mbpp". folder: the evaluation data; None: LSP_CALIB_DATA. samples: number of
    functions, drawn at random; None: all. say: told how many problems of MBPP are left out: the description
    is put inside the function as its docstring, and the reference so changed has to pass its own tests.
    Raises DataError if the data are missing, SandboxError if nothing isolates here.
    """
    if name == "humaneval":
        found = [_of_human_eval(one) for one in python_problems.synthesis(folder)]
    else:
        found = [
            FunctionItem(one.id, *parts, one.checks, one.entry_points)
            for one in python_problems.problems(folder)
            if (parts := one.as_function()) is not None
        ]
    published, usable = data_set(name).records, len(found)
    found = _drawn(found, samples, seed)
    if name == "mbpp":
        verdicts = run_all_tests([(one, one.body) for one in found])
        right = [one for one, verdict in zip(found, verdicts, strict=True) if verdict.passed]
        say(
            f"MBPP: {published - usable} of {published} problems are left out, whose tests call "
            f"no function or several; {len(found) - len(right)} of {len(found)} that were drawn, "
            "whose reference does not pass its own tests."
        )
        found = right
    return _task(SYNTHESIS, name, [(one.id, one.payload()) for one in found], "python", "tests")


def repair_task(name: str, folder: Path | None, samples: int | None, seed: int) -> Task:
    """One-line bugs of Java to be fixed, the buggy line shown in a comment; each project is a group.

    name: "defects4j" or "manysstubs4j". samples: number of bugs, drawn at random; None: all. Right is what is
    exactly the fix. Raises DataError if the data are missing.
    """
    bugs = list(java_bugs.defects4j(folder) if name == "defects4j" else java_bugs.manysstubs4j(folder))
    items = [(one.id, plain(one.line_item(), buggy=one.buggy_line)) for one in _drawn(bugs, samples, seed)]
    return _task(REPAIR, name, items, "java", "exact")


def prefix_task(
    paths: Sequence[Path],
    samples: int,
    seed: int,
    *,
    docstrings: bool = True,
    exclude: Sequence[str] = (),
    skip: Skip | None = None,
) -> Task:
    """About `samples` lines of documented Python functions below `paths`, equally many from each project: one
    line of each function, which is seen from its signature down to the line.

    docstrings: False leaves out the functions' docstrings; the lines are the same ones. exclude: patterns of
    files that no model may see. A function has a docstring and a body of more than three lines below it, and
    is no copy of another; the line is neither blank nor a comment. skip: files of which no lines are drawn.
    Raises DataError if there are fewer than 20.
    """
    named = project_names(paths)
    each = -(-samples // len(named))
    exclusion, seen = Exclusion(tuple(exclude)), set[str]()
    items: list[tuple[str, Plain]] = []
    for root, group in named:
        found = list(_documented_lines(root, group, seed, exclusion, seen, skip, docstrings=docstrings))
        items += [(one.id, plain(one)) for one in _drawn(found, each, seed)]
    if len(items) < FEWEST:
        raise DataError(
            f"Only {len(items)} documented functions with a body of more than three lines were found; at "
            f"least {FEWEST} are needed. Name more source."
        )
    return Task("line", tuple(items), study=True)


def _documented_lines(
    root: Path,
    group: str,
    seed: int,
    exclusion: Exclusion,
    seen: set[str],
    skip: Skip | None,
    *,
    docstrings: bool,
) -> Iterator[LineItem]:
    """A line of each function of a project. seen: the code of those that were there before."""
    for path in source_files(root, skip=skip):
        name = path.relative_to(root).as_posix() if path != root else path.name
        lines = () if exclusion.reason(str(path)) else read_lines_of(path, "python")
        prose = prose_lines(lines, "python") if lines else frozenset()
        for function in functions(lines, "python"):
            documented = function.documented
            own = "\n".join(lines[function.body : function.end])
            if documented is None or function.end - function.body <= _SHORTEST_BODY or own in seen:
                continue
            seen.add(own)
            places = [
                at
                for at in range(function.body, function.end)
                if at not in prose and lines[at].strip() and not lines[at].lstrip().startswith("#")
            ]
            if not places:
                continue
            rng = random.Random(f"{seed}:{group}/{name}:{function.start}".encode("utf-8", "surrogatepass"))
            at = rng.choice(places)
            above = range(function.start, at)
            left_out = range(0) if docstrings else range(*documented)
            shown = [lines[n] for n in above if n not in left_out]
            yield LineItem(
                id=f"{group}/{name}:{at + 1}:1",
                group=group,
                stratum="line-start",
                cursor=Cursor.at([*shown, ""], len(shown), 0, "python"),
                target=lines[at],
                condition=PREFIX if docstrings else NO_DOCSTRING,
            )


def _of_human_eval(one: python_problems.Synthesis) -> FunctionItem:
    program = one.program("")
    return FunctionItem(one.id, one.prompt, one.canonical_solution, "", program.tests, program.entry_points)


def _task(task: str, name: str, items: Sequence[tuple[str, Plain]], language: str, criterion: str) -> Task:
    if not items:
        raise DataError(f"Nothing of {name} is left to ask for. Ask for more --samples.")
    entry = data_set(name)
    origin = Origin(entry.name, entry.sha256[:12], len(items))
    return Task(task, tuple(items), language, (criterion,), (origin,), study=True)


def _drawn(found: Sequence[T], samples: int | None, seed: int) -> list[T]:
    """So many of the items, in their order."""
    if samples is None or samples >= len(found):
        return list(found)
    return [found[at] for at in sorted(random.Random(seed).sample(range(len(found)), samples))]
