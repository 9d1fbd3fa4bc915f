"""The locks with which VS Code's extension installs the server are those of the tested versions."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
from write_server_lock import BUILD, FOLDER, PLATFORMS, ROOT, download_size, groups, without_wheel
from write_server_manifest import LOCKS, SIMILARITY, manifest, offered

from lsp_calib.inference.models.cards import DEFAULT_ENCODER, load_encoders

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
    # The encoder is offered where its libraries have wheels.
    assert {one for one in PLATFORMS if "similarity" not in sizes[one]} == {"darwin-x64"}


def package(name: str, *wheels: tuple[str, int]) -> dict[str, Any]:
    """One of a lock, with the tags and sizes of its wheels; or its source alone."""
    urls = [{"url": f"https://example.invalid/{name}-1-{tags}.whl", "size": size} for tags, size in wheels]
    return {"name": name, "wheels": urls} if urls else {"name": name, "sdist": {"size": 100}}


def test_a_package_without_a_wheel_for_a_platform_is_named() -> None:
    apple, pure = package("a", ("cp312-cp312-macosx_14_0_arm64", 1)), package("b", ("py3-none-any", 1))
    locked = {"package": [apple, pure, {"name": "lock"}]}
    assert without_wheel(locked, "darwin-arm64") == []
    assert without_wheel(locked, "darwin-x64") == ["a"]
    assert without_wheel({"package": [package("c")]}, "linux-x64") == ["c"], "sources are not taken"


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
    several = package(
        "a",
        ("cp310-cp310-manylinux_2_28_x86_64", 900),
        ("cp311-cp311-manylinux2014_x86_64.manylinux_2_17_x86_64", 10),
        ("cp312-cp312-manylinux_2_28_x86_64", 20),
        ("cp312-cp312-musllinux_1_2_x86_64", 800),
        ("cp312-cp312-win_amd64", 5),
    )
    pure = package("b", ("py3-none-any", 7), ("py2.py3-none-any", 8))
    stable = package("c", ("cp39-abi3-macosx_11_0_arm64", 3))
    locked = {"package": [several, pure, stable, package("d"), {"name": "lock"}]}
    assert download_size(locked, "linux-x64") == 20 + 8 + 100
    assert download_size(locked, "win32-x64") == 5 + 8 + 100
    assert download_size(locked, "darwin-arm64", leave_out=["b"]) == 3 + 100


def test_the_models_that_are_offered_have_a_checksum_and_a_size() -> None:
    best, smallest = offered()
    assert best.recommended
    assert best.size > smallest.size > 0
    assert best.verified
    assert smallest.verified
