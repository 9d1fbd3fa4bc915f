-- A store as lsp-calib wrote it with format 8.
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
    logprobs TEXT NOT NULL,
    features TEXT NOT NULL,
    features_version INTEGER NOT NULL,
    place TEXT NOT NULL,
    line TEXT,
    workspace TEXT,
    shown_probability REAL NOT NULL,
    source TEXT,
    typed INTEGER NOT NULL DEFAULT 0,
    was_hidden INTEGER NOT NULL DEFAULT 0,
    accepted_typed INTEGER,
    accepted_confidence REAL,
    accepted_tier TEXT
);
CREATE TABLE moments (
    number INTEGER PRIMARY KEY,
    suggestion_id TEXT NOT NULL,
    typed INTEGER NOT NULL,
    confidence REAL,
    tier TEXT NOT NULL
);
CREATE TABLE events (
    number INTEGER PRIMARY KEY,
    suggestion_id TEXT NOT NULL,
    kind TEXT NOT NULL,
    at REAL NOT NULL,
    data TEXT NOT NULL
);
CREATE TABLE labels (
    suggestion_id TEXT PRIMARY KEY,
    correct INTEGER,
    how TEXT NOT NULL,
    at REAL NOT NULL,
    episode TEXT NOT NULL,
    settled_at REAL
);
CREATE INDEX suggestions_by_model ON suggestions (model_sha256, prompt_version, kind);
CREATE INDEX suggestions_by_time ON suggestions (shown_at);
CREATE INDEX suggestions_not_shown ON suggestions (source, shown_at) WHERE source IS NOT NULL;
CREATE INDEX events_by_suggestion ON events (suggestion_id);
CREATE INDEX moments_by_suggestion ON moments (suggestion_id);
INSERT INTO suggestions VALUES ('a', 3.0, 'line', 'python', 'm', 'abc123', 'p1', 'c', 'total', NULL, 0.5, 0.25, 'review', '[-0.5]', '{}', 1, '', 'hash', NULL, 1.0, NULL, 0, 0, NULL, NULL, NULL);
INSERT INTO suggestions VALUES ('r', 2.0, 'line', 'python', 'm', 'abc123', 'p1', 'c', 'total', NULL, 0.5, 0.25, 'review', '[-0.5]', '{}', 1, '', 'hash', NULL, 1.0, 'replay', 0, 0, NULL, NULL, NULL);
INSERT INTO suggestions VALUES ('b', 1.0, 'line', 'python', 'm', 'abc123', 'p1', 'c', 'total', NULL, 0.5, 0.25, 'review', '[-0.5]', '{}', 1, '', 'hash', NULL, 1.0, NULL, 2, 1, 3, 0.5, 'review');
INSERT INTO labels VALUES ('r', 1, 'typed', 2.0, 'r', 2.0), ('b', 1, 'kept', 40.0, 'b', 40.0);
INSERT INTO events (suggestion_id, kind, at, data) VALUES ('a', 'shown', 3.0, '{}'), ('b', 'shown', 1.0, '{}'), ('b', 'settled', 40.0, '{}'), ('unknown', 'rejected', 5.0, '{}'), ('r', 'rejected', 6.0, '{}');
PRAGMA user_version = 8;
