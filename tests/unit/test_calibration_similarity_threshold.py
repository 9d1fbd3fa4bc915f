"""The threshold of correctness: brute force over metrics and thresholds, and the published ratings."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lsp_calib.calibration.scores import auc
from lsp_calib.corpus.thresholds import COLUMNS, read_ratings
from lsp_calib.errors import DataError
from lsp_calib.studies.data import DATA_SETS
from lsp_calib.studies.similarity_threshold import rated_correct, threshold_of_correctness

similarities = st.lists(
    st.tuples(
        st.integers(1, 4),
        st.one_of(st.floats(-1.0, 1.0), st.integers(-20, 20).map(lambda k: k / 20)),
        st.floats(0.0, 1.0),
    ),
    min_size=1,
    max_size=30,
).filter(lambda rows: any(rating >= 3 for rating, _, _ in rows))


@settings(deadline=None)
@given(rows=similarities, floor=st.sampled_from([0.0, 0.5, 0.9]))
def test_the_three_criteria_by_brute_force(rows, floor):
    correct = np.array([rating >= 3 for rating, _, _ in rows])
    metrics = {"a": np.array([a for _, a, _ in rows]), "b": np.array([b for _, _, b in rows])}
    found = threshold_of_correctness([[rating] for rating, _, _ in rows], metrics, floor=floor)
    every = []
    for name, values in metrics.items():
        for k in range(-101, 102):
            chosen = values >= k / 100
            if chosen.any():
                hits = np.sum(chosen & correct)
                precision, recall = hits / chosen.sum(), hits / correct.sum()
                f1 = 2 * precision * recall / (precision + recall) if hits else 0.0
                every.append((name, precision, recall, f1))
    best = max((recall for _, precision, recall, _ in every if precision > floor), default=None)
    if best is None:
        assert found.high_precision is None
    else:
        assert found.high_precision.recall == pytest.approx(best)
        assert found.high_precision.precision > floor
    best = max((precision for _, precision, recall, _ in every if recall > floor), default=None)
    assert found.high_recall.precision == pytest.approx(best)
    assert found.high_recall.recall > floor
    assert found.best_f1.f1 == pytest.approx(max(f1 for *_, f1 in every))
    for setting in (found.high_precision, found.high_recall, found.best_f1):
        if setting is not None:
            chosen = metrics[setting.metric] >= setting.threshold
            assert (setting.selected, setting.hits) == (chosen.sum(), (chosen & correct).sum())
            assert setting.positives == correct.sum()


def test_of_equal_settings_the_stricter_and_the_first_named_wins():
    rated = [[4], [4], [1], [1]]
    values = [0.9, 0.8, 0.5, 0.1]
    found = threshold_of_correctness(rated, {"x": values, "y": values})
    assert (found.best_f1.metric, found.best_f1.threshold) == ("x", 0.8)


@pytest.mark.parametrize(
    ("ratings", "metrics", "complaint"),
    [
        ([[4], [1]], {}, "no metric"),
        ([[1], [2]], {"x": [0.1, 0.2]}, "rated 3"),
        ([[4], [1]], {"x": [0.1]}, "x must hold one value"),
        ([[4], [1]], {"x": [0.1, math.nan]}, "x must be finite"),
        ([[4], [1]], {"x": ["a", "b"]}, "x must be numbers"),
        ([4, 1], {"x": [0.1, 0.2]}, "shape"),
        ([], {"x": []}, "shape"),
    ],
)
def test_what_cannot_be_searched_is_refused(ratings, metrics, complaint):
    with pytest.raises(DataError, match=complaint):
        threshold_of_correctness(ratings, metrics)


HEADER = ",".join([*COLUMNS, "cosine"])


def written(tmp_path, *rows, header=HEADER):
    path = tmp_path / "ratings.csv"
    path.write_text("\n".join([header, *rows, ""]), "utf-8")
    return path


def test_ratings_are_read_by_method_and_source(tmp_path):
    path = written(
        tmp_path,
        '7,1,baseline,4,"adds, quickly",sums up,0.5',
        "9,1,baseline,1,a,b,0.25",
        "7,2,reference,2,a,b,0.5",
        '7,3,baseline,2,"adds, quickly",sums up,0.5',
        "9,3,baseline,2,a,b,0.25",
    )
    found = read_ratings(path)
    assert found.methods == ("7", "9")
    assert found.ratings.tolist() == [[4, 2], [1, 2]]
    assert found.metrics["cosine"].tolist() == [0.5, 0.25]
    assert (found.generated[0], found.reference[0]) == ("adds, quickly", "sums up")
    assert read_ratings(path, "reference").ratings.tolist() == [[2]]


@pytest.mark.parametrize(
    ("rows", "header", "complaint"),
    [
        ([], HEADER, "no rows with source 'baseline'"),
        (["7,1,baseline,x,a,b,0.5"], HEADER, "no number"),
        (["7,1,baseline,3,a,b"], HEADER, "no number"),
        (["7,1,baseline,3,a,b,0.5", "7,2,baseline,3,a,b,0.5", "8,1,baseline,3,a,b,0.5"], HEADER, "equally"),
        ([], "function_id,source", "lacks the columns rater_id"),
    ],
)
def test_files_that_hold_no_ratings_are_refused_by_name(tmp_path, rows, header, complaint):
    with pytest.raises(DataError, match=rf"ratings\.csv.*{complaint}"):
        read_ratings(written(tmp_path, *rows, header=header))


@pytest.fixture
def haque(data):
    path = data / DATA_SETS["haque-ratings"].file
    if not path.is_file():
        pytest.skip(f"{path} is not there")
    return read_ratings(path)


def ranks(values):
    return (values - values.min()) / np.ptp(values)


def test_the_published_ratings(haque):
    """Haque et al. 2022, three ratings a method; the study's thresholds are found again."""
    correct = rated_correct(haque.ratings)
    assert haque.ratings.shape == (210, 3)
    assert (int(correct.sum()), correct.size) == (48, 210)
    assert auc(ranks(haque.metrics["sentence_bert_cosine"]), correct) == pytest.approx(0.903, abs=5e-4)
    assert auc(ranks(haque.metrics["bertscore_recall"]), correct) == pytest.approx(0.864, abs=5e-4)
    found = threshold_of_correctness(haque.ratings, {"bertscore_recall": haque.metrics["bertscore_recall"]})
    assert found.best_f1.threshold == 0.49
    assert found.best_f1.f1 == pytest.approx(0.717, abs=5e-4)
    assert found.high_precision.threshold == 0.89


def test_the_published_triple_needs_the_cosine_on_a_scale_from_0_to_1(haque):
    """0.80 for high recall is not reached with the column as published (0.61): it is (cosine + 1) / 2."""
    bert, cosine = haque.metrics["bertscore_recall"], haque.metrics["sentence_bert_cosine"]
    found = threshold_of_correctness(haque.ratings, {"bert": bert, "cosine": (cosine + 1) / 2})
    settings = (found.high_precision, found.high_recall, found.best_f1)
    assert [(s.metric, s.threshold) for s in settings] == [("bert", 0.89), ("cosine", 0.8), ("bert", 0.49)]
    as_published = threshold_of_correctness(haque.ratings, {"bert": bert, "cosine": cosine})
    assert (as_published.high_recall.metric, as_published.high_recall.threshold) == ("cosine", 0.61)
