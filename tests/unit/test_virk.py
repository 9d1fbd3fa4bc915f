"""The study of summaries on made-up records: its tables, what is judged, the temperature of the softmax."""

from __future__ import annotations

from pathlib import Path

import attrs
import numpy as np
import pytest
from encoder_scene import CARD

from lsp_calib.corpus.records import Header, ObservationList, Record, SimilarityList, write_records
from lsp_calib.corpus.thresholds import NAMES
from lsp_calib.corpus.thresholds import VERSION as SIMILARITY
from lsp_calib.studies import virk
from lsp_calib.studies.score import Cell, Study, answers_of, find_files, largest
from lsp_calib.studies.statistics import ON_LOG_ODDS, ON_P
from lsp_calib.studies.tables import Picture, Section, Table
from lsp_calib.studies.virk import BM25, VIRK, build, prompting_of, scored, tempered
from lsp_calib.summarization.prompt import AUGMENTED, VERSION
from lsp_calib.values import ModelIdentity

LISTED = SimilarityList(SIMILARITY, CARD.name, CARD.sha256, NAMES)
_ASKED = "true", "false", "contained-true", "contained-false", "true-token"
OBSERVED = ObservationList(1, (("ask", _ASKED),))


def records(n: int = 160) -> list[Record]:
    """The first three tokens say how similar a summary is; those behind it, of which half the answers have
    two, are sure and are not judged."""
    rng = np.random.default_rng(1)
    found = []
    for at in range(n):
        p = rng.uniform(0.3, 0.98)
        tail = (-0.001, -0.001) if at % 2 else ()
        close = float(np.clip(p + rng.normal(0, 0.1), 0, 1))
        found.append(
            Record(
                item=f"me/project-{at % 8}/f.py:A.f{at}",
                group=f"me/project-{at % 8}",
                stratum="function",
                correct=dict.fromkeys(virk.CRITERIA, True),
                shown=True,
                stop="length" if at % 4 == 1 else "endOfText",
                tokens=tuple(range(4 + len(tail))),
                logprobs=(*np.log(p) - rng.uniform(0, 0.2, 4), *tail),
                typed_logprobs=(0.0,) * (4 + len(tail)),
                entropies=(0.5,) * (4 + len(tail)),
                similarity=(round(close, 4),) * len(NAMES),
                judged_tokens=4 if tail else None,
            )
        )
    return found


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("records")
    identity = ModelIdentity("m-1b", "Q4", "0" * 64)
    for name, prompt in (("plain", VERSION), ("augmented", AUGMENTED)):
        header = Header("summary", "python", identity, prompt, 0, similarity=LISTED)
        write_records(found / f"{name}.jsonl", header, records())
    asked = [attrs.evolve(one, observed={"ask": (-0.01, -5.0, -0.01, -5.0, -0.01)}) for one in records(80)]
    header = Header("summary", "python", identity, VERSION, 0, similarity=LISTED, observations=OBSERVED)
    write_records(found / "asked.jsonl", header, asked)
    return found


@pytest.fixture(scope="module")
def study(folder: Path) -> Study:
    files = find_files(folder)
    return build(largest(files), files)


def section(study: Study, title: str) -> Section:
    return next(one for one in study.sections if title in one.title)


def named(study: Study, section_title: str, title: str) -> Table:
    parts = section(study, section_title).parts
    return next(one for one in parts if isinstance(one, Table) and one.title.startswith(title))


def cell_of(study: Study, judge: str = "best-f1", prompting: str = BM25) -> Cell:
    return scored(study.cells, judge, prompting)[0]


def test_a_table_has_the_published_rows_above_ours_of_each_language(study: Study) -> None:
    rows = named(study, "Tables 1 to 4", "Table 1").rows
    assert [row[0] for row in rows] == ["Java"] * 3 + ["Python"] * 4
    assert rows[3][1:] == ("CodeLlama-70b (published)", "–", "0.23", "0.31", "0.25", "−0.45")
    ours, answers = rows[-1], cell_of(study).answers
    assert ours[1:4] == ("m-1b", f"160, {answers.right}", f"{answers.right / 160:.2f}")


def test_platt_on_p_stands_twice_as_the_text_and_as_the_script_has_it(study: Study) -> None:
    for title in ("Table 2", "Table 3", "Table 4 high recall"):
        ours = [row[1] for row in named(study, "Tables 1 to 4", title).rows if "published" not in row[1]]
        assert ours == [f"m-1b, {ON_P}", f"m-1b, {ON_LOG_ODDS}"], title


def test_a_published_number_stands_beside_the_same_prompting_criterion_and_line_alone(study: Study) -> None:
    cell = cell_of(study)
    assert study.quoted(cell, cell.known("geometric-mean"), "skill").where == "Table 1"
    assert study.quoted(cell, cell.known("geometric-mean", ON_P, "apart"), "skill").where == "Table 2"
    for row in cell.rows:
        if row.key not in (("geometric-mean", "raw", ""), ("geometric-mean", ON_P, "apart")):
            assert not study.quoted(cell, row, "skill").numbers, row.key
    recall = cell_of(study, "high-recall")
    assert not study.quoted(recall, recall.known("geometric-mean"), "skill").numbers
    assert study.name == VIRK


def test_only_the_judged_texts_tokens_count_and_the_page_says_of_how_many_answers(study: Study) -> None:
    """Half of the answers have two sure tokens behind the judged sentence."""
    (row, _) = named(study, "Tables 1 to 4", "What is judged").rows
    assert row[2:] == (BM25, "160", "40", "80 (50 %)", "80 %")
    cell = cell_of(study)
    assert set(map(len, cell.answers.logprobs)) == {4}
    expected = [np.exp(np.mean(record.logprobs[:4])) for record in cell.answers.found]
    assert cell.known("geometric-mean").confidence == pytest.approx(expected)


def test_what_a_model_says_is_of_the_file_that_was_asked(study: Study) -> None:
    table = section(study, "6.4").parts[0]
    assert isinstance(table, Table)
    rows = {row[1]: row for row in table.rows}
    assert rows["ask-token"][2].startswith("80, ")
    assert rows["ask-token"][4] == "100 %", "all above 0.9"
    assert prompting_of(cell_of(study)) == BM25


def test_the_temperature_of_the_softmax_is_exact_to_first_order(folder: Path) -> None:
    """Softmaxes of known logits: the probability at a temperature near 1 is met to second order."""
    rng = np.random.default_rng(2)
    logits = rng.normal(size=(50, 30)) * 2.0

    def log_softmax(temperature: float) -> np.ndarray:
        z = logits / temperature
        return z - np.log(np.exp(z).sum(axis=1, keepdims=True))

    plain = log_softmax(1.0)
    entropy = -(np.exp(plain) * plain).sum(axis=1)
    chosen = logits.argmax(axis=1)
    own = plain[np.arange(50), chosen]
    answers = answers_of(find_files(folder)[0], ["best-f1"])[0]
    one = attrs.evolve(
        answers.found[0],
        tokens=tuple(range(50)),
        logprobs=tuple(own),
        typed_logprobs=(0.0,) * 50,
        entropies=tuple(entropy),
        judged_tokens=None,
    )
    made = attrs.evolve(answers, found=(one,))
    assert tempered(made, 1.0)[0] == pytest.approx(np.exp(own.mean()))
    for temperature in (0.95, 1.05):
        exact = np.exp(log_softmax(temperature)[np.arange(50), chosen].mean())
        found = tempered(made, temperature)[0]
        assert abs(found - exact) < 0.1 * abs(exact - np.exp(own.mean()))


def test_of_two_answers_alike_before_the_right_one_is_ahead_after(study: Study) -> None:
    parts = section(study, "Figures 1").parts
    (picture,) = (one for one in parts if isinstance(one, Picture) and one.stem == "virk-figure-1")
    wrong, right = picture.draw.args[0]  # type: ignore[attr-defined]
    assert (wrong[1], right[1]) == (False, True)
    assert abs(wrong[2] - right[2]) <= 0.01
    assert right[3] > wrong[3]
