"""A Membership as a Python object, for tests and tools; the engine itself never touches this module."""
from libc.stdint cimport uint8_t
from libc.string cimport memcpy, memset

from raftmeta.native.containers cimport Vec
from raftmeta.raft cimport membership as rules
from raftmeta.raft.types cimport ADDRESS_BYTES_MAX, MEMBERS_MAX, NAME_BYTES_MAX, Member, Membership
from raftmeta.status cimport OK, status_t


cdef class MembershipHandle:
    cdef Membership membership

    def __cinit__(self, members=(), *, is_joint=False):
        cdef Member* member
        memset(&self.membership, 0, sizeof(Membership))
        if len(members) > MEMBERS_MAX:
            raise ValueError(f"members: at most {MEMBERS_MAX}, got {len(members)}")
        self.membership.is_joint = 1 if is_joint else 0
        for member_id, roles, name, address in members:
            if len(name) > NAME_BYTES_MAX or len(address) > ADDRESS_BYTES_MAX:
                raise ValueError(f"name or address too long: {name!r}, {address!r}")
            member = &self.membership.members[self.membership.count]
            member.id = member_id
            member.roles = roles
            member.name_length = len(name)
            member.address_length = len(address)
            memcpy(member.name, <const uint8_t*>(<bytes>name), len(name))
            memcpy(member.address, <const uint8_t*>(<bytes>address), len(address))
            self.membership.count += 1

    @property
    def is_joint(self):
        return bool(self.membership.is_joint)

    @property
    def members(self):
        found = []
        cdef Member* member
        cdef int i
        for i in range(self.membership.count):
            member = &self.membership.members[i]
            found.append((member.id, member.roles, (<char*>member.name)[:member.name_length],
                          (<char*>member.address)[:member.address_length]))
        return found

    def __eq__(self, other):
        if not isinstance(other, MembershipHandle):
            return NotImplemented
        return self.is_joint == other.is_joint and self.members == other.members

    def __repr__(self):
        return f"MembershipHandle({self.members!r}, is_joint={self.is_joint})"

    def check(self):
        return rules.membership_check(&self.membership)

    def encode(self):
        cdef Vec[uint8_t] out
        cdef status_t status
        memset(&out, 0, sizeof(out))
        status = rules.membership_encode(&self.membership, &out)
        encoded = (<char*>out.data)[:out.size] if out.size else b""
        out.release()
        return status, encoded

    @staticmethod
    def decode(const uint8_t[::1] encoded):
        cdef MembershipHandle handle = MembershipHandle()
        cdef const uint8_t* bytes_first = &encoded[0] if encoded.shape[0] else NULL
        cdef status_t status = rules.membership_decode(bytes_first, <unsigned int>encoded.shape[0], &handle.membership)
        return status, (handle if status == OK else None)

    def position(self, member_id):
        return rules.membership_position(&self.membership, member_id)

    def voters_incoming(self):
        return rules.membership_voters_incoming(&self.membership)

    def voters_outgoing(self):
        return rules.membership_voters_outgoing(&self.membership)

    def learners(self):
        return rules.membership_learners(&self.membership)

    def enter_joint(self, MembershipHandle target not None):
        cdef MembershipHandle joint = MembershipHandle()
        return rules.membership_enter_joint(&self.membership, &target.membership, &joint.membership), joint

    def leave_joint(self):
        cdef MembershipHandle rest = MembershipHandle()
        return rules.membership_leave_joint(&self.membership, &rest.membership), rest

    def swap(self, successor):
        cdef MembershipHandle target = MembershipHandle()
        return rules.membership_swap(&self.membership, successor, &target.membership), target
