"""What every suite needs: a state folder of its own, and the real model where a test asks for it."""

from __future__ import annotations

import gc
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import hypothesis
import pytest
from marks import has_any, mark

from lsp_calib import home as state
from lsp_calib.errors import SandboxError, SettingsError
from lsp_calib.inference.models import converted, sidecar
from lsp_calib.inference.models.cards import ModelCard, load_cards

DEFAULT_MODEL = "smollm2-135m"

# On a machine that is slow or does other things an example takes as long as it takes.
# In CI the examples are the same each time: a change fails there for what it does, wherever it is run.
_SUITE = hypothesis.settings(
    deadline=None,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
    derandomize=bool(os.environ.get("CI")),
)
# `make test` looks for a counterexample a little each time; `make test-long` asks for the other one.
hypothesis.settings.register_profile("quick", _SUITE, max_examples=25)
hypothesis.settings.register_profile("thorough", _SUITE, max_examples=100)
hypothesis.settings.load_profile("quick")


def _installed_model() -> Path | None:
    """The default model's file on this machine: LSP_CALIB_TEST_MODEL, else in the user's own state folder."""
    named = os.environ.get("LSP_CALIB_TEST_MODEL")
    try:
        path = Path(named) if named else load_cards()[DEFAULT_MODEL].path
    except SettingsError:
        return None
    return path.absolute() if path.is_file() else None


# Each test has a state folder of its own, and with it a model process: it must not stay for long afterwards.
os.environ.setdefault("LSP_CALIB_LINGER", "0.5")

# Settled before any test puts another state folder in place.
_MODEL = _installed_model()


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    if collection_path.name.startswith("test_") and collection_path.suffix == ".py":
        return None if has_any(collection_path, config.getoption("markexpr")) else True
    return None


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        mark(item)


def pytest_collection_finish() -> None:
    """What has been imported and collected stays: searching it for garbage again and again takes time."""
    gc.freeze()


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty state folder, for this process and those it starts; no model is wanted."""
    folder = tmp_path / "home"
    monkeypatch.setenv("LSP_CALIB_HOME", str(folder))
    monkeypatch.delenv("LSP_CALIB_MODEL", raising=False)
    return state.state_dir()


@pytest.fixture
def young_heap() -> Iterator[None]:
    """What other tests have left is not searched for garbage while this one is timed."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of its own with room for one megabyte and 200 names. Skips where the user may not mount
    one."""
    place = tmp_path / "disk"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m,nr_inodes=200,mode=700", "tmpfs", str(place)]
    try:
        done = subprocess.run(mount, capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        done = False
    if not done:
        pytest.skip("this user may not mount a file system")
    try:
        yield place
    finally:
        subprocess.run(["umount", "--lazy", str(place)], check=True)


@pytest.fixture(scope="session")
def walls() -> None:
    """Programs can be locked in here. Skips, or fails if LSP_CALIB_REQUIRE_SANDBOX is 1."""
    from lsp_calib.studies.sandbox import bwrap

    try:
        bwrap.usable()
    except SandboxError as error:
        if os.environ.get("LSP_CALIB_REQUIRE_SANDBOX") == "1":
            raise
        pytest.skip(str(error))


@pytest.fixture
def data() -> Path:
    """The folder with evaluation data."""
    named = os.environ.get("LSP_CALIB_DATA")
    if not named:
        pytest.skip("LSP_CALIB_DATA names no folder with evaluation data")
    return Path(named)


@pytest.fixture(scope="session")
def model_card() -> ModelCard:
    return load_cards()[DEFAULT_MODEL]


@pytest.fixture(scope="session")
def model_path(model_card: ModelCard) -> Path:
    """The real default model. Without it a test is skipped, or fails if LSP_CALIB_REQUIRE_MODEL is 1."""
    wrong = None
    if _MODEL is None:
        wrong = (
            "The default model is not installed: run `lsp-calib models pull smollm2-135m`, "
            "or name its file in LSP_CALIB_TEST_MODEL."
        )
    elif _MODEL.stat().st_size != model_card.size:
        wrong = f"{_MODEL} is not the default model: it has another size."
    if wrong is None:
        assert _MODEL is not None
        return _MODEL
    if os.environ.get("LSP_CALIB_REQUIRE_MODEL") == "1":
        pytest.fail(wrong)
    pytest.skip(wrong)


@pytest.fixture
def home_with_model(home: Path, model_path: Path, model_card: ModelCard) -> Path:
    """A state folder with the default model installed (and nothing else)."""
    state.private_folder(model_card.path.parent)
    model_card.path.symlink_to(model_path)
    # Else each test would compute it afresh; unit/test_checksum.py sees to the checksum itself.
    sidecar.remember(model_card.path, model_card.sha256)
    for ready in converted.all_of(model_path):
        (model_card.path.parent / ready.name).symlink_to(ready)
    return home


@pytest.fixture
def home_with_summaries(home_with_model: Path) -> Path:
    """The same, of a user who wants the summaries of a model that offers none by itself."""
    (home_with_model / "config.toml").write_text("hover.enabled = true\n")
    return home_with_model
