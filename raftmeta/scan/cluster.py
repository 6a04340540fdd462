"""A running cluster as tables: the keyspace at one revision, page by page, and its changes out of a watch.

It decides which node is asked, followers before the leader, and where to go on when one is gone. A page or an
item is taken whole or not at all, so another node goes on exactly behind it. It must never write, open a session,
read at a revision of its own choice, or pass over a change: an item that does not follow the one before ends the scan.

A node that is taken answers one read round first: it is of the living cluster, and has applied what was there when the
scan began. A revision never changes, so from then on its pages come out of the node's own state, and the leader hears
nothing of the scan.

Everything runs on an event loop of its own, which turns only while the next batch is waited for: a reader that is slow
reads slowly, and nothing piles up.
"""

from __future__ import annotations

import asyncio
import collections
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping, Sequence
from functools import partial
from types import TracebackType
from typing import Any, Self, TypeVar

from raftmeta.bindings.requests import BYTES, RANGE, VALUES
from raftmeta.client.aio import Client
from raftmeta.client.channel import Channel, Events
from raftmeta.client.endpoints import parse_url
from raftmeta.common import statuses
from raftmeta.errors import (
    Compacted,
    FutureRevision,
    InvalidArgument,
    NotExecuted,
    NotReady,
    OutcomeUnknown,
    RaftmetaError,
    ReadyTimeout,
    error_from_status,
)
from raftmeta.operations import KeyRecord
from raftmeta.results import MemberStatus, NodeStatus
from raftmeta.scan.batches import Batches, Scope
from raftmeta.scan.files import cut_range
from raftmeta.scan.scan_handle import FeedHandle, take_page

__all__ = ["ClusterScan", "followers_first", "node_urls"]

T = TypeVar("T")

NUMBER_MAX = (1 << 63) - 1  # the greatest revision
_WITH_PREVIOUS = 4  # filter of a watch, docs/formats.md "Client protocol"
PATIENCE_S = 2.0  # with a node that does not answer or is gone, before another one is asked
ANSWER_S = 10.0  # with one whose connection lives: a page may take long on a busy machine
TUNE_GATHER_S = 0.1  # a batch of what comes now and then is so old at most: making one costs a millisecond
TUNE_CUT_COUNTS = 16  # of a range, to find one key that cuts it about evenly
TUNE_CUT_KEYS = 20_000  # a part of fewer keys is not cut


def node_urls(url: str) -> tuple[str, ...]:
    """A URL for each node that url names. Raises ConfigError."""
    endpoints = parse_url(url)
    _, mark, query = url.partition("?")
    return (url,) if endpoints[0].address is None else tuple(f"raft://{one}{mark}{query}" for one in endpoints)


def followers_first(urls: Sequence[str], statuses: Mapping[str, NodeStatus]) -> tuple[str, ...]:
    """All urls: those of nodes that follow, as statuses say, before the leader's and those that did not answer."""
    followers = [url for url in urls if url in statuses and not statuses[url].is_leader]
    return *followers, *(url for url in urls if url not in followers)


class ClusterScan:
    """Reads from one node of several at a time. As a context it is closed.

    urls: of one node each, in the order in which they are asked. timeout_s: how long no node may answer.
    """

    def __init__(self, urls: Sequence[str], *, cluster: str = "default", timeout_s: float = 30.0) -> None:
        self._urls = tuple(urls)
        self._cluster = cluster
        self._timeout_s = timeout_s
        self._loop = asyncio.new_event_loop()
        self._next = 0
        self._client: Client | None = None
        self._cluster_id = 0  # of the first node that was taken
        self._last_error: RaftmetaError | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: type[BaseException] | BaseException | TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Leave the node and end the loop. Safe to call twice."""
        if not self._loop.is_closed():
            self._run(self._end())
            self._loop.close()

    async def _end(self) -> None:
        await self._leave()
        waiting = asyncio.all_tasks() - {asyncio.current_task()}  # Ctrl-C in the middle of a wait left it there
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)

    def _run(self, call: Coroutine[Any, Any, T]) -> T:
        return self._loop.run_until_complete(call)

    # --- which node ---------------------------------------------------------------------------------------------------

    async def _leave(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            await client.close()

    async def _channel(self) -> Channel:
        """A connection to the node in use, or to the next one. Raises NotExecuted: that one is not there, or no use."""
        if self._client is not None:
            channel = self._client.channel
            if not channel.is_connected:
                await channel.connected(channel.deadline(PATIENCE_S))
            return channel
        url = self._urls[self._next % len(self._urls)]
        self._next += 1
        self._client = Client(url, cluster=self._cluster, name="scan")
        channel = self._client.channel
        await channel.connected(channel.deadline(PATIENCE_S))
        await self._asked(channel, _newest)
        self._cluster_id = self._cluster_id or channel.cluster_id
        if channel.cluster_id != self._cluster_id:
            raise NotReady(f"{url} belongs to another cluster of the same name")
        return channel

    async def _ask(self, question: Callable[[Channel], Awaitable[T]]) -> T:
        """Return the answer of the first node that answers. Raises NotExecuted (Withdrawn), or what it refuses."""
        deadline_s = self._loop.time() + self._timeout_s
        while True:
            try:
                return await self._asked(await self._channel(), question)
            except (NotExecuted, OutcomeUnknown) as error:
                self._last_error = error
                await self._leave()
            if self._loop.time() > deadline_s:
                raise self._nobody()

    @staticmethod
    async def _asked(channel: Channel, question: Callable[[Channel], Awaitable[T]]) -> T:
        """The answer of this node; one whose connection broke is not waited for."""
        asked = asyncio.ensure_future(question(channel))
        try:
            while not asked.done():
                await asyncio.wait([asked], timeout=PATIENCE_S)
                if not asked.done() and not channel.is_connected:
                    raise ReadyTimeout("the node is gone")
            return asked.result()
        finally:
            asked.cancel()

    def _nobody(self) -> RaftmetaError:
        return ReadyTimeout(
            f"url: none of {', '.join(self._urls)} answered for {self._timeout_s:g} s; the last one: {self._last_error}"
        )

    def statuses(self) -> dict[str, NodeStatus]:
        """The status of each node that answers, by its URL. Raises ReadyTimeout when none does."""

        async def look(url: str) -> NodeStatus | None:
            client = Client(url, cluster=self._cluster, name="scan")
            try:
                await client.channel.connected(client.channel.deadline(PATIENCE_S))
                return await client.status(timeout_s=PATIENCE_S)
            except (NotExecuted, OutcomeUnknown) as error:
                self._last_error = error
                return None
            finally:
                await client.close()

        async def look_at_all() -> list[NodeStatus | None]:
            deadline_s = self._loop.time() + self._timeout_s
            while True:
                found = await asyncio.gather(*map(look, self._urls))
                if any(found):
                    return found
                if self._loop.time() > deadline_s:
                    raise self._nobody()

        return {url: status for url, status in zip(self._urls, self._run(look_at_all()), strict=True) if status}

    # --- what there is ------------------------------------------------------------------------------------------------

    def newest(self) -> int:
        """The newest revision; not older than any write answered before this call."""

        return self._run(self._ask(_newest))

    def members(self) -> tuple[MemberStatus, ...]:
        """The members as last committed, linearizable."""

        async def question(channel: Channel) -> tuple[MemberStatus, ...]:
            assert self._client is not None
            return await self._client.members(timeout_s=ANSWER_S)

        return self._run(self._ask(question))

    def leases(self) -> list[tuple[int, int, int, bytes]]:
        """(id, ttl_ms, remaining_ms, note) of the leases, by id; at least those granted before this call.

        Pages of many leases are made one after another, each as of its own moment. Raises Unsupported: the node is
        older than this request.
        """

        async def question(channel: Channel) -> list[tuple[int, int, int, bytes]]:
            await _newest(channel)  # a read round, after which this node has applied what was granted before
            found: list[tuple[int, int, int, bytes]] = []
            more = True
            while more:
                least = found[-1][0] + 1 if found else 0
                more, *page = await channel.submit(channel.encoder.leases(least), VALUES, channel.deadline(ANSWER_S))
                found += [(id, ttl_ms, remaining_ms, note) for id, ttl_ms, remaining_ms, note in page]
            return found

        return self._run(self._ask(question))

    def count(self, start: bytes, stop: bytes, revision: int) -> int:
        """How many keys [start, stop) has as of a revision."""

        number: int = self._run(self._pinned(start, stop, revision, RANGE, is_count=True))[0]
        return number

    def key_ranges(self, scope: Scope, revision: int, parts: int) -> list[tuple[bytes, bytes]]:
        """At most `parts` ranges that together are [start, stop), of about as many keys each; found by counting."""
        if scope.holds_nothing():
            return []
        cuts: list[bytes] = []
        todo = [(scope.start, scope.stop, self.count(scope.start, scope.stop, revision), parts)]
        while todo:
            start, stop, number, wanted = todo.pop()
            if wanted < 2 or number < 2 * TUNE_CUT_KEYS:
                continue
            cut, before = self._middle(start, stop, number, revision)
            if cut:
                cuts.append(cut)
                todo += [(start, cut, before, wanted // 2), (cut, stop, number - before, wanted - wanted // 2)]
        return cut_range(scope.start, scope.stop, cuts, parts)

    def _middle(self, start: bytes, stop: bytes, number: int, revision: int) -> tuple[bytes, int]:
        """A key with about half of the range's keys before it, and how many; empty: none was found.

        A look whether there is a key at all costs nothing, so only what holds some is counted.
        """
        low, high, before_low = self._first(start, stop, revision), stop, 0
        found, counts = (b"", 0), 0
        while counts < TUNE_CUT_COUNTS and low and (cut := between(low, high)):
            key = self._first(cut, high, revision)
            if not key:
                high = cut
                continue
            counts += 1
            before = before_low + self.count(low, key, revision)
            if abs(2 * before - number) < abs(2 * found[1] - number):
                found = key, before
            if abs(2 * found[1] - number) * 4 < number:
                break
            if 2 * before < number:
                low, before_low = key, before
            else:
                high = cut
        return found

    def _first(self, start: bytes, stop: bytes, revision: int) -> bytes:
        """The first key of [start, stop), empty without one."""

        records = self._run(self._pinned(start, stop, revision, RANGE, limit=1, keys_only=True))[2]
        return records[0].key if records else b""

    async def _pinned(
        self,
        start: bytes,
        stop: bytes,
        revision: int,
        purpose: int,
        *,
        limit: int = 0,
        keys_only: bool = False,
        is_count: bool = False,
    ) -> Any:
        """The records of [start, stop) as of a revision that exists, by the node's own state: no other is asked."""

        async def read(is_local: bool, channel: Channel) -> Any:
            frame = channel.encoder.range(start, stop, revision, limit, is_local, keys_only, is_count)
            return await channel.submit(frame, purpose, channel.deadline(ANSWER_S))

        try:
            return await self._ask(partial(read, True))
        except FutureRevision:
            # It has started again since it was taken, and is not back where it was; after a read round it is.
            return await self._ask(partial(read, False))

    # --- rows ---------------------------------------------------------------------------------------------------------

    def keys(self, scope: Scope, revision: int) -> Iterator[Any]:
        """Record batches of the table kv: the keys of the scope as of a revision. Raises Compacted, FutureRevision."""
        batches = Batches("kv", scope.columns)
        start, more = scope.start, not scope.holds_nothing()
        while more:
            body: bytes = self._page(start, scope.stop, revision, BYTES)
            status, more, key = take_page(body, revision, batches.handle)
            if status != statuses.OK:
                raise error_from_status(status, detail="a page of keys cannot be read")
            start = key + b"\0"
            if not more or batches.is_full():
                batch = batches.take()
                if batch is not None:
                    yield batch

    def records(self, start: bytes, stop: bytes, revision: int, *, limit: int = 0) -> Iterator[list[KeyRecord]]:
        """The keys of [start, stop) as of a revision, as one answer has them: a mebibyte and one record more at most.

        limit: of the records of an answer, 0: none. Raises Compacted, FutureRevision.
        """
        more = True
        while more:
            _, more, found, _ = self._page(start, stop, revision, RANGE, limit=limit)
            if found:
                yield found
                start = found[-1].key + b"\0"

    def _page(self, start: bytes, stop: bytes, revision: int, purpose: int, *, limit: int = 0) -> Any:
        """Keys from start on, as one answer has them."""
        try:
            return self._run(self._pinned(start, stop, revision, purpose, limit=limit))
        except Compacted:
            oldest = max(status.compacted for status in self.statuses().values())
            raise Compacted(
                f"revision: {revision} is compacted, perhaps while it was read; the oldest is {oldest}: read again, "
                "with more history (Config.history_bytes_max) if this happens often",
                revision=oldest,
            ) from None
        except FutureRevision as error:
            raise FutureRevision(
                f"revision: {revision} does not exist yet; the newest is {error.revision}", revision=error.revision
            ) from None

    def changes(self, scope: Scope, low: int, high: int) -> Iterator[Any]:
        """Record batches of the table changes: those of the revisions (low, high], which exist.

        Raises Compacted: the first ones are gone. Raises InvalidArgument when a revision is missing.
        """
        if low >= high:
            return
        batches = Batches("changes", scope.columns)
        feed = FeedHandle(low, high, scope.start, scope.stop)
        watch_filter = _WITH_PREVIOUS if scope.wants_previous() else 0
        inbox: Inbox | None = None
        status = statuses.OK
        while status != statuses.NOT_FOUND:
            if inbox is None:
                inbox = self._run(self._ask(lambda channel: _opened(channel, feed, watch_filter)))
            body = self._run(self._body(inbox))
            status = statuses.STALE if body is None else self._taken(feed, body, batches)
            if status == statuses.STALE:
                self._run(self._let_go(inbox, body is None))
                inbox = None
            if status == statuses.NOT_FOUND or batches.is_full():
                batch = batches.take()
                if batch is not None:
                    yield batch
        if inbox is not None:
            self._run(self._let_go(inbox, False))

    def follow(self, scope: Scope, low: int, quiet_s: float) -> Iterator[Any]:
        """Record batches of the table changes: what comes behind low, each revision in one; None after quiet_s without.

        It never ends by itself. Raises as changes does, and ReadyTimeout when no node answers.
        """
        batches = Batches("changes", scope.columns)
        feed = FeedHandle(low, NUMBER_MAX, scope.start, scope.stop)
        watch_filter = _WITH_PREVIOUS if scope.wants_previous() else 0
        inbox: Inbox | None = None
        due_s = 0.0
        while True:
            if inbox is None:
                inbox = self._run(self._ask(lambda channel: _opened(channel, feed, watch_filter)))
            is_gathering = feed.is_whole and batches.handle.rows > 0
            self._run(_news(inbox, max(0.0, due_s - self._loop.time()) if is_gathering else quiet_s))
            had_rows = batches.handle.rows > 0
            body = inbox.take()
            status = statuses.STALE if body is None else self._taken(feed, body, batches) if body else statuses.OK
            if not body and not is_gathering and status == statuses.OK and self._newest_is_missing(feed):
                status = statuses.STALE
            if status == statuses.STALE:
                self._run(self._let_go(inbox, not body))
                inbox = None
            if not had_rows:
                due_s = self._loop.time() + TUNE_GATHER_S
            if feed.is_whole and (batches.is_full() or (batches.handle.rows and self._loop.time() >= due_s)):
                yield batches.take()
            elif not body and not had_rows and inbox is not None:
                yield None

    def _newest_is_missing(self, feed: FeedHandle) -> bool:
        """True when there is a revision that the node did not give: one that says nothing may have nothing to say."""
        return self._run(self._ask(_newest)) >= feed.next_revision

    @staticmethod
    def _taken(feed: FeedHandle, body: bytes, batches: Batches) -> int:
        status = feed.take(body, batches.handle)
        if status == statuses.COMPACTED:
            raise Compacted(
                f"start_revision: the changes before revision {feed.told} are compacted; begin there, or with "
                "start_revision=oldest",
                revision=feed.told,
            )
        if status == statuses.CORRUPT:
            raise InvalidArgument(
                f"the change feed went from revision {feed.next_revision - 1} to {feed.told}: changes are missing, "
                "nothing of this batch may be used",
                field="changes",
            )
        if status not in (statuses.OK, statuses.STALE, statuses.NOT_FOUND):
            raise error_from_status(status, detail="an item of a watch cannot be read")
        return status

    async def _body(self, inbox: Inbox) -> bytes | None:
        """The next items of changes that exist; None: this node gives no more. Raises what it refuses."""
        silent_s = 0.0
        while not await _news(inbox, PATIENCE_S):
            silent_s += PATIENCE_S
            if silent_s >= self._timeout_s:
                raise self._nobody()
            if silent_s >= ANSWER_S:
                return None
        return inbox.take()

    async def _let_go(self, inbox: Inbox, is_gone: bool) -> None:
        if self._client is not None and not is_gone:
            self._client.channel.close_watch(inbox.watch)
        else:
            await self._leave()


class Inbox(Events):
    """The items that a watch brought and nobody has taken yet."""

    def __init__(self) -> None:
        self.bodies: collections.deque[bytes] = collections.deque()
        self.news = asyncio.Event()
        self.error: RaftmetaError | None = None
        self.is_lost = False
        self.watch = 0

    def take(self) -> bytes | None:
        """The next items, empty: there are none yet; None: none will come. Raises what the node refuses."""
        if self.bodies:
            return self.bodies.popleft()
        if self.error is not None and not isinstance(self.error, NotExecuted):
            raise self.error
        return None if self.is_lost or self.error is not None else b""

    def on_items(self, body: bytes) -> None:
        self.bodies.append(body)
        self.news.set()

    def on_refused(self, error: RaftmetaError) -> None:
        self.error = error
        self.news.set()

    def on_lost(self) -> None:
        self.is_lost = True
        self.news.set()


async def _news(inbox: Inbox, wait_s: float) -> bool:
    """Wait until take() has something to say; False: wait_s passed."""
    if inbox.bodies or inbox.is_lost or inbox.error is not None:
        return True
    inbox.news.clear()
    try:
        async with asyncio.timeout(wait_s):
            await inbox.news.wait()
    except TimeoutError:
        return False
    return True


async def _newest(channel: Channel) -> int:
    """The newest revision, by a read round; the node has applied it then."""
    frame = channel.encoder.range(b"\0", b"\0\0", 0, 1, False, True, False)
    revision: int = (await channel.submit(frame, RANGE, channel.deadline(ANSWER_S)))[3]
    return revision


async def _opened(channel: Channel, feed: FeedHandle, watch_filter: int) -> Inbox:
    """A watch of all keys from the feed's next revision on: what is not in the scope proves that none is missing."""
    inbox = Inbox()
    feed.begin_again()
    inbox.watch = channel.open_watch(b"", b"", feed.next_revision, watch_filter, inbox)
    return inbox


def between(low: bytes, high: bytes) -> bytes:
    """A key about half way from low to high, greater than low; empty: there is none. An empty high is the end."""
    width = 8
    shared = 0
    while high and shared < len(low) and shared < len(high) and low[shared] == high[shared]:
        shared += 1
    first = int.from_bytes(low[shared : shared + width].ljust(width, b"\0"))
    last = int.from_bytes(high[shared : shared + width].ljust(width, b"\0")) if high else 1 << 8 * width
    middle = (low[:shared] + ((first + last) // 2).to_bytes(width)).rstrip(b"\0")
    return middle if low < middle and (not high or middle < high) else b""
