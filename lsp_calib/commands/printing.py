"""Output of commands in a terminal: tiers, suggestions, progress."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import numpy.typing as npt
from rich.progress import (
    BarColumn,
    DownloadColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)
from rich.text import Text

from lsp_calib.badges import BADGES, percent, tier_sentence, tier_words
from lsp_calib.calibration.arrays import quietly
from lsp_calib.calibration.reliability import ReliabilityBin, reliability
from lsp_calib.terminal import Console
from lsp_calib.values import Suggestion, Tier


def badge(tier: Tier | str, probability: float | None) -> Text:
    """A tier as a coloured mark, its name and its probability."""
    style = BADGES[str(tier)]
    number = "  ? %" if probability is None else f"{percent(probability):>5}"
    return Text(f"{style['mark']} {tier!s:6} {number}", style=style["color"])


def print_suggestions(suggestions: Sequence[Suggestion]) -> None:
    console = Console()
    if not suggestions:
        console.print("The model suggests nothing here.")
    for suggestion in suggestions:
        confidence = suggestion.confidence
        if suggestion.kind == "summary":
            style = BADGES[confidence.tier.value]
            console.print(Text(suggestion.text))
            words = f"{tier_words(confidence.tier)}: {tier_sentence(confidence)}."
            console.print(Text(f"{style['mark']} {words}", style=style["color"]))
            for note in confidence.notes:
                console.print(Text(f"  {note}", style="dim"))
            continue
        console.print(badge(confidence.tier, confidence.calibrated), Text(suggestion.text))
        console.print(Text(f"  {suggestion.reason}", style="dim"))


# Columns of the bars of a reliability diagram.
_BAR = 40


def reliability_text(confidence: npt.ArrayLike, correct: npt.ArrayLike) -> str:
    """A reliability diagram of ten bins as text of at most 80 columns, see `bins_text`.

    confidence: float array of shape (n,), probabilities in [0, 1]. correct: bool array of shape (n,).
    Raises DataError as `reliability` does.
    """
    with quietly():  # all in one bin, or of one class, is shown as it is
        return bins_text(reliability(confidence, correct).bins)


def bins_text(bins: Sequence[ReliabilityBin]) -> str:
    """The bins of a reliability diagram as text of at most 80 columns.

    Each bin: its confidences, how many items, the share that is right, as a bar as well, and where the mean
    confidence promised that bar to end (a vertical stroke). A bin whose share lies outside the range of a
    calibrated confidence (95 %, bin by bin) is marked: + if more are right than promised, - if fewer.
    """
    scale = f"{'0 %':<{_BAR // 2 - 2}}{'50 %':<{_BAR // 2 - 3}}100 %"
    lines = [f"{'promised':>11} {'items':>6} {'right':>6}   {scale}"]
    for item in bins:
        name = f"{100 * item.lower:.0f} - {100 * item.upper:.0f} %"
        front = f"{name:>11} {item.n:>6}"
        if item.accuracy is None or item.confidence is None:
            lines.append(front)
            continue
        filled, promised = round(_BAR * item.accuracy), round(_BAR * item.confidence)
        bar = ["█" if column < filled else " " for column in range(_BAR + 1)]
        bar[promised] = "│" if bar[promised] == " " else "┃"
        above = item.band_high is not None and item.accuracy > item.band_high
        below = item.band_low is not None and item.accuracy < item.band_low
        mark = "+" if above else "-" if below else " "
        lines.append(f"{front} {100 * item.accuracy:>4.0f} % {mark} {''.join(bar)}".rstrip())
    lines.append(f"{'':>11} {'█ right':>13}   │ promised   + more right than promised   - fewer")
    return "\n".join(lines)


@contextmanager
def download_progress(
    title: str, *, files: bool = False, quiet: bool = False
) -> Iterator[Callable[[int, int, str], None]]:
    """A progress bar on standard error unless `quiet`; yields the function that moves it: bytes done and in
    all, a file.

    files: files or projects are counted instead of bytes.
    """
    counted = (MofNCompleteColumn(),) if files else (DownloadColumn(), TransferSpeedColumn())
    columns = (TextColumn("{task.description}"), BarColumn(), *counted)
    with Progress(*columns, console=Console(stderr=True), disable=quiet) as progress:
        task = progress.add_task(title, total=None)

        def update(done: int, total: int, what: str) -> None:
            progress.update(task, completed=done, total=total or None, description=f"{title} · {what}")

        yield update


@contextmanager
def item_progress(title: str, *, quiet: bool, lines: bool = False) -> Iterator[Callable[[int, int], None]]:
    """A progress bar on standard error unless `quiet`; yields the function that moves it: done, in all.

    lines: write lines of JSON instead, for a program: {"done": 3, "all": 200}.
    """
    if lines:
        yield lambda done, all_: print(json.dumps({"done": done, "all": all_}), file=sys.stderr, flush=True)
        return
    columns = (*Progress.get_default_columns()[:2], MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), disable=quiet) as progress:
        bar = progress.add_task(title, total=None)
        yield lambda done, all_: progress.update(bar, completed=done, total=all_)
