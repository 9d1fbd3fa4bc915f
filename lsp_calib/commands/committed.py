"""`lsp-calib calibrate --from-git`: the lines of the user's commits."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import attrs

from lsp_calib import home
from lsp_calib.commands.engine import Say
from lsp_calib.errors import SettingsError
from lsp_calib.evaluation.git_history.committed_lines import Wish, commit_task
from lsp_calib.evaluation.git_history.objects import addresses_of_user
from lsp_calib.evaluation.tasks import Task
from lsp_calib.exclusion import Exclusion
from lsp_calib.feedback.store import FeedbackStore


@attrs.frozen
class FromGit:
    """authors: e-mail addresses or names; none: those of the user's configuration of git. commits: so many
    are looked at. tell: is told what was taken."""

    authors: tuple[str, ...] = ()
    commits: int = 1000
    tell: Say = lambda _: None


def committed_task(
    paths: Sequence[Path],
    samples: int,
    seed: int,
    language: str | None,
    from_git: FromGit,
    exclude: Sequence[str],
) -> Task:
    """The newest lines of the user in the repositories of `paths`.

    exclude: patterns of files that no model may see.
    Raises SettingsError for a path that is no folder, or if it is not known who the user is; DataError and
    LspCalibError as `commit_task` and the feedback store do.
    """
    other = next((path for path in paths if not path.is_dir()), None)
    if other is not None:
        raise SettingsError(f"{other} is no folder. With --from-git each PATH is a repository, or in one.")
    with _labelled_lines() as made:
        wish = Wish(
            authors=from_git.authors or addresses_of_user(),
            commits=from_git.commits,
            excluded=Exclusion(tuple(exclude)).reason,
            labelled=made,
        )
        task, sentences = commit_task(paths, samples, seed, language, wish)
    for sentence in sentences:
        from_git.tell(sentence)
    return task


@contextmanager
def _labelled_lines() -> Iterator[Callable[[Collection[str]], Collection[str]]]:
    """Tells which lines have labels of their own, by the feedback store; none if there is none yet."""
    path = home.state_dir() / "feedback.db"
    if not path.exists():
        yield lambda _: ()
        return
    store = FeedbackStore(path)
    try:
        yield store.accepted_lines().among
    finally:
        store.close()
