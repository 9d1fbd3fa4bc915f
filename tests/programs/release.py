"""`make release`: wheel, sdist, VS Code's extension and their SHA256SUMS, in build/release.

The extension is packaged before (`make vsix`), and the wheel is the one in it. The version's section of
CHANGELOG.md goes to build/release-notes.md. First all files have to name the same version, as has the
variable TAG, where it is set; with `--versions` only that is looked at.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "build"
RELEASE = BUILD / "release"
NOTES = BUILD / "release-notes.md"
SUMS = RELEASE / "SHA256SUMS"
EXTENSION = BUILD / "lsp-calib.vsix"
VSCODE = ROOT / "editor-configs" / "vscode"

_SECTION = re.compile(r"^## \[(.+?)\](?: - (\S+))?\n(.*?)(?=^## |\Z)", re.M | re.S)


class Failed(Exception):
    """Something is wrong with the release: what, and what to do."""


def faults(root: Path = ROOT, tag: str = "") -> list[str]:
    """What keeps a source tree from being a release, and what to do. tag: as in git, or ""."""
    version = _version(root)
    found = [
        f"{file} has version {said or 'none'}, lsp_calib/__init__.py {version}: write {version} into {file}."
        for file, said in _versions_elsewhere(root).items()
        if said != version
    ]
    if tag and tag != f"v{version}":
        found.append(
            f"The tag is {tag}, the version {version}: tag v{version}, or raise the version everywhere."
        )
    sections = {
        name: (date, text.strip()) for name, date, text in _SECTION.findall(_read(root, "CHANGELOG.md"))
    }
    if "Unreleased" not in sections:
        found.append('CHANGELOG.md has no "## [Unreleased]": put it above the newest version.')
    elif sections["Unreleased"][1]:
        found.append(
            f"CHANGELOG.md has lines under [Unreleased]: move them under a heading of their version, as "
            f'"## [{version}] - YYYY-MM-DD", and raise the version if {version} is out already.'
        )
    date, text = sections.get(version, ("", ""))
    if not text or not re.fullmatch(r"\d{4}-\d\d-\d\d", date):
        found.append(f'CHANGELOG.md has no section "## [{version}] - YYYY-MM-DD" with text: write it.')
    cited = _value(_read(root, "CITATION.cff"), r"^date-released: (\S+)$")
    if date and cited != date:
        found.append(
            f"CITATION.cff was released on {cited or 'no date'}, CHANGELOG.md says {date}: agree on one."
        )
    return found


def notes(changelog: str, version: str) -> str:
    """The text of a version in the change log."""
    sections: dict[str, str] = {name: text for name, _, text in _SECTION.findall(changelog)}
    return sections[version].strip() + "\n"


def run(*command: str | Path, cwd: Path = ROOT, env: Mapping[str, str] | None = None) -> str:
    """What a program prints; `env` is beside the environment. Raises Failed with its output if it fails."""
    words = [str(word) for word in command]
    around = {**os.environ, **(env or {})}
    around.pop("PYTHONPATH", None)  # what is installed is looked at, not the checkout
    done = subprocess.run(words, cwd=cwd, env=around, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise Failed(f"{' '.join(words)}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def environment(folder: Path, *packages: str) -> Path:
    """The Python of a new environment with these packages."""
    run(sys.executable, "-m", "venv", folder)
    python = folder / "bin" / "python"
    run(python, "-m", "pip", "--quiet", "install", "--disable-pip-version-check", *packages)
    return python


def build(python: Path, source: Path, out: Path, kinds: Sequence[str] = ("sdist", "wheel")) -> list[Path]:
    """The built files. python: of an environment with hatchling."""
    run(
        python,
        "-m",
        "hatchling",
        "build",
        "-d",
        out,
        *(part for kind in kinds for part in ("-t", kind)),
        cwd=source,
    )
    return sorted(out.iterdir())


def digest(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def gather(version: str) -> None:
    wheels = sorted((VSCODE / "server").glob("*.whl"))
    if [wheel.name.split("-")[1] for wheel in wheels] != [version] or not EXTENSION.is_file():
        raise Failed(f"There is no extension with the wheel of {version}: run `make vsix`.")
    shutil.rmtree(RELEASE, ignore_errors=True)
    RELEASE.mkdir(parents=True)
    with tempfile.TemporaryDirectory() as name:
        build(environment(Path(name) / "build", "hatchling>=1.25"), ROOT, RELEASE, ["sdist"])
    shutil.copy(wheels[0], RELEASE)
    shutil.copy(EXTENSION, RELEASE / f"lsp-calib-{version}.vsix")
    files = sorted(RELEASE.iterdir())
    SUMS.write_text("".join(f"{digest(file)}  {file.name}\n" for file in files), "utf-8")
    NOTES.write_text(notes(_read(ROOT, "CHANGELOG.md"), version), "utf-8")
    for file in files:
        print(f"{file.stat().st_size / 1e6:6.1f} MB  {file.relative_to(ROOT)}")


def _version(root: Path) -> str:
    return _value(_read(root, "lsp_calib/__init__.py"), r'^__version__ = "(.+)"$')


def _versions_elsewhere(root: Path) -> dict[str, str]:
    folder = VSCODE.relative_to(ROOT)
    package, locked = (
        json.loads(_read(root, f"{folder}/{name}")) for name in ("package.json", "package-lock.json")
    )
    return {
        "CITATION.cff": _value(_read(root, "CITATION.cff"), r"^version: (\S+)$"),
        f"{folder}/package.json": package["version"],
        f"{folder}/package-lock.json": locked["packages"][""]["version"],
    }


def _read(root: Path, name: str) -> str:
    return (root / name).read_text("utf-8")


def _value(text: str, pattern: str) -> str:
    found = re.search(pattern, text, re.M)
    return found[1] if found else ""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--versions", action="store_true", help="only look whether the versions agree")
    only_versions = parser.parse_args().versions
    if wrong := faults(tag=os.environ.get("TAG", "")):
        print("\n".join(wrong), file=sys.stderr)
        return 1
    if not only_versions:
        try:
            gather(_version(ROOT))
        except Failed as failure:
            print(failure, file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
