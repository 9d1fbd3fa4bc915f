"""`make release-check`: checks build/release as those who get it would, and writes build/sbom.json.

The files are built again from the source, and the wheel from the sdist: all have the same bytes. One fresh
environment gets the wheel with the prebuilt engine. Another gets the server in VS Code's extension and the
packages of its locks, as the extension installs them. In both the README's commands answer on a new home.
In the first, what messages tell to run works, and `doctor` finds that completions work. It needs the package
index, and the small model in the models folder.
"""

from __future__ import annotations

import json
import shutil
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import write_server_manifest
from release import BUILD, RELEASE, ROOT, SUMS, Failed, build, digest, environment, run

from lsp_calib import __version__
from lsp_calib.inference.models.cards import load_cards

MOST_BYTES = 6_000_000
MODEL = "smollm2-135m"
WHEEL_HOLDS = (
    "lsp_calib/py.typed",
    "lsp_calib/models/smollm2-135m.toml",
    "lsp_calib/models/qwen2.5-coder-1.5b.toml",
    *(
        f"lsp_calib/models/{name}/"
        for name in ("calibrators/pooled", "prefixes", "survival", "usage", "second", "encoders")
    ),
    f"lsp_calib-{__version__}.dist-info/licenses/LICENSE",
)
WHEEL_HOLDS_NOT = ("tests/", "models/records/", "docs/", ".gguf", "__pycache__")
# Enough to run the tests, build the extension, and use the other editors' files.
SDIST_HOLDS = (
    *(
        "README.md",
        "CHANGELOG.md",
        "CITATION.cff",
        "CONTRIBUTING.md",
        "LICENSE",
        "Makefile",
        "constraints.txt",
    ),
    *("lsp_calib/", "models/records/", "docs/tutorial.md", "tests/unit/", ".ci/run", "findings/"),
    *("editor-configs/neovim/", "editor-configs/vscode/src/", "editor-configs/vscode/server/server.txt"),
)
LOCKS = (*write_server_manifest.LOCKS, write_server_manifest.SIMILARITY)
EXTENSION_HOLDS = (
    *("package.json", "readme.md", "LICENSE.txt", "icon.png", "out/extension.js", "walkthrough/"),
    *("server/manifest.json", "server/sizes.json", *(f"server/{lock}" for lock in LOCKS)),
)
EXTENSION_HOLDS_NOT = ("src/", "test/", "node_modules/")
# Of the README; a person would read their output.
COMMANDS = (["--help"], ["models", "list"], ["calibrators", "list"], ["doctor", "--help"], ["report"])


def check(holds: bool, sentence: str, otherwise: str) -> None:
    """Print a sentence that holds; raise Failed with what to do otherwise."""
    print(f"{'ok' if holds else 'FAILED':6}  {sentence}", flush=True)
    if not holds:
        raise Failed(f"Not so: {sentence}. {otherwise}")


def check_holds(what: str, names: Iterable[str], wanted: Sequence[str], advice: str) -> None:
    """wanted: files, and folders with a slash behind them."""
    there = set(names)
    missing = [
        one
        for one in wanted
        if not (any(name.startswith(one) for name in there) if one.endswith("/") else one in there)
    ]
    check(not missing, f"{what} holds all of {len(wanted)} parts", f"It lacks {', '.join(missing)}: {advice}")


def check_lacks(what: str, names: Iterable[str], unwanted: Callable[[str], bool], advice: str) -> None:
    surplus = [name for name in names if unwanted(name)]
    check(not surplus, f"{what} holds nothing else", f"It has {', '.join(surplus[:5])}: {advice}")


def check_files() -> tuple[Path, Path, Path]:
    """(wheel, sdist, extension), which lie there with their sums."""
    files = [
        RELEASE / name
        for name in (_wheel_name(), f"lsp_calib-{__version__}.tar.gz", f"lsp-calib-{__version__}.vsix")
    ]
    there = {file.name: digest(file) for file in RELEASE.glob("*") if file != SUMS}
    said = (
        {line.split()[1]: line.split()[0] for line in SUMS.read_text("utf-8").splitlines()} if there else {}
    )
    again = "Run `make release`."
    check({*there} == {file.name for file in files}, "build/release has wheel, sdist and extension", again)
    check(there == said, "their sums are those in SHA256SUMS", again)
    return files[0], files[1], files[2]


def _wheel_name() -> str:
    return f"lsp_calib-{__version__}-py3-none-any.whl"


def check_builds(wheel: Path, sdist: Path, scratch: Path) -> None:
    python = environment(scratch / "build", "hatchling>=1.25")
    advice = (
        "A file was changed since, or the build depends on time or place: run `make release` and compare."
    )
    again = {file.name: digest(file) for file in build(python, ROOT, scratch / "again")}
    check(
        again == {file.name: digest(file) for file in (wheel, sdist)},
        "built again, both have the same bytes",
        advice,
    )
    with tarfile.open(sdist) as archive:
        archive.extractall(scratch / "source", filter="data")
    (source,) = (scratch / "source").iterdir()
    names = [str(path.relative_to(source)) for path in source.rglob("*") if path.is_file()]
    check_holds(
        "the sdist", names, SDIST_HOLDS, "name it in tool.hatch.build.targets.sdist of pyproject.toml."
    )
    if (ROOT / ".git").exists():
        tracked = {*run("git", "ls-files").splitlines(), "PKG-INFO"}
        check_lacks("the sdist", names, lambda name: name not in tracked, "commit it, or remove it.")
    (built,) = build(python, source, scratch / "from_sdist", ["wheel"])
    advice = "The wheel needs a file that the sdist lacks: name it in tool.hatch.build.targets.sdist."
    check(digest(built) == digest(wheel), "the sdist builds the same wheel", advice)


def check_wheel(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    lists = "see tool.hatch.build.targets.wheel of pyproject.toml."
    check_holds("the wheel", names, WHEEL_HOLDS, lists)
    check_lacks("the wheel", names, lambda name: any(part in name for part in WHEEL_HOLDS_NOT), lists)
    size = wheel.stat().st_size
    advice = "Find what has grown (`unzip -lv`), or raise MOST_BYTES of this program."
    check(size <= MOST_BYTES, f"its {size / 1e6:.1f} MB are at most {MOST_BYTES / 1e6:.1f}", advice)


def check_extension(extension: Path, wheel: Path, scratch: Path) -> Path:
    """The folder of the server in the extension, unpacked."""
    folder = scratch / "vsix" / "extension"
    with zipfile.ZipFile(extension) as archive:
        archive.extractall(scratch / "vsix")
    names = [str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()]
    lists = "see editor-configs/vscode/.vscodeignore."
    check_holds("the extension", names, (*EXTENSION_HOLDS, f"server/{wheel.name}"), lists)
    wheels = [name for name in names if name.endswith(".whl")]
    check_lacks("the extension", names, lambda name: name.startswith(EXTENSION_HOLDS_NOT), lists)
    check(len(wheels) == 1, "it holds one wheel", "Run `make release`, which removes older ones.")
    server = folder / "server"
    again = "Run `make release`."
    check(digest(server / wheel.name) == digest(wheel), "its server is the wheel of the release", again)
    said = json.loads((server / "manifest.json").read_text("utf-8"))
    check(
        said == write_server_manifest.manifest(server / wheel.name),
        "its manifest is of that wheel and its locks",
        again,
    )
    version = json.loads((folder / "package.json").read_text("utf-8"))["version"]
    check(version == __version__, f"its version is {version}", "Write the version into package.json.")
    return server


def check_installation(wheel: Path, scratch: Path) -> None:
    python = environment(scratch / "fresh", f"{wheel}[prebuilt]")
    program = python.with_name("lsp-calib")
    new_home = check_commands("a fresh environment", program, scratch / "home")
    listed = json.loads(run(program, "calibrators", "list", "--json", cwd=scratch, env=new_home))[
        "calibrators"
    ]
    in_force = sum(one["inForce"] for one in listed)
    check(
        in_force >= 20,
        f"{in_force} calibrators are in force",
        "Calibrators are missing from models/ in the wheel.",
    )
    tell = "from lsp_calib.installation import how_to_install; print(how_to_install('similarity'))"
    told = run(python, "-c", tell, cwd=scratch).strip()
    run("sh", "-c", told.strip("`"), cwd=scratch)
    run(python, "-c", "import onnxruntime, tokenizers", cwd=scratch)
    check(True, f"what messages tell to run works: {told.replace(str(scratch), '...')}", "")
    (scratch / "home" / "models").mkdir(exist_ok=True)
    shutil.copy(load_cards()[MODEL].path, scratch / "home" / "models")
    run(program, "doctor", "--quick", cwd=scratch, env=new_home)
    check(True, "lsp-calib doctor --quick: completions work, with the prebuilt engine", "")
    bom = environment(scratch / "bom", "cyclonedx-bom>=7,<8").with_name("cyclonedx-py")
    run(bom, "environment", "--output-reproducible", "--of", "JSON", "-o", BUILD / "sbom.json", python)
    parts = json.loads((BUILD / "sbom.json").read_text("utf-8"))["components"]
    listed_itself = any(one["name"] == "lsp-calib" for one in parts)
    check(
        listed_itself,
        f"build/sbom.json lists {len(parts)} packages",
        "cyclonedx-bom has changed: read what it wrote.",
    )


def check_commands(where: str, program: Path, folder: Path) -> dict[str, str]:
    """Run the program's commands on a new home. Returns the variable that names it."""
    new_home = {"LSP_CALIB_HOME": str(folder)}
    found = run(program, "--version", cwd=folder.parent, env=new_home).split()[-1]
    check(
        found == __version__,
        f"{where} has lsp-calib {found}",
        "Another package was installed: look at the wheel.",
    )
    for command in COMMANDS:
        said = run(program, *command, cwd=folder.parent, env=new_home)
        check(bool(said), f"{where}: lsp-calib {' '.join(command)}", "It prints nothing: run it by hand.")
    return new_home


def check_locks(server: Path, wheel: Path, scratch: Path) -> None:
    """Install the server as the extension does: packages by hash, the wheel alone."""
    python = environment(
        scratch / "locked", "--require-hashes", "--only-binary", ":all:", "-r", str(server / "prebuilt.txt")
    )
    run(python, "-m", "pip", "--quiet", "install", "--no-deps", "--no-index", server / wheel.name)
    run(python, "-m", "pip", "check")
    check(True, "what the extension's locks install is what the server needs", "")
    check_commands("the extension's server", python.with_name("lsp-calib"), scratch / "home_of_extension")


def main() -> int:
    with tempfile.TemporaryDirectory(prefix="lsp-calib-") as name:
        scratch = Path(name)
        try:
            wheel, sdist, extension = check_files()
            check_wheel(wheel)
            check_builds(wheel, sdist, scratch)
            server = check_extension(extension, wheel, scratch)
            check_locks(server, wheel, scratch)
            check_installation(wheel, scratch)
        except Failed as failure:
            print(f"{failure}\nMend it, commit, and run `make release-check` again.", file=sys.stderr)
            return 1
    print(SUMS.read_text("utf-8"), end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
