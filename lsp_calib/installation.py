"""The command that adds an optional part to this installation, from the place that it came from."""

from __future__ import annotations

import functools
import importlib.metadata
import json
import shlex
import sys
from pathlib import PurePath
from urllib.parse import urlsplit
from urllib.request import url2pathname

_NAME = "lsp-calib"
_VCS = ("git+", "hg+", "bzr+", "svn+")


@functools.cache
def install_command(*extras: str) -> str:
    """The command that adds extras to this installation, for a shell.

    It names the checkout, file or repository that lsp-calib was installed from (PEP 610), where that is not
    the package index, and the installer: pip, uv, or pipx.
    """
    try:
        about = importlib.metadata.distribution(_NAME)
        known = json.loads(about.read_text("direct_url.json") or "{}")
        by_uv = (about.read_text("INSTALLER") or "").strip() == "uv"
    except (importlib.metadata.PackageNotFoundError, OSError, ValueError):
        known, by_uv = {}, False
    source, extra = _source_of(known), f"[{','.join(extras)}]"
    wanted = shlex.quote(f"{_NAME}{extra} @ {source}" if source.startswith(_VCS) else f"{source}{extra}")
    # pipx and uv keep an environment for each package; installed anew there, it would lose its other extras.
    kept_by = PurePath(sys.prefix).parts[-3:-1]
    if kept_by == ("pipx", "venvs"):
        return f"pipx inject {_NAME} {wanted}"
    if kept_by == ("uv", "tools"):
        return f"uv pip install --python {shlex.quote(sys.prefix)} {wanted}"
    editable = "-e " if known.get("dir_info", {}).get("editable") else ""
    return f"{'uv pip' if by_uv else 'pip'} install {editable}{wanted}"


def _source_of(known: dict[str, dict[str, str]]) -> str:
    """A folder, a file, a repository as pip takes it, or the name. known: the content of direct_url.json."""
    url = str(known.get("url", ""))
    address = urlsplit(url)
    if "vcs" in known.get("vcs_info", {}):
        return f"{known['vcs_info']['vcs']}+{url}"
    return url2pathname(address.path) if address.scheme == "file" else _NAME
