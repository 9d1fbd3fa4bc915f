"""Commits of a git repository typed again into the real server, which offers where each edit belongs next.

    python tests/programs/next_edit_replay.py [REPOSITORY] [--commits 30] [--seed 0]
    python tests/programs/next_edit_replay.py [REPOSITORY] --once 500

REPOSITORY: a checkout with its history; this one unless given. Only files of languages with a grammar count
that were there before a commit and are after it. No model is needed.

By default so many commits are drawn at random that change 1 to 10 such files, make other lines of at least
3 lines, and replace the same tokens by the same text in at least 2 of these: `rules.edits_of_line` finds the
same rule in them, with old tokens, a new text, and no condition on its neighbours. All changed files of a
commit are open. They are gone through by path, from top to bottom, with one message for each changed line, or
block of lines that came or went. After each line the cursor goes to the next one, and the next edit is asked
for. The user applies it if the commit has exactly this change there, otherwise dismisses it, and asks again.
A line that became what the commit has need not be typed. At the end all files are saved and closed.

With --once so many changes of single lines are drawn, at most 5 of a commit, none of whose rules stands in
another line of the commit. Each is made in the files as they were before the commit, and the next edit asked
for right after it. Whatever is offered then was not asked for.

Nothing is learned on the way: refits are off, and the curve and the calibrator are the shipped ones.
"""

from __future__ import annotations

import asyncio
import os
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path, PurePosixPath
from typing import Any

import attrs
from lsprotocol import types
from offered_lines import parser_of
from soak import outcomes

from lsp_calib import home
from lsp_calib.badges import counted
from lsp_calib.calibration.arrays import group_codes
from lsp_calib.calibration.validation import bootstrap_mean
from lsp_calib.characters import shared_ends
from lsp_calib.corpus.commits import Repository, repository_of
from lsp_calib.edits.rules import Rule, edits_of_line
from lsp_calib.errors import DataError, LspCalibError
from lsp_calib.feedback.events import TOGETHER
from lsp_calib.languages import language_of
from lsp_calib.studies.next_edits import Step, steps_of
from lsp_calib.studies.tables import ranged, table_lines
from lsp_calib.syntax import has_grammar
from lsp_calib.tools.client import SERVER, Document, Editor

ROOT = Path(__file__).parents[2]
MOST_FILES, FEWEST_LINES, FEWEST_TIMES = 10, 3, 2
_MOST_OF_A_COMMIT = 5  # of changes that are made once
_MOST_COMMITS = 100_000
# Offers that the user looks at after one line.
_MOST_OFFERS = 100
# Seconds that an answer may take, on a machine that does much else.
_PATIENCE = 120.0


@attrs.define
class ChangedFile:
    """A file of a commit while it is typed.

    lines: as they are now; origins: of each of them its number before the commit, None for one that is new.
    """

    path: str
    old: tuple[str, ...]
    new: tuple[str, ...]
    steps: Sequence[Step] = attrs.field(init=False)
    lines: list[str] = attrs.field(init=False)
    origins: list[int | None] = attrs.field(init=False)
    _targets: dict[int, str] = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self.steps = steps_of(self.old, self.new)
        self.lines, self.origins = list(self.old), list(range(len(self.old)))
        self._targets = {step.start: step.lines[0] for step in self.steps if step.is_line}

    @property
    def language(self) -> str:
        return language_of(PurePosixPath(self.path))

    def place_of(self, step: Step) -> int:
        """The line, as the file is now, where a step begins."""
        ahead = (at for at, origin in enumerate(self.origins) if origin is not None and origin >= step.start)
        return next(ahead, len(self.lines))

    def rules(self, step: Step) -> frozenset[Rule]:
        """What a step does to its line; none if it is a block."""
        edits = edits_of_line(self.old[step.start], step.lines[0]) if step.is_line else ()
        return frozenset(edit.rule for edit in edits)

    def is_right(self, line: int, start: int, end: int, text: str) -> bool:
        """Whether the commit has exactly this change in a line as it is now. start, end: columns."""
        origin, was = self.origins[line], self.lines[line]
        target = None if origin is None else self._targets.get(origin)
        if target is None or was == target:
            return False
        edits = {(edit.start, edit.end, edit.rule.new) for edit in edits_of_line(was, target)}
        return (start, end, text) in edits or was[:start] + text + was[end:] == target

    def stays(self, line: int) -> bool:
        """Whether a line as it is now is one of the commit's."""
        origin = self.origins[line]
        if origin is None or self.lines[line] == self._targets.get(origin):
            return True
        return not any(step.start <= origin < step.end for step in self.steps)

    def put(self, line: int, end: int, lines: Sequence[str]) -> None:
        """Make other lines of those from `line` up to `end`."""
        same = end - line == len(lines) == 1
        self.origins[line:end] = [self.origins[line]] if same else [None] * len(lines)
        self.lines[line:end] = lines


def replaced_often(files: Sequence[ChangedFile]) -> bool:
    """Whether a commit is one that is replayed, see above."""
    changed = [file.rules(step) for file in files for step in file.steps if step.is_line]
    times = Counter(rule for rules in changed for rule in rules if is_replacement(rule))
    enough = len(changed) >= FEWEST_LINES and max(times.values(), default=0) >= FEWEST_TIMES
    return 1 <= len(files) <= MOST_FILES and enough


def is_replacement(rule: Rule) -> bool:
    return bool(rule.old and rule.new) and rule.left is None


def made_once(files: Sequence[ChangedFile]) -> list[tuple[ChangedFile, Step]]:
    """The changes of single lines none of whose rules stands in another line of the commit."""
    every = [(file, step, file.rules(step)) for file in files for step in file.steps]
    times = Counter(rule for _, _, rules in every for rule in rules)
    return [(file, step) for file, step, rules in every if rules and all(times[rule] == 1 for rule in rules)]


def drawn_commits(repository: Repository, seed: int) -> Iterator[tuple[str, list[ChangedFile]]]:
    """All commits but merges in an order drawn at random, with the files that they change."""
    commits = list(repository.commits(_MOST_COMMITS, "--no-merges"))
    # By its id alone, so that further commits change little.
    for commit in sorted(commits, key=lambda one: random.Random(f"{seed}:{one.id}").random()):
        changes = [
            (path, before, after)
            for path, before, after in repository.changes(commit) or ()
            if before and after and has_grammar(language_of(PurePosixPath(path)))
        ]
        if not 1 <= len(changes) <= MOST_FILES:
            continue
        texts = repository.texts({id_ for _, *both in changes for id_ in both if id_})
        files = [
            ChangedFile(path, *(tuple(texts[str(id_)].split("\n")) for id_ in (before, after)))
            for path, before, after in changes
            if all(id_ in texts and "\r" not in texts[id_] for id_ in (before, after))
        ]
        if len(files) == len(changes):
            yield commit.id, files


@attrs.frozen
class Offered:
    """An offer that the user looked at. commit: its number. stays: whether the commit leaves the line as it
    is. nth: from 0, of those after one typed line."""

    commit: int
    tier: str
    confidence: float
    right: bool
    stays: bool
    nth: int


@attrs.define
class Counts:
    """changes: of single lines. repeats: of these, those that repeat only what was done before in the same
    commit. saved: those that need not be typed. edits: those that were typed; answered: after how many of
    these something was offered."""

    commits: int = 0
    files: int = 0
    changes: int = 0
    repeats: int = 0
    edits: int = 0
    answered: int = 0
    saved: int = 0
    offers: list[Offered] = attrs.field(factory=list)
    milliseconds: list[float] = attrs.field(factory=list)


@attrs.define(eq=False)
class Typist:
    """The user of an editor. shows: whether offers are printed. counts: are added to."""

    editor: Editor
    folder: Path
    shows: bool
    counts: Counts = attrs.field(factory=Counts)
    _open: dict[str, tuple[ChangedFile, Document]] = attrs.field(factory=dict)
    _last: tuple[str, float] = "", 0.0

    def open(self, files: Sequence[ChangedFile]) -> None:
        for file in files:
            path = self.folder / file.path
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("\n".join(file.lines), "utf-8")
            document = Document(self.editor, path, file.language)
            self._open[document.uri] = file, document

    def close(self, *, save: bool) -> None:
        for _, document in self._open.values():
            if save:
                document.save()
            document.close()
        self._open = {}

    async def replay(self, files: Sequence[ChangedFile]) -> None:
        """A commit, see above."""
        self.open(files)
        self.counts.commits += 1
        self.counts.files += len(files)
        seen = set[Rule]()
        for file, document in list(self._open.values()):
            for step in file.steps:
                rules = file.rules(step)
                self.counts.changes += step.is_line
                self.counts.repeats += bool(rules) and rules <= seen
                seen |= rules
                await self._step(file, document, step)
        for file, document in self._open.values():
            if tuple(document.lines) != file.new:
                raise DataError(f"{file.path} did not become what the commit has.")
        self.close(save=True)

    async def _step(self, file: ChangedFile, document: Document, step: Step) -> None:
        at = file.place_of(step)
        if not step.is_line:
            await self._pause(document)
            _replace_lines(document, at, at + step.end - step.start, step.lines)
            file.put(at, at + step.end - step.start, step.lines)
        elif file.lines[at] == step.lines[0]:
            self.counts.saved += 1
        else:
            await self._write(file, document, at, step.lines[0])
            self.counts.edits += 1
            found = await self._offers(document, at)
            self.counts.answered += found > 0

    async def once(self, files: Sequence[ChangedFile], which: Sequence[tuple[ChangedFile, Step]]) -> None:
        """Changes of a commit, each of them alone."""
        self.counts.commits += 1
        for file, step in which:
            self.open(files)
            document = next(document for one, document in self._open.values() if one is file)
            await self._write(file, document, step.start, step.lines[0])
            self.counts.edits += 1
            answer = await self._ask(document, step.start)
            if answer is not None:
                right = self._is_right(answer)
                self.counts.answered += 1
                self._note(answer, right=right, nth=0)
            file.put(step.start, step.start + 1, [file.old[step.start]])
            self.close(save=False)

    async def _write(self, file: ChangedFile, document: Document, line: int, text: str) -> None:
        """Make this of a line, by one change of what differs."""
        await self._pause(document)
        now = file.lines[line]
        before, behind = shared_ends(now, text)
        document.replace(line, before, len(now) - behind, text[before : len(text) - behind])
        file.put(line, line + 1, [text])

    async def _offers(self, document: Document, line: int) -> int:
        """Look at what is offered after a line, and apply or dismiss it. Returns how many that were."""
        for looked in range(_MOST_OFFERS):
            if (answer := await self._ask(document, line)) is None:
                return looked
            right = self._is_right(answer)
            self._note(answer, right=right, nth=looked)
            if right:
                file, other = self._open[answer.uri]
                at, start, end = self._span(answer)
                await self._pause(other)
                other.replace(at, start, end, answer.text)
                file.put(at, at + 1, [other.lines[at]])
                document, line = other, at
            command = "editApplied" if right else "editDismissed"
            await self.editor.command(f"lsp-calib.{command}", {"id": answer.id}, seconds=_PATIENCE)
        return _MOST_OFFERS

    async def _ask(self, document: Document, line: int) -> Any:
        """What is offered with the cursor in the line below one."""
        at = line + 1 if line + 1 < len(document.lines) else line - 1
        position = types.Position(max(at, 0), 0)
        began = time.perf_counter()
        answer = await self.editor.ask(
            "lsp-calib/nextEdit", {"textDocument": {"uri": document.uri}, "position": position}, _PATIENCE
        )
        self.counts.milliseconds.append(1e3 * (time.perf_counter() - began))
        return answer

    def _is_right(self, answer: Any) -> bool:
        return self._open[answer.uri][0].is_right(*self._span(answer), answer.text)

    def _span(self, answer: Any) -> tuple[int, int, int]:
        """Line and columns of what an offer replaces."""
        line, span = answer.range.start.line, answer.range
        units = self._open[answer.uri][1].lines[line].encode("utf-16-le")
        start, end = (len(units[: 2 * one.character].decode("utf-16-le")) for one in (span.start, span.end))
        return line, start, end

    def _note(self, answer: Any, nth: int, *, right: bool) -> None:
        file, _ = self._open[answer.uri]
        line, start, end = self._span(answer)
        offered = self.counts.commits, answer.tier, answer.confidence, right, file.stays(line), nth
        self.counts.offers.append(Offered(*offered))
        if not self.shows:
            return
        was = file.lines[line]
        now = was[:start] + answer.text + was[end:]
        words = f"{'right' if right else 'wrong'}, {answer.tier} {answer.confidence:.2f}, {nth + 1}."
        print(f"{words} {file.path}:{line + 1} ({answer.reason})\n- {was}\n+ {now}")

    async def _pause(self, document: Document) -> None:
        """Wait: a change so soon after one of another document is taken for the work of a program."""
        uri, at = self._last
        if uri not in ("", document.uri):
            await asyncio.sleep(max(0.0, at + TOGETHER + 0.1 - time.monotonic()))
        self._last = document.uri, time.monotonic()


def _replace_lines(document: Document, start: int, end: int, lines: Sequence[str]) -> None:
    if end < len(document.lines):
        document.edit((start, 0), (end, 0), "".join(f"{line}\n" for line in lines))
    elif start:
        last = start - 1, len(document.lines[start - 1])
        document.edit(last, (end - 1, len(document.lines[end - 1])), "".join(f"\n{line}" for line in lines))
    else:
        document.edit((0, 0), (end - 1, len(document.lines[end - 1])), "\n".join(lines))


@asynccontextmanager
async def typist(scratch: Path, *, shows: bool) -> AsyncIterator[Typist]:
    """A user with an editor and a server of their own."""
    state, folder = home.private_folder(scratch / "home"), scratch / "work"
    folder.mkdir()
    editor = Editor()
    try:
        env = {**os.environ, "LSP_CALIB_HOME": str(state)}
        await editor.start(SERVER, env=env, cwd=folder)
        await editor.open_session(folder, {"trusted": {"autoRefit": False, "hover": {"enabled": False}}})
        yield Typist(editor, folder, shows)
        await editor.quit()
    finally:
        await editor.close()


async def replayed(repository: Repository, n: int, seed: int, scratch: Path, *, shows: bool) -> Counts:
    chosen = (files for _, files in drawn_commits(repository, seed) if replaced_often(files))
    async with typist(scratch, shows=shows) as user:
        for number, files in zip(range(1, n + 1), chosen, strict=False):
            await user.replay(files)
            progress(f"commit {number} of {n}")
        return user.counts


async def asked_once(repository: Repository, n: int, seed: int, scratch: Path, *, shows: bool) -> Counts:
    async with typist(scratch, shows=shows) as user:
        for commit, files in drawn_commits(repository, seed):
            left, found = n - user.counts.edits, made_once(files)
            drawn = random.Random(f"{seed}:{commit}").sample(found, min(len(found), _MOST_OF_A_COMMIT, left))
            if drawn:
                await user.once(files, drawn)
                progress(f"{user.counts.edits} of {n} changes")
            if user.counts.edits == n:
                break
        return user.counts


def progress(words: str) -> None:
    print(words, end="\r", file=sys.stderr, flush=True)


def _share(part: int, of: int) -> str:
    return f"{100 * part / max(of, 1):.1f} %"


def tier_rows(offers: Sequence[Offered]) -> list[list[str]]:
    rows = []
    for name in ("accept", "review", "all", "the first after a typed line"):
        first = name.startswith("the first")
        some = [one for one in offers if name in (one.tier, "all") or (first and not one.nth)]
        right, moot = sum(one.right for one in some), sum(not (one.right or one.stays) for one in some)
        shares = ["–", "–"]
        if some:
            commits = [one.commit for one in some]
            precision = bootstrap_mean([one.right for one in some], group_codes(commits, len(some)))
            said = sum(one.confidence for one in some) / len(some)
            shares = [ranged(precision, sign=False), f"{said:.2f}"]
        rows.append([name, *map(str, (len(some), right, len(some) - right, moot)), *shares])
    return rows


def print_replay(counts: Counts, store: Path) -> None:
    rows = [
        ["commits, files", f"{counts.commits}, {counts.files}"],
        ["changed lines", str(counts.changes)],
        ["of these, that repeat what was done before in the commit", str(counts.repeats)],
        ["edits typed", str(counts.edits)],
        ["of these, after which something was offered", str(counts.answered)],
        ["changed lines saved from typing", f"{counts.saved}, {_share(counts.saved, counts.changes)}"],
    ]
    print("\n".join(table_lines(["replayed", "n"], rows)), end="\n\n")
    columns = ["tier", "offers", "right", "wrong", "in lines that change otherwise", "right (95 %)", "said"]
    print("\n".join(table_lines(columns, tier_rows(counts.offers))), end="\n\n")
    labels = [
        [how, "yes" if inserted else "no", str(n)] for (how, inserted), n in outcomes(store).most_common()
    ]
    print("\n".join(table_lines(["label", "inserted", "suggestions"], labels)))


def print_once(counts: Counts) -> None:
    right = sum(one.right for one in counts.offers)
    row = [str(counts.edits), str(counts.commits), str(counts.answered)]
    columns = ["edits", "of commits", "an edit is offered after", "share", "right all the same"]
    print("\n".join(table_lines(columns, [[*row, _share(counts.answered, counts.edits), str(right)]])))


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("repository", type=Path, nargs="?", default=ROOT)
    parser.add_argument("--commits", type=int, default=30)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--once", type=int, default=0, metavar="N")
    parser.add_argument("--show", action="store_true", help="print each offer")
    given = parser.parse_args()
    wanted = given.once or given.commits
    run: Callable[..., Any] = asked_once if given.once else replayed
    try:
        with tempfile.TemporaryDirectory() as name, repository_of(given.repository) as repository:
            counts = asyncio.run(run(repository, wanted, given.seed, Path(name), shows=given.show))
            had = counts.edits if given.once else counts.commits
            if had < wanted:
                found = counted(had, "such change" if given.once else "such commit")
                print(f"\n{given.repository} has {found} only; {wanted} were asked for.", file=sys.stderr)
            if not had:
                return
            if given.once:
                print_once(counts)
            else:
                print_replay(counts, Path(name) / "home" / "feedback.db")
    except LspCalibError as error:
        sys.exit(f"next_edit_replay: {error}")
    times = sorted(counts.milliseconds)
    if times:
        middle, high = times[len(times) // 2], times[len(times) * 95 // 100]
        print(f"\n{len(times)} requests, p50 {middle:.1f} ms, p95 {high:.1f} ms")


if __name__ == "__main__":
    main()
