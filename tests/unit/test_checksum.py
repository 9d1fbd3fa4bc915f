"""Checksums decide which bytes are a model's; they are remembered as long as the file is the same."""

import hashlib
import json
import os
from pathlib import Path

import pytest

from lsp_calib.errors import ModelFileError
from lsp_calib.inference.models import sidecar


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


@pytest.fixture
def memory(home: Path) -> Path:
    return home / "models" / ".sha256.json"


@pytest.fixture
def file(home: Path) -> Path:
    path = home / "a.gguf"
    path.write_bytes(b"some bytes")
    return path


def test_an_unchanged_file_is_not_read_again(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = sidecar.sha256_of(file)
    monkeypatch.setattr(hashlib, "file_digest", lambda *_: pytest.fail("the file was read again"))
    assert sidecar.sha256_of(file) == first


def test_fresh_means_reading_the_file(file: Path, memory: Path) -> None:
    sidecar.sha256_of(file)
    known = json.loads(memory.read_text())
    known[str(file)]["sha256"] = "0" * 64
    memory.write_text(json.dumps(known))
    assert sidecar.sha256_of(file) == "0" * 64
    assert sidecar.sha256_of(file, fresh=True) == sha256(b"some bytes")
    assert sidecar.sha256_of(file) == sha256(b"some bytes"), "what was read is remembered"


def test_a_file_with_another_time_is_read_again(file: Path) -> None:
    sidecar.sha256_of(file)
    file.write_bytes(b"SOME BYTES")
    os.utime(file, ns=(0, file.stat().st_mtime_ns + 1))
    assert sidecar.sha256_of(file) == sha256(b"SOME BYTES")


@pytest.mark.parametrize(
    "damage",
    [
        *(b"", b"{", b"[]", b"null", b"\xff\xfe", b"[" * 100_000),
        *(b'{"FILE": 5}', b'{"FILE": []}', b'{"FILE": {"a": 1}}', b'{"FILE": {"stamp": 1, "sha256": 2}}'),
    ],
    ids=lambda damage: damage[:12].decode("latin-1"),
)
def test_a_damaged_memory_costs_nothing_but_time(file: Path, memory: Path, damage: bytes) -> None:
    sidecar.sha256_of(file)
    memory.write_bytes(damage.replace(b"FILE", str(file).encode()))
    assert sidecar.sha256_of(file) == sha256(b"some bytes")
    assert json.loads(memory.read_text())[str(file)]["sha256"] == sha256(b"some bytes")


def test_a_wrong_checksum_names_the_file_both_sums_and_the_way_out(file: Path) -> None:
    with pytest.raises(ModelFileError) as caught:
        sidecar.verify(file, "f" * 64)
    for part in (str(file), sha256(b"some bytes"), "f" * 64, "a file of your own"):
        assert part in str(caught.value)


def test_what_else_was_found_out_stays_beside_the_checksum_until_the_file_changes(file: Path) -> None:
    sidecar.sha256_of(file)
    sidecar.keep(file, "header", {"layers": 3})
    assert sidecar.recall(file, "header") == {"layers": 3}
    assert sidecar.recall(file, "sha256") == sha256(b"some bytes")
    file.write_bytes(b"some other bytes")
    assert sidecar.recall(file, "header") is None
    assert sidecar.recall(file, "sha256") is None
    sidecar.keep(file, "header", {"layers": 4})
    assert sidecar.recall(file, "sha256") is None, "what belonged to the old bytes is gone"
    file.unlink()
    assert sidecar.recall(file, "header") is None


def test_files_that_are_gone_are_forgotten(file: Path, memory: Path) -> None:
    other = file.with_name("other.gguf")
    other.write_bytes(b"other bytes")
    for one in (file, other):
        sidecar.sha256_of(one)
    assert json.loads(memory.read_text()).keys() == {str(file), str(other)}
    file.unlink()
    sidecar.keep(other, "header", {})
    assert json.loads(memory.read_text()).keys() == {str(other)}


@pytest.mark.usefixtures("home")
def test_the_bytes_of_a_first_use_are_remembered_and_forgotten() -> None:
    assert sidecar.first_use("m.gguf") == ""
    sidecar.keep_first_use("m.gguf", "0" * 64)
    assert sidecar.first_use("m.gguf") == "0" * 64
    sidecar.forget_first_use("m.gguf")
    assert sidecar.first_use("m.gguf") == ""
