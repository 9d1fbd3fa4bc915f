"""Certified tiers on simulated users whose truth is known: the records' projects, each one a user.

    python tests/programs/certified_tiers.py [--seeds N]

A user draws suggestions from the lines of one project, with replacement: so the true share of wrong ones
above a threshold is a sum over these lines. They keep what is right, and what is wrong, with the
probabilities of a rule; kept is a correct label. The calibrator is fitted on the other projects (five
folds). From there all is the product's own: half of the lines is set aside at random, a refit on the other
half comes when it is due, it asks for a certificate by the ledger's rules, and later labels are watched. Then
the user's work changes: all is kept half as often.
Prints a row for each model and rule; docs/tiers.md quotes them. It takes minutes: not beside other work.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path

import attrs
import numpy as np

from lsp_calib.calibration.arrays import BoolArray, FloatArray, group_codes
from lsp_calib.calibration.calibrators.calibrator import Calibrator
from lsp_calib.calibration.calibrators.fitting import LabelledAnswers, fit_calibrator
from lsp_calib.calibration.calibrators.promotion import LabelWeights
from lsp_calib.calibration.calibrators.purpose import Purpose
from lsp_calib.calibration.calibrators.refit import FEEDBACK, refit
from lsp_calib.calibration.certificates import LEAST_CONFIDENCE, Ledger, Promise
from lsp_calib.calibration.validation import grouped_folds
from lsp_calib.corpus.records import read_records
from lsp_calib.feedback.personalisation import LEAST_NEW, LEAST_SHARE
from lsp_calib.values import Evidence

RECORDS = Path(__file__).parents[2] / "models" / "records"
# The probability that what is right, and what is wrong, is kept; and what is promised.
RULES = (
    (1.0, 0.0, Promise()),
    (0.95, 0.10, Promise()),
    (0.95, 0.10, Promise(risk=0.2)),
)
AFTER = (50, 100, 200, 400)
LATER = 400


@attrs.frozen(eq=False)
class User:
    """evidences: of the lines of a project. right: bool array of shape (n,). start: the calibrator that the
    user begins with."""

    evidences: Sequence[Evidence]
    right: BoolArray
    start: Calibrator
    _confidences: dict[str, FloatArray] = attrs.field(factory=dict)

    def confidences(self, calibrator: Calibrator) -> FloatArray:
        """Of the lines by a calibrator, shape (n,)."""
        if calibrator.id not in self._confidences:
            self._confidences[calibrator.id] = calibrator.probabilities(self.evidences)
        return self._confidences[calibrator.id]


@attrs.frozen(kw_only=True)
class Standing:
    """After some labels: whether there is a certificate, the share of suggestions that it accepts, and
    whether its promise is false for this user."""

    certified: bool
    accepted: float
    broken: bool


@attrs.frozen(kw_only=True)
class Life:
    """What became of one user. standing: by number of labels. watched: whether there was a certificate in the
    end. revoked: whether it was revoked although nothing had changed. until_revoked: labels from the change
    until it was revoked; None if it was not."""

    standing: dict[int, Standing]
    watched: bool
    revoked: bool
    until_revoked: int | None


def users(path: Path) -> list[User]:
    """The projects of a file of records."""
    header, records = read_records(path)
    lines = [record for record in records if record.shown and not record.doubt]
    evidences = [record.evidence(header) for record in lines]
    right = np.array([record.correct["exact"] for record in lines])
    groups = np.array([record.group for record in lines])
    fold = grouped_folds(group_codes(groups, len(lines)), 5)
    found = []
    for k in range(5):
        fitted = fit_calibrator(
            LabelledAnswers(
                Purpose(header.model, header.prompt_version, "line", header.language),
                [evidence for evidence, one in zip(evidences, fold, strict=True) if one != k],
                right[fold != k],
                groups[fold != k],
                source="shipped",
                state="shipped",
                created="2026-01-01",
            )
        ).calibrator
        for group in np.unique(groups[fold == k]):
            chosen = np.flatnonzero(groups == group)
            found.append(User([evidences[at] for at in chosen], right[chosen], fitted))
    return found


@attrs.define(eq=False)
class Stream:
    """One user's labels: the lines drawn and whether each was kept; and what is in force."""

    user: User
    kept: FloatArray
    promise: Promise
    rng: np.random.Generator
    calibrator: Calibrator
    ledger: Ledger
    lines: list[int] = attrs.field(factory=list)
    correct: list[bool] = attrs.field(factory=list)
    aside: list[bool] = attrs.field(factory=list)

    def step(self, kept: FloatArray) -> None:
        """One more label."""
        line = int(self.rng.integers(0, kept.size))
        self.lines.append(line)
        self.correct.append(bool(self.rng.random() < kept[line]))
        self.aside.append(bool(self.rng.random() < 0.5))
        confidence = self.user.confidences(self.calibrator)[line]
        counts = self.aside[-1] and confidence >= LEAST_CONFIDENCE
        if not self.certified:
            confidence = np.nan
        self.ledger = self.ledger.read(
            int(counts), [confidence], [self.correct[-1]], until=float(len(self.lines))
        )

    def refit(self) -> None:
        """As `feedback.personalisation.refit_from_feedback`."""
        fresh = [at + 1 > self.ledger.used_until for at in range(len(self.lines))]
        aside = np.array(self.aside) & np.array(fresh)
        lines, correct = np.array(self.lines), np.array(self.correct)
        result = refit(
            self.calibrator,
            [self.user.evidences[line] for line in lines[~aside]],
            correct[~aside],
            LabelWeights.of(int(np.count_nonzero(~aside))),
            created="2026-01-02",
            base=self.user.start,
            seen=sum(one.items for one in self.calibrator.provenance if one.name == FEEDBACK),
        )
        chosen = result.calibrator or self.calibrator
        asked = self.ledger.asking(chosen.id, self.user.confidences(chosen)[lines[aside]], correct[aside])
        if chosen is self.calibrator or not asked.keeps(self.calibrator.id):
            self.calibrator = chosen
        self.ledger = asked

    @property
    def certified(self) -> bool:
        return self.ledger.holds(self.calibrator.id)

    def standing(self) -> Standing:
        threshold = self.ledger.certificate(self.calibrator.id, self.promise).threshold
        if threshold is None:
            return Standing(certified=False, accepted=0.0, broken=False)
        above = self.user.confidences(self.calibrator) >= threshold
        error = 1.0 - self.kept[above].mean() if above.any() else 0.0
        return Standing(certified=True, accepted=float(above.mean()), broken=bool(error > self.promise.risk))


def live(user: User, rule: tuple[float, float, Promise], seed: int) -> Life:
    """Labels until the last of AFTER, then LATER more without a change, and instead of these with one."""
    keeps_right, keeps_wrong, promise = rule
    kept = np.where(user.right, keeps_right, keeps_wrong)
    stream = Stream(
        user,
        kept,
        promise,
        np.random.default_rng(seed),
        user.start,
        Ledger().opened(promise, key="k", used_until=0.0),
    )
    tried, standing = 0, {}
    for n in range(1, max(AFTER) + 1):
        stream.step(kept)
        if n - tried >= max(LEAST_NEW, LEAST_SHARE * tried):
            stream.refit()
            tried = n
        if n in AFTER:
            standing[n] = stream.standing()
    if not stream.certified:
        return Life(standing=standing, watched=False, revoked=False, until_revoked=None)
    before = stream.ledger
    for _ in range(LATER):
        stream.step(kept)
    revoked = not stream.certified
    stream.ledger, until = before, None
    for n in range(1, LATER + 1):
        stream.step(kept / 2.0)
        if not stream.certified:
            until = n  # type: ignore[unreachable]  # mypy takes the property for constant
            break
    return Life(standing=standing, watched=True, revoked=revoked, until_revoked=until)


def row(lives: Sequence[Life]) -> Iterator[str]:
    """Cells of one model."""
    for n in AFTER:
        now = [life.standing[n] for life in lives]
        having = [one for one in now if one.certified]
        accepted = np.mean([one.accepted for one in having]) if having else 0.0
        broken = np.mean([one.broken for one in now])
        yield f"{len(having) / len(now):.0%}, {accepted:.0%}, {broken:.1%}"
    watched_ = [life for life in lives if life.watched]
    alarms = np.mean([life.revoked for life in watched_]) if watched_ else 0.0
    waits = sorted(life.until_revoked if life.until_revoked is not None else LATER + 1 for life in watched_)
    middle, late = (waits[int(q * (len(waits) - 1))] for q in (0.5, 0.9)) if waits else (0, 0)
    yield f"{alarms:.1%}"
    yield f"{middle}, {late}"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=3, help="users for each project")
    parser.add_argument("--model", default="*")
    arguments = parser.parse_args()
    heads = [
        *("model", "kept of right, of wrong", "promise", "users"),
        *(f"after {n}: certified, accepts, promise false" for n in AFTER),
        *(f"false alarms in {LATER}", "labels until revoked: half, 90 %"),
    ]
    print(f"| {' | '.join(heads)} |\n{'|---' * len(heads)}|")
    for path in sorted(RECORDS.glob(f"line-{arguments.model}.jsonl")):
        everyone = users(path)
        for rule in RULES:
            lives = [
                live(user, rule, 1000 * seed + n)
                for n, user in enumerate(everyone)
                for seed in range(arguments.seeds)
            ]
            cells = [
                path.stem.removeprefix("line-"),
                f"{rule[0]:.0%}, {rule[1]:.0%}",
                f"{rule[2].risk:.0%}, {1.0 - rule[2].delta:.0%}",
                str(len(lives)),
                *row(lives),
            ]
            print(f"| {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
