"""The examples in the docstrings are right."""

import doctest
import importlib
import pkgutil

import pytest

from lsp_calib import calibration, confidence

MODULES = sorted(
    f"{package.__name__}.{module.name}"
    for package in (calibration, confidence)
    for module in pkgutil.iter_modules(package.__path__)
)


@pytest.mark.parametrize("name", MODULES)
def test_examples(name):
    # Not `from package import name`: a function may have the name of its module.
    assert doctest.testmod(importlib.import_module(name)).failed == 0
