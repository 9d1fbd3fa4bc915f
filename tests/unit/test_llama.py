"""The native backend with the real model, in this process: its numbers are true, whatever comes between."""

import ctypes
import math
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import attrs
import numpy as np
import pytest
from llama_scene import (
    LONG,
    SOURCE,
    Reference,
    generate,
    interruptions,
    one_by_one,
    persist,
    request,
    score,
    step_seconds,
)

from lsp_calib.completion.service import MOST_TOKENS
from lsp_calib.errors import EngineError
from lsp_calib.inference.backend import Acceleration, Interrupted, LoadOptions
from lsp_calib.inference.choice import CACHE_MB
from lsp_calib.inference.engine import Observe, Priority, Sampling
from lsp_calib.inference.local.states import States
from lsp_calib.values import Stop

llama = pytest.importorskip("lsp_calib.inference.local.llama")

pytestmark = pytest.mark.model

# Nothing but the softmax differs: float32 against float64.
EXACT = 2e-6
CONTEXT = 1024


@pytest.fixture(scope="module")
def model(model_path: Path) -> Iterator[llama.LlamaModel]:
    loaded = llama.LlamaModel(LoadOptions(model_path, CONTEXT, threads=1))
    yield loaded
    loaded.close()


@pytest.fixture(scope="module")
def reference(model_path: Path) -> Iterator[Reference]:
    made = Reference(model_path)
    yield made
    made.close()


class TestNumbers:
    def test_log_probabilities_are_those_of_an_evaluation_from_scratch(
        self, model: llama.LlamaModel, reference: Reference
    ) -> None:
        generation = generate(model, request(SOURCE, reuse=False))
        given = reference.tokens(SOURCE)
        assert generation.timing.prompt_tokens == len(given)
        assert len(generation.tokens) >= 3
        splits = one_by_one(len(given), len(generation.tokens))
        ids = [token.id for token in generation.tokens]
        expected = reference.log_probabilities([*given, *ids], len(given), splits=splits)
        assert [t.logprob for t in generation.tokens] == pytest.approx(expected, abs=EXACT)

    @pytest.mark.parametrize("size", [1, 2, 64, 65, 130])
    def test_scores_of_any_length_are_those_of_an_evaluation_from_scratch(
        self, model: llama.LlamaModel, reference: Reference, size: int
    ) -> None:
        given, text = reference.tokens(SOURCE + "\n"), reference.tokens(LONG)[:size]
        generate(model, request("else", most=1, priority=Priority.BACKGROUND))  # nothing to reuse
        spoken = score(
            model, b"".join(piece(reference, token) for token in text).decode(), after=SOURCE + "\n"
        )
        assert [t.id for t in spoken] == text
        expected = reference.log_probabilities([*given, *text], len(given))
        assert [t.logprob for t in spoken] == pytest.approx(expected, abs=EXACT)

    def test_of_a_scored_text_the_softmax_is_that_of_float64_at_each_temperature(
        self, model: llama.LlamaModel, reference: Reference
    ) -> None:
        at = (0.5, 1.0, 1.7)
        given, text = reference.tokens(SOURCE + "\n"), reference.tokens(LONG[:80])
        logits = reference.logits([*given, *text[:-1]], first=len(given) - 1)
        for row, token in zip(logits, score(model, LONG[:80], SOURCE + "\n", *at), strict=True):
            assert token.logit == pytest.approx(row[token.id], abs=EXACT)
            for temperature, log_sum_exp in zip(at, token.log_sum_exps, strict=True):
                scaled = row / temperature
                exact = scaled[token.id] - scaled.max() - math.log(np.exp(scaled - scaled.max()).sum())
                assert token.logit / temperature - log_sum_exp == pytest.approx(exact, abs=2 * EXACT)

    def test_what_is_observed_is_that_of_float64(self, model: llama.LlamaModel, reference: Reference) -> None:
        asked = request(SOURCE, observe=~Observe.NOTHING, reuse=False)
        generation = generate(model, asked)
        plain = generate(model, attrs.evolve(asked, observe=Observe.NOTHING))
        assert [t.logprob for t in generation.tokens] == [t.logprob for t in plain.tokens], "to the last bit"
        assert all(token.seen is None for token in plain.tokens)
        given = reference.tokens(SOURCE)
        ids = [token.id for token in generation.tokens]
        splits = one_by_one(len(given), len(ids))
        how: dict[str, Any] = {"first": len(given) - 1, "splits": splits}
        logits = reference.logits([*given, *ids[:-1]], **how)
        for row, token in zip(logits, generation.tokens, strict=True):
            assert token.seen is not None
            p = np.exp(row - row.max())
            p /= p.sum()
            assert token.seen.entropy == pytest.approx(-(p[p > 0] * np.log(p[p > 0])).sum(), abs=1e-5)
            second, first = np.argsort(row)[-2:]
            assert (token.id, token.seen.second) == (first, second)
            assert token.seen.margin == pytest.approx(row[first] - row[second], abs=EXACT)

    @pytest.mark.parametrize("forced", ["", "    retu"])
    def test_an_answer_goes_on_from_given_tokens_as_it_did_from_chosen_ones(
        self, model: llama.LlamaModel, forced: str
    ) -> None:
        """The same bits, whether the cache still has them or not."""
        source = "def area(r):\n" if forced else SOURCE
        asked = request(source, forced, reuse=False, priority=Priority.BACKGROUND)
        whole = generate(model, asked)
        assert len(whole.tokens) >= 3
        assert bool(whole.healing) == bool(forced)
        given = (*whole.healing, *(token.id for token in whole.tokens[:2]))
        again = attrs.evolve(asked, given=given)
        for cached in (True, False):
            if not cached:
                generate(model, request("else", most=1, priority=Priority.BACKGROUND))
            rest = generate(model, again)
            assert (rest.text, rest.tokens, rest.stop) == (whole.text, whole.tokens[2:], whole.stop)
            assert rest.timing.generated_tokens == len(rest.tokens)
            assert (rest.timing.prompt_reused >= rest.timing.prompt_tokens) == cached
            generate(model, asked)

    def test_given_tokens_count_towards_the_most(self, model: llama.LlamaModel) -> None:
        whole = generate(model, request(LONG, most=8, one_line=False, reuse=False))
        given = tuple(token.id for token in whole.tokens[:5])
        rest = generate(model, request(LONG, most=8, one_line=False, reuse=False, given=given))
        assert rest.tokens == whole.tokens[5:]
        over = generate(model, request(LONG, most=5, one_line=False, given=given))
        assert (over.tokens, over.stop, over.timing.generated_tokens) == ((), Stop.LENGTH, 0)

    def test_a_given_token_may_end_the_answer(self, model: llama.LlamaModel, reference: Reference) -> None:
        (newline,) = reference.tokens("\n")
        assert generate(model, request(SOURCE, given=(newline,))).stop is Stop.LINE
        end = next(token for token in range(reference.size) if model._weights.ends_text(token))
        assert generate(model, request(SOURCE, given=(end,))).stop is Stop.END_OF_TEXT

    def test_a_given_token_that_there_is_not_is_an_engine_error(self, model: llama.LlamaModel) -> None:
        with pytest.raises(EngineError, match="Unknown token id"):
            model.begin(request(SOURCE, given=(1 << 30,)))

    def test_healing_keeps_the_probabilities_of_the_whole_vocabulary(
        self, model: llama.LlamaModel, reference: Reference
    ) -> None:
        before = "def area(r):\n   "
        generation = generate(model, request(before, forced=" retu", reuse=False))
        assert generation.text.startswith("rn ")
        first = generation.tokens[0]
        assert [first.id] == reference.tokens(" return")
        given = reference.tokens(before)
        expected = reference.log_probabilities([*given, first.id], len(given))[0]
        assert first.logprob == pytest.approx(expected, abs=EXACT)
        assert generation.logprobs[0] == first.logprob - first.typed_logprob
        assert first.logprob < -0.05 < generation.logprobs[0]
        assert generation.logprobs[1:] == tuple(token.logprob for token in generation.tokens[1:])
        assert "".join(token.text for token in generation.tokens) == generation.text

    def test_an_evaluation_without_reuse_is_the_same_to_the_last_bit(self, model: llama.LlamaModel) -> None:
        fresh = generate(model, request(SOURCE, reuse=False))
        generate(model, request(SOURCE.replace("utf-8", "ascii")))  # another way into the same cache
        again = generate(model, request(SOURCE, reuse=False))
        assert again.timing.prompt_reused == 0
        assert again.tokens == fresh.tokens


class TestSampling:
    def test_the_same_seed_draws_the_same_tokens_and_another_other_ones(
        self, model: llama.LlamaModel
    ) -> None:
        def draw(seed: int) -> tuple[Any, ...]:
            return generate(
                model, request(SOURCE, most=16, sampling=Sampling(1.0, seed), one_line=False)
            ).tokens

        first = [token.id for token in draw(1)]
        generate(model, request("something else", sampling=Sampling(1.0, 9)))
        assert [token.id for token in draw(1)] == first
        assert len({tuple(token.id for token in draw(seed)) for seed in range(5)}) > 1


def piece(reference: Reference, token: int) -> bytes:
    buffer = ctypes.create_string_buffer(64)
    count = reference.lib.llama_token_to_piece(reference.vocab, token, buffer, 64, 0, False)
    return buffer.raw[:count]


class TestReproducing:
    """Typed characters that the model would have written by itself, and others."""

    TABLE = 'NAMES = {\n    "\\frakA": 1,\n    "\\frakB": 2,\n    "\\frakC": 3,\n   '

    @pytest.mark.parametrize("typed", [' "\\f', ' "\\fr', ' "\\fra', ' "\\frak'])
    def test_what_it_would_have_written_anyway_is_completed_as_if_nothing_were_typed(
        self, model: llama.LlamaModel, typed: str
    ) -> None:
        """It writes f, rak: two tokens that the rule of whole words does not allow before `fra`."""
        clean = generate(model, request(self.TABLE))
        healed = generate(model, request(self.TABLE, forced=typed))
        assert clean.text == typed + healed.text
        assert healed.tokens[-4:] == clean.tokens[-4:]
        ids = (*healed.healing, *(token.id for token in healed.tokens))
        assert ids == tuple(token.id for token in clean.tokens)

    def test_after_tokens_that_were_taken_back_the_numbers_are_those_from_scratch(
        self, model: llama.LlamaModel, reference: Reference
    ) -> None:
        """It writes f here, but then rak; so `fro` is reproduced by a whole word."""
        healed = generate(model, request(self.TABLE, forced=' "\\fro'))
        pieces = [piece(reference, token) for token in healed.healing]
        assert pieces == [b' "\\']
        assert piece(reference, healed.tokens[0].id).startswith(b"fro")
        assert healed.timing.generated_tokens > len(healed.healing) + len(healed.tokens)
        given = [*reference.tokens(self.TABLE), *healed.healing]
        ids = [token.id for token in healed.tokens]
        splits = one_by_one(len(given) - 1, len(ids) + 1)
        expected = reference.log_probabilities([*given, *ids], len(given), splits=splits)
        assert [token.logprob for token in healed.tokens] == pytest.approx(expected, abs=EXACT)


class TestInterruptions:
    @pytest.mark.parametrize(
        "options",
        [{}, {"sampling": Sampling(1.0, 7)}, {"priority": Priority.BACKGROUND}],
        ids=["greedy", "sampled", "background"],
    )
    def test_a_run_that_is_interrupted_at_many_moments_ends_the_same(
        self, model: llama.LlamaModel, options: dict[str, Any]
    ) -> None:
        wanted = request(LONG + SOURCE, most=20, one_line=False, **options)
        forget(model)
        expected = generate(model, wanted)
        forget(model)  # so that the prompt is interrupted as well
        longest = 4 * step_seconds(model)
        run = model.begin(wanted)
        with interruptions(model, Random(0), longest):
            generation, times = persist(model, run)
        assert times >= 3
        assert generation is not None
        assert generation.tokens == expected.tokens, "to the last bit"
        assert (generation.text, generation.stop) == (expected.text, expected.stop)
        assert generation.timing.generated_tokens == expected.timing.generated_tokens
        assert run.advance() is generation, "it stays over"

    @pytest.mark.parametrize(("between", "given"), [("another", 0), ("the same", 3)])
    def test_without_reuse_an_interrupted_answer_is_the_same_to_the_last_bit(
        self, model: llama.LlamaModel, monkeypatch: pytest.MonkeyPatch, between: str, given: int
    ) -> None:
        whole = request(SOURCE, most=12, one_line=False, reuse=False, priority=Priority.BACKGROUND)
        expected = generate(model, whole).tokens
        wanted = attrs.evolve(whole, given=tuple(token.id for token in expected[:given]))
        run = model.begin(wanted)
        fourth = model.counters.generated_tokens + 4
        decode = model._decoder.decode

        def interrupted(*arguments: Any, **named: Any) -> None:
            if model.counters.generated_tokens >= fourth:
                model.interrupt()
            decode(*arguments, **named)

        with monkeypatch.context() as patch:
            patch.setattr(model._decoder, "decode", interrupted)
            with pytest.raises(Interrupted):
                run.advance()
        model.resume()
        # Somebody else's background work takes the sequence, in the middle.
        generate(model, request(LONG[:80], most=1, priority=Priority.BACKGROUND))
        if between == "the same":
            generate(model, whole)
        assert run.advance().tokens == expected[given:]

    def test_an_interruption_waits_for_the_next_advance(self, model: llama.LlamaModel) -> None:
        run = model.begin(request(SOURCE))
        model.interrupt()
        before = model.counters.decode_ms
        for _ in range(2):
            with pytest.raises(Interrupted):
                run.advance()
        assert model.counters.decode_ms == before
        model.resume()
        assert run.advance().text

    def test_an_interruption_does_not_wait_for_the_end_of_the_step(self, model: llama.LlamaModel) -> None:
        """It waits for the operation that runs, of which a step has hundreds."""
        step = step_seconds(model)
        waited = []
        for n in range(12):
            run, asked = model.begin(request(f"# {n}\n" + 3 * LONG, most=1, reuse=False)), []

            def interrupt(asked: list[float] = asked, after: float = step * (0.5 + n / 12)) -> None:
                time.sleep(after)
                asked.append(time.perf_counter())
                model.interrupt()

            thread = threading.Thread(target=interrupt)
            thread.start()
            with pytest.raises(Interrupted):
                run.advance()
            waited.append(time.perf_counter() - asked[0])
            thread.join()
            model.resume()
        assert sorted(waited)[len(waited) // 2] <= step / 10

    def test_what_was_evaluated_before_an_interruption_is_kept(self, model: llama.LlamaModel) -> None:
        text = "".join(f"name_{n} = other({n})\n" for n in range(30))
        whole = generate(model, request(text, most=1, reuse=False))
        forget(model)
        generation, longest = None, 4 * step_seconds(model)
        before = model.counters.prompt_tokens
        evaluated = []
        while generation is None and len(evaluated) < 1000:
            with interruptions(model, Random(0), longest):
                for _ in range(200):
                    run = model.begin(request(text, most=1))  # a new one each time
                    try:
                        generation = run.advance()
                        break
                    except Interrupted:
                        model.resume()
                        evaluated.append(model.counters.prompt_tokens)
            longest *= 2  # a machine may have become busier since the step was measured
        assert generation is not None
        assert len(evaluated) >= 1
        assert model.counters.prompt_tokens - before <= whole.timing.prompt_tokens + len(evaluated)
        assert generation.tokens == whole.tokens, "to the last bit"


def forget(model: llama.LlamaModel) -> None:
    """Nothing of what was asked before is cached any more: another document, other background work."""
    model._decoder._states = States(model._decoder, 0)
    generate(model, request("class Some:\n    pass\n" * 12, most=1))
    generate(model, request("else", most=1, priority=Priority.BACKGROUND))
    model._decoder._states = States(model._decoder, CACHE_MB * 10**6)


class TestSequences:
    def test_documents_and_background_work_do_not_disturb_each_other(self, model: llama.LlamaModel) -> None:
        texts = [f"# {name}\n" * 25 + SOURCE for name in ("first", "second", "background")]
        wanted = [
            request(text, priority=Priority.BACKGROUND if "background" in text else Priority.INTERACTIVE)
            for text in texts
        ]
        alone = [generate(model, each) for each in wanted]
        for _ in range(2):
            for each, expected in zip(wanted, alone, strict=True):
                again = generate(model, each)
                # The last token is evaluated again, and not alone.
                assert again.timing.prompt_reused == again.timing.prompt_tokens - 2
                assert again.tokens == expected.tokens, "to the last bit"


def elsewhere(number: int) -> str:
    """A text that begins like no other and takes more than a hundred tokens."""
    return f"class Place{number}:\n" + "".join(f"    field_{n} = {n * number}\n" for n in range(18))


@pytest.mark.long
class TestPlaces:
    """Who comes back to a place finds it as it was left."""

    def test_of_the_last_eight_places_each_is_there_to_the_last_bit(self, model: llama.LlamaModel) -> None:
        forget(model)
        first = [generate(model, request(elsewhere(n))) for n in range(9)]
        for n in (3, 1, 8, 5, 7, 2, 6, 4):
            back = generate(model, request(elsewhere(n)))
            assert back.timing.prompt_tokens > 100
            assert back.timing.prompt_tokens - back.timing.prompt_reused <= 25
            assert back.tokens == first[n].tokens

    def test_what_is_typed_behind_a_place_is_as_if_evaluated_from_scratch(
        self, model: llama.LlamaModel
    ) -> None:
        forget(model)
        generate(model, request(elsewhere(1)))
        generate(model, request(elsewhere(2)))
        typed = request(elsewhere(1) + "    def total(self):\n        return")
        back = generate(model, typed)
        assert back.timing.prompt_reused > 100
        assert back.tokens == generate(model, attrs.evolve(typed, reuse=False)).tokens

    @pytest.mark.parametrize("part", [0.0, 0.5, 0.999], ids=["nothing", "half", "nearly-all"])
    def test_a_state_that_llama_cpp_refuses_is_evaluated_afresh(
        self, model: llama.LlamaModel, part: float
    ) -> None:
        forget(model)
        first = generate(model, request(elsewhere(1)))
        generate(model, request(elsewhere(2)))
        state = model._decoder._states._states[-1]
        state.data = state.data[: int(part * state.data.size)]
        back = generate(model, request(elsewhere(1)))
        assert back.timing.prompt_reused == 0
        assert back.tokens == first.tokens

    def test_without_room_for_states_the_place_is_evaluated_afresh(self, model: llama.LlamaModel) -> None:
        forget(model)
        model._decoder._states = States(model._decoder, 0)
        first = generate(model, request(elsewhere(1)))
        generate(model, request(elsewhere(2)))
        back = generate(model, request(elsewhere(1)))
        assert back.timing.prompt_reused < 8
        assert back.tokens == first.tokens

    def test_an_interrupted_run_goes_on_where_it_was_whatever_came_between(
        self, model: llama.LlamaModel, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        forget(model)
        wanted = request(elsewhere(1), most=8, one_line=False)
        expected = generate(model, wanted)
        forget(model)
        run, decode, calls = model.begin(wanted), model._decoder.decode, 0

        def interrupted(*arguments: Any) -> None:
            nonlocal calls
            calls += 1
            if calls == 3:
                model.interrupt()
            decode(*arguments)

        with monkeypatch.context() as patch:
            patch.setattr(model._decoder, "decode", interrupted)
            with pytest.raises(Interrupted):
                run.advance()
        model.resume()
        generate(model, request(elsewhere(2)))
        generate(model, request(elsewhere(3), most=0, priority=Priority.IDLE))
        before = model.counters.prompt_tokens
        assert run.advance().tokens == expected.tokens
        evaluated = model.counters.prompt_tokens - before
        assert evaluated <= expected.timing.prompt_tokens - 2 * model._decoder.steps.size

    def test_a_prompt_longer_than_the_streams_lengthens_them_and_loses_nothing(
        self, model_path: Path
    ) -> None:
        loaded = llama.LlamaModel(LoadOptions(model_path, 2048, threads=1))
        try:
            text = "".join(map(elsewhere, range(10)))
            first = [generate(loaded, request(elsewhere(n))) for n in (7, 8)]
            background = generate(loaded, request(elsewhere(9), priority=Priority.BACKGROUND))
            long = generate(loaded, request(text))
            assert long.timing.prompt_tokens > 1024
            back = [generate(loaded, request(elsewhere(n))) for n in (7, 8)]
            back.append(generate(loaded, request(elsewhere(9), priority=Priority.BACKGROUND)))
            for one, other in zip([*first, background], back, strict=True):
                assert one.tokens == other.tokens
                assert other.timing.prompt_tokens - other.timing.prompt_reused <= 25
            again = generate(loaded, request(text, reuse=False))
            assert again.tokens == long.tokens
        finally:
            loaded.close()


class TestAnswers:
    def test_an_answer_ends_with_the_line_or_goes_on_if_asked_to(self, model: llama.LlamaModel) -> None:
        line = generate(model, request(SOURCE, most=30))
        assert line.stop is Stop.LINE
        more = generate(model, request(SOURCE, most=30, one_line=False))
        assert more.text.startswith(line.text + "\n")
        assert more.stop in (Stop.LENGTH, Stop.END_OF_TEXT)
        assert line.timing.generated_tokens == len(line.tokens)

    @pytest.mark.parametrize("forced", ["    ", "\t", " '😀", " '日本", "é", "\u200d", "\0"], ids=ascii)
    def test_what_is_forced_is_no_part_of_the_answer(self, model: llama.LlamaModel, forced: str) -> None:
        generation = generate(model, request("x = 1\ny =", forced=forced, most=6))
        assert "\ufffd" not in generation.text
        assert "\n" not in generation.text
        assert all(token.logprob <= 0 and token.typed_logprob <= 0 for token in generation.tokens)

    def test_characters_that_the_model_cannot_make_fail_that_request_alone(
        self, model: llama.LlamaModel
    ) -> None:
        with pytest.raises(EngineError, match="no token"):
            generate(model, request("x = 1\n", forced="\x04"))
        assert generate(model, request(SOURCE)).text

    def test_an_empty_prompt_and_an_empty_text_are_answered(self, model: llama.LlamaModel) -> None:
        generation = generate(model, request("", most=3))
        assert generation.timing.prompt_tokens == 1
        assert generation.tokens
        assert score(model, "", after=SOURCE) == []
        assert len(score(model, "x", after="")) == 1

    def test_of_a_prompt_longer_than_the_context_the_end_is_evaluated(self, model: llama.LlamaModel) -> None:
        generation = generate(model, request("a = 1\n" * 1500 + SOURCE))
        assert CONTEXT - 40 < generation.timing.prompt_tokens < CONTEXT
        assert generation.text == generate(model, request("a = 1\n" * 10 + SOURCE)).text
        with pytest.raises(EngineError, match="too long"):
            score(model, "a = 1\n" * 1500, after=SOURCE)

    def test_an_answer_longer_than_the_context_leaves_its_prompt_half(self, model: llama.LlamaModel) -> None:
        generation = generate(model, request("b = 2\n" * 1500, most=10**6))
        assert CONTEXT // 2 - 40 < generation.timing.prompt_tokens < CONTEXT // 2

    def test_the_time_in_llama_cpp_is_part_of_the_whole(self, model: llama.LlamaModel) -> None:
        before = model.counters.decode_ms, model.counters.generated_tokens
        timing = generate(model, request(SOURCE)).timing
        assert 0 < timing.decode_ms <= timing.total_ms
        assert timing.prompt_ms + timing.generate_ms == pytest.approx(timing.total_ms)
        assert model.counters.decode_ms - before[0] == pytest.approx(timing.decode_ms)
        assert model.counters.generated_tokens - before[1] == timing.generated_tokens


class TestLoading:
    def test_a_gpu_that_is_not_there_is_noted_and_done_without(
        self, model: llama.LlamaModel, model_path: Path
    ) -> None:
        import llama_cpp

        if llama_cpp.llama_supports_gpu_offload():
            pytest.skip("this build of llama.cpp can use a GPU")
        loaded = llama.LlamaModel(
            LoadOptions(model_path, 256, threads=1, acceleration=Acceleration(gpu_layers=99))
        )
        try:
            assert len(loaded.notes) == 1
            assert "gpuLayers" in loaded.notes[0]
            assert generate(loaded, request(SOURCE)).text == generate(model, request(SOURCE)).text
        finally:
            loaded.close()
        assert model.notes == []

    def test_threads_are_as_many_as_cores_where_none_are_given_and_kept_where_they_are(
        self, model: llama.LlamaModel, model_path: Path
    ) -> None:
        expected = generate(model, request(SOURCE))
        loaded = llama.LlamaModel(LoadOptions(model_path, 256))
        try:
            assert loaded.threads >= 1
            for _ in range(8):
                assert generate(loaded, request(SOURCE)).text == expected.text
        finally:
            loaded.close()
        assert model.threads == 1


class TestAhead:
    def test_a_prompt_that_was_evaluated_ahead_is_found(self, model: llama.LlamaModel) -> None:
        forget(model)
        before = model.counters.prompt_tokens
        ahead = generate(model, request(LONG, most=0, priority=Priority.IDLE))
        assert ahead.text == ""
        assert ahead.tokens == ()
        assert model.counters.prompt_tokens - before == ahead.timing.prompt_tokens > 100
        assert ahead.timing.prompt_reused == 0
        assert 0 < ahead.timing.decode_ms <= ahead.timing.prompt_ms
        again = generate(model, request(LONG, most=0, priority=Priority.IDLE)).timing
        assert again.prompt_reused == again.prompt_tokens, (
            "as an answer at rest is told of what is there already"
        )
        asked = generate(model, request(LONG + "value_12 = "))
        assert asked.timing.prompt_tokens - asked.timing.prompt_reused < 12

    @pytest.mark.long
    def test_a_prompt_that_is_cut_ahead_is_cut_as_the_later_one_is(self, model: llama.LlamaModel) -> None:
        text = "a = 1\n" * 1500
        ahead = generate(model, request(text, most=0, priority=Priority.IDLE)).timing
        asked = generate(model, request(text, most=MOST_TOKENS)).timing
        assert asked.prompt_tokens == ahead.prompt_tokens
        assert asked.prompt_reused >= ahead.prompt_tokens - 2

    @pytest.mark.parametrize("room", ["for states", "for none"])
    def test_what_is_evaluated_ahead_takes_nothing_from_who_types(
        self, model: llama.LlamaModel, monkeypatch: pytest.MonkeyPatch, room: str
    ) -> None:
        forget(model)
        if room == "for none":
            monkeypatch.setattr(model.evaluator.decoder._states, "_most", 0)
        typed = "import os\n" * 60
        generate(model, request(typed))
        for n in range(8):
            generate(model, request(f"# {n}\n" + LONG[:200], most=0, priority=Priority.IDLE))
        asked = generate(model, request(typed + "i"))
        assert asked.timing.prompt_tokens - asked.timing.prompt_reused < 4
