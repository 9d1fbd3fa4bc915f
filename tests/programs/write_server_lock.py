"""Write the locks with which VS Code's extension installs the server: `make server-lock`.

The versions are those of constraints.txt; hashes and sizes are the package index's, for every platform, as uv
resolves them. A name on an index belongs to whoever registered it: only the bytes of today are installed.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import tempfile
import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "editor-configs" / "vscode" / "server"
# scikit-build-core asks for CMake and Ninja where there are none: with them here, nothing is left to it.
BUILD = ["scikit-build-core[pyproject]>=0.9.2", "cmake>=3.21", "ninja"]
# VS Code's names of the platforms, and what the names of wheels for them end with.
PLATFORMS = {
    "linux-x64": r"manylinux\w*_x86_64",
    "linux-arm64": r"manylinux\w*_aarch64",
    "darwin-x64": r"macosx_\w+_(x86_64|universal2|intel)",
    "darwin-arm64": r"macosx_\w+_(arm64|universal2)",
    "win32-x64": r"win_amd64",
}
_HEAD = "# Written by `make server-lock`. Of these files one of each package is taken, and no other.\n"


def groups(project: dict[str, Any]) -> dict[str, list[str]]:
    """What each lock is for: the server alone, and each engine or the encoder's libraries beside it."""
    extras = project["optional-dependencies"]
    server = project["dependencies"]
    return {
        "server": server,
        "prebuilt": [*server, *extras["prebuilt"]],
        "local": [*server, *extras["local"]],
        "similarity": [*server, *extras["similarity"]],
        "build": BUILD,
    }


def lock(uv: str, requirements: list[str], constraints: str, python: str) -> tuple[str, dict[str, Any]]:
    """(requirements with hashes, uv's own lock) of what these requirements need."""
    pins = [line for line in constraints.splitlines() if line and not line.startswith("#")]
    with tempfile.TemporaryDirectory(prefix="lsp-calib-") as name:
        folder = Path(name)
        folder.joinpath("pyproject.toml").write_text(
            f'[project]\nname = "lock"\nversion = "0"\nrequires-python = {json.dumps(python)}\n'
            f"dependencies = {json.dumps(requirements)}\n"
            f"[tool.uv]\npackage = false\nconstraint-dependencies = {json.dumps(pins)}\n"
        )
        run = [uv, "--quiet", "--no-config", "--directory", name]
        subprocess.run([*run, "lock"], check=True)
        command = [*run, "export", "--format", "requirements.txt", "--no-annotate", "--no-header", "--locked"]
        exported = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        return _HEAD + exported, tomllib.loads(folder.joinpath("uv.lock").read_text("utf-8"))


def download_size(locked: dict[str, Any], platform: str, *, leave_out: Iterable[str] = ()) -> int:
    """Bytes to fetch on a platform at most, whichever Python from 3.11 on it is."""
    names = [package for package in locked["package"] if package["name"] not in {"lock", *leave_out}]
    return sum(_largest(package, PLATFORMS[platform]) for package in names)


def without_wheel(locked: dict[str, Any], platform: str) -> list[str]:
    """The packages that have no wheel for a platform, so that the extension cannot install them."""
    names = [package for package in locked["package"] if package["name"] != "lock"]
    return [package["name"] for package in names if not _wheels(package, PLATFORMS[platform])]


def _largest(package: dict[str, Any], tags: str) -> int:
    """The size of the largest wheel of a package for a platform; of its source where it has none."""
    wheels = _wheels(package, tags)
    if wheels:
        return max(int(wheel["size"]) for wheel in wheels)
    return 0 if package.get("wheels") else int(package["sdist"]["size"])


def _wheels(package: dict[str, Any], tags: str) -> list[dict[str, Any]]:
    # A wheel for one version of Python does not count unless a server can run on it.
    pythons = r"(cp31[1-4]-\w+|cp3\d*-abi3|(py2\.)?py3-none)"
    fits = re.compile(rf"-{pythons}-(any|(\w+\.)*{tags}(\.\w+)*)\.whl$")
    return [wheel for wheel in package.get("wheels", ()) if fits.search(wheel["url"])]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--uv", default="uv", help="the uv program")
    uv = parser.parse_args().uv
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    constraints = (ROOT / "constraints.txt").read_text("utf-8")
    FOLDER.mkdir(exist_ok=True)
    locked = {}
    for name, requirements in groups(project).items():
        text, locked[name] = lock(uv, requirements, constraints, project["requires-python"])
        (FOLDER / f"{name}.txt").write_text(text, "utf-8")
    server = {package["name"] for package in locked["server"]["package"]}
    sizes = {
        platform: {
            "server": download_size(locked["server"], platform),
            "prebuilt": download_size(locked["prebuilt"], platform, leave_out=server),
            "local": download_size(locked["local"], platform, leave_out=server)
            + download_size(locked["build"], platform),
        }
        for platform in PLATFORMS
    }
    for platform, size in sizes.items():
        # onnxruntime has no wheel for Intel Macs: without a size the encoder is not offered there.
        if not without_wheel(locked["similarity"], platform):
            size["similarity"] = download_size(locked["similarity"], platform, leave_out=server)
    (FOLDER / "sizes.json").write_text(json.dumps(sizes, indent=2) + "\n", "utf-8")


if __name__ == "__main__":
    main()
