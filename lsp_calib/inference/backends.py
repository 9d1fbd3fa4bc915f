"""Which backend runs a model: llama.cpp's compiled binding where it is installed, else the prebuilt one."""

from __future__ import annotations

import os

from lsp_calib.errors import ModelError, SettingsError
from lsp_calib.inference.backend import Factory
from lsp_calib.installation import install_command

# An installed library may fail to load: it is for another system, or the processor is too old for it.
_UNUSABLE = (ImportError, OSError, RuntimeError)


def forced() -> str:
    """The engine that LSP_CALIB_ENGINE forces, "" for none. Raises SettingsError for one of another name."""
    wanted = os.environ.get("LSP_CALIB_ENGINE", "")
    if wanted not in ("", "local", "prebuilt"):
        raise SettingsError(f"LSP_CALIB_ENGINE is {wanted!r}; it must be local or prebuilt.")
    return wanted


def find() -> Factory:
    """The factory of a backend; LSP_CALIB_ENGINE ("local", "prebuilt") forces one. Its import takes a moment.

    Raises ModelError, which names the packages to install, if there is none.
    """
    try:
        wanted = forced()
    except SettingsError as error:
        raise ModelError(str(error)) from error
    missing, remedies = [], []
    if wanted != "prebuilt":
        try:
            from lsp_calib.inference.local.llama import LlamaModel
        except _UNUSABLE as error:
            missing.append(f"llama-cpp-python cannot be used ({error})")
            remedies.append(f"`{install_command('local')}` (the fast one; it needs a C compiler)")
        else:
            return LlamaModel
    if wanted != "local":
        try:
            from lsp_calib.inference.prebuilt.model import PrebuiltModel
        except _UNUSABLE as error:
            missing.append(f"xllamacpp cannot be used ({error})")
            remedies.append(f"`{install_command('prebuilt')}` (ready-made)")
        else:
            return PrebuiltModel
    if wanted:
        # The other one may well be there.
        raise ModelError(
            f"LSP_CALIB_ENGINE is {wanted}, and {missing[0]}. In the environment of lsp-calib, run "
            f"{remedies[0]}, or unset LSP_CALIB_ENGINE: then any that is installed is used."
        )
    raise ModelError(
        f"No inference engine is installed: {'; '.join(missing)}. "
        f"In the environment of lsp-calib, run {' or '.join(remedies)}."
    )
