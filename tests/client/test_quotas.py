"""What one principal may use of a node: each quota by itself, and that others go on.

Issue 19 item 6; docs/security.md "Limits for each user".
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import raftmeta
from raftmeta import aio
from raftmeta.bindings import verbs
from raftmeta.operations import Add, Put
from tests.client.nodes import serving
from tests.client.raw import SESSION, FakeNode, RawClient
from tests.processes.waiting import wait_until
from tests.wire.names import Status

NEVER_REFILLED = {"principal_requests_per_s": 1, "principal_burst_s": 60.0}  # 61 requests, then one a second


@contextlib.contextmanager
def node_with(folder: Path, **settings: Any) -> Iterator[tuple[raftmeta.Node, str]]:
    with serving(folder, **settings) as (nodes, url):
        yield nodes["a"], url


@contextlib.contextmanager
def two_users(folder: Path, **settings: Any) -> Iterator[tuple[raftmeta.Node, str]]:
    """A node with rights on; `greedy` and `other` may do everything with keys."""
    with node_with(folder, **settings) as (node, url):
        wait_until(lambda: node.status().feature_level >= 3, timeout_s=20, what="the level of rights")
        node.auth.put_role("all")
        node.auth.grant("all", "read", "write", "watch", "lease")
        for name in ("greedy", "other"):
            node.auth.put_user(name, "password of " + name)
            node.auth.bind(name, "all")
        node.auth.enable()
        yield node, url


def as_user(url: str, name: str) -> raftmeta.Client:
    return raftmeta.Client(url, user=name, password="password of " + name)


# --- rates ------------------------------------------------------------------------------------------------------------


def test_requests_beyond_the_rate_are_certainly_not_executed(tmp_path: Path) -> None:
    """Init: 61 requests at once, then one a second. Act: one user asks more. Check: the error says which quota, whose,
    and when again; what was refused was not applied; another user is served meanwhile."""
    with (
        two_users(tmp_path, **NEVER_REFILLED) as (node, url),
        as_user(url, "greedy") as greedy,
        as_user(url, "other") as other,
    ):
        done = 0
        with pytest.raises(raftmeta.QuotaExceeded) as caught:
            for _ in range(100):
                greedy.add("count", 1)
                done += 1
        assert (caught.value.quota, caught.value.principal) == ("requests", "greedy")
        assert isinstance(caught.value, raftmeta.Overloaded) and 0 < (caught.value.retry_after_s or 0) <= 1
        assert "greedy is over its quota of requests; try again in " in str(caught.value)
        other.put("k", "served")
        assert 40 < done < 70
        assert node.add("count", 0).result == done
        wait_until(lambda: node.metrics()["client_requests_over_quota"], timeout_s=20, what="the refusal to count")


def test_a_user_that_is_over_its_rate_keeps_its_leases(tmp_path: Path) -> None:
    """Keep-alives have as much again. Init: a lease of a second. Act: floods of reads until it would have ended twice.
    Check: it holds."""
    settings = {"principal_requests_per_s": 50, "principal_burst_s": 0.1}
    with two_users(tmp_path, **settings) as (node, url), as_user(url, "greedy") as greedy:
        lease = greedy.lease(1.0)
        greedy.put("held", "x", lease=lease)
        before = node.metrics()["entries_applied"]
        refused = 0
        while node.metrics()["entries_applied"] < before + 12:  # keep-alives: four for each ttl
            with contextlib.suppress(raftmeta.QuotaExceeded):
                greedy.get("held")
                continue
            refused += 1
        assert refused > 0
        assert not lease.is_revoked and node.get("held") is not None


def test_bytes_of_commands_have_a_rate(tmp_path: Path) -> None:
    """The last one may be larger than what is left, and is paid for afterwards. Reads and deletes go on."""
    settings = {"principal_write_bytes_per_s": 1000, "principal_burst_s": 1.0}
    with node_with(tmp_path, **settings) as (node, url), raftmeta.Client(url) as client:
        client.put("large", bytes(100_000))
        with pytest.raises(raftmeta.QuotaExceeded) as caught:
            client.put("more", bytes(10))
        assert (caught.value.quota, caught.value.principal) == ("write bytes", "")
        assert 90 < (caught.value.retry_after_s or 0) <= 101
        assert node.get("more") is None
        record = client.get("large")
        assert record is not None and len(record.value) == 100_000


def test_who_ignores_its_refusals_is_read_no_faster_than_its_rate(tmp_path: Path) -> None:
    """Refusals have a rate, too. Init: two requests a second. Act: one client asks a thousand times without waiting.
    Check: few are looked at until another has been served a hundred times."""
    settings = {"principal_requests_per_s": 2, "principal_burst_s": 1.0}
    with node_with(tmp_path, **settings) as (node, url), RawClient(url) as flood:
        before = node.metrics()["client_requests_over_quota"]
        flood.send(b"".join(flood.encoder.get("k", 0, True) for _ in range(1000)))
        for _ in range(100):
            node.put("k", "v")
        counted = "client_requests_over_quota"
        wait_until(lambda: node.metrics()[counted] > before, timeout_s=20, what="the first refusal to count")
        assert node.metrics()[counted] - before < 100


# --- counts -----------------------------------------------------------------------------------------------------------


def test_connections_of_a_principal_are_bounded(tmp_path: Path) -> None:
    with two_users(tmp_path, principal_connections_max=2) as (_, url), contextlib.ExitStack() as stack:
        for _ in range(2):
            stack.enter_context(as_user(url, "greedy")).put("k", "v")
        with (
            as_user(url, "greedy") as third,
            pytest.raises(raftmeta.ReadyTimeout, match="uses as much of the node as it may"),
        ):
            third.ready(1.0)
        stack.enter_context(as_user(url, "other")).put("k", "v")


def test_a_connection_that_ends_makes_room(tmp_path: Path) -> None:
    with node_with(tmp_path, principal_connections_max=1) as (_, url):
        for _ in range(5):
            with raftmeta.Client(url) as client:
                client.put("k", "v")


async def opened(client: aio.Client, key: str) -> Any:
    watch = client.watch(key, start_revision=1)
    async for _ in watch:
        break
    return watch


def test_watches_of_a_principal_are_bounded(tmp_path: Path) -> None:
    """Over all its connections; one that is closed makes room."""

    async def ask(url: str) -> None:
        async with aio.Client(url) as first, aio.Client(url) as second:
            await first.put("k", "v")
            watches = [await opened(first, "k"), await opened(second, "k")]
            with pytest.raises(raftmeta.QuotaExceeded) as caught:
                await opened(second, "k")
            assert (caught.value.quota, caught.value.retry_after_s) == ("watches", None)
            await watches[0].close()
            while True:
                try:
                    await opened(second, "k")
                except raftmeta.QuotaExceeded:
                    continue
                return

    with node_with(tmp_path, principal_watches_max=2) as (_, url):
        asyncio.run(asyncio.wait_for(ask(url), 30))


def test_leases_of_a_principal_are_bounded(tmp_path: Path) -> None:
    """One that is given back makes room at once, and one that ended by itself after its time."""
    with node_with(tmp_path, principal_leases_max=2) as (node, url), raftmeta.Client(url) as client:
        first, _ = client.lease(30), client.lease(30)
        with pytest.raises(raftmeta.QuotaExceeded) as caught:
            client.lease(30)
        assert caught.value.quota == "leases"
        first.revoke()
        client.lease(30)
        assert node.metrics()["leases"] == 2


def test_a_lease_that_nobody_keeps_counts_until_its_end(tmp_path: Path) -> None:
    with node_with(tmp_path, principal_leases_max=1) as (node, url):
        with raftmeta.Client(url) as client:
            client.lease(1.0)
        with raftmeta.Client(url) as client:
            with pytest.raises(raftmeta.QuotaExceeded):
                client.lease(30)

            def is_granted() -> bool:
                with contextlib.suppress(raftmeta.QuotaExceeded):
                    client.lease(30)
                    return True
                return False

            wait_until(is_granted, timeout_s=20, what="the end of the first")
        wait_until(lambda: node.metrics()["client_requests_over_quota"], timeout_s=20, what="the refusal to count")


def test_sessions_of_a_principal_are_bounded(tmp_path: Path) -> None:
    with node_with(tmp_path, principal_sessions_max=2) as (node, url), RawClient(url) as client:
        client.open_session(SESSION)
        client.open_session(SESSION + 1)
        client.open_session(SESSION)  # again: it is there already
        assert client.ask(client.encoder.open_session(SESSION + 2, 60_000, 1000))[0] == Status.QUOTA_EXCEEDED
        client.encoder.session = SESSION
        assert client.ask(client.encoder.close_session())[0] == Status.OK
        client.open_session(SESSION + 2)
        assert node.metrics()["sessions"] == 3  # and the node's own


def test_a_session_keeps_no_more_results_than_the_node_allows(tmp_path: Path) -> None:
    """A window of a million results would pin 64 MB on every node, for as long as its ttl says."""
    with node_with(tmp_path, session_window=64, outstanding_max=64) as (node, url), RawClient(url) as client:
        assert client.ask(client.encoder.open_session(SESSION, 60_000, 65))[0] == Status.QUOTA_EXCEEDED
        assert client.ask(client.encoder.open_session(SESSION, 60_000, 64))[0] == Status.OK
        assert node.metrics()["sessions"] == 2


def counted_put() -> Any:
    """10 kB, and one more in a counter."""
    return verbs.txn([], [Put("large", bytes(10_000)), Add("count", 1)], [])


def test_bytes_under_way_of_a_principal_are_bounded(tmp_path: Path) -> None:
    """A quarter of a megabyte comes at once. Beyond the quota it is refused; the rest is executed, and another time as
    much is taken again."""
    with node_with(tmp_path, principal_bytes_max=50_000) as (node, url), RawClient(url) as client:
        client.open_session()
        done = 0
        for _ in range(3):
            client.send(b"".join(client.encoder.command(counted_put()) for _ in range(25)))
            statuses = [client.next()[2] for _ in range(25)]
            assert set(statuses) == {Status.OK, Status.QUOTA_EXCEEDED}
            done += statuses.count(Status.OK)
        assert node.add("count", 0).result == done


# --- in the client ----------------------------------------------------------------------------------------------------


def test_a_refusal_speaks_for_one_sending_only() -> None:
    """Init: a connection broke under a command. Act: the second sending is over a quota, the third is answered. Check:
    the caller gets the answer."""
    answers: list[int] = []

    def script(node: FakeNode, request: dict[str, Any], answer: Any) -> None:
        answers.append(len(answers))
        if len(answers) == 1:
            node.drop()
        elif len(answers) == 2:
            answer(Status.QUOTA_EXCEEDED)
        else:
            answer(0, 7, b"\x93\x00\x07\x92\xc3\x91\xc0")

    async def ask() -> None:
        async with FakeNode(script) as node, aio.Client(node.url) as client:
            assert (await client.put("k", "v")) == 7

    asyncio.run(asyncio.wait_for(ask(), 30))
    assert len(answers) >= 3  # and the end of the session
