"""A server to compare with: llama.cpp's `llama-server`, asked for the same tokens over HTTP, key by key.

https://github.com/ggml-org/llama.cpp/tree/master/tools/server
"""

from __future__ import annotations

import asyncio
import http.client
import json
import random
import time
from collections.abc import Callable, Sequence
from typing import Any
from urllib.parse import urlsplit

import attrs

from lsp_calib.errors import LspCalibError, SettingsError
from lsp_calib.settings import Trusted
from lsp_calib.tools.bench.server import Served, scratch_folder, served, settled, until_idle
from lsp_calib.tools.bench.trace import Edit, Step
from lsp_calib.tools.bench.typist import Place, Reading, Typist

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
    seed: int,
    keep: Callable[[PeerReading], None],
    step: Callable[[int, int], None],
) -> None:
    """Type in a fresh server, and ask the peer the same questions as that server asks its model.

    Greedy answers repeat, so the first pass (`readings`) tells how many tokens the peer has to generate.
    Chance decides which of the two is asked first. step: called with (keystrokes done, keystrokes in all).
    """
    chance = random.Random(seed)
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
