"""The members of the cluster as ZooKeeper's dynamic configuration: bodies.

It decides nothing: the membership that the loop published is what it tells.
"""

from libc.stdint cimport uint32_t

from raftmeta.doors.desk.state cimport bytes_of
from raftmeta.doors.zookeeper.translate cimport ZkServer, zk_config_text
from raftmeta.raft.types cimport MEMBERS_MAX, VOTER_INCOMING


cdef status_t config_text(ZkDoor* door, Vec[uint8_t]* out) noexcept nogil:
    cdef ZkServer[MEMBERS_MAX] servers
    cdef uint32_t count = <uint32_t>door.desk.membership.count
    cdef uint32_t i
    for i in range(count):
        servers[i].address = bytes_of(door.desk.membership.members[i].address, door.desk.membership.members[i].address_length)
        servers[i].is_observer = not door.desk.membership.members[i].roles & VOTER_INCOMING
    return zk_config_text(servers, count, door.desk.membership.index, out)
