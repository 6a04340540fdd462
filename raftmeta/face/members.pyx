"""Membership calls of a node: what it sees, and how a step of a plan reaches the loop.

It decides how often a plan is looked at again. It must never choose a step (members/plans does), or
judge one (the leader does).
"""

from libc.stdint cimport uint64_t

from raftmeta.engine.submission cimport AWAIT_MEMBERSHIP, SUBMIT_TRANSFER
from raftmeta.face.answers cimport PURPOSE_NOTHING
from raftmeta.face.base cimport NodeBase
from raftmeta.face.view cimport link_rows, membership_rows, status_of
from raftmeta.loop.loop cimport NodeStatus as StatusBlock
from raftmeta.native.threads cimport boot_now_ns

from raftmeta.members import plans
from raftmeta.errors import InvalidArgument, NodeClosed, NotExecuted, RaftmetaError, ReadyTimeout
from raftmeta.members.plans import View
from raftmeta.bindings.members import membership_bytes


# --- what it sees -----------------------------------------------------------------------------------------------------
cdef object view_of(NodeBase node):
    cdef StatusBlock status
    node.read_status(&status)       # first, see loop/loop
    rows, index, is_joint = membership_rows(node)
    leader = [row.name for row in rows if row.id == status.core.leader]
    return View(name=node.identity.name, index=index, is_settled=not is_joint and index <= status.core.committed,
                is_removed=status.core.is_removed != 0, leader=leader[0] if leader else "", members=rows,
                connected={link.name: link.id for link in link_rows(node) if link.id != 0 and link.is_up},
                revision=status.machine.revision)


# --- steps ------------------------------------------------------------------------------------------------------------
cdef Ticket* submit_step(NodeBase node, object view, object step, Mailbox* mailbox) except NULL:
    if isinstance(step, plans.Propose):
        return node.submit_membership(membership_bytes(step.members), view.index, mailbox)
    if isinstance(step, plans.Meet):
        return node.submit_meet(step.name.encode(), step.address.encode(), mailbox)
    return node.submit_wish(SUBMIT_TRANSFER, 0, PURPOSE_NOTHING, mailbox)


cdef Ticket* submit_await_membership(NodeBase node, object view, Mailbox* mailbox) except NULL:
    return node.submit_wish(AWAIT_MEMBERSHIP, view.index, PURPOSE_NOTHING, mailbox)


cdef uint64_t next_look_ns(uint64_t deadline_ns) noexcept:
    return min(deadline_ns, boot_now_ns() + TUNE_LOOK_NS)


cdef int await_membership(NodeBase node, object view, uint64_t deadline_ns) except -1:
    try:
        node.finish(submit_await_membership(node, view, NULL), PURPOSE_NOTHING, next_look_ns(deadline_ns))
    except NotExecuted:
        pass            # nothing has changed: look again all the same, a peer may have answered
    return 0


cdef object settled_members(NodeBase node):
    if not view_of(node).is_settled:
        raise ReadyTimeout("a membership change is under way, and no quorum answers")
    return tuple([member for member in status_of(node).members if member.role])


cdef int reach(NodeBase node, object change, uint64_t deadline_ns) except -1:
    while True:
        view = view_of(node)
        step = change.next_step(view)
        if step is None:
            return 0
        if boot_now_ns() >= deadline_ns:
            raise change.timed_out()
        try:
            if step:
                change.begins(step, view)
                node.finish(submit_step(node, view, step, NULL), PURPOSE_NOTHING, deadline_ns)
        except NodeClosed:
            raise change.timed_out() from None
        except RaftmetaError as error:
            change.failed(error)
        await_membership(node, view, deadline_ns)


# --- who is to lead ---------------------------------------------------------------------------------------------------
cdef uint64_t transfer_target(NodeBase node, object to) except? 0:
    cdef StatusBlock status
    cdef uint64_t target
    node.running()
    if to is None:
        rows = membership_rows(node)[0]
        if rows and not any(row.role == "voter" and row.name != node.identity.name for row in rows):
            raise InvalidArgument("to: no other member votes, so nobody can take over", field="to")
        return 0
    if not isinstance(to, str):
        raise InvalidArgument(f"to: must be the name of a member, not {to!r}", field="to")
    target = node.member_by_name(to)
    node.read_status(&status)
    if target == status.core.leader:
        raise InvalidArgument(f"to: {to} leads already", field="to")
    return target
