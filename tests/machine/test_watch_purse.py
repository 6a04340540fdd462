"""What waits for the watches of one client and of all clients is bounded, and a client that takes gets everything."""

from __future__ import annotations

from tests.faces.watches import WatchedMachine
from tests.machine import commands as c
from tests.machine.test_watches import EVENTS, LAGGED, replayed, revisions, taken

MIB = 1 << 20
VALUE = b"x" * 10_000
REVISIONS = 300


def machine_with_history(pool_bytes_max: int) -> WatchedMachine:
    machine = WatchedMachine(pool_bytes_max=pool_bytes_max)
    for number in range(REVISIONS):
        machine.apply(c.keys(c.put(b"k%03d" % (number % 50), VALUE)))
    return machine


def test_replays_of_one_client_stop_when_its_purse_is_full() -> None:
    """1,024 watches from the first revision on took 16 MiB each."""
    machine = machine_with_history(4 * MIB)
    purse = machine.open_purse()
    watches = [machine.add(b"", b"", start=1, purse=purse) for _ in range(200)]
    replayed(machine)
    assert MIB < machine.purse_bytes(purse) <= 2 * MIB + 2 * len(VALUE)
    assert machine.pool_bytes == machine.purse_bytes(purse)
    for watch in watches:
        watch.close()
    assert machine.pool_bytes == 0


def test_a_client_that_takes_gets_every_revision_in_order() -> None:
    machine = machine_with_history(2 * MIB)
    purse = machine.open_purse()
    watches = [machine.add(b"", b"", start=1, purse=purse) for _ in range(20)]
    seen: list[list[int]] = [[] for _ in watches]
    while any(len(one) < REVISIONS for one in seen):
        before = sum(len(one) for one in seen)
        replayed(machine)
        for watch, one in zip(watches, seen, strict=True):
            one += revisions(taken(watch))
        assert sum(len(one) for one in seen) > before, "it got stuck"
    assert all(one == list(range(1, REVISIONS + 1)) for one in seen)
    assert machine.pool_bytes == 0


def test_a_greedy_client_leaves_the_others_their_share() -> None:
    machine = machine_with_history(4 * MIB)
    greedy, modest = machine.open_purse(), machine.open_purse()
    many = [machine.add(b"", b"", start=1, purse=greedy) for _ in range(100)]
    replayed(machine)
    one = machine.add(b"", b"", start=1, purse=modest)
    seen: list[int] = []
    while len(seen) < REVISIONS:
        replayed(machine)
        items = taken(one)
        assert items
        seen += revisions(items)
    assert machine.pool_bytes <= 4 * MIB
    live = machine.add(b"", b"", purse=modest)
    for _ in range(50):
        revision = machine.apply(c.keys(c.put(b"live", VALUE)))
        assert revisions(taken(live)) == [revision]
    for watch in many:
        watch.close()


def test_live_watches_of_a_client_that_does_not_take_lag_together() -> None:
    """Each says where to go on; nothing is skipped before that, and the pool's bound holds."""
    machine = WatchedMachine(pool_bytes_max=4 * MIB)
    purse = machine.open_purse()
    watches = [machine.add(b"k%d" % number, b"k%d\0" % number, purse=purse) for number in range(100)]
    for round in range(20):
        for number in range(100):
            machine.apply(c.keys(c.put(b"k%d" % number, VALUE)))
            assert machine.pool_bytes <= 4 * MIB
        assert round or machine.pool_bytes > 100 * len(VALUE)
    for number, watch in enumerate(watches):
        items = taken(watch)
        mine = [round * 100 + number + 1 for round in range(20)]
        assert [item[0] for item in items[:-1]] == [EVENTS] * (len(items) - 1)
        assert revisions(items) == mine[: len(items)]
        assert items[-1][0] == LAGGED
    assert machine.pool_bytes == 0


def test_events_that_many_clients_share_count_once() -> None:
    """One page with a watch for each of its users: the memory of an event is one batch, whoever waits for it."""
    machine = WatchedMachine(pool_bytes_max=4 * MIB)
    purses = [machine.open_purse() for _ in range(500)]
    watches = [machine.add(b"", b"", purse=purse) for purse in purses]
    for _ in range(20):
        machine.apply(c.keys(c.put(b"k", VALUE)))
    assert machine.pool_bytes < 3 * MIB
    assert all(len(taken(watch)) == 20 for watch in watches)
    assert machine.pool_bytes == 0


def test_an_empty_purse_takes_a_revision_of_any_length() -> None:
    machine = WatchedMachine(pool_bytes_max=MIB)
    purse = machine.open_purse()
    watch = machine.add(b"", b"", purse=purse)
    machine.apply(c.keys(c.put(b"k", bytes(MIB - 1))))
    assert revisions(taken(watch)) == [1]
