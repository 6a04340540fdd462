"""Membership calls of a node: what it sees, and how a step of a plan reaches the loop.

What it decides: how often a plan is looked at again. What it never does: choose a step (runtime/member_plans does), or
judge one (the leader does).
"""

from libc.stdint cimport uint8_t, uint64_t
from libc.string cimport memcpy, memset

from raftmeta.native.containers cimport Vec
from raftmeta.native.threads cimport boot_now_ns
from raftmeta.raft.membership cimport membership_encode
from raftmeta.raft.types cimport LEARNER, MEMBERS_MAX, STANDBY, VOTER_INCOMING, VOTER_OUTGOING, Member, Membership
from raftmeta.runtime.answers cimport PURPOSE_NOTHING, raise_unless_ok
from raftmeta.runtime.engine_state cimport SUBMIT_MEET, SUBMIT_MEMBERSHIP, SUBMIT_TRANSFER
from raftmeta.runtime.loop cimport LOOP_AWAIT_MEMBERSHIP, LinkTable
from raftmeta.runtime.loop cimport NodeStatus as StatusBlock
from raftmeta.runtime.node_base cimport NodeBase
from raftmeta.runtime.node_view cimport status_of

from raftmeta.config import Address, check_name
from raftmeta.errors import ConfigError, InvalidArgument, NodeClosed, NotExecuted, RaftmetaError, ReadyTimeout
from raftmeta.runtime import member_plans
from raftmeta.runtime.member_plans import MemberRow, View


_ROLES = {member_plans.VOTER: VOTER_INCOMING, member_plans.LEARNER: LEARNER, member_plans.STANDBY: LEARNER | STANDBY}


# --- what it sees -----------------------------------------------------------------------------------------------------
cdef object _role_of(const Member* member):
    if member.roles & (VOTER_INCOMING | VOTER_OUTGOING):
        return member_plans.VOTER
    return member_plans.STANDBY if member.roles & STANDBY else member_plans.LEARNER


cdef object view_of(NodeBase node):
    cdef StatusBlock status
    cdef Membership membership
    cdef LinkTable links
    cdef int i
    node.read_status(&status)       # first, see runtime/loop
    while not node.loop.membership.read(&membership):
        pass
    while not node.loop.links.read(&links):
        pass
    rows = tuple([
        MemberRow((<char*> membership.members[i].name)[:membership.members[i].name_length].decode(),
                  membership.members[i].id,
                  (<char*> membership.members[i].address)[:membership.members[i].address_length].decode(),
                  _role_of(&membership.members[i]))
        for i in range(membership.count)
    ])
    connected = {
        (<char*> links.links[i].name)[:links.links[i].name_length].decode(): links.links[i].id
        for i in range(MEMBERS_MAX)
        if links.links[i].id != 0 and (links.links[i].is_up or links.links[i].is_self)
    }
    leader = [row.name for row in rows if row.id == status.core.leader]
    return View(name=node.identity.name, index=membership.index,
                is_settled=not membership.is_joint and membership.index <= status.core.committed,
                is_removed=status.core.is_removed != 0, leader=leader[0] if leader else "", members=rows,
                connected=connected)


# --- steps ------------------------------------------------------------------------------------------------------------
cdef bytes _encoded(object rows):
    cdef Membership membership
    cdef Vec[uint8_t] out
    cdef Member* member
    cdef bytes name, address
    memset(&out, 0, sizeof(out))
    memset(&membership, 0, sizeof(Membership))
    if len(rows) > MEMBERS_MAX:
        raise InvalidArgument(f"a cluster has at most {MEMBERS_MAX} members", field="name")
    for row in rows:
        member = &membership.members[membership.count]
        name, address = row.name.encode(), row.address.encode()
        member.id = row.id
        member.roles = _ROLES[row.role]
        member.name_length = <uint8_t> len(name)
        member.address_length = <uint8_t> len(address)
        memcpy(member.name, <const char*> name, len(name))
        memcpy(member.address, <const char*> address, len(address))
        membership.count += 1
    try:
        raise_unless_ok(membership_encode(&membership, &out))
        return (<char*> out.data)[:out.size]
    finally:
        out.release()


cdef Ticket* submit_step(NodeBase node, object view, object step, Mailbox* mailbox) except NULL:
    if isinstance(step, member_plans.Propose):
        return node.submit_payload(SUBMIT_MEMBERSHIP, _encoded(step.members), 0, view.index, PURPOSE_NOTHING, mailbox)
    if isinstance(step, member_plans.Meet):
        name, address = step.name.encode(), step.address.encode()
        return node.submit_payload(SUBMIT_MEET, name + address, <unsigned> len(name), 0, PURPOSE_NOTHING, mailbox)
    return node.submit_wish(SUBMIT_TRANSFER, 0, PURPOSE_NOTHING, mailbox)


cdef Ticket* submit_await_membership(NodeBase node, object view, Mailbox* mailbox) except NULL:
    return node.submit_wish(LOOP_AWAIT_MEMBERSHIP, view.index, PURPOSE_NOTHING, mailbox)


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


# --- arguments --------------------------------------------------------------------------------------------------------
cdef object _name(object name, object field):
    try:
        return check_name(name, field)
    except ConfigError as error:
        raise InvalidArgument(str(error), field=field) from None


cdef object _address(object address):
    try:
        return str(Address.parse(address, "address"))
    except ConfigError as error:
        raise InvalidArgument(str(error), field="address") from None


cdef object adding(object name, object address, object voter):
    plan = member_plans.add(_name(name, "name"), _address(address), is_voter=bool(voter))
    return member_plans.Change(f"add_member({name!r})", plan)


cdef object removing(object name):
    return member_plans.Change(f"remove_member({name!r})", member_plans.remove(_name(name, "name")))


cdef object replacing(object old, object name, object address):
    if old == name:
        raise InvalidArgument("name: a member that lost its disk comes back by itself under its name", field="name")
    plan = member_plans.swap(_name(old, "old"), _name(name, "name"), _address(address))
    return member_plans.Change(f"replace_member({old!r}, {name!r})", plan)


cdef object voting(object name, bint is_voter):
    plan = member_plans.set_vote(_name(name, "name"), is_voter=is_voter)
    return member_plans.Change(f"{'promote' if is_voter else 'demote'}({name!r})", plan)
