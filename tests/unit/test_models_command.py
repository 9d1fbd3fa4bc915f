"""What `lsp-calib models` says of sizes and of names that it does not know."""

from __future__ import annotations

from pathlib import Path

import attrs
import pytest
from click.testing import CliRunner, Result

from lsp_calib.cli import main
from lsp_calib.commands.models import recommended
from lsp_calib.errors import SettingsError
from lsp_calib.inference.models.cards import load_cards, locate
from lsp_calib.inference.models.encoders import load_encoders
from lsp_calib.inference.models.inventory import inventory
from lsp_calib.inference.models.speeds import LATENCY_BUDGET, Speed

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
@pytest.mark.parametrize("name", ["d/x.gguf", "nosuch"])
def test_a_name_that_was_typed_is_said_to_be_no_file_here(
    command: str, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A relative path that is typed does count: that it did not would send the user the wrong way."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.py").write_text("a = 1\n")
    result = invoke(*command.replace("PLACE", "a.py:1").split(), name)
    assert result.exit_code == SettingsError.exit_code
    assert f"there is no file {name} here" in result.stderr
    assert "not used" not in result.stderr


def test_where_it_was_not_typed_a_relative_path_is_said_not_to_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is typed is made absolute where the file is there; so this comes from a setting, or of `serve`."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "x.gguf").write_bytes(b"")
    with pytest.raises(SettingsError, match=r"Relative paths are not used.*absolute path"):
        locate("x.gguf")


def test_a_model_that_was_measured_too_slow_is_not_the_recommended_one() -> None:
    entries = [attrs.evolve(one, fits=True, speed=None) for one in inventory()]
    assert recommended(entries) == "qwen2.5-coder-1.5b"
    for seconds, best in ((LATENCY_BUDGET, "qwen2.5-coder-1.5b"), (LATENCY_BUDGET + 0.01, "smollm2-135m")):
        slow = [
            attrs.evolve(one, speed=Speed(seconds, 20)) if one.card.name == "qwen2.5-coder-1.5b" else one
            for one in entries
        ]
        assert recommended(slow) == best
