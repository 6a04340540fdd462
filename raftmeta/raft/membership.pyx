"""Bodies of membership.pxd, which says what a membership is and what a change does to it."""
from libc.stdint cimport uint8_t, uint32_t
from libc.string cimport memcmp, memcpy, memset

from raftmeta.native.containers cimport Vec
from raftmeta.native.text cimport text_is_plain
from raftmeta.raft.types cimport (LEARNER, LEARNER_NEXT, MEMBERS_MAX, NAME_BYTES_MAX,
                                  STANDBY, VOTER_INCOMING, VOTER_OUTGOING, Member, Membership, member_id_t,
                                  member_mask_t)
from raftmeta.status cimport ALREADY, BAD_FIELD, BAD_LENGTH, BAD_VERSION, NO_MEMORY, NOT_FOUND, OK, status_t

# --- leaves -----------------------------------------------------------------------------------------------------------

cdef bint same_name(const Member* first, const Member* second) noexcept nogil:
    return first.name_length == second.name_length and memcmp(first.name, second.name, first.name_length) == 0


cdef bint same_address(const Member* first, const Member* second) noexcept nogil:
    return (first.address_length == second.address_length
            and memcmp(first.address, second.address, first.address_length) == 0)


cdef bint roles_are_valid(uint8_t roles, bint is_joint) noexcept nogil:
    if roles == VOTER_INCOMING or roles == LEARNER or roles == (LEARNER | STANDBY):
        return True
    return is_joint and (roles == VOTER_OUTGOING or roles == (VOTER_INCOMING | VOTER_OUTGOING)
                         or roles == (VOTER_OUTGOING | LEARNER_NEXT)
                         or roles == (VOTER_OUTGOING | LEARNER_NEXT | STANDBY))


# For the roles that two incarnations must not share, LEARNER_NEXT counts as LEARNER.
cdef uint8_t claimed_roles(uint8_t roles) noexcept nogil:
    return roles | LEARNER if roles & LEARNER_NEXT else roles


cdef member_mask_t positions_with(const Membership* membership, uint8_t role) noexcept nogil:
    cdef member_mask_t mask = 0
    cdef uint32_t i
    for i in range(membership.count):
        if membership.members[i].roles & role:
            mask |= <member_mask_t>1 << i
    return mask


cdef int position_of_name(const Membership* membership, const Member* member, uint8_t role) noexcept nogil:
    cdef uint32_t i
    for i in range(membership.count):
        if membership.members[i].roles & role and same_name(&membership.members[i], member):
            return <int>i
    return -1


cdef void add_member(Membership* membership, const Member* member, uint8_t roles) noexcept nogil:
    cdef Member* added = &membership.members[membership.count]
    memcpy(added, member, sizeof(Member))
    added.roles = roles
    membership.count += 1

# --- rules ------------------------------------------------------------------------------------------------------------

cdef status_t check_member(const Membership* membership, uint32_t position) noexcept nogil:
    cdef const Member* member = &membership.members[position]
    cdef const Member* other
    cdef uint32_t i, namesakes = 0
    if member.name_length == 0 or member.name_length > NAME_BYTES_MAX:
        return BAD_LENGTH
    if member.id == 0 or not roles_are_valid(member.roles, membership.is_joint):
        return BAD_FIELD
    for i in range(position):
        other = &membership.members[i]
        if other.id == member.id:
            return BAD_FIELD
        if same_name(other, member):
            namesakes += 1
            # An old and a new incarnation: never two votes of one node in one electorate, never three of a name.
            if namesakes > 1 or claimed_roles(other.roles) & claimed_roles(member.roles):
                return BAD_FIELD
    return OK


cdef status_t membership_check(const Membership* membership) noexcept nogil:
    cdef status_t status
    cdef uint32_t i
    if membership.count == 0 or membership.count > MEMBERS_MAX:
        return BAD_LENGTH
    for i in range(membership.count):
        status = check_member(membership, i)
        if status != OK:
            return status
    # An electorate without a voter could never decide anything again.
    if positions_with(membership, VOTER_INCOMING) == 0:
        return BAD_FIELD
    if membership.is_joint and positions_with(membership, VOTER_OUTGOING) == 0:
        return BAD_FIELD
    return OK


cdef bint membership_is_plain_text(const Membership* membership, const Membership* known) noexcept nogil:
    cdef const Member* member
    cdef int position
    cdef uint32_t i
    for i in range(membership.count):
        member = &membership.members[i]
        position = membership_position(known, member.id) if known != NULL else -1
        if position >= 0 and same_name(&known.members[position], member) and same_address(
                &known.members[position], member):
            continue
        if not (text_is_plain(member.name, member.name_length)
                and text_is_plain(member.address, member.address_length)):
            return False
    return True

# --- sets by position -------------------------------------------------------------------------------------------------

cdef int membership_position(const Membership* membership, member_id_t id) noexcept nogil:
    cdef uint32_t i
    for i in range(membership.count):
        if membership.members[i].id == id:
            return <int>i
    return -1


cdef member_mask_t membership_voters_incoming(const Membership* membership) noexcept nogil:
    return positions_with(membership, VOTER_INCOMING)


cdef member_mask_t membership_voters_outgoing(const Membership* membership) noexcept nogil:
    return positions_with(membership, VOTER_OUTGOING)


cdef member_mask_t membership_learners(const Membership* membership) noexcept nogil:
    return positions_with(membership, LEARNER)

# --- bytes ------------------------------------------------------------------------------------------------------------

cdef bint encode_member(const Member* member, Vec[uint8_t]* out) noexcept nogil:
    cdef uint8_t[MEMBERSHIP_MEMBER_BYTES] head
    memset(head, 0, sizeof(head))
    memcpy(head, &member.id, 8)
    head[8] = member.roles
    head[9] = member.name_length
    head[10] = member.address_length
    return (out.append(head, MEMBERSHIP_MEMBER_BYTES) and out.append(member.name, member.name_length)
            and out.append(member.address, member.address_length))


cdef status_t membership_encode(const Membership* membership, Vec[uint8_t]* out) noexcept nogil:
    cdef uint8_t[MEMBERSHIP_HEAD_BYTES] head
    cdef size_t size_before = out.size
    cdef status_t status = membership_check(membership)
    cdef uint32_t i
    if status != OK:
        return status
    memset(head, 0, sizeof(head))
    head[0] = FORMAT_MEMBERSHIP_VERSION
    head[1] = membership.count
    head[2] = 1 if membership.is_joint else 0
    if not out.append(head, MEMBERSHIP_HEAD_BYTES):
        return NO_MEMORY
    for i in range(membership.count):
        if not encode_member(&membership.members[i], out):
            out.size = size_before
            return NO_MEMORY
    return OK


# Read one member from the `length` bytes that are left; *used is how many it took.
cdef status_t decode_member(const uint8_t* bytes, uint32_t length, Member* member, uint32_t* used) noexcept nogil:
    if length < MEMBERSHIP_MEMBER_BYTES:
        return BAD_LENGTH
    memcpy(&member.id, bytes, 8)
    member.roles = bytes[8]
    member.name_length = bytes[9]
    member.address_length = bytes[10]
    if bytes[11] != 0:
        return BAD_FIELD
    if member.name_length > NAME_BYTES_MAX:
        return BAD_LENGTH
    used[0] = MEMBERSHIP_MEMBER_BYTES + member.name_length + member.address_length
    if length < used[0]:
        return BAD_LENGTH
    memcpy(member.name, bytes + MEMBERSHIP_MEMBER_BYTES, member.name_length)
    memcpy(member.address, bytes + MEMBERSHIP_MEMBER_BYTES + member.name_length, member.address_length)
    return OK


cdef status_t membership_decode(const uint8_t* bytes, uint32_t length, Membership* membership) noexcept nogil:
    cdef uint32_t i, at = MEMBERSHIP_HEAD_BYTES, used = 0
    cdef status_t status
    memset(membership, 0, sizeof(Membership))
    if length < MEMBERSHIP_HEAD_BYTES or length > MEMBERSHIP_BYTES_MAX:
        return BAD_LENGTH
    if bytes[0] != FORMAT_MEMBERSHIP_VERSION:
        return BAD_VERSION
    if bytes[1] > MEMBERS_MAX:
        return BAD_LENGTH
    if bytes[2] > 1:
        return BAD_FIELD
    for i in range(3, <uint32_t>MEMBERSHIP_HEAD_BYTES):
        if bytes[i] != 0:
            return BAD_FIELD
    membership.count = bytes[1]
    membership.is_joint = bytes[2]
    for i in range(membership.count):
        status = decode_member(bytes + at, length - at, &membership.members[i], &used)
        if status != OK:
            return status
        at += used
    if at != length:
        return BAD_LENGTH
    return membership_check(membership)

# --- change -----------------------------------------------------------------------------------------------------------

cdef bint same_members(const Membership* current, const Membership* target) noexcept nogil:
    cdef const Member* member
    cdef int found
    cdef uint32_t i
    if current.count != target.count:
        return False
    for i in range(current.count):
        member = &current.members[i]
        found = membership_position(target, member.id)
        if found < 0 or target.members[found].roles != member.roles:
            return False
        if not (same_name(&target.members[found], member) and same_address(&target.members[found], member)):
            return False
    return True


# Roles during the change of a member with role `now` in current and `then` in target (0: not there).
cdef uint8_t joint_roles(uint8_t now, uint8_t then) noexcept nogil:
    if not now & VOTER_INCOMING:
        return then
    if then & VOTER_INCOMING:
        return VOTER_INCOMING | VOTER_OUTGOING
    return (VOTER_OUTGOING | LEARNER_NEXT | (then & STANDBY)) if then & LEARNER else VOTER_OUTGOING


# Count the names whose vote passes from one incarnation to another in this change.
cdef uint32_t swapped_names(const Membership* joint) noexcept nogil:
    cdef const Member* member
    cdef uint32_t i, swaps = 0
    for i in range(joint.count):
        member = &joint.members[i]
        if member.roles & VOTER_INCOMING or not member.roles & VOTER_OUTGOING:
            continue
        if position_of_name(joint, member, VOTER_INCOMING) >= 0:
            swaps += 1
    return swaps


cdef status_t join_members(const Membership* current, const Membership* target, Membership* joint) noexcept nogil:
    cdef const Member* member
    cdef uint8_t roles
    cdef int found
    cdef uint32_t i
    for i in range(current.count):
        member = &current.members[i]
        roles = 0
        found = membership_position(target, member.id)
        if found >= 0:
            if not same_name(&target.members[found], member):
                return BAD_FIELD
            member = &target.members[found]
            roles = member.roles
        roles = joint_roles(current.members[i].roles, roles)
        if roles:
            add_member(joint, member, roles)
    for i in range(target.count):
        member = &target.members[i]
        if membership_position(current, member.id) >= 0:
            continue
        if joint.count == MEMBERS_MAX:
            return BAD_LENGTH
        add_member(joint, member, member.roles)
    return OK


cdef status_t membership_enter_joint(const Membership* current, const Membership* target,
                                     Membership* joint) noexcept nogil:
    cdef status_t status
    memset(joint, 0, sizeof(Membership))
    if current.is_joint or target.is_joint:
        return BAD_FIELD
    status = membership_check(target)
    if status != OK:
        return status
    if same_members(current, target):
        return ALREADY
    joint.is_joint = 1
    status = join_members(current, target, joint)
    if status != OK:
        return status
    # One at a time: each swap is one node that lost its promises of the past (divergence.md "Incarnations").
    if swapped_names(joint) > 1:
        return BAD_FIELD
    return membership_check(joint)


cdef status_t membership_leave_joint(const Membership* joint, Membership* out) noexcept nogil:
    cdef const Member* member
    cdef uint32_t i
    memset(out, 0, sizeof(Membership))
    if not joint.is_joint:
        return BAD_FIELD
    for i in range(joint.count):
        member = &joint.members[i]
        if member.roles & VOTER_INCOMING:
            add_member(out, member, VOTER_INCOMING)
        elif member.roles & (LEARNER | LEARNER_NEXT):
            add_member(out, member, LEARNER | (member.roles & STANDBY))
    return membership_check(out)


cdef status_t membership_swap(const Membership* current, member_id_t successor, Membership* target) noexcept nogil:
    cdef int learner = membership_position(current, successor)
    cdef int voter
    cdef int i
    memset(target, 0, sizeof(Membership))
    if learner < 0 or current.members[learner].roles != LEARNER:
        return NOT_FOUND
    voter = position_of_name(current, &current.members[learner], VOTER_INCOMING)
    if voter < 0:
        return NOT_FOUND
    for i in range(current.count):
        if i == voter:
            continue
        add_member(target, &current.members[i], VOTER_INCOMING if i == learner else current.members[i].roles)
    return membership_check(target)
