"""Summaries are judged by documentation that is hidden, in `eval summary` and in the user's own source."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
from pathlib import Path
from typing import Any

import attrs
import numpy as np
import pytest
from click.testing import CliRunner, Result
from encoder_scene import CARD, install, needs_encoder
from openai_server import END, Tok, serving

from lsp_calib.calibration.calibrators.purpose import SUMMARY_CRITERIA
from lsp_calib.cli import main
from lsp_calib.commands.calibrate import CalibrationOptions, fit_records
from lsp_calib.corpus import item_worker
from lsp_calib.corpus.asking import AskingOptions, collect
from lsp_calib.corpus.functions import (
    SUMMARY,
    documented_task,
    function_of,
    is_usable,
    summary_item_of,
)
from lsp_calib.corpus.item_worker import (
    OBSERVED,
    Answerer,
    EngineHost,
    Summarising,
    prompt_hash,
    sentence_of,
    tokens_of,
)
from lsp_calib.corpus.places import Task
from lsp_calib.corpus.records import Header, Record, SimilarityList, read_records, write_records
from lsp_calib.corpus.thresholds import NAMES, VERSION, shared_encoder, similarities
from lsp_calib.errors import DataError, NoModelError, SettingsError
from lsp_calib.inference.choice import EngineChoice
from lsp_calib.inference.engine import LoadedModel, Request
from lsp_calib.inference.models.cards import ModelCard
from lsp_calib.studies.tasks import reference_of, summary_task
from lsp_calib.summarization import prompt as prompts
from lsp_calib.summarization.features import TokenStates, plain_words
from lsp_calib.summarization.service import MOST_TOKENS
from lsp_calib.values import Generation, ModelIdentity, Stop, Timing, Token

DATA = os.environ.get("LSP_CALIB_DATA")
needs_data = pytest.mark.skipif(DATA is None, reason="LSP_CALIB_DATA does not say where the data are")
LISTED = SimilarityList(VERSION, CARD.name, CARD.sha256, NAMES)
PAYLOAD = {
    "item": "me/project/a.py:area",
    "group": "me/project",
    "path": "a.py",
    "language": "python",
    "code": '''
def area(r):
    """Compute the area of a SECRET circle.

    More.
    """
    return 3.14 * r * r
''',
    "reference": "Compute the area of a SECRET circle.",
}


class WordEncoder:
    """Passes for the encoder: a word has the same state everywhere, and words have nothing in common."""

    card = CARD

    def encode(self, text: str) -> TokenStates:
        seeds = [int(hashlib.sha256(word.encode()).hexdigest()[:8], 16) for word in plain_words(text).split()]
        rows = [np.random.default_rng(seed).normal(size=64) for seed in seeds]
        return TokenStates(np.array(rows).reshape(-1, 64), np.zeros(len(rows), dtype=np.bool_))


@pytest.fixture
def words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(item_worker, "shared_encoder", WordEncoder)


class Engine:
    """Gives one answer, and keeps what it was asked."""

    def __init__(self, card: ModelCard, generation: Generation) -> None:
        self.card, self.generation = card, generation
        self.asked: list[Request] = []

    async def ready(self) -> LoadedModel:
        return LoadedModel(ModelIdentity("m", "Q4", "0" * 64), self.card)

    async def generate(self, request: Request) -> Generation:
        self.asked.append(request)
        return self.generation

    async def close(self) -> None: ...


def answering(
    monkeypatch: pytest.MonkeyPatch, card: ModelCard, text: str, stop: Stop = Stop.LINE, doubt: str = ""
) -> Engine:
    tokens = tuple(Token(n, -0.5 - n, 0.0, piece) for n, piece in enumerate(text.split()))
    engine = Engine(card, Generation(text, tokens, stop, Timing(), doubt=doubt))
    host = EngineHost.__new__(EngineHost)
    host.engine = engine  # type: ignore[assignment]
    host.wait = asyncio.run  # type: ignore[assignment]
    monkeypatch.setattr(Summarising, "host", lambda _: host)
    return engine


def record_of(ask: Summarising, payload: dict[str, Any] = PAYLOAD) -> Record:
    return Record.from_row(json.loads(json.dumps(ask(payload)["record"])))


@pytest.mark.parametrize(
    ("documentation", "sentence"),
    [
        ("Close the file.", "Close the file."),
        ("Close the file. It is gone then.", "Close the file."),
        ("Close\n    the file\n\n    and more.", "Close the file"),
        ("Returns the {@link Foo#bar}, or {@code null}.\n@param x y", "Returns the Foo#bar, or null."),
        ("<b>Sets</b> it.<p>Then", "Sets it."),
        ("Sorts <p>\nmore", "Sorts"),
        ("Get :class:`~a.Foo` of it\n:param x: y", "Get ~a.Foo of it"),
        ("Adds a and b\n\nArgs:\n  a: one", "Adds a and b"),
        ("Adds a\nReturns:\n  the sum", "Adds a"),
        ("Parses it\n----\nx", "Parses it"),
        ("@return the size", ""),
        (":param x: y", ""),
        ("", ""),
    ],
)
def test_the_reference_is_the_first_sentence_without_markup(documentation: str, sentence: str) -> None:
    assert reference_of(documentation) == sentence


def test_what_says_nothing_or_holds_no_function_is_left_out() -> None:
    assert is_usable(PAYLOAD)
    assert not is_usable({**PAYLOAD, "reference": "Accept request."})
    assert not is_usable({**PAYLOAD, "code": "x = 1"})


@pytest.mark.usefixtures("words")
def test_the_prompt_is_the_editors_and_the_documentation_is_hidden(
    monkeypatch: pytest.MonkeyPatch, model_card: ModelCard
) -> None:
    engine = answering(monkeypatch, model_card, "Compute the area.")
    record = record_of(Summarising(EngineChoice()))
    (request,) = engine.asked
    function = function_of(PAYLOAD["code"], "python")
    asked = prompts.build_prompt(function, "python", model_card.chat, model_card.window)
    assert request.prompt == asked
    assert (request.max_tokens, request.reuse) == (MOST_TOKENS, False)
    shown = "".join(text for _, text in request.prompt.segments)
    assert "3.14 * r * r" in shown
    assert "SECRET" not in shown
    assert record.prompt == prompt_hash(request.prompt)


@pytest.mark.usefixtures("words")
def test_a_record_holds_numbers_and_no_text(monkeypatch: pytest.MonkeyPatch, model_card: ModelCard) -> None:
    answering(monkeypatch, model_card, "Compute the area of a SECRET circle. And more.")
    result = Summarising(EngineChoice())(PAYLOAD)
    assert "SECRET" not in json.dumps(result)
    record = Record.from_row(result["record"])
    assert record.similarity == (1.0,) * len(NAMES), "of the first sentence, as the editor shows it"
    assert record.correct == dict.fromkeys(SUMMARY_CRITERIA, True)
    assert record.shown
    assert record.logprobs[:2] == (-0.5, -1.5)
    answering(monkeypatch, model_card, "Opens the door to nowhere.")
    other = record_of(Summarising(EngineChoice()))
    assert other.correct == dict.fromkeys(SUMMARY_CRITERIA, False)
    expected = similarities(WordEncoder(), "Opens the door to nowhere.", PAYLOAD["reference"])
    assert dict(zip(NAMES, other.similarity, strict=True)) == expected


@pytest.mark.parametrize(
    ("pieces", "stop", "expected"),
    [
        (["Draw", " it", "."], Stop.LINE, None),
        (["Draw", " it", ". ", "And", " more", "."], Stop.LINE, 3),
        (["Draw", " it. And", " more."], Stop.LINE, 2),
        (["Draw", " it"], Stop.LINE, None),
        (["Draw", " it", " al"], Stop.LENGTH, 2),
        (["\n", "!"], Stop.LINE, None),
    ],
)
def test_the_judged_tokens_are_those_of_the_first_sentence(
    pieces: list[str], stop: Stop, expected: int | None
) -> None:
    tokens = tuple(Token(n, -0.5, 0.0, piece) for n, piece in enumerate(pieces))
    generation = Generation("".join(pieces), tokens, stop, Timing())
    assert tokens_of(sentence_of(generation), generation) == expected


@pytest.mark.usefixtures("words")
def test_no_summary_is_never_right_and_doubt_leaves_no_probabilities(
    monkeypatch: pytest.MonkeyPatch, model_card: ModelCard
) -> None:
    answering(monkeypatch, model_card, "  ", Stop.END_OF_TEXT)
    empty = record_of(Summarising(EngineChoice()))
    assert (empty.shown, empty.similarity) == (False, ())
    assert empty.correct == dict.fromkeys(SUMMARY_CRITERIA, False)
    answering(monkeypatch, model_card, "Compute the area.", doubt="they are all 0")
    doubtful = record_of(Summarising(EngineChoice()))
    assert (doubtful.doubt, doubtful.logprobs) == (True, ())
    assert doubtful.similarity
    answering(monkeypatch, model_card, "Compute the area of a SECRET circ", Stop.LENGTH)
    cut = record_of(Summarising(EngineChoice()))
    assert cut.shown, "the editor shows the words of an answer that was cut off"
    assert 0.5 < cut.similarity[0] < 1.0


@pytest.mark.usefixtures("words")
def test_another_model_prompt_or_encoder_is_not_mixed_in(
    monkeypatch: pytest.MonkeyPatch, model_card: ModelCard
) -> None:
    answering(monkeypatch, model_card, "Compute the area.")
    ask = Summarising(EngineChoice())
    answerer = ask.answerer()
    assert answerer == Answerer(
        ModelIdentity("m", "Q4", "0" * 64), prompts.VERSION, None, None, LISTED, OBSERVED
    )
    assert ask.expecting(answerer)(PAYLOAD)["record"]["item"] == PAYLOAD["item"]
    for other in (
        attrs.evolve(answerer, model=ModelIdentity("n", "", "")),
        attrs.evolve(answerer, prompt_version="summary-0"),
        attrs.evolve(answerer, similarity=attrs.evolve(LISTED, version=0)),
    ):
        with pytest.raises(DataError, match="differ from those of the records"):
            ask.expecting(other)(PAYLOAD)


def made_up(n: int = 120) -> list[Record]:
    """Records whose first log-probabilities say how similar the summary is."""
    rng = np.random.default_rng(1)
    records = []
    for at in range(n):
        p = rng.uniform(0.3, 0.98)
        close = float(np.clip(p + rng.normal(0, 0.15), 0, 0.87))
        records.append(
            Record(
                item=f"me/project-{at % 8}/f.py:f{at}",
                group=f"me/project-{at % 8}",
                stratum="function",
                correct=dict.fromkeys(SUMMARY_CRITERIA, True),
                shown=True,
                stop="line",
                tokens=(1, 2, 3, 4),
                logprobs=tuple(float(x) for x in np.log(p) - rng.uniform(0, 0.2, 4)),
                typed_logprobs=(0.0,) * 4,
                similarity=(round(close, 4),) * len(NAMES),
            )
        )
    return records


HEADER = Header(SUMMARY, "python", ModelIdentity("m", "Q4", "0" * 64), "s", 0, similarity=LISTED)


@pytest.mark.usefixtures("home")
class TestCommand:
    def invoke(self, *arguments: object) -> Result:
        return CliRunner().invoke(main, ["eval", "summary", *map(str, arguments)])

    @pytest.fixture
    def kept(self, tmp_path: Path) -> Path:
        write_records(tmp_path / "r.jsonl", HEADER, made_up())
        return tmp_path / "r.jsonl"

    def test_records_are_judged_again_by_the_shipped_thresholds(self, kept: Path, tmp_path: Path) -> None:
        """Nothing reaches 0.88 here, and a criterion without a right answer takes no part in fits."""
        result = self.invoke("--records", kept, "--json", "--resamples", 20, "--output", tmp_path / "out")
        assert result.exit_code == 0, result.output
        document = json.loads(result.stdout)
        values = [record.similarity[0] for record in made_up()]
        assert document["right"] == {
            "most-agree": sum(value >= 0.6 for value in values),
            "high-precision": 0,
            "best-f1": sum(value >= 0.75 for value in values),
            "high-recall": sum(value >= 0.61 for value in values),
        }
        assert {row["judge"] for row in document["rows"]} == {"most-agree", "best-f1", "high-recall"}
        assert "right (high-precision): 0" in (tmp_path / "out" / "scores.md").read_text("utf-8")
        skills = {
            row["judge"]: row["skill"]["value"]
            for row in document["rows"]
            if row["rescaling"] != "raw" and row["measure"] == document["best"] and row["stratum"] == "all"
        }
        assert min(skills.values()) > 0.1

    def test_other_thresholds_need_no_decoding(self, kept: Path, tmp_path: Path) -> None:
        from test_thresholds import SHIPPED

        document = json.loads(SHIPPED.read_text("utf-8"))
        document["settings"] = {"best-f1": {"metric": "bertscore-f1", "threshold": 0.5}}
        (tmp_path / "t.json").write_text(json.dumps(document))
        result = self.invoke(
            *("--records", kept, "--thresholds", tmp_path / "t.json", "--json", "--resamples", 20)
        )
        assert result.exit_code == 0, result.output
        right = json.loads(result.stdout)["right"]
        assert right == {"best-f1": sum(record.similarity[0] >= 0.5 for record in made_up())}
        document["encoder"]["sha256"] = "0" * 64
        (tmp_path / "t.json").write_text(json.dumps(document))
        result = self.invoke("--records", kept, "--thresholds", tmp_path / "t.json")
        assert result.exit_code == DataError.exit_code
        assert "encoder" in result.stderr

    @needs_data
    def test_examples_are_of_other_repositories_and_not_the_function_itself(self) -> None:
        items = [summary_item_of(payload) for _, payload in summary_task(None, "python", None, 1).items]
        assert sum(len(item.examples) == prompts.SHOTS for item in items) > 0.9 * len(items)
        own: dict[str, set[str]] = {}
        for item in items:
            own.setdefault(item.group, set()).add(item.function.code)
        for item in items:
            assert all(example.code not in own[item.group] for example in item.examples)
            assert all(example.sentence for example in item.examples)

    @needs_data
    def test_without_the_encoder_nothing_is_asked(self) -> None:
        shared_encoder.cache_clear()  # another test of this process may have loaded it from elsewhere
        result = self.invoke("--samples", 20, "--remote", "http://127.0.0.1:9/v1")
        assert result.exit_code == NoModelError.exit_code
        assert "lsp-calib models pull minilm-l6-v2" in result.stderr

    @needs_data
    @needs_encoder
    async def test_a_run_from_data_to_tables(
        self, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Over HTTP, with a server that knows about every other function's documentation by heart."""
        install(home)
        item_worker.shared_encoder.cache_clear()
        monkeypatch.chdir(tmp_path)
        out = tmp_path / "lsp-calib-eval" / "summary-java"
        payloads = [payload for _, payload in summary_task(None, "java", 40, 4).items]
        shown = [(summary_item_of(payload).function.code[:300], payload) for payload in payloads]

        def says(prompt: str) -> list[Tok]:
            # The function stands last; before it, perhaps, another one as an example.
            known = max(shown, key=lambda one: prompt.rfind(one[0]))[1]
            sure = len(known["code"]) % 2 == 0
            text = known["reference"] if sure else "Does a thing that nobody asked for."
            noise = len(known["code"]) % 7 / 10
            pieces = [Tok(f" {word}", (-0.1 if sure else -1.2) - noise) for word in text.split()]
            return [*pieces, Tok("\n", -0.1), Tok(END)]

        async with serving(tokens=says) as server:
            options = ("--language", "java", "--samples", 40, "--seed", 4, "--resamples", 20, "--json")
            options += ("--remote", server.url)
            result = await asyncio.to_thread(self.invoke, *options)
            assert result.exit_code == 0, result.output
            asked = len(server.completions)
            again = await asyncio.to_thread(self.invoke, *options)
            assert json.loads(again.stdout) == json.loads(result.stdout)
            assert len(server.completions) == asked, "nothing is asked for twice"
        document = json.loads(result.stdout)
        sure = sum(len(payload["code"]) % 2 == 0 for payload in payloads)
        assert document["asked"] == 40
        assert document["right"]["best-f1"] == sure
        header, records = read_records(out / "records.jsonl")
        assert header.similarity == LISTED
        assert (header.task, header.language, header.prompt_version) == (SUMMARY, "java", prompts.VERSION)
        assert [record.item for record in records] == [payload["item"] for payload in payloads]
        text = "".join(path.read_text("utf-8") for path in out.iterdir())
        for payload in payloads:
            assert payload["reference"] not in text
        options = ("--records", out / "records.jsonl", "--seed", 4, "--resamples", 20, "--json")
        replayed = self.invoke(*options)
        assert json.loads(replayed.stdout)["rows"] == document["rows"]


@needs_data
@pytest.mark.parametrize(("language", "rows", "groups"), [("python", 478, 144), ("java", 506, 64)])
def test_the_items_of_the_data(language: str, rows: int, groups: int) -> None:
    task = summary_task(None, language, None, 0)
    assert len(task.items) == rows
    assert len({payload["group"] for _, payload in task.items}) == groups
    assert task.criteria == SUMMARY_CRITERIA
    for id_, payload in task.items:
        item = summary_item_of(json.loads(json.dumps(payload)))
        assert item.id == id_
        shown = " ".join(item.function.code.split())
        assert item.reference.rstrip(".") not in shown, "the documentation is hidden"
    some, again, others = (
        [item for item, _ in summary_task(None, language, 50, seed).items] for seed in (3, 3, 4)
    )
    assert some == again != others
    assert len(some) == 50


@needs_encoder
@pytest.mark.model
async def test_the_real_model_and_the_real_encoder(home_with_model: Path, tmp_path: Path) -> None:
    install(home_with_model)
    item_worker.shared_encoder.cache_clear()
    task = Task(SUMMARY, ((PAYLOAD["item"], PAYLOAD),), criteria=SUMMARY_CRITERIA)
    choice = EngineChoice(model="smollm2-135m", threads=1, linger=2.0)
    header, (record,) = await asyncio.to_thread(
        collect, task, choice, tmp_path / "r.jsonl", AskingOptions(created="2026-01-02")
    )
    assert header.similarity == LISTED
    assert record.shown
    assert len(record.tokens) == len(record.logprobs) == len(record.entropies) <= MOST_TOKENS
    assert len(record.similarity) == len(NAMES)
    assert -1.0 <= record.similarity[0] <= 1.0
    assert not record.doubt


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
    with pytest.raises(DataError, match="Only 1 different functions of Python"):
        documented_task([tmp_path], 30, 0)
    with pytest.raises(SettingsError, match="cannot be read"):
        documented_task([tmp_path], 30, 0, "cobol")


def test_records_of_summaries_make_a_calibrator_of_summaries() -> None:
    records = made_up()
    calibrator = fit_records(HEADER, records, shipped=True, created="2026-11-22")[0].calibrator
    right = [record.correct["most-agree"] for record in records if record.shown and record.logprobs]
    assert calibrator.purpose.task == "summary"
    assert calibrator.purpose.prompt_version == HEADER.prompt_version
    assert (calibrator.n, calibrator.n_correct) == (len(right), int(np.count_nonzero(right)))
    assert calibrator.curve("total") is not None


def test_what_is_for_lines_is_refused(project: Path) -> None:
    asking = AskingOptions(say=lambda _: None)
    with pytest.raises(SettingsError, match="are for lines"):
        CalibrationOptions(asking=asking, paths=(project,), task="summary", no_suffix=3)
