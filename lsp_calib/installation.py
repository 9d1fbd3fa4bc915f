"""How lsp-calib was installed here, and so what adds to it."""

from __future__ import annotations

import json
import os
import re
import shlex
import sys
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import urlsplit


def how_to_install(*extras: str, newer: bool = False) -> str:
    """What adds the packages of extras to this installation, as the object of "run".

    No command has a package index look for lsp-calib: it is on none, and a name there belongs to whoever
    registers it. The command names the clone that was installed. Where there is none, it names the packages.

    newer: those that are installed are replaced by newer versions.
    """
    prefix = Path(sys.prefix)
    # VS Code's extension has written that. It installs the encoder's packages from a lock, with hashes.
    if extras == ("similarity",) and (prefix / "installed.json").is_file():
        return "`lsp-calib: Install the server, a model or the encoder` in VS Code"
    needed, clone, editable = _installation()
    packages = list(dict.fromkeys(one for extra in extras for one in needed.get(extra, ())))
    is_tool = any((prefix / name).is_file() for name in ("uv-receipt.toml", "pipx_metadata.json"))
    if not packages or (clone and is_tool):
        # The environment of a tool is made anew, with what it has.
        kept = [extra for extra in needed if all(map(_is_installed, needed[extra]))]
        wanted = ",".join(dict.fromkeys([*kept, *extras]))
        return f"`make install EXTRAS={wanted}` in {clone or 'a clone of lsp-calib'}"
    what = ["--editable", f"{clone}[{','.join(extras)}]"] if clone and editable else packages
    return f"`{pip_install()} {' '.join(map(_quoted, ['--upgrade'] * newer + what))}`"


def pip_install() -> str:
    """The command that installs packages into this environment, for a shell in any folder."""
    python = _quoted(sys.executable)
    # uv makes environments without pip.
    return f"{python} -m pip install" if find_spec("pip") else f"uv pip install --python {python}"


def _installation() -> tuple[dict[str, list[str]], Path | None, bool]:
    """(requirements by extra, the clone that is installed, whether it is so as editable).

    There is no clone where a wheel was installed, or where the clone is gone.
    """
    from importlib import metadata
    from urllib.request import url2pathname

    try:
        package = metadata.distribution("lsp-calib")
    except metadata.PackageNotFoundError:
        return {}, None, False
    needed: dict[str, list[str]] = {}
    for requirement in package.requires or ():
        if found := re.fullmatch(r"(.+?); *extra == ['\"]([\w-]+)['\"]", requirement):
            needed.setdefault(found[2], []).append(found[1].strip())
    origin = json.loads(package.read_text("direct_url.json") or "{}")
    folder = Path(url2pathname(urlsplit(origin.get("url", "")).path))
    clone = folder if (folder / "pyproject.toml").is_file() else None
    return needed, clone, origin.get("dir_info", {}).get("editable", False)


def _is_installed(requirement: str) -> bool:
    from importlib import metadata

    try:
        metadata.version(re.split(r"[^\w.-]", requirement)[0])
    except metadata.PackageNotFoundError:
        return False
    return True


def _quoted(word: str) -> str:
    if os.name == "nt":  # neither of its shells knows quotes within a word, and no path has one
        return f'"{word}"' if re.search(r"[^\w.:\\/-]", word) else word
    return shlex.quote(word)
