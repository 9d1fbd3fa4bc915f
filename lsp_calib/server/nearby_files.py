"""The surroundings of places in the documents of a connection."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path, PurePosixPath
from urllib.parse import unquote

from lsp_calib.completion.context import Cursor
from lsp_calib.completion.neighbourhood import Neighbourhood, OpenFile
from lsp_calib.completion.prompt import Layout, Surroundings
from lsp_calib.exclusion import Exclusion
from lsp_calib.server.paths import path_of, path_of_folder
from lsp_calib.server.text import CalibDocument


class NearbyFiles:
    """Finds the surroundings of places in a connection's documents.

    documents: those that are open. folder_of: the address of the workspace folder of a document, empty if it
    is in none. exclusion: of the documents that no model may see.
    """

    def __init__(
        self,
        documents: Callable[[], Iterable[CalibDocument]],
        folder_of: Callable[[str], str],
        exclusion: Callable[[], Exclusion],
    ) -> None:
        self._documents = documents
        self._folder_of = folder_of
        self._exclusion = exclusion
        self._neighbourhood = Neighbourhood()

    def __call__(self, uri: str, cursor: Cursor, layout: Layout) -> Callable[[], Surroundings]:
        """As `completion.nearby.Find`."""
        opened = [
            OpenFile(path, document.bare_lines)
            for document in self._documents()
            if document.uri != uri and (path := path_of(document.uri)) is not None
        ]
        folder = self._folder_of(uri)
        root = path_of_folder(folder) if folder else None
        # A document without a file, such as a new one, has the name that the editor shows.
        document = path_of(uri) or Path(PurePosixPath(unquote(uri.partition(":")[2])).name)
        return partial(self._neighbourhood.around, document, root, opened, self._exclusion(), cursor, layout)
