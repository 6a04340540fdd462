# Feeds: how an observer follows the log without a place in the membership (docs/observers.md).
#
#     observer --- FEED_REQUEST: my log ends with (index, term, chain hash) ---> feeder: any member, or another observer
#     observer <-- FEED: committed records behind index, commit index, leader -- feeder
#
# The observer asks, and has at most one request open. The feeder answers when it has news, and after a heartbeat
# interval in any case. So a feeder keeps no window for an observer, a slow observer slows nobody, and silence of a
# feeder shows within an election time-out.
#
# Rules, and why:
#   1. A feeder gives committed records only, so no entry of an observer is ever taken back.
#   2. An observer sends no acknowledgement, vote or heartbeat response, and takes no message of a leader. No quorum
#      counts it, and it disturbs none.
#   3. An observer takes a FEED only as the answer to its open request. It checks index, term and chain hash as a
#      follower does.
#   4. Reads and proposals of an observer go to its feeder, which passes them on as its own. A read index is asked for
#      after the read began, at each step, so that it is as good as the leader's (thesis 6.4).
#   5. An observer feeds others only while it is fed, and no deeper than FEED_DEPTH_MAX: a circle of observers counts up
#      to that, and breaks.
#   6. A feeder that is silent, behind or full is shunned for an election time-out. One that refuses names others beside
#      the refusal (engine/feeding), so that an observer with one seed comes down the tree to a free place.
from libc.stdint cimport uint8_t

from raftmeta.native.chunks cimport Slice
from raftmeta.raft.ready cimport LogRead
from raftmeta.raft.state cimport Core
from raftmeta.raft.types cimport Message, member_id_t
from raftmeta.status cimport status_t

cdef void feeds_tick(Core* core) noexcept nogil
# Answer the requests for which there is news.
cdef void feeds_serve(Core* core) noexcept nogil
cdef status_t feeds_on_request(Core* core, const Message* message) noexcept nogil
# HISTORY_LOST: the feeder has another committed entry where this observer's last committed one stands.
cdef status_t feeds_on_feed(Core* core, const Message* message) noexcept nogil
# The membership that this observer's log begins with.
cdef status_t feeds_on_membership(Core* core, const Message* message) noexcept nogil
# is_gone: not up, and its process is known to be gone.
cdef void feeds_on_link(Core* core, member_id_t peer, bint is_up, bint is_gone) noexcept nogil
# Records for an observer that lacks entries which left memory. NOT_FOUND: this read was for no observer.
cdef status_t feeds_on_log_read(Core* core, const LogRead* read, const Slice* records, status_t status) noexcept nogil
# May a message of this type come to an observer, or a FEED to a member (rule 2)?
cdef bint feeds_may_take(const Core* core, uint8_t type) noexcept nogil
