"""Runs chosen tests of a project with pytest: traced, to learn which tests reach a line, or to judge a line.

This text is run as a program (`python -c`) within the sandbox, by the Python of an environment with pytest.
It unpacks the project first, then it writes "begun". As in `harness`, neither an exit status nor output
proves that tests passed: the proof is a token, written back once each has. Standard library and pytest only.

Payload: a line of JSON, then the project as a tar archive. `tests`: node ids, or null for all that pytest
finds where the project says; `paths`, folders from which modules are imported. Where they are given: `trace`,
whether to trace; `order`, of the tests: 1 reversed, more shuffled; `changes`, new texts of files by name;
`report`, whether to write one, the last line of the output: JSON, compressed, in base64. Without one the run
ends at the first failure. The arguments are the numbers of the open files: payload, token, proof.
"""

from __future__ import annotations

import base64
import json
import os
import random
import sys
import tarfile
import threading
import time
import zlib

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import CodeType, FrameType
    from typing import Any

    Tracer = Callable[[FrameType, str, Any], Any]

# Lines of tests are not completed, so nobody asks which tests reach them.
TEST_FOLDERS = ("test", "tests")


def is_test(name: str) -> bool:
    """Whether a file is part of the tests, by its path in the project, with "/" between the parts."""
    *folders, file = name.split("/")
    return (
        any(folder in TEST_FOLDERS for folder in folders)
        or file == "conftest.py"
        or file.startswith(("test_", "tests."))
        or file.endswith("_test.py")
    )


class Lines:
    """The lines of the project's own files that were run since `clear`."""

    def __init__(self, root: str) -> None:
        self._root = root.rstrip("/") + "/"
        # By identity: code is compared, and hashed, by its content.
        self._tracers: dict[int, Tracer | None] = {}
        self._seen: list[tuple[CodeType, set[int]]] = []
        self._others: list[CodeType] = []

    def clear(self) -> None:
        for _, seen in self._seen:
            seen.clear()

    def found(self) -> dict[str, set[int]]:
        """The numbers of the lines by the file's path in the project."""
        lines: dict[str, set[int]] = {}
        for code, seen in self._seen:
            if seen:
                lines.setdefault(code.co_filename[len(self._root) :], set()).update(seen)
        return lines

    def trace(self, frame: FrameType, _event: str, _value: object) -> Tracer | None:
        """For `sys.settrace`."""
        code = frame.f_code
        try:
            return self._tracers[id(code)]
        except KeyError:
            return self._tracers.setdefault(id(code), self._tracer(code))

    def _tracer(self, code: CodeType) -> Tracer | None:
        name, seen = code.co_filename, set[int]()
        # All are kept, so that no other code gets the identity of one.
        if not name.startswith(self._root) or is_test(name[len(self._root) :]):
            self._others.append(code)
            return None
        self._seen.append((code, seen))

        def run(frame: FrameType, event: str, _value: object) -> Tracer:
            if event == "line":
                seen.add(frame.f_lineno)
            return run

        return run


class Tests:
    """A plugin of pytest: runs the wanted tests, and tells how they ended."""

    def __init__(self, wanted: list[str] | None, order: int, lines: Lines | None) -> None:
        self._wanted = None if wanted is None else set(wanted)
        self._order = order
        self._lines = lines
        self.left = set(wanted or ())
        self.passed: dict[str, bool] = {}
        self.seconds: dict[str, float] = {}
        self.covered: dict[str, dict[str, set[int]]] = {}

    def pytest_collection_modifyitems(self, config: Any, items: list[Any]) -> None:
        if self._wanted is not None:
            others = [item for item in items if item.nodeid not in self._wanted]
            items[:] = [item for item in items if item.nodeid in self._wanted]
            config.hook.pytest_deselected(items=others)
        if self._order == 1:
            items.reverse()
        elif self._order:
            random.Random(self._order).shuffle(items)

    def pytest_runtest_protocol(self, item: Any) -> Iterator[None]:
        started = time.perf_counter()
        if self._lines is None:
            yield
        else:
            self._lines.clear()
            threading.settrace(self._lines.trace)
            sys.settrace(self._lines.trace)
            try:
                yield
            finally:
                sys.settrace(None)
                threading.settrace(None)
            self.covered[item.nodeid] = self._lines.found()
        self.seconds[item.nodeid] = time.perf_counter() - started

    def pytest_runtest_logreport(self, report: Any) -> None:
        # A test that is skipped, or fails as it is expected to, says nothing about a line.
        passed = report.passed and not hasattr(report, "wasxfail")
        self.passed[report.nodeid] = self.passed.get(report.nodeid, True) and passed
        if report.when == "teardown" and self.passed[report.nodeid]:
            self.left.discard(report.nodeid)


def _report(tests: Tests, said: str) -> dict[str, Any]:
    """What the run has found. `lines`: by file and line the tests that run it, as numbers in `tests`."""
    lines: dict[str, dict[int, list[int]]] = {}
    for number, test in enumerate(tests.passed):
        for name, found in tests.covered.get(test, {}).items():
            of_file = lines.setdefault(name, {})
            for line in found:
                of_file.setdefault(line, []).append(number)
    ended = {name: (passed, round(tests.seconds.get(name, 0.0), 4)) for name, passed in tests.passed.items()}
    return {"tests": ended, "lines": lines, "said": said[-2000:]}


def _unpack(payload: int) -> Any:
    """The job. The project is the working folder then, with its changes."""
    os.mkdir("project")  # noqa: PTH102 - as `open` elsewhere here
    os.chdir("project")
    with os.fdopen(payload, "rb") as file:
        job = json.loads(file.readline())
        with tarfile.open(fileobj=file, mode="r|") as archive:
            # Younger versions would refuse links that lead out of the project. Here nothing is outside.
            archive.extraction_filter = lambda member, _path: member
            archive.extractall()
    for name, text in job.get("changes", {}).items():
        with open(name, "w", encoding="utf-8", errors="surrogatepass", newline="") as changed:  # noqa: PTH123
            changed.write(text)
    return job


def _main() -> None:
    # Local names: changes that the project or the line make to modules do not affect them.
    read, write, end = os.read, os.write, os._exit
    payload, token, proof = map(int, sys.argv[1:])
    token_in, proof_out, report_out = os.dup2(token, 200), os.dup2(proof, 201), os.dup2(1, 202)
    os.close(token)
    os.close(proof)
    job = _unpack(payload)
    root = os.path.realpath(os.curdir)
    paths = [f"{root}/{path}".removesuffix("/.") for path in job["paths"]]
    sys.argv[1:], sys.path[:1] = [], paths
    os.environ["PYTHONPATH"] = os.pathsep.join(paths)
    write(report_out, b"begun\n")
    import pytest

    said = os.memfd_create("said")
    for stream in (1, 2):
        os.dup2(said, stream)
    pytest.hookimpl(hookwrapper=True)(Tests.pytest_runtest_protocol)
    tests = Tests(job["tests"], job.get("order", 0), Lines(root) if job.get("trace") else None)
    # The project's own options may need plugins that are not here, and make errors of warnings about them.
    words = ["-q", "-p", "no:cacheprovider", "-o", "addopts=", "-o", "filterwarnings=default"]
    words.append(f"--rootdir={root}")
    words += ["--continue-on-collection-errors"] if job.get("report") else ["--maxfail=1"]
    files = sorted({name.partition("::")[0] for name in job["tests"] or ()})
    pytest.main([*words, *files], plugins=[tests])
    if job.get("report"):
        sys.stdout.flush()
        size = os.lseek(said, 0, os.SEEK_END)
        os.lseek(said, max(size - 4000, 0), os.SEEK_SET)
        told = _report(tests, read(said, 4000).decode("utf-8", "replace"))
        with open(report_out, "wb", closefd=False) as out:
            out.write(b"\n" + base64.b64encode(zlib.compress(json.dumps(told).encode())) + b"\n")
    if job["tests"] and not tests.left and all(tests.passed.values()):
        write(proof_out, read(token_in, 64))
    end(0)


if __name__ == "__main__":
    _main()
