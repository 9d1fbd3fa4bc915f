"""Who the user is, by the user's own configuration of git: a checkout's is not asked."""

from __future__ import annotations

import os
import subprocess
import tempfile
from pathlib import Path

from lsp_calib.errors import SettingsError
from lsp_calib.evaluation.git_history.objects import git_program

_KEPT = ("HOME", "XDG_CONFIG_HOME", "GIT_CONFIG_GLOBAL")


def addresses_of_user() -> tuple[str, ...]:
    """The e-mail addresses with which the user commits. Raises SettingsError if none is known."""
    found = [os.environ.get("GIT_AUTHOR_EMAIL", ""), os.environ.get("EMAIL", "")]
    with tempfile.TemporaryDirectory(prefix="lsp-calib-git-") as folder:
        environment = {name: os.environ[name] for name in _KEPT if name in os.environ}
        environment |= {
            "PATH": os.defpath,
            "GIT_CONFIG_NOSYSTEM": "1",
            # Nothing above the empty folder is taken for a repository.
            "GIT_CEILING_DIRECTORIES": str(Path(folder).resolve().parent),
        }
        answer = subprocess.run(
            [git_program(), "config", "--global", "--includes", "--get-all", "user.email"],
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=30,
            check=False,
        )
    found += answer.stdout.decode("utf-8", "replace").split("\n")
    addresses = tuple(dict.fromkeys(one.strip() for one in found if one.strip()))
    if not addresses:
        raise SettingsError(
            "There is no author: user.email is not set in git. Give --author with the e-mail address of your "
            "commits, several times if there are several."
        )
    return addresses
