"""How the answers that are kept in a file were asked for otherwise than a run asks, in words."""

from __future__ import annotations

from collections.abc import Iterator

import attrs

from lsp_calib.completion.prompt import SIZES
from lsp_calib.evaluation.header import Header
from lsp_calib.inference.models.card import load_cards
from lsp_calib.summarization.prompt import AUGMENTED
from lsp_calib.summarization.prompt import VERSION as PLAIN

_ELSEWHERE = "name another folder or file for this run"
_AUGMENT = {AUGMENTED: "use `eval summary` with --augment", PLAIN: "leave --augment out"}


@attrs.frozen
class _Difference:
    """What is one thing there and another one here. remedy: to have it as there, "" if there is none."""

    what: str
    there: str
    here: str
    remedy: str = ""


def difference(found: Header, wanted: Header) -> str:
    """What differs, on both sides, and the options that go on with what is there. As sentences.

    found: of the file. wanted: of the run, which does not ask the same.
    """
    all_ = list(_differences(found, wanted))
    told = "; ".join(f"{one.what}: {one.there} there, {one.here} now" for one in all_)
    remedies = [one.remedy for one in all_]
    if not all(remedies):
        return f"{told}. No option makes this run as that one was: {_ELSEWHERE}."
    return f"{told}. To go on with them, {' and '.join(remedies)}; otherwise {_ELSEWHERE}."


def _differences(found: Header, wanted: Header) -> Iterator[_Difference]:
    """The differences for which `Header.asks_the_same_as` tells the two apart."""
    for name in ("task", "language"):
        there, here = getattr(found, name), getattr(wanted, name)
        if there != here:
            # Another task is another command or another file, not only another option.
            yield _Difference(name, there, here, f"add --{name} {there}" if name == "language" else "")
    yield from _of_model(found, wanted)
    if found.task == wanted.task:
        yield from _of_prompt(found, wanted)
    if found.seed != wanted.seed:
        yield _Difference("seed", str(found.seed), str(wanted.seed), f"add --seed {found.seed}")
    if found.similarity != wanted.similarity:
        pair = [one.encoder if one is not None else "none" for one in (found.similarity, wanted.similarity)]
        yield _Difference("similarities, by encoder", *pair)
    for name in ("features", "observations"):
        lists = getattr(found, name), getattr(wanted, name)
        if None not in lists and lists[0] != lists[1]:
            yield _Difference(name, *(f"of version {one.version}" for one in lists))


def _of_model(found: Header, wanted: Header) -> Iterator[_Difference]:
    there, here = found.model, wanted.model
    if there.name != here.name:
        # A file of one's own, and a server's model, are named otherwise.
        remedy = f"add --model {there.name}" if there.name in load_cards() else ""
        yield _Difference("model", there.name, here.name, remedy)
    elif there != here:
        pair = [f"{one.quantisation} ({one.sha256[:16] or 'no checksum'})" for one in (there, here)]
        yield _Difference(f"the file of {there.name}", *pair)


def _of_prompt(found: Header, wanted: Header) -> Iterator[_Difference]:
    there, here = found.prompt_version, wanted.prompt_version
    sizes = SIZES.get(there), SIZES.get(here)
    if sizes[0] is not None and sizes[1] is not None:
        # Of another model the prompt is another one, whatever the window.
        if sizes[0] is not sizes[1]:
            yield _Difference("window", sizes[0].value, sizes[1].value, f"add --window {sizes[0].value}")
        elif there != here and found.model == wanted.model:
            yield _Difference("prompt", there, here)
    elif {there, here} == {PLAIN, AUGMENTED}:
        yield _Difference("prompt", there, here, _AUGMENT[there])
    elif there != here:
        yield _Difference("prompt", there, here)
