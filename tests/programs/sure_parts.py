"""How far a line can be trusted: fits the shipped curves, and says what they are worth, from records alone.
`tests/programs/typed_along.py` says what they are worth while a line is typed.

    python tests/programs/sure_parts.py            # the tables
    python tests/programs/sure_parts.py --write    # and models/prefixes/*.json, from records and sources
    python tests/programs/sure_parts.py --blind    # models/records/blind/README.md: the shipped curves

The folder with the sets of `lsp-calib data pull` is LSP_CALIB_DATA. No model decodes anything: a record holds
the ids of its tokens, and the source the line that was to be written. What is promised of a line is by a
curve that has not seen the line's project; in a row of a language, not its language.
"""

from __future__ import annotations

import argparse
import functools
import itertools
import json
import math
import os
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TypeVar

import attrs
import numpy as np
from msgspec.structs import replace
from offered_lines import shipped_for

from lsp_calib.calibration.arrays import BoolArray, FloatArray, IntArray
from lsp_calib.calibration.calibrators.calibrator import Calibrator, Weighted
from lsp_calib.calibration.calibrators.line_curves import NAMES, PREFIXES, PrefixCurve, TypedAlong, agreement
from lsp_calib.calibration.document import written
from lsp_calib.calibration.logistic import fit_standardised, log_odds, maximise_posterior, sigmoid
from lsp_calib.calibration.reliability import wilson_interval
from lsp_calib.calibration.tiers import PRESETS
from lsp_calib.calibration.validation import grouped_folds
from lsp_calib.completion.service import longest
from lsp_calib.confidence.features import PLACES, PREFIX_VERSION, Prefix, prefixes
from lsp_calib.corpus.rebuilding import Rebuilt, rebuild
from lsp_calib.corpus.records import Header, read_records
from lsp_calib.inference.local.native import read_pieces
from lsp_calib.inference.models.cards import locate
from lsp_calib.values import Sure

MODELS = Path(__file__).resolve().parents[2] / "models"
# Standard deviation of the weights of standardised features, in nats.
SPREAD = 1.0
LEAST = 4
"""In characters: a shorter part is not worth a key."""
FOLDS = 5
_CLIP = 1e-6
_WORD = re.compile(r"[^\W\d]\w*")
T = TypeVar("T")


@attrs.frozen(eq=False)
class Line:
    """An offered line. whole: its probability, by a calibrator that has not seen its project. places: of the
    text, up to which it can be taken. right: of each, whether the line that was to be written begins so.
    agrees: how many characters of the text can be typed before the last one."""

    language: str
    project: str
    condition: str
    place: str
    agrees: int
    correct: bool
    whole: float
    text: str
    places: list[Prefix]
    right: list[bool]

    @property
    def length(self) -> int:
        return len(self.text)


def is_right_up_to(rebuilt: Rebuilt, end: int) -> bool:
    """Whether the line that was to be written begins as it would with this part of the text."""
    before = rebuilt.item.cursor.before
    return (before + rebuilt.item.target).lstrip().startswith((before + rebuilt.text[:end]).strip())


def agrees(rebuilt: Rebuilt) -> int:
    """How many characters of the text are typed as one types the line that was to be written, while something
    of it is left."""
    text = rebuilt.text.rstrip()
    pairs = zip(text[:-1], rebuilt.item.target, strict=False)
    return sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], pairs))


def whole_lines(header: Header, rebuilt: Sequence[Rebuilt], calibrator: Calibrator) -> FloatArray:
    """The probabilities of whole lines, by the weights of the calibrator fitted again without the projects of
    each fold; by the calibrator itself where it was not fitted on these, or adapted by two numbers alone."""
    evidences = [one.record.evidence(header) for one in rebuilt]
    curve = calibrator.curves[0]
    own = {f"{origin.name}-{origin.version}" for origin in calibrator.provenance}
    groups = [one.record.group for one in rebuilt]
    if curve.shift is not None or own.isdisjoint(groups):
        return calibrator.probabilities(evidences)
    places = np.array([[float(one.place == place) for place in PLACES] for one in evidences])
    table = np.column_stack((curve.standardised(evidences), places))
    correct = np.array([one.record.correct["exact"] for one in rebuilt])
    found = np.full(len(rebuilt), math.nan)
    fold = grouped_folds(groups, FOLDS)
    for k in range(FOLDS):
        weights, intercept, means, scales = _fitted(table[fold != k], correct[fold != k])
        found[fold == k] = sigmoid((table[fold == k] - means) / scales @ weights + intercept)
    return found


def _fitted(table: FloatArray, right: BoolArray) -> tuple[FloatArray, float, FloatArray, FloatArray]:
    return fit_standardised(table, right, np.ones(right.size), SPREAD)


def offered(path: Path, sources: Path, calibrator: Calibrator) -> tuple[Header, list[tuple[Rebuilt, float]]]:
    """The offered lines of a file of records, each with the probability of the whole line."""
    header, records = read_records(path)
    card, _ = locate(header.model.name)
    shown = [record for record in records if record.shown and not record.doubt and record.entropies]
    pieces = pieces_of(header.model.name)
    rebuilt = list(rebuild(header, shown, sources, card, pieces))
    whole = whole_lines(header, rebuilt, calibrator).tolist()
    return header, list(zip(rebuilt, whole, strict=True))


def lines_of(path: Path, sources: Path, calibrator: Calibrator) -> list[Line]:
    """The offered lines of a file of records."""
    header, rebuilt = offered(path, sources, calibrator)
    found: list[Line] = []
    for one, whole in rebuilt:
        cursor = one.item.cursor
        others = (*cursor.lines[: cursor.line], *cursor.lines[cursor.line + 1 :])
        words = {word for line in others for word in _WORD.findall(line)}
        places = prefixes(one.answer, one.text, cursor.before, words)
        right = [is_right_up_to(one, place.end) for place in places]
        record = one.record
        found.append(
            Line(
                language=header.language,
                project=record.group,
                condition=record.condition,
                place=record.stratum,
                agrees=agrees(one),
                correct=record.correct["exact"],
                whole=whole,
                text=one.text,
                places=places,
                right=right,
            )
        )
    return found


@functools.cache
def pieces_of(model: str) -> list[bytes]:
    return read_pieces(locate(model)[1])


def table_of(lines: Sequence[Line]) -> tuple[FloatArray, BoolArray, IntArray]:
    """What a curve weighs at all places of the lines, whether they are right up to there, and the number of
    the line."""
    rows: list[tuple[float, ...]] = []
    for line in lines:
        p = min(max(line.whole, _CLIP), 1.0 - _CLIP)
        about = (math.log(p / (1.0 - p)), *(float(line.place == place) for place in PLACES))
        rows += [(*place.values, *about) for place in line.places]
    right = np.array([right for line in lines for right in line.right], dtype=np.bool_)
    at = np.repeat(np.arange(len(lines)), [len(line.places) for line in lines])
    return np.array(rows), right, at


def fit(header: Header, lines: Sequence[Line]) -> PrefixCurve:
    """The curve of lines that are wrong as a whole. Nine digits of each number: further ones depend on the
    processor."""
    wrong = [line for line in lines if not line.correct]
    table, right, _ = table_of(wrong)
    weights, intercept, means, scales = _fitted(table, right)
    numbers = zip(NAMES, means.tolist(), scales.tolist(), weights.tolist(), strict=True)
    features = tuple(Weighted(name, *(float(f"{n:.9g}") for n in row)) for name, *row in numbers)
    curve = PrefixCurve(
        version=PREFIX_VERSION,
        model=header.model,
        prompt_version=header.prompt_version,
        n=right.size,
        n_right=int(np.count_nonzero(right)),
        intercept=float(f"{intercept:.9g}"),
        features=features,
        typed=TypedAlong(0.0, 0.0, 0.0, 0, 0),
    )
    return replace(curve, typed=fit_typed(curve, lines))


def fit_typed(curve: PrefixCurve, lines: Sequence[Line]) -> TypedAlong:
    """What agreement says, of all moments at which a beginning of a line was typed. Each line has the same
    weight at each of its characters, 1 by all of them: how many of them agree is part of the outcome."""
    tables, scores, right, weights = [], [], [], []
    for line in lines:
        if not line.agrees:
            continue
        sures = predicted(curve, line)
        ends, p = [one.end for one in sures], [one.confidence for one in sures]
        if not ends or ends[-1] < line.length:
            ends, p = [*ends, line.length], [*p, line.whole]
        counts = np.arange(1, line.agrees + 1)
        tables.append(agreement(counts, ends, p, [line.length], [line.whole])[0])
        scores.append(np.full(counts.size, log_odds(line.whole)))
        right.append(np.full(counts.size, line.correct))
        weights.append(np.full(counts.size, 1.0 / line.length))
    labels = np.concatenate(right)
    found, _ = maximise_posterior(
        np.concatenate(tables),
        labels.astype(np.float64),
        np.concatenate(weights),
        np.zeros(3),
        np.full(3, SPREAD**-2),
        np.concatenate(scores),
    )
    characters, share, quotient = (float(f"{n:.9g}") for n in found)
    return TypedAlong(characters, share, quotient, labels.size, int(np.count_nonzero(labels)))


def predicted(curve: PrefixCurve, line: Line) -> list[Sure]:
    found = curve.probabilities(line.places, line.whole, line.place)
    return [Sure(place.end, p) for place, p in zip(line.places, found, strict=True)]


def out_of_fold(
    header: Header, lines: Sequence[Line], kept: Sequence[str]
) -> Iterator[tuple[Line, list[Sure]]]:
    """Each line with what is promised of its places, by a curve of other groups. kept: each line's group."""
    fold = grouped_folds(np.array(kept), min(FOLDS, len(set(kept)))) if len(set(kept)) > 1 else None
    if fold is None:
        return
    for k in range(int(fold.max()) + 1):
        curve = fit(header, [line for line, f in zip(lines, fold, strict=True) if f != k])
        for line, f in zip(lines, fold, strict=True):
            if f == k:
                yield line, predicted(curve, line)


def wilson(right: int, n: int) -> str:
    """A share with its 95 % interval, in percent."""
    if not n:
        return ""
    low, high = wilson_interval(right, n)
    return f"{100 * right / n:.0f} % ({100 * low:.0f} to {100 * high:.0f})"


@attrs.frozen
class Worth:
    """What parts are worth from a threshold on. of: lines that are not accepted as a whole. parts: of which
    there is a part. promised: the mean. whole, more: characters of accepted lines, and of the parts."""

    of: int
    parts: int
    right: int
    promised: float
    whole: int
    more: int

    @classmethod
    def at(cls, accept_from: float, found: Sequence[tuple[Line, list[Sure]]]) -> Worth:
        rest = [(line, sures) for line, sures in found if line.whole < accept_from]
        taken: list[tuple[Line, Sure]] = []
        for line, sures in rest:
            sure = longest(sures, accept_from, line.text)
            if sure is not None and sure.end >= LEAST:
                taken.append((line, sure))
        right = [
            next(r for place, r in zip(line.places, line.right, strict=True) if place.end == sure.end)
            for line, sure in taken
        ]
        return cls(
            len(rest),
            len(taken),
            sum(right),
            sum(sure.confidence for _, sure in taken) / max(len(taken), 1),
            sum(len(line.text) for line, _ in found if line.whole >= accept_from),
            sum(sure.end for _, sure in taken),
        )

    def row(self, name: str) -> str:
        cells = (name, self.of, wilson(self.parts, self.of), wilson(self.right, self.parts))
        more = (f"{100 * self.promised:.0f} %", f"{self.whole:,}", f"{self.more:,}")
        return "| " + " | ".join(map(str, (*cells, *more))) + " |"


HEAD = (
    "| records | not accepted as a whole | of these with a part | right up to there | promised | "
    "characters in accepted lines | and in parts |\n|---|--:|--:|--:|--:|--:|--:|"
)


def deciles(found: Sequence[tuple[Line, list[Sure]]]) -> str:
    """Promised against right of all beginnings of `LEAST` characters or more, by tenth of the promise."""
    pairs = [
        (sure.confidence, right)
        for line, sures in found
        for sure, right in zip(sures, line.right, strict=True)
        if sure.end >= LEAST
    ]
    pairs.sort(key=lambda pair: pair[0])
    rows = ["| promised | right | places |", "|--:|--:|--:|"]
    for part in np.array_split(np.array(pairs, dtype=np.float64), 10):
        promised, right = part.mean(axis=0)
        rows.append(f"| {promised:.2f} | {right:.2f} | {len(part)} |")
    return "\n".join(rows)


def records_of(folders: Sequence[str]) -> dict[tuple[str, str], list[Path]]:
    """The files of records by model and version of the prompt, Python first."""
    found: dict[tuple[str, str], list[Path]] = {}
    for folder in folders:
        for path in sorted((MODELS / "records" / folder).glob("line-*.jsonl")):
            with path.open(encoding="utf-8") as stream:
                header = Header.from_row(json.loads(stream.readline()))
            found.setdefault((header.model.name, header.prompt_version), []).append(path)
    return found


def loaded(
    blind: bool, read: Callable[[Path, Path, Calibrator], list[T]]
) -> Iterator[tuple[Header, str, list[T]]]:
    """The header, name of the curves and lines of each model and window. read: the lines of a file of records
    from the folder of its sources, for the calibrator that ships for them."""
    data = Path(os.environ["LSP_CALIB_DATA"])
    for paths in records_of(("blind",) if blind else ("lines", "languages")).values():
        lines: list[T] = []
        for path in paths:
            header = read_records(path)[0]
            name = "projects" if header.language == "python" else f"projects-{header.language}"
            lines += read(path, data / ("projects-blind" if blind else name), shipped_for(header))
        yield read_records(paths[0])[0], paths[0].stem, lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--write", action="store_true", help="write the shipped curves as well")
    parser.add_argument("--blind", action="store_true", help="the blind projects, with the shipped curves")
    options = parser.parse_args()
    for header, stem, every in loaded(options.blind, lines_of):
        target = MODELS / PREFIXES / f"{stem}.json"
        if options.write:
            target.parent.mkdir(exist_ok=True)
            target.write_text(json.dumps(written(fit(header, every)), indent=2) + "\n", "utf-8")
        if options.blind:
            shipped = PrefixCurve.load(target)
            found = [(line, predicted(shipped, line)) for line in every]
        else:
            found = list(out_of_fold(header, every, [line.project for line in every]))
        print(f"\n### {header.model.name}, {header.prompt_version}\n\n{HEAD}")
        for name, policy in PRESETS.items():
            print(Worth.at(policy.accept_from, found).row(f"{name} ({100 * policy.accept_from:.0f} %)"))
        groups = [line.language for line in every]
        if len(set(groups)) > 1:
            balanced = PRESETS["balanced"].accept_from
            apart = list(out_of_fold(header, every, groups))
            for language in dict.fromkeys(groups):
                of_it = [pair for pair in apart if pair[0].language == language]
                print(Worth.at(balanced, of_it).row(f"{language}, its language left out"))
        print(f"\n{deciles(found)}", flush=True)


if __name__ == "__main__":
    main()
