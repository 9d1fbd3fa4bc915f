"""From which similarity on people call two summaries similar: thresholds derived from their ratings.

The ratings are those of Haque et al. 2022; the three criteria are those of Virk et al. 2024, 4.4.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

import attrs
import numpy as np
import numpy.typing as npt
from nltk.translate.bleu_score import SmoothingFunction, sentence_bleu
from rouge_score.rouge_scorer import RougeScorer

from lsp_calib.calibration.arrays import BoolArray, FloatArray
from lsp_calib.calibration.calibrators.purpose import MOST_AGREE
from lsp_calib.calibration.logistic import maximise_posterior, sigmoid_and_loss
from lsp_calib.calibration.reliability import wilson_interval
from lsp_calib.calibration.scores import auc
from lsp_calib.calibration.validation import Interval, bootstrap_interval
from lsp_calib.corpus.records import SimilarityList
from lsp_calib.corpus.thresholds import NAMES, SCHEMA, listed, shared_encoder, similarities
from lsp_calib.files import replace_file
from lsp_calib.studies.data import checked_file, data_set
from lsp_calib.studies.tables import Table, print_tables
from lsp_calib.summarization.features import plain_words
from lsp_calib.terminal import Console

T = TypeVar("T")
RATINGS = "haque-ratings"
AGREE = 3  # "agree" of 1 (strongly disagree) to 4 (strongly agree) that two summaries are similar
RATERS = 3  # people who rated a pair in either order; the study of thresholds takes the first order
FLOOR = 0.9  # what precision, or recall, must exceed
_FLAT = 1e-6  # the precision of a prior that leaves a curve to the ratings


def bleu(candidate: str, reference: str) -> float:
    """Sentence BLEU of words up to 4-grams, in [0, 1]; counts of pairs and longer get 1 added.

    Of a candidate with fewer than four words, no longer n-grams are asked for than it has.
    candidate, reference: words separated by spaces. 0 if one of them is empty, or no word is shared.
    Source: Papineni et al. 2002; smoothing of Lin & Och 2004, as CodeXGLUE scores summaries; by nltk.
    """
    words, wanted = candidate.split(), reference.split()
    if not words or not wanted:
        return 0.0
    orders = min(4, len(words))
    return float(sentence_bleu([wanted], words, (1.0 / orders,) * orders, SmoothingFunction().method2))


def rouge_l(candidate: str, reference: str) -> float:
    """F-measure of the longest common subsequence of words, in [0, 1]; no stemming.

    candidate, reference: as for `bleu`. Words are those of letters a to z and digits.
    Source: Lin 2004; by rouge-score.
    """
    return float(_ROUGE.score(reference, candidate)["rougeL"].fmeasure)


_ROUGE = RougeScorer(["rougeL"], use_stemmer=False)
OVERLAP = {"bleu-4": bleu, "rouge-l": rouge_l}
"""Overlap of words: compared with the encoder's similarities, never a rule."""


@attrs.frozen(eq=False)
class Ratings:
    """n methods, in the file's order, with ratings of how similar a generated summary is to a person's.

    ratings: int array of shape (n, 6): three people who read the person's text second, then three who read it
    first. metrics: by column, float arrays of shape (n,): similarities published with the ratings.
    """

    generated: tuple[str, ...]
    reference: tuple[str, ...]
    ratings: npt.NDArray[np.int64]
    metrics: Mapping[str, FloatArray]

    @property
    def correct(self) -> BoolArray:
        """Whether the mean of the first three ratings is AGREE or better, as in Virk et al.; shape (n,)."""
        found: BoolArray = self.ratings[:, :RATERS].sum(axis=1) >= AGREE * RATERS
        return found

    @property
    def most_agree(self) -> BoolArray:
        """Whether at least half of all ratings are AGREE or better. Shape (n,)."""
        found: BoolArray = 2 * np.count_nonzero(self.ratings >= AGREE, axis=1) >= self.ratings.shape[1]
        return found


def read_ratings(folder: Path | None) -> Ratings:
    """The data set `haque-ratings`. Raises DataError if it is missing or another one."""
    with checked_file(RATINGS, folder).open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    pairs: dict[str, list[dict[str, str]]] = {}
    # By source "baseline" before "reference": whose text the people read first.
    for row in sorted(rows, key=lambda row: row["source"]):
        pairs.setdefault(row["function_id"], []).append(row)
    order = dict.fromkeys(row["function_id"] for row in rows)
    firsts = [pairs[function][0] for function in order]
    names = list(rows[0])
    metrics = names[names.index("reference_summary") + 1 :]
    return Ratings(
        tuple(row["generated_summary"] for row in firsts),
        tuple(row["reference_summary"] for row in firsts),
        np.array([[int(row["similarity_1_to_4"]) for row in pairs[function]] for function in order]),
        {name: np.array([float(row[name]) for row in firsts]) for name in metrics},
    )


@attrs.frozen
class Tally:
    """Decisions on items: called correct (selected), correct by people (positives), and both (hits)."""

    selected: int
    positives: int
    hits: int

    @property
    def precision(self) -> float:
        """Share of the selected that people call correct; nan if nothing is selected."""
        return self.hits / self.selected if self.selected else float("nan")

    @property
    def recall(self) -> float:
        """Share selected of the items that people call correct."""
        return self.hits / self.positives

    @property
    def f1(self) -> float:
        """Harmonic mean of precision and recall."""
        return 2.0 * self.hits / (self.selected + self.positives)


@attrs.frozen
class Setting(Tally):
    """The rule that calls an item correct: similarity by `metric` at `threshold` and above; and its tally."""

    metric: str
    threshold: float

    @property
    def brief(self) -> dict[str, Any]:
        """Without the metric. Precision and recall follow from the counts."""
        return {"threshold": self.threshold, "selected": self.selected, "hits": self.hits}


def settings_of(name: str, values: FloatArray, correct: BoolArray) -> list[Setting]:
    """Every setting of one metric, at the multiples of 0.01 that its values span, the strictest first."""
    steps = np.arange(int(np.floor(100.0 * values.min())), int(np.ceil(100.0 * values.max())) + 1)[::-1]
    thresholds = steps / 100.0  # the same doubles as the literals 0.29, 0.57
    positive = np.sort(values[correct])
    selected = values.size - np.searchsorted(np.sort(values), thresholds, side="left")
    hits = positive.size - np.searchsorted(positive, thresholds, side="left")
    return [
        Setting(int(s), positive.size, int(h), name, float(t))
        for t, s, h in zip(thresholds, selected, hits, strict=True)
    ]


Settings = dict[str, Setting | None]
"""By criterion; None where no metric and threshold meet it."""


def choose(metrics: Mapping[str, FloatArray], correct: BoolArray, floor: float = FLOOR) -> Settings:
    """The metric and threshold that agree best with people, jointly, by the study's three criteria.

    metrics: similarities by name, arrays of shape (n,). correct: shape (n,), of which one at least is true.
    high-precision: precision above the floor with the highest recall. high-recall: recall above the floor
    with the highest precision. best-f1: the highest F1. Among settings that meet a criterion equally well
    the one better in the other of precision and recall wins, then the stricter, then the metric named first.
    Source: Virk et al. 2024, 4.4.
    """
    settings = [setting for name, values in metrics.items() for setting in settings_of(name, values, correct)]
    precise = (s for s in settings if s.precision > floor)
    sensitive = (s for s in settings if s.recall > floor)
    return {
        "high-precision": max(precise, key=lambda s: (s.recall, s.precision), default=None),
        "best-f1": max((s for s in settings if s.hits), key=lambda s: (s.f1, s.precision)),
        "high-recall": max(sensitive, key=lambda s: (s.precision, s.recall), default=None),
    }


def leave_one_out(metrics: Mapping[str, FloatArray], correct: BoolArray) -> dict[str, Tally]:
    """By criterion, the decisions on items that had no part in choosing metric and threshold.

    Two items at least are correct. Where the others meet a criterion with no setting, the item is not
    selected. Source: Stone 1974, cross-validatory assessment.
    """
    selected = {name: np.zeros(correct.size, dtype=np.bool_) for name in choose(metrics, correct)}
    for at, found in _left_out(choose, metrics, correct):
        for name, setting in found.items():
            selected[name][at] = setting is not None and metrics[setting.metric][at] >= setting.threshold
    return {name: _tally(chosen, correct) for name, chosen in selected.items()}


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


def threshold_of_agreement(metrics: Mapping[str, FloatArray], agreed: BoolArray) -> Agreement:
    """The metric and threshold that predict best whether most people agree.

    metrics: similarities by name, arrays of shape (n,). agreed: shape (n,), two of each class at least. Of
    the metrics the one whose curve has the lowest log loss counts (all curves have two parameters), at the
    multiple of 0.01 with the best F1. Leaving out repeats both choices without the item.
    """
    setting, (slope, intercept) = _agreement(metrics, agreed)
    left_out, selected = np.empty(agreed.size), np.zeros(agreed.size, dtype=np.bool_)
    for at, (found, (a, b)) in _left_out(_agreement, metrics, agreed):
        similarity = metrics[found.metric][at]
        selected[at] = similarity >= found.threshold
        left_out[at] = sigmoid_and_loss(np.array([a * similarity + b]), np.zeros(1))[0][0]
    return Agreement(setting, slope, intercept, _tally(selected, agreed), auc(left_out, agreed))


def _agreement(metrics: Mapping[str, FloatArray], agreed: BoolArray) -> tuple[Setting, tuple[float, float]]:
    """The best setting of the metric with the best curve, and this curve's slope and intercept."""
    curves = {}
    for name, column in metrics.items():
        design = np.column_stack((column, np.ones(agreed.size)))
        (slope, intercept), loss = maximise_posterior(
            design, agreed.astype(np.float64), np.ones(agreed.size), np.zeros(2), np.full(2, _FLAT)
        )
        settings = (s for s in settings_of(name, column, agreed) if s.hits)
        best = max(settings, key=lambda s: (s.f1, s.precision))
        curves[name] = loss, best, (float(slope), float(intercept))
    _, setting, curve = min(curves.values(), key=lambda one: one[0])
    return setting, curve


def _left_out(
    rule: Callable[[Mapping[str, FloatArray], BoolArray], T],
    metrics: Mapping[str, FloatArray],
    labels: BoolArray,
) -> Iterator[tuple[int, T]]:
    """For each item what a rule finds on all others."""
    for at in range(labels.size):
        others = np.arange(labels.size) != at
        yield at, rule({name: column[others] for name, column in metrics.items()}, labels[others])


def _tally(selected: BoolArray, correct: BoolArray) -> Tally:
    return Tally(*(int(np.count_nonzero(one)) for one in (selected, correct, selected & correct)))


@attrs.frozen(eq=False)
class Derivation:
    """What the ratings say of the similarities of one encoder.

    listed: which similarities. positives: of the rated pairs those that people call similar.
    auc: by similarity. settings: by criterion, chosen jointly over the encoder's similarities.
    alone: the same for each similarity alone, overlap of words among them.
    others: how good the settings are on a pair that was left out when they were chosen.
    agreement: the default criterion, by all ratings of a pair in either order.
    file: that holds all this; None: it is only shown.
    """

    listed: SimilarityList
    pairs: int
    positives: int
    auc: Mapping[str, Interval]
    settings: Settings
    alone: Mapping[str, Settings]
    others: Mapping[str, Tally]
    agreement: Agreement
    file: Path | None

    @property
    def document(self) -> dict[str, Any]:
        """What is kept; `corpus.thresholds.Thresholds.load` reads it."""
        # No path of this machine goes into a file that may be shipped.
        file = "FILE" if self.file is None or self.file.is_absolute() else self.file.as_posix()
        listed, agreement = self.listed, self.agreement
        rounded = {name: round(getattr(agreement, name), 4) for name in ("slope", "intercept", "auc")}
        return {
            "schema": SCHEMA,
            "command": f"lsp-calib eval thresholds --output {file}",
            "encoder": {"name": listed.encoder, "sha256": listed.sha256, "version": listed.version},
            "data": {
                "name": RATINGS,
                "sha256": data_set(RATINGS).sha256,
                "pairs": self.pairs,
                "positives": self.positives,
                "agree": float(AGREE),
            },
            "agreement": {
                "positives": agreement.setting.positives,
                "slope": rounded["slope"],
                "intercept": rounded["intercept"],
                "leaveOneOutAuc": rounded["auc"],
            },
            "settings": {
                name: setting
                and {
                    "metric": setting.metric,
                    "threshold": setting.threshold,
                    "f1": round(setting.f1, 4),
                    **_shares(setting),
                    "leaveOneOut": _shares(self.others[name]),
                }
                for name, setting in self.settings.items()
            },
            "similarities": {
                metric: {
                    "auc": round(found.value or 0.0, 4),
                    "aucInterval": [round(found.low or 0.0, 4), round(found.high or 0.0, 4)],
                    "settings": {name: one and one.brief for name, one in self.alone[metric].items()},
                }
                for metric, found in self.auc.items()
            },
        }

    def to_wire(self) -> dict[str, Any]:
        return {"file": None if self.file is None else str(self.file), **self.document}

    def tables(self) -> Iterator[Table]:
        """The settings, and each similarity alone."""
        settings = []
        for name, setting in self.settings.items():
            if setting is None:
                settings.append([name, "none meets the criterion", *[""] * 5])
                continue
            other = self.others[name]
            numbers = (f"{x:.2f}" for x in (setting.threshold, setting.precision, setting.recall))
            left_out = f"{other.precision:.2f}, {other.recall:.2f} ({other.selected})"
            settings.append([name, setting.metric, *numbers, f"{setting.selected}", left_out])
        title = "Thresholds, chosen over the encoder's similarities: precision P, recall R, n selected"
        yield Table(title, ("setting", "similarity", "from", "P", "R", "n", "left out: P, R (n)"), settings)
        alone = []
        for metric, interval in self.auc.items():
            shares = [
                one and f"{one.threshold:.2f} ({100 * one.precision:.0f}, {100 * one.recall:.0f})"
                for one in self.alone[metric].values()
            ]
            alone.append([metric, f"{interval:.3f}", *(one or "none" for one in shares)])
        criteria = next(iter(self.alone.values()))
        yield Table("Each similarity alone: from (P %, R %)", ("similarity", "AUC (95 %)", *criteria), alone)

    def print(self) -> None:
        console, agreement, listed = Console(), self.agreement, self.listed
        console.print(
            f"{self.pairs} rated pairs; most people agree on {agreement.setting.positives}, the mean of "
            f"three ratings on {self.positives}; encoder {listed.encoder} "
            f"(SHA-256 {listed.sha256[:12]}).",
            soft_wrap=True,
        )
        print_tables(self.tables(), console, whole=2)
        console.print(
            f"P(most agree) = sigmoid({agreement.slope:.1f} {agreement.setting.metric} "
            f"{agreement.intercept:+.2f}), AUC {agreement.auc:.3f} on pairs left out.",
            soft_wrap=True,
        )
        if self.file is not None:
            console.print(f"Written: {self.file}", soft_wrap=True)


def _shares(counts: Tally) -> dict[str, Any]:
    """Precision and recall with their 95 % intervals (Wilson)."""

    def interval(n: int) -> list[float]:
        return [round(bound, 4) for bound in wilson_interval(counts.hits, n)]

    return {
        "selected": counts.selected,
        "hits": counts.hits,
        "precision": round(counts.precision, 4) if counts.selected else None,
        "precisionInterval": interval(counts.selected),
        "recall": round(counts.recall, 4),
        "recallInterval": interval(counts.positives),
    }


def derive_thresholds(data_dir: Path | None, output: Path | None) -> Derivation:
    """Derive the thresholds of the installed encoder from the ratings in the evaluation data.

    data_dir: the folder with the data sets; None: LSP_CALIB_DATA. output: the file to write.
    Raises DataError if the data are missing or other ones, or the file cannot be written; SettingsError and
    NoModelError as `Encoder.open`.
    """
    ratings, encoder = read_ratings(data_dir), shared_encoder()
    texts = list(zip(ratings.generated, ratings.reference, strict=True))
    found = [similarities(encoder, *pair) for pair in texts]
    metrics = {name: np.array([one[name] for one in found]) for name in NAMES}
    words = [tuple(map(plain_words, pair)) for pair in texts]
    overlap = {name: np.array([round(of(*pair), 4) for pair in words]) for name, of in OVERLAP.items()}
    correct, agreement = ratings.correct, threshold_of_agreement(metrics, ratings.most_agree)
    every = {**metrics, **overlap}
    derivation = Derivation(
        listed=listed(encoder),
        pairs=correct.size,
        positives=int(np.count_nonzero(correct)),
        # From [-1, 1] to the range of probabilities; the order, and so the AUC, stays.
        auc={name: bootstrap_interval(auc, (column + 1.0) / 2.0, correct) for name, column in every.items()},
        settings={MOST_AGREE: agreement.setting, **choose(metrics, correct)},
        alone={name: choose({name: column}, correct) for name, column in every.items()},
        others={MOST_AGREE: agreement.others, **leave_one_out(metrics, correct)},
        agreement=agreement,
        file=output,
    )
    if output is not None:
        replace_file(output, json.dumps(derivation.document, indent=2) + "\n")
    return derivation
