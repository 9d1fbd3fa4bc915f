"""The similarity of a summary to the one that a person wrote: the numbers that records of summaries hold.

BLEU and ROUGE-L are counted by the packages of the field."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from lsp_calib.errors import SettingsError
from lsp_calib.evaluation.header import SimilarityList
from lsp_calib.inference.models.encoders import DEFAULT
from lsp_calib.summarization.encoder import Encoder
from lsp_calib.summarization.similarity import cosine, greedy_match, plain_words


def bleu(candidate: str, reference: str) -> float:
    """Sentence BLEU of words up to 4-grams, in [0, 1]; counts of pairs and longer get 1 added.

    Of a candidate with fewer than four words, no longer n-grams are asked for than it has.
    candidate, reference: words separated by spaces. 0 if one of them is empty, or no word is shared.
    Raises SettingsError if the extra `evaluation` is missing.
    Source: Papineni et al. 2002; smoothing of Lin & Och 2004, as CodeXGLUE scores summaries; by nltk.
    """
    words, wanted = candidate.split(), reference.split()
    if not words or not wanted:
        return 0.0
    sentence_bleu, smoothing = _nltk()
    orders = min(4, len(words))
    return float(sentence_bleu([wanted], words, (1.0 / orders,) * orders, smoothing))


def rouge_l(candidate: str, reference: str) -> float:
    """F-measure of the longest common subsequence of words, in [0, 1]; no stemming.

    candidate, reference: as for `bleu`, whose errors it raises. Words are those of letters a to z and digits.
    Source: Lin 2004; by rouge-score.
    """
    return float(_rouge().score(reference, candidate)["rougeL"].fmeasure)


@lru_cache(maxsize=1)
def _nltk() -> tuple[Any, Any]:
    try:
        from nltk.translate.bleu_score import SmoothingFunction, sentence_bleu
    except ImportError as error:
        raise _missing() from error
    return sentence_bleu, SmoothingFunction().method2


@lru_cache(maxsize=1)
def _rouge() -> Any:
    try:
        from rouge_score.rouge_scorer import RougeScorer
    except ImportError as error:
        raise _missing() from error
    return RougeScorer(["rougeL"], use_stemmer=False)


def _missing() -> SettingsError:
    return SettingsError(
        "BLEU and ROUGE-L need the extra `evaluation`: run `pip install 'lsp-calib[evaluation]'`."
    )


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
