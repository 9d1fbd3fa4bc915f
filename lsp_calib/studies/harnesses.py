"""Files of other evaluation harnesses, read and scored as one table.

lm-evaluation-harness (0.4.13) writes, with --log_samples, a line for each document and filter. A multiple
choice holds the sum of log-probabilities of each choice, a generated text none at all.
bigcode-evaluation-harness (8fc5bae) writes texts without an id, a verdict or a log-probability. So pass rates
are all that can be said of texts, unless a `logprobs` field of ours is added (models/records/README.md,
"Files of other harnesses").
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, NoReturn

import attrs
import numpy as np
from scipy.special import softmax

from lsp_calib.calibration.arrays import BoolArray, FloatArray
from lsp_calib.calibration.reliability import wilson_interval
from lsp_calib.corpus.places import Row, read_rows
from lsp_calib.errors import DataError
from lsp_calib.files import read_file
from lsp_calib.json_text import parse_json
from lsp_calib.studies.statistics import Resamples
from lsp_calib.studies.tables import BAND, Table, banded, percent, ranged

_SAMPLES = re.compile(r"samples_(?P<task>.+)_(?P<date>\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d\.\d+)\.jsonl")
_HASHES = "doc_hash", "prompt_hash", "target_hash"
_KINDS = {"doc_id": int, "filter": str, "target": str, "arguments": dict, "resps": list, "metrics": list}
_CONFIDENCE = "confidence", "Brier score", "skill", "AUC", BAND
_COLUMNS = "task", "answers", "right by", "n", "right (95 %)", *_CONFIDENCE, "where from"
_NOTE = (
    "Each file's own verdicts count, and nothing is rescaled. Skill is measured against always saying the "
    "share that is right; its interval is a bootstrap over documents. Without log-probabilities of its texts "
    "a file has pass rates alone. These rows answer other questions than the studies' tables do."
)
# Of the probabilities of choices together: they are rounded.
_MOST_TOGETHER = 1.001
# No log-probability of a token is less: logits are apart by some hundreds at most.
_LEAST = -1e6


@attrs.frozen(eq=False)
class Scored:
    """The answers of one file, judged in one way.

    answers: how they were made. right: shape (n,), or the pass rate alone, with the number of answers if the
    file tells it. confidences: by name, of each answer, shape (n,). groups: the document of each answer,
    shape (n,). origin: versions, shots and hashes, in words.
    """

    task: str
    answers: str
    judge: str
    right: BoolArray | tuple[float, int | None]
    origin: str
    confidences: Mapping[str, FloatArray] = attrs.field(factory=dict)
    groups: Sequence[int] = ()


def imported_table(paths: Sequence[Path]) -> Table:
    """Files of other harnesses as one table, which stands by itself on the page.

    paths: lm-evaluation-harness' samples_TASK_DATE.jsonl, bigcode-evaluation-harness' evaluation_results.json
    and generations_TASK.json.
    Raises DataError, naming file and document, for what is neither, malformed, or from a broken server.
    """
    rows = [row for path in paths for one in read(path) for row in _rows(one)]
    return Table("", _COLUMNS, rows, _NOTE)


def read(path: Path) -> list[Scored]:
    """What a file of another harness says. Raises DataError as `imported_table` does."""
    if path.suffix == ".jsonl":
        return _samples(path)
    document = _document(path)
    if isinstance(document, list):
        return [_generations(path, document)]
    if isinstance(document, dict) and isinstance(document.get("config"), dict) and "results" not in document:
        return list(_bigcode_results(path, document))
    raise DataError(
        f"{path} is no file of answers that is known. Name samples_TASK_DATE.jsonl of lm-evaluation-harness "
        "(--log_samples writes it; results_DATE.json is read beside it), or evaluation_results.json or "
        "generations_TASK.json of bigcode-evaluation-harness."
    )


def _rows(scored: Scored) -> Iterator[tuple[str, ...]]:
    front: tuple[str, ...] = scored.task, scored.answers, scored.judge
    if isinstance(scored.right, tuple):
        rate, n = scored.right
        yield *front, str(n or "–"), percent(rate), *["–" for _ in _CONFIDENCE], scored.origin
        return
    right, hits = scored.right, int(scored.right.sum())
    low, high = wilson_interval(hits, right.size)
    front = (
        *front,
        str(right.size),
        f"{hits} ({percent(hits / right.size)}; {percent(low)} to {percent(high)})",
    )
    if not scored.confidences:
        yield *front, *["–" for _ in _CONFIDENCE], scored.origin
        return
    resamples = Resamples(right, np.asarray(scored.groups))
    mixed = 0 < hits < right.size
    for name, confidence in scored.confidences.items():
        numbers = (
            f"{np.mean((confidence - right) ** 2):.3f}",
            ranged(resamples.skill(confidence)) if mixed else "–",
            ranged(resamples.auc(confidence), sign=False) if mixed else "–",
            banded(resamples.ece(confidence)),
        )
        yield *front, name, *numbers, scored.origin


# lm-evaluation-harness


def _samples(path: Path) -> list[Scored]:
    named = _SAMPLES.fullmatch(path.name)
    task, date = (named["task"], named["date"]) if named else (path.stem, "")
    lines = list(read_rows(path, _checked_line))
    by_filter: dict[str, dict[int, Row]] = {row["filter"]: {} for row in lines}
    for row in lines:
        number, of_filter = row["doc_id"], by_filter[row["filter"]]
        if number in of_filter:
            _refuse(path, number, f"stands there twice with the filter {row['filter']!r}")
        of_filter[number] = row
    if not lines or any(found.keys() != by_filter[lines[0]["filter"]].keys() for found in by_filter.values()):
        raise DataError(
            f"{path} is not whole: it has no samples, or other documents for each filter. Get it again."
        )
    # The harness' own hash of a task, over its lines in their order.
    origin = _origin(path, task, date, _sha256("".join(row[name] for row in lines for name in _HASHES)))
    return [one for name, rows in by_filter.items() for one in _of_filter(path, task, name, rows, origin)]


def _checked_line(row: Row) -> Row:
    """A line whose hashes are those of its content. Raises KeyError, TypeError or ValueError."""
    for name, kind in _KINDS.items():
        if type(row[name]) is not kind:
            raise TypeError(f"its {name!r} is not what lm-evaluation-harness 0.4 writes")
    asked = _asked(row)
    if not asked or not all(
        isinstance(one["arg_0"], str) and isinstance(one["arg_1"], (str, dict)) for one in asked
    ):
        raise TypeError("its 'arguments' hold no prompts with a choice or with settings")
    if not all(isinstance(name, str) for name in row["metrics"]):
        raise TypeError("its 'metrics' are no names")
    contents = json.dumps(row["doc"], indent=2, ensure_ascii=False), asked[0]["arg_0"], row["target"]
    for name, content in zip(_HASHES, contents, strict=True):
        if row[name] != _sha256(content):
            raise ValueError(f"its {name!r} is not that of its content, so it was changed afterwards")
    return row


def _asked(row: Row) -> list[Mapping[str, Any]]:
    """What the model was asked for a document, one for each choice."""
    arguments = row["arguments"]
    return [arguments[f"gen_args_{at}"] for at in range(len(arguments))]


def _of_filter(path: Path, task: str, name: str, rows: Mapping[int, Row], origin: str) -> Iterator[Scored]:
    """A pass rate by each metric that is one, and calibration by `acc`, or of texts by the first metric."""
    choosing = {isinstance(_asked(row)[0]["arg_1"], str) for row in rows.values()}
    if len(choosing) > 1:
        raise DataError(f"{path} holds choices and generated texts at once: give a file of one task.")
    metrics = dict.fromkeys(metric for row in rows.values() for metric in row["metrics"])
    rates = [metric for metric in metrics if all(_is_rate(row.get(metric)) for row in rows.values())]
    confidences: dict[str, FloatArray] = {}
    if choosing == {True}:
        chosen = np.array([_chosen(path, row) for row in rows.values()])
        answers, judge, confidences = "choice", "acc", {"softmax over choices": chosen}
    else:
        answers, judge = f"text, filter {name}", rates[0] if rates else "metric"
        if any("logprobs" in row for row in rows.values()):
            confidences = _of_texts([_logprobs(path, number, row) for number, row in rows.items()])
    if judge not in rates:
        raise DataError(f"{path}: {task} has no {judge} between 0 and 1 for each document to judge it by.")
    for metric in rates:
        values = np.array([float(row[metric]) for row in rows.values()])
        known = confidences if metric == judge else {}
        if np.isin(values, (0.0, 1.0)).all():
            yield Scored(task, answers, metric, values == 1.0, origin, known, list(rows))
        elif known:
            raise DataError(
                f"{path}: {metric} is not 0 or 1 for each document, so nothing can be calibrated."
            )
        else:
            yield Scored(task, answers, metric, (float(values.mean()), values.size), origin)


def _chosen(path: Path, row: Row) -> float:
    """The probability of the chosen one among the choices of a document."""
    number, asked = row["doc_id"], _asked(row)
    try:
        sums = [float(value) for ((value, _),) in row["resps"]]
        # Choices without the question serve a metric of their own (acc_mutual_info).
        known = [
            (one, value)
            for one, value in zip(asked, sums, strict=True)
            if one["arg_0"] or not asked[0]["arg_0"]
        ]
    except (TypeError, ValueError):
        _refuse(path, number, "does not hold one sum of log-probabilities for each choice")
    values = np.array([value for _, value in known])
    if values.size < 2 or not np.all(np.isfinite(values)) or np.any(values > 0.0):
        _refuse(path, number, f"has {values.tolist()} in place of the log-probabilities of its choices")
    # Of texts of which none begins with another one, at most one can come.
    texts = sorted(str(one["arg_1"]) for one, _ in known)
    apart = len({one["arg_0"] for one, _ in known}) == 1 and not any(
        other.startswith(one) for one, other in pairwise(texts)
    )
    if not values.any() or (apart and np.exp(values).sum() > _MOST_TOGETHER):
        _refuse(
            path,
            number,
            "has choices that are together more than certain: the server left out log-probabilities of the "
            "prompt (`echo` with `logprobs`), so the file says nothing. Run it again with another server",
        )
    target, best = row["target"], int(np.argmax(values))
    if target.isdecimal() and row.get("acc") != float(best == int(target)):
        _refuse(
            path, number, f"has the accuracy {row.get('acc')}, which is not that of its sums and its target"
        )
    return float(softmax(values)[best])


def _logprobs(path: Path, number: int, row: Row) -> list[float]:
    """Our field of a line: the log-probability of each token of its only text."""
    texts = row["resps"][0] if len(row["resps"]) == 1 else ()
    if not isinstance(texts, list) or len(texts) != 1:
        _refuse(path, number, "has several texts, and `logprobs` is of one")
    return _checked_logprobs(path, number, row.get("logprobs"))


def _origin(path: Path, task: str, date: str, task_hash: str) -> str:
    """Model, version, shots and hash of a task, from the results beside its samples."""
    beside = sorted(path.parent.glob(f"*_{date}.json")) if date else []
    if not beside:
        return f"lm-eval; model, version, shots unknown: no results beside {path.name}; hash {task_hash[:16]}"
    results = _document(beside[0])
    try:
        expected, model = results["task_hashes"].get(task, task_hash), results["model_name"]
        origin = (
            f"lm-eval {results['lm_eval_version']}, {model}, {task}@{results['versions'][task]}, "
            f"{results['n-shot'][task]}-shot, hash {task_hash[:16]}"
        )
    except (KeyError, TypeError, AttributeError) as error:
        raise DataError(f"{beside[0]} is no results file of lm-eval 0.4: {error} is missing.") from error
    if expected != task_hash:
        raise DataError(
            f"{path} is not the file that {beside[0].name} was written with: the hash of {task} differs, as "
            "some of its lines are missing or of another run."
        )
    return origin


# bigcode-evaluation-harness


def _bigcode_results(path: Path, results: Mapping[str, Any]) -> Iterator[Scored]:
    names = "model", "prompt", "n_samples", "temperature", "limit"
    config = results["config"]
    said = [f"{name} {config[name]}" for name in names if config.get(name) is not None]
    for task in results.keys() - {"config"} or [""]:
        metrics = results.get(task)
        if not isinstance(metrics, dict) or not metrics or not all(map(_is_rate, metrics.values())):
            raise DataError(f'{path} has no pass rates, such as {{"humaneval": {{"pass@1": 0.5}}}}.')
        texts = path.with_name(f"generations_{task}.json")
        n = len(_texts(texts, _document(texts))) if texts.exists() else None
        for metric, rate in metrics.items():
            yield Scored(task, "text", metric, (float(rate), n), ", ".join(("bigcode", *said)))


def _generations(path: Path, document: object) -> Scored:
    """Texts with our fields `passed` and `logprobs`: without them there is no verdict of a text."""
    samples = [(number, one) for number, texts in enumerate(_texts(path, document)) for one in texts]
    for number, one in samples:
        if not isinstance(one, dict) or not isinstance(one.get("passed"), bool):
            _refuse(
                path,
                number,
                "has no verdict: bigcode-evaluation-harness keeps none. Name its evaluation_results.json for "
                'pass rates. For calibration replace each text by {"text": ..., "passed": true, "logprobs": '
                "[...]}",
            )
    found = [_checked_logprobs(path, number, one.get("logprobs")) for number, one in samples]
    passed = np.array([one["passed"] for _, one in samples])
    task = path.stem.removeprefix("generations_")
    groups = [number for number, _ in samples]
    return Scored(task, "text", "tests", passed, "bigcode, logprobs added", _of_texts(found), groups)


def _texts(path: Path, document: object) -> list[list[Any]]:
    """The samples of each problem, in the order of the data set."""
    if (
        not isinstance(document, list)
        or not document
        or not all(
            isinstance(of_one, list) and of_one and all(isinstance(text, (str, dict)) for text in of_one)
            for of_one in document
        )
    ):
        raise DataError(
            f"{path} is no generations file of bigcode-evaluation-harness: a list of problems, each a list "
            "of at least one text. A run that was stopped leaves one that is not whole."
        )
    return document


# Both


def _checked_logprobs(path: Path, number: int, found: object) -> list[float]:
    if not isinstance(found, list) or not all(
        type(one) in (int, float) and _LEAST <= one <= 0 for one in found
    ):
        _refuse(
            path, number, "has no `logprobs`: the log-probability of each token of its text, none above 0"
        )
    return [float(one) for one in found]


def _of_texts(logprobs: Sequence[Sequence[float]]) -> dict[str, FloatArray]:
    """The studies' confidences: of all tokens together, and of one by their geometric mean. A text without a
    token has the confidence 0."""
    total = np.array([math.exp(sum(found)) if found else 0.0 for found in logprobs])
    mean = np.array([math.exp(sum(found) / len(found)) if found else 0.0 for found in logprobs])
    return {"total": total, "geometric mean": mean}


def _is_rate(value: object) -> bool:
    return isinstance(value, (int, float)) and 0.0 <= value <= 1.0


def _document(path: Path) -> Any:
    try:
        return parse_json(read_file(path))
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror or error}.") from error
    except ValueError as error:
        raise DataError(f"{path} is not JSON ({error}). A run that was stopped leaves it cut off.") from error


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _refuse(path: Path, number: int, what: str) -> NoReturn:
    raise DataError(f"{path}, document {number}, {what}.")
