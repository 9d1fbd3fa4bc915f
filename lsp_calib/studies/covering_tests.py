"""The tests of a project that reach a line: found by a traced run, tried on the reference, run on answers."""

from __future__ import annotations

import base64
import hashlib
import json
import random
import zlib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import attrs

from lsp_calib.corpus.places import FEWEST, LineItem, Plain, Task, exactly
from lsp_calib.corpus.source import read_lines_of
from lsp_calib.errors import DataError, SandboxError
from lsp_calib.files import read_file, replace_file
from lsp_calib.json_text import parse_json
from lsp_calib.studies.sandbox.bwrap import SUITE_LIMITS, Limits, ProgramOutcome, run_suite

REFERENCE_RUNS = 3
MOST_TESTS = 50
"""Of the tests that reach a line so many are run, drawn at random: a suite takes long."""

_VERSION = 1
# Of a whole suite, traced or on the reference.
_WHOLE = attrs.evolve(SUITE_LIMITS, wall_s=1800.0, cpu_s=1800, output=256 << 20, output_total=256 << 20)
# On an answer, which may loop for ever, tests may take so many times as long, and some seconds to start. The
# processor time decides: a busy machine takes longer.
_LONGER, _SPARE_CPU_S, _SPARE_WALL_S = 5.0, 10, 60.0
_NOT_READ = {".git", ".hg", ".venv", "node_modules", "__pycache__"}

Say = Callable[[str], None]


@attrs.frozen
class Reference:
    """How tests end on the project as it is, run three times: in their order, in reverse, and shuffled.

    seconds: of each test that passes each time, the most that it took. flaky, failing: the tests that pass
    sometimes, and never.
    """

    seconds: Mapping[str, float]
    flaky: tuple[str, ...]
    failing: tuple[str, ...]


@attrs.frozen
class Suite:
    """A project's tests, as one traced run found them.

    tests: node ids. passed: whether each passed. lines: by file and first line of a statement the tests that
    reach it, as numbers. continued: by file and line the first line of the statement that the line continues.
    """

    tests: tuple[str, ...]
    passed: tuple[bool, ...]
    lines: Mapping[str, Mapping[str, Sequence[int]]]
    continued: Mapping[str, Mapping[str, int]]

    def reaching(self, name: str, line: int) -> tuple[str, ...]:
        """The tests that passed and reach a line, at most MOST_TESTS of them. line: its number, from 1."""
        first = self.continued.get(name, {}).get(str(line), line)
        found = [self.tests[at] for at in self.lines.get(name, {}).get(str(first), ()) if self.passed[at]]
        if len(found) > MOST_TESTS:
            found = sorted(random.Random(f"{name}:{line}").sample(found, MOST_TESTS))
        return tuple(found)


class Project:
    """A project whose tests are run in the sandbox, by the pytest of a virtual environment.

    kept: a folder for what is found out; it counts as long as source and environment are the same.
    """

    def __init__(self, root: Path, environment: Path, kept: Path) -> None:
        self.root, self.environment = root, environment
        self._kept = kept
        self._state = {"version": _VERSION, "source": _digest(root), "environment": str(environment)}

    @cached_property
    def suite(self) -> Suite:
        """Raises DataError if there are no tests or none passes, SandboxError if they cannot be run."""
        path = self._kept / f"{self.root.name}.suite.json"
        found = self._read(path)
        if "tests" not in found:
            outcome = run_chosen(self.root, self.environment, None, trace=True, report=True, limits=_WHOLE)
            found = _report_of(outcome, self.root, self.environment)
            if not any(found["passed"]):
                last = " ".join(found["said"].split())[-300:]
                what = (
                    "has no tests"
                    if not found["tests"]
                    else f"has {len(found['tests'])} tests, but none passes"
                )
                raise DataError(
                    f"{self.root} {what} that the pytest of {self.environment} can run; it ended with: "
                    f"{last or 'nothing'}. Name projects with their tests (`data pull projects-tested`), and "
                    "install what these need in the environment."
                )
            self._write(path, found)
        return Suite(tuple(found["tests"]), tuple(found["passed"]), found["lines"], found["continued"])

    def reference(self, tests: Sequence[str]) -> Reference:
        """Run tests on the project as it is. Raises SandboxError if they cannot be run."""
        path = self._kept / f"{self.root.name}.reference.json"
        found = self._read(path)
        if found.get("tests") != list(tests):
            passes, seconds = Counter[str](), dict.fromkeys(tests, 0.0)
            for order in range(REFERENCE_RUNS):
                outcome = run_chosen(
                    self.root, self.environment, tests, report=True, order=order, limits=_WHOLE
                )
                told = _report_of(outcome, self.root, self.environment)
                for one, passed, took in zip(told["tests"], told["passed"], told["seconds"], strict=True):
                    passes[one] += passed
                    seconds[one] = max(seconds[one], took)
            found = {"tests": list(tests), "passes": [passes[one] for one in tests]}
            found["seconds"] = [seconds[one] for one in tests]
            self._write(path, found)
        runs = list(zip(tests, found["passes"], found["seconds"], strict=True))
        return Reference(
            {one: took for one, passes, took in runs if passes == REFERENCE_RUNS},
            tuple(one for one, passes, _ in runs if 0 < passes < REFERENCE_RUNS),
            tuple(one for one, passes, _ in runs if not passes),
        )

    def _read(self, path: Path) -> dict[str, Any]:
        """What is kept there, if it is of the same source and environment."""
        try:
            found = parse_json(read_file(path))
        except (OSError, ValueError):
            return {}
        same = isinstance(found, dict) and all(
            found.get(name) == value for name, value in self._state.items()
        )
        return found if same else {}

    def _write(self, path: Path, found: Mapping[str, Any]) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_file(path, json.dumps({**found, **self._state}, separators=(",", ":")) + "\n")


def with_tests(
    task: Task,
    roots: Mapping[str, Path],
    environment: Path,
    kept: Path,
    say: Say,
    on_progress: Callable[[int, int], None] = lambda _done, _all: None,
) -> Task:
    """The lines of a task that tests of their projects reach, to be judged by these tests as well.

    roots: the folder of each group. environment: a virtual environment with pytest and what the tests need.
    kept: as for `Project`. say: told how many lines and tests are left out, and why. on_progress: called with
    projects done, and all.
    Raises DataError for source that is no project or has no tests, and if they reach fewer than 20 lines;
    SandboxError if nothing isolates here or pytest is missing.
    """
    if task.language != "python":
        raise DataError(
            "--tests runs the tests of Python projects with pytest: leave it out for other languages."
        )
    check_environment(environment)
    judged: dict[str, Plain] = {}
    counts = Counter[str]()
    for at, (group, root) in enumerate(roots.items()):
        on_progress(at, len(roots))
        project = Project(root, environment, kept)
        suite, before = project.suite, len(judged)
        mine = {id_: _place(id_, group) for id_, payload in task.items if payload["group"] == group}
        reaching = {id_: tests for id_, place in mine.items() if (tests := suite.reaching(*place))}
        union = sorted(set[str]().union(*reaching.values()))
        reference = project.reference(union) if union else Reference({}, (), ())
        for id_, tests in reaching.items():
            if chosen := [one for one in tests if one in reference.seconds]:
                name, line = mine[id_]
                judged[id_] = {
                    "suite": {"file": name, "line": line - 1, "tests": chosen},
                    "project": str(root),
                    "environment": str(environment),
                    "seconds": sum(reference.seconds[one] for one in chosen),
                }
        left = len(judged) - before
        counts["that no test reaches"] += len(mine) - len(reaching)
        counts["whose tests do not pass each time"] += len(reaching) - left
        say(
            f"{group}: {sum(suite.passed)} of {len(suite.tests)} tests pass; {left} of {len(mine)} lines are "
            f"judged by them. In {REFERENCE_RUNS} runs of the reference {len(reference.flaky)} tests passed "
            f"only sometimes and {len(reference.failing)} never: these judge nothing."
        )
    on_progress(len(roots), len(roots))
    items = [(id_, {**payload, **judged[id_]}) for id_, payload in task.items if id_ in judged]
    told = "; ".join(f"{count} {why}" for why, count in sorted(counts.items()) if count)
    say(f"{len(items)} of {len(task.items)} lines are judged by tests. Left out: {told or 'none'}.")
    if len(items) < FEWEST:
        raise DataError(
            f"Tests reach only {len(items)} of {len(task.items)} lines; at least {FEWEST} are needed. Ask "
            "for more --samples, or name more projects."
        )
    return attrs.evolve(task, items=tuple(items), criteria=("exact", "tests"), judge=judge)


def _place(id_: str, group: str) -> tuple[str, int]:
    """File and number of the line of an item."""
    place, line, _ = id_.rsplit(":", 2)
    return place.removeprefix(f"{group}/"), int(line)


def judge(name: str, item: LineItem, payload: Plain, text: str) -> bool:
    """The `corpus.places.Judge` of the lines that `with_tests` made. Raises as `line_passes`."""
    return (
        exactly(name, item, payload, text)
        if not text or name == "exact"
        else line_passes(item, payload, text)
    )


def line_passes(item: LineItem, payload: Plain, text: str) -> bool:
    """Whether the tests of a payload that `with_tests` made pass with `text` at the cursor.

    The line of the reference is run like any other: that a project's own line passes is found, not assumed.
    Raises DataError if the source has changed, SandboxError if the tests cannot be run.
    """
    text = text.rstrip("\r\n")
    suite, root = payload["suite"], Path(payload["project"])
    lines = list(read_lines_of(root / suite["file"], "python"))
    before, at = item.cursor.before, suite["line"]
    if at >= len(lines) or lines[at] != before + item.target:
        raise DataError(f"{root / suite['file']} was changed during the run: run the same command again.")
    lines[at] = before + text
    most = _LONGER * payload["seconds"]
    outcome = run_chosen(
        root,
        Path(payload["environment"]),
        suite["tests"],
        changes={suite["file"]: "\n".join(lines)},
        limits=attrs.evolve(SUITE_LIMITS, wall_s=most + _SPARE_WALL_S, cpu_s=int(most) + _SPARE_CPU_S),
    )
    return outcome.proved


def run_chosen(
    root: Path,
    environment: Path,
    tests: Sequence[str] | None,
    *,
    limits: Limits,
    trace: bool = False,
    report: bool = False,
    order: int = 0,
    changes: Mapping[str, str] | None = None,
) -> ProgramOutcome:
    """Run tests of a project in the sandbox, all if None; the options are those of `sandbox.suite`."""
    # A package in `src` is imported from there, even where the environment has a version of it installed.
    paths = ["src", "."] if (root / "src").is_dir() else ["."]
    job = {
        "tests": None if tests is None else list(tests),
        "paths": paths,
        "trace": trace,
        "report": report,
        "order": order,
        "changes": dict(changes or {}),
    }
    return run_suite(root, environment, job, limits=limits)


def check_environment(environment: Path) -> None:
    """Raises SandboxError if it is no virtual environment with pytest."""
    if not (environment / "bin" / "python").exists() or not list(
        environment.glob("lib/python*/site-packages/pytest")
    ):
        raise SandboxError(
            f"{environment} is no virtual environment with pytest. Make one: `python -m venv FOLDER`, "
            "`FOLDER/bin/pip install pytest` and what the projects' tests need; then give --environment "
            "FOLDER."
        )


def _report_of(outcome: ProgramOutcome, root: Path, environment: Path) -> dict[str, Any]:
    """What `sandbox.suite` reported. Raises SandboxError if it did not."""
    try:
        found = json.loads(
            zlib.decompress(base64.b64decode(outcome.stdout.strip().rpartition("\n")[2], validate=True))
        )
        assert isinstance(found, dict)
        return found
    except (ValueError, zlib.error, AssertionError) as error:
        said = " ".join((outcome.stderr or outcome.stdout).split())[-300:]
        raise SandboxError(
            f"The tests of {root} could not be run by the pytest of {environment}: {outcome.ended}. {said}"
        ) from error


def _digest(root: Path) -> str:
    """Changes with the content of the project's files."""
    digest = hashlib.sha256()
    for path in sorted(root.rglob("*")):
        inside = path.relative_to(root)
        if not _NOT_READ.intersection(inside.parts) and path.is_file() and not path.is_symlink():
            content = hashlib.sha256(path.read_bytes()).digest()
            digest.update(inside.as_posix().encode("utf-8", "surrogateescape") + b"\0" + content)
    return digest.hexdigest()
