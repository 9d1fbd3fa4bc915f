"""`window/workDoneProgress` while the model loads."""

from __future__ import annotations

from pathlib import Path

from conftest import Connect
from lsprotocol import types
from scripted_editor import capabilities, until

LOADING = {"loading": [step / 50 for step in range(51)]}


async def test_begin_reports_and_end(connect: Connect, tmp_path: Path) -> None:
    """One progress, created by a request, with growing percentages, and ended when the model is ready."""
    goes_on = tmp_path / "goes-on"
    editor = await connect({**LOADING, "goesOnAt": str(goes_on)}, client=capabilities(progress=True))
    reports = editor.client.progress_reports
    await until(lambda: any(reports.values()), "the beginning")
    goes_on.touch()
    await until(
        lambda: any(isinstance(r[-1], types.WorkDoneProgressEnd) for r in reports.values() if r), "the end"
    )
    (values,) = reports.values()
    begin, *between, end = values
    assert isinstance(begin, types.WorkDoneProgressBegin)
    assert begin.title == "lsp-calib"
    assert begin.message == "Loading the script."
    assert isinstance(end, types.WorkDoneProgressEnd)
    assert end.message == "The script is ready."
    assert between
    percentages = [r.percentage for r in between if isinstance(r, types.WorkDoneProgressReport)]
    assert len(percentages) == len(between)
    assert percentages == sorted(percentages)  # type: ignore[type-var]
    assert all(p is not None and 0 <= p <= 100 for p in percentages)
    assert editor.client.complaints == []


async def test_none_for_clients_without_it(connect: Connect) -> None:
    """A client that declares no progress gets none of its messages."""
    editor = await connect(LOADING, client=capabilities())
    await until(lambda: any(s.state == "ready" for s in editor.client.statuses), "the model")
    assert editor.client.progress_reports == {}


async def test_a_model_that_is_there_at_once_leaves_none_running(connect: Connect) -> None:
    """If loading ends before the editor has agreed, no progress is left without its end."""
    editor = await connect({"loading": [0.0]}, client=capabilities(progress=True))
    await until(lambda: any(s.state == "ready" for s in editor.client.statuses), "the model")
    await editor.status()
    for values in editor.client.progress_reports.values():
        assert not values or isinstance(values[-1], types.WorkDoneProgressEnd)


async def test_a_client_that_refuses_is_not_asked_again(connect: Connect, tmp_path: Path) -> None:
    goes_on = tmp_path / "goes-on"
    asked = []

    def refuse(params: types.WorkDoneProgressCreateParams) -> None:
        asked.append(params)
        raise ValueError("no bars here")

    editor = await connect(
        {**LOADING, "goesOnAt": str(goes_on)}, client=capabilities(progress=True), initialized=False
    )
    editor.client.protocol.fm.features[types.WINDOW_WORK_DONE_PROGRESS_CREATE] = refuse
    editor.client.initialized(types.InitializedParams())
    await until(lambda: asked, "the request")
    await editor.status()
    goes_on.touch()
    await until(lambda: any(s.state == "ready" for s in editor.client.statuses), "the model")
    await editor.status()
    assert len(asked) == 1
    (complaint,) = editor.client.complaints
    assert "no bars here" in complaint
    editor.client.complaints.clear()
