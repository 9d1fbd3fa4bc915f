"""Files of other harnesses: real ones, and what is refused.

`data/harnesses/smollm2-135m` is a run of lm_eval 0.4.13 with SmolLM2-135M, served by llama-cpp-python, on 24
questions (`>>> len([1, 2, 3])`) with four values to choose from, and to be written. In `last-token-lost` each
sum lacks its last token (findings/lm_eval_gguf_loses_last_token.sh). `bigcode` is a run of
bigcode-evaluation-harness 8fc5bae with the same model (transformers) on the first 12 problems of HumanEval.
"""

from __future__ import annotations

import json
import math
import shutil
from pathlib import Path

import numpy as np
import pytest
from scipy.special import softmax
from sklearn.metrics import brier_score_loss, roc_auc_score

from lsp_calib.errors import DataError
from lsp_calib.studies.harnesses import imported_table, read

DATA = Path(__file__).parents[1] / "data" / "harnesses"
(CHOICE,) = (DATA / "smollm2-135m").glob("samples_python_values_choice_*")
(WRITTEN,) = (DATA / "smollm2-135m").glob("samples_python_values_written_*")
(RESULTS,) = (DATA / "smollm2-135m").glob("results_*")


def lines_of(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def copy_of(path: Path, folder: Path, change) -> Path:
    """A copy in a folder, beside its results, with its lines changed."""
    shutil.copy(RESULTS, folder)
    found = folder / path.name
    changed = change(lines_of(path))
    found.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in changed), "utf-8")
    return found


def each(**changes):
    """A change of every line: each value of what the line holds."""
    return lambda rows: [row | {name: value(row) for name, value in changes.items()} for row in rows]


class TestChoices:
    def test_the_softmax_over_the_choices_is_the_confidence_of_the_chosen_one(self):
        by_judge = {one.judge: one for one in read(CHOICE)}
        rows = lines_of(CHOICE)
        sums = np.array([[float(value) for ((value, _),) in row["resps"]] for row in rows])
        expected = softmax(sums, axis=1).max(axis=1)
        assert by_judge["acc"].confidences["softmax over choices"] == pytest.approx(expected)
        assert by_judge["acc"].right.tolist() == [row["acc"] == 1.0 for row in rows]
        # Another choice is the best by length, and its confidence is not this one.
        assert not by_judge["acc_norm"].confidences

    def test_a_row_has_the_scores_of_scikit_learn(self):
        table = imported_table([CHOICE])
        row = dict(zip(table.columns, next(row for row in table.rows if "acc" in row), strict=True))
        right = np.array([row["acc"] == 1.0 for row in lines_of(CHOICE)])
        confidence = next(one for one in read(CHOICE) if one.judge == "acc").confidences[
            "softmax over choices"
        ]
        brier = brier_score_loss(right, confidence)
        assert row["Brier score"] == f"{brier:.3f}"
        skill = f"{1.0 - brier / (right.mean() * (1.0 - right.mean())):+.2f}".replace("-", "−")
        assert row["skill"].startswith(skill)
        assert row["AUC"].startswith(f"{roc_auc_score(right, confidence):.2f}")

    def test_version_shots_model_and_hash_are_named(self):
        said = read(CHOICE)[0].origin
        results = json.loads(RESULTS.read_text("utf-8"))
        whole = results["task_hashes"]["python_values_choice"]
        assert said == f"lm-eval 0.4.13, smollm2-135m, python_values_choice@1.0, 0-shot, hash {whole[:16]}"

    def test_without_results_beside_it_version_and_shots_are_unknown(self, tmp_path):
        shutil.copy(CHOICE, tmp_path)
        assert "version, shots unknown" in read(tmp_path / CHOICE.name)[0].origin

    def test_choices_without_the_question_are_no_choices(self, tmp_path):
        """acc_mutual_info asks for each choice alone as well."""

        def with_unconditional(rows):
            for row in rows:
                asked = list(row["arguments"].values())
                for at, one in enumerate(asked):
                    row["arguments"][f"gen_args_{len(asked) + at}"] = one | {"arg_0": ""}
                row["resps"] = row["resps"] + [[["-0.5", "False"]] for _ in asked]
            return rows

        found = read(copy_of(CHOICE, tmp_path, with_unconditional))
        for one, before in zip(found, read(CHOICE), strict=True):
            assert one.right.tolist() == before.right.tolist()
            for name, confidence in before.confidences.items():
                assert one.confidences[name] == pytest.approx(confidence)


class TestTexts:
    def test_without_log_probabilities_there_are_pass_rates_alone_for_each_filter(self):
        found = read(WRITTEN)
        assert [(one.answers, one.judge) for one in found] == [
            ("text, filter strict", "exact_match"),
            ("text, filter number", "exact_match"),
        ]
        assert not any(one.confidences for one in found)
        for one in found:
            rows = [row for row in lines_of(WRITTEN) if one.answers.endswith(row["filter"])]
            assert one.right.mean() == np.mean([row["exact_match"] for row in rows])

    def test_with_our_field_of_log_probabilities_texts_are_calibrated(self, tmp_path):
        path = copy_of(WRITTEN, tmp_path, each(logprobs=lambda row: [-0.1] * (row["doc_id"] % 5)))
        found = read(path)[0].confidences
        lengths = np.array([row["doc_id"] % 5 for row in lines_of(WRITTEN) if row["filter"] == "strict"])
        assert found["total"] == pytest.approx(np.where(lengths, np.exp(-0.1 * lengths), 0.0))
        assert found["geometric mean"] == pytest.approx(np.where(lengths, math.exp(-0.1), 0.0))

    def test_a_metric_that_is_no_rate_has_no_row(self, tmp_path):
        change = each(bleu=lambda _: 23.4, metrics=lambda row: ["bleu", *row["metrics"]])
        assert {one.judge for one in read(copy_of(WRITTEN, tmp_path, change))} == {"exact_match"}

    def test_a_share_has_a_rate_and_no_count(self, tmp_path):
        path = copy_of(WRITTEN, tmp_path, each(exact_match=lambda row: 0.25 if row["doc_id"] else 0.5))
        rows = imported_table([path]).rows
        assert [row[3:5] for row in rows] == [("24", "26 %"), ("24", "26 %")]

    @pytest.mark.parametrize(
        "logprobs", [None, [0.1], [float("-inf")], [-(10**400)], ["-1"], [True], -1.0], ids=str
    )
    def test_what_is_no_list_of_log_probabilities_is_refused(self, tmp_path, logprobs):
        path = copy_of(WRITTEN, tmp_path, each(logprobs=lambda _: logprobs))
        with pytest.raises(DataError, match="document 0, has no `logprobs`"):
            read(path)

    def test_log_probabilities_of_several_texts_are_refused(self, tmp_path):
        change = each(logprobs=lambda _: [-1.0], resps=lambda row: [row["resps"][0] * 2])
        with pytest.raises(DataError, match="several texts"):
            read(copy_of(WRITTEN, tmp_path, change))


class TestBroken:
    def test_a_real_run_that_lost_the_last_token_of_each_choice_is_refused(self):
        (path,) = (DATA / "last-token-lost").glob("samples_*")
        with pytest.raises(DataError, match="together more than certain: the server left out"):
            read(path)

    def test_a_sum_of_0_at_every_choice_is_a_broken_server(self, tmp_path):
        path = copy_of(CHOICE, tmp_path, each(resps=lambda row: [[["0", "True"]] for _ in row["resps"]]))
        with pytest.raises(DataError, match="document 0, has choices that are together more than certain"):
            read(path)

    @pytest.mark.parametrize(
        ("path", "change", "said"),
        [
            *(
                (
                    CHOICE,
                    each(resps=lambda row, value=value: [[[value, "False"]], *row["resps"][1:]]),
                    "in place of the log-probabilities",
                )
                for value in ("nan", "-inf", "0.1")
            ),
            (
                CHOICE,
                each(resps=lambda row: row["resps"][1:]),
                "one sum of log-probabilities for each choice",
            ),
            (CHOICE, each(acc=lambda row: 1.0 - row["acc"]), "which is not that of its sums and its target"),
            *(
                (CHOICE, each(**{name: lambda _: "0" * 64}), f"line 1, cannot be read: its '{name}'")
                for name in ("doc_hash", "prompt_hash", "target_hash")
            ),
            (CHOICE, lambda rows: [*rows, rows[0]], "document 0, stands there twice"),
            (CHOICE, lambda rows: rows[:-1], "some of its lines are missing"),
            (WRITTEN, lambda rows: rows[:-1], "is not whole"),
            *(
                (CHOICE, each(arguments=lambda _, arguments=arguments: arguments), "line 1, cannot be read")
                for arguments in (
                    *({}, {"gen_args_0": []}, {"gen_args_0": {"arg_0": 1, "arg_1": "3"}}),
                    {"gen_args_0": {"arg_0": ""}},
                )
            ),
            (CHOICE, each(metrics=lambda _: [["acc"]]), "its 'metrics' are no names"),
            *(
                (
                    CHOICE,
                    lambda rows, name=name: [{key: row[key] for key in row if key != name} for row in rows],
                    "samples_",
                )
                for name in ("doc_id", "arguments", "resps", "metrics", "filter", "doc", "acc")
            ),
        ],
    )
    def test_what_is_malformed_or_was_changed_is_refused(self, tmp_path, path, change, said):
        with pytest.raises(DataError, match=said) as caught:
            read(copy_of(path, tmp_path, change))
        assert str(tmp_path) in str(caught.value)

    def test_choices_and_texts_in_one_file_are_refused(self, tmp_path):
        shown = lines_of(WRITTEN)[0] | {"filter": "none", "doc_id": 99}
        path = copy_of(CHOICE, tmp_path, lambda rows: [*rows, shown])
        (tmp_path / RESULTS.name).unlink()
        with pytest.raises(DataError, match="choices and generated texts at once"):
            read(path)

    def test_results_of_lm_eval_are_no_samples(self):
        with pytest.raises(DataError, match="is no file of answers that is known"):
            read(RESULTS)


class TestBigcode:
    def test_pass_rates_come_from_the_results(self):
        (found,) = read(DATA / "bigcode" / "evaluation_results.json")
        said = "bigcode, model smollm2-135m, prompt prompt, n_samples 1, temperature 0.2, limit 12"
        assert (found.task, found.judge, found.right, found.origin) == (
            "humaneval",
            "pass@1",
            (0.0, 12),
            said,
        )

    def test_real_texts_hold_no_verdict(self):
        with pytest.raises(DataError, match=r"keeps none\. Name its evaluation_results\.json"):
            read(DATA / "bigcode" / "generations_humaneval.json")

    def test_texts_with_our_fields_are_calibrated_by_problem(self, tmp_path):
        path = tmp_path / "generations_mbpp.json"
        samples = [
            [{"text": "x", "passed": number % 2 == 0, "logprobs": [-0.2 * k] * 3} for k in range(1, 3)]
            for number in range(6)
        ]
        path.write_text(json.dumps(samples))
        (found,) = read(path)
        assert found.groups == [number for number in range(6) for _ in range(2)]
        assert found.right.tolist() == [number % 2 == 0 for number in range(6) for _ in range(2)]
        assert found.confidences["total"] == pytest.approx(np.tile(np.exp([-0.6, -1.2]), 6))
        assert [row[0] for row in imported_table([path]).rows] == ["mbpp", "mbpp"]

    @pytest.mark.parametrize(
        "document",
        ["[]", "[[]]", '["a"]', "[[1]]", '{"config": {}}', '{"a": {"pass@1": 2}, "config": {}}', "[["],
    )
    def test_what_is_malformed_is_refused(self, tmp_path, document):
        path = tmp_path / "generations_mbpp.json"
        path.write_text(document)
        with pytest.raises(DataError, match=path.name):
            read(path)
