"""Consumer groups in the machine: the rules of docs/groups.md "Consumer groups", one by one and at random."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tests.machine import commands as c
from tests.machine import consumers as k
from tests.machine import groups as g
from tests.machine import topics as t
from tests.machine.machines import Machine, loaded
from tests.machine.test_dump import dumped

TOPIC = t.id_of(1)
ALL = frozenset((TOPIC, number) for number in range(4))


def refused(machine: Machine, payload: bytes) -> int:
    """The code, after a look that nothing changed."""
    before = machine.state_hash()
    answer = machine.apply(payload)
    assert answer.status == c.GROUP_REFUSED, answer
    assert machine.state_hash() == before
    code: int = answer.body
    return code


def group_of(machine: Machine) -> k.Group:
    group = k.shown(machine)
    assert group is not None
    return group


def pair() -> tuple[Machine, k.Client, k.Client]:
    """Two members with two partitions each."""
    machine = k.new_machine()
    one, two = (k.Client(machine, id) for id in (b"one", b"two"))
    k.settle(machine, one, two)
    return machine, one, two


# --- joins and epochs -------------------------------------------------------------------------------------------------
def test_the_first_member_gets_all_partitions_at_once() -> None:
    machine = k.new_machine()
    answer = k.told(machine.apply(k.join(b"one")))
    assert answer == k.Told(0, b"one", 1, ALL)
    group = group_of(machine)
    assert (group.epoch, group.target, group.assignor, group.is_stable) == (1, 1, b"uniform", True)


def test_a_member_without_an_id_gets_one_from_the_log() -> None:
    """Version 0 of the heartbeat: later ones bring an id (KIP-1082)."""
    machine = k.new_machine()
    answer = k.told(machine.apply(k.join(b"")))
    assert answer.member.startswith(b"c-")
    assert len(answer.member) == 34
    assert list(group_of(machine).members) == [answer.member]


def test_a_partition_is_taken_only_after_it_was_given_back() -> None:
    """KIP-848 "Reconciliation": UNREVOKED_PARTITIONS of the one, UNRELEASED_PARTITIONS of the other."""
    machine = k.new_machine()
    one, two = (k.Client(machine, id) for id in (b"one", b"two"))
    one.beat()
    one.revoke()
    assert two.beat().assignment == frozenset()
    assert group_of(machine).members[b"two"].state == k.UNRELEASED
    kept = one.beat().assignment
    assert kept is not None
    assert len(kept) == 2
    assert group_of(machine).members[b"one"].state == k.UNREVOKED
    assert one.epoch == 1
    assert two.beat().assignment == frozenset()
    one.beat()  # it still reads all four, and says so
    assert two.beat().assignment == frozenset()
    one.revoke()
    one.beat()
    assert one.epoch == 2
    assert two.beat().assignment == ALL - kept
    assert group_of(machine).is_stable


def test_a_heartbeat_that_changes_nothing_writes_nothing() -> None:
    machine, one, _ = pair()
    before = machine.handle.status().revision
    one.beat()
    assert machine.handle.status().revision == before


@pytest.mark.parametrize(("epoch", "owned"), [(9, ()), (2, None), (2, [(TOPIC, 9)]), (1, ())])
def test_a_member_with_another_epoch_is_fenced(epoch: int, owned: Any) -> None:
    machine = k.new_machine()
    one, two, three = (k.Client(machine, id) for id in (b"one", b"two", b"three"))
    k.settle(machine, one, two, three)
    assert refused(machine, k.word(b"two", epoch, owned=owned)) == k.FENCED_EPOCH


def test_a_member_whose_answer_was_lost_comes_with_the_epoch_before() -> None:
    """GroupMetadataManager.throwIfConsumerGroupMemberEpochIsInvalid."""
    machine = k.new_machine()
    one = k.Client(machine, b"one")
    lost = one.beat(is_lost=True)
    again = one.beat()
    assert again == lost
    assert group_of(machine).epoch == 1


def test_unknown_members_and_groups_are_told_so() -> None:
    machine = k.new_machine()
    assert refused(machine, k.word(b"one", 1)) == g.NOT_FOUND
    assert refused(machine, k.word(b"one", k.LEAVES)) == g.NOT_FOUND
    machine.apply(k.join(b"one"))
    assert refused(machine, k.word(b"two", 1)) == g.UNKNOWN_MEMBER
    assert refused(machine, k.word(b"two", k.LEAVES)) == g.UNKNOWN_MEMBER
    assert refused(machine, k.join(b"two", most=1)) == g.MAX_SIZE


def test_members_that_leave_and_whose_leases_end_free_their_partitions() -> None:
    machine, one, two = pair()
    two.leave()
    assert k.settle(machine, one).members[b"one"].assigned == ALL
    k.settle(machine, one, two)
    machine.lease_ms += k.SESSION_MS - 1
    one.beat()
    machine.lease_ms += 2
    assert g.expire(machine).status == c.OK
    assert list(group_of(machine).members) == [b"one"]
    assert k.settle(machine, one).members[b"one"].assigned == ALL
    assert two.beat().code == g.UNKNOWN_MEMBER


def test_a_member_that_does_not_give_back_in_time_goes() -> None:
    machine = k.new_machine()
    one, two = (k.Client(machine, id, rebalance_ms=5_000) for id in (b"one", b"two"))
    one.beat()
    one.revoke()
    two.beat()
    one.beat()
    machine.lease_ms += 4_999
    assert one.beat().code == 0
    machine.lease_ms += 1
    assert one.beat().code == g.UNKNOWN_MEMBER
    assert k.settle(machine, two).members[b"two"].assigned == ALL


# --- subscriptions and topics -----------------------------------------------------------------------------------------
def test_members_get_new_partitions_and_lose_topics_that_are_gone() -> None:
    machine, one, two = pair()
    machine.apply(t.extend(b"t", 7))
    group = k.settle(machine, one, two)
    assert sorted(len(member.assigned) for member in group.members.values()) == [3, 4]
    machine.apply(t.delete(b"t"))
    assert all(not member.assigned for member in k.settle(machine, one, two).members.values())
    machine.apply(t.create(b"t", 2, number=9))
    group = k.settle(machine, one, two)
    assert set().union(*(member.assigned for member in group.members.values())) == {(t.id_of(9), 0), (t.id_of(9), 1)}


def test_a_member_that_reads_something_else_gives_back_first() -> None:
    machine = k.new_machine({b"t": 2, b"u": 2})
    one = k.Client(machine, b"one", [b"t"])
    two = k.Client(machine, b"two", [b"t", b"u"])
    group = k.settle(machine, one, two)
    assert {id: len(member.assigned) for id, member in group.members.items()} == {b"one": 2, b"two": 2}
    one.reads(b"u")
    group = k.settle(machine, one, two)
    assert {topic for topic, _ in group.members[b"one"].assigned} == {t.id_of(2)}
    assert {topic for topic, _ in group.members[b"two"].assigned} == {t.id_of(1)}


def test_most_wishes_choose_the_assignor() -> None:
    machine = k.new_machine({b"t": 3, b"u": 3})
    clients = [k.Client(machine, id, [b"t", b"u"], assignor=b"range") for id in (b"a", b"b")]
    group = k.settle(machine, *clients)
    assert group.assignor == b"range"
    assert group.members[b"a"].assigned == {(t.id_of(topic), number) for topic in (1, 2) for number in (0, 1)}
    for id in (b"c", b"d"):
        clients.append(k.Client(machine, id, [b"t", b"u"], assignor=b"uniform"))
    assert k.settle(machine, *clients).assignor == b"uniform"


@pytest.mark.parametrize("count", [1, 3, 8, 20])
def test_one_more_and_one_fewer_move_as_few_partitions_as_can_be(count: int) -> None:
    machine = k.new_machine({b"t": 24, b"u": 7})
    clients = [k.Client(machine, b"m%02d" % number, [b"t", b"u"]) for number in range(count)]
    before = k.settle(machine, *clients)
    more = k.Client(machine, b"m07x", [b"t", b"u"])
    after = k.settle(machine, *clients, more)
    moved = sum(len(one.assigned - after.members[id].assigned) for id, one in before.members.items())
    assert moved == len(after.members[more.id].assigned) == 31 // (count + 1)
    more.leave()
    last = k.settle(machine, *clients)
    for id, one in after.members.items():
        assert id == more.id or one.assigned <= last.members[id].assigned


def test_partitions_beyond_the_limit_of_a_group_are_nobodys() -> None:
    machine = k.new_machine({b"t%02d" % number: 10_000 for number in range(11)})
    names = [b"t%02d" % number for number in range(11)]
    one, two = (k.Client(machine, id, names) for id in (b"one", b"two"))
    group = k.settle(machine, one, two, rounds=4)
    held = [member.assigned for member in group.members.values()]
    assert [len(mine) for mine in held] == [50_000, 50_000]
    assert {topic for topic, _ in held[0] | held[1]} == {t.id_of(number) for number in range(1, 11)}


# --- static members ---------------------------------------------------------------------------------------------------
def static() -> tuple[Machine, k.Client, k.Client]:
    machine = k.new_machine()
    one, two = k.Client(machine, b"one", instance=b"i"), k.Client(machine, b"two")
    k.settle(machine, one, two)
    return machine, one, two


def test_a_static_member_that_comes_back_has_what_it_had() -> None:
    machine, one, two = static()
    before = group_of(machine)
    held = one.held
    one.leave(k.PAUSES)
    assert group_of(machine).members[b"one"].epoch == k.PAUSES
    assert two.beat().epoch == before.epoch
    back = k.Client(machine, b"another", instance=b"i")
    assert back.beat().assignment == held
    after = group_of(machine)
    assert (after.epoch, sorted(after.members)) == (before.epoch, [b"another", b"two"])
    assert after.members[b"another"].fence > before.members[b"one"].fence
    assert k.settle(machine, back, two).members[b"two"].assigned == two.held


def test_an_instance_that_is_held_is_not_given_to_another() -> None:
    machine, one, _ = static()
    assert refused(machine, k.join(b"thief", instance=b"i")) == k.UNRELEASED_INSTANCE
    one.leave(k.PAUSES)
    machine.apply(k.join(b"another", instance=b"i"))
    epoch = group_of(machine).members[b"another"].epoch
    assert refused(machine, k.word(b"one", epoch, instance=b"i")) == g.FENCED_INSTANCE
    assert refused(machine, k.word(b"one", k.LEAVES, instance=b"i")) == g.FENCED_INSTANCE
    assert refused(machine, k.word(b"one", epoch, instance=b"j")) == g.UNKNOWN_MEMBER


def test_a_static_member_that_stays_away_goes_with_its_lease() -> None:
    machine, one, two = static()
    one.leave(k.PAUSES)
    machine.lease_ms += k.SESSION_MS
    two.beat()
    machine.lease_ms += 1
    g.expire(machine)
    assert k.settle(machine, two).members[b"two"].assigned == ALL


# --- two kinds of groups ----------------------------------------------------------------------------------------------
def test_an_empty_group_becomes_one_of_the_other_kind_and_back() -> None:
    machine = k.new_machine()
    machine.apply(c.grant(1, g.SESSION_MS))
    id = g.joined(machine, 1)
    assert refused(machine, k.join(b"one")) == g.NOT_FOUND
    machine.apply(g.leave((id, b"")))
    one = k.Client(machine, b"one")
    assert one.beat().code == 0
    epoch = group_of(machine).epoch
    assert epoch > 1
    assert refused(machine, g.join(1)) == g.INCONSISTENT
    assert refused(machine, g.sync(epoch, b"one")) == g.UNKNOWN_MEMBER
    assert refused(machine, g.delete()) == g.NON_EMPTY
    one.leave()
    g.joined(machine, 1)
    assert k.shown(machine) is None
    group = g.shown(machine)
    assert group is not None
    assert group.generation > epoch


def test_a_pending_member_gives_way_to_a_consumer() -> None:
    machine = k.new_machine()
    machine.apply(c.grant(1, g.SESSION_MS))
    machine.apply(g.join(1, two_steps=True))
    assert k.told(machine.apply(k.join(b"one"))).assignment == ALL
    assert list(group_of(machine).members) == [b"one"]


def test_an_operator_removes_a_member() -> None:
    machine, one, _ = pair()
    machine.apply(g.leave((b"two", b"")))
    assert k.settle(machine, one).members[b"one"].assigned == ALL


def test_offsets_are_taken_from_members_of_their_epoch_only() -> None:
    """ConsumerGroup.validateOffsetCommit."""
    machine, one, _ = pair()
    at = {(b"t", 0): 5}
    assert machine.apply(t.commit(at, member=b"one", generation=one.epoch)).body == [0]
    assert machine.apply(t.commit(at, member=b"one", generation=one.epoch - 1)).body == [k.STALE_EPOCH]
    assert machine.apply(t.commit(at, member=b"nobody", generation=one.epoch)).body == [g.UNKNOWN_MEMBER]
    assert machine.apply(t.commit(at)).body == [g.UNKNOWN_MEMBER]
    assert machine.apply(t.forget((b"t", 0))).body == [0, t.SUBSCRIBED]


def test_below_its_level_the_word_means_nothing() -> None:
    machine = k.new_machine(level=6)
    assert machine.apply(k.join(b"one")).status == c.COMMAND_INVALID
    assert machine.keys() == [b"topics/t"]


@pytest.mark.parametrize(
    "payload",
    [
        k.word(b"", 1),
        k.word(b"a\0b", 1),
        k.word(b"a", -3),
        k.word(b"a", k.PAUSES),
        k.word(b"a", k.JOINS),
        k.word(b"a", 1, most=0),
        k.join(b"a", [b""]),
        k.join(b"a", [b"n" * 250]),
        c.command(c.GROUPS, 0, g.KEY, c.pack([k.CONSUMER])),
        c.command(c.GROUPS, 0, 10, g.KEY, c.pack([k.CONSUMER, b"a", b"", b"", b"", b"", b"", b"", 1, 0, 1, 0])),
        c.command(c.GROUPS, 0, g.KEY, c.pack([k.CONSUMER, b"a", b"", b"", b"", b"", b"", b"x", 1, 0, 1, 4])),
    ],
)
def test_what_is_no_word_is_refused(payload: bytes) -> None:
    machine = k.new_machine()
    before = machine.state_hash()
    assert machine.apply(payload).status == c.COMMAND_INVALID
    assert machine.state_hash() == before


LISTS = st.one_of(
    st.binary(max_size=60),
    st.sets(st.tuples(st.sampled_from([TOPIC, t.id_of(2)]), st.integers(0, 5))).map(k.partitions),
    st.tuples(st.just(TOPIC), st.integers(0, 1 << 32), st.binary(max_size=20)).map(
        lambda parts: parts[0] + (parts[1] & 0xFFFFFFFF).to_bytes(4, "little") + parts[2]
    ),
)
SAID = st.one_of(st.binary(max_size=40), st.sets(st.sampled_from([b"t", b"u"])).map(k.subscription))


@settings(max_examples=300, deadline=None)
@given(
    epoch=st.integers(-3, 3),
    member=st.sampled_from([b"", b"one", b"two", b"\0"]),
    instance=st.sampled_from([b"", b"i"]),
    said=SAID,
    owned=LISTS,
    has=st.integers(0, 40),
    cut=st.integers(0, 12),
)
def test_any_bytes_leave_the_group_sound(
    epoch: int, member: bytes, instance: bytes, said: bytes, owned: bytes, has: int, cut: int
) -> None:
    """Check: the answer is one of the three, nothing but an accepted word changes the state, and its keys are sound."""
    machine, _, _ = pair()
    before = machine.state_hash()
    data = [k.CONSUMER, member, instance, b"c", t.ROOT, said, b"", owned, epoch, 9, 5000, has]
    data = data[: len(data) - cut // 4] if cut > 8 else data
    lease = [0, k.SESSION_MS] if epoch == 0 else [0]
    answer = machine.apply(c.command(c.GROUPS, *lease, g.KEY, c.pack(data)))
    assert answer.status in (c.OK, c.GROUP_REFUSED, c.COMMAND_INVALID)
    assert answer.status == c.OK or machine.state_hash() == before
    assert k.shown(machine) is not None
    assert loaded(dumped(machine.handle)).status().state_hash == machine.state_hash()


def test_a_fence_of_a_member_ends_with_its_epoch() -> None:
    machine, one, two = pair()
    fence = group_of(machine).members[b"one"].fence
    one.beat()
    assert group_of(machine).members[b"one"].fence == fence
    two.leave()
    k.settle(machine, one)
    assert group_of(machine).members[b"one"].fence > fence


# --- at random --------------------------------------------------------------------------------------------------------
NAMES = st.sampled_from([(b"t",), (b"t", b"u"), (b"u",), (b"t", b"u", b"v"), ()])
CLIENTS = st.sampled_from(range(5))


class ConsumerGroup(RuleBasedStateMachine):
    """Five clients, which may be slow, lose answers, leave, and come back. The test checks what they read."""

    @initialize()
    def begin(self) -> None:
        self.machine = k.new_machine({b"t": 3, b"u": 2})
        self.count = {b"t": 3, b"u": 2}
        self.clients = [k.Client(self.machine, b"m%d" % number, [b"t"]) for number in range(5)]
        self.epochs = (0, 0)

    @rule(number=CLIENTS, is_lost=st.booleans())
    def beat(self, number: int, is_lost: bool) -> None:
        client = self.clients[number]
        epoch = client.epoch
        answer = client.beat(is_lost=is_lost)
        assert answer.code in (0, g.UNKNOWN_MEMBER, k.FENCED_EPOCH, g.NOT_FOUND)
        assert answer.code or answer.epoch >= epoch

    @rule(number=CLIENTS)
    def revoke(self, number: int) -> None:
        self.clients[number].revoke()

    @rule(number=CLIENTS, names=NAMES)
    def read_something_else(self, number: int, names: tuple[bytes, ...]) -> None:
        self.clients[number].reads(*names)

    @rule(number=CLIENTS, is_known=st.booleans())
    def end(self, number: int, is_known: bool) -> None:
        """It leaves, or its lease ends and it notices later, when it has stopped to read."""
        client = self.clients[number]
        group = k.shown(self.machine)
        if is_known:
            client.leave()
        elif group is not None and client.id in group.members:
            self.machine.lease_ms += k.SESSION_MS // 2
            for other in self.clients:
                if other is not client and other.id in group.members:
                    other.beat()
            self.machine.lease_ms += k.SESSION_MS // 2 + 1
            g.expire(self.machine)
            client.held = frozenset()

    @rule(name=st.sampled_from([b"t", b"u"]), more=st.integers(1, 3))
    def more_partitions(self, name: bytes, more: int) -> None:
        if self.count[name]:
            self.count[name] += more
            self.machine.apply(t.extend(name, self.count[name]))

    @precondition(lambda self: self.count.get(b"v") is None)
    @rule()
    def one_more_topic(self) -> None:
        self.count[b"v"] = 2
        self.machine.apply(t.create(b"v", 2, number=3))

    @rule()
    def calm(self) -> None:
        """All give back and say so: then every partition that somebody reads has an owner, and shares are fair."""
        for _ in range(12):
            for client in self.clients:
                client.beat()
                client.revoke()
        group = k.shown(self.machine)
        assert group is not None
        assert group.is_stable
        read = {name for client in self.clients for name in client.names if self.count.get(name)}
        numbers = {b"t": 1, b"u": 2, b"v": 3}
        wanted = {(t.id_of(numbers[name]), place) for name in read for place in range(self.count[name])}
        assert set().union(*(client.held for client in self.clients)) == wanted
        assert all(client.held == group.members[client.id].assigned for client in self.clients)
        if len({client.names for client in self.clients}) == 1:
            sizes = [len(client.held) for client in self.clients]
            assert max(sizes) - min(sizes) <= 1
        self.no_move_is_better(group)

    def no_move_is_better(self, group: k.Group) -> None:
        topics = {t.id_of(1): b"t", t.id_of(2): b"u", t.id_of(3): b"v"}
        for one in group.members.values():
            for topic, _ in one.assigned:
                for other in group.members.values():
                    if topics[topic] in other.names:
                        assert len(other.assigned) + 1 >= len(one.assigned)

    @invariant()
    def nobody_reads_what_another_reads(self) -> None:
        """From outside: a client begins with a partition when it revokes, which is after it was told."""
        seen: set[k.Partition] = set()
        for client in self.clients:
            assert not client.held & seen
            seen |= client.held

    @invariant()
    def epochs_only_grow(self) -> None:
        group = k.shown(self.machine)  # which looks at the invariants of the keys
        if group is not None:
            assert (group.epoch, group.target) >= self.epochs
            assert group.target >= self.epochs[1]
            self.epochs = group.epoch, group.target

    def teardown(self) -> None:
        if hasattr(self, "machine"):
            twin = loaded(dumped(self.machine.handle))
            assert twin.status().state_hash == self.machine.state_hash()


TestConsumerGroup = ConsumerGroup.TestCase
TestConsumerGroup.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
