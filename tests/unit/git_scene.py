"""A repository made by the real git, for the tests of `calibrate --from-git`."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

import attrs
import pytest

from lsp_calib.corpus.commits import Taken, Wish, committed_lines
from lsp_calib.exclusion import Exclusion

ANN = "ann@example.org"

needs_git = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")


@attrs.define
class Scene:
    """A checkout, and a clock that each commit moves on. canary: a file that nothing may make."""

    root: Path
    canary: Path
    now: int = 1_700_000_000

    @classmethod
    def begin(cls, folder: Path, *options: str) -> Scene:
        scene = cls(folder / "project", folder / "canary")
        scene.root.mkdir(parents=True)
        scene.git("init", "-q", "-b", "main", *options)
        return scene

    def git(self, *arguments: str | bytes, by: str = ANN, cwd: Path | None = None, text: str = "") -> str:
        """What git says. Raises CalledProcessError."""
        person = {
            f"GIT_{role}_{what}": value
            for role in ("AUTHOR", "COMMITTER")
            for what, value in (("NAME", by.partition("@")[0].title()), ("EMAIL", by))
        }
        dates = {f"GIT_{role}_DATE": f"{self.now} +0000" for role in ("AUTHOR", "COMMITTER")}
        home = {"HOME": str(self.root.parent), "GIT_CONFIG_NOSYSTEM": "1", "PATH": os.environ["PATH"]}
        done = subprocess.run(
            ["git", *arguments],
            cwd=cwd or self.root,
            env={**home, **person, **dates},
            input=text.encode(),
            capture_output=True,
            check=True,
        )
        return done.stdout.decode("utf-8", "replace").strip()

    def write(self, files: Mapping[str, str]) -> None:
        for name, content in files.items():
            path = self.root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content)

    def commit(self, files: Mapping[str, str] | None = None, *, by: str = ANN) -> str:
        """Write files and commit all there is; returns the commit's id."""
        self.write(files or {})
        self.now += 60
        self.git("add", "-A", by=by)
        self.git("commit", "-q", "--allow-empty", "-m", "x", by=by)
        return self.git("rev-parse", "HEAD")

    def makes_canary(self, name: str = "run") -> Path:
        """A program that makes the canary."""
        program = self.root.parent / name
        program.write_text(f"#!/bin/sh\necho x >> '{self.canary}'\nexit 1\n")
        program.chmod(0o755)
        return program

    def taken(self, path: Path | None = None, *, count: int = 400, language: str = "python") -> Taken:
        return committed_lines(path or self.root, "project", count, 0, language, wish())

    def texts(self, path: Path | None = None) -> set[str]:
        """The lines that are taken, whole."""
        return {item.cursor.before + item.target for item in self.taken(path).items}


def wish(*authors: str, commits: int = 1000, exclude: tuple[str, ...] = ()) -> Wish:
    return Wish(authors or (ANN,), commits, Exclusion(exclude).reason, lambda _: ())
