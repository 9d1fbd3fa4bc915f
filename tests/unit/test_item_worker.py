"""Records of the real model hold what was asked for, and no more."""

from __future__ import annotations

import asyncio
import math
from pathlib import Path

import attrs
import pytest

from lsp_calib.completion.context import Cursor
from lsp_calib.completion.features import text_features
from lsp_calib.completion.prompt import Layout, LayoutChooser, WindowSize
from lsp_calib.confidence.features import probability_features
from lsp_calib.corpus.asking import AskingOptions, collect
from lsp_calib.corpus.item_worker import Answer, Completing
from lsp_calib.corpus.places import LineItem, Plain, Task, line_item_of, line_task, plain
from lsp_calib.corpus.rebuilding import recompute_features
from lsp_calib.corpus.records import FeatureList, Header, Record, read_records, write_records
from lsp_calib.inference.choice import EngineChoice
from lsp_calib.inference.engine import LoadedModel
from lsp_calib.inference.models.cards import ModelCard
from lsp_calib.values import Generation, ModelIdentity, Prompt, Stop, Timing, Token

CHOICE = EngineChoice(model="smollm2-135m", threads=1, linger=2.0)
SOURCE = """
def area_{n}(width, height):
    if width < {n} or height < 0:
        raise ValueError("no such rectangle")
    return width * height + {n}
"""


@pytest.fixture
def task(tmp_path: Path) -> Task:
    for n in range(8):
        (tmp_path / "project").mkdir(exist_ok=True)
        (tmp_path / "project" / f"file_{n}.py").write_text(SOURCE.format(n=n))
    whole = line_task([tmp_path / "project"], 20, seed=1)
    return attrs.evolve(whole, items=whole.items[:4])


@pytest.mark.model
@pytest.mark.usefixtures("home_with_model")
def test_what_follows_from_source_and_tokens_is_made_again_to_the_same_bytes(
    task: Task, tmp_path: Path
) -> None:
    path = tmp_path / "r.jsonl"
    collect(task, CHOICE, path, AskingOptions(seed=1, created="2026-01-02"))
    header, records = read_records(path)
    assert header.features == FeatureList.present()
    for record in records:
        assert len(record.tokens) == len(record.entropies)
        assert bool(record.features) == record.shown
        evidence = record.evidence(header)
        logprobs = probability_features(evidence.logprobs, record.entropies, Stop(record.stop))
        assert evidence.features.items() >= logprobs.items()
    bare = [attrs.evolve(record, features=(), features_above=()) for record in records]
    write_records(tmp_path / "again.jsonl", attrs.evolve(header, features=None), bare)
    assert recompute_features(tmp_path / "again.jsonl", tmp_path) == sum(record.shown for record in records)
    assert (tmp_path / "again.jsonl").read_bytes() == path.read_bytes()


class Host:
    """Passes for an engine that always gives the same answer."""

    def __init__(self, card: ModelCard, generation: Generation, *, has_labels: bool = False) -> None:
        self.card = card
        self.generation = generation
        self.layouts = LayoutChooser(lambda *_: has_labels)
        self.wait = asyncio.run

    def loaded(self) -> LoadedModel:
        return LoadedModel(ModelIdentity("m", "", ""), self.card, "xllamacpp 1.0")


async def answered(_: Completing, host: Host, payload: Plain) -> Answer:
    return Answer(Prompt((), line_item_of(payload).cursor.before, "v"), host.generation)


REPEATED = "return width * height + 7"
# An editor offers it as prose, without a probability.
DOCUMENTATION = '"""The area."""'


@pytest.mark.parametrize(
    ("generation", "shown"),
    [
        (Generation(REPEATED, (Token(1, -0.5, 0.0, REPEATED),), Stop.LINE, Timing()), True),
        (Generation(REPEATED, (Token(1, -0.5, 0.0, REPEATED),), Stop.LENGTH, Timing()), False),
        (Generation("", (Token(1, -0.5, 0.0, ""),), Stop.LINE, Timing()), False),
        (Generation(DOCUMENTATION, (Token(1, -0.5, 0.0, DOCUMENTATION),), Stop.LINE, Timing()), False),
    ],
    ids=["a line", "a line that does not end", "nothing", "documentation"],
)
def test_features_are_those_of_the_text_with_and_without_the_text_below(
    monkeypatch: pytest.MonkeyPatch, model_card: ModelCard, generation: Generation, shown: bool
) -> None:
    monkeypatch.setattr(Completing, "host", lambda _: Host(model_card, generation))
    monkeypatch.setattr(Completing, "ask", answered)
    lines = SOURCE.format(n=7).split("\n")
    cursor = Cursor.at([*lines[:2], "    ", *lines[2:]], 2, 4, "python")
    item = LineItem("p/a.py:3:5", "p", "after-indentation", cursor, "")
    ask = Completing(EngineChoice())
    record = Record.from_row(ask(plain(item))["record"])
    assert record.shown == shown
    assert record.added == len(generation.text)
    if not shown:
        assert record.features == record.features_above == ()
        return
    header = Header("line", "python", ask.answerer().model, "v", 0, features=ask.answerer().features)
    names = FeatureList.present().names
    above = attrs.evolve(cursor, lines=cursor.lines[:3])
    for evidence, expected in (
        (record.evidence(header), text_features(cursor, REPEATED)),
        (record.evidence(header, above=True), text_features(above, REPEATED)),
    ):
        found = {name: value for name, value in evidence.features.items() if name in names}
        assert found == pytest.approx(expected, abs=5.1e-5)
    assert record.evidence(header).features["line-repeats"] == pytest.approx(math.log1p(1), abs=1e-4)
    assert record.evidence(header, above=True).features["line-repeats"] == 0.0


@pytest.mark.parametrize(("has_labels", "window"), [(True, WindowSize.LARGE), (False, WindowSize.SMALL)])
def test_lines_are_asked_for_as_an_editor_would(
    monkeypatch: pytest.MonkeyPatch, home: Path, model_card: ModelCard, has_labels: bool, window: WindowSize
) -> None:
    """What the answerer says of its window is what the other workers are told to use."""
    assert home.is_dir()
    host = Host(model_card, Generation("", (), Stop.LINE, Timing()), has_labels=has_labels)
    monkeypatch.setattr(Completing, "host", lambda _: host)
    answerer = Completing(CHOICE).answerer()
    assert answerer.window is window
    assert answerer.prompt_version == Layout.of(model_card, window).version
