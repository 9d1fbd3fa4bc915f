"""The similarity of a summary to the one that a person wrote: the numbers that records of summaries hold."""

from __future__ import annotations

from functools import lru_cache

from lsp_calib.evaluation.header import SimilarityList
from lsp_calib.evaluation.overlap import bleu, rouge_l
from lsp_calib.inference.models.encoders import DEFAULT
from lsp_calib.summarization.encoder import Encoder
from lsp_calib.summarization.similarity import cosine, greedy_match, plain_words

COSINE = "cosine"
NAMES = (COSINE, "bertscore-f1", "bertscore-precision", "bertscore-recall", "bleu-4", "rouge-l")
"""The similarities, in the order in which thresholds prefer them among equals."""

# Changes whenever the same two texts may get other numbers: their form, the tokens that count, the formulas.
VERSION = 1


def similarities(encoder: Encoder, candidate: str, reference: str) -> dict[str, float]:
    """The similarities of two texts, by name, as records keep them: to four decimals.

    All are 0 if one of the texts has no word.

    Raises SettingsError if the extra `evaluation` is missing.
    """
    one, two = plain_words(candidate), plain_words(reference)
    if not one or not two:
        return dict.fromkeys(NAMES, 0.0)
    a, b = encoder.encode(candidate), encoder.encode(reference)
    match = greedy_match(a.words, b.words)
    values = (cosine(a, b), match.f1, match.precision, match.recall, bleu(one, two), rouge_l(one, two))
    return {name: round(value, 4) for name, value in zip(NAMES, values, strict=True)}


def listed(encoder: Encoder) -> SimilarityList:
    """What the header of a file says of the similarities in its records."""
    return SimilarityList(VERSION, encoder.card.name, encoder.card.sha256, NAMES)


@lru_cache(maxsize=1)
def shared_encoder() -> Encoder:
    """The encoder, loaded once in a process. Raises as `Encoder.open` does."""
    return Encoder.open(DEFAULT)
