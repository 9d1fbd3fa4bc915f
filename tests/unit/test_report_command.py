"""`lsp-calib report`: in the terminal, as a page, as JSON."""

from __future__ import annotations

import json
import os
import stat
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from report_scene import drawn, write

from lsp_calib.cli import main
from lsp_calib.feedback.removal import remove_everything
from lsp_calib.feedback.report import PAGE
from lsp_calib.feedback.store import FeedbackStore

BEGINNING = "<!doctype html>"


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["report", *arguments])


@pytest.fixture
def filled(home: Path) -> Path:
    write(home / "feedback.db", drawn(300))
    return home


def test_the_terminal_says_the_essentials(filled: Path) -> None:
    result = invoke()
    assert result.exit_code == 0, result.output
    for part in ("“Accept” was right", "promised", "reject", "lsp-calib report --open"):
        assert part in result.output
    assert not (filled / PAGE).exists()


@pytest.mark.usefixtures("home")
def test_an_empty_store_says_what_to_do() -> None:
    result = invoke()
    assert result.exit_code == 0
    assert "nothing to report yet" in result.output
    assert "lspCalib.feedback.enabled" in result.output


@pytest.mark.usefixtures("filled")
def test_json_stands_alone_on_standard_output(tmp_path: Path) -> None:
    """Also with a page: where that is goes to standard error."""
    page = tmp_path / "r.html"
    result = invoke("--json", "--html", str(page))
    found = json.loads(result.stdout)
    assert found["statistics"]["suggestions"] == 300
    assert {one["name"] for one in found["tiers"]} == {"accept", "review", "reject"}
    assert str(page) in result.stderr
    assert page.read_text("utf-8").startswith(BEGINNING)


@pytest.mark.usefixtures("filled")
def test_a_page_is_its_owners_alone_and_replaces_one_of_any_version(tmp_path: Path) -> None:
    page = tmp_path / "r.html"
    mark = '<meta name="generator" content="lsp-calib report">'
    page.write_text(f'<!doctype html>\n<html lang="en" class="x"><head><title>old</title>{mark}')
    for _ in range(2):
        assert invoke("--html", str(page)).exit_code == 0
        assert "old" not in page.read_text("utf-8")[:300]
    if os.name == "posix":
        assert stat.S_IMODE(page.stat().st_mode) == 0o600
    assert list(tmp_path.glob(".r.html*")) == []


@pytest.mark.usefixtures("filled")
def test_nothing_but_a_report_is_replaced(tmp_path: Path) -> None:
    other = tmp_path / "notes.html"
    other.write_text("<!doctype html>\nmine")
    link = tmp_path / "link.html"
    link.symlink_to(other)
    for path in (other, link):
        result = invoke("--html", str(path))
        assert result.exit_code == 2
        assert "is no report" in result.output
        assert other.read_text() == "<!doctype html>\nmine"
    result = invoke("--html", str(tmp_path / "no" / "such" / "folder.html"))
    assert result.exit_code == 3
    assert "Give another place" in result.output


@pytest.mark.skipif(sys.platform == "win32", reason="the browser here is a shell script")
def test_open_starts_the_users_browser(filled: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The page is then in the state folder; `feedback purge` removes it with what it was made from."""
    browser = tmp_path / "browser"
    browser.write_text(f'#!/bin/sh\necho "$1" >> {tmp_path / "opened"}\n')
    browser.chmod(0o700)
    monkeypatch.setenv("BROWSER", f"{browser} %s")
    monkeypatch.setattr("webbrowser._tryorder", None)
    result = invoke("--open")
    assert result.exit_code == 0, result.output
    assert (tmp_path / "opened").read_text().strip() == (filled / PAGE).as_uri()
    assert CliRunner().invoke(main, ["feedback", "purge", "--before", "2020-01-01", "--yes"]).exit_code == 0
    assert not (filled / PAGE).exists()
    assert invoke("--open").exit_code == 0
    store = FeedbackStore(filled / "feedback.db")
    assert remove_everything(store, filled) == 300
    store.close()
    assert not (filled / PAGE).exists()


@pytest.mark.skipif(sys.platform == "win32", reason="the browser here is a shell script")
def test_without_a_browser_the_page_is_named(filled: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BROWSER", "false %s")
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr("webbrowser._tryorder", None)
    result = invoke("--open")
    assert result.exit_code == 1
    assert "No browser could be started" in result.output
    assert (filled / PAGE).exists()
