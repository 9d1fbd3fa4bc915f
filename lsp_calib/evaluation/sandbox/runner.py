"""Runs an unreviewed program with isolation and limits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from lsp_calib.errors import SandboxError
from lsp_calib.evaluation.sandbox import launcher
from lsp_calib.evaluation.sandbox.execution import execute
from lsp_calib.evaluation.sandbox.isolation import Isolation
from lsp_calib.evaluation.sandbox.limits import SUITE_LIMITS, Limits, ProgramOutcome
from lsp_calib.evaluation.sandbox.probe import isolation as probed_isolation


def run(
    program: str | Sequence[str],
    *,
    limits: Limits | None = None,
    files: Mapping[str, str] | None = None,
    payload: str | None = None,
    isolation: Isolation | None = None,
) -> ProgramOutcome:
    """Run a program until it ends or reaches a limit.

    program: Python source, or a command as a list of words, the first an absolute path.
    files: content by relative name, in its home folder, which is also its working folder.
    payload: text on file descriptor 3; then 4 and 5 serve to prove that it ran to its end (see `harness`).
    isolation: None selects the best that works here.
    Raises SandboxError if nothing isolates here, or the program cannot be started.
    """
    if isinstance(program, str):
        files = {**(files or {}), "main.py": program}
        program = launcher.python("main.py")
    return execute(
        list(program),
        limits or Limits(),
        isolation or probed_isolation(),
        files=dict(files or {}),
        payload=payload,
    )


def run_suite(
    project: Path,
    command: Sequence[str],
    *,
    changes: Mapping[str, str] | None = None,
    environment: Path | None = None,
    variables: Mapping[str, str] | None = None,
    payload: str | None = None,
    limits: Limits = SUITE_LIMITS,
    loopback: bool = False,
    isolation: Isolation | None = None,
) -> ProgramOutcome:
    """Run a command of the user in a copy of a project; the project itself is never written.

    project: its folder. Version history, virtual environments and caches are not copied.
    command: its words; the first is searched in the environment's programs, then in the system's.
    changes: new content of files, by name relative to the project.
    environment: a virtual environment, shown read-only. variables: environment variables.
    payload: as for `run`. loopback: whether 127.0.0.1 can be used; its network is private to this run.
    Raises SandboxError if nothing isolates here, the copy exceeds the disk limit, or the command cannot
    be started.
    """
    if not project.is_dir():
        raise SandboxError(f"There is no folder {project} to run tests in.")
    for name in changes or {}:
        if Path(name).is_absolute() or ".." in Path(name).parts:
            raise SandboxError(f"{name!r} does not lie within the project: name it relative to {project}.")
    visible, path = _environment(environment)
    words = [_find(command[0], path), *command[1:]]
    return execute(
        words,
        limits,
        isolation or probed_isolation(),
        payload=payload,
        project=project.resolve(),
        changes=dict(changes or {}),
        visible=visible,
        variables={"PATH": ":".join(path), **(variables or {})},
        loopback=loopback,
    )


def _environment(folder: Path | None) -> tuple[tuple[Path, ...], list[str]]:
    """(folders to show for a virtual environment, folders in which to search programs)."""
    system = ["/usr/local/bin", "/usr/bin", "/bin"]
    if folder is None:
        return (), [str(Path(launcher.interpreter()).parent), *system]
    folder = folder.absolute()
    python = folder / "bin" / "python"
    if not python.exists():
        raise SandboxError(f"{folder} is no virtual environment: it has no bin/python.")
    installation = python.resolve().parent.parent
    shown = (folder,) if installation.is_relative_to("/usr") else (folder, installation)
    return shown, [str(folder / "bin"), *system]


def _find(name: str, path: Sequence[str]) -> str:
    if "/" in name:
        return name
    for folder in path:
        if (Path(folder) / name).exists():
            return f"{folder}/{name}"
    raise SandboxError(f"There is no program {name!r} in {', '.join(path)}. Install it in the environment.")
