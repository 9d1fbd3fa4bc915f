"""What a second answer says of a line, to the prompt of the other window at the same place: fits the shipped
curves, and says what they are worth, from records alone.

    python tests/programs/second_opinion.py            # the table of models/records/lines/README.md
    python tests/programs/second_opinion.py --write    # and models/second/*.json and the page
    python tests/programs/second_opinion.py --blind    # of the blind projects, with the shipped curves
    python tests/programs/second_opinion.py --languages    # of other languages, with the same curves
    python tests/programs/second_opinion.py --tokens    # what it costs: tokens of prompts and answers

The folder with the sets of `lsp-calib data pull` is LSP_CALIB_DATA: the source makes texts of the tokens in
records. No model decodes anything. Places are those of which both windows have records. What is told of the
others is nested: neither the calibrators of the two windows, which are fitted again with the shipped
features, nor the curve have seen a line's project, and the curve is fitted on probabilities that had not seen
theirs. --blind: of each model of which both windows have records of the blind projects. --languages: all
together, by the calibrators in force for them: those of the small window are pooled.
"""

from __future__ import annotations

import argparse
import functools
import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import attrs
import numpy as np
from pages import written as with_tables
from sure_parts import FOLDS, MODELS, SPREAD, pieces_of

from lsp_calib.calibration.arrays import BoolArray, FloatArray, IntArray, quietly
from lsp_calib.calibration.calibrators.calibrator_store import CalibratorStore
from lsp_calib.calibration.calibrators.line_curves import SECOND, OfTwo, SecondOpinion, of_pair
from lsp_calib.calibration.calibrators.purpose import Purpose
from lsp_calib.calibration.document import written
from lsp_calib.calibration.logistic import fit_standardised, sigmoid
from lsp_calib.calibration.scores import auc, skill_score
from lsp_calib.calibration.tiers import PRESETS
from lsp_calib.calibration.validation import (
    Interval,
    bootstrap_difference,
    bootstrap_mean,
    grouped_folds,
    summarise,
)
from lsp_calib.characters import normalised_line
from lsp_calib.commands.calibrate import nine_digits
from lsp_calib.completion.prompt import Layout, build_prompt
from lsp_calib.confidence.features import PLACES
from lsp_calib.corpus.places import INSERTING
from lsp_calib.corpus.rebuilding import answer_of, item_of, rebuild
from lsp_calib.corpus.records import Header, Record, read_records
from lsp_calib.inference.models.cards import locate
from lsp_calib.values import Evidence, Segment

ACCEPT = PRESETS["balanced"].accept_from
NAMES = {"smollm2-135m": "SmolLM2", "qwen2.5-coder-1.5b": "Qwen"}
"""The models that have records of both windows."""


@attrs.frozen(eq=False)
class Window:
    """The offered lines of a file of records: n of them. table: what its calibrator weighs, shape (n, d).
    shipped: the probabilities of the shipped calibrator. at: the number of each by item and condition."""

    header: Header
    records: list[Record]
    table: FloatArray
    correct: BoolArray
    shipped: FloatArray
    texts: list[str]
    at: dict[tuple[str, str], int]

    @classmethod
    def of(cls, path: Path, sources: Path) -> Window:
        header, every = read_records(path)
        purpose = Purpose(header.model, header.prompt_version, "line", header.language)
        calibrator = CalibratorStore(sources / "none", MODELS / "calibrators").choose(purpose).calibrator
        records = [record for record in every if record.shown and not record.doubt and record.entropies]
        evidences = [record.evidence(header) for record in records]
        return cls(
            header,
            records,
            np.column_stack((calibrator.curves[0].standardised(evidences), _places(evidences))),
            np.array([record.correct["exact"] for record in records], dtype=np.bool_),
            calibrator.probabilities(evidences),
            list(texts_of(header, records, sources)),
            {(record.item, record.condition): at for at, record in enumerate(records)},
        )

    @functools.cached_property
    def groups(self) -> list[str]:
        return [record.group for record in self.records]

    def unseen(self, fold: IntArray, folds: Sequence[int]) -> FloatArray:
        """Each line's probability, shape (n,), by weights fitted on these folds alone, its own left out."""
        found = np.empty(fold.size)
        among = np.isin(fold, folds)
        for k in range(int(fold.max()) + 1):
            train = among & (fold != k)
            weights, intercept, means, scales = fit_standardised(
                self.table[train], self.correct[train], np.ones(int(train.sum())), SPREAD
            )
            own = fold == k
            found[own] = sigmoid((self.table[own] - means) / scales @ weights + intercept)
        return found


def _places(evidences: Sequence[Evidence]) -> FloatArray:
    return np.array([[float(one.place == place) for place in PLACES] for one in evidences])


def texts_of(header: Header, records: Sequence[Record], sources: Path) -> Iterator[str]:
    """The text of each record as it is offered today. What the prompt shows of other files does not matter
    here: it is not looked for, which would take minutes."""
    card, _ = locate(header.model.name)
    layout = Layout.named(header.prompt_version, card)
    assert layout is not None, "shipped calibrators are for prompts of today"
    for record in records:
        item = item_of(record, sources, header.language)
        text, _ = answer_of(record, item, pieces_of(header.model.name), build_prompt(item.cursor, layout))
        yield text


@attrs.frozen(eq=False)
class Two:
    """Lines at places that both windows have answered. first, other: their numbers in the windows. same:
    whether both say the same. Arrays of shape (n,), as `right` of the first and of the other one."""

    windows: tuple[Window, Window]
    first: IntArray
    other: IntArray
    same: BoolArray
    groups: list[str]
    conditions: list[str]

    @classmethod
    def of(cls, first: Window, other: Window) -> Two:
        places = [place for place in first.at if place in other.at]
        at, beside = ([window.at[place] for place in places] for window in (first, other))
        same = [
            normalised_line(first.texts[i]) == normalised_line(other.texts[j])
            for i, j in zip(at, beside, strict=True)
        ]
        return cls(
            (first, other),
            np.array(at),
            np.array(beside),
            np.array(same, dtype=np.bool_),
            [first.groups[i] for i in at],
            [condition for _, condition in places],
        )

    @functools.cached_property
    def right(self) -> tuple[BoolArray, BoolArray]:
        one, two = self.windows
        return one.correct[self.first], two.correct[self.other]

    @property
    def shipped(self) -> tuple[FloatArray, FloatArray]:
        one, two = self.windows
        return one.shipped[self.first], two.shipped[self.other]

    @functools.cached_property
    def fold(self) -> IntArray:
        """The fold of each of the lines; `fold_of` has those of projects."""
        return np.array([self.fold_of[group] for group in self.groups])

    @functools.cached_property
    def fold_of(self) -> dict[str, int]:
        """By project: the same for both windows."""
        groups = sorted({*self.windows[0].groups, *self.windows[1].groups})
        return dict(zip(groups, grouped_folds(groups, FOLDS).tolist(), strict=True))

    def unseen(self, folds: Sequence[int]) -> tuple[FloatArray, FloatArray]:
        """The probabilities of both answers, as of `Window.unseen`."""
        first, other = (
            window.unseen(np.array([self.fold_of[group] for group in window.groups]), folds)
            for window in self.windows
        )
        return first[self.first], other[self.other]

    def fit(self, p: tuple[FloatArray, FloatArray], items: BoolArray) -> SecondOpinion:
        """The curves of these items. p: the probabilities of both answers, by fits without their projects."""
        header = self.windows[0].header
        own, beside = (np.array(list(map(of_pair, one.tolist()))) for one in p)
        is_other = own < beside
        first, other = self.right
        apart = items & ~self.same
        surer, less = np.maximum(own, beside), np.minimum(own, beside)

        def of_two(*columns: FloatArray | BoolArray, right: BoolArray, chosen: BoolArray) -> OfTwo:
            table = np.column_stack([column[chosen].astype(np.float64) for column in columns])
            ones = np.ones(int(chosen.sum()))
            weights, intercept, means, scales = fit_standardised(table, right[chosen], ones, SPREAD)
            weights = weights / scales
            n = ones.size, int(np.count_nonzero(right[chosen]))
            return nine_digits(OfTwo(*n, float(intercept - means @ weights), *map(float, weights)))

        return SecondOpinion(
            model=header.model,
            prompt_version=header.prompt_version,
            other_version=self.windows[1].header.prompt_version,
            agreed=of_two(own, beside, right=first, chosen=items & self.same),
            chosen=of_two(surer, less, is_other, right=np.where(is_other, other, first), chosen=apart),
            rest=of_two(less, surer, ~is_other, right=np.where(is_other, first, other), chosen=apart),
        )

    def shipped_curve(self) -> SecondOpinion:
        """What ships: fitted on all lines."""
        return self.fit(self.unseen(range(FOLDS)), np.ones(self.same.size, dtype=np.bool_))

    def judged(self, p: tuple[FloatArray, FloatArray], curve: SecondOpinion, items: BoolArray) -> Judged:
        """These lines, by a curve and probabilities that have not seen their projects."""
        rows = []
        at = np.flatnonzero(items)
        first, other = self.right
        for i in at.tolist():
            a, b = float(p[0][i]), float(p[1][i])
            if self.same[i]:
                both = curve.both_say(a, b)
                rows.append((a, both, both, np.nan, first[i], first[i], False))
                continue
            is_other, best, rest = curve.surer(a, b)
            right = (other[i], first[i]) if is_other else (first[i], other[i])
            rows.append((a, rest if is_other else best, best, rest, first[i], *right))
        return Judged(np.array(rows, dtype=np.float64).reshape(-1, 7), [self.groups[i] for i in at])

    def nested(self) -> Judged:
        found: list[Judged] = []
        for k in range(FOLDS):
            others = [fold for fold in range(FOLDS) if fold != k]
            p = self.unseen(others)
            found.append(self.judged(p, self.fit(p, self.fold != k), self.fold == k))
        return Judged(
            np.vstack([one.rows for one in found]), [group for one in found for group in one.groups]
        )


@attrs.frozen(eq=False)
class Judged:
    """n lines. rows, shape (n, 7): the probability of the first answer by itself, and with the other one
    known; of the surer of both, and of the one behind it (nan where both say the same); whether the first,
    the surer one and that behind it are right."""

    rows: FloatArray
    groups: list[str]

    def row(self, name: str) -> str:
        alone, known, best, rest, first, right, behind = self.rows.T
        y, z = first > 0.0, right > 0.0
        apart = ~np.isnan(rest)
        with quietly():
            gain = bootstrap_difference(skill_score, known, alone, y, self.groups)
            of_surer = summarise(best, z, self.groups)
            cells = [
                f"{name}",
                f"{y.size:,}",
                f"{100 * np.mean(~apart):.0f} %",
                f"{skill_score(alone, y):+.3f}, {skill_score(known, y):+.3f}",
                format(gain, "+.3f"),
                f"{100 * y.mean():.1f} %, {100 * z.mean():.1f} %",
                _points(bootstrap_mean(right - first, self.groups)),
                f"{skill_score(best, z):+.3f}, {auc(best, z):.3f}",
                format(of_surer["ece"], ".3f"),
                f"{accepted(alone, y)}; {accepted(best, z)}",
                f"{100 * rest[apart].mean():.0f} %, {100 * behind[apart].mean():.0f} %",
            ]
        return f"| {' | '.join(cells)} |"


def _points(one: Interval) -> str:
    assert one.value is not None, "of at least one line"
    if one.low is None or one.high is None:
        return f"{100 * one.value:+.1f}"
    return f"{100 * one.value:+.1f} ({100 * one.low:+.1f} to {100 * one.high:+.1f})"


def accepted(p: FloatArray, right: BoolArray) -> str:
    """The share that the balanced preset accepts, and how many of these are right."""
    taken = p >= ACCEPT
    n, good = int(taken.sum()), int(right[taken].sum())
    return f"{100 * n / p.size:.1f} % @ {100 * good / max(n, 1):.1f} %"


HEAD = (
    "| records | lines | both say the same | skill of the first: alone, with the other known | gain (95 %) "
    "| right: the first, the surer | gain in points (95 %) | of the surer: skill, AUC | ECE; if calibrated "
    "| accepted @ right: the first; the surer | the one behind: promised, right |\n"
    "|---|--:|--:|---|---|---|---|---|---|---|---|"
)


def pairs(folder: str) -> Iterator[tuple[Path, Path]]:
    """The files of records in a folder with the windows that each model is asked with, in both orders."""
    for name in NAMES:
        small, large = (MODELS / "records" / folder / f"line-{name}{end}.jsonl" for end in ("", "-large"))
        if small.exists() and large.exists():
            yield from ((large, small), (small, large))


def both(first: Path, other: Path, sources: Path) -> Two:
    read = functools.partial(window, sources=sources)
    return Two.of(read(first), read(other))


def of_languages(data: Path) -> Iterator[str]:
    """Rows of all other languages that have records of both windows, by the curves of Python."""
    found: dict[Path, list[Judged]] = {}
    for small in sorted((MODELS / "records" / "windows").glob("line-*.jsonl")):
        large = MODELS / "records" / "languages" / f"{small.stem}-large.jsonl"
        stem, _, language = small.stem.rpartition("-")
        for first, other, end in ((large, small, "-large"), (small, large, "")):
            two = both(first, other, data / f"projects-{language}")
            curve = small.with_name(f"{stem}{end}.jsonl")
            every = np.ones(two.same.size, dtype=np.bool_)
            judged = two.judged(two.shipped, SecondOpinion.load(target(curve)), every)
            found.setdefault(curve, []).append(judged)
    for curve, each in found.items():
        rows, groups = np.vstack([one.rows for one in each]), [group for one in each for group in one.groups]
        yield Judged(rows, groups).row(f"{name_of(curve)}, other languages")


@functools.cache
def window(path: Path, sources: Path) -> Window:
    return Window.of(path, sources)


_EACH = 8
"""Of so many places in finished lines the tokens of one are counted."""


def tokens(path: Path, sources: Path) -> str:
    """How many tokens prompts and answers have, by the vocabulary of the model alone."""
    import llama_cpp

    header, every = read_records(path)
    records = [one for one in every if one.condition == INSERTING and one.shown][::_EACH]
    card, file = locate(header.model.name)
    vocabulary: Any = llama_cpp.Llama(str(file), vocab_only=True, verbose=False)

    def count(kind: Segment, text: str) -> int:
        if kind is Segment.CONTROL:
            return 1
        return len(vocabulary.tokenize(text.encode(), add_bos=False, special=False))

    rebuilt = rebuild(header, records, sources, card, pieces_of(header.model.name))
    prompts = [sum(count(*segment) for segment in one.prompt.segments) for one in rebuilt]
    cells = (f"{np.median(of):.0f}, {np.quantile(of, 0.95):.0f}" for of in (prompts, lengths(records)))
    return f"| {name_of(path)} | {len(records)} | {' | '.join(cells)} |"


def lengths(records: Sequence[Record]) -> list[int]:
    return [len(record.tokens) for record in records]


def target(first: Path) -> Path:
    return MODELS / SECOND / f"{first.stem}.json"


def name_of(first: Path) -> str:
    model = first.stem.removeprefix("line-").removesuffix("-large")
    return f"{NAMES[model]}, {'large' if first.stem.endswith('-large') else 'small'} window"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("--write", action="store_true", help="write the shipped curves and the page as well")
    parser.add_argument("--blind", action="store_true", help="the blind projects, with the shipped curves")
    parser.add_argument("--languages", action="store_true", help="other languages, with the same curves")
    parser.add_argument("--tokens", action="store_true", help="tokens of prompts and answers")
    options = parser.parse_args()
    data = Path(os.environ["LSP_CALIB_DATA"])
    if options.tokens:
        print("| records | places | tokens of a prompt (median, p95) | of an answer |\n|---|--:|--:|--:|")
        for first, _ in pairs("lines"):
            print(tokens(first, data / "projects"), flush=True)
        return
    if options.languages:
        print("\n".join((HEAD, *of_languages(data))))
        return
    rows = [HEAD]
    for first, other in pairs("blind" if options.blind else "lines"):
        two = both(first, other, data / ("projects-blind" if options.blind else "projects"))
        every = np.ones(two.same.size, dtype=np.bool_)
        if options.blind:
            found = two.judged(two.shipped, SecondOpinion.load(target(first)), every)
        else:
            found = two.nested()
        rows.append(found.row(name_of(first)))
        if options.write and not options.blind:
            target(first).parent.mkdir(exist_ok=True)
            text = json.dumps(written(two.shipped_curve()), indent=2) + "\n"
            target(first).write_text(text, "utf-8")
    table = "\n".join(rows)
    print(table)
    if options.write and len(rows) > 1:
        page = MODELS / "records" / ("blind" if options.blind else "lines") / "README.md"
        block = f"second opinion{', blind' if options.blind else ''}"
        page.write_text(with_tables(page.read_text("utf-8"), {block: table}), "utf-8")


if __name__ == "__main__":
    main()
