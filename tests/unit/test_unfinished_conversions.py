"""What is left of a conversion of weights whose process was killed goes with the next one, or the model."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from lsp_calib.errors import SettingsError
from lsp_calib.inference.local import llama
from lsp_calib.inference.models.inventory import remove

EMPTY_MODEL = b"GGUF\3\0\0\0" + bytes(16)
LEFT = ".own.gguf.0123456789abcdef.eight-bit.4242"


@pytest.fixture
def model(home: Path) -> Path:
    path = home / "models" / "own.gguf"
    path.parent.mkdir(mode=0o700)
    path.write_bytes(EMPTY_MODEL)
    (path.parent / LEFT).write_bytes(b"half")
    return path


def there(model: Path) -> list[str]:
    return sorted(path.name for path in model.parent.iterdir() if "eight-bit" in path.name)


@pytest.fixture
def quantised(monkeypatch: pytest.MonkeyPatch) -> Callable[[], list[str]]:
    """In place of llama.cpp's own conversion; a function that says what lay there when it was made."""
    seen: list[str] = []

    def quantise(_source: bytes, target: bytes, _parameters: object) -> int:
        made = Path(os.fsdecode(target))
        seen.extend(there(made))
        made.write_bytes(EMPTY_MODEL)
        return 0

    monkeypatch.setattr(llama.llama_cpp, "llama_model_quantize", quantise)
    return lambda: seen


def test_it_goes_with_the_model(model: Path) -> None:
    other = model.with_name(".own.gguf.gguf.0123456789abcdef.eight-bit.x")
    other.write_bytes(b"of no conversion")
    remove("own.gguf")
    assert there(model) == [other.name]


def test_where_the_model_is_gone_it_can_still_be_removed(model: Path) -> None:
    model.unlink()
    remove("own.gguf")
    assert there(model) == []
    with pytest.raises(SettingsError, match="not installed"):
        remove("own.gguf")


@pytest.mark.parametrize(("seconds", "stays"), [(30.0, True), (3600.0, False)])
def test_it_goes_before_a_later_conversion(
    model: Path, quantised: Callable[[], list[str]], seconds: float, stays: bool
) -> None:
    """A new one may be that of a process that converts now."""
    then = time.time() - seconds
    os.utime(model.with_name(LEFT), (then, then))
    made = llama.convert_to_8_bits(model)
    assert quantised() == [LEFT] * stays
    assert there(model) == sorted([made.name, *[LEFT] * stays])
