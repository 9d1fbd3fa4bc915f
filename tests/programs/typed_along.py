"""What a probability is worth while its suggestion is typed: tables and a picture of models/records/lines.

    python tests/programs/typed_along.py            # the tables
    python tests/programs/typed_along.py --write    # and into the page, with the picture

The folder with the sets of `lsp-calib data pull` is LSP_CALIB_DATA. No model decodes anything: a record gives
the suggestion, its source the line that was to be written, and that line is typed character by character for
as long as it agrees. Each such moment is compared with whether the line came out as suggested: once with the
probability that the suggestion began with, and once with that of the moment. Of the blind projects the curves
are the shipped ones; of the others they have not seen the line's project, or its language.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import attrs
import numpy as np
from pages import written
from sure_parts import FOLDS, MODELS, Line, fit, lines_of, loaded, predicted

from lsp_calib.calibration.arrays import BoolArray, FloatArray, IntArray
from lsp_calib.calibration.calibrators.line_curves import PREFIXES, PrefixCurve
from lsp_calib.calibration.scores import expected_calibration_error, skill_score
from lsp_calib.calibration.tiers import PRESETS
from lsp_calib.calibration.validation import grouped_folds
from lsp_calib.corpus.records import Header
from lsp_calib.studies.statistics import simultaneous_errors

PAGE = MODELS / "records" / "lines" / "README.md"
PICTURE = MODELS.parent / "docs" / "img" / "typed-along.png"
BINS = ((1, 4), (5, 8), (9, 14), (15, 999))
ACCEPT, REJECT = PRESETS["balanced"].accept_from, PRESETS["balanced"].reject_below
NAMES = {"smollm2-135m": "SmolLM2", "qwen2.5-coder-1.5b": "Qwen"}
_RESAMPLES = 500


@attrs.frozen(eq=False)
class Moments:
    """Moments at which characters were typed along. Arrays of shape (n,): the number of the line, that of its
    project, the characters, the probability at first and then, and whether the line was right."""

    line: IntArray
    project: IntArray
    typed: IntArray
    first: FloatArray
    then: FloatArray
    right: BoolArray

    @classmethod
    def of(cls, lines: Sequence[tuple[Line, PrefixCurve]]) -> Moments:
        projects = {name: at for at, name in enumerate(sorted({line.project for line, _ in lines}))}
        rows: list[tuple[float, ...]] = []
        for at, (line, curve) in enumerate(lines):
            sures = predicted(curve, line)
            for typed in range(1, line.agrees + 1 if sures else 1):
                p, _ = curve.typed_along(sures, line.whole, typed, line.length)
                rows.append((at, projects[line.project], typed, line.whole, p, line.correct))
        table = np.array(rows, dtype=np.float64)
        line, project, typed = table[:, :3].astype(np.int64).T
        return cls(line, project, typed, table[:, 3], table[:, 4], table[:, 5] > 0.0)

    def where(self, mask: BoolArray) -> Moments:
        return Moments(*(getattr(self, field.name)[mask] for field in attrs.fields(Moments)))

    def between(self, least: int, most: int) -> Moments:
        return self.where((self.typed >= least) & (self.typed <= most))

    def one_each(self) -> Moments:
        """The first moment of each line."""
        _, first = np.unique(self.line, return_index=True)
        mask = np.zeros(self.line.size, np.bool_)
        mask[first] = True
        return self.where(mask)

    def lowest(self, statistic: Callable[[Moments], float | None]) -> float | None:
        """The lower bound of a 95 % interval, by bootstrap over projects."""
        rng = np.random.default_rng(0)
        names = np.unique(self.project)
        places = {name: np.flatnonzero(self.project == name) for name in names}
        drawn = [
            statistic(self.where(np.concatenate([places[name] for name in rng.choice(names, names.size)])))
            for _ in range(_RESAMPLES)
        ]
        found = [one for one in drawn if one is not None]
        return float(np.quantile(found, 0.025)) if found else None


def _right(moments: Moments) -> float | None:
    return float(moments.right.mean()) if moments.right.size else None


def _percent(share: float | None) -> str:
    return "" if share is None else f"{100 * share:.0f} %"


def accepted(moments: Moments, p: FloatArray) -> str:
    """The share that is accepted, and how much of it is right; its lower bound by lines and projects."""
    taken = moments.where(p >= ACCEPT)
    if not taken.right.size:
        return "0 %"
    once = taken.one_each()
    bound = _percent(once.lowest(_right))
    return (
        f"{_percent(taken.right.size / moments.right.size)} @ {_percent(_right(taken))} "
        f"(≥ {bound}, {once.right.size} lines)"
    )


def rejected(moments: Moments, p: FloatArray) -> str:
    return _percent(_right(moments.where(p < REJECT)))


def ece(moments: Moments, p: FloatArray) -> float:
    return float(expected_calibration_error(p, moments.right))


HEAD = (
    "| records | moments, lines | right | skill: first, then | ECE: first, then | accepted @ right: first "
    "| then | right of rejected: first, then |\n|---|--:|--:|--:|--:|---|---|--:|"
)
HEAD_BINS = (
    "| records | typed | promised at first, then; right | accepted @ right: first | then "
    "| right of rejected: first, then |\n|---|--:|--:|---|---|--:|"
)


def row(name: str, moments: Moments) -> str:
    of = (moments.first, moments.then)
    skills = ", ".join(f"{skill_score(p, moments.right):+.3f}" for p in of)
    errors = ", ".join(f"{ece(moments, p):.3f}" for p in of)
    lines = np.unique(moments.line).size
    cells = [name, f"{moments.right.size:,}, {lines:,}", _percent(_right(moments)), skills, errors]
    cells += [accepted(moments, p) for p in of]
    cells += [", ".join(rejected(moments, p) for p in of)]
    return f"| {' | '.join(cells)} |"


def rows_by_characters(name: str, moments: Moments) -> Iterator[str]:
    for least, most in BINS:
        found = moments.between(least, most)
        if not found.right.size:
            continue
        typed = f"{least} and more" if most > 100 else f"{least} to {most}"
        promised = f"{found.first.mean():.2f}, {found.then.mean():.2f}; {found.right.mean():.2f}"
        cells = [name, typed, promised, *(accepted(found, p) for p in (found.first, found.then))]
        cells += [", ".join(rejected(found, p) for p in (found.first, found.then))]
        yield f"| {' | '.join(cells)} |"


def unseen(header: Header, lines: Sequence[Line], groups: Sequence[str]) -> list[tuple[Line, PrefixCurve]]:
    """Each line with a curve that has not seen its group."""
    fold = grouped_folds(np.array(groups), min(FOLDS, len(set(groups))))
    found: list[tuple[Line, PrefixCurve]] = []
    for k in range(int(fold.max()) + 1):
        curve = fit(header, [line for line, f in zip(lines, fold, strict=True) if f != k])
        found += [(line, curve) for line, f in zip(lines, fold, strict=True) if f == k]
    return found


def conditions(found: Sequence[tuple[Line, PrefixCurve]]) -> Mapping[str, list[tuple[Line, PrefixCurve]]]:
    kinds = dict.fromkeys(line.condition for line, _ in found)
    return {kind: [pair for pair in found if pair[0].condition == kind] for kind in kinds}


def tables() -> tuple[str, str, list[tuple[str, Moments]]]:
    """The tables of the page as Markdown, the rows that are not there, and the moments of the blind projects
    by model."""
    wide, narrow, blind, more = [HEAD], [HEAD_BINS], [], [HEAD]
    for header, stem, lines in loaded(True, lines_of):
        if not stem.endswith("-large"):
            continue  # too few lines for the rows by characters
        curve = PrefixCurve.load(MODELS / PREFIXES / f"{stem}.json")
        moments = Moments.of([(line, curve) for line in lines])
        name = NAMES[header.model.name]
        blind.append((name, moments))
        wide += [row(f"{name}, blind", moments), row(f"{name}, blind, from 9 on", moments.between(9, 999))]
        narrow += rows_by_characters(f"{name}, blind", moments)
        limit = simultaneous_errors(moments.then, moments.right, {"all": moments.right | True})["all"].limit
        print(f"{name}: limit of the ECE if moments were independent: {limit:.3f}", flush=True)
    for header, stem, lines in loaded(False, lines_of):
        name = f"{NAMES[header.model.name]}, {'large' if stem.endswith('large') else 'small'} window"
        found = unseen(header, lines, [line.project for line in lines])
        moments = Moments.of(found)
        wide.append(row(name, moments))
        more += [row(f"{name}, {kind}", Moments.of(of)) for kind, of in conditions(found).items()]
        more += rows_by_characters(name, moments)
        languages = [line.language for line in lines]
        if len(set(languages)) > 1:
            left_out = unseen(header, lines, languages)
            for language in dict.fromkeys(languages):
                of = [pair for pair in left_out if pair[0].language == language]
                more.append(row(f"{name}, {language} left out", Moments.of(of)))
        print(f"{name}: done", flush=True)
    return "\n".join((*wide, "", *narrow)), "\n".join(more), blind


def draw(blind: Sequence[tuple[str, Moments]], path: Path) -> None:
    """Promised against right by characters typed, before and after, one panel for each model."""
    from matplotlib.figure import Figure

    from lsp_calib.studies.figures import FIRST, INK, SECOND, panels, save

    def figure() -> Figure:
        found, each = panels(6.4, 2.6, 1, len(blind), sharey=True)
        for axes, (name, moments) in zip(each, blind, strict=True):
            groups = [moments.between(k, k + 2) for k in range(1, 28, 3)]
            at = [float(one.typed.mean()) for one in groups]
            axes.plot(at, [one.right.mean() for one in groups], "o", color=INK, ms=3, label="right")
            axes.plot(at, [one.then.mean() for one in groups], color=FIRST, label="promised")
            old = [one.first.mean() for one in groups]
            axes.plot(at, old, "--", color=SECOND, label="promised at first")
            axes.set_title(name, color=INK, fontsize=8)
            axes.set_xlabel("characters typed along", color=INK, fontsize=8)
            axes.set_ylim(0, 1)
        axes.legend(fontsize=7, frameon=False, labelcolor=INK)
        return found

    save(figure, path, "Promised against right by characters typed, blind projects")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--write", action="store_true", help="write the page and the picture as well")
    options = parser.parse_args()
    found, more, blind = tables()
    print(f"{found}\n\n{more}")
    if options.write:
        PAGE.write_text(written(PAGE.read_text("utf-8"), {"typed along": found}), "utf-8")
        draw(blind, PICTURE)


if __name__ == "__main__":
    main()
