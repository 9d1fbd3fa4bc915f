"""The tables of the feedback store, and the migrations from older formats.

No column may hold source text, a path or an address of a document.
"""

from __future__ import annotations

import sqlite3

from lsp_calib.errors import DataError

# One script per version; never edit one that was released, append the next.
MIGRATIONS: tuple[tuple[str, ...], ...] = (
    (
        """
        CREATE TABLE suggestions (
            id TEXT PRIMARY KEY,
            shown_at REAL NOT NULL,
            kind TEXT NOT NULL,
            language TEXT NOT NULL,
            model TEXT NOT NULL,
            model_sha256 TEXT NOT NULL,
            prompt_version TEXT NOT NULL,
            calibrator_id TEXT NOT NULL,
            measure TEXT NOT NULL,
            first_tokens INTEGER,
            raw REAL,
            confidence REAL,
            tier TEXT NOT NULL,
            logprobs TEXT NOT NULL
        )
        """,
        """
        CREATE TABLE events (
            number INTEGER PRIMARY KEY,
            suggestion_id TEXT NOT NULL,
            kind TEXT NOT NULL,
            at REAL NOT NULL,
            data TEXT NOT NULL
        )
        """,
        """
        CREATE TABLE labels (
            suggestion_id TEXT PRIMARY KEY,
            correct INTEGER,
            how TEXT NOT NULL,
            at REAL NOT NULL
        )
        """,
        "CREATE INDEX suggestions_by_model ON suggestions (model_sha256, prompt_version, kind)",
        "CREATE INDEX events_by_suggestion ON events (suggestion_id)",
    ),
    (
        # NULL in labels of format 1: see EPISODE.
        "ALTER TABLE labels ADD COLUMN episode TEXT",
        "CREATE INDEX suggestions_by_time ON suggestions (shown_at)",
    ),
    (
        # NULL in suggestions of formats 1 and 2. features: a JSON object of numbers by name.
        "ALTER TABLE suggestions ADD COLUMN features TEXT",
        "ALTER TABLE suggestions ADD COLUMN features_version INTEGER",
        "ALTER TABLE suggestions ADD COLUMN place TEXT",
    ),
    (
        # NULL in suggestions of formats 1 to 3. line, workspace: hashes with the installation's key.
        "ALTER TABLE suggestions ADD COLUMN line TEXT",
        "ALTER TABLE suggestions ADD COLUMN workspace TEXT",
        "ALTER TABLE suggestions ADD COLUMN shown_probability REAL",
        # CAST takes the number that a text begins with.
        """
        UPDATE suggestions SET shown_probability = (
            SELECT CAST(substr(e.data, 22) AS REAL) FROM events e
            WHERE e.suggestion_id = suggestions.id AND e.data LIKE '{"shownProbability": 0.%'
        ) WHERE id IN (SELECT suggestion_id FROM events WHERE data LIKE '{"shownProbability": 0.%')
        """,
        # An editor could name a language at any length.
        "UPDATE suggestions SET language = 'other' WHERE length(language) > 40",
    ),
    (
        # NULL: shown, as all suggestions of formats 1 to 4 were. See `SOURCE`.
        "ALTER TABLE suggestions ADD COLUMN source TEXT",
        "CREATE INDEX suggestions_not_shown ON suggestions (source, shown_at) WHERE source IS NOT NULL",
    ),
    # The same tables. Labels may be "kept in parts", "taken in part" or "superseded", which readers of
    # formats 1 to 5 do not know. Labels of these formats stay as they are: nothing stored would tell more.
    (),
)

# Both ends of every table and index: a few pages each, whatever the size. Damage by a crash of the system or
# in a half-copied file usually shows here; other damage shows when it is read or written.
PROBES = tuple(
    f"SELECT {column} FROM {table} ORDER BY {order.format(way=way)} LIMIT 1"
    for table, column, order in (
        ("suggestions", "rowid", "rowid {way}"),
        ("suggestions", "id", "id {way}"),
        ("suggestions", "kind", "model_sha256 {way}, prompt_version {way}, kind {way}"),
        ("suggestions", "shown_at", "shown_at {way}"),
        ("labels", "rowid", "rowid {way}"),
        ("labels", "suggestion_id", "suggestion_id {way}"),
        ("events", "number", "number {way}"),
        ("events", "suggestion_id", "suggestion_id {way}"),
    )
    for way in ("ASC", "DESC")
)

# The episode of a row of `labels l`. Labels of format 1 have none, and the store knows neither document nor
# line. But labels of exactly the same time settled together: usually those of all suggestions of one visit to
# a line, and after a save those of the document's other lines as well. Taken as one episode, old labels count
# for less than they are worth, and hardly ever for more.
EPISODE = "COALESCE(l.episode, 'settled ' || printf('%.6f', l.at))"

# The source of a row of `suggestions s`, see `events.Source`, and whether that is what was shown.
SOURCE = "COALESCE(s.source, 'shown')"
SHOWN = "s.source IS NULL"


def migrate(connection: sqlite3.Connection, name: str) -> None:
    """Bring the tables up to date, in one transaction. Several processes may try this at once.

    name: of the file, for messages.
    Raises DataError if a newer lsp-calib wrote the file.
    """
    if _version(connection, name) == len(MIGRATIONS):
        return
    connection.execute("BEGIN IMMEDIATE")
    try:
        # Another process may have migrated while this one waited for the lock.
        for script in MIGRATIONS[_version(connection, name) :]:
            for statement in script:
                connection.execute(statement)
        connection.execute(f"PRAGMA user_version = {len(MIGRATIONS)}")
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _version(connection: sqlite3.Connection, name: str) -> int:
    version = int(connection.execute("PRAGMA user_version").fetchone()[0])
    if version > len(MIGRATIONS):
        raise DataError(
            f"{name} was written by a newer lsp-calib (format {version}, this one knows {len(MIGRATIONS)}). "
            "It was left as it is. Update lsp-calib, or set LSP_CALIB_HOME to another folder."
        )
    return version
