# The engine's verbs. One thread at a time; see state.pxd for the struct and ARCHITECTURE.md for one write.
#
#     engine_boot                     open folder and log, restore the core (blocks)
#     engine_wants_link / engine_hello / engine_link_up / engine_link_down / engine_address_refused /
#     engine_frame / engine_hung_up   the network
#     engine_submit                   a caller
#     engine_job_done                 the disk
#     engine_run                      time passes, then everything that must happen now: one turn
#     engine_deadline_ns              when it wants to run again without any input
#     engine_stop, engine_release     the end
from libc.stdint cimport uint8_t, uint32_t, uint64_t

from raftmeta.engine.disk_jobs cimport DiskJob
from raftmeta.engine.state cimport Engine, EngineConfig, Inbound
from raftmeta.engine.submission cimport Submission
from raftmeta.native.chunks cimport Slice
from raftmeta.raft.types cimport member_id_t
from raftmeta.status cimport status_t
from raftmeta.storage.wal_state cimport Wal
from raftmeta.wire.hello cimport Hello

# The engine's ports and config are filled in (engine is zeroed otherwise); the caller opened and locked the folder.
# wal is created over engine.disk by the caller and belongs to the disk jobs afterwards; identity is
# storage/identity's handle.
# OK or why this folder cannot be run: CORRUPT, NEWER_FORMAT, FOREIGN_CLUSTER, FOREIGN_NODE, DISK_FAILED, NO_SPACE,
# NO_MEMORY.
cdef status_t engine_boot(Engine* engine, Wal* wal, void* identity) noexcept nogil
# Before engine_boot: the named initial members, this node included.
cdef status_t engine_add_peer(Engine* engine, const uint8_t* name, uint8_t name_length, const uint8_t* address,
                              uint8_t address_length, bint is_self) noexcept nogil

# The first words of this node on every connection, in both directions.
# `link`: of a connection that this node opened; MEMBERS_MAX: on another one.
cdef void engine_own_hello(Engine* engine, uint32_t link, Hello* hello) noexcept nogil
# Whether a connection to `link` is to be kept: a member, one that a caller wants to meet, or one that speaks to us.
cdef bint engine_wants_link(const Engine* engine, uint32_t link) noexcept nogil
# A peer's HELLO on a connection that it opened: fills inbound. Not OK: answer FRAME_REFUSED with that status and close.
cdef status_t engine_hello(Engine* engine, const Hello* hello, Inbound* inbound) noexcept nogil
# The outgoing connection to `link` is open and the peer answered with its HELLO. Not OK: close it, try again later.
cdef status_t engine_link_up(Engine* engine, uint32_t link, const Hello* hello) noexcept nogil
# A peer answered our HELLO with this reason.
cdef void engine_refused(Engine* engine, status_t reason) noexcept nogil
cdef void engine_link_down(Engine* engine, uint32_t link, bint was_refused) noexcept nogil
# After engine_link_down with was_refused: the address that refused is the one at which that peer answered last.
cdef void engine_address_refused(Engine* engine, uint32_t link) noexcept nogil
# A bound inbound connection is closed, by either side.
cdef void engine_hung_up(Engine* engine, Inbound* inbound) noexcept nogil
# One whole, sound frame (frame_decode said OK) from a bound inbound connection. Slice: its chunk may be held by the
# core. Not OK: close the connection.
cdef status_t engine_frame(Engine* engine, Inbound* inbound, const Slice* frame) noexcept nogil

# Takes the submission over. Completion comes through CallerPort.done, also for refusals.
cdef void engine_submit(Engine* engine, Submission* submission) noexcept nogil
cdef void engine_job_done(Engine* engine, DiskJob* job) noexcept nogil

# One turn: ticks that are due, housekeeping, proposals, reads, core_ready, sends, disk jobs, at most one slice of
# apply, flush.
# *more: there is work that did not fit in this turn (apply slices, watch replay): look at the network, then run again.
cdef status_t engine_run(Engine* engine, bint* more) noexcept nogil
cdef uint64_t engine_deadline_ns(const Engine* engine) noexcept nogil
# No more sends or completions except NODE_CLOSED / OUTCOME_UNKNOWN to everyone who waits.
cdef void engine_stop(Engine* engine, status_t reason) noexcept nogil
cdef void engine_release(Engine* engine) noexcept nogil
