"""Compares the same keystrokes in two conditions.

They are typed in a long and a short file, at one server alone and at two at once, and on a quiet machine and
beside busy processes, which want a core: how much longer they take then, and how soon that is over. Beside
those, each asks the model for a few tokens, with all of its prompt except the current line in the cache, so
that the readings differ only in the other processes. And at another server, llama.cpp's `llama-server`: it is
asked for the same tokens over HTTP, key by key
(https://github.com/ggml-org/llama.cpp/tree/master/tools/server).
"""

from __future__ import annotations

import asyncio
import enum
import http.client
import json
import random
import re
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any
from urllib.parse import urlsplit

import attrs

from lsp_calib.errors import LspCalibError, SettingsError
from lsp_calib.settings import Trusted
from lsp_calib.tools.bench.processes import NICEST, SharedSession, busy_elsewhere, in_one_session, used
from lsp_calib.tools.bench.server import (
    Scratch,
    Served,
    connect,
    scratch_folder,
    served,
    serving,
    settled,
    until_idle,
)
from lsp_calib.tools.bench.trace import Edit, Kind, Step, load_trace
from lsp_calib.tools.bench.typist import Answered, Place, Reading, Typist, asked_model, type_in_rhythm

LONG_FILE = (500, 50_000)
LONG_STEPS = 12
LONG_CHUNKS = 4
# Keystrokes that make two edits.
_LEAST_FOR_TWO = 32
# Seconds of readings after the busy processes have ended.
AFTER = 10.0
# Lines of a document.
_LINES = 600
_SCENES = 3
# Number of keys to try in a scene: the last of a line, since the rest of the line is short there.
SCOUTED = 16
_KEYS = 12
_FEWEST_KEYS = 4
# A key is used if this many tokens were generated for it.
_FEW = range(2, 9)
# A busy process ends by itself after this many seconds.
_LONGEST = 3600.0

Pairs = list[tuple[Answered, Answered]]
"""Answers to the same keystrokes in two conditions."""


class How(enum.StrEnum):
    """The relation of the busy processes to the model process."""

    EQUAL = "equalShare"  # each in its own session
    NICE = "niceSameSession"  # at nice 19, in the model process's session

    @property
    def words(self) -> str:
        equal = "of an equal share (another session)"
        return equal if self is How.EQUAL else "at nice 19 in the model's session"


@attrs.frozen
class Asked:
    """One keystroke. key: its number, from 0. at: seconds from the start of its phase until it was typed."""

    key: int
    at: float
    ms: float
    evaluated: int
    generated: int

    def same_work(self, other: Asked) -> bool:
        return (self.key, self.evaluated, self.generated) == (other.key, other.evaluated, other.generated)


@attrs.define
class Run:
    """Readings beside busy processes, and after those have ended.

    share: the part of a processor that each of them used. same_session: whether all were in the model
    process's session. Each is None if unknown.
    """

    how: How
    readings: list[Asked] = attrs.field(factory=list)
    after: list[Asked] = attrs.field(factory=list)
    share: float | None = None
    same_session: bool | None = None


@attrs.define
class Beside:
    """processes: number of busy processes. keys: number of keystrokes, which are repeated in turn."""

    processes: int = 0
    keys: int = 0
    quiet: list[Asked] = attrs.field(factory=list)
    runs: list[Run] = attrs.field(factory=list)


def where_asked(pairs: Pairs) -> list[tuple[float, float]]:
    """The milliseconds of the pairs for which the model was asked both times."""
    return [(one, two) for (one, asked), (two, asked_too) in pairs if asked and asked_too]


async def long_file(
    server: Served, edits: Sequence[Edit], notes: Pairs, step: Callable[[int, int], None]
) -> None:
    """Type the same keystrokes in both documents, by turns. The first of each is left out: its cache is cold.

    notes: gets the answers in the short and in the long document. step: called with (keystrokes done,
    keystrokes in all).
    """
    fitting = [edit for edit in edits if len(edit.before) <= LONG_FILE[0]]
    done = 0
    for turn in range(LONG_CHUNKS):
        edit = fitting[turn % len(fitting)].excerpt(LONG_STEPS)
        other: list[Answered] = []
        for lines in LONG_FILE if turn % 2 else reversed(LONG_FILE):
            typist = Typist(server.editor, server.scratch, edit.padded(lines))
            for at, key in enumerate(typist.edit.steps):
                ms, suggestion = await typist.answer(key)
                # Wait for evaluation ahead: it must not delay the next key, which may be in either document.
                await settled(server.probe)
                answered = ms, asked_model(suggestion)
                if len(other) < len(typist.edit.steps):
                    other.append(answered)
                elif at:
                    notes.append((other[at], answered) if lines == LONG_FILE[1] else (answered, other[at]))
                done += 1
                step(done, 2 * LONG_CHUNKS * len(typist.edit.steps))
            typist.close()


def edits_for_two(steps: int) -> tuple[Edit, ...]:
    """The edits to type, one at each of the two servers."""
    return tuple(edit.excerpt(max(steps, _LEAST_FOR_TWO) // 2) for edit in load_trace()[:2])


async def two_servers(
    scratch: Scratch,
    steps: int,
    notes: tuple[Pairs, Pairs],
    say: Callable[[str], None],
    step: Callable[[int, int], None],
) -> None:
    """Type in the recorded rhythm at two servers of one user, each with its own document.

    notes: gets of each server the answers alone and together, the first ones left out. step: called with
    (keystrokes done, keystrokes in all).
    """
    edits = edits_for_two(steps)
    done = 0
    async with serving(scratch) as (first, _), serving(scratch) as (second, _), connect(scratch) as probe:
        editors = (first, second)
        alone: tuple[list[Answered], list[Answered]] = ([], [])

        async def type_at(server: int, keep: Callable[[int, Answered], None], pace: float = 1.0) -> None:
            nonlocal done
            typing = type_in_rhythm(editors[server], scratch, edits[server], pace)
            at = 0
            async for ms, suggestion in typing:
                keep(at, (ms, asked_model(suggestion)))
                at += 1
                done += 1
                step(done, 3 * sum(len(edit.steps) for edit in edits))

        def pair(server: int, at: int, answered: Answered) -> None:
            if at:
                notes[server].append((alone[server][at], answered))

        say("Typing at one server, then at another one.")
        for server in (0, 1):
            # Warm up, so that the cache holds equally much of the documents, alone and together.
            await type_at(server, lambda _at, _answered: None, pace=0.0)
        for server in (0, 1):
            # Wait for one server's evaluation ahead, so that it does not delay the other one's first keys.
            await settled(probe)
            await type_at(server, alone[server].insert)
        await settled(probe)
        say("Typing at two servers at once.")
        await asyncio.gather(*(type_at(server, partial(pair, server)) for server in (0, 1)))


async def measure_beside(
    server: Served,
    shared: SharedSession | None,
    edits: Sequence[Edit],
    requests: int,
    notes: Beside,
    missing: dict[str, str],
    step: Callable[[str, int], None],
) -> None:
    """Measure `requests` keystrokes on a quiet machine, and as many beside each kind of busy processes.

    shared: the session of the server's model process. step: called with (phase, number of keystrokes so far).
    """
    hand = _Hand(server, scenes(edits), step)
    await hand.choose_keys()
    notes.keys = len(hand.keys)
    if not hand.keys:
        missing["beside"] = "the model offered nothing at any of the keystrokes tried"
        return
    await hand.lead_in()
    began = time.monotonic()
    for _ in range(requests):
        notes.quiet.append(await hand.next("on the quiet machine", began))
    for how in How:
        if how is How.EQUAL:
            busy = busy_elsewhere(notes.processes, _LONGEST)
        elif shared is not None and shared.model == server.probe.pid:
            busy = shared.busy(notes.processes, NICEST, _LONGEST)
        else:
            missing[f"beside.{how}"] = "the model process could not be put into a session with others"
            continue
        run = Run(how)
        notes.runs.append(run)
        await hand.lead_in()
        async with busy as pids:
            began, before = time.monotonic(), used(pids)
            run.same_session = in_one_session([server.probe.pid or 0, *pids])
            for _ in range(requests):
                run.readings.append(await hand.next(f"processes {how.words}", began))
                now = used(pids)
                if before is not None and now is not None:
                    run.share = (now - before) / notes.processes / (time.monotonic() - began)
        ended = time.monotonic()
        while time.monotonic() < ended + AFTER:
            run.after.append(await hand.next("after they have ended", ended))


class _Hand:
    """Types the same keys again and again. keys: (scene, key in the scene) of the used ones.

    A scene is a document in which keys of one line are typed, in any order.
    """

    def __init__(self, server: Served, edits: Sequence[Edit], step: Callable[[str, int], None]) -> None:
        self.keys: list[tuple[int, int]] = []
        self._server, self._edits, self._step = server, edits, step
        self._scenes: list[tuple[Typist, list[str]]] = []
        self._typed = self._next = 0

    async def choose_keys(self) -> None:
        """Type the keys of one scene after the other until enough of them were answered with few tokens."""
        tried: list[tuple[int, tuple[int, int]]] = []
        for number, edit in enumerate(self._edits):
            typist = Typist(self._server.editor, self._server.scratch, edit)
            self._scenes.append((typist, line_before_each(edit)))
            for key in range(len(edit.steps)):
                asked = await self._ask((number, key))
                tried.append((asked.generated, (number, key)))
                self._step("choosing keystrokes", self._typed)
            if sum(generated in _FEW for generated, _ in tried) >= _KEYS:
                break
        self.keys = chosen(tried)

    async def lead_in(self) -> None:
        """Type the last of the keys, so that every phase starts with the same cache."""
        await self._ask(self.keys[-1])
        self._next = 0

    async def next(self, phase: str, began: float) -> Asked:
        """The next key's reading. began: by `time.monotonic`, when the phase began."""
        number = self._next % len(self.keys)
        self._next += 1
        asked = await self._ask(self.keys[number])
        self._step(phase, self._typed)
        return attrs.evolve(asked, key=number, at=asked.at - began)

    async def _ask(self, key: tuple[int, int]) -> Asked:
        typist, lines = self._scenes[key[0]]
        document, steps = typist.document, typist.edit.steps
        line = steps[0].start[0]
        document.replace(line, 0, len(document.lines[line]), lines[key[1]])
        # The server remembers its answers for as long as a document is open.
        document.reopen()
        before = await until_idle(self._server.probe)
        at = time.monotonic()
        ms, _ = await typist.answer(steps[key[1]])
        after = await until_idle(self._server.probe)
        self._typed += 1
        evaluated = after.prompt_tokens - before.prompt_tokens
        return Asked(-1, at, ms, evaluated, after.generated_tokens - before.generated_tokens)


def scenes(edits: Sequence[Edit]) -> tuple[Edit, ...]:
    """From each edit, the last keys of the line of code with most keys, in a long document."""
    found = []
    for edit in edits:
        if steps := _longest_line(edit)[-SCOUTED:]:
            first = next(at for at, step in enumerate(edit.steps) if step is steps[0])
            before = tuple(edit.lines_after(first))
            found.append(attrs.evolve(edit, before=before, steps=steps).padded(_LINES))
    return tuple(found[:_SCENES])


def chosen(tried: Sequence[tuple[int, tuple[int, int]]]) -> list[tuple[int, int]]:
    """Choose the keys to use, in typing order. tried: (number of tokens generated, key) pairs."""
    few = [key for generated, key in tried if generated in _FEW][:_KEYS]
    if len(few) >= _FEWEST_KEYS:
        return few
    asked = sorted(one for one in tried if one[0])
    return sorted(key for _, key in asked[:_KEYS])


def line_before_each(edit: Edit) -> list[str]:
    """The text of the edited line before each step; all steps are in that line."""
    line, lines = edit.steps[0].start[0], list(edit.before)
    found = []
    for step in edit.steps:
        found.append(lines[line])
        step.apply(lines)
    return found


def _longest_line(edit: Edit) -> tuple[Step, ...]:
    """The longest run of consecutive keys in one line of code; empty if it is too short."""
    runs: list[list[Step]] = [[]]
    lines = list(edit.before)
    for step in edit.steps:
        step.apply(lines)
        if step.kind is not Kind.TYPE or step.jump or (runs[-1] and step.start != runs[-1][-1].cursor):
            runs.append([])
        if step.kind is Kind.TYPE and _is_code(lines[step.start[0]]):
            runs[-1].append(step)
    best = max(runs, key=len)
    return tuple(best) if len(best) >= SCOUTED else ()


def _is_code(line: str) -> bool:
    """Whether a line is code, not prose; completions of prose may be long."""
    return re.match(r"\s*[\w.]+( = |\()|\s*return \w", line) is not None


# Seconds; enough on a busy machine.
_PATIENCE = 120.0


@attrs.frozen
class PeerAnswer:
    """ms: from sending the request to receiving the whole line.

    prompt_tokens: tokens in the prompt, as counted by the peer. evaluated: those that were not in its cache.
    generated: tokens of the answer.
    """

    ms: float
    prompt_tokens: int
    evaluated: int
    generated: int


@attrs.frozen
class PeerReading:
    """One keystroke, asked of both servers. predicted: tokens that ours generated in the first pass."""

    place: Place
    wall_ms: float
    evaluated: int
    generated: int
    predicted: int
    prompt_tokens: int
    peer: PeerAnswer


class Peer:
    """A llama-server. Raises SettingsError for an invalid address."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        try:
            port = parts.port
        except ValueError:
            port = 0
        if parts.scheme != "http" or not parts.hostname or port == 0:
            raise SettingsError(
                f"--peer takes the address of a llama-server, such as http://127.0.0.1:8080, not {url!r}."
            )
        self.url = url.rstrip("/")
        self._path = parts.path.rstrip("/")
        self._connection = http.client.HTTPConnection(parts.hostname, port, timeout=_PATIENCE)

    async def describe(self) -> dict[str, Any]:
        """The model's file and the build, as far as the peer reports them."""
        answer, _ = await asyncio.to_thread(self._send, "GET", "/props", None)
        return {"modelPath": answer.get("model_path"), "build": answer.get("build_info")}

    async def finish_line(self, prompt: Sequence[int], generated: int) -> PeerAnswer:
        """Ask for exactly `generated` tokens after these, greedily, with the peer's cache on."""
        body = {
            "prompt": list(prompt),
            "n_predict": generated,
            "cache_prompt": True,
            "temperature": 0,
            "samplers": ["temperature"],
            "ignore_eos": True,
            "stream": False,
        }
        return await asyncio.to_thread(self._timed, body)

    def close(self) -> None:
        self._connection.close()

    def _timed(self, body: dict[str, Any]) -> PeerAnswer:
        answer, seconds = self._send("POST", "/completion", body)
        try:
            return PeerAnswer(
                ms=1e3 * seconds,
                evaluated=int(answer["timings"]["prompt_n"]),
                prompt_tokens=int(answer["tokens_evaluated"]),
                generated=int(answer["tokens_predicted"]),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise LspCalibError(
                f"The peer at {self.url} answered without {error}: is it a llama-server of 2024 or later?"
            ) from error

    def _send(self, method: str, path: str, body: dict[str, Any] | None) -> tuple[dict[str, Any], float]:
        """The answer, and its seconds without connecting, making the request and parsing the answer."""
        data = None if body is None else json.dumps(body).encode()
        connection = self._connection
        try:
            # Servers close unused connections.
            connection.close()
            connection.connect()
            began = time.perf_counter()
            connection.request(method, self._path + path, data, {"Content-Type": "application/json"})
            response = connection.getresponse()
            content = response.read()
            seconds = time.perf_counter() - began
            if response.status != 200:
                raise LspCalibError(
                    f"The peer at {self.url} answered {path} with status {response.status}: "
                    f"{content[:200].decode('utf-8', 'replace')}"
                )
            return json.loads(content), seconds
        except (OSError, http.client.HTTPException, ValueError) as error:
            connection.close()
            raise LspCalibError(
                f"The peer at {self.url} did not answer {path} ({error!r}). Start it first: "
                "`llama-server -m MODEL --port PORT`."
            ) from error


async def against(
    peer: Peer,
    readings: Sequence[Reading],
    edits: Sequence[Edit],
    trusted: Trusted,
    keep: Callable[[PeerReading], None],
    step: Callable[[int, int], None],
) -> None:
    """Type in a fresh server, and ask the peer the same questions as that server asks its model.

    Greedy answers repeat, so the first pass (`readings`) tells how many tokens the peer has to generate.
    Chance decides which of the two is asked first. step: called with (keystrokes done, keystrokes in all).
    """
    chance = random.Random(0)
    known = {(reading.edit, reading.at): reading for reading in readings}
    done, total = 0, sum(len(edit.steps) for edit in edits)
    with scratch_folder(trusted) as scratch:
        async with served(scratch) as server:
            for edit in edits:
                typist = Typist(server.editor, scratch, edit)
                for at, key in enumerate(edit.steps):
                    first = chance.random() < 0.5
                    found = await _key(peer, server, typist, key, known[edit.name, at], peer_first=first)
                    if found is not None:
                        keep(found)
                    done += 1
                    step(done, total)
                typist.close()


async def _key(
    peer: Peer, server: Served, typist: Typist, key: Step, expected: Reading, *, peer_first: bool
) -> PeerReading | None:
    """Type a key and ask the peer the same; None if the model was not asked."""
    predicted = expected.generated if expected.asked_model else 0
    answer = None
    before = await until_idle(server.probe)
    if predicted and peer_first:
        answer = await peer.finish_line(expected.prompt, predicted)
    wall, _ = await typist.answer(key)
    after = await settled(server.probe)
    if predicted and not peer_first:
        answer = await peer.finish_line(expected.prompt, predicted)
    if answer is None:
        return None
    return PeerReading(
        place=expected.place,
        wall_ms=wall,
        evaluated=after.prompt_tokens - before.prompt_tokens,
        generated=after.generated_tokens - before.generated_tokens,
        predicted=predicted,
        prompt_tokens=len(expected.prompt),
        peer=answer,
    )
