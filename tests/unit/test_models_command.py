"""What `lsp-calib models` says of sizes and of names that it does not know."""

from __future__ import annotations

from pathlib import Path

import attrs
import pytest
from click.testing import CliRunner, Result

from lsp_calib.cli import main
from lsp_calib.errors import SettingsError
from lsp_calib.inference.models.cards import load_cards, load_encoders
from lsp_calib.inference.models.demands import LATENCY_BUDGET, Speed
from lsp_calib.inference.models.inventory import Entry, inventory, recommended

pytestmark = pytest.mark.usefixtures("home")

ROOT = Path(__file__).parents[2]


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(main, list(arguments))


def test_a_megabyte_is_a_million_bytes_as_on_the_pages() -> None:
    rows = {line.split()[0]: line for line in invoke("models", "list").stdout.splitlines()}
    known = {name: card.size for name, card in load_cards().items() if card.size}
    known |= {name: card.size for name, card in load_encoders().items()}
    assert len(known) >= 4
    for name, size in known.items():
        assert f" {size / 1e6:.0f} MB " in rows[name], rows[name]
    assert " 98 MB " in rows["smollm2-135m"]
    assert "98 MB" in (ROOT / "README.md").read_text("utf-8")
    assert " 23 MB " in rows["minilm-l6-v2"]
    assert "23 MB" in (ROOT / "docs" / "models.md").read_text("utf-8")


@pytest.mark.parametrize("command", ["models path", "models verify", "complete PLACE --model"])
def test_a_name_of_nothing_says_what_is_known(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.py").write_text("a = 1\n")
    result = invoke(*command.replace("PLACE", "a.py:1").split(), "nosuch")
    assert result.exit_code == SettingsError.exit_code
    assert "There is no model called 'nosuch'" in result.stderr
    assert "smollm2-135m" in result.stderr


def name(entry: Entry | None) -> str | None:
    return entry and entry.card.name


def test_a_model_that_was_measured_too_slow_is_not_the_recommended_one() -> None:
    entries = [attrs.evolve(one, fits=True, speed=None) for one in inventory()]
    assert name(recommended(entries)) == "qwen2.5-coder-1.5b"
    for seconds, best in ((LATENCY_BUDGET, "qwen2.5-coder-1.5b"), (LATENCY_BUDGET + 0.01, "smollm2-135m")):
        speeds = {"qwen2.5-coder-1.5b": Speed(seconds, 20)}
        slow = [attrs.evolve(one, speed=speeds.get(one.card.name)) for one in entries]
        assert name(recommended(slow)) == best
