"""Text of documents never reaches a log; faults are shown once."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from lsprotocol import types

from lsp_calib.errors import SettingsError
from lsp_calib.server import set_up_log
from lsp_calib.server.messages import UserMessages, WithoutParameters


@pytest.fixture(autouse=True)
def filtered(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """pytest has one handler for all tests of a run; the demo and the bench, run before, silence pygls."""
    caplog.set_level(logging.DEBUG, "pygls")
    only = WithoutParameters()
    caplog.handler.addFilter(only)
    yield
    caplog.handler.removeFilter(only)


def test_parameters_of_a_message_are_left_out_and_errors_named_without_their_text(
    caplog: pytest.LogCaptureFixture,
) -> None:
    logger = logging.getLogger("pygls.protocol.json_rpc")
    logger.error("Failed to handle notification %r: %s", "textDocument/didChange", {"text": "my secret"})
    try:
        raise ValueError("my secret")
    except ValueError:
        logger.exception("Failed to handle request %s", "my secret")
    assert "secret" not in caplog.text
    assert "Failed to handle notification" in caplog.text
    assert "ValueError" in caplog.text


def test_our_own_messages_are_left_alone(caplog: pytest.LogCaptureFixture) -> None:
    logging.getLogger("lsp_calib.server").warning("No model: %s", "none is installed")
    assert "No model: none is installed" in caplog.text


@pytest.mark.parametrize("place", ["nowhere/x.log", "file/x.log", "."])
def test_a_log_file_that_cannot_be_made_is_named_with_its_option(tmp_path: Path, place: str) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(SettingsError, match="--log-file") as caught:
        set_up_log(tmp_path / place)
    assert str(tmp_path / place) in str(caught.value)
    assert "Errno" not in str(caught.value)


def test_each_message_is_shown_once_until_they_are_forgotten_and_none_after_the_end() -> None:
    shown: list[types.ShowMessageParams] = []
    messages = UserMessages(cast(Any, SimpleNamespace(window_show_message=shown.append)))
    messages.warn("a")
    messages.warn("a", "b", "c", "b")
    messages.error("c")
    assert [params.message for params in shown] == ["a", "b\nc"]
    messages.forget()
    messages.error("a")
    assert shown[-1] == types.ShowMessageParams(types.MessageType.Error, "a")
    for _ in range(2):
        messages.inform("e")
    assert shown[-2:] == [types.ShowMessageParams(types.MessageType.Info, "e")] * 2
    messages.stop()
    messages.warn("d")
    messages.inform("e")
    assert len(shown) == 5
