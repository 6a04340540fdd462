# The thread of a door, as far as all doors have the same: its limits, its sleep, and its end.
#
# It knows no protocol. A door's turn is the door's own, and so is what "it serves" means.
#
# Order of life: thread_prepare before desk_prepare; thread_run on the thread; thread_over once the thread has ended,
# before the door gives back what its tasks point to.
from libc.stdint cimport uint64_t

from raftmeta.connections.accounts_state cimport Accounts
from raftmeta.connections.state cimport ConnectionLimits
from raftmeta.doors.desk.state cimport Desk
from raftmeta.security.audit_queue cimport AuditPort, AuditProducer

# One turn, and how many milliseconds epoll may sleep before it.
ctypedef void (*door_turn)(Desk* desk) noexcept nogil
ctypedef int (*door_sleep)(const Desk* desk) noexcept nogil

# Limits of connections, the accounts, the names in the audit trail, and the listener, which the desk then owns.
# frame_bytes_max: of the door's protocol.
cdef void thread_prepare(Desk* desk, Accounts* accounts, AuditProducer by, AuditPort port,
                         const ConnectionLimits* common, uint64_t frame_bytes_max, int listener) noexcept nogil
# Turns until is_closing is set; then connections and the watch end.
cdef void thread_run(Desk* desk, door_sleep sleep_ms, door_turn turn) noexcept nogil
# Answers that came after the thread ended are of nobody.
cdef void thread_over(Desk* desk) noexcept nogil

# is_serving: the door takes requests. Clients that wait until it does are looked at often.
cdef int thread_sleep_ms(const Desk* desk, bint is_serving) noexcept nogil
# Whether this node can answer: it has a session and a watch, and runs. is_lonely: it knew no leader lately.
cdef bint thread_can_serve(const Desk* desk, bint is_lonely) noexcept nogil
# Pass the events of the desk's watch. They say only that it is time to look: the state shows what has changed. A watch
# that has lagged, or was cut, begins anew.
cdef void thread_drain(Desk* desk) noexcept nogil
# Bytes of requests and answers of all connections.
cdef uint64_t thread_memory(const Desk* desk) noexcept nogil
