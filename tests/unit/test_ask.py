"""What a model says of its own answers: the questions, the numbers in the record, and their cost."""

from __future__ import annotations

import json
import math
import os
from functools import partial
from pathlib import Path

import attrs
import numpy as np
import pytest
from click.testing import CliRunner
from test_eval_summary import HEADER, PAYLOAD, Engine, WordEncoder, answering, made_up, record_of

from lsp_calib.cli import main
from lsp_calib.corpus import item_worker
from lsp_calib.corpus.asking import AskingOptions
from lsp_calib.corpus.functions import SUMMARY, summary_item_of
from lsp_calib.corpus.item_worker import OBSERVED, Summarising
from lsp_calib.corpus.places import Task
from lsp_calib.corpus.records import Journal, Record, read_records, write_records
from lsp_calib.errors import DataError, SettingsError
from lsp_calib.inference.choice import EngineChoice
from lsp_calib.inference.engine import LoadedModel, Request
from lsp_calib.inference.models.cards import ModelCard, load_cards
from lsp_calib.studies.ask import (
    LISTED,
    Reflected,
    Reflecting,
    Shot,
    about_summary,
    shots_of,
    summarising,
)
from lsp_calib.studies.statistics import OURS
from lsp_calib.studies.thresholds import Ratings, read_ratings
from lsp_calib.summarization import prompt as prompts
from lsp_calib.values import Generation, ModelIdentity, Observation, Segment, Stop, Timing, Token

DATA = os.environ.get("LSP_CALIB_DATA")
needs_data = pytest.mark.skipif(DATA is None, reason="LSP_CALIB_DATA does not say where the data are")
ALL = frozenset(Reflected)
TIMING = Timing(prompt_tokens=100, prompt_reused=60, generated_tokens=4)
SHOTS = tuple(Shot(f"model {n}", f"developer {n}", n) for n in (1, 2, 3, 4))


class Saying(Engine):
    """Answers by what it is asked: true or false, a probability, a rating with its reason.

    `probability`: what it says of its confidence, one after the other.
    """

    probability = ("No idea.", "I would say 70%.")
    ratings = (
        "The developer wrote of 2 radii. Rating: 3\nSummary: another\nRating: 1",
        "It is the same. **Rating:** 3.",
        "It says so. Rating: 4",
        "I cannot tell what the developer would write.",
        "Rating: 2 or 3",
    )

    async def generate(self, request: Request) -> Generation:  # type: ignore[override]
        self.asked.append(request)
        seen = None
        if request.words == ("true", "false"):
            likeliest = (("Yes", -0.9), (" True", -1.1), ("False", -1.4))
            seen = Observation(words=(-1.0, -1.4), likeliest=likeliest)
        elif request.words:
            seen = Observation(words=(-4.0, -3.0, -1.0, -2.0), likeliest=(("3", -1.0),))
        asks = shown(request)
        text = self.generation.text
        if request.sampling is not None:
            seed = request.sampling.seed
            text = self.probability[min(seed, 1)] if "per cent" in asks else self.ratings[seed]
        tokens = tuple(Token(n, -0.5, 0.0, word, seen=seen) for n, word in enumerate(text.split()))
        return Generation(text, tokens, Stop.LINE, TIMING)


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch, model_card: ModelCard) -> Saying:
    monkeypatch.setattr(item_worker, "shared_encoder", WordEncoder)
    plain = answering(monkeypatch, model_card, "Compute the area.")
    host = Summarising(EngineChoice()).host()
    host.engine = Saying(model_card, plain.generation)
    return host.engine


def shown(request: Request) -> str:
    return "".join(text for _, text in request.prompt.segments)


def said(*observe: Reflected) -> Record:
    return record_of(Reflecting(EngineChoice(), observe=frozenset(observe), shots=SHOTS))


def named(record: Record) -> dict[str, float]:
    return LISTED.named(record.observed)


@pytest.mark.usefixtures("engine")
def test_a_record_holds_what_was_asked_for_as_numbers() -> None:
    result = Reflecting(EngineChoice(), observe=ALL, shots=SHOTS)(PAYLOAD)
    assert "area" not in json.dumps(result).replace(PAYLOAD["item"], ""), "no text"
    record = Record.from_row(result["record"])
    assert tuple(record.observed) == tuple(name for name, _ in LISTED.names)
    seen = named(record)
    assert (seen["ask.true"], seen["ask.false"]) == (-1.0, -1.4)
    assert (seen["ask.contained-true"], seen["ask.true-token"]) == (-1.1, -1.1)
    assert (seen["verbalised.confidence"], seen["verbalised.answers"]) == (0.7, 2.0)
    assert seen["text.words"] == 3.0
    assert record.costs["summary"] == record.costs["ask"] == (40, 60, 4)
    assert record.costs["scale"] == (11 * 40, 11 * 60, 11 * 4)
    assert not {"text", "encoder"} & set(record.costs), "they ask no model"


@pytest.mark.usefixtures("engine")
def test_a_rating_is_that_behind_the_reason_and_not_of_what_the_model_goes_on_with() -> None:
    seen = named(said(Reflected.SCALE))
    for form in ("reasoned", "shots"):
        assert seen[f"scale.{form}-vote"] == pytest.approx(2 / 3, abs=1e-4)
        assert seen[f"scale.{form}-mean"] == pytest.approx((2 + 2 + 3) / 9, abs=1e-4)
        assert seen[f"scale.{form}-invalid"] == 0.4
    assert seen["scale.3"] == -1.0


def test_the_scale_is_asked_for_with_a_reason_first_and_with_four_rated_pairs(engine: Saying) -> None:
    said(Reflected.SCALE)
    _, alone, *sampled = engine.asked
    reasoned, behind = sampled[:5], sampled[5:]
    assert alone.words == ("1", "2", "3", "4")
    assert [one.sampling and one.sampling.seed for one in sampled] == [0, 1, 2, 3, 4] * 2
    assert all(one.sampling and one.sampling.temperature == 1.0 for one in sampled)
    for request in (*reasoned, *behind):
        asks = shown(request)
        assert "writes summaries of at most one line" in asks
        assert "First give your reason in one sentence" in asks
        assert asks.index("3.14 * r * r") < asks.rindex("Summary: Compute the area.")
        assert "SECRET" not in asks, "no prompt shows the documentation"
    assert not any("model 1" in shown(request) for request in reasoned)
    for request in behind:
        asks = shown(request)
        places = [asks.index(f'wrote "developer {n}"') for n in (1, 2, 3, 4)]
        assert places == sorted(places)
        assert [asks.index(f"Rating: {n}") > asks.index(f"developer {n}") for n in (1, 2, 3, 4)] == [True] * 4
        assert places[-1] < asks.index("3.14 * r * r")


@pytest.mark.parametrize("name", ["qwen2.5-coder-1.5b", "smollm2-135m"])
def test_rated_pairs_are_turns_of_a_conversation_where_a_model_knows_turns(name: str) -> None:
    card = load_cards()[name]
    loaded = LoadedModel(ModelIdentity("m", "", ""), card)
    prompt = about_summary(summary_item_of(PAYLOAD), loaded, "Compute it.", "How is it?", SHOTS)
    if card.chat.user_open:
        control = "".join(text for kind, text in prompt.segments if kind is Segment.CONTROL)
        assert control.count(card.chat.user_open) == 5
    else:
        ((_, text),) = prompt.segments
        assert text.count("Answer:") == 5
        assert text.endswith("Answer:")


def test_what_shows_the_function_alone_begins_afresh_and_then_goes_on(engine: Saying) -> None:
    said(*ALL)
    first, *rest = engine.asked[1:]
    assert not first.reuse
    behind = [request for request in rest if "model 1" in shown(request)]
    assert [request.reuse for request in behind] == [False, True, True, True, True]
    before = shown(first).partition("\n```\n\n")[0]
    for request in rest:
        if request not in behind:
            assert request.reuse
            assert shown(request).startswith(before), "the function is in the cache"


def test_without_a_wish_nothing_is_asked(engine: Saying) -> None:
    record = said()
    assert (set(record.observed), set(record.costs), len(engine.asked)) == (
        {"text", "encoder"},
        {"summary"},
        1,
    )
    more = said(Reflected.ASK)
    bare = {name: value for name, value in more.observed.items() if name != "ask"}
    costs = {"summary": more.costs["summary"]}
    assert attrs.evolve(more, observed=bare, costs=costs) == record, "to observe changes nothing else"


def test_the_editor_s_records_of_summaries_are_those_of_the_studies_without_questions(engine: Saying) -> None:
    assert record_of(Summarising(EngineChoice())) == said()
    assert LISTED.names[: len(OBSERVED.names)] == OBSERVED.names
    assert len(engine.asked) == 2


def test_who_states_nothing_is_asked_four_times(engine: Saying) -> None:
    engine.probability = ("No idea.", "None.")
    seen = named(said(Reflected.VERBALISED))
    numbers = {name: value for name, value in seen.items() if name.startswith("verbalised")}
    assert numbers == {
        "verbalised.confidence": 0.5,
        "verbalised.answers": 4.0,
        "verbalised.fell-back": 1.0,
    }


def test_another_engine_is_refused_before_anything_is_asked(engine: Saying) -> None:
    with pytest.raises(SettingsError, match="cannot observe ask"):
        Reflecting(EngineChoice(), observe=frozenset({Reflected.ASK})).answerer()
    assert Reflecting(EngineChoice()).answerer().observations == LISTED
    assert Summarising(EngineChoice()).answerer().observations == OBSERVED
    assert not engine.asked


def test_facts_about_the_code_are_shown_under_a_version_of_their_own(engine: Saying) -> None:
    ask = Reflecting(EngineChoice(), augment=True)
    example = {"path": "x/y.py", "name": "g", "code": "def g(size): pass", "sentence": "Do it."}
    record_of(ask.expecting(ask.answerer()), {**PAYLOAD, "examples": [example]})
    (request,) = engine.asked
    facts = (f"Repository: {PAYLOAD['group']}", f"File: {PAYLOAD['path']}", "File: x/y.py")
    for fact in (*facts, "Parameters: size"):
        assert fact in shown(request)
    assert request.prompt.version == prompts.AUGMENTED == ask.answerer().prompt_version
    assert Reflecting(EngineChoice()).answerer().prompt_version == prompts.VERSION


def rated(*pairs: tuple[str, str, tuple[int, ...]]) -> Ratings:
    generated, reference, ratings = zip(*pairs, strict=True)
    return Ratings(generated, reference, np.array(ratings), {})


def test_a_shot_is_the_pair_that_people_agree_on_most_for_each_rounded_rating() -> None:
    ratings = rated(
        ("a", "split opinions of it", (1, 1, 1, 1, 1, 2)),
        ("b", "short", (1, 1, 1, 1, 1, 1)),
        ("c", "a longer one", (1, 1, 1, 1, 1, 1)),
        ("<unk> d", "the longest one of all of them", (1, 1, 1, 1, 1, 1)),
        ("e", "two", (2, 2, 2, 2, 2, 1)),
        ("f", "rounded up to two", (1, 2, 1, 2, 1, 2)),
        ("g", "three", (3, 3, 3, 3, 3, 3)),
        ("the same", "the same", (4, 4, 4, 4, 4, 4)),
        ("h", "four", (4, 4, 4, 4, 4, 3)),
    )
    assert shots_of(ratings) == (
        Shot("c", "a longer one", 1),
        Shot("e", "two", 2),
        Shot("g", "three", 3),
        Shot("h", "four", 4),
    )


@needs_data
def test_the_published_ratings_give_one_pair_for_each_rating() -> None:
    ratings = read_ratings(None)
    found = shots_of(ratings)
    assert [shot.rating for shot in found] == [1, 2, 3, 4]
    pairs = list(zip(ratings.generated, ratings.reference, strict=True))
    for shot in found:
        given = ratings.ratings[pairs.index((shot.summary, shot.reference))]
        assert math.floor(given.mean() + 0.5) == shot.rating
        assert len(set(given.tolist())) <= 2


def test_the_ratings_are_read_where_the_scale_is_asked_for_alone(tmp_path: Path) -> None:
    task = Task(SUMMARY, ((PAYLOAD["item"], PAYLOAD),), asks=partial(summarising, folder=tmp_path))
    assert task.asks is not None
    assert task.asks(task, EngineChoice(), AskingOptions(observe=frozenset({"ask"}))).shots == ()
    with pytest.raises(DataError, match=r"similarity_ratings\.csv"):
        task.asks(task, EngineChoice(), AskingOptions(observe=frozenset({"scale"})))


def reflecting(n: int = 120) -> list[Record]:
    """Records whose P(true) says how similar the summary is, and whose verbalised confidence says nothing."""
    records = []
    for at, record in enumerate(made_up(n)):
        noise = np.random.default_rng(at).normal(0, 0.5)
        logit = 12 * (record.similarity[0] - 0.7) + noise
        true, false = -math.log1p(math.exp(-logit)) - 0.1, -math.log1p(math.exp(logit)) - 0.1
        numbers: dict[str, dict[str, float]] = {
            "ask": {"true": true, "false": false, "contained-true": true},
            "verbalised": {
                "confidence": 0.5 if at % 3 else 0.9,
                "answers": 1.0,
                "fell-back": float(at % 3 > 0),
            },
            "scale": {"vote": 1.0, "mean": 0.9, "invalid": 0.25},
        }
        listed = dict(ASKED.observations.names)
        observed = {
            name: tuple(values.get(field) for field in listed[name]) for name, values in numbers.items()
        }
        records.append(attrs.evolve(record, observed=observed, costs={"ask": (57, 200, 2)}))
    return records


# The scale as it was asked for before the reasons.
FORMER = attrs.evolve(LISTED, names=(*LISTED.names[:-1], ("scale", ("vote", "mean", "invalid"))))
ASKED = attrs.evolve(HEADER, observations=FORMER)


def test_records_are_read_as_they_were_written_and_old_ones_stay_readable(tmp_path: Path) -> None:
    write_records(tmp_path / "r.jsonl", ASKED, reflecting())
    header, records = read_records(tmp_path / "r.jsonl")
    assert header == ASKED
    write_records(tmp_path / "again.jsonl", header, records)
    assert (tmp_path / "again.jsonl").read_bytes() == (tmp_path / "r.jsonl").read_bytes()
    assert records[0].costs == {"ask": (57, 200, 2)}
    assert header.asks_the_same_as(HEADER)
    assert HEADER.asks_the_same_as(header)
    assert not header.asks_the_same_as(attrs.evolve(header, observations=attrs.evolve(FORMER, version=0)))
    write_records(tmp_path / "old.jsonl", HEADER, made_up())
    assert "observ" not in (tmp_path / "old.jsonl").read_text("utf-8")
    with Journal(tmp_path / "old.jsonl", ASKED) as journal:
        assert journal.header.observations == FORMER
    write_records(tmp_path / "bad.jsonl", HEADER, reflecting())
    with pytest.raises(DataError, match="other observations"):
        read_records(tmp_path / "bad.jsonl")


@pytest.mark.usefixtures("home")
def test_what_a_model_says_of_its_summaries_stands_beside_its_probabilities(tmp_path: Path) -> None:
    write_records(tmp_path / "r.jsonl", ASKED, reflecting())
    command = ["eval", "summary", "--records", str(tmp_path / "r.jsonl"), "--resamples", "20"]
    result = CliRunner().invoke(main, [*command, "--json", "--output", str(tmp_path / "out")])
    assert result.exit_code == 0, result.output
    rows = [row for row in json.loads(result.stdout)["rows"] if row["judge"] == "best-f1"]
    skill = {(row["measure"], row["rescaling"]): row["skill"]["value"] for row in rows}
    for name in ("ask", "ask-exact", "normalised", "verbalised", "scale-number"):
        assert (name, "raw") in skill
        assert (name, OURS) in skill
    assert skill["normalised-exact", OURS] > 0.4
    assert skill["scale-number", OURS] < 0.05, "the same vote for all"
    half = [row["half"] for row in rows if row["measure"] == "verbalised" and row["rescaling"] == "raw"]
    assert half == [pytest.approx(2 / 3, abs=1e-6)]
    table = (tmp_path / "out" / "scores.md").read_text("utf-8")
    assert "| verbalised | raw | 120 | 67 % |" in table
