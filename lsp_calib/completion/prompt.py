"""The prompt for a line completion: its layout, and how it is built.

The version is part of a calibrator's identity: it must change whenever the text that the model sees changes.
"""

from __future__ import annotations

import enum
import logging
import re
from collections.abc import Callable
from functools import lru_cache
from typing import Self

import attrs

from lsp_calib.calibration.calibrators.purpose import Purpose
from lsp_calib.completion.context import Cursor, text_above, text_below
from lsp_calib.inference.engine import LoadedModel
from lsp_calib.inference.models.cards import CompletionFormat, ModelCard
from lsp_calib.values import ModelIdentity, Prompt, Segment

# Token healing: the current line is cut back to a token boundary, where a prompt may end.
# A run of white space or of punctuation (with one space before it), then the word being typed. Tokenisers
# join a word to the space or the mark before it ("␣return", ".append"), so the cut takes both along with the
# word.
_LOOSE_END = re.compile(r"(?:[ ]?[^\w\s]{1,8}|\s+)?\w*\Z")

# To tokenisers the underscores of "__init__(" are punctuation like the bracket, and "__(" is one token.
_LOOSE_JOINED_END = re.compile(r"(?:[ ]?_{0,8}[^\w\s]{1,8}|\s+)?\w*\Z")

# A word longer than this is data, not a word; reproducing it would cost a decode for each of its tokens.
_LONGEST = 64


def split_at_boundary(before: str, *, joined: bool = False) -> tuple[str, str]:
    """Split the current line up to the cursor into (stays in the prompt, must be reproduced).

    before: the current line up to the cursor. joined: underscores before a mark are cut off with it.
    >>> split_at_boundary("    return foo.ba")
    ('    return foo', '.ba')
    >>> split_at_boundary("    ")
    ('', '    ')
    >>> split_at_boundary("def __init__(se", joined=True)
    ('def __init', '__(se')
    """
    tail = before[-_LONGEST:]
    match = (_LOOSE_JOINED_END if joined else _LOOSE_END).search(tail)
    assert match is not None, "the pattern matches the empty end"
    loose = match.group()
    return before[: len(before) - len(loose)], loose


def split_line_ends(above: str) -> tuple[str, str]:
    """Split text that ends before an indentation into (stays in the prompt, must be reproduced).

    Tokenisers like GPT-2's join a line's end to the indentation that follows. After a line's end alone, such
    a model goes on with a line that has none.

    >>> split_line_ends("def area(r):\\n")
    ('def area(r):', '\\n')
    """
    stays = above.rstrip()
    loose = above[len(stays) :]
    return (stays, loose) if stays and len(loose) <= _LONGEST else (above, "")


PREFIX_VERSION = "line-prefix-1"
FIM_VERSION = "line-fim-1"
LARGE_PREFIX_VERSION = "line-prefix-large-1"
LARGE_FIM_VERSION = "line-fim-large-1"
SUFFIX_FIRST_VERSION = "line-fim-2"
LARGE_SUFFIX_FIRST_VERSION = "line-fim-large-2"
PLAIN_VERSION = "plain-prefix-1"

# How much more of the document a large window shows than the card's, and characters of other places.
_LARGE = 2
_RELATED = 1600
# In characters: a token of source has more on average, nearly always.
_LEAST_OF_TOKEN = 2

# This share of the window goes to the text below the cursor, if the model takes it.
_BELOW = 0.3
# The current line takes at most this share of the window; of a longer line only the end is shown. Its
# beginning moves by this share of the window, so that the next key finds its tokens in the cache.
_LINE = 0.5
_LINE_STEP = 1 / 16
# Tokens of a prompt for each character of the window, at most. Prompts of the records take 0.2 (the median),
# 0.5 (99 of 100), and at most 0.82: they stay as they are. Chinese and digits take 1, emoji up to 3.
_MOST_TOKENS = 5 / 6


class WindowSize(enum.StrEnum):
    """How much the model sees: the card's window of the document; or twice as much of it, and pieces of other
    places that resemble the text before the cursor."""

    SMALL = "small"
    LARGE = "large"

    @classmethod
    def named(cls, window: str) -> WindowSize | None:
        """Of the setting `window`: None for "auto"."""
        return None if window == "auto" else cls(window)


# By fill-in-the-middle and suffix first: of the small window and of the large one.
_VERSIONS = {
    (False, False): (PREFIX_VERSION, LARGE_PREFIX_VERSION),
    (True, False): (FIM_VERSION, LARGE_FIM_VERSION),
    (True, True): (SUFFIX_FIRST_VERSION, LARGE_SUFFIX_FIRST_VERSION),
}

SIZES = {
    version: size
    for versions in _VERSIONS.values()
    for version, size in zip(versions, WindowSize, strict=True)
}
"""The window of each version of the prompt."""


@attrs.frozen
class Layout:
    """How a document becomes a prompt.

    format: the model's. window: characters of the document to show. related: characters of pieces of other
    places, names included. joined: whether characters that tokenisers join are cut off, and reproduced,
    together: a line's end with the indentation after it, underscores with a bracket.
    suffix_first: whether the text below the cursor comes before the text above.
    version: names all of these.
    """

    format: CompletionFormat
    window: int
    version: str
    related: int = 0
    joined: bool = False
    suffix_first: bool = False

    @classmethod
    def of(cls, card: ModelCard, size: WindowSize = WindowSize.SMALL) -> Self:
        """The layout for a model. A large window that the model's context cannot hold is small."""
        format_ = card.completion
        fim = format_.layout == "fim"
        suffix_first = fim and format_.order == "suffix-first"
        small, large = _VERSIONS[fim, suffix_first]
        if size is WindowSize.LARGE:
            window = _LARGE * card.window
            related = _RELATED if format_.file else 0
            if (window + related) / _LEAST_OF_TOKEN < card.context:
                return cls(format_, window, large, related, joined=True, suffix_first=suffix_first)
        return cls(format_, card.window, small, joined=suffix_first, suffix_first=suffix_first)

    def with_other_window(self, card: ModelCard) -> Layout | None:
        """The layout of the other window for a model, whose card it is; None if it has only one."""
        sizes = {layout.version: layout for layout in (Layout.of(card, size) for size in WindowSize)}
        others = [layout for version, layout in sizes.items() if version != self.version]
        return others[0] if len(sizes) > 1 and len(others) == 1 else None

    @classmethod
    def named(cls, version: str, card: ModelCard) -> Self | None:
        """The layout of this version for a model, None if it has none."""
        cards = (
            attrs.evolve(card, completion=attrs.evolve(card.completion, order=order))
            for order in ("prefix-first", "suffix-first")
        )
        layouts = (cls.of(one, size) for one in cards for size in WindowSize)
        return next((layout for layout in layouts if layout.version == version), None)

    @classmethod
    def plain(cls, card: ModelCard) -> Self:
        """The layout that shows the text above alone to any model, as studies of models ask: no suffix.

        Tokenisers of models without fill-in-the-middle join a line's end to the indentation after it.
        """
        joined = card.completion.layout != "fim"
        return cls(CompletionFormat(), _LARGE * card.window, PLAIN_VERSION, joined=joined)

    @property
    def most_tokens(self) -> int:
        """Tokens that a prompt may have, where the characters of its window take more than usual."""
        return int((self.window + self.related) * _MOST_TOKENS)

    def shown(self, cursor: Cursor) -> tuple[int, int]:
        """The first line that the prompt shows of the document, and the line after the last one."""
        stays, _ = self._current(cursor)
        above, below = self._shares(stays)
        lines_above = text_above(cursor, above).count("\n")
        lines_below = text_below(cursor, below).count("\n") if below else 0
        return cursor.line - lines_above, cursor.line + 1 + lines_below

    def _current(self, cursor: Cursor) -> tuple[str, str]:
        """The current line up to the cursor: what stays in the prompt, and what must be reproduced."""
        stays, forced = split_at_boundary(cursor.before, joined=self.joined)
        surplus = len(stays) - int(self.window * _LINE)
        step = int(self.window * _LINE_STEP) or 1
        return stays[-(-surplus // step) * step :] if surplus > 0 else stays, forced

    def _shares(self, stays: str) -> tuple[int, int]:
        """Characters for the text above and below the cursor's line."""
        below = int(self.window * _BELOW) if self.format.layout == "fim" else 0
        return self.window - below - len(stays), below


@attrs.frozen
class Snippet:
    """Whole lines of a file, without the last line's end. name: its path below the project, with `/`."""

    name: str
    text: str


@attrs.frozen
class Surroundings:
    """The place of a document, and pieces of other places.

    project, name: of the project, and of the document below it; empty if unknown. files: the paths of those
        that were read for the pieces.
    """

    project: str = ""
    name: str = ""
    snippets: tuple[Snippet, ...] = ()
    files: tuple[str, ...] = ()


ALONE = Surroundings()
"""Nothing but the document is known."""


def build_prompt(cursor: Cursor, layout: Layout, surroundings: Surroundings = ALONE) -> Prompt:
    """The prompt for the line at `cursor`.

    Fill-in-the-middle models get the lines above, the text below, and after the middle token the current
    line up to the cursor: a typed character then follows everything that is cached, the text below included.
    Pieces of other places come first, if the layout has room for them.
    """
    format_ = layout.format
    stays, forced = layout._current(cursor)
    above, below = layout._shares(stays)
    before = _elsewhere(format_, surroundings) if layout.related else ()
    most = layout.most_tokens
    text = text_above(cursor, above)
    if format_.layout != "fim":
        text += stays
        if layout.joined and not stays:
            text, ends = split_line_ends(text)
            forced = ends + forced
        return Prompt((*before, (Segment.TEXT, text)), forced, layout.version, most)
    prefix, suffix, middle = _marks(format_)
    behind = (Segment.TEXT, text_below(cursor, below))
    if layout.suffix_first:
        at = len(before) + 2
        segments = (*before, prefix, suffix, behind, middle, (Segment.TEXT, text + stays))
    else:
        at = len(before) + 3
        segments = (*before, prefix, (Segment.TEXT, text), suffix, behind, middle, (Segment.TEXT, stays))
    return Prompt(segments, forced, layout.version, most, at)


def _marks(format_: CompletionFormat) -> list[tuple[Segment, str]]:
    """The control tokens before the text above the cursor, that below it, and the answer."""
    return [(Segment.CONTROL, mark) for mark in (format_.fim_prefix, format_.fim_suffix, format_.fim_middle)]


def _elsewhere(format_: CompletionFormat, surroundings: Surroundings) -> tuple[tuple[Segment, str], ...]:
    """What comes before the document, as the technical report of Qwen2.5-Coder has it (arXiv 2409.12186):
    the project's name, then each file's name and text."""
    pieces = [(format_.project, surroundings.project)] if format_.project and surroundings.project else []
    pieces += [(format_.file, f"{piece.name}\n{piece.text}") for piece in surroundings.snippets]
    pieces += [(format_.file, surroundings.name)] if surroundings.name else []
    segments: list[tuple[Segment, str]] = []
    for control, text in pieces:
        segments += [(Segment.CONTROL, control), (Segment.TEXT, text + "\n")]
    return tuple(segments)


@lru_cache(maxsize=64)
def line_purpose(model: ModelIdentity, version: str, language: str) -> Purpose:
    """The purpose of line completions by a model, with prompts of a version, in one language."""
    return Purpose(model, version, "line", language)


_log = logging.getLogger(__name__)

HasLabels = Callable[[ModelIdentity, str], bool]
"""Whether there is a calibrator with labels for a model and a version of the prompt."""


class LayoutChooser:
    """Chooses the layout for each model, once: another one would empty the model's cache.

    has_labels: the window is large where a calibrator knows its prompts.
    wanted: the size that the user wants, None for that choice.
    """

    def __init__(self, has_labels: HasLabels, wanted: WindowSize | None = None) -> None:
        self._has_labels = has_labels
        self._wanted = wanted
        self._known: dict[ModelIdentity, Layout] = {}

    def of(self, loaded: LoadedModel) -> Layout:
        """The layout for the model that is loaded."""
        return self.of_card(loaded.card, loaded.identity)

    def of_card(self, card: ModelCard, identity: ModelIdentity) -> Layout:
        """The layout for a model with this card."""
        if identity not in self._known:
            self._known[identity] = self._choose(card, identity)
        return self._known[identity]

    def size(self, card: ModelCard, identity: ModelIdentity) -> WindowSize:
        """The size of the window in use."""
        is_small = self.of_card(card, identity) == Layout.of(card)
        return WindowSize.SMALL if is_small else WindowSize.LARGE

    def _choose(self, card: ModelCard, identity: ModelIdentity) -> Layout:
        small, large, wanted = Layout.of(card), Layout.of(card, WindowSize.LARGE), self._wanted
        if wanted is WindowSize.LARGE and large == small:
            _log.warning(
                "The window is small, though it was to be large: the context of %s (%d positions) cannot "
                "hold more.",
                card.name,
                card.context,
            )
        if wanted is None:
            return large if self._has_labels(identity, large.version) else small
        return Layout.of(card, wanted)
