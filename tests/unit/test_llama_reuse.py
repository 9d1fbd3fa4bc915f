"""A place gives the same answer, to the last bit, however the model comes to it."""

import importlib
from pathlib import Path
from typing import Any

import pytest
from marks import repetitions

pytest.importorskip("llama_cpp")
same_answer: Any = importlib.import_module("same_answer")

pytestmark = [pytest.mark.model, pytest.mark.long]

Expected = tuple[list[str], dict[bool, list[Any]]]


@pytest.fixture(scope="module")
def expected(model_path: Path) -> Expected:
    texts = same_answer.places(repetitions(thorough=60, long=4))
    return texts, same_answer.fresh(model_path, texts)


@pytest.mark.parametrize("way", same_answer.WAYS, ids=lambda way: way.name)
def test_the_same_tokens_and_log_probabilities(way: Any, model_path: Path, expected: Expected) -> None:
    texts, answers = expected
    assert any(len(tokens) > 3 for tokens in answers[False])
    found = same_answer.difference(way, model_path, texts, answers)
    assert not found.other_bits, str(found)
