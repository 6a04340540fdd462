"""The settings of a `SyncObj` and the reasons for which a call fails.

`engine_config` converts the settings that have a meaning here. docs/pysyncobj.md lists the others: they are taken,
validated and without effect.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import raftmeta

__all__ = ["FAIL_REASON", "SERIALIZER_STATE", "SyncObjConf", "engine_config"]

_MIB = 1024 * 1024


class FAIL_REASON:
    """The second argument of a callback."""

    SUCCESS = 0
    QUEUE_FULL = 1
    MISSING_LEADER = 2
    DISCARDED = 3
    NOT_LEADER = 4
    LEADER_CHANGED = 5
    REQUEST_DENIED = 6
    UNKNOWN_OUTCOME = 7


class SERIALIZER_STATE:
    """The answer of a `serializeChecker`."""

    NOT_SERIALIZING = 0
    SERIALIZING = 1
    SUCCESS = 2
    FAILED = 3


class SyncObjConf:
    """Settings with PySyncObj's names and defaults; a program may change them until and after the start."""

    def __init__(self, **kwargs: Any) -> None:
        given = kwargs.get
        self.password: str | bytes | None = given("password")
        self.autoTick: bool = given("autoTick", True)
        self.autoTickPeriod: float = given("autoTickPeriod", 0.05)
        self.commandsQueueSize: int = given("commandsQueueSize", 100_000)
        self.commandsWaitLeader: bool = given("commandsWaitLeader", True)
        # Elections and connections, in seconds.
        self.raftMinTimeout: float = given("raftMinTimeout", 0.4)
        self.raftMaxTimeout: float = given("raftMaxTimeout", 1.4)
        self.appendEntriesPeriod: float = given("appendEntriesPeriod", 0.1)
        self.connectionTimeout: float = given("connectionTimeout", 3.5)
        self.connectionRetryTime: float = given("connectionRetryTime", 5.0)
        self.leaderFallbackTimeout: float = given("leaderFallbackTimeout", 30.0)
        # Sockets and names.
        self.bindAddress: str | None = given("bindAddress")
        self.bindRetryTime: float = given("bindRetryTime", 1.0)
        self.maxBindRetries: int = given("maxBindRetries", 0)  # 0: for ever
        self.preferredAddrType: str | None = given("preferredAddrType", "ipv4")
        self.sendBufferSize: int = given("sendBufferSize", 2**16)
        self.recvBufferSize: int = given("recvBufferSize", 2**16)
        self.dnsCacheTime: float = given("dnsCacheTime", 600.0)
        self.dnsFailCacheTime: float = given("dnsFailCacheTime", 30.0)
        self.tcp_keepalive: tuple[int, int, int] | None = given("tcp_keepalive", (16, 3, 5))
        self.pollerType: str = given("pollerType", "auto")
        # Batches, files and dumps.
        self.appendEntriesUseBatch: bool = given("appendEntriesUseBatch", True)
        self.appendEntriesBatchSizeBytes: int = given("appendEntriesBatchSizeBytes", 2**16)
        self.logCompactionMinEntries: int = given("logCompactionMinEntries", 5000)
        self.logCompactionMinTime: float = given("logCompactionMinTime", 300)
        self.logCompactionSplit: bool = given("logCompactionSplit", False)
        self.logCompactionBatchSize: int = given("logCompactionBatchSize", 2**16)
        self.fullDumpFile: str | None = given("fullDumpFile")
        self.journalFile: str | None = given("journalFile")
        self.useFork: bool = given("useFork", True)
        self.serializer: Callable[[str, Any], object] | None = given("serializer")
        self.deserializer: Callable[[str], Any] | None = given("deserializer")
        self.serializeChecker: Callable[[], int] | None = given("serializeChecker")
        # Calls of the program.
        self.onReady: Callable[[], object] | None = given("onReady")
        self.onStateChanged: Callable[[int, int], object] | None = given("onStateChanged")
        self.onCodeVersionChanged: Callable[[int, int], object] | None = given("onCodeVersionChanged")
        self.dynamicMembershipChange: bool = given("dynamicMembershipChange", False)

    def validate(self) -> None:
        """Raises AssertionError, as PySyncObj does."""
        for name in ("autoTickPeriod", "appendEntriesPeriod", "bindRetryTime", "logCompactionMinTime"):
            assert getattr(self, name) > 0, name
        for name in ("appendEntriesBatchSizeBytes", "logCompactionBatchSize", "sendBufferSize", "recvBufferSize"):
            assert getattr(self, name) > 0, name
        for name in ("commandsQueueSize", "connectionRetryTime", "dnsCacheTime", "dnsFailCacheTime"):
            assert getattr(self, name) >= 0, name
        assert self.raftMinTimeout > 3 * self.appendEntriesPeriod, "raftMinTimeout"
        assert self.raftMaxTimeout > self.raftMinTimeout, "raftMaxTimeout"
        assert self.leaderFallbackTimeout > self.appendEntriesPeriod, "leaderFallbackTimeout"
        assert self.connectionTimeout >= self.raftMaxTimeout, "connectionTimeout"
        assert self.logCompactionMinEntries >= 2, "logCompactionMinEntries"
        assert (self.serializer is None) == (self.deserializer is None), "serializer"
        assert self.serializer is None or self.fullDumpFile is not None, "fullDumpFile"
        assert self.preferredAddrType in ("ipv4", "ipv6", None), "preferredAddrType"
        keepalive = self.tcp_keepalive
        assert keepalive is None or (isinstance(keepalive, tuple) and len(keepalive) == 3), "tcp_keepalive"
        assert all(isinstance(one, int) and one > 0 for one in keepalive or ()), "tcp_keepalive"


def engine_config(conf: SyncObjConf) -> raftmeta.Config:
    """The settings of the node below a `SyncObj`."""
    heartbeat_s = max(0.005, conf.appendEntriesPeriod)
    return raftmeta.Config(
        tick_s=max(0.002, min(0.02, heartbeat_s / 2)),
        heartbeat_s=heartbeat_s,
        election_timeout_s=max(conf.raftMinTimeout, 3 * heartbeat_s),
        segment_bytes=8 * _MIB,
        reserve_bytes=_MIB,
        wal_bytes_max=1024 * _MIB,
        snapshot_log_bytes=64 * _MIB,
        history_bytes_max=16 * _MIB,
        reconnect_max_s=min(1.0, max(0.05, conf.connectionRetryTime)),
        close_timeout_s=4.0,
        insecure=conf.password is None,
    )
