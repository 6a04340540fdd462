"""cassandra:// on three real servers of Cassandra: the conformance suite with kills and freezes, and its own."""

from __future__ import annotations

import time
from typing import Any

from cassandra.cluster import Cluster

import raftmeta
from raftmeta.backends.cassandra import PLUGIN, bucket_of
from raftmeta.backends.plugin import Write
from raftmeta.backends.url import BackendUrl
from raftmeta.recipes.deadline import Deadline
from tests.conformance.cassandra_cluster import CassandraCluster
from tests.conformance.real_suite import run_suite
from tests.doors.acceptance.trial import Trial
from tests.doors.software import CASSANDRA, CASSANDRA_VERSION
from tests.processes.waiting import wait_until

TTL_S = 5
TABLES_S = 120.0  # to make them, once
OPEN_S = 60.0


def run(trial: Trial) -> None:
    CASSANDRA.folder()
    with CassandraCluster(trial.folder / "servers") as cluster:
        url = f"cassandra://{cluster.addresses}/suite?replication=3&ttl_s={TTL_S}"
        raftmeta.connect(url, timeout_s=TABLES_S).close()
        with Cluster([("127.0.0.1", cluster.ports[1][0])], protocol_version=5) as driver:
            session = driver.connect()
            with trial.check("rows are as formats.md says"):
                rows_are_as_documented(url, session)
            with trial.check("a row does not end before its lease"):
                rows_end_after_their_lease(url)
            with trial.check("a table of the plug-in is refused"):
                foreign_tables_are_refused(cluster.addresses, session)
        run_suite(
            trial, url, cluster.servers(), has_one_server=False, server=f"Cassandra {CASSANDRA_VERSION}, three nodes"
        )


def rows_are_as_documented(url: str, session: Any) -> None:
    with raftmeta.connect(url, timeout_s=OPEN_S) as backend:
        revision = backend.storage.put("topics/t", b"3")
        asked = (bucket_of(b"topics/t"), "topics/t")
        (row,) = session.execute("SELECT * FROM suite.kv WHERE bucket = %s AND key = %s", asked)
        assert (row.value, row.modified, row.lease) == (b"3", revision, 0), row
        assert row.epoch >= revision, row


def rows_end_after_their_lease(url: str) -> None:
    """A place that nobody renews: its row must not end before its time to live, although Cassandra ends it early."""
    system = PLUGIN.system(BackendUrl.parse(url), timeout_s=OPEN_S)
    key, deadline = b"_raftmeta/groups/ends/a", Deadline(OPEN_S)
    try:
        lease, ttl_s = system.grant(2.0, deadline)
        system.commit([], [Write(key, b"", lease)], deadline)
        written_s = time.monotonic()
        wait_until(
            lambda: not system.read(key, is_prefix=False, deadline=deadline)[1], timeout_s=OPEN_S, what="the row's end"
        )
        assert time.monotonic() - written_s >= ttl_s
    finally:
        system.close()


def foreign_tables_are_refused(addresses: str, session: Any) -> None:
    session.execute("CREATE KEYSPACE plugin WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 3}")
    session.execute("CREATE TABLE plugin.kv (key text PRIMARY KEY, value text)")
    try:
        raftmeta.connect(f"cassandra://{addresses}/plugin", timeout_s=OPEN_S).close()
    except raftmeta.ConfigError as error:
        assert "plugin.kv" in str(error), error
    else:
        raise AssertionError("a table with other columns was taken")
