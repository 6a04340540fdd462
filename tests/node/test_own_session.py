"""A node's own session names its process before anything is done in it (docs/leases.md)."""

from __future__ import annotations

import pytest

from tests.faces.keeper import KeeperHandle
from tests.machine import commands as c
from tests.machine.machines import Machine

LEVEL_OF_PROCESSES = 7
MEMBER, BOOT = 0xA1, 3
ASKED, KEPT, NOTHING = (True, False), (False, True), (False, False)


@pytest.fixture
def machine() -> Machine:
    """Session 5 was opened before the level of processes."""
    machine = Machine()
    machine.apply(c.open_session(5))
    return machine


@pytest.fixture
def keeper(machine: Machine) -> KeeperHandle:
    keeper = KeeperHandle(machine.handle, member=MEMBER, boot=BOOT, session=5)
    assert keeper.look() == 5
    return keeper


def name_session(machine: Machine, keeper: KeeperHandle) -> None:
    machine.apply(c.command(c.LEVEL, LEVEL_OF_PROCESSES))
    machine.apply(c.open_session(5, process=(MEMBER, BOOT)))
    keeper.look()


def test_own_commands_wait_until_the_session_names_its_process(machine: Machine, keeper: KeeperHandle) -> None:
    """A lease of a session without a name is nobody's: the end of its process would leave it.

    1. the session is there and the level is not reached: commands go; 2. the level is applied: none goes, and the next
    tick asks for the name; 3. the name is applied: commands go again.
    """
    assert keeper.may_speak
    assert keeper.tick() == NOTHING
    machine.apply(c.command(c.LEVEL, LEVEL_OF_PROCESSES))
    keeper.look()
    assert not keeper.may_speak
    assert keeper.tick() == ASKED
    assert keeper.tick() == NOTHING
    assert not keeper.may_speak
    machine.apply(c.open_session(5, process=(MEMBER, BOOT)))
    keeper.look()
    assert keeper.may_speak


def test_a_session_that_ended_before_its_node_saw_it_is_given_up(machine: Machine) -> None:
    """A session that is over is never opened again: a node that went on to ask for it would have none for ever."""
    keeper = KeeperHandle(machine.handle, member=MEMBER, boot=BOOT, session=5)
    machine.apply(c.close_session(5))
    assert keeper.look() == 0
    assert keeper.tick() == ASKED
    assert machine.apply(c.open_session(KeeperHandle.NEXT_SESSION)).status == c.OK
    assert keeper.look() == KeeperHandle.NEXT_SESSION


def test_kept_leases_become_the_process_s_as_soon_as_the_session_names_it(
    machine: Machine, keeper: KeeperHandle
) -> None:
    """They were granted before. A keep-alive goes at the next tick, not a quarter of their time later."""
    for lease in (1, 2):
        machine.apply(c.grant(lease, 60_000, session=5, sequence=lease))
        keeper.keep(lease)
    assert keeper.tick() == NOTHING
    name_session(machine, keeper)
    assert keeper.tick() == KEPT
    assert keeper.tick() == NOTHING


def test_a_lease_that_nobody_is_known_to_keep_is_kept_alive_at_once(machine: Machine, keeper: KeeperHandle) -> None:
    """Its grant was on its way while the session got its name, or another process granted it."""
    machine.apply(c.grant(1, 60_000, session=5, sequence=1))
    machine.apply(c.grant(2, 60_000, session=5, sequence=2))
    name_session(machine, keeper)
    machine.apply(c.grant(3, 60_000, session=5, sequence=3))
    keeper.keep(1)
    keeper.tick()
    keeper.keep(3)
    assert keeper.tick() == NOTHING
    keeper.keep(2)
    assert keeper.tick() == KEPT
