# Leases of members of groups, and of this node's broker: what was heard of is kept alive, many in one command.
#
# A lease lasts the session time-out that the client named, and KEEP_SLACK_MS more: so long a word of the client may
# wait for the next command. While no leader is known nothing is kept: the lease clock stands still.
from libc.stdint cimport uint64_t

from raftmeta.doors.kafka.state cimport KafkaDoor

cdef enum:
    KEEP_SLACK_MS = 500

# The holder of this lease was heard of.
cdef void keep_lease(KafkaDoor* door, uint64_t lease) noexcept nogil
# Once a turn.
cdef void keep_go(KafkaDoor* door) noexcept nogil
