# The life of a desk, what it knows of its node, its mail, its watch, and the state that it reads.
#
# Order of life: the door fills in limits, rules and listener of Connections; desk_prepare; each turn desk_look, then
# desk_open_mail and desk_take_mail, then what the door does, then desk_submit; desk_end on the door's thread, once
# connections are closed; desk_release after the loop has stopped.
from libc.stddef cimport size_t
from libc.stdint cimport uint32_t, uint64_t

from raftmeta.doors.desk.state cimport Desk, DeskLimits, DeskRules
from raftmeta.loop.loop cimport Loop, LoopReader
from raftmeta.loop.tickets cimport Mail
from raftmeta.machine.entry cimport Entry
from raftmeta.wire.commands cimport Bytes

# The struct is zero but for what the door filled in. False: no memory or no descriptor.
cdef bint desk_prepare(Desk* desk, const DeskRules* rules, Loop* loop, LoopReader reader, const DeskLimits* limits,
                       size_t connection_bytes) noexcept nogil
# Give the watch back while the loop still runs; its answer comes through the mailbox.
cdef void desk_end(Desk* desk) noexcept nogil
cdef void desk_release(Desk* desk) noexcept nogil

# --- a turn -----------------------------------------------------------------------------------------------------------
# What the loop published: status and members. needs_level: without that the desk opens no session.
cdef void desk_look(Desk* desk, uint32_t needs_level) noexcept nogil
# Whether no leader was known for so long.
cdef bint desk_is_lonely(const Desk* desk, uint64_t for_ns) noexcept nogil
# Posted tickets, without the signals of the watch. Signals are acknowledged before the items of the watch are taken, so
# that one that comes later rings again; from then on the loop may link the signal into the next list.
cdef Mail* desk_open_mail(Desk* desk) noexcept nogil
# Answers of the desk's own tasks are looked at here, those of the door's by its rules.
cdef void desk_take_mail(Desk* desk, Mail* mail) noexcept nogil
# Read rounds, and one ring for everything that was submitted.
cdef void desk_submit(Desk* desk) noexcept nogil

# --- changes ----------------------------------------------------------------------------------------------------------
# Open the watch over [start, end), if there is none.
cdef void desk_watch(Desk* desk, const Bytes* start, const Bytes* end) noexcept nogil
# Give it back. It is opened anew by the next desk_watch.
cdef void desk_unwatch(Desk* desk) noexcept nogil

# --- the state --------------------------------------------------------------------------------------------------------
# Pin a root that shows this revision. False: not now; the loop is replacing the state, or history no longer reaches
# there, and the position moves on soon.
cdef bint desk_pin(Desk* desk, uint64_t revision) noexcept nogil
# Pin the newest root if none is. Its revision; 0: not now.
cdef uint64_t desk_pin_newest(Desk* desk) noexcept nogil
# At the end of a turn.
cdef void desk_unpin(Desk* desk) noexcept nogil
# The newest version of a key in the pinned root; NULL: there is no such key.
cdef const Entry* desk_find(const Desk* desk, const Bytes* key) noexcept nogil
