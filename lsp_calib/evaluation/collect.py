"""Ask a model at many places and keep what it answered."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from lsp_calib.completion.postprocess import clean
from lsp_calib.completion.prompt import version_of
from lsp_calib.completion.service import CompletionService
from lsp_calib.evaluation.lines import LineItem
from lsp_calib.evaluation.records import Header, Record, RecordWriter
from lsp_calib.inference.engine import Engine, Priority
from lsp_calib.values import Stop


async def collect_lines(
    engine: Engine,
    service: CompletionService,
    items: Sequence[LineItem],
    path: Path,
    *,
    seed: int,
    on_progress: Callable[[int, int], None],
) -> list[Record]:
    """Records of all `items`, in their order; those that `path` has already are not asked for again.

    on_progress: called with (done, all). A record is on disk before the next item is asked for.
    """
    loaded = await engine.ready()
    writer = RecordWriter(
        path, Header("line", "python", loaded.identity, version_of(loaded.card.completion), seed)
    )
    try:
        for at, item in enumerate(items):
            on_progress(at, len(items))
            if item.id in writer.done:
                continue
            _, generation = await service.ask(item.cursor, Priority.BACKGROUND)
            text = clean(generation.text, item.cursor)
            writer.add(
                Record(
                    item=item.id,
                    group=item.group,
                    stratum=item.stratum,
                    correct=item.is_correct(text),
                    # As in the editor: an empty or a runaway answer is not offered.
                    shown=bool(text) and generation.stop is not Stop.LENGTH,
                    stop=generation.stop.value,
                    tokens=tuple(token.id for token in generation.tokens),
                    logprobs=tuple(token.logprob for token in generation.tokens),
                    typed_logprob=generation.tokens[0].typed_logprob if generation.tokens else 0.0,
                    ms=generation.timing.total_ms,
                )
            )
    finally:
        writer.close()
    on_progress(len(items), len(items))
    return [writer.done[item.id] for item in items]
