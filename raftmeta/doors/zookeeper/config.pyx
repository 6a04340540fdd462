"""The members of the cluster as ZooKeeper's dynamic configuration: bodies.

It decides nothing: the membership that the loop published is what it tells.
"""

from libc.stdint cimport uint32_t

from raftmeta.doors.desk.state cimport bytes_of
from raftmeta.doors.zookeeper.translate cimport ZkServer, zk_config_text
from raftmeta.raft.types cimport MEMBERS_MAX, VOTER_INCOMING, Member


cdef status_t config_text(ZkDoor* door, Vec[uint8_t]* out) noexcept nogil:
    cdef ZkServer[MEMBERS_MAX] servers
    cdef uint32_t count = <uint32_t>door.desk.membership.count
    cdef const Member* member
    cdef uint32_t i
    for i in range(count):
        member = &door.desk.membership.members[i]
        servers[i].address = bytes_of(member.address, member.address_length)
        servers[i].is_observer = not member.roles & VOTER_INCOMING
    return zk_config_text(servers, count, door.desk.membership.index, out)
