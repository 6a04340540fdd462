"""Changes of the members by a client: a plan of raftmeta/members/plans, one step at a time, through any node.

It decides when to look again. It must never choose a step (the plan does), judge one (the leader does), or
send one twice: a step whose connection broke may have been taken, and the next look shows it.
"""

from __future__ import annotations

import asyncio

from raftmeta.bindings.members import membership_bytes
from raftmeta.bindings.requests import NOTHING, VALUES
from raftmeta.client.channel import Channel
from raftmeta.client.status import members_from, view_from
from raftmeta.errors import AuthenticationFailed, NodeClosed, PermissionDenied, RaftmetaError, ReadyTimeout
from raftmeta.members.plans import Change, HandOver, Meet, Propose, View
from raftmeta.results import MemberStatus

LOOK_S = 0.05  # between two looks at what a plan waits for


async def list_members(channel: Channel, timeout_s: float | None) -> tuple[MemberStatus, ...]:
    """The members as last committed; during a change it waits for its end (else ReadyTimeout)."""
    deadline_s = channel.deadline(timeout_s)
    while True:
        channel.check_open()
        values = await channel.submit(channel.encoder.members(local=False), VALUES, deadline_s)
        if view_from(values).is_settled:
            return members_from(values)
        if channel.loop.time() >= deadline_s:
            raise ReadyTimeout("a membership change is under way, and no quorum answers")
        await asyncio.sleep(LOOK_S)


async def reach(channel: Channel, change: Change, timeout_s: float | None) -> None:
    """Take steps until the goal is reached; else raise what became of it."""
    deadline_s = channel.deadline(timeout_s)
    while True:
        channel.check_open()
        view = await _look(channel, change, deadline_s)
        step = change.next_step(view)
        if step is None:
            return
        if channel.loop.time() >= deadline_s:
            raise change.timed_out()
        try:
            if isinstance(step, Propose | Meet | HandOver):
                change.begins(step, view)
                await channel.submit(_frame_of(channel, step, view), NOTHING, deadline_s, is_sent_once=True)
        except NodeClosed:
            raise change.timed_out() from None
        except (PermissionDenied, AuthenticationFailed):
            raise  # it stays so
        except RaftmetaError as error:
            change.failed(error)
        await asyncio.sleep(LOOK_S)


async def _look(channel: Channel, change: Change, deadline_s: float) -> View:
    frame = channel.encoder.members(local=True)
    try:
        return view_from(await channel.submit(frame, VALUES, deadline_s))
    except TimeoutError as error:
        # Of a step that was taken before, only the change knows the fate.
        raise change.timed_out() from error


def _frame_of(channel: Channel, step: Propose | Meet | HandOver, view: View) -> bytes:
    if isinstance(step, Propose):
        return channel.encoder.change(view.index, membership_bytes(step.members))
    if isinstance(step, Meet):
        return channel.encoder.meet(step.name, step.address)
    return channel.encoder.transfer("")
