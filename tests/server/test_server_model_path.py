"""The user chooses the model file: the folder in which a server is started has no influence."""

from __future__ import annotations

from pathlib import Path

import pytest
from scripted_editor import until
from test_server_remote import Start, start_fixture  # noqa: F401 - a fixture

# The smallest file that is accepted as a model: a header that declares nothing.
MODEL = b"GGUF\3\0\0\0" + bytes(16)
EVIL = "evil.gguf"


@pytest.mark.parametrize("way", ["editor", "environment", "config.toml", "command line"])
async def test_a_relative_path_does_not_lead_into_the_workspace(
    start: Start, tmp_path: Path, way: str
) -> None:
    """Editors start the server in the workspace's folder; `serve --model` is not typed by hand there."""
    (tmp_path / EVIL).write_bytes(MODEL)
    (tmp_path / "home").mkdir(mode=0o700)
    if way == "config.toml":
        (tmp_path / "home" / "config.toml").write_text(f'model = "{EVIL}"\n')
    editor = await start(
        options={"trusted": {"model": EVIL}} if way == "editor" else {},
        env={"LSP_CALIB_MODEL": EVIL} if way == "environment" else {},
        arguments=["--model", EVIL] if way == "command line" else [],
    )
    await until(lambda: editor.messages, "a message")
    (message,) = editor.messages
    assert "absolute path" in message
    assert EVIL in message
    assert (await editor.status())["state"] == "error"
    editor.open("a")
    assert await editor.inline(0, 1) is None
    assert not (tmp_path / "home" / "log" / "model.log").exists(), "no model process was started"
