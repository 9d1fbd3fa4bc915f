"""The tasks of the studies: what models are asked, how answers are judged, and runs of the real model."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import attrs
import pytest
from click.testing import CliRunner, Result
from marks import repetitions
from test_study_tasks import SQUARE, projects

from lsp_calib.calibration.calibrators.purpose import Origin
from lsp_calib.cli import main
from lsp_calib.completion.prompt import PLAIN_VERSION, Layout, build_prompt
from lsp_calib.corpus import item_worker
from lsp_calib.corpus.item_worker import Answer
from lsp_calib.corpus.places import line_item_of
from lsp_calib.corpus.records import Header, Record, read_records, write_records
from lsp_calib.inference.choice import EngineChoice
from lsp_calib.inference.engine import LoadedModel, Request
from lsp_calib.inference.models.cards import load_cards
from lsp_calib.studies.ask import REFLECTED, Reflected, Studying
from lsp_calib.studies.page import repeat_studies
from lsp_calib.studies.score import find_files, largest
from lsp_calib.studies.tasks import (
    repair_task,
)
from lsp_calib.values import (
    Generation,
    ModelIdentity,
    Observation,
    Prompt,
    Segment,
    Stop,
    Timing,
    Token,
)


@pytest.mark.parametrize("name", ["smollm2-135m", "qwen2.5-coder-1.5b"])
def test_any_model_sees_the_text_above_alone(name: str) -> None:
    item = line_item_of(SQUARE.payload())
    prompt = build_prompt(item.cursor, Layout.plain(load_cards()[name]))
    ((kind, text),) = prompt.segments
    assert (kind, text + prompt.forced, prompt.version) == (Segment.TEXT, SQUARE.before, PLAIN_VERSION)
    # Tokenisers like GPT-2's join a line's end to the indentation after it.
    assert prompt.forced == ("\n" if name == "smollm2-135m" else "")


@pytest.mark.parametrize(("name", "count"), [("defects4j", 138), ("manysstubs4j", 30)])
def test_a_bug_is_shown_above_its_place_and_its_repetition_is_told(
    data: Path, monkeypatch: pytest.MonkeyPatch, name: str, count: int
) -> None:
    task = repair_task(name, data, None if count == 138 else count, 1)
    assert (len(task.items), task.language, task.sources[0].name) == (count, "java", name)
    (_, payload) = task.items[5]
    item = line_item_of(payload)
    ((_, text),) = build_prompt(item.cursor, Layout.plain(load_cards()["qwen2.5-coder-1.5b"])).segments
    *_, shown, last = text.rstrip("\n").split("\n")
    assert (shown.strip(), last.strip()) == (f"// Buggy line: {payload['buggy'].strip()}", "// Fixed line:")
    for answer, verdicts in (
        (item.target, (True, False)),
        (payload["buggy"], (False, True)),
        ("x", (False, False)),
    ):
        host = Host(Generation(answer, (Token(1, -0.5, 0.0, answer),), Stop.LINE, Timing()))
        monkeypatch.setattr(Studying, "host", lambda _, host=host: host)
        monkeypatch.setattr(Studying, "ask", answered)
        record = Record.from_row(Studying(EngineChoice())(payload)["record"])
        assert (record.correct["exact"], record.repeats_bug) == verdicts
        assert Record.from_row(record.to_row()) == record


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (("--no-docstrings",), "--no-docstrings is for --condition prefix"),
        (("--condition", "prefix", "--no-suffix", "5"), "--no-suffix cannot be had"),
        (("--observe", "ask"), "--observe is for --condition prefix"),
    ],
)
def test_options_of_the_other_condition_are_refused(
    tmp_path: Path, options: tuple[str, ...], complaint: str
) -> None:
    result = CliRunner().invoke(main, ["eval", "line", str(tmp_path), *options])
    assert result.exit_code != 0
    assert complaint in " ".join(result.output.split())


class Host:
    """Passes for an engine that always gives the same answer."""

    def __init__(self, generation: Generation) -> None:
        self.generation = generation
        self.wait = asyncio.run


async def answered(_: Studying, host: Host, *__: object) -> Answer:
    return Answer(Prompt((), "", PLAIN_VERSION), host.generation)


def test_data_sets_and_conditions_are_questions_of_their_own(tmp_path: Path) -> None:
    model = ModelIdentity("m", "Q4", "0" * 64)

    def write(
        name: str, task: str, count: int, condition: str = "inserting", source: str = "", **more: Any
    ) -> None:
        header = Header(
            task, "python", model, PLAIN_VERSION, 0, (Origin(source, "", count),) if source else ()
        )
        record = Record("p/f:1:1", "p", "line-start", {"exact": True}, True, "line", (1,), (-0.5,), (0.0,))
        correct = more.get("judged", record.correct)
        record = attrs.evolve(record, condition=condition, correct=correct)
        write_records(tmp_path / f"{name}.jsonl", header, [record] * count)

    write("humaneval", "synthesis", 2, source="humaneval")
    write("mbpp", "synthesis", 3, source="mbpp")
    write("prefix", "line", 2, "prefix")
    write("prefix-less", "line", 1, "prefix")
    write("without", "line", 3, "no-docstring")
    write("tested", "line", 1, "prefix", judged={"exact": True, "tests": True})
    kept = [file.path.stem for file in largest(find_files(tmp_path))]
    assert kept == ["humaneval", "mbpp", "prefix", "tested", "without"]


class Answering:
    """An engine that writes a body, says that it is right, and how likely that is in a second try."""

    def __init__(self) -> None:
        self.asked: list[Request] = []

    async def ready(self) -> LoadedModel:
        card = load_cards()["qwen2.5-coder-1.5b"]
        return LoadedModel(ModelIdentity("m", "", ""), card, "llama-cpp-python 0.0")

    async def generate(self, request: Request) -> Generation:
        self.asked.append(request)
        seen = Observation(words=(-0.25, -1.5), likeliest=(("True", -0.25), ("False", -1.5)))
        if request.words:
            return Generation("True", (Token(1, -0.25, 0.0, "True", seen=seen),), Stop.LENGTH, Timing())
        if request.sampling is not None:
            text = "Quite." if request.sampling.seed == 0 else "80%"
            return Generation(text, (Token(1, -0.5, 0.0, text),), Stop.END_OF_TEXT, Timing())
        return Generation(SQUARE.missing, (Token(1, -0.5, 0.0, SQUARE.missing),), Stop.FUNCTION, Timing())

    async def close(self) -> None:
        return


def test_a_model_is_asked_about_its_answer_and_shown_no_test(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = Answering()
    monkeypatch.setattr(item_worker, "open_engine", lambda _: engine)
    host = item_worker.EngineHost(EngineChoice())
    monkeypatch.setattr(Studying, "host", lambda _: host)
    ask = Studying(
        EngineChoice(),
        criteria=("exact",),
        observe=frozenset(Reflected),
    )
    try:
        record = Record.from_row(ask(SQUARE.payload())["record"])
        assert ask.answerer().observations == REFLECTED
    finally:
        host.close()
    seen = REFLECTED.named(record.observed)
    assert (seen["ask.true"], seen["ask.contained-false"]) == (-0.25, -1.5)
    assert (seen["verbalised.confidence"], seen["verbalised.answers"]) == (0.8, 2.0)
    body, *questions = engine.asked
    assert (body.function, body.max_tokens, body.one_line, body.reuse) == (0, 500, False, False)
    assert [request.reuse for request in questions] == [False, True, True]
    for request in questions:
        text = "".join(part for _, part in request.prompt.segments)
        assert (SQUARE.before + SQUARE.missing).rstrip() in text
        assert "assert" not in text


def invoke(*arguments: str) -> Result:
    result = CliRunner().invoke(main, ["eval", *arguments], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result


@pytest.mark.model
@pytest.mark.usefixtures("walls", "home_with_model")
class TestWithTheRealModel:
    @pytest.mark.parametrize("name", ["humaneval", "mbpp"])
    def test_functions_are_written_up_to_their_end(self, data: Path, tmp_path: Path, name: str) -> None:
        wanted = ("--samples", "20", "--threads", "1", "--quiet", "--resamples", "20", "--output")
        result = invoke("synthesis", "--set", name, *wanted, str(tmp_path))
        path = tmp_path / "records.jsonl"
        header, records = read_records(path)
        assert (header.task, header.prompt_version) == ("synthesis", PLAIN_VERSION)
        assert [source.name for source in header.sources] == [name]
        # Of MBPP those are left out whose reference fails.
        assert len(records) == 20 or (name == "mbpp" and len(records) >= 18)
        assert {"function"} <= {record.stop for record in records} <= {"function", "endOfText", "length"}
        assert sum(record.stop == "function" for record in records) >= 15
        assert all(set(record.correct) == {"tests"} for record in records)
        assert sum(bool(record.characters) for record in records) >= 15
        assert "def " not in path.read_text(), "no text is kept"
        before = path.read_bytes()
        again = invoke("synthesis", "--set", name, *wanted, str(tmp_path))
        assert (path.read_bytes(), again.exit_code) == (before, result.exit_code), "nothing is asked twice"
        assert data

    def test_the_model_is_asked_about_the_lines_it_has_written(self, tmp_path: Path) -> None:
        paths = projects(tmp_path, 8)
        output = tmp_path / "output"
        wanted = (
            "--samples",
            "20",
            "--threads",
            "1",
            "--quiet",
            "--resamples",
            "20",
            "--output",
            str(output),
        )
        observed = ("--condition", "prefix", "--observe", "ask,verbalised")
        result = CliRunner().invoke(main, ["eval", "line", *map(str, paths), *observed, *wanted])
        # Few answers of so small a model are right: then there is nothing to score, and the records stay.
        assert result.exit_code == 0 or "there is nothing to tell apart" in result.output, result.output
        header, records = read_records(output / "records.jsonl")
        assert (header.task, header.prompt_version, len(records)) == ("line", PLAIN_VERSION, 21)
        assert header.observations is not None
        assert [name for name, _ in header.observations.names] == ["ask", "verbalised"]
        shown = [record for record in records if record.shown]
        assert len(shown) >= 15
        for record in shown:
            seen = header.observations.named(record.observed)
            assert seen["ask.true"] < 0.0
            assert 0.0 <= seen["verbalised.confidence"] <= 1.0
            assert record.costs["ask"][2] == 2
            assert record.condition == "prefix"
        (cell,) = repeat_studies("spiess", output, None, lambda _: None).studies[0].cells
        assert (cell.answers.condition, cell.answers.profile) == ("prefix", "paper")

    @pytest.mark.parametrize("name", ["defects4j", "sstubs"][: repetitions(thorough=2, long=1)])
    def test_repetitions_of_bugs_are_counted(self, data: Path, tmp_path: Path, name: str) -> None:
        wanted = ("--samples", "20", "--threads", "1", "--quiet", "--resamples", "20", "--output")
        result = invoke("repair", "--set", name, *wanted, str(tmp_path))
        header, records = read_records(tmp_path / "records.jsonl")
        assert (header.task, header.language, len(records)) == ("repair", "java", 20)
        assert all(record.repeats_bug is not None and record.stop != "function" for record in records)
        repeats = sum(bool(record.repeats_bug) for record in records)
        assert f"{repeats} of 20 answers are the buggy line again." in " ".join(result.output.split())
        assert data
