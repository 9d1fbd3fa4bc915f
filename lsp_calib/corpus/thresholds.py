"""The thresholds from which on a summary counts as like a person's: derived from ratings, kept as a file."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, Self

import attrs
import numpy as np
import numpy.typing as npt

from lsp_calib import home
from lsp_calib.calibration.arrays import BoolArray, FloatArray, IntArray
from lsp_calib.calibration.calibrators.purpose import MOST_AGREE
from lsp_calib.calibration.logistic import maximise_posterior, sigmoid_and_loss
from lsp_calib.calibration.reliability import wilson_interval
from lsp_calib.calibration.scores import auc
from lsp_calib.calibration.validation import bootstrap_interval
from lsp_calib.corpus.header import Header, SimilarityList
from lsp_calib.corpus.records import Record
from lsp_calib.errors import DataError, SettingsError, install_command
from lsp_calib.files import read_file
from lsp_calib.json_text import parse_json
from lsp_calib.studies.similarity_threshold import (
    AGREE,
    Setting,
    Tally,
    leave_one_out,
    most_agree,
    rated_correct,
    settings_of,
    threshold_of_correctness,
)
from lsp_calib.summarization.encoder import Encoder
from lsp_calib.summarization.features import cosine, greedy_match, plain_words


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
        f"BLEU and ROUGE-L need the extra `evaluation`: run `{install_command('evaluation')}`."
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
    return Encoder.open()


RATERS = 3
"""How many people rated a pair in either order."""

# These columns are read by name; every later column is a metric published with the ratings.
COLUMNS = (
    "function_id",
    "rater_id",
    "source",
    "similarity_1_to_4",
    "generated_summary",
    "reference_summary",
)


@attrs.frozen(eq=False)
class Ratings:
    """n methods, in the file's order, with human ratings of how similar a generated and a human-written
    summary are (Haque et al. 2022).

    methods: ids. generated, reference: the two summaries that were compared.
    ratings: int array of shape (n, raters): 1 (strongly disagree that they are similar) to 4.
    metrics: by column name, float arrays of shape (n,): similarities published with the ratings.
    """

    methods: tuple[str, ...]
    generated: tuple[str, ...]
    reference: tuple[str, ...]
    ratings: IntArray
    metrics: Mapping[str, FloatArray]


def read_both_orders(path: Path) -> Ratings:
    """The pairs of `read_ratings`, with the ratings given to each pair in either order: six a pair.

    The file's two sources show people the same pair, once with the person's text as the second, once as the
    first. Raises DataError as `read_ratings`, or if the sources are not of the same methods.
    """
    one, other = read_ratings(path), read_ratings(path, "reference")
    at = {method: row for row, method in enumerate(other.methods)}
    if sorted(at) != sorted(one.methods):
        raise DataError(f"{path} does not rate the same methods in both orders.")
    swapped = other.ratings[[at[method] for method in one.methods]]
    return attrs.evolve(one, ratings=np.column_stack((one.ratings, swapped)))


def read_ratings(path: Path, source: Literal["baseline", "reference"] = "baseline") -> Ratings:
    """The ratings in a file: its rows with this source, three for each method.

    path: the CSV file, the data set `haque-ratings`.
    source: which question was asked; the study of thresholds uses "baseline".
    Raises DataError if the file cannot be read, lacks a column, or does not have the same number of
    ratings for each method.
    """
    try:
        text = read_file(path).decode("utf-8")
        reader = csv.DictReader(io.StringIO(text, newline=""), strict=True)
        rows = [row for row in reader if row.get("source") == source]
        names = tuple(reader.fieldnames or ())
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror or error}.") from error
    except (csv.Error, UnicodeDecodeError) as error:
        raise DataError(f"{path} is not a CSV file: {error}.") from error
    missing = [name for name in COLUMNS if name not in names]
    if missing:
        raise DataError(f"{path} lacks the columns {', '.join(missing)}.")
    by_method: dict[str, list[dict[str, str]]] = {}
    for row in rows:
        by_method.setdefault(row["function_id"], []).append(row)
    if not by_method:
        raise DataError(f"{path} has no rows with source {source!r}.")
    if len({len(ratings) for ratings in by_method.values()}) > 1:
        raise DataError(f"{path} does not rate every method equally often.")
    firsts = [ratings[0] for ratings in by_method.values()]
    try:
        ratings = [[int(row["similarity_1_to_4"]) for row in rows] for rows in by_method.values()]
        metrics = {
            name: np.array([float(row[name]) for row in firsts]) for name in names if name not in COLUMNS
        }
    except (TypeError, ValueError) as error:
        raise DataError(f"{path} holds something that is no number: {error}.") from error
    return Ratings(
        methods=tuple(by_method),
        generated=tuple(row["generated_summary"] for row in firsts),
        reference=tuple(row["reference_summary"] for row in firsts),
        ratings=np.array(ratings, dtype=np.intp),
        metrics=metrics,
    )


SCHEMA = 1
_FLAT = 1e-6  # the precision of a prior that leaves the curve to the ratings
FOLDER = "thresholds"

# The papers' criteria by their names in records, and the fields of `CorrectnessThresholds`.
_OF_PAPERS = {"high-precision": "high_precision", "best-f1": "best_f1", "high-recall": "high_recall"}


@attrs.frozen
class Rule:
    """A summary is like a person's if its similarity by `metric` is at least `threshold`."""

    metric: str
    threshold: float


@attrs.frozen
class Thresholds:
    """The rules by criterion, and what their numbers hold for.

    version, encoder, sha256: as in `header.SimilarityList`.
    """

    version: int
    encoder: str
    sha256: str
    rules: Mapping[str, Rule]

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read a file as `Derivation.to_json` describes it. Raises DataError if it is none."""
        try:
            document = parse_json(read_file(path))
            if document["schema"] != SCHEMA:
                raise ValueError(f"its schema is {document['schema']!r}; this version reads {SCHEMA}")
            rules = {
                name: Rule(str(one["metric"]), float(one["threshold"]))
                for name, one in document["settings"].items()
                if one is not None
            }
            encoder = document["encoder"]
            if unknown := [rule.metric for rule in rules.values() if rule.metric not in NAMES]:
                raise ValueError(f"it names the similarity {unknown[0]!r}")
            return cls(int(encoder["version"]), str(encoder["name"]), str(encoder["sha256"]), rules)
        except OSError as error:
            raise DataError(f"{path} cannot be read: {error.strerror or error}.") from error
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            raise DataError(f"{path} is not a file of thresholds: {error}. Name another one.") from error

    def verdicts(self, values: Mapping[str, float]) -> dict[str, bool]:
        """Whether a summary is like a person's, by criterion. values: by name; empty without a summary."""
        return {
            name: bool(values) and values[rule.metric] >= rule.threshold for name, rule in self.rules.items()
        }

    def judge(self, header: Header, records: Sequence[Record]) -> list[Record]:
        """The records with the verdicts of these thresholds instead of their own.

        Raises DataError if their similarities are of another encoder or version, or missing.
        """
        listed = header.similarity
        if listed is None or not self.fits(listed):
            raise DataError(
                "The thresholds hold for the similarities of the encoder "
                f"{self.encoder} (SHA-256 {self.sha256[:12]}, version {self.version}), and the records have "
                "others or none. Make the records again, or give thresholds for theirs."
            )
        return [
            attrs.evolve(record, correct=self.verdicts(listed.named(record.similarity))) for record in records
        ]

    def fits(self, listed: SimilarityList) -> bool:
        """Whether the thresholds hold for these similarities."""
        return (self.version, self.sha256) == (listed.version, listed.sha256)


def shipped_thresholds(listed: SimilarityList) -> Thresholds:
    """The shipped thresholds for these similarities. Raises DataError if there are none."""
    for path in sorted((home.shipped_models() / FOLDER).glob("*.json")):
        found = Thresholds.load(path)
        if found.fits(listed):
            return found
    raise DataError(
        f"There are no thresholds for the encoder {listed.encoder} (SHA-256 {listed.sha256[:12]}). "
        "Derive them: `lsp-calib eval thresholds --output FILE`."
    )


def judged(header: Header, records: list[Record], thresholds: Thresholds | None = None) -> list[Record]:
    """The records, those with similarities judged by these thresholds (None: the shipped ones) and not by
    those of their time. Raises DataError as `Thresholds.judge` and `shipped_thresholds`."""
    if thresholds is None and header.similarity is not None:
        thresholds = shipped_thresholds(header.similarity)
    return records if thresholds is None else thresholds.judge(header, records)


@attrs.frozen
class Agreement:
    """The rule by which most people agree that two texts are similar.

    setting: the threshold with the best F1 of the similarity that predicts agreement best. slope, intercept:
    of its curve, P(most agree) = 1 / (1 + exp(-(slope similarity + intercept))). others, auc: the decisions,
    and the AUC of the probabilities, where each item has the rule and the curve of all others.
    """

    setting: Setting
    slope: float
    intercept: float
    others: Tally
    auc: float


@attrs.frozen(eq=False)
class Derivation:
    """What the ratings say of the similarities of one encoder.

    listed: which similarities. pairs, positives: rated pairs, and those that people call similar.
    data: name and checksum of the ratings. auc: by similarity, with the bounds of its 95 % interval.
    settings: by criterion, chosen jointly over all similarities. alone: the same for each similarity alone.
    others: how good they are on a pair that was left out when they were chosen.
    agreement: the default criterion, by all ratings of a pair in either order.
    """

    listed: SimilarityList
    data: tuple[str, str]
    pairs: int
    positives: int
    auc: Mapping[str, tuple[float, float, float]]
    settings: Mapping[str, Setting | None]
    alone: Mapping[str, Mapping[str, Setting | None]]
    others: Mapping[str, Tally]
    agreement: Agreement

    def to_json(self, command: str) -> dict[str, Any]:
        """The document that is kept; `Thresholds.load` reads it. command: how it was made."""
        return {
            "schema": SCHEMA,
            "command": command,
            "encoder": {
                "name": self.listed.encoder,
                "sha256": self.listed.sha256,
                "version": self.listed.version,
            },
            "data": {
                "name": self.data[0],
                "sha256": self.data[1],
                "pairs": self.pairs,
                "positives": self.positives,
                "agree": AGREE,
            },
            "agreement": {
                "positives": self.agreement.setting.positives,
                "slope": round(self.agreement.slope, 4),
                "intercept": round(self.agreement.intercept, 4),
                "leaveOneOutAuc": round(self.agreement.auc, 4),
            },
            "settings": {
                name: setting and {**_numbers(setting), "leaveOneOut": _shares(self.others[name])}
                for name, setting in self.settings.items()
            },
            "similarities": {
                metric: {
                    "auc": round(value, 4),
                    "aucInterval": [round(low, 4), round(high, 4)],
                    "settings": {
                        name: setting and _brief(setting) for name, setting in self.alone[metric].items()
                    },
                }
                for metric, (value, low, high) in self.auc.items()
            },
        }


def derive(ratings: Ratings, encoder: Encoder, listed: SimilarityList, data: tuple[str, str]) -> Derivation:
    """Thresholds from rated pairs of summaries. data: name and checksum of the ratings.

    Pairs are similar for the papers' criteria by the first three ratings, as there. Raises DataError as
    `threshold_of_correctness` and `threshold_of_agreement`, SettingsError as `similarities`.
    """
    values = [
        similarities(encoder, generated, reference)
        for generated, reference in zip(ratings.generated, ratings.reference, strict=True)
    ]
    metrics = {name: np.array([one[name] for one in values]) for name in NAMES}
    agreement = threshold_of_agreement(most_agree(ratings.ratings), metrics)
    ratings = attrs.evolve(ratings, ratings=ratings.ratings[:, :RATERS])
    correct = rated_correct(ratings.ratings)
    tallies = leave_one_out(ratings.ratings, metrics)
    return Derivation(
        listed=listed,
        data=data,
        pairs=correct.size,
        positives=int(np.count_nonzero(correct)),
        auc={name: _auc(column, correct) for name, column in metrics.items()},
        settings={MOST_AGREE: agreement.setting, **_settings(ratings, metrics)},
        alone={name: _settings(ratings, {name: column}) for name, column in metrics.items()},
        others={MOST_AGREE: agreement.others, **{name: tallies[at] for name, at in _OF_PAPERS.items()}},
        agreement=agreement,
    )


def threshold_of_agreement(correct: npt.ArrayLike, metrics: Mapping[str, npt.ArrayLike]) -> Agreement:
    """The metric and threshold that predict best whether most people agree.

    correct: bool array of shape (n,), see `most_agree`. metrics: similarities by name, float arrays of shape
    (n,). Of the metrics the one whose curve has the lowest log loss counts (all curves have two parameters),
    at the multiple of 0.01 with the best F1. Leaving out repeats both choices without the item.
    Raises DataError on no metric, arrays that do not fit together, or fewer than two items of a class.
    """
    labels = np.asarray(correct, dtype=np.bool_)
    values = {name: np.asarray(column, dtype=np.float64) for name, column in metrics.items()}
    if not values or min(np.count_nonzero(labels), np.count_nonzero(~labels)) < 2:
        raise DataError("A threshold of agreement needs a metric, and two items of each class at least.")
    setting, (slope, intercept) = _agreement(values, labels)
    left_out, selected = np.empty(labels.size), np.zeros(labels.size, dtype=np.bool_)
    for at in range(labels.size):
        others = np.arange(labels.size) != at
        found, (a, b) = _agreement({name: one[others] for name, one in values.items()}, labels[others])
        similarity = values[found.metric][at]
        selected[at] = similarity >= found.threshold
        left_out[at] = sigmoid_and_loss(np.array([a * similarity + b]), np.zeros(1))[0][0]
    tally = Tally(int(selected.sum()), int(labels.sum()), int((selected & labels).sum()))
    return Agreement(setting, slope, intercept, tally, auc(left_out, labels))


def _agreement(metrics: Mapping[str, FloatArray], labels: BoolArray) -> tuple[Setting, tuple[float, float]]:
    """The best setting of the metric with the best curve, and this curve's slope and intercept."""
    curves = {}
    for name, column in metrics.items():
        settings = settings_of(name, column, labels)  # checks the shapes
        design = np.column_stack((column, np.ones(labels.size)))
        fit, lost = maximise_posterior(
            design, labels.astype(np.float64), np.ones(labels.size), np.zeros(2), np.full(2, _FLAT)
        )
        best = max((s for s in settings if s.hits), key=lambda s: (s.f1, s.precision))
        curves[name] = lost, best, (float(fit[0]), float(fit[1]))
    _, setting, curve = min(curves.values(), key=lambda one: one[0])
    return setting, curve


def _settings(ratings: Ratings, metrics: Mapping[str, FloatArray]) -> dict[str, Setting | None]:
    found = threshold_of_correctness(ratings.ratings, metrics)
    return {name: getattr(found, field) for name, field in _OF_PAPERS.items()}


def _auc(values: FloatArray, correct: np.typing.NDArray[np.bool_]) -> tuple[float, float, float]:
    # From [-1, 1] to the range of probabilities; the order, and so the AUC, stays.
    scaled = (values + 1.0) / 2.0
    interval = bootstrap_interval(auc, scaled, correct)
    assert interval.low is not None
    assert interval.high is not None
    return auc(scaled, correct), interval.low, interval.high


def _brief(setting: Setting) -> dict[str, Any]:
    """The threshold of one similarity alone; precision and recall follow from the counts."""
    return {"threshold": setting.threshold, "selected": setting.selected, "hits": setting.hits}


def _numbers(setting: Setting) -> dict[str, Any]:
    return {
        "metric": setting.metric,
        "threshold": setting.threshold,
        "f1": round(setting.f1, 4),
        **_shares(setting),
    }


def _shares(counts: Setting | Tally) -> dict[str, Any]:
    """Precision and recall with their 95 % intervals (Wilson)."""
    return {
        "selected": counts.selected,
        "hits": counts.hits,
        "precision": round(counts.precision, 4) if counts.selected else None,
        "precisionInterval": _interval(counts.hits, counts.selected),
        "recall": round(counts.recall, 4),
        "recallInterval": _interval(counts.hits, counts.positives),
    }


def _interval(hits: int, n: int) -> list[float]:
    return [round(bound, 4) for bound in wilson_interval(hits, n)]
