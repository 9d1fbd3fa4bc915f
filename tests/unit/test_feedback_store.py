"""The feedback store keeps what it acknowledged, and nothing it must not know."""

from __future__ import annotations

import errno
import json
import logging
import os
import signal
import sqlite3
import stat
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import attrs
import feedback_scene
import pytest
from feedback_scene import MODEL, fill

from lsp_calib.confidence.features import VERSION
from lsp_calib.errors import DataError, LspCalibError, SettingsError
from lsp_calib.feedback.events import SETTLE_AFTER, Event, EventKind, How, Label
from lsp_calib.feedback.removal import believed
from lsp_calib.feedback.store import Counts, FeedbackStore, LabelledRow
from lsp_calib.feedback.store_file import _move_aside
from lsp_calib.files import kind_of_mount
from lsp_calib.values import Evidence

SECRET = "hunter2_is_the_password"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "home" / "feedback.db"


@pytest.fixture
def store(path: Path) -> Iterator[FeedbackStore]:
    with closing(FeedbackStore(path)) as store:
        yield store


def show(store: FeedbackStore, identity: str = "s", **more: Any) -> None:
    usual = {"text": f"password = '{SECRET}'", "doubtful": SECRET, "place": "mid-word"}
    feedback_scene.show(store, identity, **usual | {"logprobs": (-0.1234567, -2.0)} | more)


def settled(
    identity: str, how: How, correct: bool | None, at: float = 1060.0, *, is_settled: bool = True
) -> Event:
    kind = EventKind.SETTLED if is_settled else EventKind.PROVISIONAL
    return Event(identity, kind, at, label=Label(identity, correct, how, at, settled=is_settled))


def label(store: FeedbackStore, identity: str = "s", how: How = How.KEPT, **more: Any) -> None:
    """Its label settles, or is provisional; right where the line was kept."""
    store.record_events([settled(identity, how, how is How.KEPT, **more)])


def labels(store: FeedbackStore, **more: Any) -> list[LabelledRow]:
    return store.labels(MODEL, "p1", "line", **more)


def ids(store: FeedbackStore, **more: Any) -> list[str]:
    return [row.suggestion_id for row in labels(store, **more)]


class TestRecords:
    def test_labels_of_alternatives_are_kept_apart(self, store: FeedbackStore) -> None:
        for rank in (1, 2, 3):
            show(store, f"rank {rank}", rank=rank)
            label(store, f"rank {rank}")
        kinds = {"line": "rank 1", "line-2": "rank 2", "line-3": "rank 3"}
        for kind, identity in kinds.items():
            assert [row.suggestion_id for row in store.labels(MODEL, "p1", kind)] == [identity]
        assert [row["kind"] for row in store.export()] == list(kinds)

    def test_nothing_is_kept_of_a_suggestion_that_is_not_stored(
        self, store: FeedbackStore, path: Path
    ) -> None:
        """Purged meanwhile by another process, or shown while no feedback was kept."""
        show(store)
        show(store, "t", at=2000.0)
        with closing(FeedbackStore(path)) as other:
            assert other.purge(before=1500.0) == 1
        label(store)
        label(store, "t")
        kinds = (EventKind.ACCEPTED, EventKind.SURVIVED)
        events = [Event("s", kind, 1.0) for kind in kinds]
        store.record_events([*events, Event("never stored", EventKind.WITHHELD, 1.0)])
        counts = store.counts()
        assert (counts.suggestions, counts.labelled) == (1, 1)
        assert counts.events == {"accepted": 1, "settled": 1, "withheld": 1}

    def test_a_label_comes_back_with_what_it_is_fitted_on(self, store: FeedbackStore) -> None:
        show(store)
        label(store)
        (row,) = labels(store)
        assert attrs.asdict(row) == {
            "suggestion_id": "s",
            "language": "python",
            "evidence": attrs.asdict(Evidence((-0.12346, -2.0), place="mid-word")),
            "correct": True,
            "how": How.KEPT,
            "shown_at": 1000.0,
            "at": 1060.0,
            "episode": "s",
            "line": row.line,
            "shown_probability": 1.0,
            "settled_at": 1060.0,
            "typed": 0,
            "calibrator_id": "c",
            "confidence": 0.5,
            "best": 0.5,
        }

    def test_features_come_back_but_no_text(self, store: FeedbackStore, path: Path) -> None:
        features = {"total": -1.2345678, "new-names": 0.0, SECRET: 1.0, "broken": float("nan")}
        show(store, features=features, place=f"mid-word {SECRET}")
        show(store, "t", features={"total": 2.0})
        label(store)
        label(store, "t", at=1061.0)
        first, second = labels(store)
        kept = {"total": -1.23457, "new-names": 0.0}
        # Before signs were looked for, lines count as lines without.
        assert first.evidence == Evidence((-0.12346, -2.0), {"signs": 0.0, **kept}, "")
        assert (second.evidence.place, second.evidence.doubtful) == ("mid-word", "")
        assert [row["features"] for row in store.export()] == [kept, {"total": 2.0}]
        assert {row["features_version"] for row in store.export()} == {VERSION}
        store.close()
        assert SECRET.encode() not in all_bytes(path)

    def test_features_of_another_version_do_not_count(self, store: FeedbackStore) -> None:
        show(store, features={"total": 1.0})
        label(store)
        store._connection.execute("UPDATE suggestions SET features_version = ?", (VERSION + 1,))
        (row,) = labels(store)
        assert row.evidence == Evidence((-0.12346, -2.0), {}, "mid-word")

    def test_only_of_that_model_prompt_and_task(self, store: FeedbackStore) -> None:
        show(store, "mine")
        show(store, "other model", model=attrs.evolve(MODEL, sha256="def"))
        show(store, "other prompt", prompt="p2")
        for identity in ("mine", "other model", "other prompt"):
            label(store, identity, How.IGNORED)
        assert ids(store) == ["mine"]
        assert store.labels(MODEL, "p1", "summary") == []

    def test_no_label_is_no_row(self, store: FeedbackStore) -> None:
        show(store, "unsettled")
        show(store, "unread")
        store.record_events([settled("unread", How.UNREAD, None)])
        assert labels(store) == []

    def test_a_provisional_label_is_revised_and_settles_once(self, store: FeedbackStore) -> None:
        """It is there at once, and known since; what has settled stays, unless the user reports it."""
        show(store, "a")
        story = (
            (How.KEPT, 1.0, False, (How.KEPT, True, 1.0, None)),
            (How.EDITED, 3.0, False, (How.EDITED, False, 1.0, None)),
            (How.KEPT, 33.0, True, (How.KEPT, True, 1.0, 33.0)),
            (How.EDITED, 40.0, True, (How.KEPT, True, 1.0, 33.0)),
            (How.EDITED, 41.0, False, (How.KEPT, True, 1.0, 33.0)),
            (How.REPORTED, 50.0, True, (How.REPORTED, False, 1.0, 50.0)),
        )
        for how, at, is_settled, expected in story:
            label(store, "a", how, at=at, is_settled=is_settled)
            (row,) = labels(store)
            assert (row.how, row.correct, row.at, row.settled_at) == expected

    def test_a_provisional_label_that_nobody_revises_any_more_settles(self, store: FeedbackStore) -> None:
        """Its server was killed. One that may be revised still is left alone."""
        for identity, at in (("left", 100.0), ("new", 150.0)):
            show(store, identity)
            label(store, identity, at=at, is_settled=False)
        store.settle_left(100.0 + 2 * SETTLE_AFTER + 1)
        rows = {row.suggestion_id: row.settled_at for row in labels(store)}
        assert rows == {"left": 100.0 + 2 * SETTLE_AFTER + 1, "new": None}

    def test_what_is_provisional_is_no_news_to_a_watch(self, store: FeedbackStore) -> None:
        """It counts from when it has settled."""
        for identity, at in (("a", 10.0), ("b", 20.0)):
            show(store, identity)
            label(store, identity, at=at, is_settled=False)
        label(store, "b", at=50.0)
        assert ids(store, after=5.0) == ids(store, after=20.0) == ["b"]
        assert len(labels(store)) == 2

    def test_in_order_of_time(self, store: FeedbackStore) -> None:
        for identity, how, at in (("a", How.KEPT, 2.0), ("b", How.IGNORED, 1.0)):
            show(store, identity)
            label(store, identity, how, at=at)
        rows = [(row.suggestion_id, row.correct, row.how) for row in labels(store)]
        assert rows == [("b", False, How.IGNORED), ("a", True, How.KEPT)]

    def test_shown_twice_is_kept_once_as_it_was(self, store: FeedbackStore) -> None:
        show(store, at=1.0)
        show(store, at=2.0)
        assert [row["shown_at"] for row in store.export()] == [1.0]

    def test_logprobs_that_are_no_numbers_are_not_kept(self, store: FeedbackStore) -> None:
        show(store, logprobs=(-0.5, float("-inf")))
        assert [row["logprobs"] for row in store.export()] == [[]]

    def test_counts(self, store: FeedbackStore) -> None:
        for identity in ("a", "b", "c", "d"):
            show(store, identity)
        unread = settled("c", How.UNREAD, None)
        store.record_events([Event("a", EventKind.ACCEPTED, 1.0), settled("b", How.TYPED, True), unread])
        label(store, "a")
        counts = store.counts()
        assert (counts.suggestions, counts.labelled, counts.correct) == (4, 2, 2)
        assert counts.events == {"accepted": 1, "settled": 3}
        assert counts.labels == {"kept": 1, "typed": 1, "unread": 1}

    def test_export_is_json_with_events_and_label(self, store: FeedbackStore) -> None:
        show(store, "second", at=2.0)
        show(store, "first", at=1.0)
        survived = {"seconds": 30, "unchanged": True}
        store.record_events([Event("first", EventKind.SURVIVED, 40.0, survived)])
        label(store, "first", at=50.0)
        first, second = json.loads(json.dumps(list(store.export())))
        assert first["id"] == "first"
        kept = {"correct": True, "how": "kept", "at": 50.0, "episode": "first", "settled_at": 50.0}
        assert first["label"] == kept
        assert first["events"] == [
            {"kind": "survived", "at": 40.0, "data": survived},
            {"kind": "settled", "at": 50.0, "data": {}},
        ]
        assert (second["label"], second["events"]) == (None, [])

    def test_events_are_kept_all_or_none(self, store: FeedbackStore) -> None:
        show(store, "a")
        show(store, "b")
        broken = attrs.evolve(settled("b", How.KEPT, True), at=None)  # type: ignore[arg-type]
        with pytest.raises(LspCalibError):
            store.record_events([settled("a", How.KEPT, True), broken])
        assert store.counts().events == {}
        label(store, "a")
        assert store.counts().events == {"settled": 1}

    def test_may_be_used_from_another_thread(self, store: FeedbackStore) -> None:
        worker = threading.Thread(target=show, args=(store,))
        worker.start()
        worker.join()
        assert store.counts().suggestions == 1


class TestHashes:
    def test_one_line_has_one_hash_and_no_text(self, store: FeedbackStore, path: Path) -> None:
        """White space at its ends does not count; the key lies beside, for the owner alone."""
        for number, line in enumerate((f"  {SECRET}", f"{SECRET} ", "another")):
            show(store, str(number), line=line, workspace="file:///home/somebody/project")
        rows = store.read("SELECT line, workspace FROM suggestions ORDER BY id")
        (first, second, other), (folder,) = [line for line, _ in rows], {folder for _, folder in rows}
        assert first == second != other
        assert all(len(one) == 16 and int(one, 16) >= 0 for one in (first, other, folder))
        assert SECRET.encode() not in all_bytes(path)
        assert b"somebody" not in all_bytes(path)
        key = path.with_name("feedback.key")
        assert len(key.read_bytes()) == 32
        if os.name == "posix":
            assert stat.S_IMODE(key.stat().st_mode) == 0o600

    def test_they_are_of_this_installation_alone(self, tmp_path: Path) -> None:
        found = []
        for name in ("one", "other"):
            with closing(FeedbackStore(tmp_path / name / "feedback.db")) as store:
                show(store, line="return None")
                found += store.read("SELECT line FROM suggestions")
        assert found[0] != found[1]

    def test_processes_that_need_the_key_at_once_make_one(self, path: Path) -> None:
        program = (
            "import sys; from pathlib import Path; from lsp_calib.feedback.store import FeedbackStore; "
            "store = FeedbackStore(Path(sys.argv[1])); print(store.line_hashes(['x = 1'])); store.close()"
        )
        command = [sys.executable, "-c", program, str(path)]
        processes = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(4)]
        (hashes,) = {one.communicate(timeout=60)[0] for one in processes}
        assert "x = 1" in hashes
        assert "None" not in hashes, "it has one"

    def test_a_damaged_key_is_replaced(self, store: FeedbackStore, path: Path) -> None:
        path.with_name("feedback.key").write_bytes(b"short")
        show(store, line="return None")
        assert len(path.with_name("feedback.key").read_bytes()) == 32


@pytest.mark.parametrize("language", ["x" * 1_000_000, f"{SECRET} = 1", "a\nb", ""])
def test_what_is_no_language_is_not_kept_as_one(store: FeedbackStore, language: str) -> None:
    show(store, language=language)
    assert [row["language"] for row in store.export()] == ["other"]


MOUNTS = """\
21 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw
35 21 0:30 / /home rw - nfs4 server:/home rw,vers=4.2
36 35 0:31 / /home/me/local\\040disk rw - xfs /dev/sdb rw
37 21 0:32 / /mnt/remote rw - fuse.sshfs me@host: rw
"""


@pytest.mark.parametrize(
    ("folder", "kind"),
    [
        ("/var/lib", "ext4"),
        ("/home/me/.local/share", "nfs4"),
        ("/home", "nfs4"),
        ("/homes", "ext4"),
        ("/home/me/local disk/x", "xfs"),
        ("/mnt/remote/x", "fuse.sshfs"),
    ],
)
def test_the_file_system_of_a_folder(folder: str, kind: str) -> None:
    assert kind_of_mount(folder, MOUNTS) == kind
    assert kind_of_mount(folder, "") == ""


@pytest.mark.skipif(sys.platform != "linux", reason="mounts are read as Linux tells them")
def test_on_a_network_file_system_there_is_no_write_ahead_log(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A store that had one goes on without: what is in it stays."""
    with closing(FeedbackStore(path)) as store:
        show(store, "before")
        assert store.read("PRAGMA journal_mode") == [("wal",)]
    mounts = tmp_path / "mountinfo"
    mounts.write_text(f"35 21 0:30 / {os.path.realpath(tmp_path)} rw - nfs4 server:/home rw\n")
    monkeypatch.setattr("lsp_calib.files._MOUNTS", mounts)
    stores = [FeedbackStore(path), FeedbackStore(path)]
    for number, store in enumerate(stores):
        assert store.read("PRAGMA journal_mode") == [("delete",)]
        show(store, str(number))
    assert stores[0].counts().suggestions == 3
    assert not path.with_name("feedback.db-wal").exists()
    assert stores[1].purge() == 3
    for store in stores:
        store.close()


class TestPurge:
    def test_the_key_and_damaged_copies_go_with_everything(self, store: FeedbackStore, path: Path) -> None:
        """What is stored afterwards has another key, in every process."""
        other = FeedbackStore(path)
        show(store, "a", line="return None")
        show(other, "b", line="return None")
        aside = path.with_name("feedback.db.corrupt-20260101T000000")
        aside.write_bytes(b"notes")
        store.purge(before=1.0)
        assert aside.exists()
        old = set(store.read("SELECT line FROM suggestions"))
        assert store.purge() == 2
        assert not aside.exists()
        show(store, "c", line="return None")
        show(other, "d", line="return None")
        new = set(store.read("SELECT line FROM suggestions"))
        assert len(old) == len(new) == 1
        assert old != new
        other.close()

    def test_while_another_program_reads_it_says_so(self, store: FeedbackStore, path: Path) -> None:
        """Deleted rows may then still be in the file: it must not look as if they were gone."""
        show(store, "secret-identity")
        with closing(FeedbackStore(path, timeout=0.05)) as impatient:
            with closing(sqlite3.connect(path, isolation_level=None)) as reader:
                reader.execute("BEGIN")
                reader.execute("SELECT * FROM suggestions").fetchall()
                with pytest.raises(LspCalibError, match="Another program"):
                    impatient.purge()
            impatient.purge()
        assert b"secret-identity" not in all_bytes(path)

    def test_everything_goes_also_from_the_file(self, store: FeedbackStore, path: Path) -> None:
        for n in range(100):
            show(store, f"identity-{n}")
            label(store, f"identity-{n}")
        store.record_events([Event("identity-without-suggestion", EventKind.REJECTED, 1.0)])
        assert b"identity-" in all_bytes(path)
        store.purge(before=0.0)  # empties the write-ahead log, so that the size is that of the content
        size = path.stat().st_size
        assert store.purge() == 100
        assert path.stat().st_size < size
        assert store.counts() == Counts(0, 0, 0, {}, {})
        assert b"identity-" not in all_bytes(path)


def all_bytes(path: Path) -> bytes:
    return b"".join(file.read_bytes() for file in sorted(path.parent.iterdir()))


class TestRetention:
    def test_a_clock_is_believed_a_day_beyond_another_days_reading(self, store: FeedbackStore) -> None:
        """Of a suggestion, or of its own: also where nothing is shown any more. One that jumped is not."""
        day, start = 86_400.0, 1_700_000_000.0
        show(store, "s", at=start)
        assert believed(store, start + 60.0) == day
        assert believed(store, start + 1.5 * day) == start + 60.0 + day
        for n in (2.5, 2.9, 3.2, 3.6):  # calls that are less than a day apart put nothing off
            reached = believed(store, start + n * day)
        assert reached == start + 3.5 * day
        for n in range(5, 30):
            assert believed(store, start + n * day + 60.0) >= start + (n - 1) * day
        ahead = start + 400 * day
        for _ in range(3):  # several servers on that day
            assert believed(store, ahead) <= start + 31 * day
        assert believed(store, start + 31 * day) <= start + 31 * day
        assert stat.S_IMODE(store.path.with_suffix(".expiry").stat().st_mode) == 0o600

    def test_a_little_at_a_time_the_oldest_first(self, store: FeedbackStore) -> None:
        fill(store, 10)
        assert store.expire(1007.0, most=3)
        assert [row["shown_at"] for row in store.export()] == [1003.0 + n for n in range(7)]
        assert store.expire(1007.0, most=3)
        assert not store.expire(1007.0, most=3)
        assert [row["shown_at"] for row in store.export()] == [1007.0, 1008.0, 1009.0]
        counts = store.counts()
        assert counts.events == {"settled": 3, "shown": 3}
        assert counts.labels == {"kept": 3}
        assert not store.expire(1007.0, most=3)

    def test_hints_about_nothing_go_as_well(self, store: FeedbackStore) -> None:
        fill(store, 3)
        store.record_events(Event(f"unknown-{n}", EventKind.REJECTED, 1000.0 + n) for n in range(10))
        store.record_events([Event(f"{2:016x}", EventKind.REJECTED, 1001.0)])
        while store.expire(1002.0, most=4):
            pass
        assert store.counts().suggestions == 1
        assert store.counts().events == {"rejected": 9, "settled": 1, "shown": 1}

    def test_what_is_forgotten_is_not_in_the_file(self, store: FeedbackStore, path: Path) -> None:
        fill(store, 50)
        store._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        assert f"{7:016x}".encode() in path.read_bytes()
        store.expire(1040.0)
        store._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        assert f"{7:016x}".encode() not in path.read_bytes()
        assert f"{45:016x}".encode() in path.read_bytes()


@pytest.mark.skipif(os.name != "posix", reason="modes are a POSIX notion")
class TestPrivacy:
    def test_readable_by_the_owner_alone(self, path: Path) -> None:
        old = os.umask(0)
        try:
            store = FeedbackStore(path)
            show(store)
            modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in path.parent.iterdir()}
            store.close()
        finally:
            os.umask(old)
        assert modes == {"feedback.db": 0o600, "feedback.db-wal": 0o600, "feedback.db-shm": 0o600}
        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700

    def test_a_file_that_others_could_read_is_closed_to_them(self, path: Path) -> None:
        FeedbackStore(path).close()
        path.chmod(0o644)
        FeedbackStore(path).close()
        assert stat.S_IMODE(path.stat().st_mode) == 0o600


class TestDamage:
    @pytest.mark.parametrize("kind", ["other file", "torn inside"])
    def test_moved_aside_with_a_warning_and_begun_afresh(
        self, path: Path, kind: str, caplog: pytest.LogCaptureFixture
    ) -> None:
        damaged = b"this is not a database, but somebody's notes " * 100
        if kind == "torn inside":
            with closing(FeedbackStore(path)) as store:
                for n in range(200):
                    show(store, str(n))
            intact = path.read_bytes()
            damaged = intact[:4096] + b"\xff" * (len(intact) - 4096)
        else:
            path.parent.mkdir()
        path.write_bytes(damaged)
        with caplog.at_level(logging.WARNING):
            store = FeedbackStore(path)
            show(store)
        assert store.moved_aside.name.startswith("feedback.db.corrupt-")
        assert store.moved_aside.read_bytes() == damaged
        assert str(store.moved_aside) in caplog.text
        assert store.counts().suggestions == 1
        store.close()
        with closing(FeedbackStore(path)) as again:
            assert again.moved_aside is None
            assert again.counts().suggestions == 1

    def test_twice_in_a_second_keeps_both(self, path: Path) -> None:
        path.parent.mkdir()
        contents = {b"first" * 1000, b"second" * 1000}
        for content in contents:
            path.write_bytes(content)
            FeedbackStore(path).close()
        kept = {file.read_bytes() for file in path.parent.glob("feedback.db.corrupt-*")}
        assert kept == contents

    def damage(self, store: FeedbackStore, path: Path) -> bytes:
        """Fill a store, and tear all but its first page while it is open. Returns the file as it is then."""
        for n in range(200):
            show(store, str(n))
        store.purge(before=0.0)  # empties the write-ahead log
        size = path.stat().st_size
        with path.open("r+b") as file:
            file.seek(4096)
            file.write(b"\xff" * (size - 4096))
        store._connection.execute("PRAGMA shrink_memory")
        other = sqlite3.connect(path)
        other.execute("PRAGMA user_version = 2")  # makes the store drop what it has cached
        other.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        other.close()
        return path.read_bytes()

    def test_found_while_reading_says_where_it_went(self, store: FeedbackStore, path: Path) -> None:
        damaged, before = self.damage(store, path), store._connection
        with pytest.raises(DataError, match=r"was damaged .* moved to .*\.corrupt-.* a new one was created"):
            list(store.export())
        with pytest.raises(sqlite3.ProgrammingError, match="closed"):
            before.execute("SELECT 1")
        assert store.moved_aside.read_bytes() == damaged
        assert list(store.export()) == []

    def test_found_while_writing_loses_nothing(self, store: FeedbackStore, path: Path) -> None:
        damaged = self.damage(store, path)
        show(store, "later")
        label(store, "later")
        assert store.moved_aside.read_bytes() == damaged
        with closing(FeedbackStore(path)) as again:
            assert ids(again) == ["later"]

    def test_what_is_written_after_another_process_moved_the_file_is_in_the_fresh_one(
        self, store: FeedbackStore, path: Path
    ) -> None:
        show(store, "before")
        _move_aside(path)
        show(store, "after")
        with closing(FeedbackStore(path)) as other:
            assert [row["id"] for row in other.export()] == ["after"]

    @pytest.mark.parametrize("version", [99, 6])
    def test_an_unknown_format_is_refused_and_left_alone(self, path: Path, version: int) -> None:
        FeedbackStore(path).close()
        with closing(sqlite3.connect(path)) as connection:
            connection.execute(f"PRAGMA user_version = {version}")
        before = path.read_bytes()
        said = rf"feedback\.db was written by another version .* \(format {version}.* Update lsp-calib"
        with pytest.raises(DataError, match=said):
            FeedbackStore(path)
        assert path.read_bytes() == before


EIGHT = Path(__file__).parent / "feedback-8.sql"


def test_a_store_of_an_earlier_version_goes_on_without_what_was_never_shown(path: Path) -> None:
    """Lines that were completed afterwards had a row and a label; nothing else is lost, nor out of order."""
    path.parent.mkdir()
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(EIGHT.read_text("utf-8"))
    for _ in range(2):
        with closing(FeedbackStore(path)) as store:
            rows, learned = list(store.export()), ids(store)
    assert [(row["id"], row["label"] and row["label"]["how"]) for row in rows] == [("b", "kept"), ("a", None)]
    assert rows[0]["moments"][0] == {"typed": 2, "confidence": 0.25, "tier": "review"}
    assert (rows[0]["accepted_typed"], rows[0]["was_hidden"], rows[0]["line"]) == (3, True, "hash")
    assert learned == ["b"]
    with closing(FeedbackStore(path)) as store:
        assert store.counts().events == {"rejected": 1, "settled": 1, "shown": 2}
        show(store, "c")
        assert "source" not in store.read("SELECT sql FROM sqlite_master WHERE name = 'suggestions'")[0][0]


def refusal(code: int) -> sqlite3.OperationalError:
    error = sqlite3.OperationalError("SQLite's words")
    error.sqlite_errorcode = code
    return error


class TestRefusals:
    """No error of SQLite's reaches the caller as it is."""

    def test_full_disk(self, store: FeedbackStore) -> None:
        ((pages,),) = store.read("PRAGMA page_count")
        store.read(f"PRAGMA max_page_count = {pages}")
        acknowledged: list[str] = []

        def fill() -> None:
            while True:
                show(store, str(len(acknowledged)))
                acknowledged.append("shown")

        with pytest.raises(LspCalibError, match="full, so feedback cannot be recorded"):
            fill()
        assert store.counts().suggestions == len(acknowledged)
        store.read("PRAGMA max_page_count = 1000000")
        show(store, "later")
        assert store.counts().suggestions == len(acknowledged) + 1

    @pytest.mark.parametrize("damaged", [False, True])
    def test_a_file_that_cannot_be_made_at_once_is_made_later(
        self, store: FeedbackStore, path: Path, monkeypatch: pytest.MonkeyPatch, damaged: bool
    ) -> None:
        """The user deletes the file on a full disk, or it is damaged there: once there is space again, what
        is written is kept, and can be read."""
        if damaged:
            TestDamage().damage(store, path)
        else:
            _move_aside(path)

        tried = []

        def full(one: FeedbackStore) -> sqlite3.Connection:
            tried.append(one)
            raise refusal(sqlite3.SQLITE_FULL)

        with monkeypatch.context() as context:
            context.setattr(FeedbackStore, "_connected", full)
            for _ in range(2):
                with pytest.raises(LspCalibError, match="full, so feedback cannot be recorded"):
                    show(store, "lost")
                with pytest.raises(LspCalibError, match="full"):
                    list(store.export())
        assert len(tried) == 4, "unlike a lock, it is not waited for"
        assert list(store.export()) == []
        show(store, "later")
        assert [row["id"] for row in store.export()] == ["later"]

    @pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
    def test_a_full_disk_where_the_key_is_made(
        self, store: FeedbackStore, monkeypatch: pytest.MonkeyPatch, number: int
    ) -> None:
        def full(*_: object, **__: object) -> None:
            raise OSError(number, os.strerror(number), "a made-up name")

        with monkeypatch.context() as context:
            context.setattr(tempfile, "mkstemp", full)
            with pytest.raises(LspCalibError, match=r"The disk with .*feedback\.db is full"):
                store.line_hashes(["x = 1"])
        assert store.line_hashes(["x = 1"])

    def test_read_only(self, store: FeedbackStore) -> None:
        store._connection.execute("PRAGMA query_only = ON")
        with pytest.raises(SettingsError, match="LSP_CALIB_HOME"):
            show(store)

    def test_locked(self, path: Path) -> None:
        with closing(FeedbackStore(path, timeout=0.05)) as store:
            with closing(sqlite3.connect(path, isolation_level=None)) as other:
                other.execute("BEGIN EXCLUSIVE")
                with pytest.raises(LspCalibError, match="locked"):
                    show(store)
            show(store)

    def test_a_lock_that_sqlite_does_not_wait_for(self, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        set_up, refused = FeedbackStore._set_up, iter([sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED])

        def busy(store: FeedbackStore, connection: sqlite3.Connection) -> None:
            for code in refused:
                raise refusal(code)
            set_up(store, connection)

        monkeypatch.setattr(FeedbackStore, "_set_up", busy)
        with closing(FeedbackStore(path)) as store:
            show(store)
        assert next(refused, None) is None

    def test_a_folder_in_its_place(self, path: Path) -> None:
        path.mkdir(parents=True)
        with pytest.raises(SettingsError, match=r"feedback\.db cannot be written"):
            FeedbackStore(path)

    def test_closed(self, path: Path) -> None:
        store = FeedbackStore(path)
        store.close()
        store.close()
        with pytest.raises(LspCalibError, match="closed"):
            show(store)


WRITER = """
import sys
from pathlib import Path
from lsp_calib.feedback.events import Event, EventKind
from lsp_calib.feedback.store import Counts, FeedbackStore, LabelledRow

path, name, n = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
store = FeedbackStore(path)
for number in range(n):
    identity = f"{name}-{number}"
    store.record_events([Event(identity, EventKind.ACCEPTED, 1.0)])
    print(identity, flush=True)
store.close()
"""


def writer(path: Path, name: str, n: int) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", WRITER, str(path), name, str(n)], stdout=subprocess.PIPE, text=True
    )


@pytest.mark.parametrize("damaged", [False, True])
def test_processes_that_open_and_write_at_once_lose_nothing(path: Path, damaged: bool) -> None:
    """From the creation of the file on. Of a damaged one: one moves it aside, and no other the fresh one."""
    if damaged:
        path.parent.mkdir()
        path.write_bytes(b"damaged" * 1000)
    writers = [writer(path, name, 40) for name in "abcd"]
    for one in writers:
        one.communicate(timeout=60)
    assert [one.returncode for one in writers] == [0, 0, 0, 0]
    assert len(list(path.parent.glob("feedback.db.corrupt-*"))) == damaged
    with closing(FeedbackStore(path)) as store:
        assert store.counts().events == {"accepted": 160}


@pytest.mark.skipif(os.name != "posix", reason="kill -9")
@pytest.mark.parametrize("acknowledged", [1, 7, 30])
def test_killed_while_writing_keeps_every_acknowledged_event(path: Path, acknowledged: int) -> None:
    with writer(path, "w", 1_000_000) as process:
        seen = [process.stdout.readline().strip() for _ in range(acknowledged)]
        process.send_signal(signal.SIGKILL)
        seen += process.stdout.read().split()
    with closing(FeedbackStore(path)) as store:
        assert store.moved_aside is None
        kept = [identity for (identity,) in store.read("SELECT suggestion_id FROM events ORDER BY number")]
    assert kept[: len(seen)] == seen
    assert len(seen) >= acknowledged
