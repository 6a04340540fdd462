"""Requests for znodes against the plain model: in long slices, in short ones, from dumps, from differences."""

from __future__ import annotations

from typing import Any

import msgpack
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from tests.faces.machine import MachineHandle
from tests.machine import commands as c
from tests.machine import znodes as z
from tests.machine.machines import loaded

ODD_PATHS = [b"", b"a", b"/a/", b"//", b"/a/..", b"/a/./b", b"/x\0", b"/\x01", b"/" + b"n" * 468, b"/zookeeper/quota"]
NAMES = [b"a", b"b", b"c"]
OWNERS = [1, 2]
USER, OTHER = (b"digest", b"user:hash"), (b"digest", b"other:hash")
LISTS = [
    [[z.ALL, b"world", b"anyone"]],
    [[z.ALL, *USER]],
    [[z.READ, b"world", b"anyone"], [z.ALL, *USER]],
    [[z.CREATE_CHILD | z.WRITE, *OTHER]],
]
ODD_LISTS = [[], [[z.ALL, b"auth", b""]], [[z.ALL, b"none", b"x"]]]

acl = st.sampled_from([*LISTS * 3, *ODD_LISTS])
data = st.sampled_from([b"", b"one", b"two", None])
version = st.sampled_from([-1, -1, -1, 0, 1])


def paths(live: list[bytes]) -> st.SearchStrategy[bytes]:
    """Mostly those of znodes that there are."""
    return st.one_of(*[st.sampled_from(live)] * 8, st.sampled_from([b"/gone", *ODD_PATHS]))


def new_paths(live: list[bytes]) -> st.SearchStrategy[bytes]:
    """Mostly a child of a znode that there is."""
    child = st.tuples(st.sampled_from(live), st.sampled_from([*NAMES, b""])).map(
        lambda t: t[0].rstrip(b"/") + b"/" + t[1]
    )
    return st.one_of(*[child] * 8, st.sampled_from(ODD_PATHS))


@st.composite
def creation(draw: st.DrawFn, live: list[bytes]) -> list[Any]:
    kind = draw(st.sampled_from([z.PERSISTENT, z.PERSISTENT, z.EPHEMERAL, z.CONTAINER, z.TTL]))
    path = draw(new_paths(live))
    sequential = path.endswith(b"/") or draw(st.booleans())
    return z.create(
        path,
        draw(data),
        acl=draw(st.one_of(st.none(), st.none(), acl)),
        kind=kind,
        sequential=sequential,
        width=draw(st.sampled_from([0, 10, 20])) if sequential else 0,
        ttl_ms=draw(st.sampled_from([7, 7, 30_000, 0, 1 << 40])) if kind == z.TTL else 0,
    )


def operations(live: list[bytes]) -> st.SearchStrategy[list[Any]]:
    path = paths(live)
    return st.one_of(
        creation(live),
        creation(live),
        creation(live),
        st.tuples(path, version).map(lambda t: z.delete(*t)),
        st.tuples(path, data, version).map(lambda t: z.set_data(*t)),
        st.tuples(path, acl, version).map(lambda t: z.set_acl(*t)),
        st.tuples(path, version).map(lambda t: z.check(*t)),
    )


identities = st.sampled_from([(), (USER,), (OTHER,), (USER, OTHER), *[((b"super", b""),)] * 4])


class ZnodesComparison(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.model = z.Model()
        self.whole = MachineHandle()
        self.sliced = MachineHandle(changes_per_slice=1, fanout=4)
        self.loaded = MachineHandle()
        self.clock_ms = 0
        self.entries = 0
        self.base = self.sliced.dump_base()
        self.layers: list[list[bytes]] = []
        self.layered = MachineHandle()

    def machines(self) -> list[MachineHandle]:
        return [self.whole, self.sliced, self.loaded, self.layered]

    def apply(self, payload: bytes) -> tuple[int, int, Any]:
        """The answer, which is the same on all machines."""
        self.entries += 1
        answers = [m.apply(payload, lease_ms=self.clock_ms, wall_ms=1000 + self.entries) for m in self.machines()]
        assert len({(answer.status, answer.body, answer.changed) for answer in answers}) == 1
        status, revision, body = c.unpack(answers[0].body)
        return status, revision, body

    @initialize()
    def open_everything(self) -> None:
        self.apply(c.command(c.LEVEL, 4))
        for owner in OWNERS:
            self.grant(owner)

    def grant(self, owner: int) -> None:
        assert self.apply(c.grant(owner, 20))[0] == c.OK
        self.model.leases[owner] = (20, self.clock_ms + 20)

    def ask(self, asked: list[list[Any]], draw: Any) -> None:
        who = draw.draw(identities)
        owner = draw.draw(st.sampled_from([0, *self.model.leases, *self.model.leases]))
        payload = z.request(*asked, owner=owner, identities=who)
        expected = self.model.apply(
            asked, owner=owner, identities=who, clock_ms=self.clock_ms, wall_ms=1001 + self.entries
        )
        status, revision, body = self.apply(payload)
        assert (status, body) == expected
        assert revision == self.model.revision

    @rule(draw=st.data(), count=st.integers(1, 5))
    def ask_one_after_the_other(self, draw: Any, count: int) -> None:
        for _ in range(count):
            self.ask([draw.draw(operations(sorted(self.model.nodes) or [b"/"]))], draw)

    @rule(draw=st.data())
    def ask_for_many(self, draw: Any) -> None:
        self.ask(draw.draw(st.lists(operations(sorted(self.model.nodes) or [b"/"]), max_size=5)), draw)

    @rule(draw=st.data(), between=st.lists(st.sampled_from([b"/a", b"/a/b"]), max_size=2))
    def make_and_remove_in_one(self, draw: Any, between: list[bytes]) -> None:
        made = draw.draw(creation(sorted(self.model.nodes) or [b"/"]))
        path = made[1]
        self.ask([made, *map(z.check, between), z.delete(path), made], draw)

    @rule(owner=st.integers(5, 6))
    def ask_for_an_owner_that_is_gone(self, owner: int) -> None:
        answer = self.apply(z.request(z.check(b"/"), owner=owner))
        assert answer == (c.ZNODE_REFUSED, self.model.revision, [0, z.SESSION_EXPIRED])

    @rule(owner=st.sampled_from(OWNERS))
    def keep_alive_or_open_again(self, owner: int) -> None:
        if owner not in self.model.leases:
            self.grant(owner)
            return
        assert self.apply(c.keep_alive(owner))[2] == [20]
        self.model.leases[owner] = (20, self.clock_ms + 20)

    @rule(owner=st.sampled_from(OWNERS))
    def end_a_session(self, owner: int) -> None:
        answer = self.apply(c.revoke(owner))
        if owner in self.model.leases:
            self.model.end({owner}, self.clock_ms, only_sessions=True)
            assert answer[0] == c.OK
        else:
            assert answer[0] == c.LEASE_EXPIRED

    @rule(step_ms=st.sampled_from([1, 3, 5, 20, 60_000]))
    def time_passes(self, step_ms: int) -> None:
        self.clock_ms += step_ms
        due = self.whole.due_leases(self.clock_ms)
        self.model.expire(self.clock_ms)
        assert self.apply(c.expire(*due))[0] == c.OK

    @rule(put=st.sampled_from([c.put, c.create, c.update, c.delete]), draw=st.data())
    def native_writes_are_refused(self, put: Any, draw: Any) -> None:
        if self.model.nodes:
            at = draw.draw(st.sampled_from(sorted(self.model.nodes)))
            status = self.apply(c.keys(put(z.ROOT + at)))[0]
            assert status == (c.KEY_EXISTS if put is c.create else c.ZNODE_WRITE)

    @rule(bytes_max=st.sampled_from([1, 300, 1 << 20]), add=st.booleans())
    def load(self, bytes_max: int, add: bool) -> None:
        self.loaded = loaded(self.loaded.dump(bytes_max))
        if add:
            self.layers.append(list(self.sliced.dump(bytes_max, self.base)))
            self.layered = loaded(*self.layers)
            assert b"".join(self.layered.dump()) == b"".join(self.whole.dump())

    @rule()
    def compact(self) -> None:
        assert self.apply(c.compact(self.model.revision))[0] == c.OK

    @invariant()
    def states_agree(self) -> None:
        status = self.whole.status()
        assert len({machine.status().state_hash for machine in self.machines()}) == 1
        owned = [node for node in self.model.nodes.values() if node.deadline_ms is not None]
        assert status.leases == len(self.model.leases) + len(owned)
        self.whole.publish()
        body = self.whole.range_shared()[1]
        unpacker = msgpack.Unpacker()
        unpacker.feed(body)
        records = list(unpacker)
        assert z.shown(records) == self.model.shown()
        for record in records:
            node = self.model.nodes[record[0][len(z.ROOT) :]]
            if node.deadline_ms is not None:
                assert self.whole.lease(record[5])[2:] == (node.deadline_ms, 1)


ZnodesComparison.TestCase.settings = settings(max_examples=200, stateful_step_count=40, deadline=None)
TestZnodesAgainstModel = ZnodesComparison.TestCase
