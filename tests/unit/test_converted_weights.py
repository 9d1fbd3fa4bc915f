"""Weights that llama.cpp multiplies slowly are converted once, and kept beside the model."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from lsp_calib.errors import ModelFileError
from lsp_calib.inference.local import llama
from lsp_calib.inference.local.llama import LlamaModel
from lsp_calib.inference.local.native import native_log
from lsp_calib.inference.models import converted, gguf
from lsp_calib.inference.models.cards import ModelCard
from lsp_calib.inference.models.inventory import inventory, remove

pytestmark = pytest.mark.model


@pytest.fixture
def installed(home: Path, model_path: Path, model_card: ModelCard) -> Path:
    """The default model, installed in a state folder of its own without converted weights."""
    if LlamaModel.hardware().amx:
        pytest.skip("AMX multiplies these weights as they are")
    assert home.is_dir()
    model_card.path.parent.mkdir(mode=0o700)
    model_card.path.symlink_to(model_path)
    return model_card.path


def test_they_are_made_once_and_owned_and_go_with_the_model(installed: Path) -> None:
    assert converted.slow(installed)
    target = llama.convert_to_8_bits(installed)
    assert target == converted.place(installed)
    assert gguf.read_metadata(target).quantisation == "Q8_0"
    assert os.name == "nt" or target.stat().st_mode & 0o077 == 0
    before = target.stat().st_mtime_ns
    assert llama.convert_to_8_bits(installed).stat().st_mtime_ns == before
    assert [entry.card.name for entry in inventory() if entry.installed] == ["smollm2-135m"]
    remove("smollm2-135m")
    assert [path.name for path in installed.parent.iterdir() if path.name.endswith(".eight-bit")] == []


def test_a_file_elsewhere_is_left_alone(model_path: Path, tmp_path: Path, home: Path) -> None:
    """Nothing is written into folders that are not ours."""
    assert home.is_dir()
    own = tmp_path / "model.gguf"
    own.symlink_to(model_path)
    assert not converted.slow(own)


def test_what_cannot_be_converted_leaves_nothing(installed: Path) -> None:
    """llama.cpp refuses the file: the reason is told, and no part of a file stays."""
    native_log().listen()
    content = bytearray(installed.read_bytes())
    name = content.index(b"general.architecture") + len(b"general.architecture") + 12
    content[name : name + 5] = b"lemma"
    installed.unlink()
    installed.write_bytes(content)
    with pytest.raises(ModelFileError, match=r"llama\.cpp says"):
        llama.convert_to_8_bits(installed)
    assert [path.name for path in installed.parent.iterdir() if "eight-bit" in path.name] == []
