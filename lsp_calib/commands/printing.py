"""What a person reads in a terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn
from rich.text import Text

from lsp_calib.badges import BADGES
from lsp_calib.values import Suggestion, Tier


def badge(tier: Tier | str, probability: float | None) -> Text:
    """A tier as a coloured mark, its name and its probability."""
    style = BADGES[str(tier)]
    number = "  ? %" if probability is None else f"{probability:4.0%}".replace("%", " %")
    return Text(f"{style['mark']} {tier!s:6} {number}", style=style["color"])


def print_suggestions(suggestions: Sequence[Suggestion]) -> None:
    console = Console(highlight=False)
    if not suggestions:
        console.print("The model has nothing to offer here.")
    for suggestion in suggestions:
        console.print(
            badge(suggestion.confidence.tier, suggestion.confidence.calibrated), Text(suggestion.text)
        )
        console.print(Text(f"  {suggestion.confidence.reason}", style="dim"))


@contextmanager
def download_progress(title: str) -> Iterator[Callable[[int, int, str], None]]:
    """A progress bar on standard error; gives the function that moves it."""
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    with Progress(*columns, console=Console(stderr=True)) as progress:
        task = progress.add_task(title, total=None)

        def update(done: int, total: int, what: str) -> None:
            progress.update(task, completed=done, total=total or None, description=f"{title} · {what}")

        yield update
