"""Verdicts and text features of records, computed again from the pinned sources: no model decodes anything.

A record names its place and holds the ids of its tokens. With the source below a folder (or the items of a
task) and the model's vocabulary, these give the cursor and the model's answer; the hash of its prompt shows
that they are the same as when the record was made. Of the answer the text is taken that is offered today.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path

import attrs

from lsp_calib.characters import split_lines
from lsp_calib.completion.context import Cursor
from lsp_calib.completion.features import text_features
from lsp_calib.completion.prompt import Layout, build_prompt
from lsp_calib.corpus.item_worker import prompt_hash
from lsp_calib.corpus.places import (
    NEW_LINE,
    WRITING_ON,
    LineItem,
    Task,
    line_item_of,
    surroundings_of,
    without_below,
)
from lsp_calib.corpus.records import FeatureList, Header, Record, read_records, write_records
from lsp_calib.errors import DataError, ModelError
from lsp_calib.files import read_file
from lsp_calib.inference.generation.run import GenerationBuilder
from lsp_calib.inference.models import sidecar
from lsp_calib.inference.models.cards import ModelCard, locate
from lsp_calib.installation import how_to_install
from lsp_calib.syntax.source_tree import unhurried
from lsp_calib.values import Generation, Observation, Prompt, Stop, Timing, Token

LINES = Task("line", ())
"""The task of the records whose items are places in source."""


@attrs.frozen
class Rebuilt:
    """A record with what it does not hold: the item, with its source, the prompt, the text that was offered,
    and the answer that it is the beginning of."""

    record: Record
    item: LineItem
    prompt: Prompt
    text: str
    answer: Generation


def recompute_features(path: Path, sources: Path, model: str | None = None, task: Task = LINES) -> int:
    """Compute verdicts and text features of a file of line records again and write them into it; returns how
    many have features.

    sources: the folder with the projects (`data pull projects`). model: a card's name or the absolute path of
        a model file; None: the model that the records name. Only its vocabulary is read. task: that of the
        records, whose judge judges again; its items are looked up by their names, or if it has none in
        `sources`.
    Raises DataError as `rebuild` does, NoModelError if the model is not installed, ModelError if llama.cpp is
    not.
    """
    header, records = read_records(path)
    card, file = locate(model or header.model.name)
    if header.model.sha256:
        sidecar.verify(file, header.model.sha256)
    header, records = with_features(header, records, sources, card, _pieces(file), task)
    write_records(path, header, records)
    return sum(bool(record.features) for record in records)


@unhurried()
def with_features(
    header: Header,
    records: Sequence[Record],
    sources: Path,
    card: ModelCard,
    pieces: Sequence[bytes],
    task: Task = LINES,
) -> tuple[Header, list[Record]]:
    """The header and records with today's verdicts and text features; answers that are not offered have none.

    card: of the model that answered. pieces: the bytes of its tokens by id. task: that of the records.
    Raises DataError as `rebuild` does, and for records judged by what the task does not judge by.
    """
    if any(set(record.correct).difference(task.criteria) for record in records):
        raise DataError(
            "Some answers were judged by their projects' tests, which are not run again here: their verdicts "
            "would be lost. Name records that are judged by exact match alone."
        )
    listed, payloads = FeatureList.present(), dict(task.items)
    found: list[Record] = []
    for one in rebuild(header, records, sources, card, pieces, task):
        record, item, text = one.record, one.item, one.text
        payload = payloads.get(record.item, {})
        cursors = (item.cursor, without_below(item.cursor)) if text else ()
        values = [listed.ordered(text_features(cursor, text)) for cursor in cursors] or [(), ()]
        found.append(
            attrs.evolve(
                record,
                correct={name: task.judge(name, item, payload, text) for name in record.correct},
                shown=bool(text),
                features=values[0],
                features_above=values[1],
                characters=len(text) if record.characters is not None else None,
            )
        )
    return attrs.evolve(header, features=listed), found


def rebuild(
    header: Header,
    records: Sequence[Record],
    sources: Path,
    card: ModelCard,
    pieces: Sequence[bytes],
    task: Task = LINES,
) -> Iterator[Rebuilt]:
    """Each record with its item and its text, in order.

    task: as for `recompute_features`.
    Raises DataError, naming the item, where the source is missing or has no such place, where the prompt is
    not the one that the record was made with, or where the tokens are not of this vocabulary.
    """
    if header.task != task.name:
        raise DataError(
            f"The records are of the task {header.task!r}: only those of lines are of places in sources."
        )
    layout = Layout.named(header.prompt_version, card)
    if layout is None:
        raise DataError(
            f"The records were made with the prompt {header.prompt_version}, which this version no longer "
            f"makes (it makes {Layout.of(card).version}): make them again."
        )
    payloads = dict(task.items)
    for record in records:
        if not payloads:
            item = item_of(record, sources, header.language)
        elif record.item in payloads:
            item = line_item_of(payloads[record.item])
        else:
            raise DataError(f"The evaluation data have no item {record.item}.")
        prompt = build_prompt(item.cursor, layout, surroundings_of(item, layout))
        if record.prompt and record.prompt != prompt_hash(prompt):
            raise DataError(
                f"The item {record.item} had another prompt when its record was made: the source below "
                f"{sources} has another version, or the model's card has changed."
            )
        yield Rebuilt(record, item, prompt, *answer_of(record, item, pieces, prompt))


def item_of(record: Record, sources: Path, language: str = "python") -> LineItem:
    """The place that a record names, in the source below `sources`, as `places` draws it.

    language: of the source. Raises DataError if there is no such file or place.
    """
    if record.source:
        raise DataError(
            f"The item {record.item} is a line of a commit: files below {sources} do not hold it as it was. "
            "Leave --sources out."
        )
    name, line, column = record.item.rsplit(":", 2)
    path = sources / name
    if not path.resolve().is_relative_to(sources.resolve()):
        raise DataError(f"The item {record.item} is not below {sources}.")
    lines = _read_lines(path)
    at, before = int(line) - 1, int(column) - 1
    if not (0 <= at < len(lines) and 0 <= before <= len(lines[at])):
        raise DataError(f"The item {record.item} does not exist: {path} has another version.")
    shown = [*lines[:at], lines[at][:before], *lines[at + 1 :]]
    cursor = Cursor.at(shown, at, before, language)
    root = sources / name.partition("/")[0]
    item = LineItem(
        record.item,
        record.group,
        record.stratum,
        cursor,
        lines[at][before:],
        root=str(root),
        name=path.relative_to(root).as_posix(),
    )
    if record.condition == NEW_LINE:
        return item.new_line()
    return item.writing_on() if record.condition == WRITING_ON else item


def answer_of(
    record: Record, item: LineItem, pieces: Sequence[bytes], prompt: Prompt
) -> tuple[str, Generation]:
    """The text of a record's tokens as it is offered at the item's cursor today, empty if it is not; and the
    whole answer.

    prompt: that the record was made with. pieces: the bytes of the model's tokens by id.
    Tokens that only reproduced typed characters are not in a record, and the first one that is may begin with
    the last of these characters: with as many as `added` says, and without it with the most that fit.
    Raises DataError if no number fits.
    """
    for remaining in _readings(record, prompt.forced.encode(), pieces):
        answer = _answer(record, remaining, pieces)
        if record.added in (None, sum(len(token.text) for token in answer.tokens[:1])):
            return "" if record.stop == Stop.LENGTH else item.offered_as_code(answer.text), answer
    raise DataError(
        f"The first token of the item {record.item} cannot be the answer that was judged: the model's "
        "vocabulary or the source has changed."
    )


def _answer(record: Record, remaining: bytes, pieces: Sequence[bytes]) -> Generation:
    """The answer with a record's tokens, the first of which begins with these typed bytes."""
    builder = GenerationBuilder("", one_line=True)
    builder.remaining = remaining
    last = len(record.tokens) - 1 if record.stop == Stop.END_OF_TEXT else None
    numbers = list(itertools.zip_longest(record.logprobs, record.typed_logprobs, record.entropies))
    for at, token in enumerate(record.tokens):
        logprob, typed, entropy = numbers[at] if at < len(numbers) else (None, None, None)
        seen = None if entropy is None else Observation(entropy)
        chosen = Token(token, logprob or 0.0, typed or 0.0, "", seen=seen)
        if at == last:
            builder.end(chosen)
        else:
            builder.add(chosen, pieces[token])
    return builder.finish(Timing())


def _readings(record: Record, forced: bytes, pieces: Sequence[bytes]) -> Iterator[bytes]:
    """The typed bytes that the first token may begin with, most first."""
    if not record.tokens:
        yield b""
        return
    first = pieces[record.tokens[0]]
    for size in range(min(len(forced), len(first) - 1), 0, -1):
        if first.startswith(forced[-size:]):
            yield forced[-size:]
    # Only a token that begins with typed characters is more likely once they are known.
    if not record.typed_logprobs or record.typed_logprobs[0] == 0.0:
        yield b""


def _read_lines(path: Path) -> tuple[str, ...]:
    try:
        return split_lines(read_file(path).decode("utf-8-sig"))
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(
            f"{path} cannot be read: {error}. `lsp-calib data pull projects` gets the pinned "
            "projects in Python; `lsp-calib data list` names the sets of other languages."
        ) from error


def _pieces(file: Path) -> list[bytes]:
    try:
        from lsp_calib.inference.local.native import read_pieces
    except (ImportError, OSError, RuntimeError) as error:
        raise ModelError(
            f"llama-cpp-python cannot be used ({error}); it reads the model's vocabulary. "
            f"Run {how_to_install('local')}."
        ) from error
    return read_pieces(file)
