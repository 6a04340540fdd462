"""cassandra://host:port,host:port/keyspace: the four interfaces on a Cassandra cluster, by cassandra-driver.

Options: dc (the data centre whose servers are asked), replication (makes the keyspace with so many replicas if there is
none), user=name:password, owner (the name under which this client holds its places: a later client of that name takes
them over at once), ttl_s (10, of members and candidates).

Cassandra decides one partition at a time. A group is a partition, an election is one, and the keys of users lie in
BUCKETS partitions. Each partition has an epoch, a static column. A write is a lightweight transaction on condition that
the epoch is still the same, and makes it greater. So epochs grow over every removal. No write touches two partitions:
that is why neither multi nor fencing is promised.

A place is a row with a time to live. Cassandra counts whole seconds and ends a row up to one second early: it is asked
for one second more. A row that ends changes no epoch: the first client that misses it writes a new one. Cassandra tells
no changes, so listeners look again and again.

A write that times out may be done later. A read at SERIAL tells whether it is done. If it is not, a write that changes
nothing but the epoch makes sure that it never will be. If neither is answered, the outcome is unknown.
"""

from __future__ import annotations

import math
import re
import secrets
import threading
import uuid
import zlib
from collections.abc import Sequence
from typing import Any, NamedTuple

from cassandra import AuthenticationFailed as LoginRefused
from cassandra import ConsistencyLevel, DriverException, InvalidRequest, OperationTimedOut, Unauthorized
from cassandra.auth import PlainTextAuthProvider
from cassandra.cluster import EXEC_PROFILE_DEFAULT, Cluster, ExecutionProfile, NoHostAvailable
from cassandra.connection import ConnectionException
from cassandra.policies import (
    ConstantReconnectionPolicy,
    DCAwareRoundRobinPolicy,
    FallthroughRetryPolicy,
    RoundRobinPolicy,
)
from cassandra.protocol import ErrorMessage
from cassandra.query import BatchStatement

from raftmeta.backends.http_servers import split
from raftmeta.backends.plugin import (
    Bases,
    Check,
    Commit,
    Ending,
    PolledWatch,
    System,
    SystemPlugin,
    Telling,
    Write,
    record_of,
)
from raftmeta.backends.url import BackendUrl
from raftmeta.common.flags import Flag
from raftmeta.errors import (
    AuthenticationFailed,
    ConfigError,
    InvalidArgument,
    NodeClosed,
    NoLeader,
    OutcomeTimeout,
    OutcomeUnknown,
    PermissionDenied,
    RaftmetaError,
    ReadyTimeout,
    Unsupported,
    Withdrawn,
)
from raftmeta.interfaces import Capabilities
from raftmeta.operations import KeyRecord
from raftmeta.recipes.deadline import Deadline
from raftmeta.recipes.keys import ROOT

__all__ = ["BUCKETS", "PLUGIN", "READS", "TABLES", "WRITES", "bucket_of"]

BUCKETS = 8  # FORMAT: in which partition a key of a user lies
EARLY_S = 1.0  # by which Cassandra ends a row too early
LATE_S = 3.0  # whole seconds, the second more, and the look of the client that is told
POLL_S = 0.2
PAUSE_S = 0.02  # after another writer was first
ATTEMPT_S = 2.0  # for one request to one server; cas_contention_timeout of Cassandra is 1.8 s
LOOK_S = 10.0  # of a watch
SETTLE_S = 5.0  # to find out about a write of unknown outcome
CONNECT_S = 5.0
HEARTBEAT_S = 3.0  # of a connection: a frozen server is left after two of them
LAST = 0x10FFFF  # of Unicode
KEY_CHARACTERS_MAX = 1024
_LOST = (NoHostAvailable, ConnectionException, DriverException, ErrorMessage)
_NAME = re.compile(r"[a-z][a-z0-9_]{0,47}")
_DC = re.compile(r"[A-Za-z0-9_.-]+")
_ALL = "SELECT {row} AS row, value, created, modified, lease, writer, epoch FROM {table} WHERE {partition} = ?"
READS = {
    "state": "SELECT DISTINCT epoch, last FROM {table} WHERE {partition} = ?",
    "one": f"{_ALL} AND {{row}} = ?",
    "some": f"{_ALL} AND {{row}} IN ?",
    "span": f"{_ALL} AND {{row}} >= ? AND {{row}} < ?",
    "whole": _ALL,
}
_PUT = (
    "UPDATE {table} USING TTL ? SET value = ?, created = ?, modified = ?, lease = ?, writer = ?"
    " WHERE {partition} = ? AND {row} = ?"
)
WRITES = {
    "step": "UPDATE {table} SET epoch = ?, last = ? WHERE {partition} = ? IF epoch = ?",
    "put": _PUT,
    "remove": "DELETE FROM {table} WHERE {partition} = ? AND {row} = ?",
    # It removes a column that no row ever has, on condition that the row is still there in this very step.
    "hold": "DELETE touched FROM {table} WHERE {partition} = ? AND {row} = ? IF modified = ?",
    "renew": f"{_PUT} IF lease = ?",
}
_ROOT = ROOT.encode()


class Table(NamedTuple):
    """One of the three tables. partition, row: names of columns; prefix: of the keys whose rows stand there."""

    name: str
    partition: str
    row: str
    prefix: bytes


TABLES = (
    Table("group_membership", "group_name", "id", _ROOT + b"groups/"),
    Table("leader_election", "resource", "candidate", _ROOT + b"elections/"),
    Table("kv", "bucket", "key", b""),
)


def bucket_of(key: bytes) -> str:
    """The partition in which a key of a user lies."""
    return f"{zlib.crc32(key) % BUCKETS}"


class _Place(NamedTuple):
    """A partition."""

    table: Table
    partition: str

    def row_of(self, key: bytes) -> str:
        """The name of the row of a key of this partition."""
        raw = key[len(self.before) :]
        try:
            return raw.decode()
        except UnicodeDecodeError:
            raise InvalidArgument(f"key: {key!r} is no text", field="key") from None

    @property
    def before(self) -> bytes:
        """The beginning of each key of this partition, which its row does not repeat."""
        prefix = self.table.prefix
        return prefix + self.partition.encode() + b"/" if prefix else b""


def _place_of(key: bytes) -> _Place:
    for table in TABLES[:-1]:
        if key.startswith(table.prefix):
            name, _, _ = key[len(table.prefix) :].partition(b"/")
            return _Place(table, name.decode())
    return _Place(TABLES[-1], bucket_of(key))


class _State(NamedTuple):
    """A partition as a read at SERIAL saw it. last: the mark of its newest write."""

    epoch: int
    last: uuid.UUID | None


class _Kept(NamedTuple):
    """A row that is kept alive."""

    write: Write
    epoch: int
    writer: uuid.UUID


def _prepared(session: Any, table: Table) -> dict[str, Any]:
    """The statements of a table. Every value is bound: no text of a user stands in one."""
    found = {}
    for name, text in {**READS, **WRITES}.items():
        found[name] = session.prepare(text.format(table=table.name, partition=table.partition, row=table.row))
    for name in READS:
        found[name].consistency_level = ConsistencyLevel.SERIAL
        found[name].fetch_size = None  # one page is one moment
    return found


class Cassandra(System):
    """The requests to one cluster, for the tables of one keyspace."""

    def __init__(self, cluster: Any, session: Any) -> None:
        self._cluster, self._session = cluster, session
        self._statements = {table.name: _prepared(session, table) for table in TABLES}
        self._bases = Bases()
        self._watches: set[PolledWatch] = set()
        self._kept: dict[int, _Kept] = {}
        self._locks: dict[_Place, threading.Lock] = {}
        self._is_closed = Flag()

    def close(self) -> None:
        self._is_closed.set()
        for watch in list(self._watches):
            watch.close()
        self._cluster.shutdown()

    # --- reading ------------------------------------------------------------------------------------------------------
    def _ask(self, statement: Any, argument_sets: Sequence[Sequence[Any]], deadline: Deadline) -> list[list[Any]]:
        """The rows of a read for each set of arguments, asked at once. It is asked again until somebody answers."""
        while True:
            if self._is_closed.is_set():
                raise NodeClosed("this back end is closed")
            limit_s = _attempt_s(deadline)
            if not limit_s:
                raise Withdrawn("Cassandra did not answer this read in time")
            try:
                asked = [
                    self._session.execute_async(statement, arguments, timeout=limit_s) for arguments in argument_sets
                ]
                return [list(one.result()) for one in asked]
            except (Unauthorized, InvalidRequest) as error:
                raise _final(error) from None
            except _LOST:
                self._is_closed.wait(PAUSE_S)

    def _states(self, places: Sequence[_Place], deadline: Deadline) -> list[_State]:
        statement = self._statements[places[0].table.name]["state"]
        found = self._ask(statement, [(place.partition,) for place in places], deadline)
        return [_State(rows[0].epoch or 0, rows[0].last) if rows else _State(0, None) for rows in found]

    def read(
        self, key: bytes, *, is_prefix: bool, keys_only: bool = False, local: bool = False, deadline: Deadline
    ) -> tuple[int, list[KeyRecord]]:
        """Every read is at SERIAL, also a local one: it completes writes that are under way."""
        while True:
            revision, records = self._read(key, is_prefix, deadline)
            former = self._bases.take(key, is_prefix, revision)
            if former is None or former[0] == records:
                self._bases.keep(key, is_prefix, False, revision, records)
                return revision, records
            self._touch(_place_of(key), deadline)  # a row has ended: one revision stands for one state only

    def _read(self, key: bytes, is_prefix: bool, deadline: Deadline) -> tuple[int, list[KeyRecord]]:
        places = _places_of(key, is_prefix)
        statements, row = self._statements[places[0].table.name], places[0].row_of(key)
        if is_prefix and not row:  # a partition without rows still shows its epoch
            found = self._ask(statements["whole"], [(place.partition,) for place in places], deadline)
            epochs = [rows[0].epoch or 0 if rows else 0 for rows in found]
        else:
            # Its epoch is asked first: so the rows may be newer than the revision that is told, and never older.
            states = self._states(places, deadline)
            statement, limits = (statements["span"], (row, _end_of(row))) if is_prefix else (statements["one"], (row,))
            found = self._ask(statement, [(place.partition, *limits) for place in places], deadline)
            epochs = [rows[0].epoch if rows else state.epoch for rows, state in zip(found, states, strict=True)]
        records = [
            _record(place, one) for place, rows in zip(places, found, strict=True) for one in rows if _is_row(one)
        ]
        return sum(epochs), sorted(records, key=lambda record: record.key)

    # --- writes -------------------------------------------------------------------------------------------------------
    def commit(self, checks: Sequence[Check], writes: Sequence[Write], deadline: Deadline) -> Commit:
        keys = [check.key for check in checks] + [write.key for write in writes]
        places = set(map(_place_of, keys))
        if len(places) > 1:
            raise Unsupported(
                "operations: Cassandra writes one partition at a time: one key, one group or one election",
                capability="multi",
            )
        (place,) = places
        lock = self._locks.setdefault(place, threading.Lock())
        left_s = deadline.left_s()
        if not lock.acquire(timeout=-1 if left_s is None else left_s):
            raise Withdrawn("the writes before this one took all of its time")
        try:
            return self._commit(place, checks, writes, deadline)
        finally:
            lock.release()

    def _commit(self, place: _Place, checks: Sequence[Check], writes: Sequence[Write], deadline: Deadline) -> Commit:
        while True:
            (state,) = self._states([place], deadline)
            found = self._found(place, checks, deadline)
            if not all(check.holds(found[check.key]) for check in checks):
                return Commit(0, found)
            step = _Step(place, state, uuid.uuid4(), checks, writes)
            if self._is_done(step, found, deadline):
                self._keep(writes, step.epoch, step.mark)
                return Commit(step.epoch)
            if deadline.left_s() == 0:
                raise Withdrawn("others wrote first again and again, and the time was over")
            self._is_closed.wait(PAUSE_S * (1 + secrets.randbelow(5)))

    def _found(self, place: _Place, checks: Sequence[Check], deadline: Deadline) -> dict[bytes, KeyRecord | None]:
        found: dict[bytes, KeyRecord | None] = {check.key: None for check in checks}
        if found:
            asked = (place.partition, [place.row_of(key) for key in found])
            (rows,) = self._ask(self._statements[place.table.name]["some"], [asked], deadline)
            found.update({one.key: one for one in (_record(place, row) for row in rows if _is_row(row))})
        return found

    def _is_done(self, step: _Step, found: dict[bytes, KeyRecord | None], deadline: Deadline) -> bool:
        """Lead from this state to the next, or not. Raises OutcomeUnknown if even a look does not tell."""
        batch = self._batch(step, found)
        limit_s = _attempt_s(deadline)
        if not limit_s:
            raise Withdrawn("the time was over before Cassandra was asked")
        try:
            return bool(self._session.execute(batch, timeout=limit_s).was_applied)
        except (Unauthorized, InvalidRequest) as error:
            raise _final(error) from None
        except NoHostAvailable as error:  # no connection took it
            raise NoLeader(f"no server of Cassandra could be reached: {error}") from None
        except _LOST as error:
            return self._is_settled(step, error)

    def _batch(self, step: _Step, found: dict[bytes, KeyRecord | None]) -> Any:
        place, epoch = step.place, step.epoch
        statements = self._statements[place.table.name]
        batch = BatchStatement(serial_consistency_level=ConsistencyLevel.SERIAL)
        batch.add(statements["step"], (epoch, step.mark, place.partition, step.state.epoch or None))
        for check in step.checks:
            if check.revision > 0 and place.table.prefix:  # a row that may end by itself
                batch.add(statements["hold"], (place.partition, place.row_of(check.key), check.revision))
        for write in step.writes:
            row = place.row_of(write.key)
            if write.value is None:
                batch.add(statements["remove"], (place.partition, row))
                continue
            former = found.get(write.key)
            created = epoch if former is None else former.create_revision
            ttl = _ttl_of(write.lease) if write.lease else 0
            values = (ttl, write.value, created, epoch, write.lease, step.mark, place.partition, row)
            batch.add(statements["put"], values)
        return batch

    def _is_settled(self, step: _Step, error: Exception) -> bool:
        """Whether a write of unknown outcome was done; False: it was not, and never will be."""
        told = OutcomeTimeout if isinstance(error, OperationTimedOut) else OutcomeUnknown
        unknown = told(f"Cassandra does not tell what became of it: {error!r}")
        deadline = Deadline(SETTLE_S)
        try:
            while True:
                (now,) = self._states([step.place], deadline)
                if now.last == step.mark:
                    return True
                if now.epoch != step.state.epoch:
                    return self._is_known(step, deadline, unknown)
                # From here on its condition never holds again, so that it cannot be done late.
                if self._is_touched(step.place, now, deadline):
                    return False
        except RaftmetaError:
            raise unknown from None

    def _is_known(self, step: _Step, deadline: Deadline, unknown: OutcomeUnknown) -> bool:
        """Somebody has written since: a row of that epoch still says who wrote it."""
        rows = [step.place.row_of(write.key) for write in step.writes if write.value is not None]
        statement = self._statements[step.place.table.name]["some"]
        (found,) = self._ask(statement, [(step.place.partition, rows)], deadline) if rows else ([],)
        if any(row.writer == step.mark for row in found):
            return True
        if any(row.modified == step.epoch for row in found):
            return False
        raise unknown

    def _touch(self, place: _Place, deadline: Deadline) -> None:
        """Give a partition a new epoch, and change nothing else."""
        (state,) = self._states([place], deadline)
        self._is_touched(place, state, deadline)

    def _is_touched(self, place: _Place, state: _State, deadline: Deadline) -> bool:
        values = (state.epoch + 1, uuid.uuid4(), place.partition, state.epoch or None)
        statement = self._statements[place.table.name]["step"].bind(values)
        statement.serial_consistency_level = ConsistencyLevel.SERIAL
        limit_s = _attempt_s(deadline)
        if not limit_s:
            raise Withdrawn("the time was over before Cassandra was asked")
        try:
            return bool(self._session.execute(statement, timeout=limit_s).was_applied)
        except _LOST:
            self._is_closed.wait(PAUSE_S)
            return False

    def found_written(self, writes: Sequence[Write], deadline: Deadline) -> int:
        """A place that is found so has to be kept alive too."""
        for write in writes:
            if write.lease and write.value is not None:
                place = _place_of(write.key)
                asked = (place.partition, place.row_of(write.key))
                (rows,) = self._ask(self._statements[place.table.name]["one"], [asked], deadline)
                if rows and rows[0].lease == write.lease:
                    self._kept[write.lease] = _Kept(write, rows[0].modified, rows[0].writer)
                    return int(rows[0].modified)
        return 0

    # --- leases -------------------------------------------------------------------------------------------------------
    def grant(self, ttl_s: float, deadline: Deadline) -> tuple[int, float]:
        """A number, in which its time to live stands; Cassandra hears of it with the row."""
        whole_s = math.ceil(ttl_s)
        return (secrets.randbits(30) | 1) << 32 | whole_s, float(whole_s)

    def _keep(self, writes: Sequence[Write], epoch: int, mark: uuid.UUID) -> None:
        for write in writes:
            if write.lease:
                self._kept[write.lease] = _Kept(write, epoch, mark)

    def renew(self, lease: int, deadline: Deadline) -> float:
        """The row must still have this lease: the answer tells, and a row that has ended does not come back."""
        kept = self._kept.get(lease)
        if kept is None:
            return float(lease & 0xFFFFFFFF)  # its row is written later, and lives from then on
        write, epoch, mark = kept
        place = _place_of(write.key)
        where = (place.partition, place.row_of(write.key), lease)
        values = (_ttl_of(lease), write.value, epoch, epoch, lease, mark, *where)
        statement = self._statements[place.table.name]["renew"].bind(values)
        statement.serial_consistency_level = ConsistencyLevel.SERIAL
        try:
            result = self._session.execute(statement, timeout=_attempt_s(deadline) or PAUSE_S)
        except _LOST as error:
            raise OutcomeUnknown(f"Cassandra does not tell whether it was renewed: {error!r}") from None
        if result.was_applied:
            return float(lease & 0xFFFFFFFF)
        self._kept.pop(lease, None)
        return 0.0

    def revoke(self, lease: int, deadline: Deadline) -> None:
        kept = self._kept.pop(lease, None)
        if kept is not None:
            self.commit([Check(kept.write.key, kept.epoch)], [Write(kept.write.key, None)], deadline)

    # --- watches ------------------------------------------------------------------------------------------------------
    def watch(self, key: bytes, *, is_prefix: bool, start_revision: int, tell: Telling, end: Ending) -> PolledWatch:
        base = self._bases.take(key, is_prefix, start_revision - 1)
        watch = PolledWatch(
            key,
            is_prefix=is_prefix,
            base=None if base is None else (start_revision - 1, *base),
            look=_Looks(self, key, is_prefix, None if base is None else (start_revision - 1, base[0])),
            tell=tell,
            end=end,
            counts_own=bool(_place_of(key).table.prefix),
        )
        self._watches = {one for one in self._watches if not one.is_closed} | {watch}
        return watch.start()

    def revision_of(self, key: bytes, is_prefix: bool, deadline: Deadline) -> int:
        """The newest revision of these keys."""
        return sum(state.epoch for state in self._states(_places_of(key, is_prefix), deadline))

    def pause(self) -> None:
        self._is_closed.wait(POLL_S)


class _Step(NamedTuple):
    """From one state of a partition to the next."""

    place: _Place
    state: _State
    mark: uuid.UUID
    checks: Sequence[Check]
    writes: Sequence[Write]

    @property
    def epoch(self) -> int:
        return self.state.epoch + 1


class _Looks:
    """The looks of one watch: at the revision first, and at the rows when it is another one."""

    def __init__(
        self, system: Cassandra, key: bytes, is_prefix: bool, former: tuple[int, list[KeyRecord]] | None
    ) -> None:
        self._system, self._key, self._is_prefix, self._former = system, key, is_prefix, former

    def __call__(self, revision: int, keys_only: bool) -> tuple[int, list[KeyRecord]]:
        system, deadline = self._system, Deadline(LOOK_S)
        if self._former is not None:
            system.pause()
            # Rows of holders also end by themselves, which changes no revision.
            may_end = bool(_place_of(self._key).table.prefix)
            if not may_end and system.revision_of(self._key, self._is_prefix, deadline) == self._former[0]:
                return self._former
        self._former = system.read(self._key, is_prefix=self._is_prefix, deadline=deadline)
        return self._former


def _places_of(key: bytes, is_prefix: bool) -> list[_Place]:
    """Where the rows of a key stand, or of all that begin with it."""
    place = _place_of(key)
    if place.table.prefix or not is_prefix:
        return [place]
    return [_Place(place.table, f"{number}") for number in range(BUCKETS)]


def _end_of(row: str) -> str:
    """The first text behind all that begin with row."""
    for position in range(len(row) - 1, -1, -1):
        following = ord(row[position]) + 1
        if following <= LAST:
            return row[:position] + chr(0xE000 if following == 0xD800 else following)  # no text has surrogates
    return chr(LAST) * (len(row) + KEY_CHARACTERS_MAX)


def _attempt_s(deadline: Deadline) -> float:
    left_s = deadline.left_s()
    return ATTEMPT_S if left_s is None else min(left_s, ATTEMPT_S)


def _ttl_of(lease: int) -> int:
    return int((lease & 0xFFFFFFFF) + EARLY_S)


def _is_row(row: Any) -> bool:
    return row.modified is not None


def _record(place: _Place, row: Any) -> KeyRecord:
    key = place.before + row.row.encode()
    return record_of(key, row.value or b"", created=row.created, modified=row.modified, lease=row.lease or 0)


def _final(error: Exception) -> RaftmetaError:
    if isinstance(error, Unauthorized):
        return PermissionDenied(f"Cassandra refused it: {error}")
    return InvalidArgument(f"operations: Cassandra does not take them: {error}", field="operations")


# --- the URL ----------------------------------------------------------------------------------------------------------
class _Plugin(SystemPlugin):
    options = frozenset({"dc", "replication", "user"})

    def capabilities(self, url: BackendUrl) -> Capabilities:
        return Capabilities(
            epochs=True,
            lost_in_time=True,
            compare_and_set=True,
            linearizable_reads=True,
            durable=True,
            ttl_precision_s=LATE_S,
        )

    def system(self, url: BackendUrl, *, timeout_s: float) -> Cassandra:
        keyspace, dc = url.path.strip("/"), url.options.get("dc", "")
        if not _NAME.fullmatch(keyspace):
            raise ConfigError("url: cassandra:// needs a keyspace, as in cassandra://host:port/keyspace", field="url")
        if dc and not _DC.fullmatch(dc):
            raise ConfigError("url: dc: must be the name of a data centre", field="dc")
        cluster, session = _connected(url, dc, Deadline(timeout_s))
        try:
            _prepare(session, keyspace, url.option("replication", int, 0), dc)
            return Cassandra(cluster, session)
        except BaseException:
            cluster.shutdown()
            raise


def _cluster(url: BackendUrl, dc: str) -> Any:
    profile = ExecutionProfile(
        load_balancing_policy=DCAwareRoundRobinPolicy(dc) if dc else RoundRobinPolicy(),
        retry_policy=FallthroughRetryPolicy(),
        consistency_level=ConsistencyLevel.QUORUM,
        serial_consistency_level=ConsistencyLevel.SERIAL,
    )
    return Cluster(
        [split(address) for address in url.addresses],
        execution_profiles={EXEC_PROFILE_DEFAULT: profile},
        auth_provider=_user_of(url),
        reconnection_policy=ConstantReconnectionPolicy(0.5, max_attempts=None),
        connect_timeout=CONNECT_S,
        idle_heartbeat_interval=HEARTBEAT_S,
        idle_heartbeat_timeout=HEARTBEAT_S,
        protocol_version=5,
        schema_metadata_enabled=False,
        token_metadata_enabled=False,
    )


def _user_of(url: BackendUrl) -> Any:
    if "user" not in url.options:
        return None
    name, _, password = url.options["user"].partition(":")
    if not name or not password:  # it is a secret, so no error shows it
        raise ConfigError("url: user: must look like name:password", field="user")
    return PlainTextAuthProvider(name, password)


def _connected(url: BackendUrl, dc: str, deadline: Deadline) -> tuple[Any, Any]:
    waiting = Flag()
    while True:
        cluster = _cluster(url, dc)
        try:
            return cluster, cluster.connect()
        except NoHostAvailable as error:
            cluster.shutdown()
            if any(isinstance(one, LoginRefused) for one in error.errors.values()):
                raise AuthenticationFailed("Cassandra refused the name or password of the option user") from None
            if deadline.left_s() == 0:
                raise ReadyTimeout(f"no server of Cassandra could be reached in time: {error}") from None
            waiting.wait(PAUSE_S)
        except BaseException:
            cluster.shutdown()
            raise


def _prepare(session: Any, keyspace: str, replicas: int, dc: str) -> None:
    """Make the tables, and the keyspace if the URL says how."""
    known = "SELECT keyspace_name FROM system_schema.keyspaces WHERE keyspace_name = %s"
    if not list(session.execute(known, (keyspace,))):
        if not replicas:
            raise ConfigError(f"url: there is no keyspace {keyspace}; replication= makes it", field="url")
        how = f"'class': 'NetworkTopologyStrategy', '{dc}'" if dc else "'class': 'SimpleStrategy', 'replication_factor'"
        session.execute(f"CREATE KEYSPACE IF NOT EXISTS {keyspace} WITH replication = {{{how}: {replicas}}}")
    session.set_keyspace(keyspace)
    for table in TABLES:
        known = "SELECT column_name FROM system_schema.columns WHERE keyspace_name = %s AND table_name = %s"
        columns = {row.column_name for row in session.execute(known, (keyspace, table.name))}
        if not columns:
            session.execute(
                f"CREATE TABLE IF NOT EXISTS {table.name} ({table.partition} text, {table.row} text, value blob,"
                " created bigint, modified bigint, lease bigint, writer uuid, touched int,"
                f" epoch bigint static, last uuid static, PRIMARY KEY ({table.partition}, {table.row}))"
            )
        elif not {table.partition, table.row, "epoch", "last"} <= columns:
            raise ConfigError(f"url: the table {keyspace}.{table.name} was made by another program", field="url")


PLUGIN = _Plugin()
