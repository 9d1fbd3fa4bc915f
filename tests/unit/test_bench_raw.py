"""The bare loop does the work that it is asked to do, on the tokens that the engine has."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from lsp_calib.errors import EngineError
from lsp_calib.inference.choice import EngineChoice
from lsp_calib.inference.engine import Request
from lsp_calib.inference.process.client import ModelProcess
from lsp_calib.tools.bench.processes import Raw, raw_process
from lsp_calib.values import Prompt, Segment

SEGMENTS = ((Segment.TEXT, "def add(a, b):\n    # <|im_end|> 🎉\n"), (Segment.CONTROL, "<|im_end|>"))
PROMPT = Prompt(SEGMENTS, "", "test")

pytestmark = [pytest.mark.model, pytest.mark.asyncio(loop_scope="module")]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def raw(model_path: Path) -> AsyncIterator[Raw]:
    async with raw_process(model_path, context=512, threads=1) as process:
        yield process


async def test_a_prompt_has_as_many_tokens_as_the_engine_counts(raw: Raw, home_with_model: Path) -> None:
    assert home_with_model.is_dir()
    engine = ModelProcess(EngineChoice(threads=1))
    try:
        generation = await engine.generate(Request(PROMPT, 1))
    finally:
        await engine.close()
    tokens = await raw.tokens_of(PROMPT)
    assert generation.timing.prompt_tokens == len(tokens)
    # The control text of a document is text; that of the layout is one token.
    assert tokens.count(tokens[-1]) == 1


async def test_only_what_is_the_same_is_kept_and_only_what_is_asked_for(raw: Raw) -> None:
    tokens = await raw.tokens_of_text("one two three four five six seven eight nine ten")
    assert len(tokens) >= 10
    first = await raw.replay(tokens, 0, [], 1, 1)
    assert (first.evaluated, first.same) == (len(tokens), True)
    again = await raw.replay(tokens, len(tokens), [], 1, 1)
    assert again.evaluated == 1
    limited = await raw.replay(tokens, 4, [], 1, 1)
    assert (limited.evaluated, limited.same) == (len(tokens) - 4, True)
    changed = await raw.replay([*tokens[:6], tokens[0], tokens[1]], 7, [], 1, 1)
    assert (changed.evaluated, changed.same) == (2, False)


async def test_the_answer_that_is_given_is_in_the_cache_afterwards(raw: Raw) -> None:
    tokens = await raw.tokens_of_text("alpha beta gamma")
    answer = await raw.tokens_of_text(" delta epsilon zeta eta")
    await raw.replay(tokens, 0, answer, len(answer) + 1, 1)
    then = await raw.replay([*tokens, *answer, *tokens], 99, [], 1, 1)
    assert then.evaluated == len(tokens)


async def test_more_work_takes_longer(raw: Raw) -> None:
    tokens = (await raw.tokens_of_text("value = compute(1, 2)\n" * 30))[:256]
    little = min([(await raw.replay(tokens, 999, [], 1, 1)).ms for _ in range(3)])
    much = min([(await raw.replay(tokens, 0, [], 8, 1)).ms for _ in range(3)])
    assert much > 3 * little


async def test_the_vocabulary_alone_gives_the_same_tokens(raw: Raw, model_path: Path) -> None:
    async with raw_process(model_path, context=512, threads=1, vocabulary_only=True) as light:
        assert await light.tokens_of(PROMPT) == await raw.tokens_of(PROMPT)


async def test_a_model_that_cannot_be_loaded_is_an_error_in_words(tmp_path: Path) -> None:
    with pytest.raises(EngineError, match="--no-raw"):
        async with raw_process(tmp_path / "none.gguf", context=512, threads=1):
            pass
