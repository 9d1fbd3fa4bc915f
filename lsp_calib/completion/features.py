"""The features of a completion: those of its probabilities, and those of the text it would make."""

from __future__ import annotations

import math
import threading
from collections import OrderedDict

from lsp_calib.completion.context import Cursor
from lsp_calib.completion.document_index import DocumentIndex
from lsp_calib.completion.doubt import doubtful_span, is_word
from lsp_calib.confidence.features import probability_features
from lsp_calib.syntax.line_fit import fit_of
from lsp_calib.text_lines import comparable
from lsp_calib.values import Evidence, Generation

# A model that writes the next line of the file again has been led by the text below.
_FOLLOWING = 3
# In characters: what begins with less has little in common.
_SHORTEST_BEGINNING = 3

# In characters. A longer line is data, and has no features of syntax.
_LONGEST = 1000

# A larger document is data or generated: only the place of the cursor is known of it.
MOST_CHARACTERS = 2_000_000

# An index takes a few times the memory of its document.
_MOST_DOCUMENTS = 8


def place_of(cursor: Cursor) -> str:
    """The kind of place of a cursor, one of `confidence.features.PLACES`."""
    if not cursor.before:
        return "line-start"
    if not cursor.before.strip():
        return "after-indentation"
    return "mid-word" if is_word(cursor.before[-1]) else "mid-line"


def text_features(cursor: Cursor, text: str) -> dict[str, float]:
    """The features of the text that a completion would make, by name.

    text: as it is offered at `cursor`. Those that need a grammar are missing where the language has none, and
    all but the place's where the document is too large.
    """
    return _text_features(_index_of(cursor), cursor, text)


class DocumentFeatures:
    """Computes the evidence of completions in one document, with what it remembers of it.

    Any thread may call it.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._index: DocumentIndex | None = None
        self._newest: Cursor | None = None

    def read(self, cursor: Cursor) -> None:
        """Read the cursor's document, so that `evidence` takes little time. The first time it takes about 10
        microseconds a line, later so much for each changed line.

        Nothing is read that a later call is waiting to read in a newer state, nor after `close`.
        """
        self._newest = cursor
        with self._lock:
            if self._newest is cursor:
                self._index = _index_of(cursor, self._index)

    def close(self) -> None:
        """Let calls of `read` that are still waiting do nothing."""
        self._newest = None

    def evidence(self, cursor: Cursor, text: str, generation: Generation) -> Evidence:
        """The evidence of a completion. text: as it is offered at `cursor`."""
        features = probability_features(generation.logprobs, generation.entropies, generation.stop)
        with self._lock:
            self._index = _index_of(cursor, self._index)
            features |= _text_features(self._index, cursor, text)
        span = doubtful_span(generation, text)
        doubtful = text[slice(*span)] if span else ""
        return Evidence(generation.logprobs, features, place_of(cursor), doubtful)


class FeatureExtractor:
    """Remembers the documents used last. For one thread."""

    def __init__(self) -> None:
        self._documents: OrderedDict[str, DocumentFeatures] = OrderedDict()

    def of(self, document: str) -> DocumentFeatures:
        """What is remembered of a document; "" names one that is not remembered.

        A thread that works on it after `forget` fills what nobody keeps.
        """
        if not document:
            return DocumentFeatures()
        found = self._documents.setdefault(document, DocumentFeatures())
        self._documents.move_to_end(document)
        if len(self._documents) > _MOST_DOCUMENTS:
            self._documents.popitem(last=False)
        return found

    def forget(self, document: str) -> None:
        """Drop what is remembered of a document."""
        forgotten = self._documents.pop(document, None)
        if forgotten is not None:
            forgotten.close()


def _index_of(cursor: Cursor, known: DocumentIndex | None = None) -> DocumentIndex | None:
    """The index of the cursor's document, `known` if it is one of it; None if it is too large."""
    if known is not None and known.language == cursor.language:
        known.update(cursor)
        return known if known.size <= MOST_CHARACTERS else None
    if sum(map(len, cursor.lines)) > MOST_CHARACTERS:
        return None
    return DocumentIndex(cursor)


def _text_features(index: DocumentIndex | None, cursor: Cursor, text: str) -> dict[str, float]:
    features = {"in-word": float(place_of(cursor) == "mid-word")}
    if index is None:
        return features
    line = cursor.before + text + cursor.after
    whole = comparable(line)
    repeats = index.repeats[whole]
    following = cursor.lines[cursor.line + 1 : cursor.line + 1 + _FOLLOWING]
    features["line-repeats"] = math.log1p(repeats)
    features["line-follows"] = float(any(comparable(other) == whole for other in following))
    features["beginning-agrees"] = features["beginning-differs"] = 0.0
    beginning = cursor.before.strip()
    if len(beginning) >= _SHORTEST_BEGINNING and whole.startswith(beginning):
        alike = index.beginning_with(beginning)
        features["beginning-agrees"] = repeats / (alike + 1)
        features["beginning-differs"] = (alike - repeats) / (alike + 2)
    if index.tree is not None and len(line) <= _LONGEST:
        row = cursor.line - index.first
        fit = fit_of(index.tree, row, cursor.before, text, cursor.after, index.below)
        features["broken"] = float(fit.broken)
        features["new-names"] = math.log1p(sum(name not in index.words for name in fit.names))
    return features
