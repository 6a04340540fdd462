"""The asyncio client: the verbs of raftmeta.aio.Node, asked of a cluster over one connection.

It decides how long a call waits and encodes again what was certainly not executed because a session had ended. It never
decides where to connect or what to send again; the channel does.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterable, Mapping
from types import TracebackType
from typing import Any, BinaryIO, Protocol, Self

from raftmeta.bindings.requests import NOTHING, NUMBER, PREVIOUS, RANGE, RECORD, REVISION, TXN, VALUES
from raftmeta.bindings.revision import Revision
from raftmeta.client.backup import Progress, fetch
from raftmeta.client.channel import NEVER, Channel
from raftmeta.client.endpoints import parse_url
from raftmeta.client.kept import KeptLease, now_boot_s
from raftmeta.client.lease import LeaseBase, check_ttl
from raftmeta.client.machines import AioClientMachine
from raftmeta.client.members import list_members, reach
from raftmeta.client.status import status_from
from raftmeta.client.watch import Watch
from raftmeta.config import check_name
from raftmeta.errors import ConfigError, InvalidArgument, LeaseExpired, NodeClosed, NodeRemoved, NotReady, RaftmetaError
from raftmeta.interfaces import FenceLike
from raftmeta.members.plans import adding, removing, replacing, voting
from raftmeta.operations import CompareOperator, Key, KeyRecord, Operation, RangeResult, check_callable, prefix_end
from raftmeta.results import MemberStatus, NodeStatus, TxnReply, WatchEvent

__all__ = ["Client", "Lease", "Watch", "WatchEvent"]

LEADER_LOOKS_S = 0.02  # between two looks whether a transfer is done


class HasId(Protocol):
    """A lease of any face."""

    @property
    def id(self) -> int: ...


class Client:
    """A client of a cluster for one event loop, that of its first call. As a context it is closed.

    url: "raft://host:port,host:port", where nodes listen for clients, as many of them as are known: the client moves to
    the leader if it is among them; or "raft+unix:///folder" of a node of this machine.
    cluster: its name, as the nodes have it. name: of this client, for people. session_ttl_s: how long the results of a
    client that is silent are kept, and so how long it may be cut off without losing track of what it had under way.

    Arguments, results and errors are those of raftmeta.aio.Node; cancelling a call never undoes a write. Calls that
    wait together are not ordered among one another when a connection breaks.
    """

    def __init__(
        self, url: str, *, cluster: str = "default", name: str | None = None, session_ttl_s: float = 60.0
    ) -> None:
        self._endpoints = parse_url(url)
        self.url, self.cluster = url, check_name(cluster, "cluster")  # as they were given
        self._name = "" if name is None else check_name(name, "name")
        if (
            isinstance(session_ttl_s, bool)
            or not isinstance(session_ttl_s, int | float)
            or not 1 <= session_ttl_s <= 86400
        ):
            raise ConfigError(
                f"session_ttl_s: must be from 1 to 86400 seconds, not {session_ttl_s!r}", field="session_ttl_s"
            )
        self._session_ttl_s = float(session_ttl_s)
        self._bound: Channel | None = None
        self.lease_tasks: set[asyncio.Task[None]] = set()  # that wait for the loss of a lease
        self._fetching = asyncio.Lock()  # a node has one file open for a connection
        self._is_closed = False

    # --- life -------------------------------------------------------------------------------------------------------

    @property
    def channel(self) -> Channel:
        """What this client has under way; it is made by the first call and belongs to that event loop."""
        channel = self._bound
        if channel is None:
            if self._is_closed:
                raise NodeClosed("the client is closed")
            channel = self._bound = Channel(
                self._endpoints, cluster=self.cluster, name=self._name, session_ttl_s=self._session_ttl_s
            )
        elif channel.loop is not asyncio.get_running_loop():
            channel.check_open()
            raise InvalidArgument("this client belongs to another event loop: make one for each")
        return channel

    def look_at_session(self) -> tuple[bool, bool, int]:
        """Whether it is open; whether a node serves its session now; the how manieth that is. From any thread."""
        bound = self._bound
        if bound is None:
            return not self._is_closed, False, 0
        sessions = bound.counters["sessions"]
        return not self._is_closed, bound.is_connected and bool(bound.encoder.session), max(1, sessions)

    async def ready(self, timeout_s: float | None = 10.0) -> None:
        """Wait until a node serves this client. Raises ReadyTimeout."""
        channel = self.channel
        await channel.session(channel.deadline(timeout_s))

    async def close(self) -> None:
        """Close session and connections. What waits learns its fate; nothing of the client goes on."""
        self._is_closed = True
        for task in self.lease_tasks:
            task.cancel()
        await asyncio.gather(*self.lease_tasks, return_exceptions=True)
        if self._bound is not None:
            await self._bound.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_exc: type[BaseException] | BaseException | TracebackType | None) -> None:
        await self.close()

    # --- writes -------------------------------------------------------------------------------------------------------

    async def command(self, purpose: int, timeout_s: float | None, encode: Callable[[Channel], bytes]) -> Any:
        """Send what encode makes as the next command of the session; for the parts of the library."""
        channel = self.channel
        deadline_s = channel.deadline(timeout_s)
        while True:
            channel.check_open()
            if not channel.encoder.session:
                await channel.session(deadline_s)
            channel.check_room()
            try:
                return await channel.submit(encode(channel), purpose, deadline_s, is_command=True)
            except NodeRemoved:
                raise
            except NotReady:
                # The session ended between encoding and arrival: certainly not executed, so it may be encoded anew.
                if channel.loop.time() >= deadline_s:
                    raise

    async def put(
        self,
        key: Key,
        value: bytes | str | None,
        *,
        lease: int | HasId | None = 0,
        fence: FenceLike | None = None,
        previous: bool = False,
        timeout_s: float | None = 5.0,
    ) -> Revision:
        """Set key to value, new or not, and return the revision.

        value: at most Config.value_bytes_max bytes; None keeps the one that is there (KeyMissing without one).
        lease: an id or a Lease to attach the key to, 0 to detach it, None to leave it.
        fence: refuse with Fenced unless it, or what a lead, member or lock holds, is still held. previous: .result is
        the record before, or None.
        """
        result: Revision = await self.command(
            PREVIOUS if previous else REVISION,
            timeout_s,
            lambda channel: channel.encoder.put(key, value, lease, fence, previous),
        )
        return result

    async def put_many(
        self,
        items: Mapping[Key, bytes | str] | Iterable[tuple[Key, bytes | str]],
        *,
        lease: int | HasId = 0,
        fence: FenceLike | None = None,
        timeout_s: float | None = 30.0,
    ) -> Revision | None:
        """Set all these keys, and return the revision of the last ones; None without an item.

        items: a mapping, or pairs of a key and its value, in the order in which they are set. They go in groups of up
        to 4,096 items or 1 MiB: a group is one revision, all of it or nothing, and the next begins when it is answered.
        lease, fence: as in put, for each group. timeout_s: for the whole. A wrong item is found before anything is set
        (InvalidArgument). What fails later has .items_done: so many of the first items are certainly set, the error is
        about the group behind them, and nothing after that was begun. To call again with the rest, or all, is safe.
        """
        pairs = self.channel.encoder.pairs(items)
        deadline_s = self.channel.deadline(timeout_s)
        done = end = 0
        revision: Revision | None = None

        def encode(channel: Channel) -> bytes:
            nonlocal end
            frame, end = channel.encoder.puts(pairs, done, lease, fence)
            return frame

        while done < len(pairs):
            left_s = None if timeout_s is None else max(0.0, deadline_s - self.channel.loop.time())
            try:
                revision = await self.command(REVISION, left_s, encode)
            except RaftmetaError as error:
                error.items_done = done
                raise
            done = end
        return revision

    async def create(
        self,
        key: Key,
        value: bytes | str,
        *,
        lease: int | HasId = 0,
        fence: FenceLike | None = None,
        timeout_s: float | None = 5.0,
    ) -> Revision:
        """Set a key that must not exist. Raises KeyExists."""
        result: Revision = await self.command(
            REVISION, timeout_s, lambda channel: channel.encoder.create(key, value, lease, fence)
        )
        return result

    async def update(
        self,
        key: Key,
        value: bytes | str | None,
        *,
        expected_revision: int = 0,
        lease: int | HasId | None = 0,
        fence: FenceLike | None = None,
        previous: bool = False,
        timeout_s: float | None = 5.0,
    ) -> Revision:
        """Set a key that must exist (KeyMissing), and have this mod revision if one is given (CompareFailed)."""
        result: Revision = await self.command(
            PREVIOUS if previous else REVISION,
            timeout_s,
            lambda channel: channel.encoder.update(key, value, lease, expected_revision, fence, previous),
        )
        return result

    async def delete(
        self,
        key: Key,
        *,
        expected_revision: int = 0,
        must_exist: bool = False,
        fence: FenceLike | None = None,
        previous: bool = False,
        timeout_s: float | None = 5.0,
    ) -> Revision:
        """Remove a key; with must_exist only one that is there (KeyMissing). Never Overloaded, nor NoSpace."""
        result: Revision = await self.command(
            PREVIOUS if previous else REVISION,
            timeout_s,
            lambda channel: channel.encoder.delete(key, must_exist, expected_revision, fence, previous),
        )
        return result

    async def delete_range(
        self,
        start: Key = "",
        end: Key = "",
        *,
        prefix: Key | None = None,
        fence: FenceLike | None = None,
        previous: bool = False,
        timeout_s: float | None = 5.0,
    ) -> Revision:
        """Remove every key of [start, end), or with a prefix; .result is how many, or with previous the records.

        At most 10,000 keys in one call: more is refused (CommandRefused), and nothing is removed.
        """
        first, last = range_bounds(start, end, prefix)
        result: Revision = await self.command(
            PREVIOUS, timeout_s, lambda channel: channel.encoder.delete_range(first, last, fence, previous)
        )
        return result

    async def add(
        self, key: Key, number: int = 1, *, fence: FenceLike | None = None, timeout_s: float | None = 5.0
    ) -> Revision:
        """Add to a signed 64-bit counter, which begins at 0; .result is the new number."""
        result: Revision = await self.command(
            PREVIOUS, timeout_s, lambda channel: channel.encoder.add(key, number, fence)
        )
        return result

    async def txn(
        self,
        compares: Iterable[CompareOperator] = (),
        then: Iterable[Operation] = (),
        otherwise: Iterable[Operation] = (),
        *,
        fence: FenceLike | None = None,
        timeout_s: float | None = 5.0,
    ) -> TxnReply:
        """Do all of `then` if every compare holds, else all of `otherwise`: in one revision, or refused as a whole."""
        parts = tuple(compares), tuple(then), tuple(otherwise)
        result: TxnReply = await self.command(TXN, timeout_s, lambda channel: channel.encoder.txn(*parts, fence))
        return result

    async def compact(self, revision: int, *, timeout_s: float | None = 5.0) -> Revision:
        """Forget the history below revision: reads and watches there are Compacted from now on."""
        result: Revision = await self.command(
            REVISION, timeout_s, lambda channel: channel.encoder.compact(int(revision))
        )
        return result

    # --- reads --------------------------------------------------------------------------------------------------------

    async def get(
        self, key: Key, *, revision: int = 0, local: bool = False, timeout_s: float | None = 5.0
    ) -> KeyRecord | None:
        """The record of a key, None without one; linearizable: not older than any write answered before this call.

        revision: as of that revision (Compacted, FutureRevision). local: what the node has applied, without asking.
        """
        channel = self.channel
        channel.check_open()
        frame = channel.encoder.get(key, int(revision), local)
        record: KeyRecord | None = await channel.submit(frame, RECORD, channel.deadline(timeout_s))
        return record

    async def range(
        self,
        start: Key = "",
        end: Key = "",
        *,
        prefix: Key | None = None,
        limit: int = 0,
        revision: int = 0,
        keys_only: bool = False,
        count: bool = False,
        count_only: bool = False,
        local: bool = False,
        timeout_s: float | None = 5.0,
    ) -> RangeResult:
        """The records of [start, end), or with a prefix, in order of keys and as of one revision.

        An empty end means to the last key. limit: at most so many records, 0: all; `more` says that there are others,
        and the next page starts at the last key + b"\\0". count: also count the whole range, whose keys are then all
        looked at. count_only: nothing but that. keys_only: without the values.
        """
        channel = self.channel
        channel.check_open()
        deadline_s = channel.deadline(timeout_s)
        at, last = range_bounds(start, end, prefix)
        first, seen, more = at, int(revision), not count_only
        records: list[KeyRecord] = []
        while more and not (limit and len(records) >= limit):
            left = limit - len(records) if limit else 0
            frame = channel.encoder.range(at, last, seen, left, local, keys_only, False)
            _, more, part, newest = await channel.submit(frame, RANGE, deadline_s)
            seen = seen or newest  # the rest of the range is read as of the same revision
            records += part
            at = part[-1].key + b"\0" if part else at
        number = len(records)
        if count_only or (count and more):
            frame = channel.encoder.range(first, last, seen, 0, local, False, True)
            number, _, _, _ = await channel.submit(frame, RANGE, deadline_s)
        return RangeResult(number, records, bool(more), seen)

    # --- leases and watches -------------------------------------------------------------------------------------------

    async def lease(
        self,
        ttl_s: float,
        *,
        id: int = 0,
        on_lost: Callable[[Lease], object] | None = None,
        timeout_s: float | None = 5.0,
    ) -> Lease:
        """Grant a lease and keep it alive until it is revoked or this client is closed.

        id: chosen (IdConflict), 0: drawn. on_lost: called once when it is lost.

        Hold the object: one that is collected and not revoked is kept alive no longer (ResourceWarning), and its keys
        go when its time to live has passed. on_lost holds it, too.
        """
        ttl_s = check_ttl(ttl_s)
        check_callable(on_lost, "on_lost")
        asked_s = now_boot_s()
        granted = await self.command(NUMBER, timeout_s, lambda channel: channel.encoder.grant(id, round(ttl_s * 1000)))
        kept = self.channel.keep_lease(granted, ttl_s, asked_s)
        return Lease(self, granted, kept, on_lost=on_lost)

    def watch(
        self,
        key: Key | None = None,
        end: Key | None = None,
        *,
        prefix: Key | None = None,
        start_revision: int = 0,
        previous: bool = False,
        puts: bool = True,
        deletes: bool = True,
        progress: bool = False,
        raise_lagged: bool = False,
        reset: bool = False,
        timeout_s: float | None = None,
    ) -> Watch:
        """Every change of one key, of [key, end), or with a prefix: once and in order, from start_revision (0: now) on.

        It is opened by `async with`, or by the first look at it. previous: events carry the record before. puts,
        deletes: which kinds. progress: now and then an empty batch. raise_lagged: raise Lagged when this watcher was
        too slow, instead of going on from where it stopped. reset: where history is gone, give one WatchReset with all
        that matches, instead of raising Compacted. timeout_s: an iterator ends when nothing came for so long.
        """
        return Watch(
            self.channel,
            key,
            end,
            prefix=prefix,
            start_revision=start_revision,
            previous=previous,
            puts=puts,
            deletes=deletes,
            progress=progress,
            raise_lagged=raise_lagged,
            reset=reset,
            timeout_s=timeout_s,
        )

    # --- the cluster --------------------------------------------------------------------------------------------------

    async def transfer(self, to: str | None = None, *, timeout_s: float | None = 5.0) -> None:
        """Hand the leadership to a member, by default the most advanced; returns when another one leads."""
        channel = self.channel
        deadline_s = channel.deadline(timeout_s)
        before = (await self.status(timeout_s=timeout_s)).leader
        if to is not None and to == before:
            return
        await channel.submit(channel.encoder.transfer(to or ""), NOTHING, deadline_s)
        while True:
            leader = (await self.status(timeout_s=timeout_s)).leader
            if leader and leader != before:
                return
            if channel.loop.time() >= deadline_s:
                raise NotReady(f"the leadership was not handed over in time; {leader or 'nobody'} leads")
            await asyncio.sleep(LEADER_LOOKS_S)

    async def members(self, *, timeout_s: float | None = 5.0) -> tuple[MemberStatus, ...]:
        """The members as last committed, linearizable; during a change it waits for its end (else ReadyTimeout)."""
        return await list_members(self.channel, timeout_s)

    async def add_member(self, name: str, address: str, *, voter: bool = True, timeout_s: float | None = 30.0) -> None:
        """Make the node that answers at address ("host:port" for peers) a member; on return that is committed.

        It begins as a learner. With voter the leader promotes it once it has caught up, in pairs from an odd number of
        voters on. Without, it stays a standby until promote. This and the calls below state a goal, return at once
        where it is reached, and may be asked again, by anybody.
        Raises ChangeRefused: decided, in plain words. Withdrawn: not changed in time, with the reason. OutcomeUnknown:
        proposed, and not seen committed. Unsupported: the node is older than this request.
        """
        await reach(self.channel, adding(name, address, is_voter=voter), timeout_s)

    async def remove_member(self, name: str, *, timeout_s: float | None = 30.0) -> None:
        """Remove a member, answering or not; a leader hands over first. Its clients and watches go on elsewhere.

        Refused when its going would leave no quorum of voters that answer, and when no member has this name: the error
        names the members. So a removal that is done is refused when it is asked for again. Fates as add_member.
        """
        await reach(self.channel, removing(name), timeout_s)

    async def replace_member(self, old: str, name: str, address: str, *, timeout_s: float | None = 60.0) -> None:
        """Give old's place to the node at address: a standby first, and one change once it has caught up."""
        await reach(self.channel, replacing(old, name, address), timeout_s)

    async def promote(self, name: str, *, timeout_s: float | None = 30.0) -> None:
        """Give a learner a vote as soon as it has caught up, also where that makes their number even."""
        await reach(self.channel, voting(name, is_voter=True), timeout_s)

    async def demote(self, name: str, *, timeout_s: float | None = 30.0) -> None:
        """Take a member's vote: it stays as a standby. A leader hands over first."""
        await reach(self.channel, voting(name, is_voter=False), timeout_s)

    async def replicated(self, name: str, cls: type) -> AioClientMachine:
        """The user machine of that name, run by the nodes; cls: its class, marked with @raftmeta.replicated.

        Its methods are coroutines here; docs/replicated.md. Raises ConfigError, InvalidArgument.
        """
        return AioClientMachine(self, name, cls)

    async def fetch_snapshot(
        self, sink: BinaryIO, *, timeout_s: float | None = 60.0, on_progress: Progress | None = None
    ) -> None:
        """Write a sealed file with everything acknowledged before this call into sink (docs/formats.md "Sealed file").

        It comes from the node that serves this client, piece by piece, and goes on at another one when that is gone.
        sink: a binary file that can be cut (truncate). timeout_s: until a node has the file; None: no limit.
        on_progress: called with the bytes so far and the bytes in all. Nobody has checked the file when this returns:
        raftmeta.snapshot.save does, and replaces the old one only then.
        Raises NotExecuted (Withdrawn: no node has it in time, or gives a piece for 30 s), or OSError of the sink.
        """
        async with self._fetching:
            await fetch(self.channel, sink, timeout_s, on_progress)

    async def status(self, *, timeout_s: float | None = 5.0) -> NodeStatus:
        """How the node that serves this client saw itself at the end of a recent turn."""
        channel = self.channel
        channel.check_open()
        values = await channel.submit(channel.encoder.status(), VALUES, channel.deadline(timeout_s))
        return status_from(values)

    def metrics(self) -> dict[str, int]:
        """Counters of this client by name: requests, requests sent again, connections and sessions opened."""
        return dict(self.channel.counters)


class Lease(LeaseBase):
    """A lease of the asyncio client; Client.lease makes it. As a context it is revoked at the end."""

    def __init__(self, client: Client, id: int, kept: KeptLease, *, on_lost: Callable[[Lease], object] | None) -> None:
        super().__init__(client.channel, id, kept)
        self._client = client
        self._is_revoked = False
        self._task: asyncio.Task[None] | None = None
        if on_lost is not None:
            self._task = asyncio.get_running_loop().create_task(self._watch(on_lost))
            client.lease_tasks.add(self._task)
            self._task.add_done_callback(client.lease_tasks.discard)

    async def _watch(self, on_lost: Callable[[Lease], object]) -> None:
        await self.wait_lost()
        if not self._is_revoked:  # revoked is not lost
            on_lost(self)

    async def wait_lost(self, timeout_s: float | None = None) -> bool:
        """Wait until it is not held any more; False: timeout_s passed."""
        deadline_s = self._channel.deadline(timeout_s)
        while self.held():
            left_s = deadline_s - self._channel.loop.time() if deadline_s < NEVER else NEVER
            if left_s <= 0:
                return False
            await asyncio.sleep(min(self.look_pause_s(), left_s))
        return True

    async def revoke(self, *, timeout_s: float | None = 5.0) -> None:
        """Give it back: all keys attached to it are removed in one revision.

        One that is lost already is left to expire: its id may be another owner's by now.
        """
        if self._is_revoked:
            return
        self._is_revoked = True
        if self._task is not None:
            self._task.cancel()
        if not self.held():
            return  # it expires by itself; by now its id may be another's
        self._channel.drop_lease(self.id, self._kept)
        with contextlib.suppress(LeaseExpired):  # gone already, and its keys with it
            await self._client.command(REVISION, timeout_s, lambda channel: channel.encoder.revoke(self.id))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_exc: type[BaseException] | BaseException | TracebackType | None) -> None:
        await self.revoke()


def range_bounds(start: Key, end: Key, prefix: Key | None) -> tuple[Key, Key]:
    """(start, end) of range arguments: prefix, or start and end."""
    if prefix is None:
        return start, end
    if start or end:
        raise InvalidArgument("prefix: give either prefix or start and end", field="prefix")
    if not isinstance(prefix, bytes | str):
        raise InvalidArgument(f"prefix: must be bytes or str, not {type(prefix).__name__}", field="prefix")
    return prefix, prefix_end(prefix)
