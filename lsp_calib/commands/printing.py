"""Output of commands in a terminal: tiers, suggestions, progress."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from rich.progress import (
    BarColumn,
    DownloadColumn,
    MofNCompleteColumn,
    Progress,
    Task,
    TextColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)
from rich.text import Text

from lsp_calib.badges import BADGES, percent, tier_sentence, tier_words
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


class _Speed(TransferSpeedColumn):
    """Nothing while the speed is not known, as of a file that is only verified."""

    def render(self, task: Task) -> Text:
        return Text("") if task.finished_speed is None and task.speed is None else super().render(task)


@contextmanager
def download_progress(
    title: str, *, files: bool = False, quiet: bool = False
) -> Iterator[Callable[[int, int, str], None]]:
    """A progress bar on standard error unless `quiet`; yields the function that moves it: bytes done and in
    all, a file.

    files: files or projects are counted instead of bytes.
    """
    counted = (MofNCompleteColumn(),) if files else (DownloadColumn(), _Speed())
    columns = (TextColumn("{task.description}"), BarColumn(), *counted)
    with Progress(*columns, console=Console(stderr=True), disable=quiet) as progress:
        task = progress.add_task(title, total=None)

        def update(done: int, total: int, what: str) -> None:
            progress.update(task, completed=done, total=total or None, description=f"{title} · {what}")

        yield update


@contextmanager
def item_progress(title: str, *, quiet: bool) -> Iterator[Callable[[int, int], None]]:
    """A progress bar on standard error unless `quiet`; yields the function that moves it: done, in all."""
    columns = (*Progress.get_default_columns()[:2], MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), disable=quiet) as progress:
        bar = progress.add_task(title, total=None)
        yield lambda done, all_: progress.update(bar, completed=done, total=all_)
