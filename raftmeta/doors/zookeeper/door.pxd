# The ZooKeeper door of a node: one native thread serves ZooKeeper's clients, over the loop alone.
#
# Order of life: zookeeper_create, settings of who may speak, zookeeper_start after the loop has started;
# connections_stop before the loop is stopped; zookeeper_destroy after it has.
from libc.stdint cimport uint8_t, uint32_t, uint64_t

from raftmeta.connections.accounts_state cimport Accounts
from raftmeta.connections.state cimport ConnectionLimits
from raftmeta.doors.desk.state cimport DeskLimits
from raftmeta.doors.zookeeper.state cimport ZkCounters, ZkDoor, ZkLimits
from raftmeta.loop.loop cimport Loop
from raftmeta.status cimport status_t

# Takes the listener over, also when it fails (NULL: no memory or no descriptor). accounts: of the node. address: where
# it listens; root: what keys of the tree begin with; folder: of the node, for people.
cdef ZkDoor* zookeeper_create(Loop* loop, Accounts* accounts, const ConnectionLimits* common, const DeskLimits* desk,
                              const ZkLimits* limits, int listener, const uint8_t* address, uint8_t address_length,
                              const uint8_t* root, uint8_t root_length, const uint8_t* folder,
                              uint32_t folder_length) noexcept nogil
# Who may speak as `super` ("super:<base64>"), before the start. False: it is too long.
cdef bint zookeeper_super_digest(ZkDoor* door, const uint8_t* digest, uint32_t length) noexcept nogil
# A user of SASL DIGEST-MD5, before the start. False: no memory.
cdef bint zookeeper_add_user(ZkDoor* door, const uint8_t* name, uint32_t name_length, const uint8_t* password,
                             uint32_t password_length) noexcept nogil
cdef status_t zookeeper_start(ZkDoor* door) noexcept nogil
cdef void zookeeper_destroy(ZkDoor* door) noexcept nogil
cdef void zookeeper_counters(const ZkDoor* door, ZkCounters* counters) noexcept nogil
