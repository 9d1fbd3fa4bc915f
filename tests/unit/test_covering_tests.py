"""Lines judged by their project's tests: which tests reach a line and count, what is right, what is told."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import attrs
import pytest
from click.testing import CliRunner

from lsp_calib.cli import main
from lsp_calib.completion.prompt import PLAIN_VERSION
from lsp_calib.corpus.asking import digest
from lsp_calib.corpus.places import Task, line_item_of
from lsp_calib.corpus.records import Record, read_records
from lsp_calib.corpus.source import project_names
from lsp_calib.errors import DataError, SandboxError
from lsp_calib.studies import covering_tests
from lsp_calib.studies.covering_tests import Project, judge, with_tests
from lsp_calib.studies.evaluate import cross_table
from lsp_calib.studies.page import repeat_studies
from lsp_calib.studies.sandbox.suite import is_test
from lsp_calib.studies.tasks import prefix_task

confined = pytest.mark.usefixtures("walls")
HERE = Path(sys.prefix)
SOURCE = '''"""Sizes."""

import os

UNIT = len(
    "x"
)


def area(width, height):
    """The area.

    Of a rectangle.
    """
    if width < 0:
        raise ValueError(width)
    product = sum(
        [width] * height,
    )
    result = product * UNIT
    return result


def untested(names):
    """Nobody calls it."""
    found = []
    for name in names:
        found.append(name)
    return found
'''
TESTS = """import pytest

from sizes import area

SEEN = []


def test_area():
    assert area(2, 3) == 6
    SEEN.append(1)


@pytest.mark.parametrize("side", [1, 4])
def test_square(side):
    assert area(side, side) == side * side


def test_after_the_others():
    assert area(1, 1) == 1
    assert SEEN


def test_wrong():
    assert area(1, 1) == 2


@pytest.mark.skip
def test_skipped():
    area(1, 1)


@pytest.mark.xfail(strict=False)
def test_expected_to_fail():
    assert area(0, 1) == 1


def test_negative():
    with pytest.raises(ValueError):
        area(-1, 1)
"""


def write(root: Path, source: str = SOURCE, tests: str = TESTS, name: str = "sizes") -> Path:
    (root / "src").mkdir(parents=True)
    (root / "tests").mkdir()
    (root / "src" / f"{name}.py").write_text(source)
    (root / "tests" / f"test_{name}.py").write_text(tests)
    return root


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory, walls: None) -> Project:  # noqa: ARG001
    folder = tmp_path_factory.mktemp("project")
    root = write(folder / "sizes-1.0")
    # Options of plugins that are not here, and warnings as errors: neither keeps tests from being run.
    (root / "pyproject.toml").write_text(
        '[tool.pytest.ini_options]\naddopts = "--cov=sizes"\nasyncio_mode = "auto"\n'
        'filterwarnings = ["error"]\ntestpaths = ["tests"]\n'
    )
    return Project(root, HERE, folder / "kept")


def line_of(text: str) -> int:
    return next(at for at, line in enumerate(SOURCE.splitlines(), 1) if text in line)


def names(tests: Iterable[str]) -> list[str]:
    return [test.partition("::")[2] for test in tests]


EVERY = ["test_after_the_others", "test_area", "test_square[1]", "test_square[4]"]


def test_which_tests_reach_a_line(project: Project) -> None:
    ends = project.suite["tests"].values()
    assert (len(ends), sum(passed for passed, _ in ends)) == (8, 5), (
        "neither skipped ones, nor failing ones, whether it is expected or not"
    )

    def reaching(text: str) -> list[str]:
        return names(project.reaching("src/sizes.py", line_of(text)))

    assert reaching("result = product") == EVERY
    assert reaching("if width < 0") == [*EVERY[:2], "test_negative", *EVERY[2:]]
    assert reaching("raise ValueError") == ["test_negative"]
    assert reaching("[width] * height,") == EVERY, "a line that continues a statement"
    assert reaching("found = []") == []
    assert reaching("UNIT = len(") == [], "what is run when the module is imported is reached by no test"
    assert project.reaching("src/other.py", 3) == []


def test_of_many_tests_some_are_drawn_always_the_same(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(covering_tests, "MOST_TESTS", 2)
    found = project.reaching("src/sizes.py", line_of("result = product"))
    assert len(found) == 2
    assert set(names(found)) < set(EVERY)
    assert project.reaching("src/sizes.py", line_of("result = product")) == found


def test_the_reference_is_run_three_times_and_what_depends_on_the_order_is_flaky(project: Project) -> None:
    told = project.reference([test for test in project.suite["tests"] if "skipped" not in test])
    assert dict(zip(names(told), (passes for passes, _ in told.values()), strict=True)) == {
        **dict.fromkeys(("test_area", "test_square[1]", "test_square[4]", "test_negative"), 3),
        "test_after_the_others": 1,
        **dict.fromkeys(("test_wrong", "test_expected_to_fail"), 0),
    }


def task_of(root: Path, samples: int = 40) -> Task:
    return prefix_task([root], samples, 0, skip=is_test)


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project of three files with 30 documented functions, of which 24 are tested."""
    root = tmp_path_factory.mktemp("many") / "many-1.0"
    write(root, "from a import *\nfrom b import *\nfrom c import *\n", "", "many")
    for at, name in enumerate("abc"):
        functions = [
            f'def add_{n}(left, right):\n    """Add the sum and {n}."""\n    total = left + right\n'
            f"    total = total + {n}\n    result = total\n    return result\n"
            for n in range(10 * at, 10 * at + 10)
        ]
        (root / "src" / f"{name}.py").write_text("\n\n".join(functions))
    tests = [f"def test_{n}():\n    assert many.add_{n}(1, 2) == 3 + {n}\n" for n in range(6, 30)]
    (root / "tests" / "test_many.py").write_text("import many\n\n\n" + "\n\n".join(tests))
    return root


def judged(many: Path, task: Task, said: list[str]) -> Task:
    roots = {group: path for path, group in project_names([many])}
    return with_tests(task, roots, HERE, many.parent / "kept", said.append)


@pytest.fixture(scope="module")
def lines(many: Path, walls: None) -> Task:  # noqa: ARG001
    return judged(many, task_of(many), [])


def test_lines_that_no_test_reaches_are_counted_and_left_out(
    many: Path, lines: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object, **__: object) -> None:
        raise AssertionError("what is kept is not run again")

    monkeypatch.setattr(covering_tests, "run_suite", refused)
    said: list[str] = []
    task = judged(many, task_of(many), said)
    assert task == lines
    assert (len(task.items), task.criteria) == (24, ("exact", "tests"))
    assert said == [
        "many-1.0: 24 of 24 tests pass; 24 of 30 lines are judged by them. In 3 runs of the reference 0 "
        "tests passed only sometimes and 0 never: these judge nothing.",
        "24 of 30 lines are judged by tests. Left out: 6 that no test reaches.",
    ]
    assert all(len(payload["suite"]["tests"]) == 1 for _, payload in task.items)
    _, payload = task.items[0]
    moved = {**payload, "project": "/elsewhere", "seconds": 9.0}
    others = {**payload, "suite": {**payload["suite"], "tests": ["tests/test_many.py::test_23"]}}
    assert digest(moved) == digest(payload) != digest(others), "other tests are another question"


@confined
def test_changed_source_is_traced_again(tmp_path: Path) -> None:
    root = write(tmp_path / "sizes-1.0")
    assert len(Project(root, HERE, tmp_path / "kept").suite["tests"]) == 8
    (root / "tests" / "test_sizes.py").write_text(
        "from sizes import area\n\ndef test_it():\n    area(1, 1)\n"
    )
    assert names(Project(root, HERE, tmp_path / "kept").suite["tests"]) == ["test_it"]


def test_a_line_is_right_if_the_tests_that_reach_it_pass(
    many: Path, lines: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(covering_tests, "_SPARE_CPU_S", 2)
    items = dict(lines.items)
    before = (many / "src" / "c.py").read_bytes()
    id_, payload = next(
        pair for pair in items.items() if "total = left" in pair[1]["target"] and "/c.py" in pair[0]
    )
    item = line_item_of(payload)

    def right(text: str) -> bool:
        return judge("tests", item, payload, text)

    assert right("    total = right + left")
    assert right("    total = right + left\n")
    assert not right("    total = left - right")
    assert not right("  total = left + right"), "exactly right but for its indentation"
    assert item.is_correct("  total = left + right")
    assert not right("    import os; os._exit(0)"), "an exit status proves nothing"
    assert not right("    import pytest; pytest.skip()"), "a test that is skipped has not passed"
    assert not right("    while True: pass"), "it ends at the limit of processor time"
    assert not right("")
    assert (many / "src" / "c.py").read_bytes() == before, "the project is never written"
    assert right(item.target)
    changed = {**payload, "suite": {**payload["suite"], "line": payload["suite"]["line"] + 1}}
    with pytest.raises(DataError, match="was changed during the run"):
        judge("tests", item, changed, "    total = 1")
    assert id_.startswith("many-1.0/src/c.py:")


def test_the_reference_itself_is_run_so_that_exact_alone_can_be_counted(
    many: Path, lines: Task, tmp_path: Path
) -> None:
    root = tmp_path / many.name
    shutil.copytree(many, root)
    _, payload = lines.items[0]
    payload = {**payload, "project": str(root)}
    item = line_item_of(payload)
    for test in (root / "tests").glob("test_*.py"):
        test.write_text(test.read_text().replace("assert ", "assert not "))
    assert judge("exact", item, payload, item.target)
    assert not judge("tests", item, payload, item.target)


class TestWhatIsRefused:
    @confined
    def test_a_project_without_tests(self, tmp_path: Path) -> None:
        root = write(tmp_path / "sizes-1.0", tests="")
        with pytest.raises(DataError, match=r"sizes-1.0 has no tests that the pytest of .* can run"):
            _ = Project(root, HERE, tmp_path / "kept").suite

    @confined
    def test_a_project_whose_tests_all_fail(self, tmp_path: Path) -> None:
        root = write(tmp_path / "sizes-1.0", tests="def test_it():\n    assert False\n")
        with pytest.raises(DataError, match=r"has 1 tests, but none passes"):
            _ = Project(root, HERE, tmp_path / "kept").suite
        assert not (tmp_path / "kept").exists()

    def test_an_environment_without_pytest(self, many: Path, tmp_path: Path) -> None:
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(tmp_path / "bare")], check=True)
        with pytest.raises(SandboxError, match=r"no virtual environment with pytest.*pip install pytest"):
            with_tests(task_of(many), {}, tmp_path / "bare", tmp_path, lambda _: None)

    @confined
    def test_too_few_lines_that_tests_reach(self, many: Path) -> None:
        few = attrs.evolve(task_of(many), items=task_of(many).items[:22])  # the first six are not tested
        with pytest.raises(DataError, match=r"Tests reach only 16 of 22 lines; at least 20 are needed"):
            judged(many, few, [])

    @pytest.mark.parametrize(
        ("options", "why"),
        [
            (["--environment", "."], "--environment is for --tests"),
            (["--tests", "--language", "java"], "the tests of Python projects"),
        ],
    )
    def test_options_that_do_not_go_together(
        self, tmp_path: Path, options: list[str], why: str, home: Path
    ) -> None:
        (tmp_path / "A.java").write_text("class A {\n" + "    int f() { return 1 + 2 + 3; }\n" * 40 + "}\n")
        result = CliRunner().invoke(
            main, ["eval", "line", str(tmp_path), *options, "--output", str(tmp_path / "out")]
        )
        assert result.exit_code != 0
        assert why in " ".join(result.output.split())
        assert home


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("tests/helper.py", True),
        ("src/pkg/test/a.py", True),
        ("test_a.py", True),
        ("pkg/a_test.py", True),
        ("conftest.py", True),
        ("pkg/testing.py", False),
        ("src/contest.py", False),
        ("src/attest_a.py", False),
    ],
)
def test_files_of_tests(name: str, expected: bool) -> None:
    assert is_test(name) == expected


def record(exact: bool, tests: bool) -> Record:
    return Record("p/a.py:1:1", "p", "line-start", {"exact": exact, "tests": tests}, True, "line", (), (), ())


def test_the_cross_table() -> None:
    counts = [record(True, True)] * 3 + [record(True, False)] + [record(False, True)] * 2
    assert cross_table(counts) == {"both": 3, "exact alone": 1, "tests alone": 2, "neither": 0}
    assert cross_table([attrs.evolve(one, correct={"exact": True}) for one in counts]) == {}


@pytest.mark.usefixtures("home_with_model", "walls")
class TestWithTheRealModel:
    def test_lines_are_completed_and_judged_twice(self, many: Path, tmp_path: Path) -> None:
        output = tmp_path / "output"
        command = ["eval", "line", str(many), "--tests", "--condition", "prefix", "--samples", "40"]
        command += ["--threads", "1", "--resamples", "20", "--quiet", "--output", str(output)]
        result = CliRunner().invoke(main, command)
        assert result.exit_code == 0, result.output
        assert "Exact match against tests" in result.output
        header, records = read_records(output / "records.jsonl")
        assert (header.task, header.prompt_version, len(records)) == ("line", PLAIN_VERSION, 24)
        assert all(set(record.correct) == {"exact", "tests"} for record in records)
        assert any(record.correct["tests"] for record in records)
        text = (output / "records.jsonl").read_text()
        assert not any(word in text for word in ("def ", "total", "left")), "no text is kept"
        before = text, (output / "scores.md").read_bytes()
        assert CliRunner().invoke(main, command).exit_code == 0
        assert ((output / "records.jsonl").read_text(), (output / "scores.md").read_bytes()) == before
        report = repeat_studies("spiess", output, None, lambda _: None)
        found = {(cell.answers.judge, cell.answers.condition) for cell in report.studies[0].cells}
        assert found == {("exact", "prefix"), ("tests", "prefix")}
