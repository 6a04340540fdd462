"""The replicated machine as plain dictionaries: slow, short and obviously right."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

from tests.machine import commands as c


class Record(NamedTuple):
    """A key record in the order of results."""

    key: bytes
    value: bytes
    create_revision: int
    mod_revision: int
    version: int
    lease: int
    flags: int


class Refusal(Exception):
    def __init__(self, status: int) -> None:
        super().__init__(status)
        self.status = status


@dataclass
class Session:
    ttl_ms: int
    window: int
    deadline_ms: int
    floor: int = 1
    results: dict[int, tuple[bytes, int]] = field(default_factory=dict)


@dataclass
class Lease:
    ttl_ms: int
    deadline_ms: int


class Answer(NamedTuple):
    status: int
    revision: int
    body: bytes
    is_duplicate: bool
    changed: int


class Model:
    def __init__(self, *, value_bytes_max: int, session_window: int) -> None:
        self.value_bytes_max = value_bytes_max
        self.session_window = session_window
        self.applied = 0
        self.revision = 0
        self.compacted = 0
        self.lease_ms = 0
        self.keys: dict[bytes, Record] = {}
        self.states: dict[int, dict[bytes, Record]] = {0: {}}
        self.history: dict[int, tuple[int, list[tuple[Record, Record | None]]]] = {}
        self.leases: dict[int, Lease] = {}
        self.sessions: dict[int, Session] = {}
        self.ended: set[int] = set()

    # --- apply --------------------------------------------------------------------------------------------------------
    def apply(self, command: list[Any], *, lease_ms: int, wall_ms: int) -> Answer:
        kind, session_id, sequence, lowest, fence, *fields = command
        self.applied += 1
        self.lease_ms = max(self.lease_ms, lease_ms)
        session = None
        if session_id and not (kind == c.OPEN and session_id == fields[0] and sequence == 0):
            session = self.sessions.get(session_id)
            if session is None:
                return self._answer(c.SESSION_UNKNOWN, None, 0)
            if sequence == 0 and kind != c.KEEP_ALIVE:
                return self._answer(c.COMMAND_INVALID, None, 0)
            session.deadline_ms = self.lease_ms + session.ttl_ms
            self._forget_below(session, lowest)
            if sequence == 0:
                return self._execute(kind, fence, fields, wall_ms)
            if sequence in session.results:
                body, revision = session.results[sequence]
                return Answer(c.unpack(body)[0], revision, body, True, 0)
            if sequence < session.floor:
                return self._answer(c.RESULT_EVICTED, None, 0)
        answer = self._execute(kind, fence, fields, wall_ms)
        if session is not None and session_id in self.sessions:
            self._forget_below(session, sequence - session.window + 1)
            session.results[sequence] = (answer.body, answer.revision)
        return answer

    def _forget_below(self, session: Session, floor: int) -> None:
        session.floor = max(session.floor, floor)
        session.results = {s: result for s, result in session.results.items() if s >= session.floor}

    def _answer(self, status: int, body: Any, changed: int) -> Answer:
        return Answer(status, self.revision, c.pack([status, self.revision, body]), False, changed)

    def _execute(self, kind: int, fence: list[Any] | None, fields: list[Any], wall_ms: int) -> Answer:
        if fence is not None:
            record = self.keys.get(fence[0])
            if record is None or record.create_revision != fence[1]:
                return self._answer(c.FENCED, None, 0)
        before = dict(self.keys)
        transaction = Transaction(self)
        try:
            body = transaction.run(fields[0]) if kind == c.KEYS else self._plain(kind, fields, transaction)
        except Refusal as refusal:
            return self._answer(refusal.status, transaction.refused if kind == c.KEYS else None, 0)
        changes = []
        for key in transaction.touched:
            after = transaction.keys.get(key)
            if after is not None or key in before:
                after = after or Record(key, b"", 0, self.revision + 1, 0, 0, c.TOMBSTONE)
                changes.append((after, before.get(key)))
        if changes:
            self.revision += 1
            self.keys = transaction.keys
            self.states[self.revision] = dict(self.keys)
            self.history[self.revision] = (wall_ms, changes)
        return self._answer(c.OK, body, len(changes))

    # --- leases, sessions, history ------------------------------------------------------------------------------------
    def _plain(self, kind: int, fields: list[Any], transaction: Transaction) -> Any:
        if kind == c.GRANT:
            return self._grant(*fields)
        if kind == c.REVOKE:
            if fields[0] not in self.leases:
                raise Refusal(c.LEASE_EXPIRED)
            self._end_lease(fields[0], transaction)
        elif kind == c.KEEP_ALIVE:
            return [self._keep_alive(lease) for lease in fields[0]]
        elif kind == c.EXPIRE:
            for lease, deadline_ms in fields[0]:
                if lease in self.leases and self.leases[lease].deadline_ms == deadline_ms <= self.lease_ms:
                    self._end_lease(lease, transaction)
        elif kind == c.OPEN:
            self._open(*fields)
        elif kind == c.CLOSE:
            if fields[0] not in self.sessions:
                raise Refusal(c.SESSION_UNKNOWN)
            self._end_session(fields[0])
        elif kind == c.SESSION_EXPIRE:
            for session, deadline_ms in fields[0]:
                if session in self.sessions and self.sessions[session].deadline_ms == deadline_ms <= self.lease_ms:
                    self._end_session(session)
        elif kind == c.COMPACT:
            self._compact(fields[0])
        elif kind != c.LEVEL or fields[0] != 1:
            raise Refusal(c.COMMAND_INVALID)
        return None

    def _grant(self, lease: int, ttl_ms: int, note: bytes) -> int:
        if not 1 <= ttl_ms <= 1 << 40:
            raise Refusal(c.COMMAND_INVALID)
        if len(note) > 4096:
            raise Refusal(c.VALUE_TOO_LARGE)
        if lease in self.leases:
            raise Refusal(c.ID_CONFLICT)
        self.leases[lease] = Lease(ttl_ms, self.lease_ms + ttl_ms)
        return lease

    def _keep_alive(self, lease: int) -> int:
        if lease not in self.leases:
            return 0
        self.leases[lease].deadline_ms = self.lease_ms + self.leases[lease].ttl_ms
        return self.leases[lease].ttl_ms

    def _end_lease(self, lease: int, transaction: Transaction) -> None:
        for key in sorted(self.keys):
            if self.keys[key].lease == lease:
                transaction.touch(key)
                del transaction.keys[key]
        del self.leases[lease]

    def _open(self, session: int, ttl_ms: int, window: int) -> None:
        window = min(window, self.session_window)
        if session == 0 or not 1 <= ttl_ms <= 1 << 40 or window == 0:
            raise Refusal(c.COMMAND_INVALID)
        if session in self.ended:
            raise Refusal(c.SESSION_UNKNOWN)
        known = self.sessions.setdefault(session, Session(ttl_ms, window, 0))
        if (known.ttl_ms, known.window) != (ttl_ms, window):
            raise Refusal(c.ID_CONFLICT)
        known.deadline_ms = self.lease_ms + ttl_ms

    def _end_session(self, session: int) -> None:
        del self.sessions[session]
        self.ended.add(session)

    def _compact(self, revision: int) -> None:
        if revision > self.revision:
            raise Refusal(c.FUTURE_REVISION)
        if revision < self.compacted:
            raise Refusal(c.COMPACTED)
        self.compacted = revision

    def history_bytes(self) -> int:
        return sum(
            64 + len(after.key) + len(after.value)
            for revision in range(self.compacted + 1, self.revision + 1)
            for after, _ in self.history[revision][1]
        )


class Transaction:
    """One command's transaction on a copy of the keys."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self.keys = dict(model.keys)
        self.touched: dict[bytes, None] = {}
        self.refused = 0
        self.operations = 0  # of all lists entered and not entered so far, in the order of the command

    def touch(self, key: bytes) -> None:
        self.touched[key] = None

    def in_range(self, key: bytes, end: bytes) -> list[Record]:
        return [self.keys[k] for k in sorted(self.keys) if key <= k and (not end or k < end)]

    # Operations are numbered as the codec lays them out: a list takes its whole place before what is nested in it.
    def number(self, txn: list[Any], numbers: dict[int, int]) -> None:
        for operations in txn[1:]:
            for operation in operations:
                numbers[id(operation)] = len(numbers)
            for operation in operations:
                if operation[0] == c.TXN:
                    self.number(operation[2], numbers)

    def run(self, txn: list[Any]) -> Any:
        self.numbers: dict[int, int] = {}
        self.number(txn, self.numbers)
        return self.branch(txn)

    def branch(self, txn: list[Any]) -> list[Any]:
        compares, then, otherwise = txn
        succeeded = all(self.compare(*compare) for compare in compares)
        results: list[Any] = []
        for operation in then if succeeded else otherwise:
            self.refused = self.numbers[id(operation)]
            results.append(self.operation(operation, results))
        return [succeeded, results]

    def compare(self, target: int, result: int, key: bytes, operand: Any) -> bool:
        if target == c.RANGE_EMPTY:
            return (not self.in_range(key, operand)) == (result == c.EQUAL)
        record = self.keys.get(key)
        if target == c.VALUE:
            if record is None:
                return False
            actual: Any = record.value
        else:
            place = {c.VERSION: 4, c.CREATE_REVISION: 2, c.MOD_REVISION: 3, c.LEASE: 5}[target]
            actual = record[place] if record else 0
        return {
            c.EQUAL: actual == operand,
            c.NOT_EQUAL: actual != operand,
            c.LESS: actual < operand,
            c.GREATER: actual > operand,
        }[result]

    def operation(self, operation: list[Any], results: list[Any]) -> Any:
        kind, flags, *fields = operation
        if kind in (c.PUT, c.CREATE):
            key, value, lease, result_from = fields
            if len(value) > self.model.value_bytes_max:
                raise Refusal(c.VALUE_TOO_LARGE)
            if flags & c.KEY_FROM_RESULT:
                if results[result_from] < 0:
                    raise Refusal(c.NUMBER_OVERFLOW)
                key += b"%020d" % results[result_from]
            return self.put(kind, flags, key, value, lease, 0)
        if kind == c.UPDATE:
            return self.put(kind, flags, *fields)
        if kind == c.GET:
            return self.keys.get(fields[0])
        if kind == c.DELETE:
            return self.delete(flags, *fields)
        if kind == c.DELETE_RANGE:
            records = self.in_range(*fields)
            for record in records:
                self.touch(record.key)
                del self.keys[record.key]
            return [len(records), records] if flags & c.WANT_PREVIOUS else len(records)
        if kind == c.RANGE:
            records = self.in_range(*fields[:2])
            limit = fields[2] or len(records)
            return [records[:limit], len(records) > limit]
        if kind == c.ADD:
            return self.add(*fields)
        return self.branch(fields[0])

    def put(self, kind: int, flags: int, key: bytes, value: bytes, lease: int, expected: int) -> Record | None:
        before = self.keys.get(key)
        if len(value) > self.model.value_bytes_max:
            raise Refusal(c.VALUE_TOO_LARGE)
        if before is None and (kind == c.UPDATE or flags & c.KEEP_VALUE):
            raise Refusal(c.KEY_MISSING)
        if before is not None and kind == c.CREATE:
            raise Refusal(c.KEY_EXISTS)
        if expected and before is not None and before.mod_revision != expected:
            raise Refusal(c.COMPARE_FAILED)
        if flags & c.KEEP_LEASE:
            lease = before.lease if before else 0
        if lease and lease not in self.model.leases:
            raise Refusal(c.LEASE_EXPIRED)
        kept = before if flags & c.KEEP_VALUE else None
        self.write(key, kept.value if kept else value, lease, kept.flags if kept else 0)
        return before if flags & c.WANT_PREVIOUS else None

    def write(self, key: bytes, value: bytes, lease: int, flags: int) -> None:
        revision = self.model.revision + 1
        before = self.keys.get(key)
        self.touch(key)
        if before is None:
            self.keys[key] = Record(key, value, revision, revision, 1, lease, flags)
        else:
            version = before.version + (before.mod_revision != revision)
            self.keys[key] = Record(key, value, before.create_revision, revision, version, lease, flags)

    def delete(self, flags: int, key: bytes, expected: int) -> Any:
        before = self.keys.get(key)
        if before is None and flags & c.MUST_EXIST:
            raise Refusal(c.KEY_MISSING)
        if expected and (before is None or before.mod_revision != expected):
            raise Refusal(c.COMPARE_FAILED)
        if before is not None:
            self.touch(key)
            del self.keys[key]
        return before if flags & c.WANT_PREVIOUS else int(before is not None)

    def add(self, key: bytes, amount: int) -> int:
        before = self.keys.get(key)
        if before is not None and not before.flags & c.COUNTER:
            raise Refusal(c.NOT_A_NUMBER)
        number = amount + (int.from_bytes(before.value, "big", signed=True) if before else 0)
        if not -(1 << 63) <= number < 1 << 63:
            raise Refusal(c.NUMBER_OVERFLOW)
        self.write(key, number.to_bytes(8, "big", signed=True), before.lease if before else 0, c.COUNTER)
        return number
