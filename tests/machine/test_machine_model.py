"""The machine against the plain model, four ways: in long slices, in short ones, from dumps, from differences."""

from __future__ import annotations

from typing import Any

import msgpack
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tests.faces.machine import Applied, MachineHandle
from tests.machine import commands as c
from tests.machine.model import Answer, Model, Record

LIMITS = {"value_bytes_max": 24, "session_window": 4}
KEYS = [b"a", b"aa", b"ab", b"b", b"b/" + b"x" * 30, b"c", b"k" * 460]
BOUNDS = [b"", *KEYS, b"z"]
LEASES = [1, 2, 3]
SESSIONS = [7, 8]

key = st.sampled_from(KEYS)
value = st.sampled_from([b"", b"v", b"w" * 24, bytes(7) + b"\x05", *[b"ok"] * 6, b"x" * 25])
lease = st.sampled_from([0, 0, 0, *LEASES])
put_flags = st.sampled_from([0, 0, c.WANT_PREVIOUS, c.KEEP_LEASE, c.KEEP_VALUE, c.KEEP_LEASE | c.KEEP_VALUE])
number = st.sampled_from([1, 2, -3, (1 << 63) - 1, -(1 << 63)])
revision = st.integers(0, 12)


@st.composite
def put_or_update(draw: st.DrawFn) -> list[Any]:
    kind = draw(st.sampled_from([c.PUT, c.CREATE, c.UPDATE]))
    flags = draw(put_flags) if kind != c.CREATE else 0
    text = b"" if flags & c.KEEP_VALUE else draw(value)
    chosen = 0 if flags & c.KEEP_LEASE else draw(lease)
    return [kind, flags, draw(key), text, chosen, draw(revision) if kind == c.UPDATE else 0]


plain_put = st.tuples(key, st.sampled_from([b"1", b"2"]), lease).map(lambda t: c.put(t[0], t[1], lease=t[2]))
plain_operation = st.one_of(
    plain_put,
    plain_put,
    plain_put,
    put_or_update(),
    st.tuples(key, revision, st.integers(0, 3)).map(lambda t: c.delete(t[0], flags=t[2], expected=t[1])),
    key.map(lambda k: c.delete(k)),
    st.tuples(st.sampled_from(BOUNDS), st.sampled_from(BOUNDS), st.booleans()).map(
        lambda t: c.delete_range(t[0], t[1], flags=c.WANT_PREVIOUS * t[2])
    ),
    key.map(c.get),
    st.tuples(st.sampled_from(BOUNDS), st.sampled_from(BOUNDS), st.integers(0, 3)).map(lambda t: c.read_range(*t)),
    st.tuples(key, number).map(lambda t: c.add(*t)),
)

compare = st.one_of(
    st.tuples(
        st.sampled_from([c.VERSION, c.CREATE_REVISION, c.MOD_REVISION, c.LEASE]),
        st.integers(1, 4),
        key,
        st.integers(0, 6),
    ),
    st.tuples(st.just(c.VALUE), st.integers(1, 4), key, value),
    st.tuples(st.just(c.RANGE_EMPTY), st.integers(1, 2), st.sampled_from(BOUNDS), st.sampled_from(BOUNDS)),
).map(list)


def with_sequence_keys(operations: list[list[Any]]) -> list[list[Any]]:
    """Let every put that stands right behind an addition build its key from the number."""
    for before, after in enumerate(operations[1:]):
        if operations[before][0] == c.ADD and after[0] in (c.PUT, c.CREATE) and len(after[2]) < 460:
            after[1] |= c.KEY_FROM_RESULT
            after[5] = before
    return operations


@st.composite
def transaction(draw: st.DrawFn, depth: int) -> list[Any]:
    """A transaction that nests down to `depth` levels."""
    operation = plain_operation
    if depth > 1:
        operation = st.one_of(plain_operation, transaction(depth - 1).map(lambda txn: [c.TXN, 0, txn]))
    branches = [with_sequence_keys(draw(st.lists(operation, max_size=4))) for _ in range(2)]
    return [draw(st.lists(compare, max_size=1)), *branches]


single = plain_operation.map(lambda operation: c.txn([operation]))
root_txn = st.one_of(single, transaction(1), transaction(3))

lease_command = st.one_of(
    st.tuples(st.just(c.GRANT), st.sampled_from(LEASES), st.sampled_from([0, 5, 20]), st.just(b"note")),
    st.tuples(st.just(c.REVOKE), st.sampled_from(LEASES)),
    st.tuples(st.just(c.KEEP_ALIVE), st.lists(st.sampled_from([*LEASES, 99]), max_size=3)),
)
session_command = st.one_of(
    st.tuples(
        st.just(c.OPEN), st.sampled_from([0, *SESSIONS, 9]), st.sampled_from([0, 10, 30]), st.sampled_from([0, 3, 9])
    ),
    st.tuples(st.just(c.CLOSE), st.sampled_from([8, 9])),
)
other_command = st.one_of(
    st.tuples(st.just(c.COMPACT), revision),
    st.tuples(st.just(c.COMPACT), revision),
    st.tuples(st.just(c.LEVEL), st.integers(0, 1)),
    st.tuples(st.just(c.USER), st.just(b"name"), st.just(b"data")),
)
fence = st.tuples(key, st.integers(1, 4)).map(list)


class MachineComparison(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.model = Model(**LIMITS)
        self.whole = MachineHandle(**LIMITS)
        self.sliced = MachineHandle(**LIMITS, changes_per_slice=1, fanout=4)
        self.loaded = MachineHandle(**LIMITS)
        self.clock_ms = 0
        self.running_dump: Any = None
        self.base = self.sliced.dump_base()
        self.layers: list[list[bytes]] = []
        self.layered = MachineHandle(**LIMITS)

    def apply(self, fields: list[Any]) -> None:
        payload = msgpack.packb(fields, use_bin_type=True)
        wall_ms = 1000 + self.model.applied
        expected = self.model.apply(msgpack.unpackb(payload, use_list=True), lease_ms=self.clock_ms, wall_ms=wall_ms)
        for machine in self.machines():
            applied = machine.apply(payload, lease_ms=self.clock_ms, wall_ms=wall_ms)
            assert self.shown(applied) == expected, (c.unpack(applied.body), c.unpack(expected.body), fields)
            assert applied.entry_index == self.model.applied
            if applied.changed:
                assert machine.changes(applied.changed) == self.model.history[self.model.revision][1]

    def shown(self, applied: Applied) -> Answer:
        return Answer(applied.status, applied.revision, applied.body, applied.is_duplicate, applied.changed)

    def machines(self) -> list[MachineHandle]:
        return [self.whole, self.sliced, self.loaded, self.layered]

    # --- entries ------------------------------------------------------------------------------------------------------
    @initialize()
    def open_sessions(self) -> None:
        for session in SESSIONS:
            self.apply([c.OPEN, 0, 0, 0, None, session, 30, 9])

    @rule(txns=st.lists(root_txn, min_size=1, max_size=6))
    def keys_without_session(self, txns: list[Any]) -> None:
        for txn in txns:
            self.apply([c.KEYS, 0, 0, 0, None, txn])

    @rule(txn=root_txn, at_fence=fence)
    def keys_behind_a_fence(self, txn: list[Any], at_fence: list[Any]) -> None:
        self.apply([c.KEYS, 0, 0, 0, at_fence, txn])

    @rule(
        txns=st.lists(st.tuples(root_txn, st.integers(-1, 5), st.integers(0, 4)), min_size=1, max_size=6),
        session=st.sampled_from(SESSIONS),
    )
    def keys_in_session(self, txns: list[Any], session: int) -> None:
        """Any order, any distance behind: retries, late commands and leaps."""
        for txn, ahead, behind in txns:
            floor = self.model.sessions[session].floor if session in self.model.sessions else 1
            sequence = max(1, floor + ahead)
            self.apply([c.KEYS, session, sequence, max(0, sequence - behind), None, txn])

    @rule(command=st.one_of(lease_command, session_command, other_command))
    def other_without_session(self, command: tuple[Any, ...]) -> None:
        self.apply([command[0], 0, 0, 0, None, *command[1:]])

    @rule(
        command=st.one_of(lease_command, session_command, other_command),
        session=st.sampled_from(SESSIONS),
        sequence=st.integers(0, 9),
    )
    def other_in_session(self, command: tuple[Any, ...], session: int, sequence: int) -> None:
        self.apply([command[0], session, sequence, 0, None, *command[1:]])

    @rule(step_ms=st.integers(1, 8))
    def clock(self, step_ms: int) -> None:
        self.clock_ms += step_ms

    @rule(early=st.booleans())
    def expire_what_is_due(self, early: bool) -> None:
        """As the leader does; with `early` it errs about one deadline, and apply must not believe it."""
        leases = sorted(self.whole.due_leases(self.clock_ms))
        sessions = sorted(self.whole.due_sessions(self.clock_ms))
        model = self.model
        assert leases == sorted((k, v.deadline_ms) for k, v in model.leases.items() if v.deadline_ms <= self.clock_ms)
        assert sessions == sorted(
            (k, v.deadline_ms) for k, v in model.sessions.items() if v.deadline_ms <= self.clock_ms
        )
        wrong = [(lease, held.deadline_ms + early) for lease, held in model.leases.items()]
        self.apply([c.EXPIRE, 0, 0, 0, None, [list(item) for item in leases + wrong]])
        self.apply([c.SESSION_EXPIRE, 0, 0, 0, None, [list(item) for item in sessions]])

    @rule(entry_type=st.sampled_from([c.NOOP, c.MEMBERSHIP]))
    def other_entry(self, entry_type: int) -> None:
        self.model.applied += 1
        self.model.lease_ms = max(self.model.lease_ms, self.clock_ms)
        for machine in self.machines():
            assert machine.apply(b"any", entry_type=entry_type, lease_ms=self.clock_ms).status == c.OK

    @rule(payload=st.binary(max_size=40))
    def nonsense(self, payload: bytes) -> None:
        self.model.applied += 1
        self.model.lease_ms = max(self.model.lease_ms, self.clock_ms)
        for machine in self.machines():
            assert machine.apply(payload, lease_ms=self.clock_ms).status in (c.COMMAND_INVALID, c.KEY_INVALID)

    # --- publish, dump, load ------------------------------------------------------------------------------------------
    @rule()
    def publish(self) -> None:
        for machine in self.machines():
            assert machine.publish() == c.OK

    @rule(bytes_max=st.sampled_from([1, 300, 1 << 20]))
    def load_from_dump(self, bytes_max: int) -> None:
        self.loaded = loaded(self.loaded.dump(bytes_max))

    @precondition(lambda self: self.running_dump is None)
    @rule()
    def begin_dump(self) -> None:
        self.running_dump = (self.sliced.dump(100), self.sliced.status().state_hash, self.sliced.status().applied)

    @precondition(lambda self: self.running_dump is not None)
    @rule()
    def load_dump_that_ran_beside_apply(self) -> None:
        dump, state_hash, applied = self.running_dump
        self.running_dump = None
        status = loaded(dump).status()
        assert (status.state_hash, status.applied) == (state_hash, applied)

    @rule(bytes_max=st.sampled_from([1, 300, 1 << 20]))
    def add_difference_and_load_all(self, bytes_max: int) -> None:
        """The first one is a whole dump; what is loaded gives the dump of what was applied, byte for byte."""
        self.layers.append(list(self.sliced.dump(bytes_max, self.base)))
        self.layered = loaded(*self.layers)
        assert b"".join(self.layered.dump()) == b"".join(self.whole.dump())

    @precondition(lambda self: len(self.layers) > 0)
    @rule()
    def go_on_from_what_was_loaded(self) -> None:
        """A node that restarts takes its next difference from the state it has loaded."""
        copy = loaded(*self.layers)
        if copy.status().applied == self.sliced.status().applied:
            self.sliced = copy
            self.base = copy.dump_base_loaded()
            self.running_dump = None

    # --- what must hold -----------------------------------------------------------------------------------------------
    @invariant()
    def states_agree(self) -> None:
        model = self.model
        for machine in self.machines():
            status = machine.status()
            assert status.state_hash == self.whole.status().state_hash
            assert (status.applied, status.revision, status.compacted) == (
                model.applied,
                model.revision,
                model.compacted,
            )
            assert (status.keys, status.leases, status.sessions) == (
                len(model.keys),
                len(model.leases),
                len(model.sessions),
            )
            assert status.history_bytes == model.history_bytes()
            assert status.lease_ms == model.lease_ms

    @invariant()
    def leases_and_sessions_agree(self) -> None:
        for machine in self.machines():
            for lease_id, held in self.model.leases.items():
                attached = sum(record.lease == lease_id for record in self.model.keys.values())
                assert machine.lease(lease_id) == (c.OK, held.ttl_ms, held.deadline_ms, attached)
            for session_id, session in self.model.sessions.items():
                for sequence, (body, at_revision) in session.results.items():
                    assert machine.session_result(session_id, sequence) == (c.OK, body, at_revision)

    @rule()
    def reads_agree_at_every_revision(self) -> None:
        model = self.model
        for machine in self.machines():
            machine.publish()
            for at_revision in range(model.revision + 2):
                status = machine.range_shared(revision=at_revision)[0]
                if at_revision and at_revision < model.compacted:
                    assert status == c.COMPACTED
                elif at_revision > model.revision:
                    assert status == c.FUTURE_REVISION
                else:
                    self.check_state(machine, at_revision, model.states[at_revision or model.revision])

    def check_state(self, machine: MachineHandle, at_revision: int, state: dict[bytes, Record]) -> None:
        records = [state[k] for k in sorted(state)]
        _, body, count, more, seen = machine.range_shared(revision=at_revision)
        assert (body, count, more, seen) == (b"".join(map(c.pack, records)), len(records), False, self.model.revision)
        for k in KEYS:
            expected = (c.OK, state[k]) if k in state else (c.NOT_FOUND, None)
            assert machine.get(k, at_revision) == expected
            shared = machine.get_shared(k, at_revision)
            assert shared[:2] == (expected[0], c.pack(expected[1]) if expected[1] else b"")

    @rule()
    def histories_agree(self) -> None:
        for machine in self.machines():
            for at_revision, (wall_ms, changes) in self.model.history.items():
                if at_revision <= self.model.compacted:
                    assert machine.history(at_revision) == (c.COMPACTED, [], 0)
                else:
                    assert machine.history(at_revision) == (c.OK, changes, wall_ms)


def loaded(*layers: Any) -> MachineHandle:
    machine = MachineHandle(**LIMITS)
    for chunks in layers:
        for chunk in chunks:
            assert machine.load_chunk(chunk) == c.OK
    assert machine.load_done() == c.OK
    return machine


MachineComparison.TestCase.settings = settings(max_examples=120, stateful_step_count=40, deadline=None)
TestMachineAgainstModel = MachineComparison.TestCase
