"""Full-ECE and classwise ECE: against the formulas written out; the noise floor; counts that go on."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from lsp_calib.cli import main
from lsp_calib.corpus import item_worker
from lsp_calib.corpus.records import Header
from lsp_calib.errors import DataError, StoppedError
from lsp_calib.inference.choice import EngineChoice
from lsp_calib.studies import full_ece
from lsp_calib.studies.full_ece import (
    BINS,
    DRAWS,
    FINE,
    GRID,
    TOKEN,
    Counts,
    Level,
    Numbers,
    best_temperature,
    binned_error,
    read_numbers,
    study,
    texts,
)
from lsp_calib.studies.score import find_files
from lsp_calib.studies.tables import Picture, Table
from lsp_calib.values import ModelIdentity

Matrix = np.ndarray[Any, np.dtype[np.float32]]


def distributions(n: int, k: int, rng: np.random.Generator) -> Matrix:
    """Softmaxes, some of them nearly one-hot."""
    scores = rng.normal(size=(n, k)) * rng.uniform(0.1, 6.0, size=(n, 1))
    p = np.exp(scores - scores.max(axis=1, keepdims=True))
    return (p / p.sum(axis=1, keepdims=True)).astype(np.float32)


def counted(p: Matrix, targets: list[int], rng: np.random.Generator) -> Counts:
    counts = Counts.none(p.shape[1])
    for row, target in zip(p, targets, strict=True):
        counts.add(row, target, rng.random(DRAWS))
    return counts


def by_the_formula(p: Matrix, targets: list[int], bins: int, *, by_token: bool) -> float:
    """Equations 7 and 11 of the paper, entry by entry."""
    n, k = p.shape
    edges = (np.arange(1, bins + 1) / bins).astype(np.float32)
    cells: dict[tuple[int, int], list[tuple[float, bool]]] = {}
    for i in range(n):
        for j in range(k):
            m = next(m for m in range(bins) if p[i, j] <= edges[m])
            cells.setdefault((m, j if by_token else 0), []).append((float(p[i, j]), targets[i] == j))
    total = 0.0
    for members in cells.values():
        confidence, accuracy = np.mean([c for c, _ in members]), np.mean([a for _, a in members])
        total += len(members) * abs(accuracy - confidence)
    return total / (n * k if by_token else n)


@given(n=st.integers(1, 12), k=st.integers(2, 8), bins=st.sampled_from(BINS), seed=st.integers(0, 1000))
def test_the_formulas_follow_from_the_counts(n: int, k: int, bins: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    p, targets = distributions(n, k, rng), rng.integers(k, size=n).tolist()
    p[0] = np.array([0.4, 0.6] + [0.0] * (k - 2))  # on the edges of two bins
    counts = counted(p, targets, rng)
    assert counts.drawn.sum(axis=1).tolist() == [n] * DRAWS
    entries, confidence, hits = counts.every
    full = binned_error(confidence, hits, bins) / n
    assert full == pytest.approx(by_the_formula(p, targets, bins, by_token=False), abs=1e-6)
    classwise = by_the_formula(p, targets, bins, by_token=True)
    assert counts.classwise_ece(bins) == pytest.approx(classwise, abs=1e-6)
    assert int(entries.sum()) == n * k
    right = sum(int(row.argmax()) == target for row, target in zip(p, targets, strict=True))
    assert (int(counts.top[0].sum()), int(counts.top[2].sum())) == (n, right)


def document(*counts: Counts) -> dict[str, Any]:
    return {
        "texts": 1,
        "fittedTexts": 1,
        "tokens": counts[0].sums.size,
        "temperatures": [1.0, 1.5],
        "rarity": {"never": 3, "1 to 10": 6},
        "counts": [one.to_json() for one in counts],
    }


def level_of(counts: Counts) -> Level:
    return Numbers.of(json.loads(json.dumps(document(counts, counts)))).levels[0]


def test_the_deviation_of_a_perfectly_calibrated_model_is_that_of_counting() -> None:
    """Full-ECE of a model whose tokens are drawn from its own distributions rises with M as in its draws. Of
    an over-confident one it lies above them all and varies less: counting adds to a deviation."""
    rng = np.random.default_rng(1)
    true = distributions(4000, 30, rng)
    sharper = true**1.6
    sharper /= sharper.sum(axis=1, keepdims=True)
    cumulated = np.cumsum(true, axis=1)
    drawn = [
        int(np.searchsorted(row, x * row[-1])) for row, x in zip(cumulated, rng.random(4000), strict=True)
    ]
    perfect, confident = (level_of(counted(p, drawn, rng)) for p in (true, sharper))
    _, least, most = perfect.floor_deviations
    assert least <= perfect.deviations[1] <= most
    assert perfect.counting == pytest.approx(1.0, abs=0.2)
    assert confident.deviations[1] < confident.floor_deviations[1]
    assert np.all(confident.full > confident.floor.max(axis=0))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    rng = np.random.default_rng(4)
    p = distributions(400, 30, rng)
    counts = counted(p, rng.integers(30, size=400).tolist(), rng)
    header = Header(TOKEN, "code", ModelIdentity("m", "Q4", "0" * 64), "token-1", 0)
    text = f"{header.to_line()}\n{json.dumps(document(counts, counts))}\n"
    (tmp_path / "token.jsonl").write_text(text, "utf-8")
    return tmp_path


def test_the_studys_table_follows_from_a_file_of_counts_beside_its_floor(folder: Path) -> None:
    files = find_files(folder)
    study = full_ece.build(files)
    table, over_m, likeliest = study.sections[0].parts
    assert isinstance(table, Table)
    rows = {row[0]: row[1:] for row in table.rows}
    ((name, classwise, full, (least, most), _),) = full_ece.deviations(files)
    assert name == "m"
    assert rows["relative standard deviation of Full-ECE over M"] == (f"{100 * full:.2f} %", "7.56 %, 8.36 %")
    assert rows["relative standard deviation of cw-ECE over M"][0] == f"{100 * classwise:.2f} %"
    assert rows["its floor of Full-ECE"][0].endswith(f"({100 * least:.0f} to {100 * most:.0f})")
    assert rows["tokens that occur 1 to 10 times"] == ("20 %", "41 %")
    for picture in (over_m, likeliest):
        assert isinstance(picture, Picture)
        picture.draw().canvas.draw()
    assert full_ece.temperatures(files) == {"m": 1.5}
    ((_, numbers),) = full_ece.numbers_of(files)
    data = full_ece.likeliest(numbers.counts[0])
    assert sum(one.n for one in data.bins) == sum(one.n for one in data.points) == data.n == 400
    assert all(one.lower <= (one.confidence or 0.0) <= one.upper for one in data.bins if one.n)


def test_without_counts_the_study_says_that_it_was_not_run() -> None:
    (table,) = full_ece.build([]).sections[0].parts
    assert isinstance(table, Table)
    assert {row[1] for row in table.rows} == {"not run"}


@pytest.mark.parametrize("text", ["", "{}\n{}\n", "no JSON\n"])
def test_a_file_without_counts_is_refused_by_name(tmp_path: Path, text: str) -> None:
    (tmp_path / "token.jsonl").write_text(text)
    with pytest.raises(DataError, match=r"token\.jsonl is not a file of `eval token`"):
        read_numbers(tmp_path / "token.jsonl")


def test_the_temperature_of_the_least_loss_is_found_between_those_tried() -> None:
    rng = np.random.default_rng(0)
    logits = 2.0 * rng.normal(size=(3000, 50))
    p = np.exp(logits / 1.6)
    p /= p.sum(axis=1, keepdims=True)
    own = logits[np.arange(3000), [rng.choice(50, p=row) for row in p]]
    losses = [np.log(np.exp(logits / t).sum(axis=1)).mean() - (own / t).mean() for t in GRID]
    assert best_temperature(np.array(losses)) == pytest.approx(1.6, rel=0.05)
    assert best_temperature(GRID) == GRID[0], "at an end of the grid"


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04cut off", b"neither"])
def test_damaged_counts_of_a_stopped_run_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes
) -> None:
    model = SimpleNamespace(identity=ModelIdentity("m", "Q4", ""))
    monkeypatch.setattr(item_worker.EngineHost, "loaded", lambda _: model)
    path = tmp_path / "token.jsonl"
    path.with_name("token.jsonl.counts.npz").write_bytes(content)
    with pytest.raises(DataError, match=r"counts.npz cannot be read.*Remove it to begin again"):
        study(EngineChoice(), [("a", "x\ny\n")], path, positions=1, created="2026-01-02")


@pytest.mark.model
@pytest.mark.usefixtures("home_with_model")
class TestWithTheRealModel:
    def test_distributions_are_counted_and_a_stopped_run_goes_on(self, data: Path, tmp_path: Path) -> None:
        some = [(item, text[:600]) for item, text in texts(data)[:14]]
        choice = EngineChoice(model="smollm2-135m", threads=1, linger=2.0)

        def run(folder: Path, stop_at: int = 0) -> bytes:
            folder.mkdir(exist_ok=True)

            def stop(done: int, _all: int) -> None:
                if stop_at and done >= stop_at:
                    raise KeyboardInterrupt

            path = folder / "token.jsonl"
            study(choice, some, path, positions=1000, created="2026-01-02", on_progress=stop)
            return path.read_bytes()

        whole = run(tmp_path / "whole")
        with pytest.raises(StoppedError, match="kept"):
            run(tmp_path / "stopped", 400)
        assert run(tmp_path / "stopped") == whole
        numbers = read_numbers(tmp_path / "whole" / "token.jsonl")
        assert numbers.positions >= 1000
        assert 0.5 < numbers.levels[1].temperature < 2.0
        assert (numbers.tokens, len(numbers.counts[0]["hits"])) == (49152, FINE)
        assert 0.2 < numbers.accuracy < 0.8
        assert "def " not in whole.decode()

    def test_the_command_counts_distributions(
        self, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        # A tenth of all functions is read to fit the temperature: 100 of those of the data.
        some = [(item, text[:600]) for item, text in texts(data)[:20]]
        monkeypatch.setattr(full_ece, "texts", lambda _: some)
        options = ("--positions", "1000", "--threads", "1", "--output", str(tmp_path))
        command = ["eval", "token", *options, "--data-dir", str(data), "--quiet", "--json"]
        result = CliRunner().invoke(main, command, catch_exceptions=False)
        assert result.exit_code == 0, result.output
        told = json.loads(result.stdout)
        assert told["positions"] >= 1000
        assert [row["M"] for row in told["rows"]] == [*map(str, BINS), "deviation"] * 2
        assert read_numbers(tmp_path / "token.jsonl").positions == told["positions"]
