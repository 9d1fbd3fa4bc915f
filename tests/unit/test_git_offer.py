"""The offer to calibrate on commits: asked once, and nothing begins without a yes."""

from __future__ import annotations

import asyncio
import stat
from pathlib import Path

import pytest
from lsprotocol import types

from lsp_calib.errors import LspCalibError
from lsp_calib.server.refits import NO, YES, GitOffer


class User:
    """Answers what is asked. calibrated: the folders that a calibration began for."""

    def __init__(self, answer: str | None, *, fails: bool = False) -> None:
        self.answer = answer
        self.fails = fails
        self.asked: list[str] = []
        self.calibrated: list[Path] = []

    async def window_show_message_request_async(
        self, params: types.ShowMessageRequestParams
    ) -> types.MessageActionItem | None:
        self.asked.append(params.message)
        assert [action.title for action in params.actions or ()] == [YES, NO]
        return None if self.answer is None else types.MessageActionItem(self.answer)

    async def calibrate(self, folder: Path) -> None:
        self.calibrated.append(folder)
        if self.fails:
            raise LspCalibError("It failed.")


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    (tmp_path / "checkout" / ".git").mkdir(parents=True)
    (tmp_path / "checkout" / "part").mkdir()
    return tmp_path / "checkout"


async def offered(user: User, folder: Path, memory: Path) -> None:
    offer = GitOffer(user, user.calibrate, memory)
    offer.make(folder, 200)
    assert offer._task is not None
    await asyncio.wait_for(offer._task, 10)


async def test_after_a_yes_it_begins(checkout: Path, tmp_path: Path) -> None:
    user = User(YES)
    await offered(user, checkout / "part", tmp_path / "memory")
    assert user.calibrated == [checkout / "part"]
    assert "committed in part" in user.asked[0]
    assert "200" in user.asked[0]


@pytest.mark.parametrize("answer", [NO, None])
async def test_without_a_yes_nothing_begins_and_it_is_not_asked_again(
    checkout: Path, tmp_path: Path, answer: str | None
) -> None:
    user = User(answer)
    for _ in range(3):
        await offered(user, checkout, tmp_path / "memory")
    assert len(user.asked) == 1
    assert user.calibrated == []
    await offered(user, checkout / "part", tmp_path / "memory")
    assert len(user.asked) == 2, "another workspace"


async def test_a_folder_in_no_checkout_is_not_asked_about(tmp_path: Path) -> None:
    user = User(YES)
    await offered(user, tmp_path, tmp_path / "memory")
    assert user.asked == []
    assert not (tmp_path / "memory").exists()


async def test_what_is_remembered_names_no_folder(checkout: Path, tmp_path: Path) -> None:
    await offered(User(NO), checkout, tmp_path / "memory")
    assert b"checkout" not in (tmp_path / "memory").read_bytes()
    assert stat.S_IMODE((tmp_path / "memory").stat().st_mode) == 0o600


async def test_where_nothing_can_be_remembered_it_is_never_asked(checkout: Path, tmp_path: Path) -> None:
    """Otherwise it would be asked at each start."""
    user = User(YES)
    await offered(user, checkout, tmp_path / "gone" / "memory")
    assert user.asked == []


async def test_a_failure_is_logged(checkout: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    await offered(User(YES, fails=True), checkout, tmp_path / "memory")
    assert "It failed." in caplog.text


async def test_stopped_it_begins_nothing(checkout: Path, tmp_path: Path) -> None:
    user = User(YES)
    offer = GitOffer(user, user.calibrate, tmp_path / "memory")
    offer.make(checkout, 200)
    offer.stop()
    await asyncio.sleep(0.2)
    assert user.calibrated == []
