"""The beliefs of the replicated state about its own parts: each one that falls is named, with its two numbers."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from raftmeta.common.invariants import NAMES
from tests.faces.lies import compact, forget_attachment, forget_keys, give_back_history, skip_revisions
from tests.faces.machine import ApplyFatal, MachineHandle
from tests.machine import commands as c

LEASE = 7


@pytest.mark.parametrize(
    ("lie", "belief"),
    [
        (lambda machine: skip_revisions(machine, 2), ("BROKEN_PLAN_REVISION", 4, 2)),
        (lambda machine: forget_attachment(machine, LEASE), ("BROKEN_LEASE_DETACHED", LEASE, 1)),
        (lambda machine: forget_keys(machine, LEASE), ("BROKEN_LEASE_KEYS", LEASE, 0)),
    ],
)
def test_parts_that_contradict_each_other_are_named(
    lie: Callable[[MachineHandle], None], belief: tuple[str, int, int]
) -> None:
    """A key of a lease is written again, after one part of the state has forgotten something."""
    machine = MachineHandle()
    machine.apply(c.grant(LEASE, 1000))
    assert machine.apply(c.keys(c.put(b"key", lease=LEASE))).status == c.OK
    lie(machine)
    with pytest.raises(ApplyFatal) as fatal:
        machine.apply(c.keys(c.put(b"key")))
    assert fatal.value.args == (c.INVARIANT_BROKEN,)
    what, a, b = machine.broken
    assert (NAMES[what], a, b) == belief


@pytest.mark.parametrize(
    ("lie", "belief"),
    [
        (lambda machine: compact(machine, 2), ("BROKEN_HISTORY_FLOOR", 2, 1)),
        (lambda machine: give_back_history(machine, 1), ("BROKEN_HISTORY_TRIMMED", 1, 0)),
    ],
)
def test_a_history_that_has_lost_more_than_its_floor_is_not_published(
    lie: Callable[[MachineHandle], None], belief: tuple[str, int, int]
) -> None:
    """Watches would replay from revisions that are gone."""
    machine = MachineHandle()
    assert machine.apply(c.keys(c.put(b"key"))).status == c.OK
    lie(machine)
    assert machine.publish() == c.INVARIANT_BROKEN
    what, a, b = machine.broken
    assert (NAMES[what], a, b) == belief
