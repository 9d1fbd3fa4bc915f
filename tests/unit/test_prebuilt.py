"""The prebuilt engine, with the real model: the same answers as the compiled one, by another road."""

import http.client
import math
import re
import socket
import stat
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import llama_scene
import pytest
from hypothesis import given
from hypothesis import strategies as st
from llama_scene import LONG, request
from llama_scene import generate as answer

from lsp_calib.errors import EngineError, ModelFileError
from lsp_calib.inference.backend import Interrupted, LoadOptions
from lsp_calib.inference.engine import Priority, Request, Sampling
from lsp_calib.installation import how_to_install
from lsp_calib.values import Prompt, Segment, Stop

pytest.importorskip("xllamacpp")

from lsp_calib.inference.prebuilt.model import (
    INTERACTIVE_SEQUENCES,
    PieceSize,
    PrebuiltModel,
    doubt,
    log_probability,
)
from lsp_calib.inference.prebuilt.sequences import CachedSequence
from lsp_calib.inference.prebuilt.server import Question, _reply, _understanding

SOURCE = llama_scene.SOURCE.removesuffix("        return json")
CONTEXT = 1024
# Other kernels (and another version of llama.cpp) add up quantised products in another order. Between the two
# engines 0.12 was the most that was seen on one machine; a shift by one token makes several nats.
SPREAD = 0.3


@pytest.fixture(scope="module")
def model(model_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[PrebuiltModel]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LSP_CALIB_HOME", str(tmp_path_factory.mktemp("h")))
        loaded = PrebuiltModel(LoadOptions(model_path, CONTEXT, threads=1))
        yield loaded
        loaded.close()


def everything(model: PrebuiltModel, text: str, forced: tuple[int, ...] = ()) -> dict[int, float]:
    """Log-probabilities of all tokens after a text and some tokens, evaluated as an answer's: one by one."""
    server = model._evaluator.server
    question = Question(top=server.size, allowed=server.tokenize(b"\n"))
    sequence, tokens = CachedSequence(INTERACTIVE_SEQUENCES), server.tokenize(text.encode())
    for size in range(len(forced) + 1):
        known = [*tokens, *forced[:size]]
        reply = model._evaluator.ask(sequence, known, question, reuse=size > 0)
    return dict(reply.top)


@pytest.mark.model
class TestAnswers:
    def test_tokens_are_those_of_the_compiled_engine_and_the_probabilities_nearly(
        self, model: PrebuiltModel
    ) -> None:
        # By llama-cpp-python 0.3.36, with the same file.
        expected = [(30, -0.003), (2386, -0.042), (24, -0.0), (2153, -0.003), (25, -0.002), (198, -0.225)]
        generation = answer(model, request(SOURCE + "        return json"))
        assert generation.text == ".load(file)"
        assert generation.stop is Stop.LINE
        assert [token.id for token in generation.tokens] == [token for token, _ in expected]
        for token, (_, logprob) in zip(generation.tokens, expected, strict=True):
            assert token.logprob == pytest.approx(logprob, abs=SPREAD)
            assert token.typed_logprob == 0.0
        assert generation.doubt == ""

    @pytest.mark.parametrize("reuse", [True, False])
    def test_what_the_model_would_have_written_anyway_is_reproduced_in_its_tokens(
        self, model: PrebuiltModel, reuse: bool
    ) -> None:
        """It writes f, rak; for `fro` these are taken back."""
        table = 'NAMES = {\n    "\\frakA": 1,\n    "\\frakB": 2,\n    "\\frakC": 3,\n   '
        clean = answer(model, request(table, reuse=reuse))
        assert clean.text.startswith(' "\\frak')
        healed = answer(model, request(table, ' "\\fra', reuse=reuse))
        assert ' "\\fra' + healed.text == clean.text
        other = answer(model, request(table, ' "\\fro', reuse=reuse))
        pieces = model._evaluator.vocabulary.pieces
        assert [pieces[token] for token in other.healing] == [b' "\\']
        assert pieces[other.tokens[0].id].startswith(b"fro")

    def test_what_is_typed_is_reproduced_and_left_out(self, model: PrebuiltModel) -> None:
        expected = [
            (7221, -0.314, -0.313),
            (30, -0.005, 0.0),
            (2386, -0.064, 0.0),
            (24, -0.001, 0.0),
            (2153, -0.004, 0.0),
            (25, -0.006, 0.0),
            (198, -0.186, 0.0),
        ]
        generation = answer(model, request(SOURCE, forced="        return js"))
        assert generation.text == "on.load(file)"
        assert [token.id for token in generation.tokens] == [token for token, *_ in expected]
        for token, (_, logprob, typed) in zip(generation.tokens, expected, strict=True):
            assert token.logprob == pytest.approx(logprob, abs=SPREAD)
            assert token.typed_logprob == pytest.approx(typed, abs=SPREAD)

    @pytest.mark.parametrize("forced", ["        return js", "        ", "    wi", "        x_y = pa"])
    def test_the_probability_of_what_is_typed_is_a_sum_over_all_tokens_that_agree(
        self, model: PrebuiltModel, forced: str
    ) -> None:
        generation = answer(model, request(SOURCE, forced=forced))
        first = generation.tokens[0]
        piece = model._evaluator.vocabulary.pieces[first.id]
        cut = next(n for n in range(len(forced)) if piece.startswith(forced[n:].encode()))
        remaining = forced[cut:].encode()
        # Which tokens it chose before is not told: all ways to it are tried.
        before = model._server.tokenize(forced[:cut].encode())
        known = everything(model, SOURCE, before)
        exact = math.log(
            math.fsum(math.exp(known[int(t)]) for t in model._evaluator.vocabulary.allowed(remaining))
        )
        assert first.typed_logprob == pytest.approx(exact, abs=0.012, rel=0.01)
        assert first.logprob == pytest.approx(known[first.id], abs=1e-3, rel=0.01)

    def test_probabilities_are_of_the_unmodified_softmax(self, model: PrebuiltModel) -> None:
        known = everything(model, SOURCE + "        return json")
        assert len(known) == model._server.size
        assert math.fsum(map(math.exp, known.values())) == pytest.approx(1, abs=1e-3)
        first = answer(model, request(SOURCE + "        return json", most=1)).tokens[0]
        assert first.id == max(known, key=known.__getitem__)
        assert first.logprob == pytest.approx(known[first.id], abs=1e-3, rel=0.01)

    def test_a_character_of_several_tokens_has_a_probability_for_each(self, model: PrebuiltModel) -> None:
        generation = answer(model, request("names = ['中文', '日本語', '😀😁", most=8))
        split = [token for token in generation.tokens if not token.text]
        assert split, "the model was to write a character of several tokens"
        assert all(-20 < token.logprob < 0 for token in generation.tokens)
        assert "".join(token.text for token in generation.tokens) == generation.text
        assert "�" not in generation.text

    def test_an_end_of_the_text_is_told_with_its_probability(self, model: PrebuiltModel) -> None:
        prompt = Prompt(
            (
                (Segment.CONTROL, "<|im_start|>"),
                (Segment.TEXT, "user\nAnswer with the word yes and nothing else."),
                (Segment.CONTROL, "<|im_end|>\n<|im_start|>"),
                (Segment.TEXT, "assistant\n"),
            ),
            "",
            "test",
        )
        generation = answer(model, Request(prompt, 40, one_line=False))
        assert generation.stop is Stop.END_OF_TEXT
        assert generation.tokens[-1].text == ""
        assert generation.tokens[-1].logprob < 0

    def test_what_the_server_cannot_tell_is_refused_with_the_engine_that_can(
        self, model: PrebuiltModel
    ) -> None:
        with pytest.raises(EngineError, match=re.escape(how_to_install("local"))):
            model.begin(request("x", given=(1,)))


@pytest.mark.model
class TestPrompts:
    def test_a_control_token_in_a_text_is_text(self, model: PrebuiltModel) -> None:
        both = Prompt(((Segment.TEXT, "<|im_end|>"), (Segment.CONTROL, "<|im_end|>")), "", "test")
        tokens = model._tokenize_prompt(both, 100)
        (control,) = model._server.tokenize(b"<|im_end|>", control=True)
        assert tokens.count(control) == 1
        assert tokens[-1] == control
        assert b"".join(model._evaluator.vocabulary.pieces[t] for t in tokens[:-1]) == b"<|im_end|>"

    def test_the_bytes_of_all_tokens_are_known(self, model: PrebuiltModel) -> None:
        pieces = model._evaluator.vocabulary.pieces
        text = "def f(x): return 'ü漢🙂'\n\t\x00"
        assert b"".join(pieces[token] for token in model._server.tokenize(text.encode())) == text.encode()
        assert not any(pieces[token] for token in model._server.tokenize(b"<|im_start|>", control=True))


@pytest.mark.model
class TestTheCache:
    def test_what_was_evaluated_is_reused(self, model: PrebuiltModel) -> None:
        answer(model, request(SOURCE + "        re", most=2))
        before = model.counters.prompt_tokens
        second = answer(model, request(SOURCE + "        return json", most=2)).timing
        assert second.prompt_reused >= 30
        assert model.counters.prompt_tokens - before == second.prompt_tokens - second.prompt_reused

    def test_background_work_and_another_document_leave_an_interactive_cache_alone(
        self, model: PrebuiltModel
    ) -> None:
        wanted = request(SOURCE + "        return json", most=1)
        answer(model, wanted)
        for number in range(2):
            other = f"# file {number}\n" + LONG[:150]
            answer(model, request(other, most=1, priority=Priority.BACKGROUND))
        answer(model, request("// another document\n" + LONG[:200], most=1))
        again = answer(model, wanted).timing
        assert again.prompt_reused == again.prompt_tokens - 1

    def test_without_reuse_the_numbers_do_not_depend_on_what_was_asked_before(
        self, model: PrebuiltModel
    ) -> None:
        wanted = request(LONG, forced="val", most=4, reuse=False)
        first = answer(model, wanted)
        answer(model, request(LONG[:400], most=2))
        second = answer(model, wanted)
        assert first.timing.prompt_reused == second.timing.prompt_reused == 0
        assert first.tokens == second.tokens


@pytest.mark.model
class TestInterruption:
    def test_an_interrupted_prompt_goes_on_where_it_was(self, model: PrebuiltModel) -> None:
        expected = answer(model, request(LONG, most=6, priority=Priority.BACKGROUND, reuse=False))
        answer(model, request(SOURCE, most=1, priority=Priority.BACKGROUND))  # takes the sequence
        before = model.counters.prompt_tokens
        run = model.begin(request(LONG, most=6, priority=Priority.BACKGROUND))
        interruptions = 0
        while True:
            seen = model.counters.decode_ms

            def interrupt(seen: float = seen) -> None:
                end = time.monotonic() + 60
                while model.counters.decode_ms == seen and time.monotonic() < end:
                    time.sleep(0.001)
                model.interrupt()

            thread = threading.Thread(target=interrupt)
            thread.start()
            try:
                generation = run.advance()
                break
            except Interrupted:
                interruptions += 1
                answer_meanwhile(model)
            finally:
                thread.join()
                model.resume()
        assert interruptions >= 3
        assert generation is not None
        assert [token.id for token in generation.tokens] == [token.id for token in expected.tokens]
        for token, other in zip(generation.tokens, expected.tokens, strict=True):
            assert token.logprob == pytest.approx(other.logprob, abs=SPREAD)
        # Nothing was evaluated twice but a token now and then.
        evaluated = model.counters.prompt_tokens - before
        assert evaluated <= expected.timing.prompt_tokens + 40 * interruptions


def answer_meanwhile(model: PrebuiltModel) -> None:
    """Interactive work, for which the interruption is taken back."""
    model.resume()
    answer(model, request(SOURCE, most=1))


@pytest.mark.model
class TestSampling:
    def test_the_same_seed_draws_the_same_tokens(self, model: PrebuiltModel) -> None:
        wanted = [request(SOURCE, most=8, sampling=Sampling(1.5, seed)) for seed in (1, 1, 2, 3)]
        first, again, *others = (answer(model, each).text for each in wanted)
        assert first == again
        assert any(other != first for other in others)

    def test_tokens_are_drawn_as_often_as_the_softmax_at_the_temperature_says(
        self, model: PrebuiltModel
    ) -> None:
        text, temperature, draws = "The colour of the house is", 0.8, 150
        known = everything(model, text)
        weights = {token: math.exp(logprob / temperature) for token, logprob in known.items()}
        likely = sorted(weights, key=weights.__getitem__)[-3:]
        share = sum(weights[token] for token in likely) / sum(weights.values())
        assert 0.1 < share < 0.9, "a share that says something"
        drawn = [
            answer(model, request(text, most=1, sampling=Sampling(temperature, seed))).tokens[0]
            for seed in range(draws)
        ]
        count = sum(token.id in likely for token in drawn)
        assert abs(count - draws * share) < 4.5 * math.sqrt(draws * share * (1 - share))
        for token in drawn[:5]:  # probabilities are told without the temperature
            assert token.logprob == pytest.approx(known[token.id], abs=SPREAD)


@pytest.mark.model
class TestLoading:
    def test_progress_and_name_are_told(self, home: Path, model_path: Path) -> None:
        assert home.is_dir()
        told: list[float] = []
        model = PrebuiltModel(LoadOptions(model_path, 256, threads=1, on_progress=told.append))
        assert told == sorted(told)
        assert (told[0], told[-1]) == (0.0, 1.0)
        assert model.name.startswith("xllamacpp ")
        assert model.threads == 1
        assert model.positions == 256
        assert model.notes == []
        model.close()
        with pytest.raises(EngineError, match="closed"):
            answer(model, request("x"))

    def test_a_truncated_file_is_refused_and_the_log_has_the_reason(
        self, home: Path, model_path: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
    ) -> None:
        broken = tmp_path / "broken.gguf"
        broken.write_bytes(model_path.read_bytes()[:50_000_000])
        with pytest.raises(ModelFileError, match=r"broken\.gguf cannot be loaded") as caught:
            PrebuiltModel(LoadOptions(broken, 256, threads=1))
        assert str(home / "log" / "model.log") in str(caught.value)
        assert "not within the file bounds" in capfd.readouterr().err

    def test_a_process_that_used_it_ends(self, home: Path, model_path: Path) -> None:
        assert home.is_dir()
        script = textwrap.dedent(
            """
            import sys
            from pathlib import Path
            from lsp_calib.inference.backend import LoadOptions
            from lsp_calib.inference.engine import Request
            from lsp_calib.inference.prebuilt.model import PrebuiltModel
            from lsp_calib.values import Prompt, Segment

            model = PrebuiltModel(LoadOptions(Path(sys.argv[1]), 256, threads=1))
            request = Request(Prompt(((Segment.TEXT, "import"),), "", "test"), 3)
            print(len(model.begin(request).advance().tokens))
            if sys.argv[2] == "close":
                model.close()
            print(model._server._socket or "none")
            """
        )
        for ending in ("close", "leave"):
            done = subprocess.run(
                [sys.executable, "-c", script, str(model_path), ending],
                capture_output=True,
                text=True,
                timeout=120,
                check=False,
            )
            assert done.returncode == 0, done.stderr
            count, left = done.stdout.split()
            assert count == "3"
            assert ending == "leave" or not Path(left).exists()
        PrebuiltModel(LoadOptions(model_path, 256, threads=1)).close()
        assert not Path(left).exists(), "the next one tidies up"

    def test_nobody_else_can_ask_it(self, model: PrebuiltModel) -> None:
        path = model._server._socket
        if not path:
            pytest.skip("no socket in a folder here")
        assert stat.S_IMODE(Path(path).parent.stat().st_mode) == 0o700
        connection = http.client.HTTPConnection("localhost", timeout=60)
        connection.sock = socket.socket(socket.AF_UNIX)
        connection.sock.connect(path)
        connection.request("POST", "/completion", '{"prompt": "x"}', {"Content-Type": "application/json"})
        assert connection.getresponse().status == 401
        connection.close()

    def test_without_a_socket_in_a_folder_it_listens_on_loopback_and_wants_the_key(
        self, model_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("LSP_CALIB_HOME", str(tmp_path / ("long" * 30)))
        model = PrebuiltModel(LoadOptions(model_path, 256, threads=1))
        address = model._server._server.listening_address
        assert address.startswith("http://127.0.0.1:")
        assert model._server.tokenize(b"import") != ()
        connection = http.client.HTTPConnection(address.removeprefix("http://"), timeout=60)
        connection.request("POST", "/tokenize", '{"content": "x"}', {"Content-Type": "application/json"})
        assert connection.getresponse().status == 401
        connection.close()
        model.close()


class TestVersions:
    def test_an_answer_of_another_shape_is_an_error_that_names_the_version(self) -> None:
        with pytest.raises(EngineError, match=rf"xllamacpp .*{re.escape(how_to_install('prebuilt'))}"):
            with _understanding():
                _reply({"choices": [{"logprobs": []}], "timings": {}})


class TestDoubt:
    def test_probabilities_that_can_be_true_are_believed(self) -> None:
        assert doubt(-0.1, [(5, -0.1), (7, -3.0)]) == ""
        assert doubt(0.0, [(5, 0.0), (7, -30.0)]) == ""

    @pytest.mark.parametrize(
        ("logprob", "top"),
        [
            (0.0, [(5, 0.0), (7, 0.0)]),  # speculative decoding in some versions
            (0.0, []),
            (math.nan, [(5, -0.1), (7, -3.0)]),
            (-0.1, [(5, -0.1), (7, math.nan)]),
            (2.0, [(5, 2.0), (7, -3.0)]),
        ],
    )
    def test_probabilities_that_cannot_be_true_are_doubted(
        self, logprob: float, top: list[tuple[int, float]]
    ) -> None:
        assert "are invalid" in doubt(logprob, top)


class TestSums:
    @given(st.lists(st.floats(1e-6, 1), min_size=4, max_size=40), st.data())
    def test_a_sum_over_listed_tokens_is_right_to_one_percent_or_not_given(
        self, weights: list[float], data: st.DataObject
    ) -> None:
        total = math.fsum(weights)
        logprobs = dict(enumerate(math.log(w / total) for w in sorted(weights, reverse=True)))
        allowed = data.draw(st.lists(st.sampled_from(list(logprobs)), min_size=1, unique=True))
        listed = data.draw(st.integers(1, len(logprobs)))
        known = dict(list(logprobs.items())[:listed])
        exact = math.log(math.fsum(math.exp(logprobs[token]) for token in allowed))
        found = log_probability(allowed, known, min(known.values()))
        if found is None:
            assert listed < len(logprobs), "all was known"
        else:
            assert found == pytest.approx(exact, abs=0.011)


class TestPieces:
    @given(st.lists(st.tuples(st.integers(1, 600), st.floats(0.001, 1e5)), max_size=30))
    def test_a_piece_is_always_of_a_sensible_size(self, history: list[tuple[int, float]]) -> None:
        size = PieceSize()
        for tokens, milliseconds in history:
            size.told(tokens, milliseconds)
        assert 16 <= size.tokens <= 512
        assert size.tokens % 16 == 0
