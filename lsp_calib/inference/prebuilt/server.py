"""llama.cpp's own server as xllamacpp ships it, inside this process: tokens in, log-probabilities out.

Only the model process imports this. Questions are asked through direct calls. Only the tokeniser has no such
call and is asked over HTTP, on a socket in the folder `run` that only its owner can enter (else, as on
Windows, on the loopback interface), in either case with a secret key.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import http.client
import json
import math
import os
import secrets
import socket
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import attrs
import xllamacpp

from lsp_calib import home
from lsp_calib.errors import EngineError, ModelFileError
from lsp_calib.inference.backend import LoadOptions
from lsp_calib.inference.processor import default_threads
from lsp_calib.installation import how_to_install

# A prompt is handed over in pieces (see `model`), so that this is only the most at once.
BATCH = 512
# Added to the logits of the tokens that are allowed. All others fall short of them by far, and float32 still
# tells the allowed ones apart to a few units in the fifth decimal place.
_BIAS = 200.0
_ERRORS = 1  # its log's level; the next one warns of every prompt that is cached as a whole
_NAME = "prebuilt"
_SOCKET_PATH = 100  # bytes; the system's limit is 104 or 108
_TIMEOUT = 60.0  # seconds for a text to be tokenised


@attrs.frozen
class Question:
    """How to choose a token, and the probabilities to report.

    top: how many of the most likely tokens are named. allowed: where not empty, one of these is chosen.
    temperature: 0 chooses the most likely token, else one is drawn from the softmax at it, by the seed.
    conditional: tell probabilities among `allowed` at that temperature, not of the unmodified softmax.
    """

    top: int = 0
    allowed: tuple[int, ...] = ()
    temperature: float = 0.0
    seed: int = 0
    conditional: bool = False


@attrs.frozen
class Reply:
    """The token that the server chose after some tokens, and its report on it.

    token: -1 where it does not say, as of a token that ends inside a character. logprob: NaN where there is
        none; of the unmodified softmax, unless `conditional` was asked for: then of that over the allowed
        tokens.
    top: the most likely tokens with their log-probabilities, best first. ended: the token ends the text.
    evaluated, reused: tokens it had to evaluate, and tokens it found in its cache. decode_ms: time of the
    evaluation.
    """

    token: int
    logprob: float
    top: tuple[tuple[int, float], ...]
    ended: bool
    evaluated: int
    reused: int
    decode_ms: float


class Server:
    """A loaded model. Raises ModelFileError if it cannot be loaded.

    sequences: documents whose evaluated tokens are kept side by side, each of up to `positions` tokens.
    """

    def __init__(self, options: LoadOptions, *, sequences: int) -> None:
        self.threads = options.threads or default_threads()
        self._key = secrets.token_hex(32)
        self._socket = _socket_path()
        self._server: xllamacpp.Server | None = None
        # Otherwise a failed GGML assertion launches a debugger and delays the exit.
        os.environ.setdefault("GGML_NO_BACKTRACE", "1")
        with _understanding():
            parameters = self._parameters(options, sequences)
        try:
            self._server = xllamacpp.Server(parameters)
        except (RuntimeError, ValueError) as error:
            self.close()
            log = home.state_dir() / "log" / "model.log"
            raise ModelFileError(
                f"The model file {options.path} cannot be loaded: {error}. llama.cpp's own words are at the "
                f"end of {log}."
            ) from error
        with _understanding():
            details = self._http("GET", "/v1/models")["data"][0]["meta"]
            self.size = int(details["n_vocab"])
            self.positions = int(details["n_ctx"])
        self.tokenize = functools.lru_cache(maxsize=64)(self._tokenize)

    def _parameters(self, options: LoadOptions, sequences: int) -> xllamacpp.CommonParams:
        params = xllamacpp.CommonParams()
        params.model.path = str(options.path)
        params.n_ctx = options.context * sequences
        params.n_parallel = sequences
        params.n_batch = params.n_ubatch = BATCH
        params.n_gpu_layers = options.acceleration.gpu_layers
        if not options.acceleration.gpu_layers:
            # On processors its results depend on the number of threads and on the size of a piece.
            params.flash_attn_type = xllamacpp.llama_flash_attn_type.LLAMA_FLASH_ATTN_TYPE_DISABLED
        params.fit_params = False  # otherwise it changes the requested parameters
        params.cpuparams.n_threads = params.cpuparams_batch.n_threads = self.threads
        params.load_mode = xllamacpp.llama_load_mode.LLAMA_LOAD_MODE_MMAP
        # Each request names its sequence; nothing is copied aside for later, nothing shifted.
        params.cache_ram_mib = 0
        params.cache_idle_slots = False
        params.slot_prompt_similarity = 0.0
        params.ctx_shift = False
        # Chats are formatted by the caller: a model whose own template cannot be parsed loads all the same.
        params.chat_template = "chatml"
        params.use_jinja = False
        params.hostnames = [self._socket or "127.0.0.1"]
        params.port = 0
        params.api_keys = [self._key]
        params.cors_origins = ""
        params.ui = False
        params.endpoint_slots = False
        params.verbosity = _ERRORS
        return params

    def ask(
        self, tokens: Sequence[int], sequence: int, question: Question = Question(), *, reuse: bool = True
    ) -> Reply:
        """Evaluate `tokens` (not empty) in a sequence and choose one token after them. Blocks.

        reuse: False evaluates all of them afresh. Raises EngineError with the server's own words.
        """
        with _understanding():
            return _reply(self._answer(tokens, sequence, question, reuse=reuse))

    def _answer(
        self, tokens: Sequence[int], sequence: int, question: Question, *, reuse: bool = True
    ) -> dict[str, Any]:
        if self._server is None:
            raise EngineError("The model was closed.")
        # No other sampler than the temperature: nothing is cut off.
        answer: dict[str, Any] = self._server.handle_completions(
            {
                "prompt": list(tokens),
                "max_tokens": 1,
                "id_slot": sequence,
                "cache_prompt": reuse,
                "logprobs": question.top,
                "post_sampling_probs": question.conditional,
                "logit_bias": [[token, _BIAS] for token in question.allowed],
                "samplers": ["temperature"],
                "temperature": question.temperature,
                "seed": question.seed,
            }
        )
        return answer

    def _tokenize(self, text: bytes, *, control: bool = False, begin: bool = False) -> tuple[int, ...]:
        """Token ids of a text. control: recognise control tokens. begin: add the tokens before any text."""
        body = {"content": text.decode("utf-8", "replace"), "parse_special": control}
        return tuple(self._http("POST", "/tokenize", {**body, "add_special": begin})["tokens"])

    def bos(self) -> tuple[int | None, bool]:
        """The token that begins a text, None if there is none; whether every prompt must begin with it."""
        plain, begun = self.tokenize(b"x"), self.tokenize(b"x", begin=True)
        if begun[:1] != plain[:1]:
            return begun[0], True
        text = str(self._http("GET", "/props").get("bos_token") or "")
        named = self.tokenize(text.encode("utf-8", "replace"), control=True)
        return (named[0], False) if len(named) == 1 else (None, False)

    def pieces(self) -> list[bytes]:
        """The bytes of each token by id; empty for control tokens. Takes a second for a large vocabulary."""
        pieces = [b""] * self.size
        newline = self.tokenize(b"\n")
        question = Question(top=self.size, allowed=newline[:1])  # only a token that it reports
        with _understanding():
            content = self._answer(newline, 0, question)["choices"][0]["logprobs"]["content"]
            for entry in content[0]["top_logprobs"]:
                pieces[entry["id"]] = bytes(entry["bytes"])
        return pieces

    def close(self) -> None:
        """Free the model. Waits for the running evaluation: at most one piece of a prompt."""
        self._server = None  # its destructor ends its threads
        if self._socket:
            Path(self._socket).unlink(missing_ok=True)

    def _http(self, method: str, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        headers = {"Authorization": f"Bearer {self._key}", "Content-Type": "application/json"}
        try:
            with contextlib.closing(self._connect()) as connection:
                connection.request(method, path, json.dumps(body) if body is not None else None, headers)
                response = connection.getresponse()
                answer: dict[str, Any] = json.loads(response.read())
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise EngineError(f"The tokeniser of xllamacpp does not answer ({error}).") from error
        if response.status != http.HTTPStatus.OK:
            raise EngineError(f"xllamacpp could not tokenise a text: {_message(answer)}.")
        return answer

    def _connect(self) -> http.client.HTTPConnection:
        # Not httpx: it took 1.3 to 4 times as long for a text, which each keystroke waits for.
        if self._server is None:
            raise EngineError("The model was closed.")
        if self._socket:
            connection = http.client.HTTPConnection("localhost", timeout=_TIMEOUT)
            connection.sock = socket.socket(socket.AF_UNIX)
            connection.sock.settimeout(_TIMEOUT)
            connection.sock.connect(self._socket)
            return connection
        return http.client.HTTPConnection(
            self._server.listening_address.removeprefix("http://"), timeout=_TIMEOUT
        )


def has_gpu() -> bool:
    """Whether this build of xllamacpp found a device beside the processor."""
    processor = xllamacpp.ggml_backend_dev_type.GGML_BACKEND_DEVICE_TYPE_CPU
    return any(device["type"] != processor for device in xllamacpp.get_device_info())


def _reply(answer: dict[str, Any]) -> Reply:
    if "error" in answer:
        raise EngineError(f"llama.cpp could not evaluate the prompt: {_message(answer)}.")
    choice, timings = answer["choices"][0], answer["timings"]
    # None where nothing was asked for, and for a token that ends inside a character.
    content = (choice["logprobs"] or {}).get("content") or [None]
    chosen = content[0] or {}
    listed = chosen.get("top_logprobs") or chosen.get("top_probs") or ()
    return Reply(
        token=chosen.get("id", -1),
        logprob=_logprob(chosen),
        top=tuple((int(entry["id"]), _logprob(entry)) for entry in listed),
        ended=choice["finish_reason"] == "stop",
        evaluated=int(timings["prompt_n"]),
        reused=int(timings["cache_n"]),
        decode_ms=float(timings["prompt_ms"]) + float(timings["predicted_ms"]),
    )


@contextlib.contextmanager
def _understanding() -> Iterator[None]:
    """Report an unexpected interface of xllamacpp: it changes between versions."""
    try:
        yield
    except (AttributeError, KeyError, IndexError, TypeError, ValueError) as error:
        raise EngineError(
            f"xllamacpp {xllamacpp.__version__} does not work as expected ({type(error).__name__}: {error}). "
            f"Install a version that the extra allows: run {how_to_install('prebuilt')}."
        ) from error


def _logprob(entry: dict[str, Any]) -> float:
    """NaN where there is none: JSON has no such number and says null."""
    if "prob" in entry:
        probability = entry["prob"]
        return math.log(probability) if probability else -math.inf
    value = entry.get("logprob")
    return math.nan if value is None else float(value)


def _message(answer: dict[str, Any]) -> str:
    error = answer.get("error")
    said = error.get("message") if isinstance(error, dict) else error
    return str(said or "no reason given").rstrip(".")


def _socket_path() -> str:
    """A path for a socket that only this user can connect to; empty where that is impossible."""
    if not hasattr(socket, "AF_UNIX"):
        return ""
    folder = home.run_folder()
    # A model process that was killed leaves its socket behind.
    for left in folder.glob(f"{_NAME}-*.sock"):
        with contextlib.closing(socket.socket(socket.AF_UNIX)) as trial, contextlib.suppress(OSError):
            if trial.connect_ex(str(left)) == errno.ECONNREFUSED:
                left.unlink(missing_ok=True)
    path = str(folder / f"{_NAME}-{secrets.token_hex(4)}.sock")
    return path if len(os.fsencode(path)) <= _SOCKET_PATH else ""
