"""The verbs of worker groups: `store.groups` has them, blocking or not as the store is (docs/groups.md).

It decides what the arguments come to, and what a caller that waits is told from the keys of the group. Each verb
stands once, as a generator of questions to the store; two drivers ask them. The machine decides everything else.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Generator, Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from raftmeta.bindings import verbs
from raftmeta.bindings.groups import group_pairs
from raftmeta.bindings.verbs import raw_bound
from raftmeta.common.text import shown
from raftmeta.errors import Compacted, GroupTimeout, InvalidArgument, group_refused
from raftmeta.operations import Fence, Key, KeyRecord, prefix_end
from raftmeta.results import GroupCounts, GroupInfo, GroupJoined, GroupListed, GroupMember, GroupSynced, WatchReset
from raftmeta.verbs.asked import RangeAsked, watch_asked

if TYPE_CHECKING:
    from raftmeta.verbs.awaited import AioVerbs
    from raftmeta.verbs.blocking import HasId, Verbs

__all__ = ["AioGroups", "BlockingGroups"]

Done = TypeVar("Done")
Protocols = Mapping[str, bytes | str] | Iterable[tuple[str, bytes | str]]

GROUP_ROOT = b"groups/"  # all groups of the verbs stand below it
JOIN, SYNC, LEAVE, DELETE = 1, 2, 3, 4  # wire/groups GroupVerb
WAITS, DONE, ID_REQUIRED = 1, 2, 3  # machine/groups, the first element of an answer
EMPTY, PREPARING, COMPLETING, STABLE = range(4)  # machine/group_records GroupState
STATES = ("Empty", "Preparing", "Completing", "Stable")
PENDING = 1
IS_CONSUMER, OF_CONSUMERS = 8, 2  # machine/group_records, flags of a group and of a member
ILLEGAL_GENERATION, UNKNOWN_MEMBER, IN_PROGRESS, ID_NEEDED, FENCED = 22, 25, 27, 79, 82
KEY_BYTES_MAX, NAME_BYTES_MAX, TYPE_BYTES_MAX, ID_BYTES_MAX = 300, 128, 255, 161  # wire/groups
PROTOCOLS_MAX, MEMBERS_MAX, TIME_S_MAX = 64, 5_000, 2_000_000
_GROUP = struct.Struct("<IIIIIIIQBBHHH")  # docs/formats.md "Groups"
_MEMBER = struct.Struct("<QIIIIIIHHB3x")
_CONSUMER = struct.Struct("<24xIII4x")  # docs/formats.md "Consumer groups"


# --- the records ------------------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class _Group:
    generation: int
    state: int
    type: str
    protocol: str
    leader: str
    members: int  # pending ones too
    is_consumer: bool  # the log assigns, and members do not speak through these verbs


@dataclass(frozen=True, slots=True)
class _Member:
    assigned: int
    is_pending: bool
    is_consumer: bool
    instance: str
    client: str
    protocols: bytes
    assignment: bytes


def _cut(value: bytes, lengths: Iterable[int], start: int) -> list[bytes] | None:
    parts = []
    for length in lengths:
        parts.append(value[start : start + length])
        start += length
    return parts if start == len(value) else None


def _group_of(record: KeyRecord | None) -> _Group | None:
    if record is None or len(record.value) < _GROUP.size:
        return None
    fields = _GROUP.unpack_from(record.value)
    parts = _cut(record.value, fields[10:], _GROUP.size)
    if parts is None or fields[8] > STABLE:
        return None
    kind, protocol, leader = (part.decode(errors="replace") for part in parts)
    is_consumer = bool(fields[9] & IS_CONSUMER)
    return _Group(fields[0], fields[8], kind, protocol, leader, fields[1] + fields[2], is_consumer)


def _member_of(record: KeyRecord | None) -> _Member | None:
    if record is None or len(record.value) < _MEMBER.size:
        return None
    _, _, assigned, _, protocols, _, assignment, instance, client, flags = _MEMBER.unpack_from(record.value)
    parts = _cut(record.value, (instance, client, protocols, assignment), _MEMBER.size)
    if parts is None:
        return None
    given = _given(parts[3]) if flags & OF_CONSUMERS else parts[3]
    words = parts[0].decode(), parts[1].decode(), parts[2], given
    return _Member(assigned, bool(flags & PENDING), bool(flags & OF_CONSUMERS), *words)


def _given(assignment: bytes) -> bytes:
    """The partitions that a member of a consumer group may use."""
    target, assigned, _ = _CONSUMER.unpack_from(assignment)
    start = _CONSUMER.size + target
    return assignment[start : start + assigned]


# --- questions to the store -------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class _Ask:
    request: Any


@dataclass(frozen=True, slots=True)
class _Get:
    key: bytes
    revision: int = 0


@dataclass(frozen=True, slots=True)
class _Range:
    asked: RangeAsked


@dataclass(frozen=True, slots=True)
class _Next:
    """The next change of a key, from a revision on: (revision, record or None). member_id: whose caller waits."""

    key: bytes
    revision: int
    member_id: str


Flow = Generator[Any, Any, Done]


# --- arguments --------------------------------------------------------------------------------------------------------
def _invalid(field: str, what: str) -> InvalidArgument:
    return InvalidArgument(f"{field}: {what}", field=field)


def _key(group: Key) -> bytes:
    raw = raw_bound(group, "group")
    if not raw or b"\0" in raw or len(GROUP_ROOT) + len(raw) > KEY_BYTES_MAX:
        raise _invalid("group", f"must have 1 to {KEY_BYTES_MAX - len(GROUP_ROOT)} bytes, none of them zero")
    return GROUP_ROOT + raw


def _text(text: str, field: str, most: int) -> bytes:
    if not isinstance(text, str):
        raise _invalid(field, f"must be a str, not {type(text).__name__}")
    raw = text.encode(errors="surrogatepass")
    if len(raw) > most or b"\0" in raw:
        raise _invalid(field, f"must have at most {most} bytes as UTF-8, none of them zero")
    return raw


def _bytes(value: bytes | str, field: str) -> bytes:
    if not isinstance(value, bytes | str):
        raise _invalid(field, f"must be bytes or str, not {type(value).__name__}")
    return value.encode() if isinstance(value, str) else value


def _ms(seconds: float, field: str) -> int:
    if not isinstance(seconds, int | float) or isinstance(seconds, bool) or not 0 <= seconds <= TIME_S_MAX:
        raise _invalid(field, f"must be from 0 to {TIME_S_MAX} seconds, not {seconds!r}")
    return round(seconds * 1000)


def _generation(number: int) -> int:
    if not isinstance(number, int) or isinstance(number, bool) or not 0 <= number < 1 << 31:
        raise _invalid("generation", f"must be from 0 to {(1 << 31) - 1}, not {number!r}")
    return number


def _protocols(protocols: Protocols) -> list[tuple[bytes, bytes]]:
    pairs = list(protocols.items() if isinstance(protocols, Mapping) else protocols)
    if len(pairs) > PROTOCOLS_MAX:
        raise _invalid("protocols", f"are {len(pairs)}, a member has at most {PROTOCOLS_MAX}")
    return [(_text(name, "protocols", TYPE_BYTES_MAX), _bytes(said, "protocols")) for name, said in pairs]


def _member_key(group: bytes, member_id: bytes) -> bytes:
    return group + b"\0" + member_id


def _all_of(group: bytes, revision: int = 0) -> RangeAsked:
    """The group and its members."""
    return RangeAsked(group, group + b"\1", revision=revision)


# --- what each verb does ----------------------------------------------------------------------------------------------
def _said(records: Iterable[KeyRecord], key: bytes, protocol: str) -> tuple[GroupMember, ...]:
    """The members among the records, in order of ids."""
    members = []
    for record in records:
        member = _member_of(record) if record.key.startswith(key + b"\0") else None
        if member is None or member.is_pending:
            continue
        spoken = dict(group_pairs(member.protocols))
        said = next(iter(spoken.values())) if member.is_consumer else spoken.get(protocol.encode(), b"")
        member_id = record.key[len(key) + 1 :].decode(errors="replace")
        members.append(GroupMember(member_id, member.instance, member.client, said, member.assignment))
    return tuple(members)


def _asked_again(key: bytes, member_id: str) -> Any:
    raise GroupTimeout(
        f"the group {shown(key[len(GROUP_ROOT) :])} is still waiting; the request itself was done, and the member "
        f"stays: ask again with member_id={member_id!r}",
        member_id=member_id,
    )


def _join(key: bytes, request: Any) -> Flow[GroupJoined]:
    (what, raw_id, generation, leader, protocol, skips), revision = yield _Ask(request)
    member_id = raw_id.decode(errors="replace")
    if what == ID_REQUIRED:
        raise group_refused(ID_NEEDED, revision, member_id)
    group: _Group | None
    if what == WAITS:
        revision, record, group = yield from _until(key, revision, member_id, lambda now: now.generation >= generation)
    else:
        record, group = yield from _as_of(key, revision)
        if group.generation != generation:
            raise group_refused(IN_PROGRESS, revision)
    if _member_of((yield _Get(_member_key(key, raw_id), revision))) is None:
        raise group_refused(UNKNOWN_MEMBER, revision)
    leader, protocol = group.leader, group.protocol
    members: tuple[GroupMember, ...] = ()
    if leader == member_id:
        members = _said((yield _Range(_all_of(key, revision))).records, key, protocol)
    fence = Fence(key, record.create_revision)
    return GroupJoined(member_id, group.generation, leader, group.type, protocol, members, bool(skips), fence)


def _as_of(key: bytes, revision: int) -> Flow[tuple[KeyRecord, _Group]]:
    record = yield _Get(key, revision)
    group = _group_of(record)
    if group is None:
        raise group_refused(UNKNOWN_MEMBER, revision)
    return record, group


def _until(key: bytes, revision: int, member_id: str, is_over: Any) -> Flow[tuple[int, KeyRecord, _Group]]:
    """The first state of the group behind a revision for which this holds."""
    while True:
        revision, record = yield _Next(key, revision + 1, member_id)
        group = _group_of(record)
        if group is None:
            raise group_refused(UNKNOWN_MEMBER, revision)
        if is_over(group):
            return revision, record, group


def _checked(key: bytes, generation: int, member_id: bytes, instance: bytes) -> Flow[tuple[int, _Group]]:
    """The group at the revision of the answer, in which this is a member of this generation."""
    found = yield _Range(RangeAsked(key, key + b"\0"))
    group = _group_of(found.records[0] if found.records else None)
    if group is None:
        raise group_refused(UNKNOWN_MEMBER, found.revision)
    member = _member_of((yield _Get(_member_key(key, member_id), found.revision)))
    if member is None or member.is_pending or (instance and member.instance != instance.decode()):
        holders = (yield _Range(_all_of(key, found.revision))).records if instance else []
        is_held = any(held.instance == instance.decode() for held in map(_member_of, holders[1:]) if held)
        raise group_refused(FENCED if is_held else UNKNOWN_MEMBER, found.revision)
    if generation != group.generation:
        raise group_refused(ILLEGAL_GENERATION, found.revision)
    if group.state == EMPTY or group.is_consumer:
        raise group_refused(UNKNOWN_MEMBER, found.revision)
    return found.revision, group


def _sync(key: bytes, generation: int, raw_id: bytes, instance: bytes, request: Any | None) -> Flow[GroupSynced]:
    if request is not None:
        (what, _, _), revision = yield _Ask(request)
        is_stable = what == DONE
    else:
        revision, group = yield from _checked(key, generation, raw_id, instance)
        if group.state == PREPARING:
            raise group_refused(IN_PROGRESS, revision)
        is_stable = group.state == STABLE
    if not is_stable:
        member_id = raw_id.decode(errors="replace")
        revision, _, group = yield from _until(key, revision, member_id, lambda now: now.state != COMPLETING)
        if group.generation != generation or group.state != STABLE:
            raise group_refused(IN_PROGRESS, revision)
    record = yield _Get(_member_key(key, raw_id), revision)
    member = _member_of(record)
    if member is None:
        raise group_refused(UNKNOWN_MEMBER, revision)
    return GroupSynced(member.assignment, Fence(record.key, record.create_revision))


def _heartbeat(key: bytes, generation: int, raw_id: bytes, instance: bytes) -> Flow[None]:
    revision, group = yield from _checked(key, generation, raw_id, instance)
    if group.state == PREPARING:
        raise group_refused(IN_PROGRESS, revision)


def _refused(key: bytes, generation: int, raw_id: bytes, instance: bytes) -> Flow[None]:
    """Ask anew with each change of the group's key: every end of a generation changes it, and every end of a member."""
    while True:
        revision, group = yield from _checked(key, generation, raw_id, instance)
        if group.state == PREPARING:
            raise group_refused(IN_PROGRESS, revision)
        yield _Next(key, revision + 1, raw_id.decode(errors="replace"))


def _leave(request: Any) -> Flow[tuple[int, ...]]:
    return tuple((yield _Ask(request))[0])


def _delete(request: Any) -> Flow[None]:
    yield _Ask(request)


def _describe(key: bytes) -> Flow[GroupInfo | None]:
    records = (yield _Range(_all_of(key))).records
    group = _group_of(records[0]) if records and records[0].key == key else None
    if group is None:
        return None
    members = _said(records[1:], key, group.protocol if group.state == STABLE else "")
    return GroupInfo(STATES[group.state], group.generation, group.type, group.protocol, group.leader, members)


def _heads(prefix: Key, *, local: bool = False) -> _Range:
    """The records of the groups themselves, without those of their members."""
    start = GROUP_ROOT + raw_bound(prefix, "prefix")
    return _Range(RangeAsked(start, prefix_end(start), delimiter=b"\0", skip=len(start), local=local))


def _counts(prefix: Key, *, local: bool) -> Flow[GroupCounts]:
    states = dict.fromkeys(STATES, 0)
    members = generations = 0
    for record in (yield _heads(prefix, local=local)).records:
        if (group := _group_of(record)) is not None:
            states[STATES[group.state]] += 1
            members += group.members
            generations += group.generation
    return GroupCounts(states, members, generations)


def _list(prefix: Key) -> Flow[list[GroupListed]]:
    found = yield _heads(prefix)
    listed = []
    for record in found.records:
        group = _group_of(record)
        if group is not None:
            name = record.key[len(GROUP_ROOT) :].decode(errors="replace")
            listed.append(GroupListed(name, STATES[group.state], group.generation, group.type))
    return listed


# --- the drivers ------------------------------------------------------------------------------------------------------
class _Deadline:
    def __init__(self, timeout_s: float | None) -> None:
        if timeout_s is not None and (isinstance(timeout_s, bool) or not isinstance(timeout_s, int | float)):
            raise _invalid("timeout_s", f"must be a number of seconds or None, not {timeout_s!r}")
        self._at = None if timeout_s is None else time.monotonic() + timeout_s

    def left_s(self) -> float | None:
        return None if self._at is None else max(0.0, self._at - time.monotonic())


def _watch_of(asked: _Next, left_s: float | None) -> Any:
    return watch_asked(
        asked.key,
        None,
        None,
        start_revision=asked.revision,
        previous=False,
        puts=True,
        deletes=True,
        progress=False,
        raise_lagged=False,
        reset=True,
        timeout_s=left_s,
    )


def _news(asked: _Next, found: Any) -> tuple[int, KeyRecord | None]:
    if isinstance(found, WatchReset):
        return found.revision, found.records[0] if found.records else None
    return found.revision, found.record if found.type == "put" else None


def _newest(asked: _Get | _Range) -> _Get | _Range:
    """The same without its revision: history no longer has that."""
    if isinstance(asked, _Get):
        return _Get(asked.key)
    return _Range(RangeAsked(asked.asked.start, asked.asked.end))


def _drive(store: Verbs, flow: Flow[Done], timeout_s: float | None) -> Done:
    deadline = _Deadline(timeout_s)
    changes: Iterator[Any] | None = None
    answer: Any = None
    with ExitStack() as stack:
        while True:
            try:
                asked = flow.send(answer)
            except StopIteration as end:
                done: Done = end.value
                return done
            if isinstance(asked, _Next):
                if changes is None:
                    changes = iter(stack.enter_context(store._watch(_watch_of(asked, deadline.left_s()), None, None)))
                found = next(changes, None) if deadline.left_s() != 0.0 else None
                answer = _asked_again(asked.key, asked.member_id) if found is None else _news(asked, found)
                continue
            try:
                answer = _put(store, asked, deadline.left_s())
            except Compacted:
                answer = _put(store, _newest(asked), deadline.left_s())


def _put(store: Verbs, asked: Any, left_s: float | None) -> Any:
    if isinstance(asked, _Ask):
        return store._ask(asked.request, left_s)
    if isinstance(asked, _Get):
        return store.get(asked.key, revision=asked.revision, timeout_s=left_s)
    return store._range(asked.asked, left_s)


async def _drive_aio(store: AioVerbs, flow: Flow[Done], timeout_s: float | None) -> Done:
    deadline = _Deadline(timeout_s)
    watch: Any = None
    changes: Any = None
    answer: Any = None
    try:
        while True:
            try:
                asked = flow.send(answer)
            except StopIteration as end:
                done: Done = end.value
                return done
            if isinstance(asked, _Next):
                if watch is None:
                    watch = store._watch(_watch_of(asked, deadline.left_s()))
                    changes = aiter(watch)
                found = await anext(changes, None) if deadline.left_s() != 0.0 else None
                answer = _asked_again(asked.key, asked.member_id) if found is None else _news(asked, found)
                continue
            try:
                answer = await _put_aio(store, asked, deadline.left_s())
            except Compacted:
                answer = await _put_aio(store, _newest(asked), deadline.left_s())
    finally:
        if watch is not None:
            await watch.close()


async def _put_aio(store: AioVerbs, asked: Any, left_s: float | None) -> Any:
    if isinstance(asked, _Ask):
        return await store._ask(asked.request, left_s)
    if isinstance(asked, _Get):
        return await store.get(asked.key, revision=asked.revision, timeout_s=left_s)
    return await store._range(asked.asked, left_s)


# --- requests ---------------------------------------------------------------------------------------------------------


def _join_request(
    group: Key,
    protocols: Protocols,
    lease: int | HasId,
    names: tuple[str, str, str, str],
    times_s: tuple[float, float],
    members_max: int,
    *,
    two_steps: bool,
) -> Any:
    protocol_type, member_id, instance, client = names
    if not isinstance(members_max, int) or isinstance(members_max, bool) or not 1 <= members_max <= MEMBERS_MAX:
        raise _invalid("members_max", f"must be from 1 to {MEMBERS_MAX}, not {members_max!r}")
    asked = (
        JOIN,
        _text(member_id, "member_id", ID_BYTES_MAX),
        _text(instance, "instance", NAME_BYTES_MAX),
        _text(client, "client", NAME_BYTES_MAX),
        _text(protocol_type, "protocol_type", TYPE_BYTES_MAX),
        _protocols(protocols),
        _ms(times_s[0], "rebalance_timeout_s"),
        _ms(times_s[1], "initial_delay_s"),
        members_max,
        bool(two_steps),
    )
    return verbs.group(_key(group), asked, lease)


def _sync_flow(
    group: Key, generation: int, member_id: str, assignments: Mapping[str, bytes | str] | None, instance: str
) -> Flow[GroupSynced]:
    key, raw_id = _key(group), _text(member_id, "member_id", ID_BYTES_MAX)
    raw_instance = _text(instance, "instance", NAME_BYTES_MAX)
    request = None
    if assignments is not None:
        pairs = [(_text(who, "assignments", ID_BYTES_MAX), _bytes(x, "assignments")) for who, x in assignments.items()]
        asked = (SYNC, _generation(generation), raw_id, raw_instance, b"", b"", sorted(pairs))
        request = verbs.group(key, asked)
    return _sync(key, _generation(generation), raw_id, raw_instance, request)


def _heartbeat_flow(group: Key, generation: int, member_id: str, instance: str) -> Flow[None]:
    raw_id = _text(member_id, "member_id", ID_BYTES_MAX)
    return _heartbeat(_key(group), _generation(generation), raw_id, _text(instance, "instance", NAME_BYTES_MAX))


def _refused_flow(group: Key, generation: int, member_id: str, instance: str) -> Flow[None]:
    raw_id = _text(member_id, "member_id", ID_BYTES_MAX)
    return _refused(_key(group), _generation(generation), raw_id, _text(instance, "instance", NAME_BYTES_MAX))


def _leave_flow(group: Key, member_ids: Iterable[str], instances: Iterable[str]) -> Flow[tuple[int, ...]]:
    pairs = [(_text(member_id, "member_ids", ID_BYTES_MAX), b"") for member_id in member_ids]
    pairs += [(b"", _text(instance, "instances", NAME_BYTES_MAX)) for instance in instances]
    if not 1 <= len(pairs) <= MEMBERS_MAX:
        raise _invalid("member_ids", f"and instances name {len(pairs)} members, must be 1 to {MEMBERS_MAX}")
    return _leave(verbs.group(_key(group), (LEAVE, pairs)))


def _delete_flow(group: Key) -> Flow[None]:
    return _delete(verbs.group(_key(group), (DELETE,)))


# --- the faces --------------------------------------------------------------------------------------------------------
class BlockingGroups:
    """Worker groups of a store whose callers block. Fates of errors as of `put`, and as each verb says."""

    __slots__ = ("_store",)

    def __init__(self, store: Verbs) -> None:
        self._store = store

    def join(
        self,
        group: Key,
        protocols: Protocols,
        *,
        lease: int | HasId,
        protocol_type: str = "worker",
        member_id: str = "",
        instance: str = "",
        client: str = "",
        rebalance_timeout_s: float = 60.0,
        initial_delay_s: float = 3.0,
        members_max: int = 5_000,
        two_steps: bool = False,
        timeout_s: float | None = None,
    ) -> GroupJoined:
        """Become a member, and wait until the members of the next generation are complete.

        protocols: name and what the member says under it, in order of preference. All members must share a name.
        lease: of the member; its time to live is the session time-out, and its end is the end of the member. Keep it.
        member_id: of an earlier join; empty: a new member. A join that is asked again with the same lease is no second
        member. instance: a static member; a join of the same instance takes its place. client: begins the id.
        rebalance_timeout_s: how long others are waited for. initial_delay_s: how long an empty group waits for members.
        two_steps: be refused with code 79 and an id first, and join with that.
        timeout_s: to wait; then GroupTimeout, and the member stays. Raises GroupRefused, LeaseExpired.
        """
        request = _join_request(
            group,
            protocols,
            lease,
            (protocol_type, member_id, instance, client),
            (rebalance_timeout_s, initial_delay_s),
            members_max,
            two_steps=two_steps,
        )
        return _drive(self._store, _join(_key(group), request), timeout_s)

    def sync(
        self,
        group: Key,
        generation: int,
        member_id: str,
        assignments: Mapping[str, bytes | str] | None = None,
        *,
        instance: str = "",
        timeout_s: float | None = None,
    ) -> GroupSynced:
        """Get the assignment of a member. The leader gives those of all; the others wait for it.

        assignments: by id of the member, of the leader only; None: wait. A member that is left out gets an empty one.
        Raises GroupRefused (27: join again), GroupTimeout: nothing was lost, ask again.
        """
        return _drive(self._store, _sync_flow(group, generation, member_id, assignments, instance), timeout_s)

    def heartbeat(
        self, group: Key, generation: int, member_id: str, *, instance: str = "", timeout_s: float | None = 5.0
    ) -> None:
        """Ask whether the generation goes on; GroupRefused otherwise. It renews nothing: the lease keeps the member."""
        _drive(self._store, _heartbeat_flow(group, generation, member_id, instance), timeout_s)

    def until_refused(
        self, group: Key, generation: int, member_id: str, *, instance: str = "", timeout_s: float | None = None
    ) -> None:
        """Wait until a heartbeat would be refused, and raise the GroupRefused that it would get, at once.

        Raises GroupTimeout: the generation went on for timeout_s seconds.
        """
        _drive(self._store, _refused_flow(group, generation, member_id, instance), timeout_s)

    def leave(
        self,
        group: Key,
        member_ids: Iterable[str] = (),
        *,
        instances: Iterable[str] = (),
        timeout_s: float | None = 5.0,
    ) -> tuple[int, ...]:
        """Remove members, by id or by instance, and return a code for each: 0, or 25 for one that is none."""
        return _drive(self._store, _leave_flow(group, member_ids, instances), timeout_s)

    def describe(self, group: Key, *, timeout_s: float | None = 5.0) -> GroupInfo | None:
        """The group and its members as of one revision; None without one. Linearizable."""
        return _drive(self._store, _describe(_key(group)), timeout_s)

    def list(self, prefix: Key = "", *, timeout_s: float | None = 5.0) -> list[GroupListed]:
        """The groups whose names begin with the prefix, in order, as of one revision. Linearizable."""
        return _drive(self._store, _list(prefix), timeout_s)

    def counts(self, prefix: Key = "", *, local: bool = False, timeout_s: float | None = 5.0) -> GroupCounts:
        """How many groups, members and generations there are. local: as the node that is asked has applied it."""
        return _drive(self._store, _counts(prefix, local=local), timeout_s)

    def delete(self, group: Key, *, timeout_s: float | None = 5.0) -> None:
        """Remove a group without members. Raises GroupRefused: 68 it has some, 69 there is none."""
        _drive(self._store, _delete_flow(group), timeout_s)


class AioGroups:
    """Worker groups of a store as coroutines. Fates of errors as of `put`, and as each verb says."""

    __slots__ = ("_store",)

    def __init__(self, store: AioVerbs) -> None:
        self._store = store

    async def join(
        self,
        group: Key,
        protocols: Protocols,
        *,
        lease: int | HasId,
        protocol_type: str = "worker",
        member_id: str = "",
        instance: str = "",
        client: str = "",
        rebalance_timeout_s: float = 60.0,
        initial_delay_s: float = 3.0,
        members_max: int = 5_000,
        two_steps: bool = False,
        timeout_s: float | None = None,
    ) -> GroupJoined:
        """Become a member, and wait until the members of the next generation are complete; see BlockingGroups.join."""
        request = _join_request(
            group,
            protocols,
            lease,
            (protocol_type, member_id, instance, client),
            (rebalance_timeout_s, initial_delay_s),
            members_max,
            two_steps=two_steps,
        )
        return await _drive_aio(self._store, _join(_key(group), request), timeout_s)

    async def sync(
        self,
        group: Key,
        generation: int,
        member_id: str,
        assignments: Mapping[str, bytes | str] | None = None,
        *,
        instance: str = "",
        timeout_s: float | None = None,
    ) -> GroupSynced:
        """Get the assignment of a member; see BlockingGroups.sync."""
        flow = _sync_flow(group, generation, member_id, assignments, instance)
        return await _drive_aio(self._store, flow, timeout_s)

    async def heartbeat(
        self, group: Key, generation: int, member_id: str, *, instance: str = "", timeout_s: float | None = 5.0
    ) -> None:
        """Ask whether the generation goes on; GroupRefused otherwise. It renews nothing: the lease keeps the member."""
        await _drive_aio(self._store, _heartbeat_flow(group, generation, member_id, instance), timeout_s)

    async def until_refused(
        self, group: Key, generation: int, member_id: str, *, instance: str = "", timeout_s: float | None = None
    ) -> None:
        """Wait until a heartbeat would be refused, and raise the refusal; see BlockingGroups.until_refused."""
        await _drive_aio(self._store, _refused_flow(group, generation, member_id, instance), timeout_s)

    async def leave(
        self,
        group: Key,
        member_ids: Iterable[str] = (),
        *,
        instances: Iterable[str] = (),
        timeout_s: float | None = 5.0,
    ) -> tuple[int, ...]:
        """Remove members, by id or by instance, and return a code for each: 0, or 25 for one that is none."""
        return await _drive_aio(self._store, _leave_flow(group, member_ids, instances), timeout_s)

    async def describe(self, group: Key, *, timeout_s: float | None = 5.0) -> GroupInfo | None:
        """The group and its members as of one revision; None without one. Linearizable."""
        return await _drive_aio(self._store, _describe(_key(group)), timeout_s)

    async def list(self, prefix: Key = "", *, timeout_s: float | None = 5.0) -> list[GroupListed]:
        """The groups whose names begin with the prefix, in order, as of one revision. Linearizable."""
        return await _drive_aio(self._store, _list(prefix), timeout_s)

    async def counts(self, prefix: Key = "", *, local: bool = False, timeout_s: float | None = 5.0) -> GroupCounts:
        """How many groups, members and generations there are; see BlockingGroups.counts."""
        return await _drive_aio(self._store, _counts(prefix, local=local), timeout_s)

    async def delete(self, group: Key, *, timeout_s: float | None = 5.0) -> None:
        """Remove a group without members. Raises GroupRefused: 68 it has some, 69 there is none."""
        await _drive_aio(self._store, _delete_flow(group), timeout_s)
