"""The asyncio client: the verbs of raftmeta.aio.Node, asked of a cluster over one connection.

It carries what the verbs ask (verbs/awaited) over its channel, in the channel's session. It never decides where to
connect or what to send again; the channel does.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine
from types import TracebackType
from typing import TYPE_CHECKING, Any, BinaryIO, Self, TypeVar

from raftmeta.bindings.requests import NOTHING, RANGE, RECORD, VALUES
from raftmeta.bindings.revision import Revision
from raftmeta.bindings.scram import credentials_of
from raftmeta.bindings.verbs import Request, check_ttl, grant, revoke
from raftmeta.client.backup import Progress, fetch
from raftmeta.client.channel import NEVER, Channel
from raftmeta.client.endpoints import choose_tls, parse_url
from raftmeta.client.kept import KeptLease, now_boot_s
from raftmeta.client.lease import LeaseBase
from raftmeta.client.machines import AioClientMachine
from raftmeta.client.members import list_members, reach
from raftmeta.client.status import status_from
from raftmeta.client.watch import AioClientWatch
from raftmeta.config import check_name
from raftmeta.errors import ConfigError, InvalidArgument, LeaseExpired, NodeClosed, NotReady
from raftmeta.flight.image import ASKED_RECORDS, Image
from raftmeta.members.plans import Change
from raftmeta.operations import Key, KeyRecord, RangeResult
from raftmeta.results import MemberStatus, NodeStatus
from raftmeta.security.settings import Tls
from raftmeta.verbs.asked import RangeAsked, WatchAsked, next_page, range_result
from raftmeta.verbs.awaited import AioVerbs
from raftmeta.verbs.deaths import report_awaited
from raftmeta.verbs.lease import AioLease

if TYPE_CHECKING:
    from raftmeta.client.secure import Security

__all__ = ["AioClientLease", "Client"]

Answer = TypeVar("Answer")

LEADER_LOOKS_S = 0.02  # between two looks whether a transfer is done


class Client(AioVerbs):
    """A client of a cluster for one event loop, that of its first call. As a context it is closed.

    url: "raft://host:port,host:port", where nodes listen for clients, as many of them as are known: the client moves to
    the leader if it is among them; or "raft+unix:///folder" of a node of this machine.
    cluster: its name, as the nodes have it. name: of this client, for people. session_ttl_s: how long the results of a
    client that is silent are kept, and so how long it may be cut off without losing track of what it had under way.
    user, password: what it proves to each node, by SCRAM-SHA-256; the password itself is never sent, and without TLS it
    is proved over loopback and Unix sockets only. Raises AuthenticationFailed from the first call on if it is wrong.
    With none of them the client is the principal in the certificate of its tls, if a user has that name.
    token: in the place of user and password, from `auth.token` or `auth.founding_token`.
    tls: raftmeta.Tls, if the nodes have TLS; it may also stand in the URL, as ?tls_ca=FILE&tls_cert=FILE&tls_key=FILE.

    Arguments, results and errors are those of raftmeta.aio.Node; cancelling a call never undoes a write. Calls that
    wait together are not ordered among one another when a connection breaks.
    """

    def __init__(
        self,
        url: str,
        *,
        cluster: str = "default",
        name: str | None = None,
        session_ttl_s: float = 60.0,
        user: str | None = None,
        password: str | None = None,
        token: str | None = None,
        tls: Tls | None = None,
    ) -> None:
        self._endpoints = parse_url(url)
        self._tls = choose_tls(url, tls)
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
        self._credentials = credentials_of(user, password, token)
        self._bound: Channel | None = None
        self.lease_tasks: set[asyncio.Task[None]] = set()  # that wait for the loss of a lease
        self._fetching = asyncio.Lock()  # a node has one file open for a connection
        self._is_closed = False

    # --- life -------------------------------------------------------------------------------------------------------

    @property
    def channel(self) -> Channel:
        """The requests under way. The first call makes the channel, and its event loop owns it."""
        channel = self._bound
        if channel is None:
            if self._is_closed:
                raise NodeClosed("the client is closed")
            channel = self._bound = Channel(
                self._endpoints,
                cluster=self.cluster,
                name=self._name,
                session_ttl_s=self._session_ttl_s,
                credentials=self._credentials,
                security=self._security(),
            )
        elif channel.loop is not asyncio.get_running_loop():
            channel.check_open()
            raise InvalidArgument("this client belongs to another event loop: make one for each")
        return channel

    def _security(self) -> Security | None:
        if self._tls is None:
            return None
        from raftmeta.client.secure import Security

        security = Security(self._tls, self.cluster)
        security.context()  # a file that is wrong is told to who makes the first call
        return security

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
        """Close session and connections. Calls that wait learn their fate; nothing of the client goes on."""
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

    # --- the carrier: the channel, and a request of its own for each command ----------------------------------------

    def _ask(self, request: Request[Answer], timeout_s: float | None) -> Coroutine[Any, Any, Answer]:
        return request.ask_aio(self, timeout_s)

    def _prepare(self, request: Request[Any], timeout_s: float | None) -> float:
        channel = self.channel
        request.check(channel.encoder.value_bytes_max)
        return channel.deadline(timeout_s)

    def _has_session(self) -> bool:
        channel = self.channel
        channel.check_open()
        return bool(channel.encoder.session)

    async def _session(self, deadline_s: float) -> None:
        await self.channel.session(deadline_s)

    def _carry(self, request: Request[Any], deadline_s: float) -> asyncio.Future[Any]:
        channel = self.channel
        channel.check_room()
        return channel.submit(channel.encoder.command(request), request.purpose, deadline_s, is_command=True)

    def _is_late(self, deadline_s: float) -> bool:
        return self.channel.loop.time() >= deadline_s

    async def _get(self, key: Key, revision: int, local: bool, timeout_s: float | None) -> KeyRecord | None:
        channel = self.channel
        channel.check_open()
        frame = channel.encoder.get(key, revision, local)
        record: KeyRecord | None = await channel.submit(frame, RECORD, channel.deadline(timeout_s))
        return record

    async def _range(self, asked: RangeAsked, timeout_s: float | None) -> RangeResult:
        channel = self.channel
        channel.check_open()
        deadline_s = channel.deadline(timeout_s)
        at, limit, seen, more = asked.start, asked.limit, asked.revision, not asked.count_only
        found: list[KeyRecord | bytes] = []
        grouping = (asked.delimiter, asked.skip)
        while more and not (limit and len(found) >= limit):
            left = limit - len(found) if limit else 0
            frame = channel.encoder.range(at, asked.end, seen, left, asked.local, asked.keys_only, False, *grouping)
            _, more, part, newest = await channel.submit(frame, RANGE, deadline_s)
            seen = seen or newest  # the rest of the range is read as of the same revision
            found += part
            at = next_page(part[-1]) if part else at
        number = len(found)
        if asked.count_only or (asked.count and more):
            frame = channel.encoder.range(asked.start, asked.end, seen, 0, asked.local, False, True, *grouping)
            number, _, _, newest = await channel.submit(frame, RANGE, deadline_s)
            seen = seen or newest
        return range_result(found, has_prefixes=bool(asked.delimiter), count=number, more=bool(more), revision=seen)

    async def _lease(
        self, ttl_s: float, id: int, on_lost: Callable[[AioLease], object] | None, timeout_s: float | None
    ) -> AioClientLease:
        granting = grant(id, check_ttl(ttl_s))
        asked_s = now_boot_s()
        granted = await self._ask(granting, timeout_s)
        kept = self.channel.keep_lease(granted, float(ttl_s), asked_s)
        return AioClientLease(self, granted, kept, on_lost=on_lost)

    def _watch(self, asked: WatchAsked) -> AioClientWatch:
        return AioClientWatch(self.channel, asked)

    async def report_dead(self, member: int, boot: int, *, timeout_s: float | None = 5.0) -> Revision:
        """As raftmeta.Node.report_dead; the user needs the right "admin" once rights are on."""
        return await report_awaited(self._ask, member, boot, timeout_s)

    async def _transfer(self, to: str | None, timeout_s: float | None) -> None:
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

    async def _members(self, timeout_s: float | None) -> tuple[MemberStatus, ...]:
        return await list_members(self.channel, timeout_s)

    async def _rights_page(self, page: int, first: bytes, limit: int, timeout_s: float | None) -> list[Any]:
        channel = self.channel
        channel.check_open()
        frame = channel.encoder.rights(page, first, limit)
        values: list[Any] = await channel.submit(frame, VALUES, channel.deadline(timeout_s))
        return values

    async def _reach(self, change: Change, timeout_s: float | None) -> None:
        await reach(self.channel, change, timeout_s)

    # --- the cluster --------------------------------------------------------------------------------------------------

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

    async def flight_recorder(self, *, timeout_s: float | None = 5.0) -> bytes:
        """The content of the flight recorder of the node that serves this client, as its file `flight.ring` has it.

        It comes out of the node's memory. A client of one address asks that node, whoever leads.
        `raftmeta.explain.explain` takes it, and so does a file with it. Empty: the node has none. The user needs the
        right "admin" once rights are on. Raises Unsupported: the node runs a version without this request.
        """
        channel = self.channel
        channel.check_open()
        deadline_s = channel.deadline(timeout_s)
        image = Image()
        while image.wanted is not None:
            frame = channel.encoder.flight(*image.wanted, ASKED_RECORDS)
            image.take(await channel.submit(frame, VALUES, deadline_s))
        return image.content

    def metrics(self) -> dict[str, int]:
        """Counters of this client by name: requests, requests sent again, connections and sessions opened."""
        return dict(self.channel.counters)


class AioClientLease(LeaseBase, AioLease):
    """A lease that the event loop of its client keeps alive."""

    def __init__(
        self, client: Client, id: int, kept: KeptLease, *, on_lost: Callable[[AioLease], object] | None
    ) -> None:
        super().__init__(client.channel, id, kept)
        self._client = client
        self._is_revoked = False
        self._task: asyncio.Task[None] | None = None
        if on_lost is not None:
            self._task = asyncio.get_running_loop().create_task(self._watch(on_lost))
            client.lease_tasks.add(self._task)
            self._task.add_done_callback(client.lease_tasks.discard)

    @property
    def is_revoked(self) -> bool:
        return self._is_revoked

    async def _watch(self, on_lost: Callable[[AioLease], object]) -> None:
        await self.wait_lost()
        if not self._is_revoked:  # revoked is not lost
            on_lost(self)

    async def wait_lost(self, timeout_s: float | None = None) -> bool:
        deadline_s = self._channel.deadline(timeout_s)
        while self.held():
            left_s = deadline_s - self._channel.loop.time() if deadline_s < NEVER else NEVER
            if left_s <= 0:
                return False
            await asyncio.sleep(min(self.look_pause_s(), left_s))
        return True

    async def revoke(self, *, timeout_s: float | None = 5.0) -> None:
        if self._is_revoked:
            return
        self._is_revoked = True
        if self._task is not None:
            self._task.cancel()
        if not self.held():
            return  # it expires by itself; by now its id may be another's
        self._channel.drop_lease(self.id, self._kept)
        with contextlib.suppress(LeaseExpired):  # gone already, and its keys with it
            await self._client._ask(revoke(self.id), timeout_s)
