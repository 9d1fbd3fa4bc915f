"""From which similarity on a summary is like a person's: derived, shipped, applied to records."""

from __future__ import annotations

import json
import math
import os
from pathlib import Path

import attrs
import numpy as np
import pytest
from click.testing import CliRunner
from encoder_scene import CARD, install, needs_encoder
from hypothesis import given
from hypothesis import strategies as st

from lsp_calib import home as state
from lsp_calib.calibration.calibrators.purpose import SUMMARY_CRITERIA
from lsp_calib.cli import main
from lsp_calib.corpus.records import Header, Record, SimilarityList
from lsp_calib.corpus.thresholds import (
    NAMES,
    VERSION,
    Rule,
    Thresholds,
    shipped_thresholds,
)
from lsp_calib.errors import DataError
from lsp_calib.studies.data import data_set
from lsp_calib.studies.thresholds import (
    Ratings,
    bleu,
    choose,
    leave_one_out,
    rouge_l,
    threshold_of_agreement,
)
from lsp_calib.values import ModelIdentity

SHIPPED = state.shipped_models() / "thresholds" / "all-minilm-l6-v2-int8.json"
LISTED = SimilarityList(VERSION, CARD.name, CARD.sha256, NAMES)
DATA = os.environ.get("LSP_CALIB_DATA")

rated = st.lists(
    st.tuples(st.booleans(), st.integers(-20, 20).map(lambda k: k / 20), st.floats(-1.0, 1.0)),
    min_size=4,
    max_size=30,
).filter(lambda rows: sum(correct for correct, _, _ in rows) >= 2)
Rows = list[tuple[bool, float, float]]


def split(rows: Rows) -> tuple[dict[str, np.ndarray], np.ndarray]:
    correct, a, b = map(np.array, zip(*rows, strict=True))
    return {"a": a, "b": b}, correct.astype(bool)


@given(rows=rated, floor=st.sampled_from([0.0, 0.5, 0.9]))
def test_the_three_criteria_by_brute_force(rows: Rows, floor: float) -> None:
    metrics, correct = split(rows)
    found = choose(metrics, correct, floor)
    every = []
    for values in metrics.values():
        for k in range(-101, 102):
            chosen = values >= k / 100
            if chosen.any():
                precision, recall = correct[chosen].mean(), chosen[correct].mean()
                every.append(
                    (precision, recall, 2 * (chosen & correct).sum() / (chosen.sum() + correct.sum()))
                )
    precise, best, sensitive = found["high-precision"], found["best-f1"], found["high-recall"]
    highest = max((recall for precision, recall, _ in every if precision > floor), default=None)
    assert (precise and precise.recall) == (highest and pytest.approx(highest))
    assert sensitive is not None
    assert best is not None
    assert sensitive.precision == pytest.approx(max(p for p, recall, _ in every if recall > floor))
    assert best.f1 == pytest.approx(max(f1 for *_, f1 in every))
    for one in filter(None, found.values()):
        chosen = metrics[one.metric] >= one.threshold
        assert (one.selected, one.hits) == (chosen.sum(), (chosen & correct).sum())


def test_of_equal_settings_the_stricter_and_the_first_named_wins() -> None:
    values = np.array([0.9, 0.8, 0.5, 0.1])
    best = choose({"x": values, "y": values}, np.array([True, True, False, False]))["best-f1"]
    assert best is not None
    assert (best.metric, best.threshold) == ("x", 0.8)


@given(rated)
def test_each_item_is_decided_by_what_is_chosen_on_the_others(rows: Rows) -> None:
    for name, tally in leave_one_out(*split(rows)).items():
        selected = hits = 0
        for at, (correct, a, b) in enumerate(rows):
            setting = choose(*split(rows[:at] + rows[at + 1 :]))[name]
            if setting is not None and {"a": a, "b": b}[setting.metric] >= setting.threshold:
                selected, hits = selected + 1, hits + correct
        assert (tally.selected, tally.hits) == (selected, hits)
        assert tally.positives == sum(correct for correct, _, _ in rows)


def test_chance_is_found_out_by_leaving_one_out() -> None:
    """Of many similarities that mean nothing one fits by chance; on what it was not chosen by it does not."""
    rng = np.random.default_rng(5)
    correct = rng.random(60) < 0.25
    noise = {f"noise-{n}": rng.random(60) for n in range(20)}
    best, left_out = choose(noise, correct)["best-f1"], leave_one_out(noise, correct)
    assert best is not None
    assert left_out["best-f1"].hits < best.hits


def test_most_people_agree_by_the_similarity_whose_curve_predicts_them() -> None:
    """The rule is that of the informative similarity; its curve is near the odds that made the labels."""
    rng = np.random.default_rng(3)
    x = rng.random(400)
    agreed = rng.random(400) < 1.0 / (1.0 + np.exp(-(16.0 * x - 7.0)))
    found = threshold_of_agreement({"noise": rng.random(400), "x": x}, agreed)
    assert found.setting.metric == "x"
    assert 0.35 < found.setting.threshold < 0.55
    assert found.auc > 0.9
    assert found.others.hits <= found.setting.hits
    assert -found.intercept / found.slope == pytest.approx(7 / 16, abs=0.05)


def test_a_pair_is_similar_by_three_ratings_and_agreed_on_by_half_of_six() -> None:
    ratings = np.array([[3, 3, 3, 1, 1, 1], [4, 3, 1, 3, 1, 1], [4, 4, 1, 1, 1, 1], [1, 1, 1, 4, 4, 4]])
    found = Ratings((), (), ratings, {})
    assert found.correct.tolist() == [True, False, True, False]
    assert found.most_agree.tolist() == [True, True, False, True]


words = st.lists(st.sampled_from(["a", "b", "c", "d", "e", "f"]), max_size=8).map(" ".join)


@given(words, words)
def test_overlap_is_a_share_and_1_for_the_same(a: str, b: str) -> None:
    for measure in (bleu, rouge_l):
        assert 0.0 <= measure(a, b) <= 1.0 + 1e-9
        assert measure("", b) == measure(a, "") == 0.0
        assert not a or measure(a, a) == pytest.approx(1.0)


def test_overlap_by_hand() -> None:
    # One 1-gram of two, and no pair, with 1 added: (1/2 * (0 + 1) / (1 + 1)) ** (1/2).
    assert bleu("get name", "get size") == pytest.approx(0.5)
    # 3 of 4 words, 1 of 3 pairs, no longer ones; no brevity penalty.
    shared = 3 / 4 * (1 + 1) / (3 + 1) * (0 + 1) / (2 + 1) * (0 + 1) / (1 + 1)
    assert bleu("the size of list", "the size in list") == pytest.approx(shared**0.25)
    # Two of three words: as long as itself, and then the penalty exp(1 - 3/2).
    assert bleu("get name", "get name first") == pytest.approx(math.exp(-0.5))
    # Longest common subsequence "the of list": 3 of 4 and of 5.
    assert rouge_l("the size of list", "the length of a list") == pytest.approx(2 * 0.75 * 0.6 / 1.35)


def test_the_shipped_file_is_for_the_shipped_encoder() -> None:
    document = json.loads(SHIPPED.read_text("utf-8"))
    assert document["encoder"] == {"name": CARD.name, "sha256": CARD.sha256, "version": VERSION}
    assert document["data"]["sha256"] == data_set("haque-ratings").sha256
    assert document["command"].endswith("--output models/thresholds/all-minilm-l6-v2-int8.json")
    assert document["similarities"]["cosine"]["auc"] >= 0.91
    thresholds = shipped_thresholds(LISTED)
    assert set(thresholds.rules) == set(SUMMARY_CRITERIA)
    assert thresholds.rules["best-f1"] == Rule("cosine", 0.75)
    assert thresholds.rules["most-agree"] == Rule("bertscore-f1", 0.6)
    agreed = document["settings"]["most-agree"]
    assert (document["agreement"]["positives"], agreed["selected"], agreed["hits"]) == (86, 91, 73)
    with pytest.raises(DataError, match="eval thresholds"):
        shipped_thresholds(attrs.evolve(LISTED, sha256="0" * 64))
    with pytest.raises(DataError, match="no thresholds"):
        shipped_thresholds(attrs.evolve(LISTED, version=VERSION + 1))


def test_a_similarity_at_the_threshold_reaches_it() -> None:
    thresholds = Thresholds(
        1, "e", "0", {"best-f1": Rule("cosine", 0.75), "high-recall": Rule("bertscore-f1", 0.3)}
    )
    assert thresholds.verdicts({"cosine": 0.75, "bertscore-f1": 0.2999}) == {
        "best-f1": True,
        "high-recall": False,
    }
    assert thresholds.verdicts({}) == {"best-f1": False, "high-recall": False}


def test_records_are_judged_by_their_numbers() -> None:
    header = Header("summary", "python", ModelIdentity("m", "", ""), "s", 0, similarity=LISTED)
    bare = Record("i", "g", "function", {"exact": True}, True, "line", (), (), ())
    records = [attrs.evolve(bare, similarity=(value,) * len(NAMES)) for value in (0.9, 0.7, 0.2)]
    found = shipped_thresholds(LISTED).judge(header, [*records, bare])
    assert [tuple(record.correct.values()) for record in found] == [
        (True, True, True, True),
        (True, False, False, True),
        (False, False, False, False),
        (False, False, False, False),
    ]
    assert [attrs.evolve(one, correct=bare.correct) for one in found] == [*records, bare]
    for similarity in (None, attrs.evolve(LISTED, sha256="0" * 64)):
        with pytest.raises(DataError, match="encoder"):
            shipped_thresholds(LISTED).judge(attrs.evolve(header, similarity=similarity), records)


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{}", '{"schema": 2}', '{"schema": 1, "encoder": {}, "settings": {"a": {"metric": "x"}}}'],
)
def test_other_files_are_refused_by_name(tmp_path: Path, text: str) -> None:
    (tmp_path / "t.json").write_text(text)
    with pytest.raises(DataError, match=r"t\.json is not a file of thresholds"):
        Thresholds.load(tmp_path / "t.json")
    with pytest.raises(DataError, match="cannot be read"):
        Thresholds.load(tmp_path / "none.json")


@needs_encoder
@pytest.mark.skipif(DATA is None, reason="LSP_CALIB_DATA does not say where the data are")
def test_the_shipped_thresholds_are_found_again(home: Path, tmp_path: Path) -> None:
    """Processors round quantised sums differently: counts may differ by one, and the AUC a little."""
    install(home)
    file = tmp_path / "thresholds.json"
    result = CliRunner().invoke(main, ["eval", "thresholds", "--output", str(file), "--json"])
    assert result.exit_code == 0, result.stderr
    found, shipped = json.loads(file.read_text("utf-8")), json.loads(SHIPPED.read_text("utf-8"))
    assert json.loads(result.stdout) == {"file": str(file), **found}
    assert str(tmp_path) not in found["command"]
    assert (found["encoder"], found["data"]) == (shipped["encoder"], shipped["data"])
    for name, one in shipped["settings"].items():
        same = found["settings"][name]
        assert (same["metric"], same["threshold"]) == (one["metric"], one["threshold"]), name
        for counts, expected in ((same, one), (same["leaveOneOut"], one["leaveOneOut"])):
            assert abs(counts["selected"] - expected["selected"]) <= 1
            assert abs(counts["hits"] - expected["hits"]) <= 1
    for name, one in shipped["similarities"].items():
        assert found["similarities"][name]["auc"] == pytest.approx(one["auc"], abs=0.003)
    assert found["similarities"]["cosine"]["auc"] >= 0.91
    shown = CliRunner().invoke(main, ["eval", "thresholds"], env={"COLUMNS": "120"}).stdout
    assert "most people agree on 86, the mean of three ratings on 48" in shown.replace("\n", " ")
    assert "high-precision" in shown
