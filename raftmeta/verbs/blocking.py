"""Verbs: what raftmeta.Node and raftmeta.Client do for a caller that blocks.

It decides what a verb asks for, and how long its caller waits by default. The methods that begin with an underscore
are the carrier's: how what is asked travels.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol, TypeVar

from raftmeta.bindings import verbs
from raftmeta.bindings.revision import Revision
from raftmeta.bindings.verbs import Request, revision_of
from raftmeta.interfaces import FenceLike
from raftmeta.members.plans import Change, adding, removing, replacing, voting
from raftmeta.operations import CompareOperator, Key, KeyRecord, Operation, RangeResult, ZnodeOperation, check_callable
from raftmeta.results import MemberStatus, TxnReply, WatchBatch, WatchReset, ZnodeFound, ZnodesReply
from raftmeta.verbs.asked import RangeAsked, WatchAsked, range_asked, watch_asked
from raftmeta.verbs.groups import BlockingGroups
from raftmeta.verbs.lease import Lease
from raftmeta.verbs.rights import BlockingAuth
from raftmeta.verbs.watch import Watch
from raftmeta.verbs.znodes import ZNODE_ROOT, ZnodePlace

__all__ = ["HasId", "Verbs"]

Answer = TypeVar("Answer")


class HasId(Protocol):
    """A lease of any store."""

    @property
    def id(self) -> int: ...


class Verbs:
    """The verbs of a store whose callers block."""

    __slots__ = ()

    # --- the carrier's ------------------------------------------------------------------------------------------------

    def _ask(self, request: Request[Answer], timeout_s: float | None) -> Answer:
        raise NotImplementedError

    def _get(self, key: Key, revision: int, local: bool, timeout_s: float | None) -> KeyRecord | None:
        raise NotImplementedError

    def _range(self, asked: RangeAsked, timeout_s: float | None) -> RangeResult:
        raise NotImplementedError

    def _lease(
        self, ttl_s: float, id: int, on_lost: Callable[[Lease], object] | None, timeout_s: float | None
    ) -> Lease:
        raise NotImplementedError

    def _watch(
        self,
        asked: WatchAsked,
        callback: Callable[[WatchBatch | WatchReset], object] | None,
        on_end: Callable[[BaseException | None], object] | None,
    ) -> Watch:
        raise NotImplementedError

    def _transfer(self, to: str | None, timeout_s: float | None) -> None:
        raise NotImplementedError

    def _members(self, timeout_s: float | None) -> tuple[MemberStatus, ...]:
        raise NotImplementedError

    def _check_rights(self) -> None:
        """A node that is asked by others looks itself."""

    def _rights_page(self, page: int, first: bytes, limit: int, timeout_s: float | None) -> list[Any]:
        raise NotImplementedError

    def _reach(self, change: Change, timeout_s: float | None) -> None:
        raise NotImplementedError

    @property
    def auth(self) -> BlockingAuth:
        """Users, roles and rights. Raises NotReady while a member of the cluster could not apply them."""
        self._check_rights()
        return BlockingAuth(self._ask, self._rights_page)

    @property
    def groups(self) -> BlockingGroups:
        """Worker groups: members, generations, assignments (docs/groups.md).

        A verb is refused as NotReady or CommandRefused while a member of the cluster could not apply it.
        """
        return BlockingGroups(self)

    # --- writes -------------------------------------------------------------------------------------------------------

    def put(
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
        fence: refuse with Fenced unless it, or what is held by a lead, member or lock, is still held. previous: .result
        is the record before, or None.
        """
        return self._ask(verbs.put(key, value, lease, fence, previous), timeout_s)

    def put_many(
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
        (InvalidArgument). A later error has .items_done: so many of the first items are certainly set, the error is
        about the group behind them, and nothing after that was begun. To call again with the rest, or all, is safe.
        """
        return self._ask(verbs.put_many(items, lease, fence), timeout_s)

    def create(
        self,
        key: Key,
        value: bytes | str,
        *,
        lease: int | HasId = 0,
        fence: FenceLike | None = None,
        timeout_s: float | None = 5.0,
    ) -> Revision:
        """Set a key that must not exist. Raises KeyExists."""
        return self._ask(verbs.create(key, value, lease, fence), timeout_s)

    def update(
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
        return self._ask(verbs.update(key, value, expected_revision, lease, fence, previous), timeout_s)

    def delete(
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
        return self._ask(verbs.delete(key, expected_revision, must_exist, fence, previous), timeout_s)

    def delete_range(
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
        return self._ask(verbs.delete_range(*verbs.range_bounds(start, end, prefix), fence, previous), timeout_s)

    def add(
        self, key: Key, number: int = 1, *, fence: FenceLike | None = None, timeout_s: float | None = 5.0
    ) -> Revision:
        """Add to a signed 64-bit counter, which begins at 0; .result is the new number."""
        return self._ask(verbs.add(key, number, fence), timeout_s)

    def txn(
        self,
        compares: Iterable[CompareOperator] = (),
        then: Iterable[Operation] = (),
        otherwise: Iterable[Operation] = (),
        *,
        fence: FenceLike | None = None,
        timeout_s: float | None = 5.0,
    ) -> TxnReply:
        """Do all of `then` if every compare holds, else all of `otherwise`: in one revision, or refused as a whole."""
        return self._ask(verbs.txn(compares, then, otherwise, fence), timeout_s)

    def znodes(
        self,
        operations: Iterable[ZnodeOperation],
        *,
        lease: int | HasId = 0,
        identities: Iterable[tuple[Key, Key]] = (),
        root: Key = ZNODE_ROOT,
        fence: FenceLike | None = None,
        timeout_s: float | None = 5.0,
    ) -> ZnodesReply:
        """Do all of these operations on znodes in one revision, or none: then ZnodeRefused says which one, and why.

        operations: ZnodeCreate, ZnodeDelete, ZnodeSetData, ZnodeSetAcl, ZnodeCheck. Each sees those before it.
        lease: an id or a Lease, the owner of ephemerals; if it is gone, nothing is done (code -112). 0: none.
        identities: (scheme, id) of who asks, for the lists of rights, as ("digest", "user:hash"). A client may name
            some only while rights are off (PermissionDenied). ("super", "") may do everything.
        root: the prefix of all keys of the tree, at most 64 bytes without a slash. fence: as in put.
        Raises NotExecuted, CommandRefused while a member of the cluster is too old, OutcomeUnknown.
        """
        return self._ask(verbs.znodes(operations, lease, identities, root, fence), timeout_s)

    def compact(self, revision: int, *, timeout_s: float | None = 5.0) -> Revision:
        """Forget the history below revision: reads and watches there are Compacted from now on."""
        return self._ask(verbs.compact(revision), timeout_s)

    # --- reads --------------------------------------------------------------------------------------------------------

    def get(
        self, key: Key, *, revision: int = 0, local: bool = False, timeout_s: float | None = 5.0
    ) -> KeyRecord | None:
        """The record of a key, None without one; linearizable: not older than any write answered before this call.

        revision: as of that revision (Compacted, FutureRevision). local: what the node that is asked has applied,
        without asking the others.
        """
        return self._get(key, revision, local, timeout_s)

    def range(
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
        delimiter: Key | None = None,
        timeout_s: float | None = 5.0,
    ) -> RangeResult:
        """The records of [start, end), or with a prefix, in order of keys and as of one revision.

        An empty end means to the last key. limit: at most so many records, 0: all; `more` says that there are others,
        and the next page starts at `next_start`, which may stand beside the prefix. count: also count the whole range,
        whose keys are then all looked at. count_only: nothing but that. keys_only: without the values. revision, local:
        as in get.

        delimiter: keys that have it behind the prefix are given once, as the prefix that they share, in `prefixes`:
        with prefix="a/" and delimiter="/" the keys a/b/1 and a/b/2 give a/b/. It counts as one record, for the limit
        too. The keys behind it are passed and not read. Raises Unsupported: the node is older.
        """
        asked = range_asked(
            start,
            end,
            prefix,
            limit=limit,
            revision=revision,
            keys_only=keys_only,
            count=count,
            count_only=count_only,
            local=local,
            delimiter=delimiter,
        )
        return self._range(asked, timeout_s)

    def znode(
        self,
        path: str,
        *,
        children: bool = False,
        root: Key = ZNODE_ROOT,
        revision: int = 0,
        local: bool = False,
        timeout_s: float | None = 5.0,
    ) -> ZnodeFound | None:
        """A znode, None without one; linearizable. path: as "/brokers/ids"; of a tree that has this root.

        children: also the names of its children. revision, local: as in get. It asks no list of rights: its stat, kind
        and acl are in .znode. A key of the tree that is no znode is not found.
        """
        place = ZnodePlace(path, root, local=local)
        found = place.found(self._range(place.itself(revision_of(revision, "revision")), timeout_s))
        if found is None or not children:
            return found
        return place.with_children_now(found, lambda asked: self._range(asked, timeout_s))

    # --- leases and watches -------------------------------------------------------------------------------------------

    def lease(
        self,
        ttl_s: float,
        *,
        id: int = 0,
        on_lost: Callable[[Lease], object] | None = None,
        timeout_s: float | None = 5.0,
    ) -> Lease:
        """Grant a lease and keep it alive until it is revoked or this store is closed.

        id: chosen (IdConflict), 0: drawn. on_lost: called once when it is lost, on a thread that all leases share.

        Hold the object: one that is collected and not revoked is kept alive no longer (the log says so), and its keys
        go when its time to live has passed. on_lost holds it, too.
        """
        return self._lease(ttl_s, id, check_callable(on_lost, "on_lost"), timeout_s)

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
        callback: Callable[[WatchBatch | WatchReset], object] | None = None,
        on_end: Callable[[BaseException | None], object] | None = None,
        timeout_s: float | None = None,
    ) -> Watch:
        """Every change of one key, of [key, end), or with a prefix: once and in order, from start_revision (0: now) on.

        previous: events carry the record before. puts, deletes: which kinds. progress: now and then an empty batch.
        raise_lagged: raise Lagged when this watcher was too slow, instead of going on from where it stopped.
        reset: where history is gone, give one WatchReset with all that matches, instead of raising Compacted.
        timeout_s: an iterator ends when nothing came for so long.
        callback: called on threads that all callbacks of this store share; one that blocks delays the others by some
        10 ms at most. One that raises is reported by threading.excepthook, and its watch is closed.
        on_end: called once when no further call of callback comes, unless close() was called: with the error that ended
        the watch, which is then not reported, or None. Nothing is called any more once the store is closed.
        """
        check_callable(callback, "callback")
        asked = watch_asked(
            key,
            end,
            prefix,
            start_revision=start_revision,
            previous=previous,
            puts=puts,
            deletes=deletes,
            progress=progress,
            raise_lagged=raise_lagged,
            reset=reset,
            timeout_s=timeout_s,
        )
        return self._watch(asked, callback, on_end)

    # --- the cluster --------------------------------------------------------------------------------------------------

    def transfer(self, to: str | None = None, *, timeout_s: float | None = 5.0) -> None:
        """Hand the leadership to a member, by default the most advanced; returns when another one leads."""
        self._transfer(to, timeout_s)

    def members(self, *, timeout_s: float | None = 5.0) -> tuple[MemberStatus, ...]:
        """The members as last committed, linearizable; during a change it waits for its end (else ReadyTimeout)."""
        return self._members(timeout_s)

    def add_member(self, name: str, address: str, *, voter: bool = True, timeout_s: float | None = 30.0) -> None:
        """Make the node that answers at address ("host:port" for peers) a member; on return that is committed.

        It begins as a learner. With voter the leader promotes it once it has caught up, in pairs from an odd number of
        voters on: an even number bears no more failures. Without, it stays a standby until promote. Waits for its
        process to answer, so either may come first. Any store may be asked, and asked again: this and the calls below
        state a goal, and return at once where it is reached.
        Raises ChangeRefused: decided, in plain words. Withdrawn: not changed in time, with the reason. OutcomeUnknown:
        proposed, and not seen committed. Unsupported: the node that a client asks is older than this request.
        """
        self._reach(adding(name, address, is_voter=bool(voter)), timeout_s)

    def remove_member(self, name: str, *, timeout_s: float | None = 30.0) -> None:
        """Remove a member, answering or not; a leader hands over first. It learns of it and takes no more calls.

        Its clients, and their watches, go on elsewhere. Refused when its going would leave no quorum of voters that
        answer, and when no member has this name: the error names the members. So a removal that is done is refused when
        it is asked for again. Fates as add_member.
        """
        self._reach(removing(name), timeout_s)

    def replace_member(self, old: str, name: str, address: str, *, timeout_s: float | None = 60.0) -> None:
        """Give old's place to the node at address: a standby first, and one change once it has caught up."""
        self._reach(replacing(old, name, address), timeout_s)

    def promote(self, name: str, *, timeout_s: float | None = 30.0) -> None:
        """Give a learner a vote as soon as it has caught up, also where that makes their number even."""
        self._reach(voting(name, is_voter=True), timeout_s)

    def demote(self, name: str, *, timeout_s: float | None = 30.0) -> None:
        """Take a member's vote: it stays as a standby. A leader hands over first."""
        self._reach(voting(name, is_voter=False), timeout_s)
