"""A Dask cluster answers as one process does, and a worker that is lost loses nothing."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from dask_cluster import Cluster
from runner_scene import HEADER, Answering, asked, items, whole

from lsp_calib.errors import EngineError, SettingsError
from lsp_calib.evaluation.collect import DaskPool
from lsp_calib.evaluation.runner import run

pytest.importorskip("distributed")
pytestmark = pytest.mark.skipif(os.name != "posix", reason="SIGKILL")

COUNT = 60


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    cluster = Cluster(tmp_path / "cluster", Path(__file__).parent)
    try:
        cluster.add_worker()
        cluster.add_worker()
        yield cluster
    finally:
        cluster.close()


def test_a_worker_that_is_killed_loses_nothing(cluster: Cluster, tmp_path: Path) -> None:
    path, notes = tmp_path / "r.jsonl", tmp_path / "notes"
    notes.mkdir()
    pool = DaskPool(cluster.address)
    told: list[int] = []

    def kill_one(done: int, _all: int) -> None:
        told.append(done)
        if done == COUNT // 2:
            cluster.workers[0].send_signal(signal.SIGKILL)

    try:
        run(items(COUNT), Answering(str(notes), 0.05), pool, path, HEADER, on_progress=kill_one)
    finally:
        pool.close()
    assert path.read_bytes() == whole(tmp_path / "w.jsonl", tmp_path / "whole", COUNT)
    assert told == list(range(COUNT + 1)), "no answer is lost, none comes twice"
    assert asked(notes).keys() == set(range(COUNT))
    assert len({pid for one in notes.iterdir() for pid in one.read_text().split()}) == 2


def test_a_cluster_without_workers_is_not_waited_for_without_end(cluster: Cluster, tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    notes.mkdir()
    for worker in cluster.workers:
        worker.kill()
    pool = DaskPool(cluster.address, patience=1.0)
    try:
        with pytest.raises(EngineError, match="no worker"):
            run(items(3), Answering(str(notes)), pool, tmp_path / "r.jsonl", HEADER)
    finally:
        pool.close()


def test_where_there_is_no_scheduler_it_says_so() -> None:
    with pytest.raises(EngineError, match="no Dask scheduler"):
        DaskPool("tcp://127.0.0.1:9", patience=1.0)


@pytest.mark.parametrize(
    "address",
    [
        "foo",
        "tcp://foo",
        "foo:",
        ":8786",
        "foo:x",
        "foo:0",
        "foo:65536",
        "http://foo:8786",
        "tcp://foo:1/x",
        "",
    ],
)
def test_an_address_that_is_none_is_refused_before_a_client_is_made(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client of such an address waits for itself for seconds, and prints a traceback when it is deleted."""
    made: list[object] = []
    monkeypatch.setattr("distributed.Client", lambda *arguments, **_: made.append(arguments))
    with pytest.raises(SettingsError, match=r"HOST:PORT.*8786"):
        DaskPool(address, patience=1.0)
    assert not made


@pytest.mark.parametrize(
    "address", ["127.0.0.1:9", "tcp://[::1]:8786", "tls://cluster.example:8786", "ws://host:65535"]
)
def test_any_address_with_a_host_and_a_port_is_tried(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []
    monkeypatch.setattr("distributed.Client", lambda address, **_: made.append(address))
    DaskPool(address, patience=1.0)
    assert made == [address]
