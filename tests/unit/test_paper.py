"""The studies repeated: published numbers, what they stand beside, and what is written."""

from __future__ import annotations

import csv
import io
import json
import re
from pathlib import Path

import attrs
import numpy as np
import pytest
from test_score import header_of, records_of

from lsp_calib.calibration.calibrators.purpose import Origin
from lsp_calib.completion.prompt import PLAIN_VERSION
from lsp_calib.corpus.asking import AskingOptions
from lsp_calib.corpus.records import write_records
from lsp_calib.errors import DataError, StoppedError
from lsp_calib.inference.models.cards import load_cards
from lsp_calib.studies import page, published, spiess
from lsp_calib.studies.ask import REFLECTED
from lsp_calib.studies.page import decode_missing, repeat_studies, runs
from lsp_calib.studies.score import Cell, Study, find_files, largest
from lsp_calib.studies.tables import Table
from lsp_calib.studies.tasks import PREFIX, Task


def studied(
    folder: Path,
    name: str,
    task: str,
    source: str = "",
    *,
    model: str = "m",
    seed: int = 0,
    n: int = 240,
    right: int | None = None,
    prompt: str = PLAIN_VERSION,
    condition: str = PREFIX,
    judges: tuple[str, ...] = ("exact",),
    talks: bool = False,
) -> Path:
    """A file of answers to a study's task. right: how many are right; None: as simulated. talks: whether the
    model was asked about them."""
    rng = np.random.default_rng(seed)
    records = [
        attrs.evolve(
            record,
            condition=condition if task == "line" else "inserting",
            correct={judge: record.correct[judge] for judge in judges},
            repeats_bug=at % 4 == 0 if task == "repair" else None,
            observed={
                "ask": (*np.log(rng.dirichlet((2, 2, 1))[:2]).tolist(), -0.5, -2.0, None),
                "verbalised": (0.5 if at % 3 else 0.8, 1, 0),
            }
            if talks
            else {},
        )
        for at, record in enumerate(records_of(n, right=right, lengths=True))
    ]
    header = attrs.evolve(
        header_of(task, prompt, model),
        sources=(Origin(source or "p", "", n),),
        observations=REFLECTED if talks else None,
    )
    folder.mkdir(exist_ok=True, parents=True)
    write_records(folder / f"{name}.jsonl", header, records)
    return folder


def study_of(folder: Path) -> Study:
    return spiess.build(largest(find_files(folder)))


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

    def test_eighty_four_rows_of_spiess_and_every_table_says_where_it_stands(self):
        rows = [
            row
            for name in "5678"
            for of_model in published.table("spiess", name).values()
            for row in of_model
        ]
        assert len(rows) == 84
        for study in ("spiess", "virk", "full-ece"):
            for name, one in published.published()[study]["tables"].items():
                assert one["section"], name
                assert one["what"], name

    def test_a_number_is_found_by_our_names(self):
        quoted = published.quoted_from_spiess("6", "DyPyBench", "total", "skill")
        assert quoted.numbers == (("GPT-3.5", 0.07), ("Codex", 0.09), ("CodeGen2", 0.08))
        assert published.quoted_from_spiess("6", "SStubs", "total", "ece").numbers == (("Codex", 0.02),)
        assert not published.quoted_from_spiess("6", "DyPyBench", "minimum", "skill").numbers
        assert published.quoted_from_virk("3", "python", "skill").numbers[0] == ("CodeLlama-70b", 0.19)


@pytest.fixture(scope="module")
def records(tmp_path_factory):
    """Files of every task, of both profiles."""
    folder = tmp_path_factory.mktemp("records")
    studied(folder, "line", "line")
    studied(folder, "none", "line", condition="no-docstring", right=40)
    studied(folder, "tests", "line", n=120, judges=("exact", "tests"))
    studied(folder, "humaneval", "synthesis", "humaneval", judges=("tests",), talks=True)
    studied(folder, "defects", "repair", "defects4j")
    studied(folder, "stubs", "repair", "manysstubs4j", talks=True)
    studied(folder, "served", "line", prompt="line-fim-2", condition="inserting")
    studied(folder, "infill", "infill", "human-eval", prompt="line-fim-2", judges=("exact", "tests"))
    return folder


@pytest.fixture(scope="module")
def study(records):
    return study_of(records)


def named(study: Study, file: str, judge: str) -> Cell:
    (cell,) = [
        cell
        for cell in study.cells
        if (cell.answers.file.name, cell.answers.judge) == (f"{file}.jsonl", judge)
    ]
    return cell


def tables(study: Study) -> dict[str, Table]:
    return {
        part.title: part
        for one in study.sections
        for part in one.parts
        if isinstance(part, Table) and part.title
    }


# The tables that print a task and criterion: raw, rescaled, AUC. The only places where a number may stand.
STANDS = {
    ("tests", "tests"): ("5", "6", "8"),
    ("line", "exact"): ("", "7", ""),
    ("tests", "exact"): ("", "7", ""),
    ("humaneval", "tests"): ("5", "6", "8"),
    ("defects", "exact"): ("", "7", ""),
    ("stubs", "exact"): ("5", "6", "8"),
}


class TestBeside:
    def test_no_published_number_stands_beside_another_task_or_condition(self, study):
        stood = set()
        for cell in study.cells:
            key = cell.answers.file.path.stem, cell.answers.judge
            raw, rescaled, auc = STANDS.get(key, ("", "", ""))
            for row in cell.rows:
                for metric in ("brier", "skill", "ece", "auc"):
                    quoted = study.quoted(cell, row, metric)
                    if not quoted.numbers:
                        continue
                    assert row.measure in published.SPIESS_NAMES, (key, row.key)
                    if row.rescaling == "raw":
                        wanted = auc if metric == "auc" else raw
                    else:
                        assert row.key[1:] == ("Platt on ln p", "random"), (key, row.key)
                        wanted = rescaled
                    assert quoted.where == f"Table {wanted}", (key, row.key, metric)
                    stood.add((key, quoted.where))
        assert len(stood) == sum(bool(name) for names in STANDS.values() for name in names)

    def test_the_column_beside_which_a_number_stands_is_that_of_its_data_set(self, study):
        cell = named(study, "stubs", "exact")
        assert study.quoted(cell, cell.known("total"), "auc").numbers == (("GPT-3.5", 0.61), ("Codex", 0.66))
        cell = named(study, "humaneval", "tests")
        assert study.quoted(cell, cell.known("total"), "skill").numbers[0] == ("GPT-3.5", -1.7)

    def test_the_auc_of_sstubs_stands_in_table_8(self, study):
        table = next(table for title, table in tables(study).items() if title.startswith("Table 8"))
        at = table.columns.index("SStubs")
        ours = table.rows[[row[0] for row in table.rows].index("**m**") + 1]
        assert (table.rows[0][at], ours[1]) == ("0.61", "Total Prob")
        assert re.fullmatch(r"0\.\d\d \(0\.\d\d to 0\.\d\d\)", ours[at])
        assert ours[table.columns.index("Defects4J")] == "–", "by tests there"

    def test_no_table_holds_both_profiles(self, study):
        papers, editors = set(), set()
        for one in study.sections:
            for part in one.parts:
                if isinstance(part, Table):
                    text = " ".join(" ".join(row) for row in part.rows)
                    (editors if "line-fim-2" in text else papers).add(part.title)
                    assert "line-fim-2" not in text or "GPT-3.5" not in text
        assert editors == {""}
        assert papers

    def test_tables_2_and_3_are_shown_with_what_was_counted(self, study):
        rates, docstrings = (
            next(table for title, table in tables(study).items() if title.startswith(name))
            for name in ("Table 2", "Table 3")
        )
        rows = {row[:2]: row[2:] for row in rates.rows}
        assert rows["all pass", "MBPP"] == ("29.08", "61.79", "72.04", "not run")
        answers = named(study, "line", "exact").answers
        assert rows["exact", "DyPyBench"][3].endswith(f"{answers.right} of 240")
        assert rows["exact", "SStubs"][:3] == ("0.73", "27.77", "20.27")
        assert docstrings.rows[-1][0] == "m"
        assert docstrings.rows[-1][1:4] == ("not run",) * 3
        gained = 100 * (answers.right - 40) / 240
        assert docstrings.rows[-1][6].startswith(f"+{gained:.1f} (")
        assert docstrings.rows[2][6] == "+5.24"

    def test_every_cell_says_how_many_answers_and_right_ones_it_has(self, study):
        for name in ("5", "6", "7", "8"):
            table = next(table for title, table in tables(study).items() if title.startswith(f"Table {name}"))
            counts = dict(
                zip(table.columns, next(row for row in table.rows if row[1] == "n, right"), strict=True)
            )
            for column, judge in spiess._JUDGES[name].items():
                found = spiess.chosen(study.cells, column, judge)
                if not found:
                    assert counts[column] == "not run"
                    continue
                assert counts[column] == f"{found[0].answers.n}, {found[0].answers.right}"
            if name != "7":
                assert counts["Defects4J"] == "not by tests"

    def test_repetitions_of_the_buggy_line_are_told(self, study):
        table = tables(study)["Repair: answers that are the buggy line again"]
        assert [row[:2] for row in table.rows] == [("m", "Defects4J"), ("m", "SStubs")]
        assert {row[2] for row in table.rows} == {"60 of 240 (25 %)"}


class TestReport:
    def test_a_second_run_writes_the_same_bytes_and_the_page_needs_no_network(self, records, tmp_path):
        outputs = [tmp_path / "one", tmp_path / "two"]
        for output in outputs:
            report = repeat_studies("spiess", records, output, lambda _: None)
        first, second = ({file.name: file.read_bytes() for file in sorted(one.iterdir())} for one in outputs)
        assert first == second
        assert {"index.html", "tables.md", "tables.tex", "tables.csv", "study.json"} <= set(first)
        shown = first["index.html"].decode()
        assert not re.search(r"<script|(?:src|href|srcset)=\"(?:https?:)?//", shown)
        pictures = {name for name in first if name.endswith(".png")}
        assert set(re.findall(r'src="([^"]+)"', shown)) == pictures
        assert len(report.files) == len(first)

    def test_numbers_of_the_csv_say_their_profile_and_what_they_stand_beside(self, study):
        rows = list(csv.DictReader(io.StringIO(page.comma_separated([study]))))
        assert {row["profile"] for row in rows} == {"paper", "editor"}
        beside = [row for row in rows if row["published"]]
        assert beside
        assert {row["profile"] for row in beside} == {"paper"}
        assert {row["condition"] for row in beside} <= {"", "prefix"}
        assert {row["measure"] for row in rows} >= {"ask", "normalised", "verbalised"}

    @pytest.mark.long
    def test_names_of_remote_models_are_no_paths_addresses_or_markup(self, tmp_path):
        for at, model in enumerate(("qwen2.5-coder:7b", "Qwen/Qwen2.5", 'm" onerror="alert(1)')):
            studied(tmp_path / "records", str(at), "line", model=model, n=60)
        repeat_studies("spiess", tmp_path / "records", tmp_path / "out", lambda _: None)
        shown = (tmp_path / "out" / "index.html").read_text()
        files = {path.name for path in (tmp_path / "out").iterdir() if path.suffix == ".png"}
        assert set(re.findall(r'src="([^"]+)"', shown)) == files
        assert 'onerror="' not in shown

    def test_what_is_not_there_is_said_and_no_gap(self, records):
        report = repeat_studies("all", records, None, lambda _: None)
        document = report.to_wire()
        assert {claim["verdict"] for claim in document["claims"] if claim["study"] == "virk"} == {"not run"}
        text = page.markdown(report)
        places = [text.index(words) for words in ("## Reproduced exactly", "## What holds", "Table 5: raw")]
        assert places == sorted(places)
        json.dumps(document, allow_nan=False)
        assert "Closure-13" in text, "what tasks leave out"
        assert "HumanEval/20/L0" in text, "a line that no test proves"

    def test_what_is_folded_away_is_not_printed(self, records):
        report = repeat_studies("spiess", records, None, lambda _: None)
        folded = [one for one in report.sections() if one.folded]
        assert {"As served in an editor", "Tasks and files"} <= {one.title for one in folded}
        shown = page.html(report)
        for one in folded:
            assert f"<details><summary>{one.title}</summary>" in shown
            assert one.title not in page.latex(report)
        assert "details > :not(summary) { display: none; }" in shown

    def test_tables_for_latex_are_escaped(self):
        assert page._tex("a_b & 5 % −0.1 **m** `x`") == r"a\_b \& 5 \% $-$0.1 \textbf{m} \texttt{x}"


class TestDecodingWhatIsMissing:
    def test_lines_asap_and_what_models_say_are_asked_for(self, data, tmp_path):
        found = {run.name: run.observe for run in runs("all", tmp_path, data, 0, lambda _: None)}
        assert {"line-docstring", "line-no-docstring", "line-tests", "repair-defects4j"} < set(found)
        assert {"summary-python-asap", "summary-java-asap", "synthesis-mbpp"} < set(found)
        assert all({"ask", "verbalised"} <= observe for observe in found.values())
        assert {name for name, observe in found.items() if "scale" in observe} == {
            name for name in found if name.startswith("summary")
        }

    def test_what_is_left_is_told_first_and_only_what_is_missing_is_asked_for(
        self, home: Path, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        card = load_cards()["smollm2-135m"]
        assert home in card.path.parents
        card.path.parent.mkdir()
        card.path.touch()
        asked: list[tuple[str, frozenset[str]]] = []
        said: list[str] = []

        def collect(task: Task, path: Path, asking: AskingOptions) -> None:
            name = path.parent.name
            asked.append((name, asking.observe))
            if name == "synthesis-humaneval":
                raise DataError("there is no sandbox")
            whole = name != "repair-manysstubs4j"
            file = path if whole else path.with_name(f"{path.name}.journal")
            file.write_text("header\n" + "x\n" * len(task.items))
            if not whole:
                raise StoppedError("Stopped.")

        monkeypatch.setattr(page, "collect_records", collect)
        for name, count in (("repair_task", 142), ("synthesis_task", 164)):
            items = tuple((str(n), {}) for n in range(count))
            monkeypatch.setattr(page.tasks, name, lambda *_, items=items, **__: Task("line", items))

        def decode() -> None:
            asking = AskingOptions(say=said.append, model="smollm2-135m", threads=1)
            decode_missing("spiess", tmp_path, asking, data)

        with pytest.raises(StoppedError):
            decode()
        assert said[0].startswith(f"Missing in {tmp_path}: up to ")
        assert [name for name, _ in asked[:2]] == ["repair-defects4j", "synthesis-humaneval"]
        assert asked[0][1] == {"ask", "verbalised"}
        assert "synthesis-humaneval is left out: there is no sandbox" in said
        assert any("data pull projects" in one for one in said), "lines need the projects"
        asked.clear()
        monkeypatch.setattr(
            page, "collect_records", lambda _, path, __: asked.append((path.parent.name, frozenset()))
        )
        decode()
        names = [name for name, _ in asked]
        assert "repair-defects4j" not in names, "a complete run is done"
        assert {"synthesis-humaneval", "repair-manysstubs4j"} <= set(names)
