"""`make release-check`: builds the package and checks it. Writes wheel, sdist and SBOM into dist/.

Built twice, and once more from the sdist, the wheel has the same bytes. A fresh environment installs it with
the prebuilt engine. There the commands of the README answer, and `doctor` finds that completions work. It
needs the package index, and the small model in the models folder.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Sequence
from pathlib import Path

from lsp_calib import __version__

ROOT = Path(__file__).resolve().parents[2]
DIST = ROOT / "dist"
MOST_BYTES = 6_000_000
HOLDS = (
    "lsp_calib/py.typed",
    "lsp_calib/models/smollm2-135m.toml",
    "lsp_calib/models/qwen2.5-coder-1.5b.toml",
)
FOLDERS = tuple(
    f"lsp_calib/models/{name}/"
    for name in ("calibrators/pooled", "prefixes", "survival", "usage", "second", "encoders")
)
HOLDS_NOT = ("tests/", "models/records/", "lsp_calib/models/records/", "docs/", ".gguf", "__pycache__")
# Of the README; a person would read their output.
COMMANDS = (["--help"], ["models", "list"], ["calibrators", "list"], ["data", "list"], ["report"])


class Failed(Exception):
    """A check does not hold."""


def run(*command: str | Path, cwd: Path = ROOT, **more: str) -> str:
    # The date of the build is in no file; the date of the source is.
    env = {**os.environ, "SOURCE_DATE_EPOCH": "1700000000", **more}
    done = subprocess.run([*map(str, command)], cwd=cwd, env=env, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise Failed(
            f"{' '.join(map(str, command))}: exit code {done.returncode}\n{done.stdout}{done.stderr}"
        )
    return done.stdout


def environment(folder: Path, *packages: str) -> Path:
    """The Python of a new environment with these packages."""
    run(sys.executable, "-m", "venv", folder)
    python = folder / "bin" / "python"
    run(python, "-m", "pip", "--quiet", "install", "--disable-pip-version-check", *packages)
    return python


def build(python: Path, source: Path, out: Path, kinds: Sequence[str] = ("sdist", "wheel")) -> dict[str, str]:
    """The SHA-256 of each built file, by name."""
    targets = [option for kind in kinds for option in ("-t", kind)]
    run(python, "-m", "hatchling", "build", "-d", out, *targets, cwd=source)
    return {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in sorted(out.iterdir())}


def check(holds: bool, sentence: str) -> None:
    print(f"{'ok' if holds else 'FAILED':6}  {sentence}", flush=True)
    if not holds:
        raise Failed(sentence)


def check_contents(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    missing = [name for name in HOLDS if name not in names]
    missing += [folder for folder in FOLDERS if not any(name.startswith(folder) for name in names)]
    check(not missing, f"the wheel holds cards, calibrators and types {missing or ''}")
    surplus = [name for name in names if any(part in name for part in HOLDS_NOT)]
    check(not surplus, f"it holds no tests, records or models {surplus[:3] or ''}")
    check(any(name.endswith("licenses/LICENSE") for name in names), "it holds its licence")
    size = wheel.stat().st_size
    check(size <= MOST_BYTES, f"{size / 1e6:.1f} MB are at most {MOST_BYTES / 1e6:.1f} MB")
    check(f"-{__version__}-" in wheel.name, f"its version is {__version__}")


def check_installation(wheel: Path, scratch: Path) -> None:
    python = environment(scratch / "fresh", f"{wheel}[prebuilt]")
    program = python.with_name("lsp-calib")
    found = run(program, "--version", cwd=scratch).split()[-1]
    check(found == __version__, f"a fresh environment has lsp-calib {found}")
    for command in COMMANDS:
        check(bool(run(program, *command, cwd=scratch)), f"lsp-calib {' '.join(command)}")
    listed = json.loads(run(program, "calibrators", "list", "--json", cwd=scratch))["calibrators"]
    in_force = sum(one["inForce"] for one in listed)
    check(in_force >= 20, f"{in_force} calibrators are in force")
    run(program, "doctor", "--quick", cwd=scratch)
    check(True, "lsp-calib doctor --quick: completions work, with the prebuilt engine")
    bom = environment(scratch / "bom", "cyclonedx-bom>=7,<8").with_name("cyclonedx-py")
    run(bom, "environment", "--output-reproducible", "--of", "JSON", "-o", DIST / "sbom.json", python)
    parts = json.loads((DIST / "sbom.json").read_text("utf-8"))["components"]
    check(any(one["name"] == "lsp-calib" for one in parts), f"dist/sbom.json lists {len(parts)} packages")


def main() -> int:
    shutil.rmtree(DIST, ignore_errors=True)
    with tempfile.TemporaryDirectory() as name:
        scratch = Path(name)
        try:
            python = environment(scratch / "build", "hatchling>=1.25")
            first, second = build(python, ROOT, DIST), build(python, ROOT, scratch / "again")
            check(first == second, "two builds have the same bytes")
            (sdist,) = DIST.glob("*.tar.gz")
            (wheel,) = DIST.glob("*.whl")
            with tarfile.open(sdist) as archive:
                archive.extractall(scratch / "source", filter="data")
            (source,) = (scratch / "source").iterdir()
            third = build(python, source, scratch / "third", ["wheel"])
            check(third[wheel.name] == first[wheel.name], "the sdist builds the same wheel")
            check_contents(wheel)
            check_installation(wheel, scratch)
        except Failed as failure:
            print(failure, file=sys.stderr)
            return 1
    for built, digest in first.items():
        print(f"{digest}  dist/{built}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
