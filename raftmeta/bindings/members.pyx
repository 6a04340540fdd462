"""Memberships from Python: rows (raftmeta/members/rows) as the bytes that a leader is asked for.

It decides nothing: the codec says what may be asked for, and the leader says what may be done.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.stdint cimport uint8_t
from libc.string cimport memcpy, memset

from raftmeta.native.containers cimport Vec
from raftmeta.raft.membership cimport membership_encode
from raftmeta.raft.types cimport (ADDRESS_BYTES_MAX, LEARNER, MEMBERS_MAX, NAME_BYTES_MAX, STANDBY, VOTER_INCOMING,
                                  VOTER_OUTGOING, Member, Membership)
from raftmeta.status cimport NO_MEMORY, OK

from raftmeta.errors import InvalidArgument
from raftmeta.members.rows import LEARNER as _LEARNER
from raftmeta.members.rows import STANDBY as _STANDBY
from raftmeta.members.rows import VOTER as _VOTER

_ROLES = {_VOTER: VOTER_INCOMING, _LEARNER: LEARNER, _STANDBY: LEARNER | STANDBY}


def role_name(unsigned int roles):
    if roles & (VOTER_INCOMING | VOTER_OUTGOING):
        return _VOTER
    return _STANDBY if roles & STANDBY else _LEARNER


cdef int _fill(Member* member, object row) except -1:
    cdef bytes name = row.name.encode()
    cdef bytes address = row.address.encode()
    if len(name) > NAME_BYTES_MAX or len(address) > ADDRESS_BYTES_MAX:
        raise InvalidArgument(f"name: {row.name} or its address {row.address} is too long", field="name")
    member.id = row.id
    member.roles = _ROLES[row.role]
    member.name_length = <uint8_t>len(name)
    member.address_length = <uint8_t>len(address)
    memcpy(member.name, PyBytes_AS_STRING(name), len(name))
    memcpy(member.address, PyBytes_AS_STRING(address), len(address))
    return 0


def membership_bytes(rows):
    cdef Membership membership
    cdef Vec[uint8_t] out
    memset(&out, 0, sizeof(out))
    memset(&membership, 0, sizeof(Membership))
    if len(rows) > MEMBERS_MAX:
        raise InvalidArgument(f"name: a cluster has at most {MEMBERS_MAX} members", field="name")
    for row in rows:
        _fill(&membership.members[membership.count], row)
        membership.count += 1
    status = membership_encode(&membership, &out)
    try:
        if status == NO_MEMORY:
            raise MemoryError
        if status != OK:
            raise InvalidArgument("name: no cluster has such members; somebody votes, and of one name at most one votes"
                                  " and one does not", field="name")
        return PyBytes_FromStringAndSize(<const char*>out.data, <Py_ssize_t>out.size)
    finally:
        out.release()
