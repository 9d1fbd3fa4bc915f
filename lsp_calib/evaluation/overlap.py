"""How many words two sentences share: BLEU and ROUGE-L, by the packages of the field."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from lsp_calib.errors import SettingsError


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
