"""A real VS Code, in a browser: code-server and Chromium, driven as a person would.

`.ci/vscode` sets both up (make test-editors). `MISSING` names what is not there; the tests skip with it.
"""

from __future__ import annotations

import contextlib
import copy
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import psutil
import pytest

ROOT = Path(__file__).resolve().parents[3]
CODE_SERVER = os.environ.get("LSP_CALIB_VSCODE", "")
CHROMIUM = Path(os.environ.get("LSP_CALIB_CHROMIUM", "/usr/bin/chromium"))
SERVER = os.environ.get("LSP_CALIB_SERVER") or str(Path(sys.executable).with_name("lsp-calib"))
VSIX = ROOT / "build" / "lsp-calib.vsix"
# For a machine that is busy with something else: how many times longer everything may take.
PATIENCE = float(os.environ.get("LSP_CALIB_PATIENCE", "1"))
SECONDS = 40.0 * PATIENCE
MODEL_SECONDS = 120.0 * PATIENCE  # the first answer waits for the model to load

SOURCE = '''\
"""Statistics of a list of numbers."""


def mean(values: list[float]) -> float:
    """The arithmetic mean of the values."""
    return sum(values) / len(values)


def variance(values: list[float]) -> float:
    center = mean(values)
    return sum((v - center) ** 2 for v in values) / len(values)


def average(values: list[float]) -> float:
    """Another name for the arithmetic mean."""
'''
# What is typed at its end: the model goes on with the line of the first function.
TYPED = "    return su"

USER_SETTINGS: dict[str, Any] = {
    "security.workspace.trust.enabled": False,
    "security.workspace.trust.startupPrompt": "never",
    "workbench.startupEditor": "none",
    "workbench.secondarySideBar.defaultVisibility": "hidden",
    "workbench.colorTheme": "Dark Modern",
    "workbench.tips.enabled": False,
    "chat.disableAIFeatures": True,
    "chat.commandCenter.enabled": False,
    "telemetry.telemetryLevel": "off",
    "update.mode": "none",
    "extensions.autoCheckUpdates": False,
    "extensions.ignoreRecommendations": True,
    "git.enabled": False,
    "editor.minimap.enabled": False,
    "editor.fontSize": 16,
    "editor.wordBasedSuggestions": "off",
    "editor.hover.delay": 100,
    "files.autoSave": "off",
    "terminal.integrated.gpuAcceleration": "off",  # its text is then in the page
}
# VS Code reads this one from the machine's settings alone.
_QUIET = {"workbench.welcomePage.walkthroughs.openOnInstall": False}
# Beside other busy programs two threads of llama.cpp wait for each other, and an answer takes a minute.
_ONE_THREAD = {"lspCalib.trusted.threads": 1}
# What decorations and ghost text look like in the page.
_DRAWN = """() => {
  const spans = [...document.querySelectorAll('.view-lines span')];
  const parts = spans.flatMap((span) => ['::before', '::after'].map((side) => getComputedStyle(span, side)));
  const badge = parts.find(({ content }) => /[●▲✗]/.test(content));
  const ghosts = [...document.querySelectorAll('.ghost-text-decoration, .ghost-text')];
  const item = document.querySelector('.statusbar-item[id*="lspCalib.status"]');
  return {
    ghost: ghosts.map((one) => one.textContent).join('').replaceAll('\\u00a0', ' ').trim(),
    badge: badge ? badge.content.replaceAll('"', '') : '',
    color: badge ? badge.color : '',
    status: item?.textContent.trim() ?? '',
    label: item?.querySelector('[aria-label]')?.getAttribute('aria-label') ?? '',
    busy: item?.querySelector('.codicon-sync, .codicon-loading') ? 'busy' : '',
  };
}"""
# Notes what is seen of the cursor's line at each frame of the page, where that differs from the frame before.
# VS Code draws within a frame: what observes sizes is called after that, and before anything is seen.
_FILM = """() => {
  const begun = performance.now();
  const endOfText = (line) => { // without what CSS adds to it
    const walker = document.createTreeWalker(line, NodeFilter.SHOW_TEXT);
    const range = document.createRange();
    let end = 0;
    while (walker.nextNode()) {
      range.selectNodeContents(walker.currentNode);
      end = Math.max(end, range.getBoundingClientRect().right);
    }
    return Math.round(end);
  };
  const film = window.lspCalibFilm = { frames: [], goesOn: true };
  const note = () => {
    const top = document.querySelector('.editor-instance .cursors-layer .cursor')?.style.top;
    const lines = [...document.querySelectorAll('.editor-instance .view-line')];
    const line = lines.find((one) => one.style.top === top);
    const ghosts = [...(line?.querySelectorAll('.ghost-text-decoration') ?? [])];
    const spans = [...(line?.querySelectorAll('span') ?? [])];
    const after = spans.map((span) => getComputedStyle(span, '::after'));
    const badge = after.find(({ content }) => /[●▲✗]/.test(content));
    const frame = {
      text: (line?.textContent ?? '').replaceAll('\\u00a0', ' '),
      ghost: ghosts.map((one) => one.textContent).join('').replaceAll('\\u00a0', ' '),
      end: line ? endOfText(line) : 0,
      badge: badge ? badge.content.replaceAll('"', '') : '',
      color: badge ? badge.color : '',
      status: document.querySelector('.statusbar-item[id*="lspCalib.status"]')?.textContent.trim() ?? '',
    };
    const last = film.frames.at(-1);
    if (!last || Object.keys(frame).some((key) => frame[key] !== last[key])) {
      film.frames.push({ ...frame, at: Math.round(performance.now() - begun) });
    }
  };
  const probe = document.body.appendChild(document.createElement('div'));
  probe.style.cssText = 'position: fixed; width: 0; height: 0; visibility: hidden';
  new ResizeObserver(note).observe(probe);
  const resize = () => {
    probe.style.width = probe.style.width === '0px' ? '1px' : '0px';
    if (film.goesOn) {
      requestAnimationFrame(resize);
    }
  };
  resize();
}"""
_LINES = """() => [...document.querySelectorAll('.editor-instance .view-line')].map((line) => {
  const text = line.cloneNode(true);
  text.querySelectorAll('.ghost-text-decoration, .ghost-text').forEach((ghost) => ghost.remove());
  return [parseFloat(line.style.top), text.textContent.replaceAll('\\u00a0', ' ')];
})"""


def _missing() -> str | None:
    if not CODE_SERVER:
        return "LSP_CALIB_VSCODE names no VS Code: .ci/vscode sets one up and prints it (make test-editors)"
    if not Path(CODE_SERVER).exists():
        return f"no code-server at {CODE_SERVER}"
    if not CHROMIUM.exists():
        return f"no Chromium at {CHROMIUM}: .ci/vscode installs it, LSP_CALIB_CHROMIUM names another"
    if not VSIX.exists():
        return f"no {VSIX.relative_to(ROOT)}: make vsix"
    try:
        import playwright.sync_api  # noqa: F401
    except ImportError:
        return "no playwright: pip install -e '.[editors]'"
    return None


MISSING = _missing()


def _command_line(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:  # it has ended
        return []


def browser_flags() -> dict[str, Any]:
    """What a browser on a machine without a screen is started with; nothing of it reaches the network."""
    return {
        "executable_path": str(CHROMIUM),
        "args": [
            "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
            "--disable-background-networking", "--disable-component-update", "--disable-sync",
        ],
    }  # fmt: skip


def environment_with_model(home: Path, model: Path, encoder: Iterable[Path] = ()) -> dict[str, str]:
    """The environment of an editor with this state folder, in which the model is all that is installed.

    encoder: files of the encoder that are there beside it.
    """
    models = home / "models"
    models.mkdir(mode=0o700)
    home.chmod(0o700)
    # The small model offers no summaries by itself.
    (home / "config.toml").write_text("hover.enabled = true\n")
    for file in (model, *encoder):
        (models / file.name).symlink_to(file)
    kept = {name: value for name, value in os.environ.items() if name != "LSP_CALIB_MODEL"}
    return kept | {"LSP_CALIB_HOME": str(home)}


def server_behind(folder: Path, words: list[str]) -> str:
    """A program that starts the server behind one of tests/editors, which these words begin."""
    program = folder / "lsp-calib-behind"
    program.write_text(f'#!/bin/sh\nexec {shlex.join([sys.executable, *words])} "$@"\n')
    program.chmod(0o755)
    return str(program)


def node_folder() -> str:
    """The folder with the Node.js that code-server runs on."""
    return subprocess.run(
        [ROOT / ".ci" / "node", "24"], capture_output=True, text=True, check=True
    ).stdout.strip()


class VSCode:
    """A browser's page with VS Code in it, on a workspace and a profile of its own.

    browser: playwright's. folder: for the profile. workspace: a folder, or a .code-workspace file. machine:
    settings of the machine where the server runs, which alone may name programs. environment: that of VS Code
    and of the servers that it starts.
    """

    def __init__(
        self,
        browser: Any,
        folder: Path,
        workspace: Path,
        *,
        machine: dict[str, Any],
        user: dict[str, Any] | None = None,
        environment: dict[str, str] | None = None,
        light: bool = False,
        viewport: tuple[int, int] = (1280, 720),
    ) -> None:
        self.folder, self.workspace = folder, workspace
        self._environment = dict(environment if environment is not None else os.environ)
        # As `code` says: the environment is this one. Otherwise VS Code asks a login shell for another.
        self._environment["VSCODE_CLI"] = "1"
        self._environment["PATH"] = f"{node_folder()}:{self._environment['PATH']}"
        settings = USER_SETTINGS | ({"workbench.colorTheme": "Light Modern"} if light else {}) | (user or {})
        for name, values in (("User", settings), ("Machine", _QUIET | _ONE_THREAD | machine)):
            place = folder / "data" / name
            place.mkdir(parents=True)
            (place / "settings.json").write_text(json.dumps(values))
        self._arguments = [
            CODE_SERVER, "--user-data-dir", str(folder / "data"), "--extensions-dir",
            str(folder / "extensions"), "--config", str(folder / "config.yaml"),
        ]  # fmt: skip
        self._process: subprocess.Popen[bytes] | None = None
        self._browser = browser
        self._page_options = {
            "viewport": {"width": viewport[0], "height": viewport[1]},
            "color_scheme": "light" if light else "dark",
        }
        self._new_page()

    def _new_page(self) -> None:
        self.page = self._browser.new_page(**self._page_options)
        self.page.set_default_timeout(1000 * SECONDS)

    def window(self, workspace: Path, file: str | None = None) -> VSCode:
        """A second window of this VS Code, on another workspace; the caller closes its page."""
        other = copy.copy(self)
        other.workspace = workspace
        other._new_page()
        other.open(file)
        return other

    def install(self, vsix: Path = VSIX) -> None:
        subprocess.run(
            [*self._arguments, "--install-extension", str(vsix)],
            env=self._environment, check=True, capture_output=True, timeout=MODEL_SECONDS,
        )  # fmt: skip

    def start(self, file: str | None = None) -> None:
        """Starts code-server and opens the workspace, and a file of it."""
        log = self.folder / "code-server.log"  # a pipe would hold it up once it is full and nobody reads it
        with log.open("wb") as output:
            self._process = subprocess.Popen(
                [*self._arguments, "--auth", "none", "--bind-addr", "127.0.0.1:0", "--disable-telemetry",
                 "--disable-update-check", "--disable-getting-started-override"],
                env=self._environment, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT,
                start_new_session=True,
            )  # fmt: skip
        end = time.monotonic() + MODEL_SECONDS
        listening = re.compile(r"HTTP server listening on (http://[\d.:]+)/?\s")
        while not (found := listening.search(log.read_text("utf-8"))):
            if self._process.poll() is not None or time.monotonic() > end:
                pytest.fail(f"code-server did not start:\n{log.read_text('utf-8')}")
            time.sleep(0.1)
        self.url = found[1]
        self.open(file)

    def open(self, file: str | None = None) -> None:
        from urllib.parse import quote

        kind = "workspace" if self.workspace.suffix == ".code-workspace" else "folder"
        address = f"{self.url}/?{kind}={quote(str(self.workspace))}"
        if file:
            host = self.url.removeprefix("http://")
            payload = json.dumps([["openFile", f"vscode-remote://{host}{self.workspace / file}"]])
            address += f"&payload={quote(payload)}"
        self.page.goto(address, wait_until="domcontentloaded", timeout=1000 * MODEL_SECONDS)
        self.page.locator(".monaco-workbench").wait_for(timeout=1000 * MODEL_SECONDS)
        if file:
            self.page.locator(".editor-instance .view-lines").first.wait_for(timeout=1000 * MODEL_SECONDS)

    def show(self, file: Path, line: int | None = None) -> None:
        """Opens one more file, by its path, at a line, from 1."""
        from playwright.sync_api import Error as PlaywrightError

        name = str(file) if line is None else f"{file}:{line}"
        # Not Control+P: before VS Code listens it is the browser's, which would print.
        self.page.mouse.move(640, 300)  # away from a hover, whose end would close the palette

        def asked() -> bool:
            self.keys("Escape", "Escape", "F1")
            try:
                self.page.locator(".quick-input-widget input").first.fill(name, timeout=5000)
                row = self.page.locator(".quick-input-widget .monaco-list-row", has_text=file.name)
                row.first.click(timeout=5000)
            except PlaywrightError:  # not there yet, or something else took the focus
                return False
            return True

        self.until("the palette", asked)
        self.page.locator(".tab.active", has_text=file.name).wait_for()

    def close(self) -> None:
        self.page.close()
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGTERM)  # the group that was started above
            self._process.wait(20 * PATIENCE)

    def drawn(self) -> dict[str, str]:
        """Texts of ghost text, badge and status bar item, the label that a screen reader says of it, the
        badge's colour, whether the server works ("busy"); "" for what is not there."""
        return dict(self.page.evaluate(_DRAWN))

    def film(self) -> Callable[[], list[dict[str, Any]]]:
        """Begins to note what is seen of the cursor's line, frame by frame.

        What it returns ends that and gives the frames: the text with the ghost text, where it ends on the
        page, the ghost text, badge and colour, the status bar.
        """
        self.page.evaluate(_FILM)

        def end() -> list[dict[str, Any]]:
            script = "() => { lspCalibFilm.goesOn = false; return lspCalibFilm.frames; }"
            return list(self.page.evaluate(script))

        return end

    def until(self, what: str, met: Callable[[], Any], seconds: float = SECONDS) -> Any:
        """The first true value of met(); fails with what is on screen if there is none in time."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if value := met():
                return value
            self.page.wait_for_timeout(150)
        picture = os.environ.get("LSP_CALIB_PICTURES")
        if picture:
            self.page.screenshot(path=Path(picture) / "failed.png")
        return pytest.fail(f"not within {seconds:.0f} s: {what}\n{self.drawn()}\n{self.log()}")

    def keys(self, *keys: str) -> None:
        for key in keys:
            self.page.keyboard.press(key)

    def type(self, text: str) -> None:
        self.page.keyboard.type(text, delay=60)

    def to_end(self) -> None:
        """Puts the cursor at the end of the document."""
        self.page.locator(".editor-instance .view-lines").first.click()
        self.keys("Control+End")

    def lines(self) -> list[str]:
        """The lines of the document on screen, from top to bottom, without ghost text."""
        rows = self.page.evaluate(_LINES)
        return [text for _, text in sorted(rows)]

    def command(self, title: str) -> None:
        """Runs a command from the palette, by the whole of its title."""
        self.keys("F1")
        self.page.locator(".quick-input-widget input").first.wait_for(timeout=1000 * SECONDS)
        self.page.keyboard.type(title)
        entry = self.page.locator(".quick-input-widget .monaco-list-row", has_text=title).first
        entry.wait_for(timeout=1000 * SECONDS)
        entry.click()

    def notifications(self) -> str:
        """What notifications say, in the corner or in the list that opens where there are several."""
        places = (".notifications-toasts", ".notifications-center.visible")
        shown = ", ".join(f"{place} .notification-list-item" for place in places)
        return "\n".join(self.page.locator(shown).all_text_contents())

    def frame_with(self, text: str) -> Any:
        """The page of an extension that has this text, as playwright's frame; None if there is none."""
        from playwright.sync_api import Error as PlaywrightError

        for one in self.page.frames:
            # One frame takes the other's place meanwhile.
            with contextlib.suppress(PlaywrightError):
                named = one.name in ("active-frame", "pending-frame")
                if named and text in one.locator("body").inner_text():
                    return one
        return None

    def until_ready(self) -> None:
        self.until("the server is ready", lambda: "smollm2" in self.drawn()["status"], MODEL_SECONDS)

    def suggestion(self, typed: str) -> dict[str, str]:
        """Types at the cursor; what is drawn once ghost text and badge are there."""
        self.until_ready()
        self.type(typed)
        return self.wait_for_suggestion(typed)

    def wait_for_suggestion(self, typed: str) -> dict[str, str]:
        """What is drawn once ghost text and badge are there.

        An answer that is at work is waited for, however long it takes: typing would cancel it. Where the
        server has nothing to do and nothing is drawn, VS Code has given up its request: it is made again.
        """
        idle = [time.monotonic()]

        def both() -> Any:
            seen = self.drawn()
            if seen["busy"]:
                idle[0] = time.monotonic()
            elif time.monotonic() - idle[0] > 5 * PATIENCE:
                self.keys("Backspace")
                self.type(typed[-1])
                idle[0] = time.monotonic()
            return seen["ghost"] and seen["badge"] and seen

        return dict(self.until("ghost text with a badge", both, MODEL_SECONDS))

    def hovered(self, place: list[float], met: Callable[[str], bool]) -> str:
        """What a hover at a place on the page says, once it says what is wanted."""
        hover = self.page.locator(".monaco-hover:not(.hidden)")
        tried = [0.0]

        def look() -> Any:
            texts = [str(text) for text in hover.all_text_contents()]
            if fits := [text for text in texts if met(text)]:
                return fits[0]
            if time.monotonic() - tried[0] > 6 * PATIENCE:  # a hover that came too early says so: again
                tried[0] = time.monotonic()
                self.page.mouse.move(640, 690)
                self.page.wait_for_timeout(600)
                self.page.mouse.move(place[0] - 3, place[1])
                self.page.mouse.move(place[0], place[1], steps=3)
            return None

        return str(self.until("a hover", look, MODEL_SECONDS))

    def servers(self) -> list[psutil.Process]:
        """The language servers that this VS Code has started, of all its windows."""
        assert self._process is not None
        children = psutil.Process(self._process.pid).children(recursive=True)
        return [
            one
            for one in children
            if "serve" in _command_line(one) and "lsp-calib" in str(_command_line(one))
        ]

    def press(self, button: str) -> None:
        """A button of a notification or a dialog."""
        self.page.get_by_role("button", name=button, exact=True).first.click()

    def clear_notifications(self) -> None:
        if self.notifications():
            self.command("Notifications: Clear All Notifications")
            self.until("no notifications", lambda: not self.notifications())

    def rows(self) -> list[str]:
        """What the open list of choices offers."""
        found = self.page.locator(".quick-input-widget .monaco-list-row").all_text_contents()
        return [str(one) for one in found]

    def choose(self, text: str) -> None:
        """An entry of the open list of choices."""
        self.page.locator(".quick-input-widget .monaco-list-row", has_text=text).first.click()

    def log(self) -> str:
        """The end of the extension's log."""
        logs = sorted(self.folder.glob("data/logs/*/exthost*/lsp-calib*/*.log"))
        return logs[-1].read_text(errors="replace")[-4000:] if logs else ""
