"""The remote engine against a real HTTP server that behaves well."""

from __future__ import annotations

import asyncio

import pytest
from openai_server import Exchange, Handler, Tok, spoken
from remote_scene import Play, clean_fixture, play_fixture, request, until  # noqa: F401 - fixtures

from lsp_calib.calibration.calibrators.calibrator_store import CalibratorStore
from lsp_calib.calibration.calibrators.confidence_estimator import ConfidenceEstimator
from lsp_calib.calibration.calibrators.purpose import Purpose
from lsp_calib.calibration.tiers import RISK_PRESETS
from lsp_calib.completion.context import Cursor
from lsp_calib.completion.service import Completion, CompletionService
from lsp_calib.errors import EngineError, ModelError, RequestCancelledError, SettingsError
from lsp_calib.inference import open_engine
from lsp_calib.inference.choice import EngineChoice, Remote, base_url, in_the_clear, is_local, is_url
from lsp_calib.inference.engine import EngineState, Priority, Sampling
from lsp_calib.inference.process.client import ModelProcess
from lsp_calib.inference.remote.engine import RemoteEngine
from lsp_calib.values import Evidence, ModelIdentity, Stop, Tier


class TestAnAnswer:
    @pytest.mark.parametrize("dialect", ["llama", "vllm"])
    async def test_is_a_line_with_its_log_probabilities(self, play: Play, dialect: str) -> None:
        scene = await play(dialect=dialect, tokens=lambda _: spoken("return x\n", -0.5, -0.25, -1.5))
        got = await scene.say()
        assert (got.text, got.stop, got.doubt) == ("return x", Stop.LINE, "")
        assert got.logprobs == (-0.5, -0.25, -1.5)
        assert [token.text for token in got.tokens] == ["retu", "rn x", ""]
        assert (got.timing.prompt_tokens, got.timing.generated_tokens) == (7, 3)
        assert got.timing.total_ms >= got.timing.prompt_ms > 0
        (asked,) = scene.server.completions
        assert asked.body["stop"] == ["\n"]
        assert (asked.body["temperature"], asked.body["logprobs"], asked.body["stream"]) == (0, 5, True)
        assert (asked.body["max_tokens"], asked.body["model"]) == (12, "smollm2-135m")

    @pytest.mark.parametrize("forced", ["\ud83d", "'\udc00"], ids=ascii)
    async def test_half_a_character_in_what_is_typed_is_no_failure(self, play: Play, forced: str) -> None:
        """Editors that count in UTF-16 can delete one half of an emoji."""
        scene = await play(tokens=lambda _: spoken("?x\n" if forced == "\ud83d" else "'?x\n"))
        assert (await scene.say("a = '\ud800'\n", forced)).text == "x"

    @pytest.mark.parametrize("dialect", ["ollama", "studio"])
    async def test_without_log_probabilities_is_an_answer_in_doubt(self, play: Play, dialect: str) -> None:
        scene = await play(dialect=dialect, tokens=lambda _: spoken("return x\n"))
        got = await scene.say(forced="re")
        assert (got.text, got.tokens) == ("turn x", ())
        assert "no log-probabilities" in got.doubt

    async def test_that_was_not_streamed_is_read_all_the_same(self, play: Play) -> None:
        async def whole(exchange: Exchange) -> None:
            logprobs = {"tokens": ["a"], "token_logprobs": [-0.5], "top_logprobs": [{"a": -0.5}]}
            choice = {"text": "a", "logprobs": logprobs, "finish_reason": "length"}
            await exchange.json({"choices": [choice]})

        scene = await play(handler=whole)
        got = await scene.say()
        assert (got.text, got.logprobs, got.stop) == ("a", (-0.5,), Stop.LENGTH)

    async def test_can_be_drawn_at_a_temperature(self, play: Play) -> None:
        scene = await play()
        await scene.say(sampling=Sampling(0.7, 11), one_line=False)
        (asked,) = scene.server.completions
        assert (asked.body["temperature"], asked.body["seed"]) == (0.7, 11)
        assert "stop" not in asked.body

    async def test_connections_are_kept(self, play: Play) -> None:
        scene = await play()
        for number in range(3):
            await scene.say(f"{number}")
        assert scene.server.connections == 1

    async def test_an_answer_that_begins_with_given_tokens_cannot_be_had(self, play: Play) -> None:
        scene = await play()
        with pytest.raises(EngineError, match="local model"):
            await scene.say(given=(1,))


class TestWhatIsTyped:
    async def test_is_not_sent_but_found_in_the_answer(self, play: Play) -> None:
        scene = await play(tokens=lambda _: spoken("return x\n", others={"re": -2.0}))
        got = await scene.say(forced="    re"[4:])
        assert (got.text, len(scene.server.completions)) == ("turn x", 1)
        assert [token.text for token in got.tokens] == ["tu", "rn x", ""]
        assert got.tokens[0].typed_logprob > got.tokens[0].logprob

    async def test_where_the_answer_differs_that_is_broken_off_and_it_is_sent(self, play: Play) -> None:
        async def handler(exchange: Exchange) -> None:
            typed = exchange.body["prompt"].endswith("ra")
            await (scene.server.complete if typed else talking("retu"))(exchange)

        scene = await play(handler=handler, tokens=lambda _: spoken("ise X\n"))
        got = await scene.say(forced="ra")
        assert (got.text, got.doubt) == ("ise X", "")
        assert all(token.typed_logprob == 0 for token in got.tokens)
        first, second = scene.server.completions
        assert second.body["prompt"] == first.body["prompt"] + "ra"
        await until(lambda: first.broken_off)


def talking(*texts: str) -> Handler:
    """A server that sends these tokens, and then goes on without an end."""

    async def handler(exchange: Exchange) -> None:
        await exchange.head(Content_Type="text/event-stream")
        for text in texts:
            token = {"token": text, "logprob": -0.5}
            listed = {**token, "top_logprobs": [token]}
            await exchange.event({"choices": [{"text": text, "logprobs": {"content": [listed]}}]})
        await exchange.gone()

    return handler


class TestLeavingIt:
    @pytest.mark.parametrize("closed", [False, True], ids=["cancelled", "closed"])
    async def test_cancelling_or_closing_breaks_it_off(self, play: Play, closed: bool) -> None:
        scene = await play(handler=talking("a", "b"))
        task = asyncio.create_task(scene.say())
        await until(lambda: scene.server.completions)
        if closed:
            await scene.engine.close()
        else:
            task.cancel()
        with pytest.raises(RequestCancelledError if closed else asyncio.CancelledError):
            await task
        await until(lambda: scene.server.completions[0].broken_off)
        scene.server.handler = None
        assert closed or (await scene.say()).text == "x"

    async def test_the_end_of_a_function_ends_it(self, play: Play) -> None:
        """Servers have no stop for that: they would go on to the most tokens."""
        scene = await play(handler=talking("    return 1", "\n\n", "print"))
        got = await scene.say(most=500, one_line=False, function=0)
        assert (got.text, got.stop, len(got.tokens)) == ("    return 1\n", Stop.FUNCTION, 2)
        await until(lambda: scene.server.completions[0].broken_off)
        assert "stop" not in scene.server.completions[0].body


async def test_no_more_at_once_than_allowed(play: Play) -> None:
    """Interactive requests do not wait for background ones."""
    free = asyncio.Event()

    async def handler(exchange: Exchange) -> None:
        await free.wait()
        await scene.server.complete(exchange)

    scene = await play(remote={"interactive": 2, "background": 1}, handler=handler)
    await scene.engine.ready()
    work = [asyncio.create_task(scene.say(f"b{n}", priority=Priority.BACKGROUND)) for n in range(3)]
    work += [asyncio.create_task(scene.say(f"{n}")) for n in range(4)]
    await until(lambda: len(scene.server.completions) == 3)
    await asyncio.sleep(0.05)
    assert len(scene.server.completions) == 3
    free.set()
    answers = await asyncio.gather(*work)
    assert len(scene.server.completions) == 7
    assert max(one.timing.queue_ms for one in answers) >= 40


class TestTheModel:
    async def test_the_only_one_is_taken(self, play: Play) -> None:
        scene = await play(models=["/models/SmolLM2-135M-Instruct.Q4_1.gguf"])
        loaded = await scene.engine.ready()
        assert (loaded.identity.name, loaded.identity.sha256) == ("SmolLM2-135M-Instruct.Q4_1", "")
        assert loaded.card.chat.user_open
        assert scene.states[-1][0] is EngineState.READY

    async def test_a_cards_name_means_its_formats_and_the_servers_own_name(self, play: Play) -> None:
        served = "Qwen/Qwen2.5-Coder-1.5B-Instruct"
        scene = await play(remote={"model": "qwen2.5-coder-1.5b"}, models=["other", served])
        loaded = await scene.engine.ready()
        assert (loaded.identity.name, loaded.card.completion.layout) == ("qwen2.5-coder-1.5b", "fim")
        await scene.say()
        assert scene.server.completions[0].body["model"] == served

    @pytest.mark.parametrize(
        ("wanted", "words"), [("gpt-9", "no model like 'gpt-9'"), (None, "exactly one model")]
    )
    async def test_one_that_is_not_there_is_named_with_those_that_are(
        self, play: Play, wanted: str | None, words: str
    ) -> None:
        scene = await play(remote={"model": wanted}, models=["a", "b"])
        with pytest.raises(ModelError, match=words) as caught:
            await scene.engine.ready()
        assert "It has: a, b" in str(caught.value)
        assert scene.states[-1] == (EngineState.NO_MODEL, str(caught.value))

    async def test_it_is_asked_for_once(self, play: Play) -> None:
        scene = await play()
        assert scene.server.connections == 0
        await asyncio.gather(*(scene.engine.ready() for _ in range(5)))
        await scene.say()
        assert len(scene.server.asked) == 2


class TestTheChoice:
    def test_addresses(self) -> None:
        for good in (
            *("http://localhost:8080", "https://host/v1", "http://[::1]:80/v1/", "https://a.b/openai/x"),
            *("http://[fe80::1%25eth0]:1", "http://192.168.1.30:8080", "http://h-1.example.org:80"),
        ):
            assert is_url(good)
        for bad in (
            *("", "localhost:8080", "ftp://a", "http://", "http://u:p@a", "http://a?k=1", "http://a/#x"),
            *("http://a:99999", "http://a b", "http://ä", "http://a\n", "http://192.168.1.300:8080/v1"),
            *("http://[::1]x:80/v1", "http://x[::1]:80/v1", "http://[::g]/v1", "http://[127.0.0.1]/v1"),
        ):
            assert not is_url(bad)
            with pytest.raises(SettingsError) as caught:
                base_url(bad)
            assert "u:p" not in str(caught.value)
        assert base_url("https://h/v1/completions/") == "https://h/v1"
        assert base_url("https://h/api/v1/chat/completions") == "https://h/api/v1"

    def test_what_is_local(self) -> None:
        for here in (
            *("localhost:1", "127.0.0.1", "127.9.9.9:2/v1", "[::1]", "a.localhost", "0.0.0.0:8080"),
            *("[::]:8080", "[::ffff:127.0.0.1]"),
        ):
            assert is_local(f"http://{here}")
            assert in_the_clear(f"http://{here}") == ""
        for there in ("192.168.1.2", "localhost.evil.org", "host", "[::ffff:192.168.1.2]"):
            assert not is_local(f"http://{there}")
            assert "unencrypted" in in_the_clear(f"http://{there}")
        assert in_the_clear("https://host") == ""

    async def test_a_server_named_means_the_remote_engine(self) -> None:
        assert isinstance(open_engine(EngineChoice(remote=Remote("http://localhost:1"))), RemoteEngine)
        assert isinstance(open_engine(EngineChoice()), ModelProcess)


class TestOtherAnswers:
    @pytest.mark.parametrize("agrees", [True, False], ids=["agrees", "contradicts what is typed"])
    async def test_cost_three_requests_at_most(self, play: Play, agrees: bool) -> None:
        """The suggestion, once more where it contradicts what is typed, and all the others at once."""

        def tokens(prompt: str) -> list[Tok]:
            if prompt.endswith("re"):
                return spoken("turn y\n")
            return spoken("    return y\n" if agrees else "    pass\n")

        begin = "    return x" if agrees else "turn x"
        scene = await play(tokens=tokens, drawn=lambda at: spoken(f"{begin}{at // 2}\n"))
        service = CompletionService(scene.engine, ConfidenceEstimator(CalibratorStore.open()))
        completion = await service.complete(Cursor.at(["def f(x):", "    re"], 1, 6, "python"))
        assert isinstance(completion, Completion)
        others = await service.alternatives(completion)
        assert len({one.suggestion.text for one in (completion, *others)}) == 3
        assert len(scene.server.completions) == (2 if agrees else 3)
        assert scene.server.completions[-1].body["n"] == 5

    async def test_are_none_where_the_server_does_not_draw_several(self, play: Play) -> None:
        async def handler(exchange: Exchange) -> None:
            if "n" in exchange.body:
                await exchange.json({"error": {"message": "Only one completion choice is allowed"}}, 400)
            else:
                await scene.server.complete(exchange)

        scene = await play(handler=handler)
        await scene.say()
        assert (await scene.say(sampling=Sampling(0.8, 1, 5))).others == ()
        assert (await scene.say(sampling=Sampling(0.8, 1, 5))).text == "x"
        assert ["n" in one.body for one in scene.server.completions] == [False, True, False, False]
        assert scene.states[-1][0] is EngineState.READY


class TestAnotherModel:
    async def test_is_uncalibrated_from_then_on(self, play: Play) -> None:
        scene = await play(models=["qwen2.5-coder-7b"])
        assert (await scene.say("a")).doubt == ""
        scene.server.answers_as = "qwen2.5-coder-1.5b"
        got = await scene.say("b")
        assert (got.text, got.tokens) == ("x", ())
        assert "another model, qwen2.5-coder-1.5b" in got.doubt
        scene.server.answers_as = ""
        assert (await scene.say("c")).doubt == got.doubt
        await scene.engine.restart()
        assert (await scene.say("c")).doubt == ""

    @pytest.mark.parametrize("name", ["Qwen/Qwen2.5-Coder-7B", "/models/qwen2.5-coder-7b-q4_k_m.gguf", None])
    async def test_is_not_the_same_one_by_another_name(self, play: Play, name: str | None) -> None:
        scene = await play(models=["qwen2.5-coder-7b"], answers_as=name)
        assert (await scene.say()).doubt == ""


def test_a_doubt_is_the_reason_whatever_the_numbers_and_the_policy() -> None:
    for judge in (
        ConfidenceEstimator(CalibratorStore.open()),
        ConfidenceEstimator(CalibratorStore.open(), RISK_PRESETS["lenient"]),
    ):
        model = ModelIdentity("mine", "", "")
        purpose = Purpose(model, "line-prefix-1", "line", "python")
        confidence = judge.of(purpose).assess(Evidence((-0.01,) * 4), doubt="it is a liar")
        assert (confidence.calibrated, confidence.raw, confidence.certified) == (None, None, False)
        assert (confidence.tier, confidence.reason) == (Tier.REVIEW, "it is a liar")
        believed = judge.of(purpose).assess(Evidence((-0.01,) * 4))
        assert believed.raw is not None


@pytest.mark.parametrize("dialect", ["ollama", "vllm"])
async def test_an_answer_in_doubt_is_a_completion_for_review(play: Play, dialect: str) -> None:
    scene = await play(dialect=dialect, tokens=lambda _: spoken("    return a + b\n"))
    completion = await CompletionService(scene.engine, ConfidenceEstimator(CalibratorStore.open())).complete(
        Cursor.at(["def add(a, b):", "    re"], 1, 6, "python")
    )
    assert completion is not None
    assert completion.suggestion.text == "turn a + b"
    assert bool(completion.evidence.logprobs) == (dialect == "vllm")
    confidence = completion.suggestion.confidence
    assert (confidence.raw is None) == (dialect == "ollama")
    assert ("no log-probabilities" in confidence.reason) == (dialect == "ollama")
