"""A calibrator of summaries from the user's own documented functions."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from test_eval_summary import HEADER, made_up

from lsp_calib.commands.calibrate import CalibrationOptions, fit_records
from lsp_calib.errors import DataError, SettingsError
from lsp_calib.evaluation.collect import AskingOptions
from lsp_calib.evaluation.summary_task import documented_task, summary_item_of

VERBS = ["open", "close", "read", "write", "count", "split", "merge", "sort", "check", "drop"]
NOUNS = ["file", "table", "socket", "graph"]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Forty functions with documentation, in methods as well, and one without."""
    folder = tmp_path / "project"
    folder.mkdir()
    for noun in NOUNS:
        parts = [f"class {noun.title()}:"]
        for verb in VERBS:
            parts += [
                f"    def {verb}_{noun}(self, value):",
                f'        """{verb.title()} the {noun} that was given.',
                "",
                '        More on it."""',
                f"        return self.{verb}(value, {noun!r}, {verb!r})",
                "",
            ]
        (folder / f"{noun}.py").write_text(
            "\n".join([*parts, "    def bare(self):", "        pass", ""]), "utf-8"
        )
    (folder / ".env").write_text("def secret():\n    '''Open the secret door.'''\n", "utf-8")
    return folder


def test_documented_functions_are_asked_for_without_their_documentation(project: Path) -> None:
    task = documented_task([project], 30, 0)
    assert (task.name, task.language) == ("summary", "python")
    items = [summary_item_of(payload) for _, payload in task.items]
    assert len({item.id for item in items}) == len(items) == 30
    for item in items:
        verb, noun = item.function.name.split("_")
        assert item.reference == f"{verb.title()} the {noun} that was given."
        assert item.id.startswith(f"project/{noun}.py:")
        assert "given" not in item.function.code
        assert item.examples
        for example in item.examples:
            assert example.name != item.function.name or example.path != item.path
            assert example.sentence.endswith("that was given.")
            assert "given" not in example.code


def test_examples_are_those_that_the_editor_would_show(tmp_path: Path) -> None:
    """Neither code that holds the function, whose text has its sentence, nor code that is too long."""
    lines = []
    for verb in VERBS:
        lines += [
            f"def {verb}_all(values):",
            f'    """{verb.title()} all of the values."""',
            f"    def {verb}_one(value, values):",
            f'        """{verb.title()} one of the values in turn."""',
            f"        return {verb}(value, values, {verb!r})",
            f"    return [{verb}_one(value, values) for value in values]",
            "",
        ]
    lines += ["def long(values):", '    """Open all of the values, at length."""']
    lines += [f"    {verb}_one(value, values)" for verb in VERBS for _ in range(10)]
    lines += ["def prose(values):", f'    """Open {"all and " * 20}the values."""', "    open_one(values, 1)"]
    (tmp_path / "a.py").write_text("\n".join([*lines, ""]), "utf-8")
    items = [summary_item_of(payload) for _, payload in documented_task([tmp_path], 40, 0).items]
    assert {"long", "prose", "open_all", "open_one"} <= {item.function.name for item in items}
    assert any("_one" in example.name for item in items for example in item.examples)
    for item in items:
        assert item.examples
        for example in item.examples:
            assert item.reference not in example.code
            assert example.name.partition("_")[0] != item.function.name.partition("_")[0]
            assert example.name not in ("long", "prose")


def test_the_draw_is_the_same_again_and_another_with_another_seed(project: Path) -> None:
    ids = [tuple(id_ for id_, _ in documented_task([project], 20, seed).items) for seed in (0, 0, 1)]
    assert ids[0] == ids[1] != ids[2]


def test_too_few_are_said(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text('def f(x):\n    """Return the value of x."""\n    return x\n', "utf-8")
    with pytest.raises(DataError, match="Only 1 functions of Python"):
        documented_task([tmp_path], 30, 0)
    with pytest.raises(SettingsError, match="cannot be read"):
        documented_task([tmp_path], 30, 0, "cobol")


def test_records_of_summaries_make_a_calibrator_of_summaries() -> None:
    records = made_up()
    calibrator = fit_records(HEADER, records, shipped=True, created="2026-11-22")
    right = [record.correct["most-agree"] for record in records if record.shown and record.logprobs]
    assert calibrator.purpose.task == "summary"
    assert calibrator.purpose.prompt_version == HEADER.prompt_version
    assert (calibrator.n, calibrator.n_correct) == (len(right), int(np.count_nonzero(right)))
    assert calibrator.ranks == ()
    assert calibrator.curve("total") is not None


@pytest.mark.parametrize("option", ["no_suffix", "observe"])
def test_what_is_for_lines_is_refused(project: Path, option: str) -> None:
    observe = frozenset({"margin"} if option == "observe" else ())
    asking = AskingOptions(say=lambda _: None, observe=observe)
    with pytest.raises(SettingsError, match="are for lines"):
        CalibrationOptions(
            asking=asking, paths=(project,), task="summary", no_suffix=3 if option == "no_suffix" else 0
        )
