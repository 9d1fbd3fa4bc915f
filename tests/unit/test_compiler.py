"""Set-up finds compilers whose AMX code crashes by what they compile, not by their names, and mends it."""

from __future__ import annotations

import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from lsp_calib.inference import processor
from lsp_calib.inference.local import compiler

GCC = shutil.which("gcc")
pytestmark = pytest.mark.skipif(
    GCC is None or not compiler.accepts(["gcc"], ["-mamx-tile"]), reason="no gcc for x86-64 with AMX"
)


def gcc(folder: Path, *more: str) -> str:
    """A compiler: gcc, with these arguments."""
    script = folder / "cc"
    script.write_text(f'#!/bin/sh\nexec {GCC} {" ".join(more)} "$@"\n')
    script.chmod(0o700)
    return str(script)


def header(folder: Path, operand: str, *, once: bool = False) -> str:
    """An <immintrin.h> whose `_tile_loadconfig` names this operand, for -I. once: with a guard, as GCC's."""
    guard = "#pragma once\n" if once else ""
    (folder / "immintrin.h").write_text(
        f'{guard}#define _tile_loadconfig(a) __asm__ volatile ("ldtilecfg %X0" :: "m" ({operand}))\n'
    )
    return f"-I{folder}"


@pytest.fixture
def faulty(tmp_path: Path) -> str:
    """As GCC 12."""
    return gcc(tmp_path, header(tmp_path, "*((const void **) (a))"))


@pytest.mark.parametrize(
    ("operand", "loses"), [("*((const void **) (a))", True), ("*((const char (*)[64]) (a))", False)]
)
def test_gcc_twelve_loses_the_configuration(tmp_path: Path, operand: str, loses: bool) -> None:
    """Its operand has 8 bytes: the compiler removes the stores of the other 56. One with all 64 is fine."""
    assert compiler.loses_tile_configuration([gcc(tmp_path, header(tmp_path, operand))]) is loses


def test_a_header_mends_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    faulty = gcc(tmp_path, header(tmp_path, "*((const void **) (a))", once=True))
    assert compiler.loses_tile_configuration([faulty])
    assert not compiler.loses_tile_configuration([faulty], compiler.MENDED)
    monkeypatch.setattr(processor, "has_amx", lambda: True)
    assert compiler.flags({"CC": faulty, "CXX": faulty}) == compiler.MENDED


def test_the_header_changes_nothing_where_there_is_no_amx() -> None:
    assert compiler.accepts(["gcc"], compiler.MENDED)
    assert not compiler.loses_tile_configuration(["gcc"], [*compiler.MENDED, "-mno-amx-tile"])


def test_a_path_with_a_blank_stays_one_argument(tmp_path: Path) -> None:
    folder = tmp_path / "a folder"
    folder.mkdir()
    copied = shutil.copy(compiler.MENDED[1], folder)
    arguments = shlex.split(compiler.cmake_arguments(("-include", str(copied)), {}))
    in_shell = shlex.split(arguments[0].partition("=")[2])
    assert in_shell == ["-include", str(copied)]
    assert compiler.accepts(["gcc"], in_shell)


def test_one_that_knows_no_amx_has_no_faulty_code_for_it(tmp_path: Path) -> None:
    assert not compiler.loses_tile_configuration([gcc(tmp_path, "-mno-such-flag")])
    assert not compiler.loses_tile_configuration([str(tmp_path / "missing")])


def test_flags_are_used_only_where_they_are_needed_and_accepted(
    faulty: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processor, "has_amx", lambda: False)
    assert compiler.flags({"CC": faulty, "CXX": faulty}) == ()
    monkeypatch.setattr(processor, "has_amx", lambda: True)
    assert compiler.flags({"CC": faulty, "CXX": faulty}) == compiler.WITHOUT_AMX
    stubborn = tmp_path / "stubborn"
    stubborn.write_text(f'#!/bin/sh\ncase "$*" in *-mno-amx*) exit 1;; esac\nexec {faulty} "$@"\n')
    stubborn.chmod(0o700)
    assert compiler.flags({"CC": faulty, "CXX": str(stubborn)}) == ()


def test_the_shell_gets_them_beside_what_the_user_has_set(
    faulty: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(processor, "has_amx", lambda: True)
    monkeypatch.setenv("CC", faulty)
    monkeypatch.setenv("CXX", faulty)
    monkeypatch.setenv("CMAKE_ARGS", '-DGGML_CUDA=on -DNAME="a b"')
    compiler.main()
    printed = capsys.readouterr().out
    shown = subprocess.run(
        ["sh", "-c", f'{printed}\nprintf "%s|%s" "$CMAKE_ARGS" "$PIP_CACHE_DIR"'],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    arguments, cache = shown.split("|")
    assert arguments.startswith('-DGGML_CUDA=on -DNAME="a b" ')
    ours = shlex.split(arguments)[2:]
    assert [one.partition("=")[0] for one in ours] == ["-DCMAKE_C_FLAGS", "-DCMAKE_CXX_FLAGS"]
    assert arguments.count("-mno-amx-tile") == 2
    # A wheel that was built otherwise is not found again.
    assert Path(cache).name == "lsp-calib-without-amx"


def test_it_runs_before_anything_is_installed() -> None:
    """Set-up calls it with a bare Python; where nothing is needed it prints nothing."""
    root = Path(compiler.__file__).parents[3]
    code = (
        "import runpy, sys; sys.path.insert(0, sys.argv[1]); "
        "runpy.run_module('lsp_calib.inference.local.compiler', run_name='__main__')"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", code, str(root)], capture_output=True, text=True, check=True
    )
    assert bool(done.stdout) == bool(compiler.flags())
