"""A model file is looked at before native code sees it; what is wrong with it is named, with the file."""

import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lsp_calib.errors import ModelFileError
from lsp_calib.inference import gguf


def header(magic: bytes = b"GGUF", version: int = 3, tensors: int = 290, pairs: int = 30) -> bytes:
    return struct.pack("<4sIQQ", magic, version, tensors, pairs)


def written(folder: Path, content: bytes) -> Path:
    path = folder / "some-model.gguf"
    path.write_bytes(content)
    return path


@pytest.mark.parametrize("version", [2, 3])
def test_the_header_of_a_real_file_passes(tmp_path: Path, version: int) -> None:
    gguf.check_header(written(tmp_path, header(version=version) + bytes(1000)))


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        (b"", "truncated: 0 bytes"),
        (header()[:23], "truncated: 23 bytes"),
        (header(magic=b"\x89PNG"), "not a GGUF file"),
        (b"<!DOCTYPE html><title>Not found</title>", "not a GGUF file"),
        (header(version=1), "version 1"),
        (header(version=4), "version 4"),
        (header(version=0x03000000), "version"),  # a file of big-endian machines
        (header(tensors=2**63), "damaged"),
        (header(pairs=2**40), "damaged"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_wrong_header_is_named_with_its_file(tmp_path: Path, content: bytes, fault: str) -> None:
    path = written(tmp_path, content)
    with pytest.raises(ModelFileError, match=fault) as caught:
        gguf.check_header(path)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize("content", [b"short", header(magic=b"ZZZZ"), header(tensors=2**50)])
def test_a_damaged_file_comes_with_the_commands_that_replace_it(tmp_path: Path, content: bytes) -> None:
    path = written(tmp_path, content)
    with pytest.raises(ModelFileError) as caught:
        gguf.check_header(path)
    assert "lsp-calib models remove some-model.gguf" in str(caught.value)
    assert "lsp-calib models pull" in str(caught.value)


def test_a_missing_file_and_a_folder_are_named(tmp_path: Path) -> None:
    for path in (tmp_path / "nothing.gguf", tmp_path):
        with pytest.raises(ModelFileError, match="cannot be read") as caught:
            gguf.check_header(path)
        assert str(path) in str(caught.value)


@given(st.binary(max_size=64))
def test_any_bytes_pass_or_are_a_model_file_error(
    tmp_path_factory: pytest.TempPathFactory, content: bytes
) -> None:
    path = written(tmp_path_factory.getbasetemp(), content)
    try:
        gguf.check_header(path)
    except ModelFileError:
        return
    assert content.startswith(b"GGUF")


@pytest.mark.parametrize(("size", "fault"), [(99, "truncated: 99 of 100"), (101, "longer than it should be")])
def test_a_file_of_another_size_is_named(tmp_path: Path, size: int, fault: str) -> None:
    path = written(tmp_path, bytes(size))
    with pytest.raises(ModelFileError, match=fault) as caught:
        gguf.check_size(path, 100)
    assert str(path) in str(caught.value)


def test_a_file_of_the_right_size_passes(tmp_path: Path) -> None:
    gguf.check_size(written(tmp_path, bytes(100)), 100)
