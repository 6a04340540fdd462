"""The verbs of both clients give what a node's verbs give, over TCP and over the Unix socket."""

from __future__ import annotations

import asyncio
import contextlib
import os
import stat
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import uvloop

import raftmeta
from raftmeta import aio
from raftmeta.bindings.requests import RANGE
from raftmeta.bindings.verbs import revoke
from raftmeta.operations import Fence, Get, Put, Version
from raftmeta.testing.cluster import stall_gil
from raftmeta.verbs.asked import RangeAsked
from tests.client.nodes import serving
from tests.processes.waiting import wait_until

NEVER_S = 30.0


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[raftmeta.Node, str]]:
    """One node, also on its Unix socket, shared by the tests of this module: each uses keys of its own."""
    with serving(tmp_path_factory.mktemp("n"), local_clients=True) as (nodes, url):
        yield nodes["a"], url


@pytest.fixture(params=["tcp", "unix"])
def client(request: pytest.FixtureRequest, served: tuple[raftmeta.Node, str]) -> Iterator[raftmeta.Client]:
    node, url = served
    with raftmeta.Client(url if request.param == "tcp" else f"raft+unix://{node.identity.data_dir}") as made:
        made.delete_range()
        yield made


def test_a_write_answers_its_revision_and_reads_see_it(client: raftmeta.Client, served: Any) -> None:
    node = served[0]
    first = client.put("k", "1")
    assert client.get("k") == node.get("k")
    assert client.get("k").mod_revision == int(first)  # type: ignore[union-attr]
    second = client.put("k", b"2", previous=True)
    assert second.result.value == b"1" and int(second) == int(first) + 1
    assert client.get("k", revision=int(first)).value == b"1"  # type: ignore[union-attr]
    assert client.get("missing") is None and client.get("k", local=True).value == b"2"  # type: ignore[union-attr]


def test_put_many_is_that_of_a_node(client: raftmeta.Client, served: Any) -> None:
    """Two groups; a wrong item is found before one is sent; a refusal says how many items are set."""
    before = client.put("k", "1")
    revision = client.put_many({f"many/{number}": str(number) for number in range(5_000)})
    assert revision is not None and int(revision) == int(before) + 2
    assert served[0].get("many/4999").value == b"4999" and client.put_many(()) is None
    with pytest.raises(raftmeta.InvalidArgument) as wrong:
        client.put_many([("many/0", b"new"), ("many/1", 1)])  # type: ignore[list-item]
    assert wrong.value.field == "items[1].value"
    with pytest.raises(raftmeta.Fenced) as fenced:
        client.put_many([("many/0", b"new")], fence=Fence("absent", 1))
    assert fenced.value.items_done == 0 and client.get("many/0").value == b"0"  # type: ignore[union-attr]


def test_refusals_are_the_errors_of_a_node(client: raftmeta.Client) -> None:
    """Each carries the revision that refused; nothing was changed."""
    revision = client.create("k", "1")
    with pytest.raises(raftmeta.KeyExists) as caught:
        client.create("k", "2")
    assert caught.value.revision == int(revision)
    with pytest.raises(raftmeta.KeyMissing):
        client.update("missing", "1")
    with pytest.raises(raftmeta.CompareFailed):
        client.update("k", "2", expected_revision=1)
    with pytest.raises(raftmeta.KeyMissing):
        client.delete("missing", must_exist=True)
    with pytest.raises(raftmeta.Fenced):
        client.put("k", "2", fence=Fence("k", 1))
    with pytest.raises(raftmeta.FutureRevision):
        client.get("k", revision=int(revision) + 1000)
    with pytest.raises(raftmeta.CommandRefused):
        client.add("k")
    with pytest.raises(raftmeta.InvalidArgument) as wrong:
        client.put("", "1")
    assert wrong.value.field == "key"
    assert client.update("k", "2", fence=Fence("k", int(revision)), previous=True).result.value == b"1"


def test_ranges_are_paged_and_counted(client: raftmeta.Client) -> None:
    """Also where one answer of the node cannot hold everything: its pages are of one revision."""
    for number in range(7):
        client.put(f"r/{number}", bytes(400_000))
    everything = client.range(prefix="r/")
    assert [record.key for record in everything.records] == [f"r/{number}".encode() for number in range(7)]
    assert (everything.count, everything.more) == (7, False)
    some = client.range("r/2", "r/9", limit=2, count=True)
    assert ([record.key for record in some.records], some.count, some.more) == ([b"r/2", b"r/3"], 5, True)
    assert client.range(prefix="r/", count_only=True).count == 7
    assert {len(record.value) for record in client.range(prefix="r/", keys_only=True).records} == {0}
    longest = "z" * 480
    client.put(longest, "1")
    assert client.range(longest).records[0].key == longest.encode()
    assert client.delete_range(prefix="r/").result == 7


def test_a_range_in_groups_is_that_of_a_node(client: raftmeta.Client, served: Any) -> None:
    """In many pages of the node's answer as well; the count and the local read are alike."""
    items = {f"g/{number:02}{tail}": bytes(300_000) for number in range(6) for tail in ("", "/1", "/2")}
    client.put_many(items)
    for question in (
        {"prefix": "g/", "delimiter": "/"},
        {"prefix": "g/", "delimiter": "/", "keys_only": True, "local": True},
        {"prefix": "g/", "delimiter": "/", "limit": 5, "count": True},
        {"prefix": "g/", "delimiter": "/", "count_only": True},
        {"start": "g/03", "end": "g/05", "delimiter": "/1"},
    ):
        found = client.range(**question)  # type: ignore[arg-type]
        assert found == served[0].range(**question) and found.revision
    assert client.range(prefix="g/", delimiter="/").prefixes == tuple(f"g/{number:02}/".encode() for number in range(6))
    assert client.range(prefix="g/", delimiter="/", limit=5).next_start == b"g/02\0"


@pytest.mark.parametrize("page", ["", "x", "\0"])
@pytest.mark.parametrize(("view", "prefix"), [(300, 180), (300, 181), (480, 1), (1, 480), (1, 481)])
def test_below_a_prefix_groups_behind_the_longest_key_are_those_of_a_node(
    client: raftmeta.Client, served: Any, view: int, prefix: int, page: str
) -> None:
    """A delimiter is sought behind both prefixes. No node takes a request that seeks it behind more than a key has."""

    def outcome(store: raftmeta.Client | raftmeta.Node) -> Any:
        beginning = (prefix - 1) * "x" + "\0"
        start = beginning + page if page else ""
        try:
            return store.prefixed(view * "v").range(start, prefix=beginning, delimiter="/", timeout_s=NEVER_S)
        except raftmeta.InvalidArgument as error:
            return error.field, str(error)

    assert outcome(client) == outcome(served[0])


def test_a_delimiter_is_not_sought_behind_the_longest_key(client: raftmeta.Client) -> None:
    """No node takes such a request: it is refused before it is sent, and not sent again until its time-out."""
    asked = RangeAsked("a", "b", delimiter="/", skip=481)
    with pytest.raises(raftmeta.InvalidArgument) as wrong:
        client._range(asked, NEVER_S)
    assert wrong.value.field == "skip"


def test_all_pages_of_a_range_are_of_one_revision(
    client: raftmeta.Client, served: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Init: a range of three pages. Act: change its last key after every page; read a past revision, the newest, and a
    watch that is reset. Check: nothing younger than the revision of the first page; the watch gives the rest."""
    for number in range(7):
        past = int(client.put(f"r/{number}", bytes(400_000)))
    client.put("r/6", "young")
    channel = client._client._bound
    submit = channel.submit

    async def change(answer: Awaitable[Any]) -> Any:
        found = await answer
        served[0].add("changes")
        served[0].put("r/6", "younger")
        return found

    def submit_and_change(frame: Any, purpose: int, deadline_s: float, **options: Any) -> Awaitable[Any]:
        answer = submit(frame, purpose, deadline_s, **options)
        return change(answer) if purpose == RANGE else answer

    monkeypatch.setattr(channel, "submit", submit_and_change)
    assert {record.mod_revision for record in client.range(prefix="r/", revision=past).records} == {
        *range(past - 6, past + 1)
    }
    before = served[0].get("r/6").mod_revision
    assert client.range(prefix="r/").records[6].mod_revision == before
    before = served[0].get("r/6").mod_revision
    client.compact(before)
    with client.watch(prefix="r/", start_revision=1, reset=True, timeout_s=10) as watch:
        found = iter(watch)
        reset = next(found)
        assert isinstance(reset, raftmeta.WatchReset)
        assert (reset.revision, reset.records[6].mod_revision) == (before, before)
        change = next(found)
        assert isinstance(change, raftmeta.WatchEvent)
        assert (change.revision, change.key) == (before + 2, b"r/6")


def test_transactions_counters_and_compaction(client: raftmeta.Client) -> None:
    assert client.add("n", 5).result == 5 and client.add("n", -7).result == -2
    reply = client.txn([Version("n") == 2], [Put("t", "yes"), Get("n")], [Put("t", "no")])
    assert reply.succeeded and reply.results[1].version == 2  # type: ignore[union-attr]
    assert client.get("t").value == b"yes"  # type: ignore[union-attr]
    client.compact(reply.revision)
    with pytest.raises(raftmeta.Compacted):
        client.get("t", revision=reply.revision - 1)


def test_status_names_the_node_that_serves(client: raftmeta.Client, served: Any) -> None:
    found, own = client.status(), served[0].status()
    assert (found.name, found.leader, found.cluster_id, found.id) == ("a", "a", own.cluster_id, own.id)
    assert found.is_ready and found.is_leader and [member.name for member in found.members] == ["a"]
    assert client.metrics()["connects"] == 1


def test_a_watch_sees_every_change_once_and_in_order(client: raftmeta.Client) -> None:
    before = client.put("w/1", "old")
    with client.watch(prefix="w/", timeout_s=10) as watch:
        client.put("w/1", "new")
        client.delete("w/1")
        events = iter(watch)
        assert [(event.type, event.value) for event in (next(events), next(events))] == [
            ("put", b"new"),
            ("delete", b""),
        ]
    with client.watch("w/1", start_revision=int(before), previous=True, timeout_s=10) as watch:
        events = iter(watch)
        seen = [next(events) for _ in range(3)]
    assert [event.type for event in seen] == ["put", "put", "delete"]
    assert [event.previous and event.previous.value for event in seen[1:]] == [b"old", b"new"]


def test_a_watch_of_compacted_history_says_so_or_gives_everything(client: raftmeta.Client) -> None:
    for number in range(3):
        last = client.put(f"c/{number}", "1")
    client.compact(int(last))
    with client.watch(prefix="c/", start_revision=1) as watch, pytest.raises(raftmeta.Compacted):
        next(watch.batches())
    with client.watch(prefix="c/", start_revision=1, reset=True, timeout_s=10) as watch:
        found = iter(watch)
        reset = next(found)
        assert isinstance(reset, raftmeta.WatchReset) and len(reset.records) == 3
        client.put("c/9", "2")
        assert next(found).key == b"c/9"  # type: ignore[union-attr]


def test_a_lease_is_kept_alive_and_given_back(client: raftmeta.Client) -> None:
    """Its keys outlive its time to live while the client runs, and vanish with it."""
    with client.lease(2.0) as lease:
        client.put("l", "1", lease=lease)
        assert not lease.wait_lost(2.5) and lease.held() and 0 < lease.remaining_s() <= 2.0
        assert client.get("l").lease == lease.id  # type: ignore[union-attr]
    assert not lease.held() and client.get("l") is None
    with pytest.raises(raftmeta.LeaseExpired):
        client.put("l", "1", lease=lease.id)


def test_taking_leases_all_the_time_keeps_the_first_one(client: raftmeta.Client) -> None:
    """Each grant once put the next keep-alive off, so that a client that kept taking leases lost all of them."""
    with client.lease(1.0) as lease:
        client.put("l", "1", lease=lease)
        granted_s = time.monotonic()
        while time.monotonic() < granted_s + 1.5:
            with client.lease(1.0):
                assert lease.held()
        assert client.get("l").lease == lease.id  # type: ignore[union-attr]


def test_a_lease_that_somebody_revokes_is_lost(client: raftmeta.Client, served: Any) -> None:
    lost = threading.Event()
    lease = client.lease(3.0, on_lost=lambda _: lost.set())
    client.txn(then=[Put("l2", "1", lease=lease.id)])
    node = served[0]
    node.lease(3.0, id=lease.id + 1).revoke()  # another one: nothing happens to ours
    assert lease.held()
    client._ask(revoke(lease.id), 5.0)
    assert lost.wait(10) and not lease.held()


def test_a_stalled_host_does_not_believe_in_a_lease_that_it_lost(client: raftmeta.Client) -> None:
    """Unlike a node's, a client's leases are kept alive by Python: one that holds the GIL for longer than the time to
    live loses them. It knows at once when it goes on, and a late write is refused. The store waits a little longer and
    would still take a keep-alive: what was told to be lost is let go."""
    lease = client.lease(0.6)
    revision = client.put("stalled", "1", lease=lease).revision
    stall_gil(0.7)
    assert not lease.held()
    wait_until(lambda: client.get("stalled") is None, timeout_s=30, what="the key to vanish with the lease")
    assert not lease.held()
    with pytest.raises(raftmeta.Fenced):
        client.put("late", "1", fence=Fence("stalled", revision))


def test_a_lost_lease_neither_keeps_nor_ends_another_of_its_id(client: raftmeta.Client, served: Any) -> None:
    """What a client lost is granted again under the same id: to a node, and then to the client itself."""
    lost = client.lease(0.6, id=77)
    stall_gil(0.7)
    with granted(lambda: served[0].lease(5, id=77)) as another:
        served[0].put("another's", "1", lease=another)
        lost.revoke()
        assert served[0].get("another's") is not None
        assert another.held() and not lost.held()
    lost = client.lease(0.6, id=78)
    stall_gil(0.7)
    with granted(lambda: client.lease(5, id=78)) as again:
        assert again.held() and not lost.held()
        client.put("again", "1", lease=again)
        lost.revoke()
        assert again.held() and client.get("again") is not None


def granted(grant: Callable[[], Any]) -> Any:
    """The lease, once the one that had its id before has expired."""
    found: list[Any] = []

    def is_granted() -> bool:
        with contextlib.suppress(raftmeta.IdConflict):
            found.append(grant())
        return bool(found)

    wait_until(is_granted, timeout_s=30, what="the id to be free")
    return found[0]


def test_the_socket_is_for_this_user_only(served: tuple[raftmeta.Node, str]) -> None:
    path = Path(served[0].identity.data_dir) / "clients.sock"
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600


@pytest.mark.asyncio
async def test_the_asyncio_client_has_the_same_verbs(served: tuple[raftmeta.Node, str]) -> None:
    async with aio.Client(served[1], name="asyncio") as client:
        await client.ready()
        await client.put("aio/k", "1")
        assert (await client.get("aio/k")).value == b"1"  # type: ignore[union-attr]
        async with client.watch(prefix="aio/", timeout_s=10) as watch, await client.lease(5.0) as lease:
            await asyncio.gather(*(client.put(f"aio/{number}", "1", lease=lease) for number in range(100)))
            seen = []
            async for event in watch:
                seen.append(event.key)  # type: ignore[union-attr]
                if len(seen) == 100:
                    break
        assert seen == [f"aio/{number}".encode() for number in range(100)]  # submitted, and so applied, in this order
        assert (await client.range(prefix="aio/")).count == 1  # the others went with their lease
        with pytest.raises(raftmeta.KeyExists):
            await client.create("aio/k", "2")
        assert (await client.status()).leader == "a"


def test_the_asyncio_client_runs_on_uvloop(served: tuple[raftmeta.Node, str]) -> None:

    async def use() -> int:
        async with aio.Client(served[1]) as client:
            await asyncio.gather(*(client.add("uv") for _ in range(50)))
            return (await client.add("uv", 0)).result  # type: ignore[no-any-return]

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        assert runner.run(use()) == 50


def test_a_closed_client_leaves_no_thread_and_takes_no_call(served: tuple[raftmeta.Node, str]) -> None:
    before = threading.active_count()
    client = raftmeta.Client(served[1])
    client.put("closed", "1")
    client.close()
    client.close()
    assert threading.active_count() == before
    with pytest.raises(raftmeta.NodeClosed):
        client.get("closed")


def test_a_client_that_is_closed_lets_calls_pass_that_have_begun(
    served: tuple[raftmeta.Node, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another thread closes it while a call is on its way to the client's thread: the call is answered, or told so."""
    client = raftmeta.Client(served[1])
    client.put("k", "1")
    closing = threading.Thread(target=client.close)
    schedule = client._loop.call_soon_threadsafe

    def schedule_late(*work: Any) -> Any:
        if threading.current_thread() is not closing:
            closing.start()
            closing.join(0.5)  # it must wait for this call; if it does not, that is long enough for it
        return schedule(*work)

    monkeypatch.setattr(client._loop, "call_soon_threadsafe", schedule_late)
    with contextlib.suppress(raftmeta.NodeClosed):
        assert client.get("k", local=True).value == b"1"  # type: ignore[union-attr]
    closing.join(30)
    assert not closing.is_alive() and not client.is_open


def test_a_client_tells_whose_it_is(served: tuple[raftmeta.Node, str]) -> None:
    """Both faces, so that another one can be made like it."""
    url = served[1]
    with raftmeta.Client(url, cluster="other") as client:
        assert (client.url, client.cluster) == (url, "other")
    aio_client = raftmeta.aio.Client(url)
    assert (aio_client.url, aio_client.cluster) == (url, "default")


@pytest.mark.parametrize(
    "url", ["", "http://a:1", "raft://", "raft://a", "raft://a:0", "raft://a:1/path", "raft+unix://host/x", "raft:///x"]
)
def test_a_url_that_is_none_is_named(url: str) -> None:
    with pytest.raises(raftmeta.ConfigError) as caught:
        raftmeta.Client(url)
    assert caught.value.field == "url"


def test_a_cluster_of_another_name_is_refused_with_the_reason(served: tuple[raftmeta.Node, str]) -> None:
    with raftmeta.Client(served[1], cluster="other") as client, pytest.raises(raftmeta.ReadyTimeout, match="cluster"):
        client.ready(0.3)


def test_a_process_that_was_forked_cannot_use_the_client(served: tuple[raftmeta.Node, str]) -> None:
    """The child is told so at once; the parent's connection is not disturbed."""
    with raftmeta.Client(served[1]) as client:
        client.put("fork", "1")
        child = os.fork()
        if child == 0:
            try:
                client.get("fork", timeout_s=5)
            except raftmeta.ForkedProcess:
                os._exit(7)
            os._exit(1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
        assert client.get("fork").value == b"1"  # type: ignore[union-attr]
