"""Which library runs a model, and what is said where none can."""

from __future__ import annotations

import sys

import pytest

from lsp_calib.errors import ModelError, SettingsError
from lsp_calib.inference.backend import forced_library
from lsp_calib.inference.process.acceleration import find_library
from lsp_calib.installation import how_to_install

LOCAL = "lsp_calib.inference.local.llama"
PREBUILT = "lsp_calib.inference.prebuilt.model"


def without(monkeypatch: pytest.MonkeyPatch, *modules: str) -> None:
    for module in modules:
        monkeypatch.setitem(sys.modules, module, None)


@pytest.mark.parametrize(
    ("wanted", "module", "package", "other"),
    [("prebuilt", PREBUILT, "xllamacpp", "local"), ("local", LOCAL, "llama-cpp-python", "prebuilt")],
)
def test_a_forced_engine_that_is_missing_is_named_with_the_variable(
    wanted: str, module: str, package: str, other: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other one may be there: that nothing is installed would be wrong."""
    without(monkeypatch, module)
    monkeypatch.setenv("LSP_CALIB_ENGINE", wanted)
    with pytest.raises(ModelError) as caught:
        find_library()
    said = str(caught.value)
    assert f"LSP_CALIB_ENGINE is {wanted}" in said
    assert f"{package} cannot be used" in said
    assert f"{how_to_install(wanted)}" in said
    assert "unset LSP_CALIB_ENGINE" in said
    assert f"{how_to_install(other)}" not in said
    assert "Nothing" not in said


def test_without_any_engine_both_packages_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    without(monkeypatch, LOCAL, PREBUILT)
    monkeypatch.delenv("LSP_CALIB_ENGINE", raising=False)
    with pytest.raises(ModelError, match="No inference engine is installed") as caught:
        find_library()
    said = str(caught.value)
    assert f"{how_to_install('local')}" in said
    assert f"{how_to_install('prebuilt')}" in said
    assert "LSP_CALIB_ENGINE" not in said


def test_an_engine_of_another_name_is_no_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LSP_CALIB_ENGINE", "fast")
    with pytest.raises(SettingsError, match=r"LSP_CALIB_ENGINE is 'fast'.*local or prebuilt"):
        forced_library()
    with pytest.raises(ModelError, match="LSP_CALIB_ENGINE is 'fast'"):
        find_library()
