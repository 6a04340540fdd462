# Quotas of principals at the ZooKeeper door (connections/accounts), and what a client is told when it is over one.
#
#     requests, bytes     THROTTLEDOP, in its turn: the request was not carried out in any part, and may be sent again
#     watches             QUOTAEXCEEDED: no watch is set, and nothing is read. Of setWatches the connection is closed:
#                         clients do not look at its error, and would miss events
#     connections         the connection is closed, as ZooKeeper closes those beyond maxClientCnxns
#     leases              a session is one: the connection that asks for it is closed
#
# A name that is proved later may have as many connections or leases as it may, too: then the proof is answered
# QUOTAEXCEEDED, and the connection is closed.
#
# A principal is the name in the certificate, else the first identity of sasl or digest, else the address. Nobody proves
# a digest: it is a name and a password that the client chose, so the account is that of both.
#
# Sources: ZooKeeper 3.9 KeeperException.java (Code.THROTTLEDOP -127, Code.QUOTAEXCEEDED -125),
# FinalRequestProcessor.java (a throttled request is answered with its code alone), NIOServerCnxnFactory.java "Too many
# connections".
from libc.stdint cimport int32_t, uint32_t, uint64_t

from raftmeta.doors.zookeeper.codec cimport ZkRequest
from raftmeta.doors.zookeeper.state cimport ZkConnection, ZkDoor
from raftmeta.status cimport status_t

# Who is there is known better now. OK, QUOTA_EXCEEDED, NO_MEMORY: the connection ends.
cdef status_t quotas_attach(ZkDoor* door, ZkConnection* connection) noexcept nogil
# Whether a request of so many bytes may be taken. ZK_OK, ZK_THROTTLED.
cdef int32_t quotas_request(ZkDoor* door, ZkConnection* connection, const ZkRequest* request,
                            uint32_t length) noexcept nogil
# Whether the watches that the request sets may be set.
cdef bint quotas_watch(ZkDoor* door, ZkConnection* connection, const ZkRequest* request) noexcept nogil
# Whether a session may be made for the connection: its lease, for so long.
cdef bint quotas_grant(ZkDoor* door, ZkConnection* connection, uint64_t ttl_ms) noexcept nogil
cdef void quotas_session_ended(ZkDoor* door, uint64_t session) noexcept nogil
