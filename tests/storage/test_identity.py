"""Who a folder is: found once, counted at each start, never another node's."""

from __future__ import annotations

import pytest

from tests.core.names import GenesisState
from tests.faces.disk import SimulatedDisk
from tests.faces.identity import IdentityHandle
from tests.faces.membership import MembershipHandle
from tests.storage.names import Status

MEMBERSHIP = MembershipHandle([(7, 1, b"a", b"127.0.0.1:1"), (8, 1, b"b", b"127.0.0.1:2")]).encode()[1]


def opened(
    disk: SimulatedDisk, name: bytes = b"broker-1", cluster: bytes = b"default", seed: int = 5
) -> IdentityHandle:
    identity = IdentityHandle(disk, name, cluster, seed=seed)
    assert identity.open() == Status.OK
    assert identity.count_boot() == Status.OK
    return identity


def test_a_blank_folder_gets_an_incarnation_that_stays() -> None:
    """The incarnation is born with the folder; each start is another boot of it."""
    disk = SimulatedDisk()
    first = opened(disk, seed=5)
    assert (first.is_new, first.boot, first.genesis[0]) == (True, 1, GenesisState.BLANK)
    assert first.id != 0
    second = opened(disk, seed=6)
    assert (second.is_new, second.boot, second.id) == (False, 2, first.id)
    assert opened(SimulatedDisk(), seed=6).id != first.id


def test_a_boot_number_is_durable_before_the_node_speaks() -> None:
    """Peers refuse a lower boot number: one that was used must never come back."""
    for seed in range(20):
        disk = SimulatedDisk(seed=seed)
        for boot in range(1, 5):
            assert opened(disk).boot == boot
            disk.crash()


def test_a_node_starts_on_a_full_disk_after_a_power_cut() -> None:
    """The room for the next identity was taken, but not synced: the cut lost it, somebody else filled the disk, and the
    node could not start there, so that no key could be deleted (a run of jepsen/: power-cut, then disk-full)."""
    for seed in range(20):
        disk = SimulatedDisk(seed=seed)
        assert opened(disk).set_genesis(GenesisState.FOUNDED, (3, 4), MEMBERSHIP) == Status.OK
        for boot in range(2, 5):
            disk.crash()
            disk.plan(capacity_bytes=sum(len(disk.durable(name) or b"") for name in disk.list_names()))
            assert opened(disk).boot == boot
            disk.plan()


def test_a_node_that_joined_is_founded_without_the_founding_membership() -> None:
    """It was never told. The file must hold that too: when it could not, a joined node said JOINING for ever, and after
    all members had been wiped in turn nobody was left whom a blank one would have joined."""
    disk = SimulatedDisk()
    identity = opened(disk)
    assert identity.set_genesis(GenesisState.JOINING, (3, 4)) == Status.OK
    assert identity.set_genesis(GenesisState.FOUNDED, (3, 4)) == Status.OK
    assert opened(disk).genesis == (GenesisState.FOUNDED, (3, 4), 0)


@pytest.mark.parametrize("fault", ["cut_at_sync", "cut_at_write"])
def test_a_power_cut_leaves_the_old_identity_or_the_new_one(fault: str) -> None:
    """decisions/log.md D10: replaced by rename; a leftover working file is written over."""
    for moment in range(1, 4):
        for late in (0, 1):
            for seed in range(20):
                disk = SimulatedDisk(seed=seed)
                identity = opened(disk)
                assert identity.set_genesis(GenesisState.ACCEPTED, (3, 4), MEMBERSHIP) == Status.OK
                disk.plan(**{fault: moment}, cut_after_sync=late)
                status = identity.set_genesis(GenesisState.FOUNDED, (3, 4), MEMBERSHIP)
                disk.plan()
                disk.crash()
                again = opened(disk)
                assert again.genesis[0] in [GenesisState.FOUNDED] + [GenesisState.ACCEPTED] * (status != Status.OK)
                assert again.genesis[1:] == ((3, 4), 2)
                assert (again.id, again.boot) == (identity.id, 2)


def test_a_folder_of_another_cluster_or_node_is_refused_untouched() -> None:
    """Two clusters or nodes that were given one folder by mistake never mix."""
    disk = SimulatedDisk()
    opened(disk)
    writes = disk.counters["writes"]
    assert IdentityHandle(disk, b"broker-1", b"other").open() == Status.FOREIGN_CLUSTER
    assert IdentityHandle(disk, b"broker-2", b"default").open() == Status.FOREIGN_NODE
    assert disk.counters["writes"] == writes
    assert opened(disk).boot == 2


@pytest.mark.parametrize("name", [b"", b"x" * 65])
def test_a_name_that_is_empty_or_too_long_is_refused(name: bytes) -> None:
    disk = SimulatedDisk()
    assert IdentityHandle(disk, name, b"default").open() == Status.BAD_FIELD
    assert IdentityHandle(disk, b"broker-1", name).open() == Status.BAD_FIELD
    assert disk.list_names() == []


def test_every_flipped_bit_and_every_truncation_is_refused() -> None:
    """A folder whose identity is damaged says nothing rather than something else."""
    disk = SimulatedDisk()
    assert opened(disk).set_genesis(GenesisState.FOUNDED, (3, 4), MEMBERSHIP) == Status.OK
    size_bytes = len(disk.durable("identity"))
    for offset in range(size_bytes):
        for bit in range(8):
            copy = disk.copy()
            copy.flip("identity", offset, 1 << bit)
            assert IdentityHandle(copy, b"broker-1", b"default").open() == Status.CORRUPT
        copy = disk.copy()
        copy.cut_file("identity", offset)
        assert IdentityHandle(copy, b"broker-1", b"default").open() == Status.CORRUPT


def test_a_renewed_identity_is_another_member_of_the_same_cluster() -> None:
    """The log lost what it acknowledged: the former self must never vote again."""
    disk = SimulatedDisk()
    identity = opened(disk)
    former = identity.id
    assert identity.set_genesis(GenesisState.FOUNDED, (3, 4), MEMBERSHIP) == Status.OK
    assert identity.renew() == Status.OK
    disk.crash()
    again = opened(disk, seed=9)
    assert again.id != former
    assert (again.former, again.boot) == (former, 2)
    assert again.genesis == (GenesisState.JOINING, (3, 4), 0)


def test_a_renewal_over_a_void_log_still_knows_whose_that_is() -> None:
    """Else the next start would take it for a stranger's, and refuse the folder."""
    disk = SimulatedDisk()
    identity = opened(disk)
    first = identity.id
    assert identity.set_genesis(GenesisState.FOUNDED, (3, 4), MEMBERSHIP) == Status.OK
    assert identity.renew() == Status.OK
    second = identity.id
    assert identity.renew(is_void=True) == Status.OK
    disk.crash()
    again = opened(disk, seed=9)
    assert again.id not in (first, second)
    assert (again.former, again.genesis) == (first, (GenesisState.JOINING, (3, 4), 0))


def test_a_failing_disk_is_reported() -> None:
    disk = SimulatedDisk()
    identity = opened(disk)
    disk.plan(fail_at_sync=1)
    assert identity.set_genesis(GenesisState.JOINING, (0, 0)) == Status.DISK_FAILED
    disk.plan(no_space_at_write=1)
    assert identity.set_genesis(GenesisState.JOINING, (0, 0)) == Status.NO_SPACE
