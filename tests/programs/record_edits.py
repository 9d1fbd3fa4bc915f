"""What editors send while one edits: `python tests/programs/record_edits.py EDITOR` (see `EDITORS`).

Each editor runs without a screen, with the shipped configuration and the scripted server. A suggestion
appears, is there for a second and is accepted; then one action of `record_edits.toml` is done, another line
gets a `#`, and the recording ends. `tests/server/recordings/EDITOR.jsonl` gets, for each action, a line
{"name", "editor", "version"} and a line {"at": seconds since the start, "method", "params"} for each message
of the editor that `REPLAYED` names, in the order in which the server handled them. Folders become
`file:///project`; `shortened` says what is left out. A recording without `initialize` begins as the one
before it. `tests/server/test_recordings.py` replays them.

The programs are found by the variables of `.ci/editors`. More arguments are names of actions: only these are
recorded, and take the place of the recordings with these names.
"""

from __future__ import annotations

import atexit
import contextlib
import importlib
import json
import re
import shlex
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import tomllib
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar, Protocol

import attrs

ROOT = Path(__file__).resolve().parents[2]
RECORDINGS = ROOT / "tests" / "server" / "recordings"
SERVER = ROOT / "tests" / "server" / "scripted_server.py"
TEXT = """\
def price(net, tax):
    total =
    return total


def shipping(weight):
    rate = 'flat'
    return weight * 2


def reduced(price):
    return price * 0.9


print(price(1, 2))
"""
SUGGESTED = "net + tax"
LINE = "    total = " + SUGGESTED
# Nothing is suggested but what that line lacks, so that no other suggestion takes keys.
SCRIPT = {
    "answers": {
        LINE[:end]: {"text": LINE[end:], "logprobs": [-0.1, -0.2]}
        for end in range(len("    total = "), len(LINE))
    },
}
OTHER = "other.py"
PAUSE = 0.7  # between two actions: Neovim collects changes for 150 ms, Emacs for 500 ms
FUNCTION = "\n".join(TEXT.split("\n")[:3])
ABOVE = "import math\nimport os\nprint(\n    math.pi)\n\n\n"


def book(*cells: str) -> str:
    """A notebook of Jupyter."""
    code: dict[str, Any] = {"cell_type": "code", "metadata": {}, "outputs": [], "execution_count": None}
    first = {"cell_type": "markdown", "metadata": {}, "source": ["# Prices"]}
    more = [{**code, "source": cell.splitlines(keepends=True)} for cell in cells]
    metadata = {"language_info": {"name": "python"}}
    return json.dumps({"cells": [first, *more], "metadata": metadata, "nbformat": 4, "nbformat_minor": 2})


BOOK = book("import math", FUNCTION, "print(price(1, 2))")
# What another program makes of the line, beside adding one at the top.
WRITTEN = {"untaken": "    total =", "clean": "    total = ", "kept": LINE, "gone": "    total = 0"}


class Driver(Protocol):
    """An editor on the file of a project. press: what one does there, in its own words."""

    name: str
    folder: Path
    shown: str

    def written(self, line: str) -> str: ...
    def version(self) -> str: ...
    def open(self) -> None: ...
    def suggest(self, typed: str) -> None: ...
    def accept(self) -> None: ...
    def press(self, keys: str) -> None: ...
    def elsewhere(self) -> None: ...
    def close(self) -> None: ...


@attrs.define
class Action:
    """before: what is done before the suggestion. taken: whether it is accepted. above: with lines above the
    function. clean: nothing is typed for the suggestion: the file already ends the line with a space.

    A step is what `press` takes, "..." for a pause, "wait SECONDS", or "disk KEY": another program writes the
    file, see `WRITTEN`. label: what a person would say of the suggestion.
    """

    story: str
    steps: Sequence[str]
    before: Sequence[str] = ()
    taken: bool = True
    above: bool = False
    clean: bool = False
    label: str = "kept"

    @property
    def text(self) -> str:
        """The file at the start."""
        return (ABOVE if self.above else "") + (TEXT.replace("=\n", "= \n") if self.clean else TEXT)


def project(folder: Path) -> Path:
    return folder / "project"


def load(place: str, module: str) -> Any:
    """A module of the tests."""
    sys.path.insert(0, str(ROOT / "tests" / place))
    return importlib.import_module(module)


def prepare(folder: Path, text: str) -> None:
    """A project with two files, and a program `lsp-calib` that keeps what each server gets."""
    for part in ("project/.git", "home", "bin", "wires"):
        (folder / part).mkdir(parents=True)
    (folder / "home").chmod(0o700)
    (project(folder) / "module.py").write_text(text)
    (project(folder) / OTHER).write_text("values = [1, 2]\n\n\nprint(values)\n")
    (folder / "script.json").write_text(json.dumps(SCRIPT | {"wire": f"{folder}/wires/NUMBER.jsonl"}))
    program = folder / "bin" / "lsp-calib"
    python, server, script = (
        shlex.quote(str(one)) for one in (sys.executable, SERVER, folder / "script.json")
    )
    program.write_text(
        f"#!/bin/sh\nexport LSP_CALIB_HOME={folder}/home\n"
        f"sed s/NUMBER/$$/ {script} > {folder}/script-$$.json\n"
        f"exec {python} {server} {folder}/script-$$.json\n"
    )
    program.chmod(0o755)


def sent(key: str) -> str:
    """What a terminal sends for a key with one of the names of Emacs."""
    special = {"RET": "\r", "C-SPC": "\0", "C-/": "\x1f"}
    if key.startswith("C-"):
        return special.get(key) or chr(ord(key[2]) & 31)
    return special.get(key) or key.replace("M-", "\x1b")


class TextFile:
    """shown: the file that is worked on."""

    shown = "module.py"

    def written(self, line: str) -> str:
        """The file as another program writes it, with this line in it."""
        return "# Prices.\n" + TEXT.replace("    total =", line)


class Neovim(TextFile):
    """Neovim 0.12 with the plugin; keys are those of `nvim_input`."""

    name = "neovim"

    def __init__(self, folder: Path) -> None:
        self.module = load("editors/neovim", "nvim")
        self.folder = folder
        self.nvim: Any = None

    def version(self) -> str:
        said = subprocess.run([self.module.NVIM, "--version"], capture_output=True, text=True, check=True)
        return said.stdout.split("\n")[0]

    def open(self, **more: Any) -> None:
        self.nvim = self.module.Neovim(
            self.module.NVIM, self.folder, project(self.folder) / "module.py", cwd=project(self.folder),
            server=str(self.folder / "bin" / "lsp-calib"), home=self.folder / "home", **more,
        )  # fmt: skip
        self.nvim.attached()

    def suggest(self, typed: str) -> None:
        self.nvim.keys(f"gg/total =<CR>A{typed}")
        self.nvim.until("a suggestion", lambda: self.nvim.ghost() == SUGGESTED)

    def accept(self) -> None:
        self.nvim.keys("<Tab>")
        self.nvim.until("the suggestion in the line", lambda: self.nvim.line() == LINE)
        self.nvim.keys("<Esc>")

    def press(self, keys: str) -> None:
        self.nvim.keys(keys)

    def elsewhere(self) -> None:
        self.nvim.keys("<Esc>GA#")

    def close(self) -> None:
        if self.nvim is not None:
            self.nvim.close()


class NeovimMenu(Neovim):
    """Neovim's own client and its completion menu, without inline completion."""

    def open(self, **more: Any) -> None:
        init = self.folder / "menu.lua"
        init.write_text(f"""
vim.o.swapfile = false
vim.o.completeopt = 'menu,menuone,noinsert'
vim.lsp.config('lsp_calib', {{
  cmd = {{ '{self.folder}/bin/lsp-calib' }}, root_markers = {{ '.git' }},
  before_init = function(params) params.capabilities.textDocument.inlineCompletion = nil end,
  on_attach = function(client, buf) vim.lsp.completion.enable(true, client.id, buf) end,
}})
vim.lsp.enable('lsp_calib')
""")
        super().open(init=init, **more)

    def suggest(self, typed: str) -> None:
        self.nvim.keys(f"gg/total =<CR>A{typed}ne")
        for _ in range(20):
            self.nvim.keys("<C-x><C-o>")
            time.sleep(0.5)
            if self.nvim.lua("return vim.fn.pumvisible()"):
                return
        raise AssertionError("no menu")

    def accept(self) -> None:
        self.nvim.keys("<C-y>")
        self.nvim.until("the suggestion in the line", lambda: self.nvim.line() == LINE)
        self.nvim.keys("<Esc>")


class Helix(TextFile):
    """Helix with its completion menu; ":" begins a command, anything else are keys."""

    name = "helix"

    def __init__(self, folder: Path) -> None:
        self.module = load("editors/helix", "test_helix")
        self.folder = folder
        self.helix: Any = None

    def version(self) -> str:
        return str(subprocess.check_output([self.module.HELIX, "--version"], text=True).strip())

    def open(self) -> None:
        config = self.folder / "config" / "helix"
        config.mkdir(parents=True)
        formatter = """auto-format = true\nformatter = { command = "sed", args = ["s/'flat'/\\"flat\\"/"] }"""
        shipped = self.module.SHIPPED.read_text("utf-8")
        (config / "languages.toml").write_text(
            shipped.replace('name = "python"', f'name = "python"\n{formatter}')
        )
        environment = {
            "PATH": f"{self.folder}/bin:/usr/bin:/bin",
            "XDG_CONFIG_HOME": str(self.folder / "config"),
            "XDG_CACHE_HOME": str(self.folder / "cache"),
        }
        command = [self.module.HELIX, str(project(self.folder) / "module.py")]
        self.helix = self.module.Helix(command, environment, project(self.folder))
        self.helix.sees(r"^ NOR ")
        time.sleep(2.0)  # nothing on the screen says that the server is ready

    def suggest(self, typed: str) -> None:
        self.helix.keys("gg/total =\r")
        time.sleep(0.3)
        self.helix.keys(f"A{typed}ne")
        offered = r"[●▲✗] \S.*? +text$"
        for _ in range(10):
            with contextlib.suppress(AssertionError):
                self.helix.sees(offered, 2.0)
                return
            self.helix.keys("\x7fe")
        raise AssertionError("no menu")

    def accept(self) -> None:
        self.helix.keys("\x0e")
        time.sleep(0.3)
        self.helix.keys("\r")
        self.helix.sees(re.escape(LINE))
        self.helix.normal()

    def press(self, keys: str) -> None:
        if keys.startswith(":"):
            self.helix.command(keys[1:])
        else:
            self.helix.keys(sent(keys))

    def elsewhere(self) -> None:
        self.helix.normal()
        self.helix.keys("geA#")

    def close(self) -> None:
        if self.helix is not None:
            self.helix.close()


class Emacs(TextFile):
    """Emacs with Eglot; "M-x " begins a command, "'" a text, anything else are keys as Emacs names them."""

    client = "eglot"
    ready = r"\[eglot:project"
    take = "\t"
    typed = "net"  # a preview begins at three letters

    def __init__(self, folder: Path) -> None:
        self.module = load("editors/emacs", "test_emacs")
        self.folder = folder
        self.emacs: Any = None
        self.name = f"emacs-{self.client}"

    def version(self) -> str:
        said = subprocess.check_output([self.module.EMACS, "--version"], text=True)
        return str(said.split("\n")[0])

    def open(self) -> None:
        (self.folder / "emacs.d").mkdir()
        init = ROOT / "tests" / "editors" / "emacs" / "init.el"
        environment = {"PATH": f"{self.folder}/bin:/usr/bin:/bin", "LSP_CALIB_CLIENT": self.client}
        command = [self.module.EMACS, "-nw", "-Q", f"--init-directory={self.folder}/emacs.d", "-l", str(init)]
        command.append(str(project(self.folder) / "module.py"))
        self.emacs = self.module.Emacs(command, environment, project(self.folder))
        self.emacs.sees(self.ready, 60.0)
        time.sleep(1.0)

    def suggest(self, typed: str) -> None:
        self.emacs.keys("\x1b<\x13total =\r")
        time.sleep(0.5)
        self.emacs.keys(f"{typed}{self.typed}")
        for _ in range(10):
            with contextlib.suppress(AssertionError):
                self.emacs.sees(re.escape(LINE), 3.0)
                return
            self.emacs.keys(f"\x7f{(typed + self.typed)[-1]}")
        raise AssertionError("no suggestion")

    def accept(self) -> None:
        self.emacs.keys(self.take)
        self.emacs.sees(re.escape(LINE) + "$")

    def press(self, keys: str) -> None:
        if keys.startswith("M-x "):
            self.emacs.command(keys.removeprefix("M-x "))
        elif keys.startswith("'"):
            self.emacs.keys(keys[1:])
        else:
            self.emacs.keys("".join(map(sent, keys.split(" "))))

    def elsewhere(self) -> None:
        self.emacs.keys("\x1b>#")

    def close(self) -> None:
        if self.emacs is not None:
            self.emacs.close()


class EmacsLspMode(Emacs):
    client = "lsp-mode"
    ready = r"LSP\[lsp-calib:\d+"
    take = "\x1b[27;5;13~"  # C-return, as xterm sends it
    typed = ""


class VSCode(TextFile):
    """VS Code in a browser, one window for each recording.

    ">" begins a command of the palette, "'" a text, "!" a button, "@" the name of a file that a dialog asks
    for, "show " one that is opened; anything else are keys.
    """

    name = "vscode"
    started: ClassVar[Any] = None

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.vscode: Any = None

    def version(self) -> str:
        module = load("editors/vscode", "editor")
        package = Path(module.CODE_SERVER).parents[1] / "code-server" / "lib" / "vscode" / "package.json"
        return f"VS Code {json.loads(package.read_text('utf-8'))['version']} (code-server)"

    def open(self) -> None:
        if VSCode.started is None:
            VSCode.started = self._start()
        base = VSCode.started
        machine = {"lspCalib.server.path": str(self.folder / "bin" / "lsp-calib")}
        (base.folder / "data" / "Machine" / "settings.json").write_text(
            json.dumps(machine | {"workbench.welcomePage.walkthroughs.openOnInstall": False})
        )
        self.vscode = base.window(project(self.folder), self.shown if self.shown.endswith(".py") else None)
        self.vscode.until("the server is ready", lambda: "scripted" in self.vscode.drawn()["status"])

    @staticmethod
    def _start() -> Any:
        """A code-server without a window, until this program ends."""
        module = load("editors/vscode", "editor")
        from playwright.sync_api import sync_playwright

        browser = sync_playwright().start().chromium.launch(**module.browser_flags())
        folder = Path(tempfile.mkdtemp(prefix="vscode-"))
        (folder / "empty").mkdir()
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        vscode = module.VSCode(browser, folder, folder / "empty", machine={"lspCalib.server.path": "/none"})
        vscode.install()
        vscode.start()
        atexit.register(vscode.close)
        vscode.page.goto("about:blank")
        return vscode

    def suggest(self, typed: str) -> None:
        lines = (project(self.folder) / "module.py").read_text().split("\n")
        at = next(n for n, line in enumerate(lines) if "total =" in line)
        self.vscode.page.locator(".editor-instance .view-lines").first.click()
        self.vscode.keys("Control+Home", *["ArrowDown"] * at, "End")
        self.wait(typed)

    def wait(self, typed: str) -> None:
        if typed:
            self.vscode.type(typed)
            self.vscode.wait_for_suggestion(typed)
        else:
            self.vscode.command("Trigger Inline Suggestion")
            self.vscode.until("a suggestion", lambda: self.vscode.drawn()["ghost"])

    def accept(self) -> None:
        self.vscode.keys("Tab")
        line = self.vscode.page.locator(".view-line", has_text=LINE.strip())
        self.vscode.until(
            "the suggestion in the line", lambda: line.count() and not self.vscode.drawn()["ghost"]
        )

    def press(self, keys: str) -> None:
        kind, rest = keys[0], keys[1:]
        if kind == ">":
            self.vscode.command(rest)
        elif kind == "'":
            self.vscode.type(rest)
        elif kind == "!":
            self.vscode.press(rest)
        elif keys.startswith("show "):
            self.vscode.show(project(self.folder) / keys.removeprefix("show "))
        elif kind == "@":
            asked = self.vscode.page.locator(".quick-input-widget input").first
            asked.fill(str(project(self.folder) / rest))
            time.sleep(0.5)
            asked.press("Enter")
        else:
            self.vscode.keys(*keys.split(" "))

    def elsewhere(self) -> None:
        self.vscode.keys("Control+End")
        self.vscode.type("#")

    def close(self) -> None:
        if self.vscode is not None:
            self.vscode.page.close(run_before_unload=False)
            self.vscode = None


class VSCodeNotebook(VSCode):
    """Its notebooks."""

    name = "vscode-notebooks"
    shown = "prices.ipynb"

    def written(self, line: str) -> str:
        function = FUNCTION.replace("    total =", line)
        return book("import os", "import math", function, "print(price(1, 2))")

    def open(self) -> None:
        (project(self.folder) / self.shown).write_text(BOOK)
        super().open()
        self.vscode.show(project(self.folder) / self.shown)
        self.cell("print(price").wait_for()
        time.sleep(1.0)

    def cell(self, text: str) -> Any:
        return self.vscode.page.locator(".notebookOverlay .code-cell-row .view-line", has_text=text).last

    def suggest(self, typed: str) -> None:
        self.cell("total =").click()
        self.vscode.keys("End")
        self.wait(typed)

    def elsewhere(self) -> None:
        if (cell := self.cell("print(price")).count():
            cell.click()
        super().elsewhere()


EDITORS: dict[str, Sequence[tuple[Callable[[Path], Driver], str]]] = {
    "neovim": [(Neovim, "neovim"), (NeovimMenu, "neovim-menu")],
    "helix": [(Helix, "helix")],
    "emacs-eglot": [(Emacs, "emacs")],
    "emacs-lsp-mode": [(EmacsLspMode, "emacs")],
    "vscode": [(VSCode, "vscode")],
    "vscode-notebooks": [(VSCodeNotebook, "vscode-notebooks")],
}
"""The drivers of each, and the tables of their actions."""


# Of these the server reads nothing, and they are long.
_LEFT_OUT = {
    "semanticTokens", "callHierarchy", "typeHierarchy", "documentSymbol", "foldingRange", "symbol", "moniker",
    "documentLink", "selectionRange", "linkedEditingRange", "colorProvider", "inlineValue", "inlayHint",
    "signatureHelp", "documentHighlight", "definition", "references", "formatting", "rangeFormatting",
    "rename", "onTypeFormatting", "typeDefinition", "implementation", "declaration", "staleRequestSupport",
    "regularExpressions", "fileOperations", "resourceOperations",
}  # fmt: skip


def shortened(value: Any) -> Any:
    """Without capabilities that matter to other servers; long lists of numbers have one."""
    if isinstance(value, dict):
        return {key: shortened(one) for key, one in value.items() if key not in _LEFT_OUT}
    if isinstance(value, list):
        numbers = len(value) > 5 and all(isinstance(one, int) for one in value)
        return value[:1] if numbers else [shortened(one) for one in value]
    return value


def normalised(message: dict[str, Any], folder: Path) -> dict[str, Any]:
    """The message with neither this machine nor this run in it."""
    if isinstance(params := message.get("params"), dict):
        tokens = ("workDoneToken", "partialResultToken")
        message = message | {"params": {key: one for key, one in params.items() if key not in tokens}}
    if message.get("method") == "initialize":
        message = shortened(message)
        message["params"]["processId"] = 1
    text = json.dumps(message, ensure_ascii=False, separators=(",", ":"))
    text = text.replace(str(project(folder)), "/project").replace(str(folder), "/elsewhere")
    text = re.sub(r"127\.0\.0\.1:\d+", "remote", text)  # the authority of code-server's cells
    for personal in (str(Path.home()), str(ROOT), socket.gethostname(), tempfile.gettempdir() + "/"):
        if personal in text:
            raise ValueError(f"{personal} stands in {text}")
    return dict(json.loads(text))


REPLAYED = {
    "initialize",
    *("textDocument/didOpen", "textDocument/didChange", "textDocument/didClose"),
    *("textDocument/willSave", "textDocument/didSave"),
    *("textDocument/completion", "textDocument/inlineCompletion"),
    *("notebookDocument/didOpen", "notebookDocument/didChange"),
    *("notebookDocument/didSave", "notebookDocument/didClose"),
}


def messages(folder: Path, until: float) -> Iterator[dict[str, Any]]:
    """The lines of a recording: those of the server that was started last."""
    wire = max((folder / "wires").iterdir(), key=lambda one: one.stat().st_mtime)
    entries = [json.loads(line) for line in wire.read_text("utf-8").splitlines()]
    sent = [one for one in entries if "method" in one.get("in", {}) and one["at"] < until]
    for one in sent:
        if one["in"]["method"] in REPLAYED:
            message = normalised(one["in"], folder)
            method, params = message["method"], message["params"]
            yield {"at": round(one["at"] - sent[0]["at"], 3), "method": method, "params": params}


def do(driver: Driver, steps: Sequence[str]) -> None:
    for step in steps:
        word, _, rest = step.partition(" ")
        if step == "...":
            time.sleep(PAUSE)
        elif word == "wait":
            time.sleep(float(rest))
        elif word == "disk":
            (project(driver.folder) / driver.shown).write_text(driver.written(WRITTEN[rest]))
        else:
            driver.press(step)
            time.sleep(0.2)


def record(make: Callable[[Path], Driver], name: str, action: Action) -> list[dict[str, Any]]:
    with load("editors/neovim", "nvim").short_folder() as folder:
        prepare(folder, action.text)
        driver = make(folder)
        try:
            driver.open()
            do(driver, action.before)
            driver.suggest("" if action.clean else " ")
            time.sleep(1.0)
            if action.taken:
                driver.accept()
                time.sleep(PAUSE)
            do(driver, action.steps)
            time.sleep(PAUSE)
            driver.elsewhere()
            time.sleep(PAUSE)
            ended = time.time()
        finally:
            driver.close()
        header = {"name": name, "editor": driver.name, "version": driver.version()}
        return [header, *messages(folder, ended)]


def read(file: Path) -> dict[str, list[str]]:
    """The lines of each recording, by its name."""
    found: dict[str, list[str]] = {}
    first, lines = "", list[str]()
    for line in file.read_text("utf-8").splitlines() if file.exists() else ():
        if line.startswith('{"name"'):
            found[json.loads(line)["name"]] = lines = []
        elif len(lines) == 1 and '"method":"initialize"' in line:
            first = line
        elif len(lines) == 1:
            lines.append(first)
        lines.append(line)
    return found


def written(recordings: Iterable[list[str]]) -> Iterator[str]:
    """The lines of a file of recordings."""
    first = ""
    for header, begins, *rest in recordings:
        yield from (header, *([] if begins == first else [begins]), *rest)
        first = begins


def main() -> None:
    editor, *names = sys.argv[1:]
    RECORDINGS.mkdir(exist_ok=True)
    file = RECORDINGS / f"{editor}.jsonl"
    recordings = read(file) if names else {}
    failed = load("editors/neovim", "nvim").pytest.fail.Exception
    tables = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))
    order = [name for _, table in EDITORS[editor] for name in tables[table]]
    for make, table in EDITORS[editor]:
        for name, fields in tables[table].items():
            if names and name not in names:
                continue
            try:
                found = record(make, name, Action(**fields))
            except (Exception, failed):  # noqa: BLE001 - the others are recorded
                print(f"{editor}: {name}: not recorded", flush=True)
                traceback.print_exc()
                continue
            recordings[name] = [json.dumps(one, ensure_ascii=False, separators=(",", ":")) for one in found]
            print(f"{editor}: {name}: {len(found) - 1} messages", flush=True)
            lines = written(recordings[name] for name in order if name in recordings)
            file.write_text("".join(line + "\n" for line in lines), "utf-8")


if __name__ == "__main__":
    main()
