"""The tests of a project that reach a line: found by a traced run, tried on the reference, run on answers."""

from __future__ import annotations

import ast
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
from lsp_calib.studies.sandbox.bwrap import SUITE_LIMITS, run_suite

REFERENCE_RUNS = 3
MOST_TESTS = 50
"""Of the tests that reach a line so many are run, drawn at random: a suite takes long."""

_VERSION = 2
# Of a whole suite, traced or on the reference.
_WHOLE = attrs.evolve(SUITE_LIMITS, wall_s=1800.0, cpu_s=1800, output=256 << 20, output_total=256 << 20)
# On an answer, which may loop for ever, tests may take so many times as long, and some seconds to start. The
# processor time decides: a busy machine takes longer.
_LONGER, _SPARE_CPU_S, _SPARE_WALL_S = 5.0, 10, 60.0
_NOT_READ = {".git", ".hg", ".venv", "node_modules", "__pycache__"}

Say = Callable[[str], None]


def statements(path: Path) -> dict[int, int]:
    """The first line of the statement that a line continues; lines that begin one, or are of none, are left
    out. Of a compound statement its header counts."""
    first: dict[int, int] = {}
    try:
        nodes = ast.walk(ast.parse(read_file(path)))
    except (OSError, ValueError, SyntaxError, RecursionError):
        return first
    for node in nodes:
        if isinstance(node, ast.stmt):
            body = getattr(node, "body", None)
            end = body[0].lineno - 1 if isinstance(body, list) and body else node.end_lineno or node.lineno
            first |= dict.fromkeys(range(node.lineno + 1, end + 1), node.lineno)
    return first


class Project:
    """A project whose tests are run in the sandbox, by the pytest of a virtual environment.

    kept: a folder for what is found out; it counts as long as source and environment are the same.
    """

    def __init__(self, root: Path, environment: Path, kept: Path) -> None:
        self.root, self.environment = root, environment
        self._kept = kept
        self._state = {"version": _VERSION, "source": _digest(root), "environment": str(environment)}

    @cached_property
    def suite(self) -> Mapping[str, Any]:
        """One traced run of all tests: `tests`, by node id whether each passed and its seconds, and `lines`,
        by file and line the tests that run it, as numbers.

        Raises DataError if there are no tests or none passes, SandboxError if they cannot be run.
        """
        found = self._read("suite")
        if "tests" not in found:
            found = self._told(None, trace=True)
            if not any(passed for passed, _ in found["tests"].values()):
                last = " ".join(found["said"].split())[-300:]
                count = len(found["tests"])
                what = f"has {count} tests, but none passes" if count else "has no tests"
                raise DataError(
                    f"{self.root} {what} that the pytest of {self.environment} can run; it ended with: "
                    f"{last or 'nothing'}. Name projects with their tests (`data pull projects-tested`), and "
                    "install what these need in the environment."
                )
            self._write("suite", found)
        return found

    def reaching(self, name: str, line: int) -> list[str]:
        """The tests that passed and reach a line, at most MOST_TESTS of them. line: its number, from 1.

        A test reaches all lines of a statement.
        """
        first, tests = statements(self.root / name), list(self.suite["tests"].items())
        numbers = {
            number
            for other, reached in self.suite["lines"].get(name, {}).items()
            if first.get(int(other), int(other)) == first.get(line, line)
            for number in reached
        }
        found = sorted(test for test, (passed, _) in (tests[at] for at in numbers) if passed)
        if len(found) > MOST_TESTS:
            found = sorted(random.Random(f"{name}:{line}").sample(found, MOST_TESTS))
        return found

    def reference(self, tests: Sequence[str]) -> dict[str, tuple[int, float]]:
        """How tests end on the project as it is, run three times: in their order, in reverse, and shuffled.

        Of each how often it passes, and the most seconds that it took. Raises SandboxError if they cannot be
        run.
        """
        found = self._read("reference")
        if found.get("tests") != list(tests):
            runs = [self._told(tests, order=order)["tests"] for order in range(REFERENCE_RUNS)]
            ends = [[run.get(one, (False, 0.0)) for run in runs] for one in tests]
            passes = [sum(passed for passed, _ in end) for end in ends]
            seconds = [max(took for _, took in end) for end in ends]
            found = {"tests": list(tests), "passes": passes, "seconds": seconds}
            self._write("reference", found)
        ended = zip(found["passes"], found["seconds"], strict=True)
        return dict(zip(found["tests"], ended, strict=True))

    def _told(self, tests: Sequence[str] | None, **options: object) -> dict[str, Any]:
        """The report of a run of tests, all if None. Raises SandboxError if there is none."""
        job = {**_job(self.root, tests), "report": True, **options}
        outcome = run_suite(self.root, self.environment, job, limits=_WHOLE)
        last = outcome.stdout.strip().rpartition("\n")[2]
        try:
            told: dict[str, Any] = json.loads(zlib.decompress(base64.b64decode(last, validate=True)))
        except (ValueError, zlib.error) as error:
            said = " ".join((outcome.stderr or outcome.stdout).split())[-300:]
            raise SandboxError(
                f"The tests of {self.root} did not end under the pytest of {self.environment}: "
                f"{outcome.ended}. {said}"
            ) from error
        return told

    def _file(self, what: str) -> Path:
        return self._kept / f"{self.root.name}.{what}.json"

    def _read(self, what: str) -> dict[str, Any]:
        """What is kept, if it is of the same source and environment."""
        try:
            found = parse_json(read_file(self._file(what)))
        except (OSError, ValueError):
            return {}
        return found if isinstance(found, dict) and self._state.items() <= found.items() else {}

    def _write(self, what: str, found: Mapping[str, Any]) -> None:
        self._kept.mkdir(parents=True, exist_ok=True)
        replace_file(self._file(what), json.dumps({**found, **self._state}, separators=(",", ":")) + "\n")


def _job(root: Path, tests: Sequence[str] | None) -> dict[str, Any]:
    """What `sandbox.suite` is asked for."""
    # A package in `src` is imported from there, even where the environment has a version of it installed.
    paths = ["src", "."] if (root / "src").is_dir() else ["."]
    return {"tests": None if tests is None else list(tests), "paths": paths}


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
    if not (environment / "bin" / "python").exists() or not list(
        environment.glob("lib/python*/site-packages/pytest")
    ):
        raise SandboxError(
            f"{environment} is no virtual environment with pytest. Make one: `python -m venv FOLDER`, "
            "`FOLDER/bin/pip install pytest` and what the projects' tests need; then give --environment "
            "FOLDER."
        )
    judged: dict[str, Plain] = {}
    counts = Counter[str]()
    for at, (group, root) in enumerate(roots.items()):
        on_progress(at, len(roots))
        project, before = Project(root, environment, kept), len(judged)
        # Of an item its file and line.
        places = [
            (id_, *id_.removeprefix(f"{group}/").rsplit(":", 2)[:2])
            for id_, payload in task.items
            if payload["group"] == group
        ]
        reaching = {
            (id_, name, int(line)): tests
            for id_, name, line in places
            if (tests := project.reaching(name, int(line)))
        }
        union = sorted(set[str]().union(*reaching.values()))
        ends = project.reference(union) if union else {}
        seconds = {test: took for test, (passes, took) in ends.items() if passes == REFERENCE_RUNS}
        for (id_, name, line), tests in reaching.items():
            if chosen := [one for one in tests if one in seconds]:
                judged[id_] = {
                    "suite": {"file": name, "line": line - 1, "tests": chosen},
                    "project": str(root),
                    "environment": str(environment),
                    "seconds": sum(seconds[one] for one in chosen),
                }
        left = len(judged) - before
        counts["that no test reaches"] += len(places) - len(reaching)
        counts["whose tests do not pass each time"] += len(reaching) - left
        passing = [passed for passed, _ in project.suite["tests"].values()]
        never = sum(not passes for passes, _ in ends.values())
        say(
            f"{group}: {sum(passing)} of {len(passing)} tests pass; {left} of {len(places)} lines are judged "
            f"by them. In {REFERENCE_RUNS} runs of the reference {len(ends) - len(seconds) - never} tests "
            f"passed only sometimes and {never} never: these judge nothing."
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


def judge(name: str, item: LineItem, payload: Plain, text: str) -> bool:
    """The `corpus.places.Judge` of the lines that `with_tests` made.

    The line of the reference is run like any other: that a project's own line passes is found, not assumed.
    Raises DataError if the source has changed, SandboxError if the tests cannot be run.
    """
    if not text or name == "exact":
        return exactly(name, item, payload, text)
    suite, root = payload["suite"], Path(payload["project"])
    lines = list(read_lines_of(root / suite["file"], "python"))
    before, at = item.cursor.before, suite["line"]
    if at >= len(lines) or lines[at] != before + item.target:
        raise DataError(f"{root / suite['file']} was changed during the run: run the same command again.")
    lines[at] = before + text.rstrip("\r\n")
    most = _LONGER * payload["seconds"]
    return run_suite(
        root,
        Path(payload["environment"]),
        {**_job(root, suite["tests"]), "changes": {suite["file"]: "\n".join(lines)}},
        limits=attrs.evolve(SUITE_LIMITS, wall_s=most + _SPARE_WALL_S, cpu_s=int(most) + _SPARE_CPU_S),
    ).proved


def _digest(root: Path) -> str:
    """Changes with the content of the project's files."""
    digest = hashlib.sha256()
    for path in sorted(root.rglob("*")):
        inside = path.relative_to(root)
        if not _NOT_READ.intersection(inside.parts) and path.is_file() and not path.is_symlink():
            content = hashlib.sha256(path.read_bytes()).digest()
            digest.update(inside.as_posix().encode("utf-8", "surrogateescape") + b"\0" + content)
    return digest.hexdigest()
