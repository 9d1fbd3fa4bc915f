"""From which similarity on a summary is like a person's: derived, shipped, applied to records."""

from __future__ import annotations

import json
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
from lsp_calib.corpus.header import Header, SimilarityList
from lsp_calib.corpus.records import Record
from lsp_calib.corpus.thresholds import (
    NAMES,
    VERSION,
    Rule,
    Thresholds,
    shipped_thresholds,
    threshold_of_agreement,
)
from lsp_calib.errors import DataError
from lsp_calib.studies.data import data_set
from lsp_calib.studies.similarity_threshold import leave_one_out, most_agree, threshold_of_correctness
from lsp_calib.values import ModelIdentity

SHIPPED = state.shipped_models() / "thresholds" / "all-minilm-l6-v2-int8.json"
LISTED = SimilarityList(VERSION, CARD.name, CARD.sha256, NAMES)
DATA = os.environ.get("LSP_CALIB_DATA")

rated = st.lists(
    st.tuples(st.integers(1, 4), st.integers(0, 9).map(lambda k: k / 10), st.floats(0.0, 1.0)),
    min_size=4,
    max_size=14,
).filter(lambda rows: sum(rating >= 3 for rating, _, _ in rows) >= 2)


@given(rated)
def test_each_item_is_decided_by_what_is_chosen_on_the_others(rows: list[tuple[int, float, float]]) -> None:
    def split(rows: list[tuple[int, float, float]]) -> tuple[list[list[int]], dict[str, list[float]]]:
        return [[r] for r, _, _ in rows], {"a": [a for _, a, _ in rows], "b": [b for _, _, b in rows]}

    found = leave_one_out(*split(rows), floor=0.5)
    for name, tally in found.items():
        selected = hits = 0
        for at, (rating, a, b) in enumerate(rows):
            setting = getattr(threshold_of_correctness(*split(rows[:at] + rows[at + 1 :]), floor=0.5), name)
            if setting is not None and {"a": a, "b": b}[setting.metric] >= setting.threshold:
                selected, hits = selected + 1, hits + (rating >= 3)
        assert (tally.selected, tally.hits) == (selected, hits)
        assert tally.positives == sum(rating >= 3 for rating, _, _ in rows)


def test_chance_is_found_out_by_leaving_one_out() -> None:
    """Of many similarities that mean nothing one fits by chance; on what it was not chosen by it does not."""
    rng = np.random.default_rng(5)
    ratings = np.where(rng.random(60) < 0.25, 4, 1)[:, None]
    noise = {f"noise-{n}": rng.random(60) for n in range(20)}
    setting = threshold_of_correctness(ratings, noise).best_f1
    assert setting is not None
    left_out = leave_one_out(ratings, noise)
    assert left_out["best_f1"].hits < setting.hits
    assert left_out == leave_one_out(ratings, noise, floor=0.9)
    assert left_out["high_recall"].selected, "by default too there are such settings"


def test_most_people_agree_by_the_similarity_whose_curve_predicts_them() -> None:
    """The rule is that of the informative similarity; its curve is near the odds that made the labels."""
    rng = np.random.default_rng(3)
    x = rng.random(400)
    odds = 1.0 / (1.0 + np.exp(-(8.0 * x - 4.0)))
    ratings = np.where(rng.random((400, 6)) < odds[:, None], 3, 2)
    agreed = most_agree(ratings)
    assert agreed.tolist() == [bool(sum(row >= 3) >= 3) for row in ratings]
    found = threshold_of_agreement(agreed, {"noise": rng.random(400), "x": x})
    assert found.setting.metric == "x"
    assert 0.4 < found.setting.threshold < 0.55
    assert found.auc > 0.9
    assert found.others.hits <= found.setting.hits
    assert -found.intercept / found.slope == pytest.approx(0.45, abs=0.05)
    with pytest.raises(DataError, match="each class"):
        threshold_of_agreement([True] * 5, {"x": x[:5]})


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
        1, "e", "0", {"best-f1": Rule("cosine", 0.75), "high-recall": Rule("rouge-l", 0.3)}
    )
    assert thresholds.verdicts({"cosine": 0.75, "rouge-l": 0.2999}) == {"best-f1": True, "high-recall": False}
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
