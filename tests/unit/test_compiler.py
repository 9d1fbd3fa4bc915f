"""Set-up has llama.cpp compiled with a header that mends the AMX code of GCC 12 and older."""

from __future__ import annotations

import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from lsp_calib.inference import processor
from lsp_calib.inference.local import compiler

# Only the store of `value` uses the function's argument, which is in the register edi.
CONFIGURE = """#include <immintrin.h>
void configure(unsigned char value)
{
    struct { unsigned char bytes[64]; } configuration = {{1}};
    configuration.bytes[48] = value;
    _tile_loadconfig(&configuration);
}
"""


def assembly(folder: Path, *flags: str) -> str | None:
    """What gcc makes of code for AMX at -O2; None where it cannot."""
    file, output = folder / "try.c", folder / "try.s"
    file.write_text(CONFIGURE)
    command = ["gcc", "-O2", "-mamx-tile", *flags, "-S", "-o", str(output), str(file)]
    try:
        done = subprocess.run(command, capture_output=True, check=False)
    except FileNotFoundError:
        return None
    return output.read_text() if done.returncode == 0 else None


def test_with_the_header_no_store_is_lost(tmp_path: Path) -> None:
    plain = assembly(tmp_path)
    if plain is None or "%dil" in plain or "%edi" in plain:
        pytest.skip("no gcc that loses a store: 12 or older, for x86-64 with AMX")
    mended = assembly(tmp_path, *compiler.MENDED)
    assert mended is not None
    assert "%dil" in mended or "%edi" in mended


def test_a_path_with_a_blank_stays_one_argument(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "a folder"
    folder.mkdir()
    copied = str(shutil.copy(compiler.MENDED[1], folder))
    monkeypatch.setattr(compiler, "MENDED", ("-include", copied))
    arguments = shlex.split(compiler.cmake_arguments({}))
    assert shlex.split(arguments[0].partition("=")[2]) == ["-include", copied]


def test_the_shell_gets_it_beside_what_the_user_has_set(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(processor, "has_amx", lambda: True)
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
    # A wheel that was built otherwise is not found again.
    assert Path(cache).name == "lsp-calib-mended-amx"


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
    assert bool(done.stdout) == processor.has_amx()
