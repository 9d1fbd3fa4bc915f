"""How much is lost by not knowing the truth: Platt scaling here against other ways, on simulated truths.

The excess log-loss of a calibrator is its expected log loss less that of the true probabilities, in nats: 0
is perfect, and it needs no labels to be computed where the truth is known. `measure` runs the simulation and
`write_page` writes the page, both seeded. The comparison needs scikit-learn (extra `dev`).

    python tests/programs/excess_loss.py --help
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import attrs
import click
import numpy as np
from data_generating_processes import CALIBRATED, HELD_OUT, TRUTHS, Truth
from excess_methods import METHODS, Method
from threadpoolctl import threadpool_limits

from lsp_calib.calibration.arrays import BoolArray, FloatArray
from lsp_calib.calibration.logistic import CLIP, sigmoid, sigmoid_and_loss

PAGE = Path(__file__).parents[2] / "docs" / "excess-loss.md"
COMMAND = "python tests/programs/excess_loss.py"

SIZES = (0, 5, 10, 20, 50, 200, 1000, 10000)

# The number of data sets falls with their size, as the spread of what is measured does.
REPLICATIONS = 1000


def replications(n: int, most: int = REPLICATIONS) -> int:
    """How many data sets of n labels: `most` up to n = 50, a tenth of it at 10,000, at least 2; 1 for n =
    0."""
    return 1 if n == 0 else max(2, int(most * (1.0 if n <= 50 else 0.5 if n <= 1000 else 0.1)))


@attrs.frozen(eq=False)
class Excess:
    """Excess log-loss in nats.

    truths, methods, sizes: names of the axes. mean, error: float arrays of shape (sizes, methods, truths):
    the mean over data sets and its standard error. All methods see the same data sets.
    """

    truths: tuple[str, ...]
    methods: tuple[str, ...]
    sizes: tuple[int, ...]
    mean: FloatArray
    error: FloatArray

    def over_truths(self, of: Sequence[str]) -> tuple[FloatArray, FloatArray]:
        """Mean and its standard error over the truths `of`; each of shape (sizes, methods)."""
        at = [self.truths.index(name) for name in of]
        chosen, errors = self.mean[:, :, at], self.error[:, :, at]
        return chosen.mean(axis=2), np.sqrt(np.sum(errors**2, axis=2)) / len(at)

    def worst(self, of: Sequence[str]) -> tuple[FloatArray, FloatArray]:
        """The mean at the truth where it is highest, with its error; each of shape (sizes, methods)."""
        at = [self.truths.index(name) for name in of]
        chosen = self.mean[:, :, at]
        highest = np.argmax(chosen, axis=2)[:, :, None]
        errors = np.take_along_axis(self.error[:, :, at], highest, axis=2)
        return np.take_along_axis(chosen, highest, axis=2)[:, :, 0], errors[:, :, 0]

    def of(self, method: str, truth: str, n: int) -> float:
        """One mean."""
        at = self.sizes.index(n), self.methods.index(method), self.truths.index(truth)
        return float(self.mean[at])


def excess_log_loss(predicted: FloatArray, true_log_odds: FloatArray) -> float:
    """Mean over the points of the Kullback-Leibler divergence of predicted from true probabilities, in nats.

    predicted: probabilities, shape (k,); they count as no nearer than 1e-6 to 0 and 1 (which is kind to
    methods that say 0 or 1). true_log_odds: shape (k,).
    """
    p = np.clip(predicted, CLIP, 1.0 - CLIP)
    truth = sigmoid(true_log_odds)
    _, least = sigmoid_and_loss(true_log_odds, truth)
    loss = -truth * np.log(p) - (1.0 - truth) * np.log1p(-p)
    return max(0.0, float(np.mean(loss - least)))  # below 0 only by rounding


def measure(
    *,
    sizes: Sequence[int] = SIZES,
    methods: Mapping[str, Method] = METHODS,
    most: int = REPLICATIONS,
    seed: int = 0,
    progress: Callable[[str], None] | None = None,
) -> Excess:
    """Simulate. most: data sets for each truth and size up to 50. progress: told after each size.

    A truth's scores, labels and the points where predictions are judged depend only on the seed, n and the
    truth's name, so adding methods or truths changes nothing else.
    """
    names = tuple(TRUTHS) + tuple(CALIBRATED) + tuple(HELD_OUT)
    makers = [*TRUTHS.values(), *CALIBRATED.values(), *HELD_OUT.values()]
    mean = np.empty((len(sizes), len(methods), len(names)))
    error = np.empty_like(mean)
    for i, n in enumerate(sizes):
        for j, (name, make) in enumerate(zip(names, makers, strict=True)):
            rng = np.random.default_rng([seed, n, *name.encode()])
            repeats = replications(n, most)
            if n == 0 and name in HELD_OUT:
                repeats = most  # every data set has another truth
            with threadpool_limits(1):  # scikit-learn's threads wait for each other longer than they work
                excess = np.array([_one(make(rng), n, methods, rng) for _ in range(repeats)])
            mean[i, :, j] = excess.mean(axis=0)
            error[i, :, j] = excess.std(axis=0, ddof=1) / np.sqrt(repeats) if repeats > 1 else 0.0
        if progress is not None:
            progress(f"n = {n}: done")
    return Excess(names, tuple(methods), tuple(sizes), mean, error)


def _one(truth: Truth, n: int, methods: Mapping[str, Method], rng: np.random.Generator) -> list[float]:
    x = truth.scores(rng, n)
    raw: FloatArray = sigmoid(x)
    correct: BoolArray = rng.random(n) < sigmoid(truth.curve(x))
    points = truth.points
    at, target = sigmoid(points), truth.curve(points)
    return [excess_log_loss(method(raw, correct)(at), target) for method in methods.values()]


def excess_page(excess: Excess, *, most: int, seed: int) -> str:
    """The page as Markdown: what was done, the tables, and whether the goals are met."""
    shown, seen = tuple(TRUTHS), (*TRUTHS, *CALIBRATED, *HELD_OUT)
    words = {**TRUTHS, **CALIBRATED, **HELD_OUT}
    rng = np.random.default_rng(seed)
    lines = [
        "# Excess log-loss of calibrators",
        "",
        f"Made by `{COMMAND}` (seed {seed}, {most} data sets for each truth and n: half",
        "as many at 200 and 1,000, a tenth at 10,000). Excess log-loss is the expected log loss less that",
        "of the true probabilities, in nats; lower is better, 0.0000 perfect. In brackets the standard",
        "error, in units of the last digit. All methods see the same data sets. Where a method cannot be",
        "fitted (no labels; one class only for the unpenalised logistic) it answers the raw score;",
        "predictions count as no nearer than 1e-6 to 0 and 1, and isotonic's end blocks say what Laplace's",
        "rule says: kind to all but ours.",
        "",
        "## The truths",
        "",
        "The default prior was chosen on all of these but the last, with other seeds.",
        "",
    ]
    lines += [f"- **{name}**: {words[name](rng).words}" for name in seen]
    lines += ["", f"## Mean over the {len(shown)} truths ({', '.join(shown)})", ""]
    lines += _table(excess, *excess.over_truths(shown))
    lines += ["", "## Worst of these truths", ""]
    lines += _table(excess, *excess.worst(shown))
    lines += ["", "## Goals", ""]
    lines += [*_goals(excess, shown), "- At n = 0 there is nothing to fit: all answer the raw score."]
    for name in (*CALIBRATED, *HELD_OUT):
        at = excess.truths.index(name)
        lines += ["", f"## {words[name](rng).heading}", ""]
        lines += _table(excess, excess.mean[:, :, at], excess.error[:, :, at])
    ours = excess.methods.index(OURS)
    lines += ["", f"## {OURS}, truth by truth", "", "| n | " + " | ".join(seen) + " |"]
    lines += ["|---|" + "---|" * len(seen)]
    for i, n in enumerate(excess.sizes):
        cells = [f"{excess.mean[i, ours, excess.truths.index(name)]:.4f}" for name in seen]
        lines.append(f"| {n:,} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def write_page(
    path: Path,
    *,
    most: int = REPLICATIONS,
    seed: int = 0,
    progress: Callable[[str], None] | None = None,
) -> None:
    """Measure and write the page: minutes for 1,000 data sets."""
    excess = measure(most=most, seed=seed, progress=progress)
    path.write_text(excess_page(excess, most=most, seed=seed), encoding="utf-8")


OURS, LOOSE, RAW = "Platt, ours", "Platt, ours, loose prior", "raw score"


def _table(excess: Excess, values: FloatArray, errors: FloatArray) -> list[str]:
    lines = ["| n | " + " | ".join(excess.methods) + " |", "|---|" + "---|" * len(excess.methods)]
    for n, row, spread in zip(excess.sizes, values, errors, strict=True):
        best = np.min(row)
        cells = []
        for value, error in zip(row, spread, strict=True):
            mark = "**" if value <= best + 5e-5 else ""
            cells.append(f"{mark}{value:.4f}{mark} ({1e4 * error:.0f})")
        lines.append(f"| {n:,} | " + " | ".join(cells) + " |")
    return lines


def _goals(excess: Excess, shown: Sequence[str]) -> list[str]:
    ours = excess.methods.index(OURS)
    others = [i for i, name in enumerate(excess.methods) if name not in (OURS, LOOSE)]
    mean, worst = excess.over_truths(shown)[0], excess.worst(shown)[0]
    lines = []
    for what, table in (("mean", mean), ("worst case", worst)):
        ratios = [
            f"{n}: {table[i, ours] / np.min(table[i, others]):.2f}"
            for i, n in enumerate(excess.sizes)
            if n <= 200 and np.min(table[i, others]) > 0.0
        ]
        met = all(
            table[i, ours] <= np.min(table[i, others]) + 1e-12 for i, n in enumerate(excess.sizes) if n <= 200
        )
        lines.append(
            f"- Lowest {what} at every n <= 200: **{'yes' if met else 'no'}**. "
            f"Ours over the best other, n: ratio: {', '.join(ratios)}."
        )
    for n, most in ((10, 0.015), *((n, 0.005) for n in excess.sizes if n >= 200)):
        cost = excess.of(OURS, "calibrated", n) - excess.of(RAW, "calibrated", n)
        lines.append(
            f"- At most {most} over the raw score on the calibrated truth at n = {n:,}: "
            f"**{'yes' if cost <= most else 'no'}** ({cost:.4f})."
        )
    return lines


@click.command()
@click.option(
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    default=PAGE,
    show_default="docs/excess-loss.md",
    help="Write the page here.",
)
@click.option(
    "--most",
    type=click.IntRange(10),
    default=REPLICATIONS,
    show_default=True,
    help="How many data sets for each truth and n.",
)
@click.option("--seed", type=int, default=0, show_default=True)
def main(output: Path, most: int, seed: int) -> None:
    """Measure what calibrators lose against the truth, by number of labels. Takes minutes."""
    write_page(output, most=most, seed=seed, progress=lambda text: click.echo(text, err=True))
    click.echo(f"The table is in {output}.")


if __name__ == "__main__":
    main()
