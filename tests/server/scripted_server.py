"""The real language server, with an engine that answers as a script says.

Run as `python scripted_server.py SCRIPT` it serves over stdio; `server_here` serves on a thread of a test.
SCRIPT is a JSON file, all of its keys optional:

    journal      file to which the engine appends what happens to it, one JSON object a line
    loading      fractions reported while loading, 10 ms apart
    goesOnAt     file without which only the first of them is reported
    readyWhen    file without which the model never gets ready
    failure      [name of a class in lsp_calib.errors, message]: the model never gets ready
    failsAfter   how often the model is ready before `failure` begins to hold
    worksAgainAt file with which `failure` ends
    restartSeconds  how long restarting takes
    closeSeconds how long the engine takes to close
    child        whether the engine has a process that goes when its input ends, as the model process does
    answers      {the current line up to the cursor: answer}
    inOrder      the answers for empty lines, one after the other
    otherwise    the answer for any other line
    summary      the answer for summaries
    second       the answer to prompts of the large window, where `window` is small; with it calibrators of
                 both windows are installed, and what a second answer says of a first (`install_second`)
    quiet        whether little else runs on the machine; as it is unless given
    survival     whether lines survive as often as their confidence says; unless given that is not known, and
                 nothing is hidden
    comments     what the card says of completions in comments; that they come by themselves unless given
    summaries    what the card says of summaries; that they are offered unless given
    format       fields of the card's `CompletionFormat`: a prefix and nothing else unless given
    explored     the share of what is to be hidden that is shown, 0 unless given: nothing is left to chance
    afterLabels  {"soon", "idle"}: seconds after labels, see `server.messages.Pace`
    hoverSeconds seconds that a hover waits for its summary
    blockSeconds seconds that the lines of a block below its first have
    menuSeconds  seconds that the menu waits for the model
    edit         seconds without a key after which what was changed in a line is complete
    restsAfter   seconds after which the place of the cursor is evaluated; only with this does the engine
                 evaluate ahead
    evaluation   fields of the answer to that, see `values.Timing`, and "heldUntil"
    aheadBudget  processor seconds for evaluating ahead in any two minutes
    summariesAfter  seconds after which summaries are made ahead; an hour unless given
    fileSeconds  how long the search for examples takes to read a file, at least
    supplies     the folder that lists mains adapters and batteries; none unless given
    log          the log file
    wire         file to which every message is appended, one JSON object a line: {"at": Unix seconds,
                 "in": one that the server handles now} or {..., "out": one that it sends}
    clock        whether suggestions are followed by a clock that only `test/later` moves, see `later`

An answer is {"text", "tokens": the text in pieces, "logprobs", "entropies", "stop", "heldUntil": file,
"error": [class, message], "errors": how often, "seconds": for each token the margin and the id of the second
one, "ways": {such an id: the answer that goes on from it}, "draws": answers by seed, "leads": {a lead: the
answer with it}}. It gives the text, after the file has appeared, unless it has to raise the error first.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lsp_calib import errors
from lsp_calib import server as entry
from lsp_calib.server import create_server
from lsp_calib.server.app import CalibServer
from lsp_calib.server.messages import ClientTraits
from lsp_calib.settings import Settings

if TYPE_CHECKING:
    from lsp_calib.inference.engine import Engine, LoadedModel, Request, StateListener
    from lsp_calib.server.messages import Pace
    from lsp_calib.values import Generation

Replace = Callable[[Any, str, Any], None]
_HEAVY = ("numpy", "scipy", "sklearn", "tree_sitter", "llama_cpp", "sqlite3")


class ScriptedEngine:
    """An `Engine`, like the model process in all but the model."""

    def __init__(self, script: dict[str, Any], on_state: StateListener, trusted: Settings) -> None:
        from lsp_calib.inference.engine import EngineState

        self._script = script
        self._states = EngineState
        self._on_state = on_state
        self._loading: asyncio.Task[LoadedModel] | None = None
        self._child: asyncio.subprocess.Process | None = None
        self._raised: dict[str, int] = {}
        self._of_empty_line: dict[str, Any] = {}
        self._asked = 0
        self._note("made", model=trusted.model, remote=trusted.remote_url)

    async def ready(self) -> LoadedModel:
        self._asked += 1
        failure, end = self._script.get("failure"), self._script.get("worksAgainAt")
        if failure and self._asked > self._script.get("failsAfter", 0) and not (end and Path(end).exists()):
            state = self._states.NO_MODEL if failure[0] == "NoModelError" else self._states.ERROR
            self._on_state(state, failure[1], None)
            raise getattr(errors, failure[0])(failure[1])
        if self._loading is None:
            self._loading = asyncio.create_task(self._load())
        return await asyncio.shield(self._loading)

    async def generate(self, request: Request) -> Generation:
        await self.ready()
        text = "".join(text for _, text in request.prompt.segments) + request.prompt.forced
        idle, background = request.priority.name == "IDLE", request.priority.name == "BACKGROUND"
        line = text.rsplit("\n", 1)[-1]
        if not request.max_tokens:
            return await self._evaluate(line, text)
        summary = request.prompt.version.startswith("summary")
        from lsp_calib.inference.engine import Observe

        others = request.given or request.sampling or Observe.MARGIN in request.observe
        answer = self._answer("summary" if summary else "line", line, again=bool(others))
        if "-large-" in request.prompt.version and (second := self._script.get("second")):
            answer = dict(second)
        if request.given or request.sampling:
            self._note("other", line=line, given=list(request.given))
            answer = _other(_led(answer, request), request)
        elif Observe.MARGIN in request.observe:
            self._note("again", line=line)  # the first answer, for its alternatives
            answer = _led(answer, request)
        else:
            lead = {"lead": request.lead} if request.lead else {}
            answer = _led(answer, request)
            self._note(
                "asked", line=line, prompt=text, summary=summary, idle=idle, background=background, **lead
            )
        try:
            self._raise(line, answer)
            await _appears(answer.get("heldUntil"))
        except asyncio.CancelledError:
            self._note("cancelled", line=line)
            raise
        self._note("answered", line=line)
        return _generation(answer, request)

    async def _evaluate(self, line: str, text: str) -> Generation:
        """A prompt that is evaluated ahead."""
        from lsp_calib.values import Generation, Stop, Timing

        timing = {"prompt_tokens": 300, "prompt_reused": 20, "prompt_ms": 70.0}
        timing.update(self._script.get("evaluation", {}))
        held = timing.pop("heldUntil", None)
        self._note("evaluates", line=line, prompt=text)
        try:
            await _appears(held)
        except asyncio.CancelledError:
            self._note("evaluation cancelled", line=line)
            raise
        self._note("evaluated", line=line)
        return Generation("", (), Stop.LENGTH, Timing(**timing))

    async def restart(self) -> None:
        await asyncio.sleep(self._script.get("restartSeconds", 0))
        self._note("restarted")
        self._loading = None

    async def close(self) -> None:
        await asyncio.sleep(self._script.get("closeSeconds", 0))
        if self._child is not None and self._child.stdin is not None:
            self._child.stdin.close()
            await self._child.wait()
        self._note("closed")

    async def _load(self) -> LoadedModel:
        from lsp_calib.inference.engine import LoadedModel
        from lsp_calib.inference.models.cards import ChatFormat, CompletionFormat, ModelCard
        from lsp_calib.values import ModelIdentity

        self._note("loading")
        if self._script.get("child"):
            pipe = asyncio.subprocess.PIPE
            self._child = await asyncio.create_subprocess_exec("cat", stdin=pipe, stdout=pipe)
            self._note("child", child=self._child.pid)
        self._on_state(self._states.STARTING, "Starting the script.", None)
        for fraction in self._script.get("loading", [0.0, 1.0]):
            self._on_state(self._states.LOADING, "Loading the script.", fraction)
            await _appears(self._script.get("goesOnAt"))
            await asyncio.sleep(0.01)
        await _appears(self._script.get("readyWhen"))
        sha256 = "5c" * 32
        card = ModelCard(
            name="scripted",
            title="Scripted",
            licence="Apache-2.0",
            file="scripted.gguf",
            size=0,
            sha256=sha256,
            quantisation="Q0",
            context=4096,
            window=1600,
            completion=CompletionFormat(**self._script.get("format", {})),
            chat=ChatFormat(),
            comments=self._script.get("comments", True),
            summaries=self._script.get("summaries", True),
        )
        self._on_state(self._states.READY, "The script is ready.", None)
        ahead = "restsAfter" in self._script
        return LoadedModel(ModelIdentity("scripted", "Q0", sha256), card, evaluates_ahead=ahead)

    def _answer(self, kind: str, line: str, *, again: bool) -> dict[str, Any]:
        """again: what is asked for are others in place of the last answer."""
        if kind == "summary":
            return dict(self._script.get("summary", {"text": "Add two numbers."}))
        answers = self._script.get("answers", {})
        in_order = self._script.get("inOrder")
        if not line and in_order and not again:
            self._of_empty_line = in_order.pop(0)
            return dict(self._of_empty_line)
        if not line and again and self._of_empty_line:
            return dict(self._of_empty_line)
        return dict(answers.get(line) or self._script.get("otherwise") or {"text": ""})

    def _raise(self, line: str, answer: dict[str, Any]) -> None:
        times = self._raised.get(line, 0)
        if (error := answer.get("error")) and times < answer.get("errors", 1):
            self._raised[line] = times + 1
            raise getattr(errors, error[0])(error[1])

    def _note(self, event: str, **more: Any) -> None:
        if path := self._script.get("journal"):
            with Path(path).open("a", encoding="utf-8") as journal:
                journal.write(json.dumps({"event": event, "pid": os.getpid(), **more}) + "\n")


async def _appears(file: str | None) -> None:
    while file is not None and not Path(file).exists():
        await asyncio.sleep(0.005)


def _led(answer: dict[str, Any], request: Request) -> dict[str, Any]:
    """The answer that begins with the request's lead: the model's own, or where it knows one, another."""
    forced = answer.get("leads", {}).get(request.lead)
    if forced is None or not request.lead or answer["text"].startswith(request.lead):
        return answer
    return {**forced, "led": True}


def _other(answer: dict[str, Any], request: Request) -> dict[str, Any]:
    """The answer that goes on from given tokens, or is drawn at random."""
    if request.given:
        return dict(answer["ways"][str(request.given[-1])])
    assert request.sampling is not None
    draws = answer.get("draws", [])
    return dict(draws[request.sampling.seed] if request.sampling.seed < len(draws) else {"text": ""})


def _generation(answer: dict[str, Any], request: Request | None = None) -> Generation:
    import attrs

    from lsp_calib.inference.engine import Observe
    from lsp_calib.values import Generation, Observation, Stop, Timing, Token

    logprobs = answer.get("logprobs", [-0.05, -0.05, -0.05])
    texts = answer.get("tokens", [answer["text"]])
    texts = [*texts, *[""] * (len(logprobs) - len(texts))]
    tokens = tuple(Token(i, p, 0.0, t) for i, (p, t) in enumerate(zip(logprobs, texts, strict=False)))
    if entropies := answer.get("entropies"):
        tokens = tuple(
            attrs.evolve(token, seen=Observation(entropy))
            for token, entropy in zip(tokens, entropies, strict=True)
        )
    if request is not None and Observe.MARGIN in request.observe:
        seconds = [*answer.get("seconds", []), *[(None, None)] * len(tokens)]
        tokens = tuple(
            attrs.evolve(token, seen=Observation(margin=margin, second=second))
            for token, (margin, second) in zip(tokens, seconds, strict=False)
        )
    return Generation(
        answer["text"],
        tokens,
        Stop(answer.get("stop", "line")),
        Timing(0.1, 40, 30, 2, 5, 7.1),
        led=answer.get("led", False),
    )


def _write_down(file: Path, replace: Replace) -> None:
    """Keep the messages in the order in which the server handles and sends them."""
    from lsp_calib.server.messages import CalibProtocol

    take, send = CalibProtocol.handle_message, CalibProtocol._send_data

    def note(**entry: Any) -> None:
        with file.open("a", encoding="utf-8") as log:
            log.write(json.dumps({"at": time.time(), **entry}) + "\n")

    def taken(self: CalibProtocol, data: Any) -> None:
        note(**{"in": data})
        take(self, data)

    def sent(self: CalibProtocol, data: Any) -> None:
        note(out=json.loads(json.dumps(data, default=self._serialize_message)))
        send(self, data)

    replace(CalibProtocol, "handle_message", taken)
    replace(CalibProtocol, "_send_data", sent)


def _follow_by_hand(server: CalibServer) -> None:
    now = time.time()
    server.clock = lambda: now

    @server.feature("test/later")
    def later(ls: CalibServer, params: dict[str, float]) -> None:
        """So many seconds pass, and what is due is done."""
        nonlocal now
        now += params["seconds"]
        ls.session.suggestions._tick()


def _pace(script: dict[str, Any]) -> Pace:
    from lsp_calib.server.messages import Pace

    labels = script.get("afterLabels", {})
    usual = Pace()
    return Pace(
        summaries=script.get("summariesAfter", 3600.0),
        refit=labels.get("idle", usual.refit),
        watch=labels.get("soon", usual.watch),
        edit=script.get("edit", usual.edit),
    )


def make_server(script: dict[str, Any], replace: Replace = setattr) -> CalibServer:
    """A server with the script's engine. replace: like `setattr`, for what the whole process shares."""
    server = create_server(Settings(), trusts_editor=script.get("trustsEditor", True))
    if wire := script.get("wire"):
        _write_down(Path(wire), replace)

    def make_engine(on_state: StateListener) -> Engine:
        from lsp_calib.completion import service
        from lsp_calib.inference.models import demands
        from lsp_calib.server import admission

        replace(service, "is_explored", lambda _: bool(script.get("explored")))
        if "quiet" in script:
            replace(demands, "is_quiet", lambda: bool(script["quiet"]))
        replace(admission, "SUPPLIES", Path(script.get("supplies", "/no such folder")))
        if seconds := script.get("fileSeconds"):
            from lsp_calib.summarization import workspace_examples

            read = workspace_examples.lines_of
            replace(workspace_examples, "lines_of", lambda path: time.sleep(seconds) or read(path))
        return ScriptedEngine(script, on_state, server.settings)

    if (seconds := script.get("blockSeconds")) is not None:
        from lsp_calib.completion import block

        replace(block, "WITHIN", seconds)
    if (seconds := script.get("menuSeconds")) is not None:
        from lsp_calib.server import completion

        replace(completion, "PATIENCE", seconds)
    for key, constant in (("restsAfter", "REST"), ("aheadBudget", "BUDGET")):
        if key in script:
            from lsp_calib.server import ahead

            replace(ahead, constant, script[key])
    if (patience := script.get("hoverSeconds")) is not None:
        server.client_traits = ClientTraits(hover_patience=patience)
    server.pace = _pace(script)
    server.last_work = script.get("lastWork", server.last_work)
    server.settings_within = script.get("settingsWithin", server.settings_within)
    server.make_engine = make_engine  # type: ignore[method-assign]

    @server.feature("test/heavyModules")
    def heavy_modules(_ls: CalibServer, _params: object) -> list[str]:
        """Which of the modules that are slow to import have been imported."""
        return [name for name in _HEAVY if name in sys.modules]

    @server.feature("test/stuck")
    def stuck(ls: CalibServer, params: dict[str, str]) -> None:
        """A thread waits without end, as for a disk that does not answer."""
        for_ever = threading.Event().wait
        if params["thread"] == "feedback":
            ls.session.recorder._thread.submit(for_ever)
        else:
            asyncio.get_running_loop().run_in_executor(None, for_ever)

    if script.get("clock"):
        _follow_by_hand(server)
    return server


def main() -> None:
    script = json.loads(Path(sys.argv[1]).read_text("utf-8"))
    entry.create_server = lambda *_, **__: make_server(script)
    log = script.get("log")
    entry.serve(
        log_file=Path(log) if log else None,
    )


if __name__ == "__main__":
    main()
