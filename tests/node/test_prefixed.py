"""A store below a prefix answers as a store that has these keys alone, on every face."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import raftmeta
import raftmeta.aio
from raftmeta.operations import (
    Add,
    Create,
    Delete,
    DeleteRange,
    Fence,
    Get,
    KeyRecord,
    LeaseId,
    ModRevision,
    Put,
    Range,
    RangeEmpty,
    RangeResult,
    Txn,
    TxnResult,
    Update,
    Value,
    Version,
)
from raftmeta.results import TxnReply, WatchBatch, WatchEvent, WatchReset
from tests.client.nodes import serving
from tests.processes.waiting import free_addresses, wait_until

PREFIX = b"view/\xff"  # its end is the prefix of another length
OUTSIDE = [b"view", b"view/", b"view/\xfe\xff", b"view0", b"view0k", b"a", b"k", b"\xff"]
LEASE_IDS = itertools.count(1 << 40)

# --- requests: drawn by a seed, and made for the base revision of a store --------------------------------------------
KEYS = [b"k", b"k/1", b"k/2", "k", b"\xff", b"\xff\xff", b"a/b/c", "é"]
BOUNDS = [b"", "", b"k", b"k/", b"k0", b"\xff", b"a"]
NO_KEYS: list[Any] = [b"", "", 7, None, "\ud800", bytes(481)]  # each in its way
VERBS = ["put", "put_many", "create", "update", "delete", "delete_range", "add", "txn", "txn", "get", "range"]


class Draw:
    """Random requests: the same seed gives the same ones, with the revisions of another store."""

    def __init__(self, seed: int, base: int, lease: int) -> None:
        self.random = random.Random(seed)
        self.base, self.lease = base, lease

    def key(self) -> Any:
        return self.random.choice(NO_KEYS if self.random.random() < 0.03 else KEYS)

    def bounds(self) -> tuple[Any, Any]:
        return self.random.choice(BOUNDS), self.random.choice(BOUNDS)

    def value(self) -> bytes:
        return self.random.choice([b"", b"1", b"two"])

    def flag(self) -> bool:
        return self.random.random() < 0.5

    def revision(self) -> int:
        return self.base + self.random.randrange(9)

    def fence(self) -> Fence | None:
        return Fence(self.random.choice(KEYS), self.revision() + 1) if self.random.random() < 0.2 else None

    def operation(self, depth: int = 1) -> Any:
        key, value, flag, (start, end) = self.key(), self.value(), self.flag(), self.bounds()
        found: list[Any] = [
            Put(key, value, previous=flag),
            Put(key, value, lease=self.lease),
            Create(key, value),
            Update(key, value, expected_revision=self.revision(), previous=flag),
            Delete(key, must_exist=flag, previous=not flag),
            DeleteRange(start, end, previous=flag),
            Get(key),
            Range(start, end, limit=self.random.randrange(3)),
            Add(b"count", len(value)),
        ]
        if depth < 4:
            found += [Txn(*self.txn(depth + 1)) for _ in range(1 if self.flag() else 0)] * 4
        return self.random.choice(found)

    def compare(self) -> Any:
        key = self.random.choice(KEYS)
        return self.random.choice(
            [
                Version(key) == self.random.randrange(3),
                ModRevision(key) > self.revision(),
                Value(key) != self.value(),
                LeaseId(key) == 0,
                RangeEmpty(*self.bounds(), self.flag()),
            ]
        )

    def txn(self, depth: int = 1) -> tuple[list[Any], list[Any], list[Any]]:
        compares = [self.compare() for _ in range(self.random.randrange(2))]
        then, otherwise = ([self.operation(depth) for _ in range(self.random.randrange(3))] for _ in range(2))
        return compares, then, otherwise

    def request(self) -> tuple[str, tuple[Any, ...], dict[str, Any]]:
        """A verb, its arguments and its options."""
        key, value, flag, (start, end) = self.key(), self.value(), self.flag(), self.bounds()
        fence, revision, limit = self.fence(), self.revision(), self.random.randrange(4)
        ranges: dict[str, Any] = {"limit": limit, "keys_only": flag, "count": self.flag()}
        past: dict[str, Any] = {"revision": revision} if self.flag() else {"local": flag}
        verb = self.random.choice(VERBS)
        choices: list[tuple[tuple[Any, ...], dict[str, Any]]] = {
            "put": [((key, value), {"previous": flag, "fence": fence}), ((key, value), {"lease": self.lease})],
            "put_many": [
                (([(key, value), (b"k", b"2")],), {"fence": fence}),
                (({self.random.choice(KEYS): value},), {"lease": self.lease}),
                (([(b"k", value), 7],), {}),
            ],
            "create": [((key, value), {"fence": fence})],
            "update": [((key, None), {"expected_revision": revision, "previous": flag}), ((key, value), {})],
            "delete": [((key,), {"must_exist": flag, "previous": True}), ((key,), {"expected_revision": revision})],
            "delete_range": [((start, end), {"previous": flag}), ((), {"prefix": start, "fence": fence})],
            "add": [((b"count", limit), {"fence": fence})],
            "txn": [(self.txn(), {"fence": fence})],
            "get": [((key,), past)],
            "range": [
                ((start, end), {**ranges, **past}),
                ((), {"prefix": start, "delimiter": "/", **ranges, **past}),
                ((start, end), {"delimiter": b"/", "count_only": True, **past}),
            ],
        }[verb]
        return verb, *self.random.choice(choices)


# --- both stores, and what they answer -------------------------------------------------------------------------------
def relative(value: Any, base: int) -> Any:
    """An answer whose revisions count from base."""

    def since_base(revision: int) -> int:
        return revision - base if revision else 0

    if isinstance(value, KeyRecord):
        numbers = (since_base(value.create_revision), since_base(value.mod_revision), value.version, value.lease)
        return (value.key, value.value, *numbers)
    if isinstance(value, RangeResult):
        records = [relative(record, base) for record in value.records]
        return "range", value.count, records, value.prefixes, value.more, since_base(value.revision)
    if isinstance(value, TxnResult):
        return "txn", value.succeeded, [relative(result, base) for result in value.results]
    if isinstance(value, TxnReply):
        results = [relative(result, base) for result in value.results]
        return "reply", value.succeeded, results, since_base(value.revision)
    if isinstance(value, raftmeta.Revision):
        return "revision", since_base(int(value)), relative(value.result, base)
    if isinstance(value, WatchEvent):
        return value.type, relative(value.record, base), relative(value.previous, base), since_base(value.revision)
    if isinstance(value, raftmeta.RaftmetaError):
        facts = [getattr(value, name, None) for name in ("field", "items_done")]
        return type(value), facts, since_base(getattr(value, "revision", 0) or 0)
    return value


Store = Callable[..., Any]


def outcome(store: Store, draw: Draw) -> Any:
    """The next request of a draw, and what became of it; counted from the base."""
    verb, arguments, options = draw.request()
    try:
        return verb, relative(store(verb, *arguments, **options), draw.base)
    except raftmeta.RaftmetaError as error:
        return verb, relative(error, draw.base)


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[raftmeta.Node, raftmeta.Node, str]]:
    """A plain store, a store with other keys, and the URL of that one."""
    with (
        serving(tmp_path_factory.mktemp("plain")) as (plain, _),
        serving(tmp_path_factory.mktemp("viewed")) as (
            viewed,
            url,
        ),
    ):
        yield plain["a"], viewed["a"], url


@pytest.fixture(params=["node", "client", "node, twice", "aio node", "aio client"])
def view(request: pytest.FixtureRequest, nodes: tuple[raftmeta.Node, raftmeta.Node, str]) -> Iterator[Store]:
    """The verbs of a view by their names."""
    _, node, url = nodes
    if request.param.startswith("node"):
        twice = node.prefixed(PREFIX[:3]).prefixed(PREFIX[3:])
        made = node.prefixed(PREFIX) if request.param == "node" else twice
        yield lambda verb, *arguments, **options: getattr(made, verb)(*arguments, **options)
        return
    if request.param == "client":
        with raftmeta.Client(url) as client:
            below = client.prefixed(PREFIX)
            yield lambda verb, *arguments, **options: getattr(below, verb)(*arguments, **options)
        return
    with asyncio.Runner() as runner:

        async def open_store() -> Any:
            return node.aio() if request.param == "aio node" else raftmeta.aio.Client(url)

        store = runner.run(open_store())
        tasks = store.prefixed(PREFIX)

        async def ask(verb: str, *arguments: Any, **options: Any) -> Any:
            return await getattr(tasks, verb)(*arguments, **options)

        yield lambda verb, *arguments, **options: runner.run(ask(verb, *arguments, **options))
        runner.run(store.close())


@settings(max_examples=25)
@given(st.integers(0, 2**32))
def check_alike(nodes: tuple[raftmeta.Node, raftmeta.Node, str], view: Store, seed: int) -> None:
    """Twenty random requests, one after the other, on the view and on a plain store."""
    plain, node, _ = nodes
    plain.delete_range()
    node.delete_range(prefix=PREFIX)
    node.put_many(dict.fromkeys(OUTSIDE, b"outside"))
    outside = [record for record in node.range().records if not record.key.startswith(PREFIX)]
    bases = int(plain.put("base", b"")), int(node.put(PREFIX + b"base", b""))
    lease = next(LEASE_IDS)
    with plain.lease(60, id=lease), node.lease(60, id=lease):
        draws = [Draw(seed, base, lease) for base in bases]
        for _ in range(20):
            expected = outcome(lambda verb, *a, **o: getattr(plain, verb)(*a, **o), draws[0])
            assert outcome(view, draws[1]) == expected
        events = []
        for store, base in ((plain, bases[0]), (node.prefixed(PREFIX), bases[1])):
            end = int(store.put("end", b""))
            with store.watch(prefix="", start_revision=base, previous=True) as watch:
                found = itertools.takewhile(lambda event, end=end: event.revision < end, watch)
                events.append([relative(event, base) for event in found])
        assert events[0] == events[1] and len(events[0]) > 1
    assert [record for record in node.range().records if not record.key.startswith(PREFIX)] == outside


def test_a_view_answers_as_a_store_with_these_keys_alone(
    nodes: tuple[raftmeta.Node, raftmeta.Node, str], view: Store
) -> None:
    """Whatever is asked: the same answers, the same errors, the same events; and nothing outside is changed."""
    check_alike(nodes, view)


# --- what the random requests leave out ------------------------------------------------------------------------------
@pytest.fixture
def store(nodes: tuple[raftmeta.Node, raftmeta.Node, str]) -> raftmeta.Node:
    nodes[1].delete_range()
    return nodes[1]


def test_a_watch_of_a_view_calls_back_and_is_reset_with_its_own_keys(store: raftmeta.Node) -> None:
    """By a callback, by one key, and where history is gone."""
    app = store.prefixed("app/")
    begun = int(store.put("app", b"no"))
    store.put("app/k", b"1")
    store.put("app0", b"no")
    store.compact(int(store.put("app/k", b"2")))
    with app.watch("k", start_revision=begun, reset=True) as watch:
        found = next(iter(watch.batches()))
    assert isinstance(found, WatchReset) and [record.key for record in found.records] == [b"k"]
    told: list[Any] = []
    with app.watch(prefix="", callback=told.append):
        app.put("k", b"3")
        wait_until(lambda: bool(told), timeout_s=30, what="the callback")
    assert isinstance(told[0], WatchBatch) and told[0].events[0].key == b"k"


def test_recipes_on_a_view_are_none_of_the_store(store: raftmeta.Node) -> None:
    """The same group, election, lock and storage key are two; they end with the store's handles alone."""
    app = store.prefixed("app/")
    with contextlib.ExitStack() as stack:
        inside, outside = app.group("g"), store.group("g")
        election, other = app.election("e"), store.election("e")
        for handle in (inside, outside, election, other):
            stack.callback(handle.close)
        inside.join("inside")
        outside.join("outside")
        assert inside.membership_list() == {"inside"} and outside.membership_list() == {"outside"}
        assert election.nominate("a") and other.nominate("b")
        lead = election.lead("a")
        app.put("k", b"1", fence=lead)
        with pytest.raises(raftmeta.Fenced):
            store.put("k", b"1", fence=lead)
        with raftmeta.recipes.Lock(app, "l").acquire(), raftmeta.recipes.Lock(store, "l").acquire() as permit:
            assert permit.held()
        found = app.storage.get("k")
        assert found is not None and found.data == b"1" and app.fetch("k").result(10) == b"1"
    assert app.owner == store.owner and app.cluster_state == store.cluster_state


def test_what_was_taken_through_a_view_ends_with_its_store(nodes: tuple[raftmeta.Node, raftmeta.Node, str]) -> None:
    """A client that is closed leaves groups that it joined through a view."""
    with raftmeta.Client(nodes[2]) as client:
        client.prefixed("app/").group("ends").join("a")
        assert nodes[1].prefixed("app/").range(prefix="_raftmeta/groups/ends/", count_only=True).count == 1
    assert nodes[1].range(prefix="app/_raftmeta/groups/ends/", count_only=True).count == 0


def test_a_right_granted_on_a_view_is_over_its_keys(store: raftmeta.Node) -> None:
    """Nobody gets a right outside by a view, nor one over all keys."""
    auth = store.prefixed("app/").auth
    auth.put_user("reader", "secret")
    auth.put_role("read")
    auth.bind("reader", "read")
    auth.grant("read", "read")
    with pytest.raises(raftmeta.CommandRefused):
        auth.grant("read", "admin")
    store.auth.revoke("read", "read", prefix="app/")  # over exactly this range
    auth.remove_user("reader")
    auth.remove_role("read")


def test_a_ticket_of_a_view_gives_what_the_call_would_have(store: raftmeta.Node) -> None:
    """A call that runs out of time goes on; its answer has the view's keys."""

    class Slow:
        """A store whose calls run out of time, and their tickets once."""

        def _ask(self, request: Any, timeout_s: float | None) -> Any:
            raise raftmeta.OutcomeTimeout("late", ticket=Ticket(store._ask(request, 5.0)))

    class Ticket:
        is_done = True

        def __init__(self, answer: Any) -> None:
            self.answers = [answer]

        def result(self, timeout_s: float | None = 5.0) -> Any:
            if timeout_s == 0:
                raise raftmeta.OutcomeTimeout("late again", ticket=self)
            return self.answers.pop()

    store.put("app/k", b"before")
    slow = raftmeta.View(Slow(), store.prefixed("app/")._prefix)
    with pytest.raises(raftmeta.OutcomeTimeout) as late:
        slow.put("k", b"after", previous=True)
    ticket = late.value.ticket
    with pytest.raises(raftmeta.OutcomeTimeout) as again:
        ticket.result(0)
    assert again.value.ticket is ticket and ticket.is_done
    assert ticket.result().result.key == b"k" and store.get("app/k").value == b"after"  # type: ignore[union-attr]


def test_transactions_that_nest_too_deep_are_refused(store: raftmeta.Node) -> None:
    """Those that the encoder refuses, and those that nobody could look through."""
    app = store.prefixed("app/")
    for depth in (4, 99, 2_000):
        operation: Any = Put("k", b"1")
        for _ in range(depth):
            operation = Txn(then=[operation])
        with pytest.raises(raftmeta.InvalidArgument, match="nest"):
            app.txn(then=[operation])
    assert app.range().records == []


def test_nested_results_have_the_keys_of_the_view(store: raftmeta.Node) -> None:
    """Of a transaction as deep as the encoder allows."""
    app = store.prefixed("app/")
    app.put("k", b"1")
    operation: Any = Txn([Version("k") == 1], [Get("k"), Range(""), Delete("k", previous=True)])
    for _ in range(2):
        operation = Txn(then=[operation])
    nested: Any = app.txn(then=[operation]).results[0]
    while isinstance(nested.results[0], TxnResult):
        nested = nested.results[0]
    got, ranged, deleted = nested.results
    assert [got.key, ranged.records[0].key, deleted.key] == [b"k"] * 3


@pytest.mark.parametrize("prefix", ["", b"", 7, "x" * 481, "\ud800"])
def test_a_wrong_prefix_is_refused(store: raftmeta.Node, prefix: Any) -> None:
    with pytest.raises(raftmeta.InvalidArgument) as wrong:
        store.prefixed(prefix)
    assert wrong.value.field == "prefix"


def test_a_key_is_too_long_together_with_its_prefix(store: raftmeta.Node) -> None:
    app = store.prefixed("app/")
    longest = "k" * 476
    app.put(longest, b"1")
    assert [record.key for record in app.range(longest).records] == [longest.encode()]
    assert app.range(longest + "\0").records == []
    for call in (lambda: app.put(longest + "k", b""), lambda: app.watch(longest + "k")):
        with pytest.raises(raftmeta.InvalidArgument) as wrong:
            call()
        assert wrong.value.field == "key"


@pytest.mark.parametrize("suffix", ["/app", "/app/?cluster=default", "?prefix=app/"])
def test_a_url_names_a_prefix(nodes: tuple[raftmeta.Node, raftmeta.Node, str], suffix: str) -> None:
    """raftmeta.connect gives a view, which closes its client."""
    nodes[1].delete_range()
    with raftmeta.connect(nodes[2] + suffix) as backend:
        storage = backend.storage
        storage.put("k", b"1")
        assert nodes[1].get("app/k").value == b"1"  # type: ignore[union-attr]
    with pytest.raises(raftmeta.NodeClosed):
        storage.get("k")


def test_a_url_names_one_prefix(nodes: tuple[raftmeta.Node, raftmeta.Node, str]) -> None:
    for suffix in ("/app?prefix=app/", "?prefix=" + "x" * 481):
        with pytest.raises(raftmeta.ConfigError) as wrong:
            raftmeta.connect(nodes[2] + suffix)
        assert wrong.value.field == "prefix"


def test_a_url_names_a_prefix_on_asyncio(nodes: tuple[raftmeta.Node, raftmeta.Node, str]) -> None:
    async def work() -> None:
        async with await raftmeta.backends.connect_aio(nodes[2] + "/tasks/of") as backend:
            group = backend.group("g")
            await group.join("a")
            assert await group.membership_list() == {"a"}
            assert nodes[1].range(prefix="tasks/of/_raftmeta/groups/g/", count_only=True).count == 1

    nodes[1].delete_range()
    asyncio.run(work())
    assert nodes[1].range(prefix="tasks/of/", count_only=True).count == 0  # it left


def test_a_url_of_a_node_in_this_process_and_of_a_socket_names_a_prefix(tmp_path: Path) -> None:
    """embedded:// and raft+unix:// have a folder in their path, and the prefix beside it."""
    address = free_addresses(1)[0]
    settings = "local_clients=true&heartbeat_s=0.03&election_timeout_s=0.15&reserve_bytes=0"
    url = f"embedded://{tmp_path}/a?name=a&peers=a={address}&prefix=app/&{settings}"
    with (
        raftmeta.connect(url, timeout_s=30) as node,
        raftmeta.connect(f"raft+unix://{tmp_path}/a?prefix=app/") as same,
        raftmeta.connect(f"raft+unix://{tmp_path}/a") as whole,
    ):
        node.storage.put("k", b"1")
        for backend, key in ((same, "k"), (whole, "app/k")):
            found = backend.storage.get(key)
            assert found is not None and found.data == b"1"
