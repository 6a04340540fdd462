"""Founding a cluster: never two, never against a wiped majority, always when all are up.

divergence.md "Founding"; the rules are numbered on the first page of raftmeta/raft/genesis.pxd.
"""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tests.core.genesis_world import BLANK_RECORD, World
from tests.core.names import GenesisMessageType, GenesisState, MemberRole, Status
from tests.faces.genesis import GenesisHandle

ACCEPTED, BLANK, FOUNDED, JOINING = (
    GenesisState.ACCEPTED,
    GenesisState.BLANK,
    GenesisState.FOUNDED,
    GenesisState.JOINING,
)
NAMES = [b"a", b"b", b"c"]


def states(world: World) -> list[int]:
    return [record[0] for record in world.records()]


def world_where_only_the_founder_knows() -> World:
    """All have accepted, a has founded, nobody was told."""
    world = World(NAMES)
    world.run_all()
    for name in b"b", b"c":
        folder = world.folders[name]
        folder.record = (ACCEPTED, *folder.record[1:])
        world.crash(name)
    return world


@pytest.mark.parametrize("count", [1, 2, 3, 5])
def test_a_cluster_is_founded_when_all_named_members_are_up(count: int) -> None:
    world = World([b"%d" % i for i in range(count)])
    world.run_all()
    assert states(world) == [FOUNDED] * count
    assert len({record[1:] for record in world.records()}) == 1
    membership = world.records()[0][3]
    assert [(roles, name) for _, roles, name, _ in membership] == [(MemberRole.VOTER_INCOMING, n) for n in world.names]


def test_nothing_is_founded_while_one_named_member_is_silent() -> None:
    """Rule 1: a majority is not enough."""
    world = World(NAMES)
    world.start(b"a")
    world.start(b"b")
    for source, target in ((b"a", b"b"), (b"b", b"a")):
        world.say_hello(source, target)
        world.deliver_hello(-1)
        world.tick(source)
    assert world.messages == []
    assert not world.folders[b"a"].process.must_persist


def test_the_founder_is_the_least_name_whatever_the_order_of_configuration() -> None:
    world = World([b"ab", b"a", b"b"])
    world.run_all()
    assert world.records()[0][3][0][2] == b"a"


def test_a_wiped_majority_joins_the_cluster_that_one_folder_still_knows() -> None:
    """Rule 1: two of three folders wiped make no new, empty cluster."""
    world = World(NAMES)
    world.run_all()
    (cluster,) = world.clusters(FOUNDED)
    world.wipe(b"a")
    world.wipe(b"b")
    world.run_all()
    assert states(world) == [JOINING, JOINING, FOUNDED]
    assert world.clusters(FOUNDED, JOINING) == {cluster}


def test_a_wiped_majority_founds_nothing_while_the_third_only_accepted() -> None:
    """Rules 5 and 6: whoever accepted cannot know whether the cluster lived, so it forbids another."""
    world = world_where_only_the_founder_knows()
    world.wipe(b"a")
    world.wipe(b"b")
    world.run_all()
    assert states(world) == [BLANK, BLANK, ACCEPTED]
    assert world.folders[b"a"].process.refusal == (Status.FOREIGN_CLUSTER, b"c")


def test_an_accepted_member_learns_the_founding_from_any_founded_one() -> None:
    """Rule 4: the founder may be gone for good."""
    world = world_where_only_the_founder_knows()
    world.folders[b"b"].record = (FOUNDED, *world.folders[b"b"].record[1:])
    world.start(b"b")
    world.start(b"c")
    world.crash(b"a")
    world.say_hello(b"b", b"c")
    world.deliver_hello(-1)
    world.persist(b"c")
    assert world.folders[b"c"].record == world.folders[b"b"].record


def test_a_member_wiped_before_all_had_accepted_is_proposed_again_as_itself() -> None:
    """Rule 5: the same founder gives its proposal up and proposes the next."""
    world = World(NAMES)
    world.run_all()
    for name in NAMES:
        world.folders[name].record = (ACCEPTED, *world.folders[name].record[1:])
        world.crash(name)
    (old,) = world.clusters(ACCEPTED)
    world.wipe(b"c")
    world.run_all()
    assert states(world) == [FOUNDED] * 3
    assert world.clusters(FOUNDED) == {(old[0] + 1, old[1])}
    assert world.records()[0][3][2][0] == world.folders[b"c"].incarnation


def test_other_names_are_refused_and_the_founder_says_whose() -> None:
    """Rule 2: one node was configured with another list."""
    world = World(NAMES)
    world.start(b"a")
    world.start(b"b")
    odd = GenesisHandle(
        world.folders[b"c"].incarnation,
        b"c",
        [(b"a", b""), (b"c", b""), (b"d", b"")],
        BLANK_RECORD,
        random_low=1,
        random_high=1,
    )
    world.folders[b"c"].process = odd
    for source, target in ((b"b", b"a"), (b"c", b"a"), (b"a", b"c"), (b"a", b"b")):
        world.say_hello(source, target)
        world.deliver_hello(-1)
    world.persist(b"a")
    for position in range(2):
        world.deliver_message(position)
    assert world.messages[-1][0] == GenesisMessageType.GENESIS_REFUSE
    world.deliver_message(-1)
    assert world.folders[b"a"].process.refusal == (Status.BAD_FIELD, b"c")
    assert not odd.must_persist


def test_a_second_folder_under_the_own_name_stops_the_founding() -> None:
    world = World(NAMES)
    world.start(b"a")
    process = world.folders[b"a"].process
    assert process.hello(b"a", 999, BLANK, 0, 0) == Status.FOREIGN_NODE
    assert process.refusal == (Status.FOREIGN_NODE, b"a")
    for name, incarnation in ((b"b", 1), (b"c", 2)):
        assert process.hello(name, incarnation, BLANK, 0, 0) == Status.OK
    assert not process.must_persist


@pytest.mark.parametrize(
    ("hello", "status"),
    [
        ((b"b", 0, BLANK, 0, 0), Status.BAD_FIELD),
        ((b"b", 5, 9, 1, 1), Status.BAD_FIELD),
        ((b"b", 5, BLANK, 1, 0), Status.BAD_FIELD),
        ((b"b", 5, FOUNDED, 0, 0), Status.BAD_FIELD),
        ((b"c", 101, BLANK, 0, 0), Status.BAD_FIELD),
        ((b"stranger", 5, BLANK, 0, 0), Status.NOT_FOUND),
    ],
)
def test_a_hello_that_cannot_be_is_refused(hello: tuple, status: int) -> None:
    world = World(NAMES)
    world.start(b"a")
    assert world.folders[b"a"].process.hello(*hello) == status
    assert not world.folders[b"a"].process.must_persist


def test_nothing_is_said_before_it_is_durable() -> None:
    """Rule 8: neither messages nor the HELLO run ahead of the disk."""
    world = World([b"a", b"b"])
    world.start(b"a")
    world.start(b"b")
    for source, target in ((b"a", b"b"), (b"b", b"a")):
        world.say_hello(source, target)
        world.deliver_hello(-1)
    founder = world.folders[b"a"].process
    assert founder.record[0] == ACCEPTED
    assert founder.claim == (BLANK, 0, 0)
    assert world.messages == []
    world.persist(b"a")
    assert founder.claim[0] == ACCEPTED
    assert [message[0] for message in world.messages] == [GenesisMessageType.GENESIS_PROPOSE]


def test_a_node_that_joined_is_a_member_for_the_next_ones() -> None:
    world = World(NAMES)
    world.run_all()
    world.wipe(b"a")
    world.run_all()
    process = world.folders[b"a"].process
    assert process.joined() == Status.OK
    world.persist(b"a")
    assert (process.claim[0], process.claim[1:]) == (FOUNDED, world.folders[b"b"].record[1:3])


def test_a_majority_of_acceptances_founds_nothing() -> None:
    """Rule 3: the founder waits for all."""
    world = World(NAMES)
    for name in NAMES:
        world.start(name)
    for source in NAMES:
        for target in NAMES:
            world.say_hello(source, target)
    for position in range(len(world.hellos)):
        world.deliver_hello(position)
    world.persist(b"a")
    world.deliver_message(0)
    world.persist(b"b")
    world.deliver_message(-1)
    assert world.messages[-1][0] == GenesisMessageType.GENESIS_ACCEPT
    assert (states(world), world.folders[b"a"].process.record[0]) == ([ACCEPTED, ACCEPTED, BLANK], ACCEPTED)


def test_a_late_hello_lets_no_accepted_member_take_another_founder() -> None:
    """Rule 5: the founder believes that c is blank; c knows better."""
    world = world_where_only_the_founder_knows()
    world.wipe(b"a")
    world.wipe(b"b")
    for name in NAMES:
        world.start(name)
    old = world.folders[b"c"].record
    for target in (b"a", b"c"):
        for source in set(NAMES) - {target}:
            folder = world.folders[source]
            world.hellos.append((target, (source, folder.incarnation, BLANK, 0, 0)))
            world.deliver_hello(-1)
    world.persist(b"a")
    for position in range(len(world.messages)):
        world.deliver_message(position)
    world.persist(b"c")
    assert world.folders[b"c"].record == old
    assert world.messages[-1][0] == GenesisMessageType.GENESIS_REFUSE


def test_a_founder_that_heard_something_old_gives_its_proposal_up_and_all_join() -> None:
    """Rule 7: b is FOUNDED; a and c lost their disks, and a believed an old HELLO of b."""
    world = World(NAMES)
    world.run_all()
    cluster = world.clusters(FOUNDED)
    for name in b"a", b"c":
        world.wipe(name)
        world.start(name)
    for source, target in ((b"b", b"a"), (b"c", b"a"), (b"a", b"c"), (b"b", b"c")):
        world.hellos.append((target, (source, world.folders[source].incarnation, BLANK, 0, 0)))
        world.deliver_hello(-1)
    world.persist(b"a")
    world.deliver_message(-1)
    world.persist(b"c")
    assert states(world) == [ACCEPTED, FOUNDED, ACCEPTED]
    world.run_all()
    assert states(world) == [JOINING, FOUNDED, JOINING]
    assert world.clusters(FOUNDED, JOINING) == cluster


class GenesisMachine(RuleBasedStateMachine):
    """Random crashes, wipes, losses, repeats and reordering; what must hold is checked after every step."""

    names = st.sampled_from([*NAMES, b"d"])
    position = st.integers(0, 10**6)

    @initialize(count=st.integers(1, 4))
    def create(self, count: int) -> None:
        self.world = World([*NAMES, b"d"][:count])
        for name in self.world.names:
            self.world.start(name)

    def pick(self, name: bytes) -> bytes:
        return self.world.names[ord(name) % len(self.world.names)]

    @rule(name=names)
    def start(self, name: bytes) -> None:
        if self.world.folders[self.pick(name)].process is None:
            self.world.start(self.pick(name))

    @rule(name=names)
    def crash(self, name: bytes) -> None:
        self.world.crash(self.pick(name))

    @rule(name=names)
    def wipe(self, name: bytes) -> None:
        self.world.wipe(self.pick(name))
        self.world.start(self.pick(name))

    @rule(speaker=names, listener=names)
    def say_hello(self, speaker: bytes, listener: bytes) -> None:
        self.world.say_hello(self.pick(speaker), self.pick(listener))

    @rule()
    def everyone_says_hello(self) -> None:
        for source in self.world.names:
            for target in self.world.names:
                self.world.say_hello(source, target)
        for position in range(len(self.world.hellos)):
            self.world.deliver_hello(position)

    @precondition(lambda self: self.world.hellos)
    @rule(position=position, is_last=st.booleans())
    def deliver_hello(self, position: int, is_last: bool) -> None:
        position %= len(self.world.hellos)
        self.world.deliver_hello(position)
        if is_last:
            del self.world.hellos[position]

    @precondition(lambda self: self.world.messages)
    @rule(position=position, is_last=st.booleans())
    def deliver_message(self, position: int, is_last: bool) -> None:
        position %= len(self.world.messages)
        self.world.deliver_message(position)
        if is_last:
            del self.world.messages[position]

    @rule(seed=st.integers(0, 2**32))
    def proceed(self, seed: int) -> None:
        """Thirty deliveries, writes and ticks in any order."""
        random = Random(seed)
        for _ in range(30):
            name = random.choice(self.world.names)
            kind = random.random()
            if kind < 0.4 and self.world.messages:
                self.deliver_message(random.randrange(10**6), random.random() < 0.8)
            elif kind < 0.5 and self.world.hellos:
                self.deliver_hello(random.randrange(10**6), random.random() < 0.8)
            elif kind < 0.8:
                self.world.persist(name)
            else:
                self.world.tick(name)

    @rule(name=names)
    def tick(self, name: bytes) -> None:
        self.world.tick(self.pick(name))

    @rule(name=names)
    def persist(self, name: bytes) -> None:
        self.world.persist(self.pick(name))

    @rule()
    def persist_all(self) -> None:
        for name in self.world.names:
            self.world.persist(name)

    @invariant()
    def there_is_at_most_one_cluster(self) -> None:
        assert len(self.world.clusters(FOUNDED)) <= 1

    @invariant()
    def whoever_is_founded_was_accepted_by_every_name(self) -> None:
        """So no living folder can have promised itself to anything else: nothing can be outvoted by blank ones."""
        for state, low, high, membership in self.world.records():
            if state != FOUNDED:
                continue
            assert [name for _, _, name, _ in membership] == self.world.names
            for incarnation, *_ in membership:
                assert (incarnation, low, high) in self.world.accepted
            for folder in self.world.folders.values():
                if folder.incarnation in {member[0] for member in membership}:
                    assert folder.record[1:3] == (low, high)

    @invariant()
    def whoever_accepted_what_was_founded_once_is_in_no_other_cluster(self) -> None:
        """A wiped majority must not take the rest of a cluster that lived into a new, empty one."""
        for state, low, high, membership in self.world.records():
            for incarnation, *_ in membership if state == FOUNDED else ():
                earlier = {(a, b) for member, a, b in self.world.accepted if member == incarnation}
                assert earlier & self.world.founded <= {(low, high)}

    def teardown(self) -> None:
        if hasattr(self, "world"):
            check_outcome(self.world)


def check_outcome(world: World) -> None:
    """With all up: founded, or joined, or refused for the one reason there is (rule 6)."""
    for name in world.names:
        world.persist(name)  # what a process is writing counts as promised
    founder = world.folders[world.names[0]]
    promised = [record for record in world.records() if record[0] == ACCEPTED]
    is_own = all(membership[0][0] == founder.incarnation for _, _, _, membership in promised)
    has_lived = FOUNDED in states(world)
    was_joined = JOINING in states(world)
    world.run_all()
    if has_lived or (is_own and not was_joined):
        assert set(states(world)) <= {FOUNDED, JOINING}
        assert len(world.clusters(FOUNDED, JOINING)) == 1
        assert FOUNDED in states(world)
    else:
        assert FOUNDED not in states(world)
        assert founder.process.refusal[0] == Status.FOREIGN_CLUSTER or founder.record[0] == JOINING


TestGenesisMachine = GenesisMachine.TestCase
TestGenesisMachine.settings = settings(max_examples=150, stateful_step_count=60, deadline=None)
