"""The locks with which VS Code's extension installs the server are those of the tested versions."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path

import pytest
from write_server_lock import BUILD, FOLDER, PLATFORMS, ROOT, download_size, groups, without_wheel
from write_server_manifest import LOCKS, OFFERED, SIMILARITY, manifest

from lsp_calib.inference.models.cards import DEFAULT_ENCODER, load_cards, load_encoders

PIN = re.compile(r"^([\w.-]+)==([\w.]+)", re.M)


def canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def pins(text: str) -> dict[str, str]:
    return {canonical(name): version for name, version in PIN.findall(text)}


@pytest.mark.parametrize("name", [*LOCKS, SIMILARITY])
def test_a_lock_has_the_tested_versions_and_a_hash_for_each(name: str) -> None:
    tested = pins((ROOT / "constraints.txt").read_text("utf-8"))
    text = (FOLDER / name).read_text("utf-8")
    locked = pins(text)
    assert locked
    assert {one: version for one, version in locked.items() if tested.get(one, version) != version} == {}
    for entry in re.split(r"\n(?=\S)", text)[1:]:
        assert "--hash=sha256:" in entry, entry.splitlines()[0]


def test_the_locks_hold_what_the_package_asks_for() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    for name, requirements in groups(project).items():
        locked = pins((FOLDER / f"{name}.txt").read_text("utf-8"))
        wanted = {canonical(re.match(r"[\w.-]+", one)[0]) for one in requirements}  # type: ignore[index]
        assert wanted <= set(locked), name
    assert BUILD, "llama.cpp is compiled with packages that have hashes, too"


def test_sizes_are_known_for_every_platform() -> None:
    sizes = json.loads((FOLDER / "sizes.json").read_text("utf-8"))
    assert set(sizes) == set(PLATFORMS)
    for size in sizes.values():
        assert {"server", "prebuilt", "local"} <= set(size)
        assert all(bytes_ > 1_000_000 for bytes_ in size.values())


def test_the_encoder_is_offered_where_its_libraries_have_wheels() -> None:
    sizes = json.loads((FOLDER / "sizes.json").read_text("utf-8"))
    assert {platform for platform in PLATFORMS if "similarity" in sizes[platform]} == set(PLATFORMS) - {
        "darwin-x64"
    }

    wheels = [{"url": "https://example.invalid/a-1-cp312-cp312-macosx_14_0_arm64.whl", "size": 1}]
    pure = {"name": "b", "wheels": [{"url": "https://example.invalid/b-1-py3-none-any.whl", "size": 1}]}
    source = {"name": "c", "sdist": {"size": 1}}
    locked = {"package": [{"name": "a", "wheels": wheels}, pure, {"name": "lock"}]}
    assert without_wheel(locked, "darwin-arm64") == []
    assert without_wheel(locked, "darwin-x64") == ["a"]
    assert without_wheel({"package": [source]}, "linux-x64") == ["c"], "sources are not taken"


def test_the_encoder_s_packages_are_the_server_s_and_more() -> None:
    """Adding them to a server replaces no package of it."""
    server = pins((FOLDER / "server.txt").read_text("utf-8"))
    encoder = pins((FOLDER / SIMILARITY).read_text("utf-8"))
    assert server.items() <= encoder.items()
    assert {"onnxruntime", "tokenizers"} <= set(encoder) - set(server)


def test_the_manifest_names_the_files_of_the_encoder(tmp_path: Path) -> None:
    for name in [*LOCKS, SIMILARITY, "lsp_calib-1.2-py3-none-any.whl"]:
        (tmp_path / name).write_text(name)
    wheel = tmp_path / "lsp_calib-1.2-py3-none-any.whl"
    before = manifest(wheel)
    (tmp_path / SIMILARITY).write_text("newer")
    after = manifest(wheel)
    card = load_encoders()[DEFAULT_ENCODER]
    assert [one["file"] for one in after["encoder"]["files"]] == [file.file for file in card.files]
    assert sum(one["bytes"] for one in after["encoder"]["files"]) == card.size
    assert before["encoder"]["locks"] != after["encoder"]["locks"]
    assert before["locks"] == after["locks"], "who has no encoder is not asked to update"


def test_a_size_is_that_of_the_largest_file_that_may_be_taken() -> None:
    def wheel(name: str, size: int) -> dict[str, object]:
        return {"url": f"https://example.invalid/{name}.whl", "size": size}

    package = {
        "name": "a",
        "wheels": [
            wheel("a-1-cp310-cp310-manylinux_2_28_x86_64", 900),
            wheel("a-1-cp311-cp311-manylinux2014_x86_64.manylinux_2_17_x86_64", 10),
            wheel("a-1-cp312-cp312-manylinux_2_28_x86_64", 20),
            wheel("a-1-cp312-cp312-musllinux_1_2_x86_64", 800),
            wheel("a-1-cp312-cp312-win_amd64", 5),
        ],
    }
    pure = {"name": "b", "wheels": [wheel("b-1-py3-none-any", 7), wheel("b-1-py2.py3-none-any", 8)]}
    stable = {"name": "c", "wheels": [wheel("c-1-cp39-abi3-macosx_11_0_arm64", 3)]}
    source = {"name": "d", "sdist": {"size": 100}}
    locked = {"package": [package, pure, stable, source, {"name": "lock"}]}
    assert download_size(locked, "linux-x64") == 20 + 8 + 100
    assert download_size(locked, "win32-x64") == 5 + 8 + 100
    assert download_size(locked, "darwin-arm64", leave_out=["b"]) == 3 + 100


def test_the_models_that_are_offered_have_a_checksum_and_a_size() -> None:
    cards = load_cards()
    for name in OFFERED:
        assert cards[name].verified
        assert cards[name].size > 0
