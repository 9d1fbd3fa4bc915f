"""What labels of one's own are worth, on real lines: each project of some records is a user.

    python tests/programs/personalisation.py [RECORDS...] [--others FILE] [--seeds N]

RECORDS: files of records, or journals of a run that goes on, of lines of few projects each; the lines of a
user arrive in the order of their files. --others: records of many projects, on which the shipped calibrator
is fitted again without the user's (five folds).

At each line the user may get a suggestion (SHOWN of all lines, at random): they keep what is right, and what
is wrong, with the probabilities of a rule, and kept is its label. After some lines the product refits, from
a store with these labels (`feedback.personalisation`). Scored are the last lines of the stream, in
expectation over what the user would keep of what is right and wrong there: the squared error of the
confidences of

- shipped: the calibrator fitted on other projects;
- Platt: the curve over the geometric mean of that calibrator, a general Platt calibrator;
- personal: a personal one, from labels of suggestions that were shown.

Then the same users with a truth that is shifted by 1 in log-odds from the shipped calibrator, and with one
that is just it: what is found there is there, and what is not is chance.
"""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import attrs
import numpy as np
from labelled_store import Labelled, Stored, add
from offered_lines import parser_of, read
from scipy import stats

from lsp_calib.calibration.arrays import BoolArray, FloatArray, group_codes
from lsp_calib.calibration.calibrators.calibrator import Calibrator
from lsp_calib.calibration.calibrators.calibrator_store import CalibratorStore
from lsp_calib.calibration.calibrators.fitting import LabelledAnswers, fit_calibrator
from lsp_calib.calibration.calibrators.purpose import Purpose
from lsp_calib.calibration.logistic import log_odds, sigmoid
from lsp_calib.calibration.validation import grouped_folds
from lsp_calib.corpus.places import INSERTING
from lsp_calib.corpus.records import Header, Record
from lsp_calib.feedback.personalisation import refit_from_feedback
from lsp_calib.feedback.store import FeedbackStore
from lsp_calib.values import Evidence

OTHERS = Path(__file__).parents[2] / "models" / "records" / "lines" / "line-smollm2-135m-large.jsonl"
# The probability that what is right, and what is wrong, is kept.
RULES = ((0.95, 0.10), (1.0, 0.0))
AFTER = (5, 10, 20, 30, 50, 100)
# Of the lines, those at which a suggestion is shown and read.
SHOWN = 1 / 3
SHIFT = 1.0
LEVEL = 0.05
TODAY = "2026-01-02"
BEGIN = 1.7e9
# Where stores are made: on a disk each transaction would wait for it.
MEMORY = "/dev/shm" if Path("/dev/shm").is_dir() else None


@attrs.frozen(eq=False)
class User:
    """evidences: of the lines, in the order in which they are written, n of them. truth: the probability that
    each is right, shape (n,); 0 or 1 for real lines. start: the calibrator that the user begins with."""

    name: str
    evidences: Sequence[Evidence]
    truth: FloatArray
    start: Calibrator

    def shifted(self, by: float) -> User:
        """The same lines, right as often as the shipped calibrator says, but for a shift in log-odds."""
        promised = self.start.probabilities(self.evidences)
        return attrs.evolve(self, truth=sigmoid(log_odds(promised) + by))


@attrs.frozen(eq=False)
class Scored:
    """Expected squared errors of one user at each later line, shape (later,), by name of the calibrator: a
    personal one is named with the number of lines after which it was made."""

    user: str
    errors: Mapping[tuple[str, int], FloatArray]


class Learner:
    """A user's store and calibrators."""

    def __init__(self, user: User, folder: Path, seed: int) -> None:
        self.user = user
        # Its hashes assign labels to halves: a random key would give another study each time.
        (folder / "feedback.key").write_bytes(hashlib.sha256(f"{user.name} {seed}".encode()).digest())
        self.purpose: Purpose = user.start.purpose
        (folder / "shipped").mkdir(parents=True)
        user.start.save(folder / "shipped" / "line.json")
        self.store = FeedbackStore(folder / "feedback.db")
        self.calibrators = CalibratorStore(folder / "calibrators", folder / "shipped")
        self._n = 0

    def label(self, lines: Sequence[int], correct: Sequence[bool]) -> None:
        """Further labels, of lines of the user."""
        ones = [
            Labelled(
                f"{self._n + k:016x}",
                f"{line:016x}",
                Stored.of(self.user.evidences[line]),
                bool(right),
                BEGIN + self._n + k,
            )
            for k, (line, right) in enumerate(zip(lines, correct, strict=True))
        ]
        self._n += len(ones)
        add(self.store, self.purpose, ones)

    @property
    def calibrator(self) -> Calibrator:
        return self.calibrators.choose(self.purpose).calibrator

    def refit(self) -> None:
        refit_from_feedback(self.store, self.calibrators, self.purpose, TODAY, promise=None)


def streams_of(paths: Sequence[Path], like: Header) -> dict[str, list[tuple[Record, Header]]]:
    """The lines of each project, in the order of its files. like: of records of the same model and prompt."""
    streams: dict[str, list[tuple[Record, Header]]] = {}
    for path in paths:
        own, records = read(path)
        if (own.model, own.prompt_version) != (like.model, like.prompt_version):
            raise SystemExit(f"{path} holds records of another model or prompt than --others.")
        for record in records:
            if record.shown and not record.doubt and record.condition == INSERTING:
                streams.setdefault(record.group, []).append((record, own))
    for stream in streams.values():
        stream.sort(key=lambda pair: _place(pair[0].item))
    return streams


def users(paths: Sequence[Path], others: Path, *, fewest: int) -> list[User]:
    """The projects of `paths` with at least so many lines; each with a calibrator of other projects."""
    header, known = read(others)
    known = [record for record in known if record.shown and not record.doubt]
    streams = {name: stream for name, stream in streams_of(paths, header).items() if len(stream) >= fewest}
    names = sorted({record.group for record in known} | set(streams))
    fold = dict(zip(names, grouped_folds(group_codes(np.array(names), len(names)), 5).tolist(), strict=True))
    starts = {}
    for k in {fold[name] for name in streams}:
        rest = [record for record in known if fold[record.group] != k]
        starts[k] = fit_calibrator(
            LabelledAnswers(
                Purpose(header.model, header.prompt_version, "line", header.language),
                [record.evidence(header) for record in rest],
                [record.correct["exact"] for record in rest],
                np.array([record.group for record in rest]),
                source="shipped",
                state="shipped",
                created="2026-01-01",
            )
        ).calibrator
    found = []
    for name, stream in sorted(streams.items()):
        right = np.array([record.correct["exact"] for record, _ in stream], dtype=np.float64)
        evidences = [record.evidence(own) for record, own in stream]
        found.append(User(name, evidences, right, starts[fold[name]]))
    return found


def _place(item: str) -> tuple[str, int, int]:
    """File, line and column of an item's id."""
    file, line, column = item.rsplit(":", 2)
    return file, int(line), int(column)


def score(user: User, rule: tuple[float, float], after: Sequence[int], seeds: int, seed: int = 0) -> Scored:
    """One user under a rule, by the mean over seeds. after: numbers of lines; later ones are scored."""
    first = max(after)
    later = slice(first, None)
    drawn = np.random.default_rng([seed, seeds]).random(user.truth[later].size) < user.truth[later]
    wanted = _kept(drawn.astype(np.float64), rule)
    evidences = list(user.evidences[later])
    errors: dict[tuple[str, int], FloatArray] = {
        ("shipped", 0): _error(user.start.probabilities(evidences), wanted),
        ("Platt", 0): _error(user.start.probabilities(evidences, "geometric-mean"), wanted),
    }
    for k in range(seeds):
        rng = np.random.default_rng([seed, k])
        right = rng.random(first) < user.truth[:first]
        kept = rng.random(first) < np.where(right, *rule)
        shown = rng.random(first) < SHOWN
        for n, confidences in _refitted(user, shown, kept, after, evidences, k):
            error = _error(confidences, wanted) / seeds
            errors["personal", n] = errors.get(("personal", n), np.zeros(error.size)) + error
    return Scored(user.name, errors)


def _refitted(
    user: User, labelled: BoolArray, labels: BoolArray, after: Sequence[int], later: list[Evidence], seed: int
) -> Iterator[tuple[int, FloatArray]]:
    """(n, the confidences of later lines) after a refit on the labels of the first n lines."""
    with tempfile.TemporaryDirectory(dir=MEMORY) as folder:
        learner = Learner(user, Path(folder), seed)
        begin = 0
        for n in sorted(after):
            new = [line for line in range(begin, n) if labelled[line]]
            learner.label(new, [bool(labels[line]) for line in new])
            learner.refit()
            yield n, learner.calibrator.probabilities(later)
            begin = n
        learner.store.close()


def _kept(truth: FloatArray, rule: tuple[float, float]) -> FloatArray:
    right, wrong = rule
    return wrong + (right - wrong) * truth


def _error(confidence: FloatArray, wanted: FloatArray) -> FloatArray:
    """The expected squared error, where `wanted` is the probability of the outcome."""
    found: FloatArray = confidence**2 - 2.0 * confidence * wanted + wanted
    return found


@attrs.frozen
class Compared:
    """A calibrator beside the shipped one. brier: the mean over users. difference, low, high: of it to the
    shipped one's, with a 95 % interval over users. better, worse: users for whom it is so (t-test over lines,
    Benjamini & Hochberg at LEVEL)."""

    name: str
    after: int
    brier: float
    difference: float
    low: float
    high: float
    better: int
    worse: int

    @property
    def gains(self) -> bool:
        return self.high < 0.0


def compare(scored: Sequence[Scored]) -> list[Compared]:
    found = []
    for name, after in scored[0].errors:
        by_user = [one.errors[name, after] - one.errors["shipped", 0] for one in scored]
        means = np.array([difference.mean() for difference in by_user])
        half = float(stats.t.ppf(0.975, means.size - 1) * means.std(ddof=1) / np.sqrt(means.size))
        p = [float(stats.ttest_1samp(one, 0.0).pvalue) if np.ptp(one) > 0.0 else 1.0 for one in by_user]
        rejected = stats.false_discovery_control(p) <= LEVEL
        mean = float(means.mean())
        brier = float(np.mean([one.errors[name, after].mean() for one in scored]))
        found.append(
            Compared(
                *(name, after, brier, mean, mean - half, mean + half),
                *(int((rejected & (means < 0.0)).sum()), int((rejected & (means > 0.0)).sum())),
            )
        )
    return found


def first_gain(compared: Sequence[Compared], name: str) -> int | None:
    """The number of lines from which on the gain is significant; None if it never is."""
    ones = sorted((one for one in compared if one.name == name), key=lambda one: one.after)
    lasting = None
    for one in reversed(ones):
        if not one.gains:
            break
        lasting = one.after
    return lasting


def _row(*cells: object) -> str:
    return f"| {' | '.join(map(str, cells))} |"


def tables(everyone: Sequence[User], after: Sequence[int], seeds: int) -> Iterator[str]:
    """The lines of the tables."""
    for title, shift in (("real", None), ("as shipped", 0.0), ("shifted by 1", SHIFT)):
        yield f"\n{title}: {len(everyone)} users, {seeds} seeds\n"
        heads = ("keeps", "calibrator", "lines", "Brier", "difference to shipped (95 %)", "better", "worse")
        yield _row(*heads)
        yield _row(*["---"] * len(heads))
        for rule in RULES:
            told = [user if shift is None else user.shifted(shift) for user in everyone]
            compared = compare([score(one, rule, after, seeds, k) for k, one in enumerate(told)])
            keeps = f"{rule[0]:.0%}, {rule[1]:.0%}"
            for one in compared:
                span = f"{one.difference:+.4f} ({one.low:+.4f} to {one.high:+.4f})"
                yield _row(keeps, one.name, one.after or "", f"{one.brier:.4f}", span, one.better, one.worse)
            yield f"{title}, {keeps}: a gain from so many lines on: {first_gain(compared, 'personal')}"


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("records", nargs="*", type=Path, default=[OTHERS])
    parser.add_argument("--others", type=Path, default=OTHERS)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--after", type=int, nargs="+", default=list(AFTER), help="numbers of lines")
    parser.add_argument("--fewest", type=int, default=150, help="users with fewer lines are left out")
    given = parser.parse_args()
    everyone = users(given.records, given.others, fewest=given.fewest)
    print(f"{len(everyone)} users, {sum(len(one.evidences) for one in everyone)} lines", flush=True)
    for line in tables(everyone, given.after, given.seeds):
        print(line, flush=True)


if __name__ == "__main__":
    main()
