"""What is observed of a summary: numbers in the record, their cost, and what tables say of them."""

from __future__ import annotations

import json
import math
from pathlib import Path

import attrs
import numpy as np
import pytest
from click.testing import CliRunner
from test_eval_summary import HEADER, PAYLOAD, Engine, WordEncoder, answering, made_up, record_of

from lsp_calib.cli import main
from lsp_calib.corpus import item_worker
from lsp_calib.corpus.item_worker import Summarising
from lsp_calib.corpus.journal import Journal
from lsp_calib.corpus.records import Record, read_records, write_records
from lsp_calib.corpus.summary_observation import LISTED, SummaryObserved
from lsp_calib.errors import DataError, SettingsError
from lsp_calib.inference.choice import EngineChoice
from lsp_calib.inference.engine import Request
from lsp_calib.inference.models.cards import ModelCard
from lsp_calib.studies import scoring
from lsp_calib.studies.reflective_scores import FORMS, score_reflective
from lsp_calib.studies.scoring import Scored
from lsp_calib.values import Generation, Observation, Prompt, Stop, Timing, Token

ALL = frozenset(SummaryObserved)
TIMING = Timing(prompt_tokens=100, prompt_reused=60, generated_tokens=4)


class Reflecting(Engine):
    """Answers by what it is asked: a question of one word, a probability, a rating, another summary.

    `probability`: what it says of its confidence, one after the other. Of a given text, each character is a
    token, and costs half a nat in code that stands below a sentence, else one.
    """

    probability = ("No idea.", "I would say 70%.")

    async def generate(self, request: Request) -> Generation:  # type: ignore[override]
        self.asked.append(request)
        seen = None
        if request.words == ("true", "false"):
            likeliest = (("Yes", -0.9), (" True", -1.1), ("False", -1.4))
            seen = Observation(words=(-1.0, -1.4), likeliest=likeliest)
        elif request.words:
            seen = Observation(words=(-4.0, -3.0, -1.0, -2.0), likeliest=(("3", -1.0),))
        asks = "".join(text for _, text in request.prompt.segments)
        seed = request.sampling.seed if request.sampling else -1
        if seed < 0 and not request.words:
            text = "Compute the area of it." if "documentation" in asks else self.generation.text
        elif "per cent" in asks:
            text = self.probability[min(seed, 1)]
        elif "1 for strongly" in asks:
            text = ("3", "3", "4", "dunno", "2 or 3")[max(seed, 0)]
        else:
            text = ("Compute the area.", "Draw a circle.", "Compute the area.")[max(seed, 0)]
        tokens = tuple(Token(n, -0.5, 0.0, word, seen=seen) for n, word in enumerate(text.split()))
        return Generation(text, tokens, Stop.LINE, TIMING)

    def score(self, _prompt: Prompt, text: str) -> list[Scored]:
        logprob = -1.0 if text.startswith("\n") else -0.5
        return [Scored(at, logprob, character, 0.0, ()) for at, character in enumerate(text)]


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch, model_card: ModelCard) -> Reflecting:
    monkeypatch.setattr(item_worker, "shared_encoder", WordEncoder)
    plain = answering(monkeypatch, model_card, "Compute the area.")
    host = Summarising(EngineChoice()).host()
    host.engine = Reflecting(model_card, plain.generation)
    monkeypatch.setattr(scoring, "reader", lambda _: host.engine)
    return host.engine


def named(record: Record) -> dict[str, float]:
    return LISTED.named(record.observed)


@pytest.mark.usefixtures("engine")
def test_a_record_holds_what_was_asked_for_as_numbers() -> None:
    result = Summarising(EngineChoice(), observe=ALL)(PAYLOAD)
    assert "area" not in json.dumps(result).replace(PAYLOAD["item"], ""), "no text"
    record = Record.from_row(result["record"])
    assert set(record.observed) == {name for name, _ in LISTED.names}
    seen = named(record)
    assert (seen["ask.true"], seen["ask.false"]) == (-1.0, -1.4)
    assert (seen["ask.contained-true"], seen["ask.true-token"]) == (-1.1, -1.1)
    assert seen["follow-up.contained-false"] == -1.4
    assert (seen["verbalised.confidence"], seen["verbalised.answers"]) == (0.7, 2.0)
    assert seen["scale.vote"] == pytest.approx(2 / 3, abs=1e-4)
    assert (seen["scale.invalid"], seen["scale.3"]) == (0.4, -1.0)
    assert (seen["samples.same"], seen["samples.different"]) == (
        pytest.approx(2 / 3, abs=1e-4),
        pytest.approx(2 / 3, abs=1e-4),
    )
    assert 0.3 < seen["samples.cosine"] < 1.0
    assert 0.3 < seen["agreement.cosine"] < 1.0
    assert (seen["agreement.precision"], seen["agreement.recall"] < 1.0) == (pytest.approx(1.0), True)
    assert seen["likelihood.gain"] == 0.5
    assert seen["likelihood.tokens"] == len("\ndef area(r):\n    return 3.14 * r * r\n".strip("\n"))
    assert seen["text.words"] == 3.0
    assert record.costs["summary"] == (40, 60, 4)
    assert record.costs["ask"] == (40, 60, 4)
    assert record.costs["samples"] == (120, 180, 12)
    assert record.costs["likelihood"][0] > 2 * seen["likelihood.tokens"]
    assert not {"text", "encoder"} & set(record.costs), "they ask no model"
    assert {f"{name}_ms" for name, _ in LISTED.names} <= set(result["timing"])


def test_what_shows_the_function_alone_begins_afresh_and_then_goes_on(engine: Reflecting) -> None:
    Summarising(EngineChoice(), observe=ALL)(PAYLOAD)
    alone = [asked for asked in engine.asked[1:] if asked.prompt.segments != engine.asked[0].prompt.segments]
    follow_up, first, *rest = alone
    assert follow_up.reuse
    assert follow_up.prompt.segments[0] == engine.asked[0].prompt.segments[0]
    assert not first.reuse
    assert all(asked.reuse for asked in rest)
    before = "".join(text for _, text in first.prompt.segments).partition("\n```\n\n")[0]
    for asked in rest:
        shown = "".join(text for _, text in asked.prompt.segments)
        assert shown.startswith(before), "the function is in the cache"
        assert "SECRET" not in shown, "no prompt shows the documentation"


def test_without_a_wish_nothing_is_asked_or_recorded(engine: Reflecting) -> None:
    record = record_of(Summarising(EngineChoice()))
    assert (record.observed, record.costs, len(engine.asked)) == ({}, {}, 1)
    assert "observed" not in record.to_row()
    only = record_of(Summarising(EngineChoice(), observe=frozenset({SummaryObserved.TEXT})))
    assert set(only.observed) == {"text"}
    bare = attrs.evolve(only, observed={}, costs={})
    assert bare == record, "to observe changes nothing else"


def test_who_states_nothing_is_asked_four_times(engine: Reflecting) -> None:
    engine.probability = ("No idea.", "None.")
    seen = named(record_of(Summarising(EngineChoice(), observe=frozenset({SummaryObserved.VERBALISED}))))
    assert seen == {"verbalised.confidence": 0.5, "verbalised.answers": 4.0, "verbalised.fell-back": 1.0}


def test_another_engine_is_refused_before_anything_is_asked(engine: Reflecting) -> None:
    with pytest.raises(SettingsError, match="cannot observe ask"):
        Summarising(EngineChoice(), observe=frozenset({SummaryObserved.ASK})).describe()
    answerer = Summarising(EngineChoice(), observe=frozenset({SummaryObserved.TEXT})).describe()
    assert answerer.observations == LISTED
    assert not engine.asked


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
            "scale": {"vote": 1.0, "mean": 0.9, "invalid": 0.25, "1": -3.0, "2": -3.0, "3": true, "4": false},
        }
        listed = dict(LISTED.names)
        observed = {
            name: tuple(values.get(field) for field in listed[name]) for name, values in numbers.items()
        }
        records.append(attrs.evolve(record, observed=observed, costs={"ask": (57, 200, 2)}))
    return records


OBSERVED = attrs.evolve(HEADER, observations=LISTED)


def test_records_are_read_as_they_were_written_and_old_ones_stay_readable(tmp_path: Path) -> None:
    write_records(tmp_path / "r.jsonl", OBSERVED, reflecting())
    header, records = read_records(tmp_path / "r.jsonl")
    assert header == OBSERVED
    write_records(tmp_path / "again.jsonl", header, records)
    assert (tmp_path / "again.jsonl").read_bytes() == (tmp_path / "r.jsonl").read_bytes()
    assert records[0].costs == {"ask": (57, 200, 2)}
    assert header.asks_the_same_as(HEADER)
    assert HEADER.asks_the_same_as(header)
    assert not header.asks_the_same_as(attrs.evolve(header, observations=attrs.evolve(LISTED, version=0)))
    write_records(tmp_path / "old.jsonl", HEADER, made_up())
    assert "observ" not in (tmp_path / "old.jsonl").read_text("utf-8")
    with Journal(tmp_path / "old.jsonl", OBSERVED) as journal:
        assert journal.header.observations == LISTED
    write_records(tmp_path / "bad.jsonl", HEADER, reflecting())
    with pytest.raises(DataError, match="other observations"):
        read_records(tmp_path / "bad.jsonl")


def test_each_form_of_a_measure_is_scored_raw_and_rescaled() -> None:
    for measure, forms in FORMS.items():
        scores = score_reflective(OBSERVED, judged(), measure, resamples=20)
        found = {(row.measure, row.rescaled) for row in scores.rows if row.judge == "best-f1"}
        assert found <= {(name, rescaled) for name in forms for rescaled in (False, True)}
        assert {rescaled for _, rescaled in found} == {False, True}
    scores = score_reflective(OBSERVED, judged(), "normalised", resamples=20)
    skill = {
        (row.measure, row.rescaled): row.metrics["skill"].value
        for row in scores.rows
        if row.judge == "best-f1"
    }
    assert (skill["true / (true + false)", True] or 0.0) > 0.4
    nothing = score_reflective(OBSERVED, judged(), "scale", resamples=20)
    (vote,) = (
        row
        for row in nothing.rows
        if (row.judge, row.measure, row.rescaled) == ("best-f1", "vote of five", True)
    )
    assert (vote.metrics["skill"].value or 0.0) < 0.05, "the same vote for all"
    assert any("no rating: 25 %" in note for note in nothing.notes)
    assert any("0.5 for want of a number: 67 %" in note for note in scored("verbalised").notes)
    with pytest.raises(DataError, match="--observe follow-up,ask"):
        score_reflective(HEADER, made_up(), "ask")


def test_all_numbers_of_a_measure_are_of_what_is_not_held_out() -> None:
    records = judged()
    apart = frozenset({records[0].group, records[1].group})
    kept = [record for record in records if record.group not in apart]
    found = score_reflective(OBSERVED, records, "ask", apart, resamples=20)
    assert (found.asked, found.offered) == (len(kept), sum(record.shown for record in kept))
    assert found.right["best-f1"] == sum(record.shown and record.correct["best-f1"] for record in kept)
    assert f"{len(records) - len(kept)} further items, of what is held out, are left out." in found.notes
    assert "further items" not in " ".join(scored("ask").notes)


def scored(measure: str):  # type: ignore[no-untyped-def]
    return score_reflective(OBSERVED, judged(), measure, resamples=20)


def judged() -> list[Record]:
    return [
        attrs.evolve(record, correct={"best-f1": record.similarity[0] >= 0.75, "high-precision": False})
        for record in reflecting()
    ]


@pytest.mark.usefixtures("home")
def test_the_command_scores_a_measure_of_records(tmp_path: Path) -> None:
    write_records(tmp_path / "r.jsonl", OBSERVED, reflecting())
    arguments = ["--records", str(tmp_path / "r.jsonl"), "--measure", "ask", "--resamples", "20"]
    command = ["eval", "summary", *arguments]
    result = CliRunner().invoke(main, [*command, "--json", "--output", str(tmp_path / "out")])
    assert result.exit_code == 0, result.output
    document = json.loads(result.stdout)
    assert {row["judge"] for row in document["rows"]} == {"best-f1", "high-recall", "most-agree"}
    assert "true, contained in five" in (tmp_path / "out" / "scores.md").read_text("utf-8")
    printed = CliRunner().invoke(main, command)
    assert printed.exit_code == 0, printed.output
    assert "120 answers, 0 of them invalid" in printed.output
    write_records(tmp_path / "r.jsonl", HEADER, made_up())
    refused = CliRunner().invoke(main, command)
    assert refused.exit_code == DataError.exit_code
    assert "--observe follow-up,ask,verbalised,scale" in refused.stderr
