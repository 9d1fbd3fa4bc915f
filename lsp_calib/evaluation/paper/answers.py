"""Records as the answers to one question each: which file answers it, and who is right by which criterion."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path

import attrs
import numpy as np

from lsp_calib.calibration.arrays import BoolArray, FloatArray
from lsp_calib.completion.prompt import PLAIN_VERSION
from lsp_calib.errors import DataError
from lsp_calib.evaluation.header import Header
from lsp_calib.evaluation.records import Record, read_records
from lsp_calib.evaluation.scores import groups_of
from lsp_calib.evaluation.study_tasks import REPAIR, SYNTHESIS
from lsp_calib.evaluation.thresholds import shipped_thresholds
from lsp_calib.files import read_file

Question = tuple[str, ...]
"""Task, language, model, quantisation, prompt and a study's condition, and the data set of a task that has
several, and whether a project's tests judge a line: what files of one question share."""


@attrs.frozen(eq=False)
class File:
    """A file of records. name: its path below the folder. size: its records. condition: of a study's lines,
    of which a file holds one. tested: whether it is of lines that were judged by tests, too."""

    name: str
    path: Path
    header: Header
    size: int
    condition: str = ""
    tested: bool = False

    @property
    def question(self) -> Question:
        header = self.header
        model = header.model
        known = header.task, header.language, model.name, model.quantisation, header.prompt_version
        tested = ("tests",) if self.tested else ()
        return (*known, self.condition, *tested, *self.data_sets)

    @property
    def data_sets(self) -> tuple[str, ...]:
        """The data set, of a task that has several."""
        several = self.header.task in (SYNTHESIS, REPAIR)
        return tuple(source.name for source in self.header.sources if several)

    @cached_property
    def records(self) -> list[Record]:
        """Its records, summaries judged by the thresholds that ship. Raises DataError as `read_records`."""
        header, records = read_records(self.path)
        if header.similarity is not None:
            records = shipped_thresholds(header.similarity).judge(header, records)
        return records


def find_files(folder: Path, model: str | None = None) -> list[File]:
    """All files of records in a folder and those below it, by name.

    model: only those of this model. Files of other kinds are left out. Raises DataError if the folder holds
    no records, or none of the model.
    """
    found = []
    for path in sorted(folder.rglob("*.jsonl")):
        try:
            lines = read_file(path).splitlines()
            header = Header.from_row(json.loads(lines[0]))
            condition = ""
            tested = False
            if header.task == "line":
                first = json.loads(lines[1])
                tested = "tests" in first["correct"]
                condition = first["condition"] if header.prompt_version == PLAIN_VERSION else ""
        except (OSError, IndexError, ValueError, TypeError, KeyError, AttributeError):
            continue
        found.append(
            File(path.relative_to(folder).as_posix(), path, header, len(lines) - 1, condition, tested)
        )
    if not found:
        raise DataError(
            f"There are no records in {folder} or below it. Name a folder such as models/records."
        )
    models = sorted({file.header.model.name for file in found})
    if model is not None and model not in models:
        raise DataError(f"{folder} holds no records of the model {model!r}; there are {', '.join(models)}.")
    return [file for file in found if model in (None, file.header.model.name)]


def largest(files: Sequence[File]) -> list[File]:
    """Of the files that answer one question the one with the most answers; among equals the first by name."""
    best: dict[Question, File] = {}
    for file in files:
        if file.question not in best or file.size > best[file.question].size:
            best[file.question] = file
    return [file for file in files if best[file.question] is file]


@attrs.frozen(eq=False)
class Answers:
    """The answers to one question that count, judged by one criterion.

    asked: items; found: those with an answer and believable probabilities. condition: "" where there is one.
    correct: bool array of shape (n,). groups: of each answer; kept together in folds.
    """

    file: File
    condition: str
    judge: str
    asked: int
    right_of_asked: int
    found: tuple[Record, ...]
    correct: BoolArray
    groups: tuple[str, ...]

    @property
    def header(self) -> Header:
        return self.file.header

    @property
    def n(self) -> int:
        return self.correct.size

    @property
    def right(self) -> int:
        return int(np.count_nonzero(self.correct))

    @cached_property
    def logprobs(self) -> list[tuple[float, ...]]:
        return [record.logprobs_given_typed for record in self.found]

    @property
    def name(self) -> str:
        """Such as "qwen2.5-coder-1.5b, line-fim-1, inserting, right: exact"."""
        header = self.header
        language = f" {header.language}" if header.task == "summary" else ""
        parts = (header.prompt_version, *self.file.data_sets, self.condition, self.judge)
        return ", ".join(part for part in (f"{header.model.name}{language}", *parts) if part)

    @property
    def stem(self) -> str:
        """A name for files."""
        return self.name.replace(", ", "-").replace(" ", "-")

    def having(self, numbers: Mapping[str, float | None]) -> tuple[Answers, FloatArray]:
        """The answers that have a number, and it: shape (m,). numbers: by item."""
        pairs = [(at, numbers[record.item]) for at, record in enumerate(self.found)]
        known = [(at, number) for at, number in pairs if number is not None]
        at = [place for place, _ in known]
        kept = attrs.evolve(
            self,
            found=tuple(self.found[place] for place in at),
            correct=self.correct[at],
            groups=tuple(self.groups[place] for place in at),
        )
        return kept, np.array([number for _, number in known], dtype=np.float64)


def answers_of(file: File, judges: Sequence[str] | None = None) -> list[Answers]:
    """The answers of a file, by condition and criterion. judges: only these criteria."""
    records = file.records
    conditions = sorted({record.condition for record in records})
    found = []
    for condition in conditions:
        asked = [record for record in records if record.condition == condition]
        counted = [record for record in asked if record.shown and record.logprobs]
        groups = tuple(groups_of(counted))
        known = sorted({judge for record in asked for judge in record.correct})
        for judge in known if judges is None else [judge for judge in judges if judge in known]:
            found.append(
                Answers(
                    file=file,
                    condition=condition if file.header.task == "line" else "",
                    judge=judge,
                    asked=len(asked),
                    right_of_asked=sum(record.correct.get(judge, False) for record in asked),
                    found=tuple(counted),
                    correct=np.array([record.correct[judge] for record in counted], dtype=np.bool_),
                    groups=groups,
                )
            )
    return found
