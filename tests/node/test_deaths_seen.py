"""Proofs that a peer's process is gone, and signs that prove nothing (docs/leases.md "When the process is gone")."""

from __future__ import annotations

import pytest

from tests.faces.deaths import WitnessHandle
from tests.machine import commands as c
from tests.machine.machines import Machine

LEVEL_OF_PROCESSES = 7
PEER = 0xA1


@pytest.fixture
def witness() -> WitnessHandle:
    """The state knows two lives of the peer, and the first one has answered."""
    machine = Machine()
    machine.apply(c.command(c.LEVEL, LEVEL_OF_PROCESSES))
    for boot in (1, 2):
        machine.apply(c.open_session(boot, process=(PEER, boot)))
    witness = WitnessHandle(machine.handle, peer=PEER)
    witness.answer(1)
    return witness


def test_a_lost_connection_and_a_refusal_are_a_proof(witness: WitnessHandle) -> None:
    assert not witness.finds_gone
    witness.lose()
    witness.refuse()
    assert witness.finds_gone


def test_a_lost_connection_alone_is_none(witness: WitnessHandle) -> None:
    witness.lose()
    assert not witness.finds_gone


def test_a_process_that_still_speaks_lives(witness: WitnessHandle) -> None:
    witness.speak()
    witness.lose()
    witness.refuse()
    assert not witness.finds_gone
    witness.hang_up()
    assert witness.finds_gone


def test_the_refusal_of_a_former_life_says_nothing_of_the_present_one(witness: WitnessHandle) -> None:
    """Its next life answers, and its connection breaks too: that alone proves nothing."""
    witness.lose()
    witness.refuse()
    witness.answer(2)
    witness.lose()
    assert not witness.finds_gone
    witness.refuse()
    assert witness.finds_gone
