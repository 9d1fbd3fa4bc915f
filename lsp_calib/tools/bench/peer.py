"""A server to compare with: llama.cpp's `llama-server`, asked for the same tokens over HTTP.

https://github.com/ggml-org/llama.cpp/tree/master/tools/server
"""

from __future__ import annotations

import asyncio
import http.client
import json
import time
from collections.abc import Sequence
from typing import Any
from urllib.parse import urlsplit

import attrs

from lsp_calib.errors import LspCalibError, SettingsError
from lsp_calib.tools.bench.typist import Place

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


@attrs.frozen
class PeerPass:
    description: dict[str, object]
    readings: tuple[PeerReading, ...]


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
        self._seconds = 0.0  # time of the last answer, without making the request and parsing the answer

    async def describe(self) -> dict[str, Any]:
        """The model's file and the build, as far as the peer reports them."""
        answer = await asyncio.to_thread(self._send, "GET", "/props", None)
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
        self._reconnect()
        answer = self._send("POST", "/completion", body)
        ms = 1e3 * self._seconds
        try:
            timings = answer["timings"]
            return PeerAnswer(
                ms, int(answer["tokens_evaluated"]), int(timings["prompt_n"]), int(answer["tokens_predicted"])
            )
        except (KeyError, TypeError, ValueError) as error:
            raise LspCalibError(
                f"The peer at {self.url} answered without {error}: is it a llama-server of 2024 or later?"
            ) from error

    def _reconnect(self) -> None:
        """Open a new connection outside the measured time: servers close unused connections."""
        self._connection.close()
        try:
            self._connection.connect()
        except OSError as error:
            raise self._absent("/completion", error) from error

    def _absent(self, path: str, error: Exception) -> LspCalibError:
        return LspCalibError(
            f"The peer at {self.url} did not answer {path} ({error!r}). Start it first: "
            "`llama-server -m MODEL --port PORT`."
        )

    def _send(self, method: str, path: str, body: dict[str, Any] | None) -> dict[str, Any]:
        data = None if body is None else json.dumps(body).encode()
        try:
            began = time.perf_counter()
            self._connection.request(method, self._path + path, data, {"Content-Type": "application/json"})
            response = self._connection.getresponse()
            content = response.read()
            self._seconds = time.perf_counter() - began
            if response.status != 200:
                raise LspCalibError(
                    f"The peer at {self.url} answered {path} with status {response.status}: "
                    f"{content[:200].decode('utf-8', 'replace')}"
                )
            answer: dict[str, Any] = json.loads(content)
        except (OSError, http.client.HTTPException, ValueError) as error:
            self._connection.close()
            raise self._absent(path, error) from error
        return answer
